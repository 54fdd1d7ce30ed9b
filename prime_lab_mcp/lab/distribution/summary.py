"""Defines the judged reward distribution: the verdict of `check_reward_distribution` with its statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.statistics import Interval
from prime_lab_mcp.lab.base.text import rounded
from prime_lab_mcp.lab.distribution.floor import TrivialFloor
from prime_lab_mcp.lab.distribution.lengths import LengthCorrelation
from prime_lab_mcp.lab.distribution.sample import RolloutSample, TaskRewards
from prime_lab_mcp.lab.rollouts.components import FormStatistics

Status = Literal["passed", "failed", "inconclusive"]
Basis = Literal["given", "weights", "observed"]


@dataclass(frozen=True, slots=True)
class DistributionCheck:
    """One of the five reward checks. `passed` is None if the check does not apply."""

    name: str
    value: float | None
    threshold: str
    passed: bool | None

    def as_json(self) -> dict[str, Any]:
        passed = "not-applicable" if self.passed is None else self.passed
        return {"name": self.name, "value": rounded(self.value), "threshold": self.threshold, "passed": passed}


@dataclass(frozen=True, slots=True)
class UsableGroups:
    """The share of groups of `group_size` rollouts with two different rewards, and the bounds of its 95 % interval.

    All three are None if no task has two rollouts. If the components separate the answer from form and style, `share`
    counts groups whose rewards for the answer differ, and `form_only` is the share of groups whose rewards differ only
    by form, length or style.
    """

    share: float | None
    low: float | None
    high: float | None
    group_size: int
    form_only: float | None = None

    def as_json(self) -> dict[str, Any]:
        numbers = {"share": rounded(self.share), "low": rounded(self.low), "high": rounded(self.high)}
        apart = {"form_only": rounded(self.form_only)} if self.form_only is not None else {}
        return {**numbers, "group_size": self.group_size, **apart}


@dataclass(frozen=True, slots=True)
class AnswerSummary:
    """The rewards of the rollouts for their answers, without the rewards for form, length and style.

    `mean` is a share of the highest attainable reward for an answer.
    """

    mean: Interval
    paid: int
    """Number of rollouts with a positive reward for the answer."""
    scored: int
    others: tuple[str, ...]
    """Names of the weighted components that judge form, length or style."""

    def as_json(self) -> dict[str, Any]:
        interval = [rounded(self.mean.low), rounded(self.mean.high)]
        return {"mean": rounded(self.mean.value), "interval": interval, "paid": self.paid, "apart_from": [*self.others]}


@dataclass(frozen=True, slots=True)
class ComponentSummary:
    """Statistics of one component of the reward.

    `mean` is the mean unweighted score. `within_task_share` is the component's share of the reward's variance inside
    tasks; None if the weight is unknown or the reward does not vary.
    """

    name: str
    weight: float | None
    mean: float
    within_task_share: float | None
    std: float = 0.0
    within_task_std: float | None = None
    at_best: float = 0.0
    """Share of rollouts with the highest score, which is 1 or the highest observed score above 1."""
    outside: int = 0
    """Number of scores below 0 or above 1."""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "weight": self.weight,
            "mean": rounded(self.mean),
            "within_task_share": rounded(self.within_task_share),
            "std": rounded(self.std),
            "within_task_std": rounded(self.within_task_std),
            "at_best": rounded(self.at_best),
        }


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Numbers of scored rollouts in which the model was offered tools."""

    offered: int
    """All of these rollouts."""
    without_call: int
    """Rollouts in which the model called no tool."""
    solved: int
    solved_without_call: int

    @property
    def kind_of_evidence(self) -> str:
        """Describes the evaluated model by how often it called a tool."""
        if self.without_call == self.offered:
            return "a model that never called a tool"
        return f"a model that called a tool in {1 - self.without_call / self.offered:.0%} of the rollouts"

    def as_json(self) -> dict[str, Any]:
        share = self.solved_without_call / self.solved if self.solved else None
        return {
            "evidence": self.kind_of_evidence,
            "rollouts": self.offered,
            "without_call": self.without_call,
            "solved": self.solved,
            "solved_without_call": self.solved_without_call,
            "share_of_solved": rounded(share),
        }


