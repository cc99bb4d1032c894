"use strict";
/*
 * The script of the page. Contents are JSON in #page-data; a part is drawn if the page has its element.
 * Names from tables are only inserted as text: textContent, or the text marks of Plot.
 * Colours are CSS variables, so that charts follow the light or dark scheme.
 */
(() => {
  const PLUS = "var(--plus)", MINUS = "var(--minus)", SOFT = "var(--soft)", LINE = "var(--line)", INK = "var(--ink)";
  const PAPER = "var(--paper)";
  const OF_RELATIONS = ["link", "warn", "good", "bad", "mute"].map((name) => `var(--${name})`);
  const SCOPES = { own: "own", neighbourhood: "neighbourhood", both: "own and neighbourhood" };
  const WIDE = window.matchMedia("(min-width: 900px)");
  const find = (id) => document.getElementById(id);
  const data = JSON.parse(find("page-data").textContent);
  const isNumber = data.range !== null;

  // ---- elements and texts ----

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  const where = (text) => make("p", { class: "where" }, text);
  const minus = (text) => text.replace("-", "\u2212");
  const whole = (value) => value.toLocaleString("en");
  const percent = (share, digits = 1) => (100 * share).toFixed(digits) + "\u00a0%";
  /** Percent with one decimal place only where it is needed, so that no two ticks read the same. */
  const tickPercent = (share) => percent(share, Math.abs(Math.round(100 * share) - 100 * share) < 0.01 ? 0 : 1);
  function number(value, digits = 3) {
    const size = Math.abs(value);
    if (size >= 1e6) return minus((value / 1e6).toPrecision(3)) + "M";
    if (size >= 1000) return minus(Math.round(value).toLocaleString("en"));
    return minus(String(Number(value.toPrecision(digits))));
  }
  /** Like number, but with its last zeros: 1.00. */
  const measured = (value, digits = 3) => (!value || Math.abs(value) >= 1000 ? number(value) : minus(value.toPrecision(digits)));
  const tick = (value) => number(value);
  const signed = (value, digits = 3) => (value > 0 ? "+" : "") + measured(value, digits);
  const plusMinus = (error) => (error ? ` \u00b1 ${measured(error, 2)}` : "");
  const counted = (value, noun) => `${whole(value)} ${noun}${value === 1 ? "" : "s"}`;
  const shortened = (text, most) => (text.length > most ? text.slice(0, Math.max(1, most - 1)) + "\u2026" : text);
  const named = (value) => (value === null ? "unknown" : isNumber ? number(value) : data.classes[value]);

  function table(caption, head, rows) {
    const header = make("tr", {}, ...head.map((text) => make("th", { scope: "col" }, text)));
    const body = rows.map(([first, ...cells]) =>
      make("tr", {}, make("th", { scope: "row" }, first), ...cells.map((text) => make("td", {}, text))));
    const content = make("table", { class: "scores" }, make("thead", {}, header), make("tbody", {}, ...body));
    const frame = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, content);
    return make("details", {}, make("summary", {}, caption), frame);
  }

  function select(label, names, onchange) {
    const options = names.map((name, at) => make("option", { value: at }, name));
    const change = (event) => onchange(Number(event.target.value));
    return make("label", { class: "wide" }, label + " ", make("select", { "aria-label": label, onchange: change }, ...options));
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
  const chart = (draw) => mount(make("div", { class: "chart" }), draw);

  /** Draw a chart that screen readers treat as one image with a label. */
  function plot(width, label, options) {
    const svg = Plot.plot({ width, style: { fontSize: "12px", overflow: "visible" }, ...options });
    for (const part of svg.querySelectorAll("[aria-label]")) part.removeAttribute("aria-label");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
    return svg;
  }

  const ticksOf = (width) => Math.max(3, Math.min(8, Math.floor(width / 80)));
  const axis = (width, label) => ({ label: shortened(label, Math.floor(width / 9)), labelArrow: "none", tickFormat: tick });

  /** Draw rows with names: to the left of each row, or above it. */
  function rowsChart(width, label, names, marks, { x = {}, right = 16, above = false } = {}) {
    const narrow = above || width < 460;
    const left = narrow ? 12 : Math.min(320, Math.max(90, 14 + 6.6 * Math.max(...names.map((n) => n.length))), 0.42 * width);
    const letters = Math.floor((narrow ? width : left - 12) / 6.6);
    const step = narrow ? 42 : 26;
    const keys = names.map((_, at) => at);
    const text = Plot.text(keys, {
      y: (at) => at,
      text: (at) => shortened(names[at], letters),
      title: (at) => names[at],
      fill: INK, stroke: PAPER, strokeWidth: 3, frameAnchor: "left", dx: -10,
      ...(narrow ? { textAnchor: "start", dy: -step / 2 + 7 } : { textAnchor: "end" }),
    });
    const inset = narrow ? { insetTop: 18, insetBottom: 3 } : { insetTop: 4, insetBottom: 4 };
    return plot(width, label, {
      marginLeft: left, marginRight: right, marginTop: narrow ? 10 : 4, marginBottom: 38,
      height: names.length * step + (narrow ? 48 : 42),
      x: { grid: true, ticks: ticksOf(width - left), nice: true, ...x },
      y: { type: "band", domain: keys, axis: null, padding: 0 },
      marks: [...marks(inset, narrow ? 7 : 0), text],
    });
  }

  /** Draw rows of small dots, with their mean and standard deviation. */
  function dotsChart(width, label, rows, x) {
    const dots = rows.flatMap((row, at) => row.values.map((value) => ({ at, value, colour: row.colour ?? PLUS })));
    const means = rows.map((row, at) => ({ at, mean: d3.mean(row.values), sd: d3.deviation(row.values) ?? 0, colour: row.colour ?? PLUS }));
    const title = (d) => `${rows[d.at].name}\n${rows[d.at].text ?? number(d.mean) + plusMinus(d.sd)}`;
    return rowsChart(width, label, rows.map((row) => row.name), (_, dy) => [
      Plot.dot(dots, { x: "value", y: "at", r: 2.5, fill: "colour", fillOpacity: 0.4, dy }),
      Plot.ruleY(means, { x1: (d) => d.mean - d.sd, x2: (d) => d.mean + d.sd, y: "at", stroke: "colour", strokeWidth: 2, dy }),
      Plot.dot(means, { x: "mean", y: "at", r: 5, fill: "colour", dy, tip: true, title }),
    ], { x });
  }

  /** Draw rows of bars {name, from, to, error, text, title, colour}: blue raises, orange lowers. */
  function barsChart(width, label, bars, unit, { right = 58, steps = false } = {}) {
    const ends = bars.map((bar, at) => ({ x: bar.to, at })).slice(0, -1);
    const y = (_, at) => at;
    const colour = (bar) => bar.colour ?? (bar.to < bar.from ? MINUS : PLUS);
    const words = `${label}: ${bars.map((bar) => `${bar.name} ${bar.text}`).join(", ")}`;
    return rowsChart(width, words, bars.map((bar) => bar.name), (inset, dy) => [
      Plot.ruleX([0], { stroke: SOFT }),
      Plot.tickX(steps ? ends : [], { x: "x", y: "at", stroke: SOFT, insetTop: 4, insetBottom: -6 }),
      Plot.barX(bars, { x1: "from", x2: "to", y, fill: colour, ...inset, tip: true, title: "title" }),
      Plot.ruleY(bars, { x1: (d) => d.to - 2 * (d.error ?? 0), x2: (d) => d.to + 2 * (d.error ?? 0), y, stroke: INK, dy, strokeOpacity: (d) => (d.error ? 1 : 0) }),
      Plot.text(bars, { y, frameAnchor: "right", textAnchor: "start", dx: 8, dy, text: (d) => d.note ?? d.text, fill: INK }),
    ], { x: axis(width, unit), right, above: steps });
  }

  /** Draw a heat map: blue raises, orange lowers, more with a darker shade; empty cells have no nodes. */
  function heatMap(width, label, rows, columns, cells, most, { text, title, xLabel, yLabel, square = false, upwards = false }) {
    const longest = (names) => Math.max(...names.map((name) => name.length), 1);
    const left = Math.min(0.36 * width, 24 + 6.4 * longest(rows));
    const cell = (width - left - 8) / columns.length;
    const turned = 6.4 * longest(columns) > cell - 4;
    const below = turned ? Math.min(120, 18 + 4.6 * longest(columns)) : 26;
    const high = Math.max(22, Math.min(square ? cell : 40, square && rows.length < 4 ? 90 : 44));
    const shade = (d) => Math.abs(d.shade ?? d.value) / most;
    const place = { x: "column", y: "row", inset: 1, rx: 2 };
    const colour = (d) => d.colour ?? (d.value < 0 ? MINUS : PLUS);
    return plot(width, label, {
      marginLeft: left, marginRight: 8, marginTop: 24, marginBottom: below + 18, height: rows.length * high + below + 50,
      x: {
        domain: d3.range(columns.length), label: shortened(xLabel, Math.floor((width - left) / 7)), labelAnchor: "center",
        labelArrow: "none", labelOffset: below + 10, tickSize: 0, tickRotate: turned ? -40 : 0,
        tickFormat: (at) => shortened(columns[at], turned ? 24 : 60),
      },
      y: {
        domain: d3.range(rows.length), label: shortened(yLabel, Math.floor(width / 7)), labelAnchor: "top", labelArrow: "none",
        tickSize: 0, reverse: upwards, tickFormat: (at) => shortened(rows[at], Math.floor((left - 14) / 6.4)),
      },
      marks: [
        Plot.cell(cells, { ...place, fill: colour, fillOpacity: (d) => 0.03 + 0.97 * shade(d), tip: true, title }),
        Plot.cell(cells, { ...place, fill: "none", stroke: LINE }),
        Plot.text(cell >= 38 ? cells : [], {
          x: "column", y: "row", text, fontSize: 11, pointerEvents: "none",
          fill: (d) => (shade(d) > 0.6 ? "var(--on-colour)" : INK),
        }),
      ],
    });
  }

  // ---- highlight of the current section ----

  /** Highlight in the contents the last section whose title is above the upper quarter of the window. */
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

  // ---- browsers of terms and of nodes ----

  /**
   * Show a list, and a panel about the chosen item: beside the list, or below the item on small screens.
   * `filters(restart)` returns controls that call `restart` after a change; `matching()` returns the items.
   */
  function browser(home, { name, filters, text, matching, status, line, panel }) {
    const FIRST = 12;
    let chosen = null, words = "", all = false;
    const list = make("ul", { class: "rows", "aria-label": `${name}s` });
    const summary = make("p", { class: "where", role: "status", id: `${name}-status` });
    const more = make("button", { type: "button", onclick: () => { all = true; show(); } });
    const region = { role: "region", "aria-label": `About the ${name}`, tabindex: "0" }; // The keyboard scrolls it.
    const box = make("div", { class: "panel", "aria-live": "polite", id: `${name}-panel`, ...region });
    const beside = make("div", { class: "beside" });
    const restart = () => { all = false; chosen = null; show(); };

    function choose(item) {
      chosen = item;
      show();
      list.querySelector("li.chosen button").focus({ preventScroll: true });
    }

    function show() {
      const found = matching().filter((item) => text(item).toLowerCase().includes(words));
      const shown = all ? found : found.slice(0, FIRST);
      if (!shown.includes(chosen)) chosen = shown[0] ?? null;
      list.replaceChildren(...shown.map((item) => {
        const expanded = { "aria-expanded": String(item === chosen), "aria-controls": box.id };
        const button = make("button", { type: "button", ...expanded, onclick: () => choose(item) }, ...line(item));
        return make("li", { class: item === chosen ? "chosen" : null }, button);
      }));
      more.hidden = shown.length === found.length;
      more.textContent = `Show all ${found.length}`;
      summary.textContent = status(found);
      box.replaceChildren(...(chosen ? panel(chosen) : [make("p", {}, `No ${name} matches.`)]));
      const row = list.querySelector("li.chosen");
      if (WIDE.matches || !row) beside.append(box);
      else row.after(make("li", {}, box));
    }

    const search = (event) => { words = event.target.value.trim().toLowerCase(); restart(); };
    const label = name === "term" ? "Find a column" : "Find a node";
    const input = make("input", { type: "search", "aria-label": label, autocomplete: "off", spellcheck: "false", oninput: search });
    const controls = { class: "controls", role: "search", "aria-label": `${name}s` };
    home.append(make("div", controls, make("label", { class: "wide" }, label + " ", input), ...filters(restart)), summary);
    home.append(make("div", { class: "two" }, make("div", {}, list, more), beside));
    WIDE.addEventListener("change", show);
    show();
  }

  function unitOf(output) {
    const { unit, outputs, against } = data.terms;
    if (unit === "log-odds") return `log-odds of ${outputs[output]} against ${against}`;
    return unit === "margin" ? `score of ${outputs[output]} against the others` : unit;
  }

  /** Say which class a plus and a minus are for, and what points are. */
  function signsOf(output) {
    const { unit, outputs, against } = data.terms;
    const points = "Points of a term (point at a bar): percentage points";
    if (!against) return `+ is for more ${unit}, \u2212 for less. ${data.nodes.share ? `${points} of ${unit}.` : ""}`;
    return `+ is for ${outputs[output]}, \u2212 for ${against}. ${points} that the probability of ${outputs[output]} would lose without it.`;
  }

  function nameOf(item) {
    const parts = item.columns.flatMap((column, at) => [at ? " \u00d7 " : "", make("b", {}, column)]);
    return [...parts, " ", make("span", { class: `scope ${item.scope}` }, SCOPES[item.scope])];
  }

  function termBrowser(home) {
    const { items, outputs, count } = data.terms;
    const sizes = [...new Set(items.map((item) => item.columns.length))].sort();
    const sizeNames = { 1: "single columns", 2: "pairs", 3: "triples" };
    let output = 0, size = 0, scope = 0, most = 1;
    const importance = (item) => measured(item.importance) + plusMinus(item.error);
    browser(home, {
      name: "term",
      text: (item) => item.columns.join(" \u00d7 "),
      filters: (restart) => [
        outputs.length > 1 ? select("Score of", outputs, (at) => { output = at; restart(); }) : null,
        select("Kind", ["all", ...sizes.map((each) => sizeNames[each] ?? `${each} columns`)], (at) => { size = at ? sizes[at - 1] : 0; restart(); }),
        select("Scope", ["all", "own columns only", "with the neighbourhood"], (at) => { scope = at; restart(); }),
      ],
      matching() {
        const listed = items.filter((item) => item.output === output);
        most = d3.max(listed, (item) => item.importance + (item.error ?? 0)) || 1;
        return listed
          .filter((item) => !size || item.columns.length === size)
          .filter((item) => !scope || (scope === 1) === (item.scope === "own"))
          .sort((one, other) => other.importance - one.importance);
      },
      status(found) {
        const inFile = items.length < count ? ` (${whole(items.length)} of the model's ${whole(count)} terms are in this file)` : "";
        return `${counted(found.length, "term")}${inFile}. Importance in ${unitOf(output)}.`;
      },
      line(item) {
        const value = item.importance, error = item.error ?? 0;
        const part = (share) => `${(100 * share) / most}%`;
        const bar = make("i", { class: "share", style: `width:${part(value)}` });
        const spread = make("i", { class: "error", style: `left:${part(value - error)};width:${part(2 * error)}` });
        return [
          make("span", { class: "name" }, ...nameOf(item)),
          make("span", { class: "amount" }, importance(item)),
          make("span", { class: "track" }, bar, spread),
        ];
      },
      panel: (item) => [
        make("h3", {}, ...nameOf(item)),
        where(`Importance ${importance(item)} (${unitOf(output)}).`),
        ...insideOf(item, unitOf(output)),
      ],
    });
  }

  /** Draw a term by value: a curve, bars, a heat map, or a heat map for each value of a third column. */
  function insideOf(item, unit) {
    if (!item.axes) {
      if (data.terms.reason) return [];
      return [make("p", {}, "This file does not have the contributions of this term by value.")];
    }
    const { axes, counts, means, errors } = item;
    const notes = axes.filter((each) => each.left_out).map((each) => `Left out: ${counted(each.left_out, "value")} of ${each.name} that matter less.`);
    if (axes.some((each) => each.share)) notes.push("A value of neighbours stands for the nodes with a large share of it among their neighbours (upper quarter).");
    const note = notes.length ? [where(notes.join(" "))] : [];
    const [first, second, third] = axes;
    const deep = third ? third.labels.length : 1, across = second ? second.labels.length : 1;
    const cells = means.map((value, at) => {
      const [row, column, layer] = [Math.floor(at / deep / across), Math.floor(at / deep) % across, at % deep];
      const names = [row, column, layer].slice(0, axes.length).map((place, axis) => axes[axis].labels[place]);
      return { row, column, layer, names, value, error: errors?.[at] ?? 0, nodes: counts[at], at: first.at?.[row] };
    }).filter((cell) => cell.nodes);
    const title = (d) => `${d.names.map((each, at) => `${axes[at].name}: ${each}\n`).join("")}adds ${signed(d.value)}${plusMinus(2 * d.error)}\n${counted(d.nodes, "node")}`;
    const numbers = table("The numbers", [...axes.map((each) => each.name), "nodes", "adds", ...(errors ? ["standard error"] : [])],
      cells.map((cell) => [...cell.names, whole(cell.nodes), signed(cell.value), ...(errors ? [number(cell.error, 2)] : [])]));
    if (!second && first.at) {
      const words = "Mean contribution by value. The band is two standard errors; the bars below are numbers of nodes.";
      return [chart((width) => drawShape(width, first, cells, item.histogram, unit, title)), where(words), ...note, numbers];
    }
    if (!second) {
      const bars = cells.map((cell) => ({ name: cell.names[0], from: 0, to: cell.value, error: cell.error, text: signed(cell.value), note: whole(cell.nodes), title: title(cell) }));
      const words = "Mean contribution of the nodes with each value, with two standard errors and the number of nodes.";
      return [chart((width) => barsChart(width, `Contribution by ${first.name}`, bars, `adds (${unit})`, { right: 52 })), where(words), ...note, numbers];
    }
    const most = d3.max(means, Math.abs) || 1;
    const maps = d3.range(deep).map((layer) => {
      const words = third ? `${third.name}: ${third.labels[layer]}` : `${first.name} by ${second.name}`;
      const options = { text: (d) => signed(d.value, 2), title, xLabel: second.name, yLabel: first.name, upwards: Boolean(first.at) };
      const here = cells.filter((cell) => cell.layer === layer);
      const map = chart((width) => heatMap(width, `Mean contribution, ${words}`, first.labels, second.labels, here, most, options));
      return third ? make("div", {}, make("h4", {}, words), map) : map;
    });
    return [
      make("div", third ? { class: "multiples" } : {}, ...maps),
      make("p", { class: "scale" }, number(-most), make("i", { "aria-hidden": "true" }), `+${number(most)} ${unit}`),
      where(`Mean contribution beyond what ${third ? "the columns and their pairs" : "each column does"} alone; empty cells have no nodes.`),
      ...note, numbers,
    ];
  }

  function drawShape(width, column, cells, histogram, unit, title) {
    const known = cells.filter((cell) => cell.at !== undefined), missing = cells.filter((cell) => cell.at === undefined);
    const bars = histogram.counts.map((nodes, at) => ({ nodes, from: histogram.edges[at], to: histogram.edges[at + 1] }));
    const frame = { width, marginLeft: 52, marginRight: 14 };
    const x = { domain: d3.extent([...histogram.edges, ...known.map((cell) => cell.at)]), ticks: ticksOf(width), tickFormat: tick };
    const words = `Contribution by ${column.name}: ${known.map((cell) => `${number(cell.at)}: ${signed(cell.value)}`).join(", ")}`;
    const above = plot(width, words, {
      ...frame, height: 250, marginTop: 26, marginBottom: 6, x: { ...x, axis: null }, y: { grid: true, ticks: 5, ...axis(width, `adds (${unit})`) },
      marks: [
        Plot.ruleY([0], { stroke: SOFT }),
        Plot.areaY(known, { x: "at", y1: (d) => d.value - 2 * d.error, y2: (d) => d.value + 2 * d.error, fill: PLUS, fillOpacity: 0.2 }),
        Plot.line(known, { x: "at", y: "value", stroke: PLUS, strokeWidth: 2 }),
        Plot.dot(known, { x: "at", y: "value", r: 2.5, fill: PLUS, tip: true, title }),
        Plot.ruleY(missing, { y: "value", stroke: MINUS, strokeDasharray: "4 3" }),
        Plot.text(missing, { y: "value", frameAnchor: "right", text: () => "missing", fill: MINUS, dy: 9, textAnchor: "end" }),
      ],
    });
    const below = plot(width, `Histogram of ${column.name}`, {
      ...frame, height: 92, marginTop: 6, marginBottom: 36, x: { ...x, ...axis(width, column.name), labelAnchor: "center" },
      y: { label: null, ticks: 2, tickFormat: whole },
      marks: [Plot.rectY(bars, { x1: "from", x2: "to", y: "nodes", fill: SOFT, fillOpacity: 0.6, insetRight: 1 })],
    });
    return [above, below];
  }

  function nodeBrowser(home) {
    let label = -1, mistakes = false;
    const isWrong = (row) => !isNumber && row.true !== null && row.true !== row.predicted;
    const tickBox = (restart) => make("input", { type: "checkbox", onchange: (event) => { mistakes = event.target.checked; restart(); } });
    browser(home, {
      name: "node",
      text: (row) => row.id,
      filters: (restart) => isNumber ? [] : [
        select("True or predicted class", ["all", ...data.classes], (at) => { label = at - 1; restart(); }),
        make("label", { class: "tick" }, tickBox(restart), " only mistakes"),
      ],
      matching: () => data.nodes.rows
        .filter((row) => !mistakes || isWrong(row))
        .filter((row) => label < 0 || row.true === label || row.predicted === label),
      status: (found) => `${whole(found.length)} matching ${found.length === 1 ? "node" : "nodes"}`,
      line: (row) => [
        make("span", { class: "name" }, make("b", {}, row.id)),
        make("span", { class: "amount" }, isNumber ? number(row.predicted) : percent(row.probability)),
        make("small", {}, make("span", { class: isWrong(row) ? "wrong" : null }, `predicted ${named(row.predicted)}`),
          `, true ${named(row.true)}, ${counted(row.degree, "neighbour")}`),
      ],
      panel: aboutNode,
    });
  }

  function aboutNode(row) {
    const truth = row.true === null ? "" : ` True: ${named(row.true)}.`;
    const sure = isNumber ? "" : ` (${percent(row.probability)})`;
    const head = [make("h3", {}, row.id), make("p", {}, `Predicted: ${named(row.predicted)}${sure}.${truth} Used for: ${row.role}.`)];
    if (!row.steps) return head;
    const unit = unitOf(row.output);
    return [
      ...head,
      make("h4", {}, `From the average to this ${isNumber ? "prediction" : "score"}`),
      where(signsOf(row.output)),
      mount(make("div", { class: "chart waterfall" }), (width) => drawWaterfall(width, row, unit)),
      ...(isNumber ? [] : changesOf(row)),
      make("h4", {}, `Its neighbourhood: ${counted(row.degree, "neighbour")}`),
      ...neighboursOf(row, unit),
    ];
  }

  function drawWaterfall(width, row, unit) {
    const level = (name, value) => ({ name, from: 0, to: value, text: measured(value), title: `${name}\n${measured(value)}`, colour: SOFT });
    const bars = [level("the average", row.start)];
    let at = row.start;
    const add = (name, value, words = "") => {
      bars.push({ name, from: at, to: at + value, text: signed(value), title: `${name}\n${signed(value)}${words}` });
      at += value;
    };
    for (const [name, scope, value, shown, points] of row.steps) {
      add(shown ? `${name} (${shown})` : name, value, `\n${SCOPES[scope]}${points === null ? "" : `\n${signed(points)} points`}`);
    }
    add("everything else", row.score - at);
    return barsChart(width, "Waterfall", [...bars, level("the score", row.score)], unit, { steps: true });
  }

  /** List the smallest changes of own columns that change the model's answer. */
  function changesOf(row) {
    const lines = row.changes.map(({ outcome, column, before, after }) =>
      make("li", {}, make("b", {}, outcome), " if ", make("b", {}, column), ` were ${after} instead of ${before}`));
    const none = "No change of one own column to a value that occurs with its other ones changes the answer, with the neighbourhood unchanged.";
    const words = "The smallest changes of one own column to a value that occurs with its other ones, with the neighbourhood unchanged. They change the model's answer; they need not cause the outcome.";
    const title = make("h4", {}, "What would have to be different for another answer");
    return lines.length ? [title, make("ul", { class: "changes" }, ...lines), where(words)] : [title, where(none)];
  }

  function neighboursOf(row, unit) {
    if (!row.near.length) return [where("No neighbour adds to this score.")];
    const several = data.relations.length > 1;
    const colourOf = (relation) => (several ? OF_RELATIONS[data.relations.indexOf(relation) % OF_RELATIONS.length] : undefined);
    const bars = row.near.map(([id, label, value, relation]) => ({
      name: `${id}: ${named(label)}`, from: 0, to: value, text: signed(value), colour: colourOf(relation),
      title: `${id}${several ? `\n${relation}` : ""}\n${data.target}: ${named(label)}\nadds ${signed(value)}`,
    }));
    const legend = data.relations.flatMap((name) => [make("span", { class: "legend", style: `background:${colourOf(name)}` }), ` ${name} `]);
    const words = `Neighbours with their ${data.target}, the largest contributions first. ${data.nodes.meaning}`;
    const drawn = chart((width) => barsChart(width, `What neighbours of ${row.id} add`, bars, unit));
    return [...(several ? [make("p", { class: "where" }, ...legend)] : []), drawn, where(words)];
  }

  // ---- performance and training ----

  const share = { tickFormat: tickPercent, domain: [0, 1], grid: true, ticks: 5 };
  const dashed = { stroke: SOFT, strokeDasharray: "4 4" };
  const tickMetric = data.metrics[0].percent ? tickPercent : tick;

  /** The layout of a chart of two numbers, about square. */
  const square = (width, x, y) => ({
    height: Math.min(400, 0.87 * width), marginLeft: 56, marginBottom: 42, marginTop: 26, r: { range: [2, 12] },
    x: { grid: true, ticks: ticksOf(width), tickFormat: tick, labelArrow: "none", labelAnchor: "center", ...x },
    y: { grid: true, ticks: 6, tickFormat: tick, labelArrow: "none", ...y },
  });

  function trainingChart(width, label, metrics, tickFormat) {
    const lines = metrics.flatMap(([name, colour]) => data.training.flatMap((run) => run[name].map((value, at) => (
      { epoch: run.epoch[at], value, run: `${name} ${run.split}`, colour, shown: run.split === data.shown_split, chosen: run.epoch[at] === run.chosen }))));
    const place = { x: "epoch", y: "value" };
    const draw = (shown, look) => Plot.line(lines.filter((d) => d.shown === shown), { ...place, z: "run", stroke: "colour", ...look });
    return plot(width, `${label} over the epochs`, {
      height: 280, marginLeft: 54, marginBottom: 40, marginTop: 26, r: { type: "identity" },
      x: { label: "epoch", labelArrow: "none", labelAnchor: "center", ticks: ticksOf(width) },
      y: { label, labelArrow: "none", grid: true, tickFormat, ticks: 5 },
      marks: [
        draw(false, { strokeWidth: 1, strokeOpacity: 0.35 }), draw(true, { strokeWidth: 2 }),
        Plot.dot(lines.filter((d) => d.chosen), { ...place, r: (d) => (d.shown ? 5 : 3), fill: INK, fillOpacity: (d) => (d.shown ? 1 : 0.5) }),
      ],
    });
  }

  const charts = {
    /** The validation score against the number of columns, on a logarithmic axis. */
    path(width) {
      const label = `validation ${data.metrics[0].label}`;
      const tried = data.path.flatMap((run, split) => run.tried.map(([columns, value]) => ({ columns, value, split })));
      const complete = d3.groups(tried, (d) => d.columns).filter(([, group]) => group.length === data.path.length);
      const means = complete.map(([columns, group]) => ({ columns, value: d3.mean(group, (d) => d.value) }));
      const chosen = tried.filter((d) => d.columns === data.path[d.split].chosen);
      const place = { x: (d) => Math.log2(d.columns), y: "value" };
      const sizes = [...new Set(tried.map((d) => d.columns))];
      const words = means.map((d) => `${counted(d.columns, "column")} ${tickMetric(d.value)}`).join(", ");
      return plot(width, `${label}, mean over splits: ${words}; chosen: ${data.path.map((run) => run.chosen).join(", ")}`, {
        height: 280, marginLeft: 54, marginBottom: 40, marginTop: 26,
        x: { label: "columns", labelArrow: "none", labelAnchor: "center", ticks: sizes.map(Math.log2), tickFormat: (at) => whole(Math.round(2 ** at)) },
        y: { label, labelArrow: "none", grid: true, tickFormat: tickMetric, ticks: 5 },
        marks: [
          Plot.line(tried, { ...place, z: "split", stroke: PLUS, strokeWidth: 1, strokeOpacity: 0.35 }),
          Plot.line(means, { ...place, stroke: PLUS, strokeWidth: 2 }),
          Plot.dot(chosen, { ...place, r: 3, fill: INK, fillOpacity: 0.5, tip: true, title: (d) => `${counted(d.columns, "column")}\n${tickMetric(d.value)}` }),
        ],
      });
    },
    metrics(width) {
      const shares = data.metrics.filter((metric) => metric.percent), others = data.metrics.filter((metric) => !metric.percent);
      const rows = shares.map((metric) => ({ ...metric, name: `${metric.label} ${metric.text}`, colour: metric === data.metrics[0] ? PLUS : SOFT }));
      const words = `Test metrics: ${rows.map((row) => row.name).join(", ")}`;
      const numbers = others.map((metric) => make("span", {}, make("b", {}, metric.text), ` ${metric.label}`));
      const line = make("p", { class: "numbers-line" }, ...numbers);
      return rows.length ? [dotsChart(width, words, rows, { tickFormat: tickPercent, label: null, domain: [0, 1] }), line] : line;
    },
    calibration(width) {
      const bins = data.performance.calibration;
      const words = bins.map((bin) => `${percent(bin.confidence, 0)} sure, ${percent(bin.correct, 0)} right`).join("; ");
      const title = (d) => `${percent(d.confidence)} sure\n${percent(d.correct)} right\n${counted(d.nodes, "prediction")}`;
      return plot(width, `Calibration: ${words}`, {
        ...square(width, { ...share, label: "confidence" }, { ...share, label: "share that is right" }),
        marks: [
          Plot.line([[0, 0], [1, 1]], dashed),
          Plot.ruleX(bins, { x: "confidence", y1: "confidence", y2: "correct", stroke: MINUS }),
          Plot.dot(bins, { x: "confidence", y: "correct", r: "nodes", fill: PLUS, tip: true, title }),
        ],
      });
    },
    confusion(width) {
      const names = data.classes;
      const cells = data.performance.confusion.flatMap((row, at) => row.map((value, column) => (
        { row: at, column, value, shade: value / d3.sum(row), colour: at === column ? PLUS : MINUS }))).filter((cell) => cell.value);
      const title = (d) => `true: ${names[d.row]}\npredicted: ${names[d.column]}\n${counted(d.value, "node")}, ${percent(d.shade)} of the row`;
      const options = { text: (d) => whole(d.value), title, xLabel: "predicted", yLabel: "true", square: names.length < 8 };
      return heatMap(Math.max(width, 130 + 17 * names.length), `Confusion matrix of ${names.length} classes`, names, names, cells, 1, options);
    },
    by_degree(width) {
      const { measure: label, by_degree: parts } = data.performance;
      const rows = parts.map((part) => ({ name: `${part.name} (${whole(part.nodes)})`, values: part.values }));
      const means = parts.map((part) => `${part.name}: ${number(d3.mean(part.values))}`).join(", ");
      return dotsChart(width, `${label} by number of neighbours: ${means}`, rows, { label, labelArrow: "none", tickFormat: isNumber ? tick : tickPercent });
    },
    predicted(width) {
      const { points } = data.performance;
      const [least, most] = d3.extent(points.flat());
      return plot(width, `Predicted against true ${data.target}, ${points.length} test nodes`, {
        ...square(width, { label: "true" }, { label: "predicted" }),
        marks: [Plot.line([[least, least], [most, most]], dashed), Plot.dot(points, { r: 2, fill: PLUS, fillOpacity: 0.45 })],
      });
    },
    comparison(width) {
      const { models, percent: isShare, metric } = data.comparison;
      const rows = models.map((model) => ({ ...model, colour: model.glass_box ? PLUS : SOFT }));
      const words = models.map((model) => `${model.name} ${model.text}`).join(", ");
      return dotsChart(width, `Test ${metric} of ${models.length} models: ${words}`, rows, { label: `test ${metric}`, labelArrow: "none", tickFormat: isShare ? tickPercent : tick });
    },
    loss: (width) => trainingChart(width, "loss", [["train_loss", PLUS], ["validation_loss", MINUS]], tick),
    score: (width) => trainingChart(width, `validation ${data.metrics[0].label}`, [["validation_score", PLUS]], tickMetric),
  };

  followReader();
  if (find("term-browser")) termBrowser(find("term-browser"));
  if (find("node-browser")) nodeBrowser(find("node-browser"));
  for (const element of document.querySelectorAll("[data-chart]")) {
    mount(element, charts[element.dataset.chart]).classList.add("chart");
  }
})();
