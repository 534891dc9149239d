"""What sets clusters apart, which rows are typical, and what the script of the page reads."""

import base64
from typing import Any

import numpy as np

from madbayes.plots._palette import COLORS, SHAPES
from madbayes.reports.network import network
from madbayes.reports.rows_shown import Seen

MOST_COLUMNS = 24  # that the explorer can show
TOP = 6  # columns listed for a cluster
ROWS = 3  # typical and odd ones
BINS = 14
MOST_STEPS, MOST_GROUPS = 48, 60  # positions of the slider, and clusters at one of them
LARGEST = 1e300  # differences of larger numbers overflow


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
        edges = np.linspace(low, high if high > low else low + 1, BINS + 1)
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


def extremes(seen: Seen, label: int) -> tuple[list[int], list[int]]:
    """Rows (positions among those counted) nearest to the middle of a cluster and farthest."""
    rows = np.flatnonzero(seen.labels[seen.counted] == label)
    if not rows.size or not seen.X.shape[1]:
        return [], []
    X = seen.X[rows]
    far = ((X - X.mean(axis=0)) ** 2).sum(axis=1)
    order = np.argsort(far, kind="stable")
    odd = [i for i in rows[order[::-1][:ROWS]].tolist() if rows.size > ROWS]
    return rows[order[:ROWS]].tolist(), odd


def flat_map(seen: Seen) -> tuple[np.ndarray, tuple[str, str]]:
    """The drawn rows in the plane, and what its axes are."""
    X = seen.X[seen.drawn]
    d = X.shape[1]
    if d == 1:
        heights = np.random.default_rng(0).uniform(size=len(X))
        return np.column_stack([seen.values[seen.drawn][:, 0], heights]), (seen.names[0], "")
    if d == 2:
        return seen.values[seen.drawn], (seen.names[0], seen.names[1])
    from sklearn.decomposition import PCA

    if len(X) < 3 or not np.ptp(X, axis=0).any():
        return X[:, :2], (seen.names[0], seen.names[1])
    pca = PCA(n_components=2, random_state=0).fit(X)
    shares = np.nan_to_num(pca.explained_variance_ratio_)
    names = [f"principal component {i + 1} ({share:.0%})" for i, share in enumerate(shares)]
    return pca.transform(X), (names[0], names[1])


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
    d = seen.values.shape[1]
    if d <= MOST_COLUMNS:
        return list(range(d))
    labels = seen.labels[seen.counted]
    scale = spread(seen.values)
    between = np.zeros(d)
    for label in range(min(seen.number, MOST_GROUPS)):
        rows = labels == label
        if rows.any():
            gap = (seen.values[rows].mean(axis=0) - seen.values.mean(axis=0)) / scale
            between += rows.mean() * gap**2
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
        for i, labels in enumerate(_divisions(seen, path)):
            number = int(path.number[i])
            if labels is not None and number <= MOST_GROUPS:
                divisions.setdefault(number, labels)
                ranges[number] = (float(path.price_low[i]), float(path.price_high[i]))
    layers = _layers(seen)
    divisions |= {number: labels for number, labels in layers.items() if number <= MOST_GROUPS}
    divisions[seen.number] = drawn
    near = sorted(
        divisions, key=lambda k: (k != seen.number, k not in layers, abs(k - seen.number))
    )
    numbers = sorted(near[:MOST_STEPS])
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


def price_name(model: Any) -> str:
    """What the scale of a path is."""
    if hasattr(winner(model), "penalty_"):
        what = "feature" if hasattr(model, "components_") else "cluster"
        return f"penalty λ for one more {what}"
    if model.path_.of == "community":
        return "resolution: what each community earns"
    return "how far clusters must stand apart"


def _divisions(seen: Seen, path: Any) -> list[np.ndarray | None]:
    """Labels of the drawn rows at each step of a path."""
    if path.centers is not None:
        X = np.ascontiguousarray(seen.X[seen.drawn])
        out: list[np.ndarray | None] = []
        for centers in path.centers:
            if centers.shape[1] != X.shape[1]:
                out.append(None)
            else:
                out.append(_nearest(X, np.asarray(centers, float), path.unit))
        return out
    if path.labels is not None and all(len(labels) == seen.n for labels in path.labels):
        rows = seen.counted[seen.drawn]
        return [np.asarray(labels)[rows] for labels in path.labels]
    return [None] * len(path.number)


def _nearest(X: np.ndarray, centers: np.ndarray, unit: bool) -> np.ndarray:
    if unit:
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(float).tiny)
    middle = centers.mean(axis=0)
    C = centers - middle
    return np.argmin((C**2).sum(axis=1) - 2 * (X - middle) @ C.T, axis=1)


def _colors(atoms: np.ndarray, counts: np.ndarray, chosen: int) -> list[list[int]]:
    """A colour for each cluster of each step; from step to step most rows keep theirs."""
    n_steps = atoms.shape[1]
    colors: list[list[int]] = [[] for _ in range(n_steps)]
    colors[chosen] = list(range(int(atoms[:, chosen].max(initial=0)) + 1))
    order = [*range(chosen - 1, -1, -1), *range(chosen + 1, n_steps)]
    for s in order:
        near = s + 1 if s < chosen else s - 1
        k = int(atoms[:, s].max(initial=0)) + 1
        shared = np.zeros((k, len(colors[near]) or 1))
        both = (atoms[:, s] >= 0) & (atoms[:, near] >= 0)
        np.add.at(shared, (atoms[both, s], atoms[both, near]), counts[both])
        mine, taken = [-1] * k, set()
        for flat in np.argsort(-shared, axis=None, kind="stable"):
            a, b = divmod(int(flat), shared.shape[1])
            if shared[a, b] > 0 and mine[a] < 0 and b not in taken:
                mine[a] = colors[near][b]
                taken.add(b)
        used, fresh = {c for c in mine if c >= 0}, 0
        for a in range(k):
            if mine[a] < 0:
                while fresh in used:
                    fresh += 1
                mine[a] = fresh
                used.add(fresh)
        colors[s] = mine
    return colors


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _cell(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (int, float)) and value == value else str(value)[:80]


def _packed(values: np.ndarray) -> dict[str, Any]:
    """Values as 16-bit steps between the lowest and the highest."""
    values = np.clip(values, -LARGEST, LARGEST)
    low, high = float(values.min()), float(values.max())
    steps = np.round((values - low) / ((high - low) or 1.0) * 65535)
    return {"low": low, "high": high, "data": _base64(steps.astype("<u2"))}


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
