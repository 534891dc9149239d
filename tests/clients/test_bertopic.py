"""Topics by BERTopic with our clusters, from embeddings that are given."""

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

import madbayes

bertopic = pytest.importorskip("bertopic", reason="needs bertopic")

SUBJECTS = {
    "planets": "orbit comet asteroid saturn telescope rocket galaxy lunar solar probe",
    "cooking": "butter oven recipe onion garlic simmer pepper dough roast kitchen",
    "football": "goal striker referee penalty league stadium midfield coach header cup",
    "banking": "loan interest credit deposit mortgage branch currency bond broker fund",
}


@pytest.fixture(scope="module")
def texts():
    """Documents of words of one subject, their embeddings and subjects."""
    r = np.random.default_rng(0)
    subject = np.repeat(np.arange(4), 80)
    words = [line.split() for line in SUBJECTS.values()]
    documents = [" ".join(r.choice(words[s], size=8)) for s in subject]
    middle = r.normal(size=(4, 24))
    rows = middle[subject] + 0.35 * r.normal(size=(320, 24))
    return documents, rows / np.linalg.norm(rows, axis=1, keepdims=True), subject


def topic_model(clusters):
    from bertopic.dimensionality import BaseDimensionalityReduction

    return bertopic.BERTopic(
        embedding_model=None,
        umap_model=BaseDimensionalityReduction(),
        hdbscan_model=clusters,
        calculate_probabilities=False,
    )


@pytest.mark.parametrize(
    "clusters",
    [
        madbayes.NeighborCut(random_state=0),
        madbayes.DPMeans(metric="cosine", random_state=0),
        madbayes.AutoCluster(random_state=0),
    ],
    ids=["NeighborCut", "DPMeans", "AutoCluster"],
)
def test_topics_are_the_clusters(texts, clusters, tmp_path):
    documents, rows, subject = texts
    topics = topic_model(clusters)
    found, _ = topics.fit_transform(documents, embeddings=rows)
    assert adjusted_rand_score(subject, found) == 1.0
    assert min(found) == 0  # no bucket of outliers
    words = {word for word, _ in topics.get_topic(found[0])}
    assert words <= set(SUBJECTS["planets"].split())
    new, _ = topics.transform(documents[:5], embeddings=rows[:5])
    assert list(new) == list(found[:5])
    topics.save(tmp_path / "topics", serialization="safetensors", save_ctfidf=True)
    again = bertopic.BERTopic.load(tmp_path / "topics")
    assert again.get_topic_info()["Count"].tolist() == [80] * 4


def test_topics_of_a_stream(texts):
    documents, rows, subject = texts
    from bertopic.vectorizers import OnlineCountVectorizer

    topics = topic_model(madbayes.OnlineDPMeans(metric="cosine", random_state=0))
    topics.vectorizer_model = OnlineCountVectorizer()
    order = np.random.default_rng(0).permutation(len(rows))
    found = []
    for part in np.array_split(order, 2):
        topics.partial_fit([documents[i] for i in part], embeddings=rows[part])
        found += list(topics.topics_)
    assert adjusted_rand_score(subject[order], found) == 1.0
