"""Random estimators on random data: whatever comes, the contract holds.

    python tests/fuzz.py [--seconds 300] [--seed 0] [--case N] [--only DPMeans …] [--small]
                         [--patience 60]

`make fuzz SECONDS=… SEED=…` does the same. A case is a seed and a number: it draws one of the
public estimators, valid parameters, a table and weights, fits, and checks what docs/contract.md
promises of every fit. A broken promise is printed with the `--case` that repeats it, and the exit
code is 1. With NUMBA_BOUNDSCHECK=1 (and a NUMBA_CACHE_DIR of its own) every index in every kernel
is checked too. `tests/test_fuzz.py` runs small cases of each estimator.

Only the public names are used, so that the promises are those that a user sees.
"""

import argparse
import faulthandler
import inspect
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

import madbayes

ESTIMATORS = {
    name: thing
    for name in madbayes.__all__
    if inspect.isclass(thing := getattr(madbayes, name)) and issubclass(thing, BaseEstimator)
    if name != "TableEncoder"  # it clusters nothing
}
FEATURES = {name for name, kind in ESTIMATORS.items() if hasattr(kind, "inverse_transform")}
SAMPLERS = {"DPMixtureGibbs", "IBPGibbs"}
STREAMS = {"OnlineKMeans", "OnlineDPMeans"}
GROUPED = {"HardHDP", "KernelHardHDP"}
LARGE = {"KMeans", "DPMeans", "OnlineKMeans", "OnlineDPMeans", "KMedoids", "NeighborCut"}
SLOW = {"EllipticalMeans", "IBPGibbs", "KernelHardHDP"}
# Rows are given to the nearest centre at the end of a fit, so `predict` repeats `labels_`
NEAREST = {"KMeans", "DPMeans", "KMedoids", "DPMedoids", "CollapsedDPMeans"}

# Promises that are known to be broken, as (promise, estimator): each line goes when its fault does.
KNOWN: set[tuple[str, str]] = set()

DOCUMENTED = (  # warnings that are no ConvergenceWarning
    "are all zeros",
    "which takes long",
    "the search saw a coreset",
)


class Broken(AssertionError):
    """A promise, by name, and what was found instead."""

    def __init__(self, promise: str, found: object = "") -> None:
        super().__init__(f"{promise}: {found}")
        self.promise = promise


def promise(name: str, holds: object, found: object = "") -> None:
    if not holds:
        raise Broken(name, found)


# Data


def draw_shape(r, name, small):
    n_most, d_most = (2000, 300) if name in LARGE else (400, 60)
    if name in SLOW:
        n_most, d_most = 80, 8
    if small:
        n_most, d_most = 40, 6
    n = int(np.exp(r.uniform(0, np.log(n_most + 1))))
    d = int(np.exp(r.uniform(0, np.log(d_most + 1))))
    return max(n, 1), max(d, 1)


def draw_values(r, n, d):
    """(what it is, an array of float64)."""
    kind = r.choice(["noise", "groups", "few", "constant", "grid", "heavy", "binary", "columns"])
    if kind == "noise":
        X = r.normal(size=(n, d))
    elif kind == "groups":
        X = 6 * r.normal(size=(r.integers(1, 8), d))
        X = X[r.integers(len(X), size=n)] + r.normal(size=(n, d))
    elif kind == "few":  # different rows
        X = r.normal(size=(r.integers(1, 5), d))
        X = X[r.integers(len(X), size=n)]
    elif kind == "constant":
        X = np.tile(r.normal(size=d) * r.integers(0, 2), (n, 1))
        X[:, 0] += r.integers(0, 2) * r.normal(size=n)
    elif kind == "grid":
        X = r.integers(-3, 4, size=(n, d)) * 1.0
    elif kind == "heavy":
        X = r.standard_cauchy(size=(n, d)) ** r.choice([1, 3])
    elif kind == "binary":
        X = (r.random((n, d)) < r.choice([0.02, 0.3, 0.7])) * 1.0
    else:
        X = r.normal(size=(n, d)) * 10.0 ** r.integers(-3, 4, size=d)
    return kind, X


SCALES = [1.0] * 12 + [1e-3, 1e3, 1e-12, 1e12, 1e-100, 1e100, 1e-150, 1e150, 1e-155, 1e155]
SCALES += [1e-300, 1e300]
DTYPES = ["float64"] * 6 + ["float32"] * 3 + ["float16", "int8", "uint8", "int16", "int64", "bool"]


