"""What is known about a run beside its file (evals, pushes, prices, renderers), and what follows for its cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.prime.answers import Models
from prime_lab_mcp.lab.report import Finding

MIN_BATCH = 64
"""Rollouts with a gradient a step below which prime-rl's docs call a batch too small."""
MIN_GROUPS = 8
"""Groups with a gradient a step that we ask for (our judgement)."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one environment, as it was published, with one model. None: not measured."""

    evaluation: str | None = None
    """Id of the newest evaluation of this model."""
    tasks: int | None = None
    infinite: bool = False
    duplicates: bool = False
    prompt_tokens: int | None = None
    """99th percentile over whole rollouts, each token counted once: tool output is among them."""
    completion_tokens: int | None = None
    """95th percentile of all turns of a rollout together."""
    longest: int | None = None
    """99th percentile of the same."""
    truncated: float | None = None
    """Share of rollouts that a limit cut off."""
    temperature: float | None = None
    usable: float | None = None
    usable_group: int | None = None
    mean: float | None = None
    """Of reward / attainable."""
    solved: int = 0
    """Tasks in the pools easy and always."""
    unsolved: int = 0
    """Tasks in the pools hard and never."""
    learnability: float | None = None
    secrets: tuple[str, ...] = ()
    """Environment variables without a default that its code reads."""
    held_out: Mapping[str, Any] | None = None
    """Taskset keys that select held-out tasks, as its check found them."""
    turns: int | None = None
    """What its taskset takes for the most turns by default."""


@dataclass(frozen=True, slots=True)
class OldReading:
    """What the parser of `prime train` makes of the file: its table, or why it refuses it."""

    table: Mapping[str, Any] | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Shapes:
    """What the check of an environment recorded of its config classes: JSON schemas, empty where there is none."""

    taskset: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment that plays the taskset: its agents and limits, without the taskset."""
    tools: bool | None = None
    """Whether the model is offered tools. None: not known."""
    exact: bool = True
    """Recorded of the very files that the source names; False: of the newest check of a folder of that name."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Measurements of the environments and the model of a config; several are judged by the hardest."""

    tasks: int | None = None
    """Distinct training tasks, of all sources together."""
    infinite: bool = False
    duplicate_tasks: bool = False
    prompt_tokens: int | None = None
    """99th percentile."""
    completion_tokens: int | None = None
    """95th percentile of a whole rollout."""
    longest: int | None = None
    """99th percentile of the same."""
    truncated: float | None = None
    """Largest share of rollouts that a limit cut off."""
    temperature: float | None = None
    """At which the eval sampled."""
    usable: float | None = None
    """Share of groups with a gradient, at `usable_group` rollouts a group."""
    usable_group: int | None = None
    mean: float | None = None
    """Mean of reward / attainable where `usable` was measured."""
    learnability: float | None = None
    """Mean over tasks of p(1-p)."""
    price_per_gpu_hour: float | None = None
    ours: frozenset[str] = frozenset()
    """`owner/name` of environments published from this machine."""
    renderers: Mapping[str, str] = field(default_factory=lambda: known_renderers())
    each: Mapping[str, Measured] = field(default_factory=dict)
    """Of each environment by its taskset id."""
    models: Models | None = None
    """What the platform trains and rents out now; None: not asked."""
    read_by_prime: OldReading | None = None
    """Where the package `toml` is not beside the server."""
    shapes: Mapping[str, Shapes] | None = None
    """By source id: what its environment takes. An id without entry: not known here. None: nobody looked."""

    @property
    def told(self) -> str:
        """The evaluations that this rests on."""
        found = dict.fromkeys(m.evaluation for m in self.each.values() if m.evaluation)
        return f"evaluation {', '.join(found)}" if found else ""


Rule = Callable[[Config, Observed], Iterable[Finding]]


@cache
def renderer_data() -> Mapping[str, Any]:
    """The vendored map with its provenance."""
    text = (resources.files(__package__) / "renderers.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def known_renderers() -> Mapping[str, str]:
    """Model name to renderer, for the models that prime-rl renders without being told how."""
    models: Mapping[str, str] = renderer_data()["models"]
    return models


@dataclass(frozen=True, slots=True)
class Estimate:
    """What the settings buy. Shares and tokens are per step; only for comparing settings with each other."""

    rollouts: int
    gradient_rollouts: float
    gradient_groups: float
    generation_factor: float
    tokens: int | None
    discarded_share: float
    signal_per_dollar: float | None

    def as_json(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "rollouts_per_step": self.rollouts,
            "gradient_rollouts_per_step": round(self.gradient_rollouts, 1),
            "gradient_groups_per_step": round(self.gradient_groups, 1),
            "generation_factor": round(self.generation_factor, 2),
            "discarded_share": round(self.discarded_share, 3),
        }
        if self.tokens is not None:
            shown["tokens_per_step"] = self.tokens
        return shown


ASSUMED_TOKENS_PER_GPU_SECOND = 2500.0
"""Decoding speed of one inference GPU in `signal_per_dollar`: a stated assumption, the same for every config, so that
two of them can be compared. It is no forecast of a run's length."""


def gates_resample(config: Config) -> bool:
    """True when every training source resamples groups without a gradient (`advantage_range`)."""
    return bool(config.train_sources) and all(
        isinstance(curriculum := source.table.get("curriculum"), Mapping) and bool(curriculum.get("gates"))
        for source in config.train_sources
    )


def estimate(config: Config, seen: Observed) -> Estimate | None:
    """None without a batch in rollouts or without a measured share of usable groups."""
    batch, group = config.batch_size, config.group_size
    if not batch or seen.usable is None or group < 1:
        return None
    gated = gates_resample(config)
    usable = max(seen.usable, 1e-3)
    factor = 1 / usable if gated else 1.0
    effective = batch if gated else batch * seen.usable
    prompt, completion = seen.prompt_tokens or 0, seen.completion_tokens
    tokens = round(batch * factor * (prompt + completion)) if completion else None
    signal = None
    if tokens and seen.learnability is not None and seen.price_per_gpu_hour and config.infer_gpus:
        hours = tokens / (ASSUMED_TOKENS_PER_GPU_SECOND * config.infer_gpus) / 3600
        cost = hours * config.gpus * seen.price_per_gpu_hour
        signal = batch * factor * seen.learnability / cost if cost else None
    return Estimate(
        rollouts=batch,
        gradient_rollouts=effective,
        gradient_groups=effective / group,
        generation_factor=factor,
        tokens=tokens,
        discarded_share=1 - seen.usable,
        signal_per_dollar=signal,
    )


def price_per_hour(config: Config, seen: Observed) -> float | None:
    """US dollars an hour for all GPUs of the run."""
    return round(config.gpus * seen.price_per_gpu_hour, 4) if seen.price_per_gpu_hour is not None else None
