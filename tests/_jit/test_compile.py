"""`python -m madbayes.compile`, and what a user is told while kernels are compiled."""

import importlib
import importlib.util
import inspect
import logging
import os
import pkgutil
import subprocess
import sys

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import madbayes
from madbayes import _jit
from madbayes._jit.numba_internals import Lean
from madbayes.compile import main, tasks


def test_every_estimator_is_compiled():
    estimators = {name for name in madbayes.__all__ if name[0].isupper()}
    assert {name for name, _, _ in tasks()} == estimators - {"TableEncoder"}  # no kernels


def test_unknown_names_are_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "Nonsense"])
    assert "The names are AutoCluster, BPMeans" in capsys.readouterr().err


def test_the_cache_is_filled_and_the_log_says_so(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "madbayes.compile", "--only", "IBPGibbs", "--jobs", "1"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "compiled in" in done.stderr
    assert list(tmp_path.rglob("*.nbi"))


def test_a_compilation_is_logged_once(caplog):
    from madbayes._rows.progress import listening, tell_of_compiling

    tell_of_compiling.cache_clear()
    stages = []
    with (
        caplog.at_level(logging.INFO, logger="madbayes"),
        listening(lambda stage, *_: stages.append(stage)),
    ):
        for shift in (1, 2):  # not cached on the disk, so each is compiled
            numba.njit(pipeline_class=Lean)(lambda a, shift=shift: a + shift)(1)
    assert len([r for r in caplog.records if "once per installation" in r.message]) == 1
    assert stages == ["compiling, once per installation"]


DAMAGE = {
    "empty": lambda data: b"",
    "cut short": lambda data: data[: len(data) // 2],
    "a bit flipped": lambda data: data[:-40] + bytes([data[-40] ^ 1]) + data[-39:],
    "other bytes": lambda data: bytes(len(data)),
    "longer": lambda data: data + b"more",
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_cache_is_compiled_again(how, suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    name = f"damaged_{suffix}_{how.replace(' ', '_')}"
    (tmp_path / f"{name}.py").write_text(
        "from madbayes._jit import kernel\n\n\n@kernel\ndef twice(a):\n    return a * 2\n"
    )

    def load():
        """As a new process would."""
        spec = importlib.util.spec_from_file_location(name, tmp_path / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        assert module.twice(3.0) == 6.0
        return sum(module.twice.stats.cache_hits.values())

    try:
        assert [load(), load()] == [0, 1]
        (path,) = tmp_path.rglob(f"*.{suffix}")
        path.write_bytes(DAMAGE[how](path.read_bytes()))
        assert [load(), load()] == [0, 1]
    finally:
        sys.modules.pop(name, None)


def test_a_full_disk_does_not_stop_a_fit(tmp_path, monkeypatch):
    from madbayes._jit.numba_internals import CheckedFiles

    def full(self, name, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(CheckedFiles, "_save_data", full)

    @_jit.compiled()
    def thrice(a):
        return a * 3

    assert thrice(2.0) == 6.0


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

    from madbayes._jit.numba_internals import NEEDLESS, QuickFlags

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

    assert numba.njit(pipeline_class=Watched)(lambda a: a + 1)(1) == 2
    assert seen == [(QuickFlags, NEEDLESS)]


def test_the_garbage_collector_rests_while_a_kernel_is_compiled(monkeypatch):
    """It would look through all that the process holds again and again: a sixth of a first fit."""
    import gc

    from numba.core.compiler import Compiler

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
