"""KJ Algorithm 1 with medoids in the place of means, as a plain loop."""

from reference.kmedoids import best_row, nearest, objective


def dp_medoids(D, penalty, weight, max_clusters=None, max_iter=300):
    """KJ Algorithm 1 with medoids: labels, medoids, passes and the objective after each pass."""
    n = len(D)
    cap = n if max_clusters is None else max_clusters
    medoids, labels, history = [best_row(D, list(range(n)), weight)], [0] * n, []
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        before = list(labels)
        for i in range(n):
            s, cost = nearest(D, i, medoids)
            if weight[i] * (cost - D[i, i]) > penalty and len(medoids) < cap:
                s = len(medoids)
                medoids.append(i)
            labels[i] = s
        if labels == before:
            break
        kept = sorted(set(labels))
        members = [[i for i in range(n) if labels[i] == s] for s in kept]
        medoids = [best_row(D, rows, weight) for rows in members]
        labels = [kept.index(s) for s in labels]
        error = sum(weight[i] * D[i, medoids[s]] for i, s in enumerate(labels))
        history.append(error + penalty * len(medoids))
    history.append(objective(D, medoids, weight, penalty))
    return labels, medoids, n_iter, history
