"""Rows that are not in memory: the same bits as an array, clear errors, the search by a coreset."""

import os
import pickle

import numpy as np
import pytest

import madbayes
from madbayes import BPMeans, DPMeans, HardHDP, KFeatures, KMeans, OnlineDPMeans, OnlineKMeans
from madbayes._rows import blocks as engine_blocks
from madbayes._rows.rows import Rows, on_disk
from madbayes.kmeans import solve

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def blobs(n, d, k, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    centers = rng.normal(scale=8, size=(k, d))
    return (centers[rng.integers(k, size=n)] + rng.normal(size=(n, d))).astype(dtype)


def as_table(X, **more):
    return pa.table({**{f"x{j}": X[:, j] for j in range(X.shape[1])}, **more})


def write_parquet(folder, X, cuts, **options):
    """One file for each piece between the cuts, with a column of text beside the numbers."""
    folder.mkdir(exist_ok=True)
    for i, part in enumerate(np.split(X, cuts)):
        table = as_table(part, name=["row"] * len(part))
        pq.write_table(table, folder / f"{i:02}.parquet", **options)
    return folder


def sources(folder, X):
    """The same rows from everywhere."""
    parquet = write_parquet(folder / "parquet", X, [700, 700, 1501], row_group_size=400)
    np.save(folder / "a.npy", X[:900])
    np.save(folder / "b.npy", X[900:])
    np.save(folder / "all.npy", X)
    pieces = np.array_split(X, 7)
    return {
        "memory map": np.load(folder / "all.npy", mmap_mode="r"),
        "one npy": madbayes.blocks(folder / "all.npy"),
        "several npy": madbayes.blocks([folder / "a.npy", str(folder / "b.npy")]),
        "parquet folder": madbayes.blocks(parquet),
        "parquet pattern, not spooled": madbayes.blocks(f"{parquet}/*.parquet", spool=False),
        "iterator": madbayes.blocks(lambda: iter(pieces), spool=folder),
        "callables": madbayes.blocks([lambda piece=piece: piece for piece in pieces]),
        "tables": madbayes.blocks(lambda: (as_table(piece) for piece in pieces)),
    }


MODELS = [
    KMeans(5, random_state=0, tol=0),
    KMeans(4, random_state=1, metric="cosine", max_iter=20, tol=1e-3),
    DPMeans(60.0, algorithm="paper"),
    DPMeans(60.0, algorithm="paper", order="random", random_state=3),
    DPMeans(random_state=0),
    HardHDP(30.0, 90.0, algorithm="paper"),
    OnlineKMeans(4),
    OnlineDPMeans(400.0),
    KFeatures(3, random_state=0, n_init=1),
    BPMeans(3e4, algorithm="paper", random_state=0, n_init=1),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: repr(model)[:60])
def test_any_source_gives_the_bits_of_an_array(model, dtype, tmp_path):
    X = blobs(2300, 7, 5, seed=0, dtype=dtype)
    expected = model.fit(X)
    kept = {name: getattr(expected, name) for name in ("objective_", "objective_history_")}
    what = "labels_" if hasattr(expected, "labels_") else "assignments_"
    found_before = getattr(expected, what).copy()
    for name, source in sources(tmp_path, X).items():
        found = model.fit(source)
        np.testing.assert_array_equal(getattr(found, what), found_before, err_msg=name)
        for attribute, value in kept.items():
            np.testing.assert_array_equal(getattr(found, attribute), value, err_msg=name)
        if hasattr(found, "predict"):
            rows = source[:] if not hasattr(source, "names") else source
            assert found.predict(rows).dtype == np.int32


@pytest.mark.parametrize("values", [7 * 16, 7 * 333, 2**20])
def test_block_sizes_are_the_same_for_every_source(values, tmp_path, monkeypatch):
    monkeypatch.setattr(engine_blocks, "BLOCK_VALUES", values)
    X = blobs(2300, 7, 5, seed=1, dtype=np.float32)
    for model in (KMeans(6, random_state=0), DPMeans(50.0, algorithm="paper")):
        expected = model.fit(X).inertia_, model.cluster_centers_.copy()
        for name, source in sources(tmp_path, X).items():
            found = model.fit(source)
            assert found.inertia_ == expected[0], name
            np.testing.assert_array_equal(found.cluster_centers_, expected[1], err_msg=name)


def test_a_table_in_blocks_looks_like_an_array(tmp_path):
    X = blobs(2300, 7, 3, seed=2, dtype=np.float32)
    for name, table in sources(tmp_path, X).items():
        if name == "memory map":
            continue
        assert table.shape == X.shape, name
        assert len(table) == 2300
        assert table.dtype == np.float32
        some = np.array([5, 2299, 0, 5, 1000])
        np.testing.assert_array_equal(table[some], X[some])
        np.testing.assert_array_equal(table[300:1900], X[300:1900])
        np.testing.assert_array_equal(table[::100], X[::100])
        np.testing.assert_array_equal(table[X[:, 0] > 1], X[X[:, 0] > 1])
        np.testing.assert_array_equal(np.vstack(list(table)), X)
        assert "2,300 rows of 7 columns" in repr(table)
        assert on_disk(table.check())
        with pytest.raises(TypeError, match="not to be held in memory"):
            np.asarray(table)
    np.testing.assert_array_equal(Rows(table).take(some), X[some].astype(float))


def test_columns_and_types(tmp_path):
    names = ("a", "b", "kind", "flag", "vector", "price")
    vectors = pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], pa.list_(pa.float32(), 2))
    table = pa.table(
        dict(
            zip(
                names,
                [
                    pa.array([1, 2, 3], pa.int64()),
                    pa.array([0.5, 1.5, 2.5], pa.float32()),
                    ["u", "v", "w"],
                    [True, False, True],
                    vectors,
                    pa.array([1, 2, 3]).cast(pa.decimal128(22, 2)),
                ],
                strict=True,
            )
        )
    )
    path = tmp_path / "mixed.parquet"
    pq.write_table(table, path)
    X = madbayes.blocks(path)
    assert X.names == ("a", "b", "flag", "vector[0]", "vector[1]", "price")
    assert X.dtype == np.float64
    assert X[:1].tolist() == [[1, 0.5, 1, 1, 2, 1]]
    single = madbayes.blocks(path, columns=["b", "vector"])
    assert single.dtype == np.float32
    assert single[2:].tolist() == [[2.5, 5, 6]]
    assert madbayes.blocks(path, dtype="float32").dtype == np.float32
    model = DPMeans(1e9).fit(single)
    assert model.feature_names_in_.tolist() == ["b", "vector[0]", "vector[1]"]
    with pytest.raises(ValueError, match=r"X has 6 features, but DPMeans is expecting 3"):
        model.predict(X)
    other = madbayes.blocks(path, columns=["a", "vector"])
    with pytest.raises(ValueError, match=r"fitted on \['b', 'vector\[0\]'"):
        model.predict(other)
    # columns in another order, and a file without rows
    pq.write_table(table.select(["vector", "b"]), tmp_path / "turned.parquet")
    pq.write_table(table.select(["b", "vector"]).slice(0, 0), tmp_path / "empty.parquet")
    both = madbayes.blocks([path, tmp_path / "turned.parquet"], columns=["b", "vector"])
    np.testing.assert_array_equal(both[:3], both[3:])
    pq.write_table(table.select(["b", "a"]), tmp_path / "1.parquet")
    pq.write_table(table.select(["a", "b"]), tmp_path / "2.parquet")
    pair = madbayes.blocks([tmp_path / "1.parquet", tmp_path / "2.parquet"])
    np.testing.assert_array_equal(pair[:3], pair[3:])


