"""Pictures: that they are drawn for every shape of input, and that they do not mislead."""

import io
import itertools

import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from madbayes import DPMeans
from madbayes.gibbs import DPMixtureGibbs, IBPGibbs
from madbayes.plots import group_usage, groups, scatter, trace, tree
from madbayes.plots._palette import COLORS, assign_colors


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


# Groups


def shared(n_groups=6, d=2):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 40 * n_groups)
    X = rng.normal(size=(len(labels), d)) + 5 * labels[:, None]
    return X, labels, np.repeat([f"group {j}" for j in range(n_groups)], 40)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_panel_for_each_group(d):
    X, labels, of_row = shared(d=d)
    figure = groups(X, labels, of_row, title="all")
    titles = [ax.get_title(loc="left") for ax in figure.axes if ax.axison]
    assert titles == [f"group {j}: 4 clusters" for j in range(6)]
    figure.savefig(io.BytesIO())
    limits = {ax.get_xlim() for ax in figure.axes}
    assert len(limits) == 1  # the same place is the same place in every panel


def test_many_groups_are_drawn_in_part_and_the_picture_says_so():
    X, labels, of_row = shared(30)
    figure = groups(X, labels, of_row, max_groups=7)
    assert sum(ax.axison for ax in figure.axes) == 7
    assert figure.get_suptitle() == "7 of 30 groups drawn"


def test_usage_shows_shares_of_each_group(ax):
    labels, of_row = np.array([0, 0, 1, 2, 2, -1]), ["b", "b", "b", "a", "a", "a"]
    assert group_usage(labels, of_row, ax=ax) is ax
    image = np.asarray(ax.images[0].get_array())
    names = [text.get_text() for text in ax.get_yticklabels()]
    np.testing.assert_allclose(image[names.index("b")], [2 / 3, 1 / 3, 0])
    np.testing.assert_allclose(image[names.index("a")], [0, 0, 1])
    assert sorted(text.get_text() for text in ax.texts) == ["1", "2", "2"]


@pytest.mark.parametrize("n_groups", [1, 2, 50, 2500])
def test_usage_of_any_number_of_groups(ax, n_groups):
    group_usage(np.arange(3 * n_groups) % 5, np.arange(3 * n_groups) % n_groups, ax=ax)
    assert ax.images[0].get_array().shape == (n_groups, min(5, 3 * n_groups))


def test_groups_that_do_not_fit_the_rows(ax):
    X, labels, _ = shared()
    for draw in (lambda g: groups(X, labels, g), lambda g: group_usage(labels, g, ax=ax)):
        with pytest.raises(ValueError, match="there are 240 rows"):
            draw([1, 2])
    with pytest.raises(ValueError, match="max_groups=0"):
        groups(X, labels, labels, max_groups=0)
    with pytest.raises(ValueError, match="every label is negative"):
        group_usage([-1, -1], [0, 1], ax=ax)


# Samplers


def test_traces_of_what_was_drawn_one_line_for_each_chain(ax):
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = DPMixtureGibbs(sigma=0.1, n_iter=30, burn_in=0, n_chains=2, random_state=0).fit(X)
    axes = trace(model, title="a run")
    assert [panel.get_ylabel() for panel in axes] == ["clusters", "log joint density", "α"]
    assert axes[0].get_title(loc="left") == "a run"
    first, second = axes[0].lines
    np.testing.assert_array_equal(first.get_ydata(), model.n_clusters_samples_[:30])
    np.testing.assert_array_equal(second.get_ydata(), model.n_clusters_samples_[30:])
    axes[0].figure.savefig(io.BytesIO())
    assert trace(model, ax=ax) is ax
    assert ax.get_ylabel() == "clusters"
    assert "R-hat" in ax.texts[0].get_text()
    assert len(trace(model, ["sigma", "alpha"])) == 2
    with pytest.raises(ValueError, match=r"names=\['beta'\] must be some of 'n_clusters'"):
        trace(model, ["beta"])
    with pytest.raises(ValueError, match="ax has 1 axes for the 2 names"):
        trace(model, ["sigma", "alpha"], ax=ax)


def test_traces_of_features(ax):
    X = np.random.default_rng(0).normal(size=(12, 2))
    model = IBPGibbs(n_iter=10, burn_in=0, init="empty", random_state=0).fit(X)
    assert len(trace(model)) == 5
    assert trace(model, ["sigma_x"], ax=ax).get_ylabel() == "σ of the noise"
    with pytest.raises(Exception, match="not fitted"):
        trace(IBPGibbs())


# Models


def test_a_model_brings_its_labels_and_centres(ax):

    X = np.repeat([[0.0, 0], [9, 9]], 20, axis=0) + np.random.default_rng(0).normal(size=(40, 2))
    model = DPMeans(penalty=40.0).fit(X)
    assert legend_of(scatter(X, model, ax=ax)) == ["0: 20", "1: 20"]
    np.testing.assert_allclose(ax.collections[1].get_offsets(), model.cluster_centers_)
    other = Figure().add_subplot()
    assert legend_of(scatter(X[:5], model, ax=other))[int(model.labels_[0])].endswith("5")


def test_layers_are_an_icicle(ax):
    r = np.random.default_rng(0)
    middle = (60 * r.normal(size=(4, 1, 3)) + 8 * r.normal(size=(4, 5, 3))).reshape(20, 3)
    model = DPMeans(random_state=0).fit(np.repeat(middle, 20, axis=0) + r.normal(size=(400, 3)))
    ax = tree(model, ax=ax)
    layers = model.cluster_layers_
    numbers = [int(layer.max()) + 1 for layer in layers]
    assert len(numbers) > 1
    assert len(ax.patches) == sum(numbers)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == [str(k) for k in numbers]
    for i in range(len(layers)):  # each layer covers all rows
        widths = [b.get_width() for b in ax.patches if b.get_y() == i]
        assert sum(widths) == pytest.approx(1)
    with pytest.raises(AttributeError, match="cluster_layers_"):
        tree(DPMeans(penalty=5.0).fit(middle), ax=ax)
