"""The order of the work, the same for every verb: read, fit, write, show."""

import inspect
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.text import Text

from madbayes import show_progress
from madbayes.cli import STOPPED, was_interrupted
from madbayes.cli.fit import Answer
from madbayes.cli.options import Output, Reading, Talk
from madbayes.cli.prepare import Table, prepare
from madbayes.cli.select import Wishes, resolve
from madbayes.cli.show import count, show
from madbayes.cli.summary import summarize
from madbayes.cli.write import all_or_nothing, as_json, check_folder
from madbayes.tables.convert import flattened, is_text
from madbayes.tables.errors import UserError, harmless
from madbayes.tables.formats import called, given, read
from madbayes.tables.frame import Frame
from madbayes.tables.numbers import from_text
from madbayes.tables.pipeline import TablePipeline


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
def explained(talk: Talk) -> Iterator[Voice]:
    """User errors become one paragraph and exit code 2; Ctrl-C becomes exit code 130."""
    voice = Voice(talk)

    def fail(message: str, code: int = 2) -> typer.Exit:
        if talk.debug:
            traceback.print_exc()
        text = " ".join(message.split())  # one line, whatever the width of the terminal
        voice.error.print(Text.assemble(("Error: ", "bold red"), harmless(text)), soft_wrap=True)
        return typer.Exit(code)

    try:
        with warnings.catch_warnings():
            # Overflow in one column and the like: what matters for the answer is among the notes.
            warnings.simplefilter("ignore", RuntimeWarning)
            yield voice
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


@dataclass
class Task:
    """A table that was read, ready to be fitted."""

    frame: Frame
    table: Table
    X: np.ndarray
    weights: np.ndarray | None
    by: np.ndarray | None
    ids: tuple[str, Any]


def table_verb(
    verb: str,
    reading: Reading,
    output: Output,
    fit: Callable[[Task], Answer],
    *,
    title: Callable[[Task, Answer], str],
    draw: Callable[[Path, Task, Answer, str], list[str]],
    metric: str = "euclidean",
    by: str | None = None,
    logs: bool = True,
    gaps: bool = False,
    mixed: bool = False,
    more: Callable[[Console, Answer], None] | None = None,
) -> None:
    """Read a table, fit, write everything, and show what was found."""
    with explained(output) as voice:
        reading.check()
        name = called(reading.file)
        check_folder(output.out, output.force, name)
        plot = verb == "path" if output.plot is None else output.plot
        with given(reading.file) as files:
            with voice.status(f"reading {name}"):
                task = load_task(files, reading, metric, by, logs=logs, gaps=gaps, mixed=mixed)
            voice.notes([*task.table.notes, *about_ids(task.frame, reading.id)])
            n, d = task.X.shape
            with all_or_nothing(output.out, output.force) as scratch:
                with voice.progress(f"clustering {count(n, 'row')} of {count(d, 'column')}"):
                    answer = fit(task)
                voice.notes(answer.notes)
                with voice.status("writing"):
                    from madbayes.cli.answer import write_answer

                    headline = f"{name}: {count(answer.number, answer.of)}"
                    drawn = draw(scratch, task, answer, headline) if plot else []
                    summary = summarize(verb, name, task.table, answer)
                    write_answer(scratch, task, answer, output, summary, name)
        table = task.table

        def tell(console: Console) -> None:
            show(console, answer, title(task, answer), table.names, table.standardized)
            if more is not None:
                more(console, answer)
            written = ", ".join(summary["files"])
            console.print(Text(harmless(f"Written to {output.out}: {written}")))

        voice.result(summary, tell)
        if plot and not drawn:
            voice.notes(['the pictures need matplotlib: pip install "madbayes[plot]"'])


