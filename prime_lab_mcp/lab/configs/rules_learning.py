"""Rules about whether the run can learn: batch and group, learning rate, steps, evaluation, curriculum, signal.

Thresholds are prime-rl's own checks, its recipes and its docs; where none exists the number is our judgement and the
constant says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from prime_lab_mcp.lab.configs.observed import (
    MIN_BATCH,
    MIN_GROUPS,
    Observed,
    Rule,
    estimate,
    gates_resample,
)
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

MIN_GROUP = 8
"""prime-rl docs: "Group size >= 8"."""
LR_LORA, LR_FULL = (3e-6, 2e-4), (1e-7, 1e-5)
"""Ranges outside of which we warn: published recipes and "LoRA Without Regret" (10x the full fine-tuning rate)."""
MANY_PASSES, SOME_PASSES = 10, 3
"""Passes over the data at which we warn and mention it (judgement)."""
EVALS_PER_RUN = 5
_GROUP_RELATIVE = frozenset({"grpo", "max_rl", "hierarchical_grpo", "echo"})


def batching(config: Config, seen: Observed) -> Iterator[Finding]:
    """prime-rl's `resolve_batching`."""
    rollouts, tokens = config.number("orchestrator.batch_size"), config.number("orchestrator.token_batch_size")
    if rollouts is not None and tokens is not None:
        yield Finding(
            "config-two-batches",
            "blocker",
            "Both batch_size and token_batch_size are set; prime-rl takes exactly one.",
            "Remove orchestrator.token_batch_size.",
            "orchestrator.token_batch_size",
        )
        return
    group = config.number("orchestrator.group_size", 1) or 1
    batch = config.batch_size
    if batch is None:
        return
    if batch % group:
        near = max(group, round(batch / group) * group)
        yield Finding(
            "config-batch-group",
            "blocker",
            f"batch_size {batch} is no multiple of group_size {group}; prime-rl refuses it.",
            f"Set batch_size to {near}.",
            "orchestrator.batch_size",
        )
    if 0 < batch < MIN_BATCH:
        yield Finding(
            "config-small-batch",
            "warning",
            f"batch_size {batch} is below {MIN_BATCH} rollouts, which prime-rl's docs call the practical floor.",
            f"Set batch_size to {max(MIN_BATCH // group, 1) * group or group} or more, unless this is a smoke run.",
            "orchestrator.batch_size",
        )


def group_size(config: Config, seen: Observed) -> Iterator[Finding]:
    """GRPO compares rollouts of one task with each other: a group of one has no advantage at all."""
    for source in config.train_sources:
        if _algorithm(config, source) not in _GROUP_RELATIVE:
            continue
        size = config.group_of(source)
        default = "group_size" not in source.table and config.at("orchestrator.group_size") is None
        if size < 2:
            yield Finding(
                "config-group-size",
                "blocker",
                f"group_size is {size}{' (the default)' if default else ''}: every advantage is zero.",
                "Set orchestrator.group_size = 16.",
                "orchestrator.group_size",
            )
        elif size < MIN_GROUP:
            yield Finding(
                "config-group-size",
                "warning",
                f"group_size {size} is below {MIN_GROUP}: few groups hold both better and worse rollouts.",
                "Set orchestrator.group_size to 8 or 16.",
                "orchestrator.group_size",
            )


def inflight(config: Config, seen: Observed) -> Iterator[Finding]:
    """Both bounds of the concurrency must hold a whole group."""
    group = config.number("orchestrator.group_size", 1) or 1
    for key, default in (("max_inflight", 1024), ("initial_inflight", None)):
        bound = config.number(f"orchestrator.concurrency.{key}", default)
        if bound is not None and bound < group:
            yield Finding(
                "config-inflight",
                "blocker",
                f"concurrency.{key} {bound} is smaller than group_size {group}; prime-rl refuses it.",
                f"Set orchestrator.concurrency.{key} to {group} or more.",
                f"orchestrator.concurrency.{key}",
            )


