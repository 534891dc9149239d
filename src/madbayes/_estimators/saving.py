"""Models kept in files: `model.save(path)` and `madbayes.load(path)`. docs/adr/0014 says why so.

A file is an uncompressed npz: `header` is JSON (format, versions, the class, its parameters and
fitted attributes), `a0`, `a1`, … are the arrays that it names. The comment of the archive is the
SHA-256 of everything before it, so a file that was cut or changed anywhere is noticed before
anything in it is looked at. Nothing is compressed and every array is as large as it says, so a
model never takes more memory than its file. Nothing is unpickled.
"""

import hashlib
import json
import math
import os
import tempfile
import warnings
import zipfile
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from madbayes._estimators.encoding import Encoder, decode
from madbayes._estimators.shown import ShownMixin

FORMAT, VERSION = "madbayes model", 1
MARK = b"sha256:"
COMMENT = len(MARK) + 64
MAX_BYTES = 2**32
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05", b"cnumpy", b"ccopy_reg")


class SaveMixin(ShownMixin):
    """Models that can be kept in a file, and that notice a pickle of another version."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that `madbayes.load` reads, here or elsewhere.

        Parameters
        ----------
        path : str or path-like
            The file, usually ``….npz``. It is replaced whole or not at all.

        Examples
        --------
        >>> import tempfile, os
        >>> import numpy as np
        >>> import madbayes
        >>> X = np.array([[0.0], [1.0], [9.0], [10.0]])
        >>> model = madbayes.DPMeans(penalty=4.0).fit(X)
        >>> path = os.path.join(tempfile.mkdtemp(), "model.npz")
        >>> model.save(path)
        >>> bool((madbayes.load(path).predict(X) == model.labels_).all())
        True
        """
        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        above = super().__getstate__()
        state = dict(above) if isinstance(above, dict) else dict(vars(self))
        return {**state, "_madbayes_version": _own_version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        then = state.pop("_madbayes_version", "of an unknown version")
        if then != _own_version():
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=f"(madbayes) {_own_version()}",
                    original_sklearn_version=f"(madbayes) {then}",
                ),
                stacklevel=2,
            )
        if hasattr(super(), "__setstate__"):
            super().__setstate__(state)  # type: ignore[misc]
        else:
            vars(self).update(state)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """`SaveMixin.save`."""
    encoder = Encoder()
    tree = encoder.encode(model, type(model).__name__)
    if not isinstance(tree, dict) or tree.get("$") not in ("estimator", "part"):
        raise TypeError(f"only models of madbayes can be saved, not a {type(model).__name__}.")
    names = getattr(model, "feature_names_in_", None)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "versions": versions(),
        "class": type(model).__name__,
        "feature_names": None if names is None else [str(name) for name in names],
        "model": tree,
    }
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a directory: name a file in it.")
    handle, partial = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with os.fdopen(handle, "w+b") as stream:
            _write(stream, header, encoder.arrays)
        os.chmod(partial, 0o666 & ~_umask())
        os.replace(partial, path)
    except BaseException:
        os.unlink(partial)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write(stream: IO[bytes], header: dict[str, Any], arrays: list[np.ndarray]) -> None:
    text = np.array(json.dumps(header, ensure_ascii=False, allow_nan=False))
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = bytes(COMMENT)
        for name, array in [("header", text), *((f"a{i}", a) for i, a in enumerate(arrays))]:
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: same model, same bytes
            with archive.open(member, "w", force_zip64=array.nbytes > 2**30) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
    stream.seek(0, os.SEEK_END)
    size = stream.tell()
    digest = _digest(stream, size - COMMENT)
    stream.seek(size - COMMENT)
    stream.write(digest)


def load(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Any:
    """The model that was saved to a file.

    Nothing in the file is executed. A file that was not written by `model.save`, was cut short or
    changed is refused. The checksum finds accidents; it is no signature.

    Parameters
    ----------
    path : str or path-like
    max_bytes : int, default=2**32
        Larger files are refused. A model takes about as much memory as its file.

    Returns
    -------
    The estimator, fitted as it was: its predictions are the same to the bit.
    """
    path = Path(path)
    with path.open("rb") as stream:
        try:
            header, arrays = _read(stream, max_bytes)
            return decode(header["model"], arrays)
        except _Refused as error:
            raise ValueError(f"{path} {error}") from None
        except (ValueError, TypeError, KeyError, IndexError, RecursionError, AttributeError) as e:
            raise ValueError(f"{path} cannot be read as a madbayes model: {e}.") from e


class _Refused(Exception):
    """Why a file is not read, to be put behind its name."""


def _read(stream: IO[bytes], max_bytes: int) -> tuple[dict[str, Any], list[np.ndarray]]:
    head = stream.read(8)
    size = stream.seek(0, os.SEEK_END)
    if head.startswith(PICKLES):
        raise _Refused("is a pickle, which could run any code when read. Save with model.save.")
    if not head.startswith(b"PK\x03\x04"):
        raise _Refused("is not a madbayes model: files written by model.save are npz files.")
    if size > max_bytes:
        raise _Refused(f"has {size:,} bytes, more than max_bytes={max_bytes:,}.")
    stream.seek(max(size - COMMENT, 0))
    given = stream.read()
    if not given.startswith(MARK):
        whole = zipfile.is_zipfile(stream)
        raise _Refused(
            "is an npz or zip file, but no madbayes model: model.save writes those."
            if whole
            else "is cut short or damaged. Copy it again, or save the model again."
        )
    if given != _digest(stream, size - COMMENT):
        raise _Refused("was changed or damaged after it was saved: its checksum does not match.")
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        names = ["header.npy", *(f"a{i}.npy" for i in range(len(members) - 1))]
        if [m.filename for m in members] != names or any(m.compress_type for m in members):
            raise _Refused("is not laid out as model.save does it.")
        header = json.loads(str(_array(archive, members[0])))
        if header.get("format") != FORMAT:
            raise _Refused("is not a madbayes model: its header says something else.")
        if header["version"] > VERSION:
            raise _Refused(
                f"was saved by madbayes {header['versions']['madbayes']} in format "
                f"{header['version']}; this version reads formats up to {VERSION}. Update madbayes."
            )
        return header, [_array(archive, member) for member in members[1:]]


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(cast(Any, stream))
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        shape, _, dtype = read[version](cast(Any, stream))
        left = member.file_size - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != left:
        raise _Refused(f"holds an array of {shape} {dtype} in {left} bytes, which cannot be.")
    with archive.open(member) as stream:
        return np.lib.format.read_array(cast(Any, stream), allow_pickle=False)


def _digest(stream: IO[bytes], size: int) -> bytes:
    stream.seek(0)
    sha = hashlib.sha256()
    while size > 0 and (block := stream.read(min(size, 1 << 20))):
        sha.update(block)
        size -= len(block)
    return MARK + sha.hexdigest().encode()


def versions() -> dict[str, str]:
    """Of this package and those that its results depend on."""
    return {
        "madbayes": _own_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


def _own_version() -> str:
    return str(import_module("madbayes").__version__)  # by name: it is a layer above this one
