"""What a column holds, and what becomes of it. `docs/guide/tables.md` states every rule.

A column is left out only for a strong reason: its name says that it is an identifier, a code or a
class, or its values cannot be a measurement. All other columns of numbers are used.
"""

import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes.tables.cells import NO, YES, TableColumn, TextRules, is_list, plain_numbers, texts
from madbayes.tables.convert import is_text
from madbayes.tables.dates import as_days, number_dates, text_dates
from madbayes.tables.logscale import is_lognormal, skewness
from madbayes.tables.numbers import from_text
from madbayes.tables.sentinels import sentinels

USED = (
    *("number", "count", "share", "log", "positive", "ordered", "yes/no", "category"),
    *("coordinate", "vector", "use"),
)
LEFT_OUT = (
    *("date", "identifier", "code", "class", "text", "constant", "empty", "nested", "drop"),
)
# Names. A name decides only together with values that fit it, except for classes.
_END = r"([_ .-]?(id|name|label|type|no|nr|true|s|es))?$"
CLASS = (
    r"(?i)^((true|actual|known|real|gold)[_ .-]?)?(label|target|class|species|cluster|"
    rf"ground[_ ]?truth|truth|diagnosis|outcome){_END}|^y[_ ]?(true|label)$"
)
INDEX = r"(?i)^(__index_level_\d+__|unnamed: \d+|\(unnamed 0\)|\(row names\)|row ?names?|rownum)$"
ID = r"(?i:(^|[\W_])(id|uuid|guid)$)|[a-z]I[dD]$"
ROW = r"(?i)^(index|idx|key|row|row[_ ]?number|nr|no|#)$"
SERIAL = (
    r"(?i)(order|customer|client|account|invoice|ticket|case|patient|sample|record|serial|member|"
    r"transaction|policy|user|kunden|bestell|konto|rechnungs)[_ .-]?"
    r"(no|nr|num|number|nummer|key)\.?$"
)
CODE = (
    r"(?i)(^|[\W_])(zip|zip[_ ]?code|post[_ ]?code|postal[_ ]?code|plz|phone|telephone|tel|mobile|"
    r"cell|fax|iban|bic|ssn|ean|upc|isbn|barcode|sku|gtin|vat|imei)([_ .-]?(no|nr|number|code))?$"
)
CODED = (  # few whole numbers under such a name are codes of categories
    r"(?i)(^|[\W_])(type|kind|group|category|cat|code|sex|gender|region|country|state|city|status|"
    r"segment|channel|department|color|colour|race|ethnicity|marital|occupation|sector)$"
)
RATING = r"(?i)(rating|score|answer|likert|satisf|nps|stars)|^(q|item|frage)_?\d+"
LATITUDE, LONGITUDE = r"(?i)(^|[\W_])lat(itude)?$", r"(?i)(^|[\W_])(lon|lng|long|longitude)$"
CALENDAR = r"(?i)(^|[\W_])(hour|month|day|weekday|week|minute|stunde|monat|tag)$"

MANY_STRANGE = 0.05  # share of cells such as 5more or 10+ among numbers; fewer are mistakes
ENOUGH = 20  # rows from which on values say what they are
FEW = 20  # different whole numbers that may be codes of categories
MOST_CATEGORIES = 50
LONGEST_SCALE = 10  # ordered answers go up to this
TYPICAL_COUNT = 20  # the median of counts is at most this
UNDERDISPERSED = 0.5  # variance over mean; below this no mixture of Poisson counts
SHORT_CODE = 1000  # a word or a tax rate may be called cell or vat; postcodes and phones are larger
LONG_CODE = 12  # digits of numbers that nobody measures
WORDS = 3  # on average, from which on text is sentences


def judge(
    name: str,
    column: pa.ChunkedArray,
    rules: TextRules,
    wanted: str | None,
    categorical: bool = False,
) -> TableColumn:
    """The kind of one column; `wanted` is what the user says it is.

    "use" means: as whatever it holds, even where the rules would leave it out. `categorical`: the
    type of the column says that it holds categories.
    """
    kind = column.type
    asked = None if wanted == "use" else wanted
    if wanted in LEFT_OUT:
        return TableColumn(
            name, wanted if wanted != "drop" else "drop", False, "left out", "as asked"
        )
    if pa.types.is_null(kind) or column.null_count == len(column):
        return _left(name, "empty", "it is empty")
    if is_list(kind):
        return _vector(name, column)
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_binary(kind):
        return _left(name, "nested", f"it holds values of type {str(kind)[:40]}")
    if wanted is None and re.match(CLASS, name):
        return _left(name, "class", "its name says that it holds classes")
    if wanted is None and name.startswith("__index_level_"):
        return _left(name, "identifier", "it is the index of a data frame")
    if pa.types.is_duration(kind):
        return TableColumn(name, asked or "number", why="it holds durations", days=True)
    if pa.types.is_temporal(kind):
        return _date(name, column, wanted, "it holds dates or times")
    if pa.types.is_boolean(kind):
        return _booleans(name, column.null_count, asked)
    if pa.types.is_dictionary(kind):
        column, categorical = column.cast(kind.value_type), True
    if is_text(column.type):
        return _text(name, column, rules, wanted, categorical)
    if asked == "category" or (categorical and asked is None):
        return _category(name, texts(column, rules), "as asked" if asked else "its type says so")
    return _numbers(name, plain_numbers(column), rules, wanted, (), 0)


