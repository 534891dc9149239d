"""PRML Figures 9.1 and 9.2: k-means on the standardized Old Faithful eruptions, step by step."""

import numpy as np
from common import ROOT, canvas, keep, write

from madbayes import KMeans
from madbayes.plots._palette import COLORS

START = np.array([[-1.5, 1.0], [1.5, -1.0]])  # deliberately bad, read off Figure 9.1 (a)
PROTOCOL = """K=2 from centres (-1.5, 1) and (1.5, -1), each column with mean 0 and standard
deviation 1. J (Eq. 9.1) after each E and each M step, until an E step changes no label."""


def steps(X, centers):
    """(name, labels, centers, J) of each E and M step, the last cycle without changes included."""
    labels = None
    while True:
        distance = ((X[:, None] - centers) ** 2).sum(axis=2)
        before, labels = labels, distance.argmin(axis=1)
        yield "E", labels, centers, distance.min(axis=1).sum()
        centers = np.array([X[labels == k].mean(axis=0) for k in range(len(centers))])
        yield "M", labels, centers, ((X - centers[labels]) ** 2).sum()
        if before is not None and (before == labels).all():
            return


def draw(X, found):
    figure, axes = canvas(3, 3, figsize=(8, 8), sharex=True, sharey=True)
    states = [("start", None, START, None), *found]
    for ax, letter, (name, labels, centers, _) in zip(axes.flat, "abcdefghi", states, strict=False):
        colors = "#888888" if labels is None else np.array(COLORS[:2])[labels]
        ax.scatter(*X.T, s=6, c=colors)
        ax.scatter(*centers.T, s=90, marker="X", c=COLORS[:2], edgecolors="white", zorder=3)
        ax.set_title(f"({letter}) {name}" + " step" * (name != "start"), fontsize=9)
    keep(figure, "prml_figure9_1")
    figure, axes = canvas(1, 1, figsize=(5, 3.2))
    J = [step[3] for step in found]
    ax = axes[0, 0]
    ax.plot(range(len(J)), J, color="#999999", lw=1, zorder=1)
    ax.scatter(range(len(J)), J, c=[COLORS[0] if s[0] == "E" else COLORS[1] for s in found])
    ax.set_xticks(range(len(J)), [s[0] for s in found])
    ax.set(xlabel="steps", ylabel="J", ylim=(0, None))
    keep(figure, "prml_figure9_2")


def main():
    X = np.loadtxt(ROOT / "examples" / "old_faithful.csv", delimiter=",", skiprows=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    found = list(steps(X, START))
    model = KMeans(2, init=START, n_init=1, algorithm="paper").fit(X)
    assert np.isclose(model.inertia_, found[-1][3]), "the estimator ends where the plain steps do"
    J = [step[3] for step in found]
    settled = next(i for i in range(1, len(J), 2) if np.isclose(J[i], J[-1]))
    result = {
        "J": J,
        "steps": [step[0] for step in found],
        "sizes": np.bincount(found[-1][1]),
        "M_steps_to_converge": (settled + 1) // 2,
        "paper": {"M_steps_to_converge": 3},
    }
    write("prml_figure9", PROTOCOL, result, rows=len(X), start=START)
    draw(X, found)


if __name__ == "__main__":
    main()
