"""The estimator that the options ask for, and what it found."""

import inspect
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import madbayes
from madbayes.cli.options import number_in
from madbayes.cli.prepare import Task
from madbayes.cli.results import Answer, plain_list
from madbayes.cli.show import count
from madbayes.tables.errors import UserError
from madbayes.tables.explore import Exploration, fit_table, fit_with_notes
from madbayes.tables.scaling import moments

# Parameters of the library by the names that the command has for them.
CALLED = {
    "n_clusters_hint": "--clusters-hint",
    "n_local_hint": "--local-hint",
    "n_global_hint": "--global-hint",
    "n_local": "--local-hint",
    "n_global": "--global-hint",
    "penalty_local": "--penalty-local",
    "penalty_global": "--penalty-global",
    "max_clusters": "--max-clusters",
    "max_components": "--max-clusters",
    "n_neighbors": "--neighbors",
    "n_clusters": "--n-clusters",
    "resolution": "--resolution",
    "penalty": "--penalty",
    "metric": "--metric",
    "shape": "--shape",
    "sample_weight": "--weights",
}


# The estimator


def estimator(
    penalty: str | None,
    hint: int | None,
    most: int | None,
    exactly: int | None,
    metric: str,
    shape: str,
    seed: int,
) -> tuple[Any, str]:
    """The estimator that the options ask for, and where its penalty comes from."""
    if shape not in ("auto", "round", "long", "any"):
        raise UserError(f'--shape {shape} should be "auto", "round", "long" or "any".')
    if metric not in ("euclidean", "cosine") and shape != "any":
        raise UserError(f'--metric {metric} should be "euclidean" or "cosine".')
    limits = {"--penalty": penalty, "--clusters-hint": hint, "--max-clusters": most}
    limited = [option for option, value in limits.items() if value is not None]

    def alone(option: str, why: str, others: list[str]) -> None:
        if others:
            raise UserError(
                f"{option} {why}, so it cannot be combined with {' and '.join(others)}. Give one "
                "or the other."
            )

    found = "chosen from the data"
    if exactly is not None:
        others = [*limited, *([f"--shape {shape}"] if shape in ("any", "long") else [])]
        alone("--n-clusters", "fixes the number of clusters", others)
        model: Any = madbayes.KMeans(exactly, metric=metric, random_state=seed)
        return model, "none: the number of clusters was given"
    if shape == "any":
        alone("--shape any", "finds the number from the neighbours of the rows", limited)
        return madbayes.NeighborCut(metric=metric, random_state=seed), found
    hints: Any = {"n_clusters_hint": hint, "max_clusters": most, "random_state": seed}
    if shape == "long":
        others = ["--penalty"] * (penalty is not None) + ["--metric"] * (metric != "euclidean")
        alone("--shape long", "finds clusters with covariances", others)
        return madbayes.EllipticalMeans(**hints), found
    if shape == "auto" and not limited and metric == "euclidean":
        return madbayes.AutoCluster(random_state=seed), found
    hints["penalty"], source = parse_penalty(penalty, hint)
    return madbayes.DPMeans(metric=metric, **hints), source  # type: ignore[arg-type]


def parse_penalty(text: str | None, hint: int | None) -> tuple[float | str, str]:
    """A number above 0, 'auto' or 'farthest-first', and where it comes from."""
    if text == "farthest-first":
        if hint is None:
            raise UserError(
                "--penalty farthest-first works out a penalty from a rough number of clusters: "
                "add --clusters-hint N."
            )
        return text, f"farthest-first with a hint of {hint}"
    if text is None or text == "auto":
        near = "" if hint is None else f", near a hint of {hint}"
        return "auto", f"chosen from the data{near}"
    value = positive(text)
    if value is None:
        raise UserError(
            f'--penalty {text} should be a number > 0, "auto" or "farthest-first". It is the cost '
            "of one more cluster, in squared-distance units; without it, the data decide."
        )
    if hint is not None:
        raise UserError(
            f"--clusters-hint {hint} would be ignored, because --penalty {text} already decides. "
            "Give one of them."
        )
    return value, "given"


