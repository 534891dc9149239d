"""`madbayes cluster … --scheduler`: Parquet files where the workers of a Dask cluster are.

The rows never come here: labels.parquet is written as they arrive, chunk by chunk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from madbayes import DPMeans, KMeans
from madbayes.cli.fit import fitted, telling
from madbayes.cli.options import Output, Reading
from madbayes.cli.prepare import resolve
from madbayes.cli.results import Answer
from madbayes.cli.run import Voice, deliver
from madbayes.cli.show import count
from madbayes.cli.write import check_folder
from madbayes.tables.cells import TableColumn
from madbayes.tables.encoder import TableEncoder
from madbayes.tables.errors import UserError
from madbayes.tables.frame import Frame
from madbayes.tables.pipeline import TablePipeline
from madbayes.tables.recommend import Recommendation
from madbayes.tables.scaling import why_scale


def cluster_on_dask(
    reading: Reading, output: Output, model: Any, penalty_from: str, scheduler: str
) -> None:
    """Read, fit, write and show, on the cluster."""
    voice = Voice(output)
    reading.check()
    refuse(reading, output, model)
    name = ", ".join(str(path) for path in reading.file)
    with connected(scheduler) as dd:
        table = opened(dd, reading)
        check_folder(output.out, output.force, name)
        weight = {} if reading.weights is None else {"sample_weight": table[reading.weights]}
        names = chosen(table, reading)
        X, encoder, mean, spread = standardized(table[names], reading.standardize, model.metric)
        voice.notes(encoder.notes_)

        def fit(folder: Path) -> Answer:
            _, notes = fitted(model, X.to_dask_array(), **weight)
            number = int(model.n_clusters_)
            sizes = write_labels(folder / "labels.parquet", model.labels_, number)
            vars(model).pop("labels_")  # they are on the workers
            n_rows, scaled = int(sizes.sum()), encoder.scale_ is not None
            centers = encoder.in_units(model.cluster_centers_)
            return Answer(
                model,
                None,
                number=number,
                sizes=sizes,
                names=tuple(names),
                centers=centers,
                telling=telling(sizes, (centers - mean) / spread),
                standardized=scaled,
                penalty=getattr(model, "penalty_", None),
                penalty_from=penalty_from,
                objective=float(model.objective_),
                about={"n_rows": n_rows, "columns_used": names, "standardized": scaled},
                notes=notes,
                found_in=f"in {count(n_rows, 'row')}",
                save=TablePipeline([("table", encoder), ("clusters", model)]).save,
            )

        doing = f"clustering on {scheduler}"
        deliver(voice, "cluster", name, output, encoder.notes_, doing, fit)


def refuse(reading: Reading, output: Output, model: Any) -> None:
    """Options that would be ignored."""
    used = ("file", "columns", "drop", "weights", "standardize")
    ignored = [f.name for f in fields(reading) if f.name not in used]
    ignored = [n for n in ignored if getattr(reading, n) != getattr(Reading, n)]
    if reading.missing == "error":  # Dask tables with missing cells are refused anyway
        ignored.remove("missing")
    options = [f"--{name.replace('_', '-')}" for name in ignored]
    options += ["--table"] * output.table
    if not isinstance(model, (DPMeans, KMeans)):
        options.append("--shape any or long")
    if options:
        raise UserError(
            f"{options[0]} does not go together with --scheduler. Leave one of them out."
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
        client = Client(scheduler, timeout="10s")
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


def standardized(
    table: Any, how: str, metric: str
) -> tuple[Any, TableEncoder, np.ndarray, np.ndarray]:
    """The columns, scaled where the options or their spreads ask for it, how, and their means and
    spreads."""
    import dask

    mean, deviation = dask.compute(table.mean(), table.std(ddof=0))
    columns = [TableColumn(str(name), "number") for name in table.columns]
    spread = {name: float(deviation[name]) for name in table.columns}
    why = why_scale(columns, spread, True) if how == "auto" and metric == "euclidean" else ""
    center = mean.to_numpy(dtype=np.float64)
    encoder = TableEncoder.of_columns(columns, None, None, center)
    encoder.recommendation_ = Recommendation("numeric", "squared", "Dask tables hold numbers")
    scale = np.array([value or 1.0 for value in spread.values()])
    if not why and how != "yes":
        return table, encoder, center, scale
    encoder.mean_, encoder.scale_, encoder.fill_ = center, scale, np.zeros_like(center)
    encoder.notes_ = [f"{why}; --standardize no turns that off"] if why else []
    return table.map_partitions(_scaled, center, scale), encoder, center, scale


def _scaled(part: Any, center: np.ndarray, scale: np.ndarray) -> Any:
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
