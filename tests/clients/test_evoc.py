"""Layers and trees in the form that EVoC has, and toponymy and datamapplot read."""

import numpy as np
import pytest

import madbayes

evoc = pytest.importorskip("evoc", reason="needs evoc")


def test_layers_and_tree_have_the_form_of_evoc():
    r = np.random.default_rng(0)
    middle = (3 * r.normal(size=(4, 1, 32)) + r.normal(size=(4, 5, 32))).reshape(20, 32)
    X = np.repeat(middle, 60, axis=0) + 0.3 * r.normal(size=(1200, 32))
    theirs = evoc.EVoC(random_state=0).fit(X.astype(np.float32))
    ours = madbayes.DPMeans(random_state=0).fit(X)
    for model in (theirs, ours):
        layers, tree = model.cluster_layers_, model.cluster_tree_
        assert isinstance(layers, list)
        numbers = [layer.max() + 1 for layer in layers]
        assert numbers == sorted(numbers, reverse=True)  # finest first
        assert isinstance(tree, dict)
        assert (len(layers), 0) in tree  # the root
        for parent, children in tree.items():
            for child in children:
                assert child[0] < parent[0]
                assert 0 <= child[1] < numbers[child[0]]
        assert any(np.array_equal(layer, model.labels_) for layer in layers)
    assert {type(k) for k in theirs.cluster_tree_} == {type(k) for k in ours.cluster_tree_}
