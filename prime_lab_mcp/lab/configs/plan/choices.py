"""The request before anything is decided, and the form of a decision: a value with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigTarget
from prime_lab_mcp.lab.distribution.sample import Curriculum

DEFAULT_MODEL = "Qwen/Qwen3-4B-Instruct-2507"


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """An environment to train on. `args` are keys of its taskset, `held_out` of its eval source."""

    id: str
    args: Mapping[str, Any] = field(default_factory=dict)
    held_out: Mapping[str, Any] | None = None
    name: str | None = None
    ratio: float | None = None
    turns: int = 1
    harness: str | None = "null"
    runtime: str | None = "subprocess"
    secrets: tuple[str, ...] = ()
    """Environment variables without a default that its code reads."""


@dataclass(frozen=True, slots=True)
class ConfigChoices:
    """The requested values; None leaves a value to the plan. `because` has the reason of each value from
    another file."""

    sources: tuple[SourceChoice, ...]
    model: str | None = None
    target: ConfigTarget = "hosted"
    steps: int | None = None
    batch: int | None = None
    group: int | None = None
    max_tokens: int | None = None
    seq_len: int | None = None
    temperature: float | None = None
    lora: bool | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lr: float | None = None
    gpus: int | None = None
    train_gpus: int | None = None
    gpu_type: str | None = None
    renderer: str | None = None
    wandb: str | None = None
    curriculum: Curriculum | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Highest mean reward of the pools `hard`, and lowest of `easy`, as an older file sets them."""
    eval_interval: int | None = None
    eval_tasks: int | None = None
    ckpt_interval: int | None = None
    because: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path that no plan decides on."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Taskset keys for every training source that an older file names."""
    held_out: Mapping[str, Any] | None = None
    """Taskset keys for eval sources; an empty mapping means no evaluation."""


@dataclass(frozen=True, slots=True)
class ChosenValue:
    """A chosen value and its reason."""

    value: Any
    why: str


def require_config_name(name: str) -> None:
    """Check a config's name, which becomes a file name and the name of a run. Raises BadInput."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise BadInput(
            f"{quote(name)} cannot name a config",
            fix="Use up to 64 letters, digits, dots, hyphens and underscores, starting with a letter or digit.",
            code="bad-name",
        )


def round_up(number: int, step: int) -> int:
    """The next multiple of `step`."""
    return -(-number // step) * step
