"""Tables of numbers, counts, yes/no and categories as encoded rows; bad cells are named.

1. *Kinds.* One family for all columns, or with "mixed" one for each: as the user says, else guessed
   (`guess_kind`).
2. *Cells.* Numbers as numbers; categories as one column of 0 and 1 for each level; gaps (NaN, None)
   as counts of 0, where the user allows them.
3. *Later rows* are encoded in the same way. A category that the fit has not seen says nothing about
   clusters: its cell counts as a gap, with a warning.

No value is made up for a gap: the sums of a cluster run over the cells that are there.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from madbayes._rows.checks import check_choice, check_rows, dense, without_arrow
from madbayes.divergences.families import FAMILIES, EncodedRows, Layout

KINDS = ("squared", "poisson", "bernoulli", "categorical", "gamma")  # of one column
DIVERGENCES = ("squared", "poisson", "multinomial", "bernoulli", "gamma", "mixed")
FEW_EVENTS = 20.0  # whole numbers with zeros and a mean below this are taken for counts
IDENTIFIERS = 0.9  # a text column with this share of different values names rows, not groups


@dataclass(frozen=True)
class Coded:
    """A column that is not numbers: different values, and which of them each row has."""

    values: list[Any]
    codes: np.ndarray

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def gaps(self) -> np.ndarray:
        """Which rows have no value."""
        return np.array([is_gap(v) for v in self.values])[self.codes]

    @property
    def known(self) -> list[Any]:
        """The different values that are none."""
        return [v for v in self.values if not is_gap(v)]

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(v, bool | int | float) for v in self.known)


Column = np.ndarray | Coded


@dataclass
class ColumnEncoder:
    """How columns become encoded rows; made by `fit_table`, kept by the model."""

    divergence: str
    observed: bool  # gaps are allowed
    kinds: tuple[str, ...]
    names: tuple[str, ...]  # of the columns of the table
    levels: tuple[Any, ...]  # of categories (and two-valued text); None for numbers
    offset: np.ndarray = field(default_factory=lambda: np.zeros(0))  # of encoded columns
    factor: np.ndarray = field(default_factory=lambda: np.ones(0))
    shape: np.ndarray = field(default_factory=lambda: np.ones(0))  # of GAMMA columns

    @property
    def mixed(self) -> bool:
        return self.divergence == "mixed"

    @property
    def widths(self) -> list[int]:
        """Encoded columns of each column of the table."""
        kinds = zip(self.kinds, self.levels, strict=True)
        return [len(levels) if kind == "categorical" else 1 for kind, levels in kinds]

    @property
    def first(self) -> np.ndarray:
        """The first encoded column of each column of the table."""
        return np.r_[0, np.cumsum(self.widths)][:-1]

    def without(
        self, rows: EncodedRows, left_out: list[int]
    ) -> tuple[EncodedRows, "ColumnEncoder"]:
        """Rows of "mixed" columns, and how they are encoded, without some columns of the table."""
        keep = np.delete(np.arange(len(self.kinds)), left_out)
        encoded = np.isin(np.repeat(np.arange(len(self.kinds)), self.widths), keep)
        kinds, names, levels = (
            tuple(each[j] for j in keep) for each in (self.kinds, self.names, self.levels)
        )
        how = replace(self, kinds=kinds, names=names, levels=levels)
        P, start = rows.P, np.array([0, int(encoded.sum())])
        if P.shape[1] > 1:
            P, start = P[:, keep], np.r_[0, np.cumsum(how.widths)]
        old = rows.layout
        layout = Layout(start, old.family[encoded], old.scale[encoded])
        return EncodedRows(rows.T[:, encoded], P, rows.w, layout), how

    @property
    def n_levels(self) -> np.ndarray:
        """For each encoded column, how many columns share its total."""
        if self.divergence == "multinomial":
            return np.full(len(self.kinds), len(self.kinds))
        return np.repeat(self.widths, self.widths)

    def encode(self, columns: Sequence[Column], weight: np.ndarray | None) -> EncodedRows:
        """Encoded rows in the units of the table; `scaled` shifts and scales them."""
        n = len(columns[0])
        parts, there = [], []
        for values, kind, name, levels in zip(
            columns, self.kinds, self.names, self.levels, strict=True
        ):
            if kind == "categorical":
                codes = level_codes(values, levels, name)
                part = np.zeros((n, len(levels)))
                ok = codes >= 0
                part[np.flatnonzero(ok), codes[ok]] = 1.0
            else:
                if levels is not None:
                    codes = level_codes(values, levels, name)
                    part = np.where(codes >= 0, codes, np.nan)[:, None].astype(np.float64)
                else:
                    part = numbers(values, name)[:, None]
                ok = ~np.isnan(part[:, 0])
                check_values(part[:, 0], kind, name)
                part = np.where(ok[:, None], part, 0.0)
            parts.append(part)
            there.append(ok)
        family = [np.full(p.shape[1], FAMILIES[k]) for p, k in zip(parts, self.kinds, strict=True)]
        T, widths = np.hstack(parts), [p.shape[1] for p in parts]
        if self.divergence == "multinomial":
            P, start = T.sum(axis=1, keepdims=True), np.array([0, T.shape[1]])
        elif np.all(there):
            P, start = np.ones((n, 1)), np.array([0, T.shape[1]])
        else:
            P, start = np.column_stack(there) * 1.0, np.r_[0, np.cumsum(widths)]
        layout = Layout(start, np.concatenate(family), np.ones(T.shape[1]))
        w = np.ones(n) if weight is None else weight
        return EncodedRows(T, P, w, layout)

    def scaled(self, rows: EncodedRows) -> EncodedRows:
        """Rows as the fit saw them: numbers from their middle, in units of their noise."""
        return rows.rescaled(self.offset, self.factor, self.shape)

    def own_units(self, means: np.ndarray) -> np.ndarray:
        """Means of scaled rows in the units of the table."""
        return means / self.factor + self.offset

    def from_own_units(self, means: np.ndarray) -> np.ndarray:
        """The other way round."""
        return (np.asarray(means, dtype=np.float64) - self.offset) * self.factor


def read_columns(model: Any, X: Any, *, reset: bool) -> list[Column]:
    """The columns of any table; names and their number are checked as scikit-learn does."""
    allow_gaps = getattr(model, "missing", "error") == "observed"
    X = without_arrow(X)
    if model.divergence != "mixed":
        try:
            whole = not allow_gaps and check_rows(model, X, reset=reset)
        except ValueError:  # gaps and infinite cells are named later, with their column and row
            whole = False
        if whole is not False:
            X = dense(whole, f"divergence={model.divergence!r}")
        else:
            if sp.issparse(X):
                X = dense(sp.csr_array(X), "missing='observed'")
            how: Any = {"dtype": np.float64, "ensure_all_finite": False}
            X = validate_data(model, X, reset=reset, **how)
        return [np.ascontiguousarray(column, dtype=np.float64) for column in np.asarray(X).T]
    if sp.issparse(X):
        X = dense(sp.csr_array(X), "divergence='mixed'")
    if not hasattr(X, "shape"):
        X = np.array(X, dtype=object)
    if len(X.shape) != 2:
        raise ValueError(
            f"X has the shape {tuple(X.shape)}; a table of rows and columns is needed: reshape "
            "your data with X.reshape(-1, 1) if it has one column, X.reshape(1, -1) if one row."
        )
    validate_data(model, X, reset=reset, skip_check_array=True)
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(
            f"X has the shape {tuple(X.shape)}: at least one row and column is needed."
        )
    if isinstance(X, np.ndarray):
        return [plain(X[:, j]) for j in range(X.shape[1])]
    if hasattr(X, "iloc"):
        return [plain(X.iloc[:, j]) for j in range(X.shape[1])]
    return [plain(X[name]) for name in X.columns]


def plain(series: Any) -> Column:
    """A column of a table as numbers, or coded."""
    values = np.asarray(series)
    if values.dtype.kind in "biuf":
        return values
    if hasattr(series, "factorize"):  # pandas; its code for a gap is -1, the last value below
        codes, different = series.factorize()
        place = [*different, None]
        codes = codes % len(place)
    else:
        listed = series.tolist() if hasattr(series, "tolist") else series.to_list()
        seen: dict[Any, int] = {}
        codes = np.fromiter((seen.setdefault(v, len(seen)) for v in listed), int, len(listed))
        place = list(seen)
    found = [v.item() if isinstance(v, np.generic) else v for v in place]
    return Coded(
        [v if isinstance(v, str | bool | int | float) or is_gap(v) else str(v) for v in found],
        codes,
    )


def is_gap(value: Any) -> bool:
    """None, NaN, NaT or pandas.NA."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value


