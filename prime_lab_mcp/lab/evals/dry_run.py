"""The report of `run_eval(dry_run=true)`: what an evaluation would cost, and which gates it could open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import amount_text, count, plain_id
from prime_lab_mcp.lab.distribution.sample_size import is_too_small, needed_size
from prime_lab_mcp.lab.evals.evidence_limits import draw_limit, sampling_difference
from prime_lab_mcp.lab.evals.results import result_purpose
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Facts, Outcome


def dry_run_outcome(lab: Lab, specs: Sequence[EvalSpec], start: Mapping[str, Any], *, existing: int = 0) -> Outcome:
    """Return the report on the evaluations that one call of run_eval would start, without starting any.

    `specs` differ only in their model. `start` holds the arguments of the call that starts them. `existing` is the
    number of them that this workspace has already started or finished.
    """
    first = specs[0]
    estimates = [spec.estimate for spec in specs]
    tokens = {name: sum(e["tokens"][name] for e in estimates) for name in ("prompt", "completion")}
    costs = [e.get("cost") for e in estimates]
    minutes = [e["minutes"] for e in estimates if "minutes" in e]
    bounds = [spec.max_cost for spec in specs]
    free = all(spec.price is None and spec.max_total_tokens is None for spec in specs)
    cost = None if any(c is None for c in costs) else round(sum(c for c in costs if c is not None), 4)
    most = None if any(b is None for b in bounds) else round(sum(b for b in bounds if b is not None), 4)
    evidence, limits = evidence_of(lab, first)
    data: dict[str, Any] = {
        "dry_run": True,
        "models": [spec.model for spec in specs],
        "tasks": first.planned_tasks,
        "rollouts": first.rollouts,
        "planned": sum(spec.planned for spec in specs),
        "tokens": tokens,
        "cost": 0.0 if free else cost,
        "at_most": 0.0 if free else most,
        "existing": existing,
        "basis": estimates[0]["basis"],
        **({"minutes": round(sum(minutes), 1)} if minutes else {}),
        "evidence": evidence,
    }
    if free:
        price = "costs nothing (a server of this machine)"
    elif most is None:
        price = f"{first.endpoint.host} lists no price; it ends at {first.max_total_tokens or 0:,} tokens"
    else:
        price = f"likely about {amount_text(cost or 0.0)} ({estimates[0]['basis']}), at most ${most:.2f}"
    again = (
        " Such an evaluation exists already: the call returns it and pays nothing." if existing == len(specs) else ""
    )
    rehearsal = " This is a rehearsal: nothing is paid." if lab.settings.rehearsal else ""
    models = " and ".join(plain_id(spec.model) for spec in specs)
    return Outcome(
        "passed",
        f"Nothing was started. {first.environment} with {models}: {count(first.planned_tasks, 'task')} x "
        f"{count(first.rollouts, 'rollout')}, {tokens['prompt'] + tokens['completion']:,} tokens, {price}. "
        f"{evidence['summary']}{again}{rehearsal}{first.minutes_sentence}",
        limits,
        data,
        (Next("run_eval", "starts it", {**start, "num_examples": first.num_examples, "rollouts": first.rollouts}),),
        facts=Facts(proves=False),
    )


_CLOSING: Mapping[Code, str] = {
    "distribution-too-small": "the sample is too small",
    "distribution-drawn": "its tasks are no sample of those of training",
}


def evidence_of(lab: Lab, spec: EvalSpec) -> tuple[dict[str, Any], tuple[Finding, ...]]:
    """Return which gates the evaluation could open, as the `evidence` of the report, and findings on what prevents it
    from opening them."""
    purpose = result_purpose(lab, spec)
    if purpose is not None:
        summary = f"It would be a result ({purpose.description}), which opens no gate."
        return {"kind": purpose.kind, "opens": [], "summary": summary}, ()
    if spec.hosted is not None and spec.source.startswith("hub:"):
        return {"kind": "foreign", "opens": [], "summary": "It would be no evidence for a local environment."}, ()
    limits: list[Finding] = []
    tasks, rollouts = needed_size(spec.available)
    if is_too_small(spec.planned_tasks, spec.planned, spec.available):
        limits.append(
            Finding(
                "distribution-too-small",
                "warning",
                f"{count(spec.planned_tasks, 'task')} x {count(spec.rollouts, 'rollout')} are too few to decide "
                f"anything: {tasks} x {rollouts} are needed",
                f"Run run_eval with num_examples={tasks} and rollouts={rollouts}; more of both decide more surely.",
            )
        )
    if (drawn := draw_limit(spec)) is not None:
        limits.append(drawn)
    differing = sampling_difference(spec.sampling)
    if differing is not None:
        limits.append(
            Finding(
                "distribution-other-sampling",
                "warning",
                f"it is sampled {differing}: the share of usable groups does not carry over",
                "Leave temperature out.",
            )
        )
    if spec.endpoint.named_by == "call":
        limits.append(
            Finding(
                "evidence-ceiling-only",
                "warning",
                f"nobody stands for {spec.endpoint.host}: pushing or training on its evidence needs a person's answer",
                "Use prime, or an endpoint that the user named (--endpoint).",
            )
        )
    arguments = "the default arguments" if not spec.env_args else "these arguments"
    closing = next((_CLOSING[f.code] for f in limits if f.code in _CLOSING), "")
    opens = [] if closing else ["push_environment", "submit_training"]
    summary = (
        f"If it passes, it is the distribution that push_environment and submit_training need, for {arguments} and "
        f"{plain_id(spec.model)}."
        if opens
        else f"It would open no gate: {closing}."
    )
    return {"kind": "training", "opens": opens, "summary": summary, "platform": lab.platform}, tuple(limits)
