"""Centres in an index of FAISS, and back."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import madbayes

faiss = pytest.importorskip("faiss", reason="needs faiss-cpu")


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_centres_go_into_an_index_and_back(metric):
    X = make_blobs(3000, 16, centers=8, random_state=0)[0].astype(np.float32)
    model = madbayes.DPMeans(metric=metric, random_state=0).fit(X)
    d = X.shape[1]
    index = faiss.IndexFlatL2(d) if metric == "euclidean" else faiss.IndexFlatIP(d)
    index.add(np.ascontiguousarray(model.cluster_centers_))
    labels = index.search(X, 1)[1].ravel()
    np.testing.assert_array_equal(labels, model.predict(X))
    back = index.reconstruct_n(0, index.ntotal)
    np.testing.assert_array_equal(back, model.cluster_centers_)
    again = madbayes.KMeans(len(back), init=back, n_init=1, metric=metric, max_iter=1).fit(X)
    np.testing.assert_array_equal(again.labels_, model.labels_)