def _left(name: str, kind: str, why: str) -> TableColumn:
    return TableColumn(name, kind, False, "left out", why)


def _booleans(name: str, n: int, wanted: str | None) -> TableColumn:
    if wanted is None:
        return TableColumn(
            name, "yes/no", done="1 and 0", why="it holds true and false", n_missing=n
        )
    categories = ("false", "true") if wanted == "category" else None
    return TableColumn(
        name, wanted, done="1 and 0", why="as asked", n_missing=n, categories=categories
    )


def _vector(name: str, column: pa.ChunkedArray) -> TableColumn:
    """Cells that are lists of numbers, all of the same length: an embedding."""
    inner = column.type.value_type
    sizes = pc.unique(pc.list_value_length(column.drop_null())).to_pylist()
    numeric = pa.types.is_integer(inner) or pa.types.is_floating(inner)
    if len(sizes) != 1 or not numeric or not sizes[0]:
        what = f"lists of {inner}" if numeric is False else f"lists of {len(sizes)} lengths"
        return _left(name, "nested", f"it holds {what}")
    why = f"every cell holds {sizes[0]} numbers"
    done, n = f"{sizes[0]} columns of one unit", column.null_count
    return TableColumn(name, "vector", done=done, why=why, n_missing=n, width=sizes[0])


def _date(name: str, column: pa.ChunkedArray, wanted: str | None, why: str) -> TableColumn:
    if wanted is None:
        return _left(name, "date", why)
    if as_days(column) is None:
        raise ValueError(f"kinds={{{name!r}: {wanted!r}}}: its dates cannot be read as numbers.")
    kind = "number" if wanted == "use" else wanted
    return TableColumn(name, kind, done="days since 1970", why="as asked", days=True)


def _text(
    name: str, column: pa.ChunkedArray, rules: TextRules, wanted: str | None, categorical: bool
) -> TableColumn:
    text = texts(column, rules)
    lower = pc.utf8_lower(text)
    filled = len(text) - text.null_count
    if not filled:
        return _left(name, "empty", "it is empty")
    asked = None if wanted == "use" else wanted
    if asked == "category" or (categorical and asked is None):
        return _category(name, text, "as asked" if asked else "its type says so")
    if text_dates(lower, filled):
        return _date(name, text, wanted, "it holds dates or times")
    got = from_text(column, rules.na, rules.comma)
    if got.mostly:
        if wanted is None and (why := _digits(name, text)):
            return _left(name, "code", why)
        if asked is None and filled >= ENOUGH and got.strange.size > MANY_STRANGE * filled:
            odd = pc.match_substring_regex(text.take(pa.array(got.strange)), r"\d")
            different = pc.count_distinct(text.drop_null()).as_py()
            if pc.all(odd).as_py() and different <= FEW:
                return _category(name, text, f"text of {different} different values")
        notes: tuple[str, ...] = (f"{name}: {got.note}",) if got.note else ()
        if got.strange.size:
            cell = column[int(got.strange[0])].as_py()
            notes += (f"{name}: {_cells(got.strange.size)} such as {cell!r} taken as missing",)
        return _numbers(name, got.values, rules, wanted, notes, got.strange.size)
    if all(word in YES + NO for word in pc.unique(lower.drop_null()).to_pylist()):
        n = len(text) - filled
        return TableColumn(name, "yes/no", done="1 and 0", why="it holds yes and no", n_missing=n)
    if asked == "yes/no":
        return _two(name, text)
    if asked is not None:
        cell = text.drop_null()[0].as_py()
        raise ValueError(
            f"kinds={{{name!r}: {wanted!r}}}: the column holds text such as {cell!r}. "
            "Text can be 'category' or 'drop'."
        )
    return _words(name, text, filled, wanted == "use")


