"""Write docs/cli.md from the `--help` of every command: `python docs/make_cli.py`.

A test fails when the page and the command no longer agree.
"""

from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from madbayes.cli.app import app

PAGE = Path(__file__).with_name("cli.md")

INTRODUCTION = """\
# The command line

The extras `cli` (the command), `plot` (pictures) and `excel` (.xlsx files) bring the `madbayes`
command. Results go to standard output, everything else (progress, notes, errors) to standard
error. Exit codes: 0 done, 2 something is wrong with the file or the options, 130 interrupted. The
folder of results appears whole or not at all; a folder that holds anything else is refused
without `--force`, and so is one that holds the results of another table.

This page is made from `--help` by `python docs/make_cli.py`; do not edit it by hand.
"""

AFTERWORD = """\
## What is written

| file | content |
|---|---|
| `labels.csv` | one line per row of the input (of a graph, per node), columns as below |
| `centers.csv` | `cluster,size` and one column per feature, in the units of the input |
| `summary.json` | what was read, done and found, with versions; `--json` prints the same |
| `model.npz` | the model, scales included, for `madbayes predict` and `madbayes.load` |
| `report.html` | one page for people: how many, how sure, a map, what sets clusters apart |
| `table.csv` | with `--table`: the input with the cluster beside it |
| `groups.csv` | of `groups`: how many rows of each group are in which cluster |
| `clusters.csv` | of a graph: `cluster,size,conductance`, the heaviest cluster first |
| `path.csv` | of `path`: from which penalty to which each number of clusters is best |
| `*.png` | with `--plot` (and of `path`): pictures, where matplotlib is installed |

`labels.csv` has the id (or `row`, counted from 1), `cluster`, `distance` to its centre, `second`
(the next nearest cluster) and `novelty_p_value` (the share of rows like those of the fit that are
as far out: small is novel), and further columns where a verb has more to say. A row that was left
out has an empty cluster, and so has a node whose edges all have weight 0. Distances are in the
units that were clustered: standardized ones where columns were standardized. Text that a
spreadsheet would run (it starts with =, +, - or @) is written with a ' before it.

## What is read

What each column holds is found out: numbers (also `$1,234.00`, `12%` and `1.234,56`), counts,
categories, yes and no are used; dates, identifiers, postcodes, free text and true classes are
left out, and the command says which and why. [Tables as people have them](guide/tables.md) states
the rules, [decision 15](adr/0015-reading-tables.md) the reasons. In text files the delimiter
(comma, semicolon, tab, bar, blanks), Excel's `sep=` line, a missing header, line breaks in
quotes, the encoding and the decimal mark are recognised; `.gz`, `.bz2` and `.zst` are unpacked on
the way. Columns of `.npy` and `.npz` files are called `x0`, `x1`, … Parquet and `.npy` files may
be larger than memory. In files of edges, lines at the top that start with `#` or `%` are
comments, and the first line is an edge when its names are nodes.
"""


def help_text(*command: str) -> str:
    """What `madbayes COMMAND --help` prints in a terminal of 80 columns."""
    result = CliRunner().invoke(
        app, [*command, "--help"], prog_name="madbayes", env={"COLUMNS": "80"}
    )
    return "\n".join(line.rstrip() for line in result.output.strip().splitlines())


def page() -> str:
    parts = [INTRODUCTION, f"```text\n{help_text()}\n```\n"]
    for name in sorted(get_command(app).commands):  # type: ignore[attr-defined]
        parts.append(f"## madbayes {name}\n\n```text\n{help_text(name)}\n```\n")
    return "\n".join([*parts, AFTERWORD])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE}")
