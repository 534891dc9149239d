"""What `HardHDP` and `KernelHardHDP` share: penalties, fitting, predicting."""

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from madbayes._model.fitting import Options, begin, keep_choice, warn_if_unfinished
from madbayes._partition.lloyd import nearest
from madbayes._rows.checks import check_count
from madbayes._rows.content import content_order
from madbayes._rows.executor import HERE
from madbayes._rows.row_kernels import squared_error
from madbayes._rows.rows import DISK_VALUES, Rows, on_disk
from madbayes._search.division import Division
from madbayes._search.driver import by_size, descend, search
from madbayes._search.number import printed_number
from madbayes.groups.algorithm2 import GroupedLabels, SharedClustering, hard_hdp
from madbayes.groups.farthest import group_gap, local_gap
from madbayes.groups.grouped_rows import (
    Grouped,
    Groups,
    check_groups,
    number_locally,
    put_together,
    usage,
)
from madbayes.groups.path import Pair, Plan, find_plan, space_of
from madbayes.groups.relaxation import relaxed_bound, rounded
from madbayes.howmany.staircase import Staircase
from madbayes.kmeans.farthest import first_gap


def check_penalty(name: str, value: Any) -> Any:
    """A positive finite float, "auto" or "farthest-first"."""
    if value in ("auto", "farthest-first") and isinstance(value, str):
        return value
    what = "group's share of a cluster" if name == "penalty_local" else "shared cluster"
    text = (
        f"{name}={value!r} must be a number > 0, 'auto' or 'farthest-first'. It is the cost of one "
        f"more {what}, in squared-distance units; penalties.hdp_farthest_first(X, groups, n_local, "
        "n_global) proposes both for rough numbers of clusters."
    )
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(text)
    if not 0 < float(value) < np.inf:
        raise ValueError(text)
    return float(value)


def numbers_of(local: Any, glob: Any) -> Pair:
    """The penalties that are numbers; None for those to be found."""
    return (
        None if isinstance(local, str) else float(local),
        None if isinstance(glob, str) else float(glob),
    )


def clustering_of(found: Division, history: list[float]) -> SharedClustering:
    """Clusters from the heaviest to the lightest."""
    rank = by_size(found.centers, found.weights)
    return SharedClustering(np.argsort(rank)[found.labels], history, len(history), True)


def print_labels(rows: Grouped, local: float, glob: float, max_iter: int) -> SharedClustering:
    """KJ Algorithm 2 in this process."""
    state = GroupedLabels([rows], [len(rows.X)], rows.X.shape[1], HERE)
    found = hard_hdp(state, local, glob, max_iter)
    return replace(found, labels=found.labels[0])


def round_and_polish(rows: Grouped, plan: Plan, options: Options) -> SharedClustering:
    """`relaxation.py`: eigenvectors, rounded; then the moves and splits of the search."""
    rng, space = options.random_state, space_of(rows, plan.local, plan.glob)
    first = space.division(rounded(rows, plan.local, plan.glob, rng))
    history = [first.objective]
    return clustering_of(descend(space, first, rng, history), history)


