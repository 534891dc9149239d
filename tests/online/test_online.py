"""OnlineKMeans and OnlineDPMeans: the plain loop over rows, however they are cut into blocks."""

import math
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.online import online as plain
from sklearn.exceptions import ConvergenceWarning

import madbayes.online.stream as module
from madbayes import DPMeans, KMeans, OnlineDPMeans, OnlineKMeans, penalties
from madbayes.online import auto as online_auto


def blobs(n, d, k, seed):
    r = np.random.default_rng(seed)
    return (r.normal(size=(k, d)) * 4)[r.integers(0, k, n)] + r.normal(size=(n, d))


def feed(model, X, weight=None, cuts=(), again=False):
    """`partial_fit` in blocks that end at `cuts`, pickled between them; labels of all rows."""
    labels = []
    for a, b in zip([0, *cuts], [*cuts, len(X)], strict=True):
        model.partial_fit(X[a:b], sample_weight=None if weight is None else weight[a:b])
        labels.append(model.labels_)
        if again:
            model = pickle.loads(pickle.dumps(model))
    return model, np.concatenate(labels)


def check_against_plain(model, labels, expected):
    found, clusters, _ = expected
    np.testing.assert_array_equal(labels, found)
    np.testing.assert_array_equal(
        getattr(model, "cluster_ids_", np.arange(model.n_clusters_)), [c["id"] for c in clusters]
    )
    means = np.array([c["mean"] for c in clusters])
    if getattr(model, "metric", "") == "cosine":
        means /= np.linalg.norm(means, axis=1)[:, None]
    np.testing.assert_allclose(model.cluster_centers_, means, rtol=1e-6, atol=1e-9)


OPTIONS = [
    {},
    {"max_clusters": 6},
    {"step": 0.1},
    {"half_life": 40.0},
    {"merge_every": 25},
    {"forget_after": 60},
    {"merge_every": 10, "forget_after": 30, "half_life": 20.0, "max_clusters": 9},
]


@pytest.mark.parametrize("d", [1, 3, 7, 40])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_row_for_row_the_plain_loop(d, options, weighted):
    X = blobs(400, d, 8, seed=d)
    X = X + np.arange(400)[:, None] / 100  # a drifting stream
    weight = np.random.default_rng(0).integers(0, 4, 400) / 2 if weighted else None
    model, labels = feed(OnlineDPMeans(6.0 * d, **options), X, weight, cuts=(3, 120, 300))
    expected = plain(X, 6.0 * d, weight, **options)
    check_against_plain(model, labels, expected)
    assert model.n_samples_seen_ == (400 if weight is None else np.count_nonzero(weight))
    half_life = options.get("half_life")
    decay = [
        c["W"] * (0.5 ** ((model.n_samples_seen_ - c["last"]) / half_life) if half_life else 1.0)
        for c in expected[1]
    ]
    np.testing.assert_allclose(model.counts_, decay)


def test_the_options_do_something():
    X = blobs(400, 3, 8, seed=3) + np.arange(400)[:, None] / 100
    free, capped, merged, forgetful = (
        feed(OnlineDPMeans(18.0, **options), X)[0]
        for options in ({}, {"max_clusters": 6}, {"merge_every": 25}, {"forget_after": 60})
    )
    assert free.n_clusters_ > 6 == capped.n_clusters_
    np.testing.assert_array_equal(free.cluster_ids_, np.arange(free.n_clusters_))
    for model in (merged, forgetful):
        assert model.n_clusters_ <= model.cluster_ids_[-1]  # some numbers are gone
        assert (np.diff(model.cluster_ids_) > 0).all()
        assert set(model.predict(X)) <= set(model.cluster_ids_)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("d", [2, 30])
