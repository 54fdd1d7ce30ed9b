"""Writes a config into the workspace, and gives advice about what was written.

Environments are resolved and pinned, evidence is used, and nothing is overwritten. The advice says what the config is
based on, what is missing, and what would be better.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, read_config, taskset_identity
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement, price_per_hour
from prime_lab_mcp.lab.configs.draft import ConfigLineage, same_but_for_date
from prime_lab_mcp.lab.configs.evidence import gather_context_of_sources, known_schemas
from prime_lab_mcp.lab.configs.make import MadeConfig, chosen_values, make_config, with_extra
from prime_lab_mcp.lab.configs.migrate.meaning import meaning_findings
from prime_lab_mcp.lab.configs.migrate.mover import migrate_config
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange, LineageHeader, read_header
from prime_lab_mcp.lab.configs.plan.batching import usable_share_at_group
from prime_lab_mcp.lab.configs.plan.choices import DEFAULT_MODEL, ConfigChoices, SourceChoice, require_config_name
from prime_lab_mcp.lab.configs.plan.decide import near_models
from prime_lab_mcp.lab.configs.resolve import ResolvedSource, SourceProof, held_out_keys, resolve_source
from prime_lab_mcp.lab.configs.rules.sources import environment_keys, harness_keys, taskset_keys
from prime_lab_mcp.lab.configs.write import finish_text
from prime_lab_mcp.lab.distribution.sample import suggested_curriculum
from prime_lab_mcp.lab.environment.credentials import FORWARDED_VARIABLES
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import PlatformModels

_LARGEST_RATIO = 1e6


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """The caller's request. `environments` are folder names or `owner/name[@version]`; `choices` contains
    no sources."""

    environments: tuple[str, ...] = ()
    choices: ConfigChoices = field(default_factory=lambda: ConfigChoices(()))
    env_args: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Any] | None = None
    """Taskset keys of the eval sources; None: read from each environment's source where possible."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path."""
    ratios: tuple[float, ...] = ()
    """Relative shares of the environments, in their order. Empty means equal shares."""
    name: str | None = None
    based_on: str | None = None
    notes: str | None = None

    def ratio(self, index: int) -> float | None:
        return self.ratios[index] if self.ratios else None

    def refuse_ratios(self) -> None:
        """Check that the shares match the environments one to one. Raises BadInput."""
        one_each = len(self.ratios) == len(self.environments)
        if self.ratios and not (one_each and all(0 < r <= _LARGEST_RATIO for r in self.ratios)):
            raise BadInput(
                f"{len(self.ratios)} ratios for {len(self.environments)} environments, or one that is not above 0",
                fix="Pass one number above 0 for each of environments, in their order, e.g. ratios=[2, 1].",
                code="config-ratios",
            )


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """A config on disk. `existed`: the identical config existed already."""

    config: TrainingConfig
    relative: str
    version: int
    existed: bool
    based_on: str | None
    changes: tuple[KeyChange, ...]
    findings: tuple[Finding, ...]
    made: MadeConfig
    price_per_hour: float | None
    """US dollars per hour for all GPUs."""
    price_per_gpu_hour: float | None = None

    @property
    def hardware(self) -> str:
        """The GPUs as the registry names them."""
        return self.made.plan.hardware_summary

    @property
    def environment_versions(self) -> tuple[str, ...]:
        """`owner/name@version` of every training source that is pinned."""
        return tuple(dict.fromkeys(s.id for s in self.config.train_sources if s.version))


CONFIG_FOLDER = "configs/rl"
_VERSIONED = re.compile(r"-v\d+$")


@dataclass(frozen=True, slots=True)
class _Inputs:
    """Everything that determines the written file."""

    request: ConfigRequest
    asked: ConfigChoices
    base: TrainingConfig | None
    pins: Mapping[str, str]
    context: ConfigContext
    findings: tuple[Finding, ...]
    proofs: Mapping[str, SourceProof | None] = field(default_factory=dict)
    """Workspace, environment and source of the present files, by source id."""


Fit = Callable[[ConfigChoices, Callable[[ConfigChoices], TrainingConfig], PlatformModels | None], ConfigChoices]
"""Changes choices so that the config that they lead to fits a bound. Arguments: the choices, what gives the config of
choices without writing it, and the models with the prices of the platform."""


