"""The report of `watch_run` about a training run, of at most about 2,000 tokens. It only reads and changes nothing."""

from __future__ import annotations

from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import recorded_code
from prime_lab_mcp.lab.base.report import Finding, Link, Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.outcome import RunOutcome, WorkedAnswer
from prime_lab_mcp.lab.training.summary import (
    best_checkpoint,
    error_lines,
    held_out_summary,
    instructive_rollouts,
    recent_rows,
    reward_summary,
)
from prime_lab_mcp.lab.training.watch import RunReading

_MOST = 6
"""Number of anomalies that the report describes in full. Of the others it lists the codes."""
_ENVIRONMENTS = 5
_WORKED: dict[WorkedAnswer, str] = {
    "yes": "It worked: the reward on the tasks that count rose.",
    "no": "It did not work: the reward on the tasks that count fell.",
    "not shown": "Whether it worked is not shown: no difference beyond chance.",
    "unknown": "Whether it worked is not known yet: nothing was evaluated before and after.",
}


def outcome(id: str, seen: RunReading, known: Run | None, after: RunOutcome | None = None) -> Outcome:
    """Build the report. `after` is the summary of an ended run."""
    data: dict[str, Any] = {
        "id": id,
        "kind": "training",
        "name": seen.run.get("name"),
        "status": seen.status,
        "step": seen.step,
        "max_steps": seen.max_steps,
        "eta_seconds": round(seen.eta) if seen.eta is not None else None,
        "model": seen.run.get("base_model"),
        "environments": _environments(seen),
        "queue": _queue(seen),
        "reward": reward_summary(seen.rows),
        "held_out": held_out_summary(seen.rows),
        "recent": recent_rows(seen.rows),
        "reward_distribution": _bins(seen),
        "rollouts": instructive_rollouts(seen.rollouts),
        "spend": _spend(seen, known),
        "checkpoints": [{k: c.get(k) for k in ("step", "id", "status")} for c in seen.checkpoints[-5:]],
        "best_checkpoint": best_checkpoint(seen.checkpoints, seen.rows),
        "anomalies": [_anomaly(a, seen) for a in seen.anomalies[:_MOST]],
        "more_anomalies": [a.code for a in seen.anomalies[_MOST:]] or None,
        "after": after.data if after else None,
    }
    findings = [*_ended(seen), *(_finding(a, seen) for a in seen.anomalies[:_MOST]), *_untold(seen)]
    return Outcome(
        _status(seen),
        _summary(id, seen, data) + (f" {_WORKED[after.worked]}" if after else ""),
        tuple(findings),
        {key: value for key, value in data.items() if value not in (None, {})},
        (*(after.next if after else ()), *_next(id, seen)) or (Next("workflow_status", "where things stand"),),
        _links(id, known),
        facts=Facts(touches_platform=True),
    )


def _links(id: str, known: Run | None) -> tuple[Link, ...]:
    run = Link(f"lab://runs/{id}", "the run")
    return (run, Link(f"lab://runs/{id}/card", "how to make it again")) if known else (run,)


def _status(seen: RunReading) -> Literal["passed", "failed", "running"]:
    if seen.status in ("FAILED", "STOPPED"):
        return "failed"
    return "passed" if seen.status in ("COMPLETED", "PAUSED") else "running"


def _ended(seen: RunReading) -> list[Finding]:
    if seen.status == "FAILED":
        return [_failed(seen)]
    if seen.status == "STOPPED":
        fix = "Call submit_training(again=true) to run it once more, or use its last checkpoint."
        return [Finding("run-stopped", "blocker", "the run was stopped before it was done", fix)]
    if seen.status == "PAUSED":
        message = "the run is paused at a checkpoint; nothing is billed"
        return [Finding("run-paused", "warning", message, "control_run resume goes on as a new run.")]
    return []


def _failed(seen: RunReading) -> Finding:
    analysis = seen.run.get("failure_analysis")
    cause = analysis.get("rootCause") or analysis.get("root_cause") if isinstance(analysis, dict) else None
    said = quote(str(seen.run.get("error_message") or cause or "no reason given"))
    rows = [{"log": component, "line": line} for component, log in seen.logs.items() for line in error_lines(log, 4)]
    fix = "Mend the cause (`prime train logs` has more), check the config, then submit_training(again=true)."
    return Finding("run-failed", "blocker", f"the run failed: {said}", fix, rows=tuple(rows[:8]))


