"""Files as people have them: the command reads them rightly, or says in one line what to do."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from madbayes import cli
from madbayes.tables.numbers import from_text

rng = np.random.default_rng(0)
PLACES = np.repeat([[0.0, 0.0], [9, 0], [0, 9]], 20, axis=0)
X = np.round(PLACES + rng.normal(size=(60, 2)), 3)
TRUTH = np.repeat([0, 1, 2], 20)


@pytest.fixture
def run(tmp_path, capsys):
    """Run `madbayes cluster`; the summary, and what was said."""

    def run(name, content=None, *options, penalty="60", code=0):
        path = tmp_path / name if name != "-" else name
        if content is not None:
            raw = content if isinstance(content, bytes) else content.encode()
            path.write_bytes(raw)
        capsys.readouterr()
        out = tmp_path / "out"
        argv = ["cluster", str(path), "--out", str(out), "--force", "--no-report", "--json"]
        given = ["--penalty", penalty] if penalty else []
        assert cli.main([*argv, *given, *map(str, options)]) == code
        streams = capsys.readouterr()
        if code:
            assert streams.out == ""
            assert streams.err.count("\n") == 1 and "Traceback" not in streams.err
            return streams.err
        return json.loads(streams.out), streams.err

    run.out = tmp_path / "out"
    return run


def lines(columns, delimiter=","):
    names = delimiter.join(columns)
    rows = zip(*columns.values(), strict=True)
    return "\n".join([names, *(delimiter.join(map(str, row)) for row in rows)]) + "\n"


def three(summary):
    return sorted(summary["sizes"]) == [20, 20, 20]


# Columns that are no measurements


def test_the_index_of_pandas_and_order_numbers_are_left_out(run, tmp_path):
    order = rng.permutation(60)
    table = {
        "order_id": 100001 + order,
        "x": X[order, 0],
        "y": X[order, 1],
        "__index_level_0__": order,
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    summary, said = run("t.parquet")
    assert three(summary)
    assert summary["columns_used"] == ["x", "y"]
    assert "order_id" in summary["columns_left_out"] and "left out order_id" in said
    assert "index of a data frame" in summary["columns_left_out"]["__index_level_0__"]
    summary, _ = run("t.parquet", None, "--columns", "order_id,x")
    assert summary["columns_used"] == ["order_id", "x"]


@pytest.mark.parametrize("values", [range(100001, 100061), rng.permutation(60) + 7])
def test_whole_numbers_without_a_gap_number_the_rows(run, values):
    summary, said = run("t.csv", lines({"nr": values, "x": X[:, 0], "y": X[:, 1]}))
    assert summary["columns_used"] == ["x", "y"] and three(summary)
    assert "left out nr" in said


def test_ids_with_gaps_are_known_by_their_name(run):
    ids = np.cumsum(rng.integers(1, 9, size=60))
    table = {"customerId": ids, "x": X[:, 0], "y": X[:, 1]}
    assert run("t.csv", lines(table))[0]["columns_used"] == ["x", "y"]
    table = {"income": ids, "x": X[:, 0], "y": X[:, 1]}
    assert "income" in run("t.csv", lines(table))[0]["columns_used"]


@pytest.mark.parametrize("name", ["label", "target", "class", "Species"])
def test_classes_are_left_out_with_a_note(run, name):
    summary, said = run("t.csv", lines({"x": X[:, 0], "y": X[:, 1], name: TRUTH}))
    assert summary["columns_used"] == ["x", "y"] and three(summary)
    assert f"left out {name}" in said and "classes" in said


def test_few_whole_numbers_get_a_note(run):
    table = {"x": X[:, 0], "y": X[:, 1], "z": X.sum(axis=1), "level": TRUTH}
    summary, said = run("t.csv", lines(table))
    assert "level" in summary["columns_used"]
    assert "level: only a few different whole numbers" in said and "--drop level" in said
    summary, said = run("t.csv", lines({**PLAIN, "kind": TRUTH}))  # a name that says codes
    assert summary["kinds"]["kind"] == "category" and "used as categories: kind" in said


# Scales


def test_a_column_that_drowns_the_others_is_named(run):
    table = {"x": X[:, 0], "proline": X[:, 1] * 1000}
    summary, said = run("t.csv", lines(table), "--standardize", "no")
    assert "proline makes up over 99.9% of the squared distances" in said
    assert "--standardize yes" in said and not summary["standardized"]
    summary, said = run("t.csv", None, penalty="10")
    assert summary["standardized"] and three(summary)
    assert "spreads differ" in said and "proline" in said
    summary, said = run("t.csv", None, "--standardize", penalty="10")  # a bare flag means yes
    assert summary["standardized"] and "spreads" not in said


def test_columns_of_one_kind_keep_their_scales(run, tmp_path):
    wide = X * [1.0, 50.0]
    summary, _ = run("t.csv", lines({"pixel1": wide[:, 0], "pixel2": wide[:, 1]}))
    assert not summary["standardized"]
    np.save(tmp_path / "t.npy", wide)
    assert not run("t.npy")[0]["standardized"]


# Cells


def test_one_text_cell_is_named_where_the_spreadsheet_has_it(run):
    text = "title\nx,y\n" + "\n".join(f"{a},{b}" for a, b in X[:30]) + "\n\n12,oops\n5,n.a.\n"
    err = run("t.csv", text, "--skip-rows", "1", "--missing", "error", code=2)
    assert "Row 34, column y holds 'oops', which is not a number (2 such cells" in err
    assert "--na 'oops'" in err and "--missing drop" in err
    summary, said = run("t.csv", None, "--skip-rows", "1", "--missing", "drop")
    assert summary["columns_used"] == ["x", "y"] and summary["n_rows"] == 30
    assert "row 34, column y holds 'oops'" in said and "left out 2 of 32 rows" in said
    summary, said = run("t.csv", None, "--skip-rows", 1, "--missing", "impute-mean", "--na", "oops")
    assert summary["n_rows"] == 32 and "'n.a.'" in said and "2 cells are missing" in said
    assert run("t.csv", None, "--skip-rows", "1")[0]["n_rows"] == 32  # gaps do not stop it


def test_cells_that_mean_missing(run):
    text = "x,y\n1,2\n-,3\n4,?\n5,6\n7,NA\n"
    assert "holds '-'" in run("t.csv", text, "--missing", "error", code=2)
    summary, _ = run("t.csv", None, "--na", "-,?", "--missing", "drop")
    assert summary["n_rows"] == 2
    with (run.out / "labels.csv").open() as stream:
        assert [line.split(",")[1] != "" for line in stream][1:] == [
            True,
            False,
            False,
            True,
            False,
        ]


def test_categories_become_columns(run):
    table = {"x": X[:, 0], "y": X[:, 1], "colour": np.array(["red", "blue"])[TRUTH % 2]}
    summary, said = run("t.csv", lines(table), penalty="10")
    assert summary["columns_used"] == ["x", "y", "colour"] and summary["standardized"]
    assert "used as categories: colour" in said
    heading = (run.out / "centers.csv").read_text().splitlines()[0]
    assert heading == "cluster,size,x,y,colour=blue,colour=red"


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["$1,234.00", "-$5", "7"], [1234, -5, 7]),
        (["12%", "3.5 %", ""], [12, 3.5, np.nan]),
        (["1.234,56", "7", "-0,5"], [1234.56, 7, -0.5]),
        (["1.234.567,8 €", "3,14"], [1234567.8, 3.14]),
        (["(5)", "1'000", "2e3"], [-5, 1000, 2000]),
        (["N/A", "inf", "null", "3"], [np.nan, np.inf, np.nan, 3]),
    ],
)
def test_numbers_in_their_sunday_clothes(cells, values):
    got = from_text(pa.chunked_array([cells]))
    np.testing.assert_array_equal(got.values, values)
    assert got.mostly and not got.strange.size


def test_a_comma_between_groups_or_before_decimals():
    cells = pa.chunked_array([["1,234", "5,678"]])
    np.testing.assert_array_equal(from_text(cells).values, [1234, 5678])
    np.testing.assert_array_equal(from_text(cells, comma=True).values, [1.234, 5.678])
    mixed = from_text(pa.chunked_array([["1", "two", "3", "f(x)", "5"]]))
    assert mixed.strange.tolist() == [1, 3] and mixed.mostly
    assert not from_text(pa.chunked_array([["ann", "bob", "7"]])).mostly


def test_money_percent_and_decimal_commas_in_a_file(run):
    money = [f'"${1000 * v:,.2f}"' for v in X[:, 0]]
    share = [f"{v}%" for v in X[:, 1]]
    summary, said = run("t.csv", lines({"m": money, "s": share}), penalty="10")
    assert three(summary) and "was read as" in said
    comma = [f"{1000 * v:,.2f}".translate(str.maketrans(",.", ".,")) for v in X[:, 0]]
    text = lines({"m": comma, "s": [str(v).replace(".", ",") for v in X[:, 1]]}, ";")
    assert three(run("t.csv", text, penalty="10")[0])


# Layouts

PLAIN = {"x": X[:, 0], "y": X[:, 1]}
BODY = lines(PLAIN)


@pytest.mark.parametrize(
    ("name", "text", "columns"),
    [
        ("excel.csv", "sep=;\n" + lines(PLAIN, ";"), ["x", "y"]),
        ("break.csv", BODY.replace("x,y", '"x\nin cm",y', 1), ["x in cm", "y"]),
        ("comma.csv", BODY.replace("x,y", '"a,b",y', 1), ["a,b", "y"]),
        ("twice.csv", BODY.replace("x,y", "x,x", 1), ["x", "x (2)"]),
        ("blanks.txt", lines(PLAIN, "   "), ["x", "y"]),
        ("blanks.dat.txt", "\n".join(f"  {a}  {b} " for a, b in X) + "\n", ["x0", "x1"]),
        ("r.txt", "x y\n" + "".join(f"r{i} {a} {b}\n" for i, (a, b) in enumerate(X)), ["x", "y"]),
        ("late.csv", BODY + '"1\n2",3\n', None),
    ],
)
def test_layouts(run, name, text, columns):
    if columns is None:  # a line break in a cell far below the head
        assert "holds '1\\n2'" in run(name, text, "--missing", "error", code=2)
        return
    summary, _ = run(name, text)
    assert summary["columns_used"] == columns and three(summary)


def test_a_title_above_the_table(run):
    err = run("t.csv", "Measured in May\n\n" + lines({**PLAIN, "z": X[:, 0]}), code=2)
    assert "seems to have a title" in err and "--skip-rows 1" in err
    assert run("t.csv", None, "--skip-rows", 1)[0]["columns_used"] == ["x", "y", "z"]


def test_very_many_columns(run):
    wide = rng.normal(size=(3, 30_000)).round(2)
    wide[2] += 50
    names = ",".join(f"g{j}" for j in range(wide.shape[1]))
    text = "\n".join([names, *(",".join(map(str, row)) for row in wide)])
    summary, _ = run("t.csv", text, penalty="1e6")
    assert summary["n_columns"] == 30_000 and sorted(summary["sizes"]) == [1, 2]


def test_formats(run, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    table = pa.table(PLAIN)
    pa.feather.write_feather(table, tmp_path / "t.feather")
    np.savez(tmp_path / "t.npz", X=X, label=TRUTH)
    book = openpyxl.Workbook()
    book.active.append(["x", "y", "name"])
    for i, row in enumerate(X.tolist()):
        book.active.append([*row, f"n{i}"])
    book.save(tmp_path / "t.xlsx")
    records = [dict(zip("xy", row, strict=True)) for row in X.tolist()]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "t.json").write_text(json.dumps(records))
    for name in ("t.feather", "t.npz", "t.xlsx", "t.jsonl", "t.json"):
        assert three(run(name)[0]), name
    np.savez(tmp_path / "two.npz", a=X, b=X)
    assert "call the one to be read X" in run("two.npz", code=2)


def test_without_openpyxl_excel_files_say_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert 'pip install "madbayes[excel]"' in run("t.xlsx", b"PK\x03\x04", code=2)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy", "jsonl"])
def test_standard_input(run, monkeypatch, kind):
    stream = io.BytesIO()
    if kind == "csv":
        stream.write(BODY.encode())
    elif kind == "parquet":
        pq.write_table(pa.table(PLAIN), stream)
    elif kind == "npy":
        np.save(stream, X)
    else:
        stream.write("\n".join(json.dumps({"x": a, "y": b}) for a, b in X.tolist()).encode())
    stream.seek(0)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
    assert three(run("-")[0])


def clusters(run):
    return [line.split(",")[:2] for line in (run.out / "labels.csv").read_text().splitlines()]


def test_parquet_in_blocks_and_on_the_disk(run, tmp_path, monkeypatch):
    pq.write_table(pa.table({**PLAIN, "z": [f"{v}%" for v in X[:, 0]]}), tmp_path / "t.parquet")
    whole = run("t.parquet", None, "--standardize")[0]
    before = clusters(run)
    monkeypatch.setattr("madbayes.tables.frame.BATCH_ROWS", 7)
    monkeypatch.setattr("madbayes.tables.scaling.BLOCK_ROWS", 11)
    monkeypatch.setattr("os.sysconf", lambda name: 16)  # as if memory were tiny
    again = run("t.parquet", None, "--standardize")[0]
    assert again["objective"] == pytest.approx(whole["objective"])
    assert clusters(run) == before
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def parquet_files(folder, X, cuts, **more):
    """The rows in several files, a column of names beside them."""
    folder.mkdir()
    names = np.array([f"r{i}" for i in range(len(X))])
    for i, rows in enumerate(np.split(np.arange(len(X)), cuts)):
        columns = {f"x{j}": X[rows, j] for j in range(X.shape[1])}
        pq.write_table(pa.table({"name": names[rows], **columns, **more}), folder / f"{i}.parquet")
    return folder


def test_several_parquet_files_are_one_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [12, 0], [0, 12]], 300, axis=0) + rng.normal(size=(900, 2))
    folder = parquet_files(tmp_path / "big", X, [100, 100, 450])
    files = [str(path) for path in sorted(folder.iterdir())]
    options = ["--id", "name", "--quiet", "--no-report"]
    assert cli.main(["cluster", str(folder), "--out", "one", *options]) == 0
    assert cli.main(["cluster", *files, "--out", "two", *options]) == 0
    pq.write_table(pq.read_table(folder), "whole.parquet")
    assert cli.main(["cluster", "whole.parquet", "--out", "three", *options]) == 0
    found = [Path(name, "labels.csv").read_text() for name in ("one", "two", "three")]
    assert found[0] == found[1] == found[2]
    assert len(found[0].splitlines()) == 901
    assert found[0].splitlines()[500].startswith("r499,")
    out = ["--out", "new.csv", "--quiet", "--id", "name"]
    assert cli.main(["predict", "one/model.npz", *files, *out]) == 0
    assert Path("new.csv").read_text().splitlines()[1:] == found[0].splitlines()[1:]


def test_large_tables_stay_on_disk(tmp_path, monkeypatch):
    """The same labels when nothing is held in memory, and the search goes through a coreset."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [12, 0], [0, 12]], 3000, axis=0) + rng.normal(size=(9000, 2))
    folder = parquet_files(tmp_path / "big", X, [4000])
    options = ["--quiet", "--no-report", "--standardize", "yes"]
    assert cli.main(["cluster", str(folder), "--out", "one", *options]) == 0
    monkeypatch.setattr("os.sysconf", lambda name: 64)  # a very small machine
    monkeypatch.setattr("madbayes.kmeans.solve.DISK_VALUES", 1000)
    monkeypatch.setattr("madbayes.kmeans.solve.CORE_ROWS", (2000, 2000))
    monkeypatch.setattr("madbayes.tables.frame.BATCH_ROWS", 1234)
    assert cli.main(["cluster", str(folder), "--out", "two", *options]) == 0
    first, second = (Path(name, "labels.csv").read_text().splitlines() for name in ("one", "two"))
    columns = [[line.split(",")[:2] for line in lines] for lines in (first, second)]
    assert columns[0] == columns[1]
    assert "coreset" in json.loads(Path("two/summary.json").read_text())["evidence"]["description"]


