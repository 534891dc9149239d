"""What every `fit` does before and after its algorithm: check, forget, warn, store."""

import warnings
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from madbayes._rows.checks import check_choice, check_count, check_penalty
from madbayes.howmany.staircase import Staircase

AUTOMATIC = (  # what only some fits leave
    *("path_", "evidence_", "coreset_size_", "coreset_error_", "relaxed_bound_"),
    *("_probabilities", "_cluster_gaps", "_finest", "_finer", "_coarser"),
    *("cluster_layers_", "cluster_tree_"),
)


class Options(NamedTuple):
    """The parameters that estimators share, checked; None where an estimator has not got one."""

    penalty: Any
    cap: int | None
    hint: int | None
    n_init: int
    effort: float
    max_iter: int
    random_state: np.random.RandomState

    def for_search(self) -> dict[str, Any]:
        """What the search wants to know (`_search/driver.py`)."""
        return {
            "random_state": self.random_state,
            "effort": self.effort,
            "n_init": self.n_init,
        }


def forget(model: Any) -> None:
    """Drop what only some fits leave, and an earlier one has left."""
    for attribute in AUTOMATIC:
        vars(model).pop(attribute, None)


def begin(model: Any, *names: str, of: str = "cluster") -> Options:
    """Forget what an earlier fit left, and check the parameters that `model` has.

    `names`: words that are a penalty too.
    """
    forget(model)
    penalty = check_penalty(getattr(model, "penalty", 1.0), *names, of=of)
    if hasattr(model, "algorithm"):
        known = getattr(model, "_algorithms", ("search", "paper"))
        check_choice("algorithm", model.algorithm, *known)
    if hasattr(model, "order"):
        check_choice("order", model.order, "given", "random")
    cap = getattr(model, "max_clusters", getattr(model, "max_components", None))
    if cap is not None:
        cap = check_count("max_clusters" if of == "cluster" else "max_components", cap)
    n_init = getattr(model, "n_init", 1)
    return Options(
        penalty,
        cap,
        check_hint(getattr(model, "n_clusters_hint", None), penalty),
        1 if n_init == "auto" else check_count("n_init", n_init),
        check_effort(getattr(model, "effort", 1.0)),
        check_count("max_iter", getattr(model, "max_iter", 1)),
        check_random_state(model.random_state),
    )


def check_hint(hint: Any, penalty: Any) -> int | None:
    """A rough number of clusters, where one is of use."""
    if hint is None:
        if penalty == "farthest-first":
            raise ValueError(
                "penalty='farthest-first' needs n_clusters_hint, a rough number of clusters."
            )
        return None
    if not isinstance(penalty, str):
        raise ValueError(
            f"n_clusters_hint={hint!r} would be ignored, because penalty={penalty!r} decides "
            "already. Give one of them."
        )
    return check_count("n_clusters_hint", hint, why="It is a rough number of clusters.")


def check_effort(effort: Any) -> float:
    """A positive factor of the search's patience."""
    if isinstance(effort, bool) or not isinstance(effort, Real):
        raise TypeError(f"effort={effort!r} must be a number > 0: 10 is ten times the patience.")
    if not 0 < float(effort) < np.inf:
        raise ValueError(f"effort={effort!r} must be > 0 and finite: 1 is the usual patience.")
    return float(effort)


def keep_choice(
    model: Any,
    path: Staircase,
    number: int,
    penalty: float,
    remarks: tuple[str, ...] = (),
) -> None:
    """Store the path and the choice that was followed; they speak of what was found."""
    choice = path.best()
    choice = replace(choice, remarks=(*choice.remarks, *remarks))
    if choice.number != number:
        choice = replace(
            choice,
            number=number,
            reason=f"{choice.reason}; {choice.number} were asked for, and this is the nearest "
            "that could be had",
            strength="none" if number == 1 else "weak",
            support=0.0,
            n_isolated=0,
        )
    others = tuple(other for other in choice.runners_up if other[0] != number)
    choice = replace(choice, price=penalty, runners_up=others)
    model.path_ = replace(path, choice=choice, _X=None)
    model.evidence_ = choice


def warn_if_tiny(penalty: float, n: int, k: int) -> None:
    """Say so where a number as penalty leaves next to nothing together: often it was meant as k."""
    if n < 50 or 4 * k <= n:  # clusters of a row or two of 50 may be meant; of more they are not
        return
    text = (
        f"penalty={penalty:g} is far below the useful range of these rows: {k} clusters for {n} "
        "rows. It is the cost of one more cluster, in squared-distance units, and not a number of "
        "clusters; penalties.path(X) shows the useful range."
    )
    if penalty == int(penalty) and 1 < penalty < k:
        number = int(penalty)
        text += f" For {number} clusters: KMeans({number}), or DPMeans(n_clusters_hint={number})."
    warnings.warn(text, UserWarning, stacklevel=3)


def warn_if_unfinished(model: Any, converged: bool) -> None:
    if not converged:
        warnings.warn(
            f"{type(model).__name__} did not converge in max_iter={model.max_iter} passes; rows "
            "still change their cluster. Raise max_iter.",
            ConvergenceWarning,
            stacklevel=3,
        )
