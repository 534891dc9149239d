"""The verbs and their output folder: what each writes, refuses, and leaves behind."""

import csv
import json
import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest

import madbayes
from madbayes import cli
from madbayes.cli.write import safe

rng = np.random.default_rng(0)
X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 20, axis=0) + rng.normal(size=(60, 2))
X = X.round(3)


@pytest.fixture
def work(tmp_path, capsys, monkeypatch):
    """Run the command in a folder of its own; exit code, standard output and error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def work(*argv):
        capsys.readouterr()
        code = cli.main([str(a) for a in argv])
        streams = capsys.readouterr()
        return code, streams.out, streams.err

    return work


def table(path, columns):
    with Path(path).open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(columns)
        out.writerows(zip(*columns.values(), strict=True))
    return path


def rows_of(path):
    with Path(path).open(newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def points():
    names = [f"p{i}" for i in range(60)]
    return {"name": names, "x": X[:, 0], "y": X[:, 1] * 1000, "w": [1] * 30 + [2] * 30}


FAST = ("--no-report",)


def test_cluster_writes_what_it_says(work, points):
    table("t.csv", points)
    code, out, _ = work("cluster", "t.csv", "--id", "name", "--weights", "w", "--penalty", "20",
                        "--out", "o", "--table", "--json")  # fmt: skip
    assert code == 0
    summary = json.loads(out)
    assert summary == json.loads(Path("o/summary.json").read_text())
    assert {"n_rows", "n_columns", "n_clusters", "penalty", "objective", "evidence"} < set(summary)
    assert summary["versions"]["madbayes"] == madbayes.__version__
    assert summary["command"].startswith("madbayes cluster t.csv --id name")
    assert summary["columns_left_out"] == {"name": "used as --id", "w": "used as --weights"}
    assert sorted(p.name for p in Path("o").iterdir()) == sorted(summary["files"])
    labels = rows_of("o/labels.csv")
    assert list(labels[0]) == ["name", "cluster", "distance", "second", "novelty_p_value"]
    assert [r["name"] for r in labels] == points["name"]
    assert all(r["cluster"] != r["second"] and float(r["distance"]) >= 0 for r in labels)
    beside = rows_of("o/table.csv")
    assert list(beside[0]) == ["name", "x", "y", "w", "cluster"]
    assert [r["cluster"] for r in beside] == [r["cluster"] for r in labels]
    centers = rows_of("o/centers.csv")
    assert max(float(r["y"]) for r in centers) == pytest.approx(9000, rel=0.1)  # not standardized
    assert "3 clusters" in Path("o/report.html").read_text("utf-8")
    model = madbayes.load("o/model.npz")
    rows = np.column_stack([points["x"], points["y"]])
    assert [str(c) for c in model.predict(rows)] == [r["cluster"] for r in labels]
    weighted = madbayes.DPMeans(penalty=20.0, random_state=0)
    weighted.fit((rows - rows.mean(axis=0)) / rows.std(axis=0), sample_weight=points["w"])
    assert summary["objective"] == pytest.approx(weighted.objective_)


def test_quiet_says_nothing(work, points):
    table("t.csv", points)
    assert work("cluster", "t.csv", "--penalty", "20", "--quiet", *FAST) == (0, "", "")
    assert Path("madbayes-out/labels.csv").exists()


def test_path_features_and_demo(work, points):
    table("t.csv", {"x": points["x"], "y": points["x"] * 2 + X[:, 1]})
    code, out, _ = work("path", "t.csv", "--out", "p", "--no-report", "--standardize", "no")
    assert code == 0 and "the path" in out
    steps = rows_of("p/path.csv")
    assert int(steps[0]["n_clusters"]) == 1
    highs = [float(r["penalty_high"] or "inf") for r in steps]
    assert highs == sorted(highs, reverse=True)
    assert Path("p/path.png").stat().st_size > 1000
    code, out, _ = work("features", "t.csv", "--penalty", "200", "--out", "f", "--json",
                        "--standardize", "no")  # fmt: skip
    assert code == 0
    summary = json.loads(out)
    k = summary["n_components"]
    labels = rows_of("f/labels.csv")
    assert list(labels[0])[-k:] == [f"feature {j}" for j in range(k)]
    shares = [sum(int(r[f"feature {j}"]) for r in labels) for j in range(k)]
    assert shares == summary["sizes"]
    code, out, _ = work("predict", "f/model.npz", "t.csv")
    again = list(csv.DictReader(out.splitlines()))
    assert [r["cluster"] for r in again] == [r["cluster"] for r in labels]
    code, out, _ = work("demo")
    assert code == 0 and "2 clusters in 272 rows" in out and "report.html" in out


def test_features_show_the_columns_that_tell_them_apart(work):
    r = np.random.default_rng(0)
    columns = {f"noise {j}": r.normal(size=80).round(3) for j in range(7)}
    table("t.csv", {**columns, "signal": 20.0 * (np.arange(80) % 2) + columns["noise 0"]})
    code, out, _ = work("features", "t.csv", "--standardize", "no", *FAST)
    assert code == 0 and "the 6 of 8 columns that tell them apart best" in out
    assert "signal" in out


def test_the_summary_says_how_many_repetitions_agree(work, points):
    table("t.csv", {"x": points["x"], "y": X[:, 1]})
    code, out, _ = work("cluster", "t.csv", "--json", *FAST)
    assert code == 0 and 0 <= json.loads(out)["evidence"]["stability"] <= 1


def test_predict_repeats_what_was_done_to_the_columns(work, points):
    table("t.csv", {**points, "kind": ["a", "b", "b"] * 20})
    flags = ("--missing", "impute-mean", "--drop", "w,name", "--penalty", "20", *FAST)
    assert work("cluster", "t.csv", "--out", "o", *flags)[0] == 0
    model = madbayes.load("o/model.npz")
    assert model.encoder.categories_ == {"kind": ("a", "b")}
    assert work("predict", "o/model.npz", "t.csv", "--id", "name", "--out", "new.csv")[0] == 0
    fitted, new = rows_of("o/labels.csv"), rows_of("new.csv")
    assert list(new[0]) == ["name", "cluster", "distance", "second", "novelty_p_value"]
    for key in ("cluster", "distance", "second"):
        assert [r[key] for r in new] == [r[key] for r in fitted]
    table("n.csv", {"kind": ["b", "c"], "y": ["9000", "1"], "x": ["0.5", "9"]})
    code, out, err = work("predict", "o/model.npz", "n.csv")
    assert code == 0 and "'c' is new" in err
    assert out.splitlines()[0] == "row,cluster,distance,second,novelty_p_value"


def test_predict_says_what_is_wrong(work, points):
    table("t.csv", points)
    assert (
        work("cluster", "t.csv", "--out", "o", "--columns", "x,y", "--penalty", "9", *FAST)[0] == 0
    )
    table("few.csv", {"x": [1, 2]})
    table("gap.csv", {"x": [1, ""], "y": [1, 2]})
    Path("bad.npz").write_bytes(b"no model")
    Path("mine.csv").write_text("my notes\n")
    for argv, says in (
        (("o/model.npz", "few.csv"), "needs the column 'y'"),
        (("o/model.npz", "gap.csv", "--missing", "error"), "row 3, column x is missing"),
        (("bad.npz", "t.csv"), "not a madbayes model"),
        (("absent.npz", "t.csv"), "There is no model"),
        (("o/model.npz", "t.csv", "--out", "mine.csv"), "--force replaces it"),
        (("o/model.npz", "t.csv", "--novel", "7"), "--novel 7 should be a share"),
    ):
        code, out, err = work("predict", *argv)
        assert code == 2 and out == "" and says in err and err.count("\n") == 1
    assert Path("mine.csv").read_text() == "my notes\n"
    code, out, _ = work("predict", "o/model.npz", "gap.csv", "--missing", "drop")
    assert code == 0 and out.splitlines()[2] == "2,,,,"


def test_novel_rows_get_no_cluster(work, points):
    table("t.csv", points)
    assert (
        work("cluster", "t.csv", "--out", "o", "--columns", "x,y", "--penalty", "9", *FAST)[0] == 0
    )
    table("n.csv", {"x": [0.1, 500], "y": [0.1, 1e6]})
    code, out, err = work("predict", "o/model.npz", "n.csv", "--novel")
    if not hasattr(madbayes.DPMeans, "novelty_score"):
        assert code == 2 and "does not know what is novel" in err
        return
    clusters = [r["cluster"] for r in csv.DictReader(out.splitlines())]
    assert clusters[0] != "-1" and clusters[1] == "-1"


def test_compare(work):
    table("a.csv", {"id": list("abcdef"), "cluster": [0, 0, 1, 1, 2, 2]})
    table("b.csv", {"id": list("fedcba"), "cluster": [5, 5, 3, 3, 4, ""]})
    code, out, _ = work("compare", "a.csv", "b.csv", "--json")
    got = json.loads(out)
    assert code == 0 and got["n_rows"] == 5 and got["matched_by"] == "id"
    assert got["nmi"] == pytest.approx(1) and got["ari"] == pytest.approx(1)
    assert got["labels2"] == ["3", "4", "5"]
    assert got["contingency"] == [[0, 1, 0], [2, 0, 0], [0, 0, 2]]
    table("c.csv", {"class": ["x", "x", "y", "y", "y", "y"]})
    code, out, _ = work("compare", "a.csv", "c.csv")
    assert code == 0 and "NMI" in out and "matched by order" in out
    table("d.csv", {"class": ["x"]})
    assert "6 and 1 rows" in work("compare", "a.csv", "d.csv")[2]
    assert (
        "no column called cluster"
        in work("compare", "a.csv", table("e.csv", {"u": [1], "v": [2]}))[2]
    )


# The folder


def test_folders_that_are_not_ours_are_refused(work, points):
    table("t.csv", points)
    run = ("cluster", "t.csv", "--penalty", "20", *FAST, "--out")
    Path("thesis").mkdir()
    Path("thesis/chapter.txt").write_text("years of work")
    code, _, err = work(*run, "thesis")
    assert code == 2 and "chapter.txt" in err and "--force" in err
    assert [p.name for p in Path("thesis").iterdir()] == ["chapter.txt"]
    assert work(*run, "thesis", "--force")[0] == 0
    assert Path("thesis/chapter.txt").read_text() == "years of work"
    assert Path("thesis/labels.csv").exists()
    assert work(*run, "thesis")[0] == 2
    assert work(*run, "ours", "--table")[0] == 0
    assert work(*run, "ours")[0] == 0
    assert not Path("ours/table.csv").exists()  # nothing of the earlier run is left
    Path("ours/mine.txt").write_text("a note")
    assert work(*run, "ours")[0] == 2
    assert work(*run, "t.csv")[0] == 2
    assert sorted(p.name for p in Path().iterdir()) == ["ours", "t.csv", "thesis"]


def test_spreadsheets_and_terminals_run_nothing(work):
    names = ["=cmd|' /C calc'!A0", "@x", "[bold red]b[/]", "\x1b[2Jboo"]
    columns = {"who": [*names, "-5", "+a"], **{name: [0.5, 1, 2, 9, 8, 7.5] for name in names}}
    table("t.csv", columns)
    code, out, err = work("cluster", "t.csv", "--id", "who", "--penalty", "30", "--out", "o",
                          "--standardize", "no", "--table")  # fmt: skip
    assert code == 0, err
    assert "\x1b" not in out + err and "\\x1b[2Jboo" in out and "[bold red]b[/]" in out
    for file in ("labels.csv", "centers.csv", "table.csv"):
        with Path("o", file).open(newline="") as stream:
            cells = [cell for line in csv.reader(stream) for cell in line]
        risky = [c for c in cells if c[:1] in ("=", "+", "@", "-") and not _number(c)]
        assert risky == []
    assert "'=cmd|' /C calc'!A0" in {r["who"] for r in rows_of("o/labels.csv")}
    code, out, err = work("cluster", "t.csv", "--columns", "\x1b[2Jno")
    assert code == 2 and "\x1b" not in err
    assert safe("-1.5") == "-1.5" and safe("=1") == "'=1"


def _number(cell):
    try:
        float(cell)
    except ValueError:
        return False
    return True


def test_debug_shows_where(work):
    assert "Traceback" not in work("cluster", "absent.csv")[2]
    code, _, err = work("cluster", "absent.csv", "--debug")
    assert code == 2 and "Traceback" in err


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_in_the_middle_of_writing(tmp_path, points, stop, code):
    table(tmp_path / "t.csv", points)
    script = """\
        import signal, sys, time
        from madbayes import cli
        from madbayes.cli import results
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored by background jobs
        def slow(*args, **kwargs):
            print("writing", flush=True)
            time.sleep(60)
        results.finish = slow
        sys.argv = ["madbayes", "cluster", "t.csv", "--penalty", "20", "--no-report"]
        sys.exit(cli.main())
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "writing\n"
    process.send_signal(stop)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in stderr
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]


