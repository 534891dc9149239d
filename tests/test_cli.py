"""The command: what it prints and writes, and what it says when the file or the options are off."""

import csv
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from madbayes import cli
from madbayes.cli import fit, pictures

ROOT = Path(__file__).resolve().parents[1]
OLD_FAITHFUL = ROOT / "examples" / "old_faithful.csv"


class Run:
    """One run in this process: exit code, both streams (unwrapped), and what was written."""

    def __init__(self, capsys, out, argv):
        capsys.readouterr()
        self.code = cli.main([str(arg) for arg in argv])
        streams = capsys.readouterr()
        self.stdout = streams.out
        self.stderr = " ".join(streams.err.split())
        self.files = sorted(p.name for p in out.iterdir()) if out.is_dir() else None


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = tmp_path / "out"

    def run(*argv, penalty=("--penalty", "4"), plot=False):
        flags = ["--out", out, "--no-report"] + ["--plot"] * plot
        return Run(capsys, out, ["cluster", *argv, *penalty, *flags])

    run.out = out
    return run


def save(path, text):
    path.write_bytes(text if isinstance(text, bytes) else textwrap.dedent(text).encode())
    return path


@pytest.fixture
def two_groups(tmp_path):
    return save(tmp_path / "two.csv", "a,b\n0,0\n0,1\n1,0\n9,9\n9,10\n")


def labels_of(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


# What it does


def test_clusters_are_printed_and_written(run, two_groups):
    got = run(two_groups, plot=True)
    assert got.code == 0
    names = ["centers.csv", "clusters.png", "labels.csv", "model.npz", "summary.json"]
    assert got.files == names
    assert "2 clusters in 5 rows" in got.stdout
    assert re.search(r"penalty\s+4 \(given\)", got.stdout)
    rows = labels_of(run.out / "labels.csv")
    assert [r["row"] for r in rows] == ["1", "2", "3", "4", "5"]
    assert len({r["cluster"] for r in rows[:3]}) == 1
    assert len({r["cluster"] for r in rows}) == 2
    centers = labels_of(run.out / "centers.csv")
    by_size = {int(r["size"]): float(r["a"]) for r in centers}
    assert by_size == pytest.approx({2: 9, 3: 1 / 3})
    assert (run.out / "clusters.png").read_bytes().startswith(b"\x89PNG")


def test_directions(run, tmp_path):
    table = save(tmp_path / "fans.csv", "a,b\n1,0.1\n2,0.1\n50,4\n0.1,3\n0.2,7\n0.01,0.4\n")
    got = run(table, "--metric", "cosine", penalty=("--penalty", "0.5"))
    assert "2 clusters in 6 rows" in got.stdout
    wrong = run(table, "--metric", "angle")
    assert wrong.code == 2
    assert '--metric angle should be "euclidean" or "cosine"' in wrong.stderr


def test_objective_is_squared_error_plus_penalty_times_clusters(run, two_groups):
    got = run(two_groups)
    expected = 4 / 3 + 0.5 + 2 * 4
    assert f"{expected:.6g}" in got.stdout


def test_old_faithful_has_two_kinds_of_eruption(run):
    got = run(OLD_FAITHFUL, "--standardize", penalty=(), plot=True)
    assert got.code == 0
    assert "2 clusters in 272 rows" in got.stdout
    assert "evidence strong" in got.stdout
    assert "chosen from the data" in got.stdout
    assert (run.out / "path.png").stat().st_size > 1000
    centers = labels_of(run.out / "centers.csv")
    waiting = sorted(float(r["waiting"]) for r in centers)
    assert 53 < waiting[0] < 56 and 79 < waiting[1] < 82  # minutes, not standard deviations


def test_fixed_number_of_clusters(run, two_groups):
    got = run(two_groups, penalty=("--n-clusters", "3"))
    assert got.code == 0
    assert "3 clusters" in got.stdout
    assert "none: the number of clusters was given" in got.stdout


def test_the_same_seed_gives_the_same_files(run, two_groups):
    written = []
    for _ in range(2):
        assert run(two_groups, "--seed", "7", penalty=("--n-clusters", "2")).code == 0
        written.append((run.out / "labels.csv").read_bytes())
    assert written[0] == written[1]


def test_results_go_to_stdout_and_notes_to_stderr(run, tmp_path):
    file = save(tmp_path / "t.csv", "name,x,y\nann,1,2\nbob,8,9\n")
    got = run(file)
    assert "left out name: it holds text" in got.stderr
    assert "left out" not in got.stdout and "cluster" in got.stdout


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"madbayes \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_terminal_with_few_characters(two_groups, tmp_path, encoding):
    command = [sys.executable, "-m", "madbayes.cli", "cluster", two_groups, "--penalty", "4"]
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([*command, "--no-report"], cwd=tmp_path, env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"2 clusters in 5 rows" in done.stdout


def test_numbers_are_never_cut_to_fit_the_terminal(run, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    np.save(tmp_path / "wide.npy", np.array([[-1234.5] * 5, [1.25e-05] * 5]))
    got = run(tmp_path / "wide.npy")
    assert "…" not in got.stdout
    assert "-1,234" in got.stdout and "1.25e-05" in got.stdout
    assert "the 3 of 5 columns that tell them apart best" in got.stdout


def test_many_columns_and_clusters_are_summarised(run, tmp_path):
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(30.0), 3)[:, None] * 100 + rng.normal(size=(90, 9))
    np.save(tmp_path / "wide.npy", X)
    got = run(tmp_path / "wide.npy", penalty=("--penalty", "1000"), plot=True)
    assert got.code == 0
    assert (
        "the 20 largest of 30 clusters and the 6 of 9 columns that tell them apart best"
        in got.stdout
    )
    assert len(labels_of(run.out / "centers.csv")) == 30
    assert "clusters.png" in got.files


# What it reads

GRID = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], dtype=float)


