"""Models kept in files: every estimator comes back as it was, and no strange file comes in."""

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import InconsistentVersionWarning

import madbayes
from madbayes._storage import container
from madbayes._storage.prepared import Column, Prepared

GOLDEN = Path(__file__).parent / "golden"
rng = np.random.default_rng(0)
X = np.repeat(rng.normal(size=(3, 4)) * 9, 20, axis=0) + rng.normal(size=(60, 4))
X_NEW = rng.normal(size=(25, 4)) * 9
GROUPS = np.array(["a", "b", "c"])[np.arange(60) % 3]


def public_estimators():
    homes = [madbayes, getattr(madbayes, "gibbs", None)]
    found = {
        name: cls
        for home in homes
        if home is not None
        for name in home.__all__
        if isinstance(cls := getattr(home, name), type) and issubclass(cls, BaseEstimator)
    }
    assert "DPMeans" in found
    return sorted(found)


def fitted(name):
    cls = getattr(madbayes, name, None) or getattr(madbayes.gibbs, name)
    model = cls()
    given = {"n_clusters": 3, "n_components": 3, "random_state": 0, "max_iter": 20}
    given |= {"penalty": 40.0} if name in ("EllipticalMeans", "OnlineDPMeans") else {}
    given |= {"n_iter": 5, "n_sweeps": 5, "burn_in": 1} if name.endswith("Gibbs") else {}
    if name == "EllipticalMeans":
        del given["n_clusters"]
    model.set_params(**{k: v for k, v in given.items() if k in model.get_params()})
    if name == "GraphCut":
        near = (np.linalg.norm(X[:, None] - X[None], axis=2) < 4).astype(float)
        np.fill_diagonal(near, 0)
        return model.fit(sp.csr_array(near))
    return model.fit(X, groups=GROUPS) if "HDP" in name else model.fit(X)


def assert_same(a, b):
    """Equal to the bit, of the same type, however deep."""
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        if a.dtype == object:
            assert a.tolist() == b.tolist()
        else:
            np.testing.assert_array_equal(a, b)
    elif sp.issparse(a):
        assert_same(a.toarray(), b.toarray())
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            assert_same(a[key], b[key])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif hasattr(a, "__dict__") and type(a).__module__.startswith("madbayes"):
        assert_same(vars(a), vars(b))
    elif isinstance(a, cKDTree):
        assert_same(a.data, b.data)
    elif not isinstance(a, np.random.RandomState):
        assert a == b or (a != a and b != b)


@pytest.mark.parametrize("name", public_estimators())
def test_every_estimator_comes_back_to_the_bit(name, tmp_path):
    model = fitted(name)
    model.save(tmp_path / "model.npz")
    back = madbayes.load(tmp_path / "model.npz")
    assert type(back) is type(model)
    assert_same(vars(model), vars(back))
    for method in ("predict", "transform", "score", "novelty_score"):
        if hasattr(model, method) and name != "GraphCut":
            assert_same(getattr(model, method)(X_NEW), getattr(back, method)(X_NEW))
    assert clone(back).get_params() == clone(model).get_params()
    back.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "model.npz").read_bytes()


def test_a_stream_goes_on_where_it_stopped(tmp_path):
    stream = madbayes.OnlineDPMeans(penalty=40.0).partial_fit(X[:30])
    stream.save(tmp_path / "m.npz")
    again = madbayes.load(tmp_path / "m.npz").partial_fit(X[30:])
    assert_same(again.cluster_centers_, stream.partial_fit(X[30:]).cluster_centers_)