def test_files_that_do_not_fit_together(tmp_path, capsys):
    X = np.random.default_rng(0).normal(size=(60, 2))
    folder = parquet_files(tmp_path / "big", X, [20])
    X[25, 1] = np.nan
    gaps = parquet_files(tmp_path / "gaps", X, [20])
    stop = ["--missing", "error"]
    assert cli.main(["cluster", str(gaps), "--out", str(tmp_path / "o"), *stop]) == 2
    assert "row 6 of 1.parquet, column x1 is missing" in capsys.readouterr().err
    pq.write_table(pa.table({"name": ["a"], "x0": [1.0]}), folder / "2.parquet")
    assert cli.main(["cluster", str(folder), "--out", str(tmp_path / "o")]) == 2
    assert "2.parquet lacks the column x1" in capsys.readouterr().err
    pq.write_table(pa.table({"name": ["a"], "x0": ["u"], "x1": [1.0]}), folder / "2.parquet")
    assert cli.main(["cluster", str(folder), "--out", str(tmp_path / "o")]) == 2
    assert "do not fit together" in capsys.readouterr().err
    (folder / "2.parquet").write_bytes(b"")
    assert cli.main(["cluster", str(folder), "--out", str(tmp_path / "o")]) == 2
    assert "2.parquet could not be read" in capsys.readouterr().err
    assert (
        cli.main(["cluster", str(folder / "0.parquet"), "a.csv", "--out", str(tmp_path / "o")]) == 2
    )
    assert "There is no file a.csv" in capsys.readouterr().err