def positive(text: str) -> float | None:
    value = number_in(text)
    return value if value is not None and 0 < value < math.inf else None


def group_estimator(
    local: float | None,
    whole: float | None,
    local_hint: int | None,
    global_hint: int | None,
    seed: int,
) -> tuple[Any, str]:
    """The same for clusters that groups share."""
    for kind, penalty, hint in (("local", local, local_hint), ("global", whole, global_hint)):
        if penalty is None:
            continue
        if not 0 < penalty < math.inf:
            raise UserError(
                f"--penalty-{kind} {penalty} should be a number > 0, in squared-distance units; "
                "without it, the data decide."
            )
        if hint is not None:
            raise UserError(
                f"--{kind}-hint {hint} would be ignored, because --penalty-{kind} {penalty:g} "
                "already decides. Give one of them."
            )
    hints: Any = {"n_local_hint": local_hint, "n_global_hint": global_hint, "random_state": seed}
    model = madbayes.HardHDP(local or "auto", whole or "auto", **hints)
    return model, "given" if local and whole else "chosen from the data"


# The fit


@contextmanager
def in_options() -> Iterator[None]:
    """Errors of the library about the data or the options, in the words of the command."""
    try:
        yield
    except (ValueError, TypeError) as error:
        about = r"\b(" + "|".join(CALLED) + r")\b"
        if isinstance(error, TypeError) and not re.match(about, str(error)):
            raise  # not about the data or the options: a mistake of ours
        text = option_names(str(error))
        if "overflow" in text:
            text += " --standardize yes divides every column by its spread."
        raise UserError(text) from error


def option_names(message: str) -> str:
    """The library's message, with its parameters called as the command calls them."""
    pattern = re.compile(rf"\b({'|'.join(CALLED)})=(?:'(\w+)')?")
    return pattern.sub(lambda match: f"{CALLED[match[1]]} {match[2] or ''}", message)


def fitted(model: Any, X: Any, **options: Any) -> tuple[Any, tuple[str, ...]]:
    """Fit; the model, and what the library warned of."""
    with in_options():
        notes = fit_with_notes(model, X, **options)
    return model, tuple(dict.fromkeys(map(option_names, notes)))


def explored(task: Task) -> Exploration:
    """Fit the estimator of a table, with the weights and the groups of its rows."""
    model, n = task.table.estimator, len(task.table.X)
    hint = getattr(model, "n_clusters_hint", None)
    if hint is not None and hint > n:
        raise UserError(f"--clusters-hint {hint} is more than the {n} rows of the table.")
    options = {} if task.by is None else {"groups": task.by}
    if task.weights is not None:
        if "sample_weight" not in inspect.signature(model.fit).parameters:
            raise UserError(f"--weights: {type(model).__name__} does not take weights.")
        options["sample_weight"] = task.weights
    with in_options():
        return fit_table(task.table, **options)


# The answer


def answer_of(verb: str, task: Task, penalty_from: str, by: str | None) -> Answer:
    """Fit the table of a verb; what the fit has to say."""
    answer = features(task) if verb == "features" else clustering(task)
    table, answer.penalty_from = task.table, penalty_from
    answer.found_in = f"in {count(len(table.rows), 'row')}"
    answer.names, answer.standardized = table.names, table.standardized
    answer.frame, answer.ids, answer.rows = table.frame, task.ids, table.rows
    columns = table.encoder.used_columns_
    answer.about = {
        "n_rows": len(table.rows),
        "n_rows_in_file": table.frame.n_rows,
        "n_columns": len(columns),
        "columns_used": [column.name for column in columns],
        "columns_left_out": task.left_out,
        "kinds": {column.name: column.kind for column in columns},
        "standardized": table.standardized,
    }
    if by is not None:
        shared_by(answer, task, by)
    if verb == "path":
        answer.tables["path.csv"] = path_table(answer.path)
    return answer


