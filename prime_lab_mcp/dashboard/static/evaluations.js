// Evaluations: the list, one with its pictures and its rollouts, and a comparison of two.

import { get, setQuery } from "./app.js";
import { histogram, shareBar, taskBars } from "./charts.js";
import { ago, badge, dollars, findings, h, note, number, percent, section, sortable, table, tile, tiles } from "./dom.js";
import { browser } from "./rollouts.js";

const link = (row) => `#/evaluations/${encodeURIComponent(row.id)}`;

export function evaluationColumns(named = true) {
  return [
    { label: named ? "Environment" : "Evaluation", sort: "environment", value: (row) => row.environment, cell: (row) => h("a", { href: link(row) }, named ? row.environment : row.id) },
    { label: "Model", sort: "model", value: (row) => row.model, cell: (row) => row.model || "–" },
    { label: "State", sort: "state", value: (row) => row.verdict ?? row.state, cell: (row) => badge(row.state === "finished" ? row.verdict ?? "finished" : row.state) },
    { label: "Mean reward", numeric: true, sort: "mean", value: (row) => row.mean_reward, cell: (row) => number(row.mean_reward, 3) },
    { label: "Usable groups", sort: "usable", value: (row) => row.usable, cell: (row) => shareBar(row.usable, percent(row.usable)) },
    { label: "Rollouts", numeric: true, sort: "rollouts", value: (row) => row.completed, cell: (row) => (row.planned && row.planned !== row.completed ? `${number(row.completed)} of ${number(row.planned)}` : number(row.completed)) },
    { label: "Cost", numeric: true, sort: "cost", value: (row) => row.cost, cell: (row) => dollars(row.cost) },
    { label: "When", sort: "at", value: (row) => row.at, cell: (row) => ago(row.at) },
  ];
}

export async function list(query) {
  const data = await get("evaluations", { page: query.get("page") });
  return {
    title: "Evaluations",
    seen: data,
    refresh: data.evaluations.some(live) ? 4 : 15,
    content: [
      sortable("Evaluations, newest first", evaluationColumns(), data.evaluations, { empty: "No evaluation yet. An agent starts one with run_eval." }),
      pager(data),
    ],
  };
}

const live = (row) => row.state === "running" || row.state === "starting";

export function pager(data) {
  if (data.pages <= 1) return "";
  const go = (page) => setQuery({ page: page === 1 ? null : page });
  return h("nav", { class: "pager", "aria-label": "Pages" },
    h("button", { type: "button", id: "page-before", disabled: data.page <= 1, onclick: () => go(data.page - 1) }, "Previous"),
    h("span", {}, `Page ${number(data.page)} of ${number(data.pages)}`),
    h("button", { type: "button", id: "page-after", disabled: data.page >= data.pages, onclick: () => go(data.page + 1) }, "Next"));
}

export async function one(id, query) {
  const [data, rows] = await Promise.all([
    get(`evaluations/${encodeURIComponent(id)}`),
    get(`evaluations/${encodeURIComponent(id)}/rollouts`, Object.fromEntries(query)),
  ]);
  const d = data.distribution, r = data.rewards;
  const interval = d?.mean_interval?.[0] !== null && d?.mean_interval ? `${number(d.mean_interval[0], 2)} to ${number(d.mean_interval[1], 2)}` : null;
  return {
    title: data.environment,
    name: `${data.environment}, ${data.model}`,
    trail: h("a", { href: "#/evaluations" }, "Evaluations"),
    aside: h("p", { class: "meta" }, badge(data.state === "finished" ? data.verdict ?? "finished" : data.state), " ", `${data.model} · `, ago(data.at), ` · ${data.id}`),
    seen: [data, rows],
    refresh: live(data) ? 4 : null,
    content: [
      live(data) && h("p", { class: "progress" }, h("progress", { max: data.planned || 1, value: data.completed, "aria-label": "Rollouts done" }), ` ${number(data.completed)} of ${number(data.planned)} rollouts`),
      data.reason && h("p", { class: "lead" }, data.reason),
      tiles(
        d ? tile("Mean of attainable", number(d.mean, 3), interval && `95 %: ${interval}`) : tile("Mean reward", number(data.mean_reward, 3)),
        d?.usable_groups && tile("Usable groups", percent(d.usable_groups.share), `groups of ${d.usable_groups.group_size}`),
        r && tile("Rollouts", number(r.rollouts), `${number(r.tasks)} tasks`),
        tile("Errors", number(data.errors), d?.truncation_rate ? `${percent(d.truncation_rate, 1)} cut off` : null),
        tile("Cost", dollars(data.cost), data.bound !== null ? `bound ${dollars(data.bound)}` : null),
      ),
      r && section("Rewards", h("div", { class: "pair" },
        histogram(r.bins, `Rewards as shares of the attainable ${number(r.attainable, 2)}`),
        taskBars(r.task_means, r.tasks_per_bar, r.tasks)),
        (r.below || r.above || r.failed) ? note(`${number(r.failed)} failed, ${number(r.below)} below 0 and ${number(r.above)} above the attainable reward are not in the picture.`) : null),
      d && section("What it shows", h("div", { class: "pair" }, checks(d), difficulty(d, data))),
      section("Findings", findings(data.findings)),
      data.reward_test && section("What test_reward found", h("p", {}, badge(data.reward_test.status), " ", ago(data.reward_test.at)), findings(data.reward_test.findings, "Nothing against this reward.")),
      compareWith(data),
      browser(id, rows),
    ].filter(Boolean),
  };
}