def test_names_parameters_and_odd_values_are_kept(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["größe", "=1+1", "a,b", "\x1b[2J"])
    model = madbayes.KMeans(2, init=X[:2], random_state=np.random.RandomState(3)).fit(frame)
    model.note_ = {"nan": float("nan"), ("a", 1): [np.float32(2), None, -np.inf]}
    model.save(tmp_path / "m.npz")
    back = madbayes.load(tmp_path / "m.npz")
    assert_same(back.feature_names_in_, model.feature_names_in_)
    assert_same(back.note_, model.note_)
    assert_same(back.init, model.init)
    assert back.random_state.randint(1 << 30) == model.random_state.randint(1 << 30)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:  # anyone can look inside
        header = json.loads(str(file["header"]))
    assert header["class"] == "KMeans" and header["feature_names"][0] == "größe"


def test_what_cannot_be_kept_is_said(tmp_path):
    model = madbayes.KMedoids(2, metric=lambda a, b: float(abs(a - b).sum())).fit(X[:9])
    with pytest.raises(TypeError, match=r"KMedoids\.metric is a function .* holds no code"):
        model.save(tmp_path / "m.npz")
    model = madbayes.KMeans(2).fit(X)
    model.extra_ = {1, 2}
    with pytest.raises(TypeError, match=r"KMeans\.extra_ is a builtins\.set"):
        model.save(tmp_path / "m.npz")

    class Mine(madbayes.KMeans):
        pass

    with pytest.raises(TypeError, match="Mine"):
        Mine(2).fit(X).save(tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())
    with pytest.raises(IsADirectoryError, match="name a file"):
        madbayes.KMeans(2).fit(X).save(tmp_path)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "m.npz"
    madbayes.KMeans(2, random_state=0).fit(X[:6]).save(path)
    return path


def assert_refused(path, match, **options):
    with pytest.raises(ValueError, match=match) as caught:
        madbayes.load(path, **options)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


def test_a_file_that_changed_anywhere_is_refused(saved):
    whole = saved.read_bytes()
    for at in [*range(0, len(whole), 37), len(whole) - 1]:
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert_refused(saved, "madbayes model|changed|damaged")
    for at in range(1, len(whole), 41):
        saved.write_bytes(whole[:at])
        assert_refused(saved, "madbayes model|cut short|changed|damaged")
    saved.write_bytes(whole + b"more")
    assert_refused(saved, "madbayes model|cut short|changed|damaged")


class Harm:
    def __reduce__(self):
        return (print, ("this must not run",))


def test_foreign_files_are_refused(tmp_path, capsys):
    path = tmp_path / "m.npz"
    path.write_bytes(b"")
    assert_refused(path, "not a madbayes model")
    path.write_text("a,b\n1,2\n")
    assert_refused(path, "not a madbayes model")
    for protocol in (0, 2, 4, 5):
        path.write_bytes(pickle.dumps(Harm(), protocol=protocol))
        assert_refused(path, "is a pickle|not a madbayes model")
    np.savez(path, x=np.arange(3))
    assert_refused(path, "no madbayes model")
    np.savez(path, header=np.array([Harm()], dtype=object))
    assert_refused(path, "no madbayes model")
    assert capsys.readouterr().out == ""
    with pytest.raises(FileNotFoundError):
        madbayes.load(tmp_path / "absent.npz")


