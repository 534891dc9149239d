"""Options that several verbs have, each written once, and how a verb comes by them."""

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
MISSING_CELLS = ("observed", "error", "drop", "impute-mean")


@dataclass(frozen=True)
class Reading:
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
        list[str] | None,
        typer.Option(metavar="A,B", help="Use these columns only (default: all that measure)."),
    ] = None
    drop: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Leave these columns out.")
    ] = None
    categorical: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="These columns hold categories.")
    ] = None
    numeric: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="These columns hold numbers.")
    ] = None
    log: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Use the logarithm of these columns.")
    ] = None
    id: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column that says which row is which."),
    ] = None
    weights: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of the rows' weights.")
    ] = None
    standardize: Annotated[
        str,
        typer.Option(
            metavar="auto|yes|no",
            help="Give every column mean 0 and variance 1. auto: when the columns have names of "
            "their own and spreads that differ more than tenfold, or hold categories. Without a "
            "word behind it: yes.",
        ),
    ] = "auto"
    missing: Annotated[
        str,
        typer.Option(
            metavar="observed|error|drop|impute-mean",
            help="What to do about cells that are missing, infinite or no number: use the cells "
            "that are there, stop, leave the rows out, or fill in the mean of the column. Where "
            "a method needs all cells, observed fills in means, and says so.",
        ),
    ] = "observed"
    na: Annotated[
        list[str] | None,
        typer.Option(metavar="-,?", help="Further cells that stand for a missing value."),
    ] = None
    skip_rows: Annotated[
        int, typer.Option(metavar="N", min=0, help="Leave out lines above the column names.")
    ] = 0
    sheet: Annotated[
        str | None, typer.Option(metavar="NAME", help="The sheet of an Excel file to read.")
    ] = None
    drop_missing: Annotated[bool, typer.Option("--drop-missing", hidden=True)] = False

    def check(self) -> "Reading":
        """Complain about the options before a large file is read."""
        for option, value, known in (
            ("--standardize", self.standardize, STANDARDIZE),
            ("--missing", self.missing, MISSING_CELLS),
        ):
            if value not in known:
                raise UserError(f"{option} {value} should be one of {', '.join(known)}.")
        return self

    @property
    def gaps(self) -> str:
        return "drop" if self.drop_missing else self.missing

    @property
    def na_words(self) -> list[str]:
        return [word.strip() for item in self.na or () for word in item.split(",")]


@dataclass(frozen=True)
class Seed:
    """What is drawn at random."""

    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed for what is drawn at random.")
    ] = 0


@dataclass(frozen=True)
class Talk:
    """How much is said, and to whom."""

    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, and nothing else.")
    ] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing but errors.")] = False
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where in the program an error arose.")
    ] = False


@dataclass(frozen=True)
class Output(Talk):
    """Where the answer goes."""

    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "madbayes-out"
    )
    force: Annotated[
        bool,
        typer.Option("--force", help="Write into DIR although other files are in it (they stay)."),
    ] = False
    table: Annotated[
        bool, typer.Option("--table", help="Also write table.csv: FILE with the cluster beside it.")
    ] = False
    report: Annotated[bool, typer.Option("--report/--no-report", help="Write report.html.")] = True
    plot: Annotated[
        bool | None,
        typer.Option(
            "--plot/--no-plot",
            help="Also draw pictures as PNG files, with matplotlib (madbayes path does so anyway).",
            show_default=False,
        ),
    ] = None


def verb(app: typer.Typer) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameters may be one of the bundles above: `def cluster(reading: Reading,
    penalty: …, output: Output)` has all their options."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        bundles: dict[str, Any] = {}
        first: list[inspect.Parameter] = []  # what is read, what is special, what all have
        own: list[inspect.Parameter] = []
        last: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if inspect.isclass(hints[name]) and issubclass(hints[name], (Reading, Seed, Talk)):
                bundles[name] = hints[name]
                (first if hints[name] is Reading else last).extend(_parameters(hints[name]))
            else:
                kind = inspect.Parameter.KEYWORD_ONLY
                own.append(parameter.replace(annotation=hints[name], kind=kind))
        parameters = [*first, *own, *last]

        def command(**given: Any) -> None:
            for name, bundle in bundles.items():
                mine = {f.name: given.pop(f.name) for f in fields(bundle)}
                given[name] = bundle(**mine)
            try:
                function(**given)
            except KeyboardInterrupt:  # while the verb imports what it needs
                raise typer.Exit(STOPPED) from None

        command.__name__, command.__doc__ = function.__name__, function.__doc__
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        app.command(name=function.__name__)(command)
        return function

    return decorate


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
    for i, word in enumerate(argv):
        out.append(word)
        following = argv[i + 1] if i + 1 < len(argv) else ""
        if word == "--standardize" and following not in STANDARDIZE:
            out.append("yes")
        elif word == "--novel" and not _is_rate(following):
            out.append("0.001")
    return out


def _is_rate(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def command_line() -> str:
    """As it was typed, for the summary."""
    return shlex.join(["madbayes", *COMMAND[0]])


COMMAND: list[list[str]] = [sys.argv[1:]]  # what `main` was called with