@dataclass(frozen=True, slots=True)
class Distribution:
    """The verdict on a reward distribution with its statistics. Means and deviations are of reward / `attainable`."""

    status: Status
    findings: tuple[Finding, ...]
    tasks: int
    rollouts: int
    scored: int
    errors: int
    attainable: float
    attainable_from: Basis
    mean: float | None
    mean_low: float | None
    mean_high: float | None
    standard_error: float | None
    std: float | None
    checks: tuple[DistributionCheck, ...]
    usable_groups: UsableGroups
    zero_variance_share: float | None
    signal_fraction: float | None
    """Share of the reward's variance that lies inside tasks. Only this part gives a gradient."""
    pass_at_k: Mapping[int, float]
    pass_at_k_intervals: Mapping[int, Interval]
    pass_threshold: float
    pass_rate: float | None
    perfect_rate: float | None
    difficulty: Mapping[str, int]
    error_rate: float
    truncation_rate: float
    length_correlation: LengthCorrelation | None
    components: tuple[ComponentSummary, ...]
    learnability: float | None
    """Mean over tasks of the variance of reward / attainable."""
    prompt_tokens: Mapping[str, int]
    completion_tokens: Mapping[str, int]
    """p50, p95, p99 and max over the scored rollouts whose endpoint reported tokens."""
    length_by_outcome: Mapping[str, int]
    """Mean completion tokens of a reply in solved and in unsolved rollouts."""
    reward_range: tuple[float, float] | None
    """1st and 99th percentile of reward / attainable."""
    mean_complete: float | None
    """Mean reward / attainable of the rollouts that no limit cut off; None if no rollout was cut off."""
    usable_without_easy: float | None
    """Share of usable groups without the tasks whose mean reward / attainable is above 0.9."""
    form: FormStatistics | None
    floor: TrivialFloor | None
    outside: int
    """Scored rollouts whose reward is below 0."""
    answer: AnswerSummary | None = None
    """The rewards for the answers; None if the components do not separate the answer from form, length and style."""
    tool_use: ToolUse | None = None
    """None if the model was offered no tools or the results do not store this."""
    available: int | None = None
    """Number of tasks of the environment; None if it is unknown or unlimited."""
    cut_early: bool = False
    """Whether no truncated completion came near the token limit, so that another limit cut it (`was_cut_early`)."""
    traces: int | None = None
    """The most traces of all agents in one episode; None if the results do not store episodes."""
    slow: bool = False
    """Whether each rollout starts a container, so that advice names the smallest size that can pass."""

    @property
    def is_dead(self) -> bool:
        """Whether no rollout was solved and a finding says so for certain: training would have nothing to reinforce."""
        return any(f.code in ("distribution-dead", "distribution-all-zero") for f in self.findings) and not (
            self.answer.paid if self.answer is not None else self.pass_rate
        )

    @property
    def paid_nothing(self) -> bool:
        """Whether rollouts were scored and none earned anything for its answer, whatever the intervals say."""
        return self.mean == 0.0 or (self.answer is not None and not self.answer.paid)

    @property
    def headroom(self) -> float | None:
        """pass@k minus pass@1 for the largest k: the gain of a model that always gives the best of its k answers."""
        return self.pass_at_k[max(self.pass_at_k)] - self.pass_at_k[1] if len(self.pass_at_k) > 1 else None

    def as_json(self) -> dict[str, Any]:
        return {
            "tasks": self.tasks,
            "rollouts": self.rollouts,
            "scored": self.scored,
            "mean": rounded(self.mean),
            "mean_of_attainable": rounded(self.mean),
            "mean_reward": rounded(self.mean * self.attainable) if self.mean is not None else None,
            "mean_interval": [rounded(self.mean_low), rounded(self.mean_high)],
            "standard_error": rounded(self.standard_error),
            "std": rounded(self.std),
            "attainable": rounded(self.attainable),
            "attainable_from": self.attainable_from,
            "checks": [check.as_json() for check in self.checks],
            "usable_groups": self.usable_groups.as_json(),
            "zero_variance_share": rounded(self.zero_variance_share),
            "signal_fraction": rounded(self.signal_fraction),
            "usable_without_easy": rounded(self.usable_without_easy),
            "reward_range": [rounded(v) for v in self.reward_range] if self.reward_range else None,
            "headroom": rounded(self.headroom),
            "pass_at_k": {str(k): rounded(v) for k, v in self.pass_at_k.items()},
            "pass_at_k_intervals": {
                str(k): [rounded(v.low), rounded(v.high)] for k, v in self.pass_at_k_intervals.items()
            },
            "difficulty": dict(self.difficulty),
            "error_rate": rounded(self.error_rate),
            "truncation_rate": rounded(self.truncation_rate),
            "length_correlation": rounded(self.length_correlation.rho) if self.length_correlation else None,
            "length_by_outcome": dict(self.length_by_outcome),
            "learnability": rounded(self.learnability),
            "prompt_tokens": dict(self.prompt_tokens),
            "completion_tokens": dict(self.completion_tokens),
            "components": [component.as_json() for component in self.components],
            **({"answer": self.answer.as_json()} if self.answer else {}),
            **({"dead": True} if self.is_dead else {}),
            **({"cut_early": True} if self.cut_early else {}),
            **({"traces_per_episode": self.traces} if self.traces is not None else {}),
            **({"mean_complete": rounded(self.mean_complete)} if self.mean_complete is not None else {}),
            **({"form": self.form.as_json()} if self.form else {}),
            **({"floor": self.floor.as_json()} if self.floor else {}),
            **({"tool_use": self.tool_use.as_json()} if self.tool_use else {}),
        }


def was_cut_early(longest_cut: float, limit: int | None) -> bool:
    """Whether the longest truncated completion has less than half of the tokens of the limit `limit`.

    Another limit cut it then, such as one of the server, and a higher token limit changes nothing.
    """
    return bool(limit) and 0 < longest_cut < (limit or 0) / 2


MIN_TASKS, MIN_ROLLOUTS = 30, 4
"""Smallest numbers of tasks and of rollouts for each task with which a distribution can pass."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """The intervals and counts that decide the verdict.

    If every task of the environment was evaluated, the means are those of exactly these tasks.
    """

    mean: Interval
    answer: Interval | None
    """Mean reward for the answer; None if the components do not separate the answer."""
    signal: Interval | None
    """Share of usable groups; None if no task has two rollouts."""
    deviation: Interval
    form: Interval | None
    """Mean score of the format; None if neither a component nor a metric measures the format."""
    scored_tasks: int
    full_tasks: int
    """Tasks with at least `MIN_ROLLOUTS` scored rollouts."""
    completed: int
    nonfinite: int

    @classmethod
    def of(
        cls,
        sample: RolloutSample,
        tasks: Sequence[TaskRewards],
        mean: Interval,
        answer: Interval | None,
        signal: Interval | None,
        deviation: Interval,
        form: Interval | None,
    ) -> Estimates:
        """Return the estimates of a sample. The arguments after `tasks` are the intervals."""
        full = sum(len(t.rewards) >= MIN_ROLLOUTS for t in tasks)
        return cls(mean, answer, signal, deviation, form, len(tasks), full, sample.completed, sample.nonfinite)