def test_every_verb_has_an_example(work):
    for verb in ("cluster", "groups", "graph", "features", "path", "predict", "compare", "demo"):
        code, out, _ = work(verb, "--help")
        assert code == 0 and f"Example: madbayes {verb}" in out and "--json" in out


# Second runs, second thoughts


def test_results_of_another_table_are_not_replaced_unasked(work, points):
    table("one.csv", points)
    table("two.csv", points)
    run = ("cluster", "--penalty", "20", "--quiet", *FAST)
    assert work(*run, "one.csv")[0] == 0
    assert work(*run, "one.csv")[0] == 0  # the same table again
    code, _, said = work(*run, "two.csv")
    assert code == 2 and "holds the results of one.csv" in said and "--force" in said
    assert json.loads(Path("madbayes-out/summary.json").read_text())["file"] == "one.csv"
    assert work(*run, "two.csv", "--force")[0] == 0
    assert json.loads(Path("madbayes-out/summary.json").read_text())["file"] == "two.csv"


def test_compare_refuses_numbered_rows_of_different_length(work):
    Path("a.csv").write_text("row,cluster\n1,0\n2,1\n3,1\n")
    Path("b.csv").write_text("row,cluster\n1,0\n2,1\n")
    code, _, said = work("compare", "a.csv", "b.csv")
    assert code == 2 and "3 and 2 rows" in said


