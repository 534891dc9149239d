"""What a fitted model shows in a notebook: what it found, above scikit-learn's own box."""

from collections.abc import Callable
from html import escape
from typing import Any

BOX = "font-family:sans-serif;margin:0 0 6px;padding:6px 10px;border-left:4px solid #009E73"


class ShownMixin:
    """Adds the number of groups and the evidence for it to the HTML of an estimator."""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        inner = super()._repr_html_  # type: ignore[misc]
        return lambda: _found(self) + inner()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = _found(self) + bundle["text/html"]
        return bundle


def _found(model: Any) -> str:
    """One paragraph; nothing before a fit."""
    evidence = getattr(model, "evidence_", None)
    if evidence is not None:
        return f'<div style="{BOX}">{escape(evidence.describe())}</div>'
    for name, what in (("n_components_", "feature"), ("n_clusters_", "cluster")):
        if (number := getattr(model, name, None)) is not None:
            text = f"{number} {what}{'' if number == 1 else 's'}"
            return f'<div style="{BOX}">{text}</div>'
    return ""
