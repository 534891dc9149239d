"""Layers: is the true clustering among them? NeighborCut and DPMeans against EVoC and PLSCAN.

Labelled texts, pictures, cells and tables of `steadiness.py` (MADBAYES_DATA names the folder). Each
method gets the rows and nothing else. The adjusted Rand index is that of the best layer, all rows
counted: the rows that a method leaves out (-1) are one cluster more. A layer is *near* when its
number of clusters is within 25 % of the number of labels.
"""

from importlib.util import find_spec

import numpy as np
from common import data_folder, in_process, main, say, stamp, table
from steadiness import SETS

CONTENDERS = {
    "cut": "`NeighborCut()`",
    "dp": "`DPMeans()`",
    "evoc": "EVoC",
    "plscan": "PLSCAN (fast_hdbscan)",
}
NEEDS = {"evoc": "evoc", "plscan": "fast_hdbscan"}
TEXTS = ("agnews", "agnews 2000", "news 1000", "news 2000", "news 5000", "news 4 groups")
OTHERS = ("digits", "usps umap", "fashion 2000", "faces", "iris std", "wine std", "s1", "d31", "a1")
NEAR = 0.25


def layers_of(who, X, more):
    """Label arrays of all layers that a method gives."""
    if who in ("cut", "dp"):
        from madbayes import DPMeans, NeighborCut

        return (
            (NeighborCut if who == "cut" else DPMeans)(random_state=0, **more)
            .fit(X)
            .cluster_layers_
        )
    if more.get("metric") == "cosine":
        from sklearn.preprocessing import normalize

        X = normalize(X)
    if who == "evoc":
        from evoc import EVoC

        return EVoC(random_state=0).fit(np.asarray(X, np.float32)).cluster_layers_
    from fast_hdbscan import PLSCAN

    return PLSCAN().fit(X).cluster_layers_


def worker(task):
    from sklearn.metrics import adjusted_rand_score

    X, truth, more = SETS[task["set"]]()
    layers = layers_of(task["who"], X, more)
    numbers = [len(np.unique(layer[layer >= 0])) for layer in layers]
    k = len(np.unique(truth))
    return {
        "k": k,
        "numbers": numbers,
        "best": max((adjusted_rand_score(truth, layer) for layer in layers), default=0.0),
        "near": any(abs(number - k) <= NEAR * k for number in numbers),
    }


def measure(quick):
    if data_folder() is None:
        return "MADBAYES_DATA is not set: the labelled sets are not there."
    who = [name for name in CONTENDERS if name not in NEEDS or find_spec(NEEDS[name])]
    names = ("digits", "iris std") if quick else TEXTS + OTHERS
    found = {}
    for name in names:
        for contender in who:
            say(f"{name}, {contender}")
            found[name, contender] = in_process(__file__, {"set": name, "who": contender})
    rows = []
    for name in names:
        cells = [found[name, contender] for contender in who]
        numbers = [f"{cell['best']:.2f} ({', '.join(map(str, cell['numbers']))})" for cell in cells]
        rows.append([name, cells[0]["k"], *numbers])
    near = [sum(found[name, contender]["near"] for name in names) for contender in who]
    best = [np.mean([found[name, contender]["best"] for name in names]) for contender in who]
    rows.append(
        [
            "**mean, near layers**",
            "",
            *(f"{b:.2f}, {n} of {len(names)}" for b, n in zip(best, near, strict=True)),
        ]
    )
    header = ["set", "labels", *(CONTENDERS[contender] for contender in who)]
    return f"{stamp()}\n\n{table(header, rows)}"


if __name__ == "__main__":
    main(measure, worker, __doc__)
