"""Sampling, variational inference and the hard limit side by side (KJ section 7, open problem v).

`DPMixtureGibbs` (a chain of 600 sweeps, the best sample), scikit-learn's `BayesianGaussianMixture`
(a Dirichlet process with at most 30 round components) and `DPMeans()`, on 12 sets. Rows are
standardized, and a fifth of them is held out. Held-out: the log-likelihood of a test row, in nats,
under round Gaussians of one variance around the clusters that each method found: the same density
for all three, so that only the clusters differ.
"""

import warnings

import numpy as np
from common import main, mixture, say, seconds, stamp, table, timed_cpu
from scipy.special import logsumexp
from sklearn import datasets
from sklearn.metrics import normalized_mutual_info_score
from sklearn.mixture import BayesianGaussianMixture
from sklearn.preprocessing import StandardScaler

from madbayes import DPMeans
from madbayes.gibbs import DPMixtureGibbs


def zipf(rng):
    """25 clusters of sizes 400/rank."""
    sizes = (400 / np.arange(1, 26)).astype(int)
    z = np.repeat(np.arange(25), sizes)
    return 12 * rng.normal(size=(25, 5))[z] + rng.normal(size=(len(z), 5)), z


def long_ones(rng):
    """Four clusters, each four times as long as wide."""
    z = np.arange(600) % 4
    X = rng.normal(size=(600, 2)) * [4, 1] + np.array([[0, 0], [0, 8], [18, 0], [18, 8]])[z]
    return X, z


def heavy_tails(rng):
    """Five clusters of Student's t with three degrees of freedom."""
    z = np.arange(600) % 5
    return 10 * rng.normal(size=(5, 4))[z] + rng.standard_t(3, size=(600, 4)), z


def sets():
    """name: (rows, classes)."""
    rng = np.random.default_rng(0)
    digits = datasets.load_digits(return_X_y=True)
    return {
        "3 Gaussians, 300 × 2": mixture(300, 2, 3, gap=6, dtype=float),
        "8 Gaussians that touch, 800 × 2": mixture(800, 2, 8, gap=4, dtype=float),
        "5 Gaussians that overlap, 600 × 5": mixture(600, 5, 5, gap=2.5, dtype=float),
        "20 Gaussians, 1,000 × 10": mixture(1000, 10, 20, gap=5, dtype=float),
        "40 Gaussians, 1,200 × 3": mixture(1200, 3, 40, gap=6, dtype=float),
        "noise, 500 × 5": (rng.normal(size=(500, 5)), np.zeros(500, int)),
        "25 sizes by Zipf's law, 5 columns": zipf(rng),
        "4 long clusters, 600 × 2": long_ones(rng),
        "5 clusters with heavy tails, 600 × 4": heavy_tails(rng),
        "iris, 150 × 4": datasets.load_iris(return_X_y=True),
        "wine, 178 × 13": datasets.load_wine(return_X_y=True),
        "digits, 900 × 64": (digits[0][:900], digits[1][:900]),
    }


def gibbs(X):
    return DPMixtureGibbs(n_iter=400, burn_in=200, random_state=0, n_jobs=1).fit(X).labels_


def variational(X):
    model = BayesianGaussianMixture(
        n_components=min(30, len(X)),
        covariance_type="spherical",
        weight_concentration_prior_type="dirichlet_process",
        max_iter=500,
        random_state=0,
    )
    return model.fit(X).predict(X)


def hard(X):
    return DPMeans(random_state=0, n_jobs=1).fit(X).labels_


CONTENDERS = {
    "DPMixtureGibbs": gibbs,
    "BayesianGaussianMixture": variational,
    "DPMeans()": hard,
}


def held_out(X, labels, test):
    """Mean log-likelihood of the test rows: round Gaussians of one variance."""
    names, z = np.unique(labels, return_inverse=True)
    n, d = X.shape
    count = np.bincount(z)
    means = np.array([X[z == c].mean(axis=0) for c in range(len(names))])
    variance = ((X - means[z]) ** 2).sum() / (d * max(n - len(names), 1))
    d2 = ((test[:, None, :] - means) ** 2).sum(axis=2)
    logs = np.log(count / n) - d2 / (2 * variance) - d / 2 * np.log(2 * np.pi * variance)
    return float(logsumexp(logs, axis=1).mean())


def measure(quick):
    warnings.simplefilter("ignore")
    lines = []
    for fit in CONTENDERS.values():  # compile
        fit(mixture(60, 2, 2, gap=6, dtype=float)[0])
    for name, (X, y) in list(sets().items())[:: 4 if quick else 1]:
        X = StandardScaler().fit_transform(X)
        order = np.random.default_rng(0).permutation(len(X))
        test, train = np.sort(order[: len(X) // 5]), np.sort(order[len(X) // 5 :])
        for who, fit in CONTENDERS.items():
            cpu, _, labels = timed_cpu(lambda fit=fit, X=X, train=train: fit(X[train]), 1)
            found = len(np.unique(labels))
            same = normalized_mutual_info_score(y[train], labels)
            score = held_out(X[train], labels, X[test])
            k = len(np.unique(y))
            lines.append([name, who, f"{found} ({k})", f"{same:.2f}", f"{score:.2f}", seconds(cpu)])
            say(str(lines[-1]))
    header = ["set", "who", "clusters (classes)", "NMI", "held-out, nats", "CPU time"]
    return f"{stamp()}\n\n{table(header, lines)}"


if __name__ == "__main__":
    main(measure, description=__doc__)
