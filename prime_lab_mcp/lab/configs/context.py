"""Facts about a run that its config does not hold (evaluations, pushes, prices, renderers), and cost estimates."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.prime.answers import PlatformModels

MIN_BATCH = 64
"""Rollouts with a gradient per step below which prime-rl's docs call a batch too small."""
MIN_GROUP = 8
"""Rollouts of one task: prime-rl docs: "Group size >= 8"."""
MIN_GROUPS = 8
"""Groups with a gradient per step that a config should have (our judgement)."""


@dataclass(frozen=True, slots=True)
class SourceMeasurement:
    """Measurements of one published environment with one model. None means not measured."""

    evaluation: str | None = None
    """Id of the newest evaluation of this model."""
    tasks: int | None = None
    infinite: bool = False
    duplicates: bool = False
    prompt_tokens: int | None = None
    """99th percentile over whole rollouts. Each token counts once, and tool output is included."""
    completion_tokens: int | None = None
    """95th percentile of the tokens of all turns of a rollout."""
    longest: int | None = None
    """99th percentile of the tokens of all turns of a rollout."""
    truncated: float | None = None
    """Share of truncated rollouts."""
    temperature: float | None = None
    usable: float | None = None
    usable_group: int | None = None
    mean: float | None = None
    """Mean of reward divided by attainable reward."""
    solved: int = 0
    """Tasks in the pools easy and always."""
    unsolved: int = 0
    """Tasks in the pools hard and never."""
    learnability: float | None = None
    secrets: tuple[str, ...] = ()
    """Environment variables without a default that its code reads."""
    held_out: Mapping[str, Any] | None = None
    """Taskset keys that select held-out tasks, as the check recorded them."""
    turns: int | None = None
    """The taskset's default for the most turns of a rollout."""


@dataclass(frozen=True, slots=True)
class OldParserReading:
    """The result of the TOML parser of `prime train`: the file's table, or the reason of its refusal."""

    table: Mapping[str, Any] | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentSchemas:
    """JSON schemas of an environment's config classes as its check recorded them; empty where a class has none."""

    taskset: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    """Schema of the environment class, with its agents and limits and without the taskset."""
    tools: bool | None = None
    """Whether the model is offered tools; None where it is not known."""
    exact: bool = True
    """True where the schemas were recorded of the files that the source names; False where they are of the newest check
    of a folder of that name."""


@dataclass(frozen=True, slots=True)
class ConfigContext:
    """Measurements of a config's environments and model. Several environments are judged by the hardest."""

    tasks: int | None = None
    """Distinct training tasks of all sources together."""
    infinite: bool = False
    duplicate_tasks: bool = False
    prompt_tokens: int | None = None
    """99th percentile of prompt tokens."""
    completion_tokens: int | None = None
    """95th percentile of completion tokens of a whole rollout."""
    longest: int | None = None
    """99th percentile of completion tokens of a whole rollout."""
    truncated: float | None = None
    """The largest share of truncated rollouts."""
    temperature: float | None = None
    """The sampling temperature of the evaluation."""
    usable: float | None = None
    """Share of groups with a gradient, at `usable_group` rollouts per group."""
    usable_group: int | None = None
    mean: float | None = None
    """Mean of reward divided by attainable reward, where `usable` was measured."""
    learnability: float | None = None
    """Mean over tasks of p(1-p)."""
    price_per_gpu_hour: float | None = None
    ours: frozenset[str] = frozenset()
    """`owner/name` of environments published from this machine."""
    renderers: Mapping[str, str] = field(default_factory=lambda: known_renderers())
    each: Mapping[str, SourceMeasurement] = field(default_factory=dict)
    """Measurements by the taskset id of each environment."""
    models: PlatformModels | None = None
    """The models and GPUs that the platform offers now; None where it was not asked."""
    read_by_prime: OldParserReading | None = None
    """The reading of prime's parser, where the package `toml` is not installed beside the server."""
    shapes: Mapping[str, EnvironmentSchemas] | None = None
    """Schemas by source id. A missing id is an environment that is unknown here; None means that nothing
    was looked up."""

    @property
    def evidence_summary(self) -> str:
        """The evaluations that the context is based on."""
        evaluations = dict.fromkeys(m.evaluation for m in self.each.values() if m.evaluation)
        return f"evaluation {', '.join(evaluations)}" if evaluations else ""


ConfigRule = Callable[[TrainingConfig, ConfigContext], Iterable[Finding]]


@cache
def renderer_data() -> Mapping[str, Any]:
    """The vendored renderer map with its provenance."""
    text = (resources.files(__package__) / "renderers.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def known_renderers() -> Mapping[str, str]:
    """Renderer by model name, for the models that prime-rl renders without a setting."""
    models: Mapping[str, str] = renderer_data()["models"]
    return models


@dataclass(frozen=True, slots=True)
class BatchEstimate:
    """The yield of the settings per step, in shares and tokens. Use it only to compare settings."""

    rollouts: int
    gradient_rollouts: float
    gradient_groups: float
    generation_factor: float
    tokens: int | None
    discarded_share: float
    signal_per_dollar: float | None

    def as_json(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "rollouts_per_step": self.rollouts,
            "gradient_rollouts_per_step": round(self.gradient_rollouts, 1),
            "gradient_groups_per_step": round(self.gradient_groups, 1),
            "generation_factor": round(self.generation_factor, 2),
            "discarded_share": round(self.discarded_share, 3),
        }
        if self.tokens is not None:
            row["tokens_per_step"] = self.tokens
        return row


ASSUMED_TOKENS_PER_GPU_SECOND = 2500.0
"""Decoding speed of one inference GPU in `signal_per_dollar`: an assumption that is the same for every config, so that
configs can be compared. It does not forecast a run's length."""


def gates_resample(config: TrainingConfig) -> bool:
    """Whether every training source resamples groups without a gradient (`advantage_range`)."""
    return bool(config.train_sources) and all(
        isinstance(curriculum := source.table.get("curriculum"), Mapping) and bool(curriculum.get("gates"))
        for source in config.train_sources
    )


def estimate_batch(config: TrainingConfig, context: ConfigContext) -> BatchEstimate | None:
    """Estimate a step. None without a batch in rollouts or a measured share of usable groups."""
    batch, group = config.batch_size, config.group_size
    if not batch or context.usable is None or group < 1:
        return None
    gated = gates_resample(config)
    usable = max(context.usable, 1e-3)
    factor = 1 / usable if gated else 1.0
    effective = batch if gated else batch * context.usable
    prompt, completion = context.prompt_tokens or 0, context.completion_tokens
    tokens = round(batch * factor * (prompt + completion)) if completion else None
    signal = None
    if tokens and context.learnability is not None and context.price_per_gpu_hour and config.infer_gpus:
        hours = tokens / (ASSUMED_TOKENS_PER_GPU_SECOND * config.infer_gpus) / 3600
        cost = hours * config.gpus * context.price_per_gpu_hour
        signal = batch * factor * context.learnability / cost if cost else None
    return BatchEstimate(
        rollouts=batch,
        gradient_rollouts=effective,
        gradient_groups=effective / group,
        generation_factor=factor,
        tokens=tokens,
        discarded_share=1 - context.usable,
        signal_per_dollar=signal,
    )


def price_per_hour(config: TrainingConfig, context: ConfigContext) -> float | None:
    """US dollars per hour for all GPUs of the run."""
    return round(config.gpus * context.price_per_gpu_hour, 4) if context.price_per_gpu_hour is not None else None
