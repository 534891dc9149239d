"""`python -m madbayes.compile`, and what a user is told while kernels are compiled."""

import importlib
import inspect
import logging
import os
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import madbayes
from madbayes import _jit
from madbayes.compile import main, tasks


def test_every_estimator_is_compiled():
    estimators = {name for name in madbayes.__all__ if name[0].isupper()}
    assert {name for name, _, _ in tasks()} == estimators


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "Nonsense"])
    assert "The names are BPMeans" in capsys.readouterr().err


def test_the_cache_is_filled_and_the_log_says_so(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "madbayes.compile", "--only", "IBPGibbs", "--jobs", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "compiled in" in done.stderr
    assert list(tmp_path.rglob("*.nbi"))


def test_a_compilation_is_logged_once(caplog):
    from numba.core import event

    from madbayes._partition.moves import sweep
    from madbayes._rows.progress import _Compiling

    class Event:
        def __init__(self):
            self.data = {"dispatcher": sweep}

    listener = _Compiling()
    with caplog.at_level(logging.INFO, logger="madbayes"):
        listener.on_start(Event())
        listener.on_start(Event())
    assert [r.message for r in caplog.records if "once per installation" in r.message][1:] == []
    assert "compiling" in caplog.text
    assert isinstance(listener, event.Listener)


def all_kernels():
    for found in pkgutil.walk_packages(madbayes.__path__, "madbayes."):
        if not found.name.endswith("__main__"):
            module = importlib.import_module(found.name)
            yield from (f for f in vars(module).values() if isinstance(f, Dispatcher))


def test_no_array_leaks_from_kernels_that_do_not_count_references():
    counting = {f.py_func for f in all_kernels() if f.targetoptions.get("_nrt", True)}
    giving = {f for f in counting if "return " in inspect.getsource(f)}
    assert giving
    for kernel in all_kernels():
        if kernel.py_func not in counting:
            names = kernel.py_func.__code__.co_names
            called = [kernel.py_func.__globals__.get(name) for name in names]
            assert not giving & {getattr(f, "py_func", None) for f in called}, kernel


def test_kernels_count_references_where_they_make_arrays():
    @_jit.compiled()
    def made(a):
        return np.zeros(a.shape[0])

    @_jit.compiled()
    def filled(a):
        for i in range(a.shape[0]):
            a[i] = 2.0

    a = np.ones(3)
    filled(a)
    assert a.tolist() == [2, 2, 2]
    assert made(a).tolist() == [0, 0, 0]
    assert [made.targetoptions["_nrt"], filled.targetoptions["_nrt"]] == [True, False]


def test_passes_that_are_left_out_are_known_to_numba():
    """Else a Numba with other names would be slower to compile, and nobody would notice."""
    from numba.core.compiler import Compiler

    from madbayes._jit.numba_internals import NEEDLESS, Lean, QuickFlags

    seen = []

    class Watched(Lean):
        def define_pipelines(self):
            before = Compiler.define_pipelines(self)
            after = super().define_pipelines()
            names = [
                {p[0].name() for line in lines for p in line.passes} for lines in (before, after)
            ]
            seen.append((type(self.state.flags), names[0] - names[1]))
            return after

    import numba

    assert numba.njit(pipeline_class=Watched)(lambda a: a + 1)(1) == 2
    assert seen == [(QuickFlags, NEEDLESS)]


def test_the_garbage_collector_rests_while_a_kernel_is_compiled(monkeypatch):
    """It would look through all that the process holds again and again: a sixth of a first fit."""
    import gc

    import numba
    from numba.core.compiler import Compiler

    from madbayes._jit.numba_internals import Lean

    seen, compile_one = [], Compiler.compile_extra

    def watched(self, function):
        seen.append(gc.isenabled())
        return compile_one(self, function)

    monkeypatch.setattr(Compiler, "compile_extra", watched)
    assert numba.njit(pipeline_class=Lean)(lambda a: a + 1)(1) == 2
    assert gc.isenabled()
    with pytest.raises(numba.TypingError):
        numba.njit(pipeline_class=Lean)(lambda a: a.nothing)(1)
    assert gc.isenabled()  # also when it failed
    gc.disable()
    try:
        assert numba.njit(pipeline_class=Lean)(lambda a: a + 2)(1) == 3
        assert not gc.isenabled()  # whoever switched it off keeps it off
    finally:
        gc.enable()
    assert seen == [False] * 3


PLAIN = """
import sys
import numpy as np
if sys.argv[1] == "broken":  # as if Numba had changed
    sys.modules["madbayes._jit.numba_internals"] = None
from madbayes import KMeans, _jit
from madbayes.compile import LARGE, WIDE, rows
X = rows(LARGE, WIDE).astype(np.float32)
model = KMeans(64, n_init=1, max_iter=4, random_state=0).fit(X)
print(_jit.internals is None, model.labels_[::7].tolist(), sep="|")
"""


@pytest.mark.parametrize("reason", ["broken", "asked"])
def test_without_the_inside_of_numba_results_are_the_same(reason, tmp_path):
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    if reason == "asked":
        env["MADBAYES_PLAIN_KERNELS"] = "1"
    here = subprocess.run([sys.executable, "-c", PLAIN, "as usual"], capture_output=True, text=True)
    plain = subprocess.run(
        [sys.executable, "-c", PLAIN, reason], env=env, capture_output=True, text=True
    )
    assert plain.returncode == 0, plain.stderr[-2000:]
    assert here.stdout.startswith("False|") and plain.stdout.startswith("True|")
    assert here.stdout.split("|")[1] == plain.stdout.split("|")[1]
