// Environments: the line of evidence from the check to the push, and what stands behind each step.

import { ago, badge, findings, h, note, number, section, sign, sortable, table, tone } from "./dom.js";
import { evaluationColumns } from "./evaluations.js";
import { get } from "./shell.js";

const STEPS = { check_environment: "Check", test_reward: "Reward test", check_reward_distribution: "Distribution", push_environment: "Push" };
const GATES = { test_reward: "Test the reward", run_eval: "Evaluate", push_environment: "Push", submit_training: "Train" };

export async function list() {
  const data = await get("environments");
  return {
    title: "Environments",
    data: data,
    refresh: 10,
    content: data.environments.length
      ? [h("ul", { class: "cards" }, data.environments.map(card))]
      : [h("p", { class: "lead" }, "There is no environment in this workspace yet."), note("An agent makes one with create_environment.")],
  };
}

function card(environment) {
  const link = h("a", { href: `#/environments/${encodeURIComponent(environment.name)}`, class: "cover" }, environment.name);
  if (environment.unreadable)
    return h("li", { class: "card" }, h("h2", {}, link), h("p", {}, badge("failed", "unreadable"), " ", environment.unreadable));
  return h("li", { class: "card" },
    h("div", { class: "cardhead" }, h("h2", {}, link), h("p", { class: "meta" }, [environment.api, environment.version && `version ${environment.version}`].filter(Boolean).join(" · "))),
    line(environment.evidence),
    next(environment.next));
}

/** The next call with its reason, which may begin with the name of the tool itself. */
function next({ tool, why }, more = "") {
  const rest = why.startsWith(`${tool} `) ? why.slice(tool.length) : ` ${why}`;
  return h("p", { class: `next ${more}` }, h("span", {}, "Next"), " ", h("code", {}, tool), rest);
}

function line(evidence) {
  return h("ol", { class: "steps" }, evidence.map((step) =>
    h("li", { class: tone(step.state) },
      h("span", { class: "dot", "aria-hidden": "true" }, step.state === "never-run" ? "" : sign(step.state)),
      h("span", { class: "step" }, STEPS[step.tool] ?? step.tool),
      h("span", { class: "state" }, step.state.replaceAll("-", " ")))));
}

export async function one(name) {
  const data = await get(`environments/${encodeURIComponent(name)}`);
  return {
    title: data.name,
    name: data.name,
    trail: h("a", { href: "#/environments" }, "Environments"),
    aside: h("p", { class: "meta" }, [data.api, data.version && `version ${data.version}`, `source ${data.source}`].filter(Boolean).join(" · ")),
    data: data,
    refresh: 10,
    content: [
      next(data.next, "lead"),
      section("Gates", h("ul", { class: "gates" }, data.gates.map((gate) =>
        h("li", { class: tone(gate.state === "open" ? "open" : "never") },
          h("p", {}, h("strong", {}, GATES[gate.tool] ?? gate.tool), " ", badge(gate.state === "open" ? "open" : "closed", gate.state)),
          h("p", {}, gate.unmet.length ? `needs ${gate.unmet.map((one) => `${STEPS[one.tool] ?? one.tool} (${one.state.replaceAll("-", " ")})`).join(", ")}` : gate.why))))),
      section("Evidence", h("div", { class: "evidence" }, data.evidence.map(evidence)), data.waived.length > 0 && note("Waived by a person for these files: ", data.waived.join(", "))),
      section("Evaluations", sortable("Evaluations of this environment", evaluationColumns(false), data.evaluations, { empty: "No evaluation yet." })),
      data.pushes.length > 0 && section("Pushes", table("Pushes", [
        { label: "Version", cell: (push) => `${push.owner}/${push.name}@${push.version}` },
        { label: "When", cell: (push) => ago(push.at) },
        { label: "Verified by", cell: (push) => (push.verified === "hub" ? "comparing with the Hub" : "sending only") },
        { label: "These files", cell: (push) => (push.current ? badge("passed", "yes") : "an earlier source") },
      ], data.pushes)),
      data.left_out.length > 0 && section("Files that a push leaves out", table("Files that a push leaves out", [
        { label: "File", cell: (file) => h("code", {}, file.path) }, { label: "Why", cell: (file) => file.why },
      ], data.left_out)),
      section("Every verdict", table("Verdicts, newest first", [
        { label: "Tool", tight: true, cell: (row) => h("code", {}, row.tool) },
        { label: "Verdict", cell: (row) => badge(row.status) },
        { label: "When", cell: (row) => ago(row.at) },
        { label: "Source", tight: true, cell: (row) => h("code", {}, row.source || "–") },
        { label: "Findings", wide: true, cell: (row) => row.findings.map((one) => one.code).join(", ") || "none" },
      ], data.verdicts)),
    ].filter(Boolean),
  };
}

function evidence(step) {
  const verdict = step.verdict;
  return h("article", { class: `proof ${tone(step.state)}` },
    h("div", { class: "cardhead" }, h("h3", {}, STEPS[step.tool] ?? step.tool), badge(step.state === "never-run" ? "not run" : step.state)),
    h("p", { class: "meta" }, step.detail, verdict ? [" · ", ago(verdict.at)] : null, verdict?.model ? ` · ${verdict.model}` : null),
    step.changed?.length ? h("p", {}, "Changed since: ", step.changed.map((path, at) => [at ? ", " : "", h("code", {}, path)])) : null,
    verdict && Object.keys(verdict.facts).length
      ? h("dl", { class: "facts" }, Object.entries(verdict.facts).map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 3) : value)]))
      : null,
    verdict?.evaluation ? h("p", {}, h("a", { href: `#/evaluations/${encodeURIComponent(verdict.evaluation)}` }, "The evaluation behind it")) : null,
    verdict?.findings.length ? h("details", { id: `findings-${step.tool}-${verdict.id}` }, h("summary", {}, `${verdict.findings.length} finding${verdict.findings.length === 1 ? "" : "s"}`), findings(verdict.findings)) : null);
}
