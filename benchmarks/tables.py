"""People's tables: numbers, counts, yes/no, categories and gaps, against the usual ways out.

`DPMeans(divergence="mixed")` has nothing set and finds the number of clusters. The others:

- one-hot columns, standardised, scikit-learn's `KMeans` told the number;
- k-prototypes or k-modes (kmodes) told the number;
- latent classes (StepMix) with the number of lowest BIC among 1 to 12;
- Gower distances, FasterPAM (kmedoids) and the number of largest silhouette among 2 to 12.

Only the last two find a number. Gaps are filled by the median or the most frequent value for
methods that take none. Mean adjusted Rand index over the sets, and the numbers found.
"""

import warnings

import numpy as np
import pandas as pd
from common import data_folder, main, say, seconds, stamp, table, timed, timed_cpu
from sklearn.metrics import adjusted_rand_score

UCI = {
    "car_raw": "car",
    "soybean_small": "soybean (small)",
    "soybean_large_full": "soybean (large)",
    "breast_cancer_ljubljana_raw": "breast cancer (Ljubljana)",
    "breast_cancer_wisconsin_original": "breast cancer (Wisconsin)",
}
TEXT = ("soybean_small", "soybean_large_full", "car_raw", "breast_cancer_ljubljana_raw")


def uci():
    """(name, table, labels); the codes of soybean are categories."""
    folder = data_folder()
    for file, name in UCI.items() if folder else ():
        frame = pd.read_csv(folder / "uci" / f"{file}.csv.gz")
        labels = frame.pop("label").to_numpy()
        if file in TEXT:
            frame = frame.astype(object).where(frame.notna(), None)
            frame = frame.map(lambda v: v if v is None else str(v))
        yield name, frame, labels


def generated(k, n, seed, gaps=0.0):
    """k groups in three numbers of different units, two counts, yes/no and two categories."""
    r = np.random.default_rng(seed)
    z = r.integers(0, k, n)
    frame = pd.DataFrame(
        {
            "age": 40 + 12 * r.normal(size=k)[z] + 5 * r.normal(size=n),
            "income": 1e4 * np.exp(0.5 * r.normal(size=k)[z] + 0.25 * r.normal(size=n)),
            "score": 2.5 * r.normal(size=k)[z] + r.normal(size=n),
            "visits": r.poisson(np.exp(0.7 * r.normal(size=k) + 1)[z]),
            "orders": r.poisson(np.exp(0.7 * r.normal(size=k) + 1)[z]),
            "member": r.random(n) < r.beta(0.6, 0.6, k)[z],
        }
    )
    for name, levels in (("plan", "abcd"), ("region", "xyz")):
        shares = r.dirichlet(np.full(len(levels), 0.7), size=k).cumsum(axis=1)
        at = (r.random(n)[:, None] > shares[z][:, :-1]).sum(axis=1)
        frame[name] = np.array(list(levels), dtype=object)[at]
    if gaps:
        frame = frame.astype(object).mask(r.random(frame.shape) < gaps, None)
    return frame, z


def sets():
    yield from uci()
    for k in (2, 3, 4, 6, 8):
        yield (f"generated, {k} groups", *generated(k, 800, k))
    yield ("generated, 4 groups, 15 % gaps", *generated(4, 800, 9, gaps=0.15))


def filled(frame):
    """Without gaps, and which columns are numbers."""
    frame = frame.infer_objects()
    numbers = [c for c in frame if frame[c].dtype.kind in "iufb"]
    for c in frame:
        if frame[c].isna().any():
            value = frame[c].median() if c in numbers else frame[c].mode()[0]
            frame = frame.assign(**{c: frame[c].fillna(value)})
    return frame.infer_objects(), numbers


def one_hot_kmeans(frame, k):
    from sklearn.cluster import KMeans
    from sklearn.preprocessing import StandardScaler

    X = StandardScaler().fit_transform(pd.get_dummies(filled(frame)[0]).astype(float))
    return KMeans(k, n_init=10, random_state=0).fit_predict(X)


