"""
Words: any dissimilarity
========================

Medoids are rows, so nothing has to be averaged: only dissimilarities between rows are needed, here
the number of letters to change, add or leave out.
"""

import numpy as np
from matplotlib import pyplot

from madbayes import DPMedoids


def edits(a, b):
    """Levenshtein's distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        row, last = [i], row
        for j, y in enumerate(b, 1):
            row.append(min(last[j] + 1, row[-1] + 1, last[j - 1] + (x != y)))
    return row[-1]


words = ["cluster", "clusters", "clustered", "clustering", "bayes", "bayesian", "bayesians"]
words += ["penalty", "penalties", "penalized", "means", "mean", "meaning", "kmeans"]
D = np.array([[float(edits(a, b)) for b in words] for a in words])
model = DPMedoids(penalty=6.0, metric="precomputed", random_state=0).fit(D)
order = np.argsort(model.labels_, kind="stable")
for label in range(model.n_clusters_):
    print([word for word, c in zip(words, model.labels_, strict=True) if c == label])

figure, ax = pyplot.subplots(figsize=(6, 5), layout="constrained")
shown = ax.imshow(D[order][:, order], cmap="viridis_r")
ax.set_xticks(range(len(words)), [words[i] for i in order], rotation=90)
ax.set_yticks(range(len(words)), [words[i] for i in order])
figure.colorbar(shown, label="letters to change")
