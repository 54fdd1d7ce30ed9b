"""`run_eval`: evaluates a model on an environment with vf-eval, as a job that outlives the call."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput, BudgetError, EvalError, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import amount_text, plain_id, quote
from prime_lab_mcp.lab.distribution.sample_size import needed_size
from prime_lab_mcp.lab.evals import upload, verdict
from prime_lab_mcp.lab.evals.dry_run import dry_run_outcome, evidence_of
from prime_lab_mcp.lab.evals.easier import paid_form, stated_form, untested_sentence
from prime_lab_mcp.lab.evals.frequent_answers import all_tasks_frequent_answer
from prime_lab_mcp.lab.evals.hosted import evaluation as hosted
from prime_lab_mcp.lab.evals.hosted.plan import HostedPlan, plan_hosted
from prime_lab_mcp.lab.evals.measured import measured_rollout
from prime_lab_mcp.lab.evals.outcomes import broken_outcome, finished_outcome, running_outcome, size_and_cost_summary
from prime_lab_mcp.lab.evals.pages.illustrate import illustrate_outcome
from prime_lab_mcp.lab.evals.plan import EvalRequest, is_free, prompt_tokens
from prime_lab_mcp.lab.evals.plan import plan_evaluation as plan_eval
from prime_lab_mcp.lab.evals.rehearsal_answers import PlayableSolutions, register_golds, served_unlisted
from prime_lab_mcp.lab.evals.rescore.confirmation import settle_evaluations
from prime_lab_mcp.lab.evals.results import as_result, checkpoint_purpose
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, ASK_FROM, DOCKER, EvalSpec, canonical_json
from prime_lab_mcp.lab.evals.stratified import draw_bias, drawn_tasks
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.models.listing import fetch_lists
from prime_lab_mcp.lab.models.offered import not_offered_error, not_served_finding
from prime_lab_mcp.lab.relay import endpoints
from prime_lab_mcp.lab.relay.endpoints import PRESETS, presets_with_prices
from prime_lab_mcp.lab.rewards.probes.row_fields import filled_replies, gold_replies
from prime_lab_mcp.lab.state.arguments import ordered_text
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools.argument_types import Dollars, Positive, Text, between
from prime_lab_mcp.tools.budgeting import over_budget
from prime_lab_mcp.tools.rescoring import rescored
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Plan, PlannedTool

_GOLDS = 5000
_PROMPTS = 64
"""Number of tasks whose prompts are read for the token estimate."""


_ENDPOINTS = f"prime (default), {', '.join(name for name in PRESETS if name != 'prime')}, user-named, URL."


class Args(Arguments):
    ONE_OF: ClassVar[tuple[str, ...]] = ("model", "rescore")

    environment: Annotated[Text, Field(description="Folder or owner/name.")]
    model: Annotated[str | None, Field(description="The one to train.")] = None
    num_examples: Annotated[int, between(1, 20_000), Field(description="Tasks; 30 x 4 can pass.")] = 50
    rollouts: Annotated[int, between(1, 128), Field(description="Per task.")] = 8
    endpoint: Annotated[str | None, Field(description=_ENDPOINTS)] = None
    hosted: bool = False
    max_tokens: Annotated[Positive | None, Field(description="Per reply (2048).")] = None
    temperature: Annotated[float, between(0, 2)] | None = None
    env_args: dict[str, Any] | None = None
    harness: str = "null"
    runtime: Literal["subprocess", "docker", "podman"] = "subprocess"
    concurrency: Annotated[int, between(1, 512)] | None = None
    upload: bool = False
    wait_seconds: Annotated[int, between(0, 600)] = 45
    by: Annotated[str | None, Field(description="Draw evenly by field.")] = None
    rescore: Annotated[str | None, Field(description="Eval to rescore.")] = None
    budget: Annotated[Dollars | None, Field(description="US dollars.")] = None
    dry_run: Annotated[bool, Field(description="Cost only.")] = False
    compare_base: Annotated[bool, Field(description="Its base too.")] = False
    confirm: str | None = None

    def wanted(self) -> EvalRequest:
        return EvalRequest(
            model=self.model or "",
            num_examples=self.num_examples,
            rollouts=self.rollouts,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            env_args=self.env_args or {},
            harness=self.harness if "harness" in self.model_fields_set else None,
            runtime=self.runtime if "runtime" in self.model_fields_set else None,
            concurrency=self.concurrency or 32,
            budget=self.budget,
            explicit_sizes=frozenset({"num_examples", "rollouts", "concurrency"} & self.model_fields_set),
        )

    def again(self) -> dict[str, Any]:
        """The arguments of the same call, to be started."""
        return self.model_dump(mode="json", exclude_unset=True, exclude={"dry_run", "confirm"})


@dataclass(frozen=True, slots=True)
class LocalEval:
    """An evaluation on this machine.

    `access`: the endpoint, which has answered and serves the model. `unreachable`: why it has not; then the call
    attaches to an earlier evaluation and starts none. `variables`: those of the rehearsal platform.
    `ref`: the environment on the Hub to which the results are uploaded. `max_cost`: the US dollars that were planned,
    None without a price.
    """

    args: Args
    access: endpoints.EndpointAccess
    variables: dict[str, str]
    ref: str | None
    max_cost: float | None = None
    unreachable: EvalError | None = None


@dataclass(frozen=True, slots=True)
class HostedEval:
    args: Args
    planned: HostedPlan


@dataclass(frozen=True, slots=True)
class Rescoring:
    args: Args


@dataclass(frozen=True, slots=True)
class DryRun:
    """Evaluations that are described and not started. `existing`: how many of them exist already."""

    args: Args
    specs: tuple[EvalSpec, ...]
    existing: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Evaluations of a checkpoint and of the model that its run trained, on the same tasks."""

    checkpoint: LocalEval
    base: LocalEval


