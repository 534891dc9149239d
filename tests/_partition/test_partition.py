"""Threads, forks, and the kernels with their checks on and without compilation."""

import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from threadpoolctl import threadpool_info, threadpool_limits

import madbayes
from madbayes import DPMeans, KMeans
from madbayes._jit.vectors import BUNCH, PANEL, compare, plain_compare
from madbayes._partition import draws, moves
from madbayes._partition import segment as segment_module
from madbayes._partition.partition import Partition
from madbayes._partition.prepared_centers import FEW_GROUPS, make_groups, make_scratch, prepare
from madbayes._partition.ward import merge_below, ward_tree
from madbayes._rows.rows import Rows, cells_of, quantiles
from madbayes._rows.threads import QUICK, patient, workers
from madbayes.groups import hdp_kernels
from madbayes.kmeans.collapsed_kernels import pass_over_rows


def fit(_=None):
    X = np.random.default_rng(0).normal(size=(3000, 20))
    return KMeans(8, random_state=0, n_jobs=2).fit(X).labels_


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_several_python_threads_fit_at_once_and_leave_blas_as_it_was():
    expected = fit()
    before = blas_threads()
    found = [None] * 6
    threads = [
        threading.Thread(target=lambda i=i: found.__setitem__(i, fit())) for i in range(len(found))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for labels in found:
        np.testing.assert_array_equal(labels, expected)
    assert blas_threads() == before


def test_the_last_fit_to_end_hands_blas_back_from_any_thread():
    # threadpoolctl 3.8 listens to one thread at a time, and here it is none of those that fit.
    first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
    inside = []

    def first():
        with workers(1):
            first_in.set()
            second_in.wait(60)
        first_out.set()
        second_out.wait(60)  # alive while the other one ends

    def second():
        first_in.wait(60)
        with workers(2) as run:
            second_in.set()
            first_out.wait(60)
            inside.append(blas_threads())
            inside.extend(run(lambda _: blas_threads(), range(4)))
        inside.append(blas_threads())
        second_out.set()

    second_out = threading.Event()
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        threads = [threading.Thread(target=part) for part in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert inside == [[1] * len(before)] * 5 + [before]
        assert blas_threads() == before == [2] * len(before)


def test_a_limit_that_is_set_during_a_fit_stays():
    with threadpool_limits(2, user_api="blas"):
        with workers(1):
            threadpool_limits(3, user_api="blas")
        assert blas_threads() == [3] * len(blas_threads())


@njit(nogil=True)
def slow_arrays(n, raised):
    total = 0.0
    raised[0] = 1
    for i in range(n):
        total += np.sqrt(i + total)
    return np.full(3, total), np.zeros(2)


def press_ctrl_c(when):
    """SIGINT once the flag is set."""

    def wait():
        while not when[0]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=wait, daemon=True).start()


@pytest.fixture
def ctrl_c():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_in_a_kernel_that_returns_arrays_is_a_keyboard_interrupt():
    slow_arrays(1, np.zeros(1))
    flag = np.zeros(1)
    press_ctrl_c(flag)
    with pytest.raises(KeyboardInterrupt), workers(1):  # numba alone: SystemError
        slow_arrays(50_000_000, flag)
        time.sleep(5)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_does_not_wait_for_long_kernels(n_jobs):
    ended = []

    def endless(X, stop):
        X[0] = 1
        for _ in range(6000):
            if stop[0]:
                ended.append(stop[0])
                return
            time.sleep(0.01)

    def one(run, X):
        patient(endless, X)

    def two(run, X):
        run(lambda X: [patient(endless, X) for _ in range(9)], [X, np.zeros(9)])

    for call in (one, two)[:n_jobs]:
        X, before = np.zeros(QUICK), len(ended)
        press_ctrl_c(X)
        with pytest.raises(KeyboardInterrupt), workers(n_jobs) as run:
            call(run, X)
        for _ in range(6000):  # on a busy machine
            if len(ended) == before:
                time.sleep(0.01)
        assert len(ended) > before


def test_kernels_leave_when_they_are_told_to():
    r = np.random.default_rng(0)
    X, w, stop = r.normal(size=(60, 2)), np.ones(60), np.ones(1, np.uint8)
    z = np.arange(60) % 3
    start, C, W, N = np.array([0, 30, 60]), *moves.means(X, w, z, 8, False)
    state = np.zeros(60), np.zeros(60, np.int64), np.zeros(8, np.int64), 0, 0.0
    assert moves.move_rows(X, w, z, np.arange(60), C, W, N, 1.0, 60, False, -np.inf, stop) == 0
    assert pass_over_rows(X, w, z, 1.0, 60, 0.0, C, W, N, *state, stop)[0] == 0
    assert ward_tree(X, w, False, stop)[0].size == 0
    assert merge_below(X, w, 1.0, 60, False, stop)[1] == 1
    rows, places, cost = np.arange(60), np.zeros((60, 4), np.int64), np.empty(480)
    assert hdp_kernels.move_rows(X, w, start, z, rows, places, C, W, N, 1.0, 1.0, stop) == 0
    hdp_kernels.settle_groups(X, w, start, z, np.ascontiguousarray(C.T), 1.0, cost, stop)
    CT = np.ascontiguousarray(C[:-1].T)
    found = hdp_kernels.find_frontier(
        X, w, start, z, CT, W, N, 1.0, 1.0, np.empty(60, int), places, stop
    )
    assert found == 0
    np.testing.assert_array_equal(z, np.arange(60) % 3)
    assert moves.relax(X, w, X[:3], 1.0, 60, False, np.inf, stop)[0].max() < 60
    assert draws.draw_seeds(X, w, C, 0, r.random(8), stop) == 8


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_can_fit():
    expected = fit()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        labels = pool.apply_async(fit, (None,)).get(timeout=120)
    np.testing.assert_array_equal(labels, expected)


SMALL_FITS = """
import warnings
import numpy as np
import scipy.sparse as sp
from madbayes import DPMeans, KMeans
from madbayes._partition import partition as partition_module
from reference.dp_means import dp_means
from reference.kmeans import kmeans
warnings.simplefilter("ignore")
r = np.random.default_rng(0)
for d, partition_module.BOUNDS_PAY in ((2, 0), (8, 0), (3, 2**22), (8, 2**22)):
    X = np.repeat(r.normal(size=(3, d)) * 6, 8, axis=0) + r.normal(size=(24, d))
    X[:4] = np.round(X[:4])
    model = KMeans(3, init=X[[0, 1, 20]], tol=0, n_jobs=1).fit(X)
    assert (model.labels_ == kmeans(X, X[[0, 1, 20]])[0]).all()
    sparse = KMeans(3, init=X[[0, 1, 20]], tol=0).fit(sp.csr_matrix(X))
    assert (sparse.labels_ == model.labels_).all()
    w = np.arange(24.0) % 3
    for penalty in (3.0, 40.0):
        labels = dp_means(X, penalty, weight=w)[0]
        model = DPMeans(penalty, algorithm="paper", n_jobs=1).fit(X, sample_weight=w)
        assert (model.labels_[w > 0] == labels[w > 0]).all()
        DPMeans(penalty, random_state=0, n_jobs=1).fit(X, sample_weight=w)
    KMeans(4, random_state=0, n_jobs=1).fit(X).transform(X)
if {path}:
    DPMeans(random_state=0).fit(np.repeat(X, 3, axis=0) + r.normal(size=(72, d)) / 9)
print("fine")
"""


@pytest.mark.parametrize("mode", ["NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"])
def test_kernels_in_another_mode(mode, tmp_path):
    env = {**os.environ, mode: "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    env["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), env.get("PYTHONPATH", "")])
    code = SMALL_FITS.replace("{path}", str(mode == "NUMBA_BOUNDSCHECK"))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == "fine", done.stderr[-2000:]


