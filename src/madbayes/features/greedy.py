"""Where K-features and BP-means start (BKJ 5), and what their objective is worth there."""

import numpy as np

from madbayes.features.allocation import Allocation


def value(state: Allocation, penalty: float) -> float:
    return state.rss + penalty * state.K


def greedy(state: Allocation, rng: np.random.RandomState, penalty: float, cap: int) -> None:
    """The start of BKJ 5: the mean for all rows, then residuals of rows drawn by squared error.

    With penalty 0 up to `cap` features, otherwise as long as J falls.
    """
    if cap < 1:
        return
    before, saved = value(state, penalty), state.save()
    state.add(state.everybody(), np.zeros(state.d))
    state.measure()
    state.refit()
    state.measure()
    if penalty > 0 and value(state, penalty) >= before:
        state.restore(saved)
    while state.K < cap:
        rows = state.draw(rng, 1)
        if rows.size == 0:
            break
        before, saved = value(state, penalty), state.save()
        a = state.residuals(rows)
        state.add(state.nearer(a[0]), a[0])
        state.measure()
        if value(state, penalty) >= before:
            state.restore(saved)
            break