EvalPlan = LocalEval | HostedEval | Rescoring | DryRun | Comparison


async def plan(call: Call, args: Args) -> Plan[EvalPlan]:
    """Plan the evaluation.

    Approval is needed if the evaluation may cost a dollar, or if evaluations below a dollar have added up to five
    since the last question.
    """
    if args.rescore:
        return Plan(Rescoring(args))
    _supported(args)
    try:
        if args.hosted:
            return await _plan_hosted(call, args)
        planned = await (_plan_comparison if args.compare_base else _plan_single)(call, args)
        return _asked_about_docker(call, args, planned)
    except BudgetError as error:
        raise over_budget(error, "run_eval", args) from None


async def _plan_hosted(call: Call, args: Args) -> Plan[EvalPlan]:
    planned = await plan_hosted(call.lab, args.environment, call.snapshot, args.wanted(), call.platform)
    if args.dry_run:
        return Plan(DryRun(args, (planned.spec,), int(planned.standing.state != "fresh")))
    offer = hosted.offer_hosted(call.lab, planned, args.wanted())
    return Plan(HostedEval(args, planned), Intent("eval", offer.key, offer.question, offer.max_cost, offer.ask))


def _asked_about_docker(call: Call, args: Args, plan: Plan[EvalPlan]) -> Plan[EvalPlan]:
    """Every evaluation on this machine passes here. With the Docker service, a person is asked whatever it costs."""
    work = plan.work
    if args.runtime != DOCKER or isinstance(work, DryRun):
        return plan
    intent = plan.intent or Intent("eval", _digest(_identity(call, args)), "", 0.0)
    works = (work.checkpoint, work.base) if isinstance(work, Comparison) else (work,)
    unpaid = [one for one in works if isinstance(one, LocalEval) and one.max_cost is None]
    sizes = [_size(one.args, one.access.endpoint.host) for one in unpaid]
    if plan.intent is None or isinstance(work, Comparison):
        intent = replace(intent, question=" ".join([intent.question, *(f"{size}?" for size in sizes)]).strip())
    return replace(plan, intent=replace(intent, ask=True, cautions=(*intent.cautions, _DOCKER_CAUTION)))


_DOCKER_CAUTION = (
    "the environment's code gets the Docker service and the other Unix sockets of this machine, and through them can "
    "read and change everything here"
)


async def _plan_single(call: Call, args: Args) -> Plan[EvalPlan]:
    access, variables, unreachable = await _access(call.lab, args)
    if unreachable is not None and not _attachable(call, args, access):
        raise unreachable
    ref = await upload.upload_target(call.lab, _local(call, args)) if args.upload else None
    work = LocalEval(args, access, variables, ref, unreachable=unreachable)
    if unreachable is not None:
        _require_attachable(call.lab, work, await _spec(call, work))
        return Plan(work, _upload_intent(call, args, access, ref))
    if args.dry_run:
        spec = await _spec(call, work)
        return Plan(DryRun(args, (spec,), int(EvaluationJobs(call.lab).costs_nothing(spec))))
    if is_free(access) or (access.price is None and call.lab.settings.rehearsal):
        return Plan(work, _upload_intent(call, args, access, ref))
    spec = await _spec(call, work)
    if EvaluationJobs(call.lab).costs_nothing(spec):
        return Plan(work, _upload_intent(call, args, access, ref))
    return Plan(replace(work, max_cost=spec.max_cost), _intent(call, args, spec, ref))