def test_blocks_and_pickles_change_no_bit(options, d):
    X = blobs(700, d, 10, seed=1) + 1e6
    expected, labels = feed(OnlineDPMeans(3.0 * d, **options), X)
    for cuts in (range(1, 150), range(7, 700, 7), (1, 2, 350, 699)):
        if len(cuts) > 100 and options:
            continue
        model, found = feed(OnlineDPMeans(3.0 * d, **options), X, cuts=cuts, again=True)
        np.testing.assert_array_equal(found, labels)
        np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
        np.testing.assert_array_equal(model.counts_, expected.counts_)
        np.testing.assert_array_equal(model.cluster_ids_, expected.cluster_ids_)
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("k", [1, 5, 40])
@pytest.mark.parametrize("d", [2, 30])
@pytest.mark.parametrize("kind", ["plain", "rounded", "float32", "far"])
def test_online_kmeans_is_the_plain_loop(k, d, kind):
    X = blobs(300, d, 5, seed=2)
    if kind == "rounded":
        X = np.round(X / 3)
        X[:60] = X[0]  # the first distinct rows are not the first rows
    elif kind == "float32":
        X = X.astype(np.float32)
    elif kind == "far":
        X = X + 1e6
    model, labels = feed(OnlineKMeans(k, init="first"), X, cuts=(1, 2, 50, 200))
    expected = plain(X, 0.0, max_clusters=k)
    check_against_plain(model, labels, expected)
    np.testing.assert_allclose(model.counts_, np.bincount(labels))
    for c in range(model.n_clusters_):  # each centre is the mean of the rows that came to it
        mean = X[labels == c].astype(float).mean(axis=0)
        np.testing.assert_allclose(model.cluster_centers_[c], mean, rtol=1e-6, atol=1e-9)
    fitted = OnlineKMeans(k, init="first").fit(X)
    np.testing.assert_array_equal(fitted.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(fitted.labels_, model.predict(X))
    assert fitted.inertia_ == fitted.objective_ == pytest.approx(-model.score(X))


def test_products_only_save_work(monkeypatch):
    X = blobs(3000, 20, 30, seed=5)
    for model in (
        OnlineKMeans(50, init="first"),
        OnlineKMeans(50, init="first", step=0.3),
        OnlineDPMeans(15.0),
    ):
        by_products, labels = feed(model, X, cuts=(100,))
        with monkeypatch.context() as patch:
            patch.setattr(module, "MANY_VALUES", 10**9)
            direct, expected = feed(type(model)(**model.get_params()), X)
        np.testing.assert_array_equal(labels, expected)
        np.testing.assert_array_equal(by_products.cluster_centers_, direct.cluster_centers_)


def test_products_of_rows_of_very_different_size_leave_no_doubt():
    r = np.random.default_rng(0)
    X = r.normal(size=(400, 16)) * 10.0 ** r.integers(-12, 6, (400, 1))
    _, labels = feed(OnlineKMeans(60, init="first"), X)
    np.testing.assert_array_equal(labels, plain(X, 0.0, max_clusters=60)[0])


def test_one_cluster_is_the_running_mean():
    r = np.random.default_rng(0)
    X = r.normal(size=(300_000, 2)) + np.array([1e6, 0.0])
    model = OnlineKMeans(1, init="first")
    for block in np.array_split(X, 13):
        model.partial_fit(block)
    exact = [math.fsum(X[:, j]) / len(X) for j in range(2)]
    np.testing.assert_allclose(model.cluster_centers_[0], exact, rtol=2e-16, atol=1e-16)
    assert model.counts_.tolist() == [300_000]


def test_half_life_is_the_weighted_mean():
    X = np.random.default_rng(0).normal(size=(200, 3))
    model = OnlineDPMeans(1e9, half_life=30.0).partial_fit(X)
    age = 199 - np.arange(200)
    share = 0.5 ** (age / 30.0)
    np.testing.assert_allclose(model.cluster_centers_[0], share @ X / share.sum())
    np.testing.assert_allclose(model.counts_, share.sum())


def test_weights_repeat_rows():
    X = blobs(60, 2, 3, seed=0)
    times = np.random.default_rng(0).integers(0, 4, 60)
    for options in ({}, {"step": 0.2}):
        init = X[:4]
        weighted = OnlineKMeans(4, init=init, **options).partial_fit(X, sample_weight=times * 1.0)
        repeated = OnlineKMeans(4, init=init, **options).partial_fit(np.repeat(X, times, axis=0))
        if options:  # a row moves its centre nearer: the next equal one goes there too
            np.testing.assert_allclose(weighted.cluster_centers_, repeated.cluster_centers_)
        np.testing.assert_allclose(weighted.counts_, repeated.counts_)
    # w·d² decides: 2·3² > 17 > 3²
    assert OnlineDPMeans(17.0).partial_fit([[0.0], [3.0]], sample_weight=[1, 2]).n_clusters_ == 2
    assert OnlineDPMeans(17.0).partial_fit([[0.0], [3.0]], sample_weight=[2, 1]).n_clusters_ == 1
    late = OnlineDPMeans(1.0).partial_fit([[5.0], [0.0], [5.0]], sample_weight=[0, 1, 1])
    assert late.labels_.tolist() == [1, 0, 1] and late.n_samples_seen_ == 2


def test_fit_starts_afresh_and_partial_fit_goes_on():
    X = blobs(200, 2, 3, seed=0)
    model = OnlineDPMeans(20.0).fit(X)
    centers = model.cluster_centers_
    np.testing.assert_array_equal(model.fit(X).cluster_centers_, centers)
    assert model.n_samples_seen_ == 200
    assert model.objective_ == pytest.approx(model.inertia_ + 20.0 * model.n_clusters_)
    model.partial_fit(X)
    twice = OnlineDPMeans(20.0, n_passes=2).fit(X)
    np.testing.assert_array_equal(twice.cluster_centers_, model.cluster_centers_)
    assert twice.n_samples_seen_ == 400
    novel = model.predict([*X, [1e3, 0.0]], novel=True)
    assert novel[-1] == -1 and (novel[:-1] == model.predict(X)).mean() > 0.9
    permutation = np.random.RandomState(3).permutation(200)
    shuffled = OnlineKMeans(4, init="first", order="random", random_state=3).fit(X)
    ordered = OnlineKMeans(4, init="first").fit(X[permutation])
    np.testing.assert_array_equal(shuffled.cluster_centers_, ordered.cluster_centers_)
    np.testing.assert_array_equal(shuffled.labels_[permutation], ordered.labels_)


def test_error_on_arrival():
    X = blobs(200, 3, 3, seed=0)
    model = OnlineKMeans(3, init="first")
    first = model.partial_fit(X[:100]).inertia_
    second = model.partial_fit(X[100:]).inertia_
    assert first + second == pytest.approx(plain(X, 0.0, max_clusters=3)[2])


def test_starts_of_online_kmeans():
    X = blobs(3000, 2, 6, seed=4)
    best = KMeans(6, n_init=5, random_state=0).fit(X).inertia_
    drawn = OnlineKMeans(6, init="k-means++", n_passes=3, random_state=0).fit(X)
    assert best * (1 - 1e-9) <= drawn.inertia_ <= 1.2 * best
    given_ = OnlineKMeans(2, init=[[0.0, 0], [9, 9]]).partial_fit([[1.0, 1]])
    assert given_.cluster_centers_.tolist() == [[1, 1], [9, 9]]
    assert given_.counts_.tolist() == [1, 0]
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\).*n_clusters \(3\)"):
        OnlineKMeans(3).fit([[0.0], [0.0], [1.0]])
    early = OnlineKMeans(3).partial_fit([[0.0], [0.0], [1.0]])
    assert early.n_clusters_ == 2 and early.predict([[0.9]]).tolist() == [1]
    assert early.partial_fit([[1.0], [0.4]]).n_clusters_ == 3


