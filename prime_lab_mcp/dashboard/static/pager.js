// Previous and next page of a list that the server cuts into pages.

import { h, number } from "./dom.js";
import { setQuery } from "./shell.js";

export function pager(data) {
  if (data.pages <= 1) return "";
  const go = (page) => setQuery({ page: page === 1 ? null : page });
  return h("nav", { class: "pager", "aria-label": "Pages" },
    h("button", { type: "button", id: "page-before", disabled: data.page <= 1, onclick: () => go(data.page - 1) }, "Previous"),
    h("span", {}, `Page ${number(data.page)} of ${number(data.pages)}`),
    h("button", { type: "button", id: "page-after", disabled: data.page >= data.pages, onclick: () => go(data.page + 1) }, "Next"));
}
