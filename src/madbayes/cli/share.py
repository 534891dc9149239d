"""`madbayes groups`: from the matrix and the column of groups to clusters, shown and written."""

import csv
import math
import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from madbayes.cli.errors import UserError, did_you_mean
from madbayes.cli.fit import standardize
from madbayes.cli.formats import Frame
from madbayes.cli.show import count

MOST = 20  # clusters and groups shown


@dataclass(frozen=True)
class Options:
    """What the user asked for; `None` where nothing was said."""

    penalty_local: float | None = None
    penalty_global: float | None = None
    local_hint: int | None = None
    global_hint: int | None = None
    standardize: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Shared:
    """The answer, centres in the units of the file."""

    labels: np.ndarray
    groups: np.ndarray  # of each row
    names: np.ndarray
    centers: np.ndarray
    table: np.ndarray  # rows of each group in each cluster
    penalties: tuple[float, float]
    objective: float
    used: np.ndarray  # the values the estimator saw
    used_centers: np.ndarray
    notes: tuple[str, ...]


def check_options(options: Options) -> None:
    """Before a large file is read."""
    for kind in ("local", "global"):
        penalty = getattr(options, f"penalty_{kind}")
        if penalty is None:
            continue
        if not 0 < penalty < math.inf:
            raise UserError(
                f"--penalty-{kind} {penalty} should be a number > 0, in squared-distance units; "
                "without it, the data decide."
            )
        if (hint := getattr(options, f"{kind}_hint")) is not None:
            raise UserError(
                f"--{kind}-hint {hint} would be ignored, because --penalty-{kind} {penalty:g} "
                "already decides. Give one of them."
            )


def check_column(frame: Frame, name: str) -> None:
    """That there is such a column."""
    if name not in frame.names:
        near = did_you_mean(name, frame.names)
        listed = ", ".join(frame.names[:12]) + (", …" if len(frame.names) > 12 else "")
        raise UserError(f"--by names {name!r}, which is not a column.{near} There are: {listed}.")


def group_column(frame: Frame, name: str, rows: np.ndarray) -> np.ndarray:
    """The group of each of the rows: whole numbers as numbers, anything else as text."""
    j = frame.names.index(name)
    if isinstance(frame.columns, np.ndarray):
        values = np.asarray(frame.columns[:, j])
        missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    else:
        column = frame.columns.column(j)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        missing = column.is_null().to_numpy(zero_copy_only=False)
        plain = pa.types.is_integer(column.type) and not column.null_count
        values = (
            column.to_numpy()
            if plain
            else np.array(["" if v is None else str(v) for v in column.to_pylist()])
        )
    gone = np.flatnonzero(missing[rows])
    if gone.size:
        more = f" ({gone.size} rows are like this)" if gone.size > 1 else ""
        raise UserError(
            f"Row {rows[gone[0]] + 1} has no value in the column {name}{more}, so it is not known "
            "which group it belongs to. Fill it in, or leave the row out of the file."
        )
    return values[rows]


def fit(values: np.ndarray, groups: np.ndarray, options: Options) -> Shared:
    """Standardize if asked, fit, and translate the centres back."""
    from madbayes import HardHDP  # here, so that --help need not wait for the kernels

    used, mean, scale = standardize(values) if options.standardize else (values, 0.0, 1.0)
    model = HardHDP(
        options.penalty_local or "auto",
        options.penalty_global or "auto",
        n_local_hint=options.local_hint,
        n_global_hint=options.global_hint,
        random_state=options.seed,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(used, groups=groups)
        except ValueError as error:
            raise UserError(_in_options(str(error))) from error
    centers = np.asarray(model.cluster_centers_, dtype=np.float64)
    code = np.searchsorted(model.groups_, groups)
    table = np.zeros((len(model.groups_), len(centers)), dtype=np.int64)
    np.add.at(table, (code, model.labels_), 1)
    return Shared(
        labels=model.labels_,
        groups=groups,
        names=model.groups_,
        centers=centers * scale + mean,
        table=table,
        penalties=(model.penalty_local_, model.penalty_global_),
        objective=model.objective_,
        used=used,
        used_centers=centers,
        notes=tuple(dict.fromkeys(str(w.message) for w in caught)),
    )


def _in_options(message: str) -> str:
    """The library's message, with its parameters called as the command calls them."""
    pattern = re.compile(r"\b(?:n_(local|global)_hint|n_(local|global))=")
    return pattern.sub(lambda match: f"--{match[1] or match[2]}-hint ", message)


def show(console: Console, found: Shared, columns: tuple[str, ...], by: str) -> None:
    """Clusters with their centres, and what was decided."""
    n_clusters = len(found.centers)
    title = (
        f"{count(n_clusters, 'cluster')} shared by {count(len(found.names), 'group')} "
        f"in {count(len(found.labels), 'row')}"
    )
    shown = columns
    while (
        len(shown) > 1 and console.measure(_clusters(found, shown, title)).maximum > console.width
    ):
        shown = shown[:-1]
    console.print(_clusters(found, shown, title))
    if n_clusters > MOST or len(shown) < len(columns):
        console.print(
            Text("Some clusters or columns are not shown; all are in centers.csv.", "dim")
        )
    uses = (found.table > 0).sum(axis=1)
    facts = RichTable.grid(padding=(0, 2))
    facts.add_column(justify="right", style="bold")
    facts.add_column()
    each = f"{uses.min()}" if uses.min() == uses.max() else f"{uses.min()} to {uses.max()}"
    facts.add_row(by, f"uses {each} of the clusters, {uses.mean():.3g} on average")
    facts.add_row("penalties", "local {:.6g}, global {:.6g}".format(*found.penalties))
    facts.add_row("objective", f"{found.objective:.6g} (squared error + penalties)")
    console.print(facts)


def _clusters(found: Shared, columns: tuple[str, ...], title: str) -> RichTable:
    table = RichTable(title=title, title_justify="left")
    for heading in ("label", "size", "groups", *columns):
        table.add_column(Text(heading), justify="right")
    sizes, used_by = found.table.sum(axis=0), (found.table > 0).sum(axis=0)
    for p in range(min(len(sizes), MOST)):
        center = (f"{value:.4g}" for value in found.centers[p][: len(columns)])
        table.add_row(str(p), f"{sizes[p]:,}", f"{used_by[p]:,}", *center)
    return table


def write_groups(path: Path, found: Shared, by: str) -> None:
    """One line for each group: its rows, its clusters, and how many rows are in which."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow([by, "size", "clusters", *range(len(found.centers))])
        for name, line in zip(found.names.tolist(), found.table.tolist(), strict=True):
            out.writerow([name, sum(line), sum(cell > 0 for cell in line), *line])


def draw(
    folder: Path, found: Shared, values: np.ndarray, columns: tuple[str, ...], title: str
) -> list[str]:
    """The names of the pictures; none when matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        return []
    from madbayes.plots import group_usage, groups

    as_in_file = values.shape[1] <= 2  # principal components are of what was clustered
    figure = groups(
        values if as_in_file else found.used,
        found.labels,
        found.groups,
        found.centers if as_in_file else found.used_centers,
        feature_names=columns,
        title=title,
    )
    figure.savefig(folder / "groups.png", dpi=130)
    wide, high = 2.2 + 0.34 * min(len(found.centers), 40), 1.4 + 0.2 * min(len(found.names), 60)
    figure = Figure(figsize=(max(wide, 5), max(high, 3)), layout="constrained")
    group_usage(found.labels, found.groups, title=title, ax=figure.add_subplot())
    figure.savefig(folder / "usage.png", dpi=130)
    return ["groups.png", "usage.png"]