async def write_config(lab: Lab, request: ConfigRequest, today: date, fit: Fit | None = None) -> WrittenConfig:
    """Write a config. Raises BadInput for a request that cannot be met, and then writes nothing."""
    registry_path = lab.workspace.resolve(registry.REGISTRY)
    registry.load_registry(registry_path)
    request.refuse_ratios()
    base = read_config(lab.workspace.resolve(request.based_on, must_exist=True)) if request.based_on else None
    resolved = [await resolve_source(lab, name, request.choices) for name in request.environments]
    sources = tuple(_source(r, request, index) for index, r in enumerate(resolved))
    asked = with_extra(replace(request.choices, sources=sources), request.extra)
    pins: dict[str, str] = {}
    if base is not None and not resolved:
        named = dict.fromkeys(s.id for s in migrate_config(base, asked.target).choices.sources if s.id)
        resolved = [await resolve_source(lab, id, asked, lenient=True) for id in named]
        pins = {old: new.id for old, new in zip(named, resolved, strict=True)}
        asked = replace(asked, env_args=request.env_args, held_out=_held_out(request, base, resolved))
    context = await _gathered_context(lab, asked, resolved, base)
    asked = replace(asked, sources=tuple(_with_recorded_facts(s, context, request) for s in asked.sources))
    name = request.name or _name(resolved, base)
    require_config_name(name)
    proofs = {r.id: r.proof for r in resolved}
    inputs = _Inputs(request, asked, base, pins, context, tuple(f for r in resolved for f in r.findings), proofs)
    if base is not None and (changed := registry.drift_finding(registry_path, base)) is not None:
        inputs = replace(inputs, findings=(*inputs.findings, changed))
    if fit is not None:
        fitted = partial(_tried, lab, inputs, name, today)
        inputs = replace(inputs, asked=await anyio.to_thread.run_sync(fit, asked, fitted, context.models))
    with registry.locked_registry(registry_path) as locked:
        return _write(locked, lab, inputs, name, today)


def _tried(lab: Lab, inputs: _Inputs, name: str, today: date, asked: ConfigChoices) -> TrainingConfig:
    """The config of these choices, which is not written."""
    made = make_config(asked, inputs.context, name, inputs.base, inputs.pins)
    lineage = ConfigLineage(name, 1, today, asked.target, tuple(dict.fromkeys(_ids(made))), None, None, ())
    path = lab.workspace.resolve(f"{CONFIG_FOLDER}/{name}.toml")
    return finish_text(made.draft, lineage, path, inputs.base)[1]


def _write(locked: registry.LockedRegistry, lab: Lab, inputs: _Inputs, name: str, today: date) -> WrittenConfig:
    base, root = inputs.base, lab.workspace.root
    relative_base = base.path.relative_to(root).as_posix() if base else None
    based_on = f"{relative_base} (sha256 {base.sha256[:12]})" if base else None
    header = read_header(base.table.get("config"))[0] if base else LineageHeader()
    version = header.number
    while True:
        version += 1
        stem = name if version == 1 else f"{name}-v{version}"
        path = lab.workspace.resolve(f"{CONFIG_FOLDER}/{stem}.toml")
        if locked.taken(name, version, f"{CONFIG_FOLDER}/{stem}.toml"):
            continue
        made = make_config(inputs.asked, inputs.context, stem, base, inputs.pins)
        if base is not None:
            made = _rebase_env_files(made, base.path.parent, path.parent)
        environments = tuple(dict.fromkeys(_ids(made)))
        notes, earlier = inputs.request.notes, header.lines()
        lineage = ConfigLineage(stem, version, today, inputs.asked.target, environments, based_on, notes, earlier)
        text, config = finish_text(made.draft, lineage, path, base)
        _require_known_keys(lab, config, inputs)
        relative = path.relative_to(root).as_posix()
        if not path.exists():
            break
        if same_but_for_date(_present(path), text):
            return _written(read_config(path), relative, version, True, relative_base, made, inputs)
    registry.replace_text(path, text)
    entry = registry.RegistryEntry(
        name=name,
        version=version,
        path=relative,
        created=today.isoformat(),
        model=config.model,
        target=inputs.asked.target,
        environments=environments,
        sha256=config.sha256,
        based_on=relative_base,
        notes=inputs.request.notes,
        environment_versions={f"{o}/{n}" if o else n: v for o, n, v in map(taskset_identity, environments) if v},
        hardware=registry.config_hardware(config),
        parameters=registry.run_parameters(config.table),
    )
    if base is not None and relative_base and header.version:
        locked.add_older(base, relative_base, header, environments)
    locked.add(entry)
    return _written(config, relative, version, False, relative_base, made, inputs)


def _require_known_keys(lab: Lab, config: TrainingConfig, inputs: _Inputs) -> None:
    """Check that each source's tables fit the classes that are known to judge them in the run. Raises BadInput."""
    context = ConfigContext(shapes=known_schemas(lab, config, inputs.proofs))
    for rule in (taskset_keys, environment_keys, harness_keys):
        for found in rule(config, context):
            if found.severity != "blocker":
                continue
            older = ""
            if inputs.base is not None and not inputs.request.environments:
                name = inputs.base.path.name
                older = f" Correct {name} if it stands there, or pass environments=[...] to write the sources anew."
            raise BadInput(found.message, fix=found.fix + older, code=found.code, where=found.where)


