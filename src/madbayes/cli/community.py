"""From a list of edges to communities, written and shown."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.text import Text

from madbayes.cli import pictures
from madbayes.cli.answer import LABELS, finish
from madbayes.cli.edges import Edges, read_edges
from madbayes.cli.fit import Answer, fitted
from madbayes.cli.options import Output
from madbayes.cli.run import Voice
from madbayes.cli.show import count, show
from madbayes.cli.summary import summarize
from madbayes.cli.write import all_or_nothing, check_folder, write_csv
from madbayes.tables.errors import harmless
from madbayes.tables.formats import given


def communities(
    voice: Voice,
    file: Path,
    output: Output,
    source: str | None,
    target: str | None,
    weights: str | None,
    no_header: bool,
    resolution: float | str,
    cut: str,
    seed: int,
) -> None:
    """The whole of `madbayes graph`."""
    name = "standard input" if str(file) == "-" else file.name
    check_folder(output.out, output.force, name)
    with given([file]) as files, voice.status(f"reading {file.name}"):
        path = files[0]
        edges = read_edges(path, source=source, target=target, weight=weights, header=not no_header)
    voice.notes(edges.notes)
    with all_or_nothing(output.out, output.force) as scratch:
        with voice.progress(f"cutting a graph of {count(edges.n_edges, 'edge')}"):
            answer = fit_graph(edges, resolution, cut, seed)
        voice.notes(answer.notes)
        drawn = pictures.path_only(scratch, None, answer, name) if output.plot else []
        summary = summarize("graph", name, None, answer)
        summary = {"n_rows": len(edges.nodes), "n_edges": edges.n_edges, **summary}
        summary["notes"] = [*edges.notes, *summary["notes"]]
        _write(scratch, edges, answer)
        if output.report:
            from madbayes.reports import report

            report(
                answer.model,
                edges.adjacency,
                scratch / "report.html",
                title=name,
                ids=edges.nodes.tolist(),
                id_name="node",
                notes=summary["notes"],
            )
        finish(scratch, summary)
    nodes, n_edges = count(len(edges.nodes), "node"), count(edges.n_edges, "edge")
    title = f"{count(answer.number, 'cluster')} in {nodes} and {n_edges}"

    def tell(console: Console) -> None:
        show(console, answer, title, (), False)
        files = ", ".join(summary["files"])
        console.print(Text(harmless(f"Written to {output.out}: {files}")))

    voice.result(summary, tell)
    if output.plot and answer.path is not None and not drawn:
        voice.notes(['the picture needs matplotlib: pip install "madbayes[plot]"'])


def fit_graph(edges: Edges, resolution: float | str, cut: str, seed: int) -> Answer:
    """The communities at this resolution, or at the one that the graph supports."""
    from madbayes import GraphCut

    model, notes = fitted(GraphCut(resolution, cut=cut, random_state=seed), edges.adjacency)
    labels = np.asarray(model.labels_)
    cost = "conductance" if cut == "normalized" else "cut per node"
    answer = Answer(
        "graph",
        model,
        labels,
        number=int(model.n_clusters_),
        sizes=np.bincount(labels[labels >= 0], minlength=model.n_clusters_),
        penalty=float(model.resolution_),
        penalty_from="chosen from the data" if resolution == "auto" else "given",
        penalty_name="resolution",
        objective=float(model.objective_),
        objective_is=f"{cost} - resolution × clusters",
        notes=notes,
    )
    answer.per_cluster[cost] = np.asarray(model.conductance_).tolist()
    if answer.evidence is None and answer.path is not None:
        answer.facts["evidence"] = answer.path.best().describe()
    return answer


def _write(folder: Path, edges: Edges, answer: Answer) -> None:
    labels = answer.labels.tolist()
    rows = zip(edges.nodes.tolist(), labels, strict=True)
    write_csv(
        folder / "labels.csv",
        ["node", *LABELS],
        ([node, "" if label < 0 else label, "", "", ""] for node, label in rows),
    )
    costs = next(iter(answer.per_cluster.values()))
    write_csv(
        folder / "clusters.csv",
        ["cluster", "size", "conductance"],
        (
            [k, size, cost]
            for k, (size, cost) in enumerate(zip(answer.sizes.tolist(), costs, strict=True))
        ),
    )
    answer.model.save(folder / "model.npz")
