"""The hard HDP as plain loops: KJ Algorithm 2 with weights, its objective, all single moves."""

import itertools

import numpy as np


def objective(X, groups, labels, local, glob, weight=None):
    """KJ Eq. 2."""
    w = np.ones(len(X)) if weight is None else np.asarray(weight, float)
    total = glob * len(np.unique(labels))
    total += local * len({(j, p) for j, p in zip(groups, labels, strict=True)})
    for p in np.unique(labels):
        i = labels == p
        mean = w[i] @ X[i] / w[i].sum()
        total += (w[i] * ((X[i] - mean) ** 2).sum(axis=1)).sum()
    return float(total)


def hard_hdp(X, groups, local, glob, weight=None, max_iter=300):
    """Labels, centres and the objective after each pass; groups in sorted order, empties dropped
    and local clusters of a group with the same global one merged after each pass."""
    X = np.asarray(X, dtype=np.float64)
    w = np.ones(len(X)) if weight is None else np.asarray(weight, float)
    names = sorted(set(groups))
    rows = {j: [i for i in range(len(X)) if groups[i] == j] for j in names}
    mu = [w @ X / w.sum()]  # 1.
    label = dict.fromkeys(range(len(X)), 0)  # 2.
    history = []
    for _ in range(max_iter):  # 3.
        before = dict(label)
        for j in names:  # 4.
            uses = {label[i] for i in rows[j]}
            for i in rows[j]:
                d = [w[i] * sum((X[i] - m) ** 2) for m in mu]
                d = [d[p] if p in uses else d[p] + local for p in range(len(mu))]
                if min(d) > local + glob:
                    mu.append(X[i])
                    label[i] = len(mu) - 1
                else:
                    label[i] = d.index(min(d))
                uses.add(label[i])
        for j in names:  # 5.
            old = dict(label)
            for p in sorted({old[i] for i in rows[j]}):
                S = [i for i in rows[j] if old[i] == p]
                mean = sum(w[i] * X[i] for i in S) / sum(w[i] for i in S)
                d = [sum(w[i] * sum((X[i] - m) ** 2) for i in S) for m in mu]
                if min(d) > glob + sum(w[i] * sum((X[i] - mean) ** 2) for i in S):
                    mu.append(mean)
                    d.append(-1.0)
                for i in S:
                    label[i] = d.index(min(d))
        kept = sorted(set(label.values()))  # 6.
        label = {i: kept.index(p) for i, p in label.items()}
        mu = []
        for p in range(len(kept)):
            S = [i for i in label if label[i] == p]
            mu.append(sum(w[i] * X[i] for i in S) / sum(w[i] for i in S))
        labels = np.array([label[i] for i in range(len(X))])
        history.append(objective(X, groups, labels, local, glob, w))
        if label == before:
            break
    return labels, np.array(mu), history


def neighbours(groups, labels):
    """All labelings after one row move, one local cluster move (openings included) or one merge."""
    ids = list(np.unique(labels))
    places = [*ids, max(ids) + 1]
    for i, c in itertools.product(range(len(labels)), places):
        yield np.where(np.arange(len(labels)) == i, c, labels)
    for j, p in sorted(set(zip(groups, labels, strict=True))):
        for c in places:
            yield np.where((groups == j) & (labels == p), c, labels)
    for a, b in itertools.combinations(ids, 2):
        yield np.where(labels == b, a, labels)
