"""What other packages expect of an estimator, without these packages: see tests/clients."""

import copy
import warnings
from inspect import signature

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from test_contract import ESTIMATORS, GRAPHS, data, make

import madbayes
from madbayes.anndata import neighbor_cut
from madbayes.howmany.staircase import as_html

ROWS, TRUTH = make_blobs(300, 6, centers=4, random_state=0)


class Cells:
    """The parts of an AnnData object."""

    def __init__(self, X):
        self.X = X
        self.obs = pd.DataFrame(index=[f"cell{i}" for i in range(len(X))])
        self.obsm, self.obsp, self.uns = {"X_pca": X[:, :3]}, {}, {}

    def copy(self):
        return copy.deepcopy(self)


def with_neighbors(cells, key="neighbors", prefix=""):
    """As `scanpy.pp.neighbors` leaves it."""
    graph = madbayes.NeighborCut(random_state=0).fit(cells.X).graph_
    cells.obsp[f"{prefix}connectivities"] = sp.csr_matrix(graph.astype(np.float32))
    cells.uns[key] = {
        "params": {"n_neighbors": 15},
        "connectivities_key": f"{prefix}connectivities",
    }
    return cells


def test_cells_are_clustered_on_their_graph():
    cells = with_neighbors(Cells(ROWS))
    assert neighbor_cut(cells) is None
    found = cells.obs["madbayes"]
    assert isinstance(found.dtype, pd.CategoricalDtype)
    assert list(found.cat.categories) == ["0", "1", "2", "3"]
    assert len(pd.DataFrame({"a": found, "b": TRUTH}).drop_duplicates()) == 4
    assert cells.uns["madbayes"]["params"] == {"obsp": "connectivities", "random_state": 0}
    assert cells.uns["madbayes"]["n_clusters"] == 4
    assert cells.uns["madbayes"]["strength"] == "strong"
    assert cells.obs["madbayes_probability"].between(0.5, 1).all()


@pytest.mark.parametrize("how", [{"use_rep": "X"}, {"use_rep": "X_pca"}, {"obsp": "other"}])
def test_other_inputs_of_cells(how):
    cells = with_neighbors(Cells(ROWS))
    cells.obsp["other"] = cells.obsp["connectivities"]
    before = cells.obs.copy()
    made = neighbor_cut(
        cells, key_added="k", copy=True, random_state=np.random.RandomState(0), **how
    )
    pd.testing.assert_frame_equal(cells.obs, before)
    assert made.obs["k"].nunique() == 4
    assert made.uns["k"]["params"].items() >= how.items()


def test_layers_of_cells_are_columns():
    r = np.random.default_rng(0)
    middle = (r.normal(size=(3, 1, 8)) * 6 + r.normal(size=(3, 4, 8)) * 2.4).reshape(12, 8)
    X = np.repeat(middle, 60, axis=0) + r.normal(size=(720, 8))
    cells = Cells(X)
    cells.obs["madbayes_layer_9"] = 0  # of an earlier call
    neighbor_cut(cells, use_rep="X")
    names = list(cells.uns["madbayes"]["layers"])
    model = madbayes.NeighborCut(random_state=0).fit(X)
    assert len(names) == len(model.cluster_layers_) == 2
    assert [c for c in cells.obs if "layer" in c] == names
    for name, layer in zip(names, model.cluster_layers_, strict=True):
        assert cells.obs[name].astype(int).tolist() == layer.tolist()


def test_what_cells_lack_is_said():
    cells = Cells(ROWS)
    with pytest.raises(KeyError, match=r"scanpy\.pp\.neighbors"):
        neighbor_cut(cells)
    with pytest.raises(KeyError, match=r"use_rep='X_scvi' is not in adata\.obsm, .*'X_pca'"):
        neighbor_cut(cells, use_rep="X_scvi")
    with pytest.raises(KeyError, match="obsp='x'"):
        neighbor_cut(cells, obsp="x")
    with pytest.raises(ValueError, match="only one"):
        neighbor_cut(cells, obsp="x", use_rep="X")
    assert list(cells.obs.columns) == []