def test_files_of_unequal_types_meet_in_the_wider_one(tmp_path):
    X = blobs(60, 2, 2, seed=0)
    pq.write_table(as_table(X[:30].astype(np.float32)), tmp_path / "0.parquet")
    pq.write_table(as_table(X[30:]), tmp_path / "1.parquet")
    for spool in (True, False):
        table = madbayes.blocks(tmp_path, spool=spool)
        assert table.dtype == np.float64
        np.testing.assert_array_equal(table[30:], X[30:])
    with pytest.raises(ValueError, match="block 1 is float64, and the blocks before it"):
        madbayes.blocks(lambda: iter([X[:9].astype(np.float32), X[9:]]))
    wide = madbayes.blocks(lambda: iter([X[:9].astype(np.float32), X[9:]]), dtype="float64")
    np.testing.assert_array_equal(wide[9:], X[9:])


@pytest.mark.parametrize("spool", [True, False])
def test_what_is_no_number_is_named(spool, tmp_path):
    X = blobs(500, 3, 2, seed=0)
    X[333, 1] = np.nan
    folder = write_parquet(tmp_path / "files", X, [300])
    where = r"01\.parquet.*row 33, column 'x1'"
    with pytest.raises(ValueError, match=f"X contains NaN: .*{where}"):
        KMeans(2).fit(madbayes.blocks(folder, spool=spool))
    table = as_table(X[:4], more=pa.array([1, None, 2, 3]))
    pq.write_table(table, tmp_path / "gaps.parquet")
    with pytest.raises(ValueError, match="row 1, column 'more'"):
        KMeans(2).fit(madbayes.blocks(tmp_path / "gaps.parquet", spool=spool))
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(ValueError, match=r"rows\.npy, row 333, column 1"):
        KMeans(2).fit(madbayes.blocks(tmp_path / "rows.npy"))
    X[333, 1] = np.inf
    with pytest.raises(ValueError, match="X contains infinity: block 1, row 133, column 1"):
        madbayes.blocks(lambda: iter([X[:200], X[200:]]))


