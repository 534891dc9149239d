"""The smoothing of `valley_test.py`: values of nodes averaged along the links many times.

A lazy walk averages a node's value with the mean of its neighbours: v becomes (I + W)v / 2, where W
is the matrix of the links, each row of it divided by its sum. N steps of it are a polynomial in W
that needs far fewer products with W than N. With T_k the Chebyshev polynomials, and because
(1 + cos t) / 2 = cos²(t / 2),

    ((1 + W) / 2)^N = sum over k of p_k T_k(W),  p_k = 2 C(2N, N - k) / 4^N (half for k = 0),

a binomial law of standard deviation √(N / 2): terms beyond four of these add up to 5e-5.

Serial: no result depends on threads.
"""

from math import comb

import numpy as np

from madbayes._jit import inner

TAIL = 4.0  # terms of the sum that are kept, in standard deviations


def smoothing_terms(steps: int) -> np.ndarray:
    """The p_k of so many steps of a lazy walk."""
    kept = range(int(TAIL * np.sqrt(steps / 2)) + 1)
    return np.array([(1 + (k > 0)) * comb(2 * steps, steps - k) / 4**steps for k in kept])


@inner
def smooth(ptr, J, W, value, old, now, total, scale, terms):
    """`value` of the nodes after as many steps of the lazy walk as `terms` is made for.

    `old`, `now`, `total`, `scale`: working memory. Nodes without links keep their value.
    """
    m = ptr.shape[0] - 1
    for i in range(m):
        x = 0.0
        for e in range(ptr[i], ptr[i + 1]):
            x += W[e]
        scale[i] = 1.0 / x if x > 0.0 else 0.0
        now[i], old[i], total[i] = value[i], 0.0, terms[0] * value[i]
    for k in range(1, terms.shape[0]):
        twice = 1.0 if k == 1 else 2.0  # T_1 = W, then T_{k + 1} = 2 W T_k - T_{k - 1}
        for i in range(m):
            a, b = np.int64(ptr[i]), np.int64(ptr[i + 1])
            x, y, end = 0.0, 0.0, a + (b - a) // 2 * 2
            for e in range(a, end, 2):  # two sums that do not wait for each other
                x += W[e] * now[J[e]]
                y += W[e + 1] * now[J[e + 1]]
            if end < b:
                x += W[end] * now[J[end]]
            x = twice * scale[i] * (x + y) - old[i] if scale[i] > 0.0 else now[i]
            old[i] = x
            total[i] += terms[k] * x
        old, now = now, old
    for i in range(m):
        value[i] = total[i]
