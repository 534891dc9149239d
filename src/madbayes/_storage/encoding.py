"""Fitted attributes as JSON and arrays, and back; no pickle.

A value becomes a tree of JSON whose leaves are numbers and strings, and arrays that the tree names
by their position. What JSON does not have is an object with a kind: ``{"$": "tuple", …}``. Parts of
this package (a `Choice`, a stream, a kernel) are kept as their attributes. Anything else raises: a
fitted attribute is never dropped in silence.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from sklearn.base import BaseEstimator

from madbayes._rows.checks import is_spread

PACKAGE = "madbayes"
SPARSE = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr")}


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
        if sp.issparse(value) and value.format in SPARSE:
            parts = {part: self._array(getattr(value, part), name) for part in SPARSE[value.format]}
            kind = "sparse" if isinstance(value, sp.sparray) else "spmatrix"
            return {"$": kind, "format": value.format, "shape": list(value.shape), **parts}
        if isinstance(value, np.dtype) and value.names is None and not value.hasobject:
            return {"$": "dtype", "text": value.str}
        if isinstance(value, cKDTree):  # built again from its points, which gives the same tree
            return {"$": "tree", "points": self._array(np.asarray(value.data), name)}
        if isinstance(value, (np.random.RandomState, np.random.Generator)):
            return self._generator(value, name)
        if type(value).__module__.startswith("pandas.") and hasattr(value, "to_frame"):
            return self._series(value, name)
        if _of_package(type(value)) and not isinstance(value, type) and hasattr(value, "__dict__"):
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

    def _generator(self, value: Any, name: str) -> Any:
        if isinstance(value, np.random.RandomState):
            state = value.get_state(legacy=False)
            return {"$": "RandomState", "state": self.encode(state, name)}
        state = value.bit_generator.state
        return {"$": "Generator", "state": self.encode(state, name)}

    def _series(self, value: Any, name: str) -> Any:
        index, values = value.index.to_numpy(), value.to_numpy()
        parts = {"index": self._array(index, name), "values": self._array(values, name)}
        return {"$": "series", **parts, "name": self.encode(value.name, name)}

    def _part(self, value: Any, name: str) -> Any:
        cls = type(value)
        if find_class(cls.__name__, cls.__module__) is not cls:
            raise TypeError(_cannot(value, name))
        tree = {"class": cls.__name__, "module": cls.__module__.removeprefix(PACKAGE + ".")}
        state = dict(vars(value))
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
    return DECODERS[tree["$"]](tree, lambda part: decode(part, arrays), arrays)


def _objects(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> np.ndarray:
    flat = np.empty(len(tree["items"]), dtype=object)
    flat[:] = [inner(item) for item in tree["items"]]
    return flat.reshape(tree["shape"])


def _sparse(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    make = getattr(sp, f"{tree['format']}_{'array' if tree['$'] == 'sparse' else 'matrix'}")
    parts = tuple(inner(tree[part]) for part in SPARSE[tree["format"]])
    return make(parts, shape=tuple(tree["shape"]))


def _random(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    state = inner(tree["state"])
    if tree["$"] == "RandomState":
        generator = np.random.RandomState()
        generator.set_state(state)
        return generator
    kinds = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
    if state["bit_generator"] not in kinds:
        raise ValueError(f"it holds an unknown generator {state['bit_generator']!r}")
    bits = getattr(np.random, state["bit_generator"])()
    bits.state = state
    return np.random.Generator(bits)


def _series_back(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    import pandas as pd

    return pd.Series(inner(tree["values"]), index=inner(tree["index"]), name=inner(tree["name"]))


def _part_back(tree: Any, inner: Callable[[Any], Any], arrays: Any) -> Any:
    cls = find_class(tree["class"], f"{PACKAGE}.{tree['module']}")
    if cls is None:
        raise ValueError(f"it holds a {tree['class']}, which this version does not have")
    state = {key: inner(value) for key, value in tree["state"].items()}
    if tree["$"] == "estimator":
        if not issubclass(cls, BaseEstimator):
            raise ValueError(f"{tree['class']} is not an estimator")
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
    return value


DECODERS: dict[str, Callable[[Any, Callable[[Any], Any], Any], Any]] = {
    "float": lambda tree, inner, arrays: float(tree["text"]),
    "tuple": lambda tree, inner, arrays: tuple(inner(item) for item in tree["items"]),
    "dict": lambda tree, inner, arrays: {inner(k): inner(v) for k, v in tree["items"]},
    "array": lambda tree, inner, arrays: arrays[tree["number"]],
    "scalar": lambda tree, inner, arrays: arrays[tree["number"]][()],
    "dtype": lambda tree, inner, arrays: np.dtype(tree["text"]),
    "tree": lambda tree, inner, arrays: cKDTree(inner(tree["points"])),
    "objects": _objects,
    "sparse": _sparse,
    "spmatrix": _sparse,
    "RandomState": _random,
    "Generator": _random,
    "series": _series_back,
    "part": _part_back,
    "estimator": _part_back,
}


def find_class(name: str, module: str) -> Any:
    """A class of this package by name: where it was, or where it has moved to since."""
    if not module.startswith(PACKAGE + "."):
        return None
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        found = None
    if isinstance(found, type) and _of_package(found):
        return found
    for family in ("cluster", "multi", "features", "graph", "gibbs", "penalties"):
        try:
            import_module(f"{PACKAGE}.{family}")
        except ModuleNotFoundError:
            continue
    homes = [m for key, m in sys.modules.items() if key.startswith(PACKAGE + ".")]
    classes = {cls for m in homes if isinstance(cls := vars(m).get(name), type)}
    own = {cls for cls in classes if _of_package(cls)}
    return own.pop() if len(own) == 1 else None


def _of_package(cls: type) -> bool:
    return cls.__module__.startswith(PACKAGE + ".")


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
