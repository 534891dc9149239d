"""Fitted attributes as JSON and arrays, and back; no pickle.

A value becomes a tree of JSON whose leaves are numbers and strings, and arrays that the tree names
by their position. What JSON does not have is an object with a kind: ``{"$": "tuple", …}``. Parts of
this package (a `Choice`, a stream, a kernel) are kept as their attributes. Anything else raises: a
fitted attribute is never dropped in silence.

Back from a file, a class is one of those in `registry`, and each object passes `schema` before it
is handed on. Values of other libraries whose methods trust their own state (sparse matrices, random
generators) are checked here.
"""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator

from madbayes._rows.checks import is_spread
from madbayes._storage.registry import find_class
from madbayes._storage.schema import check
from madbayes._storage.values import Unfit


class Encoder:
    """Values into trees; the arrays collect in `arrays`, each once."""

    def __init__(self) -> None:
        self.arrays: list[np.ndarray] = []
        self._known: dict[int, int] = {}

    def encode(self, value: Any, name: str) -> Any:
        """`name` is what an error calls the value."""
        if value is None or (isinstance(value, (bool, str)) and not isinstance(value, np.generic)):
            return value
        if type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "text": repr(value)}
        if isinstance(value, (list, tuple, dict)):
            return self._container(value, name)
        if isinstance(value, (np.ndarray, np.generic)) or is_spread(value):
            return self._array(value, name)
        if sp.issparse(value) and value.format in ("csr", "csc"):
            names = "data", "indices", "indptr"
            parts = {part: self._array(getattr(value, part), name) for part in names}
            kind = "sparse" if isinstance(value, sp.sparray) else "spmatrix"
            return {"$": kind, "format": value.format, "shape": list(value.shape), **parts}
        if isinstance(value, np.dtype) and value.names is None and not value.hasobject:
            return {"$": "dtype", "text": value.str}
        if isinstance(value, cKDTree):  # built again from its points, which gives the same tree
            return {"$": "tree", "points": self._array(np.asarray(value.data), name)}
        if isinstance(value, np.random.RandomState):
            return {"$": "RandomState", "state": self.encode(value.get_state(legacy=False), name)}
        if isinstance(value, np.random.Generator):
            return {"$": "Generator", "state": self.encode(value.bit_generator.state, name)}
        if find_class(type(value).__name__) is type(value):
            return self._part(value, name)
        raise TypeError(_cannot(value, name))

    def _container(self, value: Any, name: str) -> Any:
        if type(value) is dict:
            items = [
                [self.encode(k, f"a key of {name}"), self.encode(v, f"{name}[{k!r}]")]
                for k, v in value.items()
            ]
            return {"$": "dict", "items": items}
        if type(value) not in (list, tuple):
            raise TypeError(_cannot(value, name))
        items = [self.encode(v, f"{name}[{i}]") for i, v in enumerate(value)]
        return items if type(value) is list else {"$": "tuple", "items": items}

    def _array(self, value: Any, name: str) -> Any:
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(_cannot(value, name))
        array = np.asarray(value)
        if array.dtype.hasobject:
            if array.dtype != object:
                raise TypeError(_cannot(value, name))
            items = [self.encode(v, name) for v in array.ravel().tolist()]
            return {"$": "objects", "shape": list(array.shape), "items": items}
        kind = "scalar" if isinstance(value, np.generic) else "array"
        if id(value) not in self._known:
            self._known[id(value)] = len(self.arrays)
            self.arrays.append(array)
        return {"$": kind, "number": self._known[id(value)]}

    def _part(self, value: Any, name: str) -> Any:
        tree: dict[str, Any] = {"class": type(value).__name__}
        if hasattr(value, "_finish_novelty"):
            value._finish_novelty()
        state = dict(vars(value))
        state.pop("_skl_callbacks", None)  # they belong to the process, not to the model
        if isinstance(value, BaseEstimator):
            # Attributes rather than get_params: what was set, even where a parameter is deep.
            names = value.get_params(deep=False)
            given = {key: self.encode(state.pop(key), f"{name}.{key}") for key in names}
            tree |= {"$": "estimator", "params": given}
        else:
            tree |= {"$": "part"}
        return tree | {"state": {k: self.encode(v, f"{name}.{k}") for k, v in state.items()}}