def test_ids_that_occur_again_are_noted(work, points):
    table("t.csv", {**points, "name": ["a", "a", *points["name"][2:]]})
    code, _, said = work("cluster", "t.csv", "--id", "name", "--penalty", "20", *FAST)
    assert code == 0 and "--id name is not unique: 1 row has an id" in said


def test_a_table_of_measurements_is_no_list_of_edges(work, points):
    table("wine.csv", {"alcohol": points["x"], "ash": points["y"], "w": points["w"]})
    code, _, said = work("graph", "wine.csv", *FAST)
    assert code == 2 and "no list of edges" in said and "madbayes cluster wine.csv" in said
    Path("edges.csv").write_text("a,b\n1.0,2.0\n2.0,3.0\n3.0,1.0\n")
    assert work("graph", "edges.csv", *FAST)[0] == 0


def test_many_communities_are_in_the_file_that_is_named(work):
    edges = (f"n{3 * i + a},n{3 * i + (a + 1) % 3}\n" for i in range(30) for a in range(3))
    Path("edges.csv").write_text("source,target\n" + "".join(edges))
    code, out, _ = work("graph", "edges.csv", "--out", "o", *FAST)
    assert code == 0 and "all are in clusters.csv" in out and Path("o/clusters.csv").exists()


@pytest.mark.parametrize("tail", ["7,8", "7,8,9,10", '"x\ny",8'])
def test_a_line_with_too_few_or_many_cells_is_named(work, tail):
    Path("t.csv").write_text("a,b,c\n" + "1,2,3\n" * 40 + tail + "\n4,5,6\n")
    code, _, said = work("cluster", "t.csv", *FAST)
    cells = tail.count(",") + 1
    assert code == 2 and f"line 42 has {cells} cells, the first line 3" in said


