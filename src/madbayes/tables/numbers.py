"""Text cells that are numbers: $1,234.00, 12%, 1.234,56, (5), and cells that stand for nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

# What spreadsheets, R, pandas and Arrow write for a missing value, in small letters.
MISSING = ("", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "nil", "#null!", "#na", "<na>")

PLAIN = r"^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$"
POINT = r"^[-+]?[1-9]\d{0,2}([,'  ]\d{3})+(\.\d+)?$"  # 1,234.5 and 1'234.5
COMMA = r"^[-+]?(\d{1,3}([.'  ]\d{3})+(,\d+)?|\d+,\d*)$"  # 1.234,5 and 3,14
INFINITE = r"^[-+]?inf(inity)?$"
DRESS = r"^\(?[$€£¥]?|[$€£¥%]?\)?$"  # around the digits
MOSTLY = 0.5  # a column is one of numbers when so many of its cells are


@dataclass(frozen=True)
class Numbers:
    """A column of text as numbers; NaN where a cell is missing or no number."""

    values: np.ndarray
    strange: np.ndarray  # positions of cells that are neither a number nor missing
    note: str  # how they were read, when that is not plain

    @property
    def mostly(self) -> bool:
        """Whether this is a column of numbers."""
        filled = int(np.isfinite(self.values).sum())
        return filled > 0 and filled >= MOSTLY * (filled + self.strange.size)


def from_text(column: pa.ChunkedArray, na: Sequence[str] = (), comma: bool = False) -> Numbers:
    """Cells of text as numbers, as far as they are.

    `na`: further cells that mean nothing; `comma`: where 1,234 may be either, it is 1.234.
    """
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    lower = pc.utf8_lower(text)
    gone = {*MISSING, *(word.strip().lower() for word in na)}
    missing = pc.or_kleene(pc.is_null(text), pc.is_in(lower, value_set=pa.array(sorted(gone))))
    missing = pc.fill_null(missing, True)
    bare = pc.replace_substring_regex(lower, DRESS, "")
    bare = pc.replace_substring_regex(bare, r"^\s*([-+]?)\s*[$€£¥]\s*|\s*[€$£¥%]$", r"\1")
    bare = pc.utf8_trim_whitespace(bare)
    negative = pc.fill_null(pc.match_substring_regex(text, r"^\(.*\)$"), False)

    plain = _matches(bare, PLAIN)
    with_point = pc.or_(plain, _matches(bare, POINT))
    with_comma = pc.or_(_matches(bare, COMMA), _matches(bare, r"^[-+]?\d+$"))
    more = pc.sum(with_comma).as_py() - pc.sum(with_point).as_py()
    comma = more > 0 or (comma and more == 0)
    infinite = _matches(bare, INFINITE)
    good = pc.or_(with_comma if comma else with_point, infinite)
    digits = pc.replace_substring_regex(bare, r"[.'  ]" if comma else r"[,'  ]", "")
    digits = pc.replace_substring(digits, ",", ".") if comma else digits
    usable = pc.and_(good, pc.invert(missing))
    numbers = pc.if_else(usable, digits, None).cast(pa.float64())
    values = np.array(numbers.to_numpy(), dtype=np.float64)
    values[np.asarray(negative) & np.asarray(usable)] *= -1
    strange = np.flatnonzero(~np.asarray(good) & ~np.asarray(missing))
    return Numbers(values, strange, _how(text, lower, usable, values))


def _matches(column: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    return pc.fill_null(pc.match_substring_regex(column, pattern), False)


def _how(
    text: pa.ChunkedArray,
    lower: pa.ChunkedArray,
    usable: pa.ChunkedArray,
    values: np.ndarray,
) -> str:
    """ "read '$1,234.00' as 1234", by the first cell that is not plain."""
    odd = np.asarray(pc.and_(usable, pc.invert(_matches(lower, PLAIN))))
    odd &= np.isfinite(values)
    if not odd.any():
        return ""
    at = int(np.argmax(odd))
    return f"{text[at].as_py()!r} was read as {values[at]:.15g}"