def load_task(
    files: Sequence[Path], reading: Reading, metric: str, by: str | None, **takes: bool
) -> Task:
    """The table as the options want it."""
    frame = flattened(read(*files, sheet=reading.sheet, skip_rows=reading.skip_rows))
    wishes = Wishes(
        reading.columns or (),
        reading.drop or (),
        reading.categorical or (),
        reading.numeric or (),
        reading.log or (),
        reading.id,
        reading.weights,
        by,
        reading.na_words,
    )
    missing: Any = reading.gaps
    table = prepare(frame, wishes, missing, reading.standardize, metric=metric, **takes)
    weights = None if reading.weights is None else _weights(frame, reading.weights, table.rows)
    groups = None if by is None else group_column(frame, by, table.rows)
    return Task(frame, table, table.X, weights, groups, identifiers(frame, reading.id))


class Cells(Sequence[Any]):
    """A column as Python values, made when they are asked for: there may be very many."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    def __len__(self) -> int:
        return len(self.column)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            start, stop, _ = at.indices(len(self))
            return self.column.slice(start, stop - start).to_pylist()
        return self.column[at].as_py()


def identifiers(frame: Frame, name: str | None) -> tuple[str, Any]:
    """What the first column of labels.csv is called, and what is in it."""
    if name is None:
        return "row", range(1, frame.n_rows + 1)
    return name, Cells(frame.column(resolve(frame, [name], "--id", whole=True)[0]))


def about_ids(frame: Frame, name: str | None) -> list[str]:
    """A note where --id does not tell rows apart."""
    if name is None:
        return []
    column = frame.column(resolve(frame, [name], "--id", whole=True)[0])
    again = len(column) - pc.count_distinct(column, mode="all").as_py()
    if not again:
        return []
    rows = "row has" if again == 1 else "rows have"
    return [f"--id {name} is not unique: {again:,} {rows} an id that an earlier row has"]


def _weights(frame: Frame, name: str, rows: np.ndarray) -> np.ndarray:
    j = resolve(frame, [name], "--weights", whole=True)[0]
    column = frame.column(j)
    if is_text(column.type):
        values = from_text(column).values
    elif pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        values = column.cast(pa.float64()).to_numpy()
    else:
        raise UserError(f"Column {name} cannot be the weights: it does not hold numbers.")
    bad = np.flatnonzero(~(np.isfinite(values[rows]) & (values[rows] >= 0)))
    if bad.size:
        where = frame.where(int(rows[bad[0]]))
        raise UserError(f"The weight in {where}, column {name} should be a number >= 0.")
    return np.asarray(values[rows])


def group_column(frame: Frame, name: str, rows: np.ndarray) -> np.ndarray:
    """The group of each of the rows: whole numbers as numbers, anything else as text."""
    column = frame.column(resolve(frame, [name], "--by", whole=True)[0])
    missing = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(column.type):
        missing = missing | np.isnan(column.to_numpy())
    if pa.types.is_integer(column.type) and not column.null_count:
        values = column.to_numpy()
    else:
        values = np.array(["" if v is None else str(v) for v in column.to_pylist()])
        missing = missing | (values == "")
    gone = np.flatnonzero(missing[rows])
    if gone.size:
        more = f" ({gone.size} rows are like this)" if gone.size > 1 else ""
        where = frame.where(int(rows[gone[0]])).capitalize()
        raise UserError(
            f"{where} has no value in the column {name}{more}, so it is not known which group it "
            "belongs to. Fill it in, or leave the row out of the file."
        )
    return values[rows]


def weighted(model: Any, task: Task) -> dict[str, Any]:
    """The weights, if the model takes any."""
    if task.weights is None:
        return {}
    if "sample_weight" not in inspect.signature(model.fit).parameters:
        raise UserError(f"--weights: {type(model).__name__} does not take weights.")
    return {"sample_weight": task.weights}


def keep(task: Task, answer: Answer) -> TablePipeline:
    """The model with what was done to the columns."""
    return TablePipeline([("table", task.table.encoder), ("clusters", answer.model)])
