"""Halves of a sample: one half proposes divisions, the other half tests them.

These are steps 3 and 4 of `path`.
"""

from typing import Any

import numpy as np

from madbayes._partition.draws import draw_seeds
from madbayes._partition.lloyd import lloyd
from madbayes._partition.lloyd_kernels import PLAIN, lloyd_by_columns
from madbayes._partition.moves import means
from madbayes._partition.ward import cut_tree, ward_tree
from madbayes._rows.frame import Frame, measure
from madbayes._rows.progress import Stage
from madbayes._rows.rows import Rows
from madbayes._rows.threads import patient, together
from madbayes.howmany.links import FEW, LEVEL, link_strengths, links_of_few, score
from madbayes.howmany.staircase import plateau

SCORED_ROWS = 4_096  # rows of a half that score k ≤ 64 clusters; for more clusters, 64 rows each
FIRST_LOOK = 4  # a first look at numbers with little hope uses the rows divided by this
DOUBT = 0.35  # votes for each cluster by which the score of a first look may be too low
STEADY = 0.75  # share of the cuts that vote for the same number, at least, for strong evidence

# For each k: its score, and the share of confirmed links (None after a first look only).
Scores = dict[int, tuple[float, float | None]]
Votes = tuple[int, ...]  # the number of clusters that each cut in halves would answer alone


def frame_of(X: np.ndarray, weights: np.ndarray) -> Frame | None:
    """The frame of the rows; None for few rows, whose kernels need no frame."""
    return measure(Rows(X, weight=weights)) if X.size * 32 > PLAIN else None


