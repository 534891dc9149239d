"""What sets clusters apart, which rows are typical, and what the script of the page reads."""

import base64
import itertools
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from madbayes._partition.lloyd import nearest
from madbayes._rows.threads import workers
from madbayes.plots._palette import COLORS, SHAPES
from madbayes.plots._rows import project
from madbayes.reports.network import network
from madbayes.reports.rows_shown import Seen

MOST_COLUMNS = 24  # that the explorer can show
MOST_GROUPS = 60  # clusters at a position of the slider
TOP = 6  # columns listed for a cluster


def spread(values: np.ndarray) -> np.ndarray:
    """Standard deviations; 1 for constant columns, whose differences are 0 anyway."""
    deviation = values.std(axis=0)
    return np.where(deviation > 0, deviation, 1.0)


def apart(seen: Seen, label: int) -> list[dict[str, Any]]:
    """The columns by which a cluster differs most from the other rows, in standard deviations."""
    values, labels = seen.values, seen.labels[seen.counted]
    inside, outside = values[labels == label], values[labels != label]
    if not len(inside) or not values.shape[1]:
        return []
    mean = inside.mean(axis=0)
    rest = outside.mean(axis=0) if len(outside) else mean
    effect = (mean - rest) / spread(values)
    out = []
    for j in np.argsort(-np.abs(effect), kind="stable")[:TOP]:
        low, high = np.quantile(values[:, j], [0.005, 0.995])
        edges = np.linspace(low, high if high > low else low + 1, 14 + 1)
        shares = [
            np.histogram(np.clip(part[:, j], edges[0], edges[-1]), edges)[0] / max(len(part), 1)
            for part in (inside, outside)
        ]
        out.append(
            {
                "name": seen.names[j],
                "mean": float(mean[j]),
                "rest": float(rest[j]),
                "effect": float(effect[j]),
                "low": float(low),
                "high": float(high),
                "inside": shares[0],
                "outside": shares[1],
            }
        )
    return out


def extremes(seen: Seen, label: int, most: int = 3) -> tuple[list[int], list[int]]:
    """Rows (positions among those counted) nearest to the middle of a cluster and farthest."""
    rows = np.flatnonzero(seen.labels[seen.counted] == label)
    if not rows.size or not seen.X.shape[1]:
        return [], []
    X = seen.X[rows]
    far = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    order = np.argsort(far, kind="stable")
    odd = [i for i in rows[order[::-1][:most]].tolist() if rows.size > most]
    return rows[order[:most]].tolist(), odd


def flat_map(seen: Seen) -> tuple[np.ndarray, tuple[str, str]]:
    """The drawn rows in the plane, and what its axes are."""
    rows = seen.values if seen.values.shape[1] <= 2 else seen.X  # few columns as in the file
    names = seen.names if rows.shape[1] == len(seen.names) else ()
    points, _, axes = project(rows[seen.drawn], rows[:0], names)
    return points, axes


def explorer(seen: Seen) -> dict[str, Any]:
    """All that the page's script needs: rows on the map, columns, and the steps of the slider."""
    drawn = seen.labels[seen.counted][seen.drawn]
    out: dict[str, Any] = {
        "of": seen.of,
        "n": seen.n,
        "drawn": len(drawn),
        "idName": seen.id_name,
        "ids": [_cell(seen.ids[i]) for i in seen.counted[seen.drawn].tolist()],
        "colors": list(COLORS),
        "shapes": list(SHAPES),
    }
    if seen.graph is not None:
        points, ends = network(seen.graph, seen.labels, seen.counted[seen.drawn])
        out["map"] = {"x": _packed(points[:, 0]), "y": _packed(points[:, 1]), "axes": ["", ""]}
        out["edges"] = _base64(ends.astype("<u4"))
    elif seen.X.shape[1]:
        points, axes = flat_map(seen)
        out["map"] = {"x": _packed(points[:, 0]), "y": _packed(points[:, 1]), "axes": axes}
        chosen = _worth_showing(seen)
        out["columns"] = [
            {"name": seen.names[j], **_packed(seen.values[seen.drawn, j])} for j in chosen
        ]
    return out | _steps(seen, drawn)


def _worth_showing(seen: Seen) -> list[int]:
    """The columns by which the clusters differ most, in the order of the file."""
    labels = seen.labels[seen.counted]
    between = np.zeros(seen.values.shape[1])
    for label in range(min(seen.number, MOST_GROUPS)):
        rows = labels == label
        if rows.any():
            gap = seen.values[rows].mean(axis=0) - seen.values.mean(axis=0)
            between += rows.mean() * (gap / spread(seen.values)) ** 2
    return sorted(np.argsort(-between, kind="stable")[:MOST_COLUMNS].tolist())