def prototypes(frame, k):
    from kmodes.kmodes import KModes
    from kmodes.kprototypes import KPrototypes

    frame, numbers = filled(frame)
    if len(numbers) == frame.shape[1]:  # k-prototypes needs a category
        return one_hot_kmeans(frame, k)
    text = [at for at, c in enumerate(frame) if c not in numbers]
    if not numbers:
        return KModes(k, n_init=10, random_state=0).fit_predict(frame.astype(str))
    for c in numbers:
        frame[c] = (frame[c] - frame[c].mean()) / (frame[c].std() or 1)
    return KPrototypes(k, n_init=5, random_state=0).fit_predict(frame, categorical=text)


def latent_classes(frame, k):
    from stepmix import StepMix
    from stepmix.utils import get_mixed_descriptor

    del k
    frame, numbers = filled(frame)
    kinds = {"continuous": [], "binary": [], "categorical": []}
    for c in frame:
        if c in numbers and frame[c].nunique() > 2:
            kinds["continuous"].append(c)
            frame[c] = (frame[c] - frame[c].mean()) / (frame[c].std() or 1)
        else:
            frame[c] = pd.factorize(frame[c])[0]
            kinds["categorical"].append(c)
    data, descriptor = get_mixed_descriptor(frame, **{n: c for n, c in kinds.items() if c})
    best = None
    for number in range(1, 13):
        model = StepMix(
            number, measurement=descriptor, n_init=3, random_state=0, verbose=0, progress_bar=0
        ).fit(data)
        if best is None or model.bic(data) < best[0]:
            best = model.bic(data), model.predict(data)
    return best[1]


def gower(frame, k):
    import kmedoids
    from sklearn.metrics import silhouette_score

    del k
    frame, numbers = filled(frame)
    D = np.zeros((len(frame), len(frame)))
    for c in frame:
        if c in numbers:
            v = frame[c].to_numpy(float)
            D += np.abs(v[:, None] - v) / (np.ptp(v) or 1)
        else:
            v = pd.factorize(frame[c])[0]
            D += v[:, None] != v
    D /= frame.shape[1]
    found = [kmedoids.fasterpam(D, number, random_state=0).labels for number in range(2, 13)]
    return max(found, key=lambda z: silhouette_score(D, z, metric="precomputed"))


def ours(frame, k):
    from madbayes import DPMeans

    del k
    return DPMeans(divergence="mixed", missing="observed", random_state=0).fit_predict(frame)


def told(frame, k):
    from madbayes import KMeans

    model = KMeans(k, divergence="mixed", missing="observed", random_state=0, algorithm="search")
    return model.fit_predict(frame)


CONTENDERS = {
    'madbayes DPMeans(divergence="mixed")': ours,
    'madbayes KMeans(k, divergence="mixed"), told k': told,
    "one-hot, StandardScaler, KMeans, told k": one_hot_kmeans,
    "k-prototypes / k-modes, told k": prototypes,
    "StepMix, number by BIC": latent_classes,
    "Gower, FasterPAM, number by silhouette": gower,
}


def noise(n, seed):
    """Mixed columns without groups: normal, skewed, correlated, counts, yes/no, categories."""
    r = np.random.default_rng(seed)
    height = r.normal(size=n)
    return pd.DataFrame(
        {
            "height": height,
            "weight": height + r.normal(size=n),
            "income": np.exp(r.normal(size=n)),
            "visits": r.poisson(3, n),
            "orders": r.negative_binomial(2, 0.3, n),
            "member": r.random(n) < 0.3,
            "plan": r.choice(list("abcd"), n, p=[0.5, 0.3, 0.15, 0.05]),
            "region": r.choice(list("xyz"), n),
        }
    )


