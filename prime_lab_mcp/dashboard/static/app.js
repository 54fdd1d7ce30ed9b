// The page in a browser of its own: the token, requests over HTTP, and the address bar.

import { h } from "./dom.js";
import { configure, draw } from "./draw.js";
import { get, parse, useShell } from "./shell.js";

const KEY = "prime-lab-token";
const address = () => parse(location.hash);
const link = (path, query) => `#/${path}${query.size ? `?${query}` : ""}`;

async function read(path, query) {
  const response = await fetch(`api/${path}${query.size ? `?${query}` : ""}`, { headers: { Authorization: `Bearer ${localStorage.getItem(KEY) ?? ""}` } });
  return { status: response.status, content: await response.json().catch(() => ({})) };
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

async function start() {
  // The token is in the fragment, which no server sees; it leaves the address bar at once.
  const { path, query } = address();
  const given = /^token=/.test(path) ? new URLSearchParams(path).get("token") : query.get("token");
  if (given) {
    localStorage.setItem(KEY, given);
    query.delete("token");
    history.replaceState(null, "", /^token=/.test(path) ? "#/environments" : link(path, query));
  }
  get("workspace").then((workspace) => {
    document.getElementById("workspace").textContent = workspace.name;
    document.getElementById("workspace").title = workspace.path;
    document.getElementById("platform").textContent = `${workspace.platform === "rehearsal" ? "Rehearsal: the platform is a stand-in. " : ""}Read only. Version ${workspace.version}`;
    document.body.classList.toggle("rehearsal", workspace.platform === "rehearsal");
  }, () => {});
  await draw();
}

useShell({
  read,
  address,
  go: (path) => { location.hash = `#/${path}`; },
  replace: (path, query) => history.replaceState(null, "", link(path, query)),
}, draw);
configure({
  failed: (error) => (error.status === 401 ? locked() : null),
  gone: "Start prime-lab-mcp dashboard again and open the link that it prints.",
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});
window.addEventListener("hashchange", () => (/^#\/?token=/.test(location.hash) ? start() : draw({ focus: true })));
start();
