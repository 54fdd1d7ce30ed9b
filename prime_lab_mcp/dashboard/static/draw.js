// Draws the view of the address. Each view gives a title, its content and how often to look again.

import { h } from "./dom.js";
import * as environments from "./environments.js";
import * as evaluations from "./evaluations.js";
import * as rollouts from "./rollouts.js";
import * as runs from "./runs.js";
import { address, announce, Failed } from "./shell.js";
import * as spend from "./spend.js";

const ROUTES = [
  [/^environments$/, environments.list],
  [/^environments\/([^/]+)$/, environments.one],
  [/^evaluations$/, evaluations.list],
  [/^evaluations\/([^/]+)$/, evaluations.one],
  [/^evaluations\/([^/]+)\/rollouts\/(\d+)$/, rollouts.one],
  [/^evaluations\/([^/]+)\/tasks\/(\d+)$/, rollouts.task],
  [/^evaluations\/([^/]+)\/compare\/([^/]+)$/, evaluations.compare],
  [/^runs$/, runs.list],
  [/^runs\/([^/]+)$/, runs.one],
  [/^spend$/, spend.all],
];

/*
 * What the shell decides: `views`, routes of its own; `failed(error)`, a view for an error or null; `gone`, what to do when
 * nothing answers; `drawn()`, called after each drawing; `slowest`, the longest time in seconds after which a view looks again by itself.
 */
let options = { gone: "" };

export function configure(given) {
  options = given;
}

let drawn = 0, timer = 0;

/** Draw the view of the address. `keep`: the same view again, with what the reader opened; `focus`: the heading gets the focus. */
export async function draw({ keep = false, focus = false } = {}) {
  const turn = ++drawn;
  clearTimeout(timer);
  const main = document.getElementById("main");
  const { path, query } = address();
  const [route, words] = match(path);
  for (const link of document.querySelectorAll("nav a")) {
    if (path.startsWith(link.getAttribute("href").slice(2))) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (!keep) {
    main.setAttribute("aria-busy", "true");
    setTimeout(() => turn === drawn && main.hasAttribute("aria-busy") && announce("Loading"), 800);
  }
  let view;
  try {
    if (!route) throw new Failed(404, { error: "There is no such view." });
    view = await route(...words, query);
  } catch (error) {
    view = options.failed?.(error) ?? failure(error, keep);
  }
  if (turn !== drawn) return;
  main.removeAttribute("aria-busy");
  // The address belongs to it: another order of the same rows changes the table's head only.
  const data = JSON.stringify([String(query), view.data ?? null]);
  if (!(keep && view.data && main.dataset.data === data)) {
    const focused = keep ? document.activeElement?.id : null;
    const opened = keep ? [...main.querySelectorAll("details[open]")].map((one) => one.id) : [];
    const left = keep ? [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft) : [];
    main.replaceChildren(h("header", { class: "title" }, view.trail && h("nav", { class: "trail", "aria-label": "Path" }, view.trail), h("h1", { tabindex: "-1" }, view.title), view.aside), ...view.content);
    main.dataset.data = data;
    for (const id of opened) if (id) document.getElementById(id)?.setAttribute("open", "");
    [...main.querySelectorAll(".scroll")].forEach((one, at) => { one.scrollLeft = left[at] ?? 0; });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
  document.title = `${view.name ?? (typeof view.title === "string" ? view.title : "prime-lab")} · prime-lab`;
  if (!keep) {
    window.scrollTo(0, 0);
    if (focus) main.querySelector("h1")?.focus({ preventScroll: true });
  }
  options.drawn?.();
  if (view.refresh && view.refresh <= (options.slowest ?? Infinity)) timer = setTimeout(() => (document.hidden ? wake() : draw({ keep: true })), view.refresh * 1000);
}

function wake() {
  document.addEventListener("visibilitychange", () => draw({ keep: true }), { once: true });
}

function match(path) {
  for (const [pattern, view] of [...(options.views ?? []), ...ROUTES]) {
    const words = pattern.exec(path);
    if (words) return [view, words.slice(1).map(decodeURIComponent)];
  }
  return [null, []];
}

function failure(error, keep) {
  announce(error.message);
  const gone = error.status === undefined;
  return {
    title: gone ? "The server does not answer" : error.status === 404 ? "Not found" : "This could not be shown",
    content: [h("p", { class: "lead" }, gone ? options.gone : error.message), error.fix && h("p", {}, error.fix)].filter(Boolean),
    refresh: gone || keep ? 10 : error.status >= 500 ? 20 : null,
  };
}
