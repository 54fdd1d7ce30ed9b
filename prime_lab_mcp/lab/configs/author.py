"""Writes a training config into the workspace as a new version, and returns advice about it.

Environments are resolved to names on the Hub and pinned to versions, and evidence about them decides values that the
request leaves open. No file is overwritten.
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
from prime_lab_mcp.lab.configs.component_files import read_older_config
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig, read_config, taskset_identity
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement, price_per_hour
from prime_lab_mcp.lab.configs.draft import ConfigLineage, equal_except_date
from prime_lab_mcp.lab.configs.evidence import evaluated_model, gather_context_of_sources, known_schemas
from prime_lab_mcp.lab.configs.make import ConfigProposal, proposal_changes, propose_config, with_extra
from prime_lab_mcp.lab.configs.migrate.findings import migration_findings
from prime_lab_mcp.lab.configs.migrate.mover import migrate_config
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange, LineageHeader, read_header
from prime_lab_mcp.lab.configs.own_gpus import gpu_not_free_finding
from prime_lab_mcp.lab.configs.plan.batching import usable_share_at_group
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice, require_config_name
from prime_lab_mcp.lab.configs.plan.decide import near_models
from prime_lab_mcp.lab.configs.resolve import ResolvedSource, SourceProof, held_out_keys, resolve_source
from prime_lab_mcp.lab.configs.rules.sources import environment_keys, harness_keys, taskset_keys
from prime_lab_mcp.lab.configs.write import finish_text
from prime_lab_mcp.lab.distribution.sample import EASY_FIRST, suggested_curriculum
from prime_lab_mcp.lab.environment.credentials import FORWARDED_VARIABLES
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL, require_trained
from prime_lab_mcp.lab.prime.answers import PlatformModels

_LARGEST_RATIO = 1e6
"""Largest relative share of an environment."""


@dataclass(frozen=True, slots=True)
class ConfigRequest:
    """The request to write a config.

    `environments` are folder names or `owner/name[@version]`. `choices` has no sources; the environments become its
    sources.
    """

    environments: tuple[str, ...] = ()
    choices: ConfigChoices = field(default_factory=lambda: ConfigChoices(()))
    env_args: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Any] | None = None
    """Taskset keys of the eval sources. None means that they are read from each environment's code if possible."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path."""
    ratios: tuple[float, ...] = ()
    """Relative shares of the environments, in their order. Empty means equal shares."""
    name: str | None = None
    based_on: str | None = None
    notes: str | None = None

    def ratio(self, index: int) -> float | None:
        """Return the relative share of the environment with this index, or None for equal shares."""
        return self.ratios[index] if self.ratios else None

    def require_ratios(self) -> None:
        """Raise BadInput unless there is one positive share for each environment, or none at all."""
        one_each = len(self.ratios) == len(self.environments)
        if self.ratios and not (one_each and all(0 < r <= _LARGEST_RATIO for r in self.ratios)):
            raise BadInput(
                f"{len(self.ratios)} ratios for {len(self.environments)} environments, or one that is not above 0",
                fix="Pass one number above 0 for each of environments, in their order, e.g. ratios=[2, 1].",
                code="config-ratios",
            )


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """A written config. `relative` is its path in the workspace.

    `existed` is True if an identical config existed already, so that nothing was written.
    """

    config: TrainingConfig
    relative: str
    version: int
    existed: bool
    based_on: str | None
    changes: tuple[KeyChange, ...]
    findings: tuple[Finding, ...]
    proposal: ConfigProposal
    price_per_hour: float | None
    """US dollars per hour for all GPUs together."""
    price_per_gpu_hour: float | None = None
    """US dollars per hour for one GPU."""

    @property
    def hardware(self) -> str:
        """The GPUs of the run in a few words."""
        return self.proposal.plan.hardware_summary

    @property
    def environment_versions(self) -> tuple[str, ...]:
        """`owner/name@version` of every training source that has a version."""
        return tuple(dict.fromkeys(s.id for s in self.config.train_sources if s.version))


CONFIG_FOLDER = "configs/rl"
_VERSIONED = re.compile(r"-v\d+$")


@dataclass(frozen=True, slots=True)
class _Inputs:
    """All data that determines the written file, apart from its version and date."""

    request: ConfigRequest
    choices: ConfigChoices
    base: TrainingConfig | None
    pins: Mapping[str, str]
    context: ConfigContext
    findings: tuple[Finding, ...]
    proofs: Mapping[str, SourceProof | None] = field(default_factory=dict)
    """Workspace, environment and source fingerprint of the present files, by source id."""