function checks(d) {
  return table("Checks of the distribution", [
    { label: "Check", cell: (row) => row.name.replaceAll("-", " ") },
    { label: "Value", numeric: true, cell: (row) => number(row.value, Number.isInteger(row.value) ? 0 : 3) },
    { label: "Needs", numeric: true, cell: (row) => row.threshold },
    { label: "Result", cell: (row) => (row.passed === "not-applicable" ? "not applicable" : badge(row.passed ? "passed" : "failed")) },
  ], d.checks);
}

function difficulty(d, data) {
  const pools = Object.entries(d.difficulty ?? {});
  const total = pools.reduce((sum, [, count]) => sum + count, 0) || 1;
  return h("div", {},
    pools.length ? table("Tasks by difficulty", [
      { label: "Solved", cell: ([name]) => name },
      { label: "Tasks", cell: ([, count]) => shareBar(count / total, number(count)) },
    ], pools) : null,
    zeros(data));
}

function zeros(data) {
  const holder = h("div", { class: "zeros" });
  const button = h("button", { type: "button", id: "zeros", onclick: async () => {
    button.disabled = true;
    button.textContent = "Reading the rollouts";
    try {
      const view = await get(`evaluations/${encodeURIComponent(data.id)}/zeros`);
      holder.replaceChildren(h("p", {}, view.summary), ...advice(view.data));
    } catch (error) {
      holder.replaceChildren(h("p", {}, error.message));
    }
  } }, "Why rollouts earned nothing");
  holder.append(button);
  return holder;
}

function advice(data) {
  const classes = Object.entries(data.zeros ?? {}).filter(([, count]) => Number.isInteger(count) && count > 0);
  const rows = (data.advice ?? []).map((one) => (typeof one === "string" ? one : one.text ?? one.advice ?? ""));
  return [
    classes.length ? h("dl", { class: "facts" }, classes.map(([name, count]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, number(count))])) : "",
    ...rows.filter(Boolean).map((text) => h("p", { class: "fix" }, text)),
  ];
}

function compareWith(data) {
  if (!data.others.length) return null;
  const choice = h("select", { id: "other" }, data.others.map((other) => h("option", { value: other.id }, `${other.model}, ${new Date(other.at * 1000).toLocaleString()}`)));
  return h("form", { class: "inline", onsubmit: (event) => {
    event.preventDefault();
    location.hash = `#/evaluations/${encodeURIComponent(data.id)}/compare/${encodeURIComponent(choice.value)}`;
  } }, h("label", { for: "other" }, "Compare with"), choice, h("button", { type: "submit" }, "Compare"));
}

export async function compare(id, other) {
  const view = await get(`evaluations/${encodeURIComponent(id)}/compare/${encodeURIComponent(other)}`);
  const data = view.data;
  const sides = Object.entries(data).filter(([, value]) => value && typeof value === "object" && !Array.isArray(value) && "mean" in value);
  return {
    title: "Comparison",
    trail: [h("a", { href: "#/evaluations" }, "Evaluations"), " / ", h("a", { href: `#/evaluations/${encodeURIComponent(id)}` }, id)],
    seen: view,
    content: [
      h("p", { class: "lead" }, view.summary),
      section("Numbers", table("Numbers of both", [
        { label: "Evaluation", cell: ([name, side]) => side.id ?? name },
        { label: "Model", cell: ([, side]) => String(side.model ?? "–") },
        { label: "Mean", numeric: true, cell: ([, side]) => number(side.mean, 3) },
        { label: "Rollouts", numeric: true, cell: ([, side]) => number(side.rollouts) },
      ], sides, { empty: "No numbers." }), plain(data)),
      section("Findings", findings(view.findings)),
    ],
  };
}

/** Every plain number of a comparison. */
function plain(data) {
  const rows = Object.entries(data).filter(([, value]) => typeof value === "number" || typeof value === "string");
  return rows.length ? h("dl", { class: "facts" }, rows.map(([name, value]) => [h("dt", {}, name.replaceAll("_", " ")), h("dd", {}, typeof value === "number" ? number(value, Number.isInteger(value) ? 0 : 4) : value)])) : null;
}

