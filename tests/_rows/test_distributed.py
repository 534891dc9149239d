"""Dask tables: the same bits as on one machine, whatever the chunks, the workers and their fate."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

from madbayes import BPMeans, DPMeans, HardHDP, KFeatures, KMeans, KMedoids

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
import dask  # noqa: E402
import dask.dataframe as dd  # noqa: E402

from madbayes._partition.tallies import add_in_order, merge_sums  # noqa: E402
from madbayes._rows import rows as engine_rows  # noqa: E402
from madbayes._rows.dask_executor import Lost  # noqa: E402
from madbayes._rows.rows import overlaps  # noqa: E402


def blobs(n, d, k, seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    places = 5.0 * rng.normal(size=(k, d))
    return (places[rng.integers(0, k, n)] + rng.normal(size=(n, d))).astype(dtype)


def assert_same(one, spread):
    """To the bit, in everything a fit leaves behind."""
    assert isinstance(spread.cluster_centers_, np.ndarray)
    assert isinstance(spread.labels_, da.Array)
    np.testing.assert_array_equal(one.cluster_centers_, spread.cluster_centers_)
    np.testing.assert_array_equal(one._centers, spread._centers)
    np.testing.assert_array_equal(one.labels_, spread.labels_.compute())
    np.testing.assert_array_equal(one.objective_history_, spread.objective_history_)
    np.testing.assert_array_equal(one.novelty_quantiles_, spread.novelty_quantiles_)
    assert one.inertia_ == spread.inertia_
    assert one.objective_ == spread.objective_
    assert (one.n_iter_, one.converged_) == (spread.n_iter_, spread.converged_)
    assert one.cluster_centers_.dtype == spread.cluster_centers_.dtype


MODELS = {
    "k-means": lambda: KMeans(9, random_state=0, tol=0),
    "k-means, random": lambda: KMeans(5, init="random", n_init=2, random_state=1),
    "dp-means": lambda: DPMeans(60.0, algorithm="paper"),
    "dp-means, many": lambda: DPMeans(12.0, algorithm="paper", max_clusters=90, max_iter=4),
    "dp-means, far": lambda: DPMeans("farthest-first", n_clusters_hint=6, algorithm="paper"),
    "cosine": lambda: DPMeans(0.4, algorithm="paper", metric="cosine", max_iter=5),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("d", [3, 12])
def test_the_bits_of_one_machine(name, d):
    X = blobs(9_000, d, 9)
    one = MODELS[name]().fit(X)
    for chunks in (9_000, 1_234):
        assert_same(one, MODELS[name]().fit(da.from_array(X, chunks=(chunks, -1))))


def test_weights_float64_and_a_row_of_zeros():
    X = blobs(6_000, 8, 5, dtype=np.float64)
    X[17] = 0.0
    weight = np.random.default_rng(1).integers(0, 3, 6_000).astype(float)
    table = da.from_array(X, chunks=(999, 3))
    for make in (
        lambda: KMeans(5, random_state=0),
        lambda: KMeans(5, random_state=0, metric="cosine"),
        lambda: DPMeans(90.0, algorithm="paper"),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = make().fit(X, sample_weight=weight)
            assert_same(one, make().fit(table, sample_weight=da.from_array(weight, chunks=1_111)))


def test_an_empty_cluster_takes_over_the_farthest_row():
    X = blobs(4_500, 4, 3)
    init = np.vstack([X[:3], np.full((2, 4), 1e3)])
    one = KMeans(5, init=init, tol=0).fit(X)
    assert_same(one, KMeans(5, init=init, tol=0).fit(da.from_array(X, chunks=(700, -1))))


def test_segments_change_with_the_number_of_clusters():
    # So many clusters that sums are kept for fewer segments: rows and labels are cut anew.
    X = blobs(20_000, 3, 400)
    make = lambda: DPMeans(6.0, algorithm="paper", max_iter=3)  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = make().fit(X)
        assert one.n_clusters_ > 20_000 / (8 * 19)
        assert_same(one, make().fit(da.from_array(X, chunks=(3_000, -1))))


def test_huge_tables_have_more_segments_and_trees_of_sums(monkeypatch):
    assert len(engine_rows.segments(2**22, 8)) == 32
    assert len(engine_rows.segments(10**10, 1000)) == 10**10 // 2**21
    rng = np.random.default_rng(0)
    parts = [(rng.normal(size=(2, 3)), 1e-17 * rng.normal(size=(2, 3))) for _ in range(70)]
    tree = [add_in_order(parts[i : i + 32]) for i in (0, 32, 64)]
    for a, b in zip(merge_sums(parts), add_in_order(tree), strict=True):
        np.testing.assert_array_equal(a, b)
    monkeypatch.setattr(engine_rows, "SEGMENT_ROWS", 128)  # 46 segments
    monkeypatch.setattr(engine_rows, "ARRANGE_AT_ONCE", 1_000)
    monkeypatch.setattr("madbayes._rows.dask_table.ARRANGE_AT_ONCE", 1_000)
    monkeypatch.setattr("madbayes._partition.seeding.SEED_ROWS", 2_000)
    monkeypatch.setattr("madbayes._model.novelty_mixin.MOST_ROWS", 1_500)
    X = blobs(48_000, 3, 6)
    assert len(engine_rows.segments(len(X), 6)) == 46
    one = KMeans(6, random_state=3)
    one._calibrate = lambda X, labels, weight: KMeans._calibrate(one, X, labels, weight, most=1_500)
    one.fit(X)
    assert_same(one, KMeans(6, random_state=3).fit(da.from_array(X, chunks=(7_000, -1))))


def test_overlaps_by_hand():
    assert overlaps([(0, 4), (4, 4), (4, 9)], [(0, 3), (3, 9)]) == [
        [(0, 0, 3)],
        [(0, 3, 4), (2, 0, 5)],
    ]


def test_later_is_lazy_and_the_same():
    X = blobs(5_000, 6, 4)
    table = da.from_array(X, chunks=(901, 2))
    model = DPMeans(80.0, algorithm="paper").fit(table)
    one = DPMeans(80.0, algorithm="paper").fit(X)
    for lazy, here in [
        (model.predict(table), one.predict(X)),
        (model.predict(table, novel=0.05), one.predict(X, novel=0.05)),
        (model.novelty_score(table), one.novelty_score(X)),
        (model.transform(table), one.transform(X)),
    ]:
        assert isinstance(lazy, da.Array)
        assert lazy.chunks[0] == table.chunks[0] and lazy.dtype == here.dtype
        np.testing.assert_array_equal(lazy.compute(), here)
    assert model.score(table) == pytest.approx(one.score(X))
    assert one.score(table, sample_weight=np.full(5_000, 2.0)) == pytest.approx(2 * one.score(X))


def test_data_frames(tmp_path):
    X = blobs(3_000, 3, 3, dtype=np.float64)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame.to_parquet(tmp_path / "rows.parquet", row_group_size=700)
    table = dd.read_parquet(tmp_path / "rows.parquet")
    model = KMeans(3, random_state=0).fit(table)
    assert_same(KMeans(3, random_state=0).fit(frame), model)
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # names are known
        np.testing.assert_array_equal(model.predict(table).compute(), model.labels_.compute())
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[["b", "a", "c"]])
    with pytest.raises(ValueError, match=r"\['name'\].*do not hold numbers"):
        KMeans(2).fit(dd.from_pandas(frame.assign(name="x"), npartitions=2))


@pytest.mark.parametrize(
    "dtype", ["bool", "boolean", "Int8", "Int64", "Float32", "Float64", "int64[pyarrow]"]
)
def test_data_frames_of_booleans_and_columns_that_may_have_gaps(dtype):
    X = np.random.default_rng(0).integers(0, 2, size=(300, 2)).astype(float)
    frame = pd.DataFrame({"a": X[:, 0] * 9, "b": pd.array(X[:, 1].astype(int)).astype(dtype)})
    table = dd.from_pandas(frame, npartitions=3)
    model = DPMeans(5.0, algorithm="paper").fit(table)
    alone = DPMeans(5.0, algorithm="paper").fit(frame.astype(float))
    np.testing.assert_array_equal(model.labels_.compute(), alone.labels_)
    np.testing.assert_array_equal(model.predict(table).compute(), alone.labels_)
    if dtype != "bool":
        frame.loc[7, "b"] = pd.NA
        with pytest.raises(ValueError, match=r"NaN.*the first is row 7"):
            DPMeans(5.0, algorithm="paper").fit(dd.from_pandas(frame, npartitions=3))


def test_a_model_can_be_saved_with_its_labels(tmp_path):
    import madbayes

    X = blobs(2_000, 3, 3)
    model = KMeans(3, random_state=0).fit(da.from_array(X, chunks=500))
    model.save(tmp_path / "model.npz")
    again = madbayes.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.labels_, model.labels_.compute())


# Groups and features


@pytest.mark.parametrize("by_group", [False, True])
def test_hard_hdp_has_the_bits_of_one_machine(by_group):
    rng = np.random.default_rng(0)
    X = blobs(6_000, 4, 10)
    groups = np.array(["a", "bb", "c", "dd", "e", "f", "g"] * 3)[rng.integers(0, 21, 6_000)]
    order = np.argsort(groups, kind="stable") if by_group else np.arange(6_000)
    X, groups = X[order], groups[order]
    weight = rng.uniform(0.5, 2.0, 6_000) if by_group else None
    table = da.from_array(X, chunks=(1_000, -1))
    make = lambda: HardHDP(20.0, 40.0, algorithm="paper")  # noqa: E731
    one = make().fit(X, groups=groups, sample_weight=weight)
    model = make().fit(table, groups=da.from_array(groups, chunks=999), sample_weight=weight)
    assert_same(one, model)
    np.testing.assert_array_equal(one.local_labels_, model.local_labels_.compute())
    np.testing.assert_array_equal(one.n_local_clusters_, model.n_local_clusters_)
    np.testing.assert_array_equal(one.groups_, model.groups_)
    np.testing.assert_array_equal(
        one.predict(X, groups=groups), model.predict(table, groups=groups).compute()
    )
    with pytest.raises(ValueError, match="algorithm='paper'"):
        HardHDP().fit(table, groups=groups)
    with pytest.raises(ValueError, match="zeros"):
        make().fit(table, groups=groups, sample_weight=np.r_[0.0, np.ones(5_999)])


FEATURES = {
    "coordinate": lambda: KFeatures(3, assignment="coordinate", n_init=2, random_state=0),
    "exact": lambda: KFeatures(4, effort=0.001, n_init=1, random_state=0),
    "given": lambda: KFeatures(2, assignment="coordinate", init=np.eye(2, 6)),
    "empty": lambda: BPMeans(110.0, algorithm="paper", init="empty", max_iter=9),
    "greedy": lambda: BPMeans(900.0, algorithm="paper", n_init=2, max_iter=9, random_state=1),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", FEATURES)
def test_features_have_the_bits_of_one_machine(name):
    rng = np.random.default_rng(0)
    Z = rng.random((4_000, 3)) < 0.4
    X = (4 * Z @ rng.normal(size=(3, 6)) + 0.5 * rng.normal(size=(4_000, 6))).astype(np.float32)
    table = da.from_array(X, chunks=(700, 4))
    weight = rng.uniform(0.5, 3.0, 4_000) if name == "greedy" else None
    one = FEATURES[name]().fit(X, sample_weight=weight)
    model = FEATURES[name]().fit(table, sample_weight=weight)
    assert one.n_components_ > 1
    np.testing.assert_array_equal(one.components_, model.components_)
    np.testing.assert_array_equal(one.assignments_, model.assignments_.compute())
    np.testing.assert_array_equal(one.objective_history_, model.objective_history_)
    assert (one.n_iter_, one.converged_) == (model.n_iter_, model.converged_)
    np.testing.assert_array_equal(one.transform(X), model.transform(table).compute())
    with pytest.raises(ValueError, match="Dask tables"):
        BPMeans().fit(table)
    with pytest.raises(ValueError, match="as printed"):
        KFeatures(2).fit(table)


# Search, "auto", checkpoints


@pytest.mark.parametrize("algorithm", ["search", "paper"])
def test_auto_of_a_small_table_is_that_of_one_machine(algorithm):
    X = blobs(3_000, 4, 5, seed=2)
    make = lambda: DPMeans(algorithm=algorithm, random_state=0)  # noqa: E731
    one, spread = make().fit(X), make().fit(da.from_array(X, chunks=(700, -1)))
    assert_same(one, spread)
    assert spread.n_clusters_ == spread.evidence_.n_clusters == 5
    assert spread.penalty_ == one.penalty_


def test_search_of_a_large_table_goes_through_a_coreset(monkeypatch):
    monkeypatch.setattr("madbayes.kmeans.solve.DISK_VALUES", 20_000)
    monkeypatch.setattr("madbayes.kmeans.solve.CORE_ROWS", (2_000, 4_000))
    monkeypatch.setattr("madbayes.kmeans.solve.PATH_ROWS", 4_000)
    X = blobs(20_000, 4, 6, seed=3)
    weight = np.ones(20_000)
    weight[::7] = 0.0
    table = da.from_array(X, chunks=(3_000, -1))
    truth = KMeans(6, n_init=5, random_state=0).fit(X)
    for model, w in [
        (DPMeans(random_state=0), None),
        (DPMeans(random_state=0), weight),
        (DPMeans(6_000.0, random_state=0), None),
        (KMeans(6, algorithm="search", random_state=0), None),
    ]:
        model.fit(table, sample_weight=w)
        assert model.n_clusters_ == 6
        assert model.coreset_size_ <= 4_000 and abs(model.coreset_error_) < 0.1
        assert isinstance(model.labels_, da.Array) and model.labels_.shape == (20_000,)
        np.testing.assert_array_equal(model.predict(X), model.labels_.compute())
        assert (np.diff(model.objective_history_) <= 0).all()
        if w is None:
            assert model.inertia_ <= 1.001 * truth.inertia_
        if isinstance(model, DPMeans) and model.penalty == "auto":
            assert model.evidence_.n_clusters == 6 and "coreset" in model.evidence_.describe()
            size = np.bincount(model.labels_.compute(), w)
            assert (np.diff(size) <= 0).all()  # the largest first


@pytest.mark.parametrize("name", ["k-means", "dp-means"])
def test_an_interrupted_fit_goes_on_from_its_checkpoint(name, tmp_path, monkeypatch):
    from madbayes._model import checkpoint

    monkeypatch.setattr(checkpoint, "SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "SHARE", 0.0)
    X = blobs(9_000, 12, 30)  # more groups than centres: several passes
    table = da.from_array(X, chunks=(2_000, -1))
    path = tmp_path / "fit.npz"
    write, written = checkpoint.Checkpoint.write, []

    def interrupted(self, state):
        write(self, state)
        written.append(state)
        if len(written) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(checkpoint.Checkpoint, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        MODELS[name]().set_params(checkpoint=path).fit(table)
    assert path.exists()
    model = MODELS[name]().set_params(checkpoint=path).fit(table)
    assert not path.exists()
    assert_same(MODELS[name]().fit(X), model)


# Bad input


def test_unknown_and_empty_chunks_are_fine():
    X = blobs(4_000, 3, 3)
    table = da.from_array(X, chunks=(800, -1))
    unknown = table[da.from_array(np.ones(4_000, bool), chunks=800)]
    assert np.isnan(unknown.shape[0])
    empty = da.concatenate([table[:800], table[:0], table[800:]])
    one = KMeans(3, random_state=0).fit(X)
    for given in (unknown, empty):
        assert_same(one, KMeans(3, random_state=0).fit(given))
    np.testing.assert_array_equal(one.predict(unknown).compute(), one.labels_)
    np.testing.assert_array_equal(one.predict(empty).compute(), one.labels_)


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda X: X[:0], ValueError, "0 sample"),
        (lambda X: X[:, 0], ValueError, "Expected 2D array"),
        (lambda X: X.astype(str), ValueError, "must hold numbers"),
        (lambda X: X.map_blocks(with_nan), ValueError, "NaN: 1 of 500 rows of chunk 2.*row 1007"),
        (lambda X: X.map_blocks(broken), RuntimeError, "disk on fire"),
        (
            lambda X: X.map_blocks(lambda b: b.astype(np.float64), meta=np.empty((0, 0), "f4")),
            TypeError,
            r"chunk \d.*holds float64, and X says float32",
        ),
    ],
)
def test_bad_tables(spoil, error, message):
    X = da.from_array(blobs(2_000, 3, 2), chunks=(500, -1))
    with pytest.raises(error, match=message):
        KMeans(2).fit(spoil(X))


def with_nan(block, block_info=None):
    block = block.copy()
    if block_info and block_info[0]["chunk-location"][0] == 2:
        block[7, 1] = np.nan
    return block


def broken(block, block_info=None):
    if block_info:
        raise RuntimeError("disk on fire")
    return block


def test_bad_parameters():
    X = da.from_array(blobs(2_000, 3, 2), chunks=(500, -1))
    with pytest.raises(ValueError, match="order='random'"):
        DPMeans(9.0, algorithm="paper", order="random").fit(X)
    with pytest.raises(ValueError, match="n_clusters=3000"):
        KMeans(3_000).fit(X)
    with pytest.raises(ValueError, match="negative"):
        KMeans(3).fit(X, sample_weight=-np.ones(2_000))
    with pytest.raises(ValueError, match="one weight for each row"):
        KMeans(3).fit(X, sample_weight=np.ones(3))
    with pytest.raises(TypeError, match="KMedoids needs the rows in this process"):
        KMedoids(2).fit(X)


# Real processes


@pytest.fixture(scope="module")
def cluster():
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "20s"}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster, set_as_default=True) as client,
    ):
        yield client


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_two_processes_one_of_which_is_killed(cluster):
    X = blobs(12_000, 8, 12)
    table = da.from_array(X, chunks=(1_700, -1))
    for make in (
        lambda: KMeans(12, random_state=0, max_iter=3),
        lambda: DPMeans(80.0, algorithm="paper", max_iter=4),
    ):
        assert_same(make().fit(X), make().fit(table))
    victim = next(iter(cluster.run(os.getpid).values()))

    def kill_in_mid_fit():
        while not any(name.startswith("assign") for name in running(cluster)):
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill_in_mid_fit)
    killer.start()
    model = DPMeans(80.0, algorithm="paper", max_iter=4).fit(table)
    killer.join()
    assert_same(DPMeans(80.0, algorithm="paper", max_iter=4).fit(X), model)


def running(client):
    return [key for keys in client.processing().values() for key in map(str, keys)]


def test_the_command_line(cluster, tmp_path):
    import pyarrow.parquet as pq
    from typer.testing import CliRunner

    import madbayes
    from madbayes.cli.app import app

    X = blobs(2_000, 2, 3, seed=1, dtype=np.float64)
    frame = pd.DataFrame({"a": X[:, 0], "b": 1_000 * X[:, 1], "name": "x"})
    (tmp_path / "big").mkdir()
    frame[:1_200].to_parquet(tmp_path / "big" / "0.parquet")
    frame[1_200:].to_parquet(tmp_path / "big" / "1.parquet")
    address, out = cluster.scheduler.address, tmp_path / "out"
    run = CliRunner().invoke
    command = ["cluster", str(tmp_path / "big"), "--scheduler", address, "--out", str(out)]
    done = run(app, command)
    assert done.exit_code == 0, done.output
    assert "3 clusters in 2000 rows" in done.output.replace(",", "")
    model = madbayes.load(out / "model.npz")
    labels = pq.read_table(out / "labels.parquet")["cluster"].to_numpy()
    np.testing.assert_array_equal(model.predict(frame[["a", "b"]]), labels)
    for wrong, message in [
        ([*command, "--log", "a"], "--log does not go together"),
        ([*command[:3], "tcp://127.0.0.1:1"], "no Dask scheduler answers"),
        (["cluster", str(tmp_path), *command[2:]], "no .parquet files"),
    ]:
        done = run(app, wrong)
        assert done.exit_code == 2 and message in " ".join(done.output.split())


def test_a_client_that_closes(cluster):
    table = da.from_array(blobs(4_000, 3, 3), chunks=(500, -1))
    second = distributed.Client(cluster.scheduler.address, set_as_default=False)
    with second.as_current(), pytest.raises(Lost, match="connect a new client"):
        KMeans(3, init=lambda X, k, rng: close(second)).fit(table)


def test_labels_after_their_client_closed(cluster):
    table = da.from_array(blobs(4_000, 3, 3), chunks=(500, -1))
    second = distributed.Client(cluster.scheduler.address, set_as_default=False)
    with second.as_current():
        model = KMeans(3, random_state=0).fit(table)
        assert model.labels_.compute().shape == (4_000,)
    second.close()
    with pytest.raises(Lost, match=r"model\.predict\(X\)"):
        model.labels_.compute()


def close(client):
    client.close()
    return np.zeros((3, 3))


def test_a_scheduler_that_dies(tmp_path):
    begin = [sys.executable, "-m", "dask", "scheduler", "--host", "127.0.0.1", "--port", "0"]
    note = tmp_path / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    file = ["--scheduler-file", str(note), "--no-dashboard"]
    work = [sys.executable, "-m", "dask", "worker", "--nthreads", "1", "--no-nanny", *file]
    table = da.from_array(blobs(4_000, 3, 3), chunks=(500, -1))
    with (
        subprocess.Popen([*begin, *file], **quiet) as scheduler,
        subprocess.Popen(work, **quiet) as worker,
    ):
        try:
            client = distributed.Client(scheduler_file=str(note), set_as_default=False, timeout=60)
            client.wait_for_workers(1)

            def then_kill(X, k, rng):
                scheduler.kill()
                return np.eye(k)

            with client.as_current(), pytest.raises(Lost, match="scheduler was lost"):
                KMeans(3, init=then_kill, tol=0).fit(table)
            client.close(timeout=1)
        finally:
            scheduler.kill()
            worker.kill()