def draw_table(r, name, small):
    """(what it is, X as the user has it, X as a dense float64 array)."""
    n, d = draw_shape(r, name, small)
    kind, X = draw_values(r, n, d)
    scale = r.choice(SCALES)
    shift = r.choice([0.0, 0.0, 0.0, 100.0, -1e6]) * scale
    dtype = str(r.choice(DTYPES))
    with np.errstate(all="ignore"):
        X = X * scale + shift
        if dtype != "float64":
            low, high = (0, 1) if dtype == "bool" else (None, None)
            if dtype != "bool":
                info = np.iinfo(dtype) if dtype[0] in "iu" else np.finfo(dtype)
                low, high = float(info.min) / 2, float(info.max) / 2
            X = np.clip(X, low, high).astype(dtype)
    given, how = X, str(r.choice(["C", "F", "strided", "backwards", "read-only", "CSR", "list"]))
    if name in SAMPLERS | {"EllipticalMeans", "CollapsedDPMeans"} and how == "CSR":
        how = "C"
    if how == "F":
        given = np.asfortranarray(X)
    elif how == "strided":
        given = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    elif how == "backwards":
        given = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    elif how == "read-only":
        given = X.copy()
        given.flags.writeable = False
    elif how == "CSR":
        if dtype in ("float16", "bool"):
            X = X.astype(np.float32)
        X = np.where(r.random((n, 1)) < 0.1, X.dtype.type(0), X)  # some rows are empty
        given = sp.csr_array(X)
    elif how == "list":
        given = X.tolist()
    words = f"{kind} {n}×{d} {dtype} scale {scale:g} shift {shift:g} {how}"
    return words, given, np.asarray(X, dtype=np.float64)


def draw_graph(r, small):
    n = int(np.exp(r.uniform(0, np.log(40 if small else 1500))))
    A = sp.random(n, n, density=min(1.0, r.choice([0.5, 2.0, 6.0]) / n), random_state=r)
    A = sp.csr_array(A + A.T) * r.choice([1.0, 1e-100, 1e100])
    if r.random() < 0.7:
        A.setdiag(0)
        A.eliminate_zeros()
    return f"graph of {n} nodes", (A if r.random() < 0.7 else A.toarray()), A.toarray()


# Parameters


def draw_penalty(r, X, *names):
    """A name, or a number that opens from one to many clusters."""
    if r.random() < 0.4:
        return "auto"
    if names and r.random() < 0.25:
        return str(r.choice(names))
    with np.errstate(all="ignore"):
        total = ((X - X.mean(axis=0)) ** 2).sum()
        seen = (X**2).sum()
    total = float(total) if 1e-18 * seen < total < 1e300 else 1.0  # else it is rounding
    return total / len(X) * 10.0 ** r.uniform(-0.5, 2)


def draw_parameters(r, name, X):
    """Valid ones; each parameter that is not named here keeps its default."""
    n = len(X)
    accepted = inspect.signature(ESTIMATORS[name]).parameters
    p = {"random_state": int(r.integers(100)), "n_jobs": int(r.integers(1, 3))}
    few = int(r.integers(1, min(n, 8) + 1))

    def some(parameter, values):
        if parameter in accepted and r.random() < 0.5:
            p[parameter] = values[int(r.integers(len(values)))]

    if "penalty" in accepted:
        names = ("farthest-first",) if "farthest-first" in str(accepted["penalty"]) else ()
        p["penalty"] = draw_penalty(r, X, *names)
        if p["penalty"] == "farthest-first":
            p["n_clusters_hint"] = few
    if name in GROUPED:
        if r.random() < 0.6:
            p["penalty_local"] = p["penalty_global"] = draw_penalty(r, X)
        if isinstance(p.get("penalty_local"), float) and name == "KernelHardHDP":
            p["penalty_local"] = p["penalty_global"] = float(r.uniform(0.1, 3))
    if "resolution" in accepted and r.random() < 0.5:
        p["resolution"] = float(r.uniform(0.05, 1.2))
    if name in ("KernelDPMeans", "SpectralDPMeans") and isinstance(p["penalty"], float):
        p["penalty"] = float(10.0 ** r.uniform(-1, 1))
    if name == "EllipticalMeans" and r.random() < 0.5:
        p["n_clusters"], p["penalty"] = few, "auto"
    elif accepted.get("n_clusters") is not None and name != "EllipticalMeans":
        p["n_clusters"] = few
    if name == "KFeatures":
        p["n_components"] = int(r.integers(1, 6))
    if name in SAMPLERS:
        p |= {"n_iter": 12, "burn_in": 6, "n_chains": int(r.integers(1, 3))}
    if p.get("penalty", 0.0) == "auto" and name != "EllipticalMeans":
        some("n_clusters_hint", [few])
    some("algorithm", ["paper"] if name not in ("KMeans", *SAMPLERS) else ["search"][: name != ""])
    if name in SAMPLERS:
        p.pop("algorithm", None)
    some("max_clusters", [few, n])
    if "n_clusters" in p and name == "EllipticalMeans":
        p.pop("max_clusters", None)
    some("max_components", [1, 5])
    some("max_iter", [1, 3, 300])
    if name not in FEATURES:
        some("n_init", [1, 2])
        some("effort", [0.1, 1.0])
    some("weights", ["jaccard"])
    some("n_neighbors", [1, 3, 15, 40])
    some("order", ["random"])
    some("cut", ["ratio"])
    if name in ("KMeans", "DPMeans", "OnlineDPMeans"):
        some("metric", ["cosine"])
    elif name in ("KMedoids", "DPMedoids", "NeighborCut"):
        some("metric", ["cosine", "manhattan", "chebyshev"])
    some("kernel", ["rbf", "linear", "poly", "cosine", "laplacian"])
    some("half_life", [20.0])
    some("merge_every", [7])
    some("forget_after", [50])
    return p


