"""The plan of a hosted evaluation: the version that would run, its cost, and whether it was started before.

The plan also compares the published files with those that were pushed from this machine.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from prime_lab_mcp.lab.base.errors import BadInput, PrimeError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Unmet
from prime_lab_mcp.lab.base.text import amount_text, quote
from prime_lab_mcp.lab.evals.evidence_limits import FOREIGN
from prime_lab_mcp.lab.evals.hosted.platform import ENDED_WITHOUT_RESULT
from prime_lab_mcp.lab.evals.measured import measured_rollout
from prime_lab_mcp.lab.evals.plan import MAX_TOKENS, EvalRequest
from prime_lab_mcp.lab.evals.rehearsal_answers import served_unlisted
from prime_lab_mcp.lab.evals.runner.jobs import LIVE_STATES, EvaluationJobs
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.hub_files import compare_hub_files, fetch_hub_files
from prime_lab_mcp.lab.hub.lookup import HubEntry
from prime_lab_mcp.lab.hub.ownership import FileFingerprints, read_ownership
from prime_lab_mcp.lab.hub.publish import proven_files
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import not_offered_error, not_served_finding
from prime_lab_mcp.lab.prime.answers import finite_number
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.config_gate import HubContent, unknown_owner
from prime_lab_mcp.lab.state.ledger.rows import Job, Push
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.workspace import HUB_NAME


@dataclass(frozen=True, slots=True)
class HostedEnvironment:
    """One published environment, in the version that the platform would run.

    `push` is the push of exactly this version from this machine, None if there was none.
    """

    entry: HubEntry
    version: str
    push: Push | None = None
    content: HubContent | None = None
    """Comparison of the files on the Hub with those of the push. None without a push."""
    requested_version: str | None = None
    """The version that the caller named. The platform runs the latest version even if that is another one."""

    @property
    def ref(self) -> str:
        """`owner/name` on the Hub."""
        return self.entry.ref

    @property
    def pinned(self) -> str:
        """`owner/name@version` on the Hub."""
        return f"{self.ref}@{self.version}"

    @property
    def proves(self) -> bool:
        """Whether the files on the Hub equal those of the push, so that the evaluation is evidence for them."""
        return self.content is not None and self.content.outcome in ("equal", "archive-only")


@dataclass(frozen=True, slots=True)
class HostedLookup:
    """The result of a look-up on the Hub. `subject` is None if the evaluation is refused; `unmet` then says why."""

    subject: HostedEnvironment | None
    unmet: tuple[Unmet, ...] = ()


async def look_up_hosted(
    lab: Lab, environment: str, snapshot: Snapshot | None, platform: PlatformReader | None = None
) -> HostedLookup:
    """Look up the environment on the Hub: that of `snapshot`, or else `environment` as `owner/name[@version]`.

    `platform` is used for requests if given, instead of `lab.prime`. Raises PrimeError if the Hub does not answer or
    has no such environment, and BadInput if `environment` is no valid name.
    """
    prime = platform or lab.prime
    return await (
        _look_up_local(lab, prime, snapshot) if snapshot is not None else _look_up_by_name(lab, prime, environment)
    )


async def require_hosted(
    lab: Lab, environment: str, snapshot: Snapshot | None, platform: PlatformReader | None = None
) -> HostedEnvironment:
    """Return the published environment that can be evaluated. Raises LabError if there is none."""
    lookup_result = await look_up_hosted(lab, environment, snapshot, platform)
    if lookup_result.subject is None:
        reason = lookup_result.unmet[0].detail if lookup_result.unmet else "it was not pushed"
        raise BadInput(
            f"{quote(environment, 120)} cannot be evaluated on the platform: {reason}",
            fix=Fix("Call ", NamedCall("push_environment"), "; it publishes what was proven."),
            code="hosted-unpublished",
        )
    return lookup_result.subject


async def _look_up_local(lab: Lab, prime: PlatformReader, snapshot: Snapshot) -> HostedLookup:
    pushes = lab.ledger.pushes(source=snapshot.source, platform=lab.platform)
    if not pushes:
        return _refused("never-run", f"{snapshot.name} as it is now was not pushed to {_hub_name(lab)}")
    entry = await _require_entry(prime, pushes[0].owner, pushes[0].name)
    if not entry.exists or entry.version is None:
        return _refused("stale", f"the Hub no longer holds {entry.ref}")
    own_pushes = [p for p in pushes if (p.owner, p.name) == (entry.owner, entry.name)]
    push = _latest_push(own_pushes, entry)
    if push is None:
        return _other_latest_version(own_pushes[0], entry)
    return await _compared(lab, entry, entry.version, push)


async def _look_up_by_name(lab: Lab, prime: PlatformReader, environment: str) -> HostedLookup:
    name = HUB_NAME.match(environment)
    if name is None:
        raise BadInput(
            f"{quote(environment, 120)} is neither a folder of the workspace nor owner/name on the Hub",
            fix=Fix(
                "Name a folder under environments/, or owner/name; ",
                NamedCall("search_hub", kind="environment", query=...).bare,
                " finds them.",
            ),
            code="environment-not-found",
        )
    entry = await _require_entry(prime, name["owner"], name["name"])
    if not entry.exists or entry.version is None:
        raise PrimeError(
            f"the Hub holds no published version of {entry.ref}",
            fix=Fix(
                "Check the name with ",
                NamedCall("search_hub", kind="environment", query=...).bare,
                "; publish one of your own with ",
                NamedCall("push_environment"),
                ".",
            ),
            code="platform-not-found",
        )
    pushes = lab.ledger.pushes(owner=entry.owner, name=entry.name, platform=lab.platform)
    push = _latest_push(pushes, entry)
    if push is not None:
        return await _compared(lab, entry, entry.version, push, name["version"])
    ownership = await read_ownership(lab, prime)
    files = await fetch_hub_files(lab, entry.ref, entry.version, wheel=False)
    fingerprints = FileFingerprints(entry.content_hash, files.source, files.content)
    if not ownership.is_ours(lab, entry.owner, entry.name, fingerprints):
        if ownership.unasked:
            raise PrimeError(
                unknown_owner(entry.ref, ownership.unasked),
                fix=Fix("Call ", NamedCall("preflight"), "; it says what the account and its key can be asked."),
                code="platform-unreachable",
            )
        return HostedLookup(HostedEnvironment(entry, entry.version, requested_version=name["version"]))
    if pushes:
        return _other_latest_version(pushes[0], entry)
    return _refused(
        "never-run", f"{entry.ref} is yours, but was not pushed through this server: pull and prove it here"
    )


async def _compared(
    lab: Lab, entry: HubEntry, version: str, push: Push, requested_version: str | None = None
) -> HostedLookup:
    """Return the environment if the files on the Hub equal those of the push.

    The files are compared themselves, because different trees can have the same content hash on the Hub.
    """
    files = await fetch_hub_files(lab, entry.ref, version)
    content = compare_hub_files(files, proven_files(lab, push.content, push.workspace), f"{entry.ref}@{version}")
    if content.outcome == "different":
        return _refused("stale", content.detail)
    return HostedLookup(HostedEnvironment(entry, version, push, content, requested_version))


async def _require_entry(prime: PlatformReader, owner: str, name: str) -> HubEntry:
    entry = await lookup.look_up_environment(prime, owner, name)
    if entry.exists is None:
        raise entry.problem or PrimeError("the Hub could not be asked", fix="Call again.", code="platform-unreachable")
    return entry


def _latest_push(pushes: list[Push], entry: HubEntry) -> Push | None:
    """Return the push of the Hub's latest version, or None. If the Hub states a content hash, it has to match too."""
    same_version = (p for p in pushes if p.version == entry.version)
    return next((p for p in same_version if entry.content_hash in (None, p.cli_hash)), None)