def numbers(column: Column, name: str) -> np.ndarray:
    """A column as float64, NaN for gaps."""
    if not isinstance(column, Coded):
        return column.astype(np.float64)
    out = np.empty(len(column.values))
    for place, value in enumerate(column.values):
        try:
            out[place] = np.nan if is_gap(value) else float(value)
        except (TypeError, ValueError):
            raise ValueError(
                f"column {name!r}, row {int(np.argmax(column.codes == place))}: {value!r} is not "
                f"a number. For text use divergence='mixed' with columns={{{name!r}: "
                "'categorical'}."
            ) from None
    return out[column.codes]


def level_codes(column: Column, levels: Sequence[Any], name: str) -> np.ndarray:
    """The place of each value among the levels; -1 for gaps and for values that are not there."""
    place = {level: i for i, level in enumerate(levels)}
    if isinstance(column, Coded):
        values, codes = column.values, column.codes
    else:
        different, codes = np.unique(column, return_inverse=True)
        values = different.tolist()
    found = np.array([-1 if is_gap(v) else place.get(v, -2) for v in values])[codes]
    if (new := np.flatnonzero(found == -2)).size:
        shown = ", ".join(repr(values[codes[i]]) for i in new[:3])
        warnings.warn(
            f"column {name!r} has {new.size} values that the fit has not seen (row {new[0]}: "
            f"{shown}). These cells count as missing: the other columns decide.",
            stacklevel=2,
        )
    return np.asarray(np.maximum(found, -1))


