"""Writes a config into the workspace: environments resolved and pinned, evidence used, nothing overwritten."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.configs.advice import advise
from prime_lab_mcp.lab.configs.chosen import chosen
from prime_lab_mcp.lab.configs.draft import Lineage, same_but_for_date
from prime_lab_mcp.lab.configs.evidence import observe_sources
from prime_lab_mcp.lab.configs.held_out import held_out_keys
from prime_lab_mcp.lab.configs.make import Made, make, with_extra
from prime_lab_mcp.lab.configs.migrate import Change, Header, migrate, read_header
from prime_lab_mcp.lab.configs.observed import Measured, Observed, price_per_hour
from prime_lab_mcp.lab.configs.plan import DEFAULT_MODEL, Choices, SourceChoice, refuse_name
from prime_lab_mcp.lab.configs.read import Config, identity, read
from prime_lab_mcp.lab.configs.resolve import Resolved, resolve
from prime_lab_mcp.lab.configs.wish import Wish, Written
from prime_lab_mcp.lab.configs.write import finish
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Models
from prime_lab_mcp.lab.report import Finding

__all__ = ["FOLDER", "Wish", "Written", "author"]

FOLDER = "configs/rl"
_VERSIONED = re.compile(r"-v\d+$")


@dataclass(frozen=True, slots=True)
class _Ready:
    """Everything that decides what is written."""

    wish: Wish
    asked: Choices
    base: Config | None
    pins: Mapping[str, str]
    seen: Observed
    findings: tuple[Finding, ...]


async def author(lab: Lab, wish: Wish, today: date) -> Written:
    """Raises BadInput for wishes that cannot be met; then nothing is written."""
    registry_path = lab.workspace.resolve(registry.REGISTRY)
    registry.load(registry_path)
    wish.refuse_ratios()
    base = read(lab.workspace.resolve(wish.based_on, must_exist=True)) if wish.based_on else None
    resolved = [await resolve(lab, name, wish.choices) for name in wish.environments]
    sources = tuple(_source(r, wish, index) for index, r in enumerate(resolved))
    asked = with_extra(replace(wish.choices, sources=sources), wish.extra)
    pins: dict[str, str] = {}
    if base is not None and not resolved:
        named = dict.fromkeys(s.id for s in migrate(base, asked.target).choices.sources if s.id)
        resolved = [await resolve(lab, id, asked, lenient=True) for id in named]
        pins = {old: new.id for old, new in zip(named, resolved, strict=True)}
        asked = replace(asked, env_args=wish.env_args, held_out=_held_out(wish, base, resolved))
    seen = await _observed(lab, asked, resolved, base)
    asked = replace(asked, sources=tuple(_informed(s, seen, wish) for s in asked.sources))
    name = wish.name or _name(resolved, base)
    refuse_name(name)
    ready = _Ready(wish, asked, base, pins, seen, tuple(f for r in resolved for f in r.findings))
    if base is not None and (changed := registry.drift(registry_path, base)) is not None:
        ready = replace(ready, findings=(*ready.findings, changed))
    with registry.locked(registry_path) as held:
        return _write(held, lab, ready, name, today)


def _write(held: registry.Held, lab: Lab, ready: _Ready, name: str, today: date) -> Written:
    base, root = ready.base, lab.workspace.root
    relative_base = base.path.relative_to(root).as_posix() if base else None
    based_on = f"{relative_base} (sha256 {base.sha256[:12]})" if base else None
    header = read_header(base.table.get("config"))[0] if base else Header()
    version = header.number
    while True:
        version += 1
        stem = name if version == 1 else f"{name}-v{version}"
        path = lab.workspace.resolve(f"{FOLDER}/{stem}.toml")
        if held.taken(name, version, f"{FOLDER}/{stem}.toml"):
            continue
        made = make(ready.asked, ready.seen, stem, base, ready.pins)
        if base is not None:
            made = _rebase_env_files(made, base.path.parent, path.parent)
        environments = tuple(dict.fromkeys(_ids(made)))
        notes, earlier = ready.wish.notes, header.lines()
        lineage = Lineage(stem, version, today, ready.asked.target, environments, based_on, notes, earlier)
        text, config = finish(made.draft, lineage, path, base)
        relative = path.relative_to(root).as_posix()
        if not path.exists():
            break
        if same_but_for_date(_present(path), text):
            return _written(read(path), relative, version, True, relative_base, made, ready)
    registry.replace(path, text)
    entry = registry.Entry(
        name=name,
        version=version,
        path=relative,
        created=today.isoformat(),
        model=config.model,
        target=ready.asked.target,
        environments=environments,
        sha256=config.sha256,
        based_on=relative_base,
        notes=ready.wish.notes,
        environment_versions={f"{o}/{n}" if o else n: v for o, n, v in map(identity, environments) if v},
        hardware=registry.hardware(config),
        parameters=registry.parameters(config.table),
    )
    if base is not None and relative_base and header.version:
        held.add_older(base, relative_base, header, environments)
    held.add(entry)
    return _written(config, relative, version, False, relative_base, made, ready)


def _written(
    config: Config, relative: str, version: int, existed: bool, based_on: str | None, made: Made, ready: _Ready
) -> Written:
    models = ready.seen.models
    price = models.price(config.gpu_type) if models and config.target == "hosted" else None
    seen = replace(ready.seen, price_per_gpu_hour=price)
    return Written(
        config=config,
        relative=relative,
        version=version,
        existed=existed,
        based_on=based_on,
        changes=made.changes if based_on else chosen(made),
        findings=(*ready.findings, *advise(made, config, seen)),
        made=made,
        price_per_hour=price_per_hour(config, seen),
        price_per_gpu_hour=price,
    )


async def _observed(lab: Lab, asked: Choices, resolved: list[Resolved], base: Config | None) -> Observed:
    model = asked.model or (base.model if base else DEFAULT_MODEL)
    proofs = {r.id: r.proof for r in resolved}
    return observe_sources(lab, proofs, model, None, await _models(lab, asked))


async def _models(lab: Lab, asked: Choices) -> Models | None:
    """None where the platform cannot be asked or is not meant."""
    if asked.target != "hosted":
        return None
    try:
        return await lab.prime.models()
    except LabError:
        return None


def _source(resolved: Resolved, wish: Wish, index: int) -> SourceChoice:
    held_out = wish.held_out
    if held_out is None and resolved.folder is not None:
        held_out = held_out_keys(resolved.folder)
    return SourceChoice(id=resolved.id, args=dict(wish.env_args), held_out=held_out or None, ratio=wish.ratio(index))


def _informed(source: SourceChoice, seen: Observed, wish: Wish) -> SourceChoice:
    """With what its check recorded: most turns of a rollout, secrets it reads, keys of held-out tasks."""
    found = seen.each.get(source.id, Measured())
    asked = source.args.get("max_turns")
    turns = asked if isinstance(asked, int) and asked > 0 else found.turns
    held_out = source.held_out or (found.held_out if wish.held_out is None else None)
    return replace(source, turns=turns or source.turns, secrets=found.secrets, held_out=held_out)


def _held_out(wish: Wish, base: Config, found: list[Resolved]) -> Mapping[str, Any] | None:
    """Keys for the eval sources of a migrated config; None leaves those that it has."""
    if wish.held_out is not None or base.eval_sources or isinstance(base.at("eval.env"), list):
        return wish.held_out
    keys = [held_out_keys(r.folder) for r in found if r.folder is not None]
    return keys[0] if keys and len(keys) == len(found) and all(k == keys[0] for k in keys) else None


def _name(resolved: list[Resolved], base: Config | None) -> str:
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
