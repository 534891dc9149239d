"""`madbayes cluster … --scheduler`: Parquet files where the workers of a Dask cluster are.

The rows never come here: labels.parquet is written as they arrive, chunk by chunk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.text import Text

from madbayes._storage.prepared import Column, Prepared
from madbayes.cli.fit import fitted
from madbayes.cli.options import Output, Reading, command_line
from madbayes.cli.prepare import resolve
from madbayes.cli.results import describe, finish
from madbayes.cli.run import explained
from madbayes.cli.show import count
from madbayes.cli.write import TOOL, all_or_nothing, check_folder, write_csv
from madbayes.tables.cells import TableColumn as Described
from madbayes.tables.errors import UserError, harmless
from madbayes.tables.frame import Frame
from madbayes.tables.scaling import why_scale

CONNECT = "10s"


def cluster_on_dask(
    reading: Reading, output: Output, model: Any, penalty_from: str, scheduler: str
) -> None:
    """Read, fit, write and show, on the cluster."""
    with explained(output) as voice:
        reading.check()
        refuse(reading, output, model)
        name = ", ".join(str(path) for path in reading.file)
        with connected(scheduler) as dd:
            table = opened(dd, reading)
            check_folder(output.out, output.force, name)
            weight = None if reading.weights is None else table[reading.weights]
            names = chosen(table, reading)
            X, mean, scale, notes = standardized(table[names], reading.standardize, model.metric)
            voice.notes(notes)
            with all_or_nothing(output.out, output.force) as scratch:
                with voice.progress(f"clustering on {scheduler}"):
                    rows = X.to_dask_array()  # the names are kept beside the model
                    model, more = fitted(model, rows, sample_weight=weight)
                voice.notes(more)
                sizes = write_labels(scratch / "labels.parquet", model.labels_, model.n_clusters_)
                vars(model).pop("labels_")
                columns = tuple(Column(name) for name in names)
                kept = Prepared(model, columns, mean, scale)
                kept.save(scratch / "model.npz")
                lines = zip(sizes.tolist(), kept.cluster_centers_.tolist(), strict=True)
                write_csv(
                    scratch / "centers.csv",
                    ["cluster", "size", *names],
                    ([c, size, *center] for c, (size, center) in enumerate(lines)),
                )
                summary: dict[str, Any] = {
                    "tool": TOOL,
                    "verb": "cluster",
                    "file": name,
                    "command": command_line(),
                    "n_rows": int(sizes.sum()),
                    "columns_used": names,
                    "standardized": scale is not None,
                    "n_clusters": model.n_clusters_,
                    "sizes": sizes.tolist(),
                    "penalty": getattr(model, "penalty_", None),
                    "penalty_from": penalty_from,
                    "objective": model.objective_,
                    "evidence": describe(getattr(model, "evidence_", None)),
                    "notes": [*notes, *more],
                }
                finish(scratch, summary)

        def tell(console: Console) -> None:
            found = f"{count(model.n_clusters_, 'cluster')} in {count(summary['n_rows'], 'row')}"
            console.print(Text(found, style="bold"))
            if hasattr(model, "evidence_"):
                console.print(Text(harmless(model.evidence_.describe())))
            written = ", ".join(summary["files"])
            console.print(Text(harmless(f"Written to {output.out}: {written}")))

        voice.result(summary, tell)


def refuse(reading: Reading, output: Output, model: Any) -> None:
    """Options that would be ignored."""
    for option, given in (
        ("--shape any", not hasattr(model, "cluster_centers_") and "Cut" in type(model).__name__),
        ("--id", reading.id is not None),
        ("--categorical", bool(reading.categorical)),
        ("--log", bool(reading.log)),
        ("--sheet", reading.sheet is not None),
        ("--missing", reading.gaps not in ("observed", "error")),
        ("--na", bool(reading.na)),
        ("--skip-rows", reading.skip_rows > 0),
        ("--table", output.table),
    ):
        if given:
            raise UserError(
                f"{option} does not go together with --scheduler. Leave one of them out."
            )


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """`dask.dataframe`, with a client of that scheduler."""
    try:
        import dask.dataframe as dd
        from distributed import Client
    except ImportError:
        raise UserError('--scheduler needs Dask: pip install "madbayes[dask]"') from None
    try:
        client = Client(scheduler, timeout=CONNECT)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(
            f"--scheduler {scheduler}: no Dask scheduler answers there ({error}). Start one with "
            "`dask scheduler`, and give the address that it prints, such as tcp://host:8786."
        ) from None
    with client:
        if not client.nthreads():
            raise UserError(
                f"--scheduler {scheduler} has no workers: start `dask worker {scheduler}`."
            )
        yield dd


def opened(dd: Any, reading: Reading) -> Any:
    """The Parquet files, or those of a folder."""
    files = []
    for path in reading.file:
        here = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        if not here:
            raise UserError(f"{path} holds no .parquet files, which --scheduler reads.")
        files += [str(each) for each in here]
    try:
        return dd.read_parquet(files)
    except (OSError, ValueError, pa.ArrowInvalid) as error:
        raise UserError(
            f"{files[0]} cannot be read as Parquet ({error}). With --scheduler, FILE is .parquet "
            "files or a folder of them."
        ) from None


def chosen(table: Any, reading: Reading) -> list[str]:
    """The columns to use: those asked for, or all that hold numbers."""
    names = tuple(str(name) for name in table.columns)
    frame = Frame(names, np.empty((0, len(names))))
    weights = [] if reading.weights is None else [reading.weights]
    out = {
        *resolve(frame, reading.drop or (), "--drop"),
        *resolve(frame, weights, "--weights", True),
    }
    use = resolve(frame, reading.columns or (), "--columns")
    if not use:
        use = [j for j, kind in enumerate(table.dtypes) if getattr(kind, "kind", "O") in "biuf"]
    found = [names[j] for j in use if j not in out]
    if not found:
        raise UserError("No column with numbers is left.")
    return found


def standardized(table: Any, how: str, metric: str) -> tuple[Any, Any, Any, list[str]]:
    """The columns, scaled where the options or their spreads ask for it."""
    import dask

    mean, deviation = dask.compute(table.mean(), table.std(ddof=0))
    spread = {name: float(deviation[name]) for name in table.columns}
    why = ""
    if how == "auto" and metric == "euclidean":
        why = why_scale([Described(name, "number") for name in spread], spread, True)
    if not why and how != "yes":
        return table, None, None, []
    scale = np.array([value or 1.0 for value in spread.values()])
    center = mean.to_numpy(dtype=np.float64)
    notes = [f"{why}; --standardize no turns that off"] if why else []
    return table.map_partitions(scaled, center, scale), center, scale, notes


def scaled(part: Any, center: np.ndarray, scale: np.ndarray) -> Any:
    return (part.astype(np.float64) - center) / scale


def write_labels(path: Path, labels: Any, k: int) -> np.ndarray:
    """One line for each row, in the order of the files; returns the sizes of the clusters."""
    sizes = np.zeros(k, dtype=np.int64)
    schema = pa.schema([("cluster", pa.int32())])
    with pa.parquet.ParquetWriter(path, schema) as out:
        for at in range(labels.numblocks[0]):
            part = labels.blocks[at].compute()
            sizes += np.bincount(part, minlength=k)
            out.write_table(pa.table({"cluster": part}, schema=schema))
    return sizes