def learning_rate(config: Config, seen: Observed) -> Iterator[Finding]:
    """The default of 1e-6 is meant for full fine-tuning, also when LoRA is on."""
    if config.at("trainer.optim.type") not in (None, "adamw"):
        return
    mode, (low, high), usual = ("LoRA", LR_LORA, 1e-5) if config.lora else ("Full fine-tuning", LR_FULL, 1e-6)
    if config.lora and config.lr is None:
        yield Finding(
            "config-lr-unset",
            "warning",
            "LoRA is on and the learning rate is not set: prime-rl's default 1e-6 is ten times too small for LoRA.",
            "Set trainer.optim.lr = 1e-5.",
            "trainer.optim.lr",
        )
    elif config.lr is not None and not low <= config.lr <= high:
        yield Finding(
            "config-lr-range",
            "warning",
            f"{mode} at learning rate {config.lr:g} is outside of {low:g} to {high:g}, the range that recipes use.",
            f"Set trainer.optim.lr = {usual:g}, unless you mean it.",
            "trainer.optim.lr",
        )


def steps(config: Config, seen: Observed) -> Iterator[Finding]:
    """A run without max_steps never ends, and is billed by the hour."""
    if config.max_steps is None or config.max_steps < 1:
        yield Finding(
            "config-no-max-steps",
            "blocker",
            "max_steps is not set: the run would go on, and be billed, until somebody stops it.",
            "Set max_steps, e.g. to 200.",
            "max_steps",
        )


def checkpoints(config: Config, seen: Observed) -> Iterator[Finding]:
    """Without [ckpt] nothing of the trained model is kept."""
    saved = any(config.at(p) is not None for p in ("ckpt", "trainer.ckpt"))
    interval = config.number("ckpt.interval", config.number("trainer.ckpt.interval"))
    if not saved:
        yield Finding(
            "config-no-checkpoint",
            "warning",
            "There is no [ckpt] table: no checkpoint is saved, not even the last.",
            "Add [ckpt] with interval = 50 and keep_last = 2.",
            "ckpt",
        )
    elif interval is not None and interval < 1:
        yield Finding(
            "config-checkpoint-interval",
            "blocker",
            f"The checkpoint interval is {interval}; prime-rl wants 1 or more.",
            "Set ckpt.interval to 50, or remove it to save the last step only.",
            "ckpt.interval",
        )
    elif interval and config.max_steps and interval > config.max_steps:
        yield Finding(
            "config-checkpoint-interval",
            "info",
            f"Checkpoints every {interval} steps in a run of {config.max_steps}: only the last one is saved.",
            f"Set ckpt.interval to {max(1, config.max_steps // 4)}.",
            "ckpt.interval",
        )


def passes(config: Config, seen: Observed) -> Iterator[Finding]:
    """Too many passes over few tasks memorise them."""
    count = passes_over(config, seen)
    if count is None or count <= SOME_PASSES:
        return
    severity: Literal["warning", "info"] = "warning" if count > MANY_PASSES else "info"
    yield Finding(
        "config-passes",
        severity,
        f"{config.max_steps} steps pass {count:.1f} times over the {seen.tasks} training tasks"
        + (": they will be memorised." if severity == "warning" else "."),
        "Lower max_steps, or add tasks.",
        "max_steps",
    )


def evaluation(config: Config, seen: Observed) -> Iterator[Finding]:
    """Only held-out tasks tell learning from memorising and hacking."""
    if not config.eval_sources:
        yield Finding(
            "config-no-eval",
            "warning",
            "The run evaluates nothing while it trains: a rising reward could be memorising or hacking.",
            'Call write_training_config(eval={"split": "..."}) with the keys that select held-out tasks.',
            "orchestrator.eval",
        )
    trained = [(s.env_name, _selection(s)) for s in config.train_sources]
    for source in config.eval_sources:
        if (source.env_name, _selection(source)) in trained:
            yield Finding(
                "config-eval-on-train",
                "warning",
                f"The eval source {quote(source.name, limit=60)} selects the very tasks that are trained on.",
                "Give its env.taskset the key that selects held-out tasks (e.g. split).",
                "orchestrator.eval.source",
            )
        interval = source.table.get("interval") or config.number("orchestrator.eval.interval", 100)
        if isinstance(interval, int) and config.max_steps and interval * EVALS_PER_RUN > config.max_steps:
            yield Finding(
                "config-eval-interval",
                "warning",
                f"Evaluating every {interval} steps gives fewer than {EVALS_PER_RUN} points in a run.",
                f"Set orchestrator.eval.interval to {max(1, config.max_steps // EVALS_PER_RUN)} or less.",
                "orchestrator.eval.interval",
            )


