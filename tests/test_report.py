"""report.html: what it says, that no data can harm it, and that it works in a browser."""

import csv
import io
import json
import re
import shutil
import tracemalloc
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.spatial import cKDTree

import madbayes
from madbayes._storage.prepared import Column, Prepared
from madbayes.reports.network import network

NASTY = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{data}} ${x} \\u003c",
    "\x1b[2J\u2028\u202e=1+1",
]
rng = np.random.default_rng(0)
X = np.repeat([[0.0, 0, 0, 5], [9, 0, 0, 5], [0, 9, 0, 5], [0, 0, 9, 5]], 25, axis=0)
X = X + rng.normal(size=X.shape)


class Page(HTMLParser):
    """The text of each element kind, and that every element is closed."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.texts = [], [], {}
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)


@pytest.fixture(scope="module")
def model():
    return madbayes.DPMeans(random_state=0).fit(X)


@pytest.fixture(scope="module")
def file(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    pd = pytest.importorskip("pandas")
    madbayes.report(
        model,
        pd.DataFrame(X, columns=NASTY),
        path,
        title=NASTY[0],
        ids=[NASTY[i % 4] + str(i) for i in range(len(X))],
        id_name=NASTY[1],
        notes=NASTY,
        left_out={NASTY[1]: NASTY[0]},
    )
    return path


def test_names_and_cells_are_only_shown(file):
    text = file.read_text("utf-8")
    page = Page(text)
    assert [tag for tag, _ in page.seen].count("script") == 2
    assert not [tag for tag, attrs in page.seen if tag in ("img", "iframe", "object", "base")]
    assert not [a for _, attrs in page.seen for a in attrs if a.startswith("on")]
    links = [a[name] for _, a in page.seen for name in ("src", "href") if name in a]
    assert all(link.startswith(("data:", "#")) for link in links)
    assert "\x1b" not in text
    policy = next(a for t, a in page.seen if a.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"].startswith("default-src 'none'")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert [c["name"] for c in data["columns"]] == NASTY
    assert any(NASTY[0] in t for t in page.texts["title"])


def test_it_says_how_many_how_sure_and_what_else(file, model):
    text = file.read_text("utf-8")
    assert "<h1>4 clusters</h1>" in text
    assert f"Evidence: {model.evidence_.strength}" in text
    assert "Next best" in text
    for heading in ("The path", "What sets each cluster apart", "The columns", "Notes"):
        assert f"<h2>{heading}" in text
    assert text.count("<article class=card") == 4


def test_what_sets_a_cluster_apart_is_in_the_units_of_the_file(tmp_path):
    scale = np.array([1.0, 1000.0])
    Y = X[:50, :2] * scale
    fitted = madbayes.DPMeans(penalty=30.0).fit((Y - Y.mean(axis=0)) / Y.std(axis=0))
    columns = (Column("a"), Column("b"))
    prepared = Prepared(fitted, columns, Y.mean(axis=0), Y.std(axis=0))
    madbayes.report(prepared, Y, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    mean = Y[fitted.labels_ == 0].mean(axis=0)[0]
    assert f"<td class=num>{mean:,.4g}</td>" in text
    assert "standardized" in text


def test_only_a_sample_is_drawn_and_the_page_says_so(tmp_path, monkeypatch):
    from madbayes.reports import rows_shown

    monkeypatch.setattr(rows_shown, "DRAWN", 40)
    fitted = madbayes.DPMeans(penalty=60.0).fit(X)
    madbayes.report(fitted, X, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "Drawn: 40 of 100 rows" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert len(data["ids"]) == data["drawn"] == 40
    assert sum(data["sizes"]) == 100


@pytest.mark.parametrize("kind", ["KMeans", "BPMeans", "GraphCut", "HardHDP", "sparse", "one"])
def test_every_kind_of_model_has_a_report(tmp_path, kind):
    if kind == "GraphCut":
        rows = sp.csr_array((np.linalg.norm(X[:, None] - X[None], axis=2) < 3).astype(float))
        fitted = madbayes.GraphCut(0.3).fit(rows)
    elif kind == "HardHDP":
        rows, fitted = X, madbayes.HardHDP(9.0, 30.0).fit(X, groups=np.arange(100) % 3)
    elif kind == "sparse":
        rows = sp.csr_array(np.where(np.abs(X) > 3, X, 0.0))
        fitted = madbayes.DPMeans(penalty=60.0).fit(rows)
    elif kind == "one":
        rows, fitted = X[:1, :1], madbayes.DPMeans(penalty=1.0).fit(X[:1, :1])
    elif kind == "BPMeans":
        rows, fitted = X, madbayes.BPMeans(penalty=50.0, random_state=0).fit(X)
    else:
        rows, fitted = X, madbayes.KMeans(3, random_state=0).fit(X)
    madbayes.report(fitted, rows, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    Page(text)
    number = fitted.n_components_ if kind == "BPMeans" else fitted.n_clusters_
    assert f"<h1>{number} " in text


def test_wrong_ids_are_named(model, tmp_path):
    with pytest.raises(ValueError, match="ids has 3 entries for the 100 rows"):
        madbayes.report(model, X, tmp_path / "r.html", ids=[1, 2, 3])
    assert not list(tmp_path.iterdir())


# In a browser


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.binary_location = chromium
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(driver)
    started = webdriver.Chrome(options=options, service=service)
    yield started
    started.quit()


def opened(browser, file, width=1400):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(file.as_uri())
    assert browser.execute_script("return document.documentElement.dataset.ready") == "yes"


def complaints(browser):
    return [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]


def requests(browser):
    events = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    sent = [
        e["params"]["request"]["url"]
        for e in events
        if "requestWillBeSent" in e["method"] and "request" in e["params"]
    ]
    return [url for url in sent if not url.startswith(("file:", "data:", "chrome"))]


STATE = """
return {
  k: document.getElementById("k").textContent,
  said: document.getElementById("number").getAttribute("aria-valuetext"),
  sizes: [...document.querySelectorAll("#sizes button")].map((b) => b.textContent),
  cards: [...document.querySelectorAll("#cards h3")].map((h) => h.textContent),
  picture: document.getElementById("map").toDataURL(),
};
"""


@pytest.mark.parametrize("width", [360, 1400])
def test_the_slider_goes_from_number_to_number_and_everything_with_it(browser, file, width):
    from selenium.webdriver.common.keys import Keys

    opened(browser, file, width)
    seen = [browser.execute_script(STATE)]
    assert seen[0]["k"] == "4 clusters"
    slider = browser.find_element("id", "number")
    for key in (Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ARROW_LEFT):
        slider.send_keys(key)
        seen.append(browser.execute_script(STATE))
    assert [s["k"] for s in seen] == ["4 clusters", "3 clusters", "2 clusters", "1 cluster"]
    assert len({s["picture"] for s in seen}) == 4
    for s in seen:
        assert s["said"] == s["k"]
        assert len(s["sizes"]) == len(s["cards"]) == int(s["k"].split()[0])
    browser.execute_script("document.getElementById('back').click()")
    assert browser.execute_script(STATE)["cards"] == seen[0]["cards"]
    wide = browser.execute_script("return document.documentElement.scrollWidth")
    assert wide <= width  # nothing sticks out
    assert complaints(browser) == []
    assert requests(browser) == []


def test_next_best_numbers_are_a_click_away_and_side_by_side(browser, file, model):
    opened(browser, file)
    k = int(model.evidence_.runners_up[0][0])
    browser.execute_script(f"document.querySelector('button.chip[data-k=\"{k}\"]').click()")
    assert browser.execute_script(STATE)["k"].split()[0] == str(k)
    assert not browser.find_element("id", "second").is_displayed()
    other = browser.find_element("css selector", "#other option:last-child")
    other.click()
    assert browser.find_element("id", "map2").is_displayed()
    assert other.text in browser.find_element("id", "caption2").text
    assert complaints(browser) == []


CATCH = """
URL.createObjectURL = (blob) => {
  blob.text().then((text) => { window.caught = text; });
  return "#";
};
document.getElementById("download").click();
"""


def test_names_stay_and_go_with_the_downloaded_labels(browser, file, model):
    opened(browser, file)
    browser.execute_script("localStorage.clear()")
    opened(browser, file)
    browser.find_elements("css selector", "#sizes button")[0].click()
    field = browser.find_element("css selector", "#detail input")
    field.send_keys('=the "best"\t')
    opened(browser, file)
    assert '=the "best"' in browser.find_element("id", "sizes").text
    browser.execute_script(CATCH)
    caught = browser.execute_script("return window.caught")
    found = list(csv.DictReader(io.StringIO(caught, newline="")))
    assert [int(line["cluster"]) for line in found] == model.labels_.tolist()
    assert sum(line["name"] == '\'=the "best"' for line in found) == 25  # no formula
    assert complaints(browser) == []


def test_rows_are_found_and_told_under_the_pointer(browser, file, model):
    opened(browser, file)
    first = browser.execute_script(
        "return JSON.parse(document.getElementById('data').textContent).ids[7]"
    )
    browser.find_element("id", "wanted").send_keys(f"{first}\n")
    said = browser.find_element("id", "found").text
    assert f"Cluster {model.labels_[7]}" in said and "=1+17" in said
    hover = """
    const map = document.getElementById("map"), box = map.getBoundingClientRect();
    for (let x = box.left; x < box.right; x += 6)
      for (let y = box.top; y < box.bottom; y += 6) {
        map.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y }));
        const tip = document.getElementById("tip");
        if (!tip.hidden) return tip.textContent;
      }
    """
    assert "Cluster" in browser.execute_script(hover)
    browser.find_element("id", "wanted").clear()
    browser.find_element("id", "wanted").send_keys("nobody\n")
    assert "There is no" in browser.find_element("id", "found").text
    assert complaints(browser) == []


def test_more_clusters_than_colours_differ_in_shape(browser, tmp_path):
    Y = np.repeat(10.0 * np.arange(16)[:, None], 5, axis=0) + rng.normal(size=(80, 1)) * 0.1
    model = madbayes.KMeans(16, random_state=0).fit(Y)
    madbayes.report(model, Y, tmp_path / "r.html")
    opened(browser, tmp_path / "r.html")
    marks = "return [...document.querySelectorAll('#sizes path')].map((p) => p.outerHTML)"
    assert len(set(browser.execute_script(marks))) == 16


def test_a_graph_is_drawn(browser, tmp_path):
    own = np.repeat(np.arange(4), 15)
    A = np.triu(rng.random((60, 60)) < np.where(own[:, None] == own, 0.5, 0.02), 1)
    A = sp.csr_array((A + A.T).astype(float))
    model = madbayes.GraphCut(0.3).fit(A)
    madbayes.report(model, A, tmp_path / "r.html", id_name="node")
    opened(browser, tmp_path / "r.html")
    assert browser.find_element("id", "map").is_displayed()
    assert "lines are edges" in browser.find_element("id", "caption").text
    assert complaints(browser) == []


def test_everything_that_folds_is_open_in_print(browser, file):
    opened(browser, file)
    assert browser.execute_script(
        "dispatchEvent(new Event('beforeprint'));"
        "const shut = document.querySelectorAll('details:not([open])').length;"
        "dispatchEvent(new Event('afterprint'));"
        "return [shut, document.querySelectorAll('details:not([open])').length > 0]"
    ) == [0, True]


def test_a_cluster_can_be_looked_at_by_mouse_and_keyboard(browser, file):
    from selenium.webdriver.common.keys import Keys

    opened(browser, file)
    detail = browser.find_element("id", "detail")
    assert detail.text == ""
    button = browser.find_elements("css selector", "#sizes button")[1]
    button.send_keys(Keys.ENTER)
    assert "25 rows" in detail.text and "sd" in detail.text and "typical" in detail.text
    assert NASTY[0] in detail.text  # as text
    pressed = browser.find_elements("css selector", "#sizes button[aria-pressed=true]")
    assert len(pressed) == 1
    pressed[0].send_keys(Keys.ENTER)
    assert detail.text == ""
    click = """
    const box = document.getElementById("map").getBoundingClientRect();
    for (let x = box.left + 4; x < box.right; x += 12)
      for (let y = box.top + 4; y < box.bottom; y += 12) {
        const at = { clientX: x, clientY: y, bubbles: true };
        document.getElementById("map").dispatchEvent(new MouseEvent("click", at));
        if (document.getElementById("detail").textContent) return true;
      }
    return false;
    """
    assert browser.execute_script(click)
    assert complaints(browser) == []


def test_axes_can_be_columns(browser, file):
    opened(browser, file)
    names = "return [...document.getElementById('across').options].map((o) => o.textContent)"
    assert browser.execute_script(names)[1:] == NASTY
    before = browser.execute_script("return document.getElementById('map').toDataURL()")
    change = """
    const across = document.getElementById("across");
    across.value = "1";
    across.dispatchEvent(new Event("change"));
    return document.getElementById("map").toDataURL();
    """
    assert browser.execute_script(change) != before
    assert complaints(browser) == []


def test_a_model_and_rows_that_do_not_belong_together_are_refused(tmp_path):
    raw = X * [1.0, 1e3, 1.0, 1e-3] + 5
    scaled = (raw - raw.mean(axis=0)) / raw.std(axis=0)
    model = madbayes.DPMeans(random_state=0).fit(scaled)
    with pytest.raises(ValueError, match=r"do not belong together.*labels_"):
        madbayes.report(model, raw, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
    madbayes.report(model, scaled, tmp_path / "report.html")


def test_pipelines_are_shown_in_the_units_of_their_rows(tmp_path):
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    raw = X * [1.0, 1e3, 1.0, 1e-3] + 5
    pipeline = make_pipeline(StandardScaler(), madbayes.DPMeans(random_state=0)).fit(raw)
    madbayes.report(pipeline, raw, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert data["columns"][1]["high"] == pytest.approx(raw[:, 1].max())
    with pytest.raises(ValueError, match="do not belong together"):
        madbayes.report(pipeline, raw[:, ::-1].copy(), tmp_path / "s.html")
    table = {"size": raw[:, 1], "plan": np.where(raw[:, 0] > 10, "a", "b").tolist()}
    found = madbayes.explore(table)
    madbayes.report(found.model, table, tmp_path / "t.html")
    text = (tmp_path / "t.html").read_text("utf-8")
    assert "plan=a" in text and "<td>categories</td>" in text


def test_two_sentences_say_what_was_found(tmp_path):
    model = madbayes.DPMeans(random_state=0).fit(X)
    madbayes.report(model, X, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text("utf-8")
    assert "The 100 rows of 4 columns fall into 4 clusters (25 each)." in text
    assert "The data support this number clearly." in text
    noise = rng.normal(size=(200, 3))
    madbayes.report(madbayes.DPMeans(random_state=0).fit(noise), noise, tmp_path / "n.html")
    assert "form a single cluster. Nothing in the data speaks" in (tmp_path / "n.html").read_text()


def test_a_network_of_very_many_communities_takes_little_memory():
    """1,000 triangles, many more discs than springs arrange; none lies on another."""
    nodes, label = np.arange(3000), np.repeat(np.arange(1000), 3)
    graph = sp.csr_array((np.ones(3000), (nodes, 3 * label + (nodes + 1) % 3)), (3000, 3000))
    tracemalloc.start()
    points, edges = network(sp.csr_array(graph + graph.T), label, nodes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 32e6 and len(edges) == 3000
    middle = points.reshape(1000, 3, 2).mean(axis=1)
    radius = np.linalg.norm(points - middle[label], axis=1).max()
    assert cKDTree(middle).query(middle, 2)[0][:, 1].min() > 2 * radius


def test_a_table_may_name_the_columns_of_an_array(tmp_path):
    model = madbayes.KMeans(4, random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        madbayes.report(model, pd.DataFrame(X, columns=[*"abcd"]), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000
