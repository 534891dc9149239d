"""What sets each group apart, one card for each. Everything that comes from the data is escaped."""

from html import escape
from typing import Any

import numpy as np

from madbayes.plots._palette import COLORS, SHAPES
from madbayes.reports import page_data, svg
from madbayes.reports.rows_shown import Seen

MOST_CARDS = 40
SHOWN_COLUMNS = 5  # of typical rows


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
    color, size = color_of(label), int(seen.sizes[label])
    rows = ""
    for column in page_data.apart(seen, label):
        name, effect = shown(column["name"], 60), column["effect"]
        says = f"{column['name']}: from {figure(column['low'])} to {figure(column['high'])}"
        picture = svg.histogram(column["inside"], column["outside"], shown(says), color)
        rows += (
            f"<tr><th scope=row>{name}</th><td class=num>{figure(column['mean'])}</td>"
            f"<td class='num rest'>{figure(column['rest'])}</td>{_effect(effect, color)}"
            f"<td>{picture}</td></tr>"
        )
    table = (
        "<table class=apart><thead><tr><th scope=col>column</th><th scope=col>mean</th>"
        "<th scope=col>rest</th><th scope=col>difference</th><th scope=col>distribution</th></tr>"
        f"</thead><tbody>{rows}</tbody></table>"
        if rows
        else "<p>No column tells it apart.</p>"
    )
    return (
        f'<article class=card data-cluster={label} style="--own:{color}"><h3>{mark(label)}'
        f"<span class=name>Cluster {label}</span> <small>{size:,} rows, "
        f"{size / max(seen.n, 1):.1%}</small></h3><div class=scroll tabindex=0 role=group "
        f'aria-label="what sets cluster {label} apart">{table}</div>{_rows(seen, label)}</article>'
    )


def _effect(effect: float, color: str) -> str:
    """A bar to the left or right of the middle, three standard deviations wide at most."""
    wide = min(abs(effect) / 3, 1) * 50
    left = 50 if effect >= 0 else 50 - wide
    return (
        f'<td class=effect><span class=track><span class=bar style="left:{left:.1f}%;'
        f'width:{wide:.1f}%;background:{color}"></span></span><span class=value>{effect:+.1f}'
        "</span></td>"
    )


def _rows(seen: Seen, label: int) -> str:
    typical, odd = page_data.extremes(seen, label)
    if not typical:
        return ""
    columns = [seen.names.index(c["name"]) for c in page_data.apart(seen, label)[:SHOWN_COLUMNS]]
    head = "".join(f"<th scope=col>{shown(seen.names[j], 40)}</th>" for j in columns)

    def lines(rows: list[int], what: str) -> str:
        out = ""
        for i in rows:
            name = shown(seen.ids[seen.counted[i]], 60)
            cells = "".join(f"<td class=num>{figure(seen.values[i, j])}</td>" for j in columns)
            out += f"<tr><th scope=row>{name}</th>{cells}<td class=kind>{what}</td></tr>"
        return out

    return (
        "<details><summary>Typical and odd rows</summary><div class=scroll tabindex=0 "
        f'role=group aria-label="typical and odd rows of cluster {label}"><table class=rows>'
        f"<thead><tr><th scope=col>{shown(seen.id_name, 40)}</th>{head}<td></td></tr></thead>"
        f"<tbody>{lines(typical, 'typical')}{lines(odd, 'odd')}</tbody></table></div></details>"
    )


def _features(seen: Seen) -> str:
    components = np.asarray(seen.model.components_, float)
    scale = page_data.spread(seen.X)
    cards = ""
    for k in range(min(len(components), MOST_CARDS)):
        order = np.argsort(-np.abs(components[k] / scale), kind="stable")[: page_data.TOP]
        rows = ""
        for j in order.tolist():
            effect = float(components[k, j] / scale[j])
            rows += (
                f"<tr><th scope=row>{shown(seen.names[j], 60)}</th>{_effect(effect, color_of(k))}"
            )
            rows += "</tr>"
        size = int(seen.sizes[k])
        cards += (
            f'<article class=card style="--own:{color_of(k)}"><h3>{mark(k)}Feature {k} '
            f"<small>{size:,} rows, {size / max(seen.n, 1):.1%}</small></h3><table class=apart>"
            f"<tbody>{rows}</tbody></table></article>"
        )
    return (
        "<section><h2>What each feature adds</h2><p>In standard deviations of the column. A row is "
        f"the sum of its features.</p><div class=cards>{cards}</div></section>"
    )
