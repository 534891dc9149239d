"""Text cells that are numbers: $1,234.00, 12%, 1.234,56, (5), 70 kg; and cells without a value."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# What spreadsheets, R, pandas and Arrow write for a missing value, in small letters.
MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "nil", "#null!", "#na", "<na>")

PLAIN = r"^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$"
WITH_POINT = rf"{PLAIN}|^[-+]?[1-9]\d{{0,2}}([,'  ]\d{{3}})+(\.\d+)?$"  # 1,234.5 and 1'234.5
WITH_COMMA = r"^[-+]?(\d{1,3}([.'  ]\d{3})+(,\d+)?|\d+,\d*|\d+)$"  # 1.234,5 and 3,14
MONEY = "([$€£¥]|usd|eur|gbp|chf|jpy|cny|inr|cad|aud|sek|nok|dkk|pln)"


@dataclass(frozen=True)
class Numbers:
    """A column of text as numbers; NaN where a cell is missing or no number."""

    values: np.ndarray
    strange: np.ndarray  # positions of cells that are neither a number nor missing
    note: str  # how they were read, when that is not plain

    @property
    def mostly(self) -> bool:
        """Whether this is a column of numbers: at least half of the cells are."""
        filled = int(np.isfinite(self.values).sum())
        return filled > 0 and filled >= self.strange.size


def from_text(column: pa.ChunkedArray, na: Sequence[str] = (), comma: bool = False) -> Numbers:
    """Cells of text as numbers, as far as they are.

    `na`: further cells that mean nothing; `comma`: where 1,234 may be either, it is 1.234.
    """
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    lower = pc.utf8_lower(text)
    gone = {*MISSING, *(word.strip().lower() for word in na)}
    missing = pc.is_in(lower, value_set=pa.array(sorted(gone)))
    missing = pc.or_(pc.is_null(text), pc.fill_null(missing, True))
    cells = pc.if_else(missing, pa.scalar(None, pa.string()), lower)
    cells = pc.replace_substring_regex(cells, r"^\((.*)\)$", r"\1")
    cells = pc.replace_substring_regex(cells, rf"^([-+]?)\s*{MONEY}\s*|\s*({MONEY}|%)$", r"\1")
    cells = pc.replace_substring_regex(cells, rf"\s*{_unit(cells)}$", "")

    with_point, with_comma = _matches(cells, WITH_POINT), _matches(cells, WITH_COMMA)
    more = (pc.sum(with_comma).as_py() or 0) - (pc.sum(with_point).as_py() or 0)
    comma = more > 0 or (comma and more == 0)
    good = pc.or_(with_comma if comma else with_point, _matches(cells, r"^[-+]?inf(inity)?$"))
    digits = pc.replace_substring_regex(cells, r"[.'  ]" if comma else r"[,'  ]", "")
    digits = pc.replace_substring(digits, ",", ".") if comma else digits
    numbers = pc.if_else(good, digits, None).cast(pa.float64())
    values = np.array(numbers.to_numpy(), dtype=np.float64)
    values[np.asarray(_matches(text, r"^\(.*\)$")) & np.asarray(good)] *= -1
    strange = np.flatnonzero(~np.asarray(good) & ~np.asarray(missing))
    odd = np.flatnonzero(np.isfinite(values) & ~np.asarray(_matches(lower, PLAIN)))
    note = f"{text[int(odd[0])].as_py()!r} was read as {values[odd[0]]:.15g}" if odd.size else ""
    return Numbers(values, strange, note)


def _matches(column: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.match_substring_regex(column, pattern), False)


def _unit(cells: pa.ChunkedArray) -> str:
    """The word behind the numbers (kg, cm), if most of the numbers have the same; empty if not."""
    number = r"^[-+]?[\d.,'  ]*\d\s*"
    numbers = cells.filter(_matches(cells, number))
    ends = pc.value_counts(pc.replace_substring_regex(numbers, number, ""))
    most = [str(end["values"]) for end in ends.to_pylist() if 2 * end["counts"] > len(numbers)]
    word = most[0] if most else ""
    unit = r"[^\W\d_]{1,8}([ /][^\W\d_]{1,8})?|[°µ\w/²³]{1,8}"  # kg, sq ft, mmol/l, m²
    return re.escape(word) if re.fullmatch(unit, word) else ""
