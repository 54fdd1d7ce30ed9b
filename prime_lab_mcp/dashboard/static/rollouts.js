// The rollout browser: a list with filters that the server applies, one conversation, and one task's rollouts side by side.

import { shareBar } from "./charts.js";
import { badge, h, note, number, section, table } from "./dom.js";
import { pager } from "./pager.js";
import { address, announce, get, setQuery } from "./shell.js";

const OUTCOMES = { all: "All", passed: "Solved", zero: "Earned nothing", error: "Failed", truncated: "Cut off" };
const where = (id, position) => `#/evaluations/${encodeURIComponent(id)}/rollouts/${position}${keptQuery()}`;

function keptQuery() {
  const { query } = address();
  return query.size ? `?${query}` : "";
}

export function browser(id, data) {
  const { query } = address();
  const outcome = query.get("outcome") ?? "all";
  const search = h("input", { type: "search", id: "search", value: query.get("text") ?? "", placeholder: "Text in a rollout", maxlength: 200, autocomplete: "off" });
  const filters = h("form", { class: "filters", role: "search", "aria-label": "Rollouts", onsubmit: (event) => {
    event.preventDefault();
    setQuery({ text: search.value.trim(), page: null });
  } },
    h("div", { class: "chips", role: "group", "aria-label": "Outcome" }, Object.entries(OUTCOMES).map(([name, label]) =>
      h("button", { type: "button", id: `outcome-${name}`, "aria-pressed": String(outcome === name), onclick: () => setQuery({ outcome: name === "all" ? null : name, page: null }) }, label))),
    h("label", { for: "search", class: "hidden" }, "Search in rollouts"), search, h("button", { type: "submit" }, "Search"));
  const shown = data.matching === data.total ? `${number(data.total)} rollouts` : `${number(data.matching)} of ${number(data.total)} rollouts`;
  announce(shown);
  return section("Rollouts", filters, h("p", { class: "meta" }, shown, query.get("task") ? [" of one task. ", h("button", { type: "button", class: "plainlink", id: "all-tasks", onclick: () => setQuery({ task: null, page: null }) }, "Show all tasks")] : null),
    table("Rollouts", [
      { label: "Rollout", sort: "position", cell: (row) => h("a", { href: where(id, row.position) }, `#${number(row.position + 1)}`) },
      { label: "Reward", sort: "reward", cell: (row) => (row.error ? badge("error", "failed") : shareBar(row.share, number(row.reward, 2))) },
      { label: "Question", wide: true, cell: (row) => row.question },
      { label: "Reply", wide: true, cell: (row) => row.error ?? row.reply },
      { label: "Tokens", numeric: true, sort: "tokens", cell: (row) => [number(row.tokens), row.truncated ? " cut" : ""] },
      { label: "Task", tight: true, cell: (row) => h("a", { href: `#/evaluations/${encodeURIComponent(id)}/tasks/${row.task}`, "aria-label": `Task ${row.task + 1}, its rollouts side by side` }, `task ${number(row.task + 1)}`) },
    ], data.rows, { sorted: query.get("order") ?? "position", onsort: (order) => setQuery({ order: order === "position" ? null : order, page: null }), empty: "No rollout fits." }),
    pager(data));
}

export async function one(id, position) {
  const at = Number(position);
  const data = await get(`evaluations/${encodeURIComponent(id)}/rollouts/${at}`);
  const go = (to, label, key) => (to >= 0 && to < data.total ? h("a", { class: "button", id: key, href: where(id, to) }, label) : h("span", { class: "button off", "aria-disabled": "true" }, label));
  return {
    title: `Rollout ${number(at + 1)}`,
    trail: [h("a", { href: "#/evaluations" }, "Evaluations"), " / ", h("a", { href: `#/evaluations/${encodeURIComponent(id)}${keptQuery()}` }, id)],
    aside: h("p", { class: "meta" }, outcome(data), data.stop && ` stopped: ${data.stop}`),
    data: data,
    content: [
      h("nav", { class: "pager", "aria-label": "Rollouts" }, go(at - 1, "Previous", "rollout-before"), h("span", {}, `${number(at + 1)} of ${number(data.total)}`), go(at + 1, "Next", "rollout-after")),
      h("div", { class: "split" },
        h("section", { "aria-label": "Conversation" }, h("h2", {}, "Conversation"), conversation(data)),
        h("aside", { "aria-label": "Reward and task" }, h("h2", {}, "Reward"), components(data), facts(data), sameTask(id, data, at))),
    ],
  };
}

const outcome = (data) => (data.error ? badge("error", "failed") : data.passed ? badge("passed", "solved") : badge("zero", "not solved"));

