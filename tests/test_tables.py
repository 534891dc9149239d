"""Tables as people have them: what columns hold, what is done with them, and what is said."""

import json
import warnings

import numpy as np
import pandas as pd
import people_tables
import polars as pl
import pyarrow as pa
import pytest
from people_tables import ALL
from sklearn.base import clone
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline

import madbayes
from madbayes import TableEncoder, cli
from madbayes.tables.logscale import is_lognormal
from madbayes.tables.sentinels import sentinels


def encoded(table, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TableEncoder(**options).fit(table)


def kind_of(name, values, beside=None):
    """The kind that one column gets beside a plain measurement."""
    rng = np.random.default_rng(0)
    table = {"beside": rng.normal(5, 1, len(values)), **(beside or {}), name: values}
    return {c.name: c for c in encoded(table).columns_}[name]


# Kinds


@pytest.mark.parametrize("make", ALL)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kinds_of_realistic_tables(make, seed):
    table, _, kinds = make(np.random.default_rng(seed))
    assert {c.name: c.kind for c in encoded(table).columns_} == kinds


RNG = np.random.default_rng(3)
WHOLE = RNG.integers(18, 90, 100)


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("customerId", 7 * RNG.permutation(100), "identifier"),
        ("store_id", RNG.integers(1, 5, 100), "identifier"),
        ("order number", RNG.integers(10**5, 10**6, 100), "identifier"),
        ("zip", RNG.integers(10**4, 10**5, 100), "code"),
        ("PLZ", [f"0{i}" for i in RNG.integers(1000, 9999, 100)], "code"),
        ("article", [f"0{i}" for i in RNG.integers(1000, 9999, 100)], "code"),
        ("reference", RNG.integers(10**13, 9 * 10**13, 100), "code"),
        ("email", [f"{i}@example.org" for i in range(100)], "identifier"),
        ("note", [f"this is the story of row {i}" for i in range(100)], "text"),
        ("when", ["2024-05-22"] * 50 + ["2023-01-02"] * 50, "date"),
        ("when", ["22.05.2024", "1.6.2024"] * 50, "date"),
        ("when", ["05/22/2024 10:30", "06/01/2024 9:05"] * 50, "date"),
        ("when", ["22 May 2024", "1 June 2024"] * 50, "date"),
        ("when", ["May 22, 2024", "Jun 1, 2024"] * 50, "date"),
        ("at", ["10:30", "9:05"] * 50, "date"),
        ("when", ["Mon, 01 Mar 2021", "Tue, 02 Mar 2021"] * 50, "date"),
        ("when", ["2021-03", "2021-04", "2022-11"] * 33, "date"),
        ("when", ["01/Mar/2021:10:00:00 +0000", "02/Mar/2021:11:00:00 +0000"] * 50, "date"),
        ("period", 202_100 + RNG.integers(1, 13, 100), "date"),
        ("race", ["Marathon 2021", "Marathon 2022"] * 50, "category"),
        ("customerZip", RNG.integers(10**4, 10**5, 100), "code"),
        ("long", RNG.normal(300, 20, 100), "number"),
        ("mass", [f"{v:.1f} kg" for v in RNG.normal(70, 5, 100)], "number"),
        ("fee", [f"CHF {v:.2f}" for v in RNG.normal(70, 5, 100)], "number"),
        ("customer", [f"c{i:03}" for i in range(100)], "identifier"),
        ("t", 1_600_000_000 + np.arange(100) * 3600, "date"),
        ("t", (1_600_000_000 + np.arange(100) * 3600) * 1000, "date"),
        ("day", 20_240_100 + RNG.integers(1, 28, 100), "date"),
        ("when", pd.date_range("2024-01-01", periods=100), "date"),
        ("year", RNG.integers(2007, 2010, 100), "date"),
        ("label", ["a", "b"] * 50, "class"),
        ("Target", RNG.normal(size=100), "class"),
        ("class_name", ["a", "b"] * 50, "class"),
        ("labels_true", ["a", "b"] * 50, "class"),
        ("Variety", ["a", "b"] * 50, "class"),
        ("target_price", RNG.normal(size=100), "number"),
        ("y", RNG.integers(0, 3, 100), "class"),
        ("smoker", ["yes", "No"] * 50, "yes/no"),
        ("smoker", [True, False] * 50, "yes/no"),
        ("smoker", [0, 1] * 50, "yes/no"),
        ("region", RNG.integers(1, 6, 100), "category"),
        ("region", ["north", "south"] * 50, "category"),
        ("region", pd.Categorical(["north", "south"] * 50), "category"),
        ("visits", RNG.poisson(3, 100), "count"),
        ("severity", RNG.permutation([0] * 15 + [1] * 75 + [2] * 10), "number"),
        ("coded", [1, 2] * 50, "category"),
        ("doors", ["2", "3", "4", "5more"] * 25, "category"),
        ("rating", RNG.integers(0, 11, 100), "ordered"),
        ("part", RNG.random(100), "share"),
        ("price", [f"${v:,.2f}" for v in RNG.normal(2000, 100, 100)], "number"),
        ("gap", [None] * 100, "empty"),
        ("unit", [3.5] * 100, "constant"),
        ("emb", [[0.5, 1.0 + i] for i in range(100)], "vector"),
        ("bag", [[1.0] * (i % 3) for i in range(100)], "nested"),
    ],
)
def test_kinds_of_single_columns(name, values, kind):
    assert kind_of(name, list(values)).kind == kind


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("air_quality_index", RNG.choice(500, 100, replace=False)),
        ("body_mass_index", RNG.choice(500, 100, replace=False)),
        ("year_built", RNG.integers(1900, 2020, 100)),
        ("population", RNG.integers(600_000_000, 2_100_000_000, 100)),
        ("duration_ns", RNG.integers(10**9, 10**10, 100)),
        ("acid", WHOLE),
        ("age", WHOLE),
        ("telomere", WHOLE),
        ("steps", RNG.integers(2000, 20_000, 100)),
        ("altitude", RNG.normal(500, 100, 100)),
        ("temperature", RNG.normal(0, 5, 100).round(1)),
        ("change", RNG.integers(-2, 3, 100)),
        ("salary", RNG.normal(50_000, 4_000, 100).round(-3)),
        ("version", [f"{v:.1f}" for v in RNG.normal(9, 1, 100)]),
    ],
)
def test_measurements_are_used(name, values):
    column = kind_of(name, list(values))
    assert column.used and column.kind in ("number", "log"), column


