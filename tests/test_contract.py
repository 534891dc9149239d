"""One contract for all: what every public estimator promises, found by walking the public names."""

import importlib.util
import inspect

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator, clone

import madbayes
from madbayes.penalties import Choice, Staircase

SHARED = ("effort", "n_init", "max_clusters", "n_clusters_hint", "random_state", "n_jobs")


def discover():
    """The public estimators: classes among the names of the package and of `madbayes.gibbs`."""
    homes = [madbayes, *([madbayes.gibbs] if "gibbs" in madbayes.__all__ else [])]
    found = {}
    for home in homes:
        for name in home.__all__:
            thing = getattr(home, name)
            model = inspect.isclass(thing) and issubclass(thing, BaseEstimator)
            if model and name != "TableEncoder":  # which prepares tables, and finds nothing
                found[name] = thing
    return found


ESTIMATORS = discover()
FEATURES = [n for n, c in ESTIMATORS.items() if hasattr(c, "inverse_transform")]
SAMPLERS = [n for n, c in ESTIMATORS.items() if "gibbs" in c.__module__]
GRAPHS = ["GraphCut"]  # takes an adjacency
CLUSTERINGS = [n for n in ESTIMATORS if n not in FEATURES]


def finds_a_number(name):
    """Estimators whose default price is "auto"."""
    parameters = inspect.signature(ESTIMATORS[name]).parameters.values()
    return any(p.default == "auto" and p.name in AUTOMATIC for p in parameters)


AUTOMATIC = ("penalty", "resolution", "penalty_local", "penalty_global")
AUTO = [n for n in ESTIMATORS if finds_a_number(n)]


def make(name, **parameters):
    """An estimator with a seed, and quick where it samples."""
    accepted = inspect.signature(ESTIMATORS[name]).parameters
    if "random_state" in accepted:
        parameters.setdefault("random_state", 0)
    if name in SAMPLERS:
        parameters.setdefault("n_iter", 30)
    return ESTIMATORS[name](**parameters)


def data(name):
    """Three clear groups, in the form that the estimator takes."""
    r = np.random.default_rng(0)
    if name in FEATURES:
        Z = r.random((60, 3)) < 0.5
        return Z @ np.eye(3, 8) * 5 + 0.2 * r.standard_normal((60, 8))
    X = np.repeat([[0.0, 0], [12, 0], [0, 12]], 30, axis=0) + r.normal(size=(90, 2))
    if name in GRAPHS:
        near = ((X[:, None] - X) ** 2).sum(axis=2) < 9
        return sp.csr_array(near & ~np.eye(90, dtype=bool)).astype(float)
    return X


@pytest.fixture(scope="module")
def fitted():
    """Each estimator as it comes, fitted once."""
    kept = {}

    def get(name):
        if name not in kept:
            kept[name] = make(name).fit(data(name))
        return kept[name]

    return get


def test_the_walk_finds_the_estimators():
    assert {"DPMeans", "HardHDP", "GraphCut", "BPMeans", "KMedoids"} <= set(ESTIMATORS)
    assert len(ESTIMATORS) >= 17


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fits_without_arguments(name, fitted):
    model = fitted(name)
    n = data(name).shape[0]
    if name in FEATURES:
        assert model.assignments_.shape == (n, model.n_components_)
        assert model.assignments_.dtype == bool
        assert model.components_.shape == (model.n_components_, 8)
    else:
        assert model.labels_.shape == (n,)
        assert model.labels_.dtype == np.int32
        assert len(np.unique(model.labels_[model.labels_ >= 0])) == model.n_clusters_
    assert model.n_features_in_ == data(name).shape[1]


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if n not in SAMPLERS])
def test_objective_and_history(name, fitted):
    model = fitted(name)
    history = model.objective_history_
    assert np.all(np.diff(history) <= 0)
    assert model.objective_ == pytest.approx(history[-1], rel=1e-9)
    assert isinstance(model.n_iter_, int)
    assert isinstance(model.converged_, bool)


@pytest.mark.parametrize("name", AUTO)
def test_auto_leaves_its_evidence(name, fitted):
    model = fitted(name)
    assert isinstance(model.evidence_, Choice)
    assert isinstance(model.path_, Staircase)
    number = model.n_components_ if name in FEATURES else model.n_clusters_
    assert model.evidence_.number == number == 3
    assert model.evidence_.strength in ("weak", "moderate", "strong")
    assert str(number) in model.evidence_.describe()
    assert model.path_.best() == model.evidence_


@pytest.mark.parametrize("name", AUTO)
def test_a_number_removes_the_evidence(name, fitted):
    model = clone(fitted(name)).fit(data(name))
    given = [p for p in AUTOMATIC if p in model.get_params()]
    prices = {p: getattr(fitted(name), f"{p}_") for p in given}
    model.set_params(**prices).fit(data(name))
    assert not hasattr(model, "evidence_")
    assert not hasattr(model, "path_")
    for p, price in prices.items():
        assert getattr(model, f"{p}_") == pytest.approx(price)


@pytest.mark.parametrize("name", [n for n in AUTO if "algorithm" in make(n).get_params()])
def test_auto_speaks_of_the_algorithm_that_uses_it(name):
    model = make(name, algorithm="paper").fit(data(name))
    number = model.n_components_ if name in FEATURES else model.n_clusters_
    assert number == model.evidence_.number


@pytest.mark.parametrize("name", CLUSTERINGS)
def test_predict_repeats_the_labels(name, fitted):
    if name in GRAPHS:
        pytest.skip("a graph has no new rows")
    model = fitted(name)
    new = model.predict(data(name))
    assert new.dtype == np.int32
    assert np.mean(new == model.labels_) > 0.98
    far = np.full((1, 2), 1e4)
    if name not in SAMPLERS:
        assert model.predict(far, novel=True).tolist() == [-1]
        assert np.mean(model.predict(data(name), novel=0.01) == -1) < 0.1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_parameters_that_are_shared_mean_the_same(name):
    parameters = inspect.signature(ESTIMATORS[name]).parameters
    for shared in SHARED:
        if shared in parameters:
            expected = {"effort": (1.0,), "n_init": (1, "auto")}.get(shared, (None,))
            assert parameters[shared].default in expected, shared
    if "effort" in parameters:
        for effort in (-1.0, 0):
            with pytest.raises(ValueError, match="effort"):
                make(name, effort=effort).fit(data(name))


@pytest.mark.parametrize("name", [n for n in ESTIMATORS if "n_jobs" in make(n).get_params()])
def test_threads_change_nothing(name, fitted):
    other = make(name, n_jobs=2).fit(data(name))
    one = make(name, n_jobs=1).fit(data(name))
    if name in FEATURES:
        np.testing.assert_array_equal(one.assignments_, other.assignments_)
    else:
        np.testing.assert_array_equal(one.labels_, other.labels_)
    if name not in SAMPLERS:
        assert one.objective_ == other.objective_


@pytest.mark.parametrize("name", ["penalties", "features", "graph", "plots"])
def test_rooms_are_attributes(name):
    assert inspect.ismodule(getattr(madbayes, name))


def test_no_function_hides_its_module():
    rooms = [madbayes, *(getattr(madbayes, name) for name in madbayes.__all__ if name.islower())]
    for room in rooms:
        for name in getattr(room, "__all__", ()):
            if not inspect.ismodule(getattr(room, name)) and hasattr(room, "__path__"):
                assert importlib.util.find_spec(f"{room.__name__}.{name}") is None, name
