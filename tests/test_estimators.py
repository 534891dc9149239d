"""scikit-learn's conventions, for every public clustering."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from madbayes import (
    CollapsedDPMeans,
    DPMeans,
    DPMedoids,
    EllipticalMeans,
    GraphCut,
    HardHDP,
    KernelDPMeans,
    KernelHardHDP,
    KMeans,
    KMedoids,
    OnlineDPMeans,
    OnlineKMeans,
    SpectralDPMeans,
)
from madbayes.gibbs import DPMixtureGibbs, IBPGibbs

PRINTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "a row of weight 2 opens a cluster when 2d² > λ, two rows of weight 1 only when d² > λ, "
        "and the printed algorithm depends on the order of the rows"
    )
    for kind in ("dense", "sparse")
}
ROW_BY_ROW = dict.fromkeys(
    PRINTED, "rows come one after another: a row repeated later is not a row of weight 2 now"
)


ROWS = {
    f"check_clustering{how}": "it hands over rows, where a matrix of dissimilarities is due"
    for how in ("", "(readonly_memmap=True)")
}


def expected_failures(model):
    """Checks that cannot hold, and why."""
    if isinstance(model, (OnlineDPMeans, OnlineKMeans)):
        return ROW_BY_ROW
    printed = getattr(model, "algorithm", None) == "paper" and not isinstance(model, KMeans)
    printed = PRINTED if printed else {}
    return printed | (ROWS if getattr(model, "metric", None) == "precomputed" else {})


@parametrize_with_checks(
    [
        KMeans(3),
        KMeans(3, metric="cosine"),
        DPMeans(),
        DPMeans(0.5),
        DPMeans(0.5, metric="cosine"),
        DPMeans(3.0, algorithm="paper"),
        CollapsedDPMeans(),
        CollapsedDPMeans(0.5, init="one"),
        OnlineKMeans(3),
        OnlineDPMeans(3.0),
        OnlineDPMeans(3.0, half_life=20.0, merge_every=7, forget_after=50),
        KMedoids(3),
        KMedoids(3, metric="precomputed"),
        DPMedoids(),
        DPMedoids(2.0),
        DPMedoids(2.0, algorithm="paper"),
        EllipticalMeans(3),
        EllipticalMeans(penalty=30.0),
        KernelDPMeans(),
        KernelDPMeans(0.5),
        KernelDPMeans(0.5, algorithm="paper"),
        SpectralDPMeans(),
        SpectralDPMeans(0.5),
        SpectralDPMeans(0.5, kernel="rbf"),
        HardHDP(),
        HardHDP(0.2, 0.3),
        HardHDP(1.0, 2.0, algorithm="paper"),
        KernelHardHDP(0.2, 0.3),
        DPMixtureGibbs(n_iter=60, burn_in=30),
        DPMixtureGibbs(0.5, alpha=1.0, n_iter=60, burn_in=30, n_chains=2),
        IBPGibbs(n_iter=30, burn_in=10, init="empty"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [GraphCut(), GraphCut(0.5), GraphCut(0.5, cut="ratio", algorithm="paper")],
    expected_failed_checks=lambda model: {
        "check_clustering": "it fits rows of points, whatever the pairwise tag says, and these "
        "models need the square adjacency of a graph"
    },
)
def test_scikit_learn_conventions_of_graphs(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model",
    [
        KMeans(3, random_state=0),
        DPMeans(random_state=0),
        CollapsedDPMeans(random_state=0),
        OnlineKMeans(3, init="k-means++", random_state=0),
        OnlineDPMeans("farthest-first", n_clusters_hint=3),
        KMedoids(3),
        DPMedoids(),
        EllipticalMeans(3, random_state=0),
        KernelDPMeans(random_state=0),
        SpectralDPMeans(random_state=0),
        DPMixtureGibbs(n_iter=60, burn_in=60, random_state=0),
    ],
    ids=str,
)
def test_clone_pickle_and_pipelines(model):
    X = np.repeat(np.eye(3) * 9, 30, axis=0) + np.random.default_rng(0).normal(size=(90, 3))
    fitted = clone(model).fit(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.labels_)
    assert len(pickle.dumps(fitted)) < 100_000
    labels = make_pipeline(StandardScaler(), clone(model)).fit_predict(X)
    assert len(np.unique(labels)) == 3
    assert fitted.get_params() == model.get_params()
