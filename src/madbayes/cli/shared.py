"""`madbayes groups`: clusters that the groups of a table share."""

import math
from typing import Any

import numpy as np

from madbayes.cli.fit import Answer, clustering, fitted
from madbayes.cli.run import Task, weighted
from madbayes.tables.errors import UserError


def check_penalties(
    local: float | None, whole: float | None, local_hint: int | None, global_hint: int | None
) -> None:
    """Before a large file is read."""
    for kind, penalty, hint in (("local", local, local_hint), ("global", whole, global_hint)):
        if penalty is None:
            continue
        if not 0 < penalty < math.inf:
            raise UserError(
                f"--penalty-{kind} {penalty} should be a number > 0, in squared-distance units; "
                "without it, the data decide."
            )
        if hint is not None:
            raise UserError(
                f"--{kind}-hint {hint} would be ignored, because --penalty-{kind} {penalty:g} "
                "already decides. Give one of them."
            )


def fit_groups(
    task: Task, by: str, local: float | None, whole: float | None, hints: dict[str, Any], seed: int
) -> Answer:
    """Clusters, and which group uses which."""
    from madbayes import HardHDP

    model = HardHDP(local or "auto", whole or "auto", **hints, random_state=seed)
    model, notes = fitted(model, task.X, groups=task.by, **weighted(model, task))
    how = "given" if local and whole else "chosen from the data"
    answer = clustering("groups", model, task.table, task.X, notes, how)
    names = np.asarray(model.groups_)
    code = np.searchsorted(names, np.asarray(task.by))
    used = np.zeros((len(names), answer.number), dtype=np.int64)
    np.add.at(used, (code, answer.labels), 1)
    answer.beside = {by: task.by} if by not in ("row", "cluster") else {}
    answer.per_cluster["groups"] = (used > 0).sum(axis=0).tolist()
    uses = (used > 0).sum(axis=1)
    each = f"{uses.min()}" if uses.min() == uses.max() else f"{uses.min()} to {uses.max()}"
    answer.facts = {
        by: f"uses {each} of the clusters, {uses.mean():.3g} on average",
        "penalties": f"local {model.penalty_local_:.6g}, global {model.penalty_global_:.6g}",
    }
    answer.penalty, answer.penalty_from = float(model.penalty_global_), how
    answer.objective_is = "squared error + penalties"
    answer.tables["groups.csv"] = (
        [by, "size", "clusters", *range(answer.number)],
        [
            [name, sum(line), sum(cell > 0 for cell in line), *line]
            for name, line in zip(names.tolist(), used.tolist(), strict=True)
        ],
    )
    return answer