def quality(quick):
    """The table of all sets, and the means."""
    lines, scores = [], {name: [] for name in CONTENDERS}
    for name, frame, labels in list(sets())[:: 4 if quick else 1]:
        k = len(np.unique(labels))
        for who, fit in CONTENDERS.items():
            took, z = timed(lambda fit=fit, frame=frame, k=k: fit(frame, k))
            score = adjusted_rand_score(labels, z)
            scores[who].append(score)
            found = len(np.unique(z[z >= 0]))
            lines.append([name, who, f"{found} of {k}", f"{score:.3f}", seconds(took)])
            say(str(lines[-1]))
    means = [[who, f"{np.mean(found):.3f}"] for who, found in scores.items()]
    header = ["set", "who", "clusters", "ARI", "time"]
    return f"{table(header, lines)}\n\n{table(['who', 'mean ARI'], means)}"


def whole(quick):
    """How often noise stays one cluster."""
    lines = []
    for n in (300, 1000):
        seeds = range(5 if quick else 50)
        numbers = [len(np.unique(ours(noise(n, seed), 1))) for seed in seeds]
        lines.append([n, f"{sum(k == 1 for k in numbers)} of {len(numbers)}"])
        say(str(lines[-1]))
    return table(["rows of noise", "one cluster"], lines)


def one_grouping(k, n, seed):
    """20 columns that all follow the same k clusters."""
    rng = np.random.default_rng(seed)
    label = rng.integers(0, k, n)
    columns = {f"n{j}": 3 * rng.normal(size=k)[label] + rng.normal(size=n) for j in range(7)}
    for j in range(6):
        columns[f"c{j}"] = rng.poisson(np.exp(0.7 * rng.normal(size=k) + 1)[label])
    for j in range(4):
        columns[f"m{j}"] = rng.random(n) < rng.beta(0.6, 0.6, k)[label]
    for j in range(3):
        share = rng.dirichlet(np.full(4, 0.7), size=k).cumsum(axis=1)
        code = (rng.random(n)[:, None] > share[label][:, :-1]).sum(axis=1)
        columns[f"k{j}"] = np.array(list("abcd"), dtype=object)[code]
    return pd.DataFrame(columns)


def two_groupings(k, n):
    """20 columns, some of which follow other clusters than the rest: no number is right."""
    parts = [generated(k, n, 0)[0], generated(k, n, 0)[0].add_suffix("2")]
    return pd.concat([*parts, generated(k, n, 1)[0].iloc[:, :4].add_suffix("3")], axis=1)


def speed(quick):
    """Many rows of 20 columns."""
    from madbayes import DPMeans, KMeans

    n = 20_000 if quick else 200_000
    lines = []
    for title, frame in (("one", one_grouping(6, n, 0)), ("two", two_groupings(6, n))):
        codes = frame.apply(lambda c: pd.factorize(c)[0] if c.dtype.kind not in "iufb" else c)
        X, mixed = codes.to_numpy(dtype=float), {"divergence": "mixed", "random_state": 0}
        fits = {
            "KMeans(6) on the same numbers": (KMeans(6, random_state=0), X),
            "KMeans(6, divergence='mixed')": (KMeans(6, **mixed), frame),
            "DPMeans() on the same numbers": (DPMeans(random_state=0), X),
            "DPMeans(divergence='mixed')": (DPMeans(**mixed), frame),
        }
        first = None
        for name, (model, rows) in fits.items():
            cpu, took, _ = timed_cpu(lambda model=model, rows=rows: model.fit(rows), 2)
            first = first or cpu
            lines.append([title, name, seconds(took), seconds(cpu), f"{cpu / first:.1f}"])
            say(str(lines[-1]))
    header = ["groupings", "who", "time", "CPU time", "CPU time / the first"]
    return f"**{n:,} rows of 20 mixed columns**\n\n{table(header, lines)}"


def measure(quick):
    warnings.simplefilter("ignore")
    return "\n\n".join([stamp(), quality(quick), whole(quick), speed(quick)])


if __name__ == "__main__":
    main(measure, description=__doc__)