def forged(path, members, compression=zipfile.ZIP_STORED):
    """A file with a right checksum, made by somebody who knows the format."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.comment = bytes(container.COMMENT)
        for name, content in members:
            archive.writestr(name, content)
    with path.open("r+b") as stream:
        size = path.stat().st_size
        digest = container._digest(stream, size - container.COMMENT)
        stream.seek(size - container.COMMENT)
        stream.write(digest)


def as_npy(array, tmp_path, **options):
    np.save(tmp_path / "x.npy", array, **options)
    return (tmp_path / "x.npy").read_bytes()


def test_forged_files_are_refused(saved, tmp_path, capsys):
    with np.load(saved) as file:
        header = json.loads(str(file["header"]))
        arrays = [(f"a{i}.npy", as_npy(file[f"a{i}"], tmp_path)) for i in range(len(file) - 1)]

    def with_header(**changes):
        text = np.array(json.dumps({**header, **changes}))
        return [("header.npy", as_npy(text, tmp_path)), *arrays]

    path = tmp_path / "forged.npz"
    forged(path, with_header())
    assert isinstance(madbayes.load(path), madbayes.KMeans)
    assert_refused(path, "more than max_bytes=100", max_bytes=100)
    forged(path, with_header(version=99, versions={"madbayes": "9.0"}))
    assert_refused(path, "saved by madbayes 9.0 in format 99.*Update")
    forged(path, with_header(format="something"))
    assert_refused(path, "header says something else")
    forged(path, with_header(model={"$": "part", "class": "Popen", "module": "subprocess"}))
    assert_refused(path, "does not have|cannot be read")
    forged(path, with_header(model={"$": "part", "class": "Path", "module": "cli", "state": {}}))
    assert_refused(path, "does not have")
    forged(path, with_header(model={"$": "surprise"}))
    assert_refused(path, "cannot be read")
    forged(path, with_header(), zipfile.ZIP_DEFLATED)  # what is packed may be huge when unpacked
    assert_refused(path, "not laid out")
    huge = as_npy(np.zeros(1), tmp_path).replace(b"(1,)", b"(9" + b"9" * 11 + b",)")
    forged(path, [*with_header()[:1], ("a0.npy", huge)])
    assert_refused(path, "which cannot be")
    objects = as_npy(np.array([Harm()], dtype=object), tmp_path, allow_pickle=True)
    forged(path, [*with_header()[:1], ("a0.npy", objects)])
    assert_refused(path, "which cannot be")
    assert capsys.readouterr().out == ""


def test_files_of_version_1_stay_readable():
    model = madbayes.load(GOLDEN / "dp_means_1.npz")
    expected = json.loads((GOLDEN / "dp_means_1.json").read_text())
    assert model.n_clusters_ == expected["n_clusters"]
    assert model.evidence_.n_clusters == expected["n_clusters"]
    assert model.path_.n_clusters.tolist() == expected["path"]
    rows = np.array(expected["rows"])
    assert model.predict(rows).tolist() == expected["labels"]
    np.testing.assert_array_equal(model.transform(rows), expected["distances"])
    prepared = madbayes.load(GOLDEN / "prepared_1.npz")
    assert prepared.predict(rows * [1, 1000]).tolist() == expected["prepared"]
    assert prepared.columns == (Column("a"), Column("b", fill=4.5))


def test_scaling_is_part_of_a_saved_model(tmp_path):
    mean, scale = X.mean(axis=0), X.std(axis=0)
    model = madbayes.DPMeans(penalty=20.0).fit((X - mean) / scale)
    columns = tuple(Column(name) for name in "abcd")
    Prepared(model, columns, mean, scale).save(tmp_path / "m.npz")
    back = madbayes.load(tmp_path / "m.npz")
    assert_same(back.predict(X), model.labels_)
    np.testing.assert_allclose(back.cluster_centers_, model.cluster_centers_ * scale + mean)
    assert back.n_clusters_ == model.n_clusters_
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:, ::-1], columns=list("dcba"))
    assert_same(back.predict(frame), model.labels_)
    with pytest.raises(ValueError, match=r"lacks the columns \['a'\]"):
        back.predict(frame.drop(columns="a"))
    with pytest.raises(ValueError, match="fitted on 4 columns"):
        back.predict(X[:, :3])


def test_a_pickle_of_another_version_warns(monkeypatch):
    model = madbayes.KMeans(2).fit(X)
    data = pickle.dumps(model)
    assert_same(pickle.loads(data).labels_, model.labels_)
    monkeypatch.setattr(madbayes, "__version__", "99.0")
    with pytest.warns(InconsistentVersionWarning, match="KMeans"):
        pickle.loads(data)


def test_a_notebook_shows_what_was_found():
    assert "clusters" not in madbayes.KMeans(2)._repr_html_().split("<style")[0]
    model = madbayes.DPMeans(random_state=0).fit(X)
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        assert "3 clusters, evidence" in shown and "DPMeans" in shown