def _written(
    config: TrainingConfig,
    relative: str,
    version: int,
    existed: bool,
    based_on: str | None,
    made: MadeConfig,
    inputs: _Inputs,
) -> WrittenConfig:
    models = inputs.context.models
    price = models.price(config.gpu_type) if models and config.target == "hosted" else None
    context = replace(inputs.context, price_per_gpu_hour=price)
    return WrittenConfig(
        config=config,
        relative=relative,
        version=version,
        existed=existed,
        based_on=based_on,
        changes=made.changes if based_on else chosen_values(made),
        findings=(*inputs.findings, *meaning_findings(made.changes), *advise_on_config(made, config, context)),
        made=made,
        price_per_hour=price_per_hour(config, context),
        price_per_gpu_hour=price,
    )


async def _gathered_context(
    lab: Lab, asked: ConfigChoices, resolved: list[ResolvedSource], base: TrainingConfig | None
) -> ConfigContext:
    model = asked.model or (base.model if base else DEFAULT_MODEL)
    proofs = {r.id: r.proof for r in resolved}
    return gather_context_of_sources(lab, proofs, model, None, await _models(lab, asked))


async def _models(lab: Lab, asked: ConfigChoices) -> PlatformModels | None:
    """The platform's models; None where the platform does not answer or the config is not for it."""
    if asked.target != "hosted":
        return None
    try:
        return await lab.prime.models()
    except LabError:
        return None


def _source(resolved: ResolvedSource, request: ConfigRequest, index: int) -> SourceChoice:
    held_out = request.held_out
    if held_out is None and resolved.folder is not None:
        held_out = held_out_keys(resolved.folder)
    return SourceChoice(
        id=resolved.id, args=dict(request.env_args), held_out=held_out or None, ratio=request.ratio(index)
    )


def _with_recorded_facts(source: SourceChoice, context: ConfigContext, request: ConfigRequest) -> SourceChoice:
    """The source with what its check recorded: most turns of a rollout, secrets, and keys of held-out tasks."""
    found = context.each.get(source.id, SourceMeasurement())
    asked = source.args.get("max_turns")
    turns = asked if isinstance(asked, int) and asked > 0 else found.turns
    held_out = source.held_out or (found.held_out if request.held_out is None else None)
    return replace(source, turns=turns or source.turns, secrets=found.secrets, held_out=held_out)


def _held_out(request: ConfigRequest, base: TrainingConfig, found: list[ResolvedSource]) -> Mapping[str, Any] | None:
    """Taskset keys for the eval sources of a migrated config; None keeps the keys that it has."""
    if request.held_out is not None or base.eval_sources or isinstance(base.at("eval.env"), list):
        return request.held_out
    keys = [held_out_keys(r.folder) for r in found if r.folder is not None]
    return keys[0] if keys and len(keys) == len(found) and all(k == keys[0] for k in keys) else None


def _name(resolved: list[ResolvedSource], base: TrainingConfig | None) -> str:
    if base is not None:
        return _safe(_VERSIONED.sub("", base.path.stem))
    return _safe(taskset_identity(resolved[0].id)[1]) if resolved else "config"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60] or "config"


def _rebase_env_files(made: MadeConfig, old: Path, new: Path) -> MadeConfig:
    """Make `env_files` relative to the new path of the config, because `prime train` stops at a missing one."""
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
            changes.append(
                KeyChange(key, "dropped what is missing", "no such file beside the older config", str(files))
            )
    return replace(made, changes=(*made.changes, *changes))


def _ids(made: MadeConfig) -> list[str]:
    found = made.draft.get("orchestrator.train.source") or []
    return [str(s["env"]["taskset"]["id"]) for s in found if isinstance(s, dict) and "taskset" in s.get("env", {})]


