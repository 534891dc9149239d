"""Does an answer hold? The number found over seeds, shuffled rows and nine tenths of the rows.

For every estimator and set: `fit` with nothing set but the seed, on the rows as they are (8 seeds),
on shuffled rows (5 orders) and on 90 % of the rows (5 draws). A line of the table gives the true
number, the numbers found by each of the three, the largest over the smallest number, the mean
adjusted Rand index with the true labels, and how often the evidence was called "strong".

Each fit is one line of a JSON file (`--to`), and fits that are there already are not repeated: a
run that was stopped goes on where it was.

    python benchmarks/steadiness.py --to steadiness.jsonl --sets digits,wine --estimators DPMeans
    python benchmarks/steadiness.py --to steadiness.jsonl --show
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from common import data_folder, say, table

SEEDS, SHUFFLES, DRAWS, KEPT = 8, 5, 5, 0.9
STEADY = 1.3  # largest over smallest number that counts as the same answer


# Sets: rows, labels, keyword parameters of the estimator


def read(name):
    """Columns and labels of a table of the data folder; rows with missing cells are left out."""
    with np.errstate(all="ignore"):
        columns = np.genfromtxt(
            data_folder() / f"{name}.csv.gz", delimiter=",", skip_header=1, dtype=str
        )
    columns = columns[~(columns == "").any(axis=1)]
    return columns[:, :-1].astype(float), np.unique(columns[:, -1], return_inverse=True)[1]


def standardized(X):
    return (X - X.mean(axis=0)) / np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)


def some(n, count):
    return np.random.default_rng(0).permutation(n)[:count]


def table_set(name, scale):
    X, label = read(name)
    return (standardized(X) if scale else X), label, {}


def digits(scale=False, metric="euclidean"):
    X, label = read("images/digits8x8")
    return (standardized(X) if scale else X), label, {"metric": metric}


def fashion(count):
    file = np.load(data_folder() / "images" / "fashion_mnist_10k.npz")
    rows = some(10_000, count)
    return file["X"][rows].astype(np.float32), file["label"][rows], {}


def faces(step=4):
    file = np.load(data_folder() / "faces" / "orl_faces.npz")
    X = file["X"][:, ::step, ::step]
    return X.reshape(len(X), -1).astype(np.float32), file["label"], {}


def agnews(count):
    file = np.load(data_folder() / "embeddings" / "agnews_sentences256.npz")
    rows = some(8000, count)
    return file["X"][rows].astype(np.float32), file["label"][rows], {"metric": "cosine"}


def usps():
    file = np.load(data_folder() / "embeddings" / "usps_umap10.npz")
    return file["X"], file["label"], {}


def tfidf(count, groups=20):
    import scipy.sparse as sp
    from sklearn.feature_extraction.text import TfidfTransformer

    file = np.load(data_folder() / "text" / "20news_bow.npz")
    parts = (file["data"].astype(float), file["indices"].astype(np.int32), file["indptr"])
    X = TfidfTransformer(sublinear_tf=True).fit_transform(sp.csr_matrix(parts, shape=file["shape"]))
    rows = np.flatnonzero(np.isin(file["label"], np.arange(0, 20, 20 // groups)))
    rows = rows[some(len(rows), count)]
    return X[rows], file["label"][rows]


def news(count, groups=20):
    from sklearn.decomposition import TruncatedSVD

    X, label = tfidf(count, groups)
    return TruncatedSVD(100, random_state=0).fit_transform(X), label, {"metric": "cosine"}


def sparse_news(count):
    X, label = tfidf(count)
    return X, label, {"metric": "cosine"}


def cells():
    """pbmc68k_reduced of scanpy's wheel, saved as X and label in the working folder."""
    file = np.load("pbmc68k_reduced.npz")
    return file["X"], file["label"], {}


def noise(kind, n, d, k=0):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    if kind == "spectrum":  # components of digits' variances
        X = X * np.geomspace(10, 0.5, d) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    elif kind == "t4":
        X = X / np.sqrt(rng.chisquare(4, (n, 1)) / 4)
    elif kind == "uniform":
        X = rng.random((n, d))
    return X, np.zeros(n, int), {}


def same_spectrum(make):
    """Gaussian noise with the mean and the covariance of a set."""
    X, _, more = make()
    X = np.asarray(X, float)
    mean = X.mean(axis=0)
    mixing = np.random.default_rng(0).standard_normal((len(X), len(X))) / np.sqrt(len(X))
    return mean + mixing @ (X - mean), np.zeros(len(X), int), more


def codes():
    """Three clusters in 1,500 rows; six cells hold 9999."""
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(3), 500)
    X = 6 * rng.standard_normal((3, 6))[label] + rng.standard_normal((1500, 6))
    X[rng.choice(1500, 6, replace=False), rng.integers(0, 6, 6)] = 9999
    return X, label, {}


