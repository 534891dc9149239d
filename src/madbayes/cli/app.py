"""The `madbayes` command and its verbs.

Each verb imports what it needs when it runs, so that `--help` need not wait.
"""

from pathlib import Path
from typing import Annotated

import typer

from madbayes import __version__
from madbayes.cli.options import (
    EdgeReading,
    Out,
    Output,
    Reading,
    Request,
    Seed,
    Talk,
    flag,
    opt,
    verb,
)
from madbayes.tables.errors import UserError

Hint = Annotated[
    int | None,
    opt(
        "N",
        "Roughly how many clusters; the data decide between two thirds and three halves of it.",
        min=1,
    ),
]
Most = Annotated[int | None, opt("N", "At most so many clusters.", min=1)]
Metric = Annotated[
    str, opt("NAME", '"euclidean", or "cosine" to compare directions (centres then have length 1).')
]


def cluster(
    reading: Reading,
    seed: Seed,
    output: Output,
    penalty: Annotated[
        str | None,
        opt(
            "VALUE",
            "Cost of one more cluster, in squared-distance units (of the standardized values, "
            'where they are); "auto" (the default) lets the data decide, "farthest-first" works it '
            "out from --clusters-hint.",
        ),
    ] = None,
    clusters_hint: Hint = None,
    max_clusters: Most = None,
    n_clusters: Annotated[
        int | None, opt("N", "Exactly N clusters: plain k-means, no penalty.", min=1)
    ] = None,
    metric: Metric = "euclidean",
    shape: Annotated[
        str,
        opt(
            "auto|round|long|any",
            "round: clusters are near their centres; long: each has a covariance of its own; "
            "any: clusters are connected, whatever their form (rings, crescents); auto: the "
            "shape that the data support best.",
        ),
    ] = "auto",
    scheduler: Annotated[
        str | None,
        opt(
            "ADDRESS",
            "Cluster Parquet files on the workers of the Dask scheduler at ADDRESS, which "
            "have to see the files; writes labels.parquet, centers.csv, summary.json and "
            "model.npz.",
        ),
    ] = None,
) -> None:
    """Find the clusters of a table.

    With no options at all it finds out how many there are, and says how sure that is. Prints them,
    and writes labels.csv (one line per row of FILE), centers.csv, summary.json, model.npz (for
    madbayes predict) and report.html (for a browser); with --plot also pictures.

    Example: madbayes cluster penguins.csv --id name --out penguins
    """
    from madbayes.cli import fit, run

    if scheduler is not None and shape == "auto":
        shape = "round"
    model, source = fit.estimator(
        penalty, clusters_hint, max_clusters, n_clusters, metric, shape, seed.seed
    )
    if scheduler is not None:
        from madbayes.cli.on_dask import cluster_on_dask

        cluster_on_dask(reading, output, model, source, scheduler)
    else:
        run.table_verb("cluster", reading, output, model, source)


def path(
    reading: Reading,
    seed: Seed,
    output: Output,
    clusters_hint: Hint = None,
    max_clusters: Most = None,
    metric: Metric = "euclidean",
) -> None:
    """Show how the number of clusters depends on the penalty.

    Prints the staircase and what the data support, and writes path.csv (one line for each number
    of clusters: from which penalty to which it is best) and path.png, beside all that madbayes
    cluster writes.

    Example: madbayes path penguins.csv --max-clusters 20
    """
    from madbayes.cli import fit, run

    model, source = fit.estimator(
        None, clusters_hint, max_clusters, None, metric, "round", seed.seed
    )
    run.table_verb("path", reading, output, model, source)


def groups(
    reading: Reading,
    seed: Seed,
    output: Output,
    by: Annotated[str, opt("COLUMN", "The column that says which group a row is in.")],
    penalty_local: Annotated[
        float | None,
        opt(
            "VALUE",
            "Cost of one more cluster in a group, in squared-distance units (default: the "
            "data decide).",
        ),
    ] = None,
    penalty_global: Annotated[
        float | None, opt("VALUE", "Cost of one more cluster altogether (likewise).")
    ] = None,
    local_hint: Annotated[
        int | None, opt("N", "Roughly how many clusters a group uses.", min=1)
    ] = None,
    global_hint: Annotated[int | None, opt("N", "Roughly how many clusters in all.", min=1)] = None,
) -> None:
    """Find clusters that the groups of a table share.

    Rows come in groups (patients, shops, documents), each of which uses some of the clusters.
    Prints the clusters and writes what madbayes cluster writes, and groups.csv: how many rows of
    each group are in which cluster.

    Example: madbayes groups visits.csv --by patient
    """
    from madbayes.cli import fit, run

    model, source = fit.group_estimator(
        penalty_local, penalty_global, local_hint, global_hint, seed.seed
    )
    run.table_verb("groups", reading, output, model, source, by)