def curricula(config: Config, seen: Observed) -> Iterator[Finding]:
    """Samplers and gates: prime-rl's own checks, and what its difficulty pool cannot work with."""
    for source in config.train_sources:
        curriculum = source.table.get("curriculum")
        if not isinstance(curriculum, Mapping):
            continue
        where = f"orchestrator.train.source {quote(source.name, limit=60)} curriculum"
        for problem in (*_gate_problems(curriculum), *_pool_problems(curriculum, seen)):
            yield Finding(
                "config-curriculum",
                "blocker",
                f"The curriculum cannot work: {problem}.",
                "Correct it, or remove the curriculum table.",
                where,
            )


def signal(config: Config, seen: Observed) -> Iterator[Finding]:
    """What share of the batch carries a gradient, from the measured share of usable groups."""
    bought = estimate(config, seen)
    if bought is None or seen.usable is None:
        return
    if bought.gradient_rollouts < MIN_BATCH or bought.gradient_groups < MIN_GROUPS:
        yield Finding(
            "config-weak-signal",
            "warning",
            f"About {bought.gradient_rollouts:.0f} of {bought.rollouts} rollouts a step ({bought.gradient_groups:.1f} "
            f"groups) would carry a gradient; {bought.discarded_share:.0%} of what is generated is discarded.",
            "Drop tasks that are always or never solved, raise group_size or batch_size, or set curriculum=\"gate\".",
            "orchestrator.batch_size",
        )  # fmt: skip
    elif gates_resample(config) and bought.generation_factor > 4:
        yield Finding(
            "config-costly-gate",
            "warning",
            f"The gate resamples until every group has a gradient: about {bought.generation_factor:.1f} times the "
            "rollouts are generated and paid for.",
            "Drop tasks that are always or never solved first.",
            "orchestrator.train.source",
        )


RULES: tuple[Rule, ...] = (
    batching,
    group_size,
    inflight,
    learning_rate,
    steps,
    checkpoints,
    passes,
    evaluation,
    curricula,
    signal,
)


def passes_over(config: Config, seen: Observed) -> float | None:
    """How often the run sees each task."""
    if not (config.max_steps and config.batch_size and seen.tasks) or seen.infinite or config.group_size < 1:
        return None
    return config.max_steps * config.batch_size / config.group_size / seen.tasks


def _algorithm(config: Config, source: Source) -> str:
    own = source.table.get("algo")
    found = own.get("type") if isinstance(own, Mapping) else config.at("orchestrator.algo.type")
    return str(found or "grpo")


def _selection(source: Source) -> str:
    """The taskset keys that choose tasks; `task` only says how they are scored."""
    return repr(sorted((k, repr(v)) for k, v in source.args.items() if k not in ("task", "system_prompt")))


def _gate_problems(curriculum: Mapping[str, Any]) -> Iterator[str]:
    gates = curriculum.get("gates")
    for name, gate in gates.items() if isinstance(gates, Mapping) else ():
        if isinstance(gate, Mapping):
            low, high = gate.get("reject_min", 0.0), gate.get("reject_max", 0.0)
            if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
                yield f"gate {quote(str(name), limit=40)} has reject_min {low} above reject_max {high}"


def _pool_problems(curriculum: Mapping[str, Any], seen: Observed) -> Iterator[str]:
    sampler = curriculum.get("sampler")
    if not isinstance(sampler, Mapping) or sampler.get("type") != "difficulty_pool":
        return
    if seen.infinite:
        yield "difficulty_pool needs a finite taskset, and this one is infinite"
    if seen.duplicate_tasks:
        yield "difficulty_pool refuses duplicate tasks, and this taskset has some"
    pools = sampler.get("pools")
    if pools is None:
        return
    tables = [p for p in pools.values() if isinstance(p, Mapping)] if isinstance(pools, Mapping) else []
    thresholds = [p.get("threshold") for p in tables]
    if len(set(map(str, thresholds))) != len(thresholds):
        yield "pool thresholds must differ"
    if not any(isinstance(p.get("weight"), (int, float)) and p["weight"] > 0 for p in tables):
        yield "at least one pool needs a positive weight"
