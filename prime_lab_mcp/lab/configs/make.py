"""Makes a config from the caller's request, an older file and chosen defaults, in this order of precedence.

Every change to the older file is recorded with its reason for the report.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.draft import ConfigDraft, KeyPath, flat_values
from prime_lab_mcp.lab.configs.migrate.mover import INHERITED_FIELDS, migrate_config
from prime_lab_mcp.lab.configs.migrate.rows import KeyChange, final_changes
from prime_lab_mcp.lab.configs.own_gpus import fit_to_own_gpus
from prime_lab_mcp.lab.configs.plan.choices import ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.plan.decide import ConfigPlan, plan_config
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.configs.write import compose_draft

_NOT_MERGED = frozenset({"sources", "because", "target", "extra", "env_args", "held_out", "thresholds"})
_LABELS = {
    "steps": "max_steps",
    "batch": "orchestrator.batch_size",
    "group": "orchestrator.group_size",
    "max_tokens": "orchestrator.train.sampling.max_completion_tokens",
    "lr": "trainer.optim.lr",
    "model": "model.name",
    "wandb": "monitors.wandb.project",
    "lora": "trainer.model.lora",
    "gpus": "deployment",
}


@dataclass(frozen=True, slots=True)
class ConfigProposal:
    """The draft of a config, the plan that it follows, and the changes to the file on which it is based."""

    draft: ConfigDraft
    plan: ConfigPlan
    changes: tuple[KeyChange, ...]


def propose_config(
    choices: ConfigChoices,
    context: ConfigContext,
    name: str,
    base: TrainingConfig | None = None,
    pins: Mapping[str, str] | None = None,
) -> ConfigProposal:
    """Return the config that a request leads to. Raises BadInput.

    `name` is the name of the run, and `base` the older file. `pins` maps environment ids of the older file to
    `owner/name@version`.
    """
    if base is None:
        plan = plan_config(choices, context)
        return ConfigProposal(_extended(_placed(compose_draft(plan, name), plan), choices.extra), plan, ())
    migration = migrate_config(base, choices.target)
    draft, changes = migration.draft, list[KeyChange]()
    inherited = _pinned(draft, migration.choices, pins or {}, changes)
    inherited = _consistent(inherited, choices, context, changes)
    merged = _merged_choices(inherited, choices, draft, changes)
    plan = plan_config(merged, context)
    draft = _extended(_placed(compose_draft(plan, name, draft), plan), choices.extra)
    rows = final_changes(migration.rows, changes, draft, migration.moved)
    draft.omitted = [f"{row.key} of {base.path.name}: {row.why}" for row in rows if row.to == "dropped"]
    return ConfigProposal(draft, plan, rows)


def _placed(draft: ConfigDraft, plan: ConfigPlan) -> ConfigDraft:
    """Adjust a draft for self-managed GPUs."""
    if plan.choices.target == "self-managed" and plan.hardware.nodes and draft.get("slurm") is None:
        name = str(draft.get("run.name"))
        draft.put("slurm.job_name", name, "prime-rl runs on several nodes through SLURM only; set partition as yours")
    fit_to_own_gpus(draft, plan)
    return draft


def with_extra(choices: ConfigChoices, extra: Mapping[str, Any]) -> ConfigChoices:
    """Return the choices with the keys of `extra`.

    A key that the plan decides on becomes a choice. All other keys stay in `extra` and are set as they are. Raises
    BadInput for a value of the wrong type.
    """
    parsed: dict[str, Any] = {}
    remaining: dict[str, Any] = {}
    fields_by_path = {path: (field, kind) for field, (path, kind) in INHERITED_FIELDS.items()}
    for path, value in flat_values(extra):
        dotted = ".".join(str(part) for part in path)
        if dotted not in fields_by_path:
            remaining[dotted] = value
            continue
        field, kind = fields_by_path[dotted]
        number = isinstance(value, int) and not isinstance(value, bool)
        if not isinstance(value, kind) and not (kind is float and number):
            raise _refused(dotted, f"must be {'text' if kind is str else 'a number'}")
        parsed[field] = kind(value)
    return replace(choices, extra=remaining, **parsed)


def _extended(draft: ConfigDraft, extra: Mapping[str, Any]) -> ConfigDraft:
    """Merge the further keys of a request into a draft. Raises BadInput if prime-rl's schema refuses one."""
    for path in extra:
        if not all(path.split(".")):
            raise _refused(path, "is no dotted path of keys")
    kinds = {path: draft.get(path) for path in extra if path.endswith(".type")}
    draft.merge(extra, "as asked")
    for path, before in kinds.items():
        if before not in (None, draft.get(path)):
            _drop_foreign_keys(draft, path.removesuffix(".type"))
    for problem in schema_problems(draft.table) if extra else ():
        raise _refused(problem.key, problem.problem, problem.near)
    return draft


