"""SpectralDPMeans: a bound that holds, and a clustering near those of the searches."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from reference.kernel_dp_means import fast_objective, lowest_neighbour
from reference.partitions import lowest_objective
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_iris, make_circles, make_moons
from sklearn.metrics import normalized_mutual_info_score
from sklearn.metrics.pairwise import pairwise_kernels

import madbayes.kernel.spectral as algorithm
import madbayes.kernel.spectral_dp_means as module
import madbayes.kernel.spectrum as spectrum
from madbayes import DPMeans, KernelDPMeans, SpectralDPMeans
from madbayes.plots import spectrum as draw


def blobs(n, d, k, seed, apart=4):
    r = np.random.default_rng(seed)
    return (r.normal(size=(k, d)) * apart)[r.integers(0, k, n)] + r.normal(size=(n, d))


def centred(K, w):
    """W^½ H K H W^½, as written."""
    H = np.eye(len(K)) - np.outer(np.ones(len(K)), w) / w.sum()
    return np.sqrt(w)[:, None] * (H @ K @ H.T) * np.sqrt(w)


# The bound and the spectrum


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_bound_is_below_the_optimum_of_small_problems(kernel):
    r = np.random.RandomState(0)
    tight = 0
    for _ in range(30):
        n, d = r.randint(1, 9), r.randint(1, 10)
        X, w = r.randn(n, d) * r.uniform(0.2, 3), r.choice([1.0, 1.0, 0.5, 2.0], n)
        K = pairwise_kernels(X, metric=kernel, **({"gamma": 0.3} if kernel == "rbf" else {}))
        value, vector = np.linalg.eigh(K)
        penalty = np.trace(K) * 10 ** r.uniform(-2, 0) + 1e-6
        best = lowest_objective(vector * np.sqrt(np.maximum(value, 0)), penalty, w, n)
        model = SpectralDPMeans(penalty, kernel=kernel, gamma=0.3, random_state=0, n_jobs=1)
        model.fit(X, sample_weight=w)
        assert model.relaxed_bound_ <= best * (1 + 1e-9)
        assert model.objective_ >= best * (1 - 1e-9)
        tight += model.gap_ < 1e-9
        assert model.gap_ == pytest.approx(1 - model.relaxed_bound_ / model.objective_, abs=1e-12)
    assert tight >= 3  # where it proves the optimum


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf", "gamma": 0.1}])
@pytest.mark.parametrize("weighted", [False, True])
def test_eigenvalues_and_embedding(options, weighted, monkeypatch):
    X = blobs(90, 6, 4, seed=0)
    w = np.random.default_rng(0).uniform(0.2, 3, 90) if weighted else np.ones(90)
    K = pairwise_kernels(
        X, metric=options.get("kernel", "linear"), **({"gamma": 0.1} if options else {})
    )
    expected = np.linalg.eigvalsh(centred(K, w))[::-1]
    penalty = float(expected[2:4].mean())
    model = SpectralDPMeans(penalty, random_state=0, **options).fit(X, sample_weight=w)
    np.testing.assert_allclose(model.eigenvalues_, expected[:3], rtol=1e-9)
    np.testing.assert_allclose(model.spectrum_[:3], model.eigenvalues_)
    Y = model.embedding_ * np.sqrt(w)[:, None]
    np.testing.assert_allclose(Y.T @ Y, np.eye(3), atol=1e-9)
    np.testing.assert_allclose(centred(K, w) @ Y, Y * model.eigenvalues_, atol=1e-6)
    trace = np.trace(centred(K, w))
    bound = trace + penalty - (expected[:3] - penalty).sum()
    assert model.relaxed_bound_ == pytest.approx(bound)
    monkeypatch.setattr(algorithm, "DENSE", 10)  # Lanczos instead
    other = SpectralDPMeans(penalty, random_state=0, **options).fit(X, sample_weight=w)
    np.testing.assert_allclose(other.eigenvalues_, expected[:3], rtol=1e-9)
    assert other.objective_ == pytest.approx(model.objective_)


def test_more_columns_than_rows():
    X = blobs(30, 200, 3, seed=1)
    model = SpectralDPMeans(400.0, random_state=0).fit(X)
    expected = np.linalg.eigvalsh(centred(X @ X.T, np.ones(30)))[::-1]
    np.testing.assert_allclose(model.eigenvalues_, expected[expected > 400.0])


def test_lanczos_finds_every_copy():
    r = np.random.default_rng(0)
    values = np.r_[np.repeat(5.0, 30), np.repeat(2.0, 25), r.uniform(0, 1, 245)]
    Q = np.linalg.qr(r.normal(size=(300, 300)))[0]
    A = (Q * values) @ Q.T
    for threshold, count in ((3.0, 30), (1.5, 55), (6.0, 0)):
        found, vectors = spectrum.lanczos_spectrum(
            lambda x: A @ x, 300, threshold, np.random.RandomState(0)
        )
        np.testing.assert_allclose(found[:count], values[:count])
        assert (found[count:] <= threshold).all()
        assert vectors.shape == (300, count)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(count), atol=1e-9)


def test_centring_matters():
    """A shift of the data changes nothing, and is not taken for a cluster."""
    X = blobs(200, 3, 1, seed=2)
    for shift in (0.0, 10.0, 1e6):
        model = SpectralDPMeans(1000.0, random_state=0).fit(X + shift)
        assert (model.n_clusters_, len(model.eigenvalues_)) == (1, 0)
        assert model.gap_ == pytest.approx(0, abs=1e-9)
    raw = np.linalg.eigvalsh((X + 10) @ (X + 10).T)  # as printed, without centring
    assert (raw > 1000.0).sum() == 1


# The clustering


@pytest.mark.parametrize("penalty", [30.0, 100.0, 400.0])
@pytest.mark.parametrize("seed", range(3))
def test_near_the_search(penalty, seed):
    X = blobs(400, 10, 8, seed)
    model = SpectralDPMeans(penalty, random_state=0).fit(X)
    found = DPMeans(penalty, random_state=0).fit(X)
    assert model.relaxed_bound_ <= found.objective_ * (1 + 1e-12)
    assert model.objective_ <= found.objective_ * 1.02
    assert (np.diff(model.objective_history_) <= 0).all()
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    assert model.score(X) == pytest.approx(-model.inertia_)


def test_iris_near_the_search():
    X = load_iris().data
    for penalty in (5.0, 20.0, 100.0):
        model = SpectralDPMeans(penalty, random_state=0).fit(X)
        found = DPMeans(penalty, random_state=0).fit(X)
        assert found.objective_ * (1 - 1e-9) <= model.objective_ <= found.objective_ * 1.05


@pytest.mark.parametrize("seed", range(6))
def test_no_single_move_is_left(seed):
    X = blobs(40, 3, 4, seed)
    w = np.random.default_rng(seed).uniform(0.2, 3, 40)
    K = pairwise_kernels(X, metric="rbf", gamma=0.1)
    penalty = [0.3, 1.0, 3.0][seed % 3]
    cap = None if seed % 2 else 3
    model = SpectralDPMeans(penalty, kernel="rbf", gamma=0.1, max_clusters=cap, random_state=0)
    model.fit(X, sample_weight=w)
    assert model.n_clusters_ <= (cap or 40)
    assert model.objective_ == pytest.approx(fast_objective(K, model.labels_, penalty, w))
    lowest = lowest_neighbour(K, model.labels_, penalty, w, cap or 40)
    assert lowest >= model.objective_ * (1 - 1e-8)
    np.testing.assert_array_equal(model.predict(X), model.labels_)


def test_a_ring_around_a_ring():
    X, truth = make_circles(300, factor=0.2, noise=0.03, random_state=0)
    model = SpectralDPMeans(30.0, kernel="rbf", gamma=3.0, random_state=0).fit(X)
    assert normalized_mutual_info_score(truth, model.labels_) == 1
    searched = KernelDPMeans(30.0, gamma=3.0, random_state=0).fit(X)
    assert model.objective_ == pytest.approx(searched.objective_)


@pytest.mark.parametrize("name", ["circles", "moons", "noise"])
def test_neighbours(name):
    r = np.random.default_rng(0)
    X, truth = {
        "circles": lambda: make_circles(500, factor=0.5, noise=0.05, random_state=0),
        "moons": lambda: make_moons(500, noise=0.06, random_state=0),
        "noise": lambda: (r.normal(size=(500, 2)), np.zeros(500, int)),
    }[name]()
    model = SpectralDPMeans(kernel="nearest_neighbors", random_state=0).fit(X)
    assert normalized_mutual_info_score(truth, model.labels_) == 1
    assert model.n_clusters_ == truth.max() + 1
    assert 0 < model.penalty_ < 1
    for method in (model.predict, model.transform, model.score):
        with pytest.raises(AttributeError, match=r"kernel='nearest_neighbors'.*fit_predict"):
            method(X)
    if name != "noise":
        peer = SpectralClustering(2, affinity="nearest_neighbors", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a graph in two pieces
            peer.fit(X)
        assert normalized_mutual_info_score(peer.labels_, model.labels_) > 0.95


def test_sparse_kernels():
    X = blobs(150, 2, 3, seed=4, apart=8)
    K = pairwise_kernels(X, metric="rbf", gamma=0.2)
    K[K < 1e-3] = 0.0
    dense = SpectralDPMeans(4.0, kernel="precomputed", random_state=0).fit(K)
    thin = SpectralDPMeans(4.0, kernel="precomputed", random_state=0).fit(sp.csr_matrix(K))
    np.testing.assert_allclose(thin.eigenvalues_, dense.eigenvalues_)
    assert thin.objective_ == pytest.approx(dense.objective_)
    assert thin.relaxed_bound_ == pytest.approx(dense.relaxed_bound_)


def test_weights_repeat_rows():
    X = blobs(60, 3, 3, seed=5)
    w = np.random.default_rng(0).integers(0, 4, 60)
    for options in ({"penalty": 60.0}, {"penalty": 2.0, "kernel": "rbf", "gamma": 0.1}):
        model = SpectralDPMeans(random_state=0, **options).fit(X, sample_weight=w)
        again = SpectralDPMeans(random_state=0, **options).fit(np.repeat(X, w, axis=0))
        np.testing.assert_allclose(model.eigenvalues_, again.eigenvalues_)
        assert model.relaxed_bound_ == pytest.approx(again.relaxed_bound_)
        assert model.objective_ == pytest.approx(again.objective_, rel=0.01)
    graph = SpectralDPMeans(0.9, kernel="nearest_neighbors", random_state=0)
    assert graph.fit(X, sample_weight=w).labels_.shape == (60,)


def test_same_result_for_any_number_of_threads():
    X = blobs(3000, 8, 6, seed=6)
    one = SpectralDPMeans(random_state=0, n_jobs=1).fit(X)
    two = SpectralDPMeans(random_state=0, n_jobs=2).fit(X)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    assert one.objective_ == two.objective_
    assert one.relaxed_bound_ == two.relaxed_bound_


def test_degenerate():
    for X in (np.zeros((1, 2)), np.full((7, 3), 1e6 + 0.1), np.repeat(np.eye(3), 5, axis=0)):
        for kernel in ("linear", "rbf", "nearest_neighbors"):
            model = SpectralDPMeans(kernel=kernel, random_state=0).fit(X)
            assert model.relaxed_bound_ <= model.objective_ * (1 + 1e-9)
        assert SpectralDPMeans(1e9, random_state=0).fit(X).n_clusters_ == 1
        few = SpectralDPMeans(1e-6, random_state=0).fit(X)
        assert few.n_clusters_ == len(np.unique(X, axis=0))


def test_errors(monkeypatch):
    X = blobs(30, 2, 2, seed=0)
    monkeypatch.setattr(module, "HELD_ROWS", 20)
    with pytest.raises(ValueError, match=r"30 rows.*Nystroem.*nearest_neighbors"):
        SpectralDPMeans(1.0, kernel="rbf").fit(X)
    with pytest.raises(ValueError, match="n_neighbors=0"):
        SpectralDPMeans(kernel="nearest_neighbors", n_neighbors=0).fit(X)
    with pytest.raises(TypeError, match="penalty='farthest-first' must be"):
        SpectralDPMeans("farthest-first").fit(X)


# The picture


@pytest.mark.parametrize("penalty", [1e-3, 50.0, 1e9])
def test_spectrum(penalty, tmp_path):
    model = SpectralDPMeans(penalty, random_state=0).fit(blobs(60, 4, 3, seed=0))
    ax = draw(model)
    r = len(model.eigenvalues_)
    assert f"{r} eigenvalue" in ax.get_title(loc="left")
    assert f"{model.penalty_:.3g}" in " ".join(text.get_text() for text in ax.texts)
    drawn = sum(len(c.get_offsets()) for c in ax.collections if len(c.get_offsets()))
    assert drawn >= len(model.spectrum_[: max(r, 1)]) or len(model.spectrum_) == 0
    ax.figure.savefig(tmp_path / "spectrum.png")


@pytest.mark.skipif(not spectrum.SEEDED, reason="ARPACK takes no seed before SciPy 1.17")
def test_an_embedding_of_few_different_rows_repeats_to_the_bit():
    r = np.random.default_rng(0)
    X = r.normal(size=(4, 3))[r.integers(4, size=1100)]  # Lanczos' vectors span the whole range
    first, second = (
        SpectralDPMeans(penalty=5.0, kernel="rbf", random_state=0).fit(X).embedding_
        for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)
