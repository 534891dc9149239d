"""The search that the feature models share: births, deaths and swaps, each polished exactly.

J = squared error + penalty × K, with at most `cap` features. With penalty 0 this is K-features.

1. Birth: a feature grown from residuals, as long as one lowers J.
2. Try a swap, a birth or a death at random, polish, and keep the result if J is lower. The tries
   end after `patience` failures, or when they have used up their budget (`budget`),
   because on noise there is always a little to gain. Costs are counted, not timed.
3. Polish: choose each row's z exactly, compute A by least squares, drop features that do not pay,
   until nothing changes. Then change rows one by one, while A refits at once; both again, until
   nothing changes.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from madbayes._rows.progress import Stage
from madbayes.features.allocation import Allocation
from madbayes.features.collapsed_pass import collapsed_pass
from madbayes.features.segment import Bounds
from madbayes.features.solve import Features, Start, finish

TINY = 32  # rows: up to here any allocation is worth a try
SMALL = 2**14  # values in X: up to here a polish is always worth finishing
MOST_PATIENCE = 60  # tries in vain, by default
NO_SEARCH = 0.01  # effort below which features are not exchanged: the algorithm as printed
TRIES = 30  # that are paid for at least
VISITS = 2**14  # of rows, for each try in vain that is allowed: what a search may cost …
PASSES = 20  # … or so many passes over all rows …
PRODUCTS = 2**31  # … but no more than so many products, more only with more effort
LEAST_GAIN = 1e-5  # part of J that a round of a polish gains at least
FEW_NODES = 512  # of the search tree of a row (beyond 12 features) until the last polish
ALL_NODES = 2**24  # of the search trees of all rows together in the last polish
SEEDS = 6  # rows that a birth is grown from
ROUNDS = 200  # at most, in the polish of a try
LAST_ROUNDS = 2000  # and in the last one
HOPE = 10  # a polish goes on if this many steps like the last one would reach the target …
LONG_HOPE = 30  # … or this many, in small data
RECOMBINED = 0.2  # of the tries of a search: two features recombined
TWICE = 0.3  # of the tries: two exchanges at once


Descent = Callable[[Allocation, float, int, float], bool]  # state, penalty, cap, target


# What a search may cost


def few(shape: tuple[int, int]) -> int:
    """Starts of a search."""
    return 3 if shape[0] * shape[1] <= SMALL else 1


def default_patience(shape: tuple[int, int], effort: float) -> int:
    """Tries in vain before the search ends: fewer where each takes long, none with hardly any."""
    if effort < NO_SEARCH:
        return 0
    most = MOST_PATIENCE if shape[0] > TINY else 150
    return round(effort * float(np.clip(3e6 / (shape[0] * max(shape[1], 1)), 10, most)))


def harder(state: Allocation) -> float:
    """How many more tries so many features need: about as many as there are pairs of them."""
    K = min(state.K, state.d)
    pairs = max(1.0, (1 + K) * (2 + K) / 24)
    return pairs if state.n > TINY else min(2.0, pairs)


def budget(state: Allocation, patience: float) -> float:
    """2. What the tries may cost together."""
    passes = max(patience * harder(state), TRIES) * max(VISITS / state.n, PASSES)
    return min(passes * state.one_pass(), max(1, patience / MOST_PATIENCE) * PRODUCTS)


def least_gain(state: Allocation) -> float:
    """The part of J that a round of a polish, but the last, should gain at least."""
    return LEAST_GAIN if state.n * state.d > SMALL else 0.0


def last_nodes(state: Allocation) -> int:
    """Nodes of the search tree of each row in the last polish: fewer where rows are many."""
    return int(np.clip(ALL_NODES / state.n, FEW_NODES, Allocation.most_nodes))


# The steps


def alternate(
    state: Allocation,
    penalty: float,
    target: float = np.inf,
    least: float = 0.0,
    rounds: int = ROUNDS,
    bounds: Bounds | None = None,
) -> tuple[int, int]:
    """Choose z exactly, compute A by least squares, drop features that do not pay; repeat.

    Ends when nothing changes, when the last steps show that J will not fall below `target`, or when
    a step gains no more than the share `least` of J. With `bounds` the errors of rows that do not
    change are not updated. Returns the number of changes, and of rounds that are left.
    """
    total, before, own = 0, np.inf, bounds or Bounds()
    large = state.n * state.d > SMALL
    hope = HOPE if large else LONG_HOPE
    for step in range(rounds):
        rounds -= 1
        K = state.K
        changed = state.assign_some(own) if large else state.assign("exact")
        state.refit(penalty)
        changed += state.K != K
        total += changed
        now = state.objective(penalty)
        if not changed or now >= before or before - now < least * now:
            break
        if step > 0 and now - hope * (before - now) > target:
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
    least: float = 0.0,
    rounds: int = ROUNDS,
) -> bool:
    """3. Polish until no row and no feature can change; return whether this state was reached.

    The polish ends early if J stays well above `target`, or if a round gains no more than the share
    `least` of J.
    """
    hope, margin = (HOPE, 0.01) if state.n * state.d > SMALL else (LONG_HOPE, 0.1)
    bounds = Bounds()
    while rounds > 0:
        before = state.objective(penalty)
        changed, rounds = alternate(state, penalty, target, least, rounds, bounds)
        if state.objective(penalty) > target + margin * abs(target):
            state.catch_up(bounds)
            return False
        K, Z = state.K, state.Z.copy()
        flips = collapsed_pass(state, penalty, cap)
        if state.K == K:
            bounds.forget((state.Z != Z).any(axis=1))
        now = state.objective(penalty)
        if not flips and state.K == K:
            return True
        if now >= before and not changed:
            return True
        if now - hope * (before - now) > target or before - now < least * now:
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
    state: Allocation,
    rng: np.random.RandomState,
    penalty: float,
    cap: int,
    tries: int,
    goal: float = np.inf,
) -> None:
    """1. Births while they pay."""
    failures = 0
    stage = Stage("finding features")
    while state.K < cap and failures < tries:
        stage.at(state.K)
        before, saved = state.objective(penalty), state.save()
        if not give_birth(state, rng):
            break
        last = state.K >= cap
        target = min(before, goal) if last else before
        if state.n * state.d <= SMALL:
            polish(state, penalty, cap, target)
        else:  # the polish at the end is soon enough
            alternate(state, penalty, target, least=1e-4)
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

    `goal`: the caller needs only a J below it, so less work is spent where J will stay above.
    """
    on_step = on_step or (lambda J: None)
    on_step(state.objective(penalty))
    state.most_nodes, least = FEW_NODES, least_gain(state)
    alternate(state, penalty, least=least)
    grow(state, rng, penalty, cap, 3, goal)
    polish(state, penalty, cap, goal, least)
    on_step(state.objective(penalty))
    exchange(state, rng, penalty, cap, patience, on_step, goal, partial(polish, least=least))
    state.most_nodes = last_nodes(state)
    converged = polish(state, penalty, cap, min(goal, state.beat), rounds=LAST_ROUNDS)
    on_step(state.objective(penalty))
    return converged


