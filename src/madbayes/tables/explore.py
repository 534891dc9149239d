"""`madbayes.explore`: the clusters of a table as people have it, in one call."""

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from madbayes.tables.convert import as_frame, container, like
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError
from madbayes.tables.formats import read
from madbayes.tables.frame import Frame
from madbayes.tables.pipeline import InUnits, TablePipeline
from madbayes.tables.profile import centers, profile

FEW_GAPS = 0.03  # missing cells for each row; so few that where they are filled in hardly matters
FILLED = "missing cells were filled in with the mean of their column"


@dataclass
class Exploration:
    """What `explore` found. See there."""

    model: TablePipeline
    labels: Any
    n_clusters: int
    sizes: list[int]
    evidence: Any
    notes: list[str]
    centers: Any
    profile: Any
    frame: Frame = field(repr=False)
    title: str = "madbayes"

    def report(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write an HTML file about the clusters, for people who do not have Python.

        `options` are those of `madbayes.report`: `title`, `ids`, `id_name`.
        """
        from madbayes.reports import report

        shown = InUnits(self.model)
        options = {"title": self.title, **options}
        left_out = {c.name: c.why for c in self.model.encoder.columns_ if not c.used}
        report(
            shown, shown.values(self.frame), path, notes=self.notes, left_out=left_out, **options
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `model` to a file: `madbayes.load(path).predict(table)` knows new rows."""
        self.model.save(path)

    def __repr__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        found = "1 cluster" if self.n_clusters == 1 else f"{self.n_clusters} clusters"
        sizes = ", ".join(f"{size:,}" for size in self.sizes[:8])
        more = ", …" if len(self.sizes) > 8 else ""
        lines = [f"{found} in {self.frame.n_rows:,} rows (sizes {sizes}{more})"]
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
    estimator: Any = None,
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
    estimator : estimator, optional
        Used on the numeric table (``TableEncoder(output="numeric", missing="mean")``) instead of
        the one that suits the table.
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
    >>> found.notes
    ['left out customer: it holds text, different in almost every row']
    """
    frame, kind, title = _opened(table, reading)
    encoder = TableEncoder(kinds, na=tuple(na))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        encoder.fit(frame)
        if estimator is None:
            encoder, estimator = choose_estimator(encoder, frame, random_state)
        else:
            encoder = TableEncoder(kinds, na=tuple(na), missing="mean")
        model = TablePipeline([("table", encoder), ("clusters", estimator)])
        model.fit(frame)
    silent = (DeprecationWarning, RuntimeWarning)
    said = [str(w.message) for w in caught if not issubclass(w.category, silent)]
    filled = encoder.missing == "mean" and any(c.n_missing for c in encoder.used_columns_)
    notes = list(dict.fromkeys([*encoder.notes_, *[FILLED] * filled, *said]))
    labels = np.asarray(estimator.labels_)
    k = int(estimator.n_clusters_)
    rules = encoder.rules_for(frame)
    shown = InUnits(model)
    units = shown.values(frame)
    apart = profile(shown.feature_names_in_, units, shown.scaled(units), labels, k)
    typical = centers(encoder.used_columns_, frame, rules, labels, k)
    return Exploration(
        model,
        _labels(kind, table, labels),
        k,
        np.bincount(labels[labels >= 0], minlength=k).tolist(),
        getattr(estimator, "evidence_", None),
        notes,
        like(kind, typical),
        like(kind, apart),
        frame,
        title,
    )


def choose_estimator(
    encoder: TableEncoder, frame: Frame, random_state: Any
) -> tuple[TableEncoder, Any]:
    """An encoder and an estimator that suit the table that `encoder` was fitted on.

    Numbers: `AutoCluster`, which needs all cells: up to FEW_GAPS for each row are filled in. Where
    more are missing, `DPMeans` over the cells that are there. Counts: `DPMeans` with the divergence
    for counts. Anything else: the mixed divergence.
    """
    import madbayes

    options: dict[str, Any] = {"kinds": encoder.kinds, "na": encoder.na}
    advice = encoder.recommendation_
    gaps = sum(column.n_missing for column in encoder.used_columns_)
    mixed = advice.output == "mixed"
    if not mixed and gaps <= FEW_GAPS * frame.n_rows:
        options["missing"] = "mean"  # also for rows that come later
        return TableEncoder(**options), madbayes.AutoCluster(random_state=random_state)
    how = divergence_options(encoder, mixed=mixed, gaps=bool(gaps))
    encoder = TableEncoder(**options, output="mixed" if mixed else "numeric")
    return encoder, madbayes.DPMeans(random_state=random_state, **how)


def divergence_options(encoder: TableEncoder, *, mixed: bool, gaps: bool) -> dict[str, Any]:
    """The parameters of `DPMeans` for the rows of a fitted encoder."""
    found: dict[str, Any] = {"missing": "observed"} if gaps else {}
    if mixed:
        found["divergence"] = encoder.recommendation_.divergence
        if found["divergence"] == "mixed":  # by position, because the output is an array
            found["columns"] = dict(enumerate(encoder.divergence_columns_.values()))
    return found


def _opened(table: Any, reading: dict[str, Any]) -> tuple[Frame, str, str]:
    """The table as a frame, the sort of table that results are given in, and its title."""
    if isinstance(table, str | os.PathLike):
        path = Path(table)
        try:
            frame = as_frame(read(path, **reading))
        except UserError as error:
            raise ValueError(str(error)) from None
        return frame, "pandas" if _has_pandas() else "dict", path.name
    if reading:
        raise TypeError(f"explore() got {', '.join(reading)}, which are for files only.")
    kind = container(table)
    return as_frame(table), "dict" if kind in ("array", "records") else kind, "madbayes"


def _has_pandas() -> bool:
    from importlib.util import find_spec

    return find_spec("pandas") is not None


def _labels(kind: str, table: Any, labels: np.ndarray) -> Any:
    if kind != "pandas":
        return labels
    import pandas as pd

    index = table.index if isinstance(table, pd.DataFrame) else None
    return pd.Series(labels, index=index, name="cluster")
