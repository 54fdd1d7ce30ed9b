"""Gathers the facts that the submit gate needs about the sources of a training config, for `gates.source_unmet`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.packages import NamedPackage, named_packages
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.hub_files import HubFiles, fetch_hub_files
from prime_lab_mcp.lab.hub.ownership import FileFingerprints, Ownership, failed_verdicts, read_ownership
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.arguments import without_null_text
from prime_lab_mcp.lab.state.gates import HubContent, HubFact, SourceFacts, Subject, plugin_module, subject_of
from prime_lab_mcp.lab.state.ledger.rows import Push
from prime_lab_mcp.lab.state.package_gate import PackageFacts
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import Workspace


async def gather_source_facts(
    lab: Lab, config: TrainingConfig, platform: PlatformReader | None = None
) -> list[SourceFacts]:
    """Facts of every training and eval source. The Hub is asked once for each `owner/name@version`.

    `platform` answers for the present call.
    """
    return await _gather(lab, config, config.sources, platform)


async def gather_package_facts(
    lab: Lab, config: TrainingConfig, sources: Sequence[SourceFacts], platform: PlatformReader | None = None
) -> list[PackageFacts]:
    """Facts of every package that the config names besides its tasksets.

    `sources` are the facts of `config.sources`.
    """
    named = named_packages(config)
    tasksets = {plugin_module(source.id): source.id for source in config.sources if source.id}
    within = [p.module in tasksets and (p.identity[0] is None or p.id == tasksets[p.module]) for p in named]
    asked = [
        _as_source(package)
        for package, inside in zip(named, within, strict=True)
        if not package.shipped and not inside and package.identity[0] is not None
    ]
    published = {facts.id: facts for facts in await _gather(lab, config, asked, platform)}
    by_source = {id(source): facts for source, facts in zip(config.sources, sources, strict=True)}
    return [
        PackageFacts(
            package.kind,
            package.id,
            package.where,
            package.shipped,
            inside,
            None if package.beside is None else by_source[id(package.beside)],
            None if package.shipped or inside else published.get(package.id),
        )
        for package, inside in zip(named, within, strict=True)
    ]


def _as_source(package: NamedPackage) -> ConfigSource:
    owner, name, version = package.identity
    return ConfigSource("eval", package.where, package.id, owner, name, version)


def published_modules(config: TrainingConfig) -> list[tuple[str, str]]:
    """The id and module of every package with an owner that the config names."""
    sources = [(s.id, plugin_module(s.id)) for s in config.sources if s.owner is not None]
    return sources + [(p.id, p.module) for p in named_packages(config) if p.identity[0] is not None]


async def _gather(
    lab: Lab, config: TrainingConfig, sources: Sequence[ConfigSource], platform: PlatformReader | None
) -> list[SourceFacts]:
    if not sources:
        return []
    prime = platform or lab.prime
    facts: dict[str, HubFact] = {}
    fetched: dict[str, HubFiles] = {}

    async def ask(source: ConfigSource) -> None:
        assert source.owner is not None
        ref = f"{source.owner}/{source.env_name}"
        found = facts[source.id] = await lookup.hub_fact(prime, source.owner, source.env_name, source.version)
        if found.exists and source.version is not None:
            fetched[source.id] = await fetch_hub_files(lab, ref, source.version, wheel=False)

    async with anyio.create_task_group() as asking:
        for source in {s.id: s for s in sources if s.owner}.values():
            asking.start_soon(ask, source)
    ownership = await read_ownership(lab, prime)
    return [
        _facts(
            lab,
            source,
            facts.get(source.id, HubFact(None)),
            fetched.get(source.id, HubFiles()),
            ownership,
            config.group_of(source),
        )
        for source in sources
    ]


def _facts(
    lab: Lab, source: ConfigSource, found: HubFact, files: HubFiles, ownership: Ownership, group_size: int
) -> SourceFacts:
    pushes = lab.ledger.pushes(owner=source.owner, name=source.env_name, platform=lab.platform) if source.owner else []
    push = next((p for p in pushes if p.version == source.version), None)
    disk = list(_on_disk(lab, push)) if push else []
    same = next((taken for taken in disk if push is not None and taken.source == push.source), None)
    pushed = subject_of(same) if same is not None else Subject()
    fingerprints = FileFingerprints(found.content_hash, files.source, files.content)
    ours = source.owner is not None and ownership.is_ours(lab, source.owner, source.env_name, fingerprints)
    return SourceFacts(
        id=source.id,
        owner=source.owner,
        name=source.env_name,
        version=source.version,
        args=without_null_text(source.args),
        ours=ours,
        push=push,
        history=lab.ledger.evidence(push.workspace) if push else (),
        on_disk=tuple(taken.source for taken in disk),
        hub=found,
        trains=source.kind == "train",
        group_size=group_size,
        harness=source.harness,
        defaults=pushed.defaults,
        check_args=pushed.check_args,
        held=_held(source, files, ours),
        failed=() if ours else failed_verdicts(lab, files.source),
        waived=frozenset(lab.ledger.overrides(push.workspace)) if push else frozenset(),
    )


def _held(source: ConfigSource, files: HubFiles, ours: bool) -> HubContent:
    if ours or files.archive is not None or not files.problems:
        return HubContent()
    why = "; ".join(files.problems)
    return HubContent("unfetched", f"whether {source.id} holds files of this machine is not known: {why}")


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
