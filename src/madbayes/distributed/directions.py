"""metric="cosine": rows of zeros have no direction, so their weight becomes 0."""

import warnings

from madbayes.distributed import local
from madbayes.distributed.table import SpreadTable


def weight_directions(table: SpreadTable) -> SpreadTable:
    """`_rows.checks.weight_of_directions`."""
    zero = table.each(local.zeros)
    number = sum(each.size for each in zero)
    if number == table.n:
        raise ValueError(
            "all rows of X are zeros: they have no direction, so metric='cosine' cannot compare "
            "them."
        )
    if number:
        s = next(s for s, each in enumerate(zero) if each.size)
        warnings.warn(
            f"{number} rows of X are all zeros (the first is row {table.spans[s][0] + zero[s][0]})"
            ": they have no direction, so they are left out of the fit and get the label 0.",
            stacklevel=4,
        )
    weighted = table.weighted or number > 0
    every = [weighted] * len(zero)
    return table.change(local.of_directions, zero, every, weighted=weighted, unit=True)
