// Evaluations: the list, one with its pictures and its rollouts, and a comparison of two.

import { histogram, shareBar, taskBars } from "./charts.js";
import { ago, badge, dollars, findings, h, note, number, percent, section, sortable, table, tile, tiles } from "./dom.js";
import { pager } from "./pager.js";
import { browser } from "./rollouts.js";
import { get, go } from "./shell.js";

const link = (row) => `#/evaluations/${encodeURIComponent(row.id)}`;

export function evaluationColumns(named = true) {
  return [
    { label: named ? "Environment" : "Evaluation", tight: !named, sort: "environment", value: (row) => (named ? row.environment : row.id), cell: (row) => h("a", { href: link(row) }, named ? row.environment : row.id) },
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
    data: data,
    refresh: data.evaluations.some(live) ? 4 : 15,
    content: [
      sortable("Evaluations, newest first", evaluationColumns(), data.evaluations, { empty: "No evaluation yet. An agent starts one with run_eval." }),
      pager(data),
    ],
  };
}

const live = (row) => row.state === "running" || row.state === "starting";

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
    data: [data, rows],
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
      section("Findings", data.verdict ? findings(data.findings) : h("p", { class: "empty" }, live(data) ? "It is judged when it ends." : "Not judged yet: the next tool call judges what has finished.")),
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
  return [table("Why rollouts earned nothing", [
    { label: "Class", cell: (row) => row.class.replaceAll("_", " ") },
    { label: "Rollouts", numeric: true, cell: (row) => number(row.rollouts) },
    { label: "What helps", wide: true, cell: (row) => row.advice },
  ], data.advice ?? [], { empty: "Every rollout earned something." })];
}

function compareWith(data) {
  if (!data.others.length) return null;
  const choice = h("select", { id: "other" }, data.others.map((other) => h("option", { value: other.id }, `${other.model}, ${new Date(other.at * 1000).toLocaleString()}`)));
  return h("form", { class: "inline", onsubmit: (event) => {
    event.preventDefault();
    go(`evaluations/${encodeURIComponent(data.id)}/compare/${encodeURIComponent(choice.value)}`);
  } }, h("label", { for: "other" }, "Compare with"), choice, h("button", { type: "submit" }, "Compare"));
}

export async function compare(id, other) {
  const view = await get(`evaluations/${encodeURIComponent(id)}/compare/${encodeURIComponent(other)}`);
  const { difference, here, there, flipped, tasks, components, settings } = view.data;
  const sides = [{ id, ...here }, { id: other, ...there }];
  const differences = [["all rewards", difference], ...Object.entries(components)];
  const settingRows = Object.entries(settings ?? {});
  return {
    title: "Comparison",
    trail: [h("a", { href: "#/evaluations" }, "Evaluations"), " / ", h("a", { href: `#/evaluations/${encodeURIComponent(id)}` }, id)],
    data: view,
    content: [
      h("p", { class: "lead" }, view.summary),
      section("Both sides", table("Numbers of both evaluations", [
        { label: "Evaluation", cell: (row) => h("a", { href: link(row) }, row.id) },
        { label: "Mean of attainable", numeric: true, cell: (row) => number(row.mean_of_attainable, 3) },
        { label: "Solved", numeric: true, cell: (row) => percent(row.pass_rate) },
        { label: "Tasks", numeric: true, cell: (row) => number(row.tasks) },
        { label: "Rollouts", numeric: true, cell: (row) => number(row.rollouts) },
        { label: "Tokens a rollout", numeric: true, cell: (row) => number(row.tokens_a_rollout, 1) },
        { label: "Errors", numeric: true, cell: (row) => number(row.errors) },
        { label: "Cost", numeric: true, cell: (row) => dollars(row.cost) },
      ], sides)),
      section(`Difference over ${number(tasks.shared)} shared tasks`, table("Difference of the first from the second", [
        { label: "Of", cell: ([name]) => name },
        { label: "Difference", numeric: true, cell: ([, one]) => number(one.value, 3) },
        { label: "95 % interval", numeric: true, cell: ([, one]) => `${number(one.low, 3)} to ${number(one.high, 3)}` },
        { label: "Beyond chance", cell: ([, one]) => (one.shown ? badge("passed", "shown") : badge("not shown")) },
      ], differences)),
      section("Tasks that only one side solves", h("p", { class: "meta" }, `${number(flipped.solved_here_only)} only here, ${number(flipped.solved_other_only)} only there.`),
        flipped.examples.length > 0 && table("Examples of such tasks", [
          { label: "Question", wide: true, cell: (row) => row.asked },
          { label: "Here", numeric: true, cell: (row) => percent(row.here) },
          { label: "There", numeric: true, cell: (row) => percent(row.there) },
        ], flipped.examples)),
      settingRows.length > 0 && section("Different settings", table("Settings that differ", [
        { label: "Setting", cell: ([name]) => name.replaceAll("_", " ") },
        { label: "Here and there", wide: true, cell: ([, value]) => (Array.isArray(value) ? value.map((one) => (typeof one === "string" ? one : JSON.stringify(one))).join(" | ") : JSON.stringify(value)) },
      ], settingRows)),
      section("Findings", findings(view.findings)),
    ].filter(Boolean),
  };
}
