"""Facts that rules and plans use besides the config: evaluations, pushes, prices, renderers. Also cost estimates."""

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
"""Least number of rollouts with a gradient in a step. prime-rl's docs call a smaller batch too small."""
MIN_GROUP = 8
"""Least number of rollouts of one task in a step (prime-rl docs: "Group size >= 8")."""
MIN_GROUPS = 8
"""Least number of groups with a gradient in a step (our judgement)."""


@dataclass(frozen=True, slots=True)
class SourceMeasurement:
    """Measurements of one published environment with one model. None means not measured."""

    evaluation: str | None = None
    """Id of the newest evaluation of this model."""
    evaluated_with: Mapping[str, Any] | None = None
    """Other arguments than those of training, with which the newest evaluation passed. None without one."""
    tasks: int | None = None
    """Number of tasks."""
    infinite: bool = False
    """Whether the taskset is infinite."""
    duplicates: bool = False
    """Whether several tasks have the same prompt."""
    prompt_tokens: int | None = None
    """99th percentile over whole rollouts. Each token counts once, and tool output is included."""
    completion_tokens: int | None = None
    """95th percentile of the tokens of all turns of a rollout."""
    longest: int | None = None
    """99th percentile of the tokens of all turns of a rollout."""
    truncated: float | None = None
    """Share of truncated rollouts."""
    container: bool = False
    """Whether the tasks need a container, as the check of these files found."""
    stand_in: bool = False
    """Whether these tokens are those of a stand-in of the rehearsal, which replies in a few words."""
    temperature: float | None = None
    """Sampling temperature of the evaluation."""
    harness_in_container: str | None = None
    """The environment's own harness, if the evaluation ran it in containers: its tasks cannot do without."""
    usable: float | None = None
    """Share of groups with a gradient, at `usable_group` rollouts per group."""
    usable_group: int | None = None
    mean: float | None = None
    """Mean reward as a share of the attainable reward."""
    solved: int = 0
    """Tasks in the pools easy and always."""
    unsolved: int = 0
    """Tasks in the pools hard and never."""
    never_or_always: int | None = None
    """Evaluated tasks that were never solved or always; None if no evaluation counted them."""
    learnability: float | None = None
    """Mean over tasks of p(1-p), where p is the solve rate."""
    secrets: tuple[str, ...] = ()
    """Names of environment variables that the environment's code reads without a default."""
    held_out: Mapping[str, Any] | None = None
    """Taskset keys that select held-out tasks, as the check recorded them."""
    held_out_tasks: int | None = None
    """Number of tasks that these keys select; None if they are more than a check samples."""
    easiest: Mapping[str, Any] | None = None
    """The arguments that select the easiest tasks, as the check recorded them; None if none are known."""
    sampled: int | None = None
    """Number of tasks in the platform's evaluation, where the files of that version are here to be compared with."""
    turns: int | None = None
    """The taskset's default limit for the turns of a rollout."""
    failed: float | None = None
    """Share of rollouts that ended in an error."""
    unvouched: bool = False
    """Whether the evaluation was answered by an endpoint that neither the platform nor a person named: what it measured
    lowers no bound."""
    plays: tuple[tuple[Mapping[str, Any], int], ...] = ()
    """The arguments of each evaluation, with the most traces of all agents in one of its episodes."""
    stated: Mapping[str, Any] = field(default_factory=dict)
    """The defaults of the arguments, as the check recorded them."""


@dataclass(frozen=True, slots=True)
class OldParserReading:
    """The result of the TOML parser that `prime train` uses: the parsed table, or the reason why it failed."""

    table: Mapping[str, Any] | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class EnvironmentSchemas:
    """JSON schemas of an environment's config classes, as its check recorded them. Empty for a class without one."""

    taskset: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, Any] = field(default_factory=dict)
    """Schema of the environment class, with its agents and limits and without the taskset."""
    tools: bool | None = None
    """Whether the model is offered tools; None if unknown."""
    exact: bool = True
    """Whether the schemas are those of the very files that the source names. Otherwise they come from the newest check
    of a folder with that name, whose files may have changed since."""
    loaded: bool = True
    """Whether the code was loaded for the schemas. Otherwise only the keys of the taskset were read in its source."""
    episode: Mapping[str, Any] | None = None
    """What the check saw of an episode: whether the class is the environment's `own`, the defaults of its `agents` by
    name (`harness`, `max_turns`, `sampling`, `retries`), and of its `retries`. None if an older server checked it."""


