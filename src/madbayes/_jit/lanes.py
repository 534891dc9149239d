"""The lower bounds of one row, several groups at a time.

LLVM makes plain loops into vectors only by luck (here it does not), so it is told, as in `panels`.
The plain functions say the same in numpy; they run where Numba does not compile, and tests compare.
Rows of bounds are LANES wide or a multiple of it.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from madbayes._jit.panels import INDEX, INT, at, in_order, pick, reals
from madbayes._jit.rounding import DOWN32, ZERO32

LANES = 8  # groups
BYTE = ir.IntType(8)


def plain_loosen(lower, since, i, drifts, own, lines, a):
    """The lower bounds of row i, each from a pass of its own (`since`), after the drift of the
    centres: in lines[a]. Returns the lowest, group `own` left out."""
    drift = drifts[since[i], np.arange(lower.shape[1])]
    lines[a] = np.maximum(ZERO32, lower[i] - drift) * DOWN32
    return np.delete(lines[a], own).min()


def plain_within(lines, a, first, limit):
    """Which of LANES lower bounds in lines[a], from `first` on, are at most `limit`: a bit each."""
    return int(((lines[a, first : first + LANES] <= limit) << np.arange(LANES)).sum())


def plain_lowest_bit(bits):
    """The place of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def plain_fetch(X, i, j):
    """X[i, j] will be read soon."""


def row_of(builder, array, i):
    """Where row i begins, and how long it is."""
    width = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.mul(i, width)]), width


def constant(value):
    return ir.Constant(reals(LANES), [float(value)] * LANES)


def look_up(builder, table, width, since, g):
    """For LANES groups from g on: the number in the row of `table` that `since` says."""
    found = ir.Constant(reals(LANES), ir.Undefined)
    for lane in range(LANES):
        column = builder.add(g, ir.Constant(INDEX, lane))
        row = builder.zext(builder.load(builder.gep(since, [column])), INDEX)
        place = builder.add(builder.mul(row, width), column)
        value = builder.load(builder.gep(table, [place]))
        found = builder.insert_element(found, value, ir.Constant(INT, lane))
    return found


def code_of_loosen(context, builder, signature, args):
    lower, since, drifts, lines = (
        context.make_array(signature.args[e])(context, builder, args[e]) for e in (0, 1, 3, 5)
    )
    row, width = row_of(builder, lower, args[2])
    line, _ = row_of(builder, lines, args[6])
    marks, _ = row_of(builder, since, args[2])
    lanes = ir.VectorType(INT, LANES)
    none = ir.Constant(lanes, ir.Undefined)
    own = builder.insert_element(none, builder.trunc(args[4], INT), ir.Constant(INT, 0))
    own = pick(builder, own, none, [0] * LANES)
    before = builder.block
    loop, end = builder.append_basic_block("groups"), builder.append_basic_block("lowest")
    builder.branch(loop)
    builder.position_at_end(loop)
    g, low = builder.phi(INDEX), builder.phi(reals(LANES))
    bounds = builder.load(at(builder, row, g, reals(LANES)), align=4)
    drift = look_up(builder, drifts.data, width, marks, g)
    bounds = in_order(builder, constant(0.0), builder.fsub(bounds, drift))[1]
    bounds = builder.fmul(bounds, constant(DOWN32))
    builder.store(bounds, at(builder, line, g, reals(LANES)), align=4)
    here = builder.insert_element(none, builder.trunc(g, INT), ir.Constant(INT, 0))
    here = pick(builder, here, none, [0] * LANES)
    here = builder.add(here, ir.Constant(lanes, list(range(LANES))))
    others = builder.select(builder.icmp_signed("==", here, own), constant(np.inf), bounds)
    lowest = in_order(builder, others, low)[0]
    next_g = builder.add(g, ir.Constant(INDEX, LANES))
    g.add_incoming(ir.Constant(INDEX, 0), before)
    g.add_incoming(next_g, loop)
    low.add_incoming(constant(np.inf), before)
    low.add_incoming(lowest, loop)
    builder.cbranch(builder.icmp_signed("<", next_g, width), loop, end)
    builder.position_at_end(end)
    n = LANES
    while n > 1:
        n //= 2
        halves = (pick(builder, lowest, lowest, range(first, first + n)) for first in (0, n))
        lowest = in_order(builder, *halves)[0]
    return builder.extract_element(lowest, ir.Constant(INT, 0))


def code_of_within(context, builder, signature, args):
    lines = context.make_array(signature.args[0])(context, builder, args[0])
    line, _ = row_of(builder, lines, args[1])
    bounds = builder.load(at(builder, line, args[2], reals(LANES)), align=4)
    none = ir.Constant(reals(LANES), ir.Undefined)
    limit = builder.insert_element(none, args[3], ir.Constant(INT, 0))
    limit = pick(builder, limit, none, [0] * LANES)
    found = builder.fcmp_ordered("<=", bounds, limit)
    return builder.zext(builder.bitcast(found, ir.IntType(LANES)), INDEX)


def code_of_lowest_bit(context, builder, signature, args):
    return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))


def code_of_fetch(context, builder, signature, args):
    X = context.make_array(signature.args[0])(context, builder, args[0])
    row, _ = row_of(builder, X, args[1])
    place = builder.bitcast(builder.gep(row, [args[2]]), BYTE.as_pointer())
    how = [ir.Constant(INT, value) for value in (0, 3, 1)]  # to read, to keep, data
    kind = ir.FunctionType(ir.VoidType(), [place.type, *(value.type for value in how)])
    builder.call(
        builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind), [place, *how]
    )
    return context.get_dummy_value()


@intrinsic
def fast_loosen(typing, lower, since, i, drifts, own, lines, a):
    """The same as `plain_loosen`."""
    index = types.int64
    return types.float32(lower, since, index, drifts, index, lines, index), code_of_loosen


@intrinsic
def fast_within(typing, lines, a, first, limit):
    """The same as `plain_within`."""
    return types.int64(lines, types.int64, types.int64, types.float32), code_of_within


@intrinsic
def fast_lowest_bit(typing, bits):
    """The same as `plain_lowest_bit`."""
    return types.int64(types.int64), code_of_lowest_bit


@intrinsic
def fast_fetch(typing, X, i, j):
    """The same as `plain_fetch`."""
    return types.void(X, types.int64, types.int64), code_of_fetch


loosen = plain_loosen if config.DISABLE_JIT else fast_loosen
within = plain_within if config.DISABLE_JIT else fast_within
fetch = plain_fetch if config.DISABLE_JIT else fast_fetch
lowest_bit = plain_lowest_bit if config.DISABLE_JIT else fast_lowest_bit