def test_files_that_do_not_fit(tmp_path):
    X = blobs(50, 3, 2, seed=0)
    folder = write_parquet(tmp_path / "files", X, [20])
    pq.write_table(as_table(X[:, :2]), folder / "02.parquet")
    with pytest.raises(ValueError, match=r"02\.parquet does not have the columns .*lacks \['x2'\]"):
        madbayes.blocks(folder)
    assert madbayes.blocks(folder, columns=["x0", "x1"]).shape == (100, 2)
    with pytest.raises(ValueError, match="no column 'y'"):
        madbayes.blocks(folder, columns=["y"])
    with pytest.raises(ValueError, match="column 'name' holds string, not numbers"):
        madbayes.blocks(folder / "00.parquet", columns=["name"])
    (tmp_path / "none.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"none\.parquet cannot be read as a Parquet file"):
        madbayes.blocks(tmp_path / "none.parquet")
    (tmp_path / "bad.npy").write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match=r"bad\.npy cannot be read"):
        madbayes.blocks(tmp_path / "bad.npy")
    with pytest.raises(FileNotFoundError, match=r"there is no \.parquet or \.npy file"):
        madbayes.blocks(tmp_path / "missing" / "*.parquet")
    with pytest.raises(ValueError, match=r"x\.csv: \.parquet and \.npy"):
        (tmp_path / "x.csv").write_text("1")
        madbayes.blocks(tmp_path / "x.csv")
    with pytest.raises(TypeError, match="source=3 must be"):
        madbayes.blocks(3)
    ragged = pa.table({"v": pa.array([[1.0, 2.0], [1.0]])})
    pq.write_table(ragged, tmp_path / "ragged.parquet")
    with pytest.raises(ValueError, match="column 'v' has lists of different lengths"):
        madbayes.blocks(tmp_path / "ragged.parquet")


