"""What the options say about columns, in the kinds of `TableEncoder`."""

from collections.abc import Sequence
from dataclasses import dataclass

from madbayes.tables.errors import UserError, did_you_mean
from madbayes.tables.frame import Frame
from madbayes.tables.notes import listing


@dataclass(frozen=True)
class Wishes:
    """What the options say about columns."""

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    categorical: Sequence[str] = ()
    numeric: Sequence[str] = ()
    log: Sequence[str] = ()
    id: str | None = None
    weights: str | None = None
    by: str | None = None
    na: Sequence[str] = ()


def wanted_kinds(frame: Frame, wishes: Wishes) -> tuple[dict[str, str], dict[str, str]]:
    """The kinds of columns that options name, and why columns are left out by options."""
    kinds: dict[str, str] = {}
    out: dict[str, str] = {}
    if wishes.columns:
        named = resolve(frame, wishes.columns, "--columns")
        kinds |= {frame.names[j]: "use" for j in named}
        rest = [name for j, name in enumerate(frame.names) if j not in named]
        out |= dict.fromkeys(rest, "not among --columns")
    for option, names, kind in (
        ("--categorical", wishes.categorical, "category"),
        ("--numeric", wishes.numeric, "number"),
        ("--log", wishes.log, "log"),
    ):
        for j in resolve(frame, names, option):
            kinds[frame.names[j]] = kind
            out.pop(frame.names[j], None)
    for j in resolve(frame, wishes.drop, "--drop"):
        out[frame.names[j]] = "by --drop"
    for option, name in (("--id", wishes.id), ("--weights", wishes.weights), ("--by", wishes.by)):
        if name is not None:
            out[frame.names[resolve(frame, [name], option, whole=True)[0]]] = f"used as {option}"
    return {**kinds, **dict.fromkeys(out, "drop")}, out


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
