"""Models with centres as ONNX graphs, to label rows where no Python is.

The graph has the input "X" (rows) and the outputs "label" (the cluster with the nearest centre) and
"novelty" (`novelty_score`: the share of rows like those of the fit that are as far out; compare it
with a rate such as 0.001). It has six steps:

1. rows at length 1 (`metric="cosine"` only), minus the mean of the centres;
2. x·c - ‖c‖²/2 for all centres c, whose largest is the nearest centre (ties: the lowest label);
3. the distance r to that centre;
4. the normal score of r in the table of the cluster, linear between its quantiles;
5. the share beyond it, (1 - erf(z/√2))/2;
6. rows nearest to an exceptional cluster of a few rows: the larger of that and the share of the
   nearest other cluster, as in `novelty_score`.

**Precision.** With float32 two centres are told apart if the squared distances of a row to them
differ by more than 2⁻²¹·d·(‖x‖ + ‖c‖)², lengths measured from the mean of the centres and d the
number of columns; nearer ties may be decided otherwise than by `predict`. Shares are right to
within 0.0001. With ``dtype="float64"`` the labels have the bound of float64, 2⁻⁵⁰ in place of 2⁻²¹.
"""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from madbayes._model.centers import CentersMixin
from madbayes._partition.novelty import LEVELS
from madbayes._rows.checks import check_choice

__all__ = ["convert"]

OPSET, IR_VERSION = 17, 8  # of 2022, so that older runtimes read the file
FLOAT = 1  # float32, as ONNX numbers its types


def convert(model: Any, *, dtype: str = "float32") -> Any:
    """An ONNX graph that labels rows as a fitted model does.

    Parameters
    ----------
    model : fitted KMeans, DPMeans, CollapsedDPMeans, OnlineKMeans, OnlineDPMeans or HardHDP
        Or an `AutoCluster` that chose round clusters. `HardHDP`: for rows of no known group.
    dtype : {"float32", "float64"}, default="float32"
        The type of the rows, and of their distances.

    Returns
    -------
    onnx.ModelProto
        ``onnx.save(convert(model), "model.onnx")`` writes it. Input "X" of shape (n, n_features),
        outputs "label" (int64) and "novelty" (float32 p-values).

    Examples
    --------
    ``onnxruntime.InferenceSession(convert(model).SerializeToString()).run(None, {"X": rows})``
    """
    try:
        import onnx
        from onnx import TensorProto, helper, numpy_helper
    except ImportError as error:
        raise ImportError("convert needs the package onnx: pip install onnx") from error
    check_choice("dtype", dtype, "float32", "float64")
    check_is_fitted(model)
    model = getattr(model, "model_", model)
    if not isinstance(model, CentersMixin) or type(model)._gaps is not CentersMixin._gaps:
        raise TypeError(
            f"{type(model).__name__} has no centres whose nearest is the label. ONNX graphs can be "
            "made of KMeans, DPMeans, CollapsedDPMeans, OnlineKMeans, OnlineDPMeans and HardHDP."
        )
    graph = _Graph(np.dtype(dtype))
    _write(graph, model)
    kind = TensorProto.FLOAT if dtype == "float32" else TensorProto.DOUBLE
    d = int(model.n_features_in_)
    made = helper.make_graph(
        [helper.make_node(op, a, [out], **how) for op, a, out, how in graph.nodes],
        type(model).__name__,
        [helper.make_tensor_value_info("X", kind, ["n", d])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, ["n"]),
            helper.make_tensor_value_info("novelty", FLOAT, ["n"]),
        ],
        [numpy_helper.from_array(value, name) for name, value in graph.constants.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    whole = helper.make_model(made, opset_imports=opsets, producer_name="madbayes")
    whole.ir_version = IR_VERSION
    onnx.checker.check_model(whole)
    return whole


class _Graph:
    """Nodes and constants of a graph; values are known by their names."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.nodes: list[tuple[str, list[str], str, dict[str, Any]]] = []
        self.constants: dict[str, np.ndarray] = {}

    def constant(self, value: Any, dtype: Any = None) -> str:
        name = f"c{len(self.constants)}"
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        if dtype.kind == "f":
            value = np.clip(value, np.finfo(dtype).min, np.finfo(dtype).max)
        self.constants[name] = np.ascontiguousarray(value, dtype=dtype)
        return name

    def __call__(self, op: str, *inputs: Any, out: str | None = None, **how: Any) -> str:
        """The name of a new node's result; numbers among the inputs become constants."""
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        out = out or f"v{len(self.nodes)}"
        self.nodes.append((op, names, out, how))
        return out


def _write(g: _Graph, model: Any) -> None:
    """Steps 1 to 6."""
    centers = model._exact_centers()
    table, few = model._novelty_table()
    middle = centers.mean(axis=0)
    shifted = centers - middle
    last = g.constant([1], np.int64)
    rows = "X"
    if model._unit:
        square = g("ReduceSum", g("Mul", rows, rows), last, keepdims=1)
        length = g("Max", g("Sqrt", square), np.finfo(g.dtype).tiny)
        rows = g("Div", rows, length)
    rows = g("Sub", rows, middle)  # 1.
    points = g.constant(shifted)
    products = g("MatMul", rows, np.ascontiguousarray(shifted.T))
    closeness = g("Sub", products, (shifted**2).sum(axis=1) / 2)  # 2.
    place = g("ArgMax", closeness, axis=1, keepdims=0)
    quantiles = np.minimum(table, float(np.finfo(g.dtype).max) / 4)
    starts = g.constant(quantiles[:, :-1])
    gaps = g.constant(np.maximum(np.diff(quantiles, axis=1), np.finfo(g.dtype).tiny))

    def share(place: str) -> str:
        """3. to 5."""
        apart = g("Sub", rows, g("Gather", points, place, axis=0))
        r = g("Sqrt", g("ReduceSum", g("Mul", apart, apart), last, keepdims=1))
        beyond = g("Div", g("Sub", r, g("Gather", starts, place)), g("Gather", gaps, place))
        part = g("Min", g("Max", beyond, 0.0), 1.0)
        rise = g("ReduceSum", g("Mul", part, np.diff(LEVELS)), last, keepdims=0)
        score = g("Mul", g("Add", rise, LEVELS[0]), np.sqrt(0.5))
        erf = g("Erf", g("Cast", score, to=FLOAT))  # runtimes have no Erf of float64
        return g("Mul", g("Sub", g.constant(1.0, np.float32), erf), g.constant(0.5, np.float32))

    p = share(place)
    if few.any() and not few.all():  # 6.
        masked = g("Add", closeness, np.where(few, np.finfo(g.dtype).min / 2, 0.0))
        larger = g("Max", p, share(g("ArgMax", masked, axis=1, keepdims=0)))
        lonely = g("Gather", g.constant(few, np.bool_), place)
        p = g("Where", lonely, larger, p)
    g("Identity", p, out="novelty")
    names = getattr(model, "cluster_ids_", None)
    if names is None:
        g("Identity", place, out="label")
    else:
        g("Gather", g.constant(names, np.int64), place, out="label")