def test_yes_and_no_in_several_spellings():
    spelled = np.array(["Yes", "no", "Y", "N", "1", "0"] * 10)
    assert kind_of("member", spelled.tolist()).kind == "yes/no"
    table = {"boat": np.where(np.arange(60) % 3, "1", "0").tolist(), "member": spelled.tolist()}
    found = TableEncoder(output="mixed").fit_transform(table)
    np.testing.assert_array_equal(found[:6].T, [[0, 1, 1, 0, 1, 1], [1, 0, 1, 0, 1, 0]])


def test_words_among_numbers_with_a_unit_are_missing():
    cells = [f"{v} g/L" for v in range(100, 140)] + ["hemolysed", "n.d.", "-"]
    column = kind_of("haemoglobin", cells)
    assert column.kind == "number" and column.n_missing == 3


def test_days_as_spreadsheets_count_them_are_dates():
    days = 45_000 + np.random.default_rng(0).integers(0, 400, 50)
    assert kind_of("Date", days).kind == "date"
    assert kind_of("load", days).kind == "number"


def test_answers_beside_numbers_make_a_mixed_table():
    """The steps from 1 to 5 are no gaps between clusters."""
    rng = np.random.default_rng(0)
    truth, X = people_tables._blobs(rng, [(52.5, 13.4), (48.1, 11.6), (53.5, 10), (50.9, 7)], 0.12)
    table = {"lat": X[:, 0], "lng": X[:, 1], "rating": rng.integers(1, 6, len(X))}
    found = madbayes.explore(table)
    assert found.n_clusters == 4 and adjusted_rand_score(truth, found.labels) > 0.95