def _steps(seen: Seen, drawn: np.ndarray) -> dict[str, Any]:
    """The divisions that the slider goes through, from few to many clusters.

    Rows that no division tells apart are one atom, and a step says which atoms make up which
    cluster.
    """
    ranges: dict[int, tuple[float, float]] = {}
    path = getattr(seen.model, "path_", None) if seen.of != "feature" else None
    divisions: dict[int, np.ndarray] = {}
    if path is not None:
        for i, labels in _divisions(seen, path).items():
            number = int(path.number[i])
            if number <= MOST_GROUPS:
                divisions.setdefault(number, labels)
                ranges[number] = (float(path.price_low[i]), float(path.price_high[i]))
    layers = _layers(seen)
    divisions |= {number: labels for number, labels in layers.items() if number <= MOST_GROUPS}
    divisions[seen.number] = drawn
    near = sorted(
        divisions, key=lambda k: (k != seen.number, k not in layers, abs(k - seen.number))
    )
    numbers = sorted(near[:48])
    chosen = numbers.index(seen.number)
    table = np.column_stack([divisions[k] for k in numbers])
    atoms, which = np.unique(table, axis=0, return_inverse=True)
    counts = np.bincount(which.ravel(), minlength=len(atoms))
    colors = _colors(atoms, counts, chosen)
    steps = []
    for s, k in enumerate(numbers):
        step = {"k": k, "clusters": _base64(atoms[:, s].astype("<i2")), "colors": colors[s]}
        if k in ranges and hasattr(winner(seen.model), "penalty_"):
            step["low"], step["high"] = (_finite(v) for v in ranges[k])
        step["layer"] = k in layers
        steps.append(step)
    return {
        "atoms": _base64(which.ravel().astype("<u2" if len(atoms) < 65536 else "<u4")),
        "wide": len(atoms) >= 65536,
        "chosen": chosen,
        "sizes": seen.sizes.tolist(),
        "steps": steps,
    }


def _layers(seen: Seen) -> dict[int, np.ndarray]:
    """The divisions of the drawn rows that the evidence supports, by their number of clusters."""
    rows, out = seen.counted[seen.drawn], {}
    for labels in getattr(seen.model, "cluster_layers_", ()) if seen.of != "feature" else ():
        if len(labels) == seen.n:
            out[int(np.max(labels)) + 1] = np.asarray(labels)[rows]
    return out


def winner(model: Any) -> Any:
    """The estimator that `AutoCluster` chose; any other model is its own."""
    return getattr(model, "model_", model)


def price_of(model: Any) -> float:
    """Where on its path a model stands."""
    return float(getattr(winner(model), "penalty_", model.path_.best().price))


def price_name(model: Any) -> tuple[str, str]:
    """What the scale of a path is called, and what it means."""
    if hasattr(winner(model), "penalty_"):
        what = "feature" if hasattr(model, "components_") else "cluster"
        return "penalty λ", f"what one more {what} costs"
    if model.path_.of == "community":
        return "resolution", "what each community earns"
    return "threshold", "how far clusters must stand apart"


def _divisions(seen: Seen, path: Any) -> dict[int, np.ndarray]:
    """Labels of the drawn rows at the steps of a path, by step."""
    if path.centers is not None:
        X = np.ascontiguousarray(seen.X[seen.drawn])
        same = {i: c for i, c in enumerate(path.centers) if c.shape[1] == X.shape[1]}
        with workers(None):
            return {i: nearest(X, centers, unit=path.unit) for i, centers in same.items()}
    if path.labels is not None and all(len(labels) == seen.n for labels in path.labels):
        rows = seen.counted[seen.drawn]
        return {i: np.asarray(labels)[rows] for i, labels in enumerate(path.labels)}
    return {}


def _colors(atoms: np.ndarray, counts: np.ndarray, chosen: int) -> list[list[int]]:
    """A colour for each cluster of each step; from step to step most rows keep theirs."""
    n_steps = atoms.shape[1]
    colors: list[list[int]] = [[] for _ in range(n_steps)]
    colors[chosen] = list(range(int(atoms[:, chosen].max(initial=0)) + 1))
    for s in [*range(chosen - 1, -1, -1), *range(chosen + 1, n_steps)]:
        near = s + 1 if s < chosen else s - 1
        k = int(atoms[:, s].max(initial=0)) + 1
        shared = np.zeros((k, max(len(colors[near]), 1)))
        both = (atoms[:, s] >= 0) & (atoms[:, near] >= 0)
        np.add.at(shared, (atoms[both, s], atoms[both, near]), counts[both])
        pairs = zip(*linear_sum_assignment(-shared), strict=True)
        kept = {int(a): colors[near][b] for a, b in pairs if shared[a, b] > 0}
        free = (color for color in itertools.count() if color not in kept.values())
        colors[s] = [kept[a] if a in kept else next(free) for a in range(k)]
    return colors


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _cell(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (int, float)) and value == value else str(value)[:80]


def _packed(values: np.ndarray) -> dict[str, Any]:
    """Values as 16-bit steps between the lowest and the highest."""
    values = np.clip(values, -1e300, 1e300)  # differences of larger numbers overflow
    low, high = float(values.min()), float(values.max())
    steps = np.round((values - low) / ((high - low) or 1.0) * 65535)
    return {"low": low, "high": high, "data": _base64(steps.astype("<u2"))}


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