async def _plan_comparison(call: Call, args: Args) -> Plan[EvalPlan]:
    """Plan the evaluations of a checkpoint and of its base model, half of the budget for each.

    Those that exist already are not paid for again.
    """
    purpose = checkpoint_purpose(call.lab, args.model or "")
    if purpose is None or purpose.base_model is None:
        raise BadInput(
            f"no run of this machine is known that {quote(args.model, 100)} is a checkpoint of",
            fix=Fix(
                "Leave ",
                SameCall.without("compare_base"),
                " out, evaluate both models, and compare them with ",
                NamedCall("read_eval", view="compare", other=...),
                ".",
            ),
            code="no-base-model",
        )
    half = args.budget / 2 if args.budget is not None else None
    both = [args.model_copy(update={"budget": half, "model": m}) for m in (args.model, purpose.base_model)]
    works, specs, paid_for = [], [], []
    for one in both:
        access, variables, unreachable = await _access_of(call.lab, one, base=one is both[1])
        work = LocalEval(one, access, variables, None, unreachable=unreachable)
        spec = await _spec(call, work)
        _require_attachable(call.lab, work, spec)
        unpriced = is_free(access) or (access.price is None and call.lab.settings.rehearsal)
        paid = not unpriced and not EvaluationJobs(call.lab).costs_nothing(spec)
        works.append(replace(work, max_cost=spec.max_cost if paid else None))
        specs.append(spec)
        paid_for += [(works[-1].args, spec)] if paid else []
    if args.dry_run:
        existing = sum(EvaluationJobs(call.lab).costs_nothing(spec) for spec in specs)
        return Plan(DryRun(args, tuple(specs), existing))
    compared = Comparison(works[0], works[1])
    if not paid_for:
        return Plan(compared)
    intents = [_intent(call, one, spec, None) for one, spec in paid_for]
    bounds = [intent.max_cost for intent in intents]
    most = None if any(b is None for b in bounds) else sum(b for b in bounds if b is not None)
    unasked = call.lab.ledger.unasked(call.lab.platform)
    ask = most is None or most >= ASK_FROM or unasked + most > ASK_AFTER
    question, key = " ".join(intent.question for intent in intents), _digest([spec.intent for spec in specs])
    findings = tuple(dict.fromkeys(f for intent in intents for f in intent.findings))
    return Plan(compared, Intent("eval", key, question, most, ask=ask, findings=findings))


async def run(call: Call, plan: Plan[EvalPlan]) -> Outcome:
    """Start the job or attach to a running one, wait for a while, and judge the job if it ends."""
    work = plan.work
    if isinstance(work, Rescoring):
        return await rescored(call, work.args)
    if isinstance(work, DryRun):
        return dry_run_outcome(call.lab, work.specs, work.args.again(), existing=work.existing)
    if isinstance(work, Comparison):
        return await _compared(call, work, asked=plan.intent is not None and plan.intent.ask)
    if isinstance(work, HostedEval):
        agreed = plan.intent.key if plan.intent is not None else None
        asked = plan.intent is not None and plan.intent.ask
        return await hosted.evaluate_hosted(
            call.lab, work.planned, work.args.wait_seconds, call.progress, agreed, confirmed=asked
        )
    job = await _started(call, work, asked=plan.intent is not None and plan.intent.ask)
    seconds = float(work.args.wait_seconds)
    unsaid = "wait_seconds" not in work.args.model_fields_set
    if unsaid and job.state == "starting" and _too_small(call.lab, EvaluationJobs(call.lab).spec(job)) is not None:
        seconds = min(seconds, _SMALL_SECONDS)
    return await _ended(call, work, job, seconds, float(work.args.wait_seconds))


_SMALL_SECONDS = 15.0
"""Longest wait for a new evaluation that is too small to decide anything, so that the report says so at the start. A
caller who names `wait_seconds` waits so long."""


def _too_small(lab: Lab, spec: EvalSpec) -> Finding | None:
    """Return the finding that the evaluation has too few tasks or rollouts for a verdict; None if it has enough."""
    return next((f for f in evidence_of(lab, spec)[1] if f.code == "distribution-too-small"), None)


