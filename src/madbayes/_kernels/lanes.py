"""The lower bounds of one row, several groups at a time.

LLVM makes plain loops into vectors only by luck (here it does not), so it is told, as in `panels`.
The plain functions say the same in numpy; they run where Numba does not compile, and tests compare.
Rows of bounds are LANES wide or a multiple of it.
"""

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic

from madbayes._kernels.bounds import DOWN32, ZERO32
from madbayes._kernels.panels import INDEX, INT, at, in_order, pick, reals

LANES = 8  # groups


def plain_loosen(lower, i, others, p):
    """The lower bounds of row i, of cluster p, after the drift of the centres; the lowest."""
    lower[i] = np.maximum(ZERO32, lower[i] - others[p]) * DOWN32
    return lower[i].min()


def plain_within(lower, i, first, limit):
    """Which of LANES lower bounds of row i, from `first` on, are at most `limit`: a bit each."""
    return int(((lower[i, first : first + LANES] <= limit) << np.arange(LANES)).sum())


def plain_lowest_bit(bits):
    """The place of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


def row_of(builder, array, i):
    """Where row i begins, and how long it is."""
    width = builder.extract_value(array.shape, 1)
    return builder.gep(array.data, [builder.mul(i, width)]), width


def constant(value):
    return ir.Constant(reals(LANES), [float(value)] * LANES)


def code_of_loosen(context, builder, signature, args):
    lower, others = (
        context.make_array(signature.args[e])(context, builder, args[e]) for e in (0, 2)
    )
    line, width = row_of(builder, lower, args[1])
    moved, _ = row_of(builder, others, args[3])
    before = builder.block
    loop, end = builder.append_basic_block("groups"), builder.append_basic_block("lowest")
    builder.branch(loop)
    builder.position_at_end(loop)
    g, low = builder.phi(INDEX), builder.phi(reals(LANES))
    bounds, drift = (
        builder.load(at(builder, row, g, reals(LANES)), align=4) for row in (line, moved)
    )
    bounds = in_order(builder, constant(0.0), builder.fsub(bounds, drift))[1]
    bounds = builder.fmul(bounds, constant(DOWN32))
    builder.store(bounds, at(builder, line, g, reals(LANES)), align=4)
    lowest = in_order(builder, bounds, low)[0]
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
    lower = context.make_array(signature.args[0])(context, builder, args[0])
    line, _ = row_of(builder, lower, args[1])
    bounds = builder.load(at(builder, line, args[2], reals(LANES)), align=4)
    none = ir.Constant(reals(LANES), ir.Undefined)
    limit = builder.insert_element(none, args[3], ir.Constant(INT, 0))
    limit = pick(builder, limit, none, [0] * LANES)
    found = builder.fcmp_ordered("<=", bounds, limit)
    return builder.zext(builder.bitcast(found, ir.IntType(LANES)), INDEX)


def code_of_lowest_bit(context, builder, signature, args):
    return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))


@intrinsic
def fast_loosen(typing, lower, i, others, p):
    """The same as `plain_loosen`."""
    return types.float32(lower, types.int64, others, types.int64), code_of_loosen


@intrinsic
def fast_within(typing, lower, i, first, limit):
    """The same as `plain_within`."""
    signature = types.int64(lower, types.int64, types.int64, types.float32)
    return signature, code_of_within


@intrinsic
def fast_lowest_bit(typing, bits):
    """The same as `plain_lowest_bit`."""
    return types.int64(types.int64), code_of_lowest_bit


loosen = plain_loosen if config.DISABLE_JIT else fast_loosen
within = plain_within if config.DISABLE_JIT else fast_within
lowest_bit = plain_lowest_bit if config.DISABLE_JIT else fast_lowest_bit
