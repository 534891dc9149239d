"""The classes that a file may name, and where they are today.

A saved model names classes, never modules: nothing is imported because a file says so. Files of
format 1 also hold the module in which a class was; it is not looked at, so a class can move. When
one moves, this table is the only place that has to follow. A class that is not in it cannot be
saved or loaded.
"""

from importlib import import_module

# The public classes of `madbayes`, which are all estimators.
ESTIMATORS = tuple(name for name in import_module("madbayes").__all__ if name[0].isupper())

# Parts of models and of checkpoints, with the modules that define them.
PARTS = {
    "Candidate": "auto.auto_cluster",
    "Choice": "howmany.staircase",
    "Clustering": "kmeans.search_rows",
    "Column": "_storage.prepared",
    "ColumnEncoder": "divergences.table",
    "Kernel": "kernel.gram",
    "Neighbours": "graph.neighbors",
    "NestedLabels": "howmany.staircase",
    "Prepared": "_storage.prepared",
    "Recommendation": "tables.recommend",
    "Reservoir": "_rows.reservoir",
    "Staircase": "howmany.staircase",
    "Stream": "online.stream",
    "TableColumn": "tables.cells",
    "TablePipeline": "tables.pipeline",
    "Summary": "online.auto",
}


def find_class(name: object) -> type | None:
    """The class of that name, or None for a name that is not in the table."""
    if name in ESTIMATORS:
        return getattr(import_module("madbayes"), str(name))
    if isinstance(name, str) and name in PARTS:
        return getattr(import_module(f"madbayes.{PARTS[name]}"), name)
    return None
