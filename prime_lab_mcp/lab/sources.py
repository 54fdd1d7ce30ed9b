"""Everything the submit gate has to know about the sources of a training config, gathered for gates.source_unmet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from prime_lab_mcp.lab import hub
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.gates import HubFact, SourceFacts
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Evidence, Push
from prime_lab_mcp.lab.snapshot import take
from prime_lab_mcp.lab.workspace import Workspace

_PULL = "create_environment"
"""The tool that pulls, as the ledger calls the note of it. No gate asks for it."""


async def gather(lab: Lab, config: Config) -> list[SourceFacts]:
    """Facts of every training and eval source, the Hub asked once for each `owner/name@version`."""
    facts: dict[str, HubFact] = {}

    async def ask(source: Source) -> None:
        assert source.owner is not None
        facts[source.id] = await hub.fact(lab.prime, source.owner, source.env_name, source.version)

    async with anyio.create_task_group() as asking:
        for source in {s.id: s for s in config.sources if s.owner}.values():
            asking.start_soon(ask, source)
    records = await anyio.to_thread.run_sync(push_records, lab)
    return [
        _facts(lab, source, facts.get(source.id, HubFact(None)), records, config.group_of(source))
        for source in config.sources
    ]


def _facts(lab: Lab, source: Source, found: HubFact, records: set[str], group_size: int) -> SourceFacts:
    pushes = lab.ledger.pushes(owner=source.owner, name=source.env_name, platform=lab.platform) if source.owner else []
    push = next((p for p in pushes if p.version == source.version), None)
    return SourceFacts(
        id=source.id,
        owner=source.owner,
        name=source.env_name,
        version=source.version,
        args=source.args,
        ours=is_ours(lab, f"{source.owner}/{source.env_name}", found.content_hash, pushes, records),
        push=push,
        history=lab.ledger.evidence(push.workspace) if push else (),
        on_disk=tuple(_on_disk(lab, push)) if push else (),
        hub=found,
        trains=source.kind == "train",
        group_size=group_size,
        waived=frozenset(lab.ledger.overrides(push.workspace)) if push else frozenset(),
    )


def is_ours(lab: Lab, ref: str, content_hash: str | None, pushes: Sequence[Push], records: set[str]) -> bool:
    """Whether `owner/name` on the Hub is ours (DESIGN section 3): pushed from here, or of a content seen here."""
    if pushes or ref in records:
        return True
    return bool(content_hash and lab.ledger.knows_content(content_hash)) and content_hash not in _pulled(lab)


def note_pulled(lab: Lab, ref: str, folder: Path) -> None:
    """Remember that these files came from the Hub and were never seen here before: reading them makes them not ours.

    Without this, whoever takes up the offer to validate a foreign environment would lose the right to train it.
    """
    try:
        taken = take(lab.workspace.environment(folder.name), lab.settings.snapshots)
    except LabError:
        return  # what cannot be read as an environment is in no snapshot either
    owner, _, name = ref.partition("@")[0].partition("/")
    pushed = lab.ledger.pushes(owner=owner, name=name, platform=lab.platform)
    if pushed or f"{owner}/{name}" in push_records(lab) or lab.ledger.knows_content(taken.cli_hash):
        return
    lab.ledger.record(
        Evidence(
            _PULL, "passed", lab.key, folder.name,
            arguments={"hub": ref}, platform=lab.platform, data={"pulled": ref, "cli_hash": taken.cli_hash},
        )
    )  # fmt: skip


def _pulled(lab: Lab) -> set[str]:
    """CLI hashes of contents that came from the Hub as somebody else's, by pulls of any workspace."""
    rows = lab.ledger.evidence(tool=_PULL)
    return {str(row.data.get("cli_hash")) for row in rows if row.platform == lab.platform and row.data.get("pulled")}


def _on_disk(lab: Lab, push: Push) -> Iterator[str]:
    """Source fingerprints of the folders that hold the pushed project today, whatever they are called."""
    root = Path(push.workspace)
    if not root.is_dir():
        return
    for folder in Workspace(root).list_environments():
        try:
            found = take(folder, lab.settings.snapshots)
        except LabError:
            continue  # a folder that cannot be read holds nothing that could differ from what was pushed
        if found.manifest.module == push.name.replace("-", "_").lower() or folder.name == push.environment:
            yield found.source


def push_records(lab: Lab) -> set[str]:
    """`owner/name` of every push that the CLI itself noted in a folder of this workspace."""
    found = set()
    for folder in lab.workspace.list_environments():
        path = folder.path / ".prime" / ".env-metadata.json"
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if "pushed_at" in record:  # a pulled environment has the same file, with pulled_at
                found.add(f"{record['owner']}/{record['name']}")
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found