def check_values(values: np.ndarray, kind: str, name: str) -> None:
    """Values that the family allows; the first one that is not is named."""
    low, high, says = {
        "squared": (-np.inf, np.inf, "a finite number"),
        "poisson": (0.0, np.inf, "a count >= 0"),
        "multinomial": (0.0, np.inf, "a count >= 0"),
        "bernoulli": (0.0, 1.0, "0, 1 or a probability between them"),
        "gamma": (0.0, np.inf, "a number > 0"),
    }[kind]
    with np.errstate(invalid="ignore"):
        bad = (values < low) | (values > high) | np.isinf(values)
        if kind == "gamma":
            bad |= values == 0
    if bad.any():
        i = int(np.argmax(bad))
        other = f", or use divergence='mixed' with columns={{{name!r}: 'squared'}}"
        other = "" if kind == "squared" else other
        raise ValueError(
            f"column {name!r}, row {i}: {values[i]:g} is not {says}, which {kind!r} needs. Correct "
            f"the cell{other}."
        )
    if kind == "squared" and np.abs(np.nan_to_num(values)).max(initial=0.0) > 1e150:
        raise ValueError(f"column {name!r} has values too large to square: divide it by 1e150.")


def guess_kind(values: Column) -> str:
    """Text is categorical, 0 and 1 (and bool) bernoulli, whole numbers from 0 with a small mean
    and at least the spread of a Poisson count poisson, all other numbers squared."""
    if isinstance(values, Coded):
        if not values.numeric:
            return "categorical"
        values = numbers(values, "")
    if values.dtype.kind == "b":
        return "bernoulli"
    known = values[np.isfinite(values)].astype(np.float64)
    if known.size == 0:  # only infinite cells, which are named later
        return "squared"
    different = np.unique(known)
    if np.isin(different, (0.0, 1.0)).all():
        return "bernoulli"
    whole = different[0] == 0 and np.all(different == np.floor(different))
    if whole and known.mean() < FEW_EVENTS and known.var() >= 0.5 * known.mean():
        return "poisson"
    return "squared"


