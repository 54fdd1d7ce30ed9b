// Where the views stand: in a browser of their own (app.js), or inside of an MCP client (mcp_app.js). Each gives a shell.

/*
 * A shell reads and moves. `read(path, query)` answers {status, content}; `address()` is {path, query} of the view that is
 * open; `go(path)` opens another one, as a step back and forth; `replace(path, query)` changes the address without one.
 */
let shell = null;
let redraw = () => {};

/** The shell of this document, and the function that draws its view again. */
export function useShell(given, draw) {
  shell = given;
  redraw = draw;
}

export class Failed extends Error {
  constructor(status, content) {
    super(content.error ?? `The server answered ${status}.`);
    this.status = status;
    this.fix = content.fix;
  }
}

/** JSON of the server. Throws Failed. */
export async function get(path, parameters = {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== ""));
  const { status, content } = await shell.read(path, query);
  if (status !== 200) throw new Failed(status, content);
  return content;
}

/** Parts of the address: the path as encoded words, and the query. */
export const address = () => shell.address();

export const go = (path) => shell.go(path);

/** Change the query of the address and draw again, without a step in the history. */
export function setQuery(changes) {
  const { path, query } = address();
  for (const [name, value] of Object.entries(changes)) value === null || value === "" ? query.delete(name) : query.set(name, value);
  shell.replace(path, query);
  redraw({ keep: true });
}

/** The path and query that a link such as `#/runs?page=2` names. */
export function parse(link) {
  const [path, query = ""] = link.replace(/^#?\/?/, "").split("?");
  return { path: path || "environments", query: new URLSearchParams(query) };
}

export function announce(text) {
  document.getElementById("announce").textContent = text;
}
