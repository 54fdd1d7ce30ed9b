"""Writes a config into the workspace: environments resolved and pinned, evidence used, nothing overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.configs.draft import Lineage, same_but_for_date
from prime_lab_mcp.lab.configs.evidence import observe, pushed
from prime_lab_mcp.lab.configs.held_out import held_out_keys
from prime_lab_mcp.lab.configs.make import Made, make, with_extra
from prime_lab_mcp.lab.configs.migrate import Change, Header, migrate, read_header
from prime_lab_mcp.lab.configs.observed import Observed, price_per_hour
from prime_lab_mcp.lab.configs.plan import DEFAULT_MODEL, Choices, SourceChoice, near_models, refuse_name
from prime_lab_mcp.lab.configs.read import Config, identity, read
from prime_lab_mcp.lab.configs.write import finish
from prime_lab_mcp.lab.errors import BadInput, LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.records import Push
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.workspace import HUB_NAME, EnvironmentFolder

FOLDER = "configs/rl"
_VERSIONED = re.compile(r"-v\d+$")


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for. `environments` are folder names or `owner/name[@version]`; `choices` carries no sources."""

    environments: tuple[str, ...] = ()
    choices: Choices = field(default_factory=lambda: Choices(()))
    env_args: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Any] | None = None
    """Taskset keys of the eval source; None: found in the environment's source where possible."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path."""
    name: str | None = None
    based_on: str | None = None
    notes: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A config on disk. `existed`: the very same config was there already."""

    config: Config
    relative: str
    version: int
    existed: bool
    based_on: str | None
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    made: Made
    price_per_hour: float | None


@dataclass(frozen=True, slots=True)
class _Resolved:
    """An environment as the config names it, its local folder where there is one, and what to say about it."""

    id: str
    folder: Path | None = None
    findings: tuple[Finding, ...] = ()


async def author(lab: Lab, wish: Wish, today: date) -> Written:
    """Raises BadInput for wishes that cannot be met; then nothing is written."""
    registry_path = lab.workspace.resolve(registry.REGISTRY)
    registry.load(registry_path)
    base = read(lab.workspace.resolve(wish.based_on, must_exist=True)) if wish.based_on else None
    resolved = [await _resolve(lab, name, wish.choices) for name in wish.environments]
    asked = with_extra(replace(wish.choices, sources=tuple(_source(r, wish) for r in resolved)), wish.extra)
    pins: dict[str, str] = {}
    if base is not None and not resolved:
        named = dict.fromkeys(s.id for s in migrate(base, asked.target).choices.sources if s.id)
        found = [await _resolve(lab, id, asked, lenient=True) for id in named]
        pins = {old: new.id for old, new in zip(named, found, strict=True)}
        resolved = found
        asked = replace(asked, env_args=wish.env_args, held_out=_held_out(wish, base, found))
    seen = observe(lab, _trained(resolved), _model(asked, base), await _price(lab, asked))
    name = wish.name or _name(resolved, base)
    refuse_name(name)
    findings = [f for r in resolved for f in r.findings]
    if base is not None and (changed := registry.drift(registry_path, base)) is not None:
        findings.append(changed)
    with registry.locked(registry_path) as held:
        return _write(held, lab, wish, asked, base, pins, seen, name, today, findings)


def _write(
    held: registry.Held, lab: Lab, wish: Wish, asked: Choices, base: Config | None, pins: Mapping[str, str],
    seen: Observed, name: str, today: date, findings: list[Finding],
) -> Written:  # fmt: skip
    relative_base = base.path.relative_to(lab.workspace.root).as_posix() if base else None
    based_on = f"{relative_base} (sha256 {base.sha256[:12]})" if base else None
    header = read_header(base.table.get("config"))[0] if base else Header()
    version = header.number
    while True:
        version += 1
        stem = name if version == 1 else f"{name}-v{version}"
        path = lab.workspace.resolve(f"{FOLDER}/{stem}.toml")
        if held.taken(name, version, f"{FOLDER}/{stem}.toml"):
            continue
        made = make(asked, seen, stem, base, pins)
        if base is not None:
            made = _rebase_env_files(made, base.path.parent, path.parent)
        environments = tuple(dict.fromkeys(_ids(made)))
        lineage = Lineage(stem, version, today, asked.target, environments, based_on, wish.notes, header.lines())
        text, config = finish(made.draft, lineage, path, base)
        if not path.exists():
            break
        if same_but_for_date(_present(path), text):
            return _written(read(path), path, lab, version, True, relative_base, made, seen, findings)
    registry.replace(path, text)
    entry = registry.Entry(
        name=name,
        version=version,
        path=path.relative_to(lab.workspace.root).as_posix(),
        created=today.isoformat(),
        model=config.model,
        target=asked.target,
        environments=environments,
        sha256=config.sha256,
        based_on=relative_base,
        notes=wish.notes,
        environment_versions={f"{o}/{n}" if o else n: v for o, n, v in map(identity, environments) if v},
        hardware=registry.hardware(config),
        parameters=registry.parameters(config.table),
    )
    if base is not None and relative_base and header.version:
        held.add_older(base, relative_base, header, environments)
    held.add(entry)
    return _written(config, path, lab, version, False, relative_base, made, seen, findings)


def _written(
    config: Config, path: Path, lab: Lab, version: int, existed: bool, based_on: str | None, made: Made,
    seen: Observed, findings: list[Finding],
) -> Written:  # fmt: skip
    return Written(
        config=config,
        relative=path.relative_to(lab.workspace.root).as_posix(),
        version=version,
        existed=existed,
        based_on=based_on,
        changes=made.changes,
        findings=(*findings, *_renderer_finding(made, seen)),
        made=made,
        price_per_hour=price_per_hour(config, seen),
    )


async def _resolve(lab: Lab, name: str, choices: Choices, lenient: bool = False) -> _Resolved:
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
        return _Resolved(name, findings=(_unpublished(name),) if hosted else ())
    rows = await _pushes_of(lab, folder)
    if rows:
        push = rows[0]
        found = (_v0(folder.name),) if push.api == "v0" else ()
        return _Resolved(f"{push.owner}/{push.name}@{push.version}" if hosted else push.name, folder.path, found)
    if hosted and not lenient:
        raise BadInput(
            f"the environment {quote(folder.name, 80)} is not published yet, and hosted training loads it from the Hub",
            fix=f'Call push_environment(environment="{folder.name}") first, or write for target="self-managed".',
            code="environment-not-published",
        )
    return _Resolved(folder.name.replace("_", "-"), folder.path, (_unpublished(name),) if hosted else ())


async def _pushes_of(lab: Lab, folder: EnvironmentFolder) -> list[Push]:
    """Pushes of these very files whatever the folder was called then, else of a folder of this name; newest first."""
    snapshot = await lab.snapshot(folder.relative)
    same = lab.ledger.pushes(workspace=lab.key, source=snapshot.source, platform=lab.platform)
    return same or lab.ledger.pushes(workspace=lab.key, environment=folder.name, platform=lab.platform)


async def _on_hub(lab: Lab, owner: str, name: str, version: str | None, hosted: bool) -> _Resolved:
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
    return _Resolved(f"{owner}/{name}@{version}" if version else f"{owner}/{name}", folder, findings)


def _source(resolved: _Resolved, wish: Wish) -> SourceChoice:
    held_out = wish.held_out
    if held_out is None and resolved.folder is not None:
        held_out = held_out_keys(resolved.folder)
    return SourceChoice(id=resolved.id, args=dict(wish.env_args), held_out=held_out or None)


def _held_out(wish: Wish, base: Config, found: list[_Resolved]) -> Mapping[str, Any] | None:
    """Keys for the eval sources of a migrated config; None leaves those that it has."""
    if wish.held_out is not None or base.eval_sources or isinstance(base.at("eval.env"), list):
        return wish.held_out
    keys = [held_out_keys(r.folder) for r in found if r.folder is not None]
    return keys[0] if keys and len(keys) == len(found) and all(k == keys[0] for k in keys) else None


async def _price(lab: Lab, asked: Choices) -> float | None:
    """US dollars per GPU-hour, None where the platform cannot be asked or names none."""
    if asked.target != "hosted":
        return None
    try:
        return (await lab.prime.models()).price(asked.gpu_type)
    except LabError:
        return None


def _trained(resolved: list[_Resolved]) -> list[tuple[str, str, str | None]]:
    parts = [identity(r.id) for r in resolved]
    return [(owner, name, version) for owner, name, version in parts if owner]


def _model(asked: Choices, base: Config | None) -> str:
    return asked.model or (base.model if base else DEFAULT_MODEL)


def _name(resolved: list[_Resolved], base: Config | None) -> str:
    if base is not None:
        return _safe(_VERSIONED.sub("", base.path.stem))
    return _safe(identity(resolved[0].id)[1]) if resolved else "config"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60] or "config"


def _rebase_env_files(made: Made, old: Path, new: Path) -> Made:
    """`env_files` are relative to the config, which now lies elsewhere; `prime train` stops at one that is missing."""
    changes = []
    for key in ("env_file", "env_files"):
        value = made.draft.get(key)
        files = [f for f in (value if isinstance(value, list) else [value]) if isinstance(f, str)]
        if not files:
            continue
        there = [os.path.relpath(old / f, new) for f in files if (old / f).is_file()]
        made.draft.pop(key)
        if there:
            made.draft.put("env_files", there, "moved with the file; WANDB_API_KEY and HF_TOKEN only")
        if len(there) < len(files):
            changes.append(Change(key, "dropped what is missing", "no such file beside the older config", str(files)))
    return replace(made, changes=(*made.changes, *changes))


def _ids(made: Made) -> list[str]:
    found = made.draft.get("orchestrator.train.source") or []
    return [str(s["env"]["taskset"]["id"]) for s in found if isinstance(s, dict) and "taskset" in s.get("env", {})]


def _present(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _renderer_finding(made: Made, seen: Observed) -> tuple[Finding, ...]:
    renderer = made.plan.renderer
    if renderer is None or renderer.value != "default":
        return ()
    model = str(made.plan.model.value)
    near = near_models(model, seen)
    hint = f" Did you mean {' or '.join(near)}?" if near and model not in near else ""
    return (
        Finding(
            "config-default-renderer",
            "warning",
            f"{quote(model, limit=100)} is none of the models that prime-rl knows how to render; its own chat template "
            f"is used, which does not work with tools.{hint}",
            'If it was tuned from a known model, pass renderer= that family (e.g. "qwen3"); else leave it.',
            "orchestrator.renderer.name",
        ),
    )


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