def _present(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def advise_on_config(made: MadeConfig, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    yield from _renderer(made, context)
    yield from _hardware(made, context)
    yield from _unmeasured(config, context)
    yield from _curriculum(made, config, context)
    yield from _secrets(config, context)
    yield from _not_evaluated(config)


def _renderer(made: MadeConfig, context: ConfigContext) -> Iterator[Finding]:
    renderer = made.plan.renderer
    if renderer is None or renderer.value != "default":
        return
    model = str(made.plan.model.value)
    near = near_models(model, context)
    hint = f" Did you mean {' or '.join(near)}?" if near and model not in near else ""
    yield Finding(
        "config-default-renderer",
        "warning",
        f"{quote(model, limit=100)} is none of the models that prime-rl knows how to render; its own chat template "
        f"is used, which does not work with tools.{hint}",
        'If it was tuned from a known model, pass extra={"orchestrator.renderer.name": "qwen3"} with the renderer of '
        "that family; else leave it.",
        "orchestrator.renderer.name",
    )


def _hardware(made: MadeConfig, context: ConfigContext) -> Iterator[Finding]:
    plan = made.plan
    if plan.hardware.short:
        yield Finding(
            "config-gpu-memory",
            "warning",
            f"By our formula the GPUs are too few or too small: {plan.hardware.short}.",
            'Pass gpus= or gpu_type= with more memory, a shorter extra={"seq_len": ...}, or lora=true.',
            "deployment",
        )
    if plan.choices.target == "hosted" and plan.gpu_type is None and context.models is not None:
        offers = ", ".join(
            f"{o.gpu_type} at {o.price_per_gpu_hour:g}"
            for o in context.models.offers
            if o.price_per_gpu_hour is not None
        )
        yield Finding(
            "config-gpu-type-open",
            "info",
            "No GPU type that fits is free now, so the file names none and the platform chooses"
            + (f" (offered, in dollars a GPU-hour: {quote(offers, limit=160)})." if offers else "."),
            'Pass gpu_type= to wait for a certain one; search_hub(kind="gpu") lists them with prices.',
            "gpu_type",
        )


def _unmeasured(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    without = [s for s in config.train_sources if not _of(context, s).evaluation and _of(context, s).usable is None]
    if not without:
        return
    names = quote(", ".join(s.id for s in without[:4]), limit=160)
    yield Finding(
        "config-unmeasured",
        "info",
        f"No evaluation of {names} with {quote(config.model, limit=80)} is known here: token budget, group and batch "
        "size are guesses for it.",
        f'Call run_eval(model="{quote(config.model, limit=80)[1:-1]}") on it and write the config again.',
        "orchestrator",
    )


def _curriculum(made: MadeConfig, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    if made.plan.choices.curriculum is not None:
        return
    for source in config.train_sources:
        found = _of(context, source)
        if found.usable is None or isinstance(source.table.get("curriculum"), dict):
            continue
        only = ConfigContext(usable=found.usable, usable_group=found.usable_group, mean=found.mean)
        share = usable_share_at_group(only, config.group_of(source)) or 0.0
        advised = suggested_curriculum(share, found.solved, found.unsolved)
        if advised in ("pools", "both") and (found.infinite or found.duplicates):
            advised = "gate" if advised == "both" else None  # a difficulty pool takes neither
        if advised is None:
            continue
        dead = f"about {1 - share:.0%} of its groups would have no gradient"
        ends = f"{found.solved} of its tasks are mostly solved and {found.unsolved} mostly not"
        why = {"gate": dead, "pools": ends, "both": f"{dead}, and {ends}"}[advised]
        yield Finding(
            "config-curriculum-advised",
            "info",
            f"{quote(source.name, limit=60)}: {why}"
            + (f" (evaluation {found.evaluation})." if found.evaluation else "."),
            f'Pass curriculum="{advised}"; read_eval(view="difficulty") shows the tasks and what else would help.',
            "orchestrator.train.source.curriculum",
        )


def _secrets(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Findings about secrets by name. No value of a secret reaches this module."""
    for source in config.train_sources:
        for variable in _of(context, source).secrets:
            if config.target == "self-managed":
                fix = f"Export {variable} where prime-rl runs."
            elif variable in FORWARDED_VARIABLES:
                fix = f"Set {variable} where the server runs, or name a file with it in env_files; both are passed on."
            else:
                hub = source.hub_name or "OWNER/NAME"
                fix = (
                    f"Have a person run `prime env secret create {hub} -n {variable}`, which asks for the value, or "
                    f"`prime env secret link GLOBAL_ID {hub}`."
                )
            yield Finding(
                "config-secret-needed",
                "warning",
                f"{quote(source.id, limit=100)} reads {variable}, without which its rollouts fail.",
                fix,
                "orchestrator.train.source",
            )


def _not_evaluated(config: TrainingConfig) -> Iterator[Finding]:
    """Silent where the run evaluates nothing at all, because check_training_config warns of that."""
    evaluated = {s.env_name for s in config.eval_sources}
    without = [s.name for s in config.train_sources if s.env_name not in evaluated]
    if evaluated and without:
        yield Finding(
            "config-source-without-eval",
            "info",
            f"{quote(', '.join(without), limit=160)} is trained on, not evaluated: its folder shows no held-out split.",
            'Give the taskset a split argument, or pass eval={"split": "..."} with keys that fit every environment.',
            "orchestrator.eval.source",
        )


def _of(context: ConfigContext, source: ConfigSource) -> SourceMeasurement:
    return context.each.get(source.id, SourceMeasurement())
