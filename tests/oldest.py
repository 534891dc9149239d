"""The oldest versions that pyproject.toml allows, as constraints for pip: `make test-oldest`."""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXTRAS = ("cli", "excel", "plot", "neighbors", "dask", "test")
TOOLS = (
    "madbayes",
    "pytest",
    "hypothesis",
    "coverage",
    "selenium",
    "ruff",
    "mypy",
    "import-linter",
)


def constraints() -> list[str]:
    """`name==version` for every `name>=version`."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    required = [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]
    bounds = [re.sub(r"\[.*\]", "", one).replace(">=", "==") for one in required]
    return [one for one in bounds if not one.startswith(TOOLS)]  # tools may be new


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints()) + "\n")
