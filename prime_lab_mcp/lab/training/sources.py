"""Gathers facts about the sources of a training config for the gate of `submit_training`
(`config_gate.source_unmet`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.packages import NamedPackage, named_packages
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices
from prime_lab_mcp.lab.configs.resolve import resolve_source
from prime_lab_mcp.lab.distributions import named_fingerprints
from prime_lab_mcp.lab.hub import lookup
from prime_lab_mcp.lab.hub.hub_files import (
    HubFiles,
    compare_hub_files,
    fetch_folder,
    fetch_hub_files,
    fetch_latest_files,
    has_hub_files,
)
from prime_lab_mcp.lab.hub.ownership import FileFingerprints, Ownership, failed_verdicts, read_ownership
from prime_lab_mcp.lab.hub.publish import proven_files
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.arguments import without_null_text
from prime_lab_mcp.lab.state.config_gate import (
    CHECKED,
    TRAINING,
    HubContent,
    HubFact,
    PackageFacts,
    SourceFacts,
    plugin_module,
)
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.gates import Subject, subject_history, subject_of
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.workspace import HUB_NAME, Workspace, is_plain_id
from prime_lab_mcp.lab.training.installed_together import InstalledPackage, names_of_archive, names_of_wheel


async def gather_source_facts(
    lab: Lab, config: TrainingConfig, platform: PlatformReader | None = None
) -> list[SourceFacts]:
    """Facts about every training and eval source. The Hub is asked once for each `owner/name@version`.

    `platform` caches answers for the current call.
    """
    return await _gather(lab, config, config.sources, platform)


def recorded_source_facts(lab: Lab, source: ConfigSource, push: Push, group_size: int) -> SourceFacts:
    """Facts about a source whose files this machine pushed, from the ledger and the disk. The Hub is not asked."""
    disk = list(_on_disk(lab, push))
    same = next((snapshot for snapshot in disk if snapshot.source == push.source), None)
    pushed = subject_of(same) if same is not None else Subject()
    return SourceFacts(
        id=source.id,
        owner=source.owner,
        name=source.env_name,
        version=source.version,
        args=without_null_text(source.args),
        ours=True,
        push=push,
        history=_history(lab, push),
        on_disk=tuple(snapshot.source for snapshot in disk),
        hub=HubFact(None),
        trains=source.kind == "train",
        group_size=group_size,
        harness=source.harness or None,
        unnamed_harness=source.unnamed_harness,
        defaults=pushed.defaults,
        check_args=pushed.check_args,
        waived=frozenset(lab.ledger.overrides(push.workspace)),
        runs=lab.ledger.training_names(),
    )


async def gather_package_facts(
    lab: Lab, config: TrainingConfig, sources: Sequence[SourceFacts], platform: PlatformReader | None = None
) -> list[PackageFacts]:
    """Facts of every package that the config names besides its tasksets.

    `sources` are the facts of `config.sources`.
    """
    packages = named_packages(config)
    tasksets = {plugin_module(source.id): source.id for source in config.sources if source.id}
    named = [p.module in tasksets and (p.identity[0] is None or p.id == tasksets[p.module]) for p in packages]
    hub_sources = [
        _as_source(package)
        for package, known in zip(packages, named, strict=True)
        if not package.shipped and not known and package.identity[0] is not None
    ]
    published = {facts.id: facts for facts in await _gather(lab, config, hub_sources, platform)}
    by_source = {id(source): facts for source, facts in zip(config.sources, sources, strict=True)}
    by_module = {plugin_module(facts.id): facts for facts in sources if facts.id}
    found = []
    for package, known in zip(packages, named, strict=True):
        beside = None if package.beside is None else by_source[id(package.beside)]
        inside = known and beside is not None and plugin_module(beside.id) == package.module
        found.append(
            PackageFacts(
                package.kind,
                package.id,
                package.where,
                package.shipped,
                inside,
                beside,
                by_module[package.module] if known and not (inside or package.shipped) else None,
                None if package.shipped or known else published.get(package.id),
            )
        )
    return found


async def published_environment_asked_ahead(lab: Lab, named: str, prime: PlatformReader) -> str:
    """Ask the platform in one process whatever a submission of an environment without a config needs.

    That is all that the config, the gate and the question ask, so that the platform is not asked again for each step.
    Returns the environment with its version, if it is on the Hub; else its name as it is. Raises BadInput for an
    environment that is not published. `prime` caches answers for the current call.
    """
    matched = HUB_NAME.match(named)
    if matched and not matched["version"] and not (lab.workspace.root / named).is_dir():
        owner, name = matched["owner"], matched["name"]
        if lab.newest_push(owner, name, None) is None:
            version = await _latest_asked_ahead(lab, prime, owner, name)
            return f"{named}@{version}" if version else named
    published = (await resolve_source(lab, named, ConfigChoices(()))).id
    matched = HUB_NAME.match(published)
    if matched and matched["version"]:
        ref, wheel = f"{matched['owner']}/{matched['name']}", _is_ours(lab, matched["owner"], matched["name"])
        async with fetch_folder(lab) as folder:
            has = has_hub_files(lab, ref, matched["version"], wheel=wheel)
            archives = {} if has else {published: folder / "archive"}
            await prime.ask_ahead([ref], [published] if wheel else [], archives)
            await fetch_hub_files(lab, ref, matched["version"], wheel=wheel, archive=archives.get(published))
    return named


async def _latest_asked_ahead(lab: Lab, prime: PlatformReader, owner: str, name: str) -> str | None:
    """The latest version of a name on the Hub, whose files are then cached; None if there is none."""
    ref = f"{owner}/{name}"
    async with fetch_folder(lab) as folder:
        await prime.ask_ahead([ref], [], {ref: folder / "archive"})
        entry = await lookup.look_up_environment(prime, owner, name)
        if entry.version is not None:
            await fetch_latest_files(lab, ref, entry.version, folder / "archive")
    return entry.version


def _is_ours(lab: Lab, owner: str | None, name: str) -> bool:
    """Whether this machine pushed a name, so that the wheel of a version is compared with what was proven."""
    return bool(lab.ledger.pushes(owner=owner, name=name, platform=lab.platform))


def _as_source(package: NamedPackage) -> ConfigSource:
    owner, name, version = package.identity
    return ConfigSource("eval", package.where, package.id, owner, name, version)


def published_modules(config: TrainingConfig) -> list[tuple[str, str]]:
    """The id and import name of every package with an owner that the config names."""
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
        if not is_plain_id(source.id):
            return  # The gate refuses it by its spelling.
        ref = str(source.hub_name)
        fact = facts[source.id] = await lookup.hub_fact(prime, source.owner, source.env_name, source.version)
        if fact.exists and source.version is not None:
            wheel, archive = source.id in pinned, archives.get(f"{ref}@{source.version}")
            fetched[source.id] = await fetch_hub_files(lab, ref, source.version, wheel=wheel, archive=archive)

    owned: list[Ownership] = []
    versioned = {s.id: s for s in sources if s.owner and s.version and is_plain_id(s.id)}.values()
    several = len({id for id, _ in published_modules(config)}) > 1  # then no wheel may hold modules of another
    pinned = [s.id for s in versioned if several or _is_ours(lab, s.owner, s.env_name)]
    archives: dict[str, Path] = {}

    async def ask_owner() -> None:
        owned.append(await read_ownership(lab, prime))

    async with fetch_folder(lab) as folder:
        for number, s in enumerate(versioned):
            if not has_hub_files(lab, str(s.hub_name), str(s.version), wheel=s.id in pinned):
                archives[f"{s.hub_name}@{s.version}"] = folder / str(number)
        await prime.ask_ahead(list(dict.fromkeys(str(s.hub_name) for s in versioned)), pinned, archives)
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask_owner)
            for source in {s.id: s for s in sources if s.owner}.values():
                asking.start_soon(ask, source)
    return [
        await _facts(
            lab,
            source,
            facts.get(source.id, HubFact(None)),
            fetched.get(source.id, HubFiles()),
            owned[0],
            config.group_of(source),
        )
        for source in sources
    ]


async def _facts(
    lab: Lab, source: ConfigSource, fact: HubFact, files: HubFiles, ownership: Ownership, group_size: int
) -> SourceFacts:
    pushes = lab.ledger.pushes(owner=source.owner, name=source.env_name, platform=lab.platform) if source.owner else []
    push = next((p for p in pushes if p.version == source.version), None)
    disk = await anyio.to_thread.run_sync(lambda: list(_on_disk(lab, push))) if push else []
    same = next((snapshot for snapshot in disk if push is not None and snapshot.source == push.source), None)
    pushed = subject_of(same) if same is not None else Subject()
    fingerprints = FileFingerprints(fact.content_hash, files.source, files.content)
    is_own = source.owner is not None and ownership.is_ours(lab, source.owner, source.env_name, fingerprints)
    history = await anyio.to_thread.run_sync(_history, lab, push) if push else []
    return SourceFacts(
        id=source.id,
        owner=source.owner,
        name=source.env_name,
        version=source.version,
        args=without_null_text(source.args),
        ours=is_own,
        push=push,
        history=history,
        on_disk=tuple(snapshot.source for snapshot in disk),
        hub=fact,
        trains=source.kind == "train",
        group_size=group_size,
        harness=source.harness or None,
        unnamed_harness=source.unnamed_harness,
        defaults=pushed.defaults,
        check_args=pushed.check_args,
        distributions=None if push is None else await _installed(lab, push, same, history),
        hub_content=_hub_content(lab, source, files, is_own, push),
        unasked="" if is_own else ownership.unasked,
        installs=_installs(files),
        failed=() if is_own else failed_verdicts(lab, files.source),
        waived=frozenset(lab.ledger.overrides(push.workspace)) if push else frozenset(),
    )


async def _installed(
    lab: Lab, push: Push, same: Snapshot | None, history: Sequence[Evidence]
) -> Mapping[str, str] | None:
    """The fingerprints of the distributions that would run a pushed environment now.

    If the pushed files are no longer in the workspace, the interpreter of the push's last check is inspected. None: the
    push was never checked.
    """
    if same is not None:
        return await present_distributions(lab, same)
    checks = (r for r in history if r.tool == "check_environment" and r.content == push.content)
    checked = next(checks, None)
    if checked is None:
        return None
    recorded = checked.toolchain.get(DISTRIBUTIONS)
    names = list(recorded) if isinstance(recorded, Mapping) else []
    python = Path(str(checked.data.get("interpreter") or ""))
    return await anyio.to_thread.run_sync(named_fingerprints, python, names)


def _installs(files: HubFiles) -> frozenset[str] | None:
    if files.wheel is not None:
        return names_of_wheel(files.wheel)
    return None if files.archive is None else names_of_archive(files.archive)


def installed_packages(sources: Sequence[SourceFacts], packages: Sequence[PackageFacts]) -> list[InstalledPackage]:
    """The packages with an owner that a run installs: its sources, and what else its config names."""
    published = [*sources, *(package.published for package in packages if package.published is not None)]
    return [InstalledPackage(one.id, one.installs, one.ours) for one in published if one.owner is not None]


def _hub_content(lab: Lab, source: ConfigSource, files: HubFiles, is_own: bool, push: Push | None) -> HubContent:
    if push is not None:
        return compare_hub_files(files, proven_files(lab, push.content, push.workspace), source.id)
    if is_own or files.archive is not None or not files.problems:
        return HubContent()
    why = "; ".join(files.problems)
    return HubContent("unfetched", f"whether {source.id} holds files of this machine is not known: {why}")


def _history(lab: Lab, push: Push) -> list[Evidence]:
    """The verdicts on the pushed files, and the last verdicts on other files of the same environment."""
    return subject_history(
        lab.ledger, push.workspace, Subject(push.environment, push.source, push.content), (*TRAINING, CHECKED)
    )


def _on_disk(lab: Lab, push: Push) -> Iterator[Snapshot]:
    """Snapshots of the folders that hold the pushed project today, under any folder name."""
    root = Path(push.workspace)
    if not root.is_dir():
        return
    for folder in Workspace(root).list_environments():
        try:
            snapshot = lab.snapshots.take(folder)
        except LabError:
            continue  # an unreadable folder cannot be compared with the push
        if snapshot.manifest.module == push.name.replace("-", "_").lower() or folder.name == push.environment:
            yield snapshot
