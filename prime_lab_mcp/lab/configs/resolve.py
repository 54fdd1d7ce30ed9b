"""Names of environments as taskset ids: local folders by their push, names on the Hub pinned to a version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.configs.evidence import pushed
from prime_lab_mcp.lab.configs.plan import Choices
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Push
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.workspace import HUB_NAME, EnvironmentFolder

Proof = tuple[str, str, str]
"""Workspace, environment and source whose evidence speaks of a source."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """An environment as the config names it, its local folder where there is one, and what to say about it."""

    id: str
    folder: Path | None = None
    findings: tuple[Finding, ...] = ()
    proof: Proof | None = None


async def resolve(lab: Lab, name: str, choices: Choices, lenient: bool = False) -> Resolved:
    """A name as a taskset id. `lenient`: what cannot be resolved stays as the older file has it, with a warning."""
    hosted = choices.target == "hosted"
    matched = HUB_NAME.match(name)
    if matched and not (lab.workspace.root / name).is_dir():
        return await _on_hub(lab, matched["owner"], matched["name"], matched["version"], hosted)
    try:
        folder = lab.workspace.environment(name)
    except BadInput:
        if not lenient:
            raise
        return Resolved(name, findings=(_unpublished(name),) if hosted else ())
    source = (await lab.snapshot(folder.relative)).source
    push = _push_of(lab, folder, source)
    if push is not None:
        found = (_v0(folder.name),) if push.api == "v0" else ()
        if hosted:
            return Resolved(f"{push.owner}/{push.name}@{push.version}", folder.path, found, _proof(push))
        return Resolved(push.name, folder.path, found, (lab.key, folder.name, source))
    if hosted and not lenient:
        raise BadInput(
            f"the environment {quote(folder.name, 80)} is not published yet, and hosted training loads it from the Hub",
            fix=f'Call push_environment(environment="{folder.name}") first, or write for target="self-managed".',
            code="environment-not-published",
        )
    local = folder.name.replace("_", "-")
    return Resolved(local, folder.path, (_unpublished(name),) if hosted else (), (lab.key, folder.name, source))


def _push_of(lab: Lab, folder: EnvironmentFolder, source: str) -> Push | None:
    """The newest push of these very files whatever the folder was called then, else of a folder of this name."""
    same = lab.ledger.pushes(workspace=lab.key, source=source, platform=lab.platform)
    rows = same or lab.ledger.pushes(workspace=lab.key, environment=folder.name, platform=lab.platform)
    return rows[0] if rows else None


def _proof(push: Push) -> Proof:
    return push.workspace, push.environment, push.source


async def _on_hub(lab: Lab, owner: str, name: str, version: str | None, hosted: bool) -> Resolved:
    push = pushed(lab, owner, name, version)
    folder = None
    if push is not None:
        place = Path(push.workspace) / "environments" / push.environment
        folder = place if push.workspace == lab.key and place.is_dir() else None
        version = version or push.version
    findings: tuple[Finding, ...] = (_v0(f"{owner}/{name}"),) if push is not None and push.api == "v0" else ()
    if version is None and hosted:
        from prime_lab_mcp.lab.hub import look_up

        entry = await look_up(lab.prime, owner, name)
        version = entry.version
        if version is None:
            reason = "the Hub has no such environment" if entry.exists is False else "the Hub could not be asked"
            findings = (*findings, _unpinned(f"{owner}/{name}", reason))
        elif entry.runtime == "v0":
            findings = (*findings, _v0(f"{owner}/{name}"))
    id = f"{owner}/{name}@{version}" if version else f"{owner}/{name}"
    return Resolved(id, folder, findings, _proof(push) if push else None)


def _unpinned(id: str, reason: str) -> Finding:
    return Finding(
        "config-unpinned-source",
        "warning",
        f"{quote(id, limit=100)} is written without a version: {reason}.",
        'Name it as "owner/name@version" (search_hub lists versions); check_training_config wants it pinned.',
    )


def _unpublished(name: str) -> Finding:
    return Finding(
        "config-unpublished-source",
        "warning",
        f"{quote(name, limit=100)} is no environment on the Hub, from where hosted training loads it.",
        'Call push_environment, then write_training_config(environments=["owner/name@version"], based_on=...).',
    )


def _v0(name: str) -> Finding:
    return Finding(
        "v0-not-trainable",
        "warning",
        f"{quote(name, limit=100)} is a v0 environment, which the present platform cannot train.",
        "Port it with the migrate_environment prompt (lab://guide/migration), push it, and write the config again.",
    )
