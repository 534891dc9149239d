"""Columns of dates and times: Arrow's own types, text in the usual formats, numbers since 1970."""

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SECONDS_OF_A_DAY = 86_400.0
PER_SECOND = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}

# Text is brought to one form first (`plain_days`), which these formats read. Years of two digits
# come first: "%Y" takes them for years of the Roman Empire.
FORMATS = (
    *("%d-%m-%y", "%m-%d-%y", "%d-m%m-%y", "%Y-%m-%d", "%d-%m-%Y", "%m-%d-%Y", "%d-m%m-%Y"),
    *("m%m-%d-%Y", "%Y-m%m-%d", "%Y-%m", "%m-%Y", "m%m-%Y"),
)
MONTHS = (  # English and German
    *("jan(uary?)?", "feb(ruary?)?", "mar(ch)?|märz?|mrz", "apr(il)?", "ma[yi]", "jun[ei]?"),
    *("jul[yi]?", "aug(ust)?", "sept?(ember)?", "o[ck]t(ober)?", "nov(ember)?", "de[cz](ember)?"),
)
# In a date of two parts the year has four digits, or a number such as 3-14 would be one.
YEAR, DAY, MONTH = r"(1[6-9]|2[01])\d\d", r"\d{1,2}", r"m\d\d"
DATE = (
    rf"^({YEAR}-{DAY}(-{DAY})?|{DAY}-{DAY}-({YEAR}|\d\d)|{DAY}-{YEAR}|{YEAR}-w{DAY}|{YEAR}-q[1-4]"
    rf"|{DAY}-{MONTH}-({YEAR}|\d\d)|{MONTH}-{DAY}-{YEAR}|{YEAR}-{MONTH}-{DAY}|{MONTH}-{YEAR})$"
)
TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?"


def plain_days(text: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates in text as 22-05-2024 or 22-m05-2024: without weekday and time; "" for a time alone."""
    text = pc.utf8_lower(pc.utf8_trim_whitespace(text.cast(pa.string())))
    decimals = pc.match_substring_regex(text, r"^[-+]?\d*[.,]?\d*$")
    for pattern, plain in (
        (r"^(mon|tue|wed|thu|fri|sat|sun)([a-z]*day)?[,.]? +", ""),
        (rf"([t :,]+|^){TIME}( ?(z|utc|gmt|[-+]\d{{2}}:?\d{{2}}))?", ""),
        (r" \d{1,2}\.\d{2}$", ""),  # 10.30
        *((rf"\b({name})\b", f"m{number:02}") for number, name in enumerate(MONTHS, 1)),
        (r"[-/., ]+", "-"),
    ):
        text = pc.replace_substring_regex(text, pattern, plain)
    return pc.if_else(decimals, pa.scalar(None, pa.string()), text)


def text_dates(text: pa.ChunkedArray) -> bool:
    """Whether nine tenths of the cells that are not missing are dates or times."""
    cells = text.drop_null()
    for part in (cells.slice(0, 100), cells):  # most columns of text hold none
        hits = pc.match_substring_regex(plain_days(part), rf"{DATE}|^$")
        if (pc.sum(hits).as_py() or 0) < 0.9 * max(len(part), 1):
            return False
    return True


def number_dates(telling: bool, year: bool, values: np.ndarray, whole: bool) -> str:
    """Why finite numbers are dates or times; empty when nothing says so.

    `telling`: the name of the column says that it holds dates; `year`: that it holds years.
    """
    low, high = float(values.min()), float(values.max())
    little = high - low < 0.3 * low
    narrow = whole and little  # no measurement is large and varies so little
    units = zip(
        ("seconds", "milliseconds", "microseconds", "nanoseconds"), PER_SECOND.values(), strict=True
    )
    for unit, size in units:
        first, last = low / size, high / size
        if 631_152_000 <= first < last <= 2_208_988_800 and (telling or narrow):  # 1990 to 2040
            ends = (datetime.fromtimestamp(second, UTC).date() for second in (first, last))
            return "its numbers are {} since 1970, from {} to {}".format(unit, *ends)
    if telling and little and 20_000 <= low and high <= 60_000:  # 1954 to 2064
        ends = (datetime.fromtimestamp((v - 25_569) * SECONDS_OF_A_DAY, UTC) for v in (low, high))
        return "its numbers are days as spreadsheets count them, from {:%F} to {:%F}".format(*ends)
    if whole and year and 1000 <= low and high <= 2200:
        return f"it holds the years {low:g} to {high:g}"
    for days, form in ((1, "months"), (100, "days")):  # 202405 and 20240522
        months = values // days % 100
        valid = (months >= 1) & (months <= 12)
        if days > 1:
            valid &= (values % 100 >= 1) & (values % 100 <= 31)
        inside = 190_001 * days <= low and high <= 210_012 * days + 31
        many = np.unique(values).size > 3 and (telling or days > 1 or values.size >= 20)
        if whole and inside and many and valid.all():
            return f"its numbers are {form} written as {low:.0f}"
    return ""


def as_days(column: pa.ChunkedArray) -> np.ndarray | None:
    """Dates and times as days since 1970, NaN where missing; None when they cannot be read."""
    kind = column.type
    if pa.types.is_time(kind) or pa.types.is_duration(kind):
        whole = column.cast(pa.int32()) if pa.types.is_time32(kind) else column.cast(pa.int64())
        return _floats(whole) / PER_SECOND[kind.unit] / SECONDS_OF_A_DAY
    if pa.types.is_temporal(kind):
        micro = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        return _floats(micro) / PER_SECOND["us"] / SECONDS_OF_A_DAY
    day = plain_days(column)
    tries = [pc.strptime(day, format=f, unit="s", error_is_null=True) for f in FORMATS]
    best = min(tries, key=lambda got: got.null_count)
    if best.null_count >= len(best):
        return None
    return _floats(best.cast(pa.int64())) / SECONDS_OF_A_DAY


def _floats(column: pa.ChunkedArray) -> np.ndarray:
    return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