def exchange(
    state: Allocation,
    rng: np.random.RandomState,
    penalty: float,
    cap: int,
    patience: int,
    on_step: Callable[[float], None],
    goal: float,
    descend: Descent,
) -> bool:
    """2. Tries until `patience` of them failed (more for many features) or the budget is used up.

    Returns whether `descend` was completed in the last try that was kept.
    """
    converged = True
    if cap < 1:
        return converged
    failures, begun, most = 0, state.work, state.K
    stage = Stage("exchanging features", patience)
    while failures < patience * harder(state):
        if state.work - begun > budget(state, patience):
            break
        stage.at(failures)
        before, saved = state.objective(penalty), state.save()
        if before <= 0:
            break
        disturb(state, rng, penalty, cap)
        if state.K > 2 and rng.random_sample() < TWICE:
            state.assign("exact")
            state.refit()
            disturb(state, rng, penalty, cap)
        ended = descend(state, penalty, cap, min(before, goal))
        if state.objective(penalty) < before - 1e-10 * before:
            failures, converged = 0, ended
            on_step(state.objective(penalty))
            if state.K > most:  # with one more feature it begins anew
                begun, most = state.work, state.K
        else:
            state.restore(saved)
            failures += 1
    return converged


def disturb(state: Allocation, rng: np.random.RandomState, penalty: float, cap: int) -> None:
    """2. One feature exchanged for a birth, dropped or born; or a sum or difference of two; of few
    rows also at random."""
    move, full = rng.random_sample(), state.K >= cap
    if state.K and state.n <= TINY and rng.random_sample() < 2 / (1 + state.K):
        state.Z[:, rng.randint(state.K)] = rng.randint(2, size=state.n)
        state.measure()
        state.refit()
        return
    if state.K > 1 and rng.random_sample() < RECOMBINED:
        i, j = rng.permutation(state.K)[:2]
        state.A[i] += state.A[j] * (1.0 if move < 0.5 else -1.0)
        return  # what rows make of it the polish tells
    seeds = SEEDS if rng.random_sample() < 0.5 else 1  # the best birth, or any
    if state.K and (move < 0.7 or full):
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
    converged = polish(state, penalty, cap, rounds=LAST_ROUNDS)
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
