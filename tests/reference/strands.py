"""Anchors on curves as plain loops: thinning, the fullest cone, the way to the middle."""

import math

import numpy as np


def thinned(points, apart):
    """Each in turn removes all within `apart`."""
    kept = []
    for i, p in enumerate(points):
        if all(math.dist(p, points[j]) > apart for j in kept):
            kept.append(i)
    return kept


def directions(rows, point, rho, near):
    """Unit vectors to the rows at the right distance, or to all where these are fewer than four."""
    u = [row - point for row in rows]
    right = [v for v in u if 0.8 * rho < np.linalg.norm(v) <= near * rho]
    if len(right) < 4:
        right = [v for v in u if np.linalg.norm(v) > 1e-9 * rho]
    return [v / np.linalg.norm(v) for v in right]


def fullest(H, cone, tries):
    """The candidate whose cone holds most; of equals the first. (direction, how many)"""
    step = max(len(H) // tries, 1)
    held = [(sum((c @ h) ** 2 > cone for h in H), -k) for k, c in enumerate(H[::step])]
    if not held:
        return None, 0
    most, place = max(held)
    return H[::step][-place], most


def mean_of_cone(H, cone, t):
    inside = [h if h @ t > 0 else -h for h in H if (h @ t) ** 2 > cone]
    mean = np.sum(inside, axis=0)
    return mean / np.linalg.norm(mean)


def follow(rows, point, rho, near, cone, across, tries, shifts):
    """(point, tangent, share in its cone, share in a second cone)"""
    for turn in range(shifts + 1):
        H = directions(rows, point, rho, near)
        if len(H) < 3:
            return point, None, 0.0, 0.0
        t = fullest(H, cone, tries)[0]
        t = mean_of_cone(H, cone, mean_of_cone(H, cone, t))
        first = sum((h @ t) ** 2 > cone for h in H) / len(H)
        second = fullest([h for h in H if (h @ t) ** 2 < across], cone, tries)[1] / len(H)
        if turn < shifts:
            beside = []
            for row in rows:
                u = row - point
                aside = u - (u @ t) * t
                if abs(u @ t) < rho and aside @ aside < (1.5 * rho) ** 2:
                    beside.append(aside)
            if beside:
                point = point + np.mean(beside, axis=0)
    return point, t, first, second
