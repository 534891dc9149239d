"""Write the golden files of a format version: once for each version, never again.

They show that files of old versions stay readable: `python tests/_storage/golden/make.py 1`.
"""

import json
import sys
from pathlib import Path

import numpy as np

import madbayes
from madbayes._storage.prepared import Column, Prepared

HERE = Path(__file__).parent


def main(version: str) -> None:
    rng = np.random.default_rng(0)
    X = np.repeat([[0.0, 0], [9, 0], [0, 9]], 20, axis=0) + rng.normal(size=(60, 2))
    rows = rng.uniform(-3, 12, size=(12, 2))
    model = madbayes.DPMeans(random_state=0).fit(X)
    model.save(HERE / f"dp_means_{version}.npz")
    columns = (Column("a"), Column("b", fill=4.5))
    prepared = Prepared(model, columns, np.zeros(2), np.array([1.0, 1000.0]))
    prepared.save(HERE / f"prepared_{version}.npz")
    expected = {
        "rows": rows.tolist(),
        "n_clusters": model.n_clusters_,
        "path": model.path_.n_clusters.tolist(),
        "labels": model.predict(rows).tolist(),
        "distances": model.transform(rows).tolist(),
        "prepared": prepared.predict(rows * [1, 1000]).tolist(),
    }
    (HERE / f"dp_means_{version}.json").write_text(json.dumps(expected) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
