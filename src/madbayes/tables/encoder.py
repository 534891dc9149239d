"""`TableEncoder`: a table as people have it into numbers, with notes on what was done and why."""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from madbayes._rows.checks import check_choice
from madbayes._storage.saving import SaveMixin
from madbayes.tables.cells import TableColumn, TextRules, read_cells
from madbayes.tables.convert import as_frame, container, like
from madbayes.tables.errors import did_you_mean
from madbayes.tables.frame import Frame
from madbayes.tables.kinds import LEFT_OUT, USED, judge
from madbayes.tables.logscale import back_in_units, transformed
from madbayes.tables.notes import about_columns, about_gaps, listing, most_left_out
from madbayes.tables.recommend import MANY_COUNTS, NEARLY_ALL, recommend
from madbayes.tables.scaling import blocks, drowned, has_gaps, unit_scales, why_scale

WIDE, DECIDING = 200, 50  # columns from which on so many decide about logarithms


class TableEncoder(SaveMixin, TransformerMixin, BaseEstimator):
    """Turn a table with columns of all kinds into numbers.

    Decides for each column what it holds (a number, a count, a category, a date, an identifier, …),
    uses what measures something, leaves out what does not, and says so. The guide
    (docs/guide/tables.md) states every rule.

    Parameters
    ----------
    kinds : dict, optional
        What columns hold, by name, where the rules should not decide: "number", "count", "share",
        "log", "positive", "ordered", "yes/no", "category", "coordinate" or "vector"; "use" for a
        column to use as whatever it holds; "drop" (or "date", "identifier", "code", "class",
        "text", "constant", "empty", "nested") for a column to leave out.
    output : {"numeric", "mixed"}, default="numeric"
        "numeric": all columns as numbers on a comparable scale, a category as one column of 0 and
        1 for each of its values; for estimators that measure Euclidean distances. "mixed": one
        column for each column of the table, categories as codes; for
        ``DPMeans(divergence="mixed", columns=encoder.divergence_columns_)``. Missing cells are NaN
        in both, unless ``missing="mean"``.
    missing : {"keep", "mean"}, default="keep"
        "mean" puts the mean of the column into missing cells, for estimators that take no NaN.
        Only for ``output="numeric"``.
    scale : {"auto", "yes", "no"}, default="auto"
        Whether numeric columns get mean 0 and variance 1. "auto": where the columns are of
        different units. Only for ``output="numeric"``.
    na : sequence of str, optional
        Further cells that stand for a missing value, for example ``("-", "unknown")``.

    Attributes
    ----------
    columns_ : list of TableColumn
        For each column of the table: ``name``, ``kind``, ``used``, what was ``done``, ``why``,
        ``n_missing``, ``missing_codes``, ``categories``. ``pandas.DataFrame(encoder.columns_)``
        shows them as a table.
    notes_ : list of str
        What a reader of the results should know, in sentences.
    recommendation_ : Recommendation
        Which ``output`` and ``divergence`` suit the table, and ``why``.
    divergence_columns_ : dict
        The family of each column of ``output="mixed"``: "squared", "poisson", "bernoulli",
        "categorical" or "gamma".
    categories_ : dict
        The values of each column of categories; code i stands for value i.
    mean_, scale_ : ndarray or None
        What the columns of ``output="numeric"`` were shifted and divided by; None where they keep
        their units.
    feature_names_in_, n_features_in_

    Examples
    --------
    >>> import madbayes
    >>> table = {
    ...     "customer_id": [7, 8, 12, 40],
    ...     "plan": ["basic", "plus", "basic", "basic"],
    ...     "minutes": [12.5, 310.0, None, 15.25],
    ... }
    >>> encoder = madbayes.TableEncoder().fit(table)
    >>> [(column.name, column.kind) for column in encoder.columns_]
    [('customer_id', 'identifier'), ('plan', 'category'), ('minutes', 'number')]
    >>> encoder.get_feature_names_out()
    array(['plan=basic', 'plan=plus', 'minutes'], dtype=object)
    """

    def __init__(
        self,
        kinds: Mapping[str, str] | None = None,
        *,
        output: str = "numeric",
        missing: str = "keep",
        scale: str = "auto",
        na: Sequence[str] = (),
    ) -> None:
        self.kinds = kinds
        self.output = output
        self.missing = missing
        self.scale = scale
        self.na = na

    def fit(self, X: Any, y: Any = None) -> Self:
        """Decide what each column of the table holds.

        Parameters
        ----------
        X : pandas or polars data frame, Arrow table, dict of columns, list of records or 2-d array
        y : ignored
        """
        self.learn(X)
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit`, then `transform` of the same table, which is read once."""
        frame, values = self.learn(X)
        if self.output == "mixed":
            return self.encode(frame)
        own = values is not frame.columns
        return self.filled(self.scaled(values, own=own), own=own)

    def transform(self, X: Any) -> np.ndarray:
        """The table as numbers, as it was decided in `fit`; NaN for missing and unknown cells."""
        check_is_fitted(self, "columns_")
        return self.encode(self.fitting_frame(X))

    def learn(
        self, X: Any, allocate: Callable[..., np.ndarray] = np.empty
    ) -> tuple[Frame, np.ndarray]:
        """`fit`; returns the table as a frame, and its rows in units, categories as 0 and 1."""
        check_choice("output", self.output, "numeric", "mixed")
        check_choice("missing", self.missing, "keep", "mean")
        check_choice("scale", self.scale, "auto", "yes", "no")
        if self.output == "mixed" and self.missing == "mean":
            raise ValueError("missing='mean' is for output='numeric': a category has no mean.")
        frame = as_frame(X)
        if frame.n_rows < 1:
            raise ValueError("0 sample(s): the table has no rows (a minimum of 1 is required).")
        self.__dict__.pop("feature_names_in_", None)
        self.container_ = "dict" if isinstance(X, Frame) else container(X)
        self.comma_ = frame.comma
        self.matrix_ = isinstance(frame.columns, np.ndarray)
        self.n_features_in_ = len(frame.names)
        if not self.matrix_:
            self.feature_names_in_ = np.array(frame.names, dtype=object)
        self.columns_ = self._judge(frame)
        used = [column for column in self.columns_ if column.used]
        if not used:
            reasons = "; ".join(f"{c.name}: {c.why}" for c in self.columns_[:8])
            raise ValueError(f"There is no column to use ({reasons}). kinds={{…}} decides.")
        self.notes_ = [*frame.notes, *about_columns(self.columns_), *about_gaps(self, frame)]
        values = self.encode(frame, units=True, output="numeric", allocate=allocate)
        self._find_scale(values, allocate)
        self.recommendation_ = recommend(self.used_columns_, values, self.names_out("numeric"))
        if warning := most_left_out(self.columns_):
            self.notes_.insert(0, warning)
            warnings.warn(warning, UserWarning, stacklevel=3)
        return frame, values

    def _judge(self, frame: Frame) -> list[TableColumn]:
        wanted = dict(self.kinds or {})
        for name, kind in wanted.items():
            if name not in frame.names:
                near = did_you_mean(str(name), frame.names)
                raise ValueError(f"kinds names {name!r}, which is not a column.{near}")
            if kind not in USED + LEFT_OUT:
                known = ", ".join(map(repr, USED + LEFT_OUT))
                raise ValueError(f"kinds={{{name!r}: {kind!r}}}: a kind is one of {known}.")
        if isinstance(frame.columns, np.ndarray):
            return _judge_matrix(frame, wanted)
        rules = self.rules_for(frame)

        def look(j: int, rules: TextRules) -> TableColumn:
            name, typed = frame.names[j], pa.types.is_dictionary(frame.type(j))
            return judge(name, frame.column(j), rules, wanted.get(name), typed)

        every = range(len(frame.names))
        if (
            len(every) > WIDE
        ):  # columns of one sort: some decide for all whether logarithms are taken
            some = [look(int(j), rules) for j in np.linspace(0, len(every) - 1, DECIDING)]
            measured = [column for column in some if column.kind in ("number", "share", "log")]
            logs = sum(column.kind == "log" for column in measured)
            rules = replace(rules, logs=2 * logs > len(measured))
        found = [look(j, rules) for j in every]
        found = _count_block(
            found, lambda j: judge(frame.names[j], frame.column(j), rules, "count")
        )
        if not any(column.used for column in found):
            # A lone column of 1, 2, 3 is the data, and so are numbers that are all the same.
            for j, column in enumerate(found):
                alone = column.why.startswith(("it only counts", "it numbers", "all cells are "))
                if alone and column.why != "all cells are the same":
                    found[j] = judge(frame.names[j], frame.column(j), rules, "number")
        return found

    def rules_for(self, frame: Frame) -> TextRules:
        """How the cells of a frame are read."""
        return TextRules(tuple(self.na), self.comma_, tuple(frame.names))

    @property
    def used_columns_(self) -> list[TableColumn]:
        """Those of `columns_` that are used."""
        return [column for column in self.columns_ if column.used]

    @property
    def categories_(self) -> dict[str, tuple[str, ...]]:
        """The values of each column of categories, in the order of their codes."""
        used = [c for c in self.used_columns_ if c.kind == "category"]
        return {c.name: c.categories for c in used if c.categories is not None}

    @property
    def divergence_columns_(self) -> dict[str, str]:
        """The family of each column of `output="mixed"`."""
        return {n: c.family for c in self.used_columns_ for n in _names(c, "mixed")}

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` returns: a category gives ``plan=basic``."""
        check_is_fitted(self, "columns_")
        return self.names_out(self.output)

    def names_of(self, column: TableColumn) -> tuple[str, ...]:
        """The columns of "numeric" output that one column of the table gives."""
        return _names(column, "numeric")

    def names_out(self, output: str) -> np.ndarray:
        """Names of the columns of "numeric" or "mixed" output."""
        names = [n for c in self.used_columns_ for n in _names(c, output)]
        return np.array(names, dtype=object)

    def fitting_frame(self, X: Any) -> Frame:
        """X as a `Frame` that has all columns of the fit, in any order."""
        frame = self._named(as_frame(X))
        if isinstance(frame.columns, np.ndarray) and len(frame.names) != self.n_features_in_:
            raise ValueError(
                f"X has {len(frame.names)} features, but TableEncoder is expecting "
                f"{self.n_features_in_} features as input."
            )
        for column in self.used_columns_:
            if column.name not in frame.names and not isinstance(frame.columns, np.ndarray):
                near = did_you_mean(column.name, frame.names)
                raise ValueError(
                    f"the model needs the column {column.name!r}, which the table does not "
                    f"have.{near} Its columns are: {listing(frame.names)}."
                )
        return frame

    def _named(self, frame: Frame) -> Frame:
        """A matrix, or a file without names, with the names of the columns of the fit."""
        known = [str(c.name) for c in self.columns_]
        used = [str(c.name) for c in self.used_columns_]
        plain = all(re.fullmatch(r"x\d+", name) for name in frame.names)
        if self.matrix_ or not plain or set(used) <= set(frame.names):
            return frame
        names = known if len(frame.names) == len(known) else used
        if len(frame.names) != len(names):
            return frame
        columns = [frame.column(j) for j in range(len(names))]
        return Frame(tuple(names), pa.table(columns, names), frame.notes, frame.sheet_row)

    @classmethod
    def of_columns(
        cls, columns: list[TableColumn], mean: Any, scale: Any, fill: np.ndarray
    ) -> "TableEncoder":
        """An encoder as if fitted on columns that are known already."""
        encoder = cls(missing="mean")
        encoder.columns_, encoder.notes_ = columns, []
        encoder.mean_, encoder.scale_, encoder.fill_ = mean, scale, fill
        encoder.comma_ = encoder.matrix_ = False
        encoder.container_, encoder.n_features_in_ = "dict", len(columns)
        return encoder

    def encode(
        self,
        frame: Frame,
        *,
        units: bool = False,
        output: str | None = None,
        allocate: Callable[..., np.ndarray] = np.empty,
    ) -> np.ndarray:
        """The matrix of a frame; `units`: before logarithms, scaling and filling of gaps."""
        output = output or self.output
        if isinstance(frame.columns, np.ndarray):
            values = self._from_matrix(frame)
        else:
            width = len(self.names_out(output))
            values = allocate((frame.n_rows, width), np.dtype(np.float64))
            rules, place = self.rules_for(frame), 0
            for column in self.used_columns_:
                cells = read_cells(column, frame.column(frame.names.index(column.name)), rules)
                names = _names(column, output)
                if column.kind == "category" and output == "numeric":
                    cells = _one_hot(cells, len(names))
                if column.transform and not units and output == "mixed":
                    cells = transformed(cells, column.transform)
                values[:, place : place + len(names)] = cells.reshape(len(cells), len(names))
                place += len(names)
        if units or output == "mixed":
            return values
        own = values is not frame.columns
        return self.filled(self.scaled(values, own=own), own=own)

    def scaled(
        self,
        values: np.ndarray,
        *,
        own: bool = False,
        allocate: Callable[..., np.ndarray] = np.empty,
    ) -> np.ndarray:
        """Transforms and scaling for rows in units (output "numeric"); in place if `own`."""
        transforms = self._transforms()
        if not transforms and (self.mean_ is None or self.scale_ is None):
            return values
        dtype = values.dtype if values.dtype.kind == "f" else np.dtype(np.float64)
        out = values if own else allocate(values.shape, dtype)
        for rows in blocks(values):
            part = np.array(values[rows], dtype=dtype)
            for j, transform in transforms.items():
                part[:, j] = transformed(part[:, j], transform)
            if self.mean_ is not None and self.scale_ is not None:
                part = (part - self.mean_) / self.scale_
            out[rows] = part
        return out

    def filled(self, values: np.ndarray, *, own: bool = False) -> np.ndarray:
        """With `missing="mean"`: means in place of NaN."""
        if self.missing != "mean" or not has_gaps(values):
            return values
        out = values if own else values.copy()
        for rows in blocks(values):
            out[rows] = np.where(np.isnan(values[rows]), self.fill_, values[rows])
        return out

    def in_units(self, Z: Any) -> np.ndarray:
        """Rows of output "numeric" (centres, for example) back in units; categories as shares."""
        Z = np.array(Z, dtype=np.float64)
        if self.mean_ is not None and self.scale_ is not None:
            Z = Z * self.scale_ + self.mean_
        for j, transform in self._transforms().items():
            Z[:, j] = back_in_units(Z[:, j], transform)
        return Z

    def _transforms(self) -> dict[int, str]:
        """The columns of output "numeric" that are logarithms or square roots."""
        parts = [column for column in self.used_columns_ for _ in _names(column, "numeric")]
        return {j: column.transform for j, column in enumerate(parts) if column.transform}

    def _from_matrix(self, frame: Frame) -> np.ndarray:
        array = _array(frame)
        keep = [j for j, column in enumerate(self.columns_) if column.used]
        array = array if len(keep) == array.shape[1] else array[:, keep]
        if array.dtype not in (np.float32, np.float64):
            return array.astype(np.float64)
        if all(np.isfinite(array[rows]).all() for rows in blocks(array)):
            return array
        return np.where(np.isfinite(array), array, array.dtype.type(np.nan))

    def _find_scale(self, values: np.ndarray, allocate: Callable[..., np.ndarray]) -> None:
        """Means and scales, where the columns are of different units; notes say so."""
        self.mean_ = self.scale_ = None
        scaled = self.scaled(values, allocate=allocate)
        mean, scale, spread = unit_scales(self.used_columns_, scaled)
        self.fill_ = mean
        why = why_scale(self.used_columns_, spread, not self.matrix_)
        if self.scale == "yes" or (self.scale == "auto" and why):
            self.mean_, self.scale_, self.fill_ = mean, scale, np.zeros_like(mean)
        if self.output == "numeric" and self.scale == "auto" and why:
            self.notes_.append(why)
        elif self.output == "numeric" and self.scale_ is None and (note := drowned(spread)):
            self.notes_.append(note)

    def inverse_transform(self, Z: Any) -> Any:
        """Rows of the output (centres, for example) back in the units of the table.

        Returns the sort of table that `fit` was given; a category is its most likely value.
        """
        check_is_fitted(self, "columns_")
        Z = np.array(Z, dtype=np.float64)
        names = self.get_feature_names_out()
        if Z.ndim != 2 or Z.shape[1] != len(names):
            raise ValueError(f"Z.shape={Z.shape}: the output has {len(names)} columns.")
        if self.output == "numeric":
            Z = self.in_units(Z)
        else:
            for j, column in enumerate(c for c in self.used_columns_ for _ in _names(c, "mixed")):
                if column.transform:
                    Z[:, j] = back_in_units(Z[:, j], column.transform)
        if self.matrix_:
            return Z
        columns: dict[str, Any] = {}
        place = 0
        for column in self.used_columns_:
            width = len(_names(column, self.output))
            part = Z[:, place : place + width]
            columns[column.name] = _back(column, part)
            place += width
        return like(self.container_, columns)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _count_block(
    found: list[TableColumn], as_count: Callable[[int], TableColumn]
) -> list[TableColumn]:
    """Where nearly all columns are counts (words, baskets), frequent and rare ones are counts, too.

    A frequent word has large counts, a rare one only 0 and 1: alone they would be something else.
    Elsewhere counts are used by their square roots: single columns of counts (visits, orders) vary
    more than Poisson counts, and on that scale their spread hardly depends on their level.
    """
    used = [column for column in found if column.used]
    small = [column for column in used if column.kind == "count" or column.why == "only 0 and 1"]
    counts = sum(column.kind == "count" for column in used)
    if counts < MANY_COUNTS or len(small) < NEARLY_ALL * len(used):
        return [
            replace(column, transform="sqrt", done="square root")
            if column.kind == "count" and column.why != "as asked"
            else column
            for column in found
        ]
    out = []
    for j, column in enumerate(found):
        if column.whole and column.kind in ("number", "log", "ordered", "yes/no"):
            column = replace(as_count(j), why="whole numbers beside many columns of counts")
        out.append(column)
    return out


def _names(column: TableColumn, output: str) -> tuple[str, ...]:
    """The columns of the output that one column of the table gives."""
    if column.kind == "vector":
        return tuple(f"{column.name}[{k}]" for k in range(column.width))
    if output == "numeric" and column.kind == "category" and column.categories is not None:
        return tuple(f"{column.name}={category}" for category in column.categories)
    return (column.name,)


def _one_hot(codes: np.ndarray, n: int) -> np.ndarray:
    known = np.isfinite(codes)
    out = np.zeros((len(codes), n))
    out[known, codes[known].astype(np.int64)] = 1.0
    out[~known] = np.nan
    return out


def _back(column: TableColumn, part: np.ndarray) -> Any:
    if column.kind == "vector":
        return part.tolist()
    if column.kind == "category" and column.categories is not None:
        one = part.shape[1] == 1
        codes = np.rint(part[:, 0]) if one else part.argmax(axis=1)
        known = np.isfinite(part).all(axis=1)
        at = np.clip(np.nan_to_num(codes), 0, len(column.categories) - 1).astype(int)
        return [column.categories[k] if ok else None for k, ok in zip(at, known, strict=True)]
    return part[:, 0]


def _array(frame: Frame) -> np.ndarray:
    return frame.columns if isinstance(frame.columns, np.ndarray) else np.empty(0)


def _judge_matrix(frame: Frame, wanted: dict[str, str]) -> list[TableColumn]:
    """A matrix holds one sort of thing in one unit: 0 and 1, counts, or numbers."""
    array = _array(frame)
    rows = np.linspace(0, len(array) - 1, min(len(array), 65_536)).astype(np.int64)
    look = np.asarray(array[rows], dtype=np.float64)
    finite = look[np.isfinite(look)]
    kind, why = "number", "a matrix of numbers"
    if finite.size and len(array) >= 20 and (finite == np.round(finite)).all():
        low, high = finite.min(), finite.max()
        if low == 0 and high == 1:
            kind, why = "yes/no", "a matrix of 0 and 1"
        elif low == 0 and np.median(finite) <= 2:
            kind, why = "count", "a matrix of whole numbers, most of them small"
    gaps = sum((~np.isfinite(array[rows])).sum(axis=0) for rows in blocks(array))
    columns = []
    for name, n in zip(frame.names, np.asarray(gaps).tolist(), strict=True):
        asked = wanted.get(name)
        if asked in LEFT_OUT:
            columns.append(TableColumn(name, asked, False, "left out", "as asked"))
        elif asked in ("category", "vector", "log"):
            raise ValueError(f"kinds={{{name!r}: {asked!r}}}: a matrix has no names; use a table.")
        else:
            why = "as asked" if asked else why
            columns.append(TableColumn(name, asked or kind, why=why, n_missing=n))
    return columns
