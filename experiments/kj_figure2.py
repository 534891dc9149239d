"""KJ Figure 2 (a)–(c): three Gaussians; DP-means over 100 runs, two Gibbs runs, k against λ."""

import warnings

import numpy as np
from common import canvas, keep, nmi, timed, write

from madbayes import DPMeans, penalties
from madbayes.gibbs import DPMixtureGibbs
from madbayes.plots._palette import COLORS

TRIANGLE = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
SIDE = 5.0  # the distance at which DP-means needs as many passes as the paper says
SIDES = [4.0, 4.5, 5.0, 6.0]  # all that were tried
EACH, RUNS, SWEEPS = 100, 100, 5000
BEYOND = 20  # runs of the search and of "auto"
ALPHAS = [1e-4, 1e-3, 1e-2, 1e-1, 1.0]
PROTOCOL = """Three round Gaussians of variance 1 with means at distance 5, 100 rows of each, in
random order, mean removed. 100 runs, each on new rows: DP-means as printed from one cluster, rows
in the given order, λ by farthest-first with k=3, a row opens a cluster when its squared distance is
> λ; an iteration is a pass, the last one without changes included. Gibbs (run 0): one cluster at
the start, no burn-in, ρ=100, inverse-gamma prior on σ; α with a gamma(1, 1) prior, or the α of the
grid with the best mean NMI over the second half of 1,000 sweeps on other rows. The paper does not
print its three Gaussians: "distances" has the same figures for all distances tried."""


def three_gaussians(seed, side=SIDE):
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.repeat([0, 1, 2], EACH))
    X = side * TRIANGLE[truth] + rng.standard_normal((3 * EACH, 2))
    return X - X.mean(axis=0), truth


def fit(seed, side=SIDE, **options):
    """Passes, NMI and number of clusters of one run, as printed unless told otherwise."""
    X, truth = three_gaussians(seed, side)
    if not options:
        first = penalties.farthest_first(X, 3, n_jobs=1)
        options = {"penalty": first, "algorithm": "paper"}
    model = DPMeans(random_state=seed, n_jobs=1, **options).fit(X)
    return model.n_iter_, nmi(truth, model.labels_), model.n_clusters_


def summary(runs):
    passes, value, k = np.array(runs).T
    return {
        "max_iterations": int(passes.max()),
        "mean_iterations": passes.mean(),
        "mean_nmi": value.mean(),
        "share_with_3_clusters": float((k == 3).mean()),
    }


def above(X, truth, bound=0.8):
    """Passes after which the NMI is above the bound."""
    first = penalties.farthest_first(X, 3, n_jobs=1)
    for passes in range(1, 20):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = DPMeans(first, algorithm="paper", max_iter=passes, n_jobs=1).fit(X)
        if nmi(truth, model.labels_) > bound:
            return passes
    return None


def gibbs(X, alpha, sweeps, seed=0):
    """All samples, from the first sweep on."""
    model = DPMixtureGibbs(alpha=alpha, burn_in=0, n_iter=sweeps, random_state=seed, n_jobs=1)
    return model.fit(X)


def validated():
    """The α of the grid that does best on rows that are used for nothing else."""
    X, truth = three_gaussians(10_000)
    score = {}
    for alpha in ALPHAS:
        samples = gibbs(X, alpha, 1000).label_samples_[500::10]
        score[alpha] = np.mean([nmi(truth, labels) for labels in samples])
    return max(score, key=score.get), score


def trace(X, truth, alpha):
    """NMI and k of every 20th sweep."""
    seconds, model = timed(lambda: gibbs(X, alpha, SWEEPS))
    at = np.arange(0, SWEEPS, 20)
    value = [nmi(truth, labels) for labels in model.label_samples_[at]]
    k = model.n_clusters_samples_
    three = np.flatnonzero(k == 3)
    return {
        "sweep": at + 1,
        "nmi": np.round(value, 3),
        "n_clusters": k[at],
        "first_sweep_with_3": int(three[0]) + 1 if len(three) else None,
        "share_with_3": float((k == 3).mean()),
        "mean_nmi_last_half": float(np.mean(value[len(value) // 2 :])),
        "seconds": round(seconds, 2),
    }


def against_lambda(X):
    """k of the printed algorithm on a grid of λ, and the staircase of the search."""
    grid = np.geomspace(1, 200, 60)
    printed = [DPMeans(p, algorithm="paper", n_jobs=1).fit(X).n_clusters_ for p in grid]
    path = penalties.path(X, random_state=0, n_jobs=1)
    three = path.number == 3
    return {
        "penalty": np.round(grid, 3),
        "n_clusters": printed,
        "three_from_to_paper": [float(f(grid[np.array(printed) == 3])) for f in (min, max)],
        "three_from_to_search": [float(path.price_low[three][0]), float(path.price_high[three][0])],
        "path": {"number": path.number[:10], "price_low": path.price_low[:10]},
    }


def draw(X, truth, traces, staircase):
    figure, (axes,) = canvas(1, 3, figsize=(12, 3.6))
    axes[0].scatter(*X.T, s=8, c=np.array(COLORS[:3])[truth])
    axes[0].set_title("(a) three Gaussians")
    for color, (name, one) in zip(COLORS, traces.items(), strict=False):
        axes[1].plot(one["sweep"], one["nmi"], lw=1, color=color, label=name)
    axes[1].set(title="(b) NMI of Gibbs sweeps", xlabel="sweep", ylim=(0, 1))
    axes[1].legend(frameon=False)
    axes[2].step(staircase["penalty"], staircase["n_clusters"], color=COLORS[0], where="mid")
    path = staircase["path"]
    axes[2].step(path["price_low"], path["number"], color=COLORS[2], where="post")
    axes[2].legend(["as printed", "search"], frameon=False)
    axes[2].set(title="(c) DP-means", xlabel="λ", ylabel="clusters", xscale="log")
    axes[2].set_yscale("log")
    keep(figure, "kj_figure2")


def main():
    beyond = {
        "search": {"penalty": "farthest-first", "n_clusters_hint": 3},
        "auto": {"penalty": "auto"},
    }
    X, truth = three_gaussians(0)
    alpha, score = validated()
    traces = {"gamma prior": trace(X, truth, None), f"α = {alpha:g}": trace(X, truth, alpha)}
    gamma, given = traces.values()
    staircase = against_lambda(X)
    result = {
        **summary([fit(seed) for seed in range(RUNS)]),
        "mean_passes_to_nmi_above_0.8": np.mean(
            [p for seed in range(RUNS) if (p := above(*three_gaussians(seed)))]
        ),
        "distances": {s: summary([fit(seed, s) for seed in range(RUNS)]) for s in SIDES},
        **{
            name: {"runs": BEYOND, **summary([fit(seed, **options) for seed in range(BEYOND)])}
            for name, options in beyond.items()
        },
        "Gibbs": {"gamma": gamma, "validated": {"alpha": alpha, "validation": score, **given}},
        "k_against_lambda": staircase,
        "paper": {"max_iterations": 8, "mean_nmi": 0.89, "passes_to_nmi_above_0.8": 3},
    }
    write("kj_figure2", PROTOCOL, result, runs=RUNS, seeds="0 to 99", sweeps=SWEEPS)
    draw(X, truth, traces, staircase)


if __name__ == "__main__":
    main()
