"""The report of `watch_run` about a training run, of at most about 2,000 tokens. It only reads and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from prime_lab_mcp.lab.base.codes import recorded_code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Link, Next
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training.anomalies import Anomaly
from prime_lab_mcp.lab.training.continuation import EarlierRuns
from prime_lab_mcp.lab.training.control import submission_again
from prime_lab_mcp.lab.training.outcome import RunOutcome, WorkedAnswer, doubted_outcome, ended_early, explaining_codes
from prime_lab_mcp.lab.training.summary import (
    best_checkpoint,
    error_lines,
    held_out_summary,
    instructive_rollouts,
    recent_rows,
    reward_summary,
)
from prime_lab_mcp.lab.training.watch import RunReading, likely_dollars

_MOST = 6
"""Number of anomalies that the report describes in full. Of the others it lists the codes."""
_ENVIRONMENTS = 5
_STAND_IN = "the rehearsal's own, made up, and not of this environment"
"""What the rollouts of a rehearsed run are: its stand-in adds numbers, whatever the environment asks."""
_NO_EARLIER_RUNS = EarlierRuns()
_WORKED: dict[WorkedAnswer, str] = {
    "yes": "It worked: the reward on the held-out tasks rose.",
    "no": "It did not work: the reward on the held-out tasks fell.",
    "not shown": "Whether it worked is not shown: no difference beyond chance.",
    "doubtful": "The reward on the held-out tasks rose, but {anomalies} could explain that: read rollouts first.",
    "ended early": "Whether it would have worked is not known: {because}.",
    "not held out": "Whether it got better at tasks that it was not trained on is not known: {because}.",
    "unknown": "Whether it worked is not known yet: nothing was evaluated before and after.",
}


def outcome(
    id: str,
    reading: RunReading,
    known: Run | None,
    after: RunOutcome | None = None,
    earlier: EarlierRuns = _NO_EARLIER_RUNS,
    later: Sequence[str] = (),
    *,
    rehearsed: bool = False,
) -> Outcome:
    """Build the report.

    `after` is the summary of an ended run. `earlier` has the runs that the run continues, and `later` the ids of those
    that continue it, newest first. `rehearsed` says that the rehearsal's stand-in made the run up.
    """
    if after is not None:
        doubted = doubted_outcome(after, reading.anomalies)
        after = ended_early(doubted, reading.status, reading.step, reading.max_steps)
    data: dict[str, Any] = {
        "id": id,
        "kind": "training",
        "name": reading.run.get("name"),
        "status": reading.status,
        "step": reading.step,
        "max_steps": reading.max_steps,
        "eta_seconds": round(reading.eta) if reading.eta is not None else None,
        "model": reading.run.get("base_model"),
        "environments": _environments(reading),
        "queue": _queue(reading),
        "resumed_from": list(earlier.ids) or None,
        "continued_as": list(later) or None,
        "reward": reward_summary(reading.rows),
        "held_out": held_out_summary(reading.rows),
        "recent": recent_rows(reading.rows),
        "reward_distribution": _bins(reading),
        "rollouts": _rollouts(reading, rehearsed),
        "spend": _spend(reading, known, earlier),
        "checkpoints": [{k: c.get(k) for k in ("step", "id", "status")} for c in reading.checkpoints[-5:]],
        "best_checkpoint": best_checkpoint(reading.checkpoints, reading.rows),
        "anomalies": [_anomaly(a, reading) for a in reading.anomalies[:_MOST]],
        "more_anomalies": [a.code for a in reading.anomalies[_MOST:]] or None,
        "after": after.data if after else None,
    }
    findings = [
        *_ended(reading, later),
        *(_finding(a, reading) for a in reading.anomalies[:_MOST]),
        *_unread_findings(reading),
    ]
    return Outcome(
        _status(reading),
        _summary(id, reading, data, later) + ("" if later else _worked(after, reading, rehearsed)) + _made_up(data),
        tuple(findings),
        {key: value for key, value in data.items() if value not in (None, {})},
        _calls(id, reading, known, after, later) or (Next("workflow_status", "where things stand"),),
        _links(id, known),
        facts=Facts(touches_platform=True),
    )


def _worked(after: RunOutcome | None, reading: RunReading, rehearsed: bool) -> str:
    if after is None:
        return ""
    because = after.data["because"]
    anomalies = " and ".join(part for part in (explaining_codes(reading.anomalies), _hole(after)) if part)
    answer = _WORKED[after.worked].format(anomalies=anomalies, because=because)
    if after.worked == "not shown" and any(call.tool == "run_eval" for call in after.next):
        answer += " The evaluation in next has more rollouts of the same tasks and pairs them, which can show it."
    if not rehearsed or after.worked == "unknown":
        return f" {answer}"
    return f" This is the rehearsal: nothing was trained, and its numbers are made up. They say: {answer}"


def _hole(after: RunOutcome) -> str:
    """A known hole of the reward, as something that could explain a rise; empty without one."""
    holes = after.data.get("reward_holes") or ()
    return f"a hole of the reward ({holes[0]})" if holes else ""


def _rollouts(reading: RunReading, rehearsed: bool) -> dict[str, Any] | None:
    rollouts = instructive_rollouts(reading.rollouts)
    return {"made_up": _STAND_IN, **rollouts} if rollouts is not None and rehearsed else rollouts


def _made_up(data: dict[str, Any]) -> str:
    """What the rollouts of a rehearsal are, in the summary that shows them; empty for others."""
    rollouts = data["rollouts"]
    return (
        f" Reward, cost and rollouts shown are {_STAND_IN}." if rollouts is not None and "made_up" in rollouts else ""
    )


def _links(id: str, known: Run | None) -> tuple[Link, ...]:
    run = Link(f"lab://runs/{id}", "the run")
    return (run, Link(f"lab://runs/{id}/card", "how to make it again")) if known else (run,)


def _status(reading: RunReading) -> Literal["passed", "failed", "running"]:
    if reading.status in ("FAILED", "STOPPED"):
        return "failed"
    return "passed" if reading.status in ("COMPLETED", "PAUSED") else "running"


def _ended(reading: RunReading, later: Sequence[str]) -> list[Finding]:
    if reading.status == "FAILED":
        return [_failed(reading)]
    if reading.status == "STOPPED":
        fix = Fix(
            "Call ", NamedCall("submit_training", again=True), " to run it once more, or use its last checkpoint."
        )
        return [Finding("run-stopped", "blocker", "the run was stopped before it was done", fix)]
    if reading.status == "PAUSED":
        if later:
            message = f"the run is paused at a checkpoint, and goes on as run {later[0]}"
            return [Finding("run-paused", "info", message, f"Watch {later[0]} instead; this one is not billed.")]
        message = "the run is paused at a checkpoint; nothing is billed"
        return [Finding("run-paused", "warning", message, "control_run resume goes on as a new run.")]
    return []


def _failed(reading: RunReading) -> Finding:
    analysis = reading.run.get("failure_analysis")
    cause = analysis.get("rootCause") or analysis.get("root_cause") if isinstance(analysis, dict) else None
    reason = quote(str(reading.run.get("error_message") or cause or "no reason given"))
    rows = [{"log": component, "line": line} for component, log in reading.logs.items() for line in error_lines(log, 4)]
    fix = Fix(
        "Mend the cause (`prime train logs` has more), check the config, then ",
        NamedCall("submit_training", again=True),
        ".",
    )
    return Finding("run-failed", "blocker", f"the run failed: {reason}", fix, rows=tuple(rows[:8]))


def _finding(anomaly: Anomaly, reading: RunReading) -> Finding:
    burned = reading.spent_since(anomaly.since_step)
    cost = f" (about ${burned:.2f} since)" if burned and anomaly.code not in ("overrun", "queue") else ""
    since = "" if anomaly.code == "queue" else f"since step {anomaly.since_step}: "
    rows: tuple[dict[str, Any], ...] = ()
    if anomaly.code == "errors" and reading.status != "FAILED":
        rows = tuple({"log": "env-server", "line": line} for line in error_lines(reading.logs.get("env-server", ""), 3))
    message = f"{since}{anomaly.cause}{cost}"
    return Finding(recorded_code(f"run-{anomaly.code}"), "warning", message, anomaly.advice, rows=rows)


def _anomaly(anomaly: Anomaly, reading: RunReading) -> dict[str, Any]:
    burned = reading.spent_since(anomaly.since_step)
    return anomaly.as_json() | ({"burned": burned} if burned is not None else {})


def _unread_findings(reading: RunReading) -> list[Finding]:
    return [
        Finding("run-incomplete", "info", f"{name} could not be read: {error.message}", error.fix)
        for name, error in reading.missing.items()
        if error.code != "platform-not-found"
    ]


def _environments(reading: RunReading) -> list[Any]:
    listed = [e.get("id") for e in reading.run.get("environments") or () if isinstance(e, dict)]
    more = [f"and {len(listed) - _ENVIRONMENTS} more"] if len(listed) > _ENVIRONMENTS else []
    return [*listed[:_ENVIRONMENTS], *more]


def _queue(reading: RunReading) -> dict[str, Any] | None:
    if reading.status not in ("QUEUED", "PENDING"):
        return None
    reason = reading.run.get("queue_reason")
    return {"runs_ahead": reading.run.get("runs_ahead"), "reason": quote(str(reason), 160) if reason else None}


def _spend(reading: RunReading, known: Run | None, earlier: EarlierRuns) -> dict[str, Any]:
    whole = earlier.spend + reading.spend if earlier.spend is not None and reading.spend is not None else None
    spend = {
        "total": reading.spend,
        "with_earlier_runs": round(whole, 4) if whole is not None else None,
        "expected_total": round(reading.expected, 2) if reading.expected is not None else None,
        "price_per_hour": known.price_per_hour if known else None,
        "agreed_limit": known.max_cost if known else None,
        "likely": list(likely) if (likely := likely_dollars(known)) else None,
    }
    return {key: value for key, value in spend.items() if value is not None}


def _bins(reading: RunReading) -> dict[str, Any] | None:
    bins = [b for b in reading.distribution.get("bins") or () if isinstance(b, dict) and b.get("count")]
    if not bins:
        return None
    rows = [[b.get("min"), b.get("max"), b.get("count")] for b in bins[:20]]
    return {"step": reading.distribution.get("step"), "min_max_count": rows}


def _summary(id: str, reading: RunReading, data: dict[str, Any], later: Sequence[str]) -> str:
    done = reading.step + 1 if reading.step is not None else 0
    of = f" of {reading.max_steps:,}" if reading.max_steps else ""
    reward = data["reward"]
    earned = f", reward {reward['first']:.2f} -> {reward['now']:.2f}" if reward else ""
    so_far = "" if reading.status in ("COMPLETED", "STOPPED", "FAILED") else " so far"
    cost = f", ${reading.spend:.2f}{so_far}" if reading.spend is not None else ""
    likely = data["spend"].get("likely")
    if likely and reading.spend is not None and reading.spend > likely[2]:
        cost += f" (more than the likely ${likely[0]:.2f} to ${likely[2]:.2f})"
    whole = data["spend"].get("with_earlier_runs")
    cost += (
        f" (${whole:.2f} with {' and '.join(data['resumed_from'])}, which it continues)" if whole is not None else ""
    )
    left = f", about {_duration(reading.eta)} to go" if reading.eta else ""
    worst = f"; look at {reading.anomalies[0].code}" if reading.anomalies else ""
    stands = {
        "COMPLETED": "is COMPLETED, it made all its steps",
        "PAUSED": f"is PAUSED at a checkpoint and goes on as {later[0]}" if later else "is PAUSED at a checkpoint",
        "STOPPED": "was STOPPED before its end",
    }.get(reading.status, f"is {reading.status}")
    return f"Run {id} {stands}: {done:,}{of} steps{earned}{cost}{left}{worst}."


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _calls(
    id: str, reading: RunReading, known: Run | None, after: RunOutcome | None, later: Sequence[str]
) -> tuple[Next, ...]:
    """The next calls. A paused run comes first to its end; only then the checkpoint is judged."""
    if later:
        return (Next("watch_run", "the run that continues it", {"id": later[0]}),)
    judged = after.next if after else ()
    if reading.status == "PAUSED":
        return (*_next(id, reading), *judged)
    again = submission_again(known) if reading.status == "STOPPED" else None
    return (*judged, *((again,) if again is not None else _next(id, reading)))


def _next(id: str, reading: RunReading) -> tuple[Next, ...]:
    again = Next("watch_run", "look again in a few minutes", {"id": id})
    if reading.status == "PAUSED":
        return (Next("control_run", "go on from the checkpoint", {"id": id, "action": "resume"}),)
    if reading.status == "COMPLETED":
        return ()
    if reading.status in ("FAILED", "STOPPED"):
        return (Next("workflow_status", "what to do next"),)
    if any(a.level == "stop" for a in reading.anomalies):
        return (Next("control_run", "ends the billing; ask the user first", {"id": id, "action": "stop"}), again)
    return (again,)