def _drop_foreign_keys(draft: ConfigDraft, table: str) -> None:
    """Remove the keys that the new `type` of a table does not have, after the request changed the type."""
    for problem in schema_problems(draft.table):
        if problem.kind == "unknown" and problem.key.startswith(f"{table}."):
            draft.pop(problem.key)


def _refused(path: str, problem: str, near: str | None = None) -> BadInput:
    return BadInput(
        f"{quote(path, limit=120)} {problem}",
        fix=f"Did you mean {near}?"
        if near
        else 'Give extra as dotted prime-rl keys, e.g. {"trainer.optim.weight_decay": 0}.',
        code="config-unknown-key",
    )


def _merged_choices(
    inherited: ConfigChoices, requested: ConfigChoices, draft: ConfigDraft, changes: list[KeyChange]
) -> ConfigChoices:
    """Return the choices of the request, completed by those of the older file; append the differences to `changes`."""
    merged: dict[str, Any] = {}
    because = dict(inherited.because)
    for field in fields(ConfigChoices):
        new, old = getattr(requested, field.name), getattr(inherited, field.name)
        if field.name in _NOT_MERGED or new is None:
            continue
        merged[field.name] = new
        because.pop(field.name, None)
        reason = requested.because.get(field.name)
        if reason is not None:
            because[field.name] = reason
        if old not in (None, new):
            label = _LABELS.get(field.name) or INHERITED_FIELDS.get(field.name, (field.name,))[0]
            changes.append(KeyChange(label, f"{label} = {new}", reason or "as asked in this call", old))
    if requested.gpus is not None:
        merged["train_gpus"] = requested.train_gpus
    if requested.sources:
        merged["sources"] = requested.sources
        for path in ("orchestrator.train.source", "orchestrator.eval.source"):
            if draft.get(path) is not None:
                draft.pop(path)
        if draft.get("orchestrator.eval") is not None and not any(s.held_out is not None for s in requested.sources):
            draft.pop("orchestrator.eval")
        names = ", ".join(s.id for s in requested.sources)
        changes.append(KeyChange("orchestrator.train.source", names, "as asked in this call"))
    elif requested.env_args or requested.held_out is not None:
        merged["sources"] = _with_taskset_keys(inherited.sources, requested, draft, changes)
    return replace(inherited, because=because, target=requested.target, **merged)


def _with_taskset_keys(
    sources: tuple[SourceChoice, ...], requested: ConfigChoices, draft: ConfigDraft, changes: list[KeyChange]
) -> tuple[SourceChoice, ...]:
    """Return the environments of the older file with the taskset keys of the request."""
    for index in range(len(sources)):
        for key, value in requested.env_args.items():
            draft.put(("orchestrator", "train", "source", index, "env", "taskset", key), value, "as asked")
    for key, value in requested.env_args.items():
        changes.append(KeyChange(f"env.taskset.{key}", f"{key} = {value}", "as asked, for every training source"))
    present = draft.get("orchestrator.eval.source") is not None
    if requested.held_out is not None and present:
        draft.pop("orchestrator.eval.source" if requested.held_out else "orchestrator.eval")
    if requested.held_out is not None and (present or requested.held_out):
        became = "dropped" if not requested.held_out else "replaced" if present else "added"
        changes.append(KeyChange("orchestrator.eval.source", became, "as asked: held-out tasks of each environment"))
    return tuple(
        replace(s, args={**s.args, **requested.env_args}, held_out=requested.held_out or None) for s in sources
    )


