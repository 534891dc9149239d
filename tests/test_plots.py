"""Pictures: that they are drawn for every shape of input, and that they do not mislead."""

import io
import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from madbayes.plots import scatter
from madbayes.plots.palette import COLORS, assign_colors


@pytest.fixture
def ax():
    return Figure(layout="constrained").add_subplot()


def legend_of(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("d", [1, 2, 3, 20])
@pytest.mark.parametrize("n", [1, 2, 50])
def test_any_number_of_rows_and_columns(ax, n, d):
    X = np.random.default_rng(0).normal(size=(n, d))
    labels = np.arange(n) % 2
    assert scatter(X, labels, ax=ax) is ax
    ax.figure.savefig(io.BytesIO())
    assert sum(len(c.get_offsets()) for c in ax.collections[:1]) == n


def test_two_columns_are_drawn_as_they_are(ax):
    X = pd.DataFrame({"length": [0.0, 1, 9], "width": [5.0, 6, 7]})
    scatter(X, [0, 0, 1], ax=ax, title="leaves")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "width")
    assert ax.get_title(loc="left") == "leaves"
    np.testing.assert_array_equal(ax.collections[0].get_offsets(), X)
    np.testing.assert_allclose(ax.collections[1].get_offsets(), [[0.5, 5.5], [9, 7]])


def test_more_columns_are_drawn_by_principal_components(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)) * [10.0, 0, 0, 0] + rng.normal(size=(200, 4))
    scatter(X, np.zeros(200, int), ax=ax)
    assert ax.get_xlabel().startswith("principal component 1 (9")


def test_equal_rows(ax):
    scatter(np.ones((5, 3)), np.zeros(5, int), ax=ax)
    picture = io.BytesIO()
    ax.figure.savefig(picture)
    assert picture.tell() > 0


def test_legend_gives_sizes_and_rows_that_belong_nowhere(ax):
    scatter(np.eye(4)[:, :2], [0, 0, 1, -1], ax=ax)
    assert legend_of(ax) == ["0: 2", "1: 1", "none: 1"]


def test_many_clusters_keep_the_legend_short(ax):
    X = np.random.default_rng(0).uniform(size=(500, 2))
    scatter(X, np.arange(500) % 100, ax=ax)
    assert legend_of(ax)[-1] == "and 86 more"
    ax.figure.savefig(io.BytesIO())


def test_rows_that_are_not_drawn_are_mentioned(ax):
    X = np.random.default_rng(0).uniform(size=(1000, 2))
    scatter(X, np.zeros(1000, int), ax=ax, max_points=100)
    assert len(ax.collections[0].get_offsets()) == 100
    assert any(t.get_text() == "100 of 1,000 rows drawn" for t in ax.texts)
    assert legend_of(ax) == ["0: 1,000"]


def test_a_label_nobody_has(ax):
    scatter(np.arange(8.0).reshape(2, 4), [0, 2], ax=ax)
    assert legend_of(ax) == ["0: 1", "1: 0", "2: 1"]
    ax.figure.savefig(io.BytesIO())


@pytest.mark.parametrize(
    "change, message",
    [
        ({"labels": [0]}, "labels has shape"),
        ({"X": [1.0, 2]}, "X has shape"),
        ({"centers": [[0.0]]}, "centers has shape"),
        ({"feature_names": ["a"]}, "feature_names has 1"),
        ({"max_points": 0}, "max_points=0"),
    ],
)
def test_bad_arguments_are_named(ax, change, message):
    arguments = {"X": [[0.0, 1], [2, 3]], "labels": [0, 1], **change}
    with pytest.raises(ValueError, match=message):
        scatter(ax=ax, **arguments)


def test_neighbours_differ_in_colour():
    positions = np.column_stack([np.arange(30.0), np.zeros(30)])
    colors = assign_colors(positions)
    assert all(a != b for a, b in itertools.pairwise(colors))
    assert set(colors) == set(COLORS)
    assert all(to_hex(c).upper() == c for c in COLORS)
