// Training runs: the list, and one with its curves while it goes on.

import { lineChart } from "./charts.js";
import { ago, badge, dollars, h, note, number, section, sortable, table, tile, tiles } from "./dom.js";
import { get } from "./shell.js";

export async function list() {
  const data = await get("runs");
  return {
    title: "Runs",
    data: data,
    refresh: 15,
    content: [sortable("Training runs, newest first", [
      { label: "Run", sort: "name", value: (run) => run.name, cell: (run) => h("a", { href: `#/runs/${encodeURIComponent(run.id)}` }, run.name) },
      { label: "State", sort: "status", value: (run) => run.status, cell: (run) => (run.status ? badge(run.status) : badge("started")) },
      { label: "Model", sort: "model", value: (run) => run.model, cell: (run) => run.model || "–" },
      { label: "Environments", wide: true, cell: (run) => run.environments.join(", ") || "–" },
      { label: "Steps", numeric: true, sort: "steps", value: (run) => run.max_steps, cell: (run) => number(run.max_steps) },
      { label: "Per hour", numeric: true, sort: "price", value: (run) => run.price_per_hour, cell: (run) => dollars(run.price_per_hour) },
      { label: "Bound", numeric: true, sort: "bound", value: (run) => run.bound, cell: (run) => dollars(run.bound) },
      { label: "Started", sort: "at", value: (run) => run.at, cell: (run) => ago(run.at) },
    ], data.runs, { empty: "No training run was started from this workspace yet, and outputs/ holds none of your own." })],
  };
}

export async function one(id) {
  const data = await get(`runs/${encodeURIComponent(id)}`);
  const done = data.steps_done;
  const rewards = data.series.filter((one) => one.name === "reward" || one.name.startsWith("held-out"));
  const others = data.series.filter((one) => !rewards.includes(one));
  const marks = data.anomalies.filter((one) => one.code !== "queue").map((one) => ({ step: one.since_step, text: one.code }));
  const first = rewards[0]?.points[0]?.[1], last = rewards[0]?.points.at(-1)?.[1];
  return {
    title: data.name,
    trail: h("a", { href: "#/runs" }, "Runs"),
    aside: h("p", { class: "meta" }, badge(data.status), " ", `${data.model} · `, ago(data.at), ` · ${data.id}`),
    data: data,
    refresh: data.live ? 8 : null,
    content: [
      data.max_steps && h("p", { class: "progress" }, h("progress", { max: data.max_steps, value: done, "aria-label": "Steps done" }), ` ${number(done)} of ${number(data.max_steps)} steps`, data.eta_seconds ? `, about ${number(Math.ceil(data.eta_seconds / 60))} minutes to go` : ""),
      data.failure && h("p", { class: "lead" }, badge("failed"), " ", data.failure),
      tiles(
        rewards.length && tile("Training reward", number(last, 3), `from ${number(first, 3)}`),
        tile("Spent", dollars(data.spend), data.expected_spend !== null ? `expected ${dollars(data.expected_spend)}` : null),
        tile("Agreed bound", dollars(data.bound), data.price_per_hour !== null ? `${dollars(data.price_per_hour)} an hour` : null),
        tile("Checkpoints", number(data.checkpoints.length)),
      ),
      rewards.length > 0 && section("Reward", lineChart("Reward", rewards, { marks, max: data.live ? data.max_steps - 1 : null })),
      section("Anomalies", data.anomalies.length ? h("ul", { class: "findings" }, data.anomalies.map((one) =>
        h("li", { class: one.level === "stop" ? "bad" : "warn" }, h("p", {}, badge(one.level === "stop" ? "blocker" : "warning", one.level === "stop" ? "stop" : "warning"), " ", h("code", {}, one.code), ` since step ${number(one.since_step)}`, one.burned ? `, about ${dollars(one.burned)} since` : ""), h("p", {}, one.cause), h("p", { class: "fix" }, one.advice)))) : h("p", { class: "empty" }, "None found.")),
      others.length > 0 && section("Other metrics", h("div", { class: "pair" }, others.map((one) => lineChart(one.title, [one], { parts: 2, zero: ["truncated", "errors", "silent"].includes(one.name) })))),
      section("Checkpoints", table("Checkpoints", [
        { label: "Step", cell: (row) => number(row.step) }, { label: "Id", cell: (row) => h("code", {}, row.id || "–") }, { label: "Status", cell: (row) => row.status || "–" },
      ], data.checkpoints, { empty: "No checkpoint yet." })),
      section("Configuration", h("dl", { class: "facts" }, [["Environments", data.environments.join(", ")], ["Config", data.config], ["Resumed from", data.resumed_from]].filter(([, value]) => value).map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))),
      Object.keys(data.missing).length > 0 && note("Not read: ", Object.entries(data.missing).map(([name, why]) => `${name} (${why})`).join(", ")),
    ].filter(Boolean),
  };
}
