"""What the tests say, put into a `Choice`: the number, its penalty, words and remarks."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.metrics import adjusted_rand_score

from madbayes._partition.lloyd import nearest
from madbayes.howmany.halves import STEADY, Half, Scores, Votes
from madbayes.howmany.recovery import Recovery
from madbayes.howmany.remarks import remarks
from madbayes.howmany.staircase import Staircase, Strength, in_words, lower_hull

LEAST_FOUND = 1 / 3  # share of the clusters that has to be found again beyond noise
MORE_FOUND = 1.5  # clusters found again, in units of the links' score, that overrule the links
CLEAR_LINKS, CLEAR_SHARE = 7.0, 0.9  # score of the links, and share of the possible, beyond doubt
STRONG_ROWS = 100  # rows for strong evidence, at least: halves of fewer say the same by accident
COMPARED_ROWS = 2_048  # rows whose divisions by several halves are compared
COMPARED_HALVES = 4  # halves that are compared, at most
CLOSE = 1.15  # numbers of clusters of two tests that differ by a smaller factor agree


@dataclass(frozen=True)
class Tested:
    """3. to 5. What the halves say."""

    Z: np.ndarray
    weights: np.ndarray
    halves: list[Half]
    scores: Scores
    votes: Votes  # of the repeated cuts in halves
    fewest: int
    most: int  # clusters that may be answered
    top: int  # the most that halves can divide into
    unit: bool = False
    recovery: Recovery | None = None

    @property
    def by_links(self) -> int:
        """The number of clusters that has the best score of links."""
        return max(self.scores, key=lambda k: (self.scores[k][0], -k))

    @property
    def beyond_doubt(self) -> bool:
        """Whether so many links are confirmed, by every cut, that no other test overrules them."""
        k = self.by_links
        sure = self.scores[k][0] >= max(CLEAR_LINKS, CLEAR_SHARE * (k - 1))
        return sure and all(vote == k for vote in self.votes)

    @property
    def recovered(self) -> bool:
        """Whether clusters that are found again decide: they are beyond noise, and clearly more of
        them are confirmed than by links."""
        if self.recovery is None or not self.recovery.beyond_noise:
            return False
        least = LEAST_FOUND * (self.recovery.number - 1)
        return self.recovery.found > max(least, MORE_FOUND * self.scores[self.by_links][0])

    @property
    def best(self) -> int:
        """The number of clusters that does best."""
        if self.recovered:
            assert self.recovery is not None
            return min(max(self.recovery.number, self.fewest), self.most)
        return self.by_links


def choose(path: Staircase, tested: Tested, number: int, k: int) -> Staircase:
    """The staircase with the choice of a number of clusters that was tested as a division into k
    (fewer where rows coincide)."""
    by_test = from_recovery(tested) if tested.recovered else from_links(path, tested, k)
    scores = {k: score for k, (score, _) in tested.scores.items()}
    return path.decide(number, scores=scores, remarks=remarks(tested, k), **by_test)


def keep_on_hull(numbers: np.ndarray, errors: np.ndarray, chosen: int) -> np.ndarray:
    """Positions of the points that let the chosen number be a step of the staircase.

    A point above the line between its neighbours is never the best, whatever the penalty. Errors
    come from a few Lloyd passes, so that this may happen by accident: the nearest neighbour goes.
    """
    keep = np.arange(len(numbers))
    while True:
        order = keep[np.lexsort((errors[keep], numbers[keep]))]
        hull = numbers[order[lower_hull(numbers[order], errors[order])]]
        if chosen in hull:
            return keep
        hull = hull[hull > 1]
        if not len(hull):
            return keep
        keep = keep[numbers[keep] != hull[np.argmin(np.abs(hull - chosen))]]


def from_links(path: Staircase, tested: Tested, k: int) -> dict[str, Any]:
    """What the links say of k clusters."""
    score, confirmed = tested.scores.get(k, (0.0, None))
    word = strength(k, tested.scores)
    votes = tested.votes
    stability = votes.count(k) / len(votes) if votes else None
    agreement = mean_rand(tested.Z, tested.halves, k)
    reason = "no division stands out from noise"
    if word != "none" and confirmed is not None:
        reason = f"{confirmed:.0%} of the divisions confirmed on held-out rows"
    if word == "strong":
        if stability is None or stability < STEADY:
            word = "moderate"
            reason += ", but other halves of the rows give other numbers"
        elif len(tested.Z) < STRONG_ROWS:
            word = "moderate"
            reason += ", but the rows are few"
        elif doubted(tested, k):
            word = "moderate"
            reason += ", but a finer division is found again too"
    return {
        "strength": word,
        "support": score / (k - 1) if k > 1 else 0.0,
        "reason": reason,
        "runners_up": tuple(runners_up(path, tested.scores, k)),
        "score": score,
        "confirmed": confirmed,
        "stability": stability,
        "agreement": agreement,
    }


def from_recovery(tested: Tested) -> dict[str, Any]:
    """What repeated halvings say. The evidence is weak: there is no valley between the clusters."""
    recovery = tested.recovery
    assert recovery is not None
    at, number = recovery.at, recovery.number
    ranked = np.argsort(-recovery.beyond, kind="stable").tolist()
    others = [(int(recovery.ks[i]), float(recovery.beyond[i])) for i in ranked]
    return {
        "strength": "weak",
        "support": float(recovery.beyond[at]) / 3,
        "reason": (
            f"hardly any valleys, but {recovery.strength[at]:.0%} of the pairs of a cluster are "
            f"together in other halves of the rows, {recovery.beyond[at]:.0%} more than in noise; "
            f"single halvings say {min(recovery.votes)} to {max(recovery.votes)}"
        ),
        "runners_up": tuple((k, value) for k, value in others if k != number)[:5],
        "score": float(recovery.beyond[at]),
        "confirmed": tested.scores.get(number, (0.0, None))[1],
        "stability": recovery.votes.count(number) / len(recovery.votes),
        "agreement": mean_rand(tested.Z, recovery.halves, number),
    }


def doubted(tested: Tested, k: int) -> bool:
    """Whether more clusters than the k of the links are found again in other halves."""
    recovery = tested.recovery
    if recovery is None or recovery.number <= CLOSE * k:
        return False
    return recovery.found > tested.scores[k][0]


def mean_rand(Z: np.ndarray, halves: list[Half], k: int) -> float | None:
    """Mean adjusted Rand index between the divisions into k clusters that several halves make."""
    halves = [half for half in halves[:COMPARED_HALVES] if len(half.small) >= k]
    if k < 2 or len(halves) < 2:
        return None
    labels = [nearest(Z[:COMPARED_ROWS], half.centers(k)) for half in halves]
    return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))


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