def test_y_beside_x_is_a_measurement():
    assert kind_of("y", list(RNG.integers(0, 3, 100)), {"x": RNG.normal(size=100)}).used


def test_few_rows_say_little_about_kinds():
    columns = encoded({"a": [0, 0, 1, 9, 9], "b": [0, 1, 0, 9, 10]}).columns_
    assert [c.kind for c in columns] == ["number", "number"]


def test_a_lone_column_that_counts_is_the_data():
    assert encoded({"a": [1, 2, 3, 4]}).columns_[0].used


# Logarithms


@pytest.mark.parametrize("seed", range(3))
def test_logarithms_where_spread_grows_with_the_level(seed):
    rng = np.random.default_rng(seed)
    logs = np.concatenate(
        [rng.normal(3, 0.5, 150), rng.normal(5, 0.5, 100), rng.normal(8, 0.5, 50)]
    )
    assert is_lognormal(np.exp(logs))
    assert is_lognormal(rng.lognormal(0, 1, 400))
    blobs = np.concatenate([rng.normal(c, 1, 100) for c in (5, 12, 60)] + [rng.normal(90, 1, 20)])
    for values in (blobs, rng.exponential(1, 300), rng.gamma(3, 1, 300), rng.random(300)):
        assert not is_lognormal(np.abs(values))


def test_in_wide_tables_some_columns_decide_about_logarithms():
    rng = np.random.default_rng(0)
    for values, kind in (
        (rng.lognormal(size=(100, 300)), "log"),
        (rng.random((100, 300)), "share"),
    ):
        table = {f"gene {j}": values[:, j] for j in range(300)}
        assert {c.kind for c in encoded(table).columns_} == {kind}


# Codes for missing values


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([1, 2, 3, 4, 5, 99] * 5, (99,)),
        ([0, 1, 99] * 10, (99,)),
        ([1, 2, 3, 4, 5, -1, -1] * 5, (-1,)),
        ([*range(18, 71)] + [99] * 5, (99,)),
        ([*range(18, 71), 999], (999,)),
        ([*np.linspace(-20, 40, 60), -999, 9999], (-999, 9999)),
        ([*range(50)] + [-1] * 5, (-1,)),
        ([*np.linspace(0.1, 9, 60)] + [-1] * 5, (-1,)),
        # Not codes:
        ([9, 19, 49, 99] * 10, ()),
        ([-1, 0, 1] * 10, ()),
        ([-1, 0, 1, 2] * 10, ()),
        ([*range(120)], ()),
        ([*np.linspace(500, 5000, 90), 999], ()),
        ([95, 96, 97, 98, 99, 100] * 5, ()),
        ([*range(18, 71), 99], ()),
        ([*np.linspace(0.2, 25, 60), -1.0], ()),
        ([1] * 10 + [99] * 20, ()),
    ],
)
def test_codes_for_missing_values(values, codes):
    assert sentinels(np.array(values, dtype=float)) == codes


def test_codes_are_counted_and_become_gaps():
    table, _, _ = people_tables.nines(np.random.default_rng(0))
    encoder = encoded(table)
    notes = " ".join(encoder.notes_)
    assert "width: 4 cells hold 9999" in notes and "depth: 2 cells hold 9999" in notes
    assert "6 cells are missing (1.0%), in width (4), depth (2)" in notes
    assert np.isnan(encoder.transform(table)).sum() == 6


def test_one_note_for_a_code_that_many_columns_share():
    table, _, _ = people_tables.survey(np.random.default_rng(0))
    notes = [note for note in encoded(table).notes_ if "hold 99" in note]
    assert len(notes) == 1 and notes[0].startswith("q1, q2, q3, q4, q5, q6: ")


