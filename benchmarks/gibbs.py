"""The samplers: sweeps per second against plain loops and a variational fit; posteriors of k.

The plain loops are those of tests/reference. `BayesianGaussianMixture` fits the same kind of model
by variational inference: one fit, no samples.
"""

import sys
import time
import warnings

import numpy as np
from common import ROOT, data_folder, in_process, main, mixture, stamp, table

SIZES = [(300, 2, 3), (3000, 10, 10)]
CLASSES = {  # file: does it name classes
    "medoids/ruspini.csv.gz": False,
    "old_faithful.csv.gz": False,
    "uci/iris.csv.gz": True,
    "uci/wine.csv.gz": True,
    "uci/soybean_small.csv.gz": True,
}


def cpu(function):
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def bars(n):
    rng = np.random.default_rng(0)
    pictures = np.zeros((6, 6, 6))
    for k in range(3):
        pictures[k, 2 * k] = pictures[k + 3, :, 2 * k] = 1
    Z = rng.random((n, 6)) < 0.4
    return Z @ pictures.reshape(6, -1) + 0.2 * rng.normal(size=(n, 36)), Z.astype(np.uint8)


def clusters(task):
    """Sweeps per second from the planted clusters on."""
    from madbayes.gibbs.dp_sampler import dp_mixture

    rows, labels = mixture(task["n"], task["d"], task["k"], gap=6, dtype=np.float64)
    rows -= rows.mean(axis=0)
    rng = np.random.default_rng(0)
    sampler = dp_mixture(rows, rho=100.0, sigma=1.0, log_alpha=0.0)
    state, _ = sampler.step(rng, sampler.init(np.unique(labels, return_inverse=True)[1]))

    def ours(sweeps):
        now = state
        for _ in range(sweeps):
            now, _ = sampler.step(rng, now)

    sweeps = task["sweeps"]
    took = min(cpu(lambda: ours(sweeps))[0] for _ in range(3))
    sys.path.insert(0, str(ROOT / "tests"))
    from reference.dp_mixture import sweep

    plain, _ = cpu(lambda: sweep(rng, rows, state.labels, state.means, 1.0, 100.0, 0.0))
    from sklearn.mixture import BayesianGaussianMixture

    model = BayesianGaussianMixture(
        n_components=20, covariance_type="spherical", max_iter=1000, random_state=0, reg_covar=1e-6
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit, _ = cpu(lambda: model.fit(rows))
    used = len(np.unique(model.predict(rows)))
    return {"ours": sweeps / took, "plain": 1 / plain, "fit": fit, "used": used}


def features(task):
    """The same for features; the plain loop on fewer rows, as it needs n³ for each flip."""
    from madbayes.gibbs.ibp_sampler import buffet

    sys.path.insert(0, str(ROOT / "tests"))
    from reference.ibp import sweep

    def rate(n, afresh, sweeps):
        rows, Z = bars(n)
        sampler = buffet(rows, alpha=1.0, sigma_x=0.2, sigma_a=0.5, afresh=afresh)
        rng = np.random.default_rng(0)
        state, _ = sampler.step(rng, sampler.init(Z))

        def run():
            now = state
            for _ in range(sweeps):
                now, _ = sampler.step(rng, now)

        return sweeps / min(cpu(run)[0] for _ in range(3))

    rows, Z = bars(task["few"])
    room = np.hstack([Z, np.zeros((len(Z), 6))])
    uniform = np.random.default_rng(0).random((len(Z), 1 + room.shape[1]))
    plain, _ = cpu(lambda: sweep(uniform, rows, room, 1.0, 0.2, 0.5))
    many = task["many"]
    return {
        "accelerated": rate(many, False, 60),
        "collapsed": rate(many, True, 60),
        "few": rate(task["few"], False, 60),
        "plain": 1 / plain,
    }


def standard(rows):
    return (rows - rows.mean(axis=0)) / np.maximum(rows.std(axis=0), 1e-12)


def posterior(task):
    """What `DPMeans()` answers, and how the samples of k spread."""
    from sklearn.metrics import normalized_mutual_info_score as nmi

    from madbayes import DPMeans
    from madbayes.gibbs import DPMixtureGibbs

    truth = None
    if task["file"]:
        path = data_folder() / task["file"]
        columns = np.genfromtxt(path, delimiter=",", dtype=str)[1:]
        if task["classes"]:
            truth, columns = columns[:, -1], columns[:, :-1]
        rows = standard(columns.astype(float))
    else:
        rows, truth = mixture(300, 2, 3, gap=4, dtype=np.float64)
        rows = standard(rows)
    hard = DPMeans(random_state=0).fit(rows)
    took, soft = cpu(
        lambda: DPMixtureGibbs(n_chains=4, random_state=0, n_jobs=1, **task["model"]).fit(rows)
    )
    k = soft.n_clusters_samples_
    numbers, count = np.unique(k, return_counts=True)
    likely = sorted(zip(-count / len(k), numbers, strict=True))[:3]
    agree = ["", ""] if truth is None else [f"{nmi(truth, m.labels_):.2f}" for m in (hard, soft)]
    return {
        "shape": list(rows.shape),
        "hard": f"{hard.n_clusters_} ({hard.evidence_.strength})",
        "best": int(soft.n_clusters_),
        "likely": ", ".join(f"{number}: {-share:.2f}" for share, number in likely),
        "interval": " to ".join(
            str(int(q)) for q in np.quantile(k, [0.05, 0.95], method="nearest")
        ),
        "sigma": f"{np.median(soft.sigma_samples_):.2g}",
        "r_hat": f"{soft.r_hat_['n_clusters']:.2f}",
        "nmi": agree,
        "seconds": took,
    }


WORKERS = {"clusters": clusters, "features": features, "posterior": posterior}


def worker(task):
    return WORKERS[task["kind"]](task)


def measure(quick):
    parts, lines = [stamp()], []
    for n, d, k in SIZES[: 1 if quick else None]:
        sweeps = 2000 if n < 1000 else 100
        task = {"kind": "clusters", "n": n, "d": d, "k": k, "sweeps": sweeps}
        found = in_process(__file__, task)
        speed = [f"{found['ours']:,.0f}", f"{found['plain']:.3g}"]
        ratio = f"{found['ours'] / found['plain']:,.0f}"
        lines.append([f"{n} × {d}, k={k}", *speed, ratio, f"{found['fit']:.2g} s, {found['used']}"])
    head = ["rows", "sweeps/s", "plain loop, sweeps/s", "ratio"]
    parts.append("**Clusters.** Seconds of one core.")
    parts.append(table([*head, "BayesianGaussianMixture: one fit, clusters used"], lines))
    found = in_process(__file__, {"kind": "features", "few": 30, "many": 100})
    line = [f"{found[name]:.3g}" for name in ("accelerated", "collapsed", "few", "plain")]
    parts.append("**Features.** Bars, 36 columns, 6 features; sweeps/s.")
    head = ["accelerated, 100 rows", "collapsed, 100 rows", "accelerated, 30 rows"]
    parts.append(table([*head, "plain loop, 30 rows"], [line]))
    if not quick:
        parts.append("**How many clusters.** Columns standardized; four chains of 3,000 sweeps.")
        parts.append(posteriors())
    return "\n\n".join(parts)


def posteriors():
    files = CLASSES if data_folder() else {}
    lines = []
    for file, classes in {"": True, **files}.items():
        task = {"kind": "posterior", "file": file, "classes": classes, "model": {}}
        found = in_process(__file__, task)
        name = file.rsplit("/")[-1].split(".")[0] or "mixture of 3"
        size = " × ".join(map(str, found["shape"]))
        cells = [found[c] for c in ("hard", "best", "likely", "interval", "sigma", "r_hat")]
        lines.append([f"{name}, {size}", *cells, *found["nmi"], f"{found['seconds']:.1f} s"])
    head = [
        "set",
        "`DPMeans()`: k (evidence)",
        "best sample: k",
        "most probable k",
        "90 % of samples",
    ]
    return table([*head, "σ", "R-hat of k", "NMI, hard", "NMI, best sample", "time"], lines)


if __name__ == "__main__":
    main(measure, worker, __doc__)
