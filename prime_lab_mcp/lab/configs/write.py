"""Turns a plan into a draft, by putting every value under its key of a prime-rl config, and a draft into a config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.configs.config import TrainingConfig, parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.draft import ConfigDraft, ConfigLineage, KeyPath, edited_text, render_draft
from prime_lab_mcp.lab.configs.plan.choices import ChosenValue, ConfigChoices, SourceChoice
from prime_lab_mcp.lab.configs.plan.decide import ConfigPlan
from prime_lab_mcp.lab.configs.rules.form import lenient_toml
from prime_lab_mcp.lab.configs.schema import schema_problems
from prime_lab_mcp.lab.distribution.sample import POOLS
from prime_lab_mcp.lab.models.registry import find_model

_KEPT = ChosenValue(
    2,
    "the trainer keeps its newest two; watch_run lists what the platform holds, which may be more; without [ckpt] "
    "nothing is kept",
)
"""`keep_last` is one of prime-rl's settings of the trainer's checkpoints. Whether the platform deletes uploaded ones is
not documented; the rehearsal lists all of them as READY."""


def compose_draft(plan: ConfigPlan, name: str, draft: ConfigDraft | None = None) -> ConfigDraft:
    """Put every value of a plan into a draft and return the draft.

    `name` is the name of the run. `draft` has the other values of an older file; without it, a new draft is made.
    """
    draft = draft or ConfigDraft()
    choices = plan.choices
    hosted = choices.target == "hosted"
    _put(draft, "name" if hosted else "run.name", ChosenValue(name, "name of the run"))
    if hosted and plan.gpu_type:
        _put(draft, "gpu_type", plan.gpu_type)
    _put(draft, "max_steps", plan.steps)
    _put(draft, "seq_len", plan.seq_len)
    _put(draft, "model.name", plan.model)
    _deployment(draft, plan)
    _put(draft, "ckpt.interval", plan.ckpt_interval)
    if draft.get("ckpt.keep_last") is None:
        _put(draft, "ckpt.keep_last", _KEPT)
    if choices.wandb:
        _put(
            draft,
            "monitors.wandb.project",
            ChosenValue(choices.wandb, "the key is passed beside this file, as WANDB_API_KEY"),
        )
    if draft.get("monitors.wandb") is not None and draft.get("monitors.wandb.name") is None:
        _put(draft, "monitors.wandb.name", ChosenValue(name, "name of the run there"))
    _trainer(draft, plan)
    _orchestrator(draft, plan)
    if not isinstance(draft.get("inference"), dict):
        draft.put("inference", {}, "rollouts come from a vLLM server of its own, with its defaults")
    _parallel(draft, plan)
    if choices.target == "hosted":
        _served_context(draft, plan)
    return draft


def finish_text(
    draft: ConfigDraft, lineage: ConfigLineage, file: Path, base: TrainingConfig | None = None
) -> tuple[str, TrainingConfig]:
    """Return the text of a draft, and the config that this text parses to.

    `file` is the path of the config. `base` is the older file on which the config is based; if it has the present
    shape, its text is edited, so that comments and order stay. Raises BadInput if the old parser of `prime train` would
    read the text differently.
    """
    if base is not None and (edited := edited_base(base, draft, lineage, file)) is not None:
        return edited
    refusal = BadInput(
        "the environment arguments hold a key or value that the TOML parser of `prime train` would read differently",
        fix="Use plain text and numbers: no null, no date, no list of mixed types.",
        code="config-bad-value",
    )
    text = render_draft(draft, lineage)
    try:
        config = parse_config(text, file)
    except BadInput as error:
        raise refusal from error
    if dict(config.table) != draft.table or any(f.severity == "blocker" for f in lenient_toml(config, ConfigContext())):
        raise refusal
    return text, config


def edited_base(
    base: TrainingConfig, draft: ConfigDraft, lineage: ConfigLineage, file: Path
) -> tuple[str, TrainingConfig] | None:
    """Return the edited text of the older file and its config.

    None if the file has an older shape, or if editing does not lead to the values of the draft.
    """
    if base.shape != "rl" or schema_problems(base.table):
        return None
    try:
        text = edited_text(base.text, draft.table, draft.reasons, lineage)
        config = parse_config(text, file)
    except (ValueError, BadInput):
        return None
    sound = not any(f.severity == "blocker" for f in lenient_toml(config, ConfigContext()))
    return (text, config) if sound and dict(config.table) == draft.table else None


def source_labels(sources: Sequence[SourceChoice]) -> list[str]:
    """Return a unique label for each source: the name of its environment, with the owner or a number if needed."""
    bare = [s.name or s.id.rpartition("/")[2].partition("@")[0] for s in sources]
    owned = [s.id.partition("@")[0].replace("/", "-") for s in sources]
    names = [o if bare.count(b) > 1 or b == "agg" else b for b, o in zip(bare, owned, strict=True)]
    labels: list[str] = []
    for name in names:
        number = next(n for n in range(1, len(names) + 2) if (name if n == 1 else f"{name}-{n}") not in labels)
        labels.append(name if number == 1 else f"{name}-{number}")
    return labels


def _put(draft: ConfigDraft, path: str | KeyPath, choice: ChosenValue) -> None:
    draft.put(path, choice.value, choice.why)


def _deployment(draft: ConfigDraft, plan: ConfigPlan) -> None:
    nodes = plan.hardware.nodes
    if nodes is None:
        if draft.get("deployment.type") == "multi_node":
            return  # the older file describes its own cluster
        _put(draft, "deployment.num_train_gpus", plan.train_gpus)
        _put(draft, "deployment.num_infer_gpus", plan.infer_gpus)
        return
    if draft.get("deployment") is not None:
        draft.pop("deployment")
    _put(draft, "deployment.type", ChosenValue("multi_node", "one node of 8 GPUs does not hold it"))
    _put(draft, "deployment.num_train_nodes", ChosenValue(nodes[0], plan.train_gpus.why))
    _put(draft, "deployment.num_infer_nodes", ChosenValue(1, plan.infer_gpus.why))
    if nodes[1] > 1:
        _put(draft, "deployment.num_infer_replicas", ChosenValue(nodes[1], "each node serves the model by itself"))


def _parallel(draft: ConfigDraft, plan: ConfigPlan) -> None:
    key = "inference.vllm.tensor_parallel_size"
    parallel, choice = draft.get(key), plan.hardware.tensor_parallel
    if isinstance(parallel, int) and parallel > 0 and int(plan.infer_gpus.value) % parallel == 0:
        return
    if choice is not None:
        _put(draft, key, choice)
    elif parallel is not None:
        draft.pop(key)


def _served_context(draft: ConfigDraft, plan: ConfigPlan) -> None:
    """Limit the tokens of a rollout. Samples are cut at seq_len, so a longer rollout only costs money."""
    key = "inference.vllm.max_model_len"
    seq_len, context_tokens = int(plan.seq_len.value), draft.get(key)
    if isinstance(context_tokens, int) and not isinstance(context_tokens, bool) and context_tokens >= seq_len:
        return
    limits = [plan.max_tokens.value, draft.get("orchestrator.eval.sampling.max_completion_tokens")]
    longest = seq_len + max(n for n in limits if isinstance(n, int))
    context = find_model(str(plan.model.value)).context
    if context is not None and seq_len <= context < longest:
        draft.put(key, context, "the context of the model; it bounds what a rollout costs")
        return
    draft.put(key, longest, "seq_len and one completion: samples end at seq_len, and this bounds what a rollout costs")


def _trainer(draft: ConfigDraft, plan: ConfigPlan) -> None:
    if plan.lora_rank and plan.lora_alpha:
        _put(draft, "trainer.model.lora.rank", plan.lora_rank)
        _put(draft, "trainer.model.lora.alpha", plan.lora_alpha)
    elif draft.get("trainer.model.lora") is not None:
        draft.pop("trainer.model.lora")
    _put(draft, "trainer.optim.lr", plan.lr)
    if plan.hardware.checkpointing and draft.get("trainer.model.ac") is None:
        _put(draft, "trainer.model.ac.freq", plan.hardware.checkpointing)


def _orchestrator(draft: ConfigDraft, plan: ConfigPlan) -> None:
    choices = plan.choices
    _put(draft, "orchestrator.batch_size", plan.batch)
    _put(draft, "orchestrator.group_size", plan.group)
    for key, default in (("max_inflight", 1024), ("initial_inflight", None)):
        bound = draft.get(f"orchestrator.concurrency.{key}") or default
        if isinstance(bound, int) and bound < int(plan.group.value):
            _put(draft, f"orchestrator.concurrency.{key}", ChosenValue(plan.group.value, "room for one whole group"))
    if plan.renderer:
        _put(draft, "orchestrator.renderer.name", plan.renderer)
    _put(draft, "orchestrator.train.sampling.max_completion_tokens", plan.max_tokens)
    _put(draft, "orchestrator.train.sampling.temperature", plan.temperature)
    if draft.get("orchestrator.train.source") is None:
        draft.put("orchestrator.train.source", [{} for _ in choices.sources], "")
        for index, (source, name) in enumerate(zip(choices.sources, source_labels(choices.sources), strict=True)):
            path: KeyPath = ("orchestrator", "train", "source", index)
            _put(draft, (*path, "name"), ChosenValue(name, "labels its metrics"))
            if source.ratio is not None:
                _put(draft, (*path, "ratio"), ChosenValue(source.ratio, _share(source, choices.sources)))
            if own := plan.own_groups.get(index):
                _put(draft, (*path, "group_size"), own)
            pinned = "this very version" if "@" in source.id else "as it is where the run starts: no version"
            _source(draft, path, source, source.args, pinned)
    if choices.curriculum is not None:
        for index in range(len(draft.get("orchestrator.train.source"))):
            _curriculum(draft, ("orchestrator", "train", "source", index, "curriculum"), choices)
    _evaluation(draft, plan)


def _evaluation(draft: ConfigDraft, plan: ConfigPlan) -> None:
    labelled = zip(plan.choices.sources, source_labels(plan.choices.sources), strict=True)
    held_out = [(source, name) for source, name in labelled if source.held_out is not None]
    if held_out:
        draft.put("orchestrator.eval.source", [{} for _ in held_out], "")
        for index, (source, name) in enumerate(held_out):
            args = {**source.args, **(source.held_out or {})}
            path: KeyPath = ("orchestrator", "eval", "source", index)
            _put(draft, (*path, "name"), ChosenValue(f"{name}-eval", "labels its metrics"))
            _source(draft, path, source, args, "the same environment, held-out tasks")
    if draft.get("orchestrator.eval.source"):
        _put(draft, "orchestrator.eval.interval", plan.eval_interval)
        _put(draft, "orchestrator.eval.num_examples", plan.eval_tasks)
        if draft.get("orchestrator.eval.sampling.max_completion_tokens") is None:
            limit = ChosenValue(plan.max_tokens.value, "as in training")
            _put(draft, "orchestrator.eval.sampling.max_completion_tokens", limit)


def _share(source: SourceChoice, sources: Sequence[SourceChoice]) -> str:
    total = sum(s.ratio or 1.0 for s in sources)
    return f"as asked: {(source.ratio or 1.0) / total:.0%} of the tasks that are drawn"


def _source(draft: ConfigDraft, path: KeyPath, source: SourceChoice, args: Mapping[str, Any], why: str) -> None:
    if source.secrets:
        why += f"; its code reads {', '.join(source.secrets)}, never to be written here"
    _put(draft, (*path, "env", "taskset", "id"), ChosenValue(source.id, why))
    for key, value in args.items():
        if key != "id":
            _put(draft, (*path, "env", "taskset", key), ChosenValue(value, "a key of this taskset"))
    if source.harness:
        reason = (
            "the model answers directly, as in the recipes of prime-rl" if source.harness == "null" else "as evaluated"
        )
        _put(draft, (*path, "env", "agent", "harness", "id"), ChosenValue(source.harness, reason))
    if source.runtime:
        reason = "needs no sandbox" if source.runtime == "subprocess" else "as evaluated"
        _put(draft, (*path, "env", "agent", "runtime", "type"), ChosenValue(source.runtime, reason))


def _curriculum(draft: ConfigDraft, path: KeyPath, choices: ConfigChoices) -> None:
    kind = choices.curriculum
    if kind in ("pools", "both"):
        _put(
            draft,
            (*path, "sampler", "type"),
            ChosenValue("difficulty_pool", "tasks of middling difficulty are drawn most"),
        )
        older = _pool_bounds(choices.thresholds)
        for name, (default, weight) in POOLS.items():
            pool, own = (*path, "sampler", "pools", name), older.get(name)
            why = "mean reward of the group up to here"
            _put(
                draft,
                (*pool, "threshold"),
                ChosenValue(default, why) if own is None else ChosenValue(own, f"{why}, as the older file had it"),
            )
            _put(draft, (*pool, "weight"), ChosenValue(weight, "the default of prime-rl"))
    if kind in ("gate", "both"):
        reason = "groups without a gradient are sampled anew, so the batch stays full"
        _put(draft, (*path, "gates", "signal", "type"), ChosenValue("advantage_range", reason))


def _pool_bounds(thresholds: Mapping[str, float]) -> dict[str, float]:
    """Return the thresholds of the pools `hard` and `normal` (highest mean reward) from those of an older file.

    An older file sets the highest mean reward of `hard` and the lowest of `easy`, which is the highest of `normal`.
    """
    if not thresholds:
        return {}
    hard, easy = thresholds.get("hard"), thresholds.get("easy")
    low = min(POOLS["hard"].threshold, (easy or 1.0) / 2) if hard is None else hard
    high = max(POOLS["normal"].threshold, (low + 1) / 2) if easy is None else easy
    return {"hard": min(low, high), "normal": max(low, high)} if low != high else {}