def test_cells_such_as_more_make_categories():
    assert kind_of("persons", ["2", "4", "more"] * 20).kind == "category"
    answers = kind_of("q1", [*"12345" * 18, *["refused"] * 10])
    assert answers.kind == "ordered" and answers.n_missing == 10


def test_an_index_that_starts_again_is_no_measurement():
    assert kind_of("index", np.tile(np.arange(1, 51), 4)).kind == "identifier"
    assert kind_of("index", np.random.default_rng(0).integers(1, 51, 200)).kind == "number"


def test_words_that_are_called_like_codes_are_counts():
    rng = np.random.default_rng(0)
    table = {name: rng.poisson(2, 60) for name in ("cell", "mobile", "virus", "goal", "team")}
    assert {column.kind for column in encoded(table).columns_} == {"count"}
    assert kind_of("cell", rng.integers(10**6, 10**7, 60)).kind == "code"


# Outputs


def test_single_columns_of_counts_are_square_roots():
    """Poisson's spread is too narrow for visits and orders; in tables of counts it is right."""
    rng = np.random.default_rng(0)
    visits, height = rng.poisson(4, 100), rng.normal(size=100)
    encoder = encoded({"visits": visits, "height": height}, output="mixed")
    assert encoder.columns_[0].kind == "count"
    assert encoder.divergence_columns_["visits"] == "squared"
    Z = encoder.transform({"visits": visits, "height": height})
    np.testing.assert_allclose(Z[:, 0], np.sqrt(visits + 3 / 8))
    np.testing.assert_allclose(encoder.inverse_transform(Z)["visits"], visits, atol=1e-12)
    assert "used as counts, by their square roots: visits" in encoder.notes_
    asked = encoded({"visits": visits, "height": height}, kinds={"visits": "count"})
    assert asked.divergence_columns_["visits"] == "poisson"


@pytest.mark.parametrize("make", [people_tables.orders, people_tables.sessions])
def test_tables_with_a_column_of_counts(make):
    table, truth, _ = make(np.random.default_rng(1))
    found = madbayes.explore(table)
    assert found.n_clusters == 3 and adjusted_rand_score(truth, found.labels) > 0.9


def test_a_category_beside_very_many_numbers_does_not_decide():
    rng = np.random.default_rng(0)
    table = {f"gene{j}": rng.normal(size=40) for j in range(60)}
    table["tissue"] = rng.choice(["liver", "lung"], 40).tolist()
    assert encoded(table).recommendation_.output == "numeric"


def test_mixed_output_has_codes_gaps_and_families():
    table, _, _ = people_tables.penguins(np.random.default_rng(0))
    encoder = encoded(table, output="mixed")
    Z = encoder.transform(table)
    names = list(encoder.get_feature_names_out())
    assert names == [c.name for c in encoder.columns_ if c.used] and Z.shape == (300, 6)
    assert encoder.divergence_columns_ == {
        **dict.fromkeys(names, "squared"),
        "island": "categorical",
        "sex": "categorical",
    }
    assert encoder.categories_["sex"] == ("female", "male")
    sexes = [None if np.isnan(c) else encoder.categories_["sex"][int(c)] for c in Z[:, -1]]
    assert sexes == table["sex"]
    assert encoder.recommendation_.output == "mixed"
    assert "island (category)" in encoder.recommendation_.why


def test_numeric_output_is_on_comparable_scales():
    table, _, _ = people_tables.penguins(np.random.default_rng(0))
    encoder = encoded(table)
    Z = encoder.transform(table)
    names = list(encoder.get_feature_names_out())
    assert names[:3] == ["island=Biscoe", "island=Dream", "island=Torgersen"]
    variance = np.nanvar(Z, axis=0)
    assert variance[names.index("body_mass_g")] == pytest.approx(1)
    assert variance[:3].sum() == pytest.approx(1)  # a category is one column
    filled = encoded(table, missing="mean").transform(table)
    assert np.isnan(Z).any() and not np.isnan(filled).any()
    np.testing.assert_array_equal(filled[np.isfinite(Z)], Z[np.isfinite(Z)])


