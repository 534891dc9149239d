"""Files that are damaged, enormous or made to do harm: one line and exit code 2, nothing else.

Limits are lowered for tests where a file beyond them would take long to make.
"""

import errno
import gzip
import io
import json
import multiprocessing
import os
import sys
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from test_cli_files import X, lines, three
from test_cli_files import run as run

import madbayes
from madbayes import cli
from madbayes.cli import results, write
from madbayes.tables import formats, frame, limits, text

PLAIN = {"x": X[:, 0], "y": X[:, 1]}


def fails(capsys, *argv):
    """The one line that the command says, with exit code 2."""
    capsys.readouterr()
    assert cli.main([str(word) for word in argv]) == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: ") and said.count("\n") == 1 and "mistake" not in said
    return said


# Results and who wrote them


def test_a_summary_from_elsewhere_removes_nothing(tmp_path, monkeypatch, capsys):
    """A summary that came with a folder lists files outside it, links and files of the user."""
    folder, table = tmp_path / "sent", tmp_path / "x.csv"
    (folder / "deep").mkdir(parents=True)
    table.write_text(lines(PLAIN))
    victims = [tmp_path / "victim.txt", tmp_path / "absolute.txt", folder / "mine.txt"]
    victims += [folder / "deep" / "labels.csv", tmp_path / "linked.csv"]
    for victim in victims:
        victim.write_text("keep me")
    (folder / "centers.csv").symlink_to(tmp_path / "linked.csv")
    listed = ["../victim.txt", str(tmp_path / "absolute.txt"), "mine.txt", "deep/labels.csv"]
    listed += ["centers.csv", "deep", "..", "."]
    summary = json.dumps({"tool": "madbayes", "files": listed})
    (folder / "summary.json").write_text(summary)
    said = fails(capsys, "cluster", table, "--penalty", 60, "--out", folder)
    assert "centers.csv, deep, mine.txt" in said
    monkeypatch.chdir(folder)
    argv = ["cluster", str(table), "--penalty", "60", "--no-report", "--quiet"]
    assert cli.main([*argv, "--out", ".", "--force"]) == 0
    assert [victim.read_text() for victim in victims] == ["keep me"] * len(victims)
    assert not (folder / "centers.csv").is_symlink()  # the link was replaced, not followed
    (folder / "summary.json").unlink()
    (folder / "summary.json").symlink_to(tmp_path / "other.json")
    (tmp_path / "other.json").write_text(json.dumps({"tool": "madbayes", "files": ["model.npz"]}))
    assert write._ours(folder) == set()


@pytest.mark.parametrize("content", ["[" * 100_000, '{"tool": "madbayes"}', "[]", "\0", '{"a": 1'])
def test_a_strange_summary_is_not_ours(tmp_path, content):
    (tmp_path / "summary.json").write_text(content)
    assert write._ours(tmp_path) == set()


def test_a_file_of_an_unknown_name_is_not_written(tmp_path):
    """Otherwise the second run would refuse the folder of the first."""
    (tmp_path / "more.csv").write_text("")
    with pytest.raises(AssertionError):
        results.finish(tmp_path, {})


def write_often(folder, number):
    for _ in range(60):
        with write.all_or_nothing(folder) as scratch:
            (scratch / "labels.csv").write_text(str(number))
            write.write_json(
                scratch / "summary.json", {"tool": "madbayes", "files": ["labels.csv"]}
            )


