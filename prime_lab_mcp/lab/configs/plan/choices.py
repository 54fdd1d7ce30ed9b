"""The values that a request for a config sets, and the type of a chosen value with its reason."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigTarget
from prime_lab_mcp.lab.distribution.sample import Curriculum


@dataclass(frozen=True, slots=True)
class SourceChoice:
    """An environment to train on."""

    id: str
    """Taskset id, `[owner/]name[@version]`."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of the taskset."""
    held_out: Mapping[str, Any] | None = None
    """Taskset keys of the eval source, which select held-out tasks. None means no eval source."""
    name: str | None = None
    ratio: float | None = None
    """Relative share of the drawn tasks. None counts as 1."""
    turns: int = 1
    """Most turns of a rollout."""
    harness: str | None = "null"
    runtime: str | None = "subprocess"
    secrets: tuple[str, ...] = ()
    """Names of environment variables that the environment's code reads without a default."""


@dataclass(frozen=True, slots=True)
class ConfigChoices:
    """The values that a request or an older file sets. The plan chooses a value that is None."""

    sources: tuple[SourceChoice, ...]
    model: str | None = None
    target: ConfigTarget = "hosted"
    steps: int | None = None
    batch: int | None = None
    """Rollouts per step."""
    group: int | None = None
    """Rollouts of one task in a step."""
    max_tokens: int | None = None
    """Token limit of one completion."""
    seq_len: int | None = None
    """Token limit of one sample, prompt included."""
    temperature: float | None = None
    lora: bool | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lr: float | None = None
    gpus: int | None = None
    """Number of all GPUs."""
    train_gpus: int | None = None
    """Number of training GPUs among them."""
    gpu_type: str | None = None
    renderer: str | None = None
    wandb: str | None = None
    """Project in Weights & Biases."""
    curriculum: Curriculum | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Highest mean reward of the pool `hard`, and lowest of the pool `easy`, as an older file sets them."""
    eval_interval: int | None = None
    """Steps between two evaluations on held-out tasks."""
    eval_tasks: int | None = None
    ckpt_interval: int | None = None
    """Steps between two checkpoints."""
    because: Mapping[str, str] = field(default_factory=dict)
    """The reason of a value that an older file sets, by field name."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further prime-rl keys by dotted path that no plan decides on."""
    env_args: Mapping[str, Any] = field(default_factory=dict)
    """Taskset keys to set in every training source of an older file."""
    held_out: Mapping[str, Any] | None = None
    """Taskset keys for eval sources that select held-out tasks. An empty mapping means no evaluation."""


@dataclass(frozen=True, slots=True)
class ChosenValue:
    """A chosen value and its reason in words."""

    value: Any
    why: str


def require_config_name(name: str) -> None:
    """Raise BadInput for a name of a config that cannot be a file name and the name of a run."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise BadInput(
            f"{quote(name)} cannot name a config",
            fix="Use up to 64 letters, digits, dots, hyphens and underscores, starting with a letter or digit.",
            code="bad-name",
        )


def round_up(number: int, step: int) -> int:
    """Return the smallest multiple of `step` that is not below `number`."""
    return -(-number // step) * step
