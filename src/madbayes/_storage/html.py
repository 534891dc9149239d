"""What a fitted model shows in a notebook: what it found, above scikit-learn's own box."""

import functools
from collections.abc import Callable
from html import escape
from importlib import metadata
from typing import Any


class ShownMixin:
    """Adds the number of groups, the evidence for it and a link to its page to the HTML of an
    estimator."""

    _doc_link_module = "madbayes"

    @property
    def _doc_link_template(self) -> str:
        site = documentation()
        home = "madbayes.gibbs." if ".gibbs" in type(self).__module__ else "madbayes."
        return f"{site}/api/{home}{{estimator_name}}.html" if site else ""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        inner = super()._repr_html_  # type: ignore[misc]
        return lambda: _found(self) + inner()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = _found(self) + bundle["text/html"]
        return bundle


@functools.cache
def documentation() -> str:
    """The address of the site ("Documentation" among the addresses of the package), or nothing."""
    try:
        addresses = metadata.metadata("madbayes").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:  # a checkout that is not installed
        return ""
    found = dict(address.split(", ", 1) for address in addresses)
    return found.get("Documentation", "").rstrip("/")


def _found(model: Any) -> str:
    """One paragraph; nothing before a fit."""
    text = ""
    for name, what in (("n_clusters_", "cluster"), ("n_components_", "feature")):
        if (number := getattr(model, name, None)) is not None:
            text = f"{number} {what}{'' if number == 1 else 's'}"
    if (evidence := getattr(model, "evidence_", None)) is not None:
        text = escape(evidence.describe())
    box = "font-family:sans-serif;margin:0 0 6px;padding:6px 10px;border-left:4px solid #009E73"
    return f'<div style="{box}">{text}</div>' if text else ""
