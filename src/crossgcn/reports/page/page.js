"use strict";
/*
 * The script of the page. Contents come as JSON in #page-data; the page has the parts whose elements it has.
 * Names from tables only ever become text: textContent, or the text marks of Plot.
 * Colours are CSS variables, so that charts follow the light or dark scheme.
 */
(() => {
  const PLUS = "var(--plus)", MINUS = "var(--minus)", SOFT = "var(--soft)", LINE = "var(--line)", INK = "var(--ink)";
  const WHOSE = { own: "own", neighbourhood: "neighbourhood", both: "own and neighbourhood" };
  const WIDE = window.matchMedia("(min-width: 900px)");
  const find = (id) => document.getElementById(id);

  // ---- elements and texts ----

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const minus = (text) => text.replace("-", "\u2212");
  const whole = (value) => value.toLocaleString("en");
  const percent = (share, digits = 1) => (100 * share).toFixed(digits) + "\u00a0%";
  /** Whole percents, or one digit between them, so that no two ticks read the same. */
  const tickPercent = (share) => percent(share, Math.abs(Math.round(100 * share) - 100 * share) < 0.01 ? 0 : 1);
  function number(value, digits = 3) {
    const size = Math.abs(value);
    if (size >= 1e6) return minus((value / 1e6).toPrecision(3)) + "M";
    if (size >= 1000) return minus(Math.round(value).toLocaleString("en"));
    return minus(String(Number(value.toPrecision(digits))));
  }
  const signed = (value) => (Number(value.toPrecision(3)) > 0 ? "+" : "") + number(value);
  const plusMinus = (error) => (error ? ` \u00b1 ${number(error, 2)}` : "");
  const counted = (value, noun) => `${whole(value)} ${noun}${value === 1 ? "" : "s"}`;
  const shortened = (text, most) => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + "\u2026" : text);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const deviation = (values) => Math.sqrt(values.reduce((sum, v) => sum + (v - mean(values)) ** 2, 0) / Math.max(1, values.length - 1));

  function table(caption, head, rows) {
    const header = make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)));
    const body = rows.map(([first, ...cells]) =>
      make("tr", {}, make("th", { scope: "row" }, first), ...cells.map((text) => make("td", {}, text))));
    return make("details", {}, make("summary", {}, caption), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      make("table", { class: "scores" }, make("thead", {}, header), make("tbody", {}, ...body))));
  }

  // ---- charts ----

  /** Draw a chart into an element, and again whenever its width changes. */
  function mount(element, draw) {
    let drawn = 0;
    const redraw = () => {
      const width = Math.floor(element.clientWidth);
      if (width < 40 || Math.abs(width - drawn) < 2) return;
      drawn = width;
      element.replaceChildren(...[draw(width)].flat());
    };
    new ResizeObserver(redraw).observe(element);
    redraw();
    return element;
  }

  /** A chart is one picture for screen readers, described by its label, or hidden without one. */
  function plot(width, label, options) {
    const svg = Plot.plot({ width, style: { fontSize: "12px", overflow: "visible" }, ...options });
    for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
    if (label) svg.setAttribute("role", "img"), svg.setAttribute("aria-label", label);
    else svg.setAttribute("aria-hidden", "true");
    return svg;
  }

  const zeroLine = (orient) => Plot[orient === "x" ? "ruleX" : "ruleY"]([0], { stroke: SOFT, strokeWidth: 1 });
  const ticksOf = (width) => Math.max(3, Math.min(8, Math.floor(width / 80)));

  /** Rows with names: at the left, or above each row where there is little room. */
  function rowsChart(width, label, names, marks, { x = {}, row = 26, right = 16, grid = true } = {}) {
    const narrow = width < 460;
    const left = narrow ? 12 : Math.min(320, Math.max(90, 14 + 6.6 * Math.max(...names.map((n) => n.length))), 0.42 * width);
    const letters = Math.floor((narrow ? width : left - 12) / 6.6);
    const step = narrow ? row + 16 : row;
    const keys = names.map((_, at) => at);
    const text = Plot.text(keys, {
      y: (at) => at,
      text: (at) => shortened(names[at], letters),
      title: (at) => names[at],
      fill: INK, stroke: "var(--paper)", strokeWidth: 3,
      ...(narrow ? { frameAnchor: "left", textAnchor: "start", dx: -10, dy: -step / 2 + 7 } : { frameAnchor: "left", textAnchor: "end", dx: -10 }),
    });
    return plot(width, label, {
      marginLeft: left, marginRight: right, marginTop: narrow ? 10 : 4, marginBottom: 38, height: names.length * step + (narrow ? 48 : 42),
      x: { grid, ticks: ticksOf(width - left), nice: true, ...x },
      y: { type: "band", domain: keys, axis: null, padding: 0 },
      marks: [...marks({ inset: narrow ? { insetTop: 18, insetBottom: 3 } : { insetTop: 4, insetBottom: 4 }, dy: narrow ? 7 : 0 }), text],
    });
  }

  /** Rows of small dots with their mean and standard deviation. */
  function dotsChart(width, label, rows, x) {
    const dots = rows.flatMap((row, at) => row.values.map((value) => ({ at, value })));
    const means = rows.map((row, at) => ({ at, mean: mean(row.values), sd: row.values.length > 1 ? deviation(row.values) : 0, colour: row.colour ?? PLUS, text: row.text }));
    return rowsChart(width, label, rows.map((row) => row.name), ({ dy }) => [
      Plot.dot(dots, { x: "value", y: "at", r: 2.5, fill: (d) => rows[d.at].colour ?? PLUS, fillOpacity: 0.4, dy }),
      Plot.ruleY(means, { x1: (d) => d.mean - d.sd, x2: (d) => d.mean + d.sd, y: "at", stroke: "colour", strokeWidth: 2, dy }),
      Plot.dot(means, { x: "mean", y: "at", r: 5, fill: "colour", dy, tip: true, title: (d) => `${rows[d.at].name}\n${d.text ?? number(d.mean) + (d.sd ? " \u00b1 " + number(d.sd) : "")}` }),
    ], { x });
  }

  /** A small bar with an error bar, all of one scale. */
  function miniBar(width, value, error, most) {
    const svg = plot(width, "", {
      height: 16, margin: 0, marginRight: 2, axis: null, x: { domain: [0, most] },
      marks: [
        Plot.barX([value], { x: (d) => d, fill: PLUS, insetTop: 3, insetBottom: 3 }),
        ...(error ? [Plot.ruleY([value], { x1: value - error, x2: value + error, y: 0, stroke: INK, strokeWidth: 1.5 })] : []),
      ],
    });
    svg.setAttribute("preserveAspectRatio", "none");
    return svg;
  }

  function colourScale(most, unit) {
    return make("p", { class: "scale" }, number(-most), make("i", { "aria-hidden": "true" }), "+" + number(most), ` ${unit}`);
  }

  /** A heat map: blue raises, orange lowers, the deeper the more; empty cells have no nodes. */
  function heatMap(width, label, rows, columns, cells, most, { text, title, xLabel, yLabel, square = false, upwards = false } = {}) {
    const longest = (names) => Math.max(...names.map((name) => name.length), 1);
    const left = Math.min(0.36 * width, 24 + 6.4 * longest(rows));
    const cell = (width - left - 8) / columns.length;
    const turned = 6.4 * longest(columns) > cell - 4;
    const below = turned ? Math.min(120, 18 + 4.6 * longest(columns)) : 26;
    const high = Math.max(22, Math.min(square ? cell : 40, square && rows.length < 4 ? 90 : 44));
    return plot(width, label, {
      marginLeft: left, marginRight: 8, marginTop: yLabel ? 24 : 8, marginBottom: below + (xLabel ? 18 : 0),
      height: rows.length * high + below + 50,
      x: { domain: columns.map((_, at) => at), label: xLabel ? shortened(xLabel, Math.floor((width - left) / 7)) : null, labelAnchor: "center", labelArrow: "none", tickFormat: (at) => shortened(columns[at], turned ? 24 : 60), tickRotate: turned ? -40 : 0, tickSize: 0, labelOffset: below + 10 },
      y: { domain: rows.map((_, at) => at), label: yLabel ? shortened(yLabel, Math.floor(width / 7)) : null, labelArrow: "none", labelAnchor: "top", tickFormat: (at) => shortened(rows[at], Math.floor((left - 14) / 6.4)), tickSize: 0, reverse: upwards },
      marks: [
        Plot.cell(cells, { x: "column", y: "row", fill: (d) => (d.colour ?? (d.value < 0 ? MINUS : PLUS)), fillOpacity: (d) => 0.03 + (0.97 * Math.abs(d.shade ?? d.value)) / most, inset: 1, rx: 2, tip: true, title }),
        Plot.cell(cells, { x: "column", y: "row", fill: "none", stroke: LINE, inset: 1, rx: 2 }),
        ...(cell >= 38 ? [Plot.text(cells, { x: "column", y: "row", text, fill: (d) => (Math.abs(d.shade ?? d.value) > 0.6 * most ? "var(--on-colour)" : INK), fontSize: 11, pointerEvents: "none" })] : []),
      ],
    });
  }

  // ---- contents that follow the reader ----

  /** Mark the part of the page that is read: the last section whose title has passed the upper quarter. */
  function followReader() {
    const links = [...document.querySelectorAll(".toc a")];
    const update = () => {
      const atEnd = window.scrollY > 0 && window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 4;
      const passed = links.filter((link) => find(link.hash.slice(1)).getBoundingClientRect().top <= 0.25 * window.innerHeight);
      const now = atEnd ? links.at(-1) : passed.at(-1) ?? links[0];
      for (const link of links) link === now ? link.setAttribute("aria-current", "location") : link.removeAttribute("aria-current");
      const list = now.closest(".toc");
      list.scrollLeft = now.offsetLeft - 0.4 * list.clientWidth;
    };
    window.addEventListener("scroll", update, { passive: true });
    window.addEventListener("resize", update);
    update();
  }

  followReader();
  const data = JSON.parse(find("page-data").textContent);

  function select(label, names, onchange) {
    const options = names.map((name, at) => make("option", { value: at }, name));
    return make("label", { class: "wide" }, label + " ", make("select", { "aria-label": label, onchange: (event) => onchange(Number(event.target.value)) }, ...options));
  }

  const searchBox = (label, id, oninput) =>
    make("label", { class: "wide" }, label + " ", make("input", { type: "search", id, "aria-label": label, autocomplete: "off", spellcheck: "false", oninput }));

  /** The panel of what is chosen: beside the list, or right below the chosen row on small screens. */
  function placePanel(panel, beside, row) {
    if (WIDE.matches || !row) beside.append(panel);
    else row.after(make("li", {}, panel));
  }

  // ---- terms ----

  function unitOf(output) {
    const { unit, outputs } = data.terms;
    if (unit === "log-odds") return `log-odds of ${outputs[output]}`;
    return unit === "margin" ? `score of ${outputs[output]} against the others` : unit;
  }

  function termBrowser(home) {
    const { items, outputs } = data.terms;
    const FIRST = 12;
    const state = { output: 0, size: 0, whose: "", words: "", all: false, chosen: null };
    const list = make("ul", { class: "rows", "aria-label": "Terms" });
    const status = make("p", { class: "where", role: "status" });
    const more = make("button", { type: "button", onclick: () => { state.all = true; show(); } });
    const panel = make("div", { class: "panel", "aria-live": "polite", id: "term-panel" });
    const beside = make("div", { class: "beside" });
    const sizes = [...new Set(items.map((item) => item.columns.length))].sort();
    const sizeNames = { 1: "single columns", 2: "pairs", 3: "triples" };
    const restart = () => { state.all = false; state.chosen = null; show(); };

    const matching = () => items
      .filter((item) => String(state.output) in item.importance)
      .filter((item) => !state.size || item.columns.length === state.size)
      .filter((item) => !state.whose || (state.whose === "own") === (item.whose === "own"))
      .filter((item) => item.columns.join(" \u00d7 ").toLowerCase().includes(state.words))
      .sort((one, other) => other.importance[state.output] - one.importance[state.output]);

    function show() {
      const found = matching();
      const shown = state.all ? found : found.slice(0, FIRST);
      const most = Math.max(1e-12, ...items.filter((item) => String(state.output) in item.importance)
        .map((item) => item.importance[state.output] + (item.error?.[state.output] ?? 0)));
      if (!shown.includes(state.chosen)) state.chosen = shown[0] ?? null;
      let row = null;
      list.replaceChildren(...shown.map((item) => {
        const chosen = item === state.chosen;
        const value = item.importance[state.output], error = item.error?.[state.output];
        const button = make("button", { type: "button", "aria-expanded": String(chosen), "aria-controls": "term-panel", onclick: () => choose(item) },
          make("span", { class: "name" }, ...nameOf(item)),
          make("span", { class: "amount" }, number(value) + plusMinus(error)),
          make("span", { class: "track" }, miniBar(260, value, error, most)));
        const line = make("li", { class: chosen ? "chosen" : null }, button);
        if (chosen) row = line;
        return line;
      }));
      more.hidden = shown.length === found.length;
      more.textContent = `Show all ${found.length}`;
      const inFile = items.length < data.terms.count ? ` (${whole(items.length)} of the model's ${whole(data.terms.count)} terms are in this file)` : "";
      status.textContent = `${counted(found.length, "term")}${inFile}. Importance in ${unitOf(state.output)}.`;
      if (state.chosen) {
        drawPanel(state.chosen);
        placePanel(panel, beside, row);
      } else panel.replaceChildren(make("p", {}, "No term matches."));
    }

    function choose(item) {
      state.chosen = item;
      show();
      list.querySelector("li.chosen button").focus({ preventScroll: true });
    }

    function drawPanel(item) {
      const value = item.importance[state.output], error = item.error?.[state.output];
      panel.replaceChildren(
        make("h3", {}, ...nameOf(item)),
        make("p", { class: "where" }, `Importance ${number(value)}${plusMinus(error)} (${unitOf(state.output)}).`),
        ...insideOf(item, state.output, unitOf(state.output)));
    }

    const controls = make("div", { class: "controls", role: "search", "aria-label": "Terms" },
      searchBox("Find a column", "term-search", (event) => { state.words = event.target.value.trim().toLowerCase(); restart(); }),
      outputs.length > 1 ? select("Score of", outputs, (at) => { state.output = at; restart(); }) : null,
      select("Kind", ["all", ...sizes.map((size) => sizeNames[size] ?? `${size} columns`)], (at) => { state.size = at ? sizes[at - 1] : 0; restart(); }),
      select("Whose", ["all", "only the node's own", "with the neighbourhood"], (at) => { state.whose = ["", "own", "near"][at]; restart(); }));
    home.append(controls, status, make("div", { class: "two" }, make("div", {}, list, more), beside));
    WIDE.addEventListener("change", show);
    show();
  }

  function nameOf(item) {
    const parts = item.columns.flatMap((column, at) => (at ? [" \u00d7 ", make("b", {}, column)] : [make("b", {}, column)]));
    return [...parts, " ", make("span", { class: `whose ${item.whose}` }, WHOSE[item.whose])];
  }

  /** What is inside a term: a shape, bars, a heat map, or a heat map for each value of a third column. */
  function insideOf(item, output, unit) {
    if (!item.axes) {
      const place = item.columns[0] === "position in the graph" ? "What a node with average columns would get at this place of the graph." : "The inside of this term is not in this file.";
      return [make("p", {}, item.columns.length && "count" in data.terms ? place : "")];
    }
    const means = item.means[output], errors = item.errors?.[output], { axes, counts } = item;
    const most = Math.max(1e-12, ...means.map(Math.abs));
    const notes = axes.filter((axis) => axis.left_out).map((axis) => `${counted(axis.left_out, "value")} of ${axis.name} that ${axis.left_out === 1 ? "matters" : "matter"} less ${axis.left_out === 1 ? "is" : "are"} left out.`);
    if (axes.some((axis) => axis.share)) notes.push("Names of values stand for nodes where their share among the neighbours is high (upper quarter).");
    const note = notes.length ? [make("p", { class: "where" }, notes.join(" "))] : [];
    if (axes.length === 1) {
      const [axis] = axes;
      const rows = axis.labels.map((name, at) => ({ name, value: means[at], error: errors?.[at] ?? 0, nodes: counts[at], at: axis.at?.[at] }));
      const head = [axis.name, "nodes", "adds", ...(errors ? ["standard error"] : [])];
      const numbers = table("The numbers", head, rows.map((row) => [row.name, whole(row.nodes), signed(row.value), ...(errors ? [number(row.error, 2)] : [])]));
      const draw = axis.at ? (width) => drawShape(width, axis, rows, item.histogram, unit) : (width) => drawLevels(width, axis, rows, unit);
      return [mount(make("div", { class: "chart" }), draw), make("p", { class: "where" }, axis.at ? "Mean contribution by value; the band is two standard errors, the bars below are the numbers of nodes." : "Mean contribution of the nodes with each value, with two standard errors and the number of nodes."), ...note, numbers];
    }
    const [first, second, third] = axes;
    const across = second.labels.length, deep = third ? third.labels.length : 1;
    const facets = Array.from({ length: deep }, (_, layer) => first.labels.flatMap((_, row) => second.labels.map((_, column) => {
      const at = (row * across + column) * deep + layer;
      return { row, column, value: means[at], error: errors?.[at], nodes: counts[at] };
    })).filter((cell) => cell.nodes));
    const title = (d) => `${first.name}: ${first.labels[d.row]}\n${second.name}: ${second.labels[d.column]}\nadds ${signed(d.value)}${plusMinus(2 * (d.error ?? 0))}\n${counted(d.nodes, "node")}`;
    const draw = (cells, words) => (width) => heatMap(width, words, first.labels, second.labels, cells, most, { text: (d) => signed(Number(d.value.toPrecision(2))), title, xLabel: second.name, yLabel: first.name, upwards: Boolean(first.at) });
    const charts = facets.map((cells, layer) => {
      const words = third ? `${third.name}: ${third.labels[layer]}` : `${first.name} by ${second.name}`;
      const chart = mount(make("div", { class: "chart" }), draw(cells, `Mean contribution, ${words}`));
      return third ? make("div", {}, make("h4", {}, words), chart) : chart;
    });
    const counting = facets.map((cells, layer) => cells.map((cell) => [first.labels[cell.row], second.labels[cell.column], ...(third ? [third.labels[layer]] : []), whole(cell.nodes), signed(cell.value), ...(errors ? [number(cell.error, 2)] : [])])).flat();
    return [
      third ? make("div", { class: "multiples" }, ...charts) : charts[0],
      colourScale(most, unit),
      make("p", { class: "where" }, `Mean contribution beyond what ${third ? "the columns and their pairs" : "each column does"} alone; empty cells have no nodes.`), ...note,
      table("The numbers", [...axes.map((axis) => axis.name), "nodes", "adds", ...(errors ? ["standard error"] : [])], counting),
    ];
  }

  function drawShape(width, axis, rows, histogram, unit) {
    const known = rows.filter((row) => row.at !== undefined);
    const missing = rows.find((row) => row.at === undefined);
    const bars = histogram.counts.map((nodes, at) => ({ nodes, from: histogram.edges[at], to: histogram.edges[at + 1] }));
    const values = [...histogram.edges, ...known.map((row) => row.at)];
    const domain = [Math.min(...values), Math.max(...values)];
    const frame = { width, marginLeft: 52, marginRight: 14 };
    const x = { domain, ticks: ticksOf(width), tickFormat: (v) => number(v) };
    const above = plot(width, `Contribution by ${axis.name}: ${known.map((row) => `${number(row.at)}: ${signed(row.value)}`).join(", ")}`, {
      ...frame, height: 250, marginTop: 26, marginBottom: 6, x: { ...x, axis: null },
      y: { grid: true, label: `adds (${shortened(unit, Math.floor(width / 8))})`, labelArrow: "none", tickFormat: (v) => number(v), ticks: 5 },
      marks: [
        zeroLine("y"),
        Plot.areaY(known, { x: "at", y1: (d) => d.value - 2 * d.error, y2: (d) => d.value + 2 * d.error, fill: PLUS, fillOpacity: 0.2 }),
        Plot.line(known, { x: "at", y: "value", stroke: PLUS, strokeWidth: 2 }),
        Plot.dot(known, { x: "at", y: "value", r: 2.5, fill: PLUS, tip: true, title: (d) => `${axis.name}: ${d.name}\nadds ${signed(d.value)}${plusMinus(2 * (d.error ?? 0))}\n${counted(d.nodes, "node")}` }),
        ...(missing ? [Plot.ruleY([missing.value], { stroke: MINUS, strokeDasharray: "4 3" }), Plot.text([missing.value], { y: (d) => d, frameAnchor: "right", text: () => "missing", fill: MINUS, dy: 9, textAnchor: "end" })] : []),
      ],
    });
    const below = plot(width, `Histogram of ${axis.name}`, {
      ...frame, height: 92, marginTop: 6, marginBottom: 36, x: { ...x, label: shortened(axis.name, Math.floor(width / 8)), labelAnchor: "center", labelArrow: "none" },
      y: { label: null, ticks: 2, tickFormat: whole },
      marks: [Plot.rectY(bars, { x1: "from", x2: "to", y: "nodes", fill: SOFT, fillOpacity: 0.6, insetRight: 1, tip: true, title: (d) => `${number(d.from)} to ${number(d.to)}\n${counted(d.nodes, "node")}` })],
    });
    return [above, below];
  }

  function drawLevels(width, axis, rows, unit) {
    return rowsChart(width, `Contribution by ${axis.name}: ${rows.map((row) => `${row.name}: ${signed(row.value)}`).join(", ")}`, rows.map((row) => row.name), ({ inset, dy }) => [
      zeroLine("x"),
      Plot.barX(rows, { x: "value", y: (_, at) => at, fill: (d) => (d.value < 0 ? MINUS : PLUS), ...inset, tip: true, title: (d) => `${d.name}\nadds ${signed(d.value)}${plusMinus(2 * (d.error ?? 0))}\n${counted(d.nodes, "node")}` }),
      Plot.ruleY(rows, { x1: (d) => d.value - 2 * d.error, x2: (d) => d.value + 2 * d.error, y: (_, at) => at, stroke: INK, dy }),
      Plot.text(rows, { y: (_, at) => at, frameAnchor: "right", textAnchor: "start", dx: 6, dy, text: (d) => whole(d.nodes), fill: SOFT, fontSize: 11 }),
    ], { x: { label: `adds (${shortened(unit, Math.floor(width / 9))})`, labelArrow: "none", tickFormat: (v) => number(v) }, right: 52 });
  }

  // ---- nodes ----

  function nodeBrowser(home) {
    const { rows, roles } = data.nodes;
    const isNumber = data.task === "number";
    const PAGE = 12;
    const state = { page: 0, words: "", label: -1, mistakes: false, sort: null, down: false, open: rows.find((row) => row.steps) ?? null };
    const named = (value) => (value === null ? "unknown" : isNumber ? number(value) : data.classes[value]);
    const wrong = (row) => !isNumber && row.true !== null && row.true !== row.predicted;
    const collator = new Intl.Collator("en", { numeric: true });
    const columns = [
      ["node", (row) => row.id], ["true", (row) => (isNumber ? row.true ?? NaN : named(row.true))],
      ["predicted", (row) => (isNumber ? row.predicted : named(row.predicted))],
      isNumber ? ["error", (row) => (row.true === null ? -1 : Math.abs(row.true - row.predicted))] : ["probability", (row) => row.probability],
      ["degree", (row) => row.degree],
    ];
    const head = make("tr", {}, ...columns.map(([name], at) => make("th", { scope: "col" }, make("button", { type: "button", onclick: () => { state.down = state.sort === at && !state.down; state.sort = at; restart(); } }, name))));
    const body = make("tbody");
    const status = make("span", { role: "status", id: "node-status" });
    const back = make("button", { type: "button", onclick: () => { state.page -= 1; show(); } }, "Back");
    const forth = make("button", { type: "button", onclick: () => { state.page += 1; show(); } }, "Next");
    const panel = make("div", { class: "panel", "aria-live": "polite", id: "node-panel" });
    const beside = make("div", { class: "beside" });
    const restart = () => { state.page = 0; show(); };

    function matching() {
      const found = rows.filter((row) => (!state.mistakes || wrong(row)) && (state.label < 0 || row.true === state.label || row.predicted === state.label) && row.id.toLowerCase().includes(state.words));
      if (state.sort !== null) {
        const key = columns[state.sort][1], turn = state.down ? -1 : 1;
        found.sort((one, other) => {
          const [a, b] = [key(one), key(other)];
          return turn * (typeof a === "number" ? a - b : collator.compare(a, b));
        });
      }
      if (state.words) found.sort((one, other) => (other.id.toLowerCase() === state.words) - (one.id.toLowerCase() === state.words));
      return found;
    }

    function show() {
      const found = matching();
      const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
      state.page = Math.min(state.page, last);
      const from = state.page * PAGE, page = found.slice(from, from + PAGE);
      let opened = null;
      body.replaceChildren(...page.map((row) => {
        const isOpen = row === state.open;
        const button = make("button", { type: "button", "aria-expanded": row.steps ? String(isOpen) : null, "aria-controls": "node-panel", disabled: !row.steps, title: row.id }, row.id);
        const line = make("tr", { class: [wrong(row) ? "wrong" : "", isOpen ? "chosen" : ""].join(" ").trim() || null },
          make("th", { scope: "row" }, button),
          ...[named(row.true), named(row.predicted), isNumber ? (row.true === null ? "\u2014" : number(Math.abs(row.true - row.predicted))) : percent(row.probability), whole(row.degree)].map((text) => make("td", {}, make("span", { class: "clamp", title: text }, text))));
        if (row.steps) line.addEventListener("click", () => { state.open = row; show(); body.querySelector("tr.chosen button")?.focus({ preventScroll: true }); });
        if (isOpen) opened = line;
        return line;
      }));
      [...head.cells].forEach((cell, at) => cell.setAttribute("aria-sort", state.sort !== at ? "none" : state.down ? "descending" : "ascending"));
      back.disabled = state.page === 0;
      forth.disabled = state.page === last;
      status.textContent = `${page.length ? `${from + 1}\u2013${from + page.length} of ` : ""}${whole(found.length)} matching ${found.length === 1 ? "node" : "nodes"}`;
      if (!state.open) return;
      drawPanel(state.open);
      if (WIDE.matches || !opened) beside.append(panel);
      else opened.after(make("tr", { class: "opened" }, make("td", { colspan: columns.length }, panel)));
    }

    function drawPanel(row) {
      const output = data.terms ? data.terms.outputs[row.output] : data.classes[row.output];
      const unit = data.terms ? unitOf(row.output) : `score of ${output}`;
      const truth = row.true === null ? "" : ` True: ${named(row.true)}.`;
      panel.replaceChildren(
        make("h3", {}, row.id),
        make("p", {}, `Predicted: ${named(row.predicted)}${isNumber ? "" : ` (${percent(row.probability)})`}.${truth} Used for: ${roles[row.role]}.`),
        make("h4", {}, `From the average to this ${isNumber ? "prediction" : "score"}`),
        mount(make("div", { class: "chart waterfall" }), (width) => drawWaterfall(width, row, unit)),
        ...changesOf(row),
        ...neighbourhoodOf(row, unit, named));
    }

    const controls = make("div", { class: "controls", role: "search", "aria-label": "Nodes" },
      searchBox("Find a node", "node-search", (event) => { state.words = event.target.value.trim().toLowerCase(); restart(); }),
      isNumber ? null : select("True or predicted class", ["all", ...data.classes], (at) => { state.label = at - 1; restart(); }),
      isNumber ? null : make("label", { class: "tick" }, make("input", { type: "checkbox", onchange: (event) => { state.mistakes = event.target.checked; restart(); } }), " only mistakes"));
    const list = make("div", {}, make("table", { id: "node-table", class: rows.some((row) => row.id.length > 12) ? "named" : "" }, make("thead", {}, head), body), make("div", { class: "pages" }, back, forth, status));
    home.append(controls, make("div", { class: "two" }, list, beside));
    WIDE.addEventListener("change", show);
    show();
  }

  function drawWaterfall(width, row, unit) {
    const bars = [{ name: "the average", from: 0, to: row.start, kind: "level", value: row.start }];
    let level = row.start;
    const add = (name, value, whose) => {
      bars.push({ name, from: level, to: level + value, kind: value < 0 ? "minus" : "plus", value, whose });
      level += value;
    };
    for (const [label, whose, value] of row.steps) add(data.nodes.labels[label], value, whose);
    add("everything else", row.score - level, "");
    bars.push({ name: "the score", from: 0, to: row.score, kind: "level", value: row.score });
    const colour = { plus: PLUS, minus: MINUS, level: SOFT };
    const links = bars.slice(0, -1).map((bar, at) => ({ x: bar.to, at }));
    return rowsChart(width, `Waterfall: ${bars.map((bar) => `${bar.name} ${bar.kind === "level" ? number(bar.value) : signed(bar.value)}`).join(", ")}`, bars.map((bar) => bar.name), ({ inset, dy }) => [
      zeroLine("x"),
      Plot.tickX(links, { x: "x", y: "at", stroke: SOFT, insetTop: 4, insetBottom: -6 }),
      Plot.barX(bars, { x1: "from", x2: "to", y: (_, at) => at, fill: (d) => colour[d.kind], ...inset, tip: true, title: (d) => `${d.name}\n${d.kind === "level" ? number(d.value) : signed(d.value)}${WHOSE[d.whose] ? `\n${WHOSE[d.whose]}` : ""}` }),
      Plot.text(bars, { y: (_, at) => at, frameAnchor: "right", textAnchor: "start", dx: 8, dy, text: (d) => (d.kind === "level" ? number(d.value) : signed(d.value)), fill: INK }),
    ], { x: { label: shortened(unit, Math.floor(width / 9)), labelArrow: "none", tickFormat: (v) => number(v) }, right: 58 });
  }

  /** The smallest changes of own columns after which the model would answer otherwise. */
  function changesOf(row) {
    if (!row.changes) return [];
    const text = (label) => data.nodes.labels[label];
    const lines = row.changes.map(([outcome, parts]) => make("li", {}, make("b", {}, data.classes[outcome]), " if ",
      ...parts.flatMap(([name, before, after], at) => [at ? " and " : "", make("b", {}, text(name)), ` were ${text(after)} instead of ${text(before)}`])));
    const none = "No change of one or two own columns to values of other nodes was found that gives another answer, with the neighbourhood as it is.";
    const words = "The smallest changes of one own column, or else of two, to values of other nodes, with the neighbourhood as it is. This is what the model would answer; it does not say that the change would cause the outcome.";
    return [
      make("h4", {}, "What would have to be different for another answer"),
      lines.length ? make("ul", { class: "changes" }, ...lines) : null,
      make("p", { class: "where" }, lines.length ? words : none),
    ].filter(Boolean);
  }

  function neighbourhoodOf(row, unit, named) {
    if (!row.near) return [];
    const title = make("h4", {}, `Its neighbourhood: ${counted(row.degree, "neighbour")}`);
    if (!row.near.length) return [title, make("p", { class: "where" }, "No neighbour adds to this score.")];
    const steps = row.near.some((near) => near[3] > 1) ? " Nodes without a line to the node are two steps away." : "";
    const words = row.others > 0 ? ` The ${row.near.length} that count most are drawn; ${whole(row.others)} more are not.` : "";
    return [
      title,
      mount(make("div", { class: "chart" }), (width) => drawNeighbourhood(width, row, named)),
      make("p", { class: "where" }, `At the right those that raise the score, at the left those that lower it; the larger, the more. ${data.nodes.meaning}${steps}${words}`),
      table("The neighbours in numbers", ["neighbour", data.target, "adds"], row.near.map(([id, label, value]) => [id, named(label), signed(value)])),
    ];
  }

  function drawNeighbourhood(width, row, named) {
    const sides = [row.near.map((near, at) => ({ near, at })).filter(({ near }) => near[2] >= 0), row.near.map((near, at) => ({ near, at })).filter(({ near }) => near[2] < 0)];
    const most = Math.max(1e-12, ...row.near.map((near) => Math.abs(near[2])));
    const places = [];
    sides.forEach((side, which) => side.forEach(({ near, at }, place) => {
      const y = side.length === 1 ? 0 : 1 - (2 * place) / (side.length - 1);
      const turn = which ? -1 : 1, far = near[3] > 1 ? 1.15 : 0.85;
      places[at] = { x: turn * far * Math.sqrt(1 - 0.9 * y * y), y, id: near[0], label: near[1], value: near[2], far: near[3] > 1, turn };
    }));
    const longest = Math.max(...sides.map((side) => side.length));
    const height = Math.max(180, Math.min(420, 60 + 26 * longest));
    const room = Math.min(0.36 * width, 170);
    const letters = Math.floor((room - 8) / 6.4);
    return plot(width, `Neighbours of ${row.id} and what they add: ${places.map((p) => `${p.id} ${signed(p.value)}`).join(", ")}`, {
      height, margin: 18, marginLeft: room, marginRight: room, axis: null,
      x: { domain: [-1.2, 1.2] }, y: { domain: [-1.1, 1.1] }, r: { domain: [0, most], range: [3, 13] },
      marks: [
        Plot.link(row.links.map(([from, to]) => [places[from], places[to]]), { x1: (d) => d[0].x, y1: (d) => d[0].y, x2: (d) => d[1].x, y2: (d) => d[1].y, stroke: LINE }),
        Plot.link(places.filter((p) => !p.far), { x1: 0, y1: 0, x2: "x", y2: "y", stroke: (d) => (d.value < 0 ? MINUS : PLUS), strokeOpacity: (d) => 0.25 + (0.6 * Math.abs(d.value)) / most, strokeWidth: 1.5 }),
        Plot.dot(places, { x: "x", y: "y", r: (d) => Math.abs(d.value), fill: (d) => (d.value < 0 ? MINUS : PLUS), stroke: "var(--paper)", tip: true, title: (d) => `${d.id}\n${data.target}: ${named(d.label)}\nadds ${signed(d.value)}` }),
        ...[1, -1].map((turn) => Plot.text(places.filter((p) => p.turn === turn), { x: "x", y: "y", dx: 17 * turn, textAnchor: turn > 0 ? "start" : "end", text: (d) => shortened(d.id, letters), fill: INK, fontSize: 11 })),
        Plot.dot([0], { x: 0, y: 0, r: 9, fill: INK, stroke: "var(--paper)", strokeWidth: 2 }),
        Plot.text(row.id.length > 12 ? [] : [row.id], { x: 0, y: 0, dy: 20, fill: INK, fontWeight: "bold", stroke: "var(--paper)", strokeWidth: 3 }),
      ],
    });
  }

  // ---- performance and training ----

  const share = { tickFormat: tickPercent, domain: [0, 1], grid: true, ticks: 5 };

  /** A chart of two numbers, about square. */
  const square = (width, x, y, more = {}) => ({
    height: Math.min(400, 0.87 * width), marginLeft: 56, marginBottom: 42, marginTop: 26,
    x: { grid: true, ticks: ticksOf(width), tickFormat: (v) => number(v), labelArrow: "none", labelAnchor: "center", ...x },
    y: { grid: true, ticks: 6, tickFormat: (v) => number(v), labelArrow: "none", ...y }, ...more,
  });
  const dashed = { stroke: SOFT, strokeDasharray: "4 4" };

  function curveChart(width, curve, kind) {
    const { name, [kind]: values } = curve, GRID = values[0].length - 1;
    const lines = values.flatMap((line, split) => line.map((y, at) => ({ x: at / GRID, y, split })));
    return plot(width, `${kind === "roc" ? "ROC" : "Precision-recall"} curves of ${name}, one for each of ${values.length} splits`, {
      ...square(width, { ...share, label: kind === "roc" ? "share of the others taken for it" : "recall" }, { ...share, label: kind === "roc" ? "share found" : "precision" }),
      marks: [
        kind === "roc" ? Plot.line([[0, 0], [1, 1]], dashed) : Plot.ruleY([curve.share], dashed),
        Plot.line(lines, { x: "x", y: "y", z: "split", stroke: PLUS, strokeWidth: values.length > 1 ? 1.3 : 2, strokeOpacity: values.length > 1 ? 0.6 : 1 }),
      ],
    });
  }

  function mountCurves() {
    const { curves } = data.performance;
    for (const kind of ["roc", "precision"]) {
      const home = document.querySelector(`[data-chart=${kind}]`);
      if (!curves.length) {
        home.append(make("p", { class: "where" }, "The test nodes have one class only."));
        continue;
      }
      const show = (at) => {
        const chart = make("div", { class: "chart" });
        holder.replaceChildren(chart);
        mount(chart, (width) => curveChart(width, curves[at], kind));
      };
      const holder = make("div");
      home.append(curves.length > 1 ? make("div", { class: "controls" }, select("Class", curves.map((curve) => curve.name), show)) : make("p", { class: "where" }, `Class: ${curves[0].name}`), holder);
      show(0);
    }
  }

  const charts = {
    metrics: (width) => {
      const { metrics } = data;
      const shares = metrics.filter((metric) => metric.percent), others = metrics.filter((metric) => !metric.percent);
      const drawn = shares.length ? [dotsChart(width, `Test metrics: ${shares.map((m) => `${m.label} ${m.text}`).join(", ")}`, shares.map((m, at) => ({ name: `${m.label} ${m.text}`, values: m.values, text: m.text, colour: at || m !== metrics[0] ? SOFT : PLUS })), { tickFormat: tickPercent, label: null })] : [];
      return [...drawn, make("p", { class: "numbers-line" }, ...others.map((m) => make("span", {}, make("b", {}, m.text), " " + m.label)))];
    },
    calibration: (width) => {
      const { bins } = data.performance.calibration;
      if (!bins.length) return make("p", {}, "There are no test nodes.");
      return plot(width, `Calibration: ${bins.map((bin) => `${percent(bin.confidence, 0)} sure, ${percent(bin.right, 0)} right`).join("; ")}`, {
        ...square(width, { ...share, label: "confidence" }, { ...share, label: "share that is right" }, { r: { range: [2, 12] } }),
        marks: [
          Plot.line([[0, 0], [1, 1]], dashed),
          Plot.ruleX(bins, { x: "confidence", y1: "confidence", y2: "right", stroke: MINUS }),
          Plot.dot(bins, { x: "confidence", y: "right", r: "nodes", fill: PLUS, tip: true, title: (d) => `${percent(d.confidence)} sure\n${percent(d.right)} right\n${counted(d.nodes, "prediction")}` }),
        ],
      });
    },
    confusion: (width) => {
      const { names, counts } = data.performance.confusion;
      const totals = counts.map((row) => row.reduce((sum, value) => sum + value, 0));
      const cells = counts.flatMap((row, at) => row.map((value, column) => ({ row: at, column, value, shade: totals[at] ? value / totals[at] : 0, colour: at === column ? PLUS : MINUS }))).filter((cell) => cell.value);
      return heatMap(Math.max(width, 130 + 17 * names.length), `Confusion matrix of ${names.length} classes`, names, names, cells, 1, {
        text: (d) => whole(d.value), xLabel: "predicted", yLabel: "true", square: names.length < 8,
        title: (d) => `true: ${names[d.row]}\npredicted: ${names[d.column]}\n${counted(d.value, "node")}, ${percent(d.shade)} of the row`,
      });
    },
    by_degree: (width) => partsChart(width, data.performance.by_degree, "number of neighbours"),
    by_target: (width) => partsChart(width, data.performance.by_target, data.target),
    predicted: (width) => {
      const { points } = data.performance;
      const ends = d3.extent(points.flat());
      return plot(width, `Predicted against true ${data.target}, ${points.length} test nodes`, {
        ...square(width, { label: "true" }, { label: "predicted" }),
        marks: [Plot.line([[ends[0], ends[0]], [ends[1], ends[1]]], dashed), Plot.dot(points, { r: 2, fill: PLUS, fillOpacity: 0.45 })],
      });
    },
    residuals: (width) => plot(width, "True minus predicted, over predicted", {
      ...square(width, { label: "predicted" }, { label: "true \u2212 predicted" }),
      marks: [Plot.ruleY([0], dashed), Plot.dot(data.performance.points, { x: (d) => d[1], y: (d) => d[0] - d[1], r: 2, fill: PLUS, fillOpacity: 0.45 })],
    }),
    comparison: (width) => {
      const { models, percent: isShare, metric } = data.comparison;
      return dotsChart(width, `Test ${metric} of ${models.length} models: ${models.map((m) => `${m.name} ${m.text}`).join(", ")}`, models.map((m) => ({ ...m, colour: m.glass_box ? PLUS : SOFT })), { label: `test ${metric}`, labelArrow: "none", tickFormat: isShare ? tickPercent : (v) => number(v) });
    },
    loss: (width) => trainingChart(width, "loss", [["train_loss", PLUS], ["validation_loss", MINUS]], (v) => number(v)),
    score: (width) => trainingChart(width, `validation ${data.metrics[0].label}`, [["validation_score", PLUS]], data.metrics[0].percent ? tickPercent : (v) => number(v)),
    order_weights: (width) => dotsChart(width, "Order weights", data.order_weights, { label: "|\u03b1|", labelArrow: "none", zero: true, tickFormat: (v) => number(v) }),
  };

  function partsChart(width, parts, words) {
    const isNumber = data.task === "number", label = data.performance.measure;
    return dotsChart(width, `${label} by ${words}: ${parts.map((part) => `${part.name}: ${number(mean(part.values))}`).join(", ")}`, parts.map((part) => ({ name: `${part.name} (${counted(part.nodes, "node")})`, values: part.values })), { label, labelArrow: "none", tickFormat: isNumber ? (v) => number(v) : tickPercent });
  }

  function trainingChart(width, label, metrics, tickFormat) {
    const lines = metrics.flatMap(([name, colour]) => data.training.flatMap((run) => (run[name] ?? []).map((value, at) => ({ epoch: run.epoch[at], value, run: `${name} ${run.split}`, colour, shown: run.split === data.shown_split, chosen: run.epoch[at] === run.chosen }))));
    if (!lines.length) return make("p", {}, "Not recorded.");
    const one = data.training.length === 1;
    const draw = (some, thick) => Plot.line(some, { x: "epoch", y: "value", z: "run", stroke: "colour", strokeWidth: thick ? 2 : 1, strokeOpacity: thick ? 1 : 0.35 });
    return plot(width, `${label} over the epochs`, {
      height: 280, marginLeft: 54, marginBottom: 40, marginTop: 26,
      x: { label: "epoch", labelArrow: "none", labelAnchor: "center", ticks: ticksOf(width) }, y: { label, labelArrow: "none", grid: true, tickFormat, ticks: 5 },
      marks: [draw(lines.filter((d) => !d.shown), one), draw(lines.filter((d) => d.shown), true), Plot.dot(lines.filter((d) => d.chosen), { x: "epoch", y: "value", r: (d) => (d.shown ? 5 : 3), fill: INK, fillOpacity: (d) => (d.shown ? 1 : 0.5) })],
      r: { type: "identity" },
    });
  }

  if (find("term-browser")) termBrowser(find("term-browser"));
  if (find("node-browser")) nodeBrowser(find("node-browser"));
  if (data.performance?.curves) mountCurves();
  for (const element of document.querySelectorAll("[data-chart]")) {
    const draw = charts[element.dataset.chart];
    if (!draw) continue;
    element.classList.add("chart");
    mount(element, draw);
  }
})();
