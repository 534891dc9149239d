"""Ellipses: `EllipticalMeans()` against `GaussianMixture` with BIC over 1 to 10 components.

python benchmarks/ellipses.py [--quick]

Columns are standardized for both. The number found, the agreement with the labels (adjusted Rand
index), the agreement when the number is given, and CPU time; one seed, defaults of both libraries.
"""

import csv
import gzip
import time
import warnings

import numpy as np
from common import data_folder, main, say, seconds, stamp, table

TABLES = [
    "iris",
    "wine",
    "breast_cancer_wdbc",
    "breast_cancer_wisconsin_original",
    "vehicle",
    "pima",
    "balance_scale",
    "soybean_small",
]
LARGEST = 10


def read(path):
    """Rows without missing values, and labels."""
    with gzip.open(path, "rt") as file:
        rows = [row for row in list(csv.reader(file))[1:] if "" not in row]
    labels = np.unique([row[-1] for row in rows], return_inverse=True)[1]
    return np.array([row[:-1] for row in rows], dtype=float), labels


def ellipses(n, d, k, gap, seed, unequal=False):
    """Gaussian clusters of any direction, axes 0.4 to 2.5 long, centres about `gap` from 0."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(k, n, p=rng.dirichlet(np.full(k, 2.0)) if unequal else None)
    rows = rng.normal(size=(n, d))
    for c in range(k):
        axes = np.linalg.qr(rng.normal(size=(d, d)))[0] * rng.uniform(0.4, 2.5, d)
        rows[labels == c] = rows[labels == c] @ axes.T + rng.normal(size=d) * gap
    return rows, labels


def sets(quick):
    rng = np.random.default_rng(0)
    two = np.arange(600) % 2
    yield "ellipses", *ellipses(600, 2, 4, 6, 0)
    yield "ellipses", *ellipses(600, 5, 5, 3, 1)
    yield "crossing", rng.normal(size=(600, 2)) * np.where(two[:, None], [0.6, 6], [6, 0.6]), two
    if quick:
        return
    yield "ellipses, unequal", *ellipses(1500, 8, 6, 3, 2, unequal=True)
    yield "ellipses, unequal", *ellipses(2000, 2, 8, 9, 3, unequal=True)
    yield "ellipses", *ellipses(1000, 10, 4, 2, 6)
    yield "stripes", np.c_[rng.normal(size=600) * 6, rng.normal(size=600) / 2 + 4 * two], two
    yield "one Gaussian", rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6)), np.zeros(500, int)
    folder = data_folder()
    for name in TABLES if folder is not None else ():
        yield name, *read(folder / "uci" / f"{name}.csv.gz")


def fit_ours(rows, k=None):
    from madbayes import EllipticalMeans

    return EllipticalMeans(k, random_state=0, n_jobs=1).fit(rows).labels_


def fit_mixture(rows, k=None):
    from sklearn.mixture import GaussianMixture

    sizes = [k] if k else range(1, min(LARGEST, len(rows)) + 1)
    models = [GaussianMixture(size, random_state=0).fit(rows) for size in sizes]
    return min(models, key=lambda model: model.bic(rows)).predict(rows)


def measure(quick):
    from sklearn.metrics import adjusted_rand_score
    from threadpoolctl import threadpool_limits

    lines, figures = [], []
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        fit_ours(np.random.default_rng(0).normal(size=(60, 2)), 2)  # compiles
        for name, rows, truth in sets(quick):
            rows = (rows - rows.mean(axis=0)) / np.where(np.ptp(rows, axis=0) > 0, rows.std(0), 1)
            line = []
            for fit in (fit_ours, fit_mixture):
                begin = time.process_time()
                found = fit(rows)
                spent = time.process_time() - begin
                given = adjusted_rand_score(truth, fit(rows, int(truth.max()) + 1))
                right = adjusted_rand_score(truth, found)
                line += [np.unique(found).size, right, given, spent]
            figures.append(line)
            n, d = rows.shape
            cells = [f"{v:.2f}" if i % 4 in (1, 2) else v for i, v in enumerate(line)]
            cells[3], cells[7] = seconds(line[3]), seconds(line[7])
            lines.append([name, f"{n}×{d}", int(truth.max()) + 1, *cells])
            say(f"  {lines[-1]}")
    mean = np.mean(figures, axis=0)
    ratio = float(np.median([line[7] / line[3] for line in figures]))
    head = ["set", "size", "truth", "found", "ARI", "ARI, k given", "CPU time"]
    head += [f"mixture: {name}" for name in head[3:]]
    text = (
        f"Mean ARI {mean[1]:.3f} against {mean[5]:.3f} of the mixture (number given: {mean[2]:.3f} "
        f"against {mean[6]:.3f}); the mixture takes {ratio:.1f} times as long (median)."
    )
    return "\n\n".join([stamp(), table(head, lines), text])


if __name__ == "__main__":
    main(measure, description=__doc__)
