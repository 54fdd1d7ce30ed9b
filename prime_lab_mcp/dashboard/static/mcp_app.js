// The page inside of an MCP client (MCP Apps, extension io.modelcontextprotocol/ui, version 2026-01-26). It stands beside the
// result of one tool, opens at the view of that result, and reads through the client: a client's frame may load nothing.

import { configure, draw } from "./draw.js";
import { reportView } from "./report.js";
import { parse, useShell } from "./shell.js";

const TOOL = document.querySelector("meta[name=tool]").content;
const VERSION = "2026-01-26";
/** Views that change faster than this many seconds look again by themselves; a chat keeps many old ones. */
const SLOWEST = 8;
/** The tallest frame that is asked for, in pixels; a longer view scrolls inside. */
const TALLEST = 900;
const JSONRPC_METHOD_NOT_FOUND = -32601;

const waiting = new Map();
let last = 0;
let given = {}, report = null, reads = false, place = null;

const send = (message) => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");

function request(method, params) {
  const id = ++last;
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    send({ id, method, params });
  });
}

async function read(path, query) {
  const { contents } = await request("resources/read", { uri: `lab://view/${path}${query.size ? `?query=${encodeURIComponent(query)}` : ""}` });
  return JSON.parse(contents[0].text);
}

const environment = (name) => `environments/${encodeURIComponent(name.replace(/\/+$/, "").split("/").at(-1))}`;
const evaluation = (id) => `evaluations/${encodeURIComponent(id)}`;

/** The view of the tool's result: a path, or null where the report itself is all there is. */
function opening() {
  const data = report?.data ?? {};
  const id = data.id ?? given.eval ?? given.id;
  if (TOOL === "workflow_status") return given.view === "spend" ? "spend" : given.environment ? environment(given.environment) : "environments";
  if (TOOL === "check_environment" || TOOL === "test_reward") return given.environment ? environment(given.environment) : null;
  if (typeof id !== "string") return TOOL === "watch_run" ? "runs" : null;
  return TOOL === "watch_run" && data.kind !== "eval" && !id.startsWith("eval-") ? `runs/${encodeURIComponent(id)}` : evaluation(id);
}

function openView() {
  const path = reads ? opening() : null;
  place = parse(path ?? "report");
  draw();
}

function themed(context) {
  if (context?.theme) document.documentElement.style.colorScheme = context.theme;
}

const NOTIFIED = {
  "ui/notifications/tool-input": (params) => { given = params.arguments ?? {}; },
  "ui/notifications/tool-result": (params) => {
    report = params.structuredContent ?? null;
    openView();
  },
  "ui/notifications/host-context-changed": themed,
};

window.addEventListener("message", ({ source, data: message }) => {
  if (source !== parent || message?.jsonrpc !== "2.0") return;
  if (message.method === undefined) {
    const promise = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.error) promise?.reject(new Error(message.error.message));
    else promise?.resolve(message.result);
  } else if (message.id === undefined) NOTIFIED[message.method]?.(message.params ?? {});
  else if (["ping", "ui/resource-teardown"].includes(message.method)) send({ id: message.id, result: {} });
  else send({ id: message.id, error: { code: JSONRPC_METHOD_NOT_FOUND, message: `There is no ${message.method}.` } });
});

// In the frame of a client a link to a fragment would lead to the client's own page.
document.addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  if (link.id === "skip") document.getElementById("main").focus();
  else {
    place = parse(link.getAttribute("href"));
    draw({ focus: true });
  }
});

let height = 0;

/** Ask the client for a frame as tall as the view. */
function fit() {
  const wanted = Math.min(TALLEST, Math.ceil(document.body.getBoundingClientRect().height));
  if (wanted !== height) send({ method: "ui/notifications/size-changed", params: { height: height = wanted } });
}

useShell({
  read,
  address: () => ({ path: place.path, query: new URLSearchParams(place.query) }),
  go: (path) => {
    place = parse(path);
    draw({ focus: true });
  },
  replace: (path, query) => { place = { path, query }; },
}, draw);
configure({
  views: [[/^report$/, () => reportView(TOOL, report)]],
  failed: (error) => (error.status === undefined && report ? reportView(TOOL, report) : null),
  gone: "The client did not read this view from the server.",
  drawn: fit,
  slowest: SLOWEST,
});
const host = await request("ui/initialize", { appInfo: { name: "prime-lab", version: document.querySelector("meta[name=version]").content }, appCapabilities: {}, protocolVersion: VERSION });
reads = host.hostCapabilities?.serverResources !== undefined;
themed(host.hostContext);
document.body.classList.toggle("alone", !reads);
send({ method: "ui/notifications/initialized" });
new ResizeObserver(fit).observe(document.body);
