// A host of MCP Apps made of the extension's own AppBridge: renders the page of a tool beside one result of that tool, and
// writes what happened into the document: every message that was forwarded, the height, and the text of the page.
import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; base-uri 'none'";
const asked = new URLSearchParams(location.search);
const opaque = asked.has("opaque");
const log = [];
const json = async (path) => (await fetch(path)).json();

function show() {
  const text = opaque ? "" : frame.contentDocument?.body?.innerText ?? "";
  const scheme = opaque ? "" : frame.contentDocument?.documentElement?.style.colorScheme ?? "";
  document.getElementById("log").textContent = JSON.stringify({ log, text, scheme });
}

const { html, given, result } = await json(`start?${asked}`);
const frame = document.createElement("iframe");
frame.setAttribute("sandbox", opaque ? "allow-scripts" : "allow-scripts allow-same-origin");
frame.style.width = "700px";
document.body.append(frame);
const bridge = new AppBridge(null, { name: "test-host", version: "1.0.0" }, asked.has("closed") ? {} : { serverResources: {} }, { hostContext: { theme: asked.get("theme") ?? "light" } });
bridge.onreadresource = async ({ uri }) => {
  log.push(["read", uri]);
  return json(`read?uri=${encodeURIComponent(uri)}`);
};
bridge.onsizechange = ({ height }) => {
  log.push(["height", height]);
  frame.style.height = `${height}px`;
};
bridge.oninitialized = async () => {
  log.push(["initialized"]);
  await bridge.sendToolInput({ arguments: given });
  await bridge.sendToolResult(result);
  if (asked.has("follow")) setTimeout(() => frame.contentDocument.querySelector(asked.get("follow"))?.click(), 3000);
};
await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
frame.srcdoc = html.replace("<head>", `<head><meta http-equiv="Content-Security-Policy" content="${POLICY}">`);
setInterval(show, 200);