def new_answer(task: Task, found: Exploration) -> Answer:
    """What all models of a table have in common."""
    model = found.model.estimator

    def report(path: Any, **options: Any) -> None:
        key, ids = task.ids
        if key != "row":
            known = plain_list(ids)
            options |= {"ids": [known[i] for i in task.table.rows.tolist()], "id_name": key}
        found.report(path, left_out=task.left_out, **options)

    answer = Answer(model, getattr(model, "labels_", None))
    answer.objective = float(getattr(model, "objective_", getattr(model, "inertia_", math.nan)))
    answer.novelty = novelty(model, task.table.X)
    notes = [option_names(note) for note in found.notes if note not in task.table.notes]
    answer.notes, answer.report, answer.save = tuple(notes), report, found.save
    return answer


def clustering(task: Task) -> Answer:
    """What any clustering of rows has to say."""
    found, table = explored(task), task.table
    answer = new_answer(task, found)
    model, labels, number = answer.model, np.asarray(answer.labels), found.n_clusters
    answer.number, answer.sizes = number, np.array(found.sizes)
    centers = getattr(model, "cluster_centers_", None)
    if centers is None or table.encoder.output == "mixed":  # means of rows, shares of categories
        rows = table.units if table.encoder.output == "mixed" else table.X
        centers = np.array([rows[labels == c].mean(axis=0) for c in range(number)])
    if table.encoder.output != "mixed":
        centers = table.encoder.in_units(centers)
    middle, deviation = moments(table.units)
    deviation = np.where(deviation > 0, deviation, 1.0)
    # What differs from 0 by rounding only is 0.
    answer.centers = np.where(np.abs(centers) < 1e-12 * deviation, 0.0, centers)
    answer.telling = telling(answer.sizes, (answer.centers - middle) / deviation)
    answer.distance, answer.second = nearness(model, table.X, labels)
    winner = getattr(model, "model_", model)  # that of AutoCluster
    penalty = getattr(winner, "penalty_", getattr(winner, "resolution_", None))
    answer.penalty = None if penalty is None else float(penalty)
    if hasattr(model, "n_iter_"):
        settled = "" if getattr(model, "converged_", True) else " (stopped before it settled)"
        answer.facts["passes"] = f"{int(model.n_iter_)}{settled}"
    if hasattr(winner, "resolution_"):
        answer.penalty_name, answer.objective_is = "resolution", "cut - resolution × clusters"
    elif isinstance(winner, madbayes.EllipticalMeans):
        answer.objective_is = "logarithms of the clusters' volumes + penalty × clusters"
    elif winner.get_params().get("divergence", "squared") != "squared":
        answer.objective_is = f"{winner.divergence} divergence + penalty × clusters"
    elif not hasattr(winner, "penalty_"):
        answer.objective_is = "squared error"
    return answer


def telling(sizes: np.ndarray, apart: np.ndarray) -> list[int]:
    """The columns by how far clusters of these sizes are apart in them, the farthest first."""
    return np.argsort(-np.round(sizes @ apart**2, 9), kind="stable").tolist()


