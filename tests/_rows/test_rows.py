"""One source of rows, one executor: the same bits from any table, and states that stay values."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import madbayes
from madbayes import DPMeans, KMeans
from madbayes._model.open_rows import open_rows
from madbayes._partition import segment
from madbayes._partition.lloyd import LloydRows, follow
from madbayes._partition.partition import Partition
from madbayes._partition.tallies import room_for
from madbayes._rows.executor import HERE
from madbayes._rows.frame import measure
from madbayes._rows.rows import Rows, overlaps
from madbayes._rows.speculation import in_turn
from madbayes._rows.threads import together, workers
from madbayes.kmeans.coreset import coreset
from madbayes.kmeans.farthest import largest_gap


def blobs(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    places = 5.0 * rng.normal(size=(k, d))
    return (places[rng.integers(0, k, n)] + rng.normal(size=(n, d))).astype(np.float32)


def tables(X, weight, tmp_path):
    """The same rows as every kind of table."""
    np.save(tmp_path / "rows.npy", X)
    da = pytest.importorskip("dask.array")
    kinds = {
        "array": X,
        "Fortran": np.asfortranarray(X),
        "memory map": np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "blocks": madbayes.blocks(str(tmp_path / "rows.npy")),
        "Dask": da.from_array(X, chunks=(777, -1)),
    }
    return {name: open_rows(DPMeans(), given, weight) for name, given in kinds.items()}


def test_every_table_gives_the_same_bits(tmp_path):
    X = blobs(5_000, 7, 6)
    weight = np.random.default_rng(1).integers(0, 3, 5_000).astype(float)
    expected = None
    for name, rows in tables(X, weight, tmp_path).items():
        frame = measure(rows)
        partition = Partition(rows, frame)
        centers = X[:40].astype(float)
        for _ in range(3):
            moved = partition.assign(centers, 25.0)
            far = partition.far_rows(0, 5_000, 50)
            opened = partition.open_clusters(centers, far, 25.0, 5)
            if len(opened.at):
                centers = partition.offer(centers, opened, 5_000)
            centers = partition.filled_means(centers)
        core = coreset(rows, frame.mean, 200, np.random.RandomState(0))
        some = np.array([3, 4_999, 0])
        found = [
            *(*frame, moved, far.at, opened.rows, centers, partition.sse, *partition.totals()),
            *(partition.measure_sse(centers), *partition.farthest(centers, 5)),
            *(*core, largest_gap(rows, 4), rows.take(some), rows.take_weights(some)),
        ]
        expected = expected or found
        for here, there in zip(expected, found, strict=True):
            np.testing.assert_array_equal(here, there, err_msg=name)


def test_a_state_cut_in_other_places_is_the_same_state():
    X = blobs(4_000, 5, 4)
    rows = Rows(X)
    states = HERE.map(segment.first_state, rows.shares, args=(6,))
    for (a, b), state in zip(rows.spans, states, strict=True):
        state.labels[:] = np.arange(a, b) % 7
    cut = rows.cut_at([(0, 1_500), (1_500, 4_000)])
    parts = [[(states[s], a, b) for s, a, b in one] for one in overlaps(rows.spans, cut.spans)]
    joined = HERE.map(segment.join_states, cut.shares, parts)
    np.testing.assert_array_equal(rows.join([s.labels for s in joined]), np.arange(4_000) % 7)
    counted = HERE.change(segment.recount, cut.shares, joined, 7)
    counts = sum(tally.count for state in counted for tally in state.tallies)
    np.testing.assert_array_equal(counts, np.bincount(np.arange(4_000) % 7))
    assert [len(t.count) for t in room_for(counted[0].tallies, 9)] == [9]


def test_workers_leave_the_states_that_they_are_given():
    pytest.importorskip("dask.array")
    from madbayes._rows.dask_executor import ON_WORKERS

    X = blobs(3_000, 9, 5)
    rows = Rows(X)
    before = HERE.map(segment.first_state, rows.shares, args=(10,))
    copies = [state.copy() for state in before]
    partition = Partition(rows)
    partition.assign(X[:5].astype(float))
    after = ON_WORKERS.change(segment.recount, rows.shares, before, 5)
    moved = ON_WORKERS.change(segment.move, rows.shares[:1], after[:1], 0, 3)
    assert ON_WORKERS.fetch(moved)[0].labels[0] == 3
    for one, other in zip(before, copies, strict=True):
        np.testing.assert_array_equal(one.labels, other.labels)
        assert [tally.count.size for tally in one.tallies] == [0]


def open_far(share, state, known, limit):
    """A serial rule: a value that is far from all that were opened before it opens itself."""
    out, opened = [], []
    for value in share:
        seen = np.concatenate([known[:, 0], opened])
        if not (np.abs(seen - value) <= limit).any():
            opened.append(value)
        seen = np.concatenate([known[:, 0], opened])
        out.append(int(np.argmin(np.abs(seen - value))))
    return [*state, out], np.array(opened).reshape(-1, 1), len(opened)


@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_shares_at_a_time_find_what_one_after_another_finds(opens, seed):
    values = np.random.default_rng(seed).normal(size=60) * 9
    shares = np.split(values, [7, 8, 20, 33, 50])
    first = np.zeros((1, 1))
    one, known, _ = open_far(values, [], first, 4.0)
    states = [[] for _ in shares]
    args = shares, states, first, (4.0,), opens
    found, all_known, remarks = in_turn(HERE, open_far, *args)
    assert [label for state in found for label in state[-1]] == one[0]
    np.testing.assert_array_equal(all_known[1:], known)
    assert sum(remarks) == len(known)
    assert states == [[] for _ in shares]


@pytest.mark.parametrize(
    ("n", "d", "k"), [(300, 4, 6), (1_500, 160, 90), (9_000, 20, 120)]
)  # plain distances, products of BLAS, a partition
def test_lloyd_picks_a_kernel_and_finds_the_same(n, d, k):
    r = np.random.RandomState(0)
    X = r.randn(n, d) + 3 * r.randn(k, d)[r.randint(0, k, n)]
    w, start = r.uniform(0.5, 2, n), X[r.choice(n, k, replace=False)]
    partition = Partition(Rows(X, weight=w))
    centers = follow(partition, start, 3)
    used = partition.counts() > 0
    labels, found, error = LloydRows(X, w).lloyd(start, 3)
    np.testing.assert_allclose(found[np.unique(labels)], centers[used])
    np.testing.assert_allclose(found[labels], centers[partition.labels])
    assert error == pytest.approx(partition.sse)


def test_threads_of_a_fit_are_those_around_it():
    with workers(2):
        assert together(lambda i: together(lambda j: i + j, range(3)), range(4)) == [
            [i, i + 1, i + 2] for i in range(4)
        ]
    assert together(abs, [-1, -2]) == [1, 2]


@pytest.mark.parametrize(
    "model",
    [KMeans(9, max_iter=1, tol=0, random_state=0), DPMeans(9.0, algorithm="paper", max_iter=1)],
)
def test_warnings_point_to_the_call_of_fit(model):
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(blobs(600, 3, 20))
    assert caught[0].filename == __file__


def test_rows_travel_without_their_views():
    rows = Rows(np.arange(6.0).reshape(3, 2))
    rows.views[0, 3] = [rows.X[:2], rows.X[2:]]
    again = pickle.loads(pickle.dumps(rows))
    assert again.views == {} and len(rows.views) == 1
    np.testing.assert_array_equal(again.X, rows.X)


def test_what_dask_knows_of_the_size_of_rows():
    X = np.zeros((1_000, 8))
    assert Rows(X, weight=np.ones(1_000)).__sizeof__() == X.nbytes + 8_000
    assert Rows(sp.csr_array(np.eye(9))).__sizeof__() == 72
