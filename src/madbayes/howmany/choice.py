"""Make a `Choice` from the results of the tests: the number, its penalty, its strength, remarks."""

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

LEAST_FOUND = 1 / 3  # share of the clusters that must be found again, beyond what noise gives
MORE_FOUND = 1.5  # clusters found again, in units of the links' score, that overrule the links
CLEAR_LINKS, CLEAR_SHARE = 7.0, 0.9  # score of the links, and share of the possible, beyond doubt
STRONG_ROWS = 100  # rows for strong evidence, at least: halves of fewer rows may agree by accident
WEAKER: dict[Strength, Strength] = {"strong": "moderate", "moderate": "weak"}


@dataclass(frozen=True)
class Tested:
    """The results of steps 3 to 5 of `path`: the scores of the numbers of clusters."""

    Z: np.ndarray
    weights: np.ndarray
    halves: list[Half]
    scores: Scores
    votes: Votes  # of the repeated cuts in halves
    fewest: int
    most: int  # the largest number of clusters that the choice may take
    top: int  # the largest number of clusters that the halves can be divided into
    unit: bool = False
    recovery: Recovery | None = None

    @property
    def by_links(self) -> int:
        """The number of clusters that has the best score of links."""
        return max(self.scores, key=lambda k: (self.scores[k][0], -k))

    @property
    def beyond_doubt(self) -> bool:
        """Whether every cut in halves confirms so many links that no other test overrules them."""
        k = self.by_links
        sure = self.scores[k][0] >= max(CLEAR_LINKS, CLEAR_SHARE * (k - 1))
        return sure and all(vote == k for vote in self.votes)

    @property
    def recovered(self) -> bool:
        """Whether the test of step 5 decides: its clusters are beyond noise, and it confirms
        clearly more clusters than the links do."""
        if self.recovery is None or not self.recovery.beyond_noise:
            return False
        least = LEAST_FOUND * (self.recovery.number - 1)
        return self.recovery.found > max(least, MORE_FOUND * self.scores[self.by_links][0])

    @property
    def best(self) -> int:
        """The number of clusters with the best score in the test that decides."""
        if self.recovered:
            assert self.recovery is not None
            return min(max(self.recovery.number, self.fewest), self.most)
        return self.by_links


def choose(path: Staircase, tested: Tested, number: int, k: int) -> Staircase:
    """The staircase, with the choice of `number` clusters.

    The tests divided the rows into k clusters; `number` is less than k if rows coincide.
    """
    by_test = from_recovery(tested) if tested.recovered else from_links(path, tested, k)
    scores = {k: score for k, (score, _) in tested.scores.items()}
    return path.decide(number, scores=scores, remarks=remarks(tested, k), **by_test)


def keep_on_hull(numbers: np.ndarray, errors: np.ndarray, chosen: int) -> np.ndarray:
    """Positions of the points to keep so that the chosen number is a step of the staircase.

    A point above the line between its two neighbours is not the best at any penalty. The errors
    come from a few of Lloyd's passes, so this may happen to the chosen number by accident. Then the
    nearest number on the hull is removed, again and again, until the chosen number is a step.
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
    """Reason, strength and remarks for k clusters that the links decided."""
    score, confirmed = tested.scores.get(k, (0.0, None))
    word = strength(k, tested.scores)
    votes = tested.votes
    stability = votes.count(k) / len(votes) if votes else None
    agreement = mean_rand(tested.Z, tested.halves, k)
    reason = "no division stands out from noise"
    if word != "none" and confirmed is not None:
        reason = f"{confirmed:.0%} of the divisions confirmed on held-out rows"
    if word in WEAKER and (stability is None or stability < STEADY):
        word = WEAKER[word]
        reason += ", but other halves of the rows give other numbers"
    elif word == "strong" and len(tested.Z) < STRONG_ROWS:
        word = "moderate"
        reason += ", but the rows are few"
    elif word == "strong" and doubted(tested, k):
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
    """Reason, strength and remarks for clusters that were found again in other halves.

    The evidence is weak, because no valley lies between these clusters.
    """
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
    """Whether the test of step 5 finds more clusters than the k that the links support."""
    recovery = tested.recovery
    if recovery is None or recovery.number <= 1.15 * k:  # such a difference is none
        return False
    return recovery.found > tested.scores[k][0]


def mean_rand(Z: np.ndarray, halves: list[Half], k: int) -> float | None:
    """Mean adjusted Rand index between the divisions into k clusters of up to four halves."""
    halves = [half for half in halves[:4] if len(half.small) >= k]
    if k < 2 or len(halves) < 2:
        return None
    labels = [nearest(Z[:2048], half.centers(k)) for half in halves]
    return float(np.mean([adjusted_rand_score(a, b) for a, b in combinations(labels, 2)]))


def runners_up(path: Staircase, scores: Scores, k: int) -> list[tuple[int, float]]:
    """Other numbers and their scores, best first.

    Numbers with a negative score (no better than noise) are sorted by the mean vote of their links.
    """
    rank = {j: s if s >= 0 else s / (j - 1) for j, (s, _) in scores.items()}
    runners = sorted((j for j in rank if j != k), key=lambda j: (-round(rank[j], 1), j))[:5]
    runners += [j for j in widest(path, scores) if j != k and j not in runners]
    return [(j, scores[j][0]) for j in runners]


def widest(path: Staircase, scores: Scores) -> list[int]:
    """The k with the widest plateau, among those whose neighbouring numbers were examined.

    Overlapping clusters in several dimensions have no valley between them, but may have a plateau.
    """
    seen = [{k - 1, k, k + 1} <= set(scores) for k in path.number.tolist()]
    width = np.where(seen, path.widths(), 0.0)
    return [int(path.number[np.argmax(width)])] if width.max(initial=0.0) > 0 else []


def strength(k: int, scores: Scores) -> Strength:
    """The strength of the evidence in words.

    It is one step weaker if another peak of the scores is nearly as high.
    """
    if k < 2 or k not in scores:
        return "none"
    word = in_words(scores[k][0] / (k - 1))
    ks = sorted(scores)
    for before, j, after in zip(ks[:-2], ks[1:-1], ks[2:], strict=True):
        peak = scores[j][0] > max(scores[before][0], scores[after][0])
        if peak and abs(j - k) > max(1, k / 10) and scores[j][0] > 0.75 * scores[k][0]:
            return WEAKER.get(word, word)
    return word
