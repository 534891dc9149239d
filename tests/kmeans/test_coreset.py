"""Coresets: the plain reference, what they promise, and the same rows whatever the blocks."""

import numpy as np
import pytest
from reference.coreset import cost, lightweight_coreset

from madbayes._rows import blocks as engine_blocks
from madbayes._rows.frame import measure
from madbayes._rows.rows import Rows
from madbayes.kmeans.coreset import coreset


def blobs(n, d, k, seed):
    rng = np.random.default_rng(seed)
    return rng.normal(scale=6, size=(k, d))[rng.integers(k, size=n)] + rng.normal(size=(n, d))


def draw(X, m, weight=None, seed=0):
    rows = Rows(X, weight=weight)
    return coreset(rows, measure(rows).mean, m, np.random.RandomState(seed))


@pytest.mark.parametrize("weighted", [False, True])
def test_the_reference_draws_the_same_rows(weighted):
    X = blobs(300, 3, 4, seed=0)
    weight = np.random.default_rng(1).integers(0, 4, 300).astype(float) if weighted else None
    ours = draw(X, 80, weight)
    u = np.random.RandomState(0).random_sample(80)
    plain = lightweight_coreset(X.tolist(), np.ones(300) if weight is None else weight, u)
    assert ours.rows.tolist() == sorted(plain)
    np.testing.assert_allclose(ours.weight, [plain[i] for i in sorted(plain)], rtol=1e-9)
    np.testing.assert_array_equal(ours.X, X[ours.rows])


def test_blocks_change_nothing_but_rounding(monkeypatch):
    X = blobs(6000, 5, 4, seed=2).astype(np.float32)
    whole = draw(X, 500)
    assert whole.X.dtype == np.float32
    monkeypatch.setattr(engine_blocks, "BLOCK_VALUES", 5 * 97)
    cut = draw(X, 500)
    np.testing.assert_array_equal(cut.rows, whole.rows)
    np.testing.assert_allclose(cut.weight, whole.weight, rtol=1e-12)


def test_any_centres_cost_about_the_same():
    """The bound of the paper, with room: ε of a coreset of this size is below .2."""
    X = blobs(5000, 4, 6, seed=3)
    small = draw(X, 1500)
    rng = np.random.default_rng(0)
    one = cost(X, np.ones(5000), [X.mean(axis=0)])
    for k in (1, 3, 6):
        Q = X[rng.choice(5000, k)]
        full = cost(X, np.ones(5000), Q)
        assert abs(cost(small.X, small.weight, Q) - full) <= 0.1 * (full + one)


def test_equal_rows_and_lonely_rows():
    assert draw(np.ones((50, 2)), 10).weight.sum() == pytest.approx(50)
    X = np.r_[np.zeros((2000, 2)), [[1e4, 0.0]]]
    assert 2000 in draw(X, 40).rows  # half of all draws fall on it
