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
  const steps = D.steps.map((s) => ({ ...s, of: new Int16Array(bytes(s.clusters)) }));
  const what = D.of === "community" ? "cluster" : D.of;
  const sampled = D.drawn < D.n;
  const state = { step: D.chosen, price: D.price, selected: -1, axes: [-1, -1] };
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
  const shade = (i, c) => c < 0 ? "#8a8f96" : D.colors[steps[i].colors[c] % D.colors.length];

  // The map

  const canvas = $("map"), pen = canvas.getContext("2d");
  const coords = (axis) => state.axes[axis] < 0 ? plane[axis] : columns[state.axes[axis]].values;
  let spots = null; // of the rows on the screen
  function place() {
    const wide = canvas.clientWidth, high = Math.round(Math.min(Math.max(wide * 0.68, 260), 520));
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${high}px`;
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    spots = [0, 1].map((axis) => {
      const v = coords(axis), out = new Float32Array(v.length);
      let low = Infinity, up = -Infinity;
      for (const x of v) { if (x < low) low = x; if (x > up) up = x; }
      const span = (up - low) || 1, room = (axis ? high : wide) - 36;
      for (let i = 0; i < v.length; i++) {
        const t = (v[i] - low) / span;
        out[i] = 18 + room * (axis ? 1 - t : t);
      }
      return out;
    });
    return [wide, high];
  }
  function draw() {
    if (!plane) return;
    const [wide, high] = place();
    const { labels, drawn } = division(state.step);
    const n = labels.length, radius = n > 8000 ? 1.3 : n > 1500 ? 2 : n > 300 ? 2.8 : 3.8;
    pen.clearRect(0, 0, wide, high);
    const order = [false, true]; // the selected cluster lies on top
    for (const top of order) {
      for (let i = 0; i < n; i++) {
        const mine = state.selected < 0 || labels[i] === state.selected;
        if (mine !== top) continue;
        pen.globalAlpha = mine ? (n > 8000 ? 0.5 : 0.75) : 0.12;
        pen.fillStyle = shade(state.step, labels[i]);
        pen.beginPath();
        pen.arc(spots[0][i], spots[1][i], radius, 0, 7);
        pen.fill();
      }
    }
    pen.globalAlpha = 1;
    if (drawn.length <= 60) number(labels, drawn);
    const names = [0, 1].map((a) => state.axes[a] < 0 ? D.map.axes[a] : columns[state.axes[a]].name);
    $("axis-names").textContent = names[1] ? `across: ${names[0]}; up: ${names[1]}`
      : `across: ${names[0]} (heights are random)`;
    canvas.setAttribute("aria-label", `Map of ${plural(n, "row")} in ${plural(drawn.length, what)}`);
  }
  function number(labels, drawn) {
    const sum = drawn.map(() => [0, 0]);
    for (let i = 0; i < labels.length; i++) {
      if (labels[i] < 0) continue;
      sum[labels[i]][0] += spots[0][i];
      sum[labels[i]][1] += spots[1][i];
    }
    const style = getComputedStyle(document.body);
    pen.font = "600 12px system-ui, sans-serif";
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    sum.forEach(([x, y], c) => {
      if (!drawn[c]) return;
      pen.beginPath();
      pen.arc(x / drawn[c], y / drawn[c], 10.5, 0, 7);
      pen.fillStyle = style.backgroundColor;
      pen.fill();
      pen.lineWidth = 2.5;
      pen.strokeStyle = shade(state.step, c);
      pen.stroke();
      pen.fillStyle = style.color;
      pen.fillText(String(c), x / drawn[c], y / drawn[c] + 0.5);
    });
  }
  canvas.addEventListener("click", (event) => {
    const box = canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top;
    const { labels } = division(state.step);
    let best = -1, near = 28 * 28;
    for (let i = 0; i < labels.length; i++) {
      const far = (spots[0][i] - x) ** 2 + (spots[1][i] - y) ** 2;
      if (far < near && labels[i] >= 0) { near = far; best = labels[i]; }
    }
    select(best === state.selected ? -1 : best);
  });

  // Sizes

  function sizes() {
    const { sizes, exact } = division(state.step);
    const most = Math.max(1, ...sizes), list = $("sizes");
    const order = sizes.map((_, c) => c).sort((a, b) => sizes[b] - sizes[a] || a - b);
    $("sizes-head").textContent = exact ? "Sizes" : "Sizes, from the rows that are drawn";
    list.replaceChildren(...order.map((c) => {
      const bar = make("span", { className: "line" });
      bar.style.width = `${100 * sizes[c] / most}%`;
      const button = make("button", { type: "button" }, make("i", { className: "dot" }),
        make("span", { textContent: c }), make("span", {}, bar),
        make("span", { textContent: sizes[c].toLocaleString("en") }));
      button.style.setProperty("--own", shade(state.step, c));
      button.setAttribute("aria-pressed", String(c === state.selected));
      button.setAttribute("aria-label", `${what} ${c}: ${plural(sizes[c], "row")}`);
      button.addEventListener("click", () => select(c === state.selected ? -1 : c));
      return make("li", {}, button);
    }));
  }

  // One cluster

  function select(c) {
    state.selected = c;
    draw();
    sizes();
    detail();
  }
  function detail() {
    const box = $("detail"), c = state.selected;
    box.replaceChildren();
    if (c < 0) return;
    const { labels, sizes, exact } = division(state.step);
    const mine = [];
    for (let i = 0; i < labels.length; i++) if (labels[i] === c) mine.push(i);
    const title = make("h3", {}, make("i", { className: "dot" }),
      ` ${what[0].toUpperCase()}${what.slice(1)} ${c}: ${exact ? "" : "about "}${plural(sizes[c], "row")}`);
    title.style.setProperty("--own", shade(state.step, c));
    box.append(title);
    const found = columns.map((column) => compare(column, labels, c, mine))
      .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
    const two = make("div", { className: "two" });
    if (found.length) two.append(table(["column", "mean", "rest", "difference"],
      found.slice(0, 8).map((f) => [f.name, figure(f.mean), figure(f.rest),
        `${f.effect >= 0 ? "+" : ""}${f.effect.toFixed(1)} sd`])));
    two.append(rows(mine, found));
    box.append(two);
  }
  function compare(column, labels, c, mine) {
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
  function rows(mine, found) {
    const far = mine.map((i) => found.reduce((sum, f) =>
      sum + ((f.column.values[i] - f.mean) / f.sd) ** 2, 0));
    const order = mine.map((_, i) => i).sort((a, b) => far[a] - far[b]);
    const shown = found.slice(0, 3), cells = (i) => shown.map((f) => figure(f.column.values[i]));
    const line = (i) => [String(D.ids[mine[i]]), ...cells(mine[i])];
    const head = [D.idName, ...shown.map((f) => f.name)], box = make("div");
    if (!found.length) { // nothing but names
      const names = mine.slice(0, 60).map((i) => String(D.ids[i])).join(", ");
      return make("p", { textContent: names + (mine.length > 60 ? ", …" : "") });
    }
    box.append(table(head, order.slice(0, 4).map(line), "typical"));
    if (order.length > 8) box.append(table(head, order.slice(-4).reverse().map(line), "odd"));
    return box;
  }
  function table(head, body, caption) {
    const cell = (tag, text, i) => make(tag, { textContent: text, className: i ? "num" : "" });
    return make("div", { className: "scroll" }, make("table", {},
      ...(caption ? [make("caption", { textContent: caption })] : []),
      make("thead", {}, make("tr", {}, ...head.map((t, i) => cell("th", t, i)))),
      make("tbody", {}, ...body.map((r) => make("tr", {}, ...r.map((t, i) => cell(i ? "td" : "th", t, i)))))));
  }

  // The slider

  const ends = (() => {
    const all = steps.flatMap((s) => [s.low, s.high]).filter((v) => v > 0);
    return all.length ? [Math.log(Math.min(...all, D.price) / 1.6), Math.log(Math.max(...all, D.price) * 1.6)] : null;
  })();
  const position = (price) => 1000 * (Math.log(price) - ends[0]) / (ends[1] - ends[0]);
  function at(price) {
    let best = 0, least = Infinity;
    steps.forEach((s, i) => {
      const value = s.error + D.sign * price * s.k;
      const inside = price >= (s.low ?? 0) && price < (s.high ?? Infinity);
      if (inside || value < least) { best = i; least = inside ? -Infinity : value; }
    });
    return best;
  }
  function tell() {
    const s = steps[state.step];
    $("k").textContent = plural(s.k, what);
    $("objective").textContent = D.priced
      ? `objective ${figure(s.error + D.sign * state.price * s.k)}` : "";
    $("price-text").textContent = figure(state.price);
    $("price").setAttribute("aria-valuetext", `${figure(state.price)}: ${plural(s.k, what)}`);
    $("back").hidden = state.price === D.price;
    const line = $("here");
    if (line) {
      const left = Number(line.dataset.left), right = Number(line.dataset.right);
      const x = 46 + 660 * Math.min(Math.max((Math.log(state.price) - left) / (right - left), 0), 1);
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }
  function go(price) {
    state.price = price;
    const step = price === D.price ? D.chosen : at(price);
    if (step !== state.step) {
      state.step = step;
      state.selected = -1;
      draw();
      sizes();
      detail();
    }
    tell();
  }
  if (ends && steps.length > 1) {
    $("slider").hidden = false;
    $("price-name").textContent = D.priceName;
    $("price").value = position(D.price);
    $("price").addEventListener("input", (event) =>
      go(Math.exp(ends[0] + (ends[1] - ends[0]) * event.target.value / 1000)));
    $("back").addEventListener("click", () => { $("price").value = position(D.price); go(D.price); });
    tell();
  }

  // Start

  if (plane) {
    $("stage").hidden = false;
    if (columns.length > 2) {
      $("axes").hidden = false;
      ["across", "up"].forEach((id, axis) => {
        $(id).append(new Option(D.map.axes[axis], -1), ...columns.map((c, j) => new Option(c.name, j)));
        $(id).addEventListener("change", (event) => { state.axes[axis] = Number(event.target.value); draw(); });
      });
    }
    let waiting = 0;
    new ResizeObserver(() => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(draw); }).observe($("stage"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    draw();
  } else {
    document.querySelector(".stage").classList.add("plain");
  }
  sizes();
  document.documentElement.dataset.ready = "yes";
})();
