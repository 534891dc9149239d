"""What was found, for a person to read."""

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from madbayes.cli.fit import Communities, Found

MOST_COLUMNS = 6
MOST_CLUSTERS = 20


def count(n: int, what: str) -> str:
    """'1 row', '1,200 rows'."""
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def show(console: Console, found: Found, names: tuple[str, ...], standardized: bool) -> None:
    """Clusters, sizes and centres as a table; penalty and objective below it."""
    n_columns = min(len(names), MOST_COLUMNS)
    while n_columns > 1 and not _fits(console, _clusters(found, names[:n_columns])):
        n_columns -= 1
    console.print(_clusters(found, names[:n_columns]))
    if hidden := _hidden(found, n_columns, len(names)):
        console.print(Text(hidden, style="dim"))
    console.print(_facts(found))
    if standardized:
        console.print(
            Text("Centres are in the units of the file, the rest in standardized units.", "dim")
        )


def _fits(console: Console, table: RichTable) -> bool:
    return console.measure(table).maximum < console.width


def _clusters(found: Found, names: tuple[str, ...]) -> RichTable:
    clusters = count(found.n_clusters, "cluster")
    rows = count(len(found.labels), "row")
    table = RichTable(title=f"{clusters} in {rows}", title_justify="left")
    for heading in ("label", "size", "share", *names):
        table.add_column(Text(heading), justify="right")
    for label in _shown(found):
        share = found.sizes[label] / found.sizes.sum()
        center = (f"{value:.4g}" for value in found.centers[label][: len(names)])
        table.add_row(str(label), f"{found.sizes[label]:,}", f"{share:.1%}", *center)
    return table


def _shown(found: Found) -> list[int]:
    """All labels in order, or the largest clusters when there are too many."""
    if found.n_clusters <= MOST_CLUSTERS:
        return list(range(found.n_clusters))
    return [int(label) for label in (-found.sizes).argsort(kind="stable")[:MOST_CLUSTERS]]


def _hidden(found: Found, n_columns: int, n_columns_in_all: int) -> str:
    parts = []
    if found.n_clusters > MOST_CLUSTERS:
        parts.append(f"the {MOST_CLUSTERS} largest of {found.n_clusters} clusters")
    if n_columns < n_columns_in_all:
        parts.append(f"the first {n_columns} of {n_columns_in_all} columns")
    return f"Shown: {' and '.join(parts)}; all are in centers.csv." if parts else ""


def _facts(found: Found) -> RichTable:
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(justify="right", style="bold")
    facts.add_column()
    if found.evidence is not None:
        facts.add_row("evidence", found.evidence.describe())
    if found.penalty is None:
        facts.add_row("penalty", found.penalty_from)
        facts.add_row("objective", f"{found.objective:.6g} (squared error)")
    else:
        facts.add_row("penalty", f"{found.penalty:.6g} ({found.penalty_from})")
        facts.add_row("objective", f"{found.objective:.6g} (squared error + penalty × clusters)")
    facts.add_row(
        "passes", f"{found.n_iter}{'' if found.converged else ' (stopped before it settled)'}"
    )
    return facts


def show_communities(console: Console, found: Communities, n_edges: int) -> None:
    """Communities, sizes and conductances as a table; resolution and objective below it."""
    k, n = len(found.sizes), len(found.labels)
    title = f"{count(k, 'cluster')} in {count(n, 'node')} and {count(n_edges, 'edge')}"
    table = RichTable(title=title, title_justify="left")
    for heading in ("label", "size", "share", found.cost):
        table.add_column(heading, justify="right")
    for label in range(min(k, MOST_CLUSTERS)):
        size = found.sizes[label]
        table.add_row(str(label), f"{size:,}", f"{size / n:.1%}", f"{found.conductance[label]:.4g}")
    console.print(table)
    if k > MOST_CLUSTERS:
        console.print(
            Text(f"Shown: the first {MOST_CLUSTERS} of {k}; all are in clusters.csv.", "dim")
        )
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(justify="right", style="bold")
    facts.add_column()
    if found.path is not None:
        facts.add_row("evidence", found.path.best().describe())
    how = "given" if found.path is None else "chosen from the data"
    facts.add_row("resolution", f"{found.resolution:.6g} ({how})")
    facts.add_row("objective", f"{found.objective:.6g} ({found.cost} - resolution × clusters)")
    console.print(facts)