Fit = Callable[[ConfigChoices, Callable[[ConfigChoices], TrainingConfig], PlatformModels | None], ConfigChoices]
"""Changes choices so that the resulting config stays within a bound, such as a budget.

The arguments are the choices, a function that returns the config of some choices without writing it, and the platform's
models with their prices.
"""


async def write_config(lab: Lab, request: ConfigRequest, today: date, fit: Fit | None = None) -> WrittenConfig:
    """Write the config of a request. Raises BadInput for a request that cannot be met, without writing anything.

    `fit` changes the choices before the config is written.
    """
    registry_path = lab.workspace.resolve(registry.REGISTRY)
    registry.load_registry(registry_path)
    request.require_ratios()
    base = _older(lab, request.based_on) if request.based_on else None
    resolved = [await resolve_source(lab, name, request.choices) for name in request.environments]
    sources = tuple(_source(r, request, index) for index, r in enumerate(resolved))
    choices = with_extra(replace(request.choices, sources=sources), request.extra)
    pins: dict[str, str] = {}
    if base is not None and not resolved:
        ids = dict.fromkeys(s.id for s in migrate_config(base, choices.target).choices.sources if s.id)
        resolved = [await resolve_source(lab, id, choices, lenient=True) for id in ids]
        pins = {old: new.id for old, new in zip(ids, resolved, strict=True)}
        choices = replace(choices, env_args=request.env_args, held_out=_held_out(request, base, resolved))
    models = await _models(lab, choices)
    if choices.model is None and base is None:
        trainable = models.trainable if models is not None else ()
        evaluated = evaluated_model(lab, (r.proof for r in resolved), trainable)
        because = {**choices.because, "model": "the evaluation of it passed, and no other model was asked for"}
        choices = replace(choices, model=evaluated, because=because) if evaluated else choices
    context = gather_context_of_sources(lab, {r.id: r.proof for r in resolved}, _model(choices, base), None, models)
    if context.models is not None:
        require_trained(_model(choices, base), context.models.trainable)
    choices = replace(choices, sources=tuple(_with_recorded_facts(s, context, request) for s in choices.sources))
    name = request.name or _name(resolved, base)
    require_config_name(name)
    proofs = {r.id: r.proof for r in resolved}
    inputs = _Inputs(request, choices, base, pins, context, tuple(f for r in resolved for f in r.findings), proofs)
    if base is not None and (changed := registry.drift_finding(registry_path, base)) is not None:
        inputs = replace(inputs, findings=(*inputs.findings, changed))
    if fit is not None:
        preview = partial(_preview, lab, inputs, name, today)
        inputs = replace(inputs, choices=await anyio.to_thread.run_sync(fit, choices, preview, context.models))
    with registry.locked_registry(registry_path) as locked:
        return _write(locked, lab, inputs, name, today)


def _older(lab: Lab, based_on: str) -> TrainingConfig:
    """Read the older config that the request is based on. Raises BadInput."""
    return read_older_config(lab.workspace.resolve(based_on, must_exist=True), based_on)


