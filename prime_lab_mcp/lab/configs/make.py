"""Makes a config: what was asked, over what an older file says, over what is chosen; with every change noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from prime_lab_mcp.lab.configs.draft import Draft
from prime_lab_mcp.lab.configs.inherit import FIELDS
from prime_lab_mcp.lab.configs.migrate import Change, migrate, settled
from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.own_gpus.fit import fit
from prime_lab_mcp.lab.configs.plan import Choices, Plan, SourceChoice, plan
from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.configs.schema import check
from prime_lab_mcp.lab.configs.write import compose
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

_NOT_MERGED = frozenset({"sources", "because", "target", "extra", "env_args", "held_out"})
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
class Made:
    """A draft ready to be rendered, the plan behind it, and what became of the file it is based on."""

    draft: Draft
    plan: Plan
    changes: tuple[Change, ...]


def make(
    asked: Choices, seen: Observed, name: str, base: Config | None = None, pins: Mapping[str, str] | None = None
) -> Made:
    """`pins` maps environment ids of the older file to `owner/name@version`. Raises BadInput."""
    if base is None:
        chosen = plan(asked, seen)
        return Made(_extended(_placed(compose(chosen, name), chosen), asked.extra), chosen, ())
    migration = migrate(base, asked.target)
    draft, changes = migration.draft, list[Change]()
    inherited = _pinned(draft, migration.choices, pins or {}, changes)
    inherited = _consistent(inherited, asked, seen, changes)
    merged = _over(inherited, asked, draft, changes)
    chosen = plan(merged, seen)
    draft = _extended(_placed(compose(chosen, name, draft), chosen), asked.extra)
    told = settled(migration.rows, changes, draft, migration.moved)
    draft.left_out = [f"{row.key} of {base.path.name}: {row.why}" for row in told if row.to == "dropped"]
    return Made(draft, chosen, told)


def _placed(draft: Draft, chosen: Plan) -> Draft:
    """What one's own GPUs need beside: the one place where `self-managed` adjusts a draft."""
    if chosen.choices.target == "self-managed" and chosen.hardware.nodes and draft.get("slurm") is None:
        name = str(draft.get("run.name"))
        draft.put("slurm.job_name", name, "prime-rl runs on several nodes through SLURM only; set partition as yours")
    fit(draft, chosen)
    return draft


def with_extra(asked: Choices, extra: Mapping[str, Any]) -> Choices:
    """`extra` keys that a plan decides on become choices; the rest is set as it is. Raises BadInput."""
    values: dict[str, Any] = {}
    rest = dict(extra)
    for field, (path, kind) in FIELDS.items():
        if path not in rest:
            continue
        value = rest.pop(path)
        number = isinstance(value, int) and not isinstance(value, bool)
        if not isinstance(value, kind) and not (kind is float and number):
            raise _refused(path, f"must be {'text' if kind is str else 'a number'}")
        values[field] = kind(value)
    return replace(asked, extra=rest, **values)


def _extended(draft: Draft, extra: Mapping[str, Any]) -> Draft:
    """Set further keys, each of which prime-rl must know."""
    for path, value in extra.items():
        if not all(path.split(".")) or isinstance(draft.get(path.partition(".")[0]), list):
            raise _refused(path, "is no dotted path of keys")
        draft.put(path, value, "as asked")
    for problem in check(draft.table) if extra else ():
        raise _refused(problem.key, problem.problem, problem.near)
    return draft


def _refused(path: str, problem: str, near: str | None = None) -> BadInput:
    return BadInput(
        f"{quote(path, limit=120)} {problem}",
        fix=f"Did you mean {near}?"
        if near
        else 'Give extra as dotted prime-rl keys, e.g. {"trainer.optim.weight_decay": 0}.',
        code="config-unknown-key",
    )


