"""From what a caller asked to one hosted evaluation: its specification, its price, and whether it exists already."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.errors import EvalError
from prime_lab_mcp.lab.evals.hosted.notes import FOREIGN
from prime_lab_mcp.lab.evals.hosted.platform import OVER
from prime_lab_mcp.lab.evals.hosted.subject import Subject, require
from prime_lab_mcp.lab.evals.jobs import LIVE
from prime_lab_mcp.lab.evals.plan import MAX_TOKENS, Wanted
from prime_lab_mcp.lab.evals.spec import Endpoint, EvalSpec, Price
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import number
from prime_lab_mcp.lab.records import Job
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.text import quote

HEADROOM = 4.0
"""What is counted against the cap over the estimate for one turn: no relay of ours ends a hosted evaluation."""
_MINUTES = 60.0
_SECONDS_EACH = 60.0
_LEAST_SECONDS, _MOST_SECONDS = 3600.0, 6 * 3600.0

State = Literal["fresh", "live", "resumes", "known"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`fresh`: nothing of this intent exists (`job`, if any, never got there). `live`: a job follows it.
    `resumes`: it may exist on the platform, and no job follows it. `known`: it finished; `job` holds its results.
    """

    state: State
    key: str
    name: str
    """On the platform; ends in eight hex digits of `key`."""
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """`estimate` and `bound` in US dollars, for one turn a rollout and at most; None where no price is known."""

    subject: Subject
    spec: EvalSpec
    standing: Standing
    estimate: float | None
    bound: float | None


async def prepare(lab: Lab, environment: str, snapshot: Snapshot | None, wanted: Wanted) -> Planned:
    """What would run and cost. Raises LabError: not published, no such model, the platform cannot be asked."""
    subject = await require(lab, environment, snapshot)
    price = await _price(lab, wanted.model)
    # The rehearsal's port is another one after every start, and the intent must stay the same.
    url = "http://rehearsal" if lab.settings.rehearsal else await lab.prime.inference_url()
    spec = _spec(lab, subject, wanted, price, url)
    estimate = wanted.estimate(price) if price is not None else None
    bound = None if estimate is None else round(estimate * HEADROOM, 4)
    return Planned(subject, spec, standing(lab, spec), estimate, bound)


def standing(lab: Lab, spec: EvalSpec) -> Standing:
    """Where the intent stands, by the jobs of this workspace."""
    lab.evals.reconcile()
    same = [j for j in lab.ledger.jobs(lab.key, environment=spec.environment) if j.intent == spec.intent]
    over = [j for j in same if j.state == "finished" or j.progress.get("ended") in OVER]
    key = _key(lab, spec, len(over) + 1)
    name = _name(spec, key)
    if not same:
        return Standing("fresh", key, name)
    job = same[0]
    if job.state in LIVE:
        return Standing("live", key, name, job)
    if job.state == "finished":
        return Standing("known", key, name, job)
    if job in over:
        return Standing("fresh", key, name)
    sent = lab.ledger.intent(key, lab.platform)
    nothing_sent = sent is None or sent.state == "open"
    return Standing("fresh" if nothing_sent else "resumes", key, name, job)


def _key(lab: Lab, spec: EvalSpec, attempt: int) -> str:
    return hashlib.sha256(json.dumps(["hosted-eval", spec.intent, attempt, lab.platform]).encode()).hexdigest()


def _name(spec: EvalSpec, key: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", (spec.hosted or "").partition("@")[0].rpartition("/")[2])
    return f"{stem[:48] or 'eval'}-{key[:8]}"


async def _price(lab: Lab, model: str) -> Price | None:
    """What Prime Inference lists for the model; None where it lists no price. Raises EvalError for an unknown one."""
    listed = {str(m.get("id")): m for m in await lab.prime.inference_models()}
    row = listed.get(model)
    if row is None:
        # The scripted model of a rehearsal is there at every skill, and listed at some.
        if lab.settings.rehearsal or not listed:
            return None
        raise EvalError(
            f"Prime Inference has no model {quote(model, 100)}, and hosted evaluations run on it",
            fix='Use one of its models; search_hub(kind="model") lists them.',
            code="endpoint-no-model",
        )
    pricing = row.get("pricing")
    pricing = pricing if isinstance(pricing, Mapping) else {}
    prompt, completion = number(pricing.get("input_usd_per_mtok")), number(pricing.get("output_usd_per_mtok"))
    return None if prompt is None or completion is None else Price(prompt, completion)


def _spec(lab: Lab, subject: Subject, wanted: Wanted, price: Price | None, url: str) -> EvalSpec:
    push = subject.push if subject.proves else None
    checked = _checked(lab, push.content) if push is not None else {}
    seconds = wanted.num_examples * wanted.rollouts * _SECONDS_EACH / wanted.concurrency
    # What is not ours gets a fingerprint that no folder here can have, so that it opens no gate.
    foreign = f"{FOREIGN}{subject.entry.content_hash or subject.pinned}"
    environment = subject.push.environment if subject.push is not None else subject.ref
    return EvalSpec(
        environment=environment,
        source=push.source if push is not None else foreign,
        content=push.content if push is not None else foreign,
        tree=Path(),
        api="v0" if subject.entry.runtime == "v0" else "v1",
        module=subject.entry.name.replace("-", "_"),
        python=Path(),
        program=Path(),
        verifiers="",
        model=wanted.model,
        endpoint=Endpoint("prime", url),
        num_examples=wanted.num_examples,
        rollouts=wanted.rollouts,
        tasks=checked.get("tasks"),
        max_tokens=wanted.max_tokens or MAX_TOKENS,
        temperature=1.0 if wanted.temperature is None else wanted.temperature,
        env_args=dict(wanted.env_args),
        concurrency=wanted.concurrency,
        deadline_s=min(_MOST_SECONDS, max(_LEAST_SECONDS, seconds)),
        weights=checked.get("weights", {}),
        price=price,
        hosted=subject.pinned,
    )


def _checked(lab: Lab, content: str) -> dict[str, Any]:
    """Tasks and weights of the rewards as check_environment found them for this content."""
    rows = lab.ledger.evidence(tool="check_environment", content=content)
    data = rows[0].data if rows else {}
    tasks = number(data.get("tasks"))
    rewards = [r for r in data.get("rewards") or () if isinstance(r, Mapping)]
    weights = {str(r.get("name")): w for r in rewards if (w := number(r.get("weight"))) is not None}
    return {"tasks": int(tasks) if tasks else None, "weights": weights}


def question(planned: Planned, model: str) -> str:
    """One paragraph for a person: what runs where, and what it may cost."""
    spec, subject = planned.spec, planned.subject
    other = (
        f" Version {subject.asked} was asked for; the platform runs the latest."
        if subject.asked not in (None, subject.version)
        else ""
    )
    cost = (
        f"about ${planned.estimate:.2f} for one turn each, counted as at most ${planned.bound:.2f}"
        if planned.estimate is not None and planned.bound is not None
        else "its price is not known"
    )
    minutes = spec.deadline_s / _MINUTES
    return (
        f"Evaluate {subject.pinned} on the platform with {model}: {spec.num_examples} tasks x {spec.rollouts} "
        f"rollouts, {cost}; it is billed there and ends after {minutes:.0f} minutes at the latest.{other}"
    )
