"""How far a long fit is, and how long it will still take."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from madbayes._rows.progress import listening

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def show_progress(console: "Console | None" = None, title: str = "") -> Iterator[None]:
    """Show how far the fits inside the `with` block are, and the time that is left.

    The line goes to standard error, changes in place and disappears at the end; nothing is shown
    where there is no terminal (or notebook). The time left is a guess from the pace so far: it is
    for the stage that is named, and stages that end when nothing improves any more show only the
    time that has passed.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to show it, instead of standard error.
    title : str, default=""
        What to write before the name of the stage.

    Examples
    --------
    >>> import numpy as np
    >>> from madbayes import DPMeans, show_progress
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> with show_progress():
    ...     model = DPMeans(random_state=0).fit(X)
    """
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ModuleNotFoundError:
        raise ModuleNotFoundError('show_progress needs rich: pip install "madbayes[cli]"') from None
    console = console or Console(stderr=True)
    if not (console.is_terminal or console.is_jupyter):
        yield
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("left:"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    task = bar.add_task(title, total=None)
    shown = ""

    def listen(stage: str, done: int, total: int | None) -> None:
        nonlocal shown
        if stage != shown:
            shown = stage
            text = f"{title}: {stage}" if title else stage
            bar.reset(task, description=text, total=total, completed=done)
        bar.update(task, completed=done, total=total)

    with bar, listening(listen):
        yield
