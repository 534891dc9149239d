"""Results onto the disk, whole or not at all, and safe to open in a spreadsheet."""

import contextlib
import csv
import errno
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from madbayes._storage.container import replacing, umask
from madbayes.tables.errors import UserError

SUMMARY = "summary.json"
TOOL = "madbayes"
# All files that any verb writes into its folder. Only these are ever removed from one.
WRITTEN = {
    *("labels.csv", "labels.parquet", "centers.csv", "clusters.csv", "groups.csv", "path.csv"),
    *("table.csv", "model.npz", "report.html", SUMMARY),
    *("clusters.png", "groups.png", "path.png", "usage.png"),
}


def check_folder(folder: Path, force: bool, file: str | None = None) -> None:
    """Refuse, before any work is done, a folder that holds what we did not write, or the results of
    another table than `file`."""
    if folder.is_symlink() or not folder.exists():
        parent = folder.absolute().parent
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir():
            raise UserError(f"--out {folder} cannot be made: {parent} is a file.")
        if not folder.exists():
            return
    if folder.is_file():  # a folder may be away for a moment, while another process replaces it
        raise UserError(f"--out {folder} is a file. Name a folder for the results.")
    if force:
        return
    if strange := sorted(_strange(folder)):
        listed = ", ".join(strange[:3]) + (", …" if len(strange) > 3 else "")
        raise UserError(
            f"--out {folder} already holds files that madbayes did not write there ({listed}). "
            "Name another folder, or add --force to write beside them."
        )
    other = _summary(folder).get("file", file)
    if file is not None and other != file:
        raise UserError(
            f"--out {folder} holds the results of {other}. Name another folder for those of "
            f"{file}, or add --force to replace them."
        )


def _names(folder: Path) -> set[str]:
    """What is in a folder, which another process may be replacing just now."""
    try:
        return {path.name for path in folder.iterdir()}
    except FileNotFoundError:
        return set()


def _strange(folder: Path) -> set[str]:
    """The files in a folder that this program did not write.

    Another process may replace the folder between two looks, so the second look decides.
    """
    for _ in range(5):
        if not (found := _names(folder) - _ours(folder)):
            break
        time.sleep(0.01)
    return found


def _ours(folder: Path) -> set[str]:
    """The files that an earlier run wrote, as far as its summary can be believed.

    A summary may come from somebody else: of what it lists only files count that this program
    writes and that lie in the folder itself, not behind a link.
    """
    try:
        listed = {SUMMARY, *_summary(folder)["files"]}
    except (KeyError, TypeError):
        return set()
    return {name for name in WRITTEN & listed if _is_plain(folder / name)}


def _summary(folder: Path) -> dict[str, Any]:
    """The summary that an earlier run left in the folder; empty where there is none of ours."""
    if not _is_plain(folder / SUMMARY):
        return {}
    try:
        with (folder / SUMMARY).open(encoding="utf-8") as stream:
            summary = json.loads(stream.read(2**28))
    except (OSError, ValueError, RecursionError):
        return {}
    return summary if isinstance(summary, dict) and summary.get("tool") == TOOL else {}


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


@contextmanager
def all_or_nothing(folder: Path, force: bool = False) -> Iterator[Path]:
    """Yield a scratch folder beside `folder`; at the end it takes its place in one step.

    Files of an earlier run go, those that are not ours stay (with `force`; without it they are
    refused). When the block raises (Ctrl-C included) nothing has changed and nothing is left.
    """
    check_folder(folder, force)
    folder = folder.absolute()
    made = [p for p in [folder.parent, *folder.parent.parents] if not p.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise UserError(f"--out {folder} cannot be written to: {error.strerror}.") from error
    done = False
    try:
        yield scratch
        os.chmod(scratch, 0o777 & ~umask())
        _move(scratch, folder)
        done = True
    except OSError as error:
        raise UserError(f"Writing to {folder} failed: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        for parent in made if not done else ():
            with contextlib.suppress(OSError):
                parent.rmdir()


def _move(scratch: Path, folder: Path) -> None:
    """The files of `scratch` into the place of `folder`, in one step where all in it is ours."""
    if (
        _strange(folder) or folder.is_symlink() or folder == Path.cwd()
    ):  # file by file, summary last
        gone = _ours(folder)
        for file in sorted(scratch.iterdir(), key=lambda p: p.name == SUMMARY):
            gone.discard(file.name)
            os.replace(file, folder / file.name)
        for name in gone:
            (folder / name).unlink(missing_ok=True)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    try:
        for attempt in range(100):  # others may replace the folder at the same time
            if _in_place_of(scratch, folder, old / str(attempt)):
                return
        raise OSError(errno.EBUSY, "other processes write to it all the time")
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _in_place_of(scratch: Path, folder: Path, old: Path) -> bool:
    """Rename `folder` to `old` and `scratch` to `folder`; False if another process came between."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.rename(folder, old)
        os.rename(scratch, folder)
    except BaseException as error:
        between = isinstance(error, OSError) and error.errno in (errno.ENOTEMPTY, errno.EEXIST)
        if not between and old.exists() and not folder.exists():
            os.rename(old, folder)
        if not between:
            raise
        return False
    return True


@contextmanager
def whole_file(path: Path, heading: str, force: bool) -> Iterator[Any]:
    """A stream to a CSV file that appears at the end; another file is not replaced by mistake."""
    if path.is_dir():
        raise UserError(f"--out {path} is a folder. Name a .csv file for the predictions.")
    if path.exists() and not force:
        with path.open(encoding="utf-8", errors="replace") as stream:
            if stream.readline().strip() != heading:
                raise UserError(f"--out {path} exists and is something else; --force replaces it.")
    try:
        path.absolute().parent.mkdir(parents=True, exist_ok=True)
        with replacing(path, newline="", encoding="utf-8") as stream:
            yield stream
    except OSError as error:
        raise UserError(f"Writing to {path} failed: {error.strerror or error}.") from error


# Cells


def safe(cell: Any) -> Any:
    """A cell that a spreadsheet shows and does not run: text that starts like a formula gets a '.

    >>> safe("=1+1"), safe("-5"), safe("ann")
    ("'=1+1", '-5', 'ann')
    """
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return cell
    try:
        float(cell)
    except ValueError:
        return "'" + cell
    return cell


def number(value: Any) -> Any:
    """A number for a CSV file: short where that loses nothing, empty where there is none."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    return value


def write_csv(path: Path, heading: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as stream:
        write_lines(stream, heading, rows)


def write_lines(stream: Any, heading: Sequence[Any], rows: Iterable[Sequence[Any]]) -> None:
    out = csv.writer(stream, lineterminator="\n")
    out.writerow([safe(str(cell)) for cell in heading])
    out.writerows([number(safe(cell)) for cell in row] for row in rows)


def write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(as_json(content) + "\n", encoding="utf-8")


def as_json(content: Any) -> str:
    return json.dumps(_plain(content), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """NumPy values as Python's; what is not finite as null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)
