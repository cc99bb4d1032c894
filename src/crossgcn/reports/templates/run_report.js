"use strict";
(() => {
  const data = JSON.parse(document.getElementById("node-data").textContent);
  const [ID, TRUE, PREDICTED, PROBABILITY, ROLE, START, TOTAL, STEPS] = [0, 1, 2, 3, 4, 5, 6, 7];
  const PAGE = 15;
  const table = document.getElementById("node-table");
  const body = table.tBodies[0];
  const status = document.getElementById("node-status");
  const search = document.getElementById("node-search");
  const choice = document.getElementById("node-class");
  const mistakes = document.getElementById("node-mistakes");
  const back = document.getElementById("node-back");
  const forth = document.getElementById("node-forth");
  const collator = new Intl.Collator("en", { numeric: true });
  const buttons = new Map();
  const state = { page: 0, sort: null, descending: false, open: null };

  const named = (position) => (position < 0 ? "unknown" : data.classes[position]);
  const percent = (share) => (100 * share).toFixed(1) + "\u00a0%";
  const signed = (value) => {
    const text = Math.abs(value).toFixed(3);
    return Number(text) === 0 ? text : (value < 0 ? "\u2212" : "+") + text;
  };
  const wrong = (node) => node[TRUE] >= 0 && node[TRUE] !== node[PREDICTED];

  function make(tag, text, className) {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  }

  function clamp(tag, text) {
    const element = make(tag);
    const inside = make("span", text, "clamp");
    inside.title = text;
    element.append(inside);
    return element;
  }

  function draw(tag, attributes) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  }

  const sortKeys = {
    id: (node) => node[ID],
    true: (node) => named(node[TRUE]),
    predicted: (node) => named(node[PREDICTED]),
    probability: (node) => node[PROBABILITY],
    role: (node) => data.roles[node[ROLE]],
  };

  function matching() {
    const wanted = search.value.trim().toLowerCase();
    const position = choice.value === "" ? null : Number(choice.value);
    const found = data.nodes.filter(
      (node) =>
        (!mistakes.checked || wrong(node)) &&
        (position === null || node[TRUE] === position || node[PREDICTED] === position) &&
        node[ID].toLowerCase().includes(wanted),
    );
    if (state.sort !== null) {
      const key = sortKeys[state.sort];
      const turn = state.descending ? -1 : 1;
      found.sort((one, other) => {
        const [a, b] = [key(one), key(other)];
        return turn * (typeof a === "number" ? a - b : collator.compare(a, b));
      });
    }
    if (wanted !== "") {
      const exactly = (node) => (node[ID].toLowerCase() === wanted ? 0 : 1);
      found.sort((one, other) => exactly(one) - exactly(other));
    }
    return found;
  }

  function waterfallRows(node) {
    const rows = [];
    let level = node[START];
    rows.push({ label: data.start, from: 0, to: level, kind: "level", value: level });
    const add = (label, value, kind) => {
      rows.push({ label, from: level, to: level + value, kind, value });
      level += value;
    };
    for (let i = 0; i < node[STEPS].length; i += 2) {
      const value = node[STEPS][i + 1];
      add(data.labels[node[STEPS][i]], value, value < 0 ? "minus" : "plus");
    }
    add("everything else", node[TOTAL] - level, node[TOTAL] < level ? "minus" : "plus");
    rows.push({ label: "sum: the score", from: 0, to: node[TOTAL], kind: "level", value: node[TOTAL] });
    return rows;
  }

  function drawWaterfall(node) {
    const rows = waterfallRows(node);
    const ends = rows.flatMap((row) => [row.from, row.to]);
    const low = Math.min(...ends);
    const span = Math.max(...ends) - low || 1;
    const place = (value) => 1 + (98 * (value - low)) / span;
    const panel = make("div", undefined, "waterfall");
    const truth = node[TRUE] < 0 ? "" : ` Its true class is ${named(node[TRUE])}.`;
    panel.append(
      make(
        "p",
        `Predicted class: ${named(node[PREDICTED])}, probability ${percent(node[PROBABILITY])}.${truth} ` +
          "The bars are what features of the node and its neighbours add to the score of the predicted class.",
      ),
    );
    const list = make("table", undefined, "steps");
    const lines = list.createTBody();
    rows.forEach((row, index) => {
      const line = lines.insertRow();
      line.className = row.kind;
      const head = clamp("th", row.label);
      head.scope = "row";
      const cell = make("td", undefined, "track");
      const picture = draw("svg", { "aria-hidden": "true" });
      const [left, right] = [place(Math.min(row.from, row.to)), place(Math.max(row.from, row.to))];
      const zero = place(Math.min(Math.max(0, low), low + span));
      picture.append(
        draw("line", { x1: `${zero}%`, x2: `${zero}%`, y1: "0", y2: "100%", class: "zero" }),
        draw("rect", { x: `${left}%`, width: `${right - left}%`, y: "22%", height: "56%" }),
      );
      const enter = `${place(row.from)}%`;
      const leave = `${place(row.to)}%`;
      if (index > 0 && index < rows.length - 1) {
        picture.append(draw("line", { x1: enter, x2: enter, y1: "0", y2: "22%", class: "link" }));
      }
      if (index === rows.length - 1) {
        picture.append(draw("line", { x1: leave, x2: leave, y1: "0", y2: "22%", class: "link" }));
      } else {
        picture.append(draw("line", { x1: leave, x2: leave, y1: "78%", y2: "100%", class: "link" }));
      }
      cell.append(picture);
      const amount = make("td", row.kind === "level" ? signed(row.value).replace("+", "") : signed(row.value));
      amount.dataset.value = row.value;
      line.append(head, cell, amount);
    });
    panel.append(list);
    return panel;
  }

  function addRow(node) {
    const isOpen = state.open === node;
    const line = body.insertRow();
    line.className = wrong(node) ? "wrong" : "";
    const head = make("th");
    head.scope = "row";
    const button = make("button", node[ID]);
    button.type = "button";
    button.title = node[ID];
    button.setAttribute("aria-expanded", String(isOpen));
    buttons.set(node, button);
    head.append(button);
    line.append(
      head,
      clamp("td", named(node[TRUE])),
      clamp("td", named(node[PREDICTED])),
      make("td", percent(node[PROBABILITY])),
      make("td", data.roles[node[ROLE]]),
    );
    line.addEventListener("click", () => {
      state.open = isOpen ? null : node;
      show();
      buttons.get(node).focus({ preventScroll: true });
    });
    if (isOpen) {
      const below = body.insertRow();
      below.className = "opened";
      const cell = below.insertCell();
      cell.colSpan = 5;
      cell.append(drawWaterfall(node));
    }
  }

  function show() {
    const found = matching();
    const last = Math.max(0, Math.ceil(found.length / PAGE) - 1);
    state.page = Math.min(state.page, last);
    const first = state.page * PAGE;
    const page = found.slice(first, first + PAGE);
    body.replaceChildren();
    buttons.clear();
    page.forEach(addRow);
    back.disabled = state.page === 0;
    forth.disabled = state.page === last;
    const range = page.length ? `${first + 1}\u2013${first + page.length} of ` : "";
    const count = found.length.toLocaleString("en");
    status.textContent = `${range}${count} matching ${found.length === 1 ? "node" : "nodes"}`;
    for (const head of table.tHead.rows[0].cells) {
      const sorted = head.dataset.sort === state.sort;
      head.setAttribute("aria-sort", !sorted ? "none" : state.descending ? "descending" : "ascending");
    }
  }

  function restart() {
    state.page = 0;
    show();
  }

  data.classes.forEach((name, position) => {
    const option = make("option", name);
    option.value = position;
    choice.append(option);
  });
  for (const head of table.tHead.rows[0].cells) {
    head.querySelector("button").addEventListener("click", () => {
      state.descending = state.sort === head.dataset.sort && !state.descending;
      state.sort = head.dataset.sort;
      restart();
    });
  }
  search.addEventListener("input", restart);
  choice.addEventListener("change", restart);
  mistakes.addEventListener("change", restart);
  back.addEventListener("click", () => { state.page -= 1; show(); });
  forth.addEventListener("click", () => { state.page += 1; show(); });
  document.getElementById("node-finder").hidden = false;
  show();
})();