def test_huge_values_do_not_overflow():
    table = {"a": np.linspace(-1, 1, 30) * 1e200, "b": np.linspace(1, 2, 30)}
    Z = encoded(table).transform(table)
    assert np.nanvar(Z, axis=0) == pytest.approx([1, 1])


def test_coordinates_share_one_scale():
    table, _, _ = people_tables.places(np.random.default_rng(0))
    table["height"] = np.random.default_rng(1).normal(500, 100, 300)
    encoder = encoded(table)
    assert encoder.scale_[0] == encoder.scale_[1] != encoder.scale_[2]


def test_what_is_recommended():
    make = np.random.default_rng
    words = encoded(people_tables.words(make(0))[0])
    assert words.recommendation_.divergence == "multinomial"
    baskets = encoded({f"item {c}": make(ord(c)).poisson(1.5, 200) for c in "abcdef"})
    assert baskets.recommendation_.divergence == "poisson"
    assert encoded(people_tables.costs(make(0))[0]).recommendation_.output == "numeric"
    assert encoded(people_tables.mixed(make(0))[0]).recommendation_.divergence == "mixed"
    assert encoded(make(0).normal(size=(50, 2))).recommendation_.output == "numeric"


@pytest.mark.parametrize("output", ["numeric", "mixed"])
@pytest.mark.parametrize("make", [people_tables.mixed, people_tables.customers])
def test_back_in_the_units_of_the_table(make, output):
    table, _, _ = make(np.random.default_rng(0))
    frame = pd.DataFrame(table)
    encoder = encoded(frame, output=output)
    back = encoder.inverse_transform(encoder.transform(frame))
    assert isinstance(back, pd.DataFrame)
    for name in back.columns:
        if name in encoder.categories_:
            assert list(back[name]) == list(frame[name])
        elif pd.api.types.is_numeric_dtype(frame[name]):
            np.testing.assert_allclose(back[name], frame[name].astype(float))


def test_vectors_and_nested_fields():
    rows = [
        {"emb": [i % 2, 1.0 * i, 2.0], "where": {"in": {"z": i / 7}, "x": 0.5 * i}}
        for i in range(40)
    ]
    encoder = encoded(rows)
    assert list(encoder.get_feature_names_out()) == [
        *("emb[0]", "emb[1]", "emb[2]", "where.in.z", "where.x"),
    ]
    as_text = {"where": [f'{{"x": {i / 3}}}' for i in range(40)], "a": np.arange(40) ** 0.5}
    assert list(encoded(as_text).get_feature_names_out()) == ["where.x", "a"]


# All sorts of tables


def test_sorts_of_tables_give_the_same_numbers():
    table, _, _ = people_tables.mixed(np.random.default_rng(0))
    frame = pd.DataFrame(table)
    wanted = encoded(table).transform(table)
    tables = (frame, pl.DataFrame(table), pa.table(table), pl.LazyFrame(table))
    for other in (*tables, frame.to_dict("records"), frame.convert_dtypes()):
        np.testing.assert_array_equal(encoded(other).transform(other), wanted)
    shuffled = frame[frame.columns[::-1]]
    np.testing.assert_array_equal(encoded(frame).transform(shuffled), wanted)


def test_matrices_keep_their_unit_and_type():
    X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32) * [1, 100, 1]
    X = X.astype(np.float32)
    Z = encoded(X).transform(X)
    assert Z.dtype == np.float32
    np.testing.assert_array_equal(Z, X)
    scaled = encoded(X, scale="yes").transform(X)
    assert scaled.std(axis=0) == pytest.approx([1, 1, 1], rel=1e-4)
    with pytest.raises(ValueError, match="4 features, but TableEncoder is expecting 3"):
        encoded(X).transform(np.ones((2, 4)))


