"""Options of the `madbayes` command, and the order of its work."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from madbayes import __version__, show_progress
from madbayes.cli.errors import UserError

if TYPE_CHECKING:
    from madbayes.cli.fit import Found
    from madbayes.cli.select import Table
    from madbayes.penalties import PenaltyPath, Staircase

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


# Options that several commands have

TableFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="Table to read: .csv, .tsv, .parquet or .npy.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option(metavar="A,B", help="Use these columns only (default: all numeric ones)."),
]
Drop = Annotated[list[str] | None, typer.Option(metavar="A,B", help="Leave these columns out.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing or infinite values.")
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize", help="Give every column mean 0 and variance 1 before clustering."
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed for what is drawn at random.")]
Out = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the results.")]


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
    """Clusterings that find their own size."""


@app.command()
def cluster(
    file: TableFile,
    columns: Columns = None,
    drop: Drop = None,
    drop_missing: DropMissing = False,
    standardize: Standardize = False,
    penalty: Annotated[
        str | None,
        typer.Option(
            metavar="VALUE",
            help="Cost of one more cluster, in squared-distance units (of the standardized values "
            'with --standardize); "auto" (the default) lets the data decide, "farthest-first" '
            "works it out from --clusters-hint.",
        ),
    ] = None,
    clusters_hint: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Roughly how many clusters; the data decide between two thirds and three halves "
            "of it.",
        ),
    ] = None,
    n_clusters: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Exactly N clusters: plain k-means, no penalty."),
    ] = None,
    metric: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help='"euclidean", or "cosine" to compare directions (centres then have length 1).',
        ),
    ] = "euclidean",
    seed: Seed = 0,
    out: Out = Path("madbayes-out"),
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw the pictures.")] = True,
) -> None:
    """Find the clusters of a table.

    With no options at all it finds out how many there are, and says how sure that is. Prints them,
    and writes labels.csv (one line per row of FILE), centers.csv, clusters.png (the first two
    columns, or the first two principal components of more) and path.png (how the number of clusters
    depends on the penalty).
    """
    talk = Console(stderr=True)
    with _explained(talk):
        from madbayes.cli.fit import Options, fit, parse_penalty, resolve
        from madbayes.cli.formats import read
        from madbayes.cli.select import select
        from madbayes.cli.show import count, show
        from madbayes.cli.write import all_or_nothing, write_centers, write_labels

        options = Options(
            parse_penalty(penalty), clusters_hint, n_clusters, standardize, seed, metric
        )
        resolve(options)  # complain about the options before reading a large file
        with talk.status(f"reading {file.name}"):
            table = select(
                read(file), columns=columns or (), drop=drop or (), drop_missing=drop_missing
            )
        _say(talk, table.notes)

        with all_or_nothing(out) as scratch:
            n, d = table.values.shape
            with show_progress(talk, f"clustering {count(n, 'row')} of {count(d, 'column')}"):
                found = fit(table.values, options)
            with talk.status("writing"):
                write_labels(scratch / "labels.csv", found.labels, table.rows, table.n_rows_in_file)
                write_centers(scratch / "centers.csv", found.centers, found.sizes, table.names)
                drawn = _draw(scratch, table, found, file.name) if plot else []
        _say(talk, found.notes)

        console = Console()
        show(console, found, table.names, standardize)
        written = ["labels.csv", "centers.csv", *drawn]
        console.print(Text(f"Written to {out}: {', '.join(written)}"))
        if plot and not drawn:
            _say(talk, ['the pictures need matplotlib: pip install "madbayes[plot]"'])
        for picture in ("clusters.png", "path.png"):
            if picture not in drawn and (out / picture).exists():
                _say(talk, [f"{out / picture} is from an earlier run"])


@app.command()
def graph(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Edges to read, one a row: .csv, .tsv, .txt, .parquet or .npy."
        ),
    ],
    source: Annotated[
        str | None, typer.Option(metavar="A", help="Column of one end (default: the first).")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="B", help="Column of the other end (the second).")
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="W", help="Column of weights (a third column of numbers; else all count 1)."
        ),
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="The first line is an edge, not column names.")
    ] = False,
    resolution: Annotated[
        str,
        typer.Option(
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
    seed: Seed = 0,
    out: Out = Path("madbayes-out"),
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw the picture.")] = True,
) -> None:
    """Find the communities of a graph.

    Directions do not matter, and edges that occur again add up. Prints the communities, and writes
    labels.csv (one line per node), clusters.csv and path.png (how the number of clusters depends on
    the resolution).
    """
    talk = Console(stderr=True)
    with _explained(talk):
        from madbayes.cli.edges import read_edges
        from madbayes.cli.fit import fit_graph, parse_resolution
        from madbayes.cli.show import count, show_communities
        from madbayes.cli.write import all_or_nothing, write_communities, write_nodes

        wanted = parse_resolution(resolution)
        if cut not in ("normalized", "ratio"):
            raise UserError(f'--cut {cut} should be "normalized" or "ratio".')
        with talk.status(f"reading {file.name}"):
            edges = read_edges(
                file, source=source, target=target, weight=weight, header=not no_header
            )
        _say(talk, edges.notes)

        with all_or_nothing(out) as scratch:
            with show_progress(talk, f"cutting a graph of {count(edges.n_edges, 'edge')}"):
                found = fit_graph(edges.adjacency, wanted, cut, seed)
            write_nodes(scratch / "labels.csv", edges.nodes, found.labels)
            write_communities(scratch / "clusters.csv", found.sizes, found.conductance)
            drawn = []
            if plot and found.path is not None:
                drawn = _draw_path(scratch, found.path)

        console = Console()
        show_communities(console, found, edges.n_edges)
        written = ["labels.csv", "clusters.csv", *drawn]
        console.print(Text(f"Written to {out}: {', '.join(written)}"))
        if plot and found.path is not None and not drawn:
            _say(talk, ['the picture needs matplotlib: pip install "madbayes[plot]"'])
        if not drawn and (out / "path.png").exists():
            _say(talk, [f"{out / 'path.png'} is from an earlier run"])


@app.command()
def groups(
    file: TableFile,
    by: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column that says which group a row is in.")
    ],
    columns: Columns = None,
    drop: Drop = None,
    drop_missing: DropMissing = False,
    standardize: Standardize = False,
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
    seed: Seed = 0,
    out: Out = Path("madbayes-out"),
    plot: Annotated[bool, typer.Option("--plot/--no-plot", help="Draw the pictures.")] = True,
) -> None:
    """Find clusters that the groups of a table share.

    Rows come in groups (patients, shops, documents), each of which uses some of the clusters.
    Prints the clusters and writes labels.csv (one line per row of FILE), centers.csv, groups.csv
    (how many rows of each group are in which cluster), groups.png (the groups side by side) and
    usage.png (which group uses which cluster).
    """
    talk = Console(stderr=True)
    with _explained(talk):
        from madbayes.cli import share
        from madbayes.cli.formats import read
        from madbayes.cli.select import select
        from madbayes.cli.show import count
        from madbayes.cli.write import all_or_nothing, write_centers, write_labels

        options = share.Options(
            penalty_local, penalty_global, local_hint, global_hint, standardize, seed
        )
        share.check_options(options)
        with talk.status(f"reading {file.name}"):
            frame = read(file)
            share.check_column(frame, by)
            table = select(
                frame, columns=columns or (), drop=[*(drop or ()), by], drop_missing=drop_missing
            )
            of_row = share.group_column(frame, by, table.rows)
        _say(talk, table.notes)

        with all_or_nothing(out) as scratch:
            n, d = table.values.shape
            with show_progress(talk, f"clustering {count(n, 'row')} of {count(d, 'column')}"):
                found = share.fit(table.values, of_row, options)
            with talk.status("writing"):
                sizes = found.table.sum(axis=0)
                write_labels(scratch / "labels.csv", found.labels, table.rows, table.n_rows_in_file)
                write_centers(scratch / "centers.csv", found.centers, sizes, table.names)
                share.write_groups(scratch / "groups.csv", found, by)
                title = f"{file.name}: {count(len(sizes), 'cluster')}"
                drawn = share.draw(scratch, found, table.values, table.names, title) if plot else []
        _say(talk, found.notes)

        console = Console()
        share.show(console, found, table.names, by)
        written = ["labels.csv", "centers.csv", "groups.csv", *drawn]
        console.print(Text(f"Written to {out}: {', '.join(written)}"))
        if plot and not drawn:
            _say(talk, ['the pictures need matplotlib: pip install "madbayes[plot]"'])


@contextmanager
def _explained(talk: Console) -> Iterator[None]:
    """User errors become one paragraph and exit code 2; Ctrl-C becomes exit code 130."""
    try:
        yield
    except UserError as error:
        talk.print(Text.assemble(("Error: ", "bold red"), str(error)))
        raise typer.Exit(2) from None
    except MemoryError:
        talk.print(Text("Error: the table does not fit into memory."))
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        talk.print(Text("Interrupted; no partial files are left."))
        raise typer.Exit(130) from None


def _say(talk: Console, notes: tuple[str, ...] | list[str]) -> None:
    for note in notes:
        talk.print(Text(f"Note: {note}"))


def _draw(folder: Path, table: "Table", found: "Found", title: str) -> list[str]:
    """The names of the pictures; none when matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return []
    from madbayes.cli.show import count
    from madbayes.plots import scatter

    as_in_file = table.values.shape[1] <= 2  # principal components are of what was clustered
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    scatter(
        table.values if as_in_file else found.used,
        found.labels,
        found.centers if as_in_file else found.used_centers,
        feature_names=table.names,
        title=f"{title}: {count(found.n_clusters, 'cluster')}",
        ax=figure.add_subplot(),
    )
    figure.savefig(folder / "clusters.png", dpi=150)
    return ["clusters.png", *(_draw_path(folder, found.path) if found.path else [])]


def _draw_path(folder: Path, path: "PenaltyPath | Staircase") -> list[str]:
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return []
    figure = Figure(figsize=(7.5, 4.5), layout="constrained")
    path.plot(figure.add_subplot())
    figure.savefig(folder / "path.png", dpi=150)
    return ["path.png"]
