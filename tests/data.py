"""Real data for tests: from the folder that MADBAYES_DATA names; without it such tests skip."""

import os
from pathlib import Path

import numpy as np
import pytest


def data_file(name: str) -> np.ndarray:
    """The values of a CSV file with one line of column names."""
    folder = os.environ.get("MADBAYES_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"needs {name} in the folder that MADBAYES_DATA names")
    return np.loadtxt(Path(folder) / name, delimiter=",", skiprows=1, usecols=(0, 1))


def data_table(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of a CSV file, and its last column: labels."""
    folder = os.environ.get("MADBAYES_DATA")
    if not folder or not (Path(folder) / name).exists():
        pytest.skip(f"needs {name} in the folder that MADBAYES_DATA names")
    cells = np.loadtxt(Path(folder) / name, delimiter=",", skiprows=1, dtype=str)
    return cells[:, :-1].astype(float), cells[:, -1]
