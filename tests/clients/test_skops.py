"""Models in files of skops: which types have to be trusted (docs/howto/saving.md lists them)."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import make_blobs

import madbayes

io = pytest.importorskip("skops.io", reason="needs skops")

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "saving.md"
X = make_blobs(200, 5, centers=3, random_state=0)[0]


@pytest.mark.parametrize(
    "name", ["DPMeans", "KMeans", "KernelDPMeans", "OnlineDPMeans", "EllipticalMeans", "DPMedoids"]
)
def test_the_types_to_trust_are_those_of_the_page(name):
    model = getattr(madbayes, name)(random_state=0).fit(X)
    data = io.dumps(model)
    found = io.get_untrusted_types(data=data)
    listed = set(re.findall(r"madbayes(?:\.\w+)+\.[A-Z]\w+", PAGE.read_text(encoding="utf-8")))
    own = f"{type(model).__module__}.{name}"
    assert set(found) <= listed | {own}
    again = io.loads(data, trusted=found)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(io.exceptions.UntrustedTypesFoundException):
        io.loads(data)
