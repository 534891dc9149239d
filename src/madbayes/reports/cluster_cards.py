"""What sets each group apart, one card for each. Everything that comes from the data is escaped."""

from html import escape
from typing import Any

import numpy as np

from madbayes.plots._palette import COLORS, SHAPES
from madbayes.reports import page_data, svg
from madbayes.reports.rows_shown import Seen

MOST_CARDS = 40


def shown(value: Any, most: int = 200) -> str:
    """Anything as text in HTML; control characters as what they are."""
    text = str(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return escape(text if len(text) <= most else text[: most - 1] + "…", quote=True)


def color_of(label: int) -> str:
    return COLORS[label % len(COLORS)]


def mark(label: int) -> str:
    """The colour and the shape of a cluster; as the script of the page draws them."""
    shape = SHAPES[label // len(COLORS) % len(SHAPES)]
    return (
        '<svg class="mark" viewBox="-1.4 -1.4 2.8 2.8" aria-hidden="true">'
        f'<path d="{shape}" fill="{color_of(label)}"/></svg>'
    )


def figure(value: float) -> str:
    return f"{value:,.4g}" if abs(value) < 1e6 else f"{value:.4g}"


def groups(seen: Seen) -> str:
    if seen.of == "community":
        return ""
    if seen.of == "feature":
        return _features(seen)
    order = np.argsort(-seen.sizes, kind="stable")[:MOST_CARDS]
    shown = sorted(order.tolist()) if seen.number <= MOST_CARDS else order.tolist()
    cards = "".join(_card(seen, label) for label in shown)
    more = ""
    if seen.number > MOST_CARDS:
        more = f"<p class=note>The {MOST_CARDS} largest of {seen.number} clusters are shown.</p>"
    if seen.is_sample:
        more += f"<p class=note>Means and distributions are from {len(seen.counted):,} rows.</p>"
    return (
        "<section><h2>What sets each cluster apart<span id=cards-of></span></h2><p>Columns by how "
        "far the cluster's mean is from that of the other rows, in standard deviations (sd). "
        f"Filled: this cluster; line: the rest.</p>{more}<div class=cards id=cards>{cards}</div>"
        "</section>"
    )


def _card(seen: Seen, label: int) -> str:
    color = color_of(label)
    columns = page_data.apart(seen, label)
    rows = ""
    for column in columns:
        says = f"{column['name']}: from {figure(column['low'])} to {figure(column['high'])}"
        picture = svg.histogram(column["inside"], column["outside"], shown(says), color)
        rows += (
            f"<tr><th scope=row>{shown(column['name'], 60)}</th>"
            f"<td class=num>{figure(column['mean'])}</td>"
            f"<td class='num rest'>{figure(column['rest'])}</td>"
            f"{_effect(column['effect'], color)}<td>{picture}</td></tr>"
        )
    head = _head("column", "mean", "rest", "difference", "distribution")
    table = "<p>No column tells it apart.</p>"
    if rows:
        table = f"<table class=apart>{head}<tbody>{rows}</tbody></table>"
    names = [column["name"] for column in columns[:5]]
    body = (
        f'<div class=scroll tabindex=0 role=group aria-label="what sets cluster {label} apart">'
        f"{table}</div>{_rows(seen, label, names)}"
    )
    name = f"<span class=name>Cluster {label}</span>"
    return _article(seen, label, f" data-cluster={label}", name, body)


def _article(seen: Seen, label: int, attributes: str, name: str, body: str) -> str:
    size = int(seen.sizes[label])
    return (
        f'<article class=card{attributes} style="--own:{color_of(label)}"><h3>{mark(label)}{name} '
        f"<small>{size:,} rows, {size / max(seen.n, 1):.1%}</small></h3>{body}</article>"
    )


def _head(*names: str) -> str:
    cells = "".join(f"<th scope=col>{shown(name, 40)}</th>" for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _effect(effect: float, color: str) -> str:
    """A bar to the left or right of the middle, three standard deviations wide at most."""
    wide = min(abs(effect) / 3, 1) * 50
    left = 50 if effect >= 0 else 50 - wide
    return (
        f'<td class=effect><span class=track><span class=bar style="left:{left:.1f}%;'
        f'width:{wide:.1f}%;background:{color}"></span></span><span class=value>{effect:+.1f}'
        "</span></td>"
    )


def _rows(seen: Seen, label: int, names: list[str]) -> str:
    """Typical and odd rows, with their cells in the columns of these names."""
    typical, odd = page_data.extremes(seen, label)
    if not typical:
        return ""
    columns = [seen.names.index(name) for name in names]
    lines = ""
    for i in [*typical, *odd]:
        cells = "".join(f"<td class=num>{figure(seen.values[i, j])}</td>" for j in columns)
        kind = "typical" if i in typical else "odd"
        name = shown(seen.ids[seen.counted[i]], 60)
        lines += f"<tr><th scope=row>{name}</th>{cells}<td class=kind>{kind}</td></tr>"
    return (
        "<details><summary>Typical and odd rows</summary><div class=scroll tabindex=0 "
        f'role=group aria-label="typical and odd rows of cluster {label}"><table class=rows>'
        f"{_head(seen.id_name, *names, 'kind')}<tbody>{lines}</tbody></table></div></details>"
    )


def _features(seen: Seen) -> str:
    effects = np.asarray(seen.model.components_, float) / page_data.spread(seen.X)
    cards = ""
    for k, effect in enumerate(effects[:MOST_CARDS]):
        order = np.argsort(-np.abs(effect), kind="stable")[: page_data.TOP].tolist()
        rows = "".join(
            f"<tr><th scope=row>{shown(seen.names[j], 60)}</th>{_effect(effect[j], color_of(k))}"
            "</tr>"
            for j in order
        )
        table = f"<table class=apart><tbody>{rows}</tbody></table>"
        cards += _article(seen, k, "", f"Feature {k}", table)
    return (
        "<section><h2>What each feature adds</h2><p>In standard deviations of the column. A row is "
        f"the sum of its features.</p><div class=cards>{cards}</div></section>"
    )
