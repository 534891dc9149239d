"""The page itself: facts into HTML. Everything that comes from the data is escaped here."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._storage.container import replacing
from madbayes._storage.saving import versions
from madbayes.howmany.staircase import count
from madbayes.reports import page_data, svg
from madbayes.reports.cluster_cards import figure, groups, shown
from madbayes.reports.rows_shown import Seen, see


def report(
    model: Any,
    X: Any,
    path: str | os.PathLike[str],
    *,
    title: str = "madbayes",
    ids: Sequence[Any] | None = None,
    id_name: str = "row",
    notes: Sequence[str] = (),
    left_out: Mapping[str, str] | None = None,
    sample_weight: Any = None,
) -> None:
    """Write one HTML file about a fitted model, for people who do not have Python.

    It says how many clusters there are and how sure that is, shows a map, what sets each cluster
    apart, typical and odd rows, and how the number of clusters depends on the penalty, with a
    slider to try other numbers. The file works offline and loads nothing.

    Parameters
    ----------
    model : fitted estimator
        Any of this package.
    X : array, sparse matrix or data frame
        The rows to show, usually those of the fit; for a graph its adjacency matrix. In the units
        that a reader knows: a model that the command line saved scales them itself.
    path : str or path-like
        The file, usually ``….html``. It is replaced whole or not at all.
    title : str, default="madbayes"
    ids : sequence, optional
        What the rows are called; they are numbered from 1 without.
    id_name : str, default="row"
        What such a name is called.
    notes : sequence of str, optional
        Remarks to be listed at the end.
    left_out : mapping from column to reason, optional
    sample_weight : ignored
        Sizes count rows.

    Examples
    --------
    >>> import tempfile, os
    >>> import numpy as np
    >>> import madbayes
    >>> X = np.array([[0.0, 0], [1, 0], [9, 9], [9, 8]])
    >>> model = madbayes.DPMeans(penalty=4.0).fit(X)
    >>> file = os.path.join(tempfile.mkdtemp(), "report.html")
    >>> madbayes.report(model, X, file)
    >>> "2 clusters" in open(file, encoding="utf-8").read()
    True
    """
    del sample_weight
    seen = see(model, X, ids, id_name)
    text = page(seen, title, notes, left_out or {})
    with replacing(Path(path), encoding="utf-8") as stream:
        stream.write(text)


def page(seen: Seen, title: str, notes: Sequence[str], left_out: Mapping[str, str]) -> str:
    """The whole file as text."""
    here = files("madbayes.reports")
    parts = {
        "title": shown(title),
        "style": here.joinpath("report.css").read_text("utf-8"),
        "script": here.joinpath("report.js").read_text("utf-8"),
        "headline": _headline(seen),
        "figures": _key_facts(seen),
        "rows": "network" if seen.of == "community" else "rows",
        "groups_word": "combinations" if seen.of == "feature" else "clusters",
        "id_word": shown(seen.id_name, 40),
        "explorer": ""
        if len(seen.drawn) == seen.n
        else f"<p class=note>Drawn: {len(seen.drawn):,} of {seen.n:,} rows, chosen at random.</p>",
        "path": _path(seen),
        "groups": groups(seen),
        "columns": _columns(seen, left_out),
        "notes": _notes(notes),
        "foot": ", ".join(f"{name} {version}" for name, version in versions().items()),
        "data": _data(page_data.explorer(seen)),
    }
    # In one pass over the template: what is filled in is never looked at for place holders.
    template = here.joinpath("report.html").read_text("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def _data(content: dict[str, Any]) -> str:
    """JSON that cannot end its script element."""
    text = json.dumps(content, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _headline(seen: Seen) -> str:
    of = "cluster" if seen.of == "community" else seen.of
    out = f"<h1>{count(seen.number, of)}</h1>"  # type: ignore[arg-type]
    out += f"<p class=lead>{_what_was_found(seen)} {_how_sure(seen)}</p>"
    choice = getattr(seen.model, "evidence_", None)
    if choice is not None:
        levels = ["none", "weak", "moderate", "strong"]
        strength = choice.strength if choice.strength in levels else "none"
        bars = "".join(
            f'<i class="{"on" if i <= levels.index(strength) else ""}"></i>' for i in range(1, 4)
        )
        out += f'<p class="sure"><span class="meter" aria-hidden="true">{bars}</span>'
        reason = choice.reason[:1].upper() + choice.reason[1:]
        if choice.stability is not None:
            reason += f"; {choice.stability:.0%} of the repetitions say the same"
        out += f"<span><b>Evidence: {shown(strength)}.</b> {shown(reason, 400)}.</span></p>"
        if choice.runners_up:
            others = "".join(
                f'<button type=button class=chip data-k="{int(k)}">{int(k)}</button>'
                for k, _ in choice.runners_up[:4]
            )
            out += f"<p class=others>Next best: {others}</p>"
        out += "".join(f"<p class=remark>{shown(r, 500)}</p>" for r in choice.remarks)
    return out


def _what_was_found(seen: Seen) -> str:
    """The first sentence: how many, of what sizes."""
    rows = f"{seen.n:,} {'nodes' if seen.of == 'community' else 'rows'}"
    columns = f" of {len(seen.names):,} columns" if len(seen.names) > 1 else ""
    if seen.of == "feature":
        return f"The {rows}{columns} are sums of {count(seen.number, 'feature')}."
    if seen.number <= 1:
        return f"The {rows}{columns} form a single cluster."
    sizes = [f"{size:,}" for size in sorted(seen.sizes.tolist(), reverse=True)]
    if len(set(sizes)) == 1:
        listed = f"{sizes[0]} each"
    elif len(sizes) > 8:  # too many for a sentence
        listed = f"the largest has {sizes[0]}, the smallest {sizes[-1]}"
    else:
        listed = f"{', '.join(sizes[:-1])} and {sizes[-1]}"
    return f"The {rows}{columns} fall into {seen.number} clusters ({listed})."


def _how_sure(seen: Seen) -> str:
    """The second sentence: whether to rely on the number."""
    choice = getattr(seen.model, "evidence_", None)
    if choice is None:
        return "The number was given, or followed from a penalty that was given."
    if seen.number <= 1:
        return "Nothing in the data speaks for a division."
    others = [str(int(k)) for k, _ in choice.runners_up[:2]]
    near = f"; {' or '.join(others)} would be next" if others else ""
    return {
        "strong": "The data support this number clearly.",
        "moderate": f"The data support this number, though not beyond doubt{near}.",
        "weak": f"This number is a suggestion only: the data hardly decide{near}.",
    }.get(choice.strength, f"The data do not decide about the number{near}.")


def _key_facts(seen: Seen) -> str:
    model = page_data.winner(seen.model)
    pairs = [("model", type(model).__name__)]
    for name, label in (
        ("penalty_", "penalty λ"),
        ("penalty_local_", "local penalty"),
        ("penalty_global_", "global penalty"),
        ("resolution_", "resolution"),
        ("objective_", "objective"),
        ("inertia_", "squared error"),
        ("n_iter_", "passes"),
    ):
        value = getattr(model, name, None)
        if isinstance(value, (int, float, np.number)):
            pairs.append((label, figure(float(value))))
    items = "".join(f"<div><dt>{k}</dt><dd>{shown(v)}</dd></div>" for k, v in pairs)
    return f"<details><summary>Figures</summary><dl class=facts>{items}</dl></details>"


def _path(seen: Seen) -> str:
    path = getattr(seen.model, "path_", None)
    if path is None or len(path.number) < 2:
        return ""
    word, meaning = page_data.price_name(seen.model)
    picture = svg.staircase(path, page_data.price_of(seen.model), seen.number, word)
    return (
        f"<section><h2>The path: how the number depends on the {word}</h2><p>Across: the {word}, "
        f"that is {meaning}. Up: the number that is best there. A number that stays best over a "
        f"wide range is one that the data support; the thick step is the answer.</p>{picture}"
        "</section>"
    )


def _columns(seen: Seen, left_out: Mapping[str, str]) -> str:
    if not seen.names:
        return ""
    rows = ""
    for j, name in enumerate(seen.names[:200]):
        values = seen.values[:, j]
        cells = (values.mean(), values.std(), values.min(), values.max())
        rows += f"<tr><th scope=row>{shown(name, 60)}</th>"
        rows += "".join(f"<td class=num>{figure(float(v))}</td>" for v in cells)
        rows += f"<td>{shown(seen.done.get(name, '')) or 'as it is'}</td></tr>"
    for name, reason in list(left_out.items())[:200]:
        rows += f"<tr class=out><th scope=row>{shown(name, 60)}</th><td colspan=4></td>"
        rows += f"<td>left out: {shown(reason)}</td></tr>"
    more = f"<p class=note>200 of {len(seen.names)} columns.</p>" if len(seen.names) > 200 else ""
    head = "".join(
        f"<th scope=col>{h}</th>" for h in ("column", "mean", "deviation", "min", "max", "done")
    )
    return (
        f"<section><h2>The columns, and what was done to them</h2>{more}"
        "<div class=scroll tabindex=0 role=group aria-label='All columns'>"
        f"<table class=list><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        "</section>"
    )


def _notes(notes: Sequence[str]) -> str:
    items = "".join(f"<li>{shown(note, 600)}</li>" for note in notes)
    return f"<section><h2>Notes</h2><ul>{items}</ul></section>" if items else ""
