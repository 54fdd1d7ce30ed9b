"""Writes a training config into the workspace as a new version. advice.py advises on it.

Environments are resolved to names on the Hub and pinned to versions, and evidence about them decides values that the
request leaves open. No file is overwritten.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.configs.advice import advise_on_config
from prime_lab_mcp.lab.configs.component_files import read_older_config
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config, taskset_identity
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement, price_per_hour
from prime_lab_mcp.lab.configs.draft import ConfigLineage, equal_except_date
from prime_lab_mcp.lab.configs.evidence import (
    arguments_by_id,
    evaluated_model,
    evidence_of_proof,
    gather_context_of_sources,
    known_schemas,
)
from prime_lab_mcp.lab.configs.make import ConfigProposal, proposal_changes, propose_config, with_extra
from prime_lab_mcp.lab.configs.migrate.findings import migration_findings
from prime_lab_mcp.lab.configs.migrate.mover import migrate_config
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange, LineageHeader, read_header
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice, require_config_name
from prime_lab_mcp.lab.configs.resolve import (
    ResolvedSource,
    SourceProof,
    held_out_keys,
    own_splits,
    resolve_source,
    without_held_out,
)
from prime_lab_mcp.lab.configs.rules.sources import environment_keys, harness_keys, taskset_keys
from prime_lab_mcp.lab.configs.rules.step import shorter_limit
from prime_lab_mcp.lab.configs.write import finish_text
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL, require_trained
from prime_lab_mcp.lab.prime.answers import PlatformModels
from prime_lab_mcp.lab.state.proven_arguments import proven_arguments

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
    env_args: Mapping[str, Any] | None = None
    """Taskset keys of every training source. None: those with which training on it is proven."""
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
    without_held_out: frozenset[str] = frozenset()
    """Ids of its sources whose code is here and has no held-out tasks."""
    own_splits: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Of these sources, those whose folder has held-out tasks by now, with the folder and the keys of these tasks."""
    uncounted: Mapping[str, str | None] = field(default_factory=dict)
    """The folder of each training source whose number of tasks is unknown; None where its files are not here."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """The folder of this workspace that holds the files of a source, by the id of the source."""
    shorter_limit: int | None = None
    """A token limit far below the written one that holds the evaluated replies, where the bound makes the run small."""
    reply_tokens: int | None = None
    """95th percentile of the tokens of the evaluated replies."""

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
    inputs, name = await _fitted(lab, request, today, fit)
    with registry.locked_registry(lab.workspace.resolve(registry.REGISTRY)) as locked:
        return _write(locked, lab, inputs, name, today)


async def try_config(lab: Lab, request: ConfigRequest, today: date, fit: Fit) -> None:
    """Let `fit` look at the configs of a request without writing one. Raises BadInput as `write_config` does."""
    await _fitted(lab, request, today, fit)


async def _fitted(lab: Lab, request: ConfigRequest, today: date, fit: Fit | None) -> tuple[_Inputs, str]:
    """Return the inputs of the config of a request, after `fit`, and its name."""
    registry_path = lab.workspace.resolve(registry.REGISTRY)
    registry.load_registry(registry_path)
    request.require_ratios()
    base = _older(lab, request.based_on) if request.based_on else None
    resolved = [await resolve_source(lab, name, request.choices) for name in request.environments]
    proven = {r.id: _proven_arguments(lab, r) for r in resolved} if request.env_args is None else {}
    sources = tuple(_source(r, request, index, proven) for index, r in enumerate(resolved))
    choices = with_extra(replace(request.choices, sources=sources), request.extra)
    pins: dict[str, str] = {}
    if base is not None and not resolved:
        ids = dict.fromkeys(s.id for s in migrate_config(base, choices.target).choices.sources if s.id)
        resolved = [await resolve_source(lab, id, choices, lenient=True) for id in ids]
        pins = {old: new.id for old, new in zip(ids, resolved, strict=True)}
        choices = replace(choices, env_args=request.env_args or {}, held_out=_held_out(request, base, resolved))
    models = await _models(lab, choices)
    if choices.model is None and base is None:
        trainable = models.trainable if models is not None else ()
        evaluated = evaluated_model(lab, (r.proof for r in resolved), trainable)
        if evaluated is not None:
            model, why = evaluated
            choices = replace(choices, model=model, because={**choices.because, "model": why})
    context = gather_context_of_sources(
        lab, {r.id: r.proof for r in resolved}, _model(choices, base), None, models, _arguments(choices, base, pins)
    )
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
    return inputs, name


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
            return _written_config(lab, read_config(path), relative, version, True, relative_base, proposal, inputs)
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
    return _written_config(lab, config, relative, version, False, relative_base, proposal, inputs)


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
            fix: str | Fix = finding.fix + older
            if inputs.request.held_out and str(finding.where).startswith("orchestrator.eval"):
                fix = Fix(fix, " Or leave ", SameCall.without("eval"), " out.")
            raise BadInput(finding.message, fix=fix, code=finding.code, where=finding.where)


def _written_config(
    lab: Lab,
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
    blind = without_held_out(lab, context, known_schemas(lab, config, inputs.proofs))
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
        without_held_out=blind,
        own_splits=own_splits(lab, replace(context, without_held_out=blind)),
        uncounted={
            source.id: context.folders.get(source.id)
            for source in config.train_sources
            if not (measured := context.each.get(source.id, SourceMeasurement())).tasks and not measured.infinite
        },
        folders=context.folders,
        shorter_limit=shorter_limit(config, context),
        reply_tokens=context.completion_tokens,
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


def _proven_arguments(lab: Lab, resolved: ResolvedSource) -> dict[str, Any]:
    """Return the arguments with which training on an environment is proven; empty for the defaults."""
    rows = evidence_of_proof(lab, resolved.proof) if resolved.proof is not None else []
    return proven_arguments(rows, runs=lab.ledger.training_names())


def _arguments(
    choices: ConfigChoices, base: TrainingConfig | None, pins: Mapping[str, str]
) -> Mapping[str, Mapping[str, Any]]:
    """Return the arguments with which each environment will be trained, by its id."""
    if choices.sources or base is None:
        return {source.id: source.args for source in choices.sources}
    older = arguments_by_id(base.train_sources)
    return {pins.get(id, id): {**given, **choices.env_args} for id, given in older.items()}


def _source(
    resolved: ResolvedSource, request: ConfigRequest, index: int, proven: Mapping[str, Mapping[str, Any]]
) -> SourceChoice:
    held_out = request.held_out
    if held_out is None and resolved.folder is not None:
        held_out = held_out_keys(resolved.folder)
    return SourceChoice(
        id=resolved.id,
        args=dict(proven.get(resolved.id, {}) if request.env_args is None else request.env_args),
        held_out=held_out or None,
        ratio=request.ratio(index),
    )


def _with_recorded_facts(source: SourceChoice, context: ConfigContext, request: ConfigRequest) -> SourceChoice:
    """Return the source with facts from its check: the limit of turns, its secrets, and keys for held-out tasks."""
    measurement = context.each.get(source.id, SourceMeasurement())
    max_turns = source.args.get("max_turns")
    turns = max_turns if isinstance(max_turns, int) and max_turns > 0 else measurement.turns
    held_out = source.held_out or (measurement.held_out if request.held_out is None else None)
    if measurement.harness_in_container is not None:
        # The plain chat in a process would fail every rollout. The runtime is the environment's own.
        source = replace(source, harness=measurement.harness_in_container, runtime=None)
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
