"""Which output of a `TableEncoder` suits a table, and which divergence."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from madbayes.tables.cells import TableColumn
from madbayes.tables.notes import listing

MANY_COUNTS = 5  # columns of counts from which on rows are baskets or documents
NEARLY_ALL = 0.9
FEW_OTHERS = 0.02  # share of columns that are no numbers, too few to decide how rows are compared
WIDE_COUNTS = 10  # columns from which on totals of very different size are lengths of documents
OVERDISPERSED = 2.0  # variance of the totals over their mean; 1 for independent counts


@dataclass(frozen=True)
class Recommendation:
    """Which output suits the table (`output`), with which `divergence`, and `why`."""

    output: str
    divergence: str
    why: str


def recommend(used: Sequence[TableColumn], values: np.ndarray, names: np.ndarray) -> Recommendation:
    """For the columns that are used; `values` are the rows in units, called `names`."""
    counts = [column.name for column in used if column.kind == "count"]
    if len(counts) >= max(MANY_COUNTS, NEARLY_ALL * len(used)):
        return _for_counts(values[:, np.isin(names, counts)])
    others = [column for column in used if column.family != "squared"]
    if not {column.kind for column in used} <= {"ordered", "count"}:
        # The steps of answers look like gaps between clusters beside numbers of many values.
        others += [column for column in used if column.kind == "ordered"]
    if not others:
        return Recommendation("numeric", "squared", "all columns that are used hold numbers")
    if len(others) <= FEW_OTHERS * len(used):
        why = f"all but {len(others)} of {len(used)} columns hold numbers"
        return Recommendation("numeric", "squared", why)
    named = listing([f"{column.name} ({column.kind})" for column in others], 4)
    return Recommendation("mixed", "mixed", f"the table holds more than numbers: {named}")


def _for_counts(counts: np.ndarray) -> Recommendation:
    totals = np.nan_to_num(counts).sum(axis=1)
    spread = totals.var() / max(float(totals.mean()), 1e-300)
    what = f"there are {counts.shape[1]} columns of counts"
    if counts.shape[1] >= WIDE_COUNTS and spread > OVERDISPERSED and totals.min() > 0:
        why = f"{what}, and rows of very different totals: shares are compared"
        return Recommendation("mixed", "multinomial", why)
    return Recommendation("mixed", "poisson", f"{what}: counts are compared as counts")