def draw_weight(r, n):
    """None, or weights of which some are 0 and one at least is not."""
    if r.random() < 0.6:
        return None
    weight = r.choice([r.integers(0, 4, n) * 1.0, r.exponential(size=n), np.full(n, 2.5)])
    weight[r.integers(n)] = 1.0
    return weight * r.choice([1.0, 1.0, 1e-9, 1e9])


# Promises


def numbers_of(model):
    return model.n_components_ if hasattr(model, "n_components_") else model.n_clusters_


def check_fit(name, model, n):
    """What is there after `fit`."""
    if name in FEATURES:
        Z, A = model.assignments_, model.components_
        promise("assignments_ are boolean, one row each", Z.dtype == bool and len(Z) == n, Z.shape)
        promise("one component each", Z.shape[1] == len(A) == model.n_components_, Z.shape)
        promise("components are finite", np.isfinite(A).all())
    else:
        labels, k = model.labels_, model.n_clusters_
        promise("labels_ are int32, one each", labels.dtype == np.int32 and labels.shape == (n,))
        lowest = -1 if name == "GraphCut" else 0
        names = getattr(model, "cluster_ids_", np.arange(k))
        inside = np.isin(labels, names) | (labels == lowest)
        promise("labels_ in range", inside.all(), labels)
        if name not in STREAMS:
            used = np.unique(labels[labels >= 0])
            promise("each cluster has a row", used.size == k, f"{used} of {k}")
        else:
            promise("n_clusters_ counts the centres", k == len(model.cluster_centers_), k)
        if hasattr(model, "cluster_centers_"):
            centers = model.cluster_centers_
            promise("one centre each", len(centers) == k, centers.shape)
            promise("centres are finite", np.isfinite(centers).all(), centers)
    if hasattr(model, "evidence_"):
        promise("evidence_ names the number", model.evidence_.number == numbers_of(model))
        promise("path_ and evidence_ agree", model.path_.best() == model.evidence_)
        promise("evidence_ has words", len(model.evidence_.describe()) > 0)
    if name in SAMPLERS:
        return
    history, objective = model.objective_history_, model.objective_
    promise("objective_ is finite", np.isfinite(objective), objective)
    promise("objective_history_ never rises", (np.diff(history) <= 0).all(), history)
    close = np.isclose(history[-1], objective, rtol=1e-9, atol=0)
    promise("objective_history_ ends with objective_", close, (history[-1], objective))
    penalty = getattr(model, "penalty_", None)
    # Elliptical clusters cost the logarithm of their volume too
    plain = name not in STREAMS | {"EllipticalMeans"}
    if penalty is not None and hasattr(model, "inertia_") and plain:
        total = model.inertia_ + penalty * numbers_of(model)
        same = np.isclose(total, objective, rtol=1e-7, atol=0)
        promise("objective_ = inertia_ + penalty_ × k", same, (total, objective))
    promise("n_iter_ is an int", isinstance(model.n_iter_, int), type(model.n_iter_))
    promise("converged_ is a bool", isinstance(model.converged_, bool), type(model.converged_))