class SharedClusters:
    """What `HardHDP` and `KernelHardHDP` share: checks, algorithms, and what is stored."""

    penalty_local: Any
    penalty_global: Any
    algorithm: str
    n_local_hint: int | None
    n_global_hint: int | None
    fit: Any
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

    def fit_predict(
        self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None
    ) -> np.ndarray:
        """Fit and return `labels_`."""
        return self.fit(X, sample_weight=sample_weight, groups=groups).labels_

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
        """Fit checked rows: everything that does not depend on how a centre is stored.

        Returns the grouped rows, their division, and the label of each row of X (-1 for a row of
        weight 0).
        """
        large = on_disk(X) and X.shape[0] * X.shape[1] > DISK_VALUES
        if self.algorithm != "paper":
            if large:
                raise ValueError(
                    f"algorithm={self.algorithm!r} needs the rows in memory, and X has "
                    f"{X.shape[0]:,} of {X.shape[1]} columns on disk. Use algorithm='paper', or "
                    "np.array(X) if it fits."
                )
            order = content_order(X, weight, 0)  # a shuffled table gives the same clusters
            groups = groups._replace(order=order[np.argsort(groups.code[order], kind="stable")])
        rows = put_together(X, weight, groups)
        plan = self._plan(rows, options)
        if self.algorithm == "paper":
            plan, found = self._print(rows, plan, options)
        elif self.algorithm == "spectral":
            found = round_and_polish(rows, plan, options)
        else:
            plan, found = self._search(rows, plan, options)
        warn_if_unfinished(self, found.converged)
        division = space_of(rows, plan.local, plan.glob).division(found.labels)
        if plan.path is not None:
            keep_choice(self, plan.path, division.k, plan.glob)
        used = usage(rows.group, division.labels, (len(groups.names), division.k))
        inertia = float(squared_error(rows.X, rows.w, division.labels, division.centers))
        self._store_found(groups.names, found, used, inertia, plan)
        if not large:
            self.relaxed_bound_ = relaxed_bound(rows, plan.local, plan.glob)
        labels = np.full(X.shape[0], -1, dtype=np.int64)
        labels[rows.place] = division.labels
        return rows, division, labels

    def _store_found(
        self,
        names: np.ndarray,
        found: SharedClustering,
        used: sp.csr_array,
        inertia: float,
        plan: Plan,
    ) -> None:
        """`used`: how many rows of each group are in each cluster."""
        self.groups_, self._rows_of = names, used
        self.n_local_clusters_ = np.diff(used.indptr)
        self.n_clusters_ = used.shape[1]
        self.penalty_local_, self.penalty_global_ = plan.local, plan.glob
        self.objective_, self.inertia_ = found.history[-1], inertia
        self.objective_history_ = np.array(found.history)
        self.n_iter_, self.converged_ = found.n_iter, found.converged

    def _plan(self, rows: Grouped, options: Options) -> Plan:
        """The penalties, and the path where they are found.

        "farthest-first" is the scale of Algorithm 2; the search meets the hints instead.
        """
        local, glob = self.penalty_local, self.penalty_global
        if self.algorithm == "paper":
            if local == "farthest-first":
                local = local_gap(rows.X, None, rows.group, self.n_local_hint or 1)
            if glob == "farthest-first":
                glob = group_gap(rows.X, rows.w, rows.group, self.n_global_hint or 1)
        if not isinstance(local, str) and not isinstance(glob, str):
            return Plan(float(local), float(glob))
        hints = (self.n_local_hint, self.n_global_hint)
        plan = find_plan(rows, numbers_of(local, glob), hints, options)
        return plan if "auto" in (local, glob) else plan._replace(path=None)

    def _search(self, rows: Grouped, plan: Plan, options: Options) -> tuple[Plan, SharedClustering]:
        """The search, from Algorithm 2 among others.

        If the search finds another number than the path chose, λ_g rises or falls a few times; the
        nearest number is kept, with its λ_g.
        """
        if plan.labels is not None:
            return plan, self._polish(rows, plan)
        number = None if plan.path is None else plan.path.best().number
        known = [print_labels(rows, plan.local, plan.glob, options.max_iter).labels]
        if plan.path is not None:
            centers = plan.path.centers_at(plan.path.best().price)
            known.append(nearest(rows.X, centers - rows.offset))
        found: list[tuple[int, Plan, Division, list[float]]] = []
        while len(found) < 3:
            space = space_of(rows, plan.local, plan.glob)
            now, history = search(space, **options.for_search(), labels=known)
            found.append((abs(now.k - (number or now.k)), plan, now, history))
            if now.k == (number or now.k):
                break
            plan = plan._replace(glob=plan.glob * (1.5 if now.k > (number or 0) else 1 / 1.5))
        _, plan, now, history = min(found, key=lambda each: each[0])
        return plan, clustering_of(now, history)

    def _polish(self, rows: Grouped, plan: Plan) -> SharedClustering:
        """Moves of rows and of local clusters, as long as they keep the number of clusters."""
        space = space_of(rows, plan.local, plan.glob)
        assert plan.labels is not None
        now = space.division(plan.labels)
        history, better = [now.objective], space.move(now)
        if better.k == now.k and better.objective < now.objective:
            now = better
            history.append(now.objective)
        return clustering_of(now, history)

    def _print(self, rows: Grouped, plan: Plan, options: Options) -> tuple[Plan, SharedClustering]:
        """Algorithm 2; where a number was chosen, at penalties of its own scale that give it."""
        if plan.path is None:
            return plan, print_labels(rows, plan.local, plan.glob, options.max_iter)
        number = plan.path.best().number
        share = float(np.clip(plan.local / (plan.local + plan.glob), 0.1, 0.9))

        def solve(total: float) -> SharedClustering:
            return print_labels(rows, share * total, (1 - share) * total, options.max_iter)

        first = first_gap(Rows(rows.X, weight=rows.w), number)
        total, found = printed_number(
            solve, lambda found: int(found.labels.max()) + 1, number, first
        )
        return plan._replace(local=share * total, glob=(1 - share) * total), found

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
        step = max(1, 2**20 // self.n_clusters_)  # so that the block of costs stays small
        for a in range(0, n, step):
            b = min(n, a + step)
            gaps = distances(a, b)
            cost = gaps + self.penalty_local_ * (uses[code[a:b]].toarray().T == 0)
            labels[a:b] = cost.argmin(axis=0)
            d2[a:b], paid[a:b] = gaps[labels[a:b], np.arange(b - a)], cost.min(axis=0)
        return labels, np.maximum(d2, 0.0), paid
