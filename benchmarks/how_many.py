"""How many clusters? DPMeans with no parameter at all against the usual ways to find out.

For every set with a known answer: the number found, the agreement with the true labels (adjusted
Rand index) and the time. Everybody runs with the defaults of the library; only the two that need a
range of k are given one (up to twice the truth, at least 10), which helps them.
"""

import warnings
from collections import defaultdict
from importlib.util import find_spec

import numpy as np
from common import data_folder, main, mixture, say, seconds, stamp, table, timed

SHAPES = {"a1": 20, "s1": 15, "s3": 15, "d31": 31, "unbalance": 8}
RANGE = "k up to max(10, 2 × truth)"

# The contenders: (rows, the largest k worth trying) -> labels; -1 is noise


def dp_means(rows, largest):
    from madbayes import DPMeans

    return DPMeans(random_state=0).fit(rows).labels_


def hdbscan(rows, largest, **options):
    try:
        from hdbscan import HDBSCAN
    except ImportError:
        from sklearn.cluster import HDBSCAN
    return HDBSCAN(**options).fit(rows).labels_


def hdbscan_larger(rows, largest):
    return hdbscan(rows, largest, min_cluster_size=max(5, len(rows) // 100))


def bayesian_mixture(rows, largest):
    from sklearn.mixture import BayesianGaussianMixture

    # Full covariances of many columns take hours, and rarely fit: the usual way out is "diag".
    shape = "full" if rows.shape[1] <= 32 else "diag"
    model = BayesianGaussianMixture(n_components=largest, covariance_type=shape, random_state=0)
    return model.fit_predict(rows)  # the components that hold rows are the ones that count


def silhouette(rows, largest):
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    best, chosen = -np.inf, None
    for k in range(2, min(largest, len(rows) - 1) + 1):
        labels = KMeans(k, random_state=0).fit(rows).labels_
        score = silhouette_score(rows, labels, sample_size=min(2000, len(rows)), random_state=0)
        if score > best:
            best, chosen = score, labels
    return chosen


def of_clustpy(name):
    """X-means, G-means or dip-means as ClustPy has them."""

    def method(rows, largest):
        from clustpy import centroid

        return getattr(centroid, name)(random_state=0).fit(rows).labels_

    return method


CONTENDERS = {
    "madbayes `DPMeans()`": dp_means,
    "HDBSCAN": hdbscan,
    "HDBSCAN, min_cluster_size=n/100": hdbscan_larger,
    f"BayesianGaussianMixture, {RANGE}": bayesian_mixture,
    f"KMeans by silhouette, {RANGE}": silhouette,
    "ClustPy XMeans": of_clustpy("XMeans"),
    "ClustPy GMeans": of_clustpy("GMeans"),
    "ClustPy DipMeans": of_clustpy("DipMeans"),
}


# The sets: family, name, rows, labels


def shapes(quick):
    for name, k in list(SHAPES.items())[:: 4 if quick else 1]:
        path = data_folder() / "shapes" / f"{name}.csv.gz"
        columns = np.loadtxt(path, delimiter=",", skiprows=1)
        assert np.unique(columns[:, -1]).size == k, name
        yield "shapes", name, columns[:, :-1], columns[:, -1].astype(int)


def mixtures(quick):
    few, many = ((2, 16), (2, 10)) if quick else ((2, 16, 128, 768), (2, 10, 50))
    sets = [(d, k, gap) for d in few for k in many for gap in (6, 4)]
    if not quick:
        sets += [(2, 200, 6), (16, 200, 6)]
    for seed, (d, k, gap) in enumerate(sets):
        n = max(1000, 40 * k)
        rows, labels = mixture(n, d, k, gap=gap, seed=seed, dtype=np.float64)
        yield "mixtures", f"{n}×{d}, {'clear' if gap == 6 else 'touching'}", rows, labels


def noise(quick):
    for d in (2, 10) if quick else (2, 5, 10, 50):
        for kind in ("normal", "uniform"):
            for seed, n in enumerate((300,) if quick else (300, 3000)):
                rows = getattr(np.random.default_rng(seed), kind)(size=(n, d))
                yield "noise", f"{kind} {n}×{d}", rows, np.zeros(n, dtype=int)


def bundled():
    """Sets that scikit-learn ships. The classes of wine and digits are not all round clusters."""
    from sklearn.datasets import load_digits, load_iris, load_wine
    from sklearn.preprocessing import StandardScaler

    for name, load in (("iris", load_iris), ("wine", load_wine), ("digits", load_digits)):
        rows, labels = load(return_X_y=True)
        if name == "wine":
            rows, name = StandardScaler().fit_transform(rows), "wine, standardized"
        yield "real", name, rows, labels


def all_sets(quick):
    if data_folder() is not None:
        yield from shapes(quick)
    yield from mixtures(quick)
    yield from noise(quick)
    yield from bundled()


# The tables


def find(method, rows, labels):
    """Clusters found, agreement, time."""
    from sklearn.metrics import adjusted_rand_score

    largest = max(10, 2 * np.unique(labels).size)
    best, found = timed(lambda: method(rows, largest))
    if best < 0.5:
        best = min(best, timed(lambda: method(rows, largest), 2)[0])
    # Only noise (HDBSCAN) says the same as one cluster: nothing here to tell apart.
    count = max(1, np.unique(found[found >= 0]).size)
    agreement = adjusted_rand_score(labels, np.zeros_like(labels) if count == 1 else found)
    return count, agreement, best


def available():
    """The contenders that are installed; DPMeans() is warmed up."""
    for d in (2, 16):
        dp_means(np.random.default_rng(0).normal(size=(200, d)), 10)
    missing = "ClustPy" if find_spec("clustpy") is None else "-"
    return {who: how for who, how in CONTENDERS.items() if not who.startswith(missing)}


def measure(quick):
    warnings.simplefilter("ignore")
    parts = [stamp()]
    contenders = available()
    if len(contenders) < len(CONTENDERS):
        parts.append("ClustPy is not installed, so its methods are left out.")
    if data_folder() is None:
        parts.append("MADBAYES_DATA is not set: the sets a1, s1, s3, d31, unbalance are left out.")
    results = defaultdict(list)  # (family, contender) -> [(exact, agreement, seconds)]
    detail = []
    for family, name, rows, labels in all_sets(quick):
        truth = np.unique(labels).size
        line = [f"{family}: {name}", truth]
        for who, method in contenders.items():
            count, agreement, best = find(method, rows, labels)
            results[family, who].append((count == truth, agreement, best))
            line.append(f"**{count}**" if count == truth else count)
        detail.append(line)
        say(" ".join(map(str, line)))
    summary = []
    for family, who in results:
        exact, agreement, times = zip(*results[family, who], strict=True)
        right = f"{sum(exact)} of {len(exact)}"
        cells = [f"{np.mean(agreement):.3f}", seconds(np.median(times)), seconds(max(times))]
        summary.append([family, who, right, *cells])
    header = ["sets", "who", "exact k", "mean ARI", "median time", "longest"]
    parts.append(table(header, summary))
    parts.append("The number of clusters found (bold: right)\n\n")
    parts[-1] += table(["set", "truth", *contenders], detail)
    return "\n\n".join(parts)


if __name__ == "__main__":
    main(measure, description=__doc__)
