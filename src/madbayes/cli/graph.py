"""`madbayes graph`: a list of edges into communities, written and shown."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import scipy.sparse as sp

from madbayes.cli.fit import fitted
from madbayes.cli.options import EdgeReading, Output
from madbayes.cli.prepare import resolve
from madbayes.cli.results import Answer
from madbayes.cli.run import Voice, deliver
from madbayes.cli.show import count
from madbayes.cli.write import check_folder
from madbayes.tables.errors import UserError
from madbayes.tables.formats import called, given, read
from madbayes.tables.frame import Frame

HEADINGS = {
    *("source", "target", "from", "to", "src", "dst", "u", "v", "i", "j", "a", "b", "x", "y"),
    *("node", "node1", "node2", "start", "end", "head", "tail", "id1", "id2", "left", "right"),
    *("weight", "w", "value", "count", "from_id", "to_id", "source_id", "target_id"),
}


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

    frame = read(path, header=None if header else False, comments=True, headed=_has_header)
    frame = _without_data(frame)
    ends, weights, notes = _columns(frame, source, target, weight)
    if source is None and target is None and not _are_headings([frame.names[j] for j in ends]):
        _no_measurements(frame, ends, path)
    u, v = (_nodes(frame, j) for j in ends)
    if u.dtype.kind != v.dtype.kind:
        u, v = u.astype(str), v.astype(str)
    nodes, places = np.unique(np.concatenate([u, v]), return_inverse=True)
    i, j = places[: u.size], places[u.size :]
    names = [frame.names[column] for column in ends]
    if header and u.dtype.kind == "U" and np.isin(names, nodes).any():
        if source is None and target is None and not _are_headings(names):
            again = read_edges(path, weight=weight, header=False)
            note = (
                f"the first line, {names[0]} and {names[1]}, was read as an edge: these are nodes"
            )
            return replace(again, notes=(note, *again.notes))
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


def _are_headings(cells: Sequence[str]) -> bool:
    return all(cell.strip(" #").lower() in HEADINGS for cell in cells)


def _has_header(records: list[list[str]], delimiter: str) -> bool:
    """Whether the first record names the columns, or is an edge already."""
    first = records[0][:2]
    below = {cell for record in records[1:] for cell in record[:2]}
    if below.intersection(first):
        return False
    if delimiter == " ":  # such lists rarely have a header
        return _are_headings(first) and all(len(cell) > 1 for cell in first)
    return not re.fullmatch(r"[-+]?\d+(\.\d+)?", first[0].strip())


def _without_data(frame: Frame) -> Frame:
    """What networkx writes behind an edge, {'weight': 2.0}: the weight, if that is all."""
    j = len(frame.names) - 1
    if not isinstance(frame.columns, pa.Table) or j < 2 or not pa.types.is_string(frame.type(j)):
        return frame
    cells = frame.column(j)
    if not pc.all(pc.match_substring_regex(cells, r"^\{.*\}$")).as_py():
        return frame
    weights = pc.extract_regex(cells, r"[\"']weight[\"']: *(?P<w>[-+0-9.eE]+)")
    found = pc.struct_field(weights, "w")
    names, table = frame.names[:j], frame.columns.remove_column(j)
    if found.null_count == 0:
        names, table = (*names, "weight"), table.append_column("weight", found.cast(pa.float64()))
    return Frame(names, table, frame.notes, frame.sheet_row)


def _columns(
    frame: Frame, source: str | None, target: str | None, weight: str | None
) -> tuple[Sequence[int], int | None, list[str]]:
    """The columns of the two ends and of the weight: those named, else the first ones."""
    notes = list(frame.notes)
    named = [
        None if name is None else resolve(frame, [name], option)[0]
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
    if weights is None and len(rest) == 1 and _numbers(frame, rest[0]) is not None:
        weights = rest.pop(0)
        notes.append(f"column {frame.names[weights]} was read as the weight of the edges")
    if rest:
        left_out = ", ".join(frame.names[j] for j in rest)
        notes.append(f"left out {left_out}: --weight NAME uses a column as the weight of the edges")
    return ends, weights, notes


def _numbers(frame: Frame, j: int) -> np.ndarray | None:
    """The column as numbers, NaN where one is missing; None of text."""
    if isinstance(frame.columns, np.ndarray):
        return np.asarray(frame.columns[:, j])
    column = frame.column(j)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return np.asarray(column.to_numpy())
    return None


def _no_measurements(frame: Frame, ends: Sequence[int], path: Path) -> None:
    """Refuse a table of measurements: nodes have names or whole numbers, not 14.23."""
    for j in ends:
        values = _numbers(frame, j)
        if values is None:
            continue
        odd = values[np.isfinite(values) & (values != np.round(values))]
        if odd.size:
            raise UserError(
                f"{path} is no list of edges: column {frame.names[j]} holds numbers such as "
                f"{odd[0]:g}, and the first two columns should hold the ends of an edge. "
                f"--source and --target name other columns; madbayes cluster {path} finds the "
                "clusters of a table."
            )


def _nodes(frame: Frame, j: int) -> np.ndarray:
    """Whole numbers, or else text."""
    values = _numbers(frame, j)
    if values is None:
        text = frame.column(j).cast(pa.string()).fill_null("")
        values = np.array(text.to_pylist(), dtype=str)
        missing = values == ""
    else:
        missing = ~np.isfinite(values)
    if missing.any():
        where = frame.where(int(np.flatnonzero(missing)[0])).capitalize()
        raise UserError(
            f"{where} has no node in column {frame.names[j]} ({missing.sum()} of {len(missing)} "
            "rows are like this). An edge needs two ends: fill the cell in, or leave the row out."
        )
    if values.dtype.kind == "f" and (values != np.round(values)).any():
        return values.astype(str)
    return values if values.dtype.kind == "U" else values.astype(np.int64)


def _weights(frame: Frame, j: int) -> np.ndarray:
    name, values = frame.names[j], _numbers(frame, j)
    if values is None:
        raise UserError(f"Column {name} cannot be the weight of the edges: it is not all numbers.")
    values = values.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if bad.size:
        raise UserError(
            f"The weight in {frame.where(int(bad[0]))}, column {name} is {values[bad[0]]:g}. "
            "Weights should be numbers >= 0; 0 is no edge."
        )
    return values


def communities(
    reading: EdgeReading, output: Output, resolution: float | str, cut: str, seed: int
) -> None:
    """The whole of `madbayes graph`."""
    voice, name = Voice(output), called([reading.file])
    check_folder(output.out, output.force, name)
    with given([reading.file]) as files, voice.status(f"reading {name}"):
        edges = read_edges(
            files[0],
            source=reading.source,
            target=reading.target,
            weight=reading.weights,
            header=not reading.no_header,
        )
    voice.notes(edges.notes)
    doing = f"cutting a graph of {count(edges.n_edges, 'edge')}"
    fit = lambda _: fit_graph(edges, resolution, cut, seed)  # noqa: E731
    deliver(voice, "graph", name, output, list(edges.notes), doing, fit)


def fit_graph(edges: Edges, resolution: float | str, cut: str, seed: int) -> Answer:
    """The communities at this resolution, or at the one that the graph supports."""
    from madbayes import GraphCut, report

    model, notes = fitted(GraphCut(resolution, cut=cut, random_state=seed), edges.adjacency)
    labels = np.asarray(model.labels_)
    sizes = np.bincount(labels[labels >= 0], minlength=model.n_clusters_)
    cost = "conductance" if cut == "normalized" else "cut per node"
    costs = np.asarray(model.conductance_).tolist()
    nodes = edges.nodes.tolist()
    answer = Answer(
        model,
        labels,
        number=int(model.n_clusters_),
        sizes=sizes,
        penalty=float(model.resolution_),
        penalty_from="chosen from the data" if resolution == "auto" else "given",
        penalty_name="resolution",
        objective=float(model.objective_),
        objective_is=f"{cost} - resolution × clusters",
        per_cluster={cost: costs},
        about={"n_rows": len(nodes), "n_edges": edges.n_edges},
        notes=notes,
        found_in=f"in {count(len(nodes), 'node')} and {count(edges.n_edges, 'edge')}",
        ids=("node", nodes),
        report=partial(report, model, edges.adjacency, ids=nodes, id_name="node"),
        save=model.save,
    )
    lines = ([k, *line] for k, line in enumerate(zip(sizes.tolist(), costs, strict=True)))
    answer.tables["clusters.csv"] = ["cluster", "size", "conductance"], lines
    if answer.evidence is None and answer.path is not None:
        answer.facts["evidence"] = answer.path.best().describe()
    return answer