def test_named_neighbors_of_cells():
    cells = with_neighbors(Cells(ROWS), "near", "near_")
    neighbor_cut(cells, neighbors_key="near")
    assert cells.uns["madbayes"]["params"]["obsp"] == "near_connectivities"


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("name", ["DPMeans", "KMeans", "CollapsedDPMeans", "DPMedoids", "HardHDP"])
def test_weights_are_routed_through_pipelines(name):
    weight = np.r_[np.ones(200), np.zeros(100)]
    model = make(name).set_fit_request(sample_weight=True)
    scaler = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False)
    made = make_pipeline(scaler, model).fit(ROWS, sample_weight=weight)
    alone = clone(model).fit(ROWS, sample_weight=weight)
    np.testing.assert_array_equal(made[-1].labels_, alone.labels_)
    assert made[-1].objective_ < clone(model).fit(ROWS).objective_  # they do count


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_through_pipelines():
    groups = np.repeat(["a", "b", "c"], 100)
    model = madbayes.HardHDP(random_state=0).set_fit_request(groups=True)
    made = make_pipeline(StandardScaler(), model).fit(ROWS, groups=groups)
    assert list(made[-1].groups_) == ["a", "b", "c"]
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError):
        make_pipeline(StandardScaler(), madbayes.HardHDP()).fit(ROWS, groups=groups)


@pytest.mark.parametrize(
    "name", [n for n, c in ESTIMATORS.items() if hasattr(c, "transform") and n not in GRAPHS]
)
def test_distances_can_be_a_data_frame(name):
    model = make(name)
    if not hasattr(model, "set_output"):
        pytest.skip("has distances for some shapes only")
    model.set_output(transform="pandas").fit(data(name))
    table = model.transform(data(name))
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == list(model.get_feature_names_out())


class Heard:
    """A callback that writes down what it is told."""

    def setup(self, estimator, context):
        self.told = []

    def on_fit_task_begin(self, estimator, context):
        self.told.append(("begin", context.task_name, context.max_subtasks))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.told.append(("end", context.task_name, context.max_subtasks))
        self.last = fitted_estimator

    def teardown(self, estimator, context):
        self.told.append("closed")


needs_callbacks = pytest.mark.skipif(
    not hasattr(madbayes.DPMeans, "set_callbacks"), reason="scikit-learn 1.9 or later"
)


@needs_callbacks
@pytest.mark.parametrize("name", ESTIMATORS)
def test_callbacks_hear_every_fit_and_change_nothing(name):
    heard, model = Heard(), make(name)
    model.set_callbacks(heard).fit(data(name))
    assert heard.told[0] == ("begin", "fit", None)
    assert heard.told[-2:] == [("end", "fit", None), "closed"]
    assert sum(one[0] == "begin" for one in heard.told) == sum(
        one[0] == "end" for one in heard.told
    )
    assert isinstance(heard.last, type(model))
    plain = make(name).fit(data(name))
    assert vars(model).keys() - vars(plain).keys() == {"_skl_callbacks"}
    if hasattr(plain, "labels_"):
        np.testing.assert_array_equal(model.labels_, plain.labels_)


@needs_callbacks
def test_a_stage_is_a_task_and_what_it_counts_are_its_tasks():
    heard = Heard()
    madbayes.DPMeans(random_state=0).set_callbacks(heard).fit(ROWS)
    stages = [name for when, name, total in heard.told[1:-2] if when == "begin" and total != 0]
    assert stages[0] == "how many clusters" and "searching" in stages
    counted = [one for one in heard.told[:-1] if one[1] == "how many clusters" and one[2] == 0]
    assert len(counted) > 2


@needs_callbacks
def test_the_progress_bar_of_scikit_learn_shows_our_stages(capsys):
    from sklearn.callback import ProgressBar

    made = make_pipeline(StandardScaler(), madbayes.DPMeans(random_state=0))
    made.set_callbacks(ProgressBar()).fit(ROWS)
    assert "DPMeans - how many clusters" in capsys.readouterr().out


@needs_callbacks
def test_fit_takes_the_same_parameters_with_callbacks():
    from sklearn.utils.validation import has_fit_parameter

    made = madbayes.DPMeans().set_callbacks(Heard())
    assert has_fit_parameter(made, "sample_weight")
    assert signature(made.fit) == signature(madbayes.DPMeans().fit)


