"""`madbayes.explore`: the clusters of a table as people have it, in one call."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from madbayes._rows.checks import check_choice
from madbayes.auto.auto_cluster import SHAPES, AutoCluster
from madbayes.tables.convert import as_frame, container, like
from madbayes.tables.formats import read
from madbayes.tables.frame import Frame
from madbayes.tables.pipeline import InUnits, TablePipeline
from madbayes.tables.prepare import TableRows, prepare
from madbayes.tables.profile import centers, profile


@dataclass
class Exploration:
    """What `explore` found. See there."""

    model: TablePipeline
    labels: Any
    notes: list[str]
    table: TableRows = field(repr=False)
    title: str = "madbayes"
    container: str = "dict"  # the sort of table that `centers` and `profile` are

    @property
    def n_clusters(self) -> int:
        return int(self.model.n_clusters_)

    @property
    def sizes(self) -> list[int]:
        return np.bincount(self._found[self._found >= 0], minlength=self.n_clusters).tolist()

    @property
    def evidence(self) -> Any:
        return getattr(self.model, "evidence_", None)

    @property
    def _found(self) -> np.ndarray:
        """The labels of the rows that were clustered."""
        return np.asarray(self.model.labels_)

    @cached_property
    def centers(self) -> Any:
        """Typical cells of each cluster, in the units of the table."""
        encoder, frame = self.table.encoder, self.table.frame
        rules, labels = encoder.rules_for(frame), np.asarray(self.labels)
        typical = centers(encoder.used_columns_, frame, rules, labels, self.n_clusters)
        return like(self.container, typical)

    @cached_property
    def profile(self) -> Any:
        """What sets each cluster apart from the other rows."""
        units, shown = self.table.units, InUnits(self.model)
        names, scaled = shown.feature_names_in_, shown.scaled(units)
        return like(self.container, profile(names, units, scaled, self._found, self.n_clusters))

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write an HTML file about the clusters, for people who do not have Python.

        `options` are those of `madbayes.report`: `title`, `ids`, `id_name`.
        """
        from madbayes.reports import report

        known = {"title": self.title, "notes": self.notes, "left_out": self.table.left_out}
        if len(self.table.rows) < self.table.frame.n_rows:
            known["ids"] = (self.table.rows + 1).tolist()
        report(InUnits(self.model), self.table.units, path, **(known | options))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `model` to a file: `madbayes.load(path).predict(table)` knows new rows."""
        self.model.save(path)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        found = "1 cluster" if self.n_clusters == 1 else f"{self.n_clusters} clusters"
        sizes = ", ".join(f"{size:,}" for size in self.sizes[:8])
        more = ", …" if len(self.sizes) > 8 else ""
        lines = [f"{found} in {len(self.table.rows):,} rows (sizes {sizes}{more})"]
        if self.evidence is not None:
            lines.append(self.evidence.describe())
        return lines + [f"Note: {note}" for note in self.notes]

    def _repr_html_(self) -> str:
        first, *rest = self._lines()
        items = "".join(f"<li>{escape(line.removeprefix('Note: '))}</li>" for line in rest)
        table = self.centers._repr_html_() if hasattr(self.centers, "_repr_html_") else ""
        return f"<div><b>{escape(first)}</b><ul>{items}</ul>{table}</div>"


def explore(
    table: Any,
    *,
    kinds: Mapping[str, str] | None = None,
    shape: str = "auto",
    estimator: Any = None,
    scale: str = "auto",
    missing: str = "observed",
    na: Sequence[str] = (),
    random_state: Any = 0,
    **reading: Any,
) -> Exploration:
    """Find the clusters of a table, whatever its columns hold.

    Parameters
    ----------
    table : pandas or polars data frame, Arrow table, dict of columns, 2-d array, or path
        A path is read as the command line reads files: CSV, Parquet, Excel, JSON lines, NumPy.
    kinds : dict, optional
        What columns hold, where the rules should not decide; see `TableEncoder`.
    shape : {"auto", "round", "long", "any"}, default="auto"
        The shape of the clusters; see `AutoCluster`.
    estimator : estimator, optional
        Used instead of the one that suits the table and `shape`. It gets numbers in all cells; with
        a parameter `missing` it gets gaps. A `DPMeans` that finds its own penalty gets categories
        and counts with the divergence for them.
    scale : {"auto", "yes", "no"}, default="auto"
        Whether numeric columns get mean 0 and variance 1; see `TableEncoder`.
    missing : {"observed", "mean", "drop", "error"}, default="observed"
        Missing cells: use the cells that are there, fill in the mean of the column, leave the rows
        out (their label is -1), or raise an error. Where a method needs all cells, or few are
        missing, "observed" fills in means, and a note says so.
    na : sequence of str, optional
        Further cells that stand for a missing value.
    random_state : int, RandomState or None, default=0
    **reading
        For files: ``sheet`` (the name of an Excel sheet), ``skip_rows`` (lines above the header).

    Returns
    -------
    Exploration
        With ``n_clusters``; ``labels`` (a pandas Series with the index of the table where that is
        a data frame of pandas, else an array); ``sizes``; ``evidence`` (how sure the number is);
        ``notes``; ``centers`` (typical cells, in the units of the table); ``profile`` (what sets
        each cluster apart); ``model`` (a scikit-learn pipeline that predicts on such tables);
        ``report(path)`` and ``save(path)``.

    Examples
    --------
    >>> import madbayes
    >>> rows = range(60)
    >>> table = {
    ...     "customer": [f"c{i:03}" for i in rows],
    ...     "weight": [10.0 + 50.0 * (i % 2) + i % 7 for i in rows],
    ...     "length": [31.5 + 20.0 * (i % 2) + i % 5 for i in rows],
    ... }
    >>> found = madbayes.explore(table)
    >>> found.n_clusters
    2
    >>> found.notes[0]
    'left out customer: it holds text, different in almost every row'
    """
    check_choice("shape", shape, "auto", *SHAPES)
    check_choice("missing", missing, "observed", "mean", "drop", "error")
    if estimator is not None:
        estimator = clone(estimator)
    elif shape == "auto":
        estimator = AutoCluster(random_state=random_state)
    else:
        estimator = SHAPES[shape](random_state=random_state)
    frame, kind, title = _opened(table, reading)
    options: dict[str, Any] = {"kinds": kinds, "na": na, "scale": scale, "missing": missing}
    found = fit_table(prepare(frame, estimator, **options))
    found.title, found.container = title, kind
    if kind == "pandas":
        import pandas as pd

        index = table.index if isinstance(table, pd.DataFrame) else None
        found.labels = pd.Series(found.labels, index=index, name="cluster")
    return found


def fit_table(table: TableRows, **fit: Any) -> Exploration:
    """Fit the estimator of a table: the second half of `explore`; `fit` are further arguments."""
    estimator = table.estimator
    notes = [*table.notes, *fit_with_notes(estimator, table.X, **fit)]
    labels = np.full(table.frame.n_rows, -1, dtype=np.int64)
    labels[table.rows] = getattr(estimator, "labels_", -1)  # features have none
    model = TablePipeline([("table", table.encoder), ("clusters", estimator)])
    return Exploration(model, labels, list(dict.fromkeys(notes)), table)


def fit_with_notes(estimator: Any, X: Any, **fit: Any) -> list[str]:
    """Fit; what the library warned of, and which shape was chosen."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, **fit)
    silent = (DeprecationWarning, RuntimeWarning)
    notes = [str(w.message) for w in caught if not issubclass(w.category, silent)]
    shape = getattr(estimator, "shape_", "round")
    if shape != "round" and estimator.n_clusters_ > 1:
        kind = {"long": "long", "any": "connected, of any shape"}[shape]
        others = [c for c in estimator.candidates_ if c.shape != shape and c.n_clusters]
        said = ", ".join(f"{c.n_clusters} if {c.shape}" for c in others)
        would = f"; there would be {said}" if said else ""
        notes.append(f"the clusters are {kind} (shape={shape!r}), as the data support best{would}")
    return notes


def _opened(table: Any, reading: dict[str, Any]) -> tuple[Frame, str, str]:
    """The table as a frame, the sort of table that results are given in, and its title."""
    if isinstance(table, str | os.PathLike):
        path = Path(table)
        return as_frame(read(path, **reading)), "pandas" if _has_pandas() else "dict", path.name
    if reading:
        raise TypeError(f"explore() got {', '.join(reading)}, which are for files only.")
    kind = container(table)
    return as_frame(table), "dict" if kind in ("array", "records") else kind, "madbayes"


def _has_pandas() -> bool:
    from importlib.util import find_spec

    return find_spec("pandas") is not None
