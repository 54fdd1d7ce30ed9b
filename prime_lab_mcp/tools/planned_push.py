"""What `push_environment` plans and sends once its gates are open: question, push, and comparison with the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.text import count, plain_id
from prime_lab_mcp.lab.configs.evidence import evidence_of_source
from prime_lab_mcp.lab.environment.data_files import data_files_sentence
from prime_lab_mcp.lab.hub import lookup, publish
from prime_lab_mcp.lab.hub.publish import PublishRequest, PublishResult, PublishTarget
from prime_lab_mcp.lab.hub.version_bump import bumped_version
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Runtime
from prime_lab_mcp.lab.rewards import surroundings, surroundings_report
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.compared_rewards import comparison_sentence
from prime_lab_mcp.lab.state.config_gate import HUB_DIFFERS, HubContent
from prime_lab_mcp.lab.state.open_warnings import port_since_edited, warnings_sentence
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.state.pulled import pull_of_folder, pull_of_source
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import detect_generation, read_source
from prime_lab_mcp.lab.training.next_step import config_of_pull
from prime_lab_mcp.tools.push_environment import Args
from prime_lab_mcp.tools.tool import Call, Intent, Plan


def _push_request(args: Args) -> PublishRequest:
    return PublishRequest(args.owner, args.team, args.visibility, args.bump)


def _local(call: Call) -> Snapshot:
    if call.snapshot is None:
        raise BadInput(
            "only an environment of the workspace can be pushed",
            fix=Fix(
                "Name a folder under environments/; pull one from the Hub with ",
                NamedCall("create_environment", hub=...),
                ".",
            ),
            code="environment-not-found",
        )
    return call.snapshot


def _runtime(snapshot: Snapshot) -> Runtime:
    """The runtime label for the Hub: from the code, else from the requirement on verifiers, as prime does."""
    return detect_generation(snapshot).api or lookup.runtime_required(snapshot.manifest.requirements) or "v1"


def _reads(snapshot: Snapshot) -> str:
    """What the code looks at besides task and completion, as a sentence of the question."""
    reads = surroundings.find_surroundings(read_source(snapshot), snapshot.manifest.module or "", snapshot.name)
    sentence = surroundings_report.surroundings_sentence(surroundings_report.surroundings_phrases(reads))
    return f" {sentence}" if sentence else ""


@dataclass(frozen=True, slots=True)
class PushPlan:
    """The target of the push and the request of the caller."""

    target: PublishTarget
    key: str
    args: Args
    held: HubContent | None = None
    """What the Hub holds, where it seems to hold these files already."""


async def plan(call: Call, args: Args) -> Plan[PushPlan]:
    snapshot = _local(call)
    target = await publish.plan_publish(call.lab, snapshot, _push_request(args), call.platform)
    key = publish.publish_key(call.lab, snapshot, target)
    if target.present is not None:
        return await _plan_present(call, snapshot, target, key, args, target.present)
    work = PushPlan(target, key, args)
    if target.problem is not None:
        return Plan(work, Intent("push", key, f"{target.ref}: nothing is sent.", ask=False))
    # The question counts the rows of data files, which may be large.
    question = await anyio.to_thread.run_sync(_question, snapshot, target, args.env_args)
    question += comparison_sentence(call.lab.ledger, call.lab.key, snapshot)
    lab, port = call.lab, port_since_edited(call.lab.ledger, call.lab.key, snapshot.name, snapshot.source)
    rows = evidence_of_source(lab, lab.key, snapshot.source)
    known = warnings_sentence(snapshot.name, rows, port, [args.env_args or {}])
    question += _origin(call.lab, snapshot) + (f" {known}" if known else "")
    caution = _made_public(target)
    cautions = () if caution is None else (caution,)
    return Plan(work, Intent("push", key, question, cautions=cautions, instead=_after_decline(call.lab, snapshot)))


_NAMED_VERSIONS = 6


def _made_public(target: PublishTarget) -> str | None:
    """Which earlier versions a push makes public; None where it makes none. The Hub keeps one visibility for a name."""
    entry = target.entry
    if target.visibility != "PUBLIC" or not entry.exists or entry.version is None or entry.visibility == "PUBLIC":
        return None
    now = "is PRIVATE now" if entry.visibility == "PRIVATE" else "may be private now"
    whole = f"{target.ref} {now}, and the Hub has one visibility for all versions of a name"
    if not entry.versions:
        return f"{whole}: earlier versions of this name, {plain_id(entry.version)} among them, become public as well"
    named = [plain_id(version) for version in list(entry.versions)[:_NAMED_VERSIONS]]
    more = len(entry.versions) - len(named)
    listed = ", ".join(named) + (f" and {more} more" if more else "")
    return f"{whole}: its earlier versions become public as well, with all their files ({listed})"


def _origin(lab: Lab, snapshot: Snapshot) -> str:
    """Whose environment the files are, as a sentence of the question; empty where they were not pulled."""
    pulled = pull_of_folder(lab.ledger, lab.key, snapshot.name) or pull_of_source(lab.ledger, snapshot.source)
    if pulled is None:
        return ""
    edited = pulled.source != snapshot.source
    how = ", and edited since" if edited else " and unchanged, which is trained on as it is without being published"
    return f" It was pulled as {pulled.ref} of another owner{how}."


def _after_decline(lab: Lab, snapshot: Snapshot) -> tuple[Next, ...]:
    """What else can be done with an environment that is not to be published."""
    train = config_of_pull(lab, snapshot)
    files = Next("read_environment", "its files, to change what the user wants changed", {"environment": snapshot.name})
    return (files,) if train is None else (train, files)


async def _plan_present(
    call: Call, snapshot: Snapshot, target: PublishTarget, key: str, args: Args, version: str
) -> Plan[PushPlan]:
    """The Hub says that it holds these files. Its word is a hint, so the files are compared; nothing is sent."""
    held = await publish.compare_with_hub(call.lab, snapshot, target, version)
    work = PushPlan(target, key, args, held)
    if held.caution is None:
        return Plan(work, Intent("push", key, f"{target.ref}: nothing is sent.", ask=False))
    question = f"Record {target.ref}@{version} as a push of {snapshot.name}, without sending anything?"
    return Plan(work, Intent("push", key, question, cautions=(held.caution,)))


def _question(snapshot: Snapshot, target: PublishTarget, env_args: Mapping[str, Any] | None) -> str:
    if target.entry.exists:
        visibility = target.visibility or target.entry.visibility or "as it is"
        place = f"as the next version after {target.entry.version} (visibility: {visibility})"
    else:
        place = f"as a new environment (visibility: {target.visibility})"
    bump = (
        f" The version in its pyproject.toml is raised from {target.bumped_from} to {target.version}."
        if target.bumped_from
        else ""
    )
    return (
        f"Publish {snapshot.name} on the Environments Hub as {target.ref} version {target.version} {place}: "
        f"{count(len(snapshot.files), 'file')}, verifiers {_runtime(snapshot)}, source {snapshot.source[:12]}"
        f"{f', proven with {arguments_summary(env_args)}' if env_args else ''}.{bump} "
        f"A published version cannot be changed afterwards.{data_files_sentence(snapshot)}{_reads(snapshot)}"
    )


async def run(call: Call, plan: Plan[PushPlan]) -> Outcome:
    args, key, request = plan.work.args, plan.work.key, _push_request(plan.work.args)
    snapshot, target = await _target_now(call, _local(call), plan.work)
    # Of an environment that was new before the same push the Hub knows a visibility now, which is a part of the key.
    was_sent = target.present == plan.work.target.version and target.ref == plan.work.target.ref
    if not was_sent and publish.publish_key(call.lab, snapshot, target) != key:
        raise LabError(
            "the files, the account or the Hub changed while this was being approved",
            fix=Fix("Call ", NamedCall("push_environment"), " again; it asks about what would be sent now."),
            code="intent-changed",
        )
    if target.problem is not None:
        return _failed(snapshot, target, (target.problem,))
    runtime = _runtime(snapshot)
    if target.present is not None:
        there = PublishResult(target.present, target.entry, False)
        held = plan.work.held or await publish.compare_with_hub(call.lab, snapshot, target, target.present)
        return _outcome(call, snapshot, target, there, runtime, args, held)
    with bumped_version(_manifest(call, snapshot), target) as raised:
        if target.bumped_from is not None:
            await call.progress(0.0, 3.0, f"raising the version to {target.version}")
            snapshot = await _bumped(call, snapshot)
            report = await call.prove("check_environment", snapshot)
            if report.status != "passed":
                raised.undo()
                return _failed(snapshot, target, tuple(f for f in report.findings if f.severity == "blocker"))
        await call.progress(1.0, 3.0, f"pushing {target.ref} {target.version}")
        raised.sending = True
        published = await publish.send_push(call.lab, snapshot, target, key, runtime, request)
    await call.progress(3.0, 3.0, "comparing with what the Hub holds")
    held = await publish.compare_with_hub(call.lab, snapshot, target, published.version)
    return _outcome(call, snapshot, target, published, runtime, args, held)


async def _target_now(call: Call, snapshot: Snapshot, work: PushPlan) -> tuple[Snapshot, PublishTarget]:
    """The files and the target of the plan. If the same intent was pushed meanwhile, the Hub is asked again, about the
    files with the version that was raised for that push. Raises LabError while another server pushes."""
    sent = call.lab.ledger.intent(work.key, call.lab.platform)
    if sent is None or sent.state == "open" or work.target.present is not None:
        return snapshot, work.target
    if work.target.bumped_from is not None:
        snapshot = await _bumped(call, snapshot)
    target = await publish.plan_publish(call.lab, snapshot, _push_request(work.args))
    if target.present is None and sent.state == "sent":
        await publish.require_not_in_flight(call.lab, snapshot, work.target, work.key, _runtime(snapshot))
    return snapshot, target


def _manifest(call: Call, snapshot: Snapshot) -> Path:
    return call.lab.workspace.environment(snapshot.relative).path / "pyproject.toml"


async def _bumped(call: Call, before: Snapshot) -> Snapshot:
    """A snapshot with the raised version. Raises LabError if anything else changed."""
    after = await call.lab.snapshot(before.relative)
    same = all(after.files.get(p) == digest for p, digest in before.files.items() if p != "pyproject.toml")
    if after.source != before.source or not same or len(after.files) != len(before.files):
        raise LabError(
            f"{before.name} was edited while it was being pushed; nothing was sent",
            fix=Fix("Call ", NamedCall("push_environment"), " again when the files are still."),
            code="edited-meanwhile",
        )
    return after


def _failed(snapshot: Snapshot, target: PublishTarget, findings: tuple[Finding, ...]) -> Outcome:
    findings = findings or (
        Finding(
            "check-after-bump",
            "blocker",
            "check_environment did not pass after the version was raised",
            Fix("Call ", NamedCall("check_environment"), "."),
        ),
    )
    calls = [Next("check_environment", "see what it names", {"environment": snapshot.name})]
    if findings[0].code == "version-taken":
        arguments = {"environment": snapshot.name, "bump": "patch"}
        calls = [Next("push_environment", "as the next version", arguments)]
    elif findings[0].code == "version-is-source":
        calls = [Next("workflow_status", "what is proven, once the version is raised", {"environment": snapshot.name})]
    return Outcome(
        "failed",
        f"{target.ref} was not pushed: {findings[0].message}.",
        findings,
        {"owner": target.owner, "name": target.name, "version": target.version, "content": snapshot.content},
        tuple(calls),
        facts=Facts(touches_platform=True, proves=False),
        snapshot=snapshot,
    )


def _outcome(
    call: Call,
    snapshot: Snapshot,
    target: PublishTarget,
    published: PublishResult,
    runtime: Runtime,
    args: Args,
    held: HubContent,
) -> Outcome:
    push = publish.record_push(call.lab, snapshot, target, published, runtime, held)
    findings = _hub_findings(snapshot, target, published, push.hub_hash, runtime, args, held)
    data: dict[str, Any] = {
        "owner": target.owner,
        "name": target.name,
        "version": published.version,
        "content": snapshot.content,
        "hub_hash": push.hub_hash,
        "verified": push.verified,
        "compared": held.outcome,
        "visibility": published.entry.visibility or target.visibility,
        "runtime": runtime,
        "deduplicated": not published.was_sent,
    }
    if target.bumped_from:
        data["bumped_from"] = target.bumped_from
    if published.pushed is not None:
        data |= {"url": published.pushed.url, "wheel_sha256": published.pushed.wheel_sha256}
    failed = any(f.severity == "blocker" for f in findings)
    pinned = f"{target.ref}@{published.version}"
    how = "is on the Hub already" if not published.was_sent else "was pushed"
    sure = (
        "the Hub holds exactly what was validated"
        if push.verified == "hub"
        else "not all of its files could be compared"
    )
    return Outcome(
        "failed" if failed else "passed",
        f"{pinned} {how}, but the Hub holds other content." if failed else f"{pinned} {how}; {sure}.",
        tuple(findings),
        data,
        _next(pinned, runtime, failed, args.env_args),
        facts=Facts(runtime=runtime, env_args=args.env_args or {}, touches_platform=True),
        snapshot=snapshot,
    )


def _hub_findings(
    snapshot: Snapshot,
    target: PublishTarget,
    published: PublishResult,
    hub_hash: str | None,
    runtime: Runtime,
    args: Args,
    held: HubContent,
) -> list[Finding]:
    findings: list[Finding] = []
    if held.outcome == "different":
        findings.append(
            Finding(
                "hub-content-differs",
                "blocker",
                held.detail,
                Fix(
                    "Somebody else may push to this name. Call ",
                    NamedCall("push_environment").changed(bump="patch"),
                    ", or ask the user to waive this for this version: prime-lab-mcp override "
                    f"{snapshot.name} {HUB_DIFFERS} --reason TEXT.",
                ),
            )
        )
    elif hub_hash and hub_hash != snapshot.cli_hash:
        findings.append(
            Finding(
                "hub-content-differs",
                "blocker",
                f"the Hub holds {target.ref} {published.version} with content hash {hub_hash[:12]}, "
                f"not {snapshot.cli_hash[:12]} as was validated",
                Fix(
                    "Somebody else may push to this name. Call ",
                    NamedCall("push_environment").changed(bump="patch"),
                    ".",
                ),
            )
        )
    elif not hub_hash:
        reason = "it could not be asked" if published.entry.exists is None else "it returned none"
        findings.append(
            Finding(
                "hub-hash-unknown",
                "warning",
                f"the Hub's content hash of {target.ref} {published.version} is not known: {reason}",
                "Compare version and wheel_sha256 on the Hub's page, or call push_environment again.",
            )
        )
    if held.caution is not None:
        findings.append(
            Finding(
                "hub-files-not-compared",
                "warning",
                held.detail,
                "Call push_environment again to compare; until then submit_training names this in its question.",
            )
        )
    elif held.outcome == "archive-only":
        findings.append(
            Finding("hub-wheel-not-served", "info", held.detail, "Nothing to do: private environments have no wheel.")
        )
    label = published.entry.runtime
    if label is not None and label != runtime and published.version == published.entry.version:
        findings.append(
            Finding(
                "hub-runtime-differs",
                "warning",
                f"the Hub labels {target.ref} {published.version} verifiers {label}, and its code is {runtime}",
                'Call push_environment with bump="patch" after any edit: a new version carries its own label.',
            )
        )
    wanted = args.visibility
    if wanted and published.entry.visibility and published.entry.visibility != wanted:
        findings.append(
            Finding(
                "visibility-unchanged",
                "warning",
                f"{target.ref} is {published.entry.visibility}, not {wanted} as asked",
                "Ask the user to change it on the Hub's page.",
            )
        )
    return findings


def _next(pinned: str, runtime: Runtime, failed: bool, env_args: Mapping[str, Any] | None) -> tuple[Next, ...]:
    if failed:
        return (Next("search_hub", "see what the Hub holds", {"kind": "environment", "query": pinned}),)
    if runtime == "v0":
        return (Next("read_reference", "v0 cannot be trained; how to port it", {"topic": "guide/migration"}),)
    given = {"environments": [pinned], **({"env_args": dict(env_args)} if env_args else {})}
    how = f" with {arguments_summary(env_args)}" if env_args else ""
    return (
        Next(
            "write_training_config",
            f"a config to train on it{how}, with model=NAME for a model of the user's choice",
            given,
        ),
    )