def test_three_processes_on_one_folder_leave_nothing_else(tmp_path):
    fork = multiprocessing.get_context("fork")
    folder = tmp_path / "o"
    workers = [fork.Process(target=write_often, args=(folder, i)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["o"]
    assert (folder / "labels.csv").read_text() in "012"


def test_an_interrupted_exchange_puts_the_old_results_back(tmp_path, monkeypatch):
    folder = tmp_path / "o"
    write_often(folder, 7)
    rename = os.rename

    def interrupted(source, target):
        if str(target) == str(folder) and not str(source).endswith("/0"):
            raise KeyboardInterrupt
        rename(source, target)

    monkeypatch.setattr(os, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt), write.all_or_nothing(folder) as scratch:
        (scratch / "labels.csv").write_text("new")
    assert (folder / "labels.csv").read_text() == "7"
    assert [path.name for path in tmp_path.iterdir()] == ["o"]


# Files that are larger than they look


def test_a_packed_matrix_that_grows_too_much(run, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 2**20)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros((2**18, 2)))
    assert "unpacks to 4,194" in run("bomb.npz", code=2)
    np.savez_compressed(tmp_path / "fine.npz", X=X)
    assert three(run("fine.npz")[0])


def test_overlapping_members_are_refused(run, tmp_path):
    with zipfile.ZipFile(tmp_path / "over.npz", "w") as archive:
        for name in "Xabcdefg":
            archive.writestr(f"{name}.npy", np.random.default_rng(0).bytes(10_000))
        for member in archive.infolist():
            member.header_offset = 0
            member.file_size = member.compress_size = 70_000
    assert "larger together than the file" in run("over.npz", code=2)


def test_very_wide_tables(run, tmp_path, monkeypatch):
    names = ",".join(f"g{j}" for j in range(10**6))
    assert "1,000,000 columns" in run("t.csv", f"{names}\n{'1,' * (10**6 - 1)}1\n", code=2)
    np.save(tmp_path / "t.npy", np.zeros((2, 10**6), np.int8))
    assert "1,000,000 columns" in run("t.npy", code=2)
    monkeypatch.setattr(limits, "MOST_COLUMNS", 5)
    table = pa.table({f"c{j}": [1.0, 2.0] for j in range(6)})
    pq.write_table(table, tmp_path / "t.parquet")
    pa.feather.write_feather(table, tmp_path / "t.feather")
    (tmp_path / "t.jsonl").write_text(json.dumps({f"c{j}": 1 for j in range(6)}))
    (tmp_path / "t.txt").write_text("1 2 3 4 5 6\n1 2 3 4 5 6\n")
    for name in ("t.parquet", "t.feather", "t.jsonl", "t.txt"):
        assert "6 columns, and the command reads at most 5" in run(name, code=2)


@pytest.mark.parametrize("content", ["1" * 2**25, "x y " * 2**23])
def test_one_endless_line(run, content):
    assert "no end of a line" in run("t.csv.gz", gzip.compress(content.encode(), 1), code=2)


def test_packed_text_that_grows_too_much(run, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 2**20)
    rows = "x,y\n" + "1,2\n" * 2**20
    assert "unpacks to" in run("t.csv.gz", gzip.compress(rows.encode()), code=2)
    assert "unpacks to" in run("t.txt.gz", gzip.compress(rows.replace(",", " ").encode()), code=2)
    rows = '{"x": 1}\n' * 2**19
    assert "unpacks to" in run("t.jsonl.gz", gzip.compress(rows.encode()), code=2)
    assert three(run("t.csv.gz", gzip.compress(lines(PLAIN).encode()))[0])


def test_parquet_that_says_it_has_very_many_rows(run, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 2**20)
    monkeypatch.setattr(frame, "ROW_GROWTH", 50)
    pq.write_table(pa.table({"x": np.zeros(2**18)}), tmp_path / "t.parquet")
    assert "over 50 times" in run("t.parquet", code=2)


def test_a_sheet_that_says_it_is_enormous(run, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [["x", "y"], *X.tolist()]:
        book.active.append(row)
    book.save(tmp_path / "small.xlsx")
    with zipfile.ZipFile(tmp_path / "small.xlsx") as old:
        parts = {name: old.read(name) for name in old.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    assert b'ref="A1:B61"' in parts[sheet]
    parts[sheet] = parts[sheet].replace(b'ref="A1:B61"', b'ref="A1:XFD1048576"')
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as new:
        for name, content in parts.items():
            new.writestr(name, content)
    assert three(run("t.xlsx")[0])


@pytest.mark.parametrize(
    "content",
    [
        '{"x": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
        '{"x": 1}\n' * 5 + '{"x": ' + '{"x": ' * 70 + "1" + "}" * 71,
        '{"x": ' + "[\n" * 100_000,
        "[" * 100_000,
        '{"y": "]]]]", "x": ' + "[" * 65 + "]" * 65 + "}",
    ],
    ids=["line", "objects", "lines", "list", "text"],
)
@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_deep_json(run, name, content):
    assert "more than 64 deep" in run(name, content, code=2)


def test_brackets_in_text_are_not_deep(run):
    records = [{"x": a, "y": b, "note": "[{" * 50 + '"'} for a, b in X.tolist()]
    assert three(run("t.jsonl", "\n".join(map(json.dumps, records)))[0])


# Files that are damaged or of other machines


def test_damaged_parquet(run, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(PLAIN), path, compression="snappy", use_dictionary=False)
    whole = path.read_bytes()
    for at in range(40, len(whole) - 900, 60):
        path.write_bytes(whole[:at] + b"\xff" * 20 + whole[at + 20 :])
        if cli.main(["cluster", str(path), "--out", str(run.out), "--penalty", "60"]) != 2:
            continue
        assert "could not be read as a table" in run("t.parquet", code=2)
        break
    else:
        pytest.fail("no damage was noticed")
    os.mkdir(tmp_path / "two")
    (tmp_path / "two" / "a.parquet").write_bytes(whole)
    (tmp_path / "two" / "b.parquet").write_bytes(path.read_bytes())
    assert "b.parquet could not be read as a table" in run("two", code=2)


def test_damaged_feather(run, tmp_path):
    path = tmp_path / "t.feather"
    names = [f"n{i}" for i in range(60)]
    pa.feather.write_feather(pa.table({**PLAIN, "n": names}), path, compression="uncompressed")
    raw = bytearray(path.read_bytes())
    at = raw.find(np.arange(5, dtype=np.int32).tobytes()[:4] + b"\2\0\0\0\4\0\0\0")
    assert at > 0  # where the texts of a column begin
    raw[at + 8 : at + 12] = b"\xff\xff\xff\x7f"
    assert "could not be read as a table" in run("t.feather", bytes(raw), code=2)


@pytest.mark.parametrize("kind", [">f8", ">f4", ">i4", "longdouble", "f2", "u1"])
@pytest.mark.parametrize("ending", ["npy", "npz"])
def test_numbers_of_other_machines(run, tmp_path, kind, ending):
    values = np.round(np.abs(X) * 10).astype(kind)
    save = np.save if ending == "npy" else np.savez
    save(tmp_path / f"t.{ending}", values)
    assert three(run(f"t.{ending}", penalty="6000")[0])


@pytest.mark.parametrize("ending", ["npy", "npz", "parquet", "csv"])
def test_gaps_are_filled_in_and_the_file_stays(run, tmp_path, ending):
    values = X.copy()
    values[7, 1] = np.nan
    path = tmp_path / f"t.{ending}"
    if ending in ("npy", "npz"):
        (np.save if ending == "npy" else np.savez)(path, values)
    elif ending == "parquet":
        pq.write_table(pa.table({"x": values[:, 0], "y": values[:, 1]}), path)
    else:
        path.write_text(lines({"x": values[:, 0], "y": values[:, 1]}))
    before = path.read_bytes()
    summary, said = run(path.name, None, "--missing", "impute-mean", "--standardize", "no")
    assert "missing cells were filled in" in said and summary["n_clusters"] >= 3
    assert path.read_bytes() == before


ENDS = ["\u2028", "\x85", "\f", "\v", "\x1c", "\x1d", "\u2029"]


@pytest.mark.parametrize("end", ENDS, ids=[f"{ord(end):04x}" for end in ENDS])
def test_other_ends_of_lines_in_a_name(run, end):
    table = {f"a{end}b": X[:, 0], "y": X[:, 1], "name": [f"n{end}{i}" for i in range(60)]}
    summary, _ = run("t.csv", lines(table))
    assert three(summary) and summary["columns_used"] == ["a b", "y"]
    argv = ["predict", str(run.out / "model.npz"), str(run.out.parent / "t.csv")]
    assert cli.main([*argv, "--out", str(run.out.parent / "new.csv"), "--quiet"]) == 0
    table = {f"a{end}b": X[:, 0], "y": X[:, 1]}
    assert three(run("t.txt", lines(table, " "))[0])


# Graphs


@pytest.mark.parametrize(
    "rows, row",
    [
        (["a,b", "b,c", ",a"], 4),
        (["a,b", "b,", "c,a"], 3),
        (["1,2", "2,", "3,1"], 3),
        (["1.5,2", "NaN,3", "3,1"], 3),
    ],
)
def test_edges_with_an_empty_cell(tmp_path, capsys, rows, row):
    path = tmp_path / "e.csv"
    path.write_text("\n".join(["from,to", *rows]))
    said = fails(capsys, "graph", path, "--out", tmp_path / "o")
    assert f"Row {row} has no node in column" in said and "leave the row out" in said


def test_edges_of_a_matrix_with_a_gap(tmp_path, capsys):
    np.save(tmp_path / "e.npy", [[1.0, 2], [np.nan, 3]])
    said = fails(capsys, "graph", tmp_path / "e.npy", "--out", tmp_path / "o")
    assert "Row 2 has no node in column x0" in said


# No space left


@pytest.fixture
def model(tmp_path):
    madbayes.DPMeans(60.0).fit(X).save(tmp_path / "model.npz")
    np.save(tmp_path / "new.npy", X)
    return [str(tmp_path / "model.npz"), str(tmp_path / "new.npy")]


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
@pytest.mark.parametrize("json", [[], ["--json"]])
def test_no_space_for_standard_output(model, capfd, monkeypatch, json):
    with open("/dev/full", "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert cli.main(["predict", *model, *json]) == 2
    said = capfd.readouterr().err
    assert "No space left on device" in said and said.count("\n") == 1


def test_no_space_for_predictions(model, tmp_path, capsys, monkeypatch):
    from madbayes.cli import write

    monkeypatch.setattr(write, "number", full)
    said = fails(capsys, "predict", *model, "--out", tmp_path / "new.csv")
    assert "new.csv failed: No space left on device" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["model.npz", "new.npy"]


def test_no_space_for_standard_input(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines(PLAIN).encode())))
    monkeypatch.setattr(formats.shutil, "copyfileobj", full)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(formats.tempfile, "tempdir", str(tmp_path))
    said = fails(capsys, "cluster", "-", "--out", tmp_path / "o")
    assert "No space left on device" in said and "TMPDIR" in said
    assert list(tmp_path.iterdir()) == []


def test_no_space_for_results(tmp_path, capsys, monkeypatch):
    (tmp_path / "x.csv").write_text(lines(PLAIN))
    monkeypatch.setattr(write, "number", full)
    said = fails(capsys, "cluster", tmp_path / "x.csv", "--penalty", 60, "--out", tmp_path / "o")
    assert "No space left on device" in said
    assert [p.name for p in tmp_path.iterdir()] == ["x.csv"]


def test_lines_are_those_of_files():
    assert text._lines("a\u2028b\nc\r\nd\re") == ["a\u2028b\n", "c\r\n", "d\r", "e"]


# Ctrl-C before the work begins


def interrupted(*_, **__):
    raise KeyboardInterrupt


def in_a_compiled_module(*_, **__):
    try:
        interrupted()
    except KeyboardInterrupt:
        raise ImportError("numpy._core.multiarray failed to import")  # noqa: B904


@pytest.mark.parametrize(
    ("where", "stop"),
    [
        ("importlib.util.find_spec", interrupted),
        ("madbayes.cli.options.spelled_out", interrupted),
        ("madbayes.cli.options.spelled_out", in_a_compiled_module),
        ("madbayes.cli.run.load_task", interrupted),
        ("madbayes.cli.run.load_task", in_a_compiled_module),
    ],
)
def test_an_early_interruption_is_one_line(tmp_path, capsys, monkeypatch, stop, where):
    (tmp_path / "x.csv").write_text(lines(PLAIN))
    monkeypatch.setattr(where, stop)
    assert cli.main(["cluster", str(tmp_path / "x.csv"), "--out", str(tmp_path / "o")]) == 130
    assert capsys.readouterr().err == "Interrupted; no partial files are left.\n"
    assert [path.name for path in tmp_path.iterdir()] == ["x.csv"]
