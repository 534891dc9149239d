"""Bad and odd input: a right answer, or an error that names what is wrong and the way out."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from madbayes import (
    CollapsedDPMeans,
    DPMeans,
    DPMedoids,
    EllipticalMeans,
    HardHDP,
    KernelDPMeans,
    KernelHardHDP,
    KMeans,
    KMedoids,
    NeighborCut,
    OnlineDPMeans,
    OnlineKMeans,
    SpectralDPMeans,
    load,
    penalties,
)
from madbayes.gibbs import DPMixtureGibbs, IBPGibbs

X = np.random.default_rng(0).normal(size=(40, 3))
MODELS = [
    KMeans(2),
    DPMeans(),
    DPMeans(3.0),
    DPMeans(3.0, algorithm="paper"),
    CollapsedDPMeans(3.0),
    OnlineKMeans(2),
    OnlineDPMeans(3.0),
    KMedoids(2),
    DPMedoids(),
    DPMedoids(3.0, algorithm="paper"),
    EllipticalMeans(2),
    EllipticalMeans(penalty=3.0),
    KernelDPMeans(),
    KernelDPMeans(3.0, algorithm="paper"),
    SpectralDPMeans(3.0),
    HardHDP(),
    HardHDP(1.0, 2.0),
    HardHDP(1.0, 2.0, algorithm="paper"),
]
SAMPLERS = [
    DPMixtureGibbs(n_iter=5, burn_in=0),
    IBPGibbs(n_iter=5, burn_in=0),
]  # they take no weights


@pytest.mark.parametrize("model", MODELS + SAMPLERS, ids=str)
@pytest.mark.parametrize(
    ("bad", "error", "says"),
    [
        (np.array([[1.0, np.nan], [1, 2], [3, 4]]), ValueError, "NaN"),
        (np.array([[1.0, np.inf], [1, 2], [3, 4]]), ValueError, "infinity"),
        (np.array([["a", "b"], ["c", "d"], ["e", "f"]]), ValueError, "could not convert|string"),
        (np.array([[1j, 2.0], [3, 4], [5, 6]]), ValueError, "[Cc]omplex"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        (np.empty((3, 0)), ValueError, "0 feature"),
        (np.arange(5.0), ValueError, "1D|1-d|2D"),
        (np.array([[1e200], [0.0], [-1e200]]), ValueError, "overflow"),
        (np.array([[1e-200], [0.0], [-1e-200]]), ValueError, "underflow"),
        (None, (ValueError, TypeError), "."),
    ],
)
def test_bad_tables(model, bad, error, says):
    with pytest.raises(error, match=says):
        model.fit(bad)


@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("d", [2, 20])
def test_tiny_and_huge_values(scale, d):
    r = np.random.default_rng(0)
    Y = np.repeat([[0.0], [10.0]], 30, axis=0) + r.normal(size=(60, d))

    def fitted(scale):
        models = (
            KMeans(2, random_state=0),
            DPMeans(60.0 * d * scale**2, random_state=0),
            DPMeans(20.0 * d * scale**2, algorithm="paper"),
            DPMeans(random_state=0),
            CollapsedDPMeans(60.0 * d * scale**2, random_state=0),
            OnlineKMeans(2),
            OnlineDPMeans(20.0 * d * scale**2),
            HardHDP(30.0 * d * scale**2, 30.0 * d * scale**2, random_state=0),
            HardHDP(random_state=0),
        )
        return [model.fit(Y * scale).labels_ for model in models]

    for found, expected in zip(fitted(scale), fitted(1.0), strict=True):
        assert len(np.unique(expected)) > 1
        np.testing.assert_array_equal(found, expected)


def test_one_row_one_column_and_equal_rows():
    for model in (
        DPMeans(),
        DPMeans(1.0),
        DPMeans(1.0, algorithm="paper"),
        KMeans(1),
        CollapsedDPMeans(1.0),
        OnlineKMeans(1),
        OnlineDPMeans(1.0),
        HardHDP(),
        HardHDP(0.5, 0.5),
    ):
        assert model.fit([[3.0]]).labels_.tolist() == [0]
        assert set(model.fit(np.full((9, 2), 0.1)).labels_) == {0}
        assert model.inertia_ == pytest.approx(0, abs=1e-20)
        assert model.fit(np.arange(9.0)[:, None]).cluster_centers_.shape[1] == 1


@pytest.mark.parametrize(
    ("penalty", "error"),
    [
        (0, ValueError),
        (-3.0, ValueError),
        (np.nan, ValueError),
        (np.inf, ValueError),
        ("cheap", TypeError),
        (None, TypeError),
        (True, TypeError),
        ([1.0], TypeError),
    ],
)
def test_bad_penalties(penalty, error):
    with pytest.raises(error, match=r"penalty=.*squared-distance units"):
        DPMeans(penalty).fit(X)


@pytest.mark.parametrize(
    ("model", "error", "says"),
    [
        (KMeans(0), ValueError, "n_clusters=0"),
        (KMeans(41), ValueError, "n_clusters=41 must be <= n_samples=40"),
        (KMeans(2.5), TypeError, "n_clusters=2.5"),
        (KMeans(2, init="best"), ValueError, "init='best'"),
        (KMeans(2, init=X[:3]), ValueError, r"init has shape \(3, 3\)"),
        (KMeans(2, init=X[:2] * np.nan), ValueError, "init contains NaN"),
        (KMeans(2, n_init=0), ValueError, "n_init=0"),
        (KMeans(2, max_iter=0), ValueError, "max_iter=0"),
        (KMeans(2, tol=-1), ValueError, "tol=-1"),
        (KMeans(2, n_jobs=0), ValueError, "n_jobs=0"),
        (DPMeans(algorithm="magic"), ValueError, "algorithm='magic'.*'search', 'paper'"),
        (DPMeans(order="backwards"), ValueError, "order='backwards'"),
        (DPMeans(max_clusters=0), ValueError, "max_clusters=0"),
        (DPMeans(n_clusters_hint=0), ValueError, "n_clusters_hint=0"),
        (DPMeans("farthest-first"), ValueError, "needs n_clusters_hint"),
        (DPMeans(n_init=0), ValueError, "n_init=0"),
    ],
    ids=str,
)
def test_bad_parameters(model, error, says):
    with pytest.raises(error, match=says):
        model.fit(X)


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_bad_weights_and_bad_rows_later(model):
    for weight, says in (
        (np.ones(3), r"sample_weight.shape=\(3,\) must be \(40,\)"),
        (np.r_[-1.0, np.ones(39)], "negative value"),
        (np.zeros(40), "zero"),
        (np.full(40, np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=says):
            model.fit(X, sample_weight=weight)
    model.fit(X)
    with pytest.raises(ValueError, match=r"2 features.*3 features"):
        model.predict(X[:, :2])


def test_before_fit():
    for model in (
        KMeans(),
        DPMeans(),
        CollapsedDPMeans(),
        OnlineKMeans(),
        OnlineDPMeans(),
        KMedoids(),
        DPMedoids(),
        EllipticalMeans(2),
        KernelDPMeans(),
        SpectralDPMeans(),
        HardHDP(),
    ):
        for method in (model.predict, model.transform, model.score):
            with pytest.raises(NotFittedError):
                method(X)
    with pytest.raises(NotFittedError):
        DPMeans().predict(X, novel=True)


def test_tables_with_names():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    expected = KMeans(2, random_state=0).fit(X)
    for table in (
        pd.DataFrame(X, columns=["a", "b", "c"]),
        pl.DataFrame(X, schema=["a", "b", "c"]),
        pa.table({name: X[:, j] for j, name in enumerate("abc")}),
    ):
        model = KMeans(2, random_state=0).fit(table)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_array_equal(model.predict(table), expected.labels_)
    assert KMeans(2, random_state=0).fit(X.tolist()).inertia_ == expected.inertia_
    assert expected.get_feature_names_out().tolist() == ["kmeans0", "kmeans1"]
    frame = KMeans(2).set_output(transform="pandas").fit_transform(pd.DataFrame(X))
    assert list(frame.columns) == ["kmeans0", "kmeans1"]


def test_float32_stays_float32():
    model = DPMeans(3.0, random_state=0).fit(X.astype(np.float32))
    assert model.cluster_centers_.dtype == model.transform(X.astype(np.float32)).dtype == np.float32


def test_sparse_integers_and_changed_centers():
    model = KMeans(2, random_state=0).fit(sp.csr_matrix(np.eye(6, dtype=int)))
    assert model.labels_.shape == (6,)
    model = KMeans(2, random_state=0).fit(X)
    model.cluster_centers_ = model.cluster_centers_[::-1].copy()
    np.testing.assert_array_equal(model.predict(X), 1 - model.labels_)


def test_paths_and_farthest_first_check_their_rows():
    for function in (penalties.path, lambda Y: penalties.farthest_first(Y, 2)):
        with pytest.raises(ValueError, match="NaN"):
            function([[np.nan], [1.0]])
        with pytest.raises(ValueError, match="0 sample"):
            function(np.empty((0, 2)))


LAYOUTS = [
    KMeans(3, metric="cosine", random_state=0),
    DPMeans(random_state=0),
    DPMeans(metric="cosine", random_state=0),
    DPMeans(metric="cosine", algorithm="paper"),
    KMedoids(3, metric="cosine", random_state=0),
    DPMedoids(metric="seuclidean", random_state=0),
    KMedoids(3, metric="mahalanobis", random_state=0),
    NeighborCut(random_state=0),
    NeighborCut(metric="cosine", random_state=0),
    *(KernelDPMeans(kernel=name, random_state=0) for name in ("rbf", "poly", "sigmoid", "cosine")),
    *(SpectralDPMeans(kernel=name, random_state=0) for name in ("linear", "rbf", "cosine")),
    KernelHardHDP(random_state=0),
]


def known(model, rows):
    """All numbers that a fit leaves, and what the model says of rows."""
    assert model.novelty_quantiles_ is not None  # made when it is asked for
    found = {k: v for k, v in vars(model).items() if k[-1] == "_" and isinstance(v, np.ndarray)}
    found.pop("feature_names_in_", None)
    found |= {k: v for k, v in vars(model).items() if k[-1] == "_" and isinstance(v, float)}
    return found | {"predict": model.predict(rows), "novelty": model.novelty_score(rows)}


@pytest.mark.parametrize("model", LAYOUTS, ids=str)
def test_memory_layout_changes_no_bit_and_the_model_owns_its_rows(model, tmp_path):
    pd = pytest.importorskip("pandas")
    r = np.random.default_rng(1)
    rows = np.repeat(5 * r.normal(size=(4, 7)), 20, axis=0) + r.normal(size=(80, 7))
    rows = np.vstack([rows, rows[:15]])  # equal rows get equal labels
    expected = known(clone(model).fit(rows.copy()), rows)
    for other in (np.asfortranarray(rows), np.repeat(rows, 2, axis=1)[:, ::2]):
        np.testing.assert_equal(known(clone(model).fit(other), other), expected)
    frame = pd.DataFrame({f"c{j}": rows[:, j] for j in range(7)})
    np.testing.assert_equal(known(clone(model).fit(frame), frame), expected)
    for order in "CF":
        own = np.array(rows, order=order)
        fitted = clone(model).fit(own)
        fitted.save(tmp_path / "model")
        own[:] = 7.0
        np.testing.assert_equal(known(fitted, rows), expected)
        np.testing.assert_equal(known(load(tmp_path / "model"), rows), expected)


def test_objects_of_several_tables_are_refused_at_once():
    class AnnData:
        obsm, obs, X, shape = {"X_pca": X}, None, X, X.shape

    for model in (DPMeans(), KMeans(2), EllipticalMeans(2), KernelDPMeans()):
        with pytest.raises(TypeError, match=r"AnnData.*X\.obsm\['X_pca'\]"):
            model.fit(AnnData())


def test_a_column_of_vectors_is_an_embedding():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    pa = pytest.importorskip("pyarrow")
    expected = KMeans(2, random_state=0).fit(X).cluster_centers_
    rows = X.tolist()
    for frame in (
        pd.DataFrame({"v": list(X)}),
        pd.DataFrame({"v": rows}),
        pl.DataFrame({"v": rows}),
        pa.table({"v": rows}),
    ):
        np.testing.assert_array_equal(
            KMeans(2, random_state=0).fit(frame).cluster_centers_, expected
        )
    with pytest.raises(ValueError, match=r"'v' .* vectors beside other columns.*np\.stack"):
        KMeans(2).fit(pd.DataFrame({"v": rows, "age": 1.0}))
    with pytest.raises(ValueError, match=r"'v' .* different lengths \(1, 2\)"):
        KMeans(2).fit(pd.DataFrame({"v": [[1.0], [1.0, 2.0]]}))
