"""What a reader should know about the columns, in sentences."""

from collections.abc import Sequence
from typing import Any

from madbayes.tables.cells import TableColumn

MOST_NOTES = 12  # columns left out that are named one by one


def listing(names: Sequence[str], at_most: int = 12) -> str:
    """ "a, b, c, … (20 in all)"."""
    more = f", … ({len(names)} in all)" if len(names) > at_most else ""
    return ", ".join(names[:at_most]) + more


def about_columns(columns: Sequence[TableColumn]) -> list[str]:
    """What was left out, read in an unusual way, or used as something else than a number."""
    notes = [note for column in columns for note in column.notes]
    left = [c for c in columns if not c.used and c.why != "as asked"]
    notes += [f"left out {c.name}: {c.why}" for c in left[:MOST_NOTES]]
    if len(left) > MOST_NOTES:
        notes.append(f"left out {len(left) - MOST_NOTES} more columns, see columns_")
    logs = [c.name for c in columns if c.transform.startswith("log") and c.why != "as asked"]
    if logs:
        what = "its values are" if len(logs) == 1 else "their values are"
        notes.append(
            f"the logarithm is used of {listing(logs)}: {what} positive and skewed, and groups "
            "have equal spread on a log scale"
        )
    roots = any(c.transform == "sqrt" for c in columns)
    for kind, what in (
        ("category", "categories"),
        ("yes/no", "yes or no"),
        ("count", "counts, by their square roots" if roots else "counts"),
        ("ordered", "ordered answers"),
        ("vector", "vectors"),
    ):
        these = [c.name for c in columns if c.used and c.kind == kind and c.why != "as asked"]
        if these:
            notes.append(f"used as {what}: {listing(these)}")
    return notes


def about_gaps(encoder: Any, frame: Any) -> list[str]:
    """Codes for missing values, and how many cells are missing where."""
    notes = []
    used = encoder.used_columns_
    by_code: dict[tuple[float, ...], list[TableColumn]] = {}
    for column in used:
        if column.missing_codes:
            by_code.setdefault(column.missing_codes, []).append(column)
    for codes, columns in by_code.items():
        alike = [columns] if len(columns) > 3 else [[column] for column in columns]
        notes += [_about_codes(codes, group) for group in alike]
    gaps = {column.name: column.n_missing for column in used if column.n_missing}
    if gaps:
        total = sum(gaps.values())
        share = total / (frame.n_rows * len(used))
        where = listing([f"{name} ({n:,})" for name, n in gaps.items()], 8)
        are = "is" if total == 1 else "are"
        notes.append(f"{_cells(total)} {are} missing ({share:.1%}), in {where}")
    return notes


def _about_codes(codes: tuple[float, ...], columns: list[TableColumn]) -> str:
    n = sum(column.n_codes for column in columns)
    where = listing([column.name for column in columns], 8)
    hold = "cell holds" if n == 1 else "cells hold"
    written = " or ".join(f"{code:g}" for code in codes)
    return f"{where}: {n:,} {hold} {written}, far from all other values; taken as missing"


def _cells(n: int) -> str:
    return f"{n} cell" if n == 1 else f"{n:,} cells"


def most_left_out(columns: Sequence[TableColumn]) -> str:
    """A warning where more columns were left out than used; empty otherwise."""
    left = [c.name for c in columns if not c.used and c.why != "as asked"]
    used = [c.name for c in columns if c.used]
    if len(left) <= len(used):
        return ""
    return (
        f"most columns were left out ({len(left)} of {len(left) + len(used)}), so the result "
        f"speaks of {listing(used, 6)} alone"
    )
