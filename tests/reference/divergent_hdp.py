"""KJ Algorithm 2 with a Bregman divergence (Jiang, Kulis & Jordan 2012), as plain loops."""

from reference.divergences import mean, row_cost


def center(rows, weights, kinds):
    return [mean(k, c, weights) for k, c in zip(kinds, zip(*rows, strict=True), strict=True)]


def hard_hdp(rows, kinds, groups, local, glob, weights=None, max_iter=100):
    """Labels and the objective after each pass; empties dropped, equal local clusters merged."""
    n = len(rows)
    w = weights or [1.0] * n
    names = sorted(set(groups))
    inside = {j: [i for i in range(n) if groups[i] == j] for j in names}

    def middle(some):
        return center([rows[i] for i in some], [w[i] for i in some], kinds)

    def cost(some, m):
        return sum(w[i] * row_cost(rows[i], m, kinds) for i in some)

    mu, label, history = [middle(range(n))], dict.fromkeys(range(n), 0), []  # 1., 2.
    for _ in range(max_iter):  # 3.
        before = dict(label)
        for j in names:  # 4.
            uses = {label[i] for i in inside[j]}
            for i in inside[j]:
                d = [cost([i], m) + (0 if p in uses else local) for p, m in enumerate(mu)]
                if min(d) > local + glob:
                    mu.append(middle([i]))
                    label[i] = len(mu) - 1
                else:
                    label[i] = d.index(min(d))
                uses.add(label[i])
        for j in names:  # 5.
            old = dict(label)
            for p in sorted({old[i] for i in inside[j]}):
                some = [i for i in inside[j] if old[i] == p]
                d = [cost(some, m) for m in mu]
                if min(d) > glob + cost(some, middle(some)):
                    mu.append(middle(some))
                    d.append(-1.0)
                for i in some:
                    label[i] = d.index(min(d))
        kept = sorted(set(label.values()))  # 6.
        label = {i: kept.index(p) for i, p in label.items()}
        members = [[i for i in range(n) if label[i] == p] for p in range(len(kept))]
        mu = [middle(some) for some in members]
        error = sum(cost(some, m) for some, m in zip(members, mu, strict=True))
        uses = len({(groups[i], label[i]) for i in range(n)})
        history.append(error + local * uses + glob * len(mu))
        if label == before:
            break
    return [label[i] for i in range(n)], history
