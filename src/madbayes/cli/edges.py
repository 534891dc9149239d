"""A list of edges into a graph: which columns are its ends, what the nodes are called."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from madbayes.cli.errors import UserError
from madbayes.cli.formats import Frame, read, read_text
from madbayes.cli.select import _resolve


@dataclass(frozen=True)
class Edges:
    """The graph, and the name of each node as it stands in the file."""

    nodes: np.ndarray
    adjacency: sp.csr_array
    n_edges: int
    notes: tuple[str, ...]


def read_edges(
    path: Path,
    *,
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    header: bool = True,
) -> Edges:
    """One edge a row: two nodes and, perhaps, a weight. Edges that occur again add up."""
    from madbayes.graph.input import from_edges

    frame = read(path, text=partial(read_text, spaces=True, header=None if header else False))
    ends, weights, notes = _columns(frame, source, target, weight)
    u, v = (_nodes(frame, j) for j in ends)
    if u.dtype.kind != v.dtype.kind:
        u, v = u.astype(str), v.astype(str)
    nodes, places = np.unique(np.concatenate([u, v]), return_inverse=True)
    i, j = places[: u.size], places[u.size :]
    names = [frame.names[column] for column in ends]
    if u.dtype.kind == "U" and np.isin(names, nodes).all():
        notes.append(
            f"the first line, {names[0]} and {names[1]}, was read as column names, although these "
            "are nodes too; --no-header reads it as an edge"
        )
    values = np.ones(u.size) if weights is None else _weights(frame, weights)
    adjacency = from_edges(i, j, values, nodes.size)
    adjacency.eliminate_zeros()
    n_edges = (adjacency.nnz + int((adjacency.diagonal() > 0).sum())) // 2
    if repeated := u.size - n_edges - int((values == 0).sum()):
        notes.append(
            f"{repeated} of {u.size} edges occur again, or in the other direction: their weights "
            "were added up"
        )
    return Edges(nodes, adjacency, n_edges, tuple(notes))


def _columns(
    frame: Frame, source: str | None, target: str | None, weight: str | None
) -> tuple[Sequence[int], int | None, list[str]]:
    """The columns of the two ends and of the weight: those named, else the first ones."""
    notes = list(frame.notes)
    named = [
        None if name is None else _resolve(frame, [name], option)[0]
        for name, option in ((source, "--source"), (target, "--target"), (weight, "--weight"))
    ]
    rest = [j for j in range(len(frame.names)) if j not in named]
    ends = []
    for end in named[:2]:
        if end is None and not rest:
            raise UserError(
                f"An edge has two ends, and there is only one column ({frame.names[0]}). "
                "Give one edge a row: two nodes and, perhaps, a weight."
            )
        ends.append(rest.pop(0) if end is None else end)
    if ends[0] == ends[1]:
        raise UserError(f"--source and --target are both {frame.names[ends[0]]}: give two columns.")
    weights = named[2]
    if weights is None and len(rest) == 1 and _is_number(frame, rest[0]):
        weights = rest.pop(0)
        notes.append(f"column {frame.names[weights]} was read as the weight of the edges")
    if rest:
        left_out = ", ".join(frame.names[j] for j in rest)
        notes.append(f"left out {left_out}: --weight NAME uses a column as the weight of the edges")
    return ends, weights, notes


def _is_number(frame: Frame, j: int) -> bool:
    if isinstance(frame.columns, np.ndarray):
        return True
    kind = frame.columns.schema.types[j]
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _nodes(frame: Frame, j: int) -> np.ndarray:
    """Whole numbers, or else text."""
    if isinstance(frame.columns, np.ndarray):
        values = np.asarray(frame.columns[:, j])
    else:
        column = frame.columns.column(j)
        number = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
        if not number:
            column = column.cast(pa.string())
        missing = column.is_null().to_numpy() | (not number and pc.equal(column, "").to_numpy())
        if missing.any():
            row = int(np.flatnonzero(missing)[0]) + 1
            raise UserError(f"Row {row} has no node in column {frame.names[j]}.")
        if not number:
            return np.array(column.to_pylist(), dtype=str)
        values = column.to_numpy()
    if values.dtype.kind == "f":
        whole = values.astype(np.int64)
        return whole if (whole == values).all() else values.astype(str)
    return values.astype(np.int64)


def _weights(frame: Frame, j: int) -> np.ndarray:
    name = frame.names[j]
    if not _is_number(frame, j):
        raise UserError(f"Column {name} cannot be the weight of the edges: it is not all numbers.")
    column = frame.columns
    if isinstance(column, np.ndarray):
        values = np.asarray(column[:, j], dtype=np.float64)
    else:
        values = column.column(j).cast(pa.float64()).to_numpy()
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise UserError(
            f"The weight in row {bad[0] + 1}, column {name} is {values[bad[0]]:g}. Weights should "
            "be numbers >= 0; 0 is no edge."
        )
    return values