def _words(name: str, text: pa.ChunkedArray, filled: int, use: bool) -> TableColumn:
    """Categories, identifiers, or text that is neither."""
    different = pc.count_distinct(text.drop_null()).as_py()
    if use and 1 < different <= MOST_CATEGORIES:
        return _category(name, text, "as asked")
    if use:
        raise ValueError(
            f"column {name!r} cannot be used: it holds text of {different} different values, and "
            f"categories have 2 to {MOST_CATEGORIES}. The kind 'category' uses it even so."
        )
    if different == 1:
        return _left(name, "constant", "all cells are the same")
    named = re.search(ID, name) or re.search(CODE, name) or re.search(SERIAL, name)
    if named:
        return _left(name, "identifier", "its name says that it identifies something")
    if different < filled and different <= min(MOST_CATEGORIES, max(2, filled // 2)):
        return _category(name, text, f"text of {different} different values")
    blanks = pc.mean(pc.count_substring(text, " ")).as_py()
    if blanks + 1 >= WORDS:
        return _left(name, "text", "it holds text: free text")
    if different >= 0.9 * filled:
        return _left(name, "identifier", "it holds text, different in almost every row")
    return _left(name, "text", f"it holds text: {different} different ones are no categories")


def _category(name: str, text: pa.ChunkedArray, why: str) -> TableColumn:
    known = tuple(sorted(pc.unique(text.drop_null()).to_pylist()))
    if len(known) < 2:
        return _left(name, "constant", "all cells are the same")
    n = text.null_count
    return TableColumn(name, "category", done="categories", why=why, n_missing=n, categories=known)


def _two(name: str, text: pa.ChunkedArray) -> TableColumn:
    known = tuple(sorted(pc.unique(text.drop_null()).to_pylist()))
    if len(known) != 2:
        raise ValueError(f"kinds={{{name!r}: 'yes/no'}}: it has {len(known)} different values.")
    done = f"1 for {known[1]}, 0 for {known[0]}"
    return TableColumn(name, "yes/no", done=done, why="as asked", categories=known)


def _digits(name: str, text: pa.ChunkedArray) -> str:
    """Why text that could be read as numbers is a code: 01234 is no number."""
    cells = text.drop_null()
    zeros = pc.sum(pc.match_substring_regex(cells, r"^0\d+$")).as_py() or 0
    digits = pc.sum(pc.match_substring_regex(cells, r"^\+?\d+$")).as_py() or 0
    if zeros and digits == len(cells) and pc.max(pc.utf8_length(cells)).as_py() >= 4:
        return "its numbers begin with 0"
    plus = pc.sum(pc.match_substring_regex(cells, r"^\+\d{8,}$")).as_py() or 0
    return "it holds phone numbers" if plus > len(cells) / 2 else ""


def _numbers(
    name: str,
    values: np.ndarray,
    rules: TextRules,
    wanted: str | None,
    notes: tuple[str, ...],
    strange: int,
) -> TableColumn:
    """A column of numbers."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return _left(name, "empty", "it is empty")
    whole = bool((finite == np.round(finite)).all())
    if wanted is None:
        if finite.size > 1 and finite.min() == finite.max():
            return _left(name, "constant", f"all cells are {finite[0]:g}")
        if why := identifier(name, finite, whole, values.size):
            return _left(name, "identifier", why)
        if why := _code(name, finite, whole):
            return _left(name, "code", why)
        if why := number_dates(name, finite, whole):
            return _left(name, "date", why)
        if _answer(name, finite, whole, rules.names):
            return _left(name, "class", "its name says that it holds classes")
    codes = sentinels(finite) if finite.size >= ENOUGH else ()
    real = finite[~np.isin(finite, codes)] if codes else finite
    missing = values.size - real.size
    if wanted is None or wanted == "use":
        kind, why = _measure(name, real, whole, rules.logs)
    else:
        kind, why = wanted, "as asked"
    made = TableColumn(
        name,
        kind,
        why=why,
        n_missing=missing,
        missing_codes=codes,
        n_codes=finite.size - real.size,
        whole=whole and float(real.min()) >= 0,
        notes=notes,
    )
    return _fitting(made, real)


def _fitting(column: TableColumn, real: np.ndarray) -> TableColumn:
    """The column with what its kind needs, or an error where the values do not fit."""
    kind, low = column.kind, float(real.min())
    if low < 0 and kind in ("log", "count", "positive"):
        raise ValueError(
            f"kinds={{{column.name!r}: {kind!r}}} needs values >= 0, and the smallest is {low:g}."
        )
    if kind == "log":
        if low > 0:
            return replace(column, transform="log", done="logarithm")
        return replace(column, transform="log1p", done="log(1 + x)")
    if kind == "category":
        known = tuple(f"{v:.15g}" for v in np.unique(real))
        return replace(column, categories=known, done="categories")
    if kind == "yes/no" and (np.unique(real).size != 2 or {*np.unique(real)} != {0.0, 1.0}):
        known = tuple(f"{v:.15g}" for v in np.unique(real))
        if len(known) != 2:
            raise ValueError(
                f"kinds={{{column.name!r}: 'yes/no'}}: it has {len(known)} different values."
            )
        return replace(column, categories=known, done=f"1 for {known[1]}, 0 for {known[0]}")
    return column


def _measure(name: str, real: np.ndarray, whole: bool, logs: bool | None) -> tuple[str, str]:
    """The kind of numbers that are used."""
    low, high = float(real.min()), float(real.max())
    if re.search(LATITUDE, name) and -90 <= low and high <= 90:
        return "coordinate", "a latitude"
    if re.search(LONGITUDE, name) and -180 <= low and high <= 360:
        return "coordinate", "a longitude"
    if real.size < ENOUGH:
        return "number", "numbers"
    different = np.unique(real)
    if different.size == 2 and low == 0 and high == 1:
        return "yes/no", "only 0 and 1"
    if different.size == 2 and whole:
        return "category", f"two whole numbers, {low:g} and {high:g}"
    if whole and low >= 0:
        if different.size <= FEW and re.search(CODED, name):
            return "category", f"its name and its {different.size} different whole numbers"
        if _scale(name, different):
            return "ordered", f"whole numbers from {low:g} to {high:g}"
        if _counts(name, real, low):
            return "count", "whole numbers from 0 or 1 on, most of them small"
    if low > 0 and (is_lognormal(real) if logs is None else logs):
        return "log", "positive and skewed, and its groups are of equal spread on a log scale"
    if 0 <= low and high <= 1 and not whole:
        return "share", "between 0 and 1"
    return "number", "numbers"


def _scale(name: str, different: np.ndarray) -> bool:
    low, high = different[0], different[-1]
    if high > LONGEST_SCALE or low > 1 or not 3 <= different.size:
        return False
    full = different.size == high - low + 1
    return bool(full and (low == 1 or re.search(RATING, name)))


def _counts(name: str, real: np.ndarray, low: float) -> bool:
    typical = float(np.median(real))
    if low > 2 or typical > TYPICAL_COUNT or re.search(CALENDAR, name):
        return False
    # Clusters only add to the variance of counts, which is their mean.
    return skewness(real) > 0 and float(real.var()) > UNDERDISPERSED * float(real.mean())


def identifier(name: str, finite: np.ndarray, whole: bool, n: int) -> str:
    """Why the column only says which row it is; empty when it measures something."""
    if not whole or n < 3:
        return ""
    named = re.search(ID, name) or re.search(SERIAL, name)
    row = re.match(ROW, name) or re.match(INDEX, name)
    different = np.unique(finite).size
    if different == n and (np.diff(finite) == 1).all():
        return "it only counts the rows"
    if named and different > 1:
        return "its name and values say that it identifies the rows"
    if different < n:
        return ""
    if row:
        return "its name and values say that it identifies the rows"
    if n >= ENOUGH and finite.max() - finite.min() == n - 1:
        return "it numbers the rows: whole numbers without a gap, none twice"
    return ""


def _code(name: str, finite: np.ndarray, whole: bool) -> str:
    if not whole:
        return ""
    if re.search(CODE, name) and finite.min() >= 0 and np.median(finite) >= SHORT_CODE:
        return "its name says that its numbers are codes"
    digits = np.floor(np.log10(np.maximum(np.abs(finite), 1))) + 1
    fresh = np.unique(finite).size >= 0.99 * finite.size
    epoch = number_dates("time", finite, whole)
    if fresh and digits.min() == digits.max() >= LONG_CODE and not epoch:
        return f"whole numbers of {digits[0]:g} digits, almost none twice"
    return ""


def _answer(name: str, finite: np.ndarray, whole: bool, names: tuple[str, ...]) -> bool:
    """Whether a column called y holds classes: few whole numbers, and no x beside it."""
    few = whole and np.unique(finite).size <= FEW
    return name in ("y", "Y") and few and not any(re.match(r"(?i)^x$", n) for n in names)


def _cells(n: int) -> str:
    return f"{n} cell" if n == 1 else f"{n} cells"
