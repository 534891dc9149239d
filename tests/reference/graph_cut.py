"""Penalized graph cuts as plain loops: KJ 5.2, on a dense adjacency without isolated nodes."""

import itertools

import numpy as np


def node_weights(A, cut):
    return A.sum(axis=1) if cut == "normalized" else np.ones(len(A))


def objective(A, labels, resolution, cut="normalized"):
    """Cut(A) + λ'k with λ' = -resolution."""
    w = node_weights(A, cut)
    total = 0.0
    for c in set(labels):
        inside = [i for i in range(len(A)) if labels[i] == c]
        outside = [i for i in range(len(A)) if labels[i] != c]
        total += sum(A[i, j] for i in inside for j in outside) / sum(w[i] for i in inside)
        total -= resolution
    return total


def kernel(A, sigma, cut):
    """K of Theorem 5.3, or of ratio cut: σW⁻¹ - W⁻¹LW⁻¹."""
    w = node_weights(A, cut)
    if cut == "normalized":
        return sigma * np.diag(1 / w) + A / np.outer(w, w)
    return sigma * np.eye(len(A)) - (np.diag(A.sum(axis=1)) - A)


def distance(K, w, i, members):
    """w_i ‖ψ_i - μ_c‖², the mean weighted; `members` of c."""
    s = sum(w[j] for j in members)
    cross = sum(w[j] * K[i, j] for j in members)
    square = sum(w[j] * w[m] * K[j, m] for j in members for m in members)
    return w[i] * (K[i, i] - 2 * cross / s + square / s**2)


def kernel_objective(K, w, labels):
    """J(K, W)."""
    members = {c: [j for j in range(len(w)) if labels[j] == c] for c in set(labels)}
    return sum(distance(K, w, i, members[labels[i]]) for i in range(len(w)))


def dp_means(K, w, penalty, labels, max_iter=300, tol=1e-9):
    """KJ Algorithm 1 in kernel space from `labels`; ties (up to `tol`) go to the lowest index."""
    labels = list(labels)
    for _ in range(max_iter):
        clusters = [[j for j in range(len(w)) if labels[j] == c] for c in sorted(set(labels))]
        before, labels = labels, [0] * len(w)
        for i in range(len(w)):
            d = [distance(K, w, i, members) for members in clusters]
            if min(d) > penalty + tol:
                labels[i] = len(clusters)
                clusters.append([i])
            else:
                labels[i] = next(c for c in range(len(d)) if d[c] <= min(d) + tol)
        used = sorted(set(labels))
        labels = [used.index(c) for c in labels]
        if labels == before:
            break
    return np.array(labels)


def lowest_neighbour(A, labels, resolution, cut="normalized"):
    """The lowest objective after moving one node along an edge or out, or one merge of linked
    clusters."""
    ids, best = sorted(set(labels)), np.inf
    for i in range(len(A)):
        linked = {labels[j] for j in range(len(A)) if A[i, j] > 0}
        for c in [*linked, max(ids) + 1]:
            moved = np.array(labels)
            moved[i] = c
            best = min(best, objective(A, moved, resolution, cut))
    for a, b in itertools.combinations(ids, 2):
        if A[np.ix_(labels == a, labels == b)].any():
            best = min(best, objective(A, np.where(labels == b, a, labels), resolution, cut))
    return best