def test_blocks_that_do_not_fit():
    X = blobs(50, 3, 2, seed=0)
    with pytest.raises(ValueError, match="block 1 has 2 columns, and those before it have 3"):
        madbayes.blocks(lambda: iter([X, X[:, :2]]))
    with pytest.raises(ValueError, match="block 0 has the shape"):
        madbayes.blocks(lambda: iter([X[0]]))
    with pytest.raises(ValueError, match="X has no rows"):
        KMeans(2).fit(madbayes.blocks(lambda: iter([X[:0]])))
    assert madbayes.blocks(lambda: iter([X[:0], X, X[:0]])).shape == (50, 3)
    with pytest.raises(ValueError, match="list of callables"):
        madbayes.blocks(lambda: iter([X]), spool=False)
    with pytest.raises(ValueError, match="dtype='int8' must be"):
        madbayes.blocks(lambda: iter([X]), dtype="int8")
    with pytest.raises(FileNotFoundError, match="spool="):
        madbayes.blocks(lambda: iter([X]), spool="no such folder")


def test_sources_that_change_are_noticed_or_do_not_matter(tmp_path):
    X = blobs(500, 3, 2, seed=0)
    folder = write_parquet(tmp_path / "files", X, [300])
    safe, read_again = madbayes.blocks(folder), madbayes.blocks(folder, spool=False)
    np.save(tmp_path / "rows.npy", X)
    mapped = madbayes.blocks(tmp_path / "rows.npy")
    pq.write_table(as_table(X[:300] + 1, name=["row"] * 300), folder / "00.parquet")
    (tmp_path / "new.npy").write_bytes((tmp_path / "rows.npy").read_bytes())
    os.replace(tmp_path / "new.npy", tmp_path / "rows.npy")
    np.testing.assert_array_equal(safe[:], X)
    for table in (read_again, mapped):
        with pytest.raises(ValueError, match="was changed or removed while it was being read"):
            KMeans(2).fit(table)
    sizes = iter([50, 49])
    shrinking = madbayes.blocks([lambda: X[: next(sizes)]])
    with pytest.raises(ValueError, match=r"block 0 has the shape \(49, 3\) now"):
        KMeans(2).fit(shrinking)


def test_no_room_on_the_disk(tmp_path, monkeypatch):
    folder = write_parquet(tmp_path / "files", blobs(500, 3, 2, seed=0), [300])
    usage = type("Usage", (), {"free": 100})
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(OSError, match=r"takes 12,000 bytes .* has 100 left.*spool=False"):
        madbayes.blocks(folder)


def test_blocks_are_kept_within_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_blocks, "KEPT_VALUES", 1000)
    X = blobs(2000, 4, 2, seed=0)
    table = madbayes.blocks(write_parquet(tmp_path / "p", X, [], row_group_size=200), spool=False)
    np.testing.assert_array_equal(table[:], X)
    assert len(table._kept) == 1


def test_who_cannot_read_blocks_says_who_can():
    table = madbayes.blocks(lambda: iter([blobs(50, 3, 2, seed=0)]))
    for name in ("CollapsedDPMeans", "KernelDPMeans", "EllipticalMeans", "KMedoids", "NeighborCut"):
        with pytest.raises(TypeError, match=r"KMeans, DPMeans, HardHDP.*block by block"):
            getattr(madbayes, name)().fit(table)
    model = DPMeans(10.0).fit(table)
    assert madbayes.penalties.path(table, random_state=0).best().n_clusters >= 1
    assert model.score(table) == pytest.approx(-model.inertia_)
    np.testing.assert_array_equal(model.novelty_score(table), model.novelty_score(table[:]))
    np.testing.assert_array_equal(model.predict(table, novel=0.1), model.predict(table[:], 0.1))


# The search


