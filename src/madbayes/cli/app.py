"""The `madbayes` command and its verbs.

Each verb imports what it needs when it runs, so that `--help` need not wait.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from madbayes.cli.options import Output, Reading, Seed
from madbayes.tables.errors import UserError

if TYPE_CHECKING:
    from madbayes.cli.fit import Answer
    from madbayes.cli.prepare import Task
from pathlib import Path

from madbayes import __version__
from madbayes.cli.options import Talk, verb

Penalty = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE",
        help="Cost of one more cluster, in squared-distance units (of the standardized values, "
        'where they are); "auto" (the default) lets the data decide, "farthest-first" works it '
        "out from --clusters-hint.",
    ),
]
Hint = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Roughly how many clusters; the data decide between two thirds and three halves "
        "of it.",
    ),
]
Most = Annotated[int | None, typer.Option(metavar="N", min=1, help="At most so many clusters.")]
Metric = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help='"euclidean", or "cosine" to compare directions (centres then have length 1).',
    ),
]


def cluster(
    reading: Reading,
    seed: Seed,
    output: Output,
    penalty: Penalty = None,
    clusters_hint: Hint = None,
    max_clusters: Most = None,
    n_clusters: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Exactly N clusters: plain k-means, no penalty."),
    ] = None,
    metric: Metric = "euclidean",
    shape: Annotated[
        str,
        typer.Option(
            metavar="auto|round|long|any",
            help="round: clusters are near their centres; long: each has a covariance of its own; "
            "any: clusters are connected, whatever their form (rings, crescents); auto: the "
            "shape that the data support best.",
        ),
    ] = "auto",
    scheduler: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Cluster Parquet files on the workers of the Dask scheduler at ADDRESS, which "
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
    from madbayes.cli import fit as fits
    from madbayes.cli import pictures, run

    if scheduler is not None and shape == "auto":
        shape = "round"
    with run.explained(output):
        model, source = fits.estimator(
            penalty, clusters_hint, max_clusters, n_clusters, metric, shape, seed.seed
        )
    if scheduler is not None:
        from madbayes.cli.on_dask import cluster_on_dask

        cluster_on_dask(reading, output, model, source, scheduler)
        return
    run.table_verb(
        "cluster",
        reading,
        output,
        model,
        lambda task: fits.clustering("cluster", task, source),
        draw=pictures.clusters,
    )


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
    from madbayes.cli import fit as fits
    from madbayes.cli import pictures, run
    from madbayes.cli.show import show_path

    with run.explained(output):
        model, source = fits.estimator(
            None, clusters_hint, max_clusters, None, metric, "round", seed.seed
        )

    def fit(task: "Task") -> "Answer":
        answer = fits.clustering("path", task, source)
        answer.tables["path.csv"] = fits.path_table(answer.path)
        return answer

    run.table_verb(
        "path",
        reading,
        output,
        model,
        fit,
        draw=pictures.clusters,
        more=lambda console, answer: show_path(console, answer.path),
    )


def groups(
    reading: Reading,
    seed: Seed,
    output: Output,
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column that says which group a row is in.")
    ],
    penalty_local: Annotated[
        float | None,
        typer.Option(
            metavar="VALUE",
            help="Cost of one more cluster in a group, in squared-distance units (default: the "
            "data decide).",
        ),
    ] = None,
    penalty_global: Annotated[
        float | None,
        typer.Option(metavar="VALUE", help="Cost of one more cluster altogether (likewise)."),
    ] = None,
    local_hint: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Roughly how many clusters a group uses.")
    ] = None,
    global_hint: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Roughly how many clusters in all.")
    ] = None,
) -> None:
    """Find clusters that the groups of a table share.

    Rows come in groups (patients, shops, documents), each of which uses some of the clusters.
    Prints the clusters and writes what madbayes cluster writes, and groups.csv: how many rows of
    each group are in which cluster.

    Example: madbayes groups visits.csv --by patient
    """
    from madbayes import HardHDP
    from madbayes.cli import pictures, run
    from madbayes.cli.fit import check_penalties, grouping

    with run.explained(output):
        check_penalties(penalty_local, penalty_global, local_hint, global_hint)
    model = HardHDP(
        penalty_local or "auto",
        penalty_global or "auto",
        n_local_hint=local_hint,
        n_global_hint=global_hint,
        random_state=seed.seed,
    )
    source = "given" if penalty_local and penalty_global else "chosen from the data"
    run.table_verb(
        "groups",
        reading,
        output,
        model,
        lambda task: grouping(task, by, source),
        draw=pictures.groups,
        by=by,
    )


def features(
    reading: Reading,
    seed: Seed,
    output: Output,
    penalty: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help='Cost of one more feature, in squared-distance units; "auto" (the default) lets '
            "the data decide.",
        ),
    ] = None,
    max_clusters: Annotated[
        int | None,
        typer.Option(
            "--max-clusters", "--max-features", metavar="N", min=1, help="At most so many features."
        ),
    ] = None,
) -> None:
    """Find features that the rows of a table have or lack.

    A row is the sum of its features, and may have several, or none. Prints them and writes what
    madbayes cluster writes: in labels.csv, cluster numbers the combinations of features, and a
    column for each feature says which rows have it; centers.csv says what a feature adds.

    Example: madbayes features baskets.csv --standardize no
    """
    from madbayes import BPMeans
    from madbayes.cli import fit as fits
    from madbayes.cli import pictures, run

    with run.explained(output):
        if penalty == "farthest-first":
            raise UserError('--penalty farthest-first is for clusters: give a number or "auto".')
        value, source = fits.parse_penalty(penalty, None)
    run.table_verb(
        "features",
        reading,
        output,
        BPMeans(value, max_components=max_clusters, random_state=seed.seed),
        lambda task: fits.features(task, source),
        draw=pictures.path_only,
        logs=False,
    )


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
        communities(voice, file, output, source, target, weights, no_header, value, cut, seed.seed)


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
    from madbayes.cli import run

    with run.explained(talk):
        file = eruptions()
    cluster(
        Reading([file]),
        Seed(),
        Output(talk.json, talk.quiet, talk.debug, out=out, force=force),
    )
    if not talk.json and not talk.quiet:
        typer.echo(f"Open {out / 'report.html'} in a browser.")


DEMO = "old_faithful.csv"  # the table of madbayes demo


def eruptions() -> Path:
    """Beside this file in an installed package, among the examples in a checkout."""
    here = Path(__file__).resolve()
    for path in (here.with_name(DEMO), here.parents[3] / "examples" / DEMO):
        if path.exists():
            return path
    raise UserError("The data of the demo is not part of this installation.")


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
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Clusterings that find their own size.

    Start with: madbayes cluster FILE
    """


for function in (
    cluster,
    groups,
    graph,
    features,
    path,
    predict,
    compare,
    demo,
):
    verb(app)(function)