def decode(tree: Any, arrays: Sequence[np.ndarray]) -> Any:
    """The value that `Encoder.encode` made the tree of."""
    if isinstance(tree, list):
        return [decode(item, arrays) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$") not in DECODERS:
        raise Unfit(f"it holds a value of the unknown kind {tree.get('$')!r}")
    return DECODERS[tree["$"]](tree, lambda part: decode(part, arrays), arrays)


def _array(tree: Any, inner: Callable[[Any], Any], arrays: Sequence[np.ndarray]) -> Any:
    number = tree["number"]
    if type(number) is not int or not 0 <= number < len(arrays):
        raise Unfit(f"it names the array {number!r}, and there are {len(arrays)}")
    if tree["$"] == "array":
        return arrays[number]
    if arrays[number].shape:
        raise Unfit(f"it takes an array of shape {arrays[number].shape} for one number")
    return arrays[number][()]


def _dtype(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> np.dtype:
    if not re.fullmatch(r"[<>|=]?[biufU]\d{1,4}", tree["text"]):
        raise Unfit(f"it holds an unknown type {tree['text']!r:.40}")
    return np.dtype(tree["text"])


def _tree(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> cKDTree:
    points = inner(tree["points"])
    if not isinstance(points, np.ndarray) or points.ndim != 2 or points.dtype.kind != "f":
        raise Unfit("it holds a tree without points")
    return cKDTree(points)


def _objects(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> np.ndarray:
    flat = np.empty(len(tree["items"]), dtype=object)
    flat[:] = [inner(item) for item in tree["items"]]
    return flat.reshape(tree["shape"])


def _sparse(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    """Sums over such a matrix index by what it holds, so that has to be in range."""
    if tree["format"] not in ("csr", "csc"):
        raise Unfit(f"it holds a sparse matrix of the unknown format {tree['format']!r:.40}")
    data, indices, indptr = (inner(tree[part]) for part in ("data", "indices", "indptr"))
    shape = tuple(tree["shape"])
    rows, columns = shape if tree["format"] == "csr" else shape[::-1]
    for part in (indices, indptr):
        if not isinstance(part, np.ndarray) or part.dtype not in (np.int32, np.int64):
            raise Unfit("it holds a sparse matrix whose indices are no whole numbers")
    if not (
        isinstance(data, np.ndarray)
        and data.ndim == indices.ndim == indptr.ndim == 1
        and type(rows) is type(columns) is int
        and indptr.size == rows + 1 > 0
        and indptr[0] == 0
        and (np.diff(indptr) >= 0).all()
        and indptr[-1] == data.size == indices.size
        and (not indices.size or (indices.min() >= 0 and indices.max() < columns))
    ):
        raise Unfit("it holds a sparse matrix whose indices do not fit its shape")
    make = getattr(sp, f"{tree['format']}_{'array' if tree['$'] == 'sparse' else 'matrix'}")
    return make((data, indices, indptr), shape=shape)


def _random(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    """A generator reads its numbers at a position that it does not check itself."""
    state = inner(tree["state"])
    kinds = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
    if state["bit_generator"] not in kinds:
        raise Unfit(f"it holds an unknown generator {state['bit_generator']!r:.40}")
    for where, name, most in ((state["state"], "pos", 624), (state, "buffer_pos", 4)):
        if name in where and not 0 <= where[name] <= most:
            raise Unfit(f"it holds a generator at the position {where[name]!r:.40}")
    if tree["$"] == "RandomState":
        generator = np.random.RandomState()
        generator.set_state(state)
        return generator
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _series_back(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    import pandas as pd

    return pd.Series(inner(tree["values"]), index=inner(tree["index"]), name=inner(tree["name"]))


def _part_back(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    cls: Any = find_class(tree["class"])
    if cls is None:
        raise Unfit(f"it holds a {tree['class']!r:.40}, which this version does not have")
    if (tree["$"] == "estimator") != issubclass(cls, BaseEstimator):
        raise Unfit(f"it holds a {tree['class']} as what it is not")
    state = {key: inner(value) for key, value in tree["state"].items()}
    if tree["$"] == "estimator":
        value = cls(**{key: inner(part) for key, part in tree["params"].items()})
    else:
        value = cls.__new__(cls)
    value.__dict__.update(state)  # also where a dataclass is frozen
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):  # those that are newer than the file
            if field.name not in state and field.default is not dataclasses.MISSING:
                value.__dict__[field.name] = field.default
            elif field.name not in state and field.default_factory is not dataclasses.MISSING:
                value.__dict__[field.name] = field.default_factory()
    check(value)
    return value


DECODERS: dict[str, Callable[[Any, Callable[[Any], Any], Any], Any]] = {
    "float": lambda tree, inner, arrays: float(tree["text"]),
    "tuple": lambda tree, inner, arrays: tuple(inner(item) for item in tree["items"]),
    "dict": lambda tree, inner, arrays: {inner(k): inner(v) for k, v in tree["items"]},
    "array": _array,
    "scalar": _array,
    "dtype": _dtype,
    "tree": _tree,
    "objects": _objects,
    "sparse": _sparse,
    "spmatrix": _sparse,
    "RandomState": _random,
    "Generator": _random,
    "series": _series_back,
    "part": _part_back,
    "estimator": _part_back,
}


def _cannot(value: Any, name: str) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if callable(value):
        return (
            f"{name} is a function ({kind}), and a saved model holds no code. Use a metric or "
            "kernel by its name, or 'precomputed'."
        )
    return (
        f"{name} is a {kind}, which a saved model cannot hold: numbers, strings, arrays, sparse "
        "matrices, random generators and lists or dicts of them can be saved."
    )
