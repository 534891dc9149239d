"""Options of the verbs: what several have is written once, and a verb names bundles of options."""

import inspect
import shlex
import sys
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from madbayes.cli import STOPPED
from madbayes.tables.errors import UserError

STANDARDIZE = ("auto", "yes", "no")


def opt(metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """An option; its name follows from that of the parameter unless `names` are given."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


def flag(names: str, help: str, **more: Any) -> Any:
    """An option without a value."""
    return typer.Option(names, help=help, **more)


def words(items: list[str] | None) -> list[str]:
    """'a,b' and further such options, as a list of words."""
    return [word.strip() for item in items or () for word in item.split(",")]


class Bundle:
    """Options that stand together."""


Columns = list[str] | None
Id = Annotated[str | None, opt("COLUMN", "The column that says which row is which.")]
NA = Annotated[Columns, opt("-,?", "Further cells that stand for a missing value.")]
SkipRows = Annotated[int, opt("N", "Leave out lines above the column names.", min=0)]
Out = Annotated[Path, opt("DIR", "Folder for the results.")]


@dataclass(frozen=True)
class Reading(Bundle):
    """How a table is read and what becomes of its columns."""

    file: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Table to read: .csv, .tsv, .txt (also .gz), .parquet, .feather, .xlsx, .jsonl, "
            ".npy or .npz; - for standard input. Several Parquet files, or a folder of them, are "
            "one table, which may be larger than memory.",
        ),
    ]
    columns: Annotated[
        Columns, opt("A,B", "Use these columns only (default: all that measure).")
    ] = None
    drop: Annotated[Columns, opt("A,B", "Leave these columns out.")] = None
    categorical: Annotated[Columns, opt("A,B", "These columns hold categories.")] = None
    numeric: Annotated[Columns, opt("A,B", "These columns hold numbers.")] = None
    log: Annotated[Columns, opt("A,B", "Use the logarithm of these columns.")] = None
    id: Id = None
    weights: Annotated[str | None, opt("COLUMN", "The column of the rows' weights.")] = None
    standardize: Annotated[
        str,
        opt(
            "auto|yes|no",
            "Give every column mean 0 and variance 1. auto: when the columns have names of "
            "their own and spreads that differ more than tenfold, or hold categories. Without a "
            "word behind it: yes.",
        ),
    ] = "auto"
    missing: Annotated[
        str,
        opt(
            "observed|error|drop|impute-mean",
            "What to do about cells that are missing, infinite or no number: use the cells "
            "that are there, stop, leave the rows out, or fill in the mean of the column. Where "
            "a method needs all cells, observed fills in means, and says so.",
        ),
    ] = "observed"
    na: NA = None
    skip_rows: SkipRows = 0
    sheet: Annotated[str | None, opt("NAME", "The sheet of an Excel file to read.")] = None

    def check(self) -> "Reading":
        """Complain about the options before a large file is read."""
        for option, value, known in (
            ("--standardize", self.standardize, STANDARDIZE),
            ("--missing", self.missing, ("observed", "error", "drop", "impute-mean")),
        ):
            if value not in known:
                raise UserError(f"{option} {value} should be one of {', '.join(known)}.")
        return self


@dataclass(frozen=True)
class EdgeReading(Bundle):
    """Which columns of a file are the edges of a graph."""

    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Edges to read, one a row: .csv, .tsv, .txt, .edges, .parquet, .npy, …; - for "
            "standard input.",
        ),
    ]
    source: Annotated[str | None, opt("A", "Column of one end (default: the first).")] = None
    target: Annotated[str | None, opt("B", "Column of the other end (the second).")] = None
    weights: Annotated[
        str | None,
        opt(
            "W",
            "Column of weights (a third column of numbers; else all count 1).",
            *("--weights", "--weight"),
        ),
    ] = None
    no_header: Annotated[
        bool, flag("--no-header", "The first line is an edge, not column names.")
    ] = False


@dataclass(frozen=True)
class Request(Bundle):
    """What `madbayes predict` is asked for."""

    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="model.npz of madbayes cluster, or a saved one.")
    ]
    file: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Table to read, with the columns of the first."),
    ]
    novel: Annotated[
        float | None,
        opt(
            "[RATE]",
            "Rows unlike those of the fit get no cluster but -1: those that at most this "
            "share of the fitted rows would resemble (0.001, when none is given).",
        ),
    ] = None
    out: Annotated[Path | None, opt("FILE.csv", "Where to write (default: standard output).")] = (
        None
    )
    id: Id = None
    missing: Annotated[
        str,
        opt(
            "error|drop",
            "Cells that are missing or no number: stop, or give the row no cluster. Where "
            "means were filled in before, they are again.",
        ),
    ] = "observed"
    na: NA = None
    skip_rows: SkipRows = 0
    force: Annotated[bool, flag("--force", "Replace FILE.csv.")] = False


@dataclass(frozen=True)
class Seed(Bundle):
    """What is drawn at random."""

    seed: Annotated[int, opt("N", "Seed for what is drawn at random.", min=0)] = 0


@dataclass(frozen=True)
class Talk(Bundle):
    """How much is said, and to whom."""

    json: Annotated[bool, flag("--json", "Print the summary as JSON, and nothing else.")] = False
    quiet: Annotated[bool, flag("--quiet", "Print nothing but errors.")] = False
    debug: Annotated[bool, flag("--debug", "Show where in the program an error arose.")] = False


@dataclass(frozen=True)
class Output(Talk):
    """Where the answer goes."""

    out: Out = Path("madbayes-out")
    force: Annotated[
        bool, flag("--force", "Write into DIR although other files are in it (they stay).")
    ] = False
    table: Annotated[
        bool, flag("--table", "Also write table.csv: FILE with the cluster beside it.")
    ] = False
    report: Annotated[bool, flag("--report/--no-report", "Write report.html.")] = True
    plot: Annotated[
        bool | None,
        flag(
            "--plot/--no-plot",
            "Also draw pictures as PNG files, with matplotlib (madbayes path does so anyway).",
            show_default=False,
        ),
    ] = None


def verb(app: typer.Typer, function: Callable[..., None]) -> None:
    """Make a function a command. Its parameters may be bundles: `def cluster(reading: Reading,
    penalty: …, output: Output)` has all their options.

    What goes wrong in the function is said as `run.explained` says it.
    """
    hints = get_type_hints(function, include_extras=True)
    bundles: dict[str, Any] = {}
    first: list[inspect.Parameter] = []  # what is read, what is special, what all have
    own: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if inspect.isclass(kind) and issubclass(kind, Bundle):
            bundles[name] = kind
            (last if issubclass(kind, (Seed, Talk)) else first).extend(_parameters(kind))
        else:
            own.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    parameters = [*first, *own, *last]

    def command(**given: Any) -> None:
        for name, bundle in bundles.items():
            given[name] = bundle(**{f.name: given.pop(f.name) for f in fields(bundle)})
        talk = next(value for value in given.values() if isinstance(value, Talk))
        try:
            from madbayes.cli.run import explained

            with explained(talk):
                function(**given)
        except KeyboardInterrupt:  # while modules are imported
            raise typer.Exit(STOPPED) from None

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    app.command(name=function.__name__)(command)


def _parameters(bundle: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(bundle, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=hints[field.name],
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(bundle)
    ]


def spelled_out(argv: list[str]) -> list[str]:
    """`--standardize` and `--novel` may stand alone: then they mean yes, and the usual rate."""
    out = []
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        out.append(word)
        if word == "--standardize" and following not in STANDARDIZE:
            out.append("yes")
        elif word == "--novel" and number_in(following) is None:
            out.append("0.001")
    return out


def number_in(word: str) -> float | None:
    """The number that a word is, or None."""
    try:
        return float(word)
    except ValueError:
        return None


def command_line() -> str:
    """As it was typed, for the summary."""
    return shlex.join(["madbayes", *COMMAND[0]])


COMMAND: list[list[str]] = [sys.argv[1:]]  # what `main` was called with