def _other_latest_version(push: Push, entry: HubEntry) -> HostedLookup:
    difference = "with other content than was pushed" if entry.version == push.version else f"not {push.version}"
    return _refused(
        "stale",
        f"hosted evaluations run the latest version of {entry.ref}, and the Hub's latest is {entry.version}, "
        f"{difference}",
    )


def _refused(state: Literal["never-run", "stale"], detail: str) -> HostedLookup:
    return HostedLookup(None, (Unmet("push_environment", state, detail),))


def _hub_name(lab: Lab) -> str:
    return "the rehearsal Hub" if lab.settings.rehearsal else "the Hub"


HEADROOM = 4.0
"""The reserved amount as a multiple of the estimate for one turn per rollout. No relay limits a hosted evaluation."""
_MINUTES = 60.0
_SECONDS_EACH = 60.0
_LEAST_SECONDS, _MOST_SECONDS = 3600.0, 6 * 3600.0

State = Literal["fresh", "live", "resumes", "known"]


@dataclass(frozen=True, slots=True)
class HostedStanding:
    """Whether an evaluation with the same intent was started before, and how its job stands.

    `fresh`: none was started, or its job never reached the platform. `live`: a job follows the evaluation. `resumes`:
    the evaluation may exist on the platform, and no job follows it. `known`: it finished, and `job` has its results.
    """

    state: State
    key: str
    name: str
    """Name of the evaluation on the platform, which ends in eight hex digits of `key`."""
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class HostedPlan:
    """A planned hosted evaluation.

    `estimate` is the likely cost, as `EvalSpec.estimate` has it, and `bound` the amount that is reserved, both in US
    dollars. Both are None if the model has no listed price.
    """

    subject: HostedEnvironment
    spec: EvalSpec
    standing: HostedStanding
    estimate: float | None
    bound: float | None


