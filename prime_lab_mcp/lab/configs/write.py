"""A plan as a draft: which value goes to which key of a prime-rl config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.configs.draft import Draft, KeyPath, Lineage, render
from prime_lab_mcp.lab.configs.keep import edited
from prime_lab_mcp.lab.configs.observed import Observed
from prime_lab_mcp.lab.configs.plan import Plan, SourceChoice, Value
from prime_lab_mcp.lab.configs.read import Config, parse
from prime_lab_mcp.lab.configs.rules_form import lenient_toml
from prime_lab_mcp.lab.configs.schema import check
from prime_lab_mcp.lab.distribution.pools import POOLS
from prime_lab_mcp.lab.errors import BadInput


def compose(plan: Plan, name: str, draft: Draft | None = None) -> Draft:
    """Put every value of a plan into a draft: a new one, or one that holds what an older file said besides."""
    draft = draft or Draft()
    choices = plan.choices
    hosted = choices.target == "hosted"
    _put(draft, "name" if hosted else "run.name", Value(name, "name of the run"))
    if hosted and plan.gpu_type:
        _put(draft, "gpu_type", plan.gpu_type)
    _put(draft, "max_steps", plan.steps)
    _put(draft, "seq_len", plan.seq_len)
    _put(draft, "model.name", plan.model)
    _deployment(draft, plan)
    _put(draft, "ckpt.interval", plan.ckpt_interval)
    if draft.get("ckpt.keep_last") is None:
        _put(draft, "ckpt.keep_last", Value(2, "the newest two; without [ckpt] nothing is kept"))
    if choices.wandb:
        _put(
            draft,
            "monitors.wandb.project",
            Value(choices.wandb, "the key is passed beside this file, as WANDB_API_KEY"),
        )
    if draft.get("monitors.wandb") is not None and draft.get("monitors.wandb.name") is None:
        _put(draft, "monitors.wandb.name", Value(name, "name of the run there"))
    _trainer(draft, plan)
    _orchestrator(draft, plan)
    if not isinstance(draft.get("inference"), dict):
        draft.put("inference", {}, "rollouts come from a vLLM server of its own, with its defaults")
    _parallel(draft, plan)
    return draft


def finish(draft: Draft, lineage: Lineage, file: Path, base: Config | None = None) -> tuple[str, Config]:
    """The text and what it reads back as. Raises BadInput when the two TOML parsers would not agree on it.

    `base`: the file that this one is based on; one of today's shape is edited, so that its comments and order stay.
    """
    if base is not None and (kept := edit_of(base, draft, lineage, file)) is not None:
        return kept
    refusal = BadInput(
        "the environment arguments hold a key or value that the TOML parser of `prime train` would read differently",
        fix="Use plain text and numbers: no null, no date, no list of mixed types.",
        code="config-bad-value",
    )
    text = render(draft, lineage)
    try:
        config = parse(text, file)
    except BadInput as error:
        raise refusal from error
    if dict(config.table) != draft.table or any(f.severity == "blocker" for f in lenient_toml(config, Observed())):
        raise refusal
    return text, config


def edit_of(base: Config, draft: Draft, lineage: Lineage, file: Path) -> tuple[str, Config] | None:
    """None for a file of an older shape, and where editing would not give the very values of the draft."""
    if base.shape != "rl" or check(base.table):
        return None
    try:
        text = edited(base.text, draft.table, draft.reasons, lineage)
        config = parse(text, file)
    except (ValueError, BadInput):
        return None
    sound = not any(f.severity == "blocker" for f in lenient_toml(config, Observed()))
    return (text, config) if sound and dict(config.table) == draft.table else None


def source_names(sources: Sequence[SourceChoice]) -> list[str]:
    """A label for each: its environment's bare name, with the owner where two share it, then with a number."""
    bare = [s.name or s.id.rpartition("/")[2].partition("@")[0] for s in sources]
    owned = [s.id.partition("@")[0].replace("/", "-") for s in sources]
    names = [o if bare.count(b) > 1 or b == "agg" else b for b, o in zip(bare, owned, strict=True)]
    found: list[str] = []
    for name in names:
        number = next(n for n in range(1, len(names) + 2) if (name if n == 1 else f"{name}-{n}") not in found)
        found.append(name if number == 1 else f"{name}-{number}")
    return found


def _put(draft: Draft, path: str | KeyPath, chosen: Value) -> None:
    draft.put(path, chosen.value, chosen.why)


def _deployment(draft: Draft, plan: Plan) -> None:
    nodes = plan.hardware.nodes
    if nodes is None:
        if draft.get("deployment.type") == "multi_node":
            return  # an older file knows its cluster
        _put(draft, "deployment.num_train_gpus", plan.train_gpus)
        _put(draft, "deployment.num_infer_gpus", plan.infer_gpus)
        return
    if draft.get("deployment") is not None:
        draft.pop("deployment")
    _put(draft, "deployment.type", Value("multi_node", "one node of 8 GPUs does not hold it"))
    _put(draft, "deployment.num_train_nodes", Value(nodes[0], plan.train_gpus.why))
    _put(draft, "deployment.num_infer_nodes", Value(1, plan.infer_gpus.why))
    if nodes[1] > 1:
        _put(draft, "deployment.num_infer_replicas", Value(nodes[1], "each node serves the model by itself"))


def _parallel(draft: Draft, plan: Plan) -> None:
    key = "inference.vllm.tensor_parallel_size"
    kept, chosen = draft.get(key), plan.hardware.tensor_parallel
    if isinstance(kept, int) and kept > 0 and int(plan.infer_gpus.value) % kept == 0:
        return
    if chosen is not None:
        _put(draft, key, chosen)
    elif kept is not None:
        draft.pop(key)


