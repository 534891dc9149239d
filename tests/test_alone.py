"""Importing this package changes nothing for the rest of the process."""

import subprocess
import sys

# Packages that this one imports are imported before: what these change is not ours.
BEFORE = """
import importlib, inspect, logging, os, pkgutil, random, signal, sys, warnings
import numpy as np
import matplotlib, numba, pandas, pyarrow, rich, scipy.sparse, sklearn.base, typer
import sklearn.cluster, sklearn.neighbors, scipy.spatial, scipy.linalg, scipy.optimize
import dask, distributed, matplotlib.pyplot
import gc, locale, threadpoolctl, threading
from numba.core import config, event

def state():
    loggers = {n: (l.level, l.handlers, l.filters, l.propagate, l.disabled)
               for n, l in logging.root.manager.loggerDict.items()
               if isinstance(l, logging.Logger) and not n.startswith("madbayes")}
    pools = threadpoolctl.threadpool_info()
    return {
        "compile hooks": {kind: list(found) for kind, found in event._registered.items() if found},
        "numba settings": {n: getattr(config, n) for n in dir(config) if n.isupper()},
        "numba threads": numba.get_num_threads(),
        "thread limits": {i["filepath"]: i["num_threads"] for i in pools},
        "warning filters": list(warnings.filters),
        "show warnings": (warnings.showwarning, warnings.formatwarning),
        "random state": random.getstate(),
        "numpy's random state": np.random.get_state(legacy=False)["state"]["key"].tolist(),
        "numpy's errors": np.geterr(),
        "numpy's printing": np.get_printoptions(),
        "scikit-learn": sklearn.get_config(),
        "pandas": [pandas.get_option(n) for n in ("display.max_rows", "display.precision")],
        "matplotlib": dict(matplotlib.rcParams), "backend": matplotlib.get_backend(),
        "dask": repr(dask.config.config),
        "root logger": (logging.root.level, list(logging.root.handlers), logging.root.disabled),
        "loggers": loggers,
        "logging": (logging.getLoggerClass(), logging.root.manager.disable),
        "signals": {s: signal.getsignal(s) for s in signal.valid_signals()},
        "hooks": (sys.excepthook, sys.displayhook, threading.excepthook, sys.gettrace()),
        "collector": (gc.isenabled(), gc.get_threshold(), list(gc.callbacks)),
        "recursion": sys.getrecursionlimit(), "path": list(sys.path),
        "environment": dict(os.environ), "locale": locale.setlocale(locale.LC_ALL),
        "folder": os.getcwd(), "threads": threading.active_count(),
        "finders": list(sys.meta_path),
    }

before = state()
known = {name: set(before[name]) for name in ("loggers", "thread limits")}
"""

IMPORTS = """
import madbayes
for name in madbayes.__all__:
    thing = getattr(madbayes, name)
    for inner in getattr(thing, "__all__", ()) if inspect.ismodule(thing) else ():
        getattr(thing, inner)
for found in pkgutil.walk_packages(madbayes.__path__, "madbayes."):
    if not found.name.endswith("__main__"):
        importlib.import_module(found.name)
"""

AFTER = """
after = state()
for name in known:  # what is new is not changed
    after[name] = {n: value for n, value in after[name].items() if n in known[name]}
changed = [name for name in before if before[name] != after[name]]
assert not changed, [(n, before[n], after[n]) for n in changed]
"""

FITS = """
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 2)) + 9 * rng.integers(2, size=(60, 1))
with warnings.catch_warnings():
    warnings.simplefilter("error")
    madbayes.KMeans(2, random_state=0, n_jobs=2).fit(X).predict(X)
"""

# As pynndescent makes its functions: they have no module.
OTHERS = """
made = {}
exec("def g(x): return x + 1", {}, made)
assert made["g"].__module__ in (None, "builtins")
made["g"].__module__ = None
assert numba.njit(made["g"])(1) == 2
"""


def run(*parts):
    code = "\n".join(parts)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]


def test_an_import_changes_nothing_for_others():
    run(BEFORE, IMPORTS, AFTER, OTHERS)


def test_a_fit_leaves_nothing_behind():
    run(BEFORE, IMPORTS, FITS, AFTER, OTHERS)
