"""Forged files: saved models and checkpoints with random changes, whose checksums are right.

`mutant` draws one; `verdict` reads it and uses what it gets, `resumed` goes on with a fit. A forged
file either works, or it is refused in one line; what must not happen is another exception, a long
wait or the end of the process. `python tests/_storage/forging.py N SEED` tries N of each estimator,
in processes of their own.
"""

import contextlib
import functools
import json
import signal
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import madbayes
from madbayes._model import checkpoint
from madbayes._storage import container

ODD = (0, -1, 1, 2, 3, 7, 624, 625, 10**6, 10**12, 2**63, -(2**63), 10**30, 0.5, -0.5, 1e-320)
ODD = (*ODD, 1e160, 1e308, True, False, None, "", "x", "auto", "cosine", "precomputed", [], {})
ODD = (*ODD, {"$": "float", "text": "nan"}, {"$": "float", "text": "inf"}, {"$": "array"})
ODD = (*ODD, {"$": "tuple", "items": []}, {"$": "dict", "items": []}, {"$": "dtype", "text": "O"})
TYPES = ("f4", "f8", "f2", ">f8", "i4", "i8", "u8", "i1", "b1", "c16", "U3", "M8[s]")
SECONDS = 20  # for one file


def taken_apart(path):
    with np.load(path) as file:
        header = json.loads(str(file["header"]))
        return header, [file[f"a{i}"] for i in range(len(file) - 1)]


def places(tree):
    """Every place in a tree of JSON, as (container, key)."""
    found = []
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        found.append((tree, key))
        if isinstance(tree[key], dict | list):
            found += places(tree[key])
    return found


def change_header(header, rng):
    """One value becomes another, goes away, or changes places with another."""
    body = header.get("model", header.get("state"))
    where = places(body)
    tree, key = where[rng.integers(len(where))]
    kind = rng.integers(6)
    if kind == 0:
        del tree[key]
    elif kind == 1:
        other, name = where[rng.integers(len(where))]
        tree[key] = json.loads(json.dumps(other[name]))  # a copy: it may contain the place
    elif kind == 2 and isinstance(tree, dict):
        tree[f"_{key}"] = tree.pop(key)
    elif kind == 3 and isinstance(tree[key], int) and not isinstance(tree[key], bool):
        tree[key] += int(rng.integers(-3, 4))
    else:
        tree[key] = ODD[rng.integers(len(ODD))]


def change_array(arrays, rng):
    """One array gets other values, another shape or another type."""
    i = rng.integers(len(arrays))
    array = np.array(arrays[i])
    kind = rng.integers(7)
    if kind == 0:
        array = np.repeat(array.reshape(-1), 2)[: rng.integers(2 * array.size + 1)]
    elif kind == 1 and array.ndim:
        array = array[: rng.integers(len(array) + 1)]
    elif kind == 2:
        array = array.T if array.ndim > 1 else array[None]
    elif kind == 3:
        with warnings.catch_warnings(), contextlib.suppress(ValueError):
            warnings.simplefilter("ignore")
            array = array.astype(TYPES[rng.integers(len(TYPES))])
    elif kind == 4 and array.ndim:
        array = np.concatenate([array, array])
    elif array.size and array.dtype.kind in "iuf":
        flat = array.reshape(-1)
        values = [0, 1, 100]
        values += [-1, 10**6, 10**9] if array.dtype.itemsize > 2 and array.dtype.kind != "u" else []
        values += [10**12, -(10**12)] if array.dtype in (np.int64, np.float64) else []
        values += [np.nan, np.inf, -np.inf, 1e160, 1e-300] if array.dtype == np.float64 else []
        size = 1 if kind < 6 else flat.size
        flat[rng.permutation(flat.size)[:size]] = values[rng.integers(len(values))]
    arrays[i] = array


def change_bytes(path, rng):
    """Some bytes anywhere, and a checksum that is right again."""
    raw = bytearray(path.read_bytes())
    end = len(raw) - container.COMMENT
    spots = rng.integers(4, end, size=rng.integers(1, 4))
    if rng.random() < 0.5:  # among the headers of members and the directory
        marks = [at for at in range(end) if raw[at : at + 2] == b"PK" or raw[at] == 0x93]
        spots = np.minimum(rng.choice(marks) + rng.integers(4, 90, size=2), end - 1)
    for at in spots:
        raw[at] = rng.integers(256)
    path.write_bytes(raw)
    with path.open("r+b") as stream:
        digest = container._digest(stream, end)
        stream.seek(end)
        stream.write(digest)


def mutant(header, arrays, path, rng):
    """Write one forged file."""
    header, arrays = json.loads(json.dumps(header)), list(arrays)
    kind = rng.integers(3)
    for _ in range(rng.integers(1, 3)):
        if kind == 0:
            change_header(header, rng)
        elif kind == 1 and arrays:
            change_array(arrays, rng)
    container.write(path, header, arrays)
    if kind == 2:
        change_bytes(path, rng)


def use(model, rows):
    """Whatever a model can do with rows."""
    for name in ("predict", "transform", "score", "novelty_score", "score_samples", "partial_fit"):
        if hasattr(model, name):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                getattr(model, name)(rows)
    if hasattr(model, "path_"):
        model.path_.best().describe()
    repr(model)