def features(
    reading: Reading,
    seed: Seed,
    output: Output,
    penalty: Annotated[
        str | None,
        opt(
            "VALUE",
            'Cost of one more feature, in squared-distance units; "auto" (the default) lets '
            "the data decide.",
        ),
    ] = None,
    max_clusters: Annotated[
        int | None,
        opt("N", "At most so many features.", "--max-clusters", "--max-features", min=1),
    ] = None,
) -> None:
    """Find features that the rows of a table have or lack.

    A row is the sum of its features, and may have several, or none. Prints them and writes what
    madbayes cluster writes: in labels.csv, cluster numbers the combinations of features, and a
    column for each feature says which rows have it; centers.csv says what a feature adds.

    Example: madbayes features baskets.csv --standardize no
    """
    from madbayes import BPMeans
    from madbayes.cli import fit, run

    if penalty == "farthest-first":
        raise UserError('--penalty farthest-first is for clusters: give a number or "auto".')
    value, source = fit.parse_penalty(penalty, None)
    model = BPMeans(value, max_components=max_clusters, random_state=seed.seed)
    run.table_verb("features", reading, output, model, source)


def graph(
    reading: EdgeReading,
    seed: Seed,
    output: Output,
    resolution: Annotated[
        str,
        opt(
            "VALUE",
            "What each cluster earns; higher gives more clusters. Useful between 0 and 1 for "
            'normalized cuts; "auto" lets the data decide.',
            *("--resolution", "--penalty"),
        ),
    ] = "auto",
    cut: Annotated[
        str,
        opt(
            "KIND",
            '"normalized" divides the edges that leave a cluster by its degree, "ratio" by '
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
    from madbayes.cli.fit import positive
    from madbayes.cli.graph import communities

    value = resolution if resolution == "auto" else positive(resolution)
    if value is None:
        raise UserError(
            f'--resolution {resolution} should be a number > 0 or "auto". Each cluster earns '
            "it and pays its conductance; without it, the data decide."
        )
    if cut not in ("normalized", "ratio"):
        raise UserError(f'--cut {cut} should be "normalized" or "ratio".')
    communities(reading, output, value, cut, seed.seed)


def predict(request: Request, talk: Talk) -> None:
    """Find the clusters of new rows, by a model that was found before.

    The new file needs the same columns, in any order; they are scaled as those of the first were.
    Writes the id (or row), cluster, distance, second (the next nearest cluster) and
    novelty_p_value: the share of rows like those of the fit that are as far out as this one.
    Small is novel: 0.5 is usual, 0.001 is a row that only one in a thousand would be like.

    Example: madbayes predict madbayes-out/model.npz new.csv --out new-labels.csv
    """
    from madbayes.cli.predict import predict_file

    predict_file(request, talk)


def compare(
    labels1: Annotated[Path, typer.Argument(metavar="LABELS1", help="labels.csv of one run.")],
    labels2: Annotated[
        Path, typer.Argument(metavar="LABELS2", help="That of another, or a table with classes.")
    ],
    talk: Talk,
    column1: Annotated[
        str | None, opt("COLUMN", 'The column of LABELS1 (default: "cluster").')
    ] = None,
    column2: Annotated[str | None, opt("COLUMN", "The column of LABELS2 (likewise).")] = None,
) -> None:
    """Compare two clusterings of the same rows.

    Prints the normalized mutual information (NMI) and the adjusted Rand index (ARI), both 1 when
    the clusterings agree and about 0 when they have nothing to do with each other, and how many
    rows are in which pair of clusters. Rows are matched by their ids where both files have them
    under the same name, else by their order; rows without a cluster in either do not count.

    Example: madbayes compare one/labels.csv two/labels.csv
    """
    from madbayes.cli.compare import compare_files

    compare_files(talk, (labels1, labels2), (column1, column2))


def demo(
    talk: Talk,
    out: Out = Path("madbayes-demo"),
    force: Annotated[
        bool, flag("--force", "Write into DIR although other files are in it.")
    ] = False,
) -> None:
    """Show what the command does, on the eruptions of a geyser.

    Runs madbayes cluster on 272 eruptions of Old Faithful, which comes with the package.

    Example: madbayes demo
    """
    # Beside this file in an installed package, among the examples in a checkout.
    here, name = Path(__file__).resolve(), "old_faithful.csv"
    places = (here.with_name(name), here.parents[3] / "examples" / name)
    file = next((path for path in places if path.exists()), None)
    if file is None:
        raise UserError("The data of the demo is not part of this installation.")
    output = Output(talk.json, talk.quiet, talk.debug, out=out, force=force)
    cluster(Reading([file]), Seed(), output)
    if not talk.json and not talk.quiet:
        typer.echo(f"Open {out / 'report.html'} in a browser.")


app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"madbayes {__version__}")
        raise typer.Exit


@app.callback()
def madbayes(
    _version: Annotated[
        bool,
        flag("--version", "Show the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Clusterings that find their own size.

    Start with: madbayes cluster FILE
    """


for function in (cluster, groups, graph, features, path, predict, compare, demo):
    verb(app, function)