SETS = {
    **{n: (lambda n=n: table_set(f"shapes/{n}", False)) for n in ("a1", "s1", "s3", "d31")},
    "unbalance": lambda: table_set("shapes/unbalance", False),
    **{
        name + (" std" if scale else ""): (lambda f=file, s=scale: table_set(f"uci/{f}", s))
        for name, file in {
            "iris": "iris",
            "wine": "wine",
            "wdbc": "breast_cancer_wdbc",
            "wisconsin": "breast_cancer_wisconsin_original",
            "vehicle": "vehicle",
            "soybean small": "soybean_small",
            "soybean large": "soybean_large_full",
            "pima": "pima",
            "balance": "balance_scale",
            "car": "car_ordinal",
        }.items()
        for scale in (False, True)
    },
    "digits": digits,
    "digits std": lambda: digits(scale=True),
    "digits cosine": lambda: digits(metric="cosine"),
    "fashion 2000": lambda: fashion(2000),
    "fashion 5000": lambda: fashion(5000),
    "faces": faces,
    "usps umap": usps,
    "cells": cells,
    "news 1000": lambda: news(1000),
    "news 2000": lambda: news(2000),
    "news 5000": lambda: news(5000),
    "news 4 groups": lambda: news(2000, 4),
    "sparse news 2000": lambda: sparse_news(2000),
    "agnews 2000": lambda: agnews(2000),
    "agnews": lambda: agnews(8000),
    "9999": codes,
    "noise gauss": lambda: noise("gauss", 1000, 2),
    "noise uniform": lambda: noise("uniform", 1000, 50),
    "noise t4": lambda: noise("t4", 1000, 30),
    "noise spectrum": lambda: noise("spectrum", 1500, 60),
    "noise like digits": lambda: same_spectrum(digits),
    "noise like news": lambda: same_spectrum(lambda: news(2000)),
    "noise like fashion": lambda: same_spectrum(lambda: fashion(2000)),
}


# Fits


def variants(n):
    """(name, rows to take or None, seed)"""
    for seed in range(SEEDS):
        yield f"seed {seed}", None, seed
    for i in range(SHUFFLES):
        yield f"shuffle {i}", np.random.default_rng(100 + i).permutation(n), 0
    for i in range(DRAWS):
        rng = np.random.default_rng(200 + i)
        yield f"90% {i}", np.sort(rng.permutation(n)[: int(KEPT * n)]), 0


def fit(estimator, X, more, seed):
    import madbayes

    model = getattr(madbayes, estimator)(random_state=seed)
    known = model.get_params()
    model.set_params(**{k: v for k, v in more.items() if k in known})
    if estimator == "HardHDP":  # groups that mean nothing
        X = X if isinstance(X, np.ndarray) else X.toarray()
        groups = np.random.default_rng(seed).integers(0, 2, len(X))
        return model.fit(X, groups=groups)
    return model.fit(X)


def run(estimators, names, to):
    from sklearn.metrics import adjusted_rand_score

    done = {(r["estimator"], r["set"], r["variant"]) for r in load(to)}
    for name in names:
        made = None
        for estimator in estimators:
            if made is None and all((estimator, name, v) in done for v, _, _ in variants(1000)):
                continue
            if made is None:
                try:
                    made = SETS[name]()
                except FileNotFoundError as error:
                    say(f"{name}: {error}")
                    break
            X, label, more = made
            for variant, rows, seed in variants(X.shape[0]):
                if (estimator, name, variant) in done:
                    continue
                Xv, truth = (X, label) if rows is None else (X[rows], label[rows])
                begin = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = fit(estimator, Xv, more, seed)
                evidence = model.evidence_
                row = {
                    "estimator": estimator,
                    "set": name,
                    "variant": variant,
                    "truth": len(np.unique(label)),
                    "number": int(model.n_clusters_),
                    "strength": evidence.strength,
                    "stability": getattr(evidence, "stability", None),
                    "rand": round(float(adjusted_rand_score(truth, model.labels_)), 3),
                    "cpu": round(time.process_time() - begin, 2),
                }
                with to.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        say(f"{name} done")


def load(to):
    return [json.loads(line) for line in to.read_text().splitlines()] if to.exists() else []


def show(to, estimators, names):
    """The table of what is in the file."""
    rows = load(to)
    lines = []
    for estimator in estimators:
        for name in names:
            here = [r for r in rows if (r["estimator"], r["set"]) == (estimator, name)]
            if not here:
                continue
            by = {
                kind: [r["number"] for r in here if r["variant"].startswith(kind)]
                for kind in ("seed", "shuffle", "90%")
            }
            numbers = [r["number"] for r in here]
            words = [r["strength"] for r in here]
            spread = max(numbers) / min(numbers)
            lines.append(
                [
                    f"{estimator} {name}",
                    here[0]["truth"],
                    *(" ".join(map(str, found)) for found in by.values()),
                    f"{spread:.2f}" + ("" if spread <= STEADY else " !"),
                    f"{np.mean([r['rand'] for r in here]):.2f}",
                    f"{words.count('strong')}/{len(words)}",
                    f"{np.mean([r['cpu'] for r in here]):.1f}",
                ]
            )
    header = ["set", "true", "seeds", "shuffles", "90 %", "spread", "ARI", "strong", "CPU s"]
    return table(header, lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path("steadiness.jsonl"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--estimators", default="DPMeans")
    parser.add_argument("--show", action="store_true", help="only show what is there")
    arguments = parser.parse_args()
    estimators, names = arguments.estimators.split(","), arguments.sets.split(",")
    if not arguments.show:
        run(estimators, names, arguments.to)
    print(show(arguments.to, estimators, names))


if __name__ == "__main__":
    main()
