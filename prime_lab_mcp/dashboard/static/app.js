// The page: token, requests, routes and refreshing. Each view gives a title, its content and how often to look again.

import { h } from "./dom.js";
import * as environments from "./environments.js";
import * as evaluations from "./evaluations.js";
import * as rollouts from "./rollouts.js";
import * as runs from "./runs.js";
import * as spend from "./spend.js";

const KEY = "prime-lab-token";
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

class Failed extends Error {
  constructor(status, content) {
    super(content.error ?? `The server answered ${status}.`);
    this.status = status;
    this.fix = content.fix;
  }
}

/** JSON of the server. Throws Failed. */
export async function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const response = await fetch(`api/${path}${query.size ? `?${query}` : ""}`, { headers: { Authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` } });
  const content = await response.json().catch(() => ({}));
  if (!response.ok) throw new Failed(response.status, content);
  return content;
}

/** Parts of the address: the path as encoded words, and what stands behind the question mark. */
export function address() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path || "environments", query: new URLSearchParams(query) };
}

/** Change the query of the address and draw again, without a step in the history. */
export function setQuery(changes) {
  const { path, query } = address();
  for (const [name, value] of Object.entries(changes)) value === null || value === "" ? query.delete(name) : query.set(name, value);
  history.replaceState(null, "", `#/${path}${query.size ? `?${query}` : ""}`);
  draw({ keep: true });
}

export function announce(text) {
  document.getElementById("announce").textContent = text;
}

let drawn = 0, timer = 0;

async function draw({ keep = false } = {}) {
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
    view = error.status === 401 ? locked() : failure(error, keep);
  }
  if (turn !== drawn) return;
  main.removeAttribute("aria-busy");
  const seen = JSON.stringify(view.seen ?? null);
  if (!(keep && view.seen && main.dataset.seen === seen)) {
    const focused = keep ? document.activeElement?.id : null;
    const opened = keep ? [...main.querySelectorAll("details[open]")].map((one) => one.id) : [];
    const left = keep ? [...main.querySelectorAll(".scroll")].map((one) => one.scrollLeft) : [];
    main.replaceChildren(h("header", { class: "title" }, view.trail && h("nav", { class: "trail", "aria-label": "Path" }, view.trail), h("h1", { tabindex: "-1" }, view.title), view.aside), ...view.content);
    main.dataset.seen = seen;
    for (const id of opened) if (id) document.getElementById(id)?.setAttribute("open", "");
    [...main.querySelectorAll(".scroll")].forEach((one, at) => { one.scrollLeft = left[at] ?? 0; });
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  }
  document.title = `${view.name ?? (typeof view.title === "string" ? view.title : "prime-lab")} · prime-lab`;
  if (!keep) {
    window.scrollTo(0, 0);
    if (moved) main.querySelector("h1")?.focus({ preventScroll: true });
  }
  if (view.refresh) timer = setTimeout(() => (document.hidden ? wake() : draw({ keep: true })), view.refresh * 1000);
}

function wake() {
  document.addEventListener("visibilitychange", () => draw({ keep: true }), { once: true });
}

function match(path) {
  for (const [pattern, view] of ROUTES) {
    const found = pattern.exec(path);
    if (found) return [view, found.slice(1).map(decodeURIComponent)];
  }
  return [null, []];
}

function failure(error, keep) {
  announce(error.message);
  const gone = error.status === undefined;
  return {
    title: gone ? "The server does not answer" : error.status === 404 ? "Not found" : "This could not be shown",
    content: [h("p", { class: "lead" }, gone ? "Start prime-lab-mcp dashboard again and open the link that it prints." : error.message), error.fix && h("p", {}, error.fix)].filter(Boolean),
    refresh: gone || keep ? 10 : error.status >= 500 ? 20 : null,
  };
}

function locked() {
  const field = h("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  return {
    title: "Open the printed link",
    content: [
      h("p", { class: "lead" }, "The server prints a link with a token when it starts. Open that link, or paste the token here."),
      h("form", { class: "token", onsubmit: (event) => {
        event.preventDefault();
        localStorage.setItem(KEY, field.value.trim());
        start();
      } }, h("label", { for: "token" }, "Token"), field, h("button", { type: "submit" }, "Open")),
    ],
  };
}

let moved = false;

async function start() {
  // The token is in the fragment, which no server sees; it leaves the address bar at once.
  const { path, query } = address();
  const given = /^token=/.test(path) ? new URLSearchParams(path).get("token") : query.get("token");
  if (given) {
    localStorage.setItem(KEY, given);
    query.delete("token");
    history.replaceState(null, "", /^token=/.test(path) ? "#/environments" : `#/${path}${query.size ? `?${query}` : ""}`);
  }
  get("workspace").then((workspace) => {
    document.getElementById("workspace").textContent = workspace.name;
    document.getElementById("workspace").title = workspace.path;
    document.getElementById("platform").textContent = `${workspace.platform === "rehearsal" ? "Rehearsal: the platform is a stand-in. " : ""}Read only. Version ${workspace.version}`;
    document.body.classList.toggle("rehearsal", workspace.platform === "rehearsal");
  }, () => {});
  await draw();
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
window.addEventListener("hashchange", () => {
  if (/^#\/?token=/.test(location.hash)) return start();
  moved = true;
  draw();
});
start();
