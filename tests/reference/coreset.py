"""A lightweight coreset in plain loops (Bachem, Lucic & Krause 2018, Algorithm 1)."""


def lightweight_coreset(X, weight, draws):
    """{row: weight}; `draws` are numbers in [0, 1), one for each draw."""
    n, d = len(X), len(X[0])
    total = sum(weight)
    mean = [sum(weight[i] * X[i][j] for i in range(n)) / total for j in range(d)]
    error = [weight[i] * sum((X[i][j] - mean[j]) ** 2 for j in range(d)) for i in range(n)]
    whole = sum(error)
    chance = [0.5 * weight[i] / total + 0.5 * error[i] / whole for i in range(n)]
    found = {}
    for u in draws:
        i, reached = 0, chance[0]
        while u >= reached and i < n - 1:
            i += 1
            reached += chance[i]
        found[i] = found.get(i, 0.0) + weight[i] / (len(draws) * chance[i])
    return found


def cost(X, weight, centers):
    """Σ w · squared distance to the nearest centre."""
    return sum(
        w * min(sum((a - b) ** 2 for a, b in zip(x, c, strict=True)) for c in centers)
        for x, w in zip(X, weight, strict=True)
    )
