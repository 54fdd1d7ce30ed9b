// Pictures as SVG, each with a sentence for those who do not see it.

import { h, number, svg } from "./dom.js";

/** Pixels for a picture that shares its row with others, so that its text keeps its size. */
function room(parts) {
  const style = getComputedStyle(document.getElementById("main"));
  const width = document.getElementById("main").clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const each = parts > 1 && width >= 784 ? (width - 16 * (parts - 1)) / parts : width;
  return Math.max(240, Math.round(each) - 38);
}

/** Bars for counts between 0 and 1. */
export function histogram(bins, label, unit = "rollouts") {
  const most = Math.max(1, ...bins);
  const width = room(2), height = 190, left = 14 + 7 * number(most).length, bottom = 24, top = 8;
  const step = (width - left - 8) / bins.length;
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  const ticks = most > 1 ? [0, most / 2, most] : [0, most];
  const total = bins.reduce((a, b) => a + b, 0);
  const share = (value) => number(value / (bins.length - 1), 2);
  const peak = bins.indexOf(most);
  const said = `${label}: ${number(total)} ${unit}; most (${number(most)}) at ${share(peak)}, ${number(bins[0])} at 0, ${number(bins.at(-1))} at 1.`;
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
      ticks.map((value) => [
        svg("line", { class: "grid", x1: left, x2: width - 8, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick end", x: left - 6, y: y(value) + 4 }, number(value)),
      ]),
      bins.map((value, at) =>
        svg("rect", { class: `bar ${at === 0 ? "zero" : at === bins.length - 1 ? "full" : ""}`, x: left + at * step + 1.5, y: y(value), width: Math.max(1, step - 3), height: Math.max(value ? 1.5 : 0, height - bottom - y(value)), rx: 2 },
          svg("title", {}, `${number(value)} ${unit} at ${share(at)}`))),
      [0, 0.25, 0.5, 0.75, 1].map((value) => svg("text", { class: "tick mid", x: left + (value * (bins.length - 1) + 0.5) * step, y: height - 6 }, String(value)))),
    h("figcaption", {}, label));
}

/** Mean of every task, from hard to easy. */
export function taskBars(means, perBar, tasks) {
  const width = room(2), height = 190, left = 40, bottom = 22, top = 8;
  const step = (width - left - 8) / Math.max(1, means.length);
  const y = (value) => top + (height - top - bottom) * (1 - Math.min(1, Math.max(0, value)));
  const never = means.filter((mean) => mean <= 0).length * perBar;
  const always = means.filter((mean) => mean >= 1).length * perBar;
  const label = "Mean of each task, hardest first";
  return h("figure", { class: "chart" },
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${label}: ${number(tasks)} tasks, about ${number(Math.min(never, tasks))} at 0 and ${number(Math.min(always, tasks))} at 1.` },
      [0, 0.5, 1].map((value) => [
        svg("line", { class: "grid", x1: left, x2: width - 8, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick end", x: left - 6, y: y(value) + 4 }, String(value)),
      ]),
      means.map((mean, at) => svg("rect", { class: "bar task", x: left + at * step + 0.4, y: mean <= 0 ? height - bottom - 2 : y(mean), width: Math.max(0.8, step - 0.8), height: Math.max(2, height - bottom - y(mean)) })),
      svg("text", { class: "tick", x: left, y: height - 5 }, "hardest"),
      svg("text", { class: "tick end", x: width - 8, y: height - 5 }, "easiest")),
    h("figcaption", {}, label, perBar > 1 ? ` (${number(perBar)} tasks a bar)` : ""));
}

/** Lines over steps. `lines`: [{title, points}]; `marks`: [{step, text}] for the onset of anomalies. */
export function lineChart(title, lines, { marks = [], max = null, parts = 1, zero = false } = {}) {
  const width = room(parts), height = parts > 1 ? 180 : 260, left = 52, bottom = 26, top = 14, right = 12;
  const all = lines.flatMap((line) => line.points);
  const lastStep = Math.max(1, max ?? 0, ...all.map((p) => p[0])), firstStep = Math.min(...all.map((p) => p[0]));
  let low = Math.min(...all.map((p) => p[1])), high = Math.max(...all.map((p) => p[1]));
  if (low >= 0 && (zero || low < 0.5 * high)) low = 0;
  if (high === low) { high += Math.abs(high) * 0.1 || 1; low -= Math.abs(low) * 0.1; }
  const x = (step) => left + ((step - firstStep) / Math.max(1, lastStep - firstStep)) * (width - left - right);
  const y = (value) => top + (1 - (value - low) / (high - low)) * (height - top - bottom);
  const ticks = [0, 1, 2, 3].map((at) => low + (at / 3) * (high - low));
  const digits = digitsBetween(ticks, high - low >= 20 ? 0 : high - low >= 1 ? 1 : high - low >= 0.05 ? 2 : 4);
  const said = lines.map((line) => `${line.title} from ${number(line.points[0][1], digits)} at step ${line.points[0][0]} to ${number(line.points.at(-1)[1], digits)} at step ${line.points.at(-1)[0]}`).join("; ");
  const steps = [firstStep, Math.round((firstStep + lastStep) / 2), lastStep];
  return h("figure", { class: "chart" },
    h("figcaption", {}, title, lines.length > 1 && h("span", { class: "legend" }, lines.map((line, at) => h("span", { class: `key line-${at % 4}` }, line.title)))),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${said}.${marks.length ? ` Anomalies: ${marks.map((m) => `${m.text} since step ${m.step}`).join(", ")}.` : ""}` },
      ticks.map((value) => [
        svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }),
        svg("text", { class: "tick end", x: left - 6, y: y(value) + 4 }, number(value, digits)),
      ]),
      steps.map((step, at) => svg("text", { class: `tick ${at === 0 ? "" : at === 2 ? "end" : "mid"}`, x: x(step), y: height - 6 }, `${at === 0 ? "step " : ""}${step}`)),
      marks.map((mark) => [
        svg("line", { class: "mark", x1: x(mark.step), x2: x(mark.step), y1: top, y2: height - bottom }),
        svg("text", { class: "tick marked", x: Math.min(x(mark.step) + 4, width - 90), y: top + 8 }, mark.text),
      ]),
      lines.map((line, at) => [
        line.points.length > 1 && svg("polyline", { class: `line line-${at % 4}`, points: line.points.map((p) => `${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`).join(" ") }),
        (line.points.length <= 12 ? line.points : [line.points.at(-1)]).map((p) => svg("circle", { class: `dot line-${at % 4}`, cx: x(p[0]), cy: y(p[1]), r: 3.2 }, svg("title", {}, `step ${p[0]}: ${number(p[1], 4)}`))),
      ])));
}

/** The fewest digits, from `least` on, with which no two ticks read the same. */
function digitsBetween(ticks, least) {
  let digits = least;
  while (digits < 8 && new Set(ticks.map((value) => number(value, digits))).size < ticks.length) digits += 1;
  return digits;
}

/** A small bar for a share in a table. */
export function shareBar(share, text) {
  if (share === null || share === undefined) return "–";
  const bounded = Math.min(1, Math.max(0, share));
  return h("span", { class: "sharebar" }, h("span", { class: "rail", "aria-hidden": "true" }, h("span", { class: "fill", vars: { "--share": `${100 * bounded}%` } })), text);
}
