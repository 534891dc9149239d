"""The words in which `schema` describes values: numbers, shapes, text and what is made of them.

Each word is a function that returns a check, `check(value, name, sizes)`, which raises `Unfit` for
a value that is none. `sizes` holds what the letters in shapes stand for, and learns those that are
met for the first time.
"""

from collections.abc import Callable
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import scipy.sparse as sp

from madbayes._rows.checks import is_spread

Sizes = dict[str, int]  # what the letters stand for in one model
Check = Callable[[Any, str, Sizes], None]


class Unfit(ValueError):
    """What is wrong with a value, in one sentence without its end."""


def numbers(
    kind: str,
    shape: tuple[str | int, ...] = (),
    low: float = -np.inf,
    high: float | str = np.inf,
    finite: bool = True,
) -> Check:
    """An array of numbers; with an empty shape one number.

    `kind` is "real", "whole" or "bool"; for arrays also the name of a type. `high` may be a letter:
    the numbers are below it.
    """
    one: Any = {"real": Real, "whole": Integral, "bool": (bool, np.bool_)}.get(kind)
    types = {"real": ("float32", "float64"), "whole": ("int32", "int64")}.get(kind, (kind,))

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if is_spread(value):  # labels of a Dask fit, which are saved as an array
            value = np.asarray(value)
        if shape:
            good = isinstance(value, np.ndarray) and str(value.dtype) in types
        else:
            good = isinstance(value, one) and (kind == "bool" or not isinstance(value, bool))
        if not good:
            what = "an array of numbers" if shape else "a number"
            raise Unfit(f"{name} should be {what} ({kind}), not {seen(value)}")
        values = np.asarray(value)
        check_shape(values.shape, shape, name, sizes)
        if kind == "real" and finite and not np.isfinite(values).all():
            raise Unfit(f"{name} should hold finite numbers only")
        most = sizes.get(high, 0) - 1 if isinstance(high, str) else high
        beyond_int64 = values.dtype == object
        if kind != "bool" and (beyond_int64 or (values < low).any() or (values > most).any()):
            raise Unfit(f"{name} should be from {low} to {most}")

    return check


def real(*shape: str | int, low: float = -np.inf) -> Check:
    return numbers("real", shape, low)


def any_real(*shape: str | int) -> Check:
    """Infinite or not a number, too: it is only shown."""
    return numbers("real", shape, finite=False)


def whole(*shape: str | int, low: float = 0, below: str | float = 2**62) -> Check:
    return numbers("whole", shape, low, below)


def flag(*shape: str | int) -> Check:
    return numbers("bool", shape)


def size(letter: str) -> Check:
    """The number that a letter stands for."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        whole()(value, name, sizes)
        check_shape((int(value),), (letter,), name, sizes)

    return check


def text(*known: str) -> Check:
    """A string, or one of some."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, str) or (known and value not in known):
            wanted = "one of " + ", ".join(known) if known else "text"
            raise Unfit(f"{name} should be {wanted}, not {seen(value)}")

    return check


def maybe(inner: Check) -> Check:
    """The same, or None."""
    return lambda value, name, sizes: None if value is None else inner(value, name, sizes)


def a(known: type) -> Check:
    """An object of a class from elsewhere."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, known):
            raise Unfit(f"{name} should be a {known.__name__}, not {seen(value)}")

    return check


def several(*inner: Check, any_number: bool = False) -> Check:
    """A tuple (or list): of these, or with one and `any_number` of as many as there are."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        a(tuple)(tuple(value) if isinstance(value, list) else value, name, sizes)
        items = inner * len(value) if any_number else inner
        if len(value) != len(items):
            raise Unfit(f"{name} should have {len(items)} entries, not {len(value)}")
        for i, (each, item) in enumerate(zip(items, value, strict=True)):
            each(item, f"{name}[{i}]", sizes)

    return check


def pairs(key: Check, value: Check) -> Check:
    """A dict from keys of one kind to values of another."""

    def check(table: Any, name: str, sizes: Sizes) -> None:
        a(dict)(table, name, sizes)
        for k, item in table.items():
            key(k, f"a key of {name}", sizes)
            value(item, f"{name}[{k!r}]", sizes)

    return check


def named(inner: dict[str, Check]) -> Check:
    """A dict with these keys."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, dict) or set(value) != set(inner):
            raise Unfit(f"{name} should hold {', '.join(inner)}")
        for key, each in inner.items():
            each(value[key], f"{name}[{key!r}]", sizes)

    return check


def table(*shape: str) -> Check:
    """Rows of numbers, dense or CSR (whose indices were checked when it was read)."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if sp.issparse(value):
            check_shape(value.shape, shape, name, sizes)
            value, inside = value.data, real("*")
        else:
            inside = real(*shape)
        inside(value, name, sizes)

    return check


def names(letter: str) -> Check:
    """An array of text, one for each."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "OU":
            raise Unfit(f"{name} should be an array of text, not {seen(value)}")
        check_shape(value.shape, (letter,), name, sizes)
        if not all(isinstance(item, str) for item in value.tolist()):
            raise Unfit(f"{name} should hold text only")

    return check


def of_type(hint: Any) -> Check:
    """The description of the values of an annotation: `tuple[int, ...]`, `float | None`, …"""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType and NoneType in inner:
        (kind,) = (kind for kind in inner if kind is not NoneType)
        return maybe(of_type(kind))
    if origin is Literal:
        return text(*inner)
    if origin in (tuple, list):
        any_number = origin is list or inner[-1] is ...
        return several(*(of_type(kind) for kind in inner if kind is not ...), any_number=any_number)
    if origin is dict:
        return pairs(*map(of_type, inner))
    plain = {int: whole(), float: any_real(), bool: flag(), str: text(), Any: a(object)}
    return plain.get(hint) or a(origin or hint)


def check_shape(
    shape: tuple[int, ...], wanted: tuple[str | int, ...], name: str, sizes: Sizes
) -> None:
    """The shape fits; letters that are met for the first time get their values. *: any."""
    known = [
        m if w == "*" else w if isinstance(w, int) else sizes.setdefault(w, m)
        for w, m in zip(wanted, shape, strict=False)
    ]
    if len(shape) != len(wanted) or list(shape) != known:
        letters = [w for w in wanted if isinstance(w, str) and w != "*"]
        values = ", ".join(f"{w} = {sizes.get(w, '?')}" for w in letters) or "these sizes"
        raise Unfit(
            f"{name} has the shape {tuple(shape)}, which does not fit the rest of the model: "
            f"({', '.join(map(str, wanted))}) with {values}"
        )


def seen(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return f"{value!r:.40}" if isinstance(value, int | float | str) else f"a {type(value).__name__}"
