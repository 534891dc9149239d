"""The estimator that the options of `cluster` and `path` ask for, and its answer."""

from typing import Any

import numpy as np

import madbayes
from madbayes.cli.fit import Answer, check_metric, clustering, fitted, parse_penalty
from madbayes.cli.run import Task, weighted
from madbayes.tables.errors import UserError
from madbayes.tables.explore import divergence_options


def path_table(path: Any, price: str = "penalty") -> tuple[list[Any], Any]:
    """The staircase for a CSV file."""
    figures = dict(path.figures)
    heading = [f"n_{ {'feature': 'components'}.get(path.of, 'clusters') }"]
    heading += [f"{price}_low", f"{price}_high", "objective", "score", *figures]
    steps = [
        [
            int(k),
            float(path.price_low[i]),
            float(path.price_high[i]),
            float(path.objective[i]),
            path.scores.get(int(k), ""),
            *(float(values[i]) for values in figures.values()),
        ]
        for i, k in enumerate(path.number)
    ]
    return heading, steps


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
    limited = penalty is not None or hint is not None or most is not None
    if exactly is not None:
        if limited or shape in ("any", "long"):
            raise UserError(
                "--n-clusters fixes the number of clusters, so it cannot be combined with "
                f"--penalty, --clusters-hint, --max-clusters or --shape {shape}, which find it. "
                "Give one or the other."
            )
        check_metric(metric)
        model: Any = madbayes.KMeans(exactly, metric=metric, random_state=seed)
        return model, "none: the number of clusters was given"
    if shape == "any":
        if limited:
            raise UserError(
                "--shape any finds the number of clusters from the neighbours of the rows: "
                "--penalty, --clusters-hint and --max-clusters would be ignored."
            )
        return madbayes.NeighborCut(metric=metric, random_state=seed), "chosen from the data"
    check_metric(metric)
    if shape == "long":
        if penalty is not None or metric != "euclidean":
            raise UserError(
                "--shape long finds clusters with covariances: --penalty and --metric would be "
                "ignored."
            )
        hints: Any = {"n_clusters_hint": hint, "max_clusters": most}
        return madbayes.EllipticalMeans(random_state=seed, **hints), "chosen from the data"
    if shape == "auto" and not limited and metric == "euclidean":
        return madbayes.AutoCluster(random_state=seed), "chosen from the data"
    value: Any
    value, source = parse_penalty(penalty, hint)
    limits: Any = {"n_clusters_hint": hint, "max_clusters": most, "metric": metric}
    return madbayes.DPMeans(penalty=value, random_state=seed, **limits), source


def takes(model: Any) -> Any:
    """Whether the model takes missing cells, and codes and counts as they are."""
    if isinstance(model, madbayes.AutoCluster):
        return {"gaps": True, "mixed": True}
    own = model.get_params()
    found = own.get("penalty") == "auto" and own.get("metric") == "euclidean"
    return {"gaps": "missing" in own, "mixed": "divergence" in own and found}


def suit(model: Any, task: Task) -> None:
    """Set the divergence for the table, and that cells may be missing."""
    encoder, gaps = task.table.encoder, bool(np.isnan(task.X).any())
    model.set_params(**divergence_options(encoder, mixed=encoder.output == "mixed", gaps=gaps))


def fit_clusters(verb: str, task: Task, model: Any, penalty_from: str) -> Answer:
    hint = getattr(model, "n_clusters_hint", None)
    if hint is not None and hint > len(task.X):
        raise UserError(f"--clusters-hint {hint} is more than the {len(task.X)} rows of the table.")
    if isinstance(model, madbayes.AutoCluster):
        if only_by_divergence(task) or task.weights is not None:
            model = madbayes.DPMeans(random_state=model.random_state)
        else:
            model, notes = fit_any_shape(model, task)
            return described(clustering(verb, model, task.table, task.X, notes, penalty_from))
    suit(model, task)
    model, notes = fitted(model, task.X, **weighted(model, task))
    return described(clustering(verb, model, task.table, task.X, notes, penalty_from))


def only_by_divergence(task: Task) -> bool:
    """Whether the table has categories, counts or gaps, which only the divergences take."""
    return task.table.encoder.output == "mixed" or bool(np.isnan(task.X).any())


def fit_any_shape(model: Any, task: Task) -> tuple[Any, tuple[str, ...]]:
    """The estimator that won, with the evidence that takes the other shapes into account."""
    model, notes = fitted(model, task.X)
    winner = model.model_
    winner.evidence_, winner.path_ = model.evidence_, model.path_
    if model.shape_ != "round" and model.n_clusters_ > 1:
        kind = {"long": "long", "any": "connected, of any shape"}[model.shape_]
        others = [c for c in model.candidates_ if c.shape != model.shape_ and c.n_clusters]
        said = ", ".join(f"{c.n_clusters} if {c.shape}" for c in others)
        notes = (
            *notes,
            f"the clusters are {kind} (--shape {model.shape_}): that explains held-out rows "
            f"best; there would be {said}",
        )
    return winner, notes


def described(answer: Answer) -> Answer:
    """The answer with the names of what was minimised."""
    if isinstance(answer.model, madbayes.EllipticalMeans):
        answer.objective_is = "logarithms of the clusters' volumes + penalty × clusters"
    elif answer.model.get_params().get("divergence", "squared") != "squared":
        answer.objective_is = f"{answer.model.divergence} divergence + penalty × clusters"
    elif not hasattr(answer.model, "penalty_"):
        answer.objective_is = "squared error"
    if hasattr(answer.model, "resolution_"):
        answer.penalty_name, answer.objective_is = "resolution", "cut - resolution × clusters"
    return answer
