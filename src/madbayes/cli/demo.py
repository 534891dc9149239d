"""The data of `madbayes demo`."""

from pathlib import Path

from madbayes.tables.errors import UserError

NAME = "old_faithful.csv"


def eruptions() -> Path:
    """Beside this file in an installed package, among the examples in a checkout."""
    here = Path(__file__).resolve()
    for path in (here.with_name(NAME), here.parents[3] / "examples" / NAME):
        if path.exists():
            return path
    raise UserError("The data of the demo is not part of this installation.")
