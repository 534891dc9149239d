"""One page that a colleague can read: `report(model, X, path)`."""

from madbayes.reports.page import report

__all__ = ["report"]