def _told_as_small(lab: Lab, work: LocalEval, spec: EvalSpec, running: Outcome) -> Outcome:
    """Return the outcome of a running evaluation, which says first if it is too small, and how large is enough."""
    small = _too_small(lab, spec)
    if small is None:
        return running
    tasks, rollouts = needed_size(spec.available)
    enough = {**work.args.again(), "num_examples": tasks, "rollouts": rollouts}
    offered = Next("run_eval", "if a push or training run is to follow; stop this one first", enough)
    summary = f"{small.message[:1].upper()}{small.message[1:]} for a push or training run. {running.summary}"
    return replace(running, summary=summary, next=(*running.next, offered))


async def _compared(call: Call, work: Comparison, *, asked: bool) -> Outcome:
    """Start both evaluations, wait for both, and report on the checkpoint beside its base model."""
    until = anyio.current_time() + work.checkpoint.args.wait_seconds
    base = await _started(call, work.base, asked=asked)
    checkpoint = await _started(call, work.checkpoint, asked=asked)
    base = await EvaluationJobs(call.lab).wait(base.id, max(0.0, until - anyio.current_time()), call.progress)
    if base.state in LIVE_STATES:
        running = running_outcome(call.lab, base)
        beside = (
            f"This is the base model of the comparison; {checkpoint.id} of {quote(work.checkpoint.args.model, 100)} "
            "runs beside it, and the same call waits for both."
        )
        return replace(running, summary=f"{running.summary} {beside}")
    if base.state != "finished":
        return broken_outcome(call.lab, base)
    return await _ended(call, work.checkpoint, checkpoint, max(0.0, until - anyio.current_time()))


async def _ended(call: Call, work: LocalEval, job: Job, seconds: float, longest: float = 0.0) -> Outcome:
    """Wait for the job of an evaluation, and report on it.

    Where all its rollouts have finished by then, the wait for its end may take `longest` seconds in all.
    """
    lab = call.lab
    job = await EvaluationJobs(lab).wait(job.id, seconds, call.progress)
    if job.state in LIVE_STATES and job.progress.get("completed", 0) >= (job.progress.get("planned") or math.inf):
        job = await EvaluationJobs(lab).wait(job.id, max(0.0, longest - seconds), call.progress)
    if job.state in LIVE_STATES:
        spec = EvaluationJobs(lab).spec(job)
        running = running_outcome(lab, job)
        running = replace(running, findings=(*running.findings, *evidence_of(lab, spec)[1]))
        return _told_as_small(lab, work, spec, running)
    if job.state != "finished":
        return broken_outcome(lab, job)

    async def say(message: str) -> None:
        await call.progress(0, None, message)

    await settle_evaluations(lab, say, source=job.source)
    job = EvaluationJobs(lab).get(job.id)
    judged = await anyio.to_thread.run_sync(verdict.judge_job, lab, job)
    ended = finished_outcome(lab, job, judged)
    ended = await anyio.to_thread.run_sync(as_result, lab, job, judged, ended)
    outcome = await illustrate_outcome(lab, job, judged, ended)
    return await upload.outcome_with_upload(lab, job, work.ref, outcome) if work.ref is not None else outcome


async def _started(call: Call, work: LocalEval, *, asked: bool) -> Job:
    """The job of an evaluation: a new one, or the one that exists."""
    lab, evals = call.lab, EvaluationJobs(call.lab)
    spec = await _spec(call, work)
    _require_attachable(lab, work, spec)
    if (spec.max_cost or 0.0) > (work.max_cost or 0.0) + 1e-9 and not evals.costs_nothing(spec):
        raise LabError(
            "the evaluation may cost more than was planned",
            fix=Fix("Call ", NamedCall("run_eval"), " again; it plans and asks about the present cost."),
            code="intent-changed",
        )
    limits = [finding.message for finding in evidence_of(lab, spec)[1]]
    await call.progress(0, spec.planned, "; ".join((size_and_cost_summary(spec), *limits)))
    return await evals.start(spec, work.access.key, confirmed=asked)