async def plan_hosted(
    lab: Lab, environment: str, snapshot: Snapshot | None, request: EvalRequest, platform: PlatformReader | None = None
) -> HostedPlan:
    """Plan a hosted evaluation and its cost. `platform` is used for requests to the Hub if given.

    Raises LabError if the environment is not published, the model does not exist or the platform does not answer.
    """
    subject = await require_hosted(lab, environment, snapshot, platform)
    price = await _price(lab, request.model, platform or lab.prime)
    # The rehearsal's port changes with every start, but the intent must stay the same.
    url = "http://rehearsal" if lab.settings.rehearsal else await lab.prime.inference_url()
    request = request.within_budget(price)
    spec = _spec(lab, subject, request, price, url)
    spec = replace(spec, measured=measured_rollout(lab, spec))
    bound = round(request.estimate(price) * HEADROOM, 4) if price is not None else None
    return HostedPlan(subject, spec, hosted_standing(lab, spec), spec.estimate.get("cost"), bound)


def hosted_standing(lab: Lab, spec: EvalSpec) -> HostedStanding:
    """Return whether this workspace has started the same evaluation before, and whether it runs, ended or resumes."""
    EvaluationJobs(lab).reconcile()
    same_intent = [j for j in lab.ledger.jobs(lab.key, environment=spec.environment) if j.intent == spec.intent]
    ended = [j for j in same_intent if j.state == "finished" or j.progress.get("ended") in ENDED_WITHOUT_RESULT]
    key = _key(lab, spec, len(ended) + 1)
    name = _name(spec, key)
    if not same_intent:
        return HostedStanding("fresh", key, name)
    job = same_intent[0]
    if job.state in LIVE_STATES:
        return HostedStanding("live", key, name, job)
    if job.state == "finished":
        return HostedStanding("known", key, name, job)
    if job in ended:
        return HostedStanding("fresh", key, name)
    intent = lab.ledger.intent(key, lab.platform)
    is_unsent = intent is None or intent.state == "open"
    return HostedStanding("fresh" if is_unsent else "resumes", key, name, job)


