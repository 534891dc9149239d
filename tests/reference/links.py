"""The held-out links between neighbouring centres, pair by pair, as `howmany/links.py` says."""

import numpy as np


def tree(edges, k):
    """Kruskal's minimum spanning tree of edges (length, a, b)."""
    root, kept = list(range(k)), []
    for length, a, b in sorted(edges):
        if root[a] != root[b]:
            kept.append((length, a, b))
            root = [root[a] if r == root[b] else r for r in root]
    return kept


def neighbours(B, limit):
    """Pairs with no centre nearer to their midpoint, `limit` for each; and a tree of all."""
    k, pairs = len(B), set()
    for a in range(k):
        found = 0
        for b in np.argsort(B[a], kind="stable"):
            others = [c for c in range(k) if c not in (a, b)]
            if b != a and found < limit and all(B[a, c] + B[b, c] >= B[a, b] for c in others):
                pairs.add((min(a, b), max(a, b)))
                found += 1
    edges = [(B[a, b], a, b) for a in range(k) for b in range(a + 1, k)]
    return pairs | {(a, b) for _, a, b in tree(edges, k)}


def link(D, B, w, a, b, window):
    """z of two centres: rows of the cell around their midpoint, counted in three windows."""
    hidden = (B[a] < B[a, b] / 4) | (B[b] < B[a, b] / 4)  # a, b and who is as near
    other = D[:, ~hidden].min(axis=1, initial=np.inf)
    near = np.isin(np.argsort(D, axis=1)[:, :3], np.flatnonzero(hidden)).any(axis=1)
    inside = near & ((D[:, a] + D[:, b]) / 2 - B[a, b] / 4 <= other)
    t, w = (D[:, a] - D[:, b])[inside], w[inside]
    if not (t <= 0).any() or not (t > 0).any():
        return 0.0
    at = [np.average(t[side], weights=w[side]) for side in (t <= 0, t > 0)]
    half = window * (at[1] - at[0]) / 2
    counts = [w[np.abs(t - m) <= half].sum() for m in (*at, (at[0] + at[1]) / 2)]
    return np.sqrt(2) * (np.sqrt(min(counts[:2]) + 0.375) - np.sqrt(counts[2] + 0.375))


def weakest_links(X, w, C, limit=5, window=0.45):
    """z of the links that hold the centres together, ascending."""
    D = ((X[:, None] - C) ** 2).sum(axis=2)
    B = ((C[:, None] - C) ** 2).sum(axis=2)
    edges = [(link(D, B, w, a, b, window), a, b) for a, b in neighbours(B, limit)]
    return np.array([z for z, _, _ in tree(edges, len(C))])
