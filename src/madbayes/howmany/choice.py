"""What the tests say, put into a `Choice`: the number, its penalty, words and remarks."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from madbayes.howmany.compression import Compression
from madbayes.howmany.halves import Half, Scores
from madbayes.howmany.remarks import remarks
from madbayes.howmany.staircase import Choice, Staircase, Strength, in_words

Point = tuple[int, int, float]  # number of clusters, the k it was scored as, error


@dataclass(frozen=True)
class Tested:
    """3. to 5. What the halves say."""

    Z: np.ndarray
    weights: np.ndarray
    halves: list[Half]
    scores: Scores
    fewest: int
    most: int  # clusters that may be answered
    top: int  # the most that halves can divide into
    unit: bool = False
    second: Compression | None = None

    @property
    def best(self) -> int:
        """The number of clusters that does best."""
        if self.second is not None and self.second.number is not None:
            return self.second.number
        return max(self.scores, key=lambda k: (self.scores[k][0], -k))


def choose(path: Staircase, tested: Tested, points: Sequence[Point]) -> Choice:
    """The step with the best score; 1 when nothing stands out."""
    scores, second, best = tested.scores, tested.second, tested.best

    def merit(point: Point) -> tuple[float, int]:
        """The score; among equals one cluster of all rows, then isolated rows on their own."""
        number, k, _ = point
        value = scores.get(k, (-np.inf,))[0] if second is None else -abs(k - best)
        return value, number if k > 1 else path.number[-1] + 2 - number

    allowed = [p for p in points if tested.fewest <= p[0] <= tested.most] or list(points)
    steps = set(zip(path.number.tolist(), path.figures["scored"].tolist(), strict=True))
    on_steps = [p for p in allowed if p[:2] in steps and merit(p)[0] > -np.inf]
    number, k, error = max(on_steps or allowed, key=merit)
    score, confirmed = scores.get(k, (0.0, None))
    support = score / (k - 1) if k > 1 else 0.0
    word = strength(k, scores)
    reason = "no division stands out from noise"
    if word != "none" and confirmed is not None:
        reason = f"{confirmed:.0%} of the divisions confirmed on held-out rows"
    others = runners_up(path, scores, k)
    if second is not None:
        near = min(second.gain, key=lambda j: abs(j - k))
        word, score, support = "weak", second.agreement[near], min(second.gain[near], 1.0) / 3
        reason = (
            "no valleys, but held-out rows are explained "
            f"{1 + second.gain[near]:.1f} times as well as noise"
        )
        ranked = sorted(second.agreement, key=lambda j: -second.agreement[j])
        others = [(j, second.agreement[j]) for j in ranked if j not in (k, near)][:5]
    return Choice(
        number=number,
        price=price_of(path, number, error),
        strength=word,
        support=support,
        reason=reason,
        runners_up=tuple(others),
        score=score,
        confirmed=confirmed,
        n_isolated=number - k if number > k else 0,
        remarks=remarks(tested, k),
    )


def price_of(path: Staircase, number: int, error: float) -> float:
    """In the middle of the step; between its neighbours where the number is never the best."""
    step = path.step_of(number)
    if step is not None:
        return path.middle(step)
    fewer, more = path.number < number, path.number > number
    gain = float((path.objective[fewer][-1] - error) / (number - path.number[fewer][-1]))
    less = gain / 4
    if more.any():
        less = float((error - path.objective[more][0]) / (path.number[more][0] - number))
    return float(np.sqrt(max(gain, 0.0)) * np.sqrt(max(less, 0.0))) or max(gain, less) or 1.0


def runners_up(path: Staircase, scores: Scores, k: int) -> list[tuple[int, float]]:
    """By score; where that is negative (no better than noise) by the mean vote of the links."""
    rank = {j: s if s >= 0 else s / (j - 1) for j, (s, _) in scores.items()}
    runners = sorted((j for j in rank if j != k), key=lambda j: (-round(rank[j], 1), j))[:5]
    runners += [j for j in widest(path, scores) if j != k and j not in runners]
    return [(j, scores[j][0]) for j in runners]


def widest(path: Staircase, scores: Scores) -> list[int]:
    """The k with the widest plateau among those whose neighbours were examined.

    It sees overlapping clusters in several dimensions, where no valley is left between them.
    """
    seen = [{k - 1, k, k + 1} <= set(scores) for k in path.number.tolist()]
    width = np.where(seen, path.widths(), 0.0)
    return [int(path.number[np.argmax(width)])] if width.max(initial=0.0) > 0 else []


def strength(k: int, scores: Scores) -> Strength:
    """In words; one step down when a k elsewhere, a peak of its own, scores nearly as much."""
    if k < 2 or k not in scores:
        return "none"
    word = in_words(scores[k][0] / (k - 1))
    ks = sorted(scores)
    for before, j, after in zip(ks[:-2], ks[1:-1], ks[2:], strict=True):
        peak = scores[j][0] > max(scores[before][0], scores[after][0])
        if peak and abs(j - k) > max(1, k / 10) and scores[j][0] > 0.75 * scores[k][0]:
            return {"strong": "moderate", "moderate": "weak"}.get(word, word)  # type: ignore
    return word
