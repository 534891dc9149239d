"use strict";
// Data go into the page as text (textContent) only; nothing of them is ever parsed as HTML.
(() => {
  const D = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const make = (tag, props = {}, ...children) => {
    const node = Object.assign(document.createElement(tag), props);
    node.append(...children);
    return node;
  };
  const draws = (tag, attributes, ...children) => { // an element of SVG
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...children);
    return node;
  };
  const figure = (v) => {
    if (!Number.isFinite(v)) return "";
    const size = Math.abs(v);
    if (size >= 1e6 || (size > 0 && size < 1e-3)) return v.toExponential(2);
    return Number(v.toPrecision(4)).toLocaleString("en");
  };
  const plural = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;
  const unpack = (p) => {
    const raw = new Uint16Array(bytes(p.data)), out = new Float64Array(raw.length);
    const step = (p.high - p.low) / 65535;
    for (let i = 0; i < raw.length; i++) out[i] = p.low + raw[i] * step;
    return out;
  };

  const atoms = new (D.wide ? Uint32Array : Uint16Array)(bytes(D.atoms));
  const columns = (D.columns || []).map((c) => ({ name: c.name, values: unpack(c) }));
  const plane = D.map ? [unpack(D.map.x), unpack(D.map.y)] : null;
  const edges = D.edges ? new Uint32Array(bytes(D.edges)) : null;
  const steps = D.steps.map((s) => ({ ...s, of: new Int16Array(bytes(s.clusters)) }));
  const what = D.of === "feature" ? "combination" : "cluster", row = edges ? "node" : "row";
  const sampled = D.drawn < D.n;
  const state = { step: D.chosen, other: -1, selected: -1, found: -1, axes: [-1, -1] };
  const cache = new Map();

  function division(i) { // labels of the rows and sizes of the clusters at a step
    if (!cache.has(i)) {
      const labels = new Int16Array(atoms.length);
      for (let r = 0; r < atoms.length; r++) labels[r] = steps[i].of[atoms[r]];
      const sizes = new Array(steps[i].colors.length).fill(0);
      for (const c of labels) if (c >= 0) sizes[c]++;
      const whole = i === D.chosen && D.of !== "feature" && D.sizes.length === sizes.length;
      cache.set(i, { labels, drawn: sizes, exact: whole || !sampled,
        sizes: whole ? D.sizes : sizes.map((n) => Math.round(n * D.n / D.drawn)) });
    }
    return cache.get(i);
  }

  // Colours, and another shape for each round of them, so that many clusters stay apart

  const hue = (i, c) => c < 0 ? "#8a8f96" : D.colors[steps[i].colors[c] % D.colors.length];
  const PATHS = D.shapes.map((d) => new Path2D(d));
  const form = (i, c) => c < 0 ? 0 : Math.floor(steps[i].colors[c] / D.colors.length) % D.shapes.length;
  const mark = (i, c) => draws("svg", { class: "mark", viewBox: "-1.4 -1.4 2.8 2.8", "aria-hidden": "true" },
    draws("path", { d: D.shapes[form(i, c)], fill: hue(i, c) }));

  // Names, kept in the browser and in the download

  const key = `madbayes ${document.title} ${D.n} ${D.sizes.join()}`;
  let names = {};
  try { names = JSON.parse(localStorage.getItem(key)) || {}; } catch { /* not allowed here */ }
  const nameOf = (i, c) => names[`${steps[i].k}:${c}`] || "";
  const titled = (i, c) => `${what[0].toUpperCase()}${what.slice(1)} ${c}${nameOf(i, c) ? `: ${nameOf(i, c)}` : ""}`;
  function rename(i, c, name) {
    if (name) names[`${steps[i].k}:${c}`] = name; else delete names[`${steps[i].k}:${c}`];
    try { localStorage.setItem(key, JSON.stringify(names)); } catch { /* kept until the page closes */ }
    sizes();
    cards();
    draw();
  }

  // The map

  const EDGE = edges ? 12 : 44; // room for the axes
  const coords = (axis) => state.axes[axis] < 0 ? plane[axis] : columns[state.axes[axis]].values;
  const axisName = (axis) => state.axes[axis] < 0 ? D.map.axes[axis] : columns[state.axes[axis]].name;
  let spots = null; // of the rows on the screen
  function place(canvas, pen) {
    const wide = canvas.clientWidth, high = Math.round(Math.min(Math.max(wide * 0.72, 260), 540));
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${high}px`;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ends = [];
    const at = [0, 1].map((axis) => {
      const v = coords(axis), out = new Float32Array(v.length);
      let low = Infinity, up = -Infinity;
      for (const x of v) { if (x < low) low = x; if (x > up) up = x; }
      const span = (up - low) || 1, room = (axis ? high : wide) - EDGE - 22;
      const to = (x) => axis ? high - EDGE - room * (x - low) / span : EDGE + 6 + room * (x - low) / span;
      for (let i = 0; i < v.length; i++) out[i] = to(v[i]);
      ends.push({ low, up, to });
      return out;
    });
    return { wide, high, at, ends };
  }
  function ticks(low, up) {
    if (!(up > low)) return [];
    const raw = (up - low) / 5, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw);
    const out = [];
    for (let x = Math.ceil(low / step) * step; x <= up + step * 1e-9; x += step) out.push(Math.abs(x) < step * 1e-9 ? 0 : x);
    return out;
  }
  function axes(pen, { wide, high, ends }, style) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = pen.strokeStyle = style.getPropertyValue("--soft");
    pen.lineWidth = 1;
    pen.globalAlpha = 0.5;
    pen.strokeRect(EDGE - 4.5, 4.5, wide - EDGE - 2, high - EDGE + 2);
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    pen.textBaseline = "top";
    for (const x of ticks(ends[0].low, ends[0].up)) pen.fillText(figure(x), ends[0].to(x), high - EDGE + 10);
    pen.fillText(axisName(0).slice(0, 60), EDGE + (wide - EDGE) / 2, high - 15);
    if (!axisName(1)) return; // heights are random
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const y of ticks(ends[1].low, ends[1].up)) {
      const text = figure(y);
      pen.fillText(text, EDGE - 8, ends[1].to(y), EDGE - 20);
    }
    pen.save();
    pen.translate(7, high / 2 - EDGE / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText(axisName(1).slice(0, 60), 0, 0, high - EDGE);
    pen.restore();
  }
  function paint(canvas, step, caption) {
    const pen = canvas.getContext("2d"), view = place(canvas, pen);
    const { labels, drawn } = division(step), [xs, ys] = view.at;
    const style = getComputedStyle(document.body);
    const n = labels.length, radius = n > 8000 ? 1.3 : n > 1500 ? 2 : n > 300 ? 2.8 : 3.8;
    pen.clearRect(0, 0, view.wide, view.high);
    if (edges) {
      pen.strokeStyle = style.getPropertyValue("--soft");
      pen.globalAlpha = Math.max(0.06, Math.min(0.4, 400 / edges.length));
      pen.beginPath();
      for (let e = 0; e < edges.length; e += 2) {
        pen.moveTo(xs[edges[e]], ys[edges[e]]);
        pen.lineTo(xs[edges[e + 1]], ys[edges[e + 1]]);
      }
      pen.stroke();
    } else {
      axes(pen, view, style);
    }
    const chosen = step === state.step ? state.selected : -1;
    for (const top of [false, true]) { // the selected cluster lies on top
      for (let i = 0; i < n; i++) {
        const mine = chosen < 0 || labels[i] === chosen;
        if (mine !== top) continue;
        pen.globalAlpha = mine ? (n > 8000 ? 0.5 : 0.8) : 0.12;
        pen.fillStyle = hue(step, labels[i]);
        pen.save();
        pen.translate(xs[i], ys[i]);
        pen.scale(radius, radius);
        pen.fill(PATHS[form(step, labels[i])]);
        pen.restore();
      }
    }
    pen.globalAlpha = 1;
    if (drawn.length <= 60) number(pen, step, view.at, style);
    if (state.found >= 0) {
      pen.lineWidth = 3;
      pen.strokeStyle = style.color;
      pen.beginPath();
      pen.arc(xs[state.found], ys[state.found], 9, 0, 7);
      pen.stroke();
    }
    const spanned = columns.length > 2 && (state.axes[0] < 0 || state.axes[1] < 0);
    const said = [state.other < 0 ? "" : plural(steps[step].k, what), edges ? "each disc is a cluster, lines are edges"
      : !axisName(1) ? "heights are random" : spanned ? "principal components: the directions in which rows differ most" : ""];
    caption.textContent = said.filter(Boolean).join("; ");
    canvas.setAttribute("aria-label", `Map of ${plural(n, row)} in ${plural(drawn.length, what)}`
      + (edges ? "" : `, ${axisName(0)} across${axisName(1) ? `, ${axisName(1)} up` : ""}`));
    return view.at;
  }
  function number(pen, step, [xs, ys], style) {
    const { labels, drawn } = division(step), sum = drawn.map(() => [0, 0]);
    for (let i = 0; i < labels.length; i++) {
      if (labels[i] < 0) continue;
      sum[labels[i]][0] += xs[i];
      sum[labels[i]][1] += ys[i];
    }
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    sum.forEach(([x, y], c) => {
      if (!drawn[c]) return;
      const text = nameOf(step, c).slice(0, 18) || String(c), half = Math.max(10.5, pen.measureText(text).width / 2 + 6);
      pen.beginPath();
      pen.roundRect(x / drawn[c] - half, y / drawn[c] - 10.5, 2 * half, 21, 10.5);
      pen.fillStyle = style.backgroundColor;
      pen.fill();
      pen.lineWidth = 2.5;
      pen.strokeStyle = hue(step, c);
      pen.stroke();
      pen.fillStyle = style.color;
      pen.fillText(text, x / drawn[c], y / drawn[c] + 0.5);
    });
  }
  function draw() {
    if (!plane) return;
    $("second").hidden = state.other < 0;
    $("maps").classList.toggle("pair", state.other >= 0);
    spots = paint($("map"), state.step, $("caption"));
    if (state.other >= 0) paint($("map2"), state.other, $("caption2"));
  }
  function nearest(event, most) { // the row under the pointer, or -1
    const box = event.currentTarget.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    let best = -1, near = most * most;
    for (let i = 0; i < atoms.length; i++) {
      const far = (spots[0][i] - x) ** 2 + (spots[1][i] - y) ** 2;
      if (far < near) { near = far; best = i; }
    }
    return best;
  }
  const about = (i, step) => { // a row in one line
    const c = division(step).labels[i], cells = columns.slice(0, 4).map((v) => `${v.name} ${figure(v.values[i])}`);
    return [`${D.idName} ${D.ids[i]}: ${c < 0 ? `no ${what}` : titled(step, c)}`, ...cells].join(", ");
  };
  for (const [id, which] of [["map", "step"], ["map2", "other"]]) {
    $(id).addEventListener("click", (event) => {
      const i = nearest(event, 28), c = i < 0 ? -1 : division(state[which]).labels[i];
      if (which === "step") select(c === state.selected ? -1 : c);
    });
    $(id).addEventListener("pointermove", (event) => {
      const i = nearest(event, 12), tip = $("tip"), box = $("maps").getBoundingClientRect();
      tip.hidden = i < 0;
      if (i < 0) return;
      tip.textContent = about(i, state[which]);
      tip.style.left = `${Math.min(event.clientX - box.left + 12, Math.max(box.width - 230, 0))}px`;
      tip.style.top = `${event.clientY - box.top + 16}px`;
    });
    $(id).addEventListener("pointerleave", () => { $("tip").hidden = true; });
  }

  // Sizes

  function sizes() {
    const { sizes, exact } = division(state.step);
    const most = Math.max(1, ...sizes);
    const order = sizes.map((_, c) => c).sort((a, b) => sizes[b] - sizes[a] || a - b);
    $("sizes-head").textContent = exact ? "Sizes" : "Sizes, from the rows that are drawn";
    $("hint").hidden = D.of === "feature";
    $("sizes").replaceChildren(...order.map((c) => {
      const bar = make("span", { className: "line" });
      bar.style.width = `${100 * sizes[c] / most}%`;
      bar.style.background = hue(state.step, c);
      const button = make("button", { type: "button" }, mark(state.step, c),
        make("span", { textContent: nameOf(state.step, c) || c, className: "name" }), make("span", {}, bar),
        make("span", { textContent: sizes[c].toLocaleString("en") }));
      button.setAttribute("aria-pressed", String(c === state.selected));
      button.setAttribute("aria-label", `${titled(state.step, c)}, ${plural(sizes[c], row)}`);
      button.addEventListener("click", () => select(c === state.selected ? -1 : c));
      return make("li", {}, button);
    }));
  }

  // What sets a cluster apart

  function select(c) {
    state.selected = c;
    draw();
    sizes();
    detail();
  }
  function detail() {
    const box = $("detail"), c = state.selected, step = state.step;
    box.replaceChildren();
    if (c < 0) return;
    box.append(...portrait(step, c, 8, false));
    const field = make("input", { type: "text", maxLength: 60, value: nameOf(step, c) });
    field.addEventListener("change", () => rename(step, c, field.value.trim()));
    box.children[0].after(make("p", {}, make("label", {}, "name it ", field)));
  }
  function portrait(step, c, most, fold) { // heading, columns, typical and odd rows
    const { labels, sizes, exact } = division(step), mine = [];
    for (let i = 0; i < labels.length; i++) if (labels[i] === c) mine.push(i);
    const share = (100 * sizes[c] / Math.max(D.n, 1)).toFixed(1);
    const title = make("h3", {}, mark(step, c), make("span", { textContent: titled(step, c) }),
      make("small", { textContent: `${exact ? "" : "about "}${plural(sizes[c], row)}, ${share}%` }));
    const found = columns.map((column) => compare(column, mine))
      .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect)).slice(0, most);
    if (!found.length) { // nothing but names
      const some = mine.slice(0, 60).map((i) => String(D.ids[i])).join(", ");
      return [title, make("p", { textContent: some + (mine.length > 60 ? ", …" : "") })];
    }
    const apart = table(["column", "mean", "rest", "difference", "distribution"], found.map((f) => [f.name,
      figure(f.mean), figure(f.rest), `${f.effect >= 0 ? "+" : ""}${f.effect.toFixed(1)} sd`, histogram(f, labels, c, hue(step, c))]), "", "apart");
    const folded = make("details", {}, make("summary", { textContent: "Typical and odd rows" }), rows(mine, found));
    return [title, make("div", { className: "two" }, apart, fold ? folded : rows(mine, found))];
  }
  function compare(column, mine) {
    const v = column.values;
    let total = 0, square = 0, inside = 0;
    for (const x of v) total += x;
    const middle = total / v.length;
    for (const x of v) square += (x - middle) ** 2;
    for (const i of mine) inside += v[i];
    const mean = inside / Math.max(mine.length, 1), others = v.length - mine.length;
    const rest = others ? (total - inside) / others : mean;
    const sd = Math.sqrt(square / v.length) || 1;
    return { name: column.name, column, mean, rest, sd, effect: (mean - rest) / sd };
  }
  function histogram({ name, column }, labels, c, color) {
    const v = column.values, bins = 14, counts = [new Array(bins).fill(0), new Array(bins).fill(0)];
    let low = Infinity, up = -Infinity;
    for (const x of v) { if (x < low) low = x; if (x > up) up = x; }
    for (let i = 0; i < v.length; i++)
      counts[labels[i] === c ? 0 : 1][Math.min(bins - 1, Math.floor(bins * (v[i] - low) / ((up - low) || 1)))]++;
    const [inside, outside] = counts.map((n) => { const all = n.reduce((a, b) => a + b) || 1; return n.map((x) => x / all); });
    const top = Math.max(...inside, ...outside) || 1, y = (share) => 24 - 22 * share / top;
    return draws("svg", { class: "hist", viewBox: `-1 0 ${bins * 6 + 1} 25`, role: "img",
      "aria-label": `${name}: from ${figure(low)} to ${figure(up)}` },
    draws("g", { fill: color }, ...inside.map((s, i) => draws("rect", { x: i * 6, y: y(s), width: 5, height: 24 - y(s) }))),
    draws("path", { class: "rest", d: `M-.5 24 ${outside.map((s) => `V${y(s)}h6`).join(" ")}V24` }));
  }
  function rows(mine, found) {
    const far = mine.map((i) => found.reduce((sum, f) =>
      sum + ((f.column.values[i] - f.mean) / f.sd) ** 2, 0));
    const order = mine.map((_, i) => i).sort((a, b) => far[a] - far[b]);
    const shown = found.slice(0, 3), cells = (i) => shown.map((f) => figure(f.column.values[i]));
    const line = (i) => [String(D.ids[mine[i]]), ...cells(mine[i])];
    const head = [D.idName, ...shown.map((f) => f.name)], box = make("div");
    box.append(table(head, order.slice(0, 3).map(line), "typical"));
    if (order.length > 6) box.append(table(head, order.slice(-3).reverse().map(line), "odd"));
    return box;
  }
  function table(head, body, caption, className = "") {
    const cell = (tag, content, i) => {
      const node = make(tag, { className: i ? "num" : "" }, content);
      if (tag === "th") node.scope = body.length && i === 0 && head[0] !== content ? "row" : "col";
      return node;
    };
    const box = make("div", { className: "scroll", tabIndex: 0 }, make("table", { className },
      ...(caption ? [make("caption", { textContent: caption })] : []),
      make("thead", {}, make("tr", {}, ...head.map((t, i) => cell("th", t, i)))),
      make("tbody", {}, ...body.map((r) => make("tr", {}, ...r.map((t, i) => cell(i ? "td" : "th", t, i)))))));
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", caption ? `${caption} rows` : "what sets it apart");
    return box;
  }

  // The cards of the answer are part of the page; those of other numbers are made here.

  const answer = $("cards") && [...$("cards").children];
  function cards() {
    if (!answer) return;
    const { sizes } = division(state.step), own = state.step === D.chosen;
    $("cards-of").textContent = own ? "" : `, for ${plural(steps[state.step].k, what)}`;
    const order = sizes.map((_, c) => c).sort((a, b) => sizes[b] - sizes[a] || a - b).slice(0, 40).sort((a, b) => a - b);
    $("cards").replaceChildren(...(own ? answer : order.map((c) => {
      const card = make("article", { className: "card" }, ...portrait(state.step, c, 5, true));
      card.style.setProperty("--own", hue(state.step, c));
      return card;
    })));
    if (own) for (const card of answer) {
      const name = card.querySelector(".name");
      if (name) name.textContent = titled(D.chosen, Number(card.dataset.cluster));
    }
  }

  // The slider: from number to number

  function go(step) {
    if (step === state.step) return;
    state.step = step;
    state.selected = -1;
    if (state.other === step) state.other = -1;
    tell();
    draw();
    sizes();
    detail();
    cards();
  }
  function tell() {
    const s = steps[state.step], text = plural(s.k, what);
    $("k").textContent = text;
    $("number").value = state.step;
    $("number").setAttribute("aria-valuetext", text);
    $("back").hidden = state.step === D.chosen;
    const said = [state.step === D.chosen ? "The answer." : s.layer ? "Also supported by the data, at another scale." : ""];
    if (s.low !== undefined) said.push(s.high === null ? `Best while one more ${what} costs more than ${figure(s.low)} (the penalty λ).`
      : `Best while one more ${what} costs between ${figure(s.low)} and ${figure(s.high)} (the penalty λ).`);
    $("range").textContent = said.join(" ").trim();
    $("other").value = state.other;
    const line = $("here"); // in the picture of the path
    if (line) {
      const at = s.low === undefined ? NaN : s.low > 0 && s.high ? Math.sqrt(s.low * s.high) : s.high || s.low;
      const left = Number(line.dataset.left), right = Number(line.dataset.right);
      const x = 46 + 660 * Math.min(Math.max((Math.log(at) - left) / (right - left), 0), 1);
      if (state.step === D.chosen || !Number.isFinite(x)) line.setAttribute("visibility", "hidden");
      else { line.removeAttribute("visibility"); line.setAttribute("x1", x); line.setAttribute("x2", x); }
    }
  }
  if (steps.length > 1) {
    $("slider").hidden = false;
    $("number").max = steps.length - 1;
    steps.forEach((s, i) => { if (s.layer) $("layers").append(new Option(String(s.k), i)); });
    $("number").addEventListener("input", (event) => go(Number(event.target.value)));
    $("back").addEventListener("click", () => { go(D.chosen); $("number").focus(); });
    for (const chip of document.querySelectorAll("button.chip")) {
      const at = steps.findIndex((s) => s.k === Number(chip.dataset.k));
      chip.disabled = at < 0;
      chip.addEventListener("click", () => { go(at); $("explorer").scrollIntoView(); });
    }
    const absent = [...document.querySelectorAll("button.chip:disabled")].map((chip) => chip.dataset.k);
    if (absent.length) document.querySelector(".others").append(make("small", { textContent: `(this page does not hold the ${what}s for ${absent.join(", ")})` }));
    $("beside").hidden = !plane;
    $("other").append(new Option("–", -1), ...steps.map((s, i) => new Option(plural(s.k, what), i)));
    $("other").addEventListener("change", (event) => { state.other = Number(event.target.value); draw(); });
    tell();
  }

  // Find a row, take the labels along

  $("search").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = $("wanted").value.trim().toLowerCase();
    const same = (i) => String(D.ids[i]).toLowerCase() === text;
    state.found = text ? D.ids.findIndex((_, i) => same(i)) : -1;
    if (state.found < 0 && text) state.found = D.ids.findIndex((id) => String(id).toLowerCase().includes(text));
    $("found").textContent = !text ? "" : state.found >= 0 ? about(state.found, state.step)
      : `There is no ${D.idName} ${text}${sampled ? ` among the ${D.drawn.toLocaleString("en")} that are drawn` : ""}.`;
    draw();
  });
  const safe = (cell) => { // for a spreadsheet: no formula, and quotes where they are needed
    let text = String(cell);
    if (/^[=+@\t\r\n-]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  function labels() {
    const found = division(state.step).labels;
    const lines = [[D.idName, what, "name"]];
    found.forEach((c, i) => lines.push([D.ids[i], c < 0 ? "" : c, c < 0 ? "" : nameOf(state.step, c)]));
    return lines.map((line) => line.map(safe).join(",")).join("\n") + "\n";
  }
  $("download").textContent = sampled ? `Labels of the ${D.drawn.toLocaleString("en")} drawn rows (CSV)` : "Labels (CSV)";
  $("download").addEventListener("click", () => {
    const url = URL.createObjectURL(new Blob([labels()], { type: "text/csv" }));
    make("a", { href: url, download: `labels-${steps[state.step].k}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  });

  // Print everything that can be opened

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const each of closed) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of closed) each.open = false; });

  // Start

  if (plane) {
    $("maps").hidden = false;
    if (columns.length > 2) {
      $("axes").hidden = false;
      ["across", "up"].forEach((id, axis) => {
        $(id).append(new Option(D.map.axes[axis], -1), ...columns.map((c, j) => new Option(c.name, j)));
        $(id).addEventListener("change", (event) => { state.axes[axis] = Number(event.target.value); draw(); });
      });
    }
    let waiting = 0;
    new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(draw); }).observe($("maps"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    draw();
  } else {
    document.querySelector(".stage").classList.add("plain");
  }
  sizes();
  cards();
  document.documentElement.dataset.ready = "yes";
})();
