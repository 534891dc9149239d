"""From the matrix to an answer: the estimator that the options ask for, and what it found."""

import math
import re
import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import madbayes
from madbayes.cli.prepare import Table, Task, weighted
from madbayes.tables.errors import UserError
from madbayes.tables.explore import FEW_GAPS, divergence_options
from madbayes.tables.scaling import moments

BLOCK = 16_384  # rows whose distances to all centres are held at a time
ROUNDING = 1e-12  # standard deviations; a centre nearer to 0 than this is 0

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
    "sample_weight": "--weights",
}


@dataclass
class Answer:
    """What a model found, in the units of the file."""

    verb: str
    model: Any
    labels: np.ndarray
    of: str = "cluster"
    number: int = 0
    sizes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    centers: np.ndarray | None = None
    telling: list[int] = field(
        default_factory=list
    )  # columns, those that tell clusters apart first
    penalty: float | None = None
    penalty_from: str = ""
    penalty_name: str = "penalty"
    objective: float = math.nan
    objective_is: str = "squared error + penalty × clusters"
    distance: np.ndarray | None = None
    second: np.ndarray | None = None
    novelty: np.ndarray | None = None
    beside: dict[str, Any] = field(default_factory=dict)  # further columns of labels.csv
    per_cluster: dict[str, Any] = field(default_factory=dict)  # and of the list of clusters
    facts: dict[str, str] = field(default_factory=dict)  # further lines below that list
    tables: dict[str, tuple[list[Any], Any]] = field(default_factory=dict)  # further CSV files
    notes: tuple[str, ...] = ()

    @property
    def evidence(self) -> Any:
        return getattr(self.model, "evidence_", None)

    @property
    def path(self) -> Any:
        return getattr(self.model, "path_", None)


def fitted(model: Any, X: Any, **options: Any) -> tuple[Any, tuple[str, ...]]:
    """Fit; what the library complains about is said in the words of the command."""
    options = {name: value for name, value in options.items() if value is not None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X, **options)
        except (ValueError, TypeError) as error:
            about = r"\b(" + "|".join(CALLED) + r")\b"
            if isinstance(error, TypeError) and not re.match(about, str(error)):
                raise  # not about the data or the options: a mistake of ours
            raise UserError(in_options(str(error))) from error
    silent = (DeprecationWarning, RuntimeWarning)
    notes = [str(w.message) for w in caught if not issubclass(w.category, silent)]
    return model, tuple(dict.fromkeys(map(in_options, notes)))


def in_options(message: str) -> str:
    """The library's message, with its parameters called as the command calls them."""
    pattern = re.compile(rf"\b({'|'.join(CALLED)})=")
    return pattern.sub(lambda match: CALLED[match[1]] + " ", message)


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
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def check_metric(metric: str) -> None:
    if metric not in ("euclidean", "cosine"):
        raise UserError(f'--metric {metric} should be "euclidean" or "cosine".')


