"""The words in which `schema` describes values: numbers, shapes, text and what is made of them.

Each has `check(value, name, sizes)`, which raises `Unfit` for a value that is none. `sizes` holds
what the letters in shapes stand for, and learns those that are met for the first time.
"""

from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import scipy.sparse as sp

from madbayes._rows.checks import is_spread

Sizes = dict[str, int]  # what the letters stand for in one model
INF = float("inf")


class Unfit(ValueError):
    """What is wrong with a value, in one sentence without its end."""


@dataclass(frozen=True)
class Numbers:
    """An array of numbers; with an empty shape one number."""

    kind: str  # "real", "whole" or "bool"; for arrays also the name of a type
    shape: tuple[str | int, ...] = ()
    low: float = -INF
    high: float | str = INF  # or a letter: the numbers are below it
    finite: bool = True

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if is_spread(value):  # labels of a Dask fit, which are saved as an array
            value = np.asarray(value)
        if not self.shape:
            good = isinstance(value, KINDS[self.kind]) and (
                self.kind == "bool" or not isinstance(value, bool)
            )
        else:
            good = isinstance(value, np.ndarray) and str(value.dtype) in DTYPES.get(
                self.kind, (self.kind,)
            )
        if not good:
            what = "an array of numbers" if self.shape else "a number"
            raise Unfit(f"{name} should be {what} ({self.kind}), not {seen(value)}")
        values = np.asarray(value)
        check_shape(values.shape, self.shape, name, sizes)
        if self.kind == "real" and self.finite and not np.isfinite(values).all():
            raise Unfit(f"{name} should hold finite numbers only")
        high = sizes.get(self.high, 0) - 1 if isinstance(self.high, str) else self.high
        if self.kind != "bool" and not _between(values, self.low, high):
            raise Unfit(f"{name} should be from {self.low} to {high}")


KINDS: dict[str, Any] = {"real": Real, "whole": Integral, "bool": (bool, np.bool_)}
DTYPES = {
    "real": ("float32", "float64"),
    "whole": ("int32", "int64"),
    "bool": ("bool",),
}


def _between(values: np.ndarray, low: float, high: float) -> bool:
    if values.dtype == object:  # a whole number beyond int64
        return False
    return not ((values < low).any() or (values > high).any())


def real(*shape: str | int, low: float = -INF, high: float | str = INF) -> Numbers:
    return Numbers("real", shape, low, high)


def any_real(*shape: str | int) -> Numbers:
    """Infinite or not a number, too: it is only shown."""
    return Numbers("real", shape, finite=False)


def whole(*shape: str | int, low: float = 0, below: str | float = 2**62) -> Numbers:
    return Numbers("whole", shape, low, below)


def flag(*shape: str | int) -> Numbers:
    return Numbers("bool", shape)


@dataclass(frozen=True)
class Size:
    """The number that a letter stands for."""

    letter: str

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        whole().check(value, name, sizes)
        check_shape((int(value),), (self.letter,), name, sizes)


@dataclass(frozen=True)
class Text:
    """A string, or one of some."""

    known: tuple[str, ...] = ()

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, str) or (self.known and value not in self.known):
            wanted = "one of " + ", ".join(self.known) if self.known else "text"
            raise Unfit(f"{name} should be {wanted}, not {seen(value)}")


@dataclass(frozen=True)
class Maybe:
    """The same, or None."""

    inner: Any

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if value is not None:
            self.inner.check(value, name, sizes)


@dataclass(frozen=True)
class Is:
    """An object of a class from elsewhere."""

    known: type

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, self.known):
            raise Unfit(f"{name} should be a {self.known.__name__}, not {seen(value)}")


@dataclass(frozen=True)
class Several:
    """A tuple (or list): of these, or with one and `any_number` of as many as there are."""

    inner: tuple[Any, ...]
    any_number: bool = False

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, tuple | list):
            raise Unfit(f"{name} should be a tuple, not {seen(value)}")
        inner = self.inner * len(value) if self.any_number else self.inner
        if len(value) != len(inner):
            raise Unfit(f"{name} should have {len(inner)} entries, not {len(value)}")
        for i, (each, item) in enumerate(zip(inner, value, strict=True)):
            each.check(item, f"{name}[{i}]", sizes)


@dataclass(frozen=True)
class Named:
    """A dict with these keys."""

    inner: dict[str, Any]

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, dict) or set(value) != set(self.inner):
            raise Unfit(f"{name} should hold {', '.join(self.inner)}")
        for key, each in self.inner.items():
            each.check(value[key], f"{name}[{key!r}]", sizes)


@dataclass(frozen=True)
class Pairs:
    """A dict from keys of one kind to values of another."""

    key: Any
    value: Any

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, dict):
            raise Unfit(f"{name} should be a dict, not {seen(value)}")
        for key, item in value.items():
            self.key.check(key, f"a key of {name}", sizes)
            self.value.check(item, f"{name}[{key!r}]", sizes)


def of_type(hint: Any) -> Any:
    """The description of the values of an annotation: `tuple[int, ...]`, `float | None`, …"""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType and NoneType in inner:
        (kind,) = (kind for kind in inner if kind is not NoneType)
        return Maybe(of_type(kind))
    if origin is Literal:
        return Text(inner)
    if origin in (tuple, list):
        any_number = origin is list or inner[-1] is ...
        return Several(tuple(of_type(kind) for kind in inner if kind is not ...), any_number)
    if origin is dict:
        return Pairs(*map(of_type, inner))
    numbers = {int: whole(), float: any_real(), bool: flag(), str: Text(), Any: Is(object)}
    return numbers.get(hint) or Is(origin or hint)


@dataclass(frozen=True)
class Table:
    """Rows of numbers, dense or CSR (whose indices were checked when it was read)."""

    shape: tuple[str, str]

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if sp.issparse(value):
            check_shape(value.shape, self.shape, name, sizes)
            real("*").check(value.data, name, sizes)
        else:
            real(*self.shape).check(value, name, sizes)


@dataclass(frozen=True)
class Names:
    """An array of text, one for each."""

    letter: str

    def check(self, value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "OU":
            raise Unfit(f"{name} should be an array of text, not {seen(value)}")
        check_shape(value.shape, (self.letter,), name, sizes)
        if not all(isinstance(item, str) for item in value.tolist()):
            raise Unfit(f"{name} should hold text only")


def check_shape(
    shape: tuple[int, ...], wanted: tuple[str | int, ...], name: str, sizes: Sizes
) -> None:
    """The shape fits; letters that are met for the first time get their values. *: any."""
    known = [
        m if w == "*" else w if isinstance(w, int) else sizes.setdefault(w, m)
        for w, m in zip(wanted, shape, strict=False)
    ]
    if len(shape) != len(wanted) or list(shape) != known:
        raise Unfit(
            f"{name} has the shape {tuple(shape)}, which does not fit the rest of the model: "
            f"({', '.join(map(str, wanted))}) with {_values(sizes, wanted)}"
        )


def _values(sizes: Sizes, wanted: tuple[str | int, ...]) -> str:
    letters = [w for w in wanted if isinstance(w, str) and w != "*"]
    return ", ".join(f"{w} = {sizes.get(w, '?')}" for w in letters) or "these sizes"


def seen(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{value!r:.40}" if isinstance(value, int | float | str) else f"a {type(value).__name__}"
