"""Which columns of a file are clustered, which are not, and why. docs/adr/0015 has the rules."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from madbayes.cli.errors import UserError, did_you_mean
from madbayes.cli.frame import Frame
from madbayes.cli.numbers import from_text

INDEX = r"^(__index_level_\d+__|unnamed: \d+|\(unnamed 0\)|\(row names\)|row ?names?|rownum)$"
ID = r"(?i:(^|[\W_])(id|uuid|guid|index|idx|key|row|row[_ ]?number)$)|[a-z]I[dD]$"
CLASS = r"(?i)^(true[_ ]?)?(label|labels|target|class|classes|cluster|species|ground[_ ]?truth)$"
MANY = 20  # rows from which on whole numbers without a gap, in any order, count the rows
MOST_CLASSES, FEW = 100, 10  # different whole numbers of a named class; of one without a name
FEW_ROWS = 50  # with fewer rows few numbers say nothing
MOST_CATEGORIES = 50
WIDE = 2_000  # columns from which on only those with a telling name are looked at closely


@dataclass(frozen=True)
class Wishes:
    """What the options say about columns."""

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    id: str | None = None
    weights: str | None = None
    by: str | None = None
    one_hot: bool = False
    na: Sequence[str] = ()


@dataclass
class Selection:
    """Columns by position; why others are left out; what else the user should know."""

    used: list[int]
    left_out: list[tuple[str, str]]
    notes: list[str] = field(default_factory=list)
    one_hot: list[int] = field(default_factory=list)  # those of `used` that hold categories


def select(frame: Frame, wishes: Wishes) -> Selection:
    """The columns to cluster: those named, or all that hold measurements."""
    roles = {}
    for option, name in (("--id", wishes.id), ("--weights", wishes.weights), ("--by", wishes.by)):
        if name is not None:
            roles[resolve(frame, [name], option, whole=True)[0]] = option
    dropped = set(resolve(frame, wishes.drop, "--drop"))
    got = Selection([], [])
    if wishes.columns:
        named = resolve(frame, wishes.columns, "--columns")
        for j in named:
            if j in dropped or j in roles:
                continue
            reason = not_numeric(frame, j, wishes.na)
            if reason and wishes.one_hot and is_category(frame, j):
                got.one_hot.append(j)
            elif reason:
                raise UserError(
                    f"Column {frame.names[j]} cannot be used: {reason}. --columns takes columns of "
                    "numbers; --one-hot also those of categories."
                )
            got.used.append(j)
        rest = [j for j in range(len(frame.names)) if j not in named]
        got.left_out += [(frame.names[j], "not among --columns") for j in rest]
    else:
        _by_default(frame, wishes, got, dropped, set(roles))
    got.left_out += [(frame.names[j], "by --drop") for j in sorted(dropped)]
    got.left_out += [(frame.names[j], f"used as {option}") for j, option in roles.items()]
    if not got.used:
        detail = "; ".join(f"{name}: {reason}" for name, reason in got.left_out[:8])
        raise UserError(f"There is no column of numbers to cluster ({detail}).")
    return got


def _by_default(
    frame: Frame, wishes: Wishes, got: Selection, dropped: set[int], roles: set[int]
) -> None:
    """All columns that can be used and do not look like something else."""
    named = "(name it in --columns to use it)"
    for j, name in enumerate(frame.names):
        if j in dropped or j in roles:
            continue
        reason = not_numeric(frame, j, wishes.na)
        if reason and wishes.one_hot and is_category(frame, j):
            got.one_hot.append(j)
            got.used.append(j)
        elif reason:
            got.left_out.append((name, reason))
        elif pa.types.is_boolean(frame.type(j)) and not isinstance(frame.columns, np.ndarray):
            got.left_out.append((name, f"it holds true and false {named}"))
        else:
            got.used.append(j)
    few = []
    for j in got.used.copy():
        if j in got.one_hot or (j and len(frame.names) > WIDE and not _telling(frame.names[j])):
            continue
        if len(got.used) < 2:  # a lone column of 1, 2, 3 is the data; beside others it is an index
            break
        kind = identifier(frame, j) or _class(frame, j)
        if kind == "few":
            few.append(frame.names[j])
        elif kind:
            got.used.remove(j)
            got.left_out.append((frame.names[j], f"{kind} {named}"))
    got.notes += [f"left out {name}: {reason}" for name, reason in got.left_out]
    if few and len(few) <= 3 and len(few) < len(got.used) / 2:
        got.notes.append(
            f"{', '.join(few)}: only a few different whole numbers. If they stand for classes, "
            f"leave them out with --drop {few[0]}"
        )


def _telling(name: str) -> bool:
    return any(re.search(p, name, re.IGNORECASE) for p in (INDEX, ID, CLASS))


def resolve(frame: Frame, wanted: Sequence[str], option: str, whole: bool = False) -> list[int]:
    """Positions of named columns. 'a,b' is two names unless a column is called just that."""
    found: list[int] = []
    for item in wanted:
        split = item not in frame.names and not whole
        for name in [part.strip() for part in item.split(",")] if split else [item]:
            if name not in frame.names:
                near = did_you_mean(name, frame.names)
                raise UserError(
                    f"{option} names {name!r}, which is not a column.{near} "
                    f"The columns are: {listing(frame.names)}."
                )
            if (j := frame.names.index(name)) not in found:
                found.append(j)
    return found


def not_numeric(frame: Frame, j: int, na: Sequence[str] = ()) -> str:
    """Why column j cannot be used as numbers; empty when it can."""
    kind = frame.type(j)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return ""
    if pa.types.is_decimal(kind):
        return ""
    if pa.types.is_null(kind):
        return "it is empty"
    if is_text(kind):
        start = from_text(frame.start(j), na, frame.comma)
        if start.mostly or (np.isnan(start.values).all() and not start.strange.size):
            whole = from_text(frame.column(j), na, frame.comma)
            if whole.mostly:
                return ""
            if not whole.strange.size:
                return "it is empty"
        return "it holds text"
    if pa.types.is_dictionary(kind):
        return "it holds categories"
    if pa.types.is_temporal(kind):
        return "it holds dates or times"
    return f"it holds values of type {str(kind)[:40]}"


def is_text(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_category(frame: Frame, j: int) -> bool:
    """Text of which several rows have the same, and not too many different ones."""
    kind = frame.type(j)
    if not (is_text(kind) or pa.types.is_dictionary(kind)):
        return False
    n = pc.count_distinct(frame.column(j)).as_py()
    return bool(n <= min(MOST_CATEGORIES, max(2, frame.n_rows // 2)))


def identifier(frame: Frame, j: int) -> str:
    """Why the column only says which row it is; empty when it measures something."""
    name = frame.names[j]
    if re.match(INDEX, name, re.IGNORECASE) and name.startswith("__index"):
        return "it is the index of a data frame"
    if frame.n_rows < 3 or not _whole(frame, j, frame.start(j)):
        return ""
    named = re.search(ID, name) or re.match(INDEX, name, re.IGNORECASE)
    start = _numbers(frame.start(j))
    in_order = bool((np.diff(start) == 1).all())
    if not (named or in_order or frame.n_rows >= MANY) or np.unique(start).size < start.size:
        return ""
    column = frame.column(j)
    if column.null_count or not _whole(frame, j, column):
        return ""
    values = _numbers(column)
    if in_order and (np.diff(values) == 1).all():
        return "it only counts the rows"
    if np.unique(values).size < values.size:
        return ""
    if frame.n_rows >= MANY and np.ptp(values) == values.size - 1:
        return "it numbers the rows: whole numbers without a gap, none twice"
    return "its name and values say that it identifies the rows" if named else ""


def _class(frame: Frame, j: int) -> str:
    """That the column names a class; "few" when it might."""
    start = frame.start(j)
    if not _whole(frame, j, start):
        return ""
    named = re.match(CLASS, frame.names[j])
    if not named and (frame.n_rows < FEW_ROWS or np.unique(_numbers(start)).size > FEW):
        return ""
    column = frame.column(j)
    if not _whole(frame, j, column):
        return ""
    n = np.unique(_numbers(column)).size
    if named and n <= min(MOST_CLASSES, max(frame.n_rows // 2, 2)):
        return f"its name and its {n} different whole numbers say that it holds classes"
    numbers_are_columns = isinstance(frame.columns, np.ndarray)  # they share one unit
    return "few" if 1 < n <= FEW and frame.n_rows >= FEW_ROWS and not numbers_are_columns else ""


def _whole(frame: Frame, j: int, column: pa.ChunkedArray) -> bool:
    """Whether all cells are whole numbers."""
    if pa.types.is_integer(column.type):
        return True
    if not pa.types.is_floating(column.type) or len(column) == column.null_count:
        return False
    values = _numbers(column)
    return bool((np.isfinite(values) & (values == np.round(values))).all())


def _numbers(column: pa.ChunkedArray) -> np.ndarray:
    values = column.drop_null().to_numpy()
    return values.astype(np.int64) if values.dtype.kind == "u" else values


def listing(names: Sequence[str], at_most: int = 12) -> str:
    more = f", … ({len(names)} in all)" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more
