"""Bugs that were found once: one short test for each."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from reference.dp_means import dp_means
from reference.farthest_first import farthest_first
from reference.kmeans import assign, kmeans
from sklearn.base import clone
from sklearn.cluster import KMeans as SK
from sklearn.exceptions import NotFittedError

from madbayes import (
    CollapsedDPMeans,
    DPMeans,
    HardHDP,
    KernelDPMeans,
    KMeans,
    OnlineDPMeans,
    penalties,
)

pytestmark = pytest.mark.filterwarnings("ignore")
P = {"algorithm": "paper"}


def blobs(d, seed=1, n=600):
    r = np.random.default_rng(seed)
    c = r.normal(size=(4, d)) * 3
    return c[r.integers(4, size=n)] + r.normal(size=(n, d))


@pytest.mark.parametrize("d", [2, 8])
def test_01_one_sentinel_row(d):
    X = blobs(d)
    X[17] = 1e20
    assert np.array_equal(DPMeans(6.0 * d, **P).fit(X).labels_, dp_means(X, 6.0 * d)[0])
    init = X[[17, 0, 1, 2, 3, 4]]
    assert np.array_equal(KMeans(6, init=init, tol=0).fit(X).labels_, kmeans(X, init)[0])


def test_02_csr_far_from_origin():
    X = np.random.default_rng(16).normal(size=(200, 3)) + 1e6
    assert np.array_equal(DPMeans(0.5, **P).fit(sp.csr_array(X)).labels_, dp_means(X, 0.5)[0])


def test_03_more_clusters_than_distinct_rows():
    r = np.random.default_rng(0)
    X = np.repeat(r.normal(size=(6, 3)), 7, axis=0)[r.permutation(42)]
    m = KMeans(9, init=X[:9], tol=0).fit(X)
    assert m.converged_ and m.n_iter_ < 20


def test_04_weights_of_very_different_size():
    X = np.array([[0.0], [4], [2.2], [-1], [5]])
    w = np.array([1, 1, 1e-20, 9, 9])
    m = KMeans(3, init=[[2.0], [-2.5], [6.5]], tol=0).fit(X, sample_weight=w)
    assert np.isfinite(m.cluster_centers_).all() and m.labels_.tolist() == [1, 2, 0, 1, 2]


@pytest.mark.parametrize("d", [3, 8])
def test_05_predict_overflow_is_an_error(d):
    m = KMeans(2, random_state=0).fit(blobs(d))
    for call in (m.predict, m.score, m.transform):
        with pytest.raises(ValueError, match="overflow"):
            call(np.full((1, d), 1e200))


def test_06_weight_0_is_removal_with_tol():
    X = blobs(2)
    Z = np.vstack([X, [[1e6, 0]]])
    w = np.r_[np.ones(600), 0]
    a, b = KMeans(8, init=X[:8]).fit(X), KMeans(8, init=X[:8]).fit(Z, sample_weight=w)
    assert np.array_equal(a.labels_, b.labels_[:600])


@pytest.mark.parametrize("s", [1e6, 1e12])
def test_07_history_with_an_outlier(s):
    X = blobs(2)
    X[17] = s
    assert np.allclose(
        DPMeans(12.0, **P).fit(X).objective_history_, dp_means(X, 12.0)[4], rtol=1e-6
    )


def test_08_history_csr_far_from_origin():
    X = blobs(3) + 1e6
    h = KMeans(8, init=X[:8], tol=0).fit(sp.csr_array(X)).objective_history_
    assert (np.diff(h) <= 1e-9 * h[:-1]).all()


def test_09_csr_of_the_caller_is_not_changed():
    B = sp.csr_array((np.ones(6), [1, 0, 1, 1, 2, 0], [0, 3, 6]), shape=(2, 3))
    before = B.data.copy()
    for a in (B.data, B.indices, B.indptr):
        a.flags.writeable = False
    KMeans(2, init=np.eye(3)[:2]).fit(B)
    assert np.array_equal(B.data, before)


def test_10_farthest_first_csr():
    r = np.random.default_rng(0)
    for X in (
        r.integers(0, 200, size=(50, 4)).astype(np.uint8),
        (r.normal(size=(50, 4)) + 100).astype(np.float32),
    ):
        assert penalties.farthest_first(sp.csr_array(X), 3) == pytest.approx(
            farthest_first(X, 3), rel=1e-9
        )


def test_11_float32_steps_in_certificate():
    r = np.random.default_rng(3)
    h = r.normal(size=(300, 8)) * 1e-22
    X = np.vstack([np.zeros((1, 8)), h, -h, np.eye(8), -np.eye(8)])
    C = r.normal(size=(40, 8)) * 1e-22
    m = KMeans(1).fit(X)
    m.cluster_centers_ = C
    assert np.array_equal(m.predict(X), assign(X, C)[0])


def test_12_memory_of_late_openings():
    X = np.vstack([np.zeros((24000, 7)), np.random.default_rng(0).normal(size=(16000, 7))])
    tracemalloc.start()
    DPMeans(1e-6, max_iter=1, max_clusters=16000, **P).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6


def test_13_novel_before_fit():
    with pytest.raises(NotFittedError):
        DPMeans(1.0, **P).predict([[0.0]], novel=True)


def test_14_start_at_the_optimum_counts_as_in_sklearn():
    X = blobs(2, n=20)
    assert (
        KMeans(20, init=X, tol=0).fit(X).n_iter_ == SK(20, init=X, n_init=1, tol=0).fit(X).n_iter_
    )


def test_15_numpy_number_as_tol():
    assert KMeans(2, tol=np.float32(1e-4)).fit(blobs(2)).converged_


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rows_that_differ_by_rounding_come_to_an_end(metric, dtype):
    # Merges and moves of rows undid each other for ever, out of reach of Ctrl-C.
    r, eps = np.random.default_rng(0), np.finfo(dtype).eps
    X = np.ones((40, 5)) * (1 + 0.99 * eps * r.integers(-3, 4, (40, 5)))
    for factor in (1e-2, 1, 1e2):
        penalty = factor * 2 * float(eps) ** 2
        m = DPMeans(penalty, metric=metric, random_state=0).fit(X.astype(dtype))
        assert 1 <= m.n_clusters_ <= 40 and (np.diff(m.objective_history_) <= 0).all()


CLUSTERINGS = [
    KMeans(3, random_state=0),
    DPMeans(random_state=0),
    DPMeans(50.0, algorithm="paper"),
    CollapsedDPMeans(50.0, random_state=0),
    OnlineDPMeans(50.0),
    KernelDPMeans(kernel="linear", random_state=0),
    HardHDP(random_state=0),
]


@pytest.mark.parametrize("model", CLUSTERINGS, ids=lambda m: type(m).__name__)
def test_at_the_ends_of_float64(model):
    # OverflowError, ZeroDivisionError, NaN, an infinite penalty, "multiply X by inf"
    X = np.repeat(np.random.default_rng(0).normal(size=(3, 2)) * 8, 9, axis=0)
    X += np.random.default_rng(1).normal(size=X.shape)
    options = {"groups": np.arange(27) % 3} if isinstance(model, HardHDP) else {}
    fit = clone(model).fit(X * 1e149, **options)
    assert np.isfinite(fit.objective_) and 1 <= fit.n_clusters_ <= 27
    with pytest.raises(ValueError, match=r"overflow.*Divide X by, say, \d"):
        clone(model).fit(X * 1e160, **options)
    with pytest.raises(ValueError, match=r"underflow.*Multiply X by, say, \d"):
        clone(model).fit(X * 1e-320, **options)
    for weight in (1e-300, 1e-156, 1e156, 1e300):
        with pytest.raises(ValueError, match="sample_weight reaches 1e"):
            clone(model).fit(X, sample_weight=np.full(27, weight), **options)
    few = clone(model).fit(X, sample_weight=np.r_[1e-300, np.ones(26)], **options)
    assert np.isfinite(few.objective_) and np.isfinite(few.inertia_)


def damaged(n, kind):
    """A sparse matrix whose pattern points outside it, as scipy lets one make it."""
    X = sp.csr_array(np.random.default_rng(0).integers(1, 4, size=(n, n)) * 1.0)
    if kind == "column":
        X.indices[3] = 10**6
    elif kind == "negative":
        X.indices[3] = -5
    elif kind == "falling":
        X.indptr[2] = 1
    else:
        X.indptr[-1] = 10**6
    return X


@pytest.mark.parametrize("kind", ["column", "negative", "falling", "end"])
def test_sparse_matrices_that_point_outside_themselves_are_refused(kind):
    from madbayes import BPMeans, GraphCut, NeighborCut

    for model in (
        *(KMeans(2), DPMeans(), OnlineDPMeans(), KernelDPMeans(), HardHDP(), BPMeans()),
        *(GraphCut(), NeighborCut(), NeighborCut(metric="precomputed")),
        NeighborCut(metric="connectivities"),
    ):
        with pytest.raises(ValueError, match="point outside it"):
            model.fit(damaged(8, kind))
    with pytest.raises(ValueError, match="point outside it"):
        penalties.path(damaged(8, kind))
    fitted = KMeans(2).fit(np.eye(8))
    with pytest.raises(ValueError, match="point outside it"):
        fitted.predict(damaged(8, kind))


def test_a_grid_of_cells_without_a_length():
    """0/0 as an index would be written to anywhere."""
    from madbayes.graph.curve_kernels import CELLS, thin

    X = np.ones((5, 2))
    head, after = np.full((CELLS, CELLS), -1, np.int64), np.zeros(5, np.int64)
    assert thin(X, 0.0, head, after, np.zeros(5, np.int64)) == 1


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_no_warnings_of_numpy():
    """Each of these once warned of an overflow or of a division by zero."""
    from madbayes import DPMeans, EllipticalMeans, SpectralDPMeans
    from madbayes._search.number import between
    from madbayes.plots._palette import assign_colors

    r = np.random.default_rng(0)
    DPMeans(random_state=0).fit(r.normal(size=(2, 57)))
    DPMeans(random_state=0).fit(np.ones((17, 229)))
    SpectralDPMeans(random_state=0).fit(r.normal(size=(1, 46)))
    EllipticalMeans(3, random_state=0).fit(np.r_[r.normal(size=(30, 2)), [[1e6, 1e6]]])
    assert 1e-320 < between(1e-320, 1e300, None, 1e300) < 1e300
    top = np.finfo(np.float32).max / 2
    wide = np.repeat([[top], [-top]], 20, axis=0).astype(np.float32) * np.ones(9, np.float32)
    gaps = DPMeans(random_state=0).fit(wide).transform(wide)
    assert np.isfinite(gaps).all()
    assert gaps.dtype == (np.float64 if gaps.max() > np.finfo(np.float32).max else np.float32)
    for far in (1e10, 1e308):
        colors = assign_colors(np.array([[far, -far], [far, far], [far, 0.0]]))
        assert len(set(colors)) == 3
    assert assign_colors(np.empty((0, 2))) == []


@pytest.mark.parametrize("algorithm", ["paper", "search"])
def test_penalties_of_float32_rows_that_cannot_be_squared(algorithm):
    X = (np.random.default_rng(0).integers(-3, 4, size=(15, 2)) * 5e37).astype(np.float32)
    model = HardHDP(algorithm=algorithm, random_state=0).fit(X, groups=np.arange(15) % 3)
    assert np.isfinite(model.objective_)
