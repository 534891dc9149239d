"""Rows one after another (PRML Eq. 9.5), opening clusters by the rule of KJ Algorithm 1: plain."""

import numpy as np


def rate(w, W, step):
    return w / W if step == "mean" else 1 - (1 - step) ** w


def now(cluster, t, half_life):
    """The weight of a cluster at row t."""
    decay = 1.0 if half_life is None else 0.5 ** ((t - cluster["last"]) / half_life)
    return cluster["W"] * decay


def merge(clusters, penalty, t, half_life):
    """The cheapest pair first, while it costs less than the penalty; the older one stays."""
    while len(clusters) > 1:
        pairs = []
        for a in range(len(clusters)):
            for b in range(a + 1, len(clusters)):
                A, B = (now(clusters[c], t, half_life) for c in (a, b))
                gap = ((clusters[a]["mean"] - clusters[b]["mean"]) ** 2).sum()
                pairs.append((A * B / (A + B) * gap, a, b))
        cost, a, b = min(pairs)
        if not cost < penalty:
            return
        old, young = clusters[a], clusters.pop(b)
        last = max(old["last"], young["last"])
        A, B = now(old, last, half_life), now(young, last, half_life)
        old["mean"] = (A * old["mean"] + B * young["mean"]) / (A + B)
        old["W"], old["last"] = A + B, last


def online(
    X,
    penalty,
    weight=None,
    max_clusters=np.inf,
    step="mean",
    half_life=None,
    merge_every=None,
    forget_after=None,
    cosine=False,
):
    """(labels on arrival, clusters, Σ w d² on arrival); a cluster is a dict with id, mean, W, last.

    Online K-means is penalty=0 with max_clusters=k.
    """
    X = np.asarray(X, dtype=np.float64)
    if cosine:
        X = X / np.sqrt((X**2).sum(axis=1))[:, None]
    weight = np.ones(len(X)) if weight is None else weight
    clusters, labels, error, t, opened = [], [], 0.0, 0, 0
    for x, w in zip(X, weight, strict=True):
        scale = [np.sqrt((c["mean"] ** 2).sum()) if cosine else 1.0 for c in clusters]
        d2 = [((x - c["mean"] / s) ** 2).sum() for c, s in zip(clusters, scale, strict=True)]
        nearest = int(np.argmin(d2)) if clusters else -1
        if w == 0:
            labels.append(clusters[nearest]["id"] if clusters else -1)
            continue
        t += 1
        if not clusters or (w * d2[nearest] > penalty and len(clusters) < max_clusters):
            clusters.append({"id": opened, "mean": x.copy(), "W": w, "last": t})
            labels.append(opened)
            opened += 1
        else:
            c = clusters[nearest]
            c["W"], c["last"] = now(c, t, half_life) + w, t
            c["mean"] = c["mean"] + rate(w, c["W"], step) * (x - c["mean"])
            labels.append(c["id"])
            error += w * d2[nearest]
        if forget_after is not None:
            clusters = [c for c in clusters if t - c["last"] < forget_after]
        if merge_every is not None and t % merge_every == 0:
            merge(clusters, penalty, t, half_life)
    return np.array(labels), clusters, error