@pytest.mark.parametrize("half_life", [None, 300.0])
def test_a_searched_start(half_life):
    X = blobs(3000, 2, 6, seed=4)
    best = KMeans(6, algorithm="search", random_state=0).fit(X)
    model = OnlineKMeans(6, half_life=half_life, random_state=0).fit(X)
    assert model.inertia_ <= 1.05 * best.inertia_
    assert model.n_samples_seen_ == 3000
    assert half_life or model.counts_.sum() == pytest.approx(3000)
    parts = OnlineKMeans(6, half_life=half_life, random_state=0)
    for a in range(0, 3000, 500):
        parts.partial_fit(X[a : a + 500])
    assert -parts.score(X) <= 1.1 * best.inertia_
    assert parts.n_samples_seen_ == 3000
    assert half_life or parts.counts_.sum() == pytest.approx(3000)
    weight = np.repeat([1.0, 0.0], 1500)
    halved = OnlineKMeans(6, random_state=0).fit(X, sample_weight=weight)
    assert halved.counts_.sum() == pytest.approx(1500)
    shuffled = OnlineKMeans(6, order="random", n_passes=2, random_state=0).fit(X)
    assert shuffled.counts_.sum() == pytest.approx(6000)


def test_sparse_integers_and_float32():
    X = np.round(blobs(200, 12, 4, seed=0)).astype(np.int8)
    X[np.abs(X) < 2] = 0
    expected = OnlineDPMeans(40.0).partial_fit(X.astype(float))
    for table in (X, sp.csr_matrix(X), np.asfortranarray(X), X.astype(np.float32)):
        model = OnlineDPMeans(40.0).partial_fit(table)
        np.testing.assert_array_equal(model.labels_, expected.labels_)
        np.testing.assert_allclose(model.cluster_centers_, expected.cluster_centers_, rtol=1e-6)
    single = OnlineKMeans(3, init="first").fit(X.astype(np.float32))
    assert single.cluster_centers_.dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("d", [2, 30])
