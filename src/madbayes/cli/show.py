"""What was found, for a person to read in a terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from madbayes.cli.results import Answer
from madbayes.tables.errors import harmless

MOST_COLUMNS = 6
MOST_CLUSTERS = 20


def count(n: int, what: str) -> str:
    """'1 row', '1,200 rows', '2 communities'."""
    plural = what[:-1] + "ies" if what.endswith("y") else what + "s"
    return f"{n:,} {what if n == 1 else plural}"


def show(console: Console, answer: Answer, title: str, with_path: bool = False) -> None:
    """Clusters, sizes and centres as a table; penalty and objective below it."""
    columns = (answer.telling or list(range(len(answer.names))))[:MOST_COLUMNS]
    while len(columns) > 1 and not _fits(console, _clusters(answer, title, columns)):
        columns.pop()
    console.print(_clusters(answer, title, columns))
    if hidden := _hidden(answer, len(columns)):
        console.print(Text(hidden, style="dim"))
    console.print(_facts(answer))
    if answer.standardized and answer.names:
        what = "Features" if answer.of == "feature" else "Centres"
        console.print(
            Text(f"{what} are in the units of the file, the rest in standardized units.", "dim")
        )
    if with_path:
        console.print(_path(answer.path))


def _fits(console: Console, table: RichTable) -> bool:
    return console.measure(table).maximum < console.width


def _clusters(answer: Answer, title: str, columns: list[int]) -> RichTable:
    """The `columns` that tell the clusters apart, in the order of the file."""
    columns = sorted(columns)
    names = [answer.names[j] for j in columns]
    table = RichTable(title=Text(harmless(title)), title_justify="left")
    for heading in ("label", "size", "share", *answer.per_cluster, *names):
        table.add_column(Text(harmless(heading)), justify="right")
    total = answer.sizes.sum() if answer.labels is None else len(answer.labels)
    for label in _shown(answer):
        size = int(answer.sizes[label])
        center = [] if answer.centers is None else answer.centers[label][columns]
        further = (_short(values[label]) for values in answer.per_cluster.values())
        share = f"{size / max(total, 1):.1%}"
        table.add_row(str(label), f"{size:,}", share, *further, *map(_short, center))
    return table


def _short(value: Any) -> str:
    """Three digits, as many as a reader compares; numbers from 1,000 on without decimals."""
    if isinstance(value, int) or 1000 <= abs(value) < 1e7:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _shown(answer: Answer) -> list[int]:
    """All labels in order, or the largest clusters when there are too many."""
    if answer.number <= MOST_CLUSTERS:
        return list(range(answer.number))
    return [int(label) for label in (-answer.sizes).argsort(kind="stable")[:MOST_CLUSTERS]]


def _hidden(answer: Answer, n_columns: int) -> str:
    parts = []
    if answer.number > MOST_CLUSTERS:
        what = count(2, answer.of)[2:]
        parts.append(f"the {MOST_CLUSTERS} largest of {answer.number} {what}")
    if n_columns < len(answer.names):
        parts.append(f"the {n_columns} of {len(answer.names)} columns that tell them apart best")
    file = "clusters.csv" if answer.centers is None else "centers.csv"
    return f"Shown: {' and '.join(parts)}; all are in {file}." if parts else ""


def _facts(answer: Answer) -> RichTable:
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(justify="right", style="bold")
    facts.add_column()
    if answer.evidence is not None:
        facts.add_row("evidence", Text(answer.evidence.describe()))
    if answer.penalty is None and answer.penalty_from:
        facts.add_row(answer.penalty_name, answer.penalty_from)
    elif answer.penalty is not None:
        facts.add_row(answer.penalty_name, f"{answer.penalty:.6g} ({answer.penalty_from})")
    facts.add_row("objective", f"{answer.objective:.6g} ({answer.objective_is})")
    for name, text in answer.facts.items():
        facts.add_row(harmless(name), Text(harmless(text)))
    return facts


def _path(path: Any) -> RichTable:
    """The staircase, one line for each step."""
    table = RichTable(title="the path", title_justify="left")
    for heading in (path.of + "s", "penalty from", "to", "objective", "score"):
        table.add_column(heading, justify="right")
    best = path.step_of(path.best().number)
    for i, k in enumerate(path.number[:MOST_CLUSTERS].tolist()):
        score = f"{path.scores[k]:.3g}" if k in path.scores else ""
        prices = f"{path.price_low[i]:.4g}", f"{path.price_high[i]:.4g}"
        style = "bold" if i == best else ""
        table.add_row(str(k), *prices, f"{path.objective[i]:.6g}", score, style=style)
    return table
