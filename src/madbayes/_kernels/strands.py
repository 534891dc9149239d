"""Which way a curve runs through a point, and where its middle is; `graph/strands.py` explains it.

Serial: no result depends on threads.
"""

import numpy as np

from madbayes._kernels import inner, kernel


@inner
def fullest_cone(H, n, used, cone, tries, t):
    """Of the first n directions H that are `used`, the axis t of the double cone that holds most of
    them, among `tries` of them; how many it holds."""
    d, count, most, best = H.shape[1], 0, 0, -1
    for i in range(n):
        count += used[i]
    step, seen = max(count // tries, 1), 0
    for c in range(n):
        if not used[c]:
            continue
        seen += 1
        if (seen - 1) % step:
            continue
        held = 0
        for i in range(n):
            if used[i]:
                x = 0.0
                for j in range(d):
                    x += H[c, j] * H[i, j]
                held += x * x > cone
        if held > most:
            most, best = held, c
    for j in range(d):
        t[j] = H[best, j] if best >= 0 else 0.0
    return most


@inner
def straighten(H, n, cone, t):
    """t becomes the mean of the directions within its cone; how many these are then."""
    d = t.size
    mean = np.zeros(d)
    for i in range(n):
        x = 0.0
        for j in range(d):
            x += t[j] * H[i, j]
        if x * x > cone:
            for j in range(d):
                mean[j] += H[i, j] if x > 0 else -H[i, j]
    length = 0.0
    for j in range(d):
        length += mean[j] * mean[j]
    if length > 0:
        for j in range(d):
            t[j] = mean[j] / np.sqrt(length)
    held = 0
    for i in range(n):
        x = 0.0
        for j in range(d):
            x += t[j] * H[i, j]
        held += x * x > cone
    return held


@kernel
def follow(
    X, start, member, points, rho, near, cone, across, tries, shifts, tangent, first, second
):
    """Move `points` to the middle of the curves they lie on; `tangent` and the shares of the rows
    around that lie in the direction of the curve, and of a second curve.

    `member[start[p]:start[p + 1]]` are the rows around a point: rows from 0.8 to `near` times `rho`
    away count, or all of them where these are fewer than four.
    """
    d = X.shape[1]
    shift, t2 = np.empty(d), np.empty(d)
    for p in range(points.shape[0]):
        a, b = start[p], start[p + 1]
        H, used = np.empty((b - a, d)), np.empty(b - a, np.bool_)
        t = tangent[p]
        for turn in range(shifts + 1):
            n = 0
            for far in range(2):  # 0: those at the right distance, 1: all
                n = 0
                for e in range(a, b):
                    length = 0.0
                    for j in range(d):
                        length += (X[member[e], j] - points[p, j]) ** 2
                    length = np.sqrt(length)
                    right = 0.8 * rho < length <= near * rho
                    if right or (far == 1 and length > 1e-9 * rho):
                        for j in range(d):
                            H[n, j] = (X[member[e], j] - points[p, j]) / length
                        n += 1
                if n >= 4:
                    break
            first[p], second[p] = 0.0, 0.0
            if n < 3:
                break
            for i in range(n):
                used[i] = True
            fullest_cone(H, n, used, cone, tries, t)
            straighten(H, n, cone, t)
            first[p] = straighten(H, n, cone, t) / n
            for i in range(n):
                x = 0.0
                for j in range(d):
                    x += t[j] * H[i, j]
                used[i] = x * x < across
            second[p] = fullest_cone(H, n, used, cone, tries, t2) / n
            if turn == shifts:
                break
            beside = 0  # the middle of the rows beside the point
            for j in range(d):
                shift[j] = 0.0
            for e in range(a, b):
                along, length = 0.0, 0.0
                for j in range(d):
                    u = X[member[e], j] - points[p, j]
                    along += u * t[j]
                    length += u * u
                if abs(along) < rho and length - along * along < (1.5 * rho) ** 2:
                    beside += 1
                    for j in range(d):
                        shift[j] += X[member[e], j] - points[p, j] - along * t[j]
            if beside:
                for j in range(d):
                    points[p, j] += shift[j] / beside
