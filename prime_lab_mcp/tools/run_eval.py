"""`run_eval`: evaluates a model on an environment with vf-eval, as a job that outlives the call."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals import upload, verdict
from prime_lab_mcp.lab.evals.hosted import calls as hosted
from prime_lab_mcp.lab.evals.hosted.plan import HostedPlan, plan_hosted
from prime_lab_mcp.lab.evals.pages.illustrate import illustrate_outcome
from prime_lab_mcp.lab.evals.plan import EvalRequest, is_free, prompt_tokens
from prime_lab_mcp.lab.evals.plan import plan_evaluation as plan_eval
from prime_lab_mcp.lab.evals.rehearsal_answers import register_golds
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, ASK_FROM, EvalSpec, canonical_json
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.relay import endpoints
from prime_lab_mcp.lab.relay.endpoints import PRESETS
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools.rescoring import rescored
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Plan, PlannedTool

_GOLDS = 5000
_PROMPTS = 64
"""Number of tasks whose prompts are read for the token estimate."""


_ENDPOINTS = f"prime (default), {', '.join(name for name in PRESETS if name != 'prime')}, a name of the user's, a URL."


class Args(Arguments):
    environment: Annotated[str, Field(min_length=1, max_length=300, description="Folder; owner/name if hosted.")]
    model: Annotated[str | None, Field(description="The one to train.")] = None
    num_examples: Annotated[int, Field(ge=1, le=20_000, description="Tasks.")] = 50
    rollouts: Annotated[int, Field(ge=1, le=128, description="Per task.")] = 8
    endpoint: Annotated[str | None, Field(description=_ENDPOINTS)] = None
    hosted: bool = False
    max_tokens: Annotated[int | None, Field(ge=1, description="Per completion (2048).")] = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    env_args: dict[str, Any] | None = None
    harness: str = "null"
    runtime: Literal["subprocess", "docker", "podman", "apptainer"] = "subprocess"
    concurrency: Annotated[int | None, Field(ge=1, le=512)] = None
    upload: bool = False
    wait_seconds: Annotated[int, Field(ge=0, le=600)] = 45
    rescore: Annotated[str | None, Field(description="Eval id, to score again.")] = None
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
        )


@dataclass(frozen=True, slots=True)
class LocalEval:
    """An evaluation on this machine.

    `access`: the endpoint, which has answered and serves the model. `variables`: those of the rehearsal platform.
    `ref`: the environment on the Hub to which the results are uploaded. `max_cost`: the US dollars that were planned,
    None without a price.
    """

    args: Args
    access: endpoints.EndpointAccess
    variables: dict[str, str]
    ref: str | None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class HostedEval:
    args: Args
    planned: HostedPlan


@dataclass(frozen=True, slots=True)
class Rescoring:
    args: Args


EvalPlan = LocalEval | HostedEval | Rescoring


async def plan(call: Call, args: Args) -> Plan[EvalPlan]:
    """Plan the evaluation.

    Approval is needed if the evaluation may cost a dollar, or if evaluations below a dollar have added up to five
    since the last question.
    """
    if args.rescore:
        return Plan(Rescoring(args))
    _supported(args)
    if args.hosted:
        planned = await plan_hosted(call.lab, args.environment, call.snapshot, args.wanted(), call.platform)
        offer = hosted.offer_hosted(planned, args.wanted())
        return Plan(HostedEval(args, planned), Intent("eval", offer.key, offer.question, offer.max_cost, offer.ask))
    access, variables = await _access(call.lab, args)
    ref = await upload.upload_target(call.lab, _local(call, args)) if args.upload else None
    work = LocalEval(args, access, variables, ref)
    if is_free(access) or (access.price is None and call.lab.settings.rehearsal):
        return Plan(work, _upload_intent(call, args, access, ref))
    spec = await _spec(call, work)
    if EvaluationJobs(call.lab).costs_nothing(spec):
        return Plan(work, _upload_intent(call, args, access, ref))
    return Plan(replace(work, max_cost=spec.max_cost), _intent(call, args, spec, ref))


async def run(call: Call, plan: Plan[EvalPlan]) -> Outcome:
    """Start the job or attach to a running one, wait for a while, and judge the job if it ends."""
    work = plan.work
    if isinstance(work, Rescoring):
        return await rescored(call, work.args)
    if isinstance(work, HostedEval):
        agreed = plan.intent.key if plan.intent is not None else None
        return await hosted.evaluate_hosted(call.lab, work.planned, work.args.wait_seconds, call.progress, agreed)
    return await _evaluated(call, work, asked=plan.intent is not None and plan.intent.ask)


async def _evaluated(call: Call, work: LocalEval, *, asked: bool) -> Outcome:
    lab, evals, args = call.lab, EvaluationJobs(call.lab), work.args
    spec = await _spec(call, work)
    if (spec.max_cost or 0.0) > (work.max_cost or 0.0) + 1e-9 and not evals.costs_nothing(spec):
        raise LabError(
            "the evaluation may cost more than was planned",
            fix="Call run_eval again; it plans and asks about the present cost.",
            code="intent-changed",
        )
    await call.progress(0, spec.planned, verdict.announced_outcome(spec))
    job = await evals.start(spec, work.access.key, asked=asked)
    job = await evals.wait(job.id, args.wait_seconds, call.progress)
    if job.state in LIVE_STATES:
        return verdict.running_outcome(lab, job)
    if job.state != "finished":
        return verdict.broken_outcome(lab, job)
    await anyio.to_thread.run_sync(verdict.record_verdicts, lab)
    judged = await anyio.to_thread.run_sync(verdict.judge_job, lab, job)
    found = await illustrate_outcome(lab, job, judged, verdict.finished_outcome(lab, job, judged))
    return await upload.outcome_with_upload(lab, job, work.ref, found) if work.ref is not None else found


def _supported(args: Args) -> None:
    own = (args.endpoint or "prime", args.harness, args.runtime, args.upload)
    if args.hosted and own != ("prime", "null", "subprocess", False):
        raise BadInput(
            "a hosted evaluation has the platform's own endpoint, harness and runtime, and is there already",
            fix="Leave endpoint, harness, runtime and upload out, or hosted.",
        )
    if not args.model:
        raise BadInput("model is missing", fix='Name the model to be trained; search_hub(kind="model") lists them.')


async def _spec(call: Call, work: LocalEval) -> EvalSpec:
    """The specification of the evaluation, which requires that the environment loads."""
    lab, args, access = call.lab, work.args, work.access

    async def say(message: str) -> None:
        await call.progress(0, None, message)

    async with open_environment(lab, _local(call, args), env_args=args.env_args or {}, progress=say) as env:
        rehearsed = access.endpoint.preset == "prime" and lab.settings.rehearsal
        rows = (await env.worker.rows(limit=_GOLDS if rehearsed else _PROMPTS, seed=0)).rows
        roles = (await env.worker.facts()).roles if env.api == "v1" else None
        prompts = [prompt_tokens(row) for row in rows[:_PROMPTS]]
        spec = plan_eval(env.snapshot, env.interpreter, env.loaded, access, args.wanted(), roles, prompts)
        if rehearsed:
            await register_golds(work.variables, rows)
    return spec


def _local(call: Call, args: Args) -> Any:
    if call.snapshot is None:
        raise BadInput(
            f"{args.environment} is an environment on the Hub, and run_eval works on local ones",
            fix="Pull it with create_environment(name=..., hub=...), then evaluate the copy.",
            code="not-local",
        )
    return call.snapshot


async def _access(lab: Lab, args: Args) -> tuple[endpoints.EndpointAccess, dict[str, str]]:
    variables = dict(await lab.platform_variables()) if lab.settings.rehearsal else {}
    access = endpoints.resolve_endpoint(args.endpoint, variables, lab.settings.endpoints)
    complete = access.endpoint.preset in PRESETS and not lab.settings.rehearsal
    return await endpoints.query_endpoint(access, args.model or "", exact=complete), variables


def _upload_intent(call: Call, args: Args, access: endpoints.EndpointAccess, ref: str | None) -> Intent | None:
    """The intent of an evaluation that costs nothing: its upload alone needs approval."""
    if ref is None:
        return None
    content = call.snapshot.content if call.snapshot else args.environment
    what = [content, args.model, access.endpoint.url, args.num_examples, args.rollouts, args.max_tokens, ref]
    question = f"{_size(args, access.endpoint.host)}? {upload.upload_question(ref)}"
    return Intent("eval", _digest(what), question, 0.0)


def _intent(call: Call, args: Args, spec: EvalSpec, ref: str | None) -> Intent:
    """The intent of an evaluation that costs money, with its bound and its likely cost."""
    lab, most = call.lab, spec.max_cost
    small = most is not None and most < ASK_FROM
    unasked = lab.ledger.unasked(lab.platform) if small else 0.0
    if most is None:
        price = f"{spec.endpoint.host} lists no price for it; it ends at {spec.max_total_tokens or 0:,} tokens"
    else:
        price = f"likely about ${spec.estimate['cost']:.2f} (one turn each), at most ${most:.2f}, where it ends"
    question = f"{_size(args, spec.endpoint.host)}: {price}?"
    if small and unasked + (most or 0.0) > ASK_AFTER:
        question += f" Evaluations that were not asked about have come to ${unasked:.2f} since the last question."
    ask = not small or unasked + (most or 0.0) > ASK_AFTER
    what = [spec.intent, spec.endpoint.url]
    if ref is not None:
        what, question = [*what, ref], f"{question} {upload.upload_question(ref)}"
    findings: tuple[Finding, ...] = ()
    if most is None and lab.settings.max_spend is not None:
        message = f"{spec.endpoint.host} lists no price for {quote(args.model, 100)}, and the server has a spending cap"
        fix = "Use an endpoint that lists prices (prime, openrouter), or a server of your own on this machine."
        findings = (Finding("price-unknown", "blocker", message, fix),)
    return Intent("eval", _digest(what), question, most, ask=ask or ref is not None, findings=findings)


def _size(args: Args, host: str) -> str:
    return (
        f"Evaluate {args.environment} with {args.model} at {host}: {args.num_examples} tasks x {args.rollouts} rollouts"
    )


def _digest(what: list[Any]) -> str:
    return hashlib.sha256(canonical_json(what).encode()).hexdigest()


TOOL = PlannedTool(
    name="run_eval",
    title="Run an evaluation",
    description="Evaluate a model with vf-eval as a job and judge its rewards. Past wait_seconds: an id; the same call "
    "waits on, or resumes.",
    args=Args,
    plan=plan,
    run=run,
    effect="executes",
    snapshot=True,
    hosted=lambda args: bool(args.hosted),
    open_world=True,
    idempotent=False,
)
