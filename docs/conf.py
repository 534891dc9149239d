"""How Sphinx builds the site: `make docs`. Nothing is fetched from the network."""

import re
import sys
import warnings
from pathlib import Path

import madbayes

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

project = "madbayes"
author = "the madbayes developers"
version = release = madbayes.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}

myst_enable_extensions = ["deflist", "dollarmath"]
myst_heading_anchors = 3

templates_path = ["_templates"]
numpydoc_show_class_members = False  # the template lists them
numpydoc_xref_param_type = False
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"

sphinx_gallery_conf = {
    "image_scrapers": ("figures.scrape",),
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^(?!.*plot_)",
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 20,
}

html_theme = "pydata_sphinx_theme"
html_title = "madbayes"
html_theme_options = {
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
}
html_show_sourcelink = False

warnings.filterwarnings("ignore", category=UserWarning, message=".*non-interactive.*")


def plain_names(app, what, name, thing, options, lines):
    """`n_clusters_` in the shape of an array is no reference of reStructuredText."""
    for i, line in enumerate(lines):
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(?<=[(\s])([a-z]\w*)_(?=[,.;:)\s]|$)", r"\1\\_", line)


def outside_links(app, docname, source):
    """Links to .md files outside this folder become downloads: myst takes each for a page here."""
    folder = Path(app.srcdir, docname).parent

    def mended(link):
        inside = (folder / link[1]).resolve().is_relative_to(HERE)
        return link[0] if inside else f"](<path:{link[1]}>)"

    source[0] = re.sub(r"\]\(((?:\.\./)+[^)#\s]+\.md)(?:#[^)\s]*)?\)", mended, source[0])


def setup(app):
    """Diagrams that forges draw stay text here; docstrings are mended after numpydoc."""
    from pygments.lexers.special import TextLexer

    app.add_lexer("mermaid", TextLexer)
    app.connect("autodoc-process-docstring", plain_names, priority=900)
    app.connect("source-read", outside_links)
