"""What a column holds, and what becomes of it. `docs/guide/tables.md` states every rule.

A column is left out only for a strong reason: its name says that it is an identifier, a code or a
class, or its values cannot be a measurement. All other columns of numbers are used. The rules for
numbers are in `why_leave_out` and `what_numbers_are`, those for text in `what_text_is`; the first
rule that fits counts.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

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
ENOUGH = 20  # rows from which on values say what they are
FEW = 20  # different whole numbers that may be codes of categories
MOST_CATEGORIES = 50

# What names say, in words apart: homeLat is read as home_Lat. A name decides only together with
# values that fit it, except for classes.
NAMES = {
    "class": r"^((true|actual|known|real|gold)[_ .-]?)?(label|target|class|species|variety|cultivar"
    r"|cluster|ground[_ ]?truth|truth|diagnosis|outcome)s?"
    r"([_ .-]?(id|name|label|class|type|no|nr|true|s|es))?$|^y[_ ]?(true|label)$",
    "row": r"^(__index_level_\d+__|unnamed: \d+|\(unnamed 0\)|\(row names\)|row ?names?|rownum"
    r"|index|idx|key|row|row[_ ]?number|nr|no|#)$",
    "identifier": r"(^|[\W_])(id|uuid|guid)$|(order|customer|client|account|invoice|ticket|case"
    r"|patient|sample|record|serial|member|transaction|policy|user|kunden|bestell|konto|rechnungs)"
    r"[_ .-]?(no|nr|num|number|nummer|key)\.?$",
    "code": r"(^|[\W_])(zip|zip[_ ]?code|post[_ ]?code|postal[_ ]?code|plz|phone|telephone|tel"
    r"|mobile|cell|fax|iban|bic|ssn|ean|upc|isbn|barcode|sku|gtin|vat|imei)"
    r"([_ .-]?(no|nr|number|code))?$",
    "category": r"(^|[\W_])(type|kind|group|category|cat|code|sex|gender|region|country|state|city"
    r"|status|segment|channel|department|color|colour|race|ethnicity|marital|occupation|sector)$",
    "rating": r"(rating|score|answer|likert|satisf|nps|stars)|^(q|item|frage)_?\d+",
    "latitude": r"(^|[\W_])lat(itude)?$",
    "longitude": r"(^|[\W_])(lon|lng|long|longitude)$",
    "calendar": r"(^|[\W_])(hour|month|day|weekday|week|minute|stunde|monat|tag)$",
    "date": r"(^|[\W_])(date|time|timestamp|ts|epoch|datetime|datum|zeit|when|created|updated"
    r"|modified|seen|login|logged|signup)($|[\W_])|[_ ]at$|timestamp$",
    "year": r"^(year|yr|jahr|année|año|anno)s?$",
}


def says(name: str, *what: str) -> bool:
    """Whether the name of a column says one of these."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    return any(re.search(NAMES[each], words, re.IGNORECASE) for each in what)


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
        return left_out(name, wanted, "as asked")
    if pa.types.is_null(kind) or column.null_count == len(column):
        return left_out(name, "empty", "it is empty")
    if is_list(kind):
        return _vector(name, column)
    if pa.types.is_struct(kind) or pa.types.is_map(kind) or pa.types.is_binary(kind):
        return left_out(name, "nested", f"it holds values of type {str(kind)[:40]}")
    if wanted is None and says(name, "class"):
        return left_out(name, "class", "its name says that it holds classes")
    if wanted is None and name.startswith("__index_level_"):
        return left_out(name, "identifier", "it is the index of a data frame")
    if pa.types.is_duration(kind):
        return TableColumn(name, asked or "number", why="it holds durations", days=True)
    if pa.types.is_temporal(kind):
        return _date(name, column, wanted)
    if pa.types.is_boolean(kind):
        why = "as asked" if asked else "it holds true and false"
        two = ("false", "true") if asked == "category" else None
        made = TableColumn(name, asked or "yes/no", done="1 and 0", why=why, categories=two)
        return replace(made, n_missing=column.null_count)
    if pa.types.is_dictionary(kind):
        column, categorical = column.cast(kind.value_type), True
    if asked == "category" or (categorical and asked is None):
        why = "as asked" if asked else "its type says so"
        text = texts(column, rules)
        if text.null_count == len(text):
            return left_out(name, "empty", "it is empty")
        return _categories(TableColumn(name, "category", why=why, n_missing=text.null_count), text)
    if is_text(column.type):
        return _text(name, column, rules, wanted)
    return _numbers(name, plain_numbers(column), rules, wanted)


