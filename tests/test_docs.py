"""The site: every public name has a page and complete sections, and results are what pages say."""

import inspect
import json
import re
from pathlib import Path

import pytest

import madbayes

ROOT = Path(__file__).resolve().parents[1]
HOMES = ["", "penalties", "plots", "gibbs"]

pytestmark = pytest.mark.skipif(
    not (ROOT / "docs" / "api.rst").exists(), reason="not run from a checkout"
)


def public():
    """(name, thing) of all public classes and functions; modules are their homes."""
    for home in HOMES:
        module = getattr(madbayes, home) if home else madbayes
        for name in module.__all__:
            thing = getattr(module, name)
            if not inspect.ismodule(thing) and thing.__name__ == name:  # no second names
                yield f"{home}.{name}".lstrip("."), thing


PUBLIC = dict(public())


def sections(text):
    """title: body, of a docstring in numpydoc's form."""
    parts = re.split(r"^(\w[\w ]+)\n-{3,}\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    return {"Summary": parts[0].strip(), **dict(zip(parts[1::2], parts[2::2], strict=True))}


def described(body):
    """Names at the start of a line of a section: `a, b : float`."""
    lines = re.findall(r"^(\*{0,2}\w[\w, *]*)(?: : .*)?$", body, flags=re.MULTILINE)
    return {name.strip(" *") for line in lines for name in line.split(",")}


def test_the_walk_finds_the_names():
    assert {"DPMeans", "penalties.path", "plots.scatter", "gibbs.IBPGibbs"} <= set(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_sections_are_complete(name):
    thing = PUBLIC[name]
    found = sections(thing.__doc__)
    assert found["Summary"].splitlines()[0].endswith("."), "the first line is a sentence"
    parameters = [
        p
        for p, value in inspect.signature(thing).parameters.items()
        if not p.startswith("_") and value.kind is not value.VAR_KEYWORD
    ]
    heads = "\n".join(
        body for title, body in found.items() if title in ("Parameters", "Attributes")
    )
    assert set(parameters) <= described(heads), "describe each parameter"
    if hasattr(thing, "fit"):
        assert {"Attributes", "Examples"} <= set(found)
    elif inspect.isfunction(thing) and "Returns" not in found:
        gives = inspect.signature(thing).return_annotation
        assert gives is None or "Iterator" in str(gives), "say what is returned"


def test_every_public_name_is_in_the_reference():
    page = (ROOT / "docs" / "api.rst").read_text(encoding="utf-8")
    for name in PUBLIC:
        assert re.search(rf"^   {name.rsplit('.')[-1]}$", page, flags=re.MULTILINE), name


def test_every_page_is_in_the_contents():
    docs = ROOT / "docs"
    folders = [docs, *(docs / name for name in ("guide", "howto", "migrate"))]
    pages = [page for folder in folders for page in folder.glob("*.md")]
    listed = {"index"}
    for page in pages:
        for tree in re.findall(r"```{toctree}\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
            names = [line for line in tree.splitlines() if line and not line.startswith(":")]
            listed |= {(page.parent / name).relative_to(docs).as_posix() for name in names}
    names = {page.relative_to(docs).with_suffix("").as_posix() for page in pages}
    assert names <= listed, "add these to a table of contents"


@pytest.mark.parametrize("path", sorted((ROOT / "experiments" / "results").glob("*.json")))
def test_results_say_how_they_came_about(path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert {"protocol", "versions"} <= set(result["about"])
    assert path.with_suffix(".py").name in {p.name for p in (ROOT / "experiments").glob("*.py")}


def test_pages_show_the_results_that_are_kept():
    """Figures of Table 1 in the page are those of the file."""
    kept = json.loads((ROOT / "experiments" / "results" / "kj_table1.json").read_text("utf-8"))
    page = (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for name, values in kept.items():
        if name != "about":
            line = next(one for one in page.splitlines() if one.startswith(f"| {name} |"))
            for method in ("DP-means", "k-means", "Gibbs", "search"):
                assert f"{values[method]:.2f}".lstrip("0") in line, (name, method)
