"""Fill the tables of docs/reproduction.md and docs/leaves_on_the_table.md from the results."""

import json
import re

from common import RESULTS, ROOT

PAGES = [ROOT / "docs" / "reproduction.md", ROOT / "docs" / "leaves_on_the_table.md"]


def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def two(value):
    """.41, as the papers write it."""
    return "–" if value is None else f"{value:.2f}".replace("0.", ".", 1)


def table(header, lines):
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def prml_figure9():
    found = results("prml_figure9")
    names = [f"{kind} {i // 2 + 1}" for i, kind in enumerate(found["steps"])]
    return table(["step", *names], [["J", *[f"{value:.1f}" for value in found["J"]]]])


def kj_figure2():
    found = results("kj_figure2")
    given = found["paper"]
    gibbs = found["Gibbs"]
    above = "passes until the NMI is above .8"
    lines = [
        ["passes at most", given["max_iterations"], found["max_iterations"]],
        ["mean NMI", two(given["mean_nmi"]), two(found["mean_nmi"])],
        [above, given["passes_to_nmi_above_0.8"], f"{found['mean_passes_to_nmi_above_0.8']:.1f}"],
        ["runs with three clusters", "", f"{found['share_with_3_clusters']:.0%}"],
        [
            "Gibbs, gamma prior: first sweep with three clusters; share of sweeps with three",
            "about 1,500; later more than three",
            f"{gibbs['gamma']['first_sweep_with_3']}; {gibbs['gamma']['share_with_3']:.0%}",
        ],
        [
            "Gibbs, α validated: the same",
            "about 3,000",
            f"{gibbs['validated']['first_sweep_with_3']}; {gibbs['validated']['share_with_3']:.0%}",
        ],
    ]
    return table(["", "paper", "ours"], lines)


def kj_figure2_distances():
    found = results("kj_figure2")["distances"]
    lines = [
        [s, v["max_iterations"], f"{v['mean_iterations']:.1f}", two(v["mean_nmi"])]
        for s, v in found.items()
    ]
    return table(["distance of the means", "passes at most", "on average", "mean NMI"], lines)


def kj_table1():
    names = ["DP-means", "k-means", "Gibbs"]
    ours = [*names, "search", "search, same penalty", "auto"]
    lines = []
    for name, values in results("kj_table1").items():
        if name == "about":
            continue
        pairs = [f"{two(values['paper'][m])} / {two(values[m])}" for m in names]
        k = f"{values['classes']} / {values['n_clusters']['DP-means']}"
        lines.append([name, *pairs, *[two(values[m]) for m in ours[3:]], k])
    header = [f"{m}: paper / ours" for m in names]
    return table(["set", *header, *ours[3:], "classes / clusters of DP-means"], lines)


def kj_scale():
    found = results("kj_scale")
    ours, gibbs, given = found["DP-means"], found["Gibbs"], found["paper"]
    lines = [
        ["rows", "312,320", f"{found['rows']:,}"],
        ["DP-means: seconds per pass", given["seconds_per_pass"], ours["seconds_per_pass"]],
        ["passes to convergence", given["passes"], ours["passes"]],
        ["clusters", "not printed", ours["n_clusters"]],
        [
            "Gibbs: seconds per sweep",
            given["Gibbs"]["seconds_per_sweep"],
            f"{gibbs['seconds_per_sweep']} (from {gibbs['gibbs_rows']:,} rows)",
        ],
    ]
    return table(["", "paper", "ours"], lines)


def kj_hdp():
    lines = []
    for name, v in results("kj_hdp").items():
        if name == "about":
            continue
        given = v.get("paper", {})
        g = "–" if v["g"] is None else f"{v['g']:.1f}"
        low, high = v["nmi_from_to"]
        cells = [two(given.get("nmi")), f"{v['nmi']:.3f}", f"{low:.3f} to {high:.3f}"]
        cells += [given.get("g", "–"), g, given.get("mean_k_j", "–"), f"{v['mean_k_j']:.1f}"]
        lines.append([name, *cells, given.get("seconds", "–"), v["seconds"]])
    header = ["method", "NMI: paper", "ours", "range", "g: paper", "ours", "k_j: paper", "ours"]
    return table([*header, "seconds: paper", "ours"], lines)


def bkj_tabletop():
    lines = []
    found = results("bkj_tabletop")
    for name in ("Gibbs", "Collapsed", "BP-means", "K-features", "search", "auto"):
        v = found[name]
        given = v.get("paper") or {}
        cells = [given.get("per_run", "–"), v["per_run"], given.get("total", "–")]
        cells += [v.get("total", "–"), v.get("starts", f"{v.get('sweeps')} sweeps")]
        same = v.get("penalty") == 1.0
        objective = f"{v['objective']:.2f}" if same else "–"
        lines.append([name, *cells, given.get("n_features", "–"), v["n_features"], objective])
    header = ["algorithm", "seconds per run: paper", "ours", "total: paper", "ours", "our starts"]
    return table([*header, "features: paper", "ours", "objective"], lines)


def bkj_histogram():
    found = results("bkj_tabletop")["histogram"]["K"]
    whole = sum(found.values())
    shares = [f"{count / whole:.0%}" for count in found.values()]
    return table(["features", *found], [["share of sweeps", *shares]])


def bkj_faces():
    found = results("bkj_faces")
    given = found["paper"]
    pairs = [f"{name}: {count}" for name, count in found["combinations"].items()]
    lines = [
        ["features", given["n_features"], found["n_features"]],
        ["faces by combination", "100: 139, 110: 106, 101: 80, 111: 75", ", ".join(pairs)],
        ["k-means, K=3", *[", ".join(map(str, x["k-means 3"])) for x in (given, found)]],
        ["k-means, K=4", *[", ".join(map(str, x["k-means 4"])) for x in (given, found)]],
    ]
    return table(["", "paper (FEI)", "ours (ORL)"], lines)


def gaps():
    lines = []
    for name, v in results("gaps")["clusters"].items():
        cells = [name, f"{v['rows']:,}×{v['columns']}", v["classes"]]
        for rule in ("farthest-first", "auto"):
            one = v[rule]
            cells += [
                f"{one['paper']['number']} → {one['search']['number']}",
                f"{abs(round(one['gap'], 4)):.0%}",
            ]
        lines.append(cells)
    header = ["set", "size", "classes", "k at the heuristic's λ: printed → search", "gap"]
    return table([*header, "k at the λ of auto: printed → search", "gap"], lines)


def feature_gaps():
    lines = [
        [
            name,
            *[f"{v[a]['number']}, {v[a]['objective']:.1f}" for a in ("paper", "search")],
            f"{v['gap']:.1%}",
        ]
        for name, v in results("gaps")["features"].items()
    ]
    return table(["set", "printed: K, objective", "search: K, objective", "gap"], lines)


def main():
    for path in PAGES:
        text = path.read_text(encoding="utf-8")

        def fill(match):
            name = match[1]
            return f"<!-- {name} -->\n\n{globals()[name]()}\n\n<!-- end -->"

        text = re.sub(r"<!-- (\w+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main()
