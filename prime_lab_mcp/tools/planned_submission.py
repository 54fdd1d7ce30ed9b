"""What `submit_training` plans and sends once its gates are open: the question with its price, and the run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, BudgetError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Link, Next
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.author import ConfigRequest, try_config, write_config
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices
from prime_lab_mcp.lab.prime.answers import ValidateAnswer
from prime_lab_mcp.lab.state.gates import NOT_VALIDATED
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training import submission
from prime_lab_mcp.lab.training.bound import CostBound, cost_of
from prime_lab_mcp.lab.training.budget import ConfigBudget, WalletBudget
from prime_lab_mcp.lab.training.preparation import RunPreparation, prepare_run
from prime_lab_mcp.lab.training.resumption import require_not_continued, submission_at
from prime_lab_mcp.lab.training.sources import published_environment_asked_ahead
from prime_lab_mcp.lab.training.submission import RunStanding, write_checked_copy
from prime_lab_mcp.lab.training.watch import note_ended
from prime_lab_mcp.tools.budgeting import fuller_sentence, over_budget
from prime_lab_mcp.tools.submission_question import card_entries, submission_intent
from prime_lab_mcp.tools.submit_training import SIZES, Args, require_hosted
from prime_lab_mcp.tools.tool import Call, Intent, Plan


async def written_config(call: Call, args: Args, environment: str) -> Path:
    """Write a config for an environment within the sizes and the budget of the call, and return its path."""
    request = await _request(call, args, environment)
    fit = ConfigBudget(call.lab, args.budget).fit if args.budget is not None else None
    try:
        written = await write_config(call.lab, request, datetime.now(UTC).date(), fit)
    except BudgetError as error:
        raise over_budget(error, "submit_training", args) from None
    return written.config.path


async def _request(call: Call, args: Args, environment: str) -> ConfigRequest:
    """The request of a config for an environment, with the sizes of the call."""
    choices = ConfigChoices((), model=args.model, **{name: getattr(args, name) for name in SIZES})
    if call.platform is not None:
        environment = await published_environment_asked_ahead(call.lab, environment, call.platform)
    return ConfigRequest((environment,), choices)


def _config(call: Call) -> TrainingConfig:
    return call.training_config()


@dataclass(frozen=True, slots=True)
class SubmissionPlan:
    """`prepared`: the price, wallet, validation and secrets of the question; None if a run exists already."""

    args: Args
    prepared: RunPreparation | None


async def plan(call: Call, args: Args) -> Plan[SubmissionPlan]:
    lab, config = call.lab, _config(call)
    require_hosted(config)  # the file may have been another one when its path was looked up
    at = await submission.run_standing(lab, config, resume_from=args.resume_from, again=args.again)
    if at.state == "existing":
        exists = f"Run {at.id} of this config exists; nothing is sent."
        return Plan(SubmissionPlan(args, None), Intent("submit", at.key, exists, ask=False))
    if args.resume_from is not None:
        await _require_paused(call, args.resume_from)
        await require_not_continued(lab, args.resume_from)
    await call.progress(0.0, 2.0, "asking the platform whether it accepts the config")
    known = await prepare_run(lab, config, await write_checked_copy(lab, config, at.name, at.key), call.platform)
    work = SubmissionPlan(args, known)
    if args.budget is not None and known.cost.max_cost is not None and known.cost.max_cost > args.budget + 1e-9:
        raise _above_budget(call, config, known, args.budget)
    if known.validation.outcome == "invalid":
        refused = "The platform does not accept the config; nothing is sent."
        return Plan(work, Intent("submit", at.key, refused, ask=False))
    wallet = await _affordable(call, config, known, args)
    intent = submission_intent(lab, config, at, known, args.resume_from, wallet)
    fuller = await _fuller(call, args)
    return Plan(work, replace(intent, question=intent.question + fuller) if fuller else intent)


async def _fuller(call: Call, args: Args) -> str:
    """The other run that the budget of the call holds by its likely cost; empty where there is none."""
    if args.budget is None or args.environment is None or args.config is not None:
        return ""
    budget = ConfigBudget(call.lab, args.budget)
    with suppress(LabError):  # The question then names no other run.
        request = await _request(call, args, args.environment)
        await try_config(call.lab, request, datetime.now(UTC).date(), budget.fit)
    other = budget.fuller
    steps = f" and with steps={other.steps}" if other is not None and other.fewer_steps else ""
    return fuller_sentence(other, call=f"this call without budget{steps}")


async def _affordable(call: Call, config: TrainingConfig, known: RunPreparation, args: Args) -> WalletBudget | None:
    """The sizes of a run that cannot outlast the wallet, where this one can; None where it cannot."""
    most, balance = known.cost.max_cost, known.wallet.free
    if args.resume_from is not None or most is None or most <= balance:
        return None
    wallet = WalletBudget(call.lab, balance)
    request = ConfigRequest((), ConfigChoices(()), based_on=_relative(call, config))
    with suppress(LabError):  # The question then names no smaller run.
        await try_config(call.lab, request, datetime.now(UTC).date(), wallet.fit)
    return wallet


def _above_budget(call: Call, config: TrainingConfig, known: RunPreparation, budget: float) -> LabError:
    smaller = {"based_on": _relative(call, config), "budget": budget}
    dollars = known.forecast.dollars if known.forecast is not None else None
    within = dollars is not None and dollars[1] <= budget
    likely = f" (likely ${dollars[1]:.2f})" if dollars is not None else ""
    by_likely_cost = (
        " Or, since its likely cost is within the budget, ask the user whether to start it without budget: nothing "
        'ends a run at a sum of money, so it is followed with watch_run and ended with control_run(action="stop").'
    )
    return LabError(
        f"{config.path.name} may cost ${known.cost.max_cost:.2f}{likely}, more than the budget of ${budget:.2f}; "
        "nothing was sent",
        fix="Write a smaller config for this budget, or pass a larger one if the user agrees."
        + (by_likely_cost if within else ""),
        code="budget-too-small",
        next=(Next("write_training_config", "a version that fits the budget", smaller),),
    )


async def _require_paused(call: Call, id: str) -> None:
    status = await submission.run_status(call.lab, id)
    if status == "PAUSED":
        return
    watch = Next("watch_run", "how it stands", {"id": id})
    calls: tuple[Next, ...] = (watch,)
    fix: str = Fix(
        "Pause it with ", NamedCall("control_run"), " and wait until it is PAUSED, or submit without resume_from."
    )
    if status == "COMPLETED":
        fix = "The run made all its steps: submit without resume_from, or use its checkpoint."
    elif status in submission.TERMINAL_STATUSES:
        fix = "A run that ended cannot go on: submit with again=true and without resume_from, or use its checkpoint."
        path = _config(call).path.resolve().relative_to(call.lab.workspace.root).as_posix()
        why = "starts the config once more from the beginning, after asking"
        calls = (Next("submit_training", why, {"config": path, "again": True}), watch)
    raise BadInput(
        f"run {id} is {status}, and only a PAUSED run can be resumed", fix=fix, code="run-not-paused", next=calls
    )


async def run(call: Call, plan: Plan[SubmissionPlan]) -> Outcome:
    lab, config, args, known = call.lab, _config(call), plan.work.args, plan.work.prepared
    at = await submission.run_standing(lab, config, resume_from=args.resume_from, again=args.again)
    if at.state == "existing":
        return await _known(call, config, at)
    if known is None:
        raise _changed()
    if known.validation.outcome == "invalid":
        return _rejected(call, config, (_invalid(config, known.validation),))
    cost = await cost_of(lab, config)
    _require_agreed(plan.intent, at, cost, known.validation)
    await call.progress(1.0, 2.0, f"submitting {at.name}")
    copy = await write_checked_copy(lab, config, at.name, at.key)
    sent = submission_at(lab, config, at, cost, copy, args.resume_from)
    if args.resume_from is not None:
        await require_not_continued(lab, args.resume_from)
    try:
        started = await submission.submit_run(lab, sent)
    except LabError as error:
        if error.code != "platform-rejected":
            raise
        return _rejected(call, config, (_refused(error),))
    if started is None:
        at = await submission.run_standing(lab, config, resume_from=args.resume_from)
        if at.state == "existing":
            return await _known(call, config, at)
        raise LabError(
            f"another call was submitting {at.name}, and the platform did not take it",
            fix=Fix("Call ", NamedCall("submit_training"), " again; nothing was started so far."),
            code="submit-in-flight",
        )
    started = await card_entries(call, args, plan.intent, started, known.validation)
    return await _outcome(
        call, config, started, _validation_findings(plan.intent, known.validation), deduplicated=False
    )


def _require_agreed(agreed: Intent | None, at: RunStanding, cost: CostBound, answer: ValidateAnswer) -> None:
    """Raise if the submission differs from the approved one: another config, a higher price, or a missing
    validation that the approval did not name."""
    if agreed is None:
        raise _changed()
    dearer = agreed.max_cost is not None and (cost.max_cost is None or cost.max_cost > agreed.max_cost + 1e-9)
    if agreed.key != at.key or not agreed.ask or dearer:
        raise _changed()
    if answer.outcome == "unavailable" and NOT_VALIDATED not in agreed.cautions:
        reason = quote(answer.problems[0]) if answer.problems else "no reason given"
        raise LabError(
            f"{NOT_VALIDATED}, and the approval did not say so; nothing was sent: {reason}",
            fix=Fix(
                "Call ",
                NamedCall("submit_training"),
                " again: it asks the platform once more, or says so in the question.",
            ),
            code="config-not-validated",
        )


def _changed() -> LabError:
    return LabError(
        "the config, its price or its last run changed while this was being approved",
        fix=Fix("Call ", NamedCall("submit_training"), " again; it asks about what would be started now."),
        code="intent-changed",
    )


def _validation_findings(agreed: Intent | None, answer: ValidateAnswer) -> tuple[Finding, ...]:
    """The findings that were known and approved at submission, for later reference."""
    findings = agreed.findings if agreed is not None else ()
    if answer.outcome != "unavailable":
        return findings
    reason = quote(answer.problems[0]) if answer.problems else "no reason given"
    message = f"the run was sent without having been validated, as agreed: {reason}"
    return (*findings, Finding("config-not-validated", "warning", message, "Watch the first minutes with watch_run."))


_CORRECT = Fix(
    "Correct the config with ",
    NamedCall("write_training_config", based_on=...),
    ", then ",
    NamedCall("check_training_config"),
    ".",
)


def _invalid(config: TrainingConfig, answer: ValidateAnswer) -> Finding:
    rows = tuple({"problem": quote(problem)} for problem in answer.problems)
    message = f"the platform's schema does not accept {config.path.name} ({count(len(rows), 'problem')})"
    return Finding("config-rejected", "blocker", message, _CORRECT, config.path.name, rows)


def _refused(error: LabError) -> Finding:
    problems = getattr(error, "problems", ())
    rows = tuple({"problem": quote(problem)} for problem in problems)
    return Finding("config-rejected", "blocker", error.message, _CORRECT, rows=rows)


def _rejected(call: Call, config: TrainingConfig, findings: tuple[Finding, ...]) -> Outcome:
    path = _relative(call, config)
    return Outcome(
        "failed",
        "The platform does not accept the config; no run was created.",
        findings,
        {"config_path": path, "config_sha256": config.sha256},
        (Next("write_training_config", "write a corrected one", {"based_on": path}),),
        facts=Facts(config_sha256=config.sha256, model=config.model, touches_platform=True),
    )


async def _known(call: Call, config: TrainingConfig, at: RunStanding) -> Outcome:
    """Return the existing run of this intent, and say how to run once more if that run has ended."""
    if at.id is None:
        raise RuntimeError("a run without an id is not known")
    listed = call.lab.ledger.runs(id=at.id, platform=call.lab.platform)
    started = (
        listed[0]
        if listed
        else Run(
            str(at.id),
            "training",
            at.name,
            call.lab.key,
            at.key,
            call.lab.platform,
            config_path=_relative(call, config),
            config_sha256=config.sha256,
        )
    )
    findings: tuple[Finding, ...] = ()
    if at.ended:
        note_ended(call.lab, listed[0] if listed else None, str(at.status))
        message = f"the run of this config ended: {at.status}"
        fix = "Pass again=true to start another run of it."
        if at.status == "COMPLETED":
            fix = "Look at its result with watch_run. again=true would pay for all of its steps once more."
        findings = (Finding("run-ended", "warning", message, fix),)
    return await _outcome(call, config, started, findings, deduplicated=True, status=at.status)


async def _outcome(
    call: Call,
    config: TrainingConfig,
    started: Run,
    findings: tuple[Finding, ...],
    *,
    deduplicated: bool,
    status: str | None = None,
) -> Outcome:
    data: dict[str, Any] = {
        "id": started.id,
        "name": started.name,
        "url": f"{await call.lab.prime.frontend()}/dashboard/training/{started.id}",
        "config_path": started.config_path,
        "config_sha256": started.config_sha256,
        "run_config_sha256": started.data.get("copy_sha256"),
        "price_per_hour": started.price_per_hour,
        "max_cost": started.max_cost,
        "deduplicated": deduplicated,
    }
    if status is not None:
        data["status"] = status
    calls = [Next("watch_run", "status, reward and anomalies; look again after a few minutes", {"id": started.id})]
    if any(f.code == "run-ended" for f in findings):
        calls.append(Next("submit_training", "run it once more", {"config": started.config_path, "again": True}))
    price = f" at ${started.price_per_hour:.2f} per hour" if started.price_per_hour is not None else ""
    ending = "exists already" if deduplicated else f"was started{price}"
    return Outcome(
        "passed",
        f"Run {started.id} ({started.name}) {ending}.",
        findings,
        data,
        tuple(calls),
        (Link(f"lab://runs/{started.id}", "the run"), Link(f"lab://runs/{started.id}/card", "how to make it again")),
        facts=Facts(config_sha256=config.sha256, model=config.model, touches_platform=True),
    )


def _relative(call: Call, config: TrainingConfig) -> str:
    return config.path.resolve().relative_to(call.lab.workspace.root).as_posix()
