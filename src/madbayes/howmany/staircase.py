"""The staircase: the best number of groups at each price, and the number that the data supports.

Every model minimises *error + price × number of groups*. Let E(k) be the least error with k groups.
The minima of E(k) + λk lie on the lower convex hull of the points (k, E(k)), and the slopes of the
hull are the prices at which the best number changes (KJ Fig. 2c). Groups are clusters, features or
communities. The objective of communities is Cut - θk: each one *earns* the resolution θ. So their
price is λ = -θ, and their numbers lie on the rising side of the hull.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from importlib import import_module
from typing import Any, Literal

import numpy as np

from madbayes._partition.lloyd import nearest
from madbayes._rows.checks import check_penalty, check_table
from madbayes._rows.threads import workers

Of = Literal["cluster", "feature", "community"]
Strength = Literal["none", "weak", "moderate", "strong"]


@dataclass(frozen=True, repr=False)
class Choice:
    """The number of groups that the data supports best, how well, and why.

    Attributes
    ----------
    n_clusters, n_components, number : int
        How many clusters, features or communities: three names for the same number.
    penalty, resolution, price : float
        A penalty (of communities, a resolution) at which this number is best: the middle of its
        step, on a logarithmic scale. Three names for the same value.
    strength : {"none", "weak", "moderate", "strong"}
        The evidence in a word. "none": nothing stands out from noise.
    support : float
        The same as a number: 1 when all groups are apart beyond doubt, 0 or less when they look
        like pieces of noise.
    reason : str
        What decided, in a few words.
    runners_up : tuple of (number, score)
        Numbers to try next: those of other layers, the nearest first, then the best scores.
    score : float
        The score of `number`, on the scale of the runners-up.
    confirmed : float or None
        The share of divisions that are significant at the 5 % level on rows that played no part in
        finding them; None where no rows were held out.
    n_isolated : int
        How many rows of the sample lie far from all others (alone or up to five together). They had
        no say in the choice.
    stability : float or None
        The share of repetitions (other halves of the rows) that give the same number; None where
        nothing was repeated.
    agreement : float or None
        The mean adjusted Rand index between the divisions of these repetitions, from 0 (unrelated)
        to 1 (the same).
    remarks : tuple of str
        What a user should know beside it: for example that the clusters are not round.
    of : {"cluster", "feature", "community"}
        What is counted.
    """

    number: int
    price: float
    strength: Strength
    support: float
    reason: str
    runners_up: tuple[tuple[int, float], ...] = ()
    score: float = 0.0
    confirmed: float | None = None
    n_isolated: int = 0
    remarks: tuple[str, ...] = ()
    of: Of = "cluster"
    stability: float | None = None
    agreement: float | None = None

    @property
    def n_clusters(self) -> int:
        return self.number

    @property
    def n_components(self) -> int:
        return self.number

    @property
    def penalty(self) -> float:
        return self.price

    @property
    def resolution(self) -> float:
        return self.price

    def __repr__(self) -> str:
        others = ", ".join(str(number) for number, _ in self.runners_up[:3])
        name = {"cluster": "n_clusters", "feature": "n_components"}.get(self.of, "n_clusters")
        return (
            f"Choice({name}={self.number}, strength={self.strength!r}, "
            f"support={self.support:.2f}, runners_up=[{others}])"
        )

    def _repr_html_(self) -> str:
        rows = {name: getattr(self, name) for name in self.__dataclass_fields__}
        rows["runners_up"] = ", ".join(str(number) for number, _ in self.runners_up)
        rows["remarks"] = ". ".join(self.remarks)
        return as_html(repr(self), list(rows.items()))

    def describe(self) -> str:
        """What was found, how sure it is and what else it could be, for a person."""
        text = count(self.number, self.of)
        if self.n_isolated and self.of == "community":
            text += f" ({self.n_isolated} of them pieces of up to 5 nodes)"
        reason = self.reason
        if self.stability is not None:
            reason += f"; {self.stability:.0%} of the repetitions say the same"
        if self.strength == "none":
            text += f": {reason}"
        else:
            text += f", evidence {self.strength} ({reason})"
        others = ", ".join(str(number) for number, _ in self.runners_up[:3])
        text = f"{text}; next best: {others}" if others else text
        return ". ".join([text, *self.remarks])


@dataclass(frozen=True)
class NestedLabels:
    """The labels of each step of a path whose divisions are nested, made when they are asked for.

    It holds one number for each row, not one for each row and step.

    Attributes
    ----------
    parts : array
        The part of each row. Parts are the clusters of the finest step.
    groups : tuple of arrays
        For each step the cluster of each part.
    """

    groups: tuple[np.ndarray, ...]
    parts: np.ndarray

    def __len__(self) -> int:
        return len(self.groups)

    def __getitem__(self, step: int) -> np.ndarray:
        return self.groups[step][self.parts]


@dataclass(frozen=True, repr=False)
class Staircase:
    """How many groups at which penalty.

    Attributes
    ----------
    n_clusters, n_components, number : array
        The numbers of groups, one for each step; three names for the same array.
    penalty_low, penalty_high, price_low, price_high : arrays
        `n_clusters[i]` groups are best for ``penalty_low[i] <= penalty < penalty_high[i]``. Of
        communities these are resolutions, also called `resolution_low` and `resolution_high`.
    objective : array
        The error with `n_clusters[i]` groups, without their penalties.
    figures : dict of arrays
        Further figures of each step, by name.
    scores : dict
        For each number that was examined its score; for those far from the best an estimate from
        fewer rows, where there are many.
    choice : Choice or None
        The number that the data supports; also as `best()`.
    of : {"cluster", "feature", "community"}
        What is counted.
    centers, labels : tuple of arrays (labels: or NestedLabels), or None
        The division of each step, by centres or by labels.
    unit : bool
        Whether rows and centres have length 1.
    far : float
        Rows whose squared distance to every centre of the choice is larger are isolated: a fit that
        follows the choice gives them no weight. Infinite where there are none.

    Notes
    -----
    For a large X all of it comes from a sample, scaled up.
    """

    number: np.ndarray
    price_low: np.ndarray
    price_high: np.ndarray
    objective: np.ndarray
    choice: Choice | None = None
    scores: dict[int, float] = field(default_factory=dict, repr=False)
    figures: dict[str, np.ndarray] = field(default_factory=dict, repr=False)
    of: Of = "cluster"
    # The division of each step: by centres, or by labels (assignments, for features).
    centers: tuple[np.ndarray, ...] | None = field(default=None, repr=False)
    labels: Any = field(default=None, repr=False)  # tuple, NestedLabels or None
    unit: bool = field(default=False, repr=False)  # rows and centres at length 1
    far: float = field(default=np.inf, repr=False)
    _X: Any = field(default=None, repr=False)

    @classmethod
    def build(
        cls, numbers: Sequence[int] | np.ndarray, errors: Any, of: Of = "cluster", **more: Any
    ) -> "Staircase":
        """The staircase of the points (number, error).

        `centers`, `labels` and `figures` are in the order of the points. Points that are best at no
        price are left out.
        """
        ks, errors = np.asarray(numbers, dtype=np.int64), np.asarray(errors, dtype=np.float64)
        order = np.lexsort((errors, ks))
        keep = order[lower_hull(ks[order], errors[order], rising=of == "community")]
        slopes = np.diff(errors[keep]) / np.diff(ks[keep])
        if of == "community":
            low, high = np.r_[0.0, slopes], np.r_[slopes, np.inf]
        else:
            low, high = np.r_[-slopes, 0.0], np.r_[np.inf, -slopes]
        for name in ("centers", "labels"):
            if more.get(name) is not None:
                more[name] = tuple(more[name][i] for i in keep)
        if "figures" in more:
            more["figures"] = {name: np.asarray(v)[keep] for name, v in more["figures"].items()}
        return cls(ks[keep], low, high, errors[keep], of=of, **more)

    def __repr__(self) -> str:
        shown = ", ".join(str(number) for number in self.number[:6])
        more = ", …" if len(self.number) > 6 else ""
        best = "" if self.choice is None else f", best={self.choice.number}"
        price = "resolution" if self.of == "community" else "penalty"
        return f"Staircase({count(2, self.of)[2:]} by {price}: {shown}{more}{best})"

    def _repr_html_(self) -> str:
        rows: list[tuple[Any, ...]] = [
            (int(number), f"{low:.4g}", f"{high:.4g}", f"{error:.4g}")
            for number, low, high, error in zip(
                self.number, self.price_low, self.price_high, self.objective, strict=True
            )
        ]
        price = "resolution" if self.of == "community" else "penalty"
        head = (count(2, self.of)[2:], f"{price} from", "to", "error")
        return as_html(repr(self), [head, *rows[:50]])

    def decide(
        self,
        number: int,
        reason: str,
        *,
        scores: Mapping[int, float],
        support: float,
        price: float | None = None,
        also: int | None = None,
        **more: Any,
    ) -> "Staircase":
        """The staircase with the choice of `number` groups. Estimators of rows make theirs here.

        `scores` belong to the numbers that were examined, and a higher score is better. The five
        best of the other numbers, and the number `also`, are the runners-up. Unless they are given,
        the strength of the evidence follows from the `support`, and the price is the middle of the
        step. One cluster (no feature) is no finding: its support is 0, its evidence "none". `more`
        are further attributes of the `Choice`.
        """
        found = number > (0 if self.of == "feature" else 1)
        others = sorted(scores, key=lambda k: (-scores[k], k))[:6]
        others = [k for k in others if k != number][:5]
        if also is not None and also not in (number, *others):
            others.append(also)
        made: dict[str, Any] = {
            "number": number,
            "price": self.price_of(number) if price is None else price,
            "strength": in_words(support) if found else "none",
            "support": support if found else 0.0,
            "reason": reason,
            "runners_up": tuple((k, scores.get(k, 0.0)) for k in others),
            "score": scores.get(number, 0.0),
            "of": self.of,
        }
        return replace(self, choice=Choice(**(made | more)), scores=dict(scores))

    # Other names of `number` and the prices: those of clusters, features and communities

    @property
    def n_clusters(self) -> np.ndarray:
        return self.number

    @property
    def n_components(self) -> np.ndarray:
        return self.number

    @property
    def penalty_low(self) -> np.ndarray:
        return self.price_low

    @property
    def penalty_high(self) -> np.ndarray:
        return self.price_high

    @property
    def resolution_low(self) -> np.ndarray:
        return self.price_low

    @property
    def resolution_high(self) -> np.ndarray:
        return self.price_high

    def at(self, price: float) -> int:
        """The step that a price falls on."""
        price = check_penalty(price)
        signed = -price if self.of == "community" else price
        return int(np.argmin(self.objective + signed * self.number))

    def step_of(self, number: int) -> int | None:
        """The step with `number` groups, or None."""
        found = np.flatnonzero(self.number == number)
        return int(found[0]) if found.size else None

    def middle(self, step: int) -> float:
        """The price in the middle (of the logarithms) of a step; never 0 or infinite."""
        low, high = float(self.price_low[step]), float(self.price_high[step])
        if not np.isfinite(high):  # above the error of one group, no split pays
            high = max(float(self.objective.max(initial=0.0)), 2 * low)
        if high <= 0:  # all rows equal: any price
            return 1.0
        return float(np.sqrt(low) * np.sqrt(high)) if low > 0 else high / 2

    def price_of(self, number: int) -> float:
        """The price in the middle of the step with `number` groups; if there is no such step, in
        the middle of the first step."""
        step = self.step_of(number)
        return self.middle(0 if step is None else step)

    def widths(self) -> np.ndarray:
        """√number·log(high/low) of each step; 0 for a step that has no upper or lower end."""
        return plateau(self.number, self.price_low, self.price_high)

    def labels_at(self, price: float, X: Any = None, n_jobs: int | None = None) -> np.ndarray:
        """Labels of the rows in the best division at this price.

        The division is that of the path: an estimator with that price starts from the same idea and
        goes on until nothing lowers the objective. A path of an estimator does not hold the rows:
        pass them.
        """
        step = self.at(price)
        if self.labels is not None:
            return self.labels[step]
        X = self._X if X is None else check_table(X)
        if X is None or self.centers is None:
            raise ValueError(
                "this path does not hold the rows it was made of: pass them, labels_at(price, X)."
            )
        d = self.centers[step].shape[1]
        if X.shape[1] != d:
            raise ValueError(
                f"X has {X.shape[1]} columns, but this path was made of rows with {d}."
            )
        with workers(n_jobs):
            return nearest(X, self.centers[step], unit=self.unit)

    def centers_at(self, price: float) -> np.ndarray:
        """The centres of the best division at this price."""
        if self.centers is None:
            raise AttributeError(f"{count(2, self.of)[2:]} of this path have no centres.")
        return self.centers[self.at(price)]

    def best(self) -> Choice:
        """The number that the data supports best."""
        assert self.choice is not None  # every path that leaves this package has one
        return self.choice

    def plot(self, ax: Any = None) -> Any:
        """The number against the price, the choice marked; needs matplotlib. Returns the axes."""
        # By name: pictures are a layer above this one.
        return import_module("madbayes.plots").path(self, ax)

    def without_rows(self) -> "Staircase":
        """This path without the rows that it was made from, to be stored."""
        return replace(self, _X=None)


def as_html(head: str, rows: Sequence[tuple[Any, ...]]) -> str:
    """One line that opens to a table."""
    cells = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f"<details><summary>{escape(head)}</summary><table>{body}</table></details>"


def lower_hull(numbers: np.ndarray, errors: np.ndarray, *, rising: bool = False) -> np.ndarray:
    """Positions of the points on the lower convex hull of (number, error), ascending in number.

    Only the side on which errors fall strictly is used; with `rising`, the side on which they rise.
    """
    keep: list[int] = []
    for i in range(len(numbers)):
        if keep and numbers[i] == numbers[keep[-1]]:
            continue  # the first of equal numbers has the least error
        if not rising and keep and errors[i] >= errors[keep[-1]]:
            continue
        while rising and keep and errors[keep[-1]] >= errors[i]:
            keep.pop()
        while len(keep) > 1 and (errors[keep[-2]] - errors[keep[-1]]) * (
            numbers[i] - numbers[keep[-1]]
        ) <= (errors[keep[-1]] - errors[i]) * (numbers[keep[-1]] - numbers[keep[-2]]):
            keep.pop()
        keep.append(i)
    return np.array(keep, dtype=np.int64)


def plateau(number: Any, low: Any, high: Any) -> np.ndarray:
    """√number·log(high/low): how much a step stands out. 0 for a step without an end.

    In noise the logarithms of the gaps shrink like 1/number, so the factor √number gives wide gaps
    at large numbers more weight.
    """
    number, low, high = np.broadcast_arrays(np.asarray(number, float), low, high)
    ends = (low > 0) & np.isfinite(high) & (high > low)
    ratio = np.divide(high, low, out=np.ones(number.shape), where=ends)
    return np.sqrt(np.maximum(number, 0.0)) * np.log(ratio)


def in_words(support: float) -> Strength:
    """The word for the strength of evidence with this support."""
    if support <= 0:
        return "none"
    return ("weak", "moderate", "strong")[int(support > 1 / 3) + int(support > 2 / 3)]


def count(number: int, of: Of) -> str:
    """ "1 cluster", "3 communities"."""
    plural = {"cluster": "clusters", "feature": "features", "community": "communities"}[of]
    return f"{number} {of if number == 1 else plural}"
