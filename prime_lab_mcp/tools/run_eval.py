"""run_eval: evaluate a model on an environment with the real vf-eval, as a job that outlives the call."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from prime_lab_mcp.lab.errors import BadInput, EvalError
from prime_lab_mcp.lab.evals import endpoints, judging, reporting, upload, verdicts
from prime_lab_mcp.lab.evals.golds import register_golds
from prime_lab_mcp.lab.evals.hosted import calls as hosted
from prime_lab_mcp.lab.evals.illustrate import illustrated
from prime_lab_mcp.lab.evals.jobs import LIVE
from prime_lab_mcp.lab.evals.plan import Wanted, plan, prompt_tokens
from prime_lab_mcp.lab.evals.spec import ASK_FROM, EvalSpec, canonical
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.opening import opened
from prime_lab_mcp.lab.report import Outcome
from prime_lab_mcp.tools.rescored_eval import rescored
from prime_lab_mcp.tools.tool import Arguments, Call, Intent, Tool

_GOLDS = 5000
_PROMPTS = 64
"""Tasks whose prompts are looked at for the estimate of tokens."""


class Args(Arguments):
    environment: Annotated[str, Field(min_length=1, max_length=300, description="Folder; owner/name if hosted.")]
    model: Annotated[str | None, Field(description="The one to train.")] = None
    num_examples: Annotated[int, Field(ge=1, le=20_000, description="Tasks.")] = 50
    rollouts: Annotated[int, Field(ge=1, le=128, description="Per task.")] = 8
    endpoint: Annotated[
        str | None, Field(description="prime (default), openai, openrouter, vllm, ollama, URL[|KEY_VAR].")
    ] = None
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

    def wanted(self) -> Wanted:
        return Wanted(
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


async def run(call: Call, args: Args) -> Outcome:
    """Start or attach, wait a while, and judge when it has ended."""
    if args.rescore:
        return await rescored(call, args)
    _supported(args)
    lab, evals = call.lab, call.lab.evals
    if args.hosted:
        approved = call.intent.key if call.intent is not None else None
        return await hosted.evaluate(
            lab, args.environment, call.snapshot, args.wanted(), args.wait_seconds, call.progress, approved
        )
    ref = await upload.target(lab, _local(call, args)) if args.upload else None
    spec, key = await _prepare(call, args)
    await call.progress(0, spec.planned, reporting.announced(spec))
    job = await evals.start(spec, key)
    if spec.price is not None:
        cost = args.wanted().estimate(spec.price)
        lab.ledger.commit_spend(job.id, cost, f"evaluation {job.id} of {spec.environment}", lab.platform)
    job = await evals.wait(job.id, args.wait_seconds, call.progress)
    if job.state in LIVE:
        return reporting.running(lab, job)
    if job.state != "finished":
        return reporting.broken(lab, job)
    await anyio.to_thread.run_sync(verdicts.settle, lab)
    judged = await anyio.to_thread.run_sync(judging.judge_job, lab, job)
    found = await illustrated(lab, job, judged, verdicts.outcome(lab, job, judged))
    return await upload.reported(lab, job, ref, found) if ref is not None else found


def _supported(args: Args) -> None:
    own = (args.endpoint or "prime", args.harness, args.runtime, args.upload)
    if args.hosted and own != ("prime", "null", "subprocess", False):
        raise BadInput(
            "a hosted evaluation has the platform's own endpoint, harness and runtime, and is there already",
            fix="Leave endpoint, harness, runtime and upload out, or hosted.",
        )
    if not args.model:
        raise BadInput("model is missing", fix='Name the model to be trained; search_hub(kind="model") lists them.')


async def _prepare(call: Call, args: Args) -> tuple[EvalSpec, str | None]:
    """The evaluation that is meant, once environment, endpoint and model were found to work."""
    lab = call.lab

    async def say(message: str) -> None:
        await call.progress(0, None, message)

    access, variables = await _access(lab, args)
    async with opened(lab, _local(call, args), env_args=args.env_args or {}, progress=say) as env:
        cap = lab.settings.max_spend
        remaining = None if cap is None else max(0.0, cap - lab.ledger.spent(lab.platform))
        rehearsed = access.endpoint.preset == "prime" and lab.settings.rehearsal
        rows = (await env.worker.rows(limit=_GOLDS if rehearsed else _PROMPTS, seed=0)).rows
        roles = (await env.worker.facts()).roles if env.api == "v1" else None
        prompts = [prompt_tokens(row) for row in rows[:_PROMPTS]]
        spec = plan(env.snapshot, env.interpreter, env.loaded, access, args.wanted(), remaining, roles, prompts)
        if rehearsed:
            await register_golds(variables, rows)
    return spec, access.key


def _local(call: Call, args: Args) -> Any:
    if call.snapshot is None:
        raise BadInput(
            f"{args.environment} is an environment on the Hub, and run_eval works on local ones",
            fix="Pull it with create_environment(name=..., hub=...), then evaluate the copy.",
            code="not-local",
        )
    return call.snapshot


async def _access(lab: Lab, args: Args) -> tuple[endpoints.Access, dict[str, str]]:
    variables = dict(await lab.platform_variables()) if lab.settings.rehearsal else {}
    access = endpoints.resolve(args.endpoint, variables)
    complete = access.endpoint.preset != "url" and not lab.settings.rehearsal
    return await endpoints.ask(access, args.model or "", exact=complete), variables


async def intent(call: Call, args: Args) -> Intent | None:
    """Ask first when the endpoint lists a price and the estimate reaches a dollar, or a cap is set."""
    if args.rescore:
        return None
    _supported(args)
    if args.hosted:
        offer = await hosted.offer(call.lab, args.environment, call.snapshot, args.wanted())
        return Intent("eval", offer.key, offer.question, offer.max_cost, offer.ask)
    try:
        access, _ = await _access(call.lab, args)
    except EvalError:
        return None  # the body says the same, as the error of this call
    ref = await upload.target(call.lab, _local(call, args)) if args.upload else None
    if access.price is None and ref is None:
        return None
    estimate = args.wanted().estimate(access.price) if access.price is not None else 0.0
    if estimate < ASK_FROM and call.lab.settings.max_spend is None and ref is None:
        return None
    content = call.snapshot.content if call.snapshot else args.environment
    what = [content, args.model, access.endpoint.url, args.num_examples, args.rollouts, args.max_tokens]
    question = (
        f"Evaluate {args.environment} with {args.model} at {access.endpoint.host}: {args.num_examples} tasks x "
        f"{args.rollouts} rollouts, about ${estimate:.2f} at most for one turn each?"
    )
    if ref is not None:
        what, question = [*what, ref], f"{question} {upload.question(ref)}"
    key = hashlib.sha256(canonical(what).encode()).hexdigest()
    return Intent("eval", key, question, estimate, ask=estimate >= ASK_FROM or ref is not None)


TOOL = Tool(
    name="run_eval",
    title="Run an evaluation",
    description="Evaluate a model with vf-eval as a job and judge its rewards. Past wait_seconds: an id; the same call "
    "waits on, or resumes.",
    args=Args,
    run=run,
    effect="executes",
    snapshot=True,
    intent=intent,
    hosted=lambda args: bool(args.hosted),
    open_world=True,
    idempotent=False,
)