def _preview(lab: Lab, inputs: _Inputs, name: str, today: date, choices: ConfigChoices) -> TrainingConfig:
    """Return the config that these choices lead to, without writing it."""
    proposal = propose_config(choices, inputs.context, name, inputs.base, inputs.pins)
    lineage = ConfigLineage(name, 1, today, choices.target, tuple(dict.fromkeys(_ids(proposal))), None, None, ())
    path = lab.workspace.resolve(f"{CONFIG_FOLDER}/{name}.toml")
    return finish_text(proposal.draft, lineage, path, inputs.base)[1]


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
        if locked.is_taken(name, version, f"{CONFIG_FOLDER}/{stem}.toml"):
            continue
        proposal = propose_config(inputs.choices, inputs.context, stem, base, inputs.pins)
        if base is not None:
            proposal = _rebase_env_files(proposal, base.path.parent, path.parent)
        environments = tuple(dict.fromkeys(_ids(proposal)))
        notes, earlier = inputs.request.notes, header.lines()
        lineage = ConfigLineage(stem, version, today, inputs.choices.target, environments, based_on, notes, earlier)
        text, config = finish_text(proposal.draft, lineage, path, base)
        _require_known_keys(lab, config, inputs)
        relative = path.relative_to(root).as_posix()
        if not path.exists():
            break
        if equal_except_date(_present(path), text):
            return _written_config(read_config(path), relative, version, True, relative_base, proposal, inputs)
    registry.replace_text(path, text)
    entry = registry.RegistryEntry(
        name=name,
        version=version,
        path=relative,
        created=today.isoformat(),
        model=config.model,
        target=inputs.choices.target,
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
    return _written_config(config, relative, version, False, relative_base, proposal, inputs)


def _require_known_keys(lab: Lab, config: TrainingConfig, inputs: _Inputs) -> None:
    """Raise BadInput if the environment's config classes would refuse a key or value of a source."""
    context = ConfigContext(shapes=known_schemas(lab, config, inputs.proofs))
    for rule in (taskset_keys, environment_keys, harness_keys):
        for finding in rule(config, context):
            if finding.severity != "blocker":
                continue
            older = ""
            if inputs.base is not None and not inputs.request.environments:
                name = inputs.base.path.name
                older = f" Correct {name} if it stands there, or pass environments=[...] to write the sources anew."
            raise BadInput(finding.message, fix=finding.fix + older, code=finding.code, where=finding.where)


def _written_config(
    config: TrainingConfig,
    relative: str,
    version: int,
    existed: bool,
    based_on: str | None,
    proposal: ConfigProposal,
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
        changes=proposal.changes if based_on else proposal_changes(proposal),
        findings=(
            *inputs.findings,
            *migration_findings(proposal.changes),
            *advise_on_config(proposal, config, context),
        ),
        proposal=proposal,
        price_per_hour=price_per_hour(config, context),
        price_per_gpu_hour=price,
    )


def _model(choices: ConfigChoices, base: TrainingConfig | None) -> str:
    return choices.model or (base.model if base else DEFAULT_MODEL)


async def _models(lab: Lab, choices: ConfigChoices) -> PlatformModels | None:
    """Return the platform's models. None if the platform does not answer, or for self-managed GPUs."""
    if choices.target != "hosted":
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
    """Return the source with facts from its check: the limit of turns, its secrets, and keys for held-out tasks."""
    measurement = context.each.get(source.id, SourceMeasurement())
    max_turns = source.args.get("max_turns")
    turns = max_turns if isinstance(max_turns, int) and max_turns > 0 else measurement.turns
    held_out = source.held_out or (measurement.held_out if request.held_out is None else None)
    return replace(source, turns=turns or source.turns, secrets=measurement.secrets, held_out=held_out)


def _held_out(request: ConfigRequest, base: TrainingConfig, resolved: list[ResolvedSource]) -> Mapping[str, Any] | None:
    """Return the taskset keys for the eval sources of a migrated config. None keeps those of the older file."""
    if request.held_out is not None or base.eval_sources or isinstance(base.at("eval.env"), list):
        return request.held_out
    keys = [held_out_keys(r.folder) for r in resolved if r.folder is not None]
    return keys[0] if keys and len(keys) == len(resolved) and all(k == keys[0] for k in keys) else None


def _name(resolved: list[ResolvedSource], base: TrainingConfig | None) -> str:
    if base is not None:
        return _safe(_VERSIONED.sub("", base.path.stem))
    return _safe(taskset_identity(resolved[0].id)[1]) if resolved else "config"


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60] or "config"


def _rebase_env_files(proposal: ConfigProposal, old: Path, new: Path) -> ConfigProposal:
    """Make `env_files` relative to the new folder of the config, and drop missing files.

    `prime train` stops if one of the files is missing.
    """
    changes = []
    for key in ("env_file", "env_files"):
        value = proposal.draft.get(key)
        files = [f for f in (value if isinstance(value, list) else [value]) if isinstance(f, str)]
        if not files:
            continue
        moved_paths = [os.path.relpath(old / f, new) for f in files if (old / f).is_file()]
        proposal.draft.pop(key)
        if moved_paths:
            proposal.draft.put("env_files", moved_paths, "moved with the file; WANDB_API_KEY and HF_TOKEN only")
        if len(moved_paths) < len(files):
            changes.append(
                KeyChange(key, "dropped what is missing", "no such file beside the older config", str(files))
            )
    return replace(proposal, changes=(*proposal.changes, *changes))


