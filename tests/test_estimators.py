"""scikit-learn's conventions, for every public clustering."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from madbayes import DPMeans, HardHDP, KernelHardHDP, KMeans

PRINTED = {
    f"check_sample_weight_equivalence_on_{kind}_data": (
        "a row of weight 2 opens a cluster when 2d² > λ, two rows of weight 1 only when d² > λ, "
        "and the printed algorithm depends on the order of the rows"
    )
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [
        KMeans(3),
        DPMeans(),
        DPMeans(0.5),
        DPMeans(3.0, algorithm="paper"),
        HardHDP(),
        HardHDP(0.2, 0.3),
        HardHDP(1.0, 2.0, algorithm="paper"),
        KernelHardHDP(0.2, 0.3),
    ],
    expected_failed_checks=lambda model: (
        PRINTED if getattr(model, "algorithm", None) == "paper" else {}
    ),
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "model",
    [KMeans(3, random_state=0), DPMeans(random_state=0), HardHDP(random_state=0)],
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
