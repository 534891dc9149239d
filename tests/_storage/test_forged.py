"""Files that somebody else made: models of all kinds are saved and read, forged ones are refused.

`forge` makes a file with a right checksum out of a header and arrays, as somebody can who knows the
format. A forged file either loads and its model predicts, or it is refused in one line.
"""

import dataclasses
import subprocess
import sys
import zipfile
from dataclasses import is_dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from forging import interrupted_fits, stopped, taken_apart
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator
from test_saving import GROUPS, X_NEW, X, assert_refused, assert_same, public_estimators

import madbayes
from madbayes._storage import container, registry, schema
from madbayes._storage.schema import bases_of

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
FORGING = Path(__file__).parent / "forging.py"
NUMBERS = np.array([[0.0, 0], [0, 0], [1, 0], [1, 0]])


def forged(model, path, change):
    """Save a model, change its header or arrays, and give the file a right checksum."""
    model.save(path)
    header, arrays = taken_apart(path)
    change(header["model"], arrays)
    container.write(path, header, arrays)
    return path


def array_of(tree, *names):
    """Which array is the attribute of a model (or of a part of it)."""
    for name in names:
        tree = tree["state"][name]
    return tree["number"]


def honest():
    """Models of all kinds of rows and parameters."""
    m = madbayes
    sparse, single = sp.csr_array(np.maximum(X, 0)), X.astype(np.float32)
    weight = np.r_[np.zeros(5), np.ones(55)]
    square = cdist(X, X)
    kernel = np.exp(-(square**2) / 50)
    stream = m.OnlineDPMeans(penalty=9.0, merge_every=7, half_life=20.0)
    yield "unfitted", m.KMeans(3)
    for name in ("KMeans", "OnlineKMeans", "KMedoids"):
        cls = getattr(m, name)
        yield f"{name} single", cls(3, random_state=0).fit(single)
        yield f"{name} sparse", cls(3, random_state=0).fit(sparse)
        yield f"{name} weights", cls(3, random_state=0).fit(X, sample_weight=weight)
        yield f"{name} doubles", cls(3, random_state=0).fit(NUMBERS)
        yield f"{name} one row", cls(1).fit(X[:1])
    for name in ("DPMeans", "CollapsedDPMeans", "OnlineDPMeans", "DPMedoids"):
        cls = getattr(m, name)
        yield f"{name} auto", cls(random_state=0).fit(X)
        yield f"{name} sparse", cls(9.0, random_state=0).fit(sparse)
        yield f"{name} weights", cls(9.0).fit(single, sample_weight=weight)
        yield f"{name} one row", cls(9.0).fit(X[:1])
        yield f"{name} doubles", cls(random_state=0).fit(NUMBERS)
        if name != "CollapsedDPMeans":
            yield f"{name} cosine", cls(0.5, metric="cosine").fit(X)
        yield f"{name} whole penalty", cls(9).fit(X)
    yield "paper", m.DPMeans(algorithm="paper", random_state=0).fit(X)
    yield "hint", m.DPMeans("farthest-first", n_clusters_hint=3).fit(X)
    yield "search", m.KMeans(3, algorithm="search", random_state=0).fit(X)
    yield "stream", stream.partial_fit(X[:30]).partial_fit(X[30:])
    yield "stream auto", m.OnlineDPMeans(random_state=0).partial_fit(X[:30]).partial_fit(X[30:])
    yield "first", m.OnlineKMeans(3).partial_fit(X[:2])
    for cls in (m.KMedoids, m.DPMedoids):
        yield f"{cls.__name__} precomputed", cls(3, metric="precomputed").fit(square)
        yield f"{cls.__name__} minkowski", cls(3, metric="manhattan").fit(X)
        params = {"metric": "minkowski", "metric_params": {"p": 3}}
        yield f"{cls.__name__} p", cls(3, **params).fit(X)
    for cls in (m.KernelDPMeans, m.SpectralDPMeans):
        for name in ("linear", "rbf"):
            yield f"{cls.__name__} {name}", cls(kernel=name, random_state=0).fit(X)
        yield f"{cls.__name__} precomputed", cls(kernel="precomputed").fit(kernel)
        weights = {"sample_weight": weight}
        yield f"{cls.__name__} weights", cls(kernel="precomputed").fit(kernel, **weights)
        yield f"{cls.__name__} sparse", cls(kernel="precomputed").fit(sp.csr_array(kernel))
        yield f"{cls.__name__} CSR rows", cls(kernel="rbf").fit(sparse)
    graph = m.SpectralDPMeans(0.5, kernel="nearest_neighbors", random_state=0)
    yield "graph", graph.fit(X)
    for cls in (m.HardHDP, m.KernelHardHDP):
        yield cls.__name__, cls(9.0, 9.0).fit(X, groups=GROUPS)
        yield f"{cls.__name__} auto", cls(random_state=0).fit(X, groups=np.arange(60) % 2)
        yield f"{cls.__name__} one group", cls(9.0, 9.0).fit(X)
        yield f"{cls.__name__} weights", cls(9.0, 9.0).fit(X, sample_weight=weight, groups=GROUPS)
    for options in ({}, {"metric": "cosine"}, {"metric": "manhattan"}, {"resolution": 0.2}):
        yield f"NeighborCut {options}", m.NeighborCut(random_state=0, **options).fit(X)
    wide = np.hstack([X, X, X])
    yield "NeighborCut wide", m.NeighborCut(random_state=0).fit(wide)
    yield "NeighborCut sparse", m.NeighborCut(random_state=0).fit(sp.csr_array(wide))
    yield "NeighborCut precomputed", m.NeighborCut(metric="precomputed").fit(square)
    near = sp.csr_array(kernel * (kernel > 0.5))
    yield "NeighborCut connectivities", m.NeighborCut(metric="connectivities").fit(near)
    yield "GraphCut", m.GraphCut(0.3, random_state=0).fit(near)
    yield "GraphCut alone", m.GraphCut(0.3).fit(sp.csr_array((4, 4)))
    yield "EllipticalMeans", m.EllipticalMeans(3, random_state=0).fit(X)
    yield "EllipticalMeans paper", m.EllipticalMeans(3, algorithm="paper").fit(X)
    for name in ("BPMeans", "CollapsedBPMeans", "StepwiseKFeatures"):
        cls = getattr(m, name)
        yield f"{name} none", cls(1e9).fit(X)
        yield f"{name} single", cls(300.0, random_state=0).fit(single)
        yield f"{name} sparse", cls(300.0, random_state=0).fit(sparse)
    yield "KFeatures", m.KFeatures(2, random_state=0).fit(X, sample_weight=weight)
    for shape in ("auto", "round"):
        yield f"AutoCluster {shape}", m.AutoCluster(shape, random_state=0).fit(X)
    table = {"age": X[:, 0], "plan": ["basic", "plus", "max"] * (len(X) // 3)}
    yield "TableEncoder", m.TableEncoder().fit(table)
    short = {"n_iter": 3, "burn_in": 0, "random_state": 0}
    yield "chains", m.DPMixtureGibbs(**short, n_chains=2).fit(X)
    yield "no features", m.IBPGibbs(**short, alpha=1e-9).fit(X * 1e-3)


def test_no_honest_model_is_refused(tmp_path):
    seen = set()
    for name, model in honest():
        seen.add(type(model).__name__)
        model.save(tmp_path / "m.npz")
        back = madbayes.load(tmp_path / "m.npz")
        assert_same(vars(model), vars(back))
        if hasattr(model, "partial_fit") and hasattr(model, "labels_"):
            rows = np.random.default_rng(1).normal(size=(7, model.n_features_in_))
            same = model.partial_fit(rows).cluster_centers_
            assert_same(back.partial_fit(rows).cluster_centers_, same), name
            model.save(tmp_path / "m.npz")
            madbayes.load(tmp_path / "m.npz").novelty_score(rows)
    assert seen == set(public_estimators())


# Values that are no numbers: parts check them, or `predict` does.
OTHERWISE_CHECKED = {"shape_", "model_", "columns_", "notes_", "recommendation_"}


def test_every_class_is_in_the_tables():
    assert sorted(registry.ESTIMATORS) == public_estimators()
    assert set(schema.PARTS) <= set(registry.PARTS)
    for name in registry.ESTIMATORS:
        needed = schema.needed_by(registry.find_class(name))
        assert len(needed) > 1
        assert needed - set(schema.FITTED) <= OTHERWISE_CHECKED
    for name in registry.PARTS:
        cls = registry.find_class(name)
        assert cls.__name__ == name
        assert issubclass(cls, BaseEstimator) or schema.attributes_of(cls)
        known = {field.name for field in dataclasses.fields(cls)} if is_dataclass(cls) else set()
        described = schema.described(schema.PARTS.get(name, {}))
        assert not known or set(described) <= known  # no attribute that the part does not have
    bases = {base for name in registry.ESTIMATORS for base in bases_of(registry.find_class(name))}
    assert set(schema.NEEDED) <= bases
    for name in ("main", "Popen", "SaveMixin", "", None, 3, ["DPMeans"]):
        assert registry.find_class(name) is None


@pytest.mark.parametrize("module", ["cli.__main__", "cli", "compile", "cluster.dp_means"])
@pytest.mark.parametrize("kind", ["part", "estimator"])
def test_a_file_imports_nothing(tmp_path, module, kind, capsys):
    def change(tree, arrays):
        tree |= {"$": kind, "class": "main", "module": module}

    path = forged(madbayes.KMeans(2).fit(X), tmp_path / "m.npz", change)
    assert_refused(path, "it holds a 'main', which this version does not have")
    assert "madbayes.cli.__main__" not in sys.modules and capsys.readouterr().out == ""


def sparse_rows(cls):
    return cls().fit(sp.csr_array(np.hstack([X, X, X])))


def set_array(name, value, *more):
    def change(tree, arrays):
        at = array_of(tree, name, *more)
        arrays[at] = arrays[at].copy()
        arrays[at].flat[3] = value

    return change


def set_state(value, *names):
    def change(tree, arrays):
        for name in names[:-1]:
            tree = tree["state"][name]
        tree["state"][names[-1]] = value

    return change


def set_indices(tree, arrays):
    at = tree["state"]["_rows"]["indices"]["number"]
    arrays[at] = arrays[at].copy()
    arrays[at][5] = 10**6


def set_position(tree, arrays):
    for key, value in tree["params"]["random_state"]["state"]["items"]:
        if key == "state":
            value["items"][1][1] = 10**6


def shadow(tree, arrays):
    tree["state"]["predict"] = 3


def drop_centers(tree, arrays):
    del tree["state"]["_centers"]


def more_clusters(tree, arrays):
    arrays.append(np.vstack([arrays[array_of(tree, "_centers")]] * 2))
    for name in ("_centers", "cluster_centers_"):
        tree["state"][name]["number"] = len(arrays) - 1


M = madbayes
FORGERIES = [
    (M.KernelDPMeans(1.0), set_array("_labels", 10**12), "_labels should be from 0 to"),
    (M.KernelHardHDP(1.0, 1.0), set_array("_labels", 300), "_labels should be from 0 to"),
    (M.SpectralDPMeans(50.0, kernel="rbf"), set_array("_labels", -1), "_labels should be from 0"),
    (M.KernelDPMeans(1.0), set_array("_rows", np.nan), "_rows should hold finite numbers"),
    (M.KernelDPMeans(1.0, kernel="poly"), set_indices, "indices do not fit its shape"),
    (M.OnlineDPMeans(40.0), set_state(10**6, "_stream", "k"), "k is more than there is room for"),
    (M.OnlineDPMeans(40.0), set_state(1, "_stream", "k"), "does not fit the rest of the model"),
    (M.OnlineKMeans(3), set_state(10**6, "_stream", "sample", "held"), "held rows are missing"),
    (M.OnlineDPMeans(), set_state(-9, "_summary", "n_small"), "n_small should be from 0"),
    (M.KMeans(2), set_state(7, "n_clusters_"), "does not fit the rest of the model"),
    (M.KMeans(2), more_clusters, "does not fit the rest of the model"),
    (M.KMeans(2), drop_centers, "KMeans._centers is missing"),
    (M.KMeans(2), set_array("_centers", np.inf), "_centers should hold finite numbers"),
    (M.KMeans(2), shadow, "KMeans.predict would hide a part of the estimator"),
    (M.KMeans(2, random_state=np.random.RandomState(0)), set_position, "at the position 1000000"),
    (M.DPMeans(), set_state(2, "evidence_", "number"), "evidence_ speaks of another number"),
    (M.NeighborCut(), set_array("labels_", 10**6), "labels_ should be from -1 to"),
    (M.HardHDP(9.0, 9.0), set_state(None, "_rows_of"), "_rows_of should be a csr_array"),
    (M.DPMixtureGibbs(n_iter=2), set_array("label_samples_", 40), "samples do not fit each other"),
    (M.EllipticalMeans(3), set_array("_scale", 0.0), "_scale should be from"),
    (M.BPMeans(300.0), set_state(9, "n_components_"), "does not fit the rest of the model"),
]


@pytest.mark.parametrize(
    "model, change, says", FORGERIES, ids=[f"{type(m).__name__} {s:.20}" for m, _, s in FORGERIES]
)
def test_numbers_that_do_not_fit_are_refused(tmp_path, model, change, says):
    rows = sp.csr_array(X) if change is set_indices else X
    assert_refused(forged(model.fit(rows), tmp_path / "m.npz", change), says)


def test_a_model_that_was_changed_by_hand_is_not_saved(tmp_path):
    model = madbayes.KMeans(2).fit(X)
    model.n_clusters_ = 9
    with pytest.raises(ValueError, match=r"has the shape \(2, .* with k = 9.*none is written"):
        model.save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())


def test_only_models_are_at_the_top(tmp_path):
    def change(tree, arrays):
        part = dict(tree["state"]["evidence_"])
        tree.clear()
        tree.update(part)

    path = forged(madbayes.DPMeans(random_state=0).fit(X), tmp_path / "m.npz", change)
    assert_refused(path, "it holds no estimator")


def signed(path):
    """A right checksum for what is in the file now."""
    end = path.stat().st_size - container.COMMENT
    with path.open("r+b") as stream:
        digest = container._digest(stream, end)
        stream.seek(end)
        stream.write(digest)
    return path


def test_overlapping_members_are_refused_before_they_are_read(tmp_path):
    """Many names for one large member: a file of 10 MB would take gigabytes."""
    path = tmp_path / "m.npz"
    madbayes.KMeans(2).fit(X).save(path)
    header, arrays = taken_apart(path)
    container.write(path, header, [np.zeros(10_000), *arrays])
    with zipfile.ZipFile(path, "a") as archive:
        large = archive.infolist()[1]
        for i in range(len(arrays) + 1, len(arrays) + 40):
            copy = zipfile.ZipInfo(f"a{i}.npy")
            for name in ("header_offset", "CRC", "compress_size", "file_size"):
                setattr(copy, name, getattr(large, name))
            archive.filelist.append(copy)
        archive._didModify = True
        archive.comment = bytes(container.COMMENT)
    assert_refused(signed(path), "over other parts of the file")


@pytest.mark.parametrize("text", ["[" * 10**5, "{", "[]", "nul", '"' * 3, "1" * 5000])
def test_odd_headers(tmp_path, text):
    path = tmp_path / "m.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = bytes(container.COMMENT)
        with archive.open("header.npy", "w") as out:
            np.lib.format.write_array(out, np.array(text))
    assert_refused(signed(path), "cannot be read|header says something else")


def test_a_damaged_archive_with_a_right_checksum(tmp_path):
    path = tmp_path / "m.npz"
    madbayes.KMeans(2, random_state=0).fit(X[:6]).save(path)
    whole = path.read_bytes()
    for at in range(4, len(whole) - container.COMMENT, 23):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            madbayes.load(signed(path)).predict(X)
        except ValueError as error:
            assert "\n" not in str(error)


def test_forged_checkpoints_are_refused(tmp_path):
    path = tmp_path / "fit.npz"
    for (_, model, rows), key, value, says in zip(
        list(interrupted_fits())[:2],
        ("labels", "labels"),
        (99, -2),
        ("from -1 to",) * 2,
        strict=True,
    ):
        stopped(model, rows, path, 1)
        header, arrays = taken_apart(path)
        state = dict(header["state"]["items"])
        at = dict(state["partition"]["items"])[key]["number"]
        arrays[at].flat[0] = value
        container.write(path, header, arrays)
        with pytest.raises(ValueError, match=f"checkpoint=.*{says}.*Delete it") as caught:
            model.fit(rows)
        assert "\n" not in str(caught.value)
        path.unlink()


def tried(*argv):
    command = [sys.executable, str(FORGING), *map(str, argv)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_random_forgeries_of_models(tmp_path):
    """A short part of `python forging.py 1000 0`, in a process that may end badly."""
    np.save(tmp_path / "rows.npy", X_NEW)
    for model in (
        madbayes.OnlineDPMeans(penalty=40.0),
        madbayes.KernelDPMeans(1.0),
        madbayes.NeighborCut(random_state=0),
        madbayes.HardHDP(9.0, 9.0),
        madbayes.KMedoids(3),
    ):
        model.fit(X).save(tmp_path / f"{type(model).__name__}.npz")
    done = tried(tmp_path, 25, 3)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_random_forgeries_of_checkpoints():
    done = tried("checkpoints", 8, 3)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