def check_methods(name, model, X):
    """What the methods say of the rows of the fit."""
    n = X.shape[0] if hasattr(X, "shape") else len(X)
    if hasattr(model, "predict") and name != "GraphCut":
        try:
            new = model.predict(X)
        except ValueError as error:
            if "nearest_neighbors" in str(error):
                return
            raise
        promise("predict gives int32", new.dtype == np.int32 and new.shape == (n,), new.dtype)
        names = getattr(model, "cluster_ids_", np.arange(model.n_clusters_))
        promise("predict in range", np.isin(new, names).all(), new)
        if name in NEAREST and model.converged_ and not np.array_equal(new, model.labels_):
            D = model.transform(X).astype(np.float64)
            rows = np.arange(n)
            gap = D[rows, model.labels_] - D[rows, new]
            away = gap > 1e-6 * D.max(axis=1)  # else it is a tie
            promise("predict repeats labels_", not away.any(), np.flatnonzero(away))
    if hasattr(model, "novelty_score") and name != "GraphCut":
        p = model.novelty_score(X)
        promise("novelty_score is between 0 and 1", ((p >= 0) & (p <= 1)).all(), p)
        new = model.predict(X, novel=0.05)
        promise("novel rows get -1", np.array_equal(new == -1, p <= 0.05))
    if hasattr(model, "transform"):
        Z = model.transform(X)
        promise("transform is finite", np.isfinite(Z).all())
        promise("transform has a column each", Z.shape == (n, numbers_of(model)), Z.shape)
        # A printed algorithm flips one feature of a row at a time. Where only two flips help,
        # `transform`, which compares all combinations, is better than where it ended.
        printed = name == "CollapsedBPMeans" or model.get_params().get("algorithm") == "paper"
        if name in FEATURES and name not in SAMPLERS and model.converged_ and not printed:
            A = model.components_.astype(np.float64)
            dense = X.toarray() if sp.issparse(X) else np.asarray(X)
            gap = [
                ((dense.astype(np.float64) - z.astype(np.float64) @ A) ** 2).sum(axis=1)
                for z in (model.assignments_, Z)
            ]
            off = np.abs(gap[0] - gap[1]) > 1e-6 * np.maximum(*gap)
            promise("transform repeats assignments_", not off.any(), np.flatnonzero(off))
    if hasattr(model, "score") and name != "GraphCut":
        promise("score is a number", np.isfinite(model.score(X)))


def outcome(name, model):
    """What two fits that must not differ are compared by."""
    found = model.assignments_ if name in FEATURES else model.labels_
    objective = None if name in SAMPLERS else model.objective_
    return found, objective, numbers_of(model)


def check_same(name, what, one, other, rows=slice(None)):
    a, b = outcome(name, one), outcome(name, other)
    same = np.array_equal(a[0][rows], b[0]) and a[1:] == b[1:]
    promise(what, same, (a[1:], b[1:], a[0][rows], b[0]))


def check_again(r, name, model, X, fit_options):
    """One of the promises that need a second fit."""
    what = r.choice(["order", "threads", "weights", "file"])
    if what == "file":
        if name == "GraphCut":
            return
        with tempfile.TemporaryDirectory() as folder:
            model.save(path := Path(folder) / "model.npz")
            again = madbayes.load(path)
        check_same(name, "loads to the same", model, again)
        for method in ("predict", "transform", "novelty_score"):
            if hasattr(model, method):
                a, b = getattr(model, method)(X), getattr(again, method)(X)
                promise("loads to the same", np.array_equal(a, b), method)
    elif what == "order" and isinstance(X, np.ndarray):
        turned = np.ascontiguousarray(X) if X.flags.f_contiguous else np.asfortranarray(X)
        other = clone(model).fit(turned, **fit_options)
        check_same(name, "any order of the memory", model, other)
    elif what == "threads":
        other = clone(model).set_params(n_jobs=3 - model.n_jobs).fit(X, **fit_options)
        check_same(name, "any number of threads", model, other)
    elif what == "weights" and "sample_weight" in fit_options and name not in STREAMS:
        weight = fit_options["sample_weight"]
        kept = np.flatnonzero(weight > 0)
        if kept.size == weight.size or "order" in model.get_params(deep=False):
            return
        less = {key: np.asarray(value)[kept] for key, value in fit_options.items()}
        part = X[kept] if hasattr(X, "shape") else [X[i] for i in kept]
        other = clone(model).fit(part, **less)
        a, b = outcome(name, model), outcome(name, other)
        same = np.isclose(a[1], b[1], rtol=1e-6, atol=0) and a[2] == b[2]
        promise("a weight of 0 removes a row", same, (a[1:], b[1:]))