@dataclass(frozen=True, slots=True)
class ConfigContext:
    """Facts about the environments, the model and the platform of a config. None means unknown.

    With several environments, measurements are those of the hardest one, or the largest.
    """

    tasks: int | None = None
    """Training tasks of all sources together."""
    infinite: bool = False
    """Whether a taskset is infinite."""
    duplicate_tasks: bool = False
    """Whether a taskset has several tasks with the same prompt."""
    prompt_tokens: int | None = None
    """99th percentile of prompt tokens."""
    completion_tokens: int | None = None
    """95th percentile of completion tokens of a whole rollout."""
    longest: int | None = None
    """99th percentile of completion tokens of a whole rollout."""
    truncated: float | None = None
    """The largest share of truncated rollouts."""
    stand_in: bool = False
    """Whether the tokens are those of a stand-in of the rehearsal, which replies in a few words."""
    temperature: float | None = None
    """The sampling temperature of the evaluation."""
    usable: float | None = None
    """Share of groups with a gradient, at `usable_group` rollouts per group."""
    usable_group: int | None = None
    mean: float | None = None
    """Mean reward as a share of the attainable reward, in the evaluation that measured `usable`."""
    learnability: float | None = None
    """Mean over tasks of p(1-p), where p is the solve rate."""
    price_per_gpu_hour: float | None = None
    """US dollars per hour for one GPU."""
    own_environments: frozenset[str] = frozenset()
    """`owner/name` of environments that were published from this machine."""
    renderers: Mapping[str, str] = field(default_factory=lambda: known_renderers())
    """Renderer by model name."""
    each: Mapping[str, SourceMeasurement] = field(default_factory=dict)
    """Measurements by the taskset id of each environment."""
    folders: Mapping[str, str] = field(default_factory=dict)
    """The folder of this workspace that holds the files of a source, by the id of the source."""
    without_held_out: frozenset[str] = frozenset()
    """Ids of sources whose code is here and selects no held-out tasks."""
    own_splits: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """Of such sources, the folder here whose files have held-out tasks by now, and the keys that select them."""
    models: PlatformModels | None = None
    """The models and GPUs that the platform offers now; None if it was not asked."""
    read_by_prime: OldParserReading | None = None
    """How the parser of `prime` reads the file, if the server's interpreter does not have that parser itself."""
    shapes: Mapping[str, EnvironmentSchemas] | None = None
    """Config schemas by source id. An unknown environment is missing; None means that nothing was looked up."""

    @property
    def never_or_always(self) -> int | None:
        """Evaluated tasks that were never solved or always, of all environments together; None if nobody counted."""
        counts = [measured.never_or_always for measured in self.each.values()]
        known = [number for number in counts if number is not None]
        return sum(known) if known and len(known) == len(counts) else None

    @property
    def evaluated_tasks(self) -> int | None:
        """Tasks that were evaluated, of all environments together; None if they were not counted."""
        counts = [measured.sampled for measured in self.each.values()]
        known = [number for number in counts if number is not None]
        return sum(known) if known and len(known) == len(counts) else None

    @property
    def evidence_summary(self) -> str:
        """A text that names the measured evaluations, for the reasons of chosen values. Empty without evaluations."""
        evaluations = dict.fromkeys(m.evaluation for m in self.each.values() if m.evaluation)
        return f"evaluation {', '.join(evaluations)}" if evaluations else ""


ConfigRule = Callable[[TrainingConfig, ConfigContext], Iterable[Finding]]
"""A rule: returns findings if the config breaks it. The docstring of a rule says what must hold."""


@cache
def renderer_data() -> Mapping[str, Any]:
    """Return the content of renderers.json: renderer by model name, and the package version that it comes from."""
    text = (resources.files(__package__) / "renderers.json").read_text(encoding="utf-8")
    loaded: Mapping[str, Any] = json.loads(text)
    return loaded


def known_renderers() -> Mapping[str, str]:
    """Return the renderer by model name, for the models that prime-rl renders without a setting."""
    models: Mapping[str, str] = renderer_data()["models"]
    return models


@dataclass(frozen=True, slots=True)
class BatchEstimate:
    """The estimated yield of one training step. It serves to compare configs, not to forecast a run."""

    rollouts: int
    """Rollouts in the batch."""
    gradient_rollouts: float
    """Rollouts in groups with a gradient."""
    gradient_groups: float
    """Groups with a gradient."""
    generation_factor: float
    """Generated rollouts as a multiple of the batch; above 1 if a gate resamples."""
    tokens: int | None
    """Generated prompt and completion tokens."""
    discarded_share: float
    """Share of the generated rollouts that have no gradient."""
    signal_per_dollar: float | None
    """Sum of the learnability of the generated rollouts per US dollar."""

    def as_json(self) -> dict[str, Any]:
        """Return the estimate for a report, without the signal per dollar."""
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
"""Assumed decoding speed of one inference GPU for `signal_per_dollar`. It is the same for every config, so that configs
can be compared, and does not forecast how long a run takes."""


def gates_resample(config: TrainingConfig) -> bool:
    """Whether every training source has a gate, which resamples groups without a gradient."""
    return bool(config.train_sources) and all(
        isinstance(curriculum := source.table.get("curriculum"), Mapping) and bool(curriculum.get("gates"))
        for source in config.train_sources
    )


def estimate_batch(config: TrainingConfig, context: ConfigContext) -> BatchEstimate | None:
    """Return the estimated yield of a step. None if the batch is not in rollouts or no evaluation was measured."""
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
    """Return the price of all GPUs of the run in US dollars per hour, or None if unknown."""
    return round(config.gpus * context.price_per_gpu_hour, 4) if context.price_per_gpu_hour is not None else None