def test_cosine_is_the_plain_loop(d):
    X = blobs(400, d, 6, seed=d) * np.random.default_rng(0).uniform(0.1, 10, (400, 1))
    model, labels = feed(OnlineDPMeans(0.7, metric="cosine"), X, cuts=(5, 100))
    check_against_plain(model, labels, plain(X, 0.7, cosine=True))
    assert model.n_clusters_ > 3
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1.0)
    squared = 2 * (1 - unit @ model.cluster_centers_.T)
    np.testing.assert_allclose(model.transform(X) ** 2, squared, atol=1e-9)
    np.testing.assert_array_equal(model.predict(3 * X), np.argmin(squared, axis=1))
    novel = np.where(squared.min(axis=1) > 0.7, -1, model.predict(X))
    np.testing.assert_array_equal(model.predict(X, novel="paper"), novel)
    sparse = OnlineDPMeans(0.7, metric="cosine").fit(sp.csr_matrix(X))
    dense = OnlineDPMeans(0.7, metric="cosine").fit(X)
    np.testing.assert_array_equal(sparse.labels_, dense.labels_)
    assert dense.inertia_ == pytest.approx(squared.min(axis=1).sum())
    before = model.n_samples_seen_
    with pytest.warns(UserWarning, match="are all zeros"):
        model.partial_fit(np.eye(3, d) * [[1], [0], [1]])
    assert model.n_samples_seen_ == before + min(d - 1, 2)
    opposite = OnlineDPMeans(4.5, metric="cosine").partial_fit([[2.0, 0], [-3, 0]])
    assert opposite.cluster_centers_.tolist() == [[1, 0]]


