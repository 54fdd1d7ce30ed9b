// The report of one tool, for clients that let the page read nothing else.

import { badge, findings, h, section } from "./dom.js";

export function reportView(tool, report) {
  if (!report) return { title: tool, content: [h("p", { class: "lead" }, "The tool has not answered yet.")] };
  return {
    title: tool.replaceAll("_", " "),
    aside: h("p", { class: "meta" }, badge(report.status)),
    content: [
      h("p", { class: "lead" }, report.summary),
      report.findings?.length > 0 && section("Findings", findings(report.findings)),
      report.next?.length > 0 && section("Next", h("ul", {}, report.next.map((one) => h("li", {}, h("code", {}, one.tool), " ", one.why)))),
    ].filter(Boolean),
  };
}