def _consistent(
    inherited: ConfigChoices, requested: ConfigChoices, context: ConfigContext, changes: list[KeyChange]
) -> ConfigChoices:
    """Return the older file's choices with a sequence length and batch size that fit the others.

    Values that the request sets are not changed.
    """
    tokens = requested.max_tokens or inherited.max_tokens or 0
    if inherited.seq_len is not None and requested.seq_len is None:
        needed = tokens + (context.prompt_tokens or 0)
        if inherited.seq_len < needed or (tokens > 0.9 * inherited.seq_len):
            changes.append(
                KeyChange(
                    "seq_len", "chosen anew", f"{needed} tokens of prompt and completion do not fit", inherited.seq_len
                )
            )
            inherited = replace(inherited, seq_len=None)
    group = requested.group or inherited.group
    if inherited.batch is not None and requested.batch is None and group and inherited.batch % group:
        rounded = max(1, round(inherited.batch / group)) * group
        changes.append(
            KeyChange(
                "orchestrator.batch_size",
                f"orchestrator.batch_size = {rounded}",
                f"it must be a multiple of the group {group}",
                inherited.batch,
            )
        )
        inherited = replace(inherited, batch=rounded)
    return inherited


def _pinned(
    draft: ConfigDraft, inherited: ConfigChoices, pins: Mapping[str, str], changes: list[KeyChange]
) -> ConfigChoices:
    for kind in ("train", "eval"):
        for index, entry in enumerate(draft.get(f"orchestrator.{kind}.source") or ()):
            path = ("orchestrator", kind, "source", index, "env", "taskset", "id")
            old = draft.get(path)
            if isinstance(entry, dict) and isinstance(old, str) and old in pins and pins[old] != old:
                draft.put(path, pins[old], "pinned to the version that was checked")
                changes.append(KeyChange(f"{kind} source {index + 1}", pins[old], "pinned to a version", old))
    sources: tuple[SourceChoice, ...] = tuple(replace(s, id=pins.get(s.id, s.id)) for s in inherited.sources)
    return replace(inherited, sources=sources)


_KEYS = (
    "orchestrator.group_size",
    "orchestrator.batch_size",
    "max_steps",
    "orchestrator.train.sampling.max_completion_tokens",
    "seq_len",
    "inference.vllm.max_model_len",
    "trainer.optim.lr",
    "trainer.model.lora.rank",
    "model.name",
    "gpu_type",
    "deployment.type",
    "deployment.num_train_gpus",
    "deployment.num_infer_gpus",
    "deployment.num_train_nodes",
    "deployment.num_infer_nodes",
    "inference.vllm.tensor_parallel_size",
    "trainer.model.ac.freq",
    "orchestrator.renderer.name",
    "orchestrator.train.sampling.temperature",
    "orchestrator.eval.interval",
    "ckpt.interval",
)
"""Keys that a report shows, the most important first, because a long report loses its end."""
_OF_SOURCE = ("ratio", "group_size")
"""Keys of each training source that a report shows."""


def proposal_changes(proposal: ConfigProposal) -> tuple[KeyChange, ...]:
    """Return the values of a new config with their reasons, in the form of changes for a report."""
    return tuple(_changes(proposal))


def _changes(proposal: ConfigProposal) -> Iterator[KeyChange]:
    paths: list[KeyPath] = [tuple(key.split(".")) for key in _KEYS]
    sources = proposal.draft.get("orchestrator.train.source") or ()
    paths += [("orchestrator", "train", "source", i, key) for i in range(len(sources)) for key in _OF_SOURCE]
    for path in paths:
        value, why = proposal.draft.get(path), proposal.draft.reasons.get(path)
        if value is not None and why:
            yield KeyChange(_path_text(path), str(value), why)


def _path_text(path: KeyPath) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
