"""Directions: K-means by the cosine on texts (CSR, tf-idf), against scikit-learn on unit rows.

scikit-learn has no cosine; normalised rows and K-means with ordinary means are the usual way out.
"""

import warnings

import numpy as np
import scipy.sparse as sp
from common import data_folder, main, say, seconds, stamp, table, timed


def texts():
    """(name, tf-idf, labels): 20 Newsgroups, or documents drawn from subjects."""
    from sklearn.feature_extraction.text import TfidfTransformer

    folder = data_folder()
    if folder is None:
        rng = np.random.default_rng(0)
        subjects = rng.dirichlet(np.full(5_000, 0.02), 20)
        labels = rng.integers(0, 20, 5_000)
        counts = sp.csr_array(np.array([rng.multinomial(70, subjects[c]) for c in labels]))
        name = "documents drawn from 20 subjects (MADBAYES_DATA is not set)"
    else:
        file = np.load(folder / "text" / "20news_bow.npz")
        parts = file["data"].astype(float), file["indices"].astype(np.int32), file["indptr"]
        counts, labels = sp.csr_array(parts, shape=tuple(file["shape"])), file["label"]
        name = "20 Newsgroups"
    return name, sp.csr_array(TfidfTransformer().fit_transform(counts)), labels


def contenders(k):
    from sklearn.cluster import KMeans as Peer

    from madbayes import DPMeans, KMeans

    def ours(k, **options):
        return KMeans(k, metric="cosine", random_state=0, **options)

    def search(rows):
        """At the penalty that one of k clusters repays."""
        few, many = (ours(j).fit(rows).inertia_ for j in (k - 2, k + 2))
        return DPMeans((few - many) / 4, metric="cosine", random_state=0).fit(rows)

    return {
        f"madbayes KMeans({k}, metric='cosine')": ours(k).fit,
        f"scikit-learn KMeans({k}) on unit rows": Peer(k, n_init=1, random_state=0).fit,
        f"madbayes KMeans({k}, n_init=10, metric='cosine')": ours(k, n_init=10).fit,
        f"scikit-learn KMeans({k}, n_init=10) on unit rows": Peer(k, n_init=10, random_state=0).fit,
        "madbayes DPMeans(λ, metric='cosine'), λ by two KMeans": search,
    }


def spherical(rows, labels):
    """Σ (2 - 2 cos) to the directions of the clusters."""
    _, z = np.unique(labels, return_inverse=True)
    members = sp.csr_array((np.ones(len(z)), (z, np.arange(len(z)))))
    return 2.0 * len(z) - 2.0 * float(np.linalg.norm((members @ rows).toarray(), axis=1).sum())


def measure(quick):
    from sklearn.metrics import normalized_mutual_info_score as nmi

    warnings.simplefilter("ignore")
    name, rows, labels = texts()
    if quick:
        rows, labels = rows[:3000], labels[:3000]
    lines, ours = [], None
    for who, fit in contenders(20).items():
        fit(rows[:500])  # compiles
        best, model = timed(lambda fit=fit: fit(rows), 1 if quick else 3)
        ours = ours or best
        found = np.unique(model.labels_).size
        cells = [
            found,
            f"{spherical(rows, model.labels_):.0f}",
            f"{nmi(labels, model.labels_):.3f}",
        ]
        lines.append([who, seconds(best), f"{best / ours:.2f}", *cells])
        say(str(lines[-1]))
    header = ["who", "time", "time / the first", "clusters", "Σ (2 - 2 cos)", "NMI with the groups"]
    size = f"{rows.shape[0]:,}×{rows.shape[1]:,}, {rows.nnz:,} values"
    return f"{stamp()}\n\n**{name}, {size}**\n\n{table(header, lines)}"


if __name__ == "__main__":
    main(measure, description=__doc__)
