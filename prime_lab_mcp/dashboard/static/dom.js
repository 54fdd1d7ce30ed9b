// Builds elements. Text reaches the document only as text nodes, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

/** An element: attributes by name, `on...` listeners by function, children as nodes or text. */
export function h(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (key === "vars") for (const [name, v] of Object.entries(value)) element.style.setProperty(name, v);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const number = (value, digits = 0) =>
  value === null || value === undefined ? "–" : Number(value).toLocaleString("en", { maximumFractionDigits: digits, minimumFractionDigits: digits });

export const percent = (value, digits = 0) => (value === null || value === undefined ? "–" : `${number(100 * value, digits)} %`);

/** Dollars: cents from one dollar on, hundredths of a cent below. */
export const dollars = (value) =>
  value === null || value === undefined ? "–" : `$${number(value, value >= 1 || value === 0 ? 2 : 4)}`;

const RELATIVE = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

/** A time as an element: how long ago, with the exact time behind it. */
export function ago(seconds) {
  if (!seconds) return "–";
  const date = new Date(seconds * 1000);
  const past = (Date.now() - date.getTime()) / 1000;
  const [size, unit] = past < 3600 ? [60, "minute"] : past < 86400 ? [3600, "hour"] : [86400, "day"];
  const text = past < 60 ? "just now" : RELATIVE.format(-Math.floor(past / size), unit);
  return h("time", { datetime: date.toISOString(), title: date.toLocaleString() }, text);
}

const STATES = {
  proven: ["good", "✓"], passed: ["good", "✓"], open: ["good", "✓"], finished: ["good", "✓"], COMPLETED: ["good", "✓"],
  failed: ["bad", "✕"], crashed: ["bad", "✕"], FAILED: ["bad", "✕"], blocker: ["bad", "✕"], error: ["bad", "✕"],
  stale: ["warn", "↻"], inconclusive: ["warn", "?"], warning: ["warn", "!"], stopped: ["warn", "■"], STOPPED: ["warn", "■"],
  rehearsal: ["warn", "~"], model: ["warn", "?"], PAUSED: ["warn", "‖"],
  running: ["live", "●"], starting: ["live", "●"], RUNNING: ["live", "●"], QUEUED: ["live", "○"], PENDING: ["live", "○"],
};

/** A state as a word with a colour and a sign, so that colour alone never says it. */
export function badge(state, text = state) {
  const [tone, sign] = STATES[state] ?? ["plain", "–"];
  return h("span", { class: `badge ${tone}` }, h("span", { class: "sign", "aria-hidden": "true" }, sign), String(text).toLowerCase().replaceAll("-", " "));
}

export const tone = (state) => (STATES[state] ?? ["plain", "–"])[0];
export const sign = (state) => (STATES[state] ?? ["plain", "–"])[1];

const MANY = 5;

/*
 * A table in a region that scrolls by keyboard. Columns: {label, cell(row), numeric, sort, wide, tight}. The rows of a table
 * with many columns become cards on a phone; the roles keep it a table for screen readers where its boxes are no longer those
 * of one.
 */
export function table(caption, columns, rows, { sorted = null, onsort = null, empty = "Nothing yet." } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, empty);
  const heads = columns.map((column) => {
    const key = column.sort;
    if (!key || !onsort) return h("th", { role: "columnheader", scope: "col", class: column.numeric && "num" }, column.label);
    const [name, down] = sorted ? [sorted.replace(/^-/, ""), sorted.startsWith("-")] : [null, false];
    const state = name === key ? (down ? "descending" : "ascending") : "none";
    const next = name === key && !down ? `-${key}` : key;
    return h("th", { role: "columnheader", scope: "col", class: column.numeric && "num", "aria-sort": state },
      h("button", { type: "button", class: "sort", id: `sort-${key}`, onclick: () => onsort(next) }, column.label,
        h("span", { "aria-hidden": "true" }, state === "none" ? "↕" : down ? "↓" : "↑")));
  });
  const body = rows.map((row) =>
    h("tr", { role: "row" }, columns.map((column, at) => {
      const attributes = { class: [column.numeric && "num", column.wide && "wide", column.tight && "tight"].filter(Boolean).join(" ") || null, "data-label": column.label };
      return at === 0 ? h("th", { role: "rowheader", scope: "row", ...attributes }, column.cell(row)) : h("td", { role: "cell", ...attributes }, column.cell(row));
    })));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table", class: columns.length >= MANY && "stack" }, h("caption", { class: "hidden" }, caption),
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)), h("tbody", { role: "rowgroup" }, body)));
}

const orders = new Map();

/** A table that sorts in the page itself. It keeps the order that the reader chose when it is drawn again. */
export function sortable(caption, columns, rows, options = {}) {
  const holder = h("div", {});
  let sorted = orders.get(caption) ?? options.sorted ?? null;
  const draw = () => {
    const column = sorted && columns.find((c) => c.sort === sorted.replace(/^-/, ""));
    const factor = sorted?.startsWith("-") ? -1 : 1;
    const ordered = column ? [...rows].sort((a, b) => factor * compare(column.value(a), column.value(b))) : rows;
    holder.replaceChildren(table(caption, columns, ordered, { ...options, sorted, onsort: (next) => {
      sorted = next;
      orders.set(caption, next);
      draw();
      holder.querySelector(`#sort-${next.replace(/^-/, "")}`)?.focus();
    } }));
  };
  draw();
  return holder;
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -1 : 1;
}

/** Findings as a list, blockers first as they come. */
export function findings(list, empty = "No findings.") {
  if (!list.length) return h("p", { class: "empty" }, empty);
  return h("ul", { class: "findings" }, list.map((one) =>
    h("li", { class: tone(one.severity) }, h("p", {}, badge(one.severity), " ", h("code", {}, one.code)), h("p", {}, one.message), one.fix && h("p", { class: "fix" }, one.fix))));
}

export const tile = (label, value, note = null) =>
  h("div", { class: "tile" }, h("dt", {}, label), h("dd", {}, value, note && h("small", {}, note)));

export const tiles = (...list) => h("dl", { class: "tiles" }, list.filter(Boolean));

export function section(title, ...children) {
  return h("section", {}, h("h2", {}, title), ...children);
}

export const note = (...text) => h("p", { class: "note" }, ...text);
