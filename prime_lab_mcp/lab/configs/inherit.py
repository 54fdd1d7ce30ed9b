"""What a file already decides, as choices: so that a new plan keeps it instead of choosing anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.lab.configs.draft import Draft
from prime_lab_mcp.lab.configs.plan import Choices, SourceChoice
from prime_lab_mcp.lab.configs.read import Target, identity

FIELDS: Mapping[str, tuple[str, type]] = {
    "model": ("model.name", str),
    "steps": ("max_steps", int),
    "batch": ("orchestrator.batch_size", int),
    "group": ("orchestrator.group_size", int),
    "max_tokens": ("orchestrator.train.sampling.max_completion_tokens", int),
    "seq_len": ("seq_len", int),
    "temperature": ("orchestrator.train.sampling.temperature", float),
    "lora_rank": ("trainer.model.lora.rank", int),
    "lora_alpha": ("trainer.model.lora.alpha", float),
    "lr": ("trainer.optim.lr", float),
    "gpu_type": ("gpu_type", str),
    "renderer": ("orchestrator.renderer.name", str),
    "wandb": ("monitors.wandb.project", str),
    "eval_interval": ("orchestrator.eval.interval", int),
    "eval_tasks": ("orchestrator.eval.num_examples", int),
    "ckpt_interval": ("ckpt.interval", int),
}


def inherit(draft: Draft, file: str, target: Target, lora: bool | None = None) -> Choices:
    """The choices that a migrated file makes. `lora`: implied by its shape; None reads it from the file."""
    values: dict[str, Any] = {}
    for field, (path, kind) in FIELDS.items():
        found = draft.get(path)
        if kind is float and isinstance(found, int) and not isinstance(found, bool):
            found = float(found)
        unfit = found == "None" or (kind is int and field != "eval_tasks" and isinstance(found, int) and found < 1)
        if isinstance(found, kind) and not isinstance(found, bool) and not unfit:
            values[field] = found
    because = {field: draft.reasons.get(tuple(FIELDS[field][0].split(".")), f"from {file}") for field in values}
    train, infer = draft.get("deployment.num_train_gpus"), draft.get("deployment.num_infer_gpus")
    if isinstance(train, int) or isinstance(infer, int):
        values["train_gpus"] = max(1, train if isinstance(train, int) else 1)
        values["gpus"] = values["train_gpus"] + max(1, infer if isinstance(infer, int) else 1)
        because["gpus"] = f"from {file}"
    if draft.get("deployment.type") == "multi_node" or values.get("gpus", 2) > 8:
        values = {k: v for k, v in values.items() if k not in ("gpus", "train_gpus")}
    if "group" in values and values["group"] < 2:
        values.pop("group")  # a group of one has no advantage: let the plan choose
    values["lora"] = isinstance(draft.get("trainer.model.lora"), Mapping) if lora is None else lora
    if values.get("renderer") == "auto":
        values.pop("renderer")
    return Choices(sources=sources(draft), target=target, because=because, **values)


def sources(draft: Draft) -> tuple[SourceChoice, ...]:
    """The training sources of a draft."""
    found = draft.get("orchestrator.train.source")
    return tuple(_source(entry) for entry in found if isinstance(entry, Mapping)) if isinstance(found, list) else ()


def _source(entry: Mapping[str, Any]) -> SourceChoice:
    env = entry.get("env")
    taskset = env.get("taskset") if isinstance(env, Mapping) else None
    args = dict(taskset) if isinstance(taskset, Mapping) else {}
    id = str(args.pop("id", "") or (env.get("id", "") if isinstance(env, Mapping) else ""))
    agent = env.get("agent") if isinstance(env, Mapping) else None
    parts = {key: agent.get(key) for key in ("harness", "runtime")} if isinstance(agent, Mapping) else {}
    named = {key: part for key, part in parts.items() if isinstance(part, Mapping)}
    return SourceChoice(
        id=id,
        args=args,
        name=str(entry.get("name") or identity(id)[1]),
        harness=_text(named.get("harness", {}).get("id")),
        runtime=_text(named.get("runtime", {}).get("type")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
