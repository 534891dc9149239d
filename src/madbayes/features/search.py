"""The search that the feature models share: births, deaths and swaps, each polished exactly.

J = squared error + penalty × K, with at most `cap` features. With penalty 0 this is K-features.

1. Birth: a feature grown from residuals, as long as one lowers J.
2. Try a swap, a birth or a death at random, polish, and keep the result if J is lower. The tries
   end after `patience` failures, or when they have used up their budget (`budget`), because on
   noise there is always a little to gain. Costs are counted, not timed.
3. Polish: choose each row's z exactly, compute A by least squares, drop features that do not pay,
   until nothing changes. Then change rows one by one, while A refits at once; both again, until
   nothing changes.
"""

from collections.abc import Callable

import numpy as np

from madbayes._rows.progress import Stage
from madbayes.features.allocation import Allocation
from madbayes.features.collapsed_pass import collapsed_pass
from madbayes.features.segment import Bounds
from madbayes.features.solve import Features, Start, finish

TINY = 32  # rows: up to here any allocation is worth a try, which reaches the optimum more often
SMALL = 2**14  # values in X: in smaller tables a try costs so little that nothing is cut short
MOST_PATIENCE = 60  # tries in vain that end a search at effort 1, at most
NO_SEARCH = 0.01  # effort below which features are not exchanged: the algorithm as printed
PRODUCTS = 2**31  # what the tries may cost, about 2 s; more only with more effort
FEW_NODES = 512  # of the search tree of a row (beyond 12 features) until the last polish
SEEDS = 6  # rows that a birth is grown from

Descent = Callable[[Allocation, float, int, float], bool]  # state, penalty, cap, target


# What a search may cost


def few(shape: tuple[int, int]) -> int:
    """Starts of a search."""
    return 3 if shape[0] * shape[1] <= SMALL else 1


def default_patience(shape: tuple[int, int], effort: float) -> int:
    """Tries in vain before the search ends: fewer where each takes long, none with no effort."""
    if effort < NO_SEARCH:
        return 0
    most = MOST_PATIENCE if shape[0] > TINY else 150
    return round(effort * float(np.clip(3e6 / (shape[0] * max(shape[1], 1)), 10, most)))


def harder(state: Allocation) -> float:
    """The factor by which K features need more tries: it grows like the number of their pairs."""
    K = min(state.K, state.d)
    pairs = max(1.0, (1 + K) * (2 + K) / 24)
    return pairs if state.n > TINY else min(2.0, pairs)


def budget(state: Allocation, patience: float) -> float:
    """2. What the tries may cost together: 20 passes over the rows (or 2^14 rows, if that is more)
    for each try in vain that is allowed, and at least 30 such tries."""
    passes = max(patience * harder(state), 30) * max(2**14 / state.n, 20)
    return min(passes * state.one_pass(), max(1, patience / MOST_PATIENCE) * PRODUCTS)


# The steps


def hopeless(state: Allocation, before: float, now: float, target: float) -> bool:
    """Whether J, which fell from `before` to `now`, will probably stay above `target`: even 10 more
    steps like the last one (30 in small tables) would not reach it."""
    steps = 10 if state.n * state.d > SMALL else 30
    return now - steps * (before - now) > target


def alternate(
    state: Allocation,
    penalty: float,
    target: float = np.inf,
    least: float = 0.0,
    rounds: int = 200,
    bounds: Bounds | None = None,
) -> tuple[int, int]:
    """Choose z exactly, compute A by least squares, drop features that do not pay; repeat.

    Ends when nothing changes, when there is no hope for a J below `target`, or when a round gains
    no more than the share `least` of J. With `bounds` the errors of rows that do not change are not
    updated. Returns the number of changes, and of rounds that are left.
    """
    total, before, own = 0, np.inf, bounds or Bounds()
    large = state.n * state.d > SMALL
    while rounds > 0:
        rounds -= 1
        K = state.K
        changed = state.assign_some(own) if large else state.assign("exact")
        state.refit(penalty)
        changed += state.K != K
        total += changed
        now = state.objective(penalty)
        if not changed or now >= before or before - now < least * now:
            break
        if before < np.inf and hopeless(state, before, now, target):
            break
        before = now
    if bounds is None:
        state.catch_up(own)
    return total, rounds


def polish(
    state: Allocation,
    penalty: float,
    cap: int,
    target: float = np.inf,
    least: float | None = None,
    rounds: int = 200,
) -> bool:
    """3. Polish until no row and no feature can change; return whether this state was reached.

    The polish ends early if J stays well above `target`, or if a round gains no more than the share
    `least` of J (by default 1e-5 in large tables, where the last polish does the rest).
    """
    large = state.n * state.d > SMALL
    least = 1e-5 * large if least is None else least
    bounds = Bounds()
    while rounds > 0:
        before = state.objective(penalty)
        changed, rounds = alternate(state, penalty, target, least, rounds, bounds)
        if state.objective(penalty) > target + (0.01 if large else 0.1) * abs(target):
            state.catch_up(bounds)
            return False
        K, Z = state.K, state.Z.copy()
        flips = collapsed_pass(state, penalty, cap)
        if state.K == K:
            bounds.forget((state.Z != Z).any(axis=1))
        now = state.objective(penalty)
        if (not flips and state.K == K) or (now >= before and not changed):
            return True
        if hopeless(state, before, now, target) or before - now < least * now:
            return False
    return False


def give_birth(state: Allocation, rng: np.random.RandomState, seeds: int = SEEDS) -> bool:
    """1. The best of a few births."""
    rows = state.draw(rng, seeds)
    if rows.size == 0:
        return False
    rounds = 10 if state.n * state.d <= SMALL else 4
    z, a, saved = state.birth(rows, with_mean=seeds > 1, rounds=rounds)
    if not saved > 0:
        return False
    state.add([z], a)
    return True


