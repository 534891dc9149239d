"""`madbayes predict`: clusters of new rows by a model that was saved."""

import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.text import Text

from madbayes._storage.prepared import Column, Prepared
from madbayes.cli.answer import label_rows
from madbayes.cli.errors import UserError, did_you_mean, harmless
from madbayes.cli.fit import Answer, nearness, novelty, patterns
from madbayes.cli.formats import called, given, read
from madbayes.cli.frame import Frame
from madbayes.cli.prepare import about_gaps, build, rows_not_finite
from madbayes.cli.run import Voice, identifiers
from madbayes.cli.select import is_category, is_text, listing, not_numeric
from madbayes.cli.show import count
from madbayes.cli.write import number, safe, whole_file


@dataclass(frozen=True)
class Request:
    """What the user asked for."""

    model: Path
    file: Sequence[Path]
    novel: float | None
    out: Path | None
    id: str | None
    missing: str
    na: Sequence[str]
    skip_rows: int
    force: bool


def predict_file(voice: Voice, request: Request) -> None:
    """The whole of `madbayes predict`."""
    if request.missing not in ("error", "drop"):
        raise UserError(f"--missing {request.missing} should be error or drop.")
    if request.novel is not None and not 0 < request.novel < 1:
        raise UserError(f"--novel {request.novel:g} should be a share between 0 and 1.")
    model = load_model(request.model)
    with given(request.file) as files:
        with voice.status(f"reading {called(request.file)}"):
            frame = read(*files, skip_rows=request.skip_rows)
            values, rows, notes = new_rows(frame, model, request)
        voice.notes([*frame.notes, *notes])
        with voice.progress(f"predicting {count(len(values), 'row')}"):
            answer = answer_for(model, values, request.novel)
        key, ids = identifiers(frame, request.id)
        heading, lines = label_rows(ids, rows, frame.n_rows, answer, unknown=-1)
    top = [safe(str(cell)) for cell in (key, *heading)]

    def write(stream: Any) -> None:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(top)
        out.writerows([number(safe(cell)) for cell in line] for line in lines)

    if request.out is None and not voice.talk.json:
        write(sys.stdout)
        sys.stdout.flush()
        return
    if request.out is not None:
        with whole_file(request.out, ",".join(top), request.force) as stream:
            write(stream)
    known = answer.labels >= 0
    summary = {
        "tool": "madbayes",
        "verb": "predict",
        "n_rows": len(values),
        "n_rows_in_file": frame.n_rows,
        "n_novel": int((~known).sum()),
        "sizes": np.bincount(answer.labels[known], minlength=answer.number).tolist(),
        "out": None if request.out is None else str(request.out),
    }
    rows_in = f"{count(len(values), 'row')} in {count(answer.number, 'cluster')}"
    unlike = f", {summary['n_novel']:,} of them like none" if request.novel is not None else ""
    text = f"{rows_in}{unlike}: {request.out}"
    voice.result(summary, lambda console: console.print(Text(harmless(text))))


def load_model(path: Path) -> Prepared:
    """A saved model; one from Python as if its columns had been read from a file."""
    from madbayes import load

    if not path.exists():
        raise UserError(f"There is no model {path}.")
    try:
        model = load(path)
    except (ValueError, OSError) as error:
        raise UserError(str(error)) from error
    if isinstance(model, Prepared):
        inner = model.model
    else:
        inner = model
        names = getattr(model, "feature_names_in_", None)
        if names is None:
            names = [f"x{j}" for j in range(getattr(model, "n_features_in_", 0))]
        model = Prepared(model, tuple(Column(str(name)) for name in names))
    if not hasattr(inner, "predict") and not hasattr(inner, "components_"):
        raise UserError(f"{path} is a {type(inner).__name__}, which knows no new rows.")
    return model


def new_rows(
    frame: Frame, model: Prepared, request: Request
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The columns of the model, as its file was read."""
    places = []
    plain = all(name.startswith("x") and name[1:].isdigit() for name in frame.names)
    for k, column in enumerate(model.columns):
        if column.name not in frame.names:
            if plain and len(frame.names) == len(model.columns):  # a matrix without names
                places.append(k)
                continue
            near = did_you_mean(column.name, frame.names)
            raise UserError(
                f"The model needs the column {column.name!r}, which {called(request.file)} does "
                f"not have.{near} Its columns are: {listing(frame.names)}."
            )
        j = frame.names.index(column.name)
        if column.categories is None and (reason := not_numeric(frame, j, request.na)):
            raise UserError(f"The model needs numbers in column {column.name}, but {reason}.")
        places.append(j)
    values, strange, notes = build(frame, places, model.columns, request.na)
    for j, column in zip(places, model.columns, strict=True):
        if column.categories is not None and (is_text(frame.type(j)) or is_category(frame, j)):
            new = {str(v) for v in frame.column(j).to_pylist() if v} - set(column.categories)
            if new:
                notes.append(f"{column.name}: {sorted(new)[0]!r} is new; such rows have none")
    fill = np.repeat(
        [np.nan if c.fill is None else c.fill for c in model.columns],
        [len(c.names) for c in model.columns],
    )
    if np.isfinite(fill).any():
        values = np.where(np.isfinite(values), values, fill)
    bad = rows_not_finite(values)
    if bad.size and request.missing == "error":
        text = about_gaps(frame, values, list(model.feature_names_in_), bad, strange)
        raise UserError(text.split(" --missing drop")[0] + " --missing drop gives them no cluster.")
    rows = np.delete(np.arange(len(values)), bad)
    if not rows.size:
        raise UserError("Every row has a missing or infinite value; no row is left.")
    return values[rows] if bad.size else values, rows, notes


def answer_for(model: Prepared, values: np.ndarray, novel: float | None) -> Answer:
    """Clusters, distances and novelty of the rows."""
    inner, X = model.model, model.scaled(values)
    try:
        if hasattr(inner, "components_"):
            Z = np.asarray(inner.transform(X), dtype=bool)
            answer = Answer("predict", inner, patterns(inner, Z), number=int(inner.n_components_))
            answer.distance = np.sqrt(((X - Z @ inner.components_) ** 2).sum(axis=1))
            answer.beside = {f"feature {k}": Z[:, k].astype(int) for k in range(Z.shape[1])}
            return answer
        nearest = np.asarray(inner.predict(X))
        answer = Answer("predict", inner, nearest, number=int(inner.n_clusters_))
        answer.distance, answer.second = nearness(inner, X, nearest)
        answer.novelty = novelty(inner, X)
        if novel is not None:
            if answer.novelty is None:
                raise UserError(f"--novel: a {type(inner).__name__} does not know what is novel.")
            answer.labels = np.asarray(inner.predict(X, novel=novel))
        return answer
    except (ValueError, TypeError) as error:
        raise UserError(f"The model cannot predict these rows: {error}") from error
