"""`madbayes graph`: communities of a graph."""

from pathlib import Path
from typing import Annotated

import typer

from madbayes.cli.options import Output, Seed
from madbayes.tables.errors import UserError


def graph(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Edges to read, one a row: .csv, .tsv, .txt, .edges, .parquet, .npy, …; - for "
            "standard input.",
        ),
    ],
    seed: Seed,
    output: Output,
    source: Annotated[
        str | None, typer.Option(metavar="A", help="Column of one end (default: the first).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="B", help="Column of the other end (the second).")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            "--weight",
            metavar="W",
            help="Column of weights (a third column of numbers; else all count 1).",
        ),
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line is an edge, not column names.")
    ] = False,
    resolution: Annotated[
        str,
        typer.Option(
            "--resolution",
            "--penalty",
            metavar="VALUE",
            help="What each cluster earns; higher gives more clusters. Useful between 0 and 1 for "
            'normalized cuts; "auto" lets the data decide.',
        ),
    ] = "auto",
    cut: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help='"normalized" divides the edges that leave a cluster by its degree, "ratio" by '
            "its number of nodes.",
        ),
    ] = "normalized",
) -> None:
    """Find the communities of a graph.

    Directions do not matter, and edges that occur again add up. Prints the communities, and writes
    labels.csv (one line per node), clusters.csv, summary.json, model.npz and report.html; with
    --plot also path.png (how the number of clusters depends on the resolution).

    Example: madbayes graph friends.csv --out friends
    """
    from madbayes.cli import run

    with run.explained(output) as voice:
        from madbayes.cli.community import communities
        from madbayes.cli.fit import positive

        value = resolution if resolution == "auto" else positive(resolution)
        if value is None:
            raise UserError(
                f'--resolution {resolution} should be a number > 0 or "auto". Each cluster earns '
                "it and pays its conductance; without it, the data decide."
            )
        if cut not in ("normalized", "ratio"):
            raise UserError(f'--cut {cut} should be "normalized" or "ratio".')
        communities(voice, file, output, source, target, weights, no_header, value, cut, seed.seed)
