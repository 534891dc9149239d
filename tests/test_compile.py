"""`python -m madbayes.compile`, and what a user is told while kernels are compiled."""

import logging
import os
import subprocess
import sys

import pytest

import madbayes
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

    from madbayes._engine.progress import _Compiling
    from madbayes._kernels.moves import sweep

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