@pytest.fixture
def small_memory(monkeypatch):
    monkeypatch.setattr(solve, "DISK_VALUES", 20_000)
    monkeypatch.setattr(solve, "CORE_ROWS", (1500, 1500))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_auto_goes_through_a_coreset(small_memory, metric, tmp_path):
    X = blobs(12_000, 6, 9, seed=0, dtype=np.float32)
    np.save(tmp_path / "rows.npy", X)
    table = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = DPMeans(random_state=0, metric=metric).fit(table)
    whole = DPMeans(random_state=0, metric=metric).fit(X)
    assert not hasattr(whole, "coreset_size_")
    assert model.n_clusters_ == model.evidence_.n_clusters == whole.n_clusters_
    assert model.objective_ <= 1.001 * whole.inertia_ + model.penalty_ * model.n_clusters_
    assert 500 < model.coreset_size_ <= 1500
    assert abs(model.coreset_error_) < 0.1
    assert "a coreset of" in model.evidence_.describe()
    sizes = np.bincount(model.labels_)
    assert (np.diff(sizes) <= 0).all()
    assert model.objective_history_[-1] == model.objective_
    assert (np.diff(model.objective_history_) <= 0).all()
    again = DPMeans(random_state=0, metric=metric, n_jobs=1).fit(table)
    np.testing.assert_array_equal(again.labels_, model.labels_)
    assert again.objective_ == model.objective_
    model.fit(X)
    assert not hasattr(model, "coreset_error_")


def test_a_penalty_goes_through_a_coreset(small_memory, tmp_path):
    X = blobs(12_000, 6, 9, seed=0)
    X[77] += 500  # alone worth a cluster
    np.save(tmp_path / "rows.npy", X)
    model = DPMeans(5000.0, random_state=0).fit(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    whole = DPMeans(5000.0, random_state=0).fit(X)
    assert model.n_clusters_ == whole.n_clusters_
    assert model.objective_ <= 1.001 * whole.objective_
    assert (model.labels_ == model.labels_[77]).sum() == 1
    fixed = KMeans(9, algorithm="search", random_state=0)
    fixed.fit(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    assert fixed.inertia_ <= 1.001 * KMeans(9, algorithm="search", random_state=0).fit(X).inertia_
    assert fixed.coreset_size_ <= 1500


def test_many_clusters_take_a_larger_coreset(monkeypatch, tmp_path):
    monkeypatch.setattr(solve, "DISK_VALUES", 12_000)
    monkeypatch.setattr(solve, "CORE_ROWS", (500, 500))
    X = blobs(9000, 2, 30, seed=1)
    np.save(tmp_path / "rows.npy", X)
    model = DPMeans(400.0, random_state=0).fit(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    assert model.coreset_size_ > 500
    assert model.objective_ <= 1.02 * DPMeans(400.0, random_state=0).fit(X).objective_


def test_a_coreset_that_is_too_small_says_so(small_memory, tmp_path):
    np.save(tmp_path / "rows.npy", blobs(12_000, 6, 9, seed=0))
    table = np.load(tmp_path / "rows.npy", mmap_mode="r")
    with pytest.warns(UserWarning, match=r"a coreset of .*-\d+% off.*larger penalty"):
        model = DPMeans(60.0, random_state=0).fit(table)
    assert model.coreset_error_ < -0.1


def test_weights_count_in_a_coreset(small_memory, tmp_path):
    X = blobs(12_000, 6, 9, seed=0)
    np.save(tmp_path / "rows.npy", X)
    weight = np.random.default_rng(0).integers(0, 3, 12_000).astype(float)
    table = np.load(tmp_path / "rows.npy", mmap_mode="r")
    model = DPMeans(5000.0, random_state=0).fit(table, sample_weight=weight)
    whole = DPMeans(5000.0, random_state=0).fit(X, sample_weight=weight)
    assert model.objective_ <= 1.001 * whole.objective_


def test_hdp_search_on_disk_is_refused(monkeypatch):
    from madbayes.groups import base as sharing

    monkeypatch.setattr(sharing, "DISK_VALUES", 100)
    table = madbayes.blocks(lambda: iter([blobs(500, 3, 2, seed=0)]))
    with pytest.raises(ValueError, match="algorithm='paper'"):
        HardHDP(10.0, 30.0).fit(table)
    expected = HardHDP(10.0, 30.0, algorithm="paper").fit(table[:])
    monkeypatch.setattr("madbayes.groups.grouped_rows.DISK_VALUES", 100)
    found = HardHDP(10.0, 30.0, algorithm="paper").fit(table)
    np.testing.assert_array_equal(found.labels_, expected.labels_)
