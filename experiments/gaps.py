"""What the printed algorithms leave on the table: the same objective, the same price, real data.

Two prices for each set: that of KJ's heuristic (farthest-first from the number of classes), which
is what one row repays, and that of "auto", which is what a whole cluster repays.
"""

import warnings

import numpy as np
from common import ROOT, UCI, folder, need, timed, uci, write

from madbayes import BPMeans, DPMeans, penalties

SHAPES = {"s1": 15, "a1": 20, "d31": 31, "unbalance": 8}
PROTOCOL = """Objective: squared error + price × number of clusters (or features). "paper": the
printed algorithm from its printed start, rows in random order (the best of 10 greedy starts for
features); "search": exact search at the same price. gap: objective of "paper" / objective of
"search" - 1. Columns of the UCI sets and Old Faithful standardized."""


def standard(X):
    return (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1)


def sets():
    """name: rows, number of classes."""
    faithful = np.loadtxt(ROOT / "examples" / "old_faithful.csv", delimiter=",", skiprows=1)
    yield "Old Faithful", standard(faithful), 2
    for name in UCI:
        X, y = uci(name)
        yield name, standard(X), len(np.unique(y))
    if folder() is None:
        return
    for name, k in SHAPES.items():
        file = need(f"shapes/{name}.csv.gz")
        yield name, np.loadtxt(file, delimiter=",", skiprows=1, usecols=(0, 1)), k
    digits = np.loadtxt(need("images/digits8x8.csv.gz"), delimiter=",", skiprows=1)
    yield "digits", digits[:, :64], 10


def compare(make, X):
    """Objectives, sizes and seconds of both algorithms."""
    found = {}
    for algorithm in ("paper", "search"):
        model = make(algorithm)
        seconds, _ = timed(lambda model=model: model.fit(X))
        number = getattr(model, "n_clusters_", None)
        found[algorithm] = {
            "objective": model.objective_,
            "number": model.n_components_ if number is None else number,
            "seconds": round(seconds, 3),
        }
    gap = found["paper"]["objective"] / found["search"]["objective"] - 1
    return {**found, "gap": gap}


def clusterings():
    for name, X, k in sets():
        prices = {"farthest-first": penalties.farthest_first(X, k, n_jobs=1)}
        prices["auto"] = penalties.path(X, random_state=0, n_jobs=1).best().penalty
        result = {"rows": len(X), "columns": X.shape[1], "classes": k}
        for rule, price in prices.items():

            def make(algorithm, price=price):
                options = {"order": "random"} if algorithm == "paper" else {}
                return DPMeans(price, algorithm=algorithm, random_state=0, n_jobs=1, **options)

            result[rule] = {"price": price, **compare(make, X)}
        print(name, result["farthest-first"]["gap"], result["auto"]["gap"], flush=True)
        yield name, result


def features():
    """The tabletop at the price of bkj_tabletop.py, and the same from no feature."""
    X = np.load(need("tabletop/tabletop_pca.npz"))["X"]
    common = {"random_state": 0, "n_jobs": 1}
    for start in ("greedy", "empty"):

        def make(algorithm, start=start):
            if algorithm == "search":
                return BPMeans(20.0, **common)
            return BPMeans(20.0, algorithm="paper", init=start, **common)

        yield f"tabletop, {start} start", {"price": 20.0, **compare(make, X)}


def main():
    warnings.simplefilter("ignore")
    result = {"clusters": dict(clusterings())}
    result["features"] = dict(features()) if folder() else {}
    write("gaps", PROTOCOL, result, seeds="0")


if __name__ == "__main__":
    main()
