"""What `HardHDP` and `KernelHardHDP` share: parameters, penalties, fitting, predicting."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._model.fitting import Options, begin, keep_choice, warn_if_unfinished
from madbayes._partition.lloyd import nearest
from madbayes._rows.checks import check_count
from madbayes._rows.content import content_order
from madbayes._rows.row_kernels import squared_error
from madbayes._rows.rows import DISK_VALUES, Rows, on_disk
from madbayes._search.division import Division
from madbayes._search.driver import by_size, descend, search
from madbayes._search.number import printed_number, search_number
from madbayes._search.price import SharedPrice, fixed
from madbayes.groups.algorithm2 import SharedClustering, hard_hdp
from madbayes.groups.farthest import group_gap, local_gap
from madbayes.groups.grouped_rows import (
    Grouped,
    Groups,
    check_groups,
    number_locally,
    put_together,
    usage,
)
from madbayes.groups.path import ALIKE, find_shared_path, shares
from madbayes.groups.relaxation import relaxed_bound, rounded
from madbayes.groups.space import GroupedSpace
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.dense_space import DenseSpace
from madbayes.kmeans.farthest import first_gap

COSTS = 2**20  # distances that predict keeps at a time
TRIES = 3  # searches for the number that was chosen …
STEP = 1.5  # … each with a λ_g so many times as large or as small


def check_penalty(name: str, value: Any) -> Any:
    """A positive finite float, "auto" or "farthest-first"."""
    if value in ("auto", "farthest-first") and isinstance(value, str):
        return value
    what = "group's share of a cluster" if name == "penalty_local" else "shared cluster"
    says = (
        f"{name}={value!r} must be a number > 0, 'auto' or 'farthest-first'. It is the cost of one "
        f"more {what}, in squared-distance units; penalties.hdp_farthest_first(X, groups, n_local, "
        "n_global) proposes both for rough numbers of clusters."
    )
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(says)
    if not 0 < float(value) < np.inf:
        raise ValueError(says)
    return float(value)


def clustering_of(found: Division, history: list[float]) -> SharedClustering:
    """Clusters from the heaviest to the lightest."""
    rank = by_size(found.centers, found.weights)
    return SharedClustering(np.argsort(rank)[found.labels], history, len(history), True)


def round_and_polish(
    rows: Grouped, local: float, glob: float, options: Options
) -> SharedClustering:
    """`relaxation.py`: eigenvectors, rounded, and the moves and splits of the search."""
    rng = options.random_state
    price = SharedPrice(glob, len(rows.X), local=local)
    space = GroupedSpace(rows.X, rows.w, rows.group, price)
    first = space.division(rounded(rows, local, glob, rng))
    history = [first.objective]
    return clustering_of(descend(space, first, rng, history), history)


class SharedClusters:
    """What `HardHDP` and `KernelHardHDP` share: parameters, checks, and what is stored."""

    labels_: np.ndarray
    n_clusters_: int
    objective_: float
    inertia_: float
    objective_history_: np.ndarray
    n_iter_: int
    converged_: bool
    path_: Staircase
    relaxed_bound_: float
    _algorithms = ("search", "paper", "spectral")

    def __init__(
        self,
        penalty_local: float | str = "auto",
        penalty_global: float | str = "auto",
        *,
        algorithm: str = "search",
        n_local_hint: int | None = None,
        n_global_hint: int | None = None,
        n_init: int = 1,
        effort: float = 1.0,
        max_iter: int = 300,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.penalty_local = penalty_local
        self.penalty_global = penalty_global
        self.algorithm = algorithm
        self.n_local_hint = n_local_hint
        self.n_global_hint = n_global_hint
        self.n_init = n_init
        self.effort = effort
        self.max_iter = max_iter
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _check(self) -> Options:
        options = begin(self)
        for name in ("penalty_local", "penalty_global"):
            value = check_penalty(name, getattr(self, name))
            hint = f"n_{name.removeprefix('penalty_')}_hint"
            given = getattr(self, hint)
            if given is not None:
                check_count(hint, given, why="It is a rough number of clusters.")
                if not isinstance(value, str):
                    raise ValueError(
                        f"{hint}={given} would be ignored, because {name}={value} decides already. "
                        "Give one of them."
                    )
            elif value == "farthest-first":
                raise ValueError(f"{name}='farthest-first' needs {hint}, a rough number.")
        return options

    def _solve(
        self, X: Any, weight: np.ndarray | None, groups: Groups, options: Options
    ) -> tuple[Grouped, Division, np.ndarray]:
        """Fit on checked rows: all but what depends on how a centre is kept.

        Returns the grouped rows, their division, and the label of each row of X (-1 for a row of
        weight 0).
        """
        large = on_disk(X) and X.shape[0] * X.shape[1] > DISK_VALUES
        if self.algorithm != "paper" and large:
            raise ValueError(
                f"algorithm={self.algorithm!r} needs the rows in memory, and X has {X.shape[0]:,} "
                f"of {X.shape[1]} columns on disk. Use algorithm='paper', or np.array(X) if it "
                "fits."
            )
        if self.algorithm != "paper":  # a shuffled table gives the same clusters
            order = content_order(X, weight, 0)
            groups = groups._replace(order=order[np.argsort(groups.code[order], kind="stable")])
        rows = put_together(X, weight, groups)
        local, glob, path = self._penalties(rows, options)
        if self.algorithm == "paper":
            local, glob, found = self._fit_paper(rows, local, glob, path, options)
        elif self.algorithm == "spectral":
            found = round_and_polish(rows, local, glob, options)
        else:
            local, glob, found = self._search(rows, local, glob, path, options)
        warn_if_unfinished(self, found.converged)
        space = GroupedSpace(
            rows.X, rows.w, rows.group, SharedPrice(glob, len(rows.X), local=local)
        )
        division = space.division(found.labels)
        if path is not None:
            keep_choice(self, path, division.k, glob)
        used = usage(rows.group, division.labels, (len(groups.names), division.k))
        inertia = float(squared_error(rows.X, rows.w, division.labels, division.centers))
        self._store_found(groups.names, found, used, inertia, (local, glob))
        if not large:
            self.relaxed_bound_ = relaxed_bound(rows, local, glob)
        labels = np.full(X.shape[0], -1, dtype=np.int64)
        labels[rows.place] = division.labels
        return rows, division, labels

    def _store_found(
        self,
        names: np.ndarray,
        found: SharedClustering,
        used: sp.csr_array,
        inertia: float,
        penalties: tuple[float, float],
    ) -> None:
        """`used`: how many rows of each group are in each cluster."""
        self.groups_, self._rows_of = names, used
        self.n_local_clusters_ = np.diff(used.indptr)
        self.n_clusters_ = used.shape[1]
        self.penalty_local_, self.penalty_global_ = penalties
        self.objective_, self.inertia_ = found.history[-1], inertia
        self.objective_history_ = np.array(found.history)
        self.n_iter_, self.converged_ = found.n_iter, found.converged

    def _penalties(self, rows: Grouped, options: Options) -> tuple[float, float, Staircase | None]:
        """(λ_l, λ_g) as the parameters ask for them, and the path where they are found.

        "farthest-first" is the scale of Algorithm 2; for the search the hints are met instead.
        """
        local, glob = self.penalty_local, self.penalty_global
        if self.algorithm == "paper":
            if local == "farthest-first":
                local = local_gap(rows.X, None, rows.group, self.n_local_hint or 1)
            if glob == "farthest-first":
                glob = group_gap(rows.X, rows.w, rows.group, self.n_global_hint or 1)
        if not isinstance(local, str) and not isinstance(glob, str):
            return float(local), float(glob), None
        given = tuple(None if isinstance(v, str) else float(v) for v in (local, glob))
        hints = (self.n_local_hint, self.n_global_hint)
        found = find_shared_path(rows, given, hints, options.random_state)  # type: ignore
        automatic = "auto" in (local, glob)
        return *found[:2], found[2] if automatic else None

    def _search(
        self,
        rows: Grouped,
        local: float,
        glob: float,
        path: Staircase | None,
        options: Options,
    ) -> tuple[float, float, SharedClustering]:
        """The search, from Algorithm 2 among others; clusters from the heaviest to the lightest.

        Where a number was chosen and the search finds another one, λ_g is raised or lowered a few
        times; the nearest number is kept, with its λ_g. Groups that are alike are searched as one.
        """
        if path is not None and path.best().reason.startswith(ALIKE):
            return self._search_pooled(rows, path, options)
        number = None
        known = [hard_hdp(rows, local, glob, options.max_iter).labels]
        if path is not None:
            number = path.best().number
            known.append(nearest(rows.X, path.centers_at(path.best().price) - rows.offset))
        best = None
        for _ in range(TRIES):
            price = SharedPrice(glob, len(rows.X), local=local)
            space = GroupedSpace(rows.X, rows.w, rows.group, price)
            found, history = search(space, **options.for_search(), labels=known)
            if best is None or abs(found.k - (number or 0)) < abs(best[1].k - (number or 0)):
                best = glob, found, history
            if number is None or found.k == number:
                break
            glob *= STEP if found.k > number else 1 / STEP
        assert best is not None
        glob, found, history = best
        return local, glob, clustering_of(found, history)

    def _search_pooled(
        self, rows: Grouped, path: Staircase, options: Options
    ) -> tuple[float, float, SharedClustering]:
        """The clusters of all rows together, and then the moves that groups add."""
        choice, n = path.best(), len(rows.X)
        found, _, total = search_number(
            DenseSpace(rows.X, rows.w, fixed(choice.number, n)),
            choice.number,
            choice.price,
            max_clusters=None,
            centers=[path.centers_at(choice.price) - rows.offset],
            **options.for_search(),
        )
        local, glob = shares(total, rows)
        grouped = GroupedSpace(rows.X, rows.w, rows.group, SharedPrice(glob, n, local=local))
        now = grouped.division(found.labels)
        history = [now.objective]
        better = grouped.move(now)
        if better.k == now.k and better.objective < now.objective:
            now = better
            history.append(now.objective)
        return local, glob, clustering_of(now, history)

    def _fit_paper(
        self,
        rows: Grouped,
        local: float,
        glob: float,
        path: Staircase | None,
        options: Options,
    ) -> tuple[float, float, SharedClustering]:
        """Algorithm 2; where a number was chosen, at penalties of its own scale that give it."""
        if path is None or "auto" not in (self.penalty_local, self.penalty_global):
            return local, glob, hard_hdp(rows, local, glob, options.max_iter)
        number = path.best().number
        share = float(np.clip(local / (local + glob), 0.1, 0.9))

        def solve(total: float) -> SharedClustering:
            return hard_hdp(rows, share * total, (1 - share) * total, options.max_iter)

        first = first_gap(Rows(rows.X, weight=rows.w), number)
        total, found = printed_number(solve, lambda found: found.k, number, first)
        return share * total, (1 - share) * total, found

    @property
    def gap_(self) -> float:
        """At most this share of the objective could still be saved."""
        return max(self.objective_ - self.relaxed_bound_, 0.0) / self.objective_

    def _store_labels(self, labels: np.ndarray, groups: Groups) -> None:
        self.labels_ = labels.astype(np.int32)
        self.local_labels_ = number_locally(self._rows_of, groups.code, labels).astype(np.int32)

    def _nearest_of_group(self, gaps: np.ndarray, code: np.ndarray) -> np.ndarray:
        """For rows that do not count: the nearest cluster that their group uses, or any."""
        uses = self._rows_of[code].toarray() > 0
        uses[~uses.any(axis=1)] = True
        return np.where(uses, gaps, np.inf).argmin(axis=1)

    def _surcharge(self, groups: Any, n: int) -> tuple[np.ndarray, sp.csr_array]:
        """The group of each row (one beyond the last: new), and which clusters the groups use."""
        uses = sp.vstack([self._rows_of, sp.csr_array((1, self.n_clusters_), dtype=np.int64)])
        new = len(self.groups_)
        if groups is None:
            return np.full(n, new), sp.csr_array(uses)
        names, code, _, _ = check_groups(groups, n)
        try:
            at = np.minimum(np.searchsorted(self.groups_, names), new - 1)
            known = self.groups_[at] == names
        except TypeError:  # text where there were numbers, or the other way round
            at, known = np.zeros(len(names), np.int64), np.zeros(len(names), bool)
        return np.where(known, at, new)[code], sp.csr_array(uses)

    def _price_of_opening(self) -> float:
        return self.penalty_local_ + self.penalty_global_

    def _cheapest(self, distances: Any, n: int, groups: Any) -> tuple[np.ndarray, ...]:
        """The cluster with the least d² + λ_l·[not used by the group], d², and this sum;
        `distances(a, b)` has one line for each cluster."""
        code, uses = self._surcharge(groups, n)
        labels, d2, paid = np.empty(n, dtype=np.int32), np.empty(n), np.empty(n)
        step = max(1, COSTS // self.n_clusters_)
        for a in range(0, n, step):
            b = min(n, a + step)
            gaps = distances(a, b)
            cost = gaps + self.penalty_local_ * (uses[code[a:b]].toarray().T == 0)
            labels[a:b] = cost.argmin(axis=0)
            d2[a:b], paid[a:b] = gaps[labels[a:b], np.arange(b - a)], cost.min(axis=0)
        return labels, np.maximum(d2, 0.0), paid