def fit_table(model: Any, columns: list[Column]) -> ColumnEncoder:
    """1. The kinds of the columns and the levels of categories; complains about gaps."""
    divergence = check_choice("divergence", model.divergence, *DIVERGENCES)
    observed = getattr(model, "missing", "error") == "observed"
    given = getattr(model, "feature_names_in_", None)
    named = getattr(model, "columns", None) if given is None else None
    if (
        isinstance(named, dict)
        and len(named) == len(columns)
        and all(isinstance(v, str) for v in named)
    ):
        given = list(named)  # X has no names, and `columns` names all its columns
    names = [f"x{j}" for j in range(len(columns))] if given is None else [str(v) for v in given]
    kinds = [divergence] * len(columns)
    if divergence == "mixed":
        chosen = chosen_kinds(getattr(model, "columns", None), names)
        check_gaps(columns, names, observed)
        kinds = [chosen.get(n) or guess_kind(v) for n, v in zip(names, columns, strict=True)]
    elif getattr(model, "columns", None) is not None:
        raise ValueError(
            f"columns={model.columns!r} would be ignored: it is for divergence='mixed', and "
            f"divergence={divergence!r} takes all columns as one kind."
        )
    else:
        check_gaps(columns, names, observed)
    levels = [find_levels(v, k, n) for v, k, n in zip(columns, kinds, names, strict=True)]
    return ColumnEncoder(divergence, observed, tuple(kinds), tuple(names), tuple(levels))


def chosen_kinds(columns: Any, names: list[str]) -> dict[str, str]:
    """The kinds that the user gave, by the name of the column."""
    if columns is None:
        return {}
    if not isinstance(columns, dict):
        raise TypeError(f"columns={columns!r} must be a dict of column names and kinds.")
    found = {}
    for key, kind in columns.items():
        name = names[key] if isinstance(key, int) and -1 < key < len(names) else str(key)
        if name not in names:
            raise ValueError(
                f"columns names {key!r}, which is not a column of X. They are {names[:20]}."
            )
        if kind not in KINDS:
            raise ValueError(
                f"columns={{{key!r}: {kind!r}}}: the kind must be one of "
                f"{', '.join(map(repr, KINDS))}."
            )
        found[name] = kind
    return found


def check_gaps(
    columns: list[Column], names: list[str], observed: bool, *, new: bool = False
) -> None:
    """Gaps only where they are allowed, and (but in `new` rows) no column without a value."""
    for values, name in zip(columns, names, strict=True):
        if isinstance(values, Coded):
            gap = values.gaps
        elif values.dtype.kind == "f":
            gap = np.isnan(values)
        else:
            continue
        if gap.all() and not new:
            raise ValueError(f"column {name!r} has no value at all. Leave it out.")
        if gap.any() and not observed:
            raise ValueError(
                f"column {name!r}, row {int(np.argmax(gap))}: the cell is missing (NaN), one of "
                f"{int(gap.sum())} in this column. missing='observed' clusters the cells that are "
                "there (KMeans, DPMeans)."
            )


def find_levels(values: Column, kind: str, name: str) -> Any:
    """The levels of a category (or of two-valued text); None for numbers."""
    if kind != "categorical" and (kind != "bernoulli" or not isinstance(values, Coded)):
        return None
    if isinstance(values, Coded):
        different, count = set(values.known), int((~values.gaps).sum())
    else:
        different = {v for v in np.unique(values).tolist() if not is_gap(v)}
        count = len(values)
    if kind == "bernoulli":
        if isinstance(values, Coded) and values.numeric:
            return None
        if len(different) > 2:
            raise ValueError(
                f"column {name!r} has {len(different)} different values, and 'bernoulli' needs "
                "two (or 0, 1 and probabilities). Use 'categorical'."
            )
    text = any(isinstance(v, str) for v in different)
    if text and count >= 20 and len(different) > IDENTIFIERS * count:
        raise ValueError(
            f"column {name!r} has {len(different)} different values in {count} rows: it names "
            "rows rather than groups of them. Leave it out."
        )
    return tuple(sorted(different, key=lambda v: (str(type(v).__name__), v)))
