"""Columns of dates and times: Arrow's own types, text in the usual formats, numbers since 1970."""

import re
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MONTH = r"(jan|feb|mar|mär|apr|may|mai|jun|jul|aug|sep|oct|okt|nov|dec|dez)[a-zä]*"
TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?"
AFTER = rf"([t ,]+{TIME})?( ?(z|utc|gmt|[-+]\d{{2}}:?\d{{2}}))?$"
TEXT = (
    rf"^\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}{AFTER}"  # 2024-05-22, 2024/05/22
    rf"|^\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{4}}{AFTER}"  # 22.05.2024, 05/22/2024
    rf"|^\d{{1,2}}[/.]\d{{1,2}}[/.]\d{{2}}{AFTER}"  # 22.05.24
    rf"|^\d{{1,2}}[ .-]*{MONTH}[ .,-]+\d{{2,4}}{AFTER}"  # 22 May 2024, 22-May-24
    rf"|^{MONTH}[ .]+\d{{1,2}},? +\d{{4}}{AFTER}"  # May 22, 2024
    rf"|^{TIME}$"
)
MOSTLY = 0.9  # a column is one of dates when so many of its cells are
FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y")
NAME = (
    r"(?i)(^|[\W_])(date|time|timestamp|ts|epoch|datetime|datum|zeit|when|created|updated|modified"
    r"|seen|login|logged|signup)($|[\W_])|[_ ]at$|[a-z](Time|Date|At|Timestamp)$|timestamp$"
)
YEAR = r"(?i)^(year|yr|jahr|année|año|anno)s?$"
SECONDS = (631_152_000, 2_208_988_800)  # 1990 to 2040
UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
NARROW = 0.3  # times without a telling name span less than this share of their size
DAY = 86_400.0


def text_dates(text: pa.ChunkedArray, filled: int) -> bool:
    """Whether the cells (trimmed, in small letters, `filled` of them not missing) are dates."""
    hits = pc.sum(pc.fill_null(pc.match_substring_regex(text, TEXT), False)).as_py() or 0
    return filled > 0 and hits >= MOSTLY * filled


def number_dates(name: str, values: np.ndarray, whole: bool) -> str:
    """Why finite numbers are dates or times; empty when nothing says so."""
    low, high = float(values.min()), float(values.max())
    telling = re.search(NAME, name) is not None
    for unit, size in UNITS.items():
        inside = SECONDS[0] * size <= low and high <= SECONDS[1] * size
        narrow = high - low < NARROW * low and whole
        if inside and (telling or narrow) and high > low:
            first, last = (_day(v / size) for v in (low, high))
            return f"its numbers are {unit} since 1970, from {first} to {last}"
    if whole and re.match(YEAR, name) and 1800 <= low and high <= 2200:
        return f"it holds the years {low:g} to {high:g}"
    if whole and 19_000_101 <= low and high <= 21_001_231:
        months, days = values // 100 % 100, values % 100
        valid = (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
        if valid.all() and np.unique(values).size > 3:
            return f"its numbers are days written as {low:.0f}"
    return ""


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def as_days(column: pa.ChunkedArray) -> np.ndarray | None:
    """Dates and times as days since 1970, NaN where missing; None when they cannot be read."""
    kind = column.type
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        whole = column.cast(pa.int32()) if pa.types.is_time32(kind) else column.cast(pa.int64())
        return _floats(whole) / unit / DAY
    if pa.types.is_temporal(kind):
        return _floats(column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())) / 1e6 / DAY
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    day = pc.replace_substring_regex(text, rf"(?i){AFTER}", "")
    tries = [pc.strptime(day, format=f, unit="s", error_is_null=True) for f in FORMATS]
    best = min(tries, key=lambda got: got.null_count)
    if best.null_count >= len(best):
        return None
    return _floats(best.cast(pa.int64())) / DAY


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
