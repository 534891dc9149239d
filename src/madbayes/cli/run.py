"""The order of the work, the same for every verb: read, fit, write, show."""

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from madbayes import show_progress
from madbayes.cli import STOPPED, pictures, was_interrupted
from madbayes.cli.fit import answer_of
from madbayes.cli.options import Output, Reading, Talk
from madbayes.cli.prepare import Task, load_task
from madbayes.cli.results import Answer, summarize, write_answer
from madbayes.cli.show import count, show
from madbayes.cli.write import all_or_nothing, as_json, check_folder
from madbayes.tables.errors import UserError, harmless
from madbayes.tables.formats import called, given


class Voice:
    """What is said: results on standard output, everything else on standard error."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.error = Console(stderr=True)

    def notes(self, notes: tuple[str, ...] | list[str]) -> None:
        if not self.talk.quiet:
            for note in notes:
                self.error.print(Text(f"Note: {harmless(note)}"), soft_wrap=True)

    def status(self, text: str) -> AbstractContextManager[Any]:
        quiet = self.talk.quiet or not self.error.is_terminal
        return nullcontext() if quiet else self.error.status(Text(harmless(text)))

    def progress(self, text: str) -> AbstractContextManager[Any]:
        return nullcontext() if self.talk.quiet else show_progress(self.error, harmless(text))

    def result(self, summary: dict[str, Any], show: Callable[[Console], None]) -> None:
        if self.talk.json:
            sys.stdout.write(as_json(summary) + "\n")
        elif not self.talk.quiet:
            show(Console())
        sys.stdout.flush()  # a full disk shows here, while it can still be said


def hush() -> None:
    """Drop what standard output still holds: it cannot be written, and Python would try again."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        return
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


@contextmanager
def explained(talk: Talk) -> Iterator[None]:
    """User errors become one paragraph and exit code 2; Ctrl-C becomes exit code 130."""

    def fail(message: str, code: int = 2) -> typer.Exit:
        if talk.debug:
            traceback.print_exc()
        text = harmless(" ".join(message.split()))  # one line, whatever the width of the terminal
        Console(stderr=True).print(Text.assemble(("Error: ", "bold red"), text), soft_wrap=True)
        return typer.Exit(code)

    try:
        with warnings.catch_warnings():
            # Overflow in one column and the like: what matters for the answer is among the notes.
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except UserError as error:
        raise fail(str(error)) from None
    except MemoryError:
        raise fail("the table does not fit into memory.") from None
    except BrokenPipeError:
        hush()
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(STOPPED) from None
    except (typer.Exit, SystemExit):
        raise
    except OSError as error:  # no space left, a disk that fails, a folder that is gone
        hush()
        place = f"{error.filename}: " if error.filename else ""
        raise fail(f"{place}{error.strerror or error}.") from None
    except Exception as error:
        if was_interrupted(error):
            raise typer.Exit(STOPPED) from None
        what = " ".join(str(error).split())[:300]
        raise fail(
            f"{type(error).__name__}: {what} This is a mistake of madbayes, not of yours; "
            "--debug shows where it arose.",
            code=1,
        ) from None


def table_verb(
    verb: str,
    reading: Reading,
    output: Output,
    estimator: Any,
    penalty_from: str,
    by: str | None = None,
) -> None:
    """Read a table, fit, write everything, and show what was found."""
    voice, name = Voice(output), called(reading.file)
    reading.check()
    here = all(str(path) == "-" or path.exists() for path in reading.file)
    check_folder(output.out, output.force, name if here else None)
    with given(reading.file) as files:
        with voice.status(f"reading {name}"):
            task = load_task(files, reading, estimator, by, logs=verb != "features")
        voice.notes(task.notes)
        n, d = task.table.X.shape
        doing = f"clustering {count(n, 'row')} of {count(d, 'column')}"
        fit = lambda _: answer_of(verb, task, penalty_from, by)  # noqa: E731
        deliver(voice, verb, name, output, task.notes, doing, fit, task)


def deliver(
    voice: Voice,
    verb: str,
    name: str,
    output: Output,
    notes: list[str],
    doing: str,
    fit: Callable[[Path], Answer],
    task: Task | None = None,
) -> None:
    """Fit, write everything, and show it: what follows once a file called `name` was read.

    `fit` gets the folder, for what it has to write itself.
    """
    with all_or_nothing(output.out, output.force) as scratch:
        with voice.progress(doing):
            answer = fit(scratch)
        voice.notes(answer.notes)
        found = count(answer.number, answer.of)
        plot = verb == "path" if output.plot is None else output.plot
        drawn = []
        with voice.status("writing"):
            if plot and pictures.installed():
                drawn = pictures.draw(verb, scratch, task, answer, f"{name}: {found}")
            summary = summarize(verb, name, notes, answer)
            write_answer(scratch, answer, output, summary)

    def tell(console: Console) -> None:
        show(console, answer, f"{found} {answer.found_in}", with_path=verb == "path")
        files = ", ".join(summary["files"])
        console.print(Text(harmless(f"Written to {output.out}: {files}")))

    voice.result(summary, tell)
    if plot and not drawn and not pictures.installed():
        voice.notes(['the pictures need matplotlib: pip install "madbayes[plot]"'])
