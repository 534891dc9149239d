"""Scores of a few rows against panels of centres, in the processor's registers.

A matrix product copies both factors into an order of its own before it starts. Where few rows meet
few centres, as bounds make it, the copies take as long as the product. Centres are the same for a
whole pass, so they are put into panels once: PANEL of them side by side, column by column
(`_partition.prepared_centers`). Then a bunch of rows, wherever they are, meets some panels without
copies: each lane keeps the two smallest scores that it has seen, and only those of a row leave the
registers.

LLVM makes plain loops into this only by luck, so it is told: one vector of PANEL numbers for each
row, cut to the width that the processor has. `plain_compare` says the same in numpy; it runs where
Numba does not compile, and tests compare the two.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

PANEL = 16  # centres
BUNCH = 4  # rows

INT, INDEX, REAL = ir.IntType(32), ir.IntType(64), ir.FloatType()


def plain_compare(panels, half, panel, last, rows, chosen, first, low1, low2, place):
    """Rows chosen[first : first + BUNCH] meet the panels from `panel` to before `last`: the two
    smallest of half - products.

    They go to low1 and low2 from `first` on, and to `place` which centre it was.
    """
    for b in range(first, first + BUNCH):
        score = (half[panel:last] - rows[chosen[b]] @ panels[panel:last]).ravel()
        low1[b], low2[b] = np.sort(score)[:2]
        place[b] = panel * PANEL + np.argmin(score)


def reals(n):
    return ir.VectorType(REAL, n)


def at(builder, pointer, index, kind):
    """The address of `kind`, so many numbers behind `pointer`."""
    return builder.bitcast(builder.gep(pointer, [index]), kind.as_pointer())


def pick(builder, a, b, lanes):
    """Some lanes of the vectors a and b, side by side."""
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(INT, len(lanes)), list(lanes)))


def in_all_lanes(builder, value):
    none = ir.Constant(ir.VectorType(value.type, PANEL), ir.Undefined)
    one = builder.insert_element(none, value, ir.Constant(INT, 0))
    return pick(builder, one, none, [0] * PANEL)


def in_order(builder, a, b):
    """(the smaller, the larger) in each lane."""
    less = builder.fcmp_ordered("<", a, b)
    return builder.select(less, a, b), builder.select(less, b, a)


def products_of(builder, panels, panel, rows, chosen, first):
    """For each row of the bunch a vector of its products with the centres of a panel."""
    d = cgutils.unpack_tuple(builder, rows.shape, 2)[1]
    width = ir.Constant(INDEX, PANEL)
    column = builder.gep(panels.data, [builder.mul(builder.mul(panel, d), width)])
    bunch = []
    for r in range(BUNCH):
        b = builder.add(first, ir.Constant(INDEX, r))
        i = builder.load(builder.gep(chosen.data, [b]))
        bunch.append(builder.gep(rows.data, [builder.mul(i, d)]))
    before = builder.block
    loop, end = builder.append_basic_block("columns"), builder.append_basic_block("scores")
    builder.branch(loop)
    builder.position_at_end(loop)
    j = builder.phi(INDEX)
    sums = [builder.phi(reals(PANEL)) for _ in bunch]
    centers = builder.load(at(builder, column, builder.mul(j, width), reals(PANEL)), align=4)
    after, fused = [], ("contract",)
    for row, total in zip(bunch, sums, strict=True):
        x = in_all_lanes(builder, builder.load(builder.gep(row, [j])))
        product = builder.fmul(x, centers, flags=fused)
        after.append(builder.fadd(total, product, flags=fused))
        total.add_incoming(ir.Constant(reals(PANEL), [0.0] * PANEL), before)
        total.add_incoming(after[-1], loop)
    next_j = builder.add(j, ir.Constant(INDEX, 1))
    j.add_incoming(ir.Constant(INDEX, 0), before)
    j.add_incoming(next_j, loop)
    builder.cbranch(builder.icmp_signed("<", next_j, d), loop, end)
    builder.position_at_end(end)
    return after


def two_lowest(builder, pairs):
    """Of vectors of smallest scores and next ones a lane for each pair: its smallest, and another
    one: the next."""
    n = pairs[0][0].type.count
    while n > 1 or len(pairs) > 1:  # two vectors become one, or one half as long
        n //= 2
        joined = []
        step = 2 if len(pairs) > 1 else 1
        for e in range(0, len(pairs), step):
            (low_a, next_a), (low_b, next_b) = pairs[e], pairs[e + step - 1]
            size = low_a.type.count
            lanes = range(size * step)
            left = [lane for lane in lanes if lane % (2 * n) < n]
            right = [lane for lane in lanes if lane % (2 * n) >= n]
            low, loser = in_order(
                builder, pick(builder, low_a, low_b, left), pick(builder, low_a, low_b, right)
            )
            rest, _ = in_order(
                builder, pick(builder, next_a, next_b, left), pick(builder, next_a, next_b, right)
            )
            joined.append((low, in_order(builder, rest, loser)[0]))
        pairs = joined
    return pairs[0]


def halves_of(builder, score):
    """(the smaller, the larger) of both halves."""
    n = PANEL // 2
    left, right = (pick(builder, score, score, range(first, first + n)) for first in (0, n))
    return in_order(builder, left, right)


def lowest_in_lanes(builder, panel, last, scores):
    """For each row of the bunch, in each lane: the smallest score in the panels from `panel` to
    before `last`, the next one, and the panel of the smallest. `scores` are those of one panel."""
    before = builder.block
    loop, end = builder.append_basic_block("panels"), builder.append_basic_block("lowest")
    builder.branch(loop)
    builder.position_at_end(loop)
    here = builder.phi(INDEX)
    kinds = reals(PANEL), reals(PANEL), ir.VectorType(INT, PANEL)
    seen = [[builder.phi(kind) for kind in kinds] for _ in range(BUNCH)]
    number = in_all_lanes(builder, builder.trunc(here, INT))
    found = []
    for (low, after, where), score in zip(seen, scores(here), strict=True):
        less = builder.fcmp_ordered("<", score, low)
        loser = builder.select(less, low, score)
        low = builder.select(less, score, low)
        after = in_order(builder, loser, after)[0]
        found.append((low, after, builder.select(less, number, where)))
    for phis, values in zip(seen, found, strict=True):
        for phi, value, nothing in zip(phis, values, (np.inf, np.inf, 0), strict=True):
            phi.add_incoming(ir.Constant(phi.type, [nothing] * PANEL), before)
            phi.add_incoming(value, builder.block)
    following = builder.add(here, ir.Constant(INDEX, 1))
    here.add_incoming(panel, before)
    here.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, last), loop, end)
    builder.position_at_end(end)
    return found


def code_of_compare(context, builder, signature, args):
    panel, last, first = args[2], args[3], args[6]
    panels, half, rows, chosen, low1, low2, place = (
        context.make_array(signature.args[i])(context, builder, args[i])
        for i in (0, 1, 4, 5, 7, 8, 9)
    )

    def scores(here):
        begin = builder.mul(here, ir.Constant(INDEX, PANEL))
        products = products_of(builder, panels, here, rows, chosen, first)
        halves = builder.load(at(builder, half.data, begin, reals(PANEL)), align=4)
        return [builder.fsub(halves, product) for product in products]

    def keep(found, pairs):
        low, after = two_lowest(builder, pairs)
        builder.store(low, at(builder, low1.data, first, low.type), align=4)
        builder.store(after, at(builder, low2.data, first, low.type), align=4)
        mask = ir.IntType(PANEL)
        for r, (score, where) in enumerate(found):
            value = builder.extract_element(low, ir.Constant(INT, r))
            same = builder.fcmp_ordered("==", score, in_all_lanes(builder, value))
            lane = builder.cttz(builder.bitcast(same, mask), ir.Constant(ir.IntType(1), 0))
            lane = builder.zext(builder.and_(lane, ir.Constant(mask, PANEL - 1)), INT)  # nan: any
            begin = builder.mul(builder.extract_element(where, lane), ir.Constant(INT, PANEL))
            b = builder.add(first, ir.Constant(INDEX, r))
            builder.store(builder.add(begin, lane), builder.gep(place.data, [b]))

    alone = builder.icmp_signed("==", builder.add(panel, ir.Constant(INDEX, 1)), last)
    with builder.if_else(alone) as (one, many):
        with one:  # a fifth quicker than lanes with nothing to compare with
            here = in_all_lanes(builder, builder.trunc(panel, INT))
            found = scores(panel)
            keep([(score, here) for score in found], [halves_of(builder, s) for s in found])
        with many:
            found = lowest_in_lanes(builder, panel, last, scores)
            keep([(low, where) for low, _, where in found], [pair[:2] for pair in found])
    return context.get_dummy_value()


@intrinsic
def fast_compare(typing, panels, half, panel, last, rows, chosen, first, low1, low2, place):
    """The same as `plain_compare`."""
    index = types.int64
    signature = types.void(panels, half, index, index, rows, chosen, index, low1, low2, place)
    return signature, code_of_compare


compare = plain_compare if config.DISABLE_JIT else fast_compare
