"""ONNX graphs against `predict` and `novelty_score`, run by onnxruntime."""

import numpy as np
import pytest
from sklearn.cluster import KMeans as TheirKMeans
from sklearn.datasets import make_blobs

import madbayes

pytest.importorskip("onnx", reason="needs onnx")
runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")

MODELS = {
    "DPMeans": madbayes.DPMeans(random_state=0),
    "cosine": madbayes.DPMeans(metric="cosine", random_state=0),
    "KMeans": madbayes.KMeans(9, random_state=0),
    "CollapsedDPMeans": madbayes.CollapsedDPMeans(random_state=0),
    "OnlineDPMeans": madbayes.OnlineDPMeans(random_state=0),
    "OnlineKMeans": madbayes.OnlineKMeans(5, random_state=0),
    "HardHDP": madbayes.HardHDP(random_state=0),
    "AutoCluster": madbayes.AutoCluster("round", random_state=0),
}


def rows():
    """Groups far from the origin, one lonely row, and new rows around and between them."""
    X, _ = make_blobs(1500, 8, centers=6, random_state=0)
    X = np.r_[X + 20, [[200.0, *[0.0] * 7]]]
    r = np.random.default_rng(0)
    return X, np.r_[X, X[:500] + 3 * r.normal(size=(500, 8)), [[190.0, *[0.0] * 7]]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", MODELS)
def test_labels_and_novelty_are_those_of_the_model(name, dtype):
    X, new = rows()
    model, new = MODELS[name].fit(X), new.astype(dtype)
    graph = madbayes.onnx.convert(model, dtype=dtype)
    session = runtime.InferenceSession(graph.SerializeToString())
    labels, novelty = session.run(["label", "novelty"], {"X": new})
    assert labels.dtype == np.int64
    assert novelty.dtype == np.float32
    np.testing.assert_allclose(novelty, model.novelty_score(new), atol=1e-4)
    expected = model.predict(new)
    other = np.flatnonzero(labels != expected)
    d2 = np.sort(model.transform(new.astype(np.float64)) ** 2, axis=1)
    centers = model.cluster_centers_ - model.cluster_centers_.mean(axis=0)
    at = new / np.linalg.norm(new, axis=1, keepdims=True) if name == "cosine" else new
    reach = np.linalg.norm(at - model.cluster_centers_.mean(axis=0), axis=1)
    reach += np.linalg.norm(centers, axis=1).max()
    bound = (2.0**-21 if dtype == "float32" else 2.0**-50) * 8 * reach**2
    assert (d2[other, 1] - d2[other, 0] <= bound[other]).all()
    assert other.size <= 2  # and there are few of them


def test_equal_distances_go_to_the_lowest_label():
    model = madbayes.KMeans(2, init=np.array([[0.0], [4.0]]), n_init=1).fit([[0.0], [4.0]])
    session = runtime.InferenceSession(madbayes.onnx.convert(model).SerializeToString())
    row = np.array([[2.0]], np.float32)
    assert session.run(["label"], {"X": row})[0].tolist() == model.predict(row).tolist() == [0]


def test_models_without_centres_are_refused():
    X = rows()[0]
    with pytest.raises(TypeError, match="NeighborCut has no centres"):
        madbayes.onnx.convert(madbayes.NeighborCut(random_state=0).fit(X))
    with pytest.raises(TypeError, match="EllipticalMeans has no centres"):
        madbayes.onnx.convert(madbayes.EllipticalMeans(random_state=0).fit(X))
    with pytest.raises(TypeError, match="KMeans"):
        madbayes.onnx.convert(TheirKMeans(2, n_init=1).fit(X))
    with pytest.raises(ValueError, match="dtype='float16'"):
        madbayes.onnx.convert(MODELS["KMeans"].fit(X), dtype="float16")