# Options about columns


def test_options_say_what_columns_hold(run):
    rng = np.random.default_rng(0)
    table = {**PLAIN, "zone": rng.integers(4, 9, 60), "postcode": rng.integers(10**4, 10**5, 60)}
    table["cost"] = np.exp(rng.normal(size=60))
    options = ("--categorical", "zone", "--numeric", "postcode,x", "--log", "cost", "--drop", "y")
    summary, _ = run("t.csv", lines(table), *options)
    kinds = {"x": "number", "zone": "category", "postcode": "number", "cost": "log"}
    assert summary["kinds"] == kinds
    assert summary["columns_left_out"] == {"y": "by --drop"}
    err = run("t.csv", None, "--log", "costs", code=2)
    assert "--log names 'costs', which is not a column. Did you mean cost?" in err


def test_a_text_column_called_label_is_never_used_unasked(run):
    table = {**PLAIN, "Species": np.array(["a", "b", "c"])[TRUTH]}
    summary, said = run("t.csv", lines(table))
    assert summary["columns_used"] == ["x", "y"] and "left out Species: its name says" in said
    assert run("t.csv", None, "--columns", "x,Species")[0]["kinds"]["Species"] == "category"


def test_codes_and_gaps_do_not_stop_the_command(run):
    values = X.copy()
    values[3, 0] = 9999
    text = lines({"x": values[:, 0], "y": values[:, 1]}).replace(f"{X[7, 1]}", "", 1)
    summary, said = run("t.csv", text, penalty=None)
    assert summary["n_rows"] == 60 and summary["n_clusters"] == 3
    assert "x: 1 cell holds 9999, far from all other values; taken as missing" in said
    assert "2 cells are missing (1.7%), in x (1), y (1)" in said


def test_gaps_in_a_matrix_on_disk(run, tmp_path):
    values = X.copy()
    values[[3, 9], 1] = np.nan, np.inf
    np.save(tmp_path / "t.npy", values)
    summary, said = run("t.npy", penalty=None)
    assert summary["n_rows"] == 60 and summary["n_clusters"] == 3
    assert "2 cells are missing" in said
    np.testing.assert_array_equal(np.load(tmp_path / "t.npy"), values)


def test_sheets_of_excel_files(run, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "cover"
    book.active.append(["Report of the year"])
    for name, columns in (("rows", ("x", "y")), ("more", ("u", "v"))):
        sheet = book.create_sheet(name)
        for line in [columns, *X.tolist()][: 61 if name == "rows" else 40]:
            sheet.append(list(line))
    book.save(tmp_path / "t.xlsx")
    summary, said = run("t.xlsx")
    assert summary["columns_used"] == ["x", "y"] and "of 3 sheets 'rows' was read" in said
    assert run("t.xlsx", None, "--sheet", "more")[0]["columns_used"] == ["u", "v"]
    assert "Did you mean rows?" in run("t.xlsx", None, "--sheet", "row", code=2)