@needs_callbacks
def test_callbacks_are_closed_when_a_fit_fails_and_are_not_saved(tmp_path):
    heard = Heard()
    with pytest.raises(ValueError, match="penalty"):
        madbayes.DPMeans(-1.0).set_callbacks(heard).fit(ROWS)
    assert heard.told[-1] == "closed"
    model = madbayes.KMeans(3, random_state=0).set_callbacks(heard).fit(ROWS)
    model.save(tmp_path / "model.npz")
    assert not hasattr(madbayes.load(tmp_path / "model.npz"), "_skl_callbacks")


def test_the_box_of_a_notebook_links_to_the_page_of_the_estimator(monkeypatch):
    from madbayes._storage import html

    monkeypatch.setattr(html, "documentation", lambda: "https://example.org/docs")
    assert 'href="https://example.org/docs/api/madbayes.DPMeans.html"' in (
        madbayes.DPMeans()._repr_html_()
    )
    assert "/api/madbayes.gibbs.IBPGibbs.html" in madbayes.IBPGibbs()._repr_html_()
    monkeypatch.setattr(html, "documentation", lambda: "")  # not published yet: no link to others
    assert "href=" not in madbayes.DPMeans()._repr_html_()


def test_the_address_of_the_site_is_that_of_the_package(monkeypatch):
    from email.message import Message

    from madbayes._storage.html import documentation

    about = Message()
    about["Project-URL"] = "Source, https://example.org/code"
    about["Project-URL"] = "Documentation, https://example.org/docs/"
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: about)
    documentation.cache_clear()
    try:
        assert documentation() == "https://example.org/docs"
    finally:
        documentation.cache_clear()


def test_evidence_and_path_are_one_line_and_open_to_a_table_in_notebooks():
    model = madbayes.DPMeans(random_state=0).fit(ROWS)
    assert repr(model.evidence_).startswith("Choice(n_clusters=4, strength='strong', support=")
    assert repr(model.path_).startswith("Staircase(clusters by penalty: 1, 2, 3, 4")
    assert ", best=4)" in repr(model.path_)
    for shown in (model.evidence_, model.path_):
        assert "\n" not in repr(shown) and len(repr(shown)) < 120
        html = shown._repr_html_()
        assert html.startswith("<details>") and html.count("<tr>") > 3
    assert "<" not in as_html("<b>", [("<i>",)]).replace("<details><summary>", "").replace(
        "</summary><table><tr><td>", ""
    ).replace("</td></tr></table></details>", "")


def test_a_penalty_that_looks_like_a_number_of_clusters_is_noticed():
    with pytest.warns(UserWarning, match=r"KMeans\(3\), or DPMeans\(n_clusters_hint=3\)") as caught:
        madbayes.DPMeans(3, random_state=0).fit(ROWS)
    assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="penalty=0.5 is far below the useful range"):
        madbayes.DPMeans(0.5, random_state=0).fit(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        madbayes.DPMeans(200, random_state=0).fit(ROWS)
        madbayes.DPMeans(3, random_state=0).fit(ROWS[:20])  # so few rows may be meant


def test_pictures_take_a_model_and_its_rows():
    pytest.importorskip("matplotlib")
    model = madbayes.DPMeans(random_state=0).fit(ROWS)
    drawn = [madbayes.plots.scatter(*given) for given in ((model, ROWS), (ROWS, model))]
    one, other = ([c.get_offsets().tolist() for c in ax.collections] for ax in drawn)
    assert one == other
    steps = [madbayes.plots.path(drawn).collections[0] for drawn in (model, model.path_)]
    assert len(steps[0].get_segments()) == len(steps[1].get_segments()) == len(model.path_.number)
    groups = np.repeat([0, 1, 2], 100)
    figure = madbayes.plots.groups(model, ROWS, groups)
    assert len(figure.axes) == len(madbayes.plots.groups(ROWS, model.labels_, groups).axes)
    usage = madbayes.plots.group_usage(model, groups).images[0].get_array()
    np.testing.assert_array_equal(
        usage, madbayes.plots.group_usage(model.labels_, groups).images[0].get_array()
    )