NO_CACHE = """
import warnings
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import numpy as np
    import madbayes
    from madbayes import DPMeans, HardHDP
    from madbayes._rows.row_kernels import project
    found = np.empty(2)
    project(np.eye(2), np.array([3.0, 4.0]), found)
print(madbayes.__file__, found, *[w.message for w in caught], sep="|")
"""


def test_without_a_place_for_the_cache_it_compiles_and_warns_once(tmp_path):
    package = Path(madbayes.__file__).parent
    copy = shutil.copytree(package, tmp_path / "madbayes", ignore=lambda *_: {"__pycache__"})
    (copy / "_rows" / "__pycache__").touch()  # a file: not even root can put a cache there
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    env |= {"PYTHONPATH": str(tmp_path), "HOME": os.devnull, "XDG_CACHE_HOME": os.devnull}
    done = subprocess.run([sys.executable, "-c", NO_CACHE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    where, found, *caught = done.stdout.strip().split("|")
    assert where.startswith(str(tmp_path)) and found == "[3. 4.]"
    assert len(caught) == 1 and "NUMBA_CACHE_DIR" in caught[0]


class Guarded:
    """Buffers between guard values, which no kernel may touch."""

    def __init__(self):
        self.blocks = []

    def __call__(self, array):
        size, width = array.nbytes, 4096
        block = np.full(size + 2 * width, 0xA5, np.uint8)
        inside = block[width : width + size].view(array.dtype).reshape(array.shape)
        inside[...] = array
        self.blocks.append((block, width))
        return inside

    def check(self):
        for block, width in self.blocks:
            assert (block[:width] == 0xA5).all() and (block[-width:] == 0xA5).all()


@pytest.mark.parametrize("n", [1, 31, 33, 127, 129, 511, 513, 1025, 2049])
def test_kernels_stay_within_their_buffers(n, monkeypatch):
    # Around the edges of tiles (512 rows, 256 columns), hard rows (32), groups (20) and lanes (16).
    guarded = Guarded()
    for name in ("make_scratch", "make_direct_scratch"):
        make = getattr(segment_module, name)

        def with_guards(*args, make=make):
            return type(made := make(*args))(*map(guarded, made))

        monkeypatch.setattr(segment_module, name, with_guards)
    first = segment_module.first_state

    def with_guarded_rows(*args):
        state = first(*args)
        return state._replace(labels=guarded(state.labels), upper=guarded(state.upper))

    monkeypatch.setattr(segment_module, "first_state", with_guarded_rows)
    r = np.random.default_rng(n)
    for d, k in ((2, 1), (6, 129), (7, 19), (15, 21), (17, 41), (257, 5), (16, 161)):
        X = np.round(r.normal(size=(n, d)), 1).astype(np.float32)
        centers = r.normal(size=(k, d))
        with workers(1):
            partition = Partition(Rows(X), bounds=True)
            for _ in range(3):
                partition.assign(centers, 0.5 * d)
                d2 = ((X[:, None, :].astype(np.float64) - centers) ** 2).sum(axis=2)
                np.testing.assert_allclose(d2[np.arange(n), partition.labels], d2.min(axis=1))
                centers = partition.means(centers)
    guarded.check()


def all_bounds(partition):
    """Squared bounds of all rows, to their own centre and to any other."""
    parts = [partition.squared_bounds(state) for _, state in partition.shares_and_states()]
    return (np.concatenate(column) for column in zip(*parts, strict=True))


@pytest.mark.parametrize("d", [1, 3, 6, 7, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_are_the_same_with_and_without_bounds(d, dtype):
    r = np.random.default_rng(d)
    X = np.round(3 * r.normal(size=(3000, d)), 1).astype(dtype)  # ties
    weight = r.integers(0, 3, len(X)).astype(float)
    found = []
    for bounds in (True, False):
        centers = X[:50].astype(np.float64)
        with workers(2):
            partition = Partition(Rows(X, weight=weight), bounds=bounds)
            for _ in range(4):
                moved = partition.assign(centers)
                found.append((partition.labels.copy(), moved, centers, partition.sse))
                if bounds:
                    upper, lower = all_bounds(partition)
                    d2 = np.sort(((X[:, None].astype(float) - centers) ** 2).sum(axis=2), axis=1)
                    assert (upper >= d2[:, 0] * (1 - 1e-12)).all()
                    assert (lower <= d2[:, 1] * (1 + 1e-12)).all()
                centers = partition.means(centers)
    for (labels, moved, centers, sse), plain in zip(found[:4], found[4:], strict=True):
        np.testing.assert_array_equal(plain[0], labels)
        assert plain[1] == moved
        np.testing.assert_array_equal(plain[2], centers)
        assert plain[3] == pytest.approx(sse)


@pytest.mark.parametrize("together", [False, True])
def test_centres_that_wander_and_groups_without_centres(together, monkeypatch):
    # Several groups of centres, several products; `together`: half of the centres, and all heads of
    # groups, are in one place, so two groups take all the others' centres.
    # Working memory that nobody filled must not be read: it holds scores that would win.
    def poisoned(*args):
        scratch = make_scratch(*args)
        scratch.low1.flat = -np.arange(1.0, scratch.low1.size + 1)
        scratch.low2.fill(np.inf)
        scratch.place.fill(0)
        return scratch

    monkeypatch.setattr(segment_module, "make_scratch", poisoned)
    r = np.random.default_rng(0)
    X = r.normal(size=(1500, 12)).astype(np.float32)
    centers = r.normal(size=(600, 12))
    if together:
        centers[:300] = centers[np.linspace(0, 599, FEW_GROUPS).astype(int)] = 3.0
    with workers(2):
        partition = Partition(Rows(X), bounds=True)
        for step in (1.0, 0.1, 0.01, 0.001):
            partition.assign(centers)
            d2 = ((X[:, None, :] - centers[None, :, :]) ** 2).sum(axis=2)
            np.testing.assert_array_equal(partition.labels, d2.argmin(axis=1))
            assert partition.sse == pytest.approx(d2.min(axis=1).sum())
            centers = partition.means(centers) + step * r.normal(size=(600, 1)) / 9
            partition.measure_sse(centers)


@pytest.mark.parametrize("n", [1, 2, 5000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quantiles_are_those_of_numpy(n, dtype):
    x = np.random.default_rng(n).normal(size=n).astype(dtype)
    shares = np.linspace(0, 1, 2**10 + 1)
    assert np.array_equal(quantiles(x, shares), np.quantile(x, shares))


@pytest.mark.parametrize("power", [0, 1, 30])
@pytest.mark.parametrize("size", [1e-310, 1.0, 1e300])
def test_cells_are_those_of_searchsorted(power, size):
    x = np.random.default_rng(power).normal(size=20_000)
    x = np.round(np.sign(x) * np.abs(x) ** power, 2) * size  # ties; all the same size; far away
    edges = np.unique(x[::7])
    np.testing.assert_array_equal(cells_of(x, edges), np.searchsorted(edges, x))


def test_threads_fail_as_one_would():
    def fail(i):
        if i > 40:
            raise ValueError(i)
        time.sleep(0.001)
        return i

    with workers(2) as run:
        assert run(fail, range(40)) == list(range(40))
        for _ in range(3):
            with pytest.raises(ValueError, match=r"^41$"):
                run(fail, range(90))


def test_import_loads_nothing_heavy():
    code = "import sys, madbayes; print({'numba', 'sklearn', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_public_name_is_there():
    for name in madbayes.__all__:
        assert getattr(madbayes, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        madbayes.no_such_name  # noqa: B018
    assert isinstance(DPMeans(), madbayes.DPMeans)


@pytest.mark.parametrize("d", [1, 7, 64, 129])
def test_panels_say_what_numpy_says(d):
    r = np.random.default_rng(d)
    rows = r.integers(-8, 9, (40, d)).astype(np.float32)  # exact in any order; ties
    packed = r.integers(-8, 9, (3, d, PANEL)).astype(np.float32)
    half = r.integers(0, 50, (3, PANEL)).astype(np.float32)
    half[2, 5:] = np.inf  # places without a centre
    chosen = r.permutation(40)
    low1, low2 = np.zeros((2, 2, 40), np.float32)
    place = np.zeros((2, 40), np.int32)

    @njit
    def compiled(packed, half, panel, last, rows, chosen, low1, low2, place):
        for first in range(0, chosen.shape[0], BUNCH):
            compare(packed, half, panel, last, rows, chosen, first, low1, low2, place)

    for panel, last in ((0, 1), (1, 2), (2, 3), (0, 2), (1, 3), (0, 3)):
        where = packed, half, panel, last, rows, chosen
        compiled(*where, low1[0], low2[0], place[0])
        for first in range(0, 40, BUNCH):
            plain_compare(*where, first, low1[1], low2[1], place[1])
        for found in (low1, low2):
            np.testing.assert_array_equal(found[0], found[1])
        centers = packed.transpose(0, 2, 1).reshape(-1, d)
        scores = (half.ravel() - rows[chosen] @ centers.T)[:, panel * PANEL : last * PANEL]
        np.testing.assert_array_equal(low2[0], np.sort(scores, axis=1)[:, 1])
        for at in place - panel * PANEL:  # one of the smallest: those that tie are told apart later
            np.testing.assert_array_equal(scores[np.arange(40), at], low1[0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1.0, 2.0**-140, 2.0**-100, 2.0**100])
def test_rows_that_float32_hardly_tells_apart(size, dtype):
    # Tight clusters in a wide table, far from the origin, and at the ends of what float32 holds.
    if dtype == np.float64:
        size **= 2
    r = np.random.default_rng(0)
    near = r.normal(size=(40, 9)) * 10.0 ** r.integers(-9, 1, (40, 1))
    X = np.repeat(near, 25, axis=0) + 1e-6 * r.normal(size=(1000, 9)) * r.random((1000, 1)) ** 9 + 3
    X = (X * size).astype(dtype)
    centers = X[::20].astype(np.float64)
    with workers(1):
        partition = Partition(Rows(X), bounds=True)
        for _ in range(5):
            moved = partition.assign(centers)
            d2 = ((X[:, None].astype(np.float64) / size - centers / size) ** 2).sum(axis=2)
            own = d2[np.arange(len(X)), partition.labels]
            np.testing.assert_allclose(own, d2.min(axis=1), rtol=1e-12)
            upper, lower = all_bounds(partition)
            assert (upper / size >= own * size * (1 - 1e-12)).all()
            d2[np.arange(len(X)), partition.labels] = np.inf
            assert (lower / size <= d2.min(axis=1) * size * (1 + 1e-12)).all()
            centers = partition.means(centers)
    assert moved < len(X)


@pytest.mark.parametrize("seed", [1, 4, 64])
def test_bounds_hold_while_centres_wander(seed):
    # Centres that come and go, and passes over a part of the rows.
    r = np.random.default_rng(seed)
    X = r.normal(size=(6000, 9)).astype(np.float32)
    centers = X[:60].astype(np.float64)
    home = centers.copy()
    with workers(2):
        partition = Partition(Rows(X), bounds=True)
        for turn in range(25):
            rows = (0, 6000) if turn % 7 != 5 else (1000, 3000)  # a part of them only
            partition.assign(centers, 20.0 if turn % 6 == 4 else None, rows)
            d2 = ((X[:, None].astype(np.float64) - centers) ** 2).sum(axis=2)
            own = d2[np.arange(len(X)), partition.labels]
            here = slice(*rows)
            np.testing.assert_array_equal(own[here], d2.min(axis=1)[here])
            upper, lower = (bound[here] for bound in all_bounds(partition))
            assert (upper >= own[here] * (1 - 1e-12)).all()
            d2[np.arange(len(X)), partition.labels] = np.inf
            assert (lower <= d2.min(axis=1)[here] * (1 + 1e-12)).all()
            step = 0.3 / (1 + turn % 9)
            moves = r.normal(size=centers.shape) * (r.random((len(centers), 1)) < 0.3)
            centers = centers + step * moves if turn % 8 else home.copy()
            if turn == 9:
                centers[5] = 50.0  # loses all its rows
            if turn == 10:
                keep = partition.counts() > 0
                assert not keep[5]
                partition.drop(keep)
                centers, home = centers[keep], home[keep]
    assert upper.sum() < 1.5 * own.sum() and lower.sum() > 0.2 * d2.min(axis=1).sum()


@pytest.mark.parametrize("k", [1, 15, 16, 17, 33, 500, 1000])
@pytest.mark.parametrize("d", [7, 64, 200])
def test_groups_are_full_panels(k, d):
    r = np.random.default_rng(k)
    centers = r.normal(size=(k, d)) if k != 33 else np.zeros((k, d))
    group, t = make_groups(centers)
    size = np.bincount(group, minlength=t)
    assert size.sum() == k and size.min() > 0 and t <= max(FEW_GROUPS, d // 4)
    assert (size % PANEL > 0).sum() <= 1  # at most one is not full
    past = centers + r.normal(size=(k, d))
    past[: k // 2] = centers[: k // 2]
    view = prepare(centers, group, t, np.zeros(d), 1.0, past, True)
    drift = np.sqrt(((centers - past) ** 2).sum(axis=1))

    def assert_just_above(found, wanted):
        assert (wanted * (1 - 1e-15) <= found).all() and (found <= wanted * (1 + 1e-6)).all()

    assert_just_above(view.drift, drift)
    for g in range(t):
        here = view.member[view.start[g] * PANEL : view.start[g + 1] * PANEL]
        np.testing.assert_array_equal(np.sort(here[here >= 0]), np.flatnonzero(group == g))
        assert_just_above(view.drifts[g], drift[group == g].max())
    for c in range(k):
        others = np.delete(np.where(group == group[c], drift, 0.0), c)
        assert_just_above(view.others[c], others.max(initial=0.0))
    for c, packed in enumerate(view.packed.transpose(0, 2, 1).reshape(-1, d)):
        want = centers[view.member[c]] if view.member[c] >= 0 else np.zeros(d)
        np.testing.assert_array_equal(packed, want.astype(np.float32))


def test_a_centre_that_comes_back_from_far_away():
    # Distances that float32 cannot hold must not become bounds that last for ever.
    r = np.random.default_rng(0)
    X = r.normal(size=(3000, 8))
    near = r.normal(size=(40, 8))
    far = near.copy()
    far[::2] += 1e60
    with workers(1):
        partition = Partition(Rows(X), bounds=True)
        for centers in (near, far, near, far * 0.5, near + 0.01):
            partition.assign(centers)
            d2 = ((X[:, None] - centers) ** 2).sum(axis=2)
            np.testing.assert_array_equal(partition.labels, d2.argmin(axis=1))
