"""Verbs for what comes after a fit: `predict` and `compare`; and `demo`, for what comes before."""

from pathlib import Path
from typing import Annotated

import typer

from madbayes.cli.options import Output, Talk


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="model.npz of madbayes cluster, or a saved one.")
    ],
    file: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Table to read, with the columns of the first."),
    ],
    talk: Talk,
    novel: Annotated[
        float | None,
        typer.Option(
            metavar="[RATE]",
            help="Rows unlike those of the fit get no cluster but -1: those that at most this "
            "share of the fitted rows would resemble (0.001, when none is given).",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Where to write (default: standard output)."),
    ] = None,
    id: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column that says which row is which.")
    ] = None,
    missing: Annotated[
        str,
        typer.Option(
            metavar="error|drop",
            help="Cells that are missing or no number: stop, or give the row no cluster. Where "
            "means were filled in before, they are again.",
        ),
    ] = "observed",
    na: Annotated[
        list[str] | None,
        typer.Option(metavar="-,?", help="Further cells that stand for a missing value."),
    ] = None,
    skip_rows: Annotated[
        int, typer.Option(metavar="N", min=0, help="Leave out lines above the column names.")
    ] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE.csv.")] = False,
) -> None:
    """Find the clusters of new rows, by a model that was found before.

    The new file needs the same columns, in any order; they are scaled as those of the first were.
    Writes the id (or row), cluster, distance, second (the next nearest cluster) and
    novelty_p_value: the share of rows like those of the fit that are as far out as this one.
    Small is novel: 0.5 is usual, 0.001 is a row that only one in a thousand would be like.

    Example: madbayes predict madbayes-out/model.npz new.csv --out new-labels.csv
    """
    from madbayes.cli import run

    with run.explained(talk) as voice:
        from madbayes.cli.predict import Request, predict_file

        words = [word.strip() for item in na or () for word in item.split(",")]
        request = Request(model, file, novel, out, id, missing, words, skip_rows, force)
        predict_file(voice, request)


def compare(
    labels1: Annotated[Path, typer.Argument(metavar="LABELS1", help="labels.csv of one run.")],
    labels2: Annotated[
        Path, typer.Argument(metavar="LABELS2", help="That of another, or a table with classes.")
    ],
    talk: Talk,
    column1: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help='The column of LABELS1 (default: "cluster").'),
    ] = None,
    column2: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of LABELS2 (likewise).")
    ] = None,
) -> None:
    """Compare two clusterings of the same rows.

    Prints the normalized mutual information (NMI) and the adjusted Rand index (ARI), both 1 when
    the clusterings agree and about 0 when they have nothing to do with each other, and how many
    rows are in which pair of clusters. Rows are matched by their ids where both files have them
    under the same name, else by their order; rows without a cluster in either do not count.

    Example: madbayes compare one/labels.csv two/labels.csv
    """
    from madbayes.cli import run

    with run.explained(talk) as voice:
        from madbayes.cli.compare import compare_files

        compare_files(voice, labels1, labels2, column1, column2)


def demo(
    talk: Talk,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")] = Path(
        "madbayes-demo"
    ),
    force: Annotated[
        bool, typer.Option("--force", help="Write into DIR although other files are in it.")
    ] = False,
) -> None:
    """Show what the command does, on the eruptions of a geyser.

    Runs madbayes cluster on 272 eruptions of Old Faithful, which comes with the package.

    Example: madbayes demo
    """
    from madbayes.cli import run, tables
    from madbayes.cli.demo import eruptions
    from madbayes.cli.options import Reading, Seed

    with run.explained(talk):
        file = eruptions()
    tables.cluster(
        Reading([file]),
        Seed(),
        Output(talk.json, talk.quiet, talk.debug, out=out, force=force),
    )
    if not talk.json and not talk.quiet:
        typer.echo(f"Open {out / 'report.html'} in a browser.")
