"""BKJ Figures 1 and 2: what 100 pictures of a tabletop are made of."""

import argparse
import io
import re
import warnings
import zipfile
from collections import Counter

import numpy as np
from common import canvas, keep, need, timed, write

from madbayes import BPMeans, CollapsedBPMeans, StepwiseKFeatures
from madbayes.gibbs import IBPGibbs

SCALE = 20.0  # λ² = 1 on scores divided by √20
PROTOCOL = """Principal component scores of the RGB pictures (all 99 components), divided by √20, so
that λ²=1 of the paper is a useful price: its scale is not printed, and five features are best for
prices from 0.54 to 2.23 on this one. Collapsed, BP-means and stepwise K-features as printed, each
from the greedy random start of BKJ 5; the best of "starts". Stepwise K-features: the starts of each
K. Gibbs: mass 1, the noise and the size of the features drawn with inverse-gamma priors, no feature
at the start. Histogram: the last 100 sweeps of each combination of start (one shared feature, 5 and
10 random ones, those of BP-means) and mass. Seconds are of one core."""
PAPER = {
    "Gibbs": {"per_run": 8500, "n_features": 10},
    "Collapsed": {"per_run": 11, "total": 11000, "n_features": 5},
    "BP-means": {"per_run": 0.36, "total": 360, "n_features": 6},
    "K-features": {"per_run": 0.10, "total": 155, "n_features": 5},
}


def scores():
    return np.load(need("tabletop/tabletop_pca.npz"))["X"] / np.sqrt(SCALE)


def pictures():
    """The 100 pictures as rows of values between 0 and 1, and their shape."""
    from matplotlib import image

    with zipfile.ZipFile(need("tabletop/tabletop_jpeg.zip")) as archive:
        names = [n for n in archive.namelist() if n.lower().endswith((".jpg", ".jpeg"))]
        names.sort(key=lambda name: int(re.findall(r"\d+", name)[-1]))  # 2 before 10
        read = [image.imread(io.BytesIO(archive.read(n)), format="jpg") for n in names]
    return np.array([p.ravel() for p in read], dtype=np.float32) / 255, read[0].shape


def entry(name, model, X, starts):
    seconds, model = timed(lambda: model.fit(X))
    sizes = model.n_components_ + 1 if name == "K-features" else 1  # until the objective rises
    return {
        "per_run": round(seconds / starts / sizes, 4),
        "total": round(seconds, 3),
        "starts": starts,
        "penalty": model.penalty_,
        "n_features": model.n_components_,
        "objective": model.objective_,
        "paper": PAPER.get(name),
    }, model


def algorithms(X, starts):
    common = {"random_state": 0, "n_jobs": 1}
    few = max(1, starts // 3)
    models = {
        "Collapsed": (CollapsedBPMeans(1.0, n_init=starts, **common), starts),
        "BP-means": (BPMeans(1.0, algorithm="paper", n_init=starts, **common), starts),
        "K-features": (StepwiseKFeatures(1.0, n_init=few, **common), few),
        "search": (BPMeans(1.0, **common), 1),
        "auto": (BPMeans(**common), 1),
    }
    for model, _ in models.values():
        model.fit(X[:20])  # compile
    result, fitted = {}, {}
    for name, (model, n) in models.items():
        result[name], fitted[name] = entry(name, model, X, n)
        print(name, result[name], flush=True)
    return result, fitted


def gibbs(X, sweeps):
    model = IBPGibbs(1.0, n_iter=sweeps, burn_in=0, init="empty", random_state=0, n_jobs=1)
    seconds, model = timed(lambda: model.fit(X))
    k = model.n_components_samples_
    return {
        "per_run": round(seconds, 2),
        "sweeps": sweeps,
        "n_features": int(np.bincount(k[-100:]).argmax()),
        "n_features_last_100": Counter(k[-100:].tolist()),
        "sweeps_since_last_change": int(len(k) - 1 - np.flatnonzero(np.diff(k))[-1]),
        "paper": PAPER["Gibbs"],
    }


def histogram(X, best, sweeps):
    """K of the last 100 sweeps from several starts."""
    rng = np.random.default_rng(0)
    starts = {
        "one shared feature": np.ones((len(X), 1)),
        "5 random features": rng.random((len(X), 5)) < 0.5,
        "10 random features": rng.random((len(X), 10)) < 0.5,
        "BP-means": best,
    }
    found, whole = {}, Counter()
    for name, start in starts.items():
        for alpha in (0.01, 0.1, 1.0):
            model = IBPGibbs(alpha, n_iter=sweeps, burn_in=0, init=start, random_state=0, n_jobs=1)
            last = model.fit(X).n_components_samples_[-100:].tolist()
            found[f"{name}, mass {alpha:g}"] = Counter(last)
            whole.update(last)
    return {"sweeps": sweeps, "K": dict(sorted(whole.items())), "runs": found}


def with_base(Z):
    """The same sums with a feature that all rows have, if two features are complements."""
    Z = Z.astype(int)
    for i in range(Z.shape[1]):
        for j in range(i):
            if (Z[:, i] + Z[:, j] == 1).all():
                return np.column_stack([np.ones(len(Z), int), np.delete(Z, i, axis=1)])
    return Z


def draw(model):
    """Above some pictures and the features they have, below the features."""
    X, shape = pictures()
    Z = with_base(model.assignments_)
    A = np.linalg.lstsq(Z.astype(np.float32), X, rcond=None)[0]
    patterns, first, counts = np.unique(Z, axis=0, return_index=True, return_counts=True)
    k = Z.shape[1]
    figure, axes = canvas(2, max(k, 4), figsize=(2.4 * max(k, 4), 4.2))
    for ax in axes.flat:
        ax.axis("off")
    for ax, row in zip(axes[0], first[:: max(1, len(first) // 4)], strict=False):
        ax.imshow(X[row].reshape(shape))
        ax.set_title("".join(map(str, Z[row])), fontsize=9)
    size = np.abs(A).max()
    for ax, feature, number in zip(axes[1], A, Z.sum(axis=0), strict=False):
        ax.imshow(np.clip(0.5 + feature.reshape(shape) / size, 0, 1))
        ax.set_title(f"in {number} pictures", fontsize=9)
    keep(figure, "bkj_tabletop")
    names = ["".join(map(str, p)) for p in patterns]
    return dict(zip(names, counts.tolist(), strict=True))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=100, help="1000 in the paper")
    parser.add_argument("--sweeps", type=int, default=1000, help="1000 in the paper")
    parser.add_argument("--histogram-sweeps", type=int, default=300)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    X = scores()
    result, fitted = algorithms(X, options.starts)
    result["Gibbs"] = gibbs(X, options.sweeps)
    print("Gibbs", result["Gibbs"], flush=True)
    best = fitted["BP-means"].assignments_
    result["histogram"] = histogram(X, best, options.histogram_sweeps)
    result["combinations"] = draw(fitted["K-features"])
    starts = {"starts": options.starts, "starts_in_paper": 1000, "seeds": "0"}
    write("bkj_tabletop", PROTOCOL, result, **starts)


if __name__ == "__main__":
    main()
