// Spending: every dollar, bound and actual, by environment and by evaluation, run and judge.

import { shareBar } from "./charts.js";
import { ago, badge, dollars, h, number, section, sortable, tile, tiles } from "./dom.js";
import { get } from "./shell.js";

export async function all() {
  const data = await get("spend");
  const total = data.total, most = Math.max(1e-9, ...data.environments.map((one) => one.counted));
  return {
    title: "Spend",
    data: data,
    refresh: 15,
    content: [
      tiles(
        tile("Committed", dollars(total.counted), data.cap !== null ? `of the cap of ${dollars(data.cap)}` : "no cap is set"),
        tile("Known to be spent", dollars(total.actual)),
        tile("Still reserved", dollars(Math.max(0, total.counted - total.actual))),
        tile("Without a price", number(total.unpriced), total.unpriced ? "not in the sums" : null),
      ),
      section("By environment", sortable("Spending by environment", [
        { label: "Environment", sort: "name", value: (row) => row.name, cell: (row) => row.name },
        { label: "Committed", sort: "counted", value: (row) => row.counted, cell: (row) => shareBar(row.counted / most, dollars(row.counted)) },
        { label: "Bound", numeric: true, sort: "bound", value: (row) => row.bound, cell: (row) => dollars(row.bound) },
        { label: "Actual", numeric: true, sort: "actual", value: (row) => row.actual, cell: (row) => dollars(row.actual) },
        { label: "Entries", numeric: true, cell: (row) => [number(row.entries), row.unpriced ? ` (${row.unpriced} unpriced)` : ""] },
      ], data.environments, { empty: "Nothing was spent." })),
      section("Every entry", sortable("Evaluations, runs and judges", [
        { label: "What", sort: "id", value: (row) => row.id, cell: (row) => entry(row) },
        { label: "Environment", cell: (row) => [row.environments.join(" + ") || "–", row.elsewhere ? " (another workspace)" : ""] },
        { label: "Bound", numeric: true, sort: "bound-of", value: (row) => row.bound, cell: (row) => dollars(row.bound) },
        { label: "Actual", numeric: true, sort: "actual-of", value: (row) => row.actual, cell: (row) => dollars(row.actual) },
        { label: "Price", wide: true, cell: (row) => (row.unpriced ? [badge("warning", "unpriced"), " ", row.unpriced] : "known") },
        { label: "When", sort: "at", value: (row) => row.at, cell: (row) => ago(row.at) },
      ], data.entries, { empty: "Nothing was spent or reserved yet." })),
    ],
  };
}

function entry(row) {
  const place = { evaluation: "evaluations", "hosted evaluation": "evaluations", "training run": "runs" }[row.kind];
  const text = [`${row.kind} `, h("span", { class: "tight" }, row.id)];
  return place && !row.elsewhere ? h("a", { href: `#/${place}/${encodeURIComponent(row.id)}` }, text) : text;
}