def _finding(anomaly: Anomaly, seen: RunReading) -> Finding:
    burned = seen.burned_since(anomaly.since_step)
    cost = f" (about ${burned:.2f} since)" if burned and anomaly.code not in ("overrun", "queue") else ""
    since = "" if anomaly.code == "queue" else f"since step {anomaly.since_step}: "
    rows: tuple[dict[str, Any], ...] = ()
    if anomaly.code == "errors" and seen.status != "FAILED":
        rows = tuple({"log": "env-server", "line": line} for line in error_lines(seen.logs.get("env-server", ""), 3))
    message = f"{since}{anomaly.cause}{cost}"
    return Finding(recorded_code(f"run-{anomaly.code}"), "warning", message, anomaly.advice, rows=rows)


def _anomaly(anomaly: Anomaly, seen: RunReading) -> dict[str, Any]:
    burned = seen.burned_since(anomaly.since_step)
    return anomaly.as_json() | ({"burned": burned} if burned is not None else {})


def _untold(seen: RunReading) -> list[Finding]:
    return [
        Finding("run-incomplete", "info", f"{name} could not be read: {error.message}", error.fix)
        for name, error in seen.missing.items()
        if error.code != "platform-not-found"
    ]


def _environments(seen: RunReading) -> list[Any]:
    listed = [e.get("id") for e in seen.run.get("environments") or () if isinstance(e, dict)]
    more = [f"and {len(listed) - _ENVIRONMENTS} more"] if len(listed) > _ENVIRONMENTS else []
    return [*listed[:_ENVIRONMENTS], *more]


def _queue(seen: RunReading) -> dict[str, Any] | None:
    if seen.status not in ("QUEUED", "PENDING"):
        return None
    reason = seen.run.get("queue_reason")
    return {"runs_ahead": seen.run.get("runs_ahead"), "reason": quote(str(reason), 160) if reason else None}


def _spend(seen: RunReading, known: Run | None) -> dict[str, Any]:
    found = {
        "total": seen.spend,
        "expected_total": round(seen.expected, 2) if seen.expected is not None else None,
        "price_per_hour": known.price_per_hour if known else None,
        "agreed_limit": known.max_cost if known else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _bins(seen: RunReading) -> dict[str, Any] | None:
    bins = [b for b in seen.distribution.get("bins") or () if isinstance(b, dict) and b.get("count")]
    if not bins:
        return None
    shown = [[b.get("min"), b.get("max"), b.get("count")] for b in bins[:20]]
    return {"step": seen.distribution.get("step"), "min_max_count": shown}


def _summary(id: str, seen: RunReading, data: dict[str, Any]) -> str:
    done = seen.step + 1 if seen.step is not None else 0
    of = f" of {seen.max_steps:,}" if seen.max_steps else ""
    reward = data["reward"]
    earned = f", reward {reward['first']:.2f} -> {reward['now']:.2f}" if reward else ""
    cost = f", ${seen.spend:.2f} so far" if seen.spend is not None else ""
    left = f", about {_duration(seen.eta)} to go" if seen.eta else ""
    worst = f"; look at {seen.anomalies[0].code}" if seen.anomalies else ""
    stands = {
        "COMPLETED": "is COMPLETED, it made all its steps",
        "PAUSED": "is PAUSED at a checkpoint",
        "STOPPED": "was STOPPED before its end",
    }.get(seen.status, f"is {seen.status}")
    return f"Run {id} {stands}: {done:,}{of} steps{earned}{cost}{left}{worst}."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _next(id: str, seen: RunReading) -> tuple[Next, ...]:
    again = Next("watch_run", "look again in a few minutes", {"id": id})
    if seen.status == "PAUSED":
        return (Next("control_run", "go on from the checkpoint", {"id": id, "action": "resume"}),)
    if seen.status == "COMPLETED":
        return ()
    if seen.status in ("FAILED", "STOPPED"):
        return (Next("workflow_status", "what to do next"),)
    if any(a.level == "stop" for a in seen.anomalies):
        return (Next("control_run", "ends the billing; ask the user first", {"id": id, "action": "stop"}), again)
    return (again,)