@pytest.mark.parametrize(
    "name, content",
    [
        ("t.csv", "a,b\n0,0\n0,1\n9,9\n9,8\n"),
        ("t.tsv", "a\tb\n0\t0\n0\t1\n9\t9\n9\t8\n"),
        ("semicolons.csv", "a;b\n0,0;0\n0;1\n9;9,0\n9;8\n"),
        ("bars.txt", "a|b\n0|0\n0|1\n\n9|9\n9|8\n"),
        ("no_header.csv", "0,0\n0,1\n9,9\n9,8\n"),
        ("windows.csv", b"\xef\xbb\xbfa,b\r\n0,0\r\n0,1\r\n9,9\r\n9,8\r\n"),
        ("utf16.csv", "a,b\n0,0\n0,1\n9,9\n9,8\n".encode("utf-16")),
        ("euros.csv", "a;b\n0,00 €;0\n0 €;1\n9 €;9\n9 €;8\n".encode("cp1252")),
        ("latin1.csv", "größe,b\n0,0\n0,1\n9,9\n9,8\n".encode("latin-1")),
    ],
)
def test_text_files(run, tmp_path, name, content):
    got = run(save(tmp_path / name, content))
    assert got.code == 0, got.stderr
    assert "2 clusters in 4 rows" in got.stdout


def test_names_survive_latin1(run, tmp_path):
    got = run(save(tmp_path / "t.csv", "größe,b\n0,0\n9,9\n".encode("latin-1")))
    assert "größe" in got.stdout
    assert "read as Latin-1" in got.stderr


def test_parquet_and_npy(run, tmp_path):
    pq.write_table(
        pa.table({"a": GRID[:, 0], "b": GRID[:, 1].astype("f4")}), tmp_path / "t.parquet"
    )
    np.save(tmp_path / "t.npy", GRID.astype(np.float32))
    np.save(tmp_path / "ints.npy", GRID.astype(np.int16))
    np.save(tmp_path / "vector.npy", GRID[:, 0])
    for name in ("t.parquet", "t.npy", "ints.npy", "vector.npy"):
        got = run(tmp_path / name, "--force")
        assert got.code == 0, got.stderr
        assert "2 clusters in 4 rows" in got.stdout