def _key(lab: Lab, spec: EvalSpec, attempt: int) -> str:
    return hashlib.sha256(json.dumps(["hosted-eval", spec.intent, attempt, lab.platform]).encode()).hexdigest()


def _name(spec: EvalSpec, key: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", (spec.hosted or "").partition("@")[0].rpartition("/")[2])
    return f"{stem[:48] or 'eval'}-{key[:8]}"


async def _price(lab: Lab, model: str, prime: PlatformReader) -> Price | None:
    """Return the price that Prime Inference lists for a model, or None. Raises BadInput for an unknown model."""
    listed = {str(m.get("id")): m for m in await prime.inference_models()}
    row = listed.get(model)
    if row is None:
        if not listed or (lab.settings.rehearsal and served_unlisted(lab, model)):
            return None
        raise not_offered_error(not_served_finding(model, listed, hosted=True))
    pricing = row.get("pricing")
    pricing = pricing if isinstance(pricing, Mapping) else {}
    prompt, completion = (
        finite_number(pricing.get("input_usd_per_mtok")),
        finite_number(pricing.get("output_usd_per_mtok")),
    )
    return None if prompt is None or completion is None else Price(prompt, completion)


def _spec(lab: Lab, subject: HostedEnvironment, request: EvalRequest, price: Price | None, url: str) -> EvalSpec:
    push = subject.push if subject.proves else None
    checked_facts = _checked_facts(lab, push.content) if push is not None else {}
    seconds = request.num_examples * request.rollouts * _SECONDS_EACH / request.concurrency
    # A foreign environment gets a fingerprint that no local folder can have, so that it opens no gate.
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
        model=request.model,
        endpoint=Endpoint("prime", url),
        num_examples=request.num_examples,
        rollouts=request.rollouts,
        tasks=checked_facts.get("tasks"),
        max_tokens=request.max_tokens or MAX_TOKENS,
        temperature=1.0 if request.temperature is None else request.temperature,
        env_args=dict(request.env_args),
        concurrency=request.concurrency,
        deadline_s=min(_MOST_SECONDS, max(_LEAST_SECONDS, seconds)),
        weights=checked_facts.get("weights", {}),
        price=price,
        hosted=subject.pinned,
    )


def _checked_facts(lab: Lab, content: str) -> dict[str, Any]:
    """Return the number of tasks and the reward weights that check_environment recorded for this content."""
    rows = lab.ledger.evidence(tool="check_environment", content=content)
    data = rows[0].data if rows else {}
    tasks = finite_number(data.get("tasks"))
    rewards = [r for r in data.get("rewards") or () if isinstance(r, Mapping)]
    weights = {str(r.get("name")): w for r in rewards if (w := finite_number(r.get("weight"))) is not None}
    return {"tasks": int(tasks) if tasks else None, "weights": weights}


def hosted_question(planned: HostedPlan, model: str) -> str:
    """Return the question to a person before the start: the environment, the size, the cost and the time limit."""
    spec, subject = planned.spec, planned.subject
    version_note = (
        f" Version {subject.requested_version} was asked for; the platform runs the latest."
        if subject.requested_version not in (None, subject.version)
        else ""
    )
    cost = (
        f"about {amount_text(planned.estimate)} ({spec.estimate['basis']}), counted as at most ${planned.bound:.2f}"
        if planned.estimate is not None and planned.bound is not None
        else "its price is not known"
    )
    minutes = spec.deadline_s / _MINUTES
    given = f" and {arguments_summary(spec.env_args)}" if spec.env_args else ""
    return (
        f"Evaluate {subject.pinned} on the platform with {model}{given}: {spec.num_examples} tasks x {spec.rollouts} "
        f"rollouts, {cost}; it is billed there and ends after {minutes:.0f} minutes at the latest.{version_note}"
    )