def _ids(proposal: ConfigProposal) -> list[str]:
    entries = proposal.draft.get("orchestrator.train.source") or []
    return [str(s["env"]["taskset"]["id"]) for s in entries if isinstance(s, dict) and "taskset" in s.get("env", {})]


def _present(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def advise_on_config(proposal: ConfigProposal, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Yield advice on a written config.

    The advice is about its renderer, GPUs, environments without an evaluation, curriculum, secrets and held-out tasks.
    """
    yield from _renderer(proposal, context)
    yield from _hardware(proposal, context)
    yield from _unmeasured(config, context)
    yield from _curriculum(proposal, config, context)
    yield from _secrets(config, context)
    yield from _not_evaluated(config)


def _renderer(proposal: ConfigProposal, context: ConfigContext) -> Iterator[Finding]:
    renderer = proposal.plan.renderer
    if renderer is None or renderer.value != "default":
        return
    model = str(proposal.plan.model.value)
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


def _hardware(proposal: ConfigProposal, context: ConfigContext) -> Iterator[Finding]:
    plan = proposal.plan
    if plan.hardware.short:
        yield Finding(
            "config-gpu-memory",
            "warning",
            f"By our formula the GPUs are too few or too small: {plan.hardware.short}.",
            'Pass gpus= or gpu_type= with more memory, a shorter extra={"seq_len": ...}, or lora=true.',
            "deployment",
        )
    requested = plan.choices.gpu_type
    if plan.choices.target == "hosted" and requested is not None and context.models is not None:
        free = [o.gpu_type for o in context.models.offers if o.available_now]
        now = [o.available_now for o in context.models.offers if o.gpu_type == requested]
        # The platform does not say whether GPUs of its clusters, which are not rented by the hour, are free.
        in_clusters = any(requested in types for types in context.models.trainable.values())
        if False in now or not (now or in_clusters):
            yield gpu_not_free_finding(requested, free, "a GPU of a hosted run")
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
    without = [
        s
        for s in config.train_sources
        if not _measurement_of(context, s).evaluation and _measurement_of(context, s).usable is None
    ]
    if not without:
        return
    names = quote(", ".join(s.id for s in without[:4]), limit=160)
    yield Finding(
        "config-unmeasured",
        "info",
        f"No evaluation of {names} with {quote(config.model, limit=80)} is known here: token budget, group and batch "
        "size are guesses for it.",
        f'Call run_eval(model="{quote(config.model, limit=80)[1:-1]}") on it, with hosted=true if its files are on the '
        "Hub only, and write the config again.",
        "orchestrator",
    )


def _curriculum(proposal: ConfigProposal, config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    if proposal.plan.choices.curriculum is not None:
        return
    for source in config.train_sources:
        measurement = _measurement_of(context, source)
        if measurement.usable is None or isinstance(source.table.get("curriculum"), dict):
            continue
        only = ConfigContext(usable=measurement.usable, usable_group=measurement.usable_group, mean=measurement.mean)
        share = usable_share_at_group(only, config.group_of(source)) or 0.0
        advised = suggested_curriculum(share, measurement.solved, measurement.unsolved)
        if advised in ("pools", "both") and (measurement.infinite or measurement.duplicates):
            advised = "gate" if advised == "both" else None  # difficulty pools need finite tasksets without duplicates
        if advised is None:
            continue
        dead = f"about {1 - share:.0%} of its groups would have no gradient"
        ends = f"{measurement.solved} of its tasks are mostly solved and {measurement.unsolved} mostly not"
        why = {"gate": dead, "pools": ends, "both": f"{dead}, and {ends}"}[advised]
        yield Finding(
            "config-curriculum-advised",
            "info",
            f"{quote(source.name, limit=60)}: {why}"
            + (f" (evaluation {measurement.evaluation})." if measurement.evaluation else "."),
            f'Pass curriculum="{advised}"; read_eval(view="difficulty") shows the tasks. {EASY_FIRST}',
            "orchestrator.train.source.curriculum",
        )


def _secrets(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Yield a warning for each secret that an environment reads. Only the names of secrets are known here."""
    for source in config.train_sources:
        for variable in _measurement_of(context, source).secrets:
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
    """Yield a note on environments without held-out tasks, if others have some.

    check_training_config warns about a run that evaluates nothing at all.
    """
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


def _measurement_of(context: ConfigContext, source: ConfigSource) -> SourceMeasurement:
    return context.each.get(source.id, SourceMeasurement())