def left_out(name: str, kind: str, why: str) -> TableColumn:
    """A column that is not used."""
    return TableColumn(name, kind, False, "left out", why)


def _vector(name: str, column: pa.ChunkedArray) -> TableColumn:
    """Cells that are lists of numbers, all of the same length: an embedding."""
    inner = column.type.value_type
    sizes = pc.unique(pc.list_value_length(column.drop_null())).to_pylist()
    numeric = pa.types.is_integer(inner) or pa.types.is_floating(inner)
    if len(sizes) != 1 or not numeric or not sizes[0]:
        what = f"lists of {len(sizes)} lengths" if numeric else f"lists of {inner}"
        return left_out(name, "nested", f"it holds {what}")
    why = f"every cell holds {sizes[0]} numbers"
    done, n = f"{sizes[0]} columns of one unit", column.null_count
    return TableColumn(name, "vector", done=done, why=why, n_missing=n, width=sizes[0])


def _date(name: str, column: pa.ChunkedArray, wanted: str | None) -> TableColumn:
    if wanted is None:
        return left_out(name, "date", "it holds dates or times")
    if as_days(column) is None:
        raise ValueError(f"kinds={{{name!r}: {wanted!r}}}: its dates cannot be read as numbers.")
    kind = "number" if wanted == "use" else wanted
    return TableColumn(name, kind, done="days since 1970", why="as asked", days=True)


def _categories(column: TableColumn, text: pa.ChunkedArray) -> TableColumn:
    """A column of kind "category" or "yes/no" with the values that its cells have."""
    known = tuple(sorted(pc.unique(text.drop_null()).to_pylist()))
    if column.kind == "yes/no":
        if len(known) != 2:
            raise ValueError(
                f"kinds={{{column.name!r}: 'yes/no'}}: it has {len(known)} different values."
            )
        return replace(column, categories=known, done=f"1 for {known[1]}, 0 for {known[0]}")
    if len(known) < 2:
        return left_out(column.name, "constant", "all cells are the same")
    return replace(column, categories=known, done="categories")


# Text


def _text(name: str, column: pa.ChunkedArray, rules: TextRules, wanted: str | None) -> TableColumn:
    text = texts(column, rules)
    cells = text.drop_null()
    asked = None if wanted == "use" else wanted
    if not len(cells):
        return left_out(name, "empty", "it is empty")
    if text_dates(cells):
        return _date(name, text, wanted)
    got = from_text(column, rules.na, rules.comma)
    words = set(pc.unique(pc.utf8_lower(cells)).to_pylist())
    if words <= {*YES, *NO} and not words <= {"0", "1"} and asked in (None, "yes/no"):
        made = TableColumn(name, "yes/no", done="1 and 0", why="it holds yes and no")
        return replace(made, n_missing=text.null_count)
    if got.mostly:
        if wanted is None and (why := _why_code(cells)):
            return left_out(name, "code", why)
        if asked is None and _open_ended(text, got.strange):
            different = pc.count_distinct(cells).as_py()
            made = TableColumn(name, "category", why=f"text of {different} different values")
            return _categories(replace(made, n_missing=text.null_count), text)
        notes: tuple[str, ...] = (f"{name}: {got.note}",) if got.note else ()
        if n := got.strange.size:
            cell = column[int(got.strange[0])].as_py()
            are = "1 cell" if n == 1 else f"{n} cells"
            notes += (f"{name}: {are} such as {cell!r} taken as missing",)
        return _numbers(name, got.values, rules, wanted, notes)
    if asked == "yes/no":
        return _categories(TableColumn(name, "yes/no", why="as asked"), text)
    if asked is not None:
        raise ValueError(
            f"kinds={{{name!r}: {wanted!r}}}: the column holds text such as {cells[0].as_py()!r}. "
            "Text can be 'category' or 'drop'."
        )
    kind, why = next(what_text_is(name, cells, wanted == "use"))
    if kind != "category":
        return left_out(name, kind, why)
    return _categories(TableColumn(name, kind, why=why, n_missing=text.null_count), text)


