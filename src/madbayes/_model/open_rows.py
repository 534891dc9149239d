"""`open_rows`: the checked rows of a fit, wherever they are."""

from typing import Any

from madbayes._rows.checks import check_rows, check_weight, is_spread, weight_of_directions
from madbayes._rows.rows import Rows


def open_rows(model: Any, X: Any, sample_weight: Any, *, unit: bool = False) -> Any:
    """X and its weights as a table of shares: in memory, on disk (`Rows`) or on the workers of a
    Dask cluster (`DaskRows`). `model` learns the number and the names of the columns.

    With `unit` (metric="cosine") rows are taken at length 1, and rows of zeros do not count.
    """
    if is_spread(X):
        from madbayes._rows.dask_input import open_dask  # Dask is imported only for its tables

        return open_dask(model, X, sample_weight, unit=unit)
    X = check_rows(model, X)
    weight = check_weight(sample_weight, X.shape[0])
    if unit:
        weight = weight_of_directions(X, weight, up=1)
    return Rows(X, unit=unit, weight=weight)