def test_columns_of_parquet_that_are_not_plain_numbers(run, tmp_path):
    table = pa.table(
        {
            "half": pa.array([0, 9], pa.float32()).cast(pa.float16()),
            "money": pa.array([1, 2]).cast(pa.decimal128(21, 2)),
            "kind": pa.array(["a", "b"]).dictionary_encode(),
            "vector": pa.array([[1.0, 2.0], [3.0, 4.0]]),
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    got = run(tmp_path / "t.parquet")
    assert got.code == 0, got.stderr
    assert "used as categories: kind" in got.stderr and "used as vectors: vector" in got.stderr
    names = ["half", "money", "kind=a", "kind=b", "vector[0]", "vector[1]"]
    assert list(labels_of(run.out / "centers.csv")[0])[2:] == names


def test_gzipped_csv(run, tmp_path):
    import gzip

    with gzip.open(tmp_path / "t.csv.gz", "wt") as stream:
        stream.write("a,b\n0,0\n0,1\n9,9\n")
    assert run(tmp_path / "t.csv.gz").code == 0


def test_row_numbers_and_other_columns_are_left_out_aloud(run, tmp_path):
    file = save(
        tmp_path / "t.csv",
        """\
        ,id,day,ok,x,note,y
        0,1,2024-01-01,true,0.5,,1
        1,2,2024-01-02,false,0.7,,2.5
        2,3,2024-01-03,true,9.5,,3
        """,
    )
    got = run(file)
    assert got.code == 0, got.stderr
    for piece in (
        "left out (unnamed 0): it only counts the rows",
        "left out id: it only counts the rows",
        "left out day: it holds dates or times",
        "used as yes or no: ok",
        "most columns were left out (4 of 7)",
        "left out note: it is empty",
    ):
        assert piece in got.stderr
    assert run(file, "--columns", "ok,x").code == 0


def test_columns_and_drop(run, tmp_path):
    file = save(tmp_path / "t.csv", 'a,b,"c,d"\n0,0,5\n0,1,5\n9,9,5\n')
    run(file, "--columns", "b,a")  # in the order of the file
    assert list(labels_of(run.out / "centers.csv")[0])[2:] == ["a", "b"]
    got = run(file, "--drop", "b")
    assert list(labels_of(run.out / "centers.csv")[0])[2:] == ["a"]
    assert "left out c,d: all cells are 5" in got.stderr
    run(file, "--columns", "c,d", "--columns", "a")
    assert list(labels_of(run.out / "centers.csv")[0])[2:] == ["a", "c,d"]


def test_dropped_rows_keep_their_place(run, tmp_path):
    file = save(tmp_path / "t.csv", "a,b\n0,0\n,1\n9,9\n9,inf\n")
    got = run(file, "--missing", "drop")
    assert got.code == 0
    assert "left out 2 of 4 rows" in got.stderr
    assert [r["cluster"] == "" for r in labels_of(run.out / "labels.csv")] == [
        False,
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("flags", [[], ["--standardize"]])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_one_row_is_one_cluster(run, tmp_path, flags, d):
    names = ",".join("abcd"[:d])
    file = save(tmp_path / "t.csv", f"{names}\n{','.join(['3.5'] * d)}\n")
    got = run(file, *flags, plot=True)
    assert got.code == 0, got.stderr
    assert "1 cluster in 1 row" in got.stdout
    assert "3.5" in got.stdout


def test_standardizing_leaves_constant_columns_alone(run, tmp_path):
    file = save(tmp_path / "t.csv", "a,b\n0,7\n0.1,7\n9,7\n")
    got = run(file, "--standardize", "--columns", "a,b", penalty=("--penalty", "1"))
    assert got.code == 0
    assert {r["b"] for r in labels_of(run.out / "centers.csv")} == {"7.0"}


# What it says when something is off


def bad_files(folder):
    save(folder / "empty.csv", "")
    save(folder / "header_only.csv", "a,b\n")
    save(folder / "text_only.csv", "name,city\nann,ulm\nbob,bonn\n")
    save(folder / "missing.csv", "a,b\n1,2\n3,\n,4\n")
    save(folder / "one_column.csv", "a\n1\n\n3\n")
    save(folder / "infinite.csv", "a,b\n1,2\n3,inf\n")
    save(folder / "ragged.csv", "a,b\n1,2\n3,4,5\n")
    save(folder / "picture.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    save(folder / "table.xlsx", b"PK\x03\x04")
    save(folder / "table.xls", b"...")
    save(folder / "table.what", b"...")
    save(folder / "broken.npy", b"not a numpy file")
    save(folder / "broken.parquet", b"PAR1 but not really")
    save(folder / "broken.csv.gz", b"plain text")
    np.save(folder / "cube.npy", np.zeros((2, 2, 2)))
    np.save(folder / "complex.npy", np.zeros((2, 2), dtype=complex))
    np.save(folder / "objects.npy", np.array([[1, "a"]], dtype=object))
    np.save(folder / "nan.npy", np.array([[1.0, np.nan]]))
    (folder / "folder.csv").mkdir()


@pytest.mark.parametrize(
    "name, pieces",
    [
        ("absent.csv", ["There is no file", "absent.csv"]),
        ("emty.csv", ["There is no file", "Did you mean empty.csv?"]),
        ("empty.csv", ["is empty"]),
        ("header_only.csv", ["no rows"]),
        ("text_only.csv", ["no column to use", "name: it holds text"]),
        ("missing.csv", ["row 3, column b is missing", "2 of 3 rows", "--missing drop"]),
        ("one_column.csv", ["row 3, column a is missing", "--missing drop"]),
        ("infinite.csv", ["row 3, column b is infinite", "--missing drop"]),
        ("ragged.csv", ["could not be read as a table", "line 3 has 3 cells, the first line 2"]),
        ("picture.csv", ["does not look like text"]),
        ("table.xlsx", ["could not be read as an Excel file"]),
        ("table.xls", ["spreadsheet of another kind", ".csv"]),
        ("table.what", ["ends in .what", "CSV and TSV"]),
        ("broken.npy", ["could not be read"]),
        ("broken.parquet", ["could not be read"]),
        ("broken.csv.gz", ["could not be read"]),
        ("cube.npy", ["shape (2, 2, 2)", "two dimensions"]),
        ("complex.npy", ["complex128"]),
        ("objects.npy", ["could not be read"]),
        ("nan.npy", ["row 1, column x1 is missing"]),
        ("folder.csv", ["is a directory"]),
    ],
)
def test_bad_files_get_one_paragraph_and_exit_code_2(run, tmp_path, name, pieces):
    bad_files(tmp_path)
    got = run(tmp_path / name, "--missing", "error")
    assert got.code == 2
    for piece in pieces:
        assert piece in got.stderr
    assert "Traceback" not in got.stderr
    assert got.stdout == ""
    assert got.files is None  # not even the folder


@pytest.mark.parametrize(
    "argv, pieces",
    [
        (["--penalty", "abc"], ["number > 0", "squared-distance units", "auto"]),
        (["--penalty", "-3"], ["-3", "> 0"]),
        (["--penalty", "nan"], ["--penalty nan"]),
        (["--penalty", "inf"], ["--penalty inf"]),
        (["--penalty", "farthest-first", "--clusters-hint", "99"], ["--clusters-hint 99"]),
        (["--penalty", "farthest-first"], ["--clusters-hint N"]),
        (["--penalty", "3", "--n-clusters", "2"], ["cannot be combined"]),
        (["--standardize", "no", "--missing", "guess"], ["--missing guess", "impute-mean"]),
        (["--shape", "square"], ["--shape square"]),
        (["--penalty", "3", "--clusters-hint", "2"], ["would be ignored"]),
        (["--n-clusters", "0"], ["--n-clusters"]),
        (["--n-clusters", "99"], ["--n-clusters 99", "5"]),
        (["--penalty", "3", "--columns", "a,bb"], ["'bb'", "Did you mean b?", "a, b"]),
        (["--penalty", "3", "--drop", "z"], ["--drop names 'z'"]),
        (["--penalty", "3", "--drop", "a,b"], ["no column to use (a: by --drop; b: by"]),
        (["--no-such-option"], ["--no-such-option"]),
    ],
)
def test_bad_options(run, two_groups, argv, pieces):
    got = run(two_groups, *argv, penalty=())
    assert got.code == 2
    for piece in pieces:
        assert piece in got.stderr
    assert "Traceback" not in got.stderr
    assert got.files is None


def test_a_hint_narrows_what_the_data_decide(run, tmp_path):
    rng = np.random.default_rng(0)
    X = np.repeat(np.arange(9.0), 60)[:, None] * 30 + rng.normal(size=(540, 2))
    np.save(tmp_path / "nine.npy", X)
    got = run(tmp_path / "nine.npy", "--clusters-hint", "8", penalty=())
    assert "9 clusters in 540 rows" in got.stdout
    assert "near a hint of 8" in got.stdout


def test_noise_is_one_cluster_and_says_so(run, tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).normal(size=(300, 3)))
    got = run(tmp_path / "noise.npy", penalty=())
    assert "1 cluster in 300 rows" in got.stdout
    assert "1 cluster: no division" in " ".join(got.stdout.split())


def test_text_of_very_many_values_cannot_be_asked_for(run, tmp_path):
    lines = "".join(f"ann{i},{i}\n" for i in range(60))
    got = run(save(tmp_path / "t.csv", "name,x\n" + lines), "--columns", "name,x")
    assert got.code == 2
    assert "column 'name' cannot be used: it holds text of 60 different values" in got.stderr


def test_out_that_cannot_be_written(two_groups, tmp_path, capsys):
    blocked = save(tmp_path / "taken", "already a file")
    argv = ["cluster", str(two_groups), "--penalty", "4", "--out"]
    assert cli.main([*argv, str(blocked)]) == 2
    assert "is a file" in " ".join(capsys.readouterr().err.split())
    assert cli.main([*argv, str(blocked / "below")]) == 2
    assert "cannot be made" in " ".join(capsys.readouterr().err.split())
    assert blocked.read_text() == "already a file"


# Whole files or none


@pytest.mark.parametrize("step", ["fit", "draw"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_a_stopped_run_leaves_the_old_results_alone(run, two_groups, monkeypatch, step, stop):
    assert run(two_groups, plot=True).code == 0
    before = {p.name: p.read_bytes() for p in run.out.iterdir()}

    def fail(*args, **kwargs):
        raise stop

    if step == "fit":
        monkeypatch.setattr(fit, "clustering", fail)
    else:
        monkeypatch.setattr(pictures, "clusters", fail)
    assert run(two_groups, plot=True).code == (130 if stop is KeyboardInterrupt else 1)
    assert not [p for p in run.out.parent.iterdir() if p.name.startswith(".")]
    assert {p.name: p.read_bytes() for p in run.out.iterdir()} == before


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_leaves_nothing_behind(two_groups, tmp_path):
    out = tmp_path / "out"
    script = f"""\
        import signal, sys, time
        from madbayes import cli
        from madbayes.cli import fit
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by background jobs
        def slow(*args, **kwargs):
            print("fitting", flush=True)
            time.sleep(60)
        fit.fit_table = slow
        argv = ["cluster", {str(two_groups)!r}, "--penalty", "4", "--out", {str(out)!r}]
        sys.exit(cli.main(argv))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "fitting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Interrupted" in stderr and "Traceback" not in stderr
    assert not out.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["two.csv"]


# When parts are not installed


def test_without_the_cli_extra_the_command_says_what_to_install():
    script = """\
        import sys
        for name in ("typer", "rich", "pyarrow", "matplotlib"):
            sys.modules[name] = None  # as if not installed
        import madbayes.plots
        from madbayes.cli import main
        sys.exit(main(["cluster", "some.csv"]))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "typer, rich, pyarrow" in done.stderr
    assert 'pip install "madbayes[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_without_matplotlib_the_rest_is_still_written(run, two_groups, monkeypatch):
    assert run(two_groups, plot=True).code == 0
    monkeypatch.setattr(pictures, "installed", lambda: False)
    got = run(two_groups, plot=True)
    assert got.code == 0
    assert 'pip install "madbayes[plot]"' in got.stderr
    assert "clusters.png" not in got.stdout
    assert "clusters.png" not in got.files  # not that of the earlier run either


# Groups


@pytest.fixture
def wards(tmp_path):
    """Four wards of ten rows, each with two of three clusters; the last line has no value."""
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 0], [9, 0], [0, 9]])
    lines = ["id,ward,x,y"]
    for j, pair in enumerate([(0, 1), (1, 2), (0, 2), (0, 1)]):
        for i, p in enumerate(np.repeat(pair, 5)):
            x, y = places[p] + rng.normal(size=2)
            lines.append(f"{10 * j + i},w{j},{x:.3f},{y:.3f}")
    lines.append("40,w3,,1")
    return save(tmp_path / "wards.csv", "\n".join(lines) + "\n")


def share(capsys, out, *argv):
    return Run(capsys, out, ["groups", *argv, "--out", out, "--no-report"])


def test_groups_share_clusters(capsys, tmp_path, wards, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    out = tmp_path / "out"
    done = share(capsys, out, wards, "--by", "ward", "--missing", "drop", "--plot")
    assert done.code == 0, done.stderr
    for name in ("centers.csv", "groups.csv", "groups.png", "labels.csv", "usage.png"):
        assert name in done.files
    assert "3 clusters shared by 4 groups in 40 rows" in done.stdout
    assert "uses 2 of the clusters" in done.stdout
    assert "left out id: it only counts the rows" in done.stderr
    with (out / "groups.csv").open() as stream:
        table = list(csv.reader(stream))
    assert table[0] == ["ward", "size", "clusters", "0", "1", "2"]
    assert [line[:3] for line in table[1:]] == [[f"w{j}", "10", "2"] for j in range(4)]
    assert sorted(table[1][3:]) == ["0", "5", "5"]
    labels = (out / "labels.csv").read_text().splitlines()
    assert len(labels) == 42
    assert labels[0] == "row,cluster,distance,second,novelty_p_value,ward"
    assert labels[-1] == "41,,,,,"


def test_groups_with_penalties_numbers_and_standardized(capsys, tmp_path):
    out = tmp_path / "out"
    X = np.repeat([[0.0, 0], [9, 0]], 12, axis=0) + np.random.default_rng(0).normal(size=(24, 2))
    pq.write_table(
        pa.table({"shop": np.tile([7, 3, 5], 8), "x": X[:, 0], "y": X[:, 1]}),
        tmp_path / "shops.parquet",
    )
    argv = (tmp_path / "shops.parquet", "--by", "shop", "--standardize")
    done = share(capsys, out, *argv, "--penalty-local", "2", "--penalty-global", "9")
    assert done.code == 0, done.stderr
    assert "local 2, global 9" in done.stdout
    assert (out / "groups.csv").read_text().splitlines()[1].startswith("3,8,2,")
    done = share(capsys, out, *argv, "--local-hint", "1", "--global-hint", "1")
    assert "1 cluster shared by 3 groups" in done.stdout


@pytest.mark.parametrize(
    ("argv", "pieces"),
    [
        (["--by", "wart"], ["--by names 'wart'", "Did you mean ward?"]),
        (["--by", "ward", "--missing", "error"], ["row 42, column x is missing"]),
        (["--by", "x", "--columns", "y"], ["Row 42 has no value in the column x"]),
        (["--by", "ward", "--penalty-local", "-1"], ["--penalty-local -1", "> 0"]),
        (
            ["--by", "ward", "--penalty-global", "2", "--global-hint", "3"],
            ["--global-hint 3 would be ignored"],
        ),
    ],
)
def test_groups_says_what_is_wrong(capsys, tmp_path, wards, argv, pieces):
    done = share(capsys, tmp_path / "out", wards, *argv)
    assert done.code == 2
    assert done.files is None
    for piece in pieces:
        assert piece in done.stderr


@pytest.mark.parametrize("shape", ["any", "round"])
def test_values_too_large_to_square_are_one_line(shape, tmp_path):
    """In a process of its own: neighbours of such rows once corrupted the memory."""
    rows = np.random.default_rng(0).normal(size=(50, 3))
    rows[7, 1] = 1e200
    np.savetxt(tmp_path / "huge.csv", rows, delimiter=",", header="a,b,c", comments="")
    command = [sys.executable, "-m", "madbayes.cli", "cluster", "huge.csv", "--shape", shape]
    command += ["--standardize", "no", "--out", "out"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**os.environ, "TMPDIR": str(scratch), "COLUMNS": "300"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    error = done.stderr.splitlines()[-1]
    assert re.fullmatch(r"Error: X spreads over 1e\+200, .* overflow float64.*", error)
    assert "--standardize yes" in error  # the way out, in the words of the command
    assert "Warning" not in done.stderr
    assert [p.name for p in tmp_path.iterdir() if p != scratch] == ["huge.csv"]
    assert not list(scratch.iterdir())