def what_text_is(name: str, cells: pa.ChunkedArray, use: bool) -> Iterator[tuple[str, str]]:
    """The kind of text that is neither numbers nor dates, and why; the first one counts."""
    different, filled = pc.count_distinct(cells).as_py(), len(cells)
    if use:
        if not 1 < different <= MOST_CATEGORIES:
            raise ValueError(
                f"column {name!r} cannot be used: it holds text of {different} different values, "
                f"and categories have 2 to {MOST_CATEGORIES}. The kind 'category' uses it even so."
            )
        yield "category", "as asked"
    if different == 1:
        yield "constant", "all cells are the same"
    if says(name, "identifier", "code"):
        yield "identifier", "its name says that it identifies something"
    if different < filled and different <= min(MOST_CATEGORIES, max(2, filled // 2)):
        yield "category", f"text of {different} different values"
    if pc.mean(pc.count_substring(cells, " ")).as_py() >= 2:  # three words or more, on average
        yield "text", "it holds text: free text"
    if different >= 0.9 * filled:
        yield "identifier", "it holds text, different in almost every row"
    yield "text", f"it holds text: {different} different ones are no categories"


def _open_ended(text: pa.ChunkedArray, strange: np.ndarray) -> bool:
    """Whether numbers are the steps of a scale that ends in 5more or 10+; a few such cells among
    many different numbers are mistakes."""
    filled = len(text) - text.null_count
    if filled < ENOUGH or strange.size <= 0.05 * filled or pc.count_distinct(text).as_py() > FEW:
        return False
    ends = pc.match_substring_regex(text.take(pa.array(strange)), r"(?i)\d|more|less|over|under")
    return bool(pc.all(ends).as_py())


def _why_code(cells: pa.ChunkedArray) -> str:
    """Why text that could be read as numbers is a code: 01234 is no number."""

    def share(pattern: str) -> float:
        return (pc.sum(pc.match_substring_regex(cells, pattern)).as_py() or 0) / len(cells)

    long = pc.max(pc.utf8_length(cells)).as_py() >= 4
    if long and share(r"^0\d+$") > 0 and share(r"^\+?\d+$") == 1:
        return "its numbers begin with 0"
    return "it holds phone numbers" if share(r"^\+\d{8,}$") > 0.5 else ""


# Numbers


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers as the rules see it."""

    name: str
    finite: np.ndarray  # cells that are not missing
    n: int  # all cells
    names: tuple[str, ...] = field(repr=False)  # of all columns of the table

    @cached_property
    def whole(self) -> bool:
        return bool((self.finite == np.round(self.finite)).all())

    @cached_property
    def low(self) -> float:
        return float(self.finite.min())

    @cached_property
    def high(self) -> float:
        return float(self.finite.max())

    @cached_property
    def different(self) -> np.ndarray:
        return np.unique(self.finite)

    def says(self, *what: str) -> bool:
        return says(self.name, *what)


def _numbers(
    name: str,
    values: np.ndarray,
    rules: TextRules,
    wanted: str | None,
    notes: tuple[str, ...] = (),
) -> TableColumn:
    """A column of numbers."""
    finite = values[np.isfinite(values)]
    if not finite.size:
        return left_out(name, "empty", "it is empty")
    column = NumberColumn(name, finite, values.size, rules.names)
    if wanted is None:
        for kind, why in why_leave_out(column):
            return left_out(name, kind, why)
    codes = sentinels(finite) if finite.size >= ENOUGH else ()
    real = replace(column, finite=finite[~np.isin(finite, codes)]) if codes else column
    kind, why = wanted or "use", "as asked"
    if kind == "use":
        kind, why = next(what_numbers_are(real, rules.logs))
    made = TableColumn(
        name,
        kind,
        why=why,
        n_missing=values.size - real.finite.size,
        missing_codes=codes,
        n_codes=finite.size - real.finite.size,
        whole=column.whole and real.low >= 0,
        notes=notes,
    )
    if real.low < 0 and kind in ("log", "count", "positive"):
        raise ValueError(
            f"kinds={{{name!r}: {kind!r}}} needs values >= 0, and the smallest is {real.low:g}."
        )
    if kind == "log":
        transform, done = ("log", "logarithm") if real.low > 0 else ("log1p", "log(1 + x)")
        return replace(made, transform=transform, done=done)
    if kind == "category" or (kind == "yes/no" and {*real.different} != {0.0, 1.0}):
        return _categories(made, pa.chunked_array([[f"{v:.15g}" for v in real.different]]))
    return made


def why_leave_out(column: NumberColumn) -> Iterator[tuple[str, str]]:
    """Kinds of numbers that measure nothing, and why this column is one; the first one counts."""
    finite, n, different = column.finite, column.n, column.different.size
    if finite.size > 1 and column.low == column.high:
        yield "constant", f"all cells are {column.low:g}"
    if column.whole and n >= 3:
        steps = np.diff(finite) == 1
        if different == n and steps.all():
            yield "identifier", "it only counts the rows"
        if column.says("identifier") and different > 1:
            yield "identifier", "its name and values say that it identifies the rows"
        if column.says("row") and steps.mean() > 0.9:  # it may start again for every group
            yield "identifier", "its name and values say that it counts rows"
        if column.says("row") and different == n:
            yield "identifier", "its name and values say that it identifies the rows"
        if different == n >= ENOUGH and column.high - column.low == n - 1:
            yield "identifier", "it numbers the rows: whole numbers without a gap, none twice"
    if column.whole:
        # A word or a tax rate may be called cell or vat; postcodes and phone numbers are larger.
        if column.says("code") and column.low >= 0 and np.median(finite) >= 1000:
            yield "code", "its name says that its numbers are codes"
        digits = np.floor(np.log10(np.maximum(np.abs(finite), 1))) + 1
        long = digits.min() == digits.max() >= 12 and different >= 0.99 * finite.size
        if long and not number_dates(True, False, finite, True):
            yield "code", f"whole numbers of {digits[0]:g} digits, almost none twice"
    if why := number_dates(column.says("date"), column.says("year"), finite, column.whole):
        yield "date", why
    alone = column.name in ("y", "Y") and not {"x", "X"} & {*column.names}
    if alone and column.whole and different <= FEW:
        yield "class", "its name says that it holds classes"


def what_numbers_are(column: NumberColumn, logs: bool | None) -> Iterator[tuple[str, str]]:
    """The kind of numbers that are used, and why; the first one counts.

    `logs`: whether positive columns of this table are logarithms; None: each column decides.
    """
    real, low, high, different = column.finite, column.low, column.high, column.different
    for what, other, least, most in (
        ("latitude", "longitude", -90, 90),
        ("longitude", "latitude", -180, 360),
    ):
        pair = column.says(what) and any(says(name, other) for name in column.names)
        if pair and least <= low and high <= most:
            yield "coordinate", f"a {what}"
    if real.size < ENOUGH:
        yield "number", "numbers"
    if different.size == 2 and low == 0 and high == 1:
        yield "yes/no", "only 0 and 1"
    if different.size == 2 and column.whole:
        yield "category", f"two whole numbers, {low:g} and {high:g}"
    if column.whole and low >= 0:
        if different.size <= FEW and column.says("category"):
            yield "category", f"its name and its {different.size} different whole numbers"
        full = 3 <= different.size == high - low + 1
        if full and high <= 10 and (low == 1 or (low == 0 and column.says("rating"))):
            yield "ordered", f"whole numbers from {low:g} to {high:g}"
        # Clusters only add to the variance of counts, which is their mean.
        spread = float(real.var()) > 0.5 * float(real.mean()) and skewness(real) > 0
        if low <= 2 and np.median(real) <= 20 and spread and not column.says("calendar"):
            yield "count", "whole numbers from 0 or 1 on, most of them small"
    if low > 0 and (is_lognormal(real) if logs is None else logs):
        yield "log", "positive and skewed, and its groups are of equal spread on a log scale"
    if 0 <= low and high <= 1 and not column.whole:
        yield "share", "between 0 and 1"
    yield "number", "numbers"