def grow(
    state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, tries: int
) -> None:
    """1. Births while they lower J, until `tries` births in a row did not."""
    failures = 0
    stage = Stage("finding features")
    while state.K < cap and failures < tries:
        stage.at(state.K)
        before, saved = state.objective(penalty), state.save()
        if not give_birth(state, rng):
            break
        if state.n * state.d <= SMALL:
            polish(state, penalty, cap, before)
        else:  # the polish at the end is soon enough
            alternate(state, penalty, before, least=1e-4)
        if state.objective(penalty) < before - 1e-10 * before:
            failures = 0
        else:
            state.restore(saved)
            failures += 1


def search(
    state: Allocation,
    rng: np.random.RandomState,
    penalty: float,
    cap: int,
    patience: int,
    on_step: Callable[[float], None] | None = None,
    goal: float = np.inf,
) -> bool:
    """Steps 1 to 3 from the present state; return whether the last polish was completed.

    `goal`: the caller needs only a J below it, so less work is spent where J stays above.
    """
    on_step = on_step or (lambda J: None)
    on_step(state.objective(penalty))
    state.most_nodes = FEW_NODES
    alternate(state, penalty, least=1e-5 * (state.n * state.d > SMALL))
    grow(state, rng, penalty, cap, 3)
    polish(state, penalty, cap, goal)
    on_step(state.objective(penalty))
    exchange(state, rng, penalty, cap, patience, on_step, goal=goal)
    # The trees of all rows together have at most 2^24 nodes in the last polish.
    state.most_nodes = int(np.clip(2**24 / state.n, FEW_NODES, Allocation.most_nodes))
    converged = polish(state, penalty, cap, min(goal, state.beat), 0.0, 2000)
    on_step(state.objective(penalty))
    return converged


def exchange(
    state: Allocation,
    rng: np.random.RandomState,
    penalty: float,
    cap: int,
    patience: int,
    on_step: Callable[[float], None],
    descend: Descent = polish,
    goal: float = np.inf,
) -> bool:
    """2. Tries until `patience` of them failed (more for many features) or the budget is used up.

    Returns whether `descend` was completed in the last try that was kept.
    """
    converged = True
    failures, begun, most = 0, state.work, state.K
    stage = Stage("exchanging features", patience)
    while cap > 0 and failures < patience * harder(state):
        before, saved = state.objective(penalty), state.save()
        if before <= 0 or state.work - begun > budget(state, patience):
            break
        stage.at(failures)
        disturb(state, rng, penalty, cap)
        ended = descend(state, penalty, cap, min(before, goal))
        if state.objective(penalty) < before - 1e-10 * before:
            failures, converged = 0, ended
            on_step(state.objective(penalty))
            if state.K > most:  # one more feature has a budget of its own
                begun, most = state.work, state.K
        else:
            state.restore(saved)
            failures += 1
    return converged


def disturb(state: Allocation, rng: np.random.RandomState, penalty: float, cap: int) -> None:
    """2. Drop a feature, give birth to one, or both; or replace one by its sum with another, or by
    the difference. In tiny tables also give a feature to rows at random.

    A feature that costs little to drop is drawn more often.
    """
    move = rng.random_sample()
    if state.K and state.n <= TINY and rng.random_sample() < 2 / (1 + state.K):
        state.Z[:, rng.randint(state.K)] = rng.randint(2, size=state.n)
        state.measure()
        state.refit()
        return
    if state.K > 1 and rng.random_sample() < 0.2:
        i, j = rng.permutation(state.K)[:2]
        state.A[i] += state.A[j] * (1.0 if move < 0.5 else -1.0)
        return  # the polish shows which rows take the new feature
    seeds = SEEDS if rng.random_sample() < 0.5 else 1  # the best of several births, or any
    if state.K and (move < 0.7 or state.K >= cap):
        costs = state.death_costs()
        ease = 1.0 / (costs + 1e-3 * costs.max() + 1e-300)
        pick = 0.5 * ease / ease.sum() + 0.5 / state.K
        state.drop(int(rng.choice(state.K, p=pick / pick.sum())))
        if penalty > 0 and move <= 0.1:
            return
        if move < 0.5:
            state.assign("exact")
            state.refit()
        state.measure()
    give_birth(state, rng, seeds)


def settle(
    state: Allocation,
    rng: np.random.RandomState,
    penalty: float,
    cap: int,
    on_step: Callable[[float], None],
) -> bool:
    """Improve features that were found among some of the rows, on all rows: polish and births.

    Births from rows that are drawn by their error find features that too few of the searched rows
    had.
    """
    on_step(state.objective(penalty))
    alternate(state, penalty, least=1e-4)
    if state.K < cap:
        grow(state, rng, penalty, cap, 1)
    on_step(state.objective(penalty))
    converged = polish(state, penalty, cap, least=0.0, rounds=2000)
    on_step(state.objective(penalty))
    return converged


def search_start(find: Callable[..., bool]) -> Start:
    """A start of a `Method`, from ``find(state, rng, penalty, cap, on_step=…) -> converged``."""

    def start(
        state: Allocation, rng: np.random.RandomState, penalty: float, cap: int, given: bool
    ) -> Features:
        paid = penalty * state.K if given else 0.0
        history = [state.objective(penalty)]
        price, most = (0.0, state.K) if given else (penalty, cap)
        converged = find(state, rng, price, most, on_step=lambda J: history.append(J + paid))
        return finish(state, penalty, history, len(history), converged)

    return start
