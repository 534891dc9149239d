"""Everything here that leans on the inside of Numba and LLVM. `_jit` works without this file.

Three parts. Without them the results are as good and come later.

1. *A compiler without the passes that no kernel needs* (`Lean`): a first call waits for each pass
   of each function. Numba is meant to be extended by `define_pipelines`; passes go by name.
2. *Vector code* for the function of `vectors.py`, written as LLVM instructions, because LLVM turns
   plain loops into vectors only by luck: scores of a few rows against panels of centres.
3. *A cache with checksums* (`CheckedCache`). Numba reads the files of its cache as they are: a file
   that was cut short or changed on the disk raises UnpicklingError or an LLVM error in somebody's
   fit, or runs as machine code. Each file here ends with the CRC-32 of the rest; a file whose
   checksum does not fit counts as missing, so that the kernel is compiled and the file written
   again. A folder that cannot be written to any more (a full disk) costs the same: the kernel is
   compiled, and not kept.

If Numba changes so that this file cannot be imported, or if MADBAYES_PLAIN_KERNELS is set, `_jit`
takes Numba as it comes and the plain loop of `vectors.py`.
"""

import gc
import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.compiler import Compiler, Flags
from numba.extending import intrinsic

from madbayes._jit.constants import BUNCH, PANEL

# 1. The compiler

# Closures and comprehensions, `with`, array expressions, and overloads that ask to be inlined: what
# needs the first two does not compile, the others are slower without.
NEEDLESS = {"inline_closure_likes", "with_lifting", "nopython_rewrites", "inline_overloads"}

# Called before a kernel of this package is compiled, which is a wait of seconds without a visible
# cause. Numba has events for that, but its listeners hear the compilations of every package.
before_compiling: list[Callable[[], None]] = []


class QuickFlags(Flags):
    """Flags that are equal if the same ones were set to the same values.

    Numba compares them for each operator of a kernel with each way to type it, and collects the
    defaults of all flags for it: that was a quarter of all Python calls of a first fit.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return 0  # Numba's own is that of the names of all flags

    def __eq__(self, other: object) -> Any:
        if isinstance(other, QuickFlags):
            return self._values == other._values
        return super().__eq__(other)


class Lean(Compiler):
    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        if hasattr(self.state.flags, "_values"):
            self.state.flags = QuickFlags(self.state.flags)

    def compile_extra(self, func: Any) -> Any:
        """Compile one kernel, with the garbage collector off.

        A compiler makes objects that stay, by the hundred thousand: each time it has made some, the
        collector looks through all that the process holds, in vain. One compiles at a time, so
        nobody else switches it on or off in between.
        """
        for tell in before_compiling:
            tell()
        collecting = gc.isenabled()
        gc.disable()
        try:
            return super().compile_extra(func)
        finally:
            if collecting:
                gc.enable()

    def define_pipelines(self) -> Any:
        pipelines = super().define_pipelines()
        for pipeline in pipelines:
            pipeline.passes = [p for p in pipeline.passes if p[0].name() not in NEEDLESS]
            pipeline.finalize()
        return pipelines


# 2. Vector code

INT, INDEX, REAL = ir.IntType(32), ir.IntType(64), ir.FloatType()


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
    """`vectors.compare`."""
    index = types.int64
    signature = types.void(panels, half, index, index, rows, chosen, index, low1, low2, place)
    return signature, code_of_compare


# 3. The cache on the disk


def checksum(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def is_whole(path: str) -> bool:
    """Whether the file can be read and ends with the checksum of the rest."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return False
    return len(data) > 4 and checksum(data[:-4]) == data[-4:]


class CheckedFiles(IndexDataCacheFile):
    """The index of a kernel and its compiled versions. `pickle` ignores what follows its data, so
    Numba's own methods read these files without a change."""

    def _load_index(self) -> Any:
        return super()._load_index() if is_whole(self._index_path) else {}

    def _load_data(self, name: str) -> Any:
        return super()._load_data(name) if is_whole(self._data_path(name)) else None

    @contextmanager
    def _open_for_write(self, filepath: str) -> Iterator[io.BytesIO]:
        with super()._open_for_write(filepath) as file:
            data = io.BytesIO()
            yield data
            file.write(data.getvalue() + checksum(data.getvalue()))


class CheckedCache(FunctionCache):
    def __init__(self, function: Any) -> None:
        super().__init__(function)
        stamp = self._impl.locator.get_source_stamp()
        self._cache_file = CheckedFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled version, or None where it has to be compiled."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # whole, but of no use to this Numba: what it raises is not documented
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)