def test_kinds_override():
    table, _, _ = people_tables.customers(np.random.default_rng(0))
    kinds = {
        "postcode": "category",
        "joined": "number",
        "age": "drop",
        "spend": "number",
        "customer_id": "number",
    }
    encoder = encoded(table, kinds=kinds, output="mixed")
    used = {c.name: c.kind for c in encoder.columns_ if c.used}
    expected = {name: kind for name, kind in kinds.items() if kind != "drop"}
    assert used == expected
    days = encoder.transform(table)[:, list(encoder.get_feature_names_out()).index("joined")]
    first = pd.to_datetime(pd.Series(table["joined"]), format="%d.%m.%Y")
    assert days.tolist() == (first - pd.Timestamp(0)).dt.days.tolist()
    assert encoded({"label": ["a", "b"] * 20}, kinds={"label": "category"}).columns_[0].used


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"aeg": "number"}, "kinds names 'aeg', which is not a column. Did you mean age"),
        ({"age": "numeric"}, "a kind is one of 'number', 'count'"),
        ({"name": "number"}, "holds text such as 'Person"),
        ({"change": "log"}, "needs values >= 0, and the smallest is -3"),
        ({"age": "yes/no"}, "different values"),
    ],
)
def test_kinds_that_do_not_fit(kinds, message):
    table, _, _ = people_tables.customers(np.random.default_rng(0))
    table["change"] = [-3.0, 4.5] * 150
    with pytest.raises(ValueError, match=message.replace("?", ".")):
        encoded(table, kinds=kinds)


def test_most_columns_left_out_is_a_warning():
    table, _, _ = people_tables.customers(np.random.default_rng(0))
    with pytest.warns(UserWarning, match=r"most columns were left out \(7 of 9\)"):
        TableEncoder().fit(table)
    with pytest.raises(ValueError, match="There is no column to use"):
        TableEncoder().fit({"id": [4, 8, 9], "label": ["a", "b", "a"]})


def test_new_tables_are_read_as_the_first_one():
    table, _, _ = people_tables.mixed(np.random.default_rng(0))
    encoder = encoded(table, output="mixed")
    row = {"height": [1.8], "visits": [3], "plan": ["gold"], "member": [True], "newsletter": ["no"]}
    (Z,) = encoder.transform(row)
    assert np.isnan(Z[2]) and Z[[0, 1, 3, 4]].tolist() == [1.8, np.sqrt(3 + 3 / 8), 1, 0]
    del row["plan"]
    with pytest.raises(ValueError, match="needs the column 'plan'"):
        encoder.transform(row)
    survey, _, _ = people_tables.survey(np.random.default_rng(0))
    asked = encoded(survey)
    assert np.isnan(asked.transform({f"q{j}": [99] for j in range(1, 7)})).all()


# scikit-learn


def test_clone_set_output_and_pipelines():
    table, truth, _ = people_tables.costs(np.random.default_rng(0))
    frame = pd.DataFrame(table, index=[f"r{i}" for i in range(300)])
    encoder = clone(TableEncoder(kinds={"labour": "log"}, output="numeric"))
    out = encoder.set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == list(frame.columns) and list(out.index) == list(frame.index)
    pipeline = make_pipeline(TableEncoder(), madbayes.DPMeans(random_state=0)).fit(frame)
    assert adjusted_rand_score(pipeline.predict(frame), truth) > 0.95
    assert list(encoder.feature_names_in_) == list(frame.columns)


def test_estimator_checks_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(TableEncoder(), on_fail=None, on_skip=None)
    failed = {c["check_name"]: c["exception"] for c in found if c["status"] == "failed"}
    assert failed == {}


def test_saved_and_loaded(tmp_path):
    table, _, _ = people_tables.penguins(np.random.default_rng(0))
    encoder = encoded(pd.DataFrame(table))
    encoder.save(tmp_path / "encoder.npz")
    again = madbayes.load(tmp_path / "encoder.npz")
    np.testing.assert_array_equal(again.transform(table), encoder.transform(table))
    assert again.columns_ == encoder.columns_ and again.notes_ == encoder.notes_
    assert again.recommendation_ == encoder.recommendation_


