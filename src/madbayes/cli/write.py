"""Results onto the disk, whole or not at all."""

import csv
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from madbayes.cli.errors import UserError


@contextmanager
def all_or_nothing(folder: Path) -> Iterator[Path]:
    """Yield a scratch folder; what is in it at the end moves into `folder`, file by file.

    Each move is one `os.replace` within the same file system, so a reader sees the old file or the
    new one. When the block raises (Ctrl-C included) nothing moves and nothing is left behind.
    """
    made = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    except FileExistsError:
        raise UserError(f"--out {folder} is a file. Name a folder for the results.") from None
    except OSError as error:
        raise UserError(f"--out {folder} cannot be written to: {error.strerror}.") from error
    try:
        yield scratch
        for file in sorted(scratch.iterdir()):
            os.replace(file, folder / file.name)
    except OSError as error:
        raise UserError(f"Writing to {folder} failed: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
        if made and not any(folder.iterdir()):
            folder.rmdir()


def write_labels(path: Path, labels: np.ndarray, rows: np.ndarray, n_rows_in_file: int) -> None:
    """`row,label` for every row of the file, from 1; rows that were left out have no label."""
    every = np.full(n_rows_in_file, -1, dtype=np.int64)
    every[rows] = labels
    with path.open("w", newline="", encoding="utf-8") as stream:
        stream.write("row,label\n")
        stream.writelines(
            f"{row},{label if label >= 0 else ''}\n" for row, label in enumerate(every.tolist(), 1)
        )


def write_centers(
    path: Path, centers: np.ndarray, sizes: np.ndarray, names: tuple[str, ...]
) -> None:
    """`label,size` and one column per feature, in the units of the file."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(["label", "size", *names])
        for label, (size, center) in enumerate(zip(sizes.tolist(), centers.tolist(), strict=True)):
            out.writerow([label, size, *center])


def write_nodes(path: Path, nodes: np.ndarray, labels: np.ndarray) -> None:
    """`node,label` for every node; a node without any edge has no label."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(["node", "label"])
        for node, label in zip(nodes.tolist(), labels.tolist(), strict=True):
            out.writerow([node, label if label >= 0 else ""])


def write_communities(path: Path, sizes: np.ndarray, conductance: np.ndarray) -> None:
    """`label,size,conductance`."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        out = csv.writer(stream, lineterminator="\n")
        out.writerow(["label", "size", "conductance"])
        for label, row in enumerate(zip(sizes.tolist(), conductance.tolist(), strict=True)):
            out.writerow([label, *row])