def test_numbers_that_overflow_warn_nobody(work):
    rows = ["1e308,2", "-1e308,3", *(f"{i},{i % 7}" for i in range(50))]
    Path("t.csv").write_text("x,y\n" + "\n".join(rows) + "\n")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        code, _, said = work("cluster", "t.csv")
    assert code == 0 and not caught and "Warning" not in said and "overflow" not in said


def test_zero_is_zero_and_columns_that_tell_apart_are_shown(work):
    rng = np.random.default_rng(0)
    names = [f"noise_{chr(97 + j)}" for j in range(20)]
    flat = {name: rng.normal(size=60) for name in names}
    side = np.repeat([0.0, 5.0, -5.0], 20)
    table("t.csv", {**flat, "side": side + np.tile([0.1, -0.1], 30)})
    code, out, _ = work("cluster", "t.csv", "--n-clusters", "3", "--standardize", "no", *FAST)
    assert code == 0 and "side" in out and "columns that tell them apart best" in out
    centers = sorted(float(r["side"]) for r in rows_of("madbayes-out/centers.csv"))
    assert centers[1] == 0.0


def test_categories_are_not_said_to_be_standardized(work, points):
    plan = np.where(np.asarray(points["x"]) > 4, "basic", "plus").tolist()
    table("t.csv", {"x": points["x"], "y": points["y"], "plan": plan})
    code, out, said = work("cluster", "t.csv", *FAST)
    assert code == 0 and "mixed divergence is used" in said
    assert "standardized" not in said and "standardized" not in out


def test_a_file_that_is_not_there_is_said_first(work, points):
    table("one.csv", points)
    assert work("cluster", "one.csv", "--penalty", "20", "--quiet", *FAST)[0] == 0
    code, _, said = work("cluster", "two.csv", *FAST)
    assert code == 2 and "There is no file two.csv" in said
