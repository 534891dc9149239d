"""What was read, done and found, for machines."""

import platform
from typing import Any

from madbayes._storage.saving import versions
from madbayes.cli.fit import Answer
from madbayes.cli.options import command_line
from madbayes.cli.prepare import Table
from madbayes.cli.write import TOOL

EVIDENCE = ("strength", "support", "reason", "score", "confirmed", "n_isolated", "remarks")


def summarize(verb: str, file: str, table: Table | None, answer: Answer) -> dict[str, Any]:
    """The content of summary.json."""
    number = "n_components" if answer.of == "feature" else "n_clusters"
    out: dict[str, Any] = {"tool": TOOL, "verb": verb, "file": file, "command": command_line()}
    if table is not None:
        out |= {
            "n_rows": len(table.values),
            "n_rows_in_file": table.n_rows_in_file,
            "n_columns": len(table.columns),
            "columns_used": [column.name for column in table.columns],
            "columns_left_out": dict(table.left_out),
            "kinds": {c.name: c.kind for c in table.columns},
            "standardized": table.standardized,
        }
    out |= {
        number: answer.number,
        "sizes": answer.sizes.tolist(),
        answer.penalty_name: answer.penalty,
        f"{answer.penalty_name}_from": answer.penalty_from,
        "objective": answer.objective,
        "evidence": describe(answer.evidence),
        "notes": [*(table.notes if table else ()), *answer.notes],
        "versions": {**versions(), "python": platform.python_version()},
    }
    return out


def describe(evidence: Any) -> dict[str, Any] | None:
    """A `Choice` as JSON."""
    if evidence is None:
        return None
    number = "n_components" if getattr(evidence, "of", "") == "feature" else "n_clusters"
    out = {number: getattr(evidence, number, None), "description": evidence.describe()}
    out |= {name: getattr(evidence, name) for name in EVIDENCE if hasattr(evidence, name)}
    out["runners_up"] = [
        {number: k, "score": score} for k, score in getattr(evidence, "runners_up", ())
    ]
    return out
