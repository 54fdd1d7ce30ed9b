"""Gathers the facts that the submit gate needs about the sources of a training config, for `gates.source_unmet`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.ownership import is_ours, push_records
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.arguments import without_null_text
from prime_lab_mcp.lab.state.gates import HubFact, SourceFacts, Subject, subject_of
from prime_lab_mcp.lab.state.ledger.rows import Push
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import Workspace


async def gather_source_facts(
    lab: Lab, config: TrainingConfig, platform: PlatformReader | None = None
) -> list[SourceFacts]:
    """Facts of every training and eval source. The Hub is asked once for each `owner/name@version`.

    `platform` answers for the present call.
    """
    prime = platform or lab.prime
    facts: dict[str, HubFact] = {}

    async def ask(source: ConfigSource) -> None:
        assert source.owner is not None
        facts[source.id] = await lookup.hub_fact(prime, source.owner, source.env_name, source.version)

    async with anyio.create_task_group() as asking:
        for source in {s.id: s for s in config.sources if s.owner}.values():
            asking.start_soon(ask, source)
    records = await anyio.to_thread.run_sync(push_records, lab)
    return [
        _facts(lab, source, facts.get(source.id, HubFact(None)), records, config.group_of(source))
        for source in config.sources
    ]


def _facts(lab: Lab, source: ConfigSource, found: HubFact, records: set[str], group_size: int) -> SourceFacts:
    pushes = lab.ledger.pushes(owner=source.owner, name=source.env_name, platform=lab.platform) if source.owner else []
    push = next((p for p in pushes if p.version == source.version), None)
    disk = list(_on_disk(lab, push)) if push else []
    same = next((taken for taken in disk if push is not None and taken.source == push.source), None)
    pushed = subject_of(same) if same is not None else Subject()
    return SourceFacts(
        id=source.id,
        owner=source.owner,
        name=source.env_name,
        version=source.version,
        args=without_null_text(source.args),
        ours=is_ours(lab, f"{source.owner}/{source.env_name}", found.content_hash, pushes, records),
        push=push,
        history=lab.ledger.evidence(push.workspace) if push else (),
        on_disk=tuple(taken.source for taken in disk),
        hub=found,
        trains=source.kind == "train",
        group_size=group_size,
        harness=source.harness,
        defaults=pushed.defaults,
        check_args=pushed.check_args,
        waived=frozenset(lab.ledger.overrides(push.workspace)) if push else frozenset(),
    )


def _on_disk(lab: Lab, push: Push) -> Iterator[Snapshot]:
    """Snapshots of the folders that hold the pushed project today, under any folder name."""
    root = Path(push.workspace)
    if not root.is_dir():
        return
    for folder in Workspace(root).list_environments():
        try:
            found = take_snapshot(folder, lab.settings.snapshots)
        except LabError:
            continue  # a folder that cannot be read holds nothing that could differ from what was pushed
        if found.manifest.module == push.name.replace("-", "_").lower() or folder.name == push.environment:
            yield found