class Half:
    """3. One half of the rows, its tree, and the other half to test on."""

    def __init__(
        self,
        X: np.ndarray,
        weights: np.ndarray,
        held_out: np.ndarray,
        held_weights: np.ndarray,
        uniforms: np.ndarray,
    ) -> None:
        self.X, self.weights = X, weights
        self.held_out, self.held_weights = held_out, held_weights
        self._found: dict[int, tuple[int, np.ndarray]] = {}
        n, d = X.shape
        self.few = n * n * d <= FEW  # few rows: plain loops are quicker than matrix products
        if self.few:
            self.columns, self.held_columns = (np.ascontiguousarray(A.T) for A in (X, held_out))
        self.frame = frame_of(X, weights)
        seeds = np.empty((len(uniforms), X.shape[1]))
        start = seeds[: patient(draw_seeds, X, weights, seeds, 0, uniforms)]
        labels, self.small, _ = lloyd(X, start, weights, 3, frame=self.frame)
        self.small_weights = np.bincount(labels, weights, minlength=len(self.small))
        tree = patient(ward_tree, self.small, self.small_weights, False)
        self.left, self.right, self.heights = tree

    def _rows(self, k: int, share: int) -> slice:
        """The rows that score k clusters, or one part in `share` of them."""
        return slice(min(len(self.X), max(SCORED_ROWS, 64 * k)) // share)

    def centers(self, k: int, share: int = 1) -> np.ndarray:
        """k centres: cut the tree at k, then make Lloyd's passes on the rows of `_rows(k, share)`.

        Centres that were found on more rows are used again.
        """
        found = self._found.get(k)
        if found is None or found[0] > share:
            group = cut_tree(self.left, self.right, k)
            start = means(self.small, self.small_weights, group, k, False)[0]
            if self.few:
                centers = lloyd_by_columns(self.columns, self.weights, start, 2)[1]
            else:
                rows = self._rows(k, share)
                here = self.X[rows], start, self.weights[rows]
                centers = lloyd(*here, 2 if share == 1 else 1, frame=self.frame)[1]
            found = self._found[k] = share, centers
        return found[1]

    def links(self, k: int, share: int = 1) -> np.ndarray:
        """z of the k - 1 weakest links, ascending. A cluster that is missing because rows coincide
        counts as a link of -inf.

        If only a part of the rows is tested, z is multiplied by √share, because z grows with the
        root of the number of rows.
        """
        centers = self.centers(k, share)
        if self.few:
            z = links_of_few(self.held_columns, self.held_weights, centers)
        else:
            rows = self._rows(k, share)
            z = link_strengths(self.held_out[rows], self.held_weights[rows], centers)
            z *= np.sqrt(share)
        return z if len(z) == k - 1 else np.append(np.full(k - 1 - len(z), -np.inf), z)

    def plateaus(self, k_min: int, k_max: int, count: int) -> np.ndarray:
        """The k >= k_min with the largest √k·log(λ_high/λ_low)."""
        h = np.maximum(self.heights[::-1], 1e-300)  # h[k-2]: the merge from k to k-1
        k = np.arange(max(k_min, 2), min(k_max, len(h)) + 1)
        gain = plateau(k, h[np.minimum(k - 1, len(h) - 1)], h[k - 2])
        return k[np.argsort(-gain, kind="stable")[:count]]


def count_cuts(n: int) -> int:
    """3. How often n rows are cut in halves: the fewer rows, the more cuts, and at least two."""
    return int(np.clip(4000 // n, 2, 8))


def make_halves(
    Z: np.ndarray, w: np.ndarray, n_small: int, cuts: int, rng: np.random.Generator
) -> list[Half]:
    """3. The two halves of each cut, next to each other. A half has at most 8192 rows."""
    h = min(len(Z) // 2, 8192)
    parts = []
    for _ in range(cuts):
        order = rng.permutation(len(Z))
        one, other = ((Z[rows], w[rows]) for rows in (order[:h], order[h : 2 * h]))
        parts += [(one, other), (other, one)]
    seeds = rng.random((len(parts), n_small))

    def build(job: Any) -> Half:
        (mine, other), uniforms = job
        return Half(mine[0], mine[1], other[0], other[1], uniforms)

    return together(build, zip(parts, seeds, strict=True))


def add_up(found: list[np.ndarray]) -> np.ndarray:
    """Combine the z of all halves: the two halves of a cut are one test, cuts are averaged.

    The weakest links are combined with the weakest.
    """
    return sum(found) * np.sqrt(2) / len(found)


def score_levels(halves: list[Half], k_min: int, k_max: int) -> tuple[Scores, Votes]:
    """4. Score the numbers k on a grid, then those around the best.

    Returns {k: (score, confirmed share of links)}, and the k that each cut in halves would choose
    alone. Many clusters need many rows to be scored. A first look at a part of the rows is enough
    for a k whose score is far below the best, and for a k so small that it cannot reach the best.
    """
    scores: Scores = {1: (0.0, 0.0)} if k_min == 1 else {}
    rough: Scores = {}
    of_cuts: dict[int, list[float]] = {k: [0.0] * (len(halves) // 2) for k in scores}
    top = max(k_max, 25)
    grid = np.geomspace(25, top, 1 + int(np.ceil(np.log(top / 25) / 0.22))).astype(int).tolist()
    likely = len({k for k in [*range(k_min, 25), *grid] if 2 <= k <= k_max}) + 12
    stage = Stage("how many clusters", likely * len(halves))

    def test(job: tuple[Half, int, int]) -> np.ndarray:
        links = job[0].links(*job[1:])
        stage.step()
        return links

    def visit(ks: Any, share: int = 1) -> None:
        new = {int(k) for k in ks if max(k_min, 2) <= k <= k_max} - set(scores)
        ordered = sorted(new, reverse=True)  # the jobs that take longest first
        found = iter(together(test, [(half, k, share) for k in ordered for half in halves]))
        for k in ordered:
            each = [next(found) for _ in halves]
            z = add_up(each)
            if share > 1:
                rough[k] = (score(z), None)
            else:
                scores[k] = (score(z), float(np.mean(z > LEVEL)))
                of_cuts[k] = [score(add_up(each[i : i + 2])) for i in range(0, len(each), 2)]

    n = len(halves[0].X)
    most = n // (FIRST_LOOK * 12)  # a first look needs twelve rows for each cluster
    visit((k for k in grid if 128 < k <= most), FIRST_LOOK)
    visit(k for k in grid if k not in rough)
    best = max((value for value, _ in (rough | scores).values()), default=0.0)
    visit(k for k, (value, _) in rough.items() if value + DOUBT * k >= best)
    few = range(k_min, 25)
    visit(k for k in few if 2 * k >= best)
    visit(few, FIRST_LOOK if n >= SCORED_ROWS else 1)
    visit(k for half in halves[:2] for k in half.plateaus(25, k_max, 4))
    step = max(1, int(0.08 * k_max))
    while step and scores:
        leaders = sorted(scores, key=lambda k: (-scores[k][0], k))
        apart = [k for k in leaders if abs(k - leaders[0]) >= step]
        leaders = leaders[:1] + (apart[:1] if step > 4 else [])
        if step == 1:
            leaders += [leaders[0] - 2, leaders[0] + 2]
        before, best = len(scores), scores[leaders[0]][0]
        near = (k + s for k in leaders for s in (-step, step) if abs(s) <= max(1, 0.15 * k))
        visit(k for k in near if k - 1 >= best)  # k clusters cannot have a higher score than k - 1
        if len(scores) == before or step > 1:
            step //= 2
    k = leaders[0] if scores else k_max
    visit([j for j in sorted(rough) if j >= cut_further(k)][:1])
    votes = [max(of_cuts, key=lambda k: (of_cuts[k][i], -k)) for i in range(len(halves) // 2)]
    return rough | scores, tuple(votes)


def cut_further(k: int) -> float:
    """The number of pieces into which k clusters are cut to look for gaps inside (`remarks`)."""
    return max(k + 4, 1.5 * k)
