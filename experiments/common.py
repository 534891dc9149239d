"""What the experiments share: data, agreement with the truth, results with their circumstances.

Data comes from the folder that the environment variable MADBAYES_DATA names, or from OpenML.
"""

import json
import os
import platform
import time
from importlib import metadata
from pathlib import Path

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS = HERE / "results"
IMAGES = ROOT / "docs" / "images"
PACKAGES = ["madbayes", "numpy", "scipy", "scikit-learn", "numba"]

# name in KJ Table 1: file of the data folder, number at OpenML
UCI = {
    "Wine": ("wine", 187),
    "Iris": ("iris", 61),
    "Pima": ("pima", 37),
    "Soybean": ("soybean_large_train", 42),  # OpenML has the test file as well
    "Car": ("car_ordinal", 21),
    "Balance Scale": ("balance_scale", 11),
    "Breast Cancer": ("breast_cancer_ljubljana_ordinal", 13),
    "Vehicle": ("vehicle", 54),
}


def folder():
    """The folder that MADBAYES_DATA names, or None."""
    name = os.environ.get("MADBAYES_DATA")
    return Path(name) if name else None


def need(name):
    """A file of the data folder, for sets that OpenML does not have; without it the script ends."""
    path = (folder() or Path()) / name
    if folder() is None or not path.exists():
        print(
            f"left out, earlier results stay: needs {name} in the folder that MADBAYES_DATA names"
        )
        raise SystemExit(0)
    return path


def uci(name):
    """Attributes as numbers and classes, rows with missing values left out.

    Of OpenML's categories the place in the list of the file's header is the number.
    """
    file, number = UCI[name]
    if folder() is not None:
        table = np.genfromtxt(need(f"uci/{file}.csv.gz"), delimiter=",", dtype=str, skip_header=1)
        X, y = table[:, :-1], table[:, -1]
        X = np.where(X == "", "nan", X).astype(float)
    else:
        from sklearn.datasets import fetch_openml

        frame = fetch_openml(data_id=number, as_frame=True)
        codes = [
            c.cat.codes.where(c.notna()) if hasattr(c, "cat") else c for _, c in frame.data.items()
        ]
        X, y = np.column_stack([np.asarray(c, dtype=float) for c in codes]), frame.target.to_numpy()
    whole = np.isfinite(X).all(axis=1)
    return X[whole], np.unique(y[whole], return_inverse=True)[1]


def nmi(truth, labels):
    """Normalized mutual information, by the mean of the entropies (as KJ's reference [11])."""
    return float(normalized_mutual_info_score(truth, labels))


def timed(function):
    """Seconds of this process on the processor, and what the function returned."""
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def write(name, protocol, result, **about):
    """experiments/results/NAME.json, with versions and how it was done."""
    versions = {p: metadata.version(p) for p in PACKAGES} | {"python": platform.python_version()}
    about = {"protocol": " ".join(protocol.split()), **about, "versions": versions}
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps({"about": about, **result}, indent=1, default=_plain, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(f"wrote {name}.json")


def _plain(value):
    """NumPy's numbers and arrays as Python's."""
    return value.tolist()


def canvas(rows, columns, **options):
    """Axes without a frame on two sides."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(rows, columns, layout="constrained", squeeze=False, **options)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def keep(figure, name):
    """docs/images/NAME.png, without the version of matplotlib in it."""
    IMAGES.mkdir(exist_ok=True)
    figure.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})
    print(f"drew {name}.png")