# explore


@pytest.fixture(scope="module")
def costs():
    table, truth, _ = people_tables.costs(np.random.default_rng(0))
    frame = pd.DataFrame(table, index=[f"r{i}" for i in range(300)])
    frame.insert(0, "invoice_id", 17 * np.arange(300) % 1009)
    return frame, truth, madbayes.explore(frame)


def test_explore_finds_labels_and_centers_in_units(costs):
    frame, truth, found = costs
    assert found.n_clusters == 3 == len(found.centers) and sum(found.sizes) == 300
    assert adjusted_rand_score(found.labels, truth) > 0.95
    assert list(found.labels.index) == list(frame.index) and found.labels.name == "cluster"
    assert found.evidence.n_clusters == 3
    middle = np.exp([[3, 4, 3], [6, 4, 5], [6, 7.5, 8]])
    for center in found.centers.to_numpy():
        assert np.abs(np.log(center / middle)).max(axis=1).min() < 0.15
    assert any("left out invoice_id" in note for note in found.notes)
    assert any("the logarithm is used of material, labour" in note for note in found.notes)
    top = found.profile.groupby("cluster").first()
    assert (top["effect"].abs() > 1).all() and set(found.profile["column"]) <= set(frame.columns)
    assert repr(found).startswith("3 clusters in 300 rows (sizes ")
    assert "<table" in found._repr_html_()


def test_explore_gives_a_model_for_raw_tables(costs, tmp_path):
    frame, _, found = costs
    assert (found.model.predict(frame) == found.labels).all()
    found.save(tmp_path / "model.npz")
    again = madbayes.load(tmp_path / "model.npz")
    assert (again.predict(frame[::-1]) == found.labels[::-1]).all()
    np.testing.assert_array_equal(again.novelty_score(frame), found.model.novelty_score(frame))
    assert again.evidence_ == found.evidence
    found.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "invoice_id" in page and "identifies the rows" in page


def test_explore_reads_files_and_other_tables(tmp_path, costs):
    frame, _, found = costs
    frame.to_csv(tmp_path / "costs.csv", index=False)
    again = madbayes.explore(tmp_path / "costs.csv")
    assert (again.labels.to_numpy() == found.labels.to_numpy()).all()
    assert again.title == "costs.csv"
    with pytest.raises(ValueError, match=r"There is no file .*Did you mean costs.csv"):
        madbayes.explore(tmp_path / "cost.csv")
    with pytest.raises(TypeError, match="skip_rows, which are for files only"):
        madbayes.explore(frame, skip_rows=1)
    arrays = madbayes.explore(pl.DataFrame(frame))
    assert isinstance(arrays.centers, pl.DataFrame) and isinstance(arrays.labels, np.ndarray)
    fixed = madbayes.explore(frame, estimator=madbayes.KMeans(2, random_state=0))
    assert fixed.n_clusters == 2 and fixed.evidence is None


@pytest.mark.parametrize("make", [people_tables.gaps, people_tables.nines, people_tables.penguins])
def test_explore_with_missing_cells(make):
    table, truth, _ = make(np.random.default_rng(0))
    found = madbayes.explore(table)
    assert len(found.labels) == 300 and any("missing" in note for note in found.notes)
    assert adjusted_rand_score(found.labels, truth) > 0.5
    assert all(np.isfinite(v) for v in found.centers["width"]) if "width" in table else True