def _trainer(draft: Draft, plan: Plan) -> None:
    if plan.lora_rank and plan.lora_alpha:
        _put(draft, "trainer.model.lora.rank", plan.lora_rank)
        _put(draft, "trainer.model.lora.alpha", plan.lora_alpha)
    elif draft.get("trainer.model.lora") is not None:
        draft.pop("trainer.model.lora")
    _put(draft, "trainer.optim.lr", plan.lr)
    if plan.hardware.checkpointing and draft.get("trainer.model.ac") is None:
        _put(draft, "trainer.model.ac.freq", plan.hardware.checkpointing)


def _orchestrator(draft: Draft, plan: Plan) -> None:
    choices = plan.choices
    _put(draft, "orchestrator.batch_size", plan.batch)
    _put(draft, "orchestrator.group_size", plan.group)
    for key, default in (("max_inflight", 1024), ("initial_inflight", None)):
        bound = draft.get(f"orchestrator.concurrency.{key}") or default
        if isinstance(bound, int) and bound < int(plan.group.value):
            _put(draft, f"orchestrator.concurrency.{key}", Value(plan.group.value, "room for one whole group"))
    if plan.renderer:
        _put(draft, "orchestrator.renderer.name", plan.renderer)
    _put(draft, "orchestrator.train.sampling.max_completion_tokens", plan.max_tokens)
    _put(draft, "orchestrator.train.sampling.temperature", plan.temperature)
    if draft.get("orchestrator.train.source") is None:
        draft.put("orchestrator.train.source", [{} for _ in choices.sources], "")
        for index, (source, name) in enumerate(zip(choices.sources, source_names(choices.sources), strict=True)):
            path: KeyPath = ("orchestrator", "train", "source", index)
            _put(draft, (*path, "name"), Value(name, "labels its metrics"))
            if source.ratio is not None:
                _put(draft, (*path, "ratio"), Value(source.ratio, _share(source, choices.sources)))
            if own := plan.own_groups.get(index):
                _put(draft, (*path, "group_size"), own)
            pinned = "this very version" if "@" in source.id else "as it is where the run starts: no version"
            _source(draft, path, source, source.args, pinned)
    if choices.curriculum is not None:
        for index in range(len(draft.get("orchestrator.train.source"))):
            _curriculum(draft, ("orchestrator", "train", "source", index, "curriculum"), choices.curriculum)
    _evaluation(draft, plan)


def _evaluation(draft: Draft, plan: Plan) -> None:
    named = zip(plan.choices.sources, source_names(plan.choices.sources), strict=True)
    held_out = [(source, name) for source, name in named if source.held_out is not None]
    if held_out:
        draft.put("orchestrator.eval.source", [{} for _ in held_out], "")
        for index, (source, name) in enumerate(held_out):
            args = {**source.args, **(source.held_out or {})}
            path: KeyPath = ("orchestrator", "eval", "source", index)
            _put(draft, (*path, "name"), Value(f"{name}-eval", "labels its metrics"))
            _source(draft, path, source, args, "the same environment, held-out tasks")
    if draft.get("orchestrator.eval.source"):
        _put(draft, "orchestrator.eval.interval", plan.eval_interval)
        _put(draft, "orchestrator.eval.num_examples", plan.eval_tasks)
        if draft.get("orchestrator.eval.sampling.max_completion_tokens") is None:
            limit = Value(plan.max_tokens.value, "as in training")
            _put(draft, "orchestrator.eval.sampling.max_completion_tokens", limit)


def _share(source: SourceChoice, sources: Sequence[SourceChoice]) -> str:
    total = sum(s.ratio or 1.0 for s in sources)
    return f"as asked: {(source.ratio or 1.0) / total:.0%} of the tasks that are drawn"


def _source(draft: Draft, path: KeyPath, source: SourceChoice, args: Mapping[str, Any], why: str) -> None:
    if source.secrets:
        why += f"; its code reads {', '.join(source.secrets)}, never to be written here"
    _put(draft, (*path, "env", "taskset", "id"), Value(source.id, why))
    for key, value in args.items():
        if key != "id":
            _put(draft, (*path, "env", "taskset", key), Value(value, "a key of this taskset"))
    if source.harness:
        reason = (
            "the model answers directly, as in the recipes of prime-rl" if source.harness == "null" else "as evaluated"
        )
        _put(draft, (*path, "env", "agent", "harness", "id"), Value(source.harness, reason))
    if source.runtime:
        reason = "needs no sandbox" if source.runtime == "subprocess" else "as evaluated"
        _put(draft, (*path, "env", "agent", "runtime", "type"), Value(source.runtime, reason))


def _curriculum(draft: Draft, path: KeyPath, kind: str) -> None:
    if kind in ("pools", "both"):
        _put(draft, (*path, "sampler", "type"), Value("difficulty_pool", "tasks of middling difficulty are drawn most"))
        for name, (threshold, weight) in POOLS.items():
            pool = (*path, "sampler", "pools", name)
            _put(draft, (*pool, "threshold"), Value(threshold, "mean reward of the group up to here"))
            _put(draft, (*pool, "weight"), Value(weight, "the default of prime-rl"))
    if kind in ("gate", "both"):
        reason = "groups without a gradient are sampled anew, so the batch stays full"
        _put(draft, (*path, "gates", "signal", "type"), Value("advantage_range", reason))
