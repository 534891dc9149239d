"""The verbs for tables: `cluster`, `groups`, `features` and `path`."""

from typing import TYPE_CHECKING, Annotated

import typer

from madbayes.cli.options import Output, Reading, Seed
from madbayes.tables.errors import UserError

if TYPE_CHECKING:
    from madbayes.cli.fit import Answer
    from madbayes.cli.run import Task

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
            "any: clusters are connected, whatever their form (rings, crescents); auto: what "
            "explains held-out rows best.",
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
    from madbayes.cli import choose, pictures, run
    from madbayes.cli.show import count

    with run.explained(output):
        make = choose.estimator(
            penalty,
            clusters_hint,
            max_clusters,
            n_clusters,
            metric,
            "round" if scheduler is not None and shape == "auto" else shape,
            seed.seed,
        )
    if scheduler is not None:
        from madbayes.cli.spread import cluster_spread

        cluster_spread(reading, output, *make, scheduler)
        return
    run.table_verb(
        "cluster",
        reading,
        output,
        lambda task: choose.fit_clusters("cluster", task, *make),
        title=lambda task, answer: (
            f"{count(answer.number, 'cluster')} in {count(len(answer.labels), 'row')}"
        ),
        draw=pictures.clusters,
        metric=metric,
        **choose.takes(make[0]),
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
    from madbayes.cli import choose, pictures, run
    from madbayes.cli.show import count, show_path

    with run.explained(output):
        make = choose.estimator(None, clusters_hint, max_clusters, None, metric, "round", seed.seed)

    def fit(task: "Task") -> "Answer":
        answer = choose.fit_clusters("path", task, *make)
        answer.tables["path.csv"] = choose.path_table(answer.path)
        return answer

    run.table_verb(
        "path",
        reading,
        output,
        fit,
        title=lambda task, answer: (
            f"{count(answer.number, 'cluster')} in {count(len(answer.labels), 'row')}"
        ),
        draw=pictures.clusters,
        metric=metric,
        **choose.takes(make[0]),
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
    from madbayes.cli import pictures, run
    from madbayes.cli.shared import check_penalties, fit_groups
    from madbayes.cli.show import count

    with run.explained(output):
        check_penalties(penalty_local, penalty_global, local_hint, global_hint)
    hints = {"n_local_hint": local_hint, "n_global_hint": global_hint}
    run.table_verb(
        "groups",
        reading,
        output,
        lambda task: fit_groups(task, by, penalty_local, penalty_global, hints, seed.seed),
        title=lambda task, answer: (
            f"{count(answer.number, 'cluster')} shared by "
            f"{count(len(answer.model.groups_), 'group')} in {count(len(answer.labels), 'row')}"
        ),
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
    from madbayes.cli import pictures, run
    from madbayes.cli.show import count

    with run.explained(output):
        from madbayes import BPMeans
        from madbayes.cli.fit import parse_penalty

        if penalty == "farthest-first":
            raise UserError('--penalty farthest-first is for clusters: give a number or "auto".')
        value, source = parse_penalty(penalty, None)
        model = BPMeans(value, max_components=max_clusters, random_state=seed.seed)

    def fit(task: "Task") -> "Answer":
        from madbayes.cli import fit as fits

        done, notes = fits.fitted(model, task.X, **run.weighted(model, task))
        return fits.features(done, task.table, task.X, notes, source)

    run.table_verb(
        "features",
        reading,
        output,
        fit,
        title=lambda task, answer: (
            f"{count(answer.number, 'feature')} in {count(len(answer.labels), 'row')}"
        ),
        draw=pictures.path_only,
        logs=False,
    )