def own_words(error):
    """Whether an error was raised for the user: by this package or by scikit-learn."""
    last = traceback.extract_tb(error.__traceback__)[-1].filename.replace("\\", "/")
    return "/madbayes/" in last or "/sklearn/" in last


def run_case(seed, number, names, small=False):
    """Draw and check a case. Returns (words, None, the error that refused it, or Broken)."""
    r = np.random.default_rng([seed, number])
    name = names[int(r.integers(len(names)))]
    draw = draw_graph(r, small) if name == "GraphCut" else draw_table(r, name, small)
    words, X, dense = draw
    parameters = draw_parameters(r, name, dense)
    model = ESTIMATORS[name](**parameters)
    fit_options = {}
    takes = inspect.signature(model.fit).parameters
    weight = draw_weight(r, len(dense))
    if weight is not None and "sample_weight" in takes:
        fit_options["sample_weight"] = weight
        words += " weighted"
    if "groups" in takes:
        fit_options["groups"] = r.integers(int(r.integers(1, 5)), size=len(dense))
    words = f"{model!r}".replace("\n", "").replace("  ", "") + " on " + words
    before = X.toarray() if sp.issparse(X) else np.array(X)
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            model.fit(X, **fit_options)
            check_fit(name, model, len(dense))
            check_methods(name, model, X)
            check_again(r, name, model, X, fit_options)
        for one in heard:
            expected = issubclass(one.category, ConvergenceWarning) or any(
                text in str(one.message) for text in DOCUMENTED
            )
            place = f"{one.filename}:{one.lineno} {one.message}"
            promise("no warning but the documented ones", expected, place)
        after = X.toarray() if sp.issparse(X) else np.array(X)
        promise("the input is not modified", before.tobytes() == after.tobytes())
    except Broken as broken:
        metric = model.get_params().get("metric")
        known = {(broken.promise, name), (broken.promise, metric)} & KNOWN
        return words, None if known else broken
    except (ValueError, TypeError) as error:
        if not str(error) or not own_words(error):
            where = traceback.format_exception(error)[-2:]
            return words, Broken("errors speak to the user", "".join(where))
        return words, error
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-3:])
        return words, Broken("only ValueError and TypeError", where)
    return words, None


class TooSlow(BaseException):
    """Not an Exception, so that nothing on the way catches it."""


def give_up(*_):
    raise TooSlow


def main(arguments=None):
    parser = argparse.ArgumentParser(description="Random cases against the contract.")
    parser.add_argument("--seconds", type=float, default=300.0, help="how long (300)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--only", nargs="+", choices=sorted(ESTIMATORS), default=sorted(ESTIMATORS))
    parser.add_argument("--patience", type=int, default=60, help="seconds for a case (60); 0: all")
    parser.add_argument("--small", action="store_true", help="only small tables")
    options = parser.parse_args(arguments)
    faulthandler.enable()
    has_alarm = hasattr(signal, "SIGALRM")
    if has_alarm:
        signal.signal(signal.SIGALRM, give_up)
    broken, refused, slow, started = Counter(), Counter(), [], time.monotonic()
    number = options.first if options.case is None else options.case
    repeat = f" --only {' '.join(options.only)}" if len(options.only) < len(ESTIMATORS) else ""
    repeat += " --small" if options.small else ""
    count = 0
    while time.monotonic() - started < options.seconds:
        sys.stderr.write(f"\rcase {number} ")  # the last thing seen, should the process die
        sys.stderr.flush()
        again = f"  python tests/fuzz.py --seed {options.seed} --case {number}{repeat}"
        if has_alarm:
            signal.alarm(options.patience)
        try:
            words, found = run_case(options.seed, number, options.only, options.small)
        except TooSlow:
            slow.append(again)
            print(f"\nslow: over {options.patience} s\n{again}", flush=True)
            words, found = "", None
        finally:
            if has_alarm:
                signal.alarm(0)
        if isinstance(found, Broken):
            broken[found.promise] += 1
            print(f"\n{str(found)[:1500]}\n  {words}\n{again}", flush=True)
        elif found is not None:
            refused[f"{type(found).__name__}: {str(found)[:60]}"] += 1
        if options.case is not None:
            print(f"\n{words}\n  {found or 'every promise holds'}")
            break
        number, count = number + 1, count + 1
    print(f"\n{count} cases, {sum(refused.values())} refused, {len(slow)} slow")
    for what, times in sorted(broken.items()):
        print(f"  broken {times:4d}  {what}")
    if options.case is None:
        for what, times in refused.most_common(40):
            print(f"  refused {times:4d}  {what}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