def test_explore_reads_a_file(tmp_path):
    path = tmp_path / "blobs.csv"
    rows = np.repeat([[0.0, 0.0], [9.0, 9.0]], 40, axis=0)
    rows += np.random.default_rng(0).normal(size=rows.shape)
    path.write_text("a,b\n" + "".join(f"{x},{y}\n" for x, y in rows))
    for given in (str(path), path):
        found = madbayes.explore(given, random_state=0)
        assert found.n_clusters == 2 and list(found.labels) == [0] * 40 + [1] * 40


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", "b", "c", "a"], r"Column 'odd' holds text such as 'a'.*madbayes\.explore"),
        ([1.0, None, 3.0, None], r"Column 'odd' has 2 missing cells.*madbayes\.explore"),
    ],
)
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_estimators_name_the_column_that_they_cannot_take(make, column, message):
    table = make({"fine": [1.0, 2.0, 3.0, 4.0], "odd": column})
    with pytest.raises(ValueError, match=f"(?s){message}"):
        madbayes.DPMeans().fit(table)


def test_estimators_count_gaps_of_pandas_own_numbers():
    """pandas.NA is neither true nor false."""
    table = pd.DataFrame({"odd": pd.array([1, None, 3, None], dtype="Int64"), "text": [*"abcd"]})
    with pytest.raises(ValueError, match=r"(?s)Column 'odd' has 2 missing cells"):
        madbayes.DPMeans().fit(table)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.Series([pd.NA, 1.0, 2.0, pd.NA], dtype=object), "has 2 missing cells"),
        (pd.Series(pd.date_range("2021-01-01", periods=4)), "holds dates"),
        (pd.Series([pd.Timestamp("2021-01-01"), 1, 2, 3], dtype=object), "holds dates"),
    ],
)
@pytest.mark.parametrize("estimator", [madbayes.DPMeans(), madbayes.NeighborCut()])
def test_estimators_name_columns_that_numpy_cannot_read(estimator, column, message):
    table = pd.DataFrame({"fine": [1.0, 2.0, 3.0, 4.0], "odd": column})
    with pytest.raises(ValueError, match=rf"(?s)Column 'odd' {message}.*madbayes\.TableEncoder"):
        estimator.fit(table)


def test_categories_that_are_new_count_as_missing_with_a_warning():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(40, 9, 60), "plan": rng.choice(list("abc"), 60)})
    found = madbayes.explore(table)
    with pytest.warns(UserWarning, match=r"plan: 'z' is new \(row 1, the first of 1\)"):
        labels = found.model.predict(pd.DataFrame({"age": [30, 50, None], "plan": ["a", "z", "b"]}))
    assert (labels == 0).all()


def test_new_rows_may_have_gaps_that_the_explored_table_had_not():
    X = np.repeat([[0.0, 0.0], [9.0, 0.0]], 40, axis=0)
    X += np.random.default_rng(0).normal(size=X.shape)
    model = madbayes.explore(pd.DataFrame(X, columns=["load", "strain"]), random_state=0).model
    new = pd.DataFrame({"load": [0.0, 9.0], "strain": [np.nan, np.nan]})
    assert model.predict(new).tolist() == [0, 1]


@pytest.mark.parametrize("file", [False, True])
def test_a_few_gaps_do_not_hide_the_shape_of_clusters(file, tmp_path):
    """Long clusters with eight gaps: the cells are filled in, so that all shapes are tried."""
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=400)
    X = rng.normal(size=(400, 2)) * [6, 0.6] @ np.array([[0.8, 0.6], [-0.6, 0.8]])
    X += np.array([[0, 0], [3, -5], [-4, 6]])[truth]
    X.flat[rng.choice(X.size, 8, replace=False)] = np.nan
    table = pd.DataFrame(X, columns=["load", "strain"])
    if file:
        table.to_csv(tmp_path / "t.csv", index=False)
        argv = ["cluster", str(tmp_path / "t.csv"), "--out", str(tmp_path / "o"), "--no-report"]
        assert cli.main([*argv, "--quiet"]) == 0
        labels = pd.read_csv(tmp_path / "o/labels.csv").cluster
        notes = json.loads((tmp_path / "o/summary.json").read_text())["notes"]
    else:
        found = madbayes.explore(table)
        labels, notes = found.labels, found.notes
    assert len(np.unique(labels)) == 3 and adjusted_rand_score(truth, labels) > 0.9
    assert "missing cells were filled in with the mean of their column" in notes
