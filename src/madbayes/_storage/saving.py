"""Models kept in files: `model.save(path)` and `madbayes.load(path)`. docs/adr/0014 says why so.

The file is a `container`, whose header names the class, its parameters and fitted attributes. What
is in the file is checked as a whole (`schema`) before it becomes a model.
"""

import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

from madbayes._storage.container import Kind, read, refusing, write
from madbayes._storage.encoding import Encoder, decode
from madbayes._storage.html import ShownMixin
from madbayes._storage.registry import ESTIMATORS
from madbayes._storage.schema import check
from madbayes._storage.values import Unfit

MODEL = Kind(
    "madbayes model", 2, "madbayes model", "model.save", "Copy it again, or save the model again."
)
MODELS = (*ESTIMATORS, "Prepared", "TablePipeline")


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
    if type(model).__name__ not in MODELS:
        raise TypeError(f"only models of madbayes can be saved, not a {type(model).__name__}.")
    try:
        check(model)
    except Unfit as error:
        raise ValueError(
            f"{error}. `load` would refuse such a file, so none is written: fit the model again, "
            "or undo what was changed in it by hand."
        ) from None
    names = getattr(model, "feature_names_in_", None)
    header = {
        "format": MODEL.format,
        "version": MODEL.version,
        "versions": versions(),
        "class": type(model).__name__,
        "feature_names": None if names is None else [str(name) for name in names],
        "model": tree,
    }
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(f"path={str(path)!r} is a directory: name a file in it.")
    write(path, header, encoder.arrays)


def load(path: str | os.PathLike[str], *, max_bytes: int = 2**32) -> Any:
    """The model that was saved to a file.

    Nothing in the file is executed or imported. A file that was not written by `model.save`, was
    cut short or changed is refused, and so is one whose parts do not fit together. The checksum
    finds accidents; it is no signature: a file from somebody else can hold wrong numbers.

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
    with path.open("rb") as stream, refusing(str(path), MODEL):
        header, arrays = read(stream, MODEL, max_bytes)
        model = decode(header["model"], arrays)
        if type(model).__name__ not in MODELS:
            raise Unfit("it holds no estimator")
        return model


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