def test_farthest_first():
    X = blobs(100, 2, 4, seed=0)
    model = OnlineDPMeans("farthest-first", n_clusters_hint=4).partial_fit(X)
    assert model.penalty_ == penalties.farthest_first(X, 4)
    model.partial_fit(2 * X)
    assert model.penalty_ == penalties.farthest_first(X, 4)
    assert OnlineDPMeans("farthest-first", n_clusters_hint=4, metric="cosine").fit(X).penalty_ < 4


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 3), st.integers(1, 300))
def test_properties(seed, n, d, penalty):
    r = np.random.default_rng(seed)
    X = 6 * r.normal(size=(n, d))[r.integers(0, n, n)]  # some twice, and never two distances equal
    model = OnlineDPMeans(penalty).partial_fit(X)
    assert model.counts_.sum() == pytest.approx(n)
    np.testing.assert_allclose(model.counts_ @ model.cluster_centers_, X.sum(axis=0), atol=1e-9)
    shifted = OnlineDPMeans(4 * penalty).partial_fit(2 * X + 64)
    np.testing.assert_array_equal(shifted.labels_, model.labels_)
    assert OnlineDPMeans(1e9).partial_fit(X).n_clusters_ == 1
    assert OnlineDPMeans(1e-9).partial_fit(X).n_clusters_ == len(np.unique(X, axis=0))


X = blobs(40, 3, 3, seed=0)


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (OnlineKMeans(0), "n_clusters=0"),
        (OnlineKMeans(41), "n_clusters=41 must be <= n_samples=40"),
        (OnlineKMeans(2, init="best"), "init='best'"),
        (OnlineKMeans(2, init=X[:3]), r"init has shape \(3, 3\)"),
        (OnlineKMeans(2, init=X[:2] * np.nan), "init contains NaN"),
        (OnlineKMeans(2, step=0.0), r"step=0.0 must be 'mean' or a number in \(0, 1\]"),
        (OnlineKMeans(2, step="big"), "step='big'"),
        (OnlineKMeans(2, step=None), "step=None"),
        (OnlineKMeans(2, half_life=-1), "half_life=-1"),
        (OnlineKMeans(2, half_life="1"), "half_life='1'"),
        (OnlineKMeans(2, half_life=9, step=0.1), "give one of them"),
        (OnlineKMeans(2, n_passes=0), "n_passes=0"),
        (OnlineKMeans(2, order="up"), "order='up'"),
        (OnlineDPMeans("farthest-first"), "needs n_clusters_hint"),
        (OnlineDPMeans(-1.0), "penalty=-1.0"),
        (OnlineDPMeans(1.0, max_clusters=0), "max_clusters=0"),
        (OnlineDPMeans(1.0, metric="l1"), "metric='l1'"),
        (OnlineDPMeans(1.0, merge_every=0), "merge_every=0.*None switches it off"),
        (OnlineDPMeans(1.0, forget_after=0), "forget_after=0.*None switches it off"),
        (OnlineDPMeans(1.0, metric="cosine", merge_every=9), "merge_every=9.*metric='euclidean'"),
    ],
    ids=str,
)
def test_bad_parameters(model, says):
    with pytest.raises(ValueError, match=says):
        model.fit(X)


def test_a_bad_block_changes_nothing():
    model = OnlineDPMeans(9.0).partial_fit(X)
    before = pickle.dumps(model)
    for bad, says in (
        (X * np.nan, "NaN"),
        (X[:, :2], "2 features"),
        (X * 1e200, "overflow"),
        (X[:1] * 1e200, "overflow"),
        (np.empty((0, 3)), "0 sample"),
    ):
        with pytest.raises(ValueError, match=says):
            model.partial_fit(bad)
        assert pickle.dumps(model) == before
    small = OnlineKMeans(9, init="k-means++")
    with pytest.raises(ValueError, match=r"Begin with a larger block, or use init='first'"):
        small.partial_fit(X[:5])
    assert small.partial_fit(X).n_clusters_ == 9


