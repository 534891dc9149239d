"""scikit-learn's conventions, for every public clustering."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

import madbayes
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
    expected_failed_checks,
)
from madbayes.gibbs import DPMixtureGibbs, IBPGibbs


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
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [GraphCut(), GraphCut(0.5), GraphCut(0.5, cut="ratio", algorithm="paper")],
    expected_failed_checks=expected_failed_checks,
)
def test_scikit_learn_conventions_of_graphs(estimator, check):
    check(estimator)


PUBLIC = [
    kind
    for name in madbayes.__all__
    if inspect.isclass(kind := getattr(madbayes, name)) and issubclass(kind, BaseEstimator)
]
QUICK = {  # so that all checks of a sampler or of a search together take a second or two
    "DPMixtureGibbs": {"n_iter": 10, "burn_in": 5},
    "IBPGibbs": {"n_iter": 5, "burn_in": 2, "init": "empty"},
    "AutoCluster": {"shape": "round"},
    "KFeatures": {"n_components": 1, "effort": 0.005, "n_init": 1},
    "BPMeans": {"penalty": 50.0, "effort": 0.005, "n_init": 1},
    "CollapsedBPMeans": {"penalty": 50.0, "effort": 0.005, "n_init": 1},
    "StepwiseKFeatures": {"penalty": 50.0, "effort": 0.005, "n_init": 1},
}


@pytest.mark.parametrize("kind", PUBLIC, ids=lambda kind: kind.__name__)
@pytest.mark.filterwarnings("ignore")
def test_check_estimator_as_a_user_runs_it(kind):
    model = kind(**QUICK.get(kind.__name__, {}))
    done = check_estimator(model, expected_failed_checks=expected_failed_checks(model))
    assert {one["status"] for one in done} <= {"passed", "skipped", "xfail"}


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