def nearness(
    model: Any, X: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """How far each row is from its own centre, and which other cluster is nearest (-1: none)."""
    if not hasattr(model, "transform"):
        return None, None
    own = np.full(len(X), np.nan)
    second = np.full(len(X), -1, dtype=np.int64)
    for start in range(0, len(X), 16_384):  # rows whose distances to all centres are held
        rows = slice(start, start + 16_384)
        distances = np.array(model.transform(X[rows]), dtype=np.float64)
        here = np.arange(len(distances))
        mine = np.where(labels[rows] >= 0, labels[rows], distances.argmin(axis=1))
        own[rows] = distances[here, mine]
        if distances.shape[1] > 1:
            distances[here, mine] = np.inf
            second[rows] = distances.argmin(axis=1)
    return own, second


def novelty(model: Any, X: np.ndarray) -> np.ndarray | None:
    """How usual each row is, where the model can tell."""
    if not hasattr(model, "novelty_score"):
        return None
    return np.asarray(model.novelty_score(X), dtype=np.float64)


def path_table(path: Any) -> tuple[list[Any], Any]:
    """The staircase for a CSV file."""
    known = [path.price_low, path.price_high, path.objective]
    scores = [path.scores.get(k, "") for k in path.number.tolist()]
    columns = [column.tolist() for column in (path.number, *known)]
    columns += [scores, *(np.asarray(v, float).tolist() for v in path.figures.values())]
    heading = ["n_clusters", "penalty_low", "penalty_high", "objective", "score", *path.figures]
    return heading, zip(*columns, strict=True)


def shared_by(answer: Answer, task: Task, by: str) -> None:
    """Add which group uses which cluster."""
    model = answer.model
    names = np.asarray(model.groups_)
    code = np.searchsorted(names, np.asarray(task.by))
    used = np.zeros((len(names), answer.number), dtype=np.int64)
    np.add.at(used, (code, np.asarray(answer.labels)), 1)
    answer.found_in = f"shared by {count(len(names), 'group')} {answer.found_in}"
    answer.beside = {by: task.by} if by not in ("row", "cluster") else {}
    answer.per_cluster["groups"] = (used > 0).sum(axis=0).tolist()
    uses = (used > 0).sum(axis=1)
    each = f"{uses.min()}" if uses.min() == uses.max() else f"{uses.min()} to {uses.max()}"
    answer.facts = {
        by: f"uses {each} of the clusters, {uses.mean():.3g} on average",
        "penalties": f"local {model.penalty_local_:.6g}, global {model.penalty_global_:.6g}",
    }
    answer.penalty = float(model.penalty_global_)
    answer.objective_is = "squared error + penalties"
    lines = zip(
        names.tolist(), used.sum(axis=1).tolist(), uses.tolist(), used.tolist(), strict=True
    )
    answer.tables["groups.csv"] = (
        [by, "size", "clusters", *range(answer.number)],
        [[name, size, clusters, *line] for name, size, clusters, line in lines],
    )


def features(task: Task) -> Answer:
    """What a feature model has to say."""
    answer = new_answer(task, explored(task))
    model, encoder = answer.model, task.table.encoder
    Z = np.asarray(model.assignments_, bool)
    has_features(answer, task.table.X, Z)
    answer.of, answer.sizes = "feature", Z.sum(axis=0)
    # What a feature adds, in the units of the file.
    scale = 1.0 if encoder.scale_ is None else encoder.scale_
    answer.centers = np.asarray(model.components_, dtype=np.float64) * scale
    deviation = moments(task.table.units)[1]
    answer.telling = telling(answer.sizes, answer.centers / np.where(deviation > 0, deviation, 1.0))
    answer.penalty = float(model.penalty_)
    answer.objective_is = "squared error + penalty × features"
    return answer


def has_features(answer: Answer, X: np.ndarray, Z: np.ndarray) -> None:
    """Add that rows have the features Z. Their label is the combination that they have, the most
    frequent of the fit first (-1: one that no row of the fit has)."""
    model = answer.model
    known, counts = np.unique(np.asarray(model.assignments_, bool), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    names = {known[i].tobytes(): rank for rank, i in enumerate(order)}
    labels = [names.get(row.tobytes(), -1) for row in np.ascontiguousarray(Z)]
    answer.labels, answer.number = np.array(labels, np.int64), int(model.n_components_)
    answer.distance = np.sqrt(((X - Z @ model.components_) ** 2).sum(axis=1))
    answer.beside = {f"feature {k}": Z[:, k].astype(int) for k in range(Z.shape[1])}