function conversation(data) {
  return h("ol", { class: "messages" },
    data.messages.map((message) => h("li", { class: `message ${["system", "user", "assistant", "tool"].includes(message.role) ? message.role : "other"}` },
      h("p", { class: "role" }, message.role),
      message.reasoning && h("details", {}, h("summary", {}, "Reasoning"), h("pre", { tabindex: "0" }, message.reasoning)),
      message.text && h("pre", { tabindex: "0" }, message.text),
      message.calls.map((call) => h("div", { class: "call" }, h("p", {}, "calls ", h("code", {}, call.name)), h("pre", { tabindex: "0" }, call.arguments))),
      !message.text && !message.calls.length && h("p", { class: "empty" }, "Empty message."))),
    data.error && h("li", { class: "message error" }, h("p", { class: "role" }, "error"), h("pre", { tabindex: "0" }, data.error)));
}

function components(data) {
  return h("div", {},
    h("p", { class: "big" }, data.reward === null ? "–" : number(data.reward, 3), h("small", {}, data.share === null ? " no reward" : ` ${number(100 * data.share)} % of the attainable`)),
    data.components.length ? table("Reward by component", [
      { label: "Component", cell: (row) => row.name },
      { label: "Score", numeric: true, cell: (row) => number(row.score, 3) },
      { label: "Weight", numeric: true, cell: (row) => (row.weight === null ? "–" : number(row.weight, 2)) },
    ], data.components) : null);
}

function facts(data) {
  const rows = [
    ["Reference answer", data.gold], ["Completion tokens", number(data.tokens)], ["Prompt tokens", number(data.prompt_tokens)],
    ["Seconds", data.seconds ? number(data.seconds, 1) : null], ["Cut off", data.truncated ? "yes" : null],
    ...Object.entries(data.metrics).map(([name, value]) => [name, number(value, 3)]),
  ].filter(([, value]) => value !== null && value !== undefined && value !== "–");
  const fields = Object.entries(data.fields);
  return h("div", {}, h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    fields.length ? h("details", { id: "fields" }, h("summary", {}, "Fields of the task"), h("dl", { class: "facts" }, fields.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))) : null);
}

function sameTask(id, data, at) {
  if (data.of_task.length < 2) return null;
  return h("div", {}, h("h2", {}, "The same task"),
    h("p", { class: "chips" }, data.of_task.map((position) => h("a", { class: "button", href: where(id, position), "aria-current": position === at ? "true" : null }, `#${number(position + 1)}`))),
    h("p", {}, h("a", { href: `#/evaluations/${encodeURIComponent(id)}/tasks/${data.task}` }, "All of them side by side")));
}

export async function task(id, given, query) {
  const number_ = Number(given);
  const page = await get(`evaluations/${encodeURIComponent(id)}/rollouts`, { task: number_, order: "-reward" });
  const shown = page.rows.slice(0, 8);
  const whole = await Promise.all(shown.map((row) => get(`evaluations/${encodeURIComponent(id)}/rollouts/${row.position}`)));
  const question = whole[0]?.messages.filter((message) => message.role !== "assistant" && message.role !== "tool") ?? [];
  return {
    title: `Task ${number(number_ + 1)}`,
    trail: [h("a", { href: "#/evaluations" }, "Evaluations"), " / ", h("a", { href: `#/evaluations/${encodeURIComponent(id)}` }, id)],
    aside: h("p", { class: "meta" }, `${number(page.matching)} rollouts, ${number(page.rows.filter((row) => row.passed).length)} solved of those shown`),
    data: whole,
    content: whole.length ? [
      section("Question", h("ol", { class: "messages" }, question.slice(0, 2).map((message) => h("li", { class: `message ${message.role === "system" ? "system" : "user"}` }, h("p", { class: "role" }, message.role), h("pre", { tabindex: "0" }, message.text)))), whole[0].gold && h("p", {}, "Reference answer: ", h("strong", {}, whole[0].gold))),
      section("Rollouts, best first", h("div", { class: "columns", tabindex: "0", role: "region", "aria-label": "Rollouts side by side" }, whole.map((data) => h("article", {},
        h("h3", {}, h("a", { href: where(id, data.position) }, `#${number(data.position + 1)}`), " ", outcome(data)),
        h("p", { class: "meta" }, `reward ${number(data.reward, 2)} · ${number(data.tokens)} tokens`),
        h("ol", { class: "messages" }, data.messages.slice(question.length).map((message) => h("li", { class: `message ${message.role === "tool" ? "tool" : "assistant"}` }, h("p", { class: "role" }, message.role), h("pre", { tabindex: "0" }, message.text || message.calls.map((call) => `${call.name}(${call.arguments})`).join("\n"))))))))),
      page.matching > shown.length && note(h("a", { href: `#/evaluations/${encodeURIComponent(id)}?task=${number_}` }, `All ${number(page.matching)} rollouts of this task`)),
    ].filter(Boolean) : [h("p", { class: "lead" }, "This task has no rollout.")],
  };
}