def verdict(path, rows):
    """ "refused", "works", or what went wrong."""
    try:
        model = madbayes.load(path)
    except ValueError as error:
        good = "\n" not in str(error) and str(path) in str(error)
        return "refused" if good else f"refused badly: {error!r}"
    except BaseException as error:
        return f"load raised {error!r:.300}"
    try:
        use(model, rows)
    except (ValueError, TypeError) as error:  # of a parameter, or of centres far away
        said = str(error)
        return "works" if "\n" not in said and " " in said else f"predict: {error!r:.300}"
    except BaseException as error:
        return f"predict raised {error!r:.300}"
    return "works"


def interrupted_fits():
    """Name, model and rows of fits that are kept in a checkpoint; the last ones with bounds."""
    rng = np.random.default_rng(0)
    for name, n, d, k in (
        ("small", 60, 2, 3),
        ("few columns", 6000, 3, 9),
        ("bounds", 6000, 12, 40),
    ):
        rows = rng.normal(size=(k, d))[rng.integers(k, size=n)] * 5 + rng.normal(size=(n, d))
        start = {"init": "random", "n_init": 3, "tol": 0, "random_state": 0}
        yield f"KMeans {name}", madbayes.KMeans(k, **start, max_iter=9), rows
        penalty = 12.0 * d
        yield f"DPMeans {name}", madbayes.DPMeans(penalty, algorithm="paper", max_iter=9), rows


def stopped(model, rows, path, after):
    """The checkpoint of a fit that was interrupted after so many writes."""
    real, count = checkpoint.Checkpoint.write, [0]

    def writing(self, state):
        real(self, state)
        count[0] += 1
        if count[0] == after:
            raise KeyboardInterrupt

    kept = checkpoint.SECONDS, checkpoint.SHARE
    checkpoint.SECONDS = checkpoint.SHARE = 0.0
    checkpoint.Checkpoint.write = writing
    try:
        model.set_params(checkpoint=path).fit(rows)
    except KeyboardInterrupt:
        return
    finally:
        checkpoint.Checkpoint.write = real
        checkpoint.SECONDS, checkpoint.SHARE = kept


def resumed(path, model, rows):
    """`verdict` on a forged checkpoint."""
    try:
        model.set_params(checkpoint=path).fit(rows)
    except ValueError as error:
        good = "\n" not in str(error) and str(path) in str(error)
        return "refused" if good else f"refused badly: {error!r}"
    except BaseException as error:
        return f"fit raised {error!r:.300}"
    return "works"


def overdue(*_):
    raise TimeoutError("too long")


def tried(name, file, count, seed, judge):
    """So many forgeries of one file, judged; what went wrong is printed and returned."""
    header, arrays = taken_apart(file)
    path = Path(file).with_suffix(".forged")
    tally, bad = {}, []
    for number in range(count):
        mutant(header, arrays, path, np.random.default_rng([seed, number]))
        signal.alarm(SECONDS)
        found = judge(path)
        signal.alarm(0)
        tally[found] = tally.get(found, 0) + 1
        if found not in ("refused", "works"):
            bad.append(f"{name} {number}: {found}")
            print(bad[-1], flush=True)
    if count > 50:
        print(name, tally, flush=True)
    return bad


def main(source, count, seed):
    """Try forgeries of the models of a folder (with rows.npy), or with "checkpoints" of those."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, overdue)
    bad = []
    if source == "checkpoints":
        with tempfile.TemporaryDirectory() as folder:
            for name, model, rows in interrupted_fits():
                file = Path(folder) / "fit.npz"
                stopped(model, rows, file, 1 if len(rows) < 100 else 2)
                judge = functools.partial(resumed, model=model, rows=rows)
                bad += tried(name, file, count, seed, judge)
                file.unlink()
    else:
        rows = np.load(Path(source) / "rows.npy")
        for file in sorted(Path(source).glob("*.npz")):
            use(madbayes.load(file), rows)  # compiles
            bad += tried(file.stem, file, count, seed, functools.partial(verdict, rows=rows))
    return len(bad)


def everything(count, seed):
    """All estimators and checkpoints, each in a process of its own."""
    from test_forged import honest
    from test_saving import X_NEW, fitted, public_estimators

    warnings.simplefilter("ignore")
    models = [(name, fitted(name)) for name in public_estimators()]
    models += [(name.replace(" ", "_"), model) for name, model in honest()]
    sources = ["checkpoints"]
    with tempfile.TemporaryDirectory() as top:
        for name, model in models:
            folder = Path(top) / name
            if getattr(model, "n_features_in_", 0) == X_NEW.shape[1] or name == "GraphCut":
                folder.mkdir(exist_ok=True)
                np.save(folder / "rows.npy", X_NEW)
                model.save(folder / f"{name}.npz")
                sources.append(str(folder))
        for source in sources:
            done = subprocess.run([sys.executable, __file__, source, str(count), str(seed)])
            if done.returncode < 0:
                print(f"{source}: ended by signal {-done.returncode}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
    everything(int(sys.argv[1]), int(sys.argv[2]))
