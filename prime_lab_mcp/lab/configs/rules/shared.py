"""Rules about values that several components of prime-rl need, such as the model and the number of steps.

prime-rl copies a shared value to its components, the trainer, orchestrator and inference server. It refuses values of
components that differ (utils/validation.py at `SCHEMA_COMMIT`). Absent values have prime-rl's defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule

_BOTH = ("trainer", "orchestrator")
_ALL = (*_BOTH, "inference")
_WANDB = ("project", "entity", "name", "group", "tags", "offline")


def _parts(key: str, components: tuple[str, ...] = _BOTH) -> tuple[str, tuple[str, ...]]:
    return key, tuple(f"{component}.{key}" for component in components)


_SHARED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("model.name", ("trainer.model.name", "orchestrator.model.name", "inference.vllm.model")),
    _parts("model.vlm"),
    _parts("max_steps"),
    ("seq_len", ("trainer.model.seq_len", "orchestrator.seq_len")),
    _parts("log.level", _ALL),
    _parts("log.json_logging", _ALL),
    _parts("ckpt.output_dir", ("trainer",)),
    _parts("ckpt.interval"),
    _parts("ckpt.keep_last"),
    _parts("ckpt.keep_interval"),
    *(_parts(f"monitors.wandb.{leaf}") for leaf in _WANDB),
    _parts("monitors.file.path"),
    _parts("monitors.prime.name", ("orchestrator",)),
    _parts("tokenizer.name"),
    _parts("tokenizer.trust_remote_code"),
    (
        "tokenizer.chat_template",
        ("trainer.tokenizer.chat_template", "orchestrator.tokenizer.chat_template", "inference.vllm.chat_template"),
    ),
    _parts("rollout_transport"),
)
"""Shared keys, each with the keys of the components to which prime-rl copies its value."""

_AGREEING: tuple[tuple[str, tuple[str, ...], Any], ...] = (
    ("model.name", ("trainer.model.name", "orchestrator.model.name", "inference.vllm.model"), "Qwen/Qwen3-0.6B"),
    ("max_steps", ("trainer.max_steps", "orchestrator.max_steps"), None),
    ("tokenizer.chat_template", ("trainer.tokenizer.chat_template", "orchestrator.tokenizer.chat_template"), None),
    ("rollout_transport.type", ("trainer.rollout_transport.type", "orchestrator.rollout_transport.type"), "zmq"),
)
"""Shared key, keys of the components, and default. The values of the components must agree without a shared one."""

_TOGETHER = (("ckpt", "interval", None), ("monitors.wandb", "project", "prime-rl"))
"""Tables that trainer and orchestrator need both, with a key whose values must agree, and its default."""


def shared_values(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """A component must not set another value than the shared one."""
    for shared, parts in _SHARED:
        value = config.at(shared)
        for part in parts:
            own = config.at(part)
            if value is not None and own is not None and own != value:
                yield _conflict(
                    f"{shared} and {part} disagree; prime-rl refuses that.", f"Keep {shared} and remove {part}.", part
                )


def component_values(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Models, steps, chat templates and transports of the components must agree if there is no shared value."""
    for shared, parts, default in _AGREEING:
        if config.at(shared) is not None:
            continue
        present = [p for p in parts if not p.startswith("inference.") or config.at("inference") is not None]
        explicit = [p for p in present if config.at(p) is not None]
        effective = {repr(default if (own := config.at(p)) is None else own) for p in present}
        if explicit and len(effective) > 1:
            others = " and ".join(p for p in present if p != explicit[0])
            yield _conflict(
                f"{explicit[0]} disagrees with {others} (an absent value is {default!r}): one run would train, sample "
                "and serve different ones.",
                f"Set {shared} for all components and remove {' and '.join(explicit)}.",
                explicit[0],
            )
    served = config.at("inference.vllm.chat_template")
    trained = config.at("trainer.tokenizer.chat_template") or config.at("tokenizer.chat_template")
    if served is not None and served != trained and config.at("tokenizer.chat_template") is None:
        where = "inference.vllm.chat_template"
        yield _conflict(
            f"{where} differs from the trainer's chat template; prime-rl refuses that.",
            "Set tokenizer.chat_template for all components.",
            where,
        )


def component_tables(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Checkpoints, W&B and resuming must be set for both trainer and orchestrator, with the same values."""
    for key, leaf, default in _TOGETHER:
        one, other = f"trainer.{key}", f"orchestrator.{key}"
        present = (config.at(one) is not None, config.at(other) is not None)
        if config.at(key) is None and present[0] != present[1]:
            yield _one_sided(key, one if present[0] else other)
        elif all(present) and config.at(f"{key}.{leaf}") is None:
            settings = [config.at(f"{table}.{leaf}") for table in (one, other)]
            if (settings[0] or default) != (settings[1] or default):
                yield _conflict(
                    f"{one}.{leaf} and {other}.{leaf} disagree; prime-rl refuses that.",
                    f"Set {key}.{leaf} and remove both.",
                    f"{one}.{leaf}",
                )
    if config.at("resume") is None:
        trainer, orchestrator = config.at("trainer.resume"), config.at("orchestrator.resume")
        if (trainer is None) != (orchestrator is None):
            yield _one_sided("resume", "trainer.resume" if orchestrator is None else "orchestrator.resume")
        elif trainer != orchestrator:
            yield _conflict(
                "trainer.resume and orchestrator.resume disagree; prime-rl refuses that.",
                "Use the shared [resume] instead.",
                "trainer.resume",
            )


def lora_values(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Rank and alpha of LoRA must be the same for the orchestrator and the trainer."""
    for part, default in (("rank", 16), ("alpha", 32)):
        own = config.at(f"orchestrator.model.lora.{part}")
        if config.lora and own is not None and own != (config.at(f"trainer.model.lora.{part}") or default):
            yield _conflict(
                f"orchestrator.model.lora.{part} and trainer.model.lora.{part} disagree; prime-rl refuses that.",
                f"Remove orchestrator.model.lora.{part}.",
                f"orchestrator.model.lora.{part}",
            )


SHARED_RULES: tuple[ConfigRule, ...] = (shared_values, component_values, component_tables, lora_values)


def _one_sided(shared: str, where: str) -> Finding:
    other = ("orchestrator." if where.startswith("trainer.") else "trainer.") + shared
    return _conflict(
        f"{where} is set and {other} is not; prime-rl wants both or the shared [{shared}].",
        f"Use [{shared}] instead.",
        where,
    )


def _conflict(message: str, fix: str, where: str) -> Finding:
    return Finding("config-conflict", "blocker", message, fix, where)