def _over(inherited: Choices, asked: Choices, draft: Draft, changes: list[Change]) -> Choices:
    """Arguments of the call win over the older file."""
    values: dict[str, Any] = {}
    because = dict(inherited.because)
    for field in fields(Choices):
        new, old = getattr(asked, field.name), getattr(inherited, field.name)
        if field.name in _NOT_MERGED or new is None:
            continue
        values[field.name] = new
        because.pop(field.name, None)
        if old not in (None, new):
            label = _LABELS.get(field.name) or FIELDS.get(field.name, (field.name,))[0]
            changes.append(Change(label, f"{label} = {new}", "as asked in this call", old))
    if asked.gpus is not None:
        values["train_gpus"] = asked.train_gpus
    if asked.sources:
        values["sources"] = asked.sources
        for path in ("orchestrator.train.source", "orchestrator.eval.source"):
            if draft.get(path) is not None:
                draft.pop(path)
        if draft.get("orchestrator.eval") is not None and not any(s.held_out is not None for s in asked.sources):
            draft.pop("orchestrator.eval")
        names = ", ".join(s.id for s in asked.sources)
        changes.append(Change("orchestrator.train.source", names, "as asked in this call"))
    elif asked.env_args or asked.held_out is not None:
        values["sources"] = _rewired(inherited.sources, asked, draft, changes)
    return replace(inherited, because=because, target=asked.target, **values)


def _rewired(
    sources: tuple[SourceChoice, ...], asked: Choices, draft: Draft, changes: list[Change]
) -> tuple[SourceChoice, ...]:
    """The older file's environments with the taskset keys of this call."""
    for index in range(len(sources)):
        for key, value in asked.env_args.items():
            draft.put(("orchestrator", "train", "source", index, "env", "taskset", key), value, "as asked")
    for key, value in asked.env_args.items():
        changes.append(Change(f"env.taskset.{key}", f"{key} = {value}", "as asked, for every training source"))
    present = draft.get("orchestrator.eval.source") is not None
    if asked.held_out is not None and present:
        draft.pop("orchestrator.eval.source" if asked.held_out else "orchestrator.eval")
    if asked.held_out is not None and (present or asked.held_out):
        became = "dropped" if not asked.held_out else "replaced" if present else "added"
        changes.append(Change("orchestrator.eval.source", became, "as asked: held-out tasks of each environment"))
    return tuple(replace(s, args={**s.args, **asked.env_args}, held_out=asked.held_out or None) for s in sources)


def _consistent(inherited: Choices, asked: Choices, seen: Observed, changes: list[Change]) -> Choices:
    """Mend what the older file itself left at odds, where the call does not decide it."""
    tokens = asked.max_tokens or inherited.max_tokens or 0
    if inherited.seq_len is not None and asked.seq_len is None:
        needed = tokens + (seen.prompt_tokens or 0)
        if inherited.seq_len < needed or (tokens > 0.9 * inherited.seq_len):
            changes.append(
                Change(
                    "seq_len", "chosen anew", f"{needed} tokens of prompt and completion do not fit", inherited.seq_len
                )
            )
            inherited = replace(inherited, seq_len=None)
    group = asked.group or inherited.group
    if inherited.batch is not None and asked.batch is None and group and inherited.batch % group:
        rounded = max(1, round(inherited.batch / group)) * group
        changes.append(
            Change(
                "orchestrator.batch_size",
                f"orchestrator.batch_size = {rounded}",
                f"it must be a multiple of the group {group}",
                inherited.batch,
            )
        )
        inherited = replace(inherited, batch=rounded)
    return inherited


def _pinned(draft: Draft, inherited: Choices, pins: Mapping[str, str], changes: list[Change]) -> Choices:
    for kind in ("train", "eval"):
        for index, entry in enumerate(draft.get(f"orchestrator.{kind}.source") or ()):
            path = ("orchestrator", kind, "source", index, "env", "taskset", "id")
            old = draft.get(path)
            if isinstance(entry, dict) and isinstance(old, str) and old in pins and pins[old] != old:
                draft.put(path, pins[old], "pinned to the version that was checked")
                changes.append(Change(f"{kind} source {index + 1}", pins[old], "pinned to a version", old))
    sources: tuple[SourceChoice, ...] = tuple(replace(s, id=pins.get(s.id, s.id)) for s in inherited.sources)
    return replace(inherited, sources=sources)
