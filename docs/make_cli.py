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

`pip install "madbayes[cli,plot]"` brings the `madbayes` command. Results go to standard output,
everything else (progress, notes, errors) to standard error. Exit codes: 0 done, 2 something is
wrong with the file or the options, 130 interrupted. Files appear whole or not at all.

This page is made from `--help` by `python docs/make_cli.py`; do not edit it by hand.
"""

AFTERWORD = """\
## What is written

| file | content |
|---|---|
| `labels.csv` | `row,label`: one line per row of the input, in its order; of a graph `node,label` |
| `centers.csv` | `label,size` and one column per feature, in the units of the input |
| `clusters.csv` | of a graph: `label,size,conductance`, the heaviest cluster first |
| `clusters.png` | The rows coloured by cluster, centres numbered, sizes in the legend |
| `path.png` | The number of clusters against the penalty (or resolution), when the data decided |

Rows count from 1, without the header. A row left out by `--drop-missing` has an empty label, and
so has a node whose edges all have weight 0.

## What is read

Columns of numbers are used. The others are left out, and the command says which and why: text,
dates, true/false (usable as 1 and 0 when named in `--columns`), empty columns, and a column that
merely counts the rows. In text files the delimiter (comma, semicolon, tab, bar), a missing header,
the encoding and a decimal comma are recognised; `.gz`, `.bz2` and `.zst` are unpacked on the way.
Columns of a `.npy` file are called `x0`, `x1`, … In files of edges a blank may divide the
columns, and lines at the top that start with `#` or `%` are comments.
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
