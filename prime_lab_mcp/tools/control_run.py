"""`control_run`: stop an evaluation; stop, pause, resume or restart a training run. What spends again asks first."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from prime_lab_mcp.lab import runs
from prime_lab_mcp.lab.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.evals.hosted import calls as hosted
from prime_lab_mcp.lab.prime.answers import Submitted, number
from prime_lab_mcp.lab.prime.refusals import Refusal
from prime_lab_mcp.lab.records import Run
from prime_lab_mcp.lab.report import Facts, Finding, Next, Outcome
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.tools.names import Slug, Text
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Tool

_NEEDS = {"pause": "RUNNING", "restart": "RUNNING", "resume": "PAUSED"}


class Args(Arguments):
    id: Slug
    action: Annotated[
        Literal["stop", "pause", "resume", "restart"], Field(description="Evals: stop. restart: from a checkpoint.")
    ]
    confirm: Annotated[Text | None, Field(description="Token of an earlier answer.")] = None


@dataclass(frozen=True, slots=True)
class _Resume:
    """A resume intent: `id` of the run it became, where it was sent already."""

    key: str
    id: str | None


async def intent(call: Call, args: Args) -> Intent | None:
    """Only what goes on spending asks; stopping and pausing save money."""
    if args.action in ("stop", "pause") or call.lab.ledger.job(args.id) is not None:
        return None
    run = await call.lab.prime.train_get(args.id)
    if args.action == "resume":
        sent = await _resumed(call, args.id, run)
        if sent.id is not None:
            return Intent("control", sent.key, f"Run {args.id} was resumed as {sent.id}.", ask=False)
        _require(args, run)
        limit, why = _limit(call, args.id, run)
        question = f"Resume training run {args.id} from its checkpoint as a new run: {why} Billing is by the hour."
        return Intent("control", sent.key, question, limit)
    _require(args, run)
    key = _key(call, "restart", args.id)
    question = (
        f"Restart training run {args.id} from its last checkpoint: the steps since then are done and paid for again."
    )
    return Intent("control", key, question, 0.0)


def _require(args: Args, run: dict[str, Any]) -> None:
    status, needed = str(run.get("status") or "UNKNOWN").upper(), _NEEDS.get(args.action)
    if needed is not None and status != needed:
        raise BadInput(
            f"run {args.id} is {status}; {args.action} needs it {needed}",
            fix="Call watch_run with its id to see how it stands; a run that ended is started with submit_training.",
            code=f"run-not-{needed.lower()}",
        )


def _limit(call: Call, id: str, run: dict[str, Any]) -> tuple[float | None, str]:
    known = call.lab.ledger.runs(id=id, platform=call.lab.platform)
    price = known[0].price_per_hour if known else None
    limit = known[0].max_cost if known else None
    if price is None or limit is None:
        return None, "its price per hour is not known here."
    return limit, f"${price:.2f} per hour, at most ${limit:.2f} more (the bound of the whole run)."


async def _resumed(call: Call, id: str, run: dict[str, Any]) -> _Resume:
    """What became of earlier resumes of this run. Raises PrimeError while that cannot be asked."""
    lab = call.lab
    attempt = 1
    while lab.ledger.intent(_key(call, "resume", id, str(attempt + 1)), lab.platform) is not None:
        attempt += 1
    key = _key(call, "resume", id, str(attempt))
    known = lab.ledger.intent(key, lab.platform)
    if known is None or known.state == "open":
        return _Resume(key, None)
    if known.state == "done":
        became = str(known.result["id"])
        if await runs.status_of(lab, became) in (*runs.TERMINAL, "DELETED"):
            return _Resume(_key(call, "resume", id, str(attempt + 1)), None)
        return _Resume(key, became)
    found = [r for r in await lab.prime.train_list(run.get("name")) if _is_later(r, id, known.at)]
    if found:
        lab.ledger.settle(key, lab.platform, {"id": str(found[0]["id"])})
        return _Resume(key, str(found[0]["id"]))
    if not lab.settings.rehearsal and time.time() - known.at < runs.SETTLE_SECONDS:
        raise PrimeError(
            f"whether run {id} was resumed is not known yet; the platform lists no new run so far",
            fix="Call control_run again in eight minutes; it looks before it sends.",
            code="resume-outcome-unknown",
        )
    lab.ledger.release(key, lab.platform, attempt=known.attempt)
    return _Resume(key, None)


def _is_later(found: dict[str, Any], id: str, sent_at: float) -> bool:
    from prime_lab_mcp.lab.watching import when

    created = when(found.get("created_at"))
    return str(found.get("id")) != id and created is not None and created >= sent_at - 60


def _key(call: Call, *parts: str) -> str:
    return hashlib.sha256(json.dumps(["control", *parts, call.lab.platform]).encode()).hexdigest()


async def run(call: Call, args: Args) -> Outcome:
    if call.lab.ledger.job(args.id) is not None:
        return await _eval(call, args)
    known = call.lab.ledger.runs(id=args.id, platform=call.lab.platform)
    if known and known[0].kind == "hosted-eval":
        if args.action != "stop":
            raise _only_stop(args)
        await call.lab.prime.eval_stop(args.id)
        return Outcome("passed", f"Hosted evaluation {args.id} was asked to stop.", data={"id": args.id})
    if args.action == "resume":
        return await _resume(call, args)
    if args.action == "stop":
        return await _stop(call, args)
    _require(args, await call.lab.prime.train_get(args.id))
    act = call.lab.prime.train_pause if args.action == "pause" else call.lab.prime.train_restart
    await act(args.id)
    said = "is pausing at a checkpoint" if args.action == "pause" else "restarts from its last checkpoint"
    return await _now(call, args, f"Run {args.id} {said}")


async def _eval(call: Call, args: Args) -> Outcome:
    if args.action != "stop":
        raise _only_stop(args)
    job = await hosted.stop(call.lab, call.lab.evals.get(args.id))
    return Outcome(
        "passed",
        f"Evaluation {job.id} is {job.state}; its finished rollouts are kept.",
        data={"id": job.id, "kind": "eval", "status": job.state, **dict(job.progress)},
        next=(Next("read_eval", "what the finished rollouts show", {"eval": job.id, "view": "summary"}),),
    )


def _only_stop(args: Args) -> BadInput:
    return BadInput(
        f"an evaluation can only be stopped, not {args.action}d",
        fix="Call run_eval with the same arguments; it goes on where the evaluation ended.",
    )


async def _stop(call: Call, args: Args) -> Outcome:
    status = await runs.status_of(call.lab, args.id)
    if status == "DELETED":
        raise LabError(
            f"the account has no run {quote(args.id, 80)}",
            fix="Call watch_run without an id to list the runs.",
            code="run-not-found",
        )
    if status in runs.TERMINAL:
        return Outcome("passed", f"Run {args.id} had ended already: {status}.", data={"id": args.id, "status": status})
    await call.progress(0.0, None, f"stopping run {args.id}; that may take three minutes")
    await call.lab.prime.train_stop(args.id)
    return await _now(call, args, f"Run {args.id} was stopped")


async def _now(call: Call, args: Args, said: str) -> Outcome:
    status = await runs.status_of(call.lab, args.id)
    findings: tuple[Finding, ...] = ()
    if args.action == "stop" and status not in runs.TERMINAL:
        message = f"the platform still shows run {args.id} as {status}"
        findings = (Finding("run-not-stopped-yet", "warning", message, "Call watch_run until it is STOPPED."),)
    return Outcome(
        "passed",
        f"{said}; it is {status}.",
        findings,
        {"id": args.id, "kind": "training", "status": status, "action": args.action},
        (Next("watch_run", "how it stands", {"id": args.id}),),
        facts=Facts(touches_platform=True),
    )


async def _resume(call: Call, args: Args) -> Outcome:
    lab = call.lab
    paused = await lab.prime.train_get(args.id)
    sent = await _resumed(call, args.id, paused)
    if sent.id is not None:
        return _as_new(args, sent.id, None, deduplicated=True)
    _require(args, paused)
    if call.intent is not None and (call.intent.key != sent.key or not call.intent.ask):
        raise LabError("the run changed while this was being approved", fix="Call again.", code="intent-changed")
    claim = lab.ledger.claim(sent.key, "control", lab.platform)
    if claim.state != "open":
        raise PrimeError("another server is resuming it", fix="Call again in a minute.", code="resume-in-flight")
    try:
        answer = await lab.prime.train_resume(args.id)
    except Refusal as refused:
        if refused.effect == "none":
            lab.ledger.release(sent.key, lab.platform, attempt=claim.attempt)
            raise
        raise PrimeError(
            f"whether run {args.id} was resumed is not known: {refused.message}",
            fix="Call control_run again; it looks the new run up before it sends anything.",
            code="resume-outcome-unknown",
        ) from refused
    _remember(call, args, sent.key, paused, answer)
    return _as_new(args, answer.id, answer.estimated_cost_per_hour, deduplicated=False)


def _remember(call: Call, args: Args, key: str, paused: dict[str, Any], answer: Submitted) -> None:
    lab = call.lab
    before = lab.ledger.runs(id=args.id, platform=lab.platform)
    max_cost, _ = _limit(call, args.id, paused)
    lab.ledger.record_run(
        Run(
            id=answer.id,
            kind="training",
            name=str(paused.get("name") or answer.id),
            workspace=lab.key,
            intent=key,
            platform=lab.platform,
            config_path=before[0].config_path if before else None,
            config_sha256=before[0].config_sha256 if before else None,
            price_per_hour=number(answer.estimated_cost_per_hour),
            max_cost=max_cost,
            data={"resumed_from": args.id, **(dict(before[0].data) if before else {})},
        )
    )
    lab.ledger.commit_spend(key, max_cost or 0.0, f"training run {answer.id}, resumed", lab.platform)
    lab.ledger.settle(key, lab.platform, {"id": answer.id})


def _as_new(args: Args, id: str, price: float | None, *, deduplicated: bool) -> Outcome:
    at = f" at ${price:.2f} per hour" if price is not None else ""
    return Outcome(
        "passed",
        f"Run {args.id} goes on as {id}{at}.",
        data={"id": id, "resumed_from": args.id, "price_per_hour": price, "deduplicated": deduplicated},
        next=(Next("watch_run", "how it stands", {"id": id}),),
        facts=Facts(touches_platform=True),
    )


TOOL = Tool(
    name="control_run",
    title="Control run",
    description="Stop an eval; stop, pause, resume or restart a training run. resume and restart ask first.",
    args=Args,
    run=run,
    effect="spends",
    intent=intent,
    open_world=True,
)