@pytest.mark.parametrize("model", [OnlineKMeans(3), OnlineDPMeans(5.0)])
def test_named_columns_are_no_reason_to_warn(model):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(50, 2)), columns=["a", "b"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(table).n_clusters_ == model.partial_fit(table).n_clusters_


def test_rows_at_once_change_nothing(monkeypatch):
    X = np.random.default_rng(0).normal(size=(300, 3))
    options = {"merge_every": 70, "forget_after": 90}
    before = OnlineDPMeans(1.0, **options).fit(X)
    monkeypatch.setattr("madbayes.online.stream.DIFFERENCES_AT_ONCE", 20)
    after = OnlineDPMeans(1.0, **options).fit(X)
    np.testing.assert_array_equal(before.labels_, after.labels_)
    np.testing.assert_array_equal(before.cluster_centers_, after.cluster_centers_)


def test_small_blocks_end_where_one_large_block_does():
    X = blobs(6000, 12, 30, 3)
    whole = OnlineKMeans(30, random_state=0).partial_fit(X)
    for weight in (None, np.ones(6000)):
        small, labels = feed(
            OnlineKMeans(30, random_state=0), X, weight, cuts=range(200, 6000, 200), again=True
        )
        order = np.lexsort(small.cluster_centers_.T), np.lexsort(whole.cluster_centers_.T)
        np.testing.assert_allclose(
            small.cluster_centers_[order[0]], whole.cluster_centers_[order[1]], rtol=1e-9
        )
        assert small.counts_.sum() == small.n_samples_seen_ == 6000
        kept = labels[2000:4096] == small.predict(X[2000:4096])  # numbers are carried over
        assert kept.mean() > 0.8
    # The search comes at the same row, however the rows are cut into blocks of which the first is
    # the same.
    other, _ = feed(OnlineKMeans(30, random_state=0), X, cuts=(200, 4095, 4096, 4100))
    np.testing.assert_array_equal(other.cluster_centers_, small.cluster_centers_)


# "auto"


def groups(n, k=5, d=3, seed=0):
    r = np.random.default_rng(seed)
    centers = r.uniform(-25, 25, (k, d))
    truth = r.integers(0, k, n)
    return centers[truth] + r.normal(size=(n, d)), truth


def test_auto_answers_what_dp_means_would():
    X, _ = groups(9000)
    model = OnlineDPMeans(random_state=0)
    for block in np.array_split(X, 9):
        model.partial_fit(block)
    whole = DPMeans(random_state=0).fit(X)
    assert model.n_clusters_ == model.evidence_.n_clusters == whole.n_clusters_ == 5
    assert -model.score(X) <= 1.01 * whole.inertia_
    assert model.n_samples_seen_ == 9000
    assert model.counts_.sum() == pytest.approx(9000)
    summary = model._summary
    assert len(summary.points) + len(summary.sample) < 9000 + 4096  # bounded, whatever comes
    assert len(summary.sample) <= online_auto.SAMPLE


def test_auto_keeps_the_numbers_of_old_clusters():
    X, truth = groups(4000)
    model = OnlineDPMeans(random_state=0)
    model.partial_fit(X[truth < 4])
    before = dict(zip(model.cluster_ids_.tolist(), model.cluster_centers_, strict=True))
    assert sorted(before) == [0, 1, 2, 3]
    model.partial_fit(X)
    assert sorted(model.cluster_ids_.tolist()) == [0, 1, 2, 3, 4]
    for number, center in zip(
        model.cluster_ids_[:4].tolist(), model.cluster_centers_, strict=False
    ):
        assert np.linalg.norm(center - before[number]) < 1.0


def test_auto_forgets_what_is_long_gone():
    X, truth = groups(6000)
    early, late = X[truth < 3][:2000], X[truth >= 3][:2000]
    model = OnlineDPMeans(half_life=200.0, random_state=0)
    for block in [*np.array_split(early, 4), *np.array_split(late, 8)]:
        model.partial_fit(block)
    assert model.n_clusters_ == 2
    assert set(model.predict(late)) == set(model.cluster_ids_)


def test_a_fit_leaves_nothing_of_the_novelty_of_an_earlier_one():
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = OnlineDPMeans(random_state=0).fit(X)
    model.novelty_score(X)
    assert vars(model.fit(X[:30])).keys() == vars(OnlineDPMeans(random_state=0).fit(X)).keys()


def test_auto_refuses_what_it_does_not_use():
    with pytest.raises(ValueError, match="merge_every=10 is for a penalty given as a number"):
        OnlineDPMeans(merge_every=10).fit(np.eye(3))