def _supported(args: Args) -> None:
    own = (args.endpoint or "prime", args.harness, args.runtime, args.upload, args.by)
    if args.hosted and own != ("prime", "null", "subprocess", False, None):
        raise BadInput(
            "a hosted evaluation has the platform's own endpoint, harness, runtime and tasks, and is there already",
            fix=Fix("Leave ", SameCall.without("endpoint", "harness", "runtime", "upload", "by"), " out, or hosted."),
        )
    if args.compare_base and (args.hosted or args.upload):
        raise BadInput(
            "compare_base evaluates on this machine and uploads nothing",
            fix=Fix("Leave ", SameCall.without("hosted", "upload"), " out, or compare_base."),
        )
    if not args.model:
        raise BadInput(
            "model is missing",
            fix=Fix("Name the model to be trained; ", NamedCall("search_hub", kind="model"), " lists them."),
        )


async def _spec(call: Call, work: LocalEval) -> EvalSpec:
    """The specification of the evaluation, which requires that the environment loads."""
    lab, args, access = call.lab, work.args, work.access

    async def say(message: str) -> None:
        await call.progress(0, None, message)

    async with open_environment(lab, _local(call, args), env_args=args.env_args or {}, progress=say) as env:
        rehearsed = access.endpoint.preset == "prime" and lab.settings.rehearsal
        rows = (await env.worker.rows(limit=_GOLDS if rehearsed or args.by else _PROMPTS, seed=0)).rows
        roles = (await env.worker.facts()).roles if env.api == "v1" else None
        prompts = [prompt_tokens(row) for row in rows[:_PROMPTS]]
        spec = plan_eval(
            env.snapshot, env.interpreter, env.loaded, access, args.wanted(), roles, prompts, env.distributions
        )
        if args.by:
            if env.api == "v0":
                raise BadInput(
                    "verifiers draws tasks by a field in v1 only", fix=Fix("Leave ", SameCall.without("by"), " out.")
                )
            drawn = drawn_tasks(rows, args.by, spec.num_examples, spec.seed)
            bias = draw_bias(rows, drawn, args.by)
            spec = replace(spec, by=args.by, drawn=drawn, draw_bias=bias, num_examples=len(drawn))
        else:
            spec = replace(spec, frequent=await all_tasks_frequent_answer(env, rows))
        if rehearsed:
            solutions = await lab.memory(PlayableSolutions).of(env, rows, args.env_args or {})
            form = paid_form(lab, env.snapshot.source, args.env_args or {})
            stated = stated_form(lab, env.snapshot.source, args.env_args or {})
            replies = filled_replies(form, rows) or gold_replies(form, rows, named=bool(stated))
            await register_golds(work.variables, rows, solutions, replies)
            played = (len(solutions), len(rows)) if env.loaded.turns else None
            spec = replace(spec, rehearsed=played, stated_form=stated)
    return replace(spec, measured=measured_rollout(lab, spec))


def _local(call: Call, args: Args) -> Any:
    if call.snapshot is None:
        raise BadInput(
            f"{args.environment} is an environment on the Hub, and run_eval works on local ones",
            fix=Fix("Pull it with ", NamedCall("create_environment", name=..., hub=...), ", then evaluate the copy."),
            code="not-local",
        )
    return call.snapshot


def _attachable(call: Call, args: Args, access: endpoints.EndpointAccess) -> bool:
    """Whether an evaluation of this model at this endpoint may answer the call. Decides without loading anything."""
    name = call.snapshot.name if call.snapshot is not None else args.environment
    at = (access.endpoint.url, args.model)
    jobs = call.lab.ledger.jobs(call.lab.key, environment=name)
    return any((job.spec.get("endpoint", {}).get("url"), job.spec.get("model")) == at for job in jobs)


def _require_attachable(lab: Lab, work: LocalEval, spec: EvalSpec) -> None:
    """Raise the endpoint's error unless an earlier evaluation answers the call."""
    if work.unreachable is not None and not EvaluationJobs(lab).costs_nothing(spec):
        raise work.unreachable


async def _access_of(
    lab: Lab, args: Args, *, base: bool
) -> tuple[endpoints.EndpointAccess, dict[str, str], EvalError | None]:
    """The endpoint of one of two models. A base model that the endpoint of the checkpoint does not serve is evaluated
    at the default endpoint."""
    try:
        return await _access(lab, args)
    except EvalError as error:
        if not base or args.endpoint is None or error.code != "endpoint-no-model":
            raise
        return await _access(lab, args.model_copy(update={"endpoint": None}))


