"""Rules about the course of a run: learning rate, number of steps, checkpoints, passes over the tasks, evaluations.

Thresholds are those of prime-rl's checks, recipes and docs. Where none exists, the number is our judgement and the
constant says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule

LR_LORA, LR_FULL = (3e-6, 2e-4), (1e-7, 1e-5)
"""Learning rates outside these ranges give a warning: published recipes and "LoRA Without Regret" (10x the full
fine-tuning rate)."""
MANY_PASSES, SOME_PASSES = 10, 3
"""Passes over the data that give a warning and an information (our judgement)."""
EVALS_PER_RUN = 5


def learning_rate(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The learning rate fits the method. The default of 1e-6 is meant for full fine-tuning, also when LoRA is on."""
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


def step_limit(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config sets max_steps, because a run without it never ends and is billed by the hour."""
    if config.max_steps is None or config.max_steps < 1:
        yield Finding(
            "config-no-max-steps",
            "blocker",
            "max_steps is not set: the run would go on, and be billed, until somebody stops it.",
            "Set max_steps, e.g. to 200.",
            "max_steps",
        )


def checkpoints(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The config has [ckpt], without which the trained model is lost."""
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


def passes(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The run does not see a small set of tasks so often that it memorises them."""
    count = passes_over(config, context)
    if count is None or count <= SOME_PASSES:
        return
    severity: Literal["warning", "info"] = "warning" if count > MANY_PASSES else "info"
    yield Finding(
        "config-passes",
        severity,
        f"{config.max_steps} steps pass {count:.1f} times over the {context.tasks} training tasks"
        + (": they will be memorised." if severity == "warning" else "."),
        "Lower max_steps, or add tasks.",
        "max_steps",
    )


def evaluation(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The run evaluates on held-out tasks, which alone distinguish learning from memorising and hacking."""
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


COURSE_RULES: tuple[ConfigRule, ...] = (
    learning_rate,
    step_limit,
    checkpoints,
    passes,
    evaluation,
)


def passes_over(config: TrainingConfig, context: ConfigContext) -> float | None:
    """Number of times that the run sees each task."""
    if not (config.max_steps and config.batch_size and context.tasks) or context.infinite or config.group_size < 1:
        return None
    return config.max_steps * config.batch_size / config.group_size / context.tasks


def _selection(source: ConfigSource) -> str:
    """The taskset keys that select tasks; `task` only says how they are scored."""
    return repr(sorted((k, repr(v)) for k, v in source.args.items() if k not in ("task", "system_prompt")))
