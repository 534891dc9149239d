"""Answers of strong evidence do not hang on a constant: each is moved by a quarter, both ways."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from madbayes import AutoCluster, DPMeans, EllipticalMeans
from madbayes.auto import auto_cluster
from madbayes.elliptical import path as ellipses
from madbayes.howmany import choice, densities, doubts, halves, links, recovery, sample

CONSTANTS = [
    (auto_cluster, "MAX_PIECES"),
    (auto_cluster, "CLEAR_GAIN"),
    (auto_cluster, "MUCH"),
    (auto_cluster, "AGREE"),
    (choice, "LEAST_FOUND"),
    (choice, "MORE_FOUND"),
    (densities, "MAX_COLUMNS"),
    (doubts, "SHAPE_LOSS"),
    (doubts, "FINER_GAIN"),
    (doubts, "PAIR_GAIN"),
    (ellipses, "VALLEY"),
    (ellipses, "MOST"),
    (ellipses, "AGAIN"),
    (ellipses, "PARTLY"),
    (ellipses, "ROWS_PER_PARAMETER"),
    (halves, "STEADY"),
    (links, "LEVEL"),
    (links, "WINDOW"),
    (recovery, "MARGIN"),
    (recovery, "TOP"),
    (sample, "KEEP_COLUMNS"),
]


def tables():
    rng = np.random.default_rng(0)
    blobs = make_blobs(300, 2, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)[0]
    wide = np.repeat(8 * np.eye(4, 14), 90, axis=0) + rng.normal(size=(360, 14))
    return [
        (DPMeans, blobs, 3),
        (DPMeans, wide, 4),
        (EllipticalMeans, blobs * [9, 1], 3),
        (AutoCluster, make_moons(300, noise=0.04, random_state=0)[0], 2),
    ]


@pytest.mark.parametrize("factor", [0.75, 1.25])
@pytest.mark.parametrize(("module", "name"), CONSTANTS)
def test_strong_answers_stay_when_a_constant_moves(monkeypatch, module, name, factor):
    moved = getattr(module, name) * factor
    if isinstance(getattr(module, name), int):
        moved = round(moved)
    elif 0.6 < getattr(module, name) < 1:  # a share or an index: not beyond 1
        moved = min(moved, 0.99)
    monkeypatch.setattr(module, name, moved)
    for estimator, X, number in tables():
        model = estimator(random_state=0, n_jobs=1).fit(X)
        assert model.n_clusters_ == number
        assert model.evidence_.strength in ("moderate", "strong")
