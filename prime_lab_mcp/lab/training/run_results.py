"""Writes the results section of a run card: rewards before and after with intervals, checkpoints, cost and anomalies.

The numbers are those of `watch_run`. The section states what the platform did not send.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.statistics import student_interval
from prime_lab_mcp.lab.base.text import as_mapping, quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.continuation import earlier_runs
from prime_lab_mcp.lab.training.metrics import WINDOW_STEPS, MetricPoint, held_out_series, reward_series
from prime_lab_mcp.lab.training.outcome import RunOutcome, doubted_outcome, ended_early, run_outcome
from prime_lab_mcp.lab.training.summary import best_checkpoint
from prime_lab_mcp.lab.training.watch import RunReading, watch_run

_CHECKPOINTS, _ANOMALIES = 10, 10


async def run_results(lab: Lab, run: Run) -> str:
    """The section `Results` of a card. Raises LabError if the platform cannot be asked about the run."""
    reading = await watch_run(lab, run.id, run, count_cost=False)
    series = (await earlier_runs(lab, run)).joined(held_out_series(reading.rows))
    outcome = await run_outcome(lab, run.id, reading.run, reading.checkpoints, series)
    return text_of_results(run, reading, doubted_outcome(outcome, reading.anomalies), rehearsed=lab.settings.rehearsal)


def text_of_results(run: Run, reading: RunReading, outcome: RunOutcome, *, rehearsed: bool = False) -> str:
    """The section `Results` as Markdown. `rehearsed` says that a rehearsal made the run up."""
    judged = ended_early(outcome, reading.status, reading.step, reading.max_steps)
    return "\n".join(_lines(run, reading, judged, rehearsed))


def _lines(run: Run, reading: RunReading, outcome: RunOutcome, rehearsed: bool) -> Iterator[str]:
    yield "\n## Results\n"
    steps = "no step ended yet" if reading.step is None else f"{reading.step + 1:,} of {reading.max_steps or '?'} steps"
    yield f"- Status when this page was made: {quote(reading.status, 40)}, {steps}"
    made_up = "made up, since a rehearsal trains nothing: " if rehearsed else ""
    yield f"- Whether it worked: {made_up}{outcome.worked}; {quote(str(outcome.data['because']), 400)[1:-1]}"
    yield _reward_line(reward_series(reading.rows).points)
    yield from _held_out_lines(reading, outcome.data)
    yield from _checkpoint_lines(reading)
    yield _spend_line(run, reading)
    yield from _anomaly_lines(reading)
    for name, error in reading.missing.items():
        if error.code != "platform-not-found":
            yield f"- Missing: {name} could not be read ({error.message})"


def _reward_line(points: Sequence[MetricPoint]) -> str:
    if not points:
        return "- Training reward: missing, the run has no metrics"
    first, last = ([value for _, value in part] for part in (points[:WINDOW_STEPS], points[-WINDOW_STEPS:]))
    return (
        f"- Training reward, mean of the first {len(first)} and the last {len(last)} steps: {_mean(first)} before, "
        f"{_mean(last)} after"
    )


def _mean(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f"{values[0]:.3f}"
    interval = student_interval(values)
    return f"{interval.value:.3f} ({interval.low:.3f} to {interval.high:.3f})"


def _held_out_lines(reading: RunReading, after: Mapping[str, Any]) -> Iterator[str]:
    for one in after.get("held_out") or ():
        first, last = one["first"], one["last"]
        half = f" ± {one['half_width']:.3f}" if "half_width" in one else ", without an interval"
        yield (
            f"- Held-out reward on {quote(one['source'], 80)}: {first['mean']:.3f} at step {first['step']}, "
            f"{last['mean']:.3f} at step {last['step']}; difference {one['difference']:+.3f}{half}: {one['result']}"
        )
    for one in after.get("comparisons") or ():
        difference = as_mapping(one["difference"])
        yield (
            f"- The checkpoint against the base model on {one['tasks']} tasks of {quote(one['environment'], 80)}: "
            f"{difference['value']:+.3f} of attainable ({difference['low']:+.3f} to {difference['high']:+.3f}); "
            f"lab://evals/{one['trained']}/report, lab://evals/{one['base']}/report"
        )
    if not after.get("held_out") and not after.get("comparisons"):
        evaluated = "once" if any(held_out_series(reading.rows).values()) else "never"
        yield f"- Held-out reward before and after: missing, the run evaluated held-out tasks {evaluated}"


def _checkpoint_lines(reading: RunReading) -> Iterator[str]:
    if not reading.checkpoints:
        yield "- Checkpoints: none"
        return
    listed = [f"step {c.get('step')} ({quote(str(c.get('status') or '?'), 30)[1:-1]})" for c in reading.checkpoints]
    more = f" and {len(listed) - _CHECKPOINTS} earlier" if len(listed) > _CHECKPOINTS else ""
    yield f"- Checkpoints: {', '.join(listed[-_CHECKPOINTS:])}{more}"
    best = best_checkpoint(reading.checkpoints, reading.rows)
    if best is not None:
        yield f"- Best checkpoint by {best['by']}: step {best['step']} ({best['reward']})"


def _spend_line(run: Run, reading: RunReading) -> str:
    spent = f"${reading.spend:.2f}" if reading.spend is not None else "missing"
    bound = f"${run.max_cost:.2f}" if run.max_cost is not None else "none is known"
    expected = f"; about ${reading.expected:.2f} at its end" if reading.expected is not None else ""
    return f"- Spent: {spent}{expected}; upper bound: {bound}"


def _anomaly_lines(reading: RunReading) -> Iterator[str]:
    if not reading.anomalies:
        yield "- Anomalies: none"
    for anomaly in reading.anomalies[:_ANOMALIES]:
        burned = reading.spent_since(anomaly.since_step)
        cost = f" (about ${burned:.2f} since)" if burned else ""
        yield f"- Anomaly {anomaly.code} since step {anomaly.since_step}: {quote(anomaly.cause, 300)[1:-1]}{cost}"