def clustering(
    verb: str, model: Any, table: Table, X: np.ndarray, notes: tuple[str, ...], penalty_from: str
) -> Answer:
    """What any fitted clustering of rows has to say."""
    labels = np.asarray(model.labels_)
    number = int(getattr(model, "n_clusters_", labels.max() + 1))
    centers = getattr(model, "cluster_centers_", None)
    if table.encoder.output == "mixed":  # means and shares, which are the centres of such a model
        centers = np.array([table.values[labels == c].mean(axis=0) for c in range(number)])
    else:
        if centers is None:  # clusters of any shape: the means of their rows
            centers = np.array([X[labels == c].mean(axis=0) for c in range(number)])
        centers = table.encoder.in_units(centers)
    sizes = np.bincount(labels[labels >= 0], minlength=number)
    middle, deviation = moments(table.values)
    deviation = np.where(deviation > 0, deviation, 1.0)
    centers = np.where(np.abs(centers) < ROUNDING * deviation, 0.0, centers)
    apart = sizes @ ((centers - middle) / deviation) ** 2
    answer = Answer(
        verb,
        model,
        labels,
        number=number,
        sizes=sizes,
        centers=centers,
        telling=np.argsort(-np.round(apart, 9), kind="stable").tolist(),
        penalty=_number(getattr(model, "penalty_", getattr(model, "resolution_", None))),
        penalty_from=penalty_from,
        objective=float(getattr(model, "objective_", getattr(model, "inertia_", math.nan))),
        notes=notes,
    )
    answer.distance, answer.second = nearness(model, X, labels)
    answer.novelty = novelty(model, X)
    if hasattr(model, "n_iter_"):
        settled = "" if getattr(model, "converged_", True) else " (stopped before it settled)"
        answer.facts["passes"] = f"{int(model.n_iter_)}{settled}"
    return answer


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def nearness(
    model: Any, X: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """How far each row is from its own centre, and which other cluster is nearest (-1: none)."""
    if not hasattr(model, "transform") or hasattr(model, "components_"):
        return None, None
    own = np.full(len(X), np.nan)
    second = np.full(len(X), -1, dtype=np.int64)
    for start in range(0, len(X), BLOCK):
        rows = slice(start, start + BLOCK)
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


def patterns(model: Any, assignments: np.ndarray) -> np.ndarray:
    """Which combination of features each row has, the most frequent of the fit first (-1: none of
    them)."""
    known, counts = np.unique(np.asarray(model.assignments_, bool), axis=0, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    names = {known[i].tobytes(): rank for rank, i in enumerate(order)}
    rows = np.ascontiguousarray(np.asarray(assignments, bool))
    return np.array([names.get(row.tobytes(), -1) for row in rows], dtype=np.int64)


def features(
    model: Any, table: Table, X: np.ndarray, notes: tuple[str, ...], penalty_from: str
) -> Answer:
    """What a fitted feature model has to say."""
    Z = np.asarray(model.assignments_, bool)
    components = np.asarray(model.components_, dtype=np.float64)
    centers = components
    if table.encoder.scale_ is not None:  # what a feature adds, in the units of the file
        centers = components * table.encoder.scale_
    answer = Answer(
        "features",
        model,
        patterns(model, Z),
        of="feature",
        number=int(model.n_components_),
        sizes=Z.sum(axis=0),
        centers=centers,
        penalty=_number(getattr(model, "penalty_", None)),
        penalty_from=penalty_from,
        objective=float(model.objective_),
        objective_is="squared error + penalty × features",
        distance=np.sqrt(((X - Z @ components) ** 2).sum(axis=1)),
        novelty=novelty(model, X),
        notes=notes,
    )
    answer.beside = {f"feature {k}": Z[:, k].astype(int) for k in range(Z.shape[1])}
    return answer


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
    """From how many gaps for each row on the model takes them, and whether it takes codes."""
    if isinstance(model, madbayes.AutoCluster):
        return {"gaps_from": FEW_GAPS, "mixed": True}
    own = model.get_params()
    found = own.get("penalty") == "auto" and own.get("metric") == "euclidean"
    gaps_from = 0.0 if "missing" in own else math.inf
    return {"gaps_from": gaps_from, "mixed": "divergence" in own and found}


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
            f"the clusters are {kind} (--shape {model.shape_}), as the data support best; there "
            f"would be {said}",
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


def check_penalties(
    local: float | None, whole: float | None, local_hint: int | None, global_hint: int | None
) -> None:
    """Before a large file is read."""
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


def fit_groups(
    task: Task, by: str, local: float | None, whole: float | None, hints: dict[str, Any], seed: int
) -> Answer:
    """Clusters, and which group uses which."""
    model = madbayes.HardHDP(local or "auto", whole or "auto", **hints, random_state=seed)
    model, notes = fitted(model, task.X, groups=task.by, **weighted(model, task))
    how = "given" if local and whole else "chosen from the data"
    answer = clustering("groups", model, task.table, task.X, notes, how)
    names = np.asarray(model.groups_)
    code = np.searchsorted(names, np.asarray(task.by))
    used = np.zeros((len(names), answer.number), dtype=np.int64)
    np.add.at(used, (code, answer.labels), 1)
    answer.beside = {by: task.by} if by not in ("row", "cluster") else {}
    answer.per_cluster["groups"] = (used > 0).sum(axis=0).tolist()
    uses = (used > 0).sum(axis=1)
    each = f"{uses.min()}" if uses.min() == uses.max() else f"{uses.min()} to {uses.max()}"
    answer.facts = {
        by: f"uses {each} of the clusters, {uses.mean():.3g} on average",
        "penalties": f"local {model.penalty_local_:.6g}, global {model.penalty_global_:.6g}",
    }
    answer.penalty, answer.penalty_from = float(model.penalty_global_), how
    answer.objective_is = "squared error + penalties"
    answer.tables["groups.csv"] = (
        [by, "size", "clusters", *range(answer.number)],
        [
            [name, sum(line), sum(cell > 0 for cell in line), *line]
            for name, line in zip(names.tolist(), used.tolist(), strict=True)
        ],
    )
    return answer
