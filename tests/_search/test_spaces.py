"""The protocol of the search: every space does what `_search/space.py` says."""

import numpy as np
import pytest
import scipy.sparse as sp

from madbayes._search.driver import descend, search
from madbayes._search.price import SharedPrice, per_cluster
from madbayes._search.space import Crossing, Halving
from madbayes.groups.space import GroupedSpace
from madbayes.kernel.gram import Gram
from madbayes.kernel.space import KernelSpace, features_of
from madbayes.kmeans.dense_space import DenseSpace
from madbayes.kmeans.sparse_space import SparseSpace


def rows():
    X = np.repeat(9.0 * np.eye(3), 20, axis=0)
    return X + np.random.RandomState(0).randn(*X.shape)


def kernel_space():
    X, w = rows(), np.ones(60)
    gram = Gram.of_matrix(X @ X.T)
    return KernelSpace(gram, w, per_cluster(60.0, None, 60), features_of(gram, w))


X, ONES, PRICE = rows(), np.ones(60), per_cluster(60.0, None, 60)
UNIT = X / np.linalg.norm(X, axis=1)[:, None]
SEARCHED = {
    "dense": DenseSpace(X, ONES, PRICE),
    "cosine": DenseSpace(UNIT, ONES, per_cluster(4.0, None, 60), unit=True),
    "sparse": SparseSpace(sp.csr_matrix(X), ONES, PRICE),
    "grouped": GroupedSpace(X, ONES, np.arange(60) // 20, SharedPrice(60.0, 60, 5.0)),
}
SPACES = SEARCHED | {"kernel": kernel_space()}


def random_labels(k, seed=0):
    labels = np.random.RandomState(seed).randint(k, size=60)
    labels[:k] = np.arange(k)
    return labels


@pytest.mark.parametrize("name", SPACES)
def test_moves_and_descents_never_raise_the_objective(name):
    space = SPACES[name]
    for k in (1, 2, 7):
        now = space.division(random_labels(k))
        for step in space.moves():
            assert step(now).objective <= now.objective * (1 + 1e-12)
        history = [now.objective]
        end = descend(space, now, np.random.RandomState(1), history)
        assert np.diff(history).max(initial=0) <= 0
        assert end.objective == pytest.approx(space.division(end.labels).objective)
        assert end.k == 3


@pytest.mark.parametrize("name", SPACES)
def test_numbers_without_rows_are_dropped(name):
    division = SPACES[name].division(np.where(random_labels(3) == 1, 7, 4))
    assert division.k == 2 and sorted(set(division.labels.tolist())) == [0, 1]
    assert sum(len(part) for part in division.rows()) == 60


@pytest.mark.parametrize("name", SEARCHED)
def test_a_part_costs_what_its_clusters_cost_in_the_whole(name):
    space, labels = SEARCHED[name], random_labels(4)
    inside = np.flatnonzero(labels < 2)
    part = space.part(inside, len(inside))
    other = labels.copy()
    other[inside] = np.random.RandomState(5).randint(2, size=len(inside))
    change = space.division(other).objective - space.division(labels).objective
    inner = part.division(other[inside]).objective - part.division(labels[inside]).objective
    assert inner == pytest.approx(change, abs=1e-8)


@pytest.mark.parametrize("name", SEARCHED)
def test_relax_says_what_its_labels_cost(name):
    space, rng = SEARCHED[name], np.random.RandomState(2)
    centers = space.draw(5, rng)
    assert len(centers) == 5
    labels, objective, passes = space.relax(centers)
    assert objective == pytest.approx(space.division(labels).objective)
    assert passes >= 0
    anew = space.redraw(space.division(labels).centers, 2, rng)
    assert anew.ndim == 2 and len(anew) >= 1


@pytest.mark.parametrize("name", SEARCHED)
def test_what_is_called_indivisible_is_so(name):
    space = SEARCHED[name]
    for rows_of in space.division(random_labels(6)).rows():
        one = space.part(rows_of, len(rows_of))
        whole = one.division(np.zeros(len(rows_of), np.int64))
        if space.indivisible(rows_of, whole.centers[0]):
            best, _ = search(one, random_state=np.random.RandomState(0))
            assert best.k == 1


@pytest.mark.parametrize("name", SEARCHED)
def test_the_search_finds_the_groups(name):
    space = SEARCHED[name]
    first = [*space.first_centers(np.random.RandomState(0))]
    assert first and all(np.isfinite(C).all() for C in first)
    best, history = search(space, random_state=np.random.RandomState(0))
    assert [len(set(best.labels[a : a + 20].tolist())) for a in (0, 20, 40)] == [1, 1, 1]
    assert best.k == 3
    assert np.diff(history).max(initial=0) <= 0


def test_crossings_keep_the_number_that_is_asked_for():
    crossing = [space for space in SPACES.values() if isinstance(space, Crossing)]
    assert len(crossing) == 3
    for space in crossing:
        rng = np.random.RandomState(3)
        one, other = (space.lloyd_until(space.new_start(4, rng), 1e-3) for _ in range(2))
        child = space.cross(one, other, 4)
        assert child.k <= 4
        assert space.lloyd_until(child, 1e-3).objective <= child.objective * (1 + 1e-12)


def test_only_kernels_judge_all_splits_together():
    assert [name for name, space in SPACES.items() if isinstance(space, Halving)] == ["kernel"]
    space = SPACES["kernel"]
    merged = space.merge_halves(space.division(np.arange(60) % 30))
    assert merged.objective <= space.division(np.arange(60) % 30).objective
