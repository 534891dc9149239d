"""`checkpoint=path`: a long fit that was interrupted goes on where it was, to the same bits.

The file is a `container`: what the fit is about (estimator, parameters, shape and fingerprint of
the rows) and the state of the loop. It is replaced whole after a pass, at most every so many
seconds, and removed when the fit is done. A file that is about another fit is refused, so nothing
is ever continued with other data or parameters by mistake.
"""

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._model.fitting import Options
from madbayes._partition.partition import Partition
from madbayes._partition.snapshot import fingerprint, put, take
from madbayes._rows.frame import Frame
from madbayes._storage.container import Kind, read, refusing, write
from madbayes._storage.encoding import Encoder, decode
from madbayes._storage.saving import versions
from madbayes._storage.schema import check_state

CHECKPOINT = Kind(
    "madbayes checkpoint", 2, "madbayes checkpoint", "a fit with checkpoint=…", "Delete it."
)
SECONDS = 10.0  # between two writes, at least …
SHARE = 20.0  # … and so many times as long as the last write took


class Checkpoint:
    """The file of one fit.

    Parameters
    ----------
    path : str or path-like
    about : dict
        What has to be the same for a fit to go on: see `describe`.
    always : dict
        What every state has: how the fit began.

    `past` is the state that was written last (None: there is no file).
    """

    def __init__(self, path: Any, about: dict[str, Any], **always: Any) -> None:
        self.path, self.about, self.always = check_path(path), about, always
        self._last, self._took = time.monotonic(), 0.0
        for left in self.path.parent.glob(f".{self.path.name}-*.part"):  # of a fit that was killed
            left.unlink(missing_ok=True)
        self.past = self._load()

    def _load(self) -> Any:
        if not self.path.exists():
            return None
        name = f"checkpoint={str(self.path)!r}"
        with self.path.open("rb") as stream, refusing(name, CHECKPOINT):
            header, arrays = read(stream, CHECKPOINT)
            then, state = dict(header["about"]), decode(header["state"], arrays)
        for about in [*self.about, *then]:
            if then.get(about) != self.about.get(about):
                raise ValueError(
                    f"{name} was written by another fit: {about} was {then.get(about)!r:.200} "
                    f"there and is {self.about.get(about)!r:.200} here. Delete the file to start "
                    "afresh, or give another path."
                )
        with refusing(name, CHECKPOINT):
            check_state(self.about["estimator"], self.about["X.shape"], state)
        return state

    def due(self) -> bool:
        """Is it time to write?"""
        return time.monotonic() - self._last >= max(SECONDS, SHARE * self._took)

    def write(self, state: dict[str, Any]) -> None:
        """Replace the file; `state` holds numbers, text, arrays, lists and dicts of such."""
        begun = time.monotonic()
        encoder = Encoder()
        header = {
            "format": CHECKPOINT.format,
            "version": CHECKPOINT.version,
            "versions": versions(),
            "about": self.about,
            "state": encoder.encode({**self.always, **state}, "state"),
        }
        try:
            write(self.path, header, encoder.arrays)
        except OSError as error:
            raise OSError(
                error.errno,
                f"checkpoint={str(self.path)!r} could not be written ({error.strerror}); what was "
                "written before is still there, and the same fit goes on from it",
            ) from error
        self._last = time.monotonic()
        self._took = self._last - begun

    def remove(self) -> None:
        """The fit is done."""
        self.path.unlink(missing_ok=True)


class Passes:
    """The passes of one run over a partition, kept in a checkpoint (None: they are not).

    `around`: what else is to be known when the run goes on.
    """

    def __init__(self, checkpoint: Checkpoint | None = None, **around: Any) -> None:
        self.checkpoint, self.around = checkpoint, around

    def resume(self, partition: Partition) -> Any:
        """The variables of the loop as they were, once, with the partition put back; or None."""
        if self.checkpoint is None or self.checkpoint.past is None:
            return None
        past, self.checkpoint.past = self.checkpoint.past, None
        put(partition, past["partition"])
        return past["loop"]

    def keep(self, partition: Partition, loop: Any) -> None:
        """After a pass: write its variables down, if it is time."""
        if self.checkpoint is not None and self.checkpoint.due():
            state = {**self.around, "loop": loop, "partition": take(partition)}
            self.checkpoint.write(state)


NOT_KEPT = Passes()


def checkpoint_of(
    model: Any, rows: Any, frame: Frame, options: Options
) -> tuple[Checkpoint | None, Options]:
    """The file that a fit of a printed algorithm is kept in, if it is; and the options, with the
    random numbers as they were when the fit began."""
    path = model.checkpoint
    if path is None:
        return None, options
    if model.algorithm == "search":
        raise ValueError(
            f"checkpoint={path!r} is for algorithm='paper', whose passes can be gone on with; the "
            "search has none to go on with. Leave it out."
        )
    begun = np.random.RandomState()
    begun.set_state(options.random_state.get_state())
    about = describe(model, (rows.n, rows.d), rows.dtype, fingerprint(rows, frame))
    file = Checkpoint(path, about, random_state=begun)
    if file.past is not None:
        file.always = {"random_state": file.past["random_state"]}
        begun.set_state(file.past["random_state"].get_state())
        options = options._replace(random_state=begun)
    return file, options


def check_path(path: Any) -> Path:
    """A file in a folder that exists."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint={path!r} must be the path of a file, or None.")
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"checkpoint={str(path)!r} is a directory: name a file in it.")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(
            f"checkpoint={str(path)!r} is in a folder that does not exist. Make it first."
        )
    return path


def describe(model: Any, shape: tuple[int, int], dtype: Any, rows: str) -> dict[str, Any]:
    """What a fit is about; `rows` is the fingerprint of the data (`snapshot.fingerprint`)."""
    names = {name: getattr(model, name) for name in model.get_params(deep=False)}
    free = "checkpoint", "n_jobs"  # they change nothing in the result
    given = {name: _plain(value) for name, value in names.items() if name not in free}
    about = {"estimator": type(model).__name__, **given}
    return {**about, "X.shape": list(shape), "X.dtype": str(np.dtype(dtype)), "rows of X": rows}


def _plain(value: Any) -> Any:
    """A parameter as JSON compares it."""
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    with suppress(ValueError, TypeError):
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return hashlib.sha256(array.astype(np.float64).tobytes()).hexdigest()
    return getattr(value, "__qualname__", type(value).__name__)