async def _access(lab: Lab, args: Args) -> tuple[endpoints.EndpointAccess, dict[str, str], EvalError | None]:
    """The endpoint, the variables of the rehearsal platform, and the error of an endpoint that does not answer."""
    variables = dict(await lab.platform_variables()) if lab.settings.rehearsal else {}
    access = endpoints.resolve_endpoint(args.endpoint, variables, lab.settings.endpoints)
    platform, model = access.endpoint.preset == "prime", args.model or ""
    complete = access.endpoint.preset in PRESETS and not lab.settings.rehearsal
    if platform and lab.settings.rehearsal:
        complete = not served_unlisted(lab, model)
    try:
        return await endpoints.query_endpoint(access, model, exact=complete), variables, None
    except EvalError as error:
        if error.code == "endpoint-no-model" and platform:
            lists = await fetch_lists(lab)
            finding = not_served_finding(model, lists.served or (), lists.trainable)
            raise not_offered_error(finding) from None
        if error.code != "endpoint-unreachable":
            raise
        return access, variables, error


def _upload_intent(call: Call, args: Args, access: endpoints.EndpointAccess, ref: str | None) -> Intent | None:
    """The intent of an evaluation that costs nothing: its upload alone needs approval."""
    if ref is None:
        return None
    question = f"{_size(args, access.endpoint.host)}? {upload.upload_question(ref)}"
    return Intent("eval", _digest([*_identity(call, args), access.endpoint.url, ref]), question, 0.0)


_NOT_MEASURED = frozenset({"wait_seconds", "dry_run", "confirm"})
"""Arguments that change nothing about what runs. Every other one, new ones too, identifies an evaluation."""


def _identity(call: Call, args: Args) -> list[Any]:
    """What identifies an evaluation that costs nothing: the files and the arguments."""
    content = call.snapshot.content if call.snapshot else args.environment
    asked = args.model_dump(mode="json", exclude=set(_NOT_MEASURED))
    return [content, asked, ordered_text(args.env_args or {})]


def _intent(call: Call, args: Args, spec: EvalSpec, ref: str | None) -> Intent:
    """The intent of an evaluation that costs money, with its bound and its likely cost."""
    lab, most = call.lab, spec.max_cost
    small = most is not None and most < ASK_FROM
    unasked = lab.ledger.unasked(lab.platform) if small else 0.0
    if most is None:
        price = f"{spec.endpoint.host} lists no price for it; it ends at {spec.max_total_tokens or 0:,} tokens"
    else:
        likely = spec.estimate
        price = f"likely about {amount_text(likely['cost'])} ({likely['basis']}), at most ${most:.2f}"
    sized = args.model_copy(update={"num_examples": spec.planned_tasks, "rollouts": spec.rollouts})
    question = f"{_size(sized, spec.endpoint.host)}: {price}?"
    if most is not None:
        question += " It ends before it costs more."
    question += spec.minutes_sentence
    too_small = _too_small(lab, spec)
    question += f" For a push or training run, {too_small.message}." if too_small is not None else ""
    question += untested_sentence(lab, call.snapshot.source, spec.env_args) if call.snapshot is not None else ""
    if small and unasked + (most or 0.0) > ASK_AFTER:
        question += f" Evaluations that were not asked about have come to ${unasked:.2f} since the last question."
    ask = not small or unasked + (most or 0.0) > ASK_AFTER
    what = [spec.intent]
    if ref is not None:
        what, question = [*what, ref], f"{question} {upload.upload_question(ref)}"
    findings: tuple[Finding, ...] = ()
    if most is None and lab.limits.max_spend is not None:
        message = f"{spec.endpoint.host} lists no price for {quote(args.model, 100)}, and the server has a spending cap"
        fix = f"Use an endpoint that lists prices ({presets_with_prices()}), or a server of your own on this machine."
        findings = (Finding("price-unknown", "blocker", message, fix),)
    return Intent("eval", _digest(what), question, most, ask=ask or ref is not None, findings=findings)


def _size(args: Args, host: str) -> str:
    what = f"Evaluate {plain_id(args.environment)} with {plain_id(args.model or '')} at {host}"
    return f"{what}: {args.num_examples} tasks x {args.rollouts} rollouts"


def _digest(what: list[Any]) -> str:
    return hashlib.sha256(canonical_json(what).encode()).hexdigest()


TOOL = PlannedTool(
    name="run_eval",
    title="Run an evaluation",
    description="Evaluate a model (vf-eval, in a job) and judge its rewards. Call again to wait on.",
    args=Args,
    plan=plan,
    run=run,
    effect="executes",
    page=True,
    runs_environment_code=True,
    snapshot=True,
    hosted=lambda args: bool(args.hosted),
    open_world=True,
    idempotent=False,
)
