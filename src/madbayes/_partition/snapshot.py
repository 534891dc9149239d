"""A partition under way as plain arrays, and back: what a checkpoint needs to go on to the bit.

Labels and sums alone would give the same labels, but not the same bits: bounds decide which rows
are looked at, and so in which order changes are added up. Everything is kept.
"""

import hashlib
from typing import Any

import numpy as np

from madbayes._partition.bounds import Tally
from madbayes._partition.partition import Partition
from madbayes._rows.frame import Frame


def take(partition: Partition) -> dict[str, Any]:
    """All that a partition knows, besides its rows; no copies, so write it down at once."""
    labels, upper, lower, tallies = partition.state()
    return {
        "labels": labels,
        "sse": float(partition.sse),
        "sse_peak": float(partition._sse_peak),
        "upper": upper,
        "lower": lower,
        "bounds_for": partition._bounds_for,
        "group": partition._group,
        "n_groups": int(partition._n_groups),
        "use32": bool(partition._use32),
        "sums": np.stack([tally.sums for tally in tallies]),
        "low": np.stack([tally.low for tally in tallies]),
        "count": np.stack([tally.count for tally in tallies]),
    }


def put(partition: Partition, state: dict[str, Any]) -> None:
    """Make a new partition of the same rows what the other one was."""
    partition.sse, partition._sse_peak = state["sse"], state["sse_peak"]
    partition._bounds_for = state["bounds_for"]
    partition._group, partition._n_groups = state["group"], state["n_groups"]
    partition._use32 = state["use32"]
    parts = zip(state["sums"], state["low"], state["count"], strict=True)
    tallies = [Tally(*sums, np.zeros(4)) for sums in parts]
    partition.set_state(state["labels"], state["upper"], state["lower"], tallies)


def fingerprint(rows: Any, frame: Frame) -> str:
    """Tells data from other data of the same shape: the mean of all rows, and some of them."""
    some = np.unique(np.linspace(0, rows.n - 1, min(256, rows.n)).astype(np.int64))
    sha = hashlib.sha256(np.ascontiguousarray(frame.mean).tobytes())
    sha.update(np.array([frame.total_weight, frame.scale]).tobytes())
    sha.update(rows.take(some).tobytes())
    if rows.weighted and not rows.executor.remote:
        sha.update(rows.weight.tobytes())
    return sha.hexdigest()
