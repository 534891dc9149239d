"""A Numba compiler without what no kernel needs: a first call waits for each pass of each function.

Numba is meant to be extended by `define_pipelines`. What is left out goes by name: a pass that has
another name one day, or flags that are kept in another way, and all is as Numba does it.
"""

import gc
from typing import Any

from numba.core.compiler import Compiler, Flags

# Closures and comprehensions, `with`, array expressions, and overloads that ask to be inlined: what
# needs the first two does not compile, the others are slower without.
NEEDLESS = {"inline_closure_likes", "with_lifting", "nopython_rewrites", "inline_overloads"}
SAME = hash(Flags())  # Numba's own is that of the names of all flags


class QuickFlags(Flags):
    """Flags that are equal if the same ones were set to the same values.

    Numba compares them for each operator of a kernel with each way to type it, and collects the
    defaults of all flags for it: that was a quarter of all Python calls of a first fit.
    """

    __slots__ = ()

    def __hash__(self) -> int:
        return SAME

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
