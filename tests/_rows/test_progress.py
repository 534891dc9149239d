"""What a fit tells of itself, and how that is shown."""

import io
import sys
import threading

import numpy as np
import pytest
from rich.console import Console

from madbayes import BPMeans, DPMeans, GraphCut, HardHDP, KMeans, show_progress
from madbayes._rows.progress import Stage, listening

RNG = np.random.default_rng(0)
X = 8 * RNG.integers(3, size=(300, 2)) + RNG.normal(size=(300, 2))
BARS = (RNG.random((60, 3)) < 0.5) @ np.kron(np.eye(3), np.ones(4)) + 0.1 * RNG.normal(
    size=(60, 12)
)
CLIQUES = np.kron(np.eye(6), np.ones((5, 5)) - np.eye(5))
CLIQUES[np.arange(0, 30, 5), np.arange(-1, 29, 5)] = 1

FITS = {
    "how many clusters, at which penalty, first clusters, searching, last moves": (
        lambda: DPMeans(random_state=0).fit(X)
    ),
    "passes of Algorithm 1": lambda: DPMeans(50.0, algorithm="paper").fit(X),
    "k-means": lambda: KMeans(4, random_state=0).fit(X),
    "at which penalties": lambda: HardHDP(random_state=0).fit([X[:100], X[100:200], X[200:]]),
    "how many clusters": lambda: GraphCut(random_state=0).fit(np.maximum(CLIQUES, CLIQUES.T)),
    "finding features, exchanging features": lambda: BPMeans(random_state=0, n_jobs=1).fit(BARS),
}


def told(fit):
    """[(stage, done, total)] of a fit."""
    calls = []
    with listening(lambda *call: calls.append(call)):
        fit()
    return calls


@pytest.mark.parametrize("stages", FITS)
def test_fits_tell_their_stages_and_how_far_they_are(stages):
    calls = told(FITS[stages])
    names = list(dict.fromkeys(name for name, _, _ in calls))
    assert [name for name in names if name in stages.split(", ")] == stages.split(", ")
    for _, done, total in calls:
        assert done >= 0
        assert total is None or total > 0


def test_a_listener_hears_its_own_thread_only_and_only_while_it_listens():
    def elsewhere():
        Stage("elsewhere").step()

    def here():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        stage = Stage("here", 2)
        thread = threading.Thread(target=stage.step)  # a stage of this thread, from another one
        thread.start()
        thread.join()
        stage.step()

    assert told(here) == [("here", 0, 2), ("here", 1, 2), ("here", 2, 2)]
    assert told(lambda: None) == []


def test_showing_changes_nothing_and_leaves_nothing_behind():
    screen = io.StringIO()
    with show_progress(Console(file=screen, force_terminal=True, width=100), "300 [rows]"):
        shown = DPMeans(random_state=0).fit(X)
    text = screen.getvalue()
    assert "300 [rows]: " in text and "left:" in text
    assert text.rstrip().endswith("\x1b[2K")  # the line is erased
    assert shown.objective_ == DPMeans(random_state=0).fit(X).objective_

    silent = io.StringIO()
    with show_progress(Console(file=silent)):  # not a terminal
        KMeans(3, random_state=0).fit(X)
    assert silent.getvalue() == ""


def test_without_rich_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(ModuleNotFoundError, match=r"madbayes\[cli\]"), show_progress():
        pass
