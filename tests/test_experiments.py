"""The experiments of the papers: where their data comes from. (`make reproduce` runs them.)"""

import sys
from pathlib import Path

import numpy as np
import pytest

pd = pytest.importorskip("pandas")


@pytest.fixture
def common(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "experiments")
    monkeypatch.delenv("MADBAYES_DATA", raising=False)
    sys.modules.pop("common", None)  # benchmarks have one too
    import common

    yield common
    del sys.modules["common"]


def test_openml_without_a_data_folder(common, monkeypatch):
    import sklearn.datasets
    from sklearn.utils import Bunch

    grade = pd.Categorical(["low", "high", None, "low"], categories=["low", "medium", "high"])
    frame = pd.DataFrame({"size": [1.5, np.nan, 2.5, 3.5], "grade": grade})
    asked = []

    def fetch(data_id, as_frame):
        asked.append(data_id)
        target = pd.Series(["no", "no", "yes", "yes"], dtype="category")
        return Bunch(data=frame if as_frame else None, target=target)

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch)
    X, y = common.uci("Car")
    np.testing.assert_array_equal(X, [[1.5, 0], [3.5, 0]])  # whole rows only
    np.testing.assert_array_equal(y, [0, 1])
    frame["size"] = 1.0
    np.testing.assert_array_equal(common.uci("Car")[0][:, 1], [0, 2, 0])  # as the header lists them
    assert asked == [21, 21]


def test_an_experiment_without_its_data_says_so_and_lets_the_others_run(common, capsys):
    with pytest.raises(SystemExit) as end:
        common.need("sift/landscapes_sift.npz")
    assert end.value.code == 0
    said = capsys.readouterr().out
    assert "sift/landscapes_sift.npz" in said and "MADBAYES_DATA" in said
