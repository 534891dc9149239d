"""Which pictures of an example the gallery shows."""

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst, matplotlib_scraper


def scrape(block, block_vars, gallery_conf):
    """Those of pyplot, and those that the package draws on a figure of its own."""
    found = matplotlib_scraper(block, block_vars, gallery_conf)
    names = []
    for value in block_vars["example_globals"].values():
        if isinstance(value, Figure) and not hasattr(value, "number"):
            names.append(next(block_vars["image_path_iterator"]))
            value.savefig(names[-1], dpi=100)
    return found + (figure_rst(names, gallery_conf["src_dir"]) if names else "")
