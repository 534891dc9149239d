"""What `evidence_` and `path_` say is about the clusters that are returned, for every estimator."""

import re

import numpy as np
import pytest

from madbayes import (
    AutoCluster,
    BPMeans,
    CollapsedBPMeans,
    CollapsedDPMeans,
    DPMeans,
    DPMedoids,
    EllipticalMeans,
    HardHDP,
    KernelDPMeans,
    NeighborCut,
    OnlineDPMeans,
    SpectralDPMeans,
    StepwiseKFeatures,
)
from madbayes.howmany.staircase import Staircase
from madbayes.reports.svg import staircase


def groups(seed):
    r = np.random.default_rng(seed)
    return 7 * r.normal(size=(5, 3))[r.integers(5, size=150)] + r.normal(size=(150, 3))


def with_far_rows(seed):
    """Two rows far from everything, near each other or not."""
    far = np.array([[300.0, 0, 0], [300.0, 1, 0]] if seed % 2 else [[300.0, 0, 0], [0, -400.0, 0]])
    return np.vstack([groups(seed), far])


def overlapping(seed):
    r = np.random.default_rng(seed)
    return 2.2 * r.normal(size=(12, 2))[r.integers(12, size=200)] + r.normal(size=(200, 2))


def check_evidence(model, found):
    """`found`: how many groups the model returns; sizes where rows are in one group each."""
    choice, path = model.evidence_, model.path_
    number = len(found) if np.ndim(found) else found
    assert choice.number == number
    assert path.best() == choice
    assert str(number) in choice.describe().split(",")[0].split(":")[0]
    others = [other for other, _ in choice.runners_up]
    assert number not in others and len(set(others)) == len(others)
    step = path.step_of(number)
    assert step is None or path.number[step] == number
    marked = re.findall(
        r'"step chosen"[^>]*><title>(\d+):', staircase(path, choice.price, number, "penalty")
    )
    assert marked == ([] if step is None else [str(number)])
    if np.ndim(found):  # rows that were set aside, never clusters
        assert 0 <= choice.n_isolated <= 5


CLUSTERINGS = [
    DPMeans,
    CollapsedDPMeans,
    DPMedoids,
    EllipticalMeans,
    HardHDP,
    KernelDPMeans,
    NeighborCut,
    OnlineDPMeans,
    SpectralDPMeans,
    AutoCluster,
]


@pytest.mark.parametrize("data", [groups, with_far_rows, overlapping])
@pytest.mark.parametrize("kind", CLUSTERINGS, ids=lambda kind: kind.__name__)
def test_evidence_of_clusterings(kind, data):
    for seed in range(2):
        X = data(seed)
        options = {"groups": np.arange(len(X)) % 3} if kind is HardHDP else {}
        model = kind(random_state=0).fit(X, **options)
        if not hasattr(model, "path_"):
            continue
        _, sizes = np.unique(model.labels_[model.labels_ >= 0], return_counts=True)
        # Clusters of a stream may have lost the rows that they had when the number was chosen.
        check_evidence(model, model.n_clusters_ if kind is OnlineDPMeans else sizes)


@pytest.mark.parametrize("kind", [BPMeans, CollapsedBPMeans, StepwiseKFeatures])
def test_evidence_of_features(kind):
    for data in (groups, overlapping):
        model = kind(random_state=0, effort=0.2).fit(data(0))
        check_evidence(model, model.n_components_)


def test_every_choice_is_made_in_one_place():
    path = Staircase.build([1, 2, 3, 4], [10.0, 5.0, 3.0, 2.5])
    scores = {1: 0.0, 2: 0.5, 3: 0.9, 4: 0.9}
    choice = path.decide(3, "a reason", scores=scores, support=0.5, also=7).best()
    assert choice.price == path.middle(2)
    assert (choice.strength, choice.score) == ("moderate", 0.9)
    assert choice.runners_up == ((4, 0.9), (2, 0.5), (1, 0.0), (7, 0.0))
    nothing = path.decide(1, "noise", scores=scores, support=0.9).best()
    assert (nothing.strength, nothing.support) == ("none", 0.0)
    one = Staircase.build([0, 1], [9.0, 1.0], of="feature").decide(1, "", scores={}, support=0.9)
    assert (one.best().strength, one.best().of) == ("strong", "feature")
