"""Which way a curve runs through a point, and where its middle is; `graph/curves.py` explains it.

Serial: no result depends on threads. Directions lie column by column, so that many are compared at
a time; sums run over the columns from the first to the last.
"""

import numpy as np

from madbayes._jit import inner, kernel

CELLS = 64  # of a grid over two columns, along each


@inner
def along(H, n, t, dots):
    """How far the first n of H reach in the direction t."""
    x, y = t[0], t[1]
    for i in range(n):
        dots[i] = x * H[0, i] + y * H[1, i]
    for j in range(2, H.shape[0]):
        x = t[j]
        for i in range(n):
            dots[i] += x * H[j, i]


@inner
def held_by(dots, n, cone):
    held = 0
    for i in range(n):
        held += dots[i] * dots[i] > cone
    return held


@inner
def fullest_cone(H, n, cone, tries, t, axis, dots):
    """Of the first n directions H the axis t of the double cone that holds most of them, among
    `tries` of them; how many it holds."""
    d, most, best = H.shape[0], 0, -1
    for c in range(0, n, max(n // tries, 1)):
        for j in range(d):
            axis[j] = H[j, c]
        along(H, n, axis, dots)
        held = held_by(dots, n, cone)
        if held > most:
            most, best = held, c
    for j in range(d):
        t[j] = H[j, best] if best >= 0 else 0.0
    return most


@inner
def straighten(H, n, cone, t, mean, dots):
    """t becomes the mean of the directions within its cone; `dots` is how far they reach then."""
    d, length = H.shape[0], 0.0
    for i in range(n):  # no branches here and below: they would be guessed wrong
        x = 1.0 if dots[i] > 0 else -1.0
        dots[i] = x if dots[i] * dots[i] > cone else 0.0
    for j in range(d):
        x = 0.0
        for i in range(n):
            x += dots[i] * H[j, i]
        mean[j] = x
        length += x * x
    if length > 0:
        for j in range(d):
            t[j] = mean[j] / np.sqrt(length)
    along(H, n, t, dots)


@kernel
def follow(
    X, start, member, points, rho, near, cone, across, tries, shifts, tangent, first, second
):
    """Move `points` to the middle of the curves they lie on; `tangent` and the shares of the rows
    around that lie in the direction of the curve, and of a second curve.

    `member[start[p]:start[p + 1]]` are the rows around a point: rows from 0.8 to `near` times `rho`
    away count, or all of them where these are fewer than four.
    """
    d, most = X.shape[1], 0
    for p in range(points.shape[0]):
        most = max(most, start[p + 1] - start[p])
    around, unit = np.empty((d, most)), np.empty((d, most))
    H, rest = np.empty((d, most + 1)), np.empty((d, most + 1))
    length, dots = np.empty(most), np.empty(most)
    shift, axis, other = np.empty(d), np.empty(d), np.empty(d)
    for p in range(points.shape[0]):
        a, b = start[p], start[p + 1]
        for e in range(a, b):
            for j in range(d):
                around[j, e - a] = X[member[e], j]
        b -= a
        t, point = tangent[p], points[p]
        for turn in range(shifts + 1):
            for e in range(b):
                length[e] = (around[0, e] - point[0]) ** 2 + (around[1, e] - point[1]) ** 2
            for j in range(2, d):
                for e in range(b):
                    length[e] += (around[j, e] - point[j]) ** 2
            for j in range(d):
                for e in range(b):
                    unit[j, e] = (around[j, e] - point[j]) / np.sqrt(length[e])
            n = 0
            for far in range(2):  # 0: those at the right distance, 1: all
                n = 0
                for e in range(b):
                    x = np.sqrt(length[e])
                    for j in range(d):  # the next one overwrites what does not count
                        H[j, n] = unit[j, e]
                    n += (0.8 * rho < x <= near * rho) | ((far == 1) & (x > 1e-9 * rho))
                if n >= 4:
                    break
            first[p], second[p] = 0.0, 0.0
            if n < 3:
                break
            fullest_cone(H, n, cone, tries, t, axis, dots)
            along(H, n, t, dots)
            for _ in range(2):
                straighten(H, n, cone, t, axis, dots)
            first[p] = held_by(dots, n, cone) / n
            if turn == shifts:
                left = 0
                for i in range(n):
                    for j in range(d):
                        rest[j, left] = H[j, i]
                    left += dots[i] * dots[i] < across
                second[p] = fullest_cone(rest, left, cone, tries, other, axis, dots) / n
                break
            beside = 0.0  # the middle of the rows beside the point
            for e in range(b):
                dots[e] = (around[0, e] - point[0]) * t[0] + (around[1, e] - point[1]) * t[1]
            for j in range(2, d):
                for e in range(b):
                    dots[e] += (around[j, e] - point[j]) * t[j]
            for e in range(b):
                x = dots[e]
                inside = (abs(x) < rho) & (length[e] - x * x < (1.5 * rho) ** 2)
                length[e] = 1.0 if inside else 0.0
                beside += length[e]
            for j in range(d):
                x = 0.0
                for e in range(b):
                    x += length[e] * (around[j, e] - point[j] - dots[e] * t[j])
                shift[j] = x
            if beside:
                for j in range(d):
                    point[j] += shift[j] / beside


@inner
def cells(X, j, apart):
    """Cells along a column: where they start, how long they are (at least `apart`), how many."""
    low = high = X[0, j]
    for i in range(X.shape[0]):
        x = X[i, j]
        low = x if x < low else low
        high = x if x > high else high
    number = place((high - low) / apart, CELLS) + 1
    return low, max(apart, (high - low) / number), number


@inner
def place(steps, number):
    """`steps` rounded down, below `number`; 0 for what is no number, as steps of no length are."""
    return int(min(steps, number - 1.0)) if steps > 0.0 else 0


@kernel
def thin(X, apart, head, after, kept):
    """Each row in turn is kept, unless one that was is within `apart`; returns how many are: `kept`
    begins with them. `head`: -1 for each cell of a grid over the first two columns."""
    n = 0
    x0, dx, nx = cells(X, 0, apart)
    y0, dy, ny = cells(X, 1, apart)
    for i in range(X.shape[0]):
        a, b = place((X[i, 0] - x0) / dx, nx), place((X[i, 1] - y0) / dy, ny)
        free = True
        for p in range(max(a - 1, 0), min(a + 2, nx)):
            for q in range(max(b - 1, 0), min(b + 2, ny)):
                k = head[p, q]
                while k >= 0 and free:
                    length = 0.0
                    for j in range(X.shape[1]):
                        length += (X[i, j] - X[k, j]) ** 2
                    free = length > apart * apart
                    k = after[k]
        if free:
            after[i], head[a, b] = head[a, b], i
            kept[n] = i
            n += 1
    return n


@kernel
def rows_near(X, points, reach, head, after, found):
    """Pairs of a point and a row within `reach` of it, in the order of the rows: as many as `found`
    holds; returns how many there are. `head`: as for `thin`."""
    x0, dx, nx = cells(points, 0, reach)
    y0, dy, ny = cells(points, 1, reach)
    total = 0
    for i in range(points.shape[0]):
        a, b = place((points[i, 0] - x0) / dx, nx), place((points[i, 1] - y0) / dy, ny)
        after[i], head[a, b] = head[a, b], i
    for j in range(X.shape[0]):
        a = int((X[j, 0] - x0) / dx + 2.0) - 2  # rounded down, from -2 on
        b = int((X[j, 1] - y0) / dy + 2.0) - 2
        for p in range(max(a - 1, 0), min(a + 2, nx)):
            for q in range(max(b - 1, 0), min(b + 2, ny)):
                i = head[p, q]
                while i >= 0:
                    length = 0.0
                    for c in range(X.shape[1]):
                        length += (X[j, c] - points[i, c]) ** 2
                    if length <= reach * reach:
                        if total < found.shape[0]:
                            found[total, 0], found[total, 1] = i, j
                        total += 1
                    i = after[i]
    return total
