"""Advice for the view `difficulty`: how to train on tasks of this difficulty, with settings that prime-rl supports.

`DifficultyFacts` are the input, `CurriculumAdvice` is the result. Cheaper remedies come first, in the order of
docs/validation.md, Remedies. The thresholds for shares of usable groups are on the same page, under Reward
distributions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.base.report import Finding, Next
from prime_lab_mcp.lab.base.statistics import Interval
from prime_lab_mcp.lab.base.text import rounded
from prime_lab_mcp.lab.distribution.rules import USABLE_FAIL, USABLE_WARN
from prime_lab_mcp.lab.distribution.sample import (
    CURRICULUM_BELOW,
    POOLS,
    Curriculum,
    easy_first,
    suggested_curriculum,
)
from prime_lab_mcp.lab.distribution.sample_size import advised_size, needed_size

State = Literal["ready", "blocked", "thin", "start low", "dead", "undecided", "solved", "unknown"]
"""The state of the tasks for training.

- ready: train on all tasks as they are.
- blocked: their difficulty fits, but a config for them would be refused, as after a verdict that did not pass.
- thin: there is some signal, but most groups have no gradient.
- start low: begin with the easier tasks.
- dead: no rollout is solved, so there is nothing to reinforce.
- undecided: there are too few rollouts to decide.
- solved: the model solves most tasks, so there is little left to learn.
- unknown: each task has only one rollout.
"""


@dataclass(frozen=True, slots=True)
class GroupSize:
    """The training signal at one group size."""

    size: int
    share: float
    """Expected share of groups with a gradient."""
    interval: Interval | None
    cost: float
    """Rollouts in a training step relative to the present group size, for the same number of tasks."""
    revived: float | None
    """Expected number of unsolved tasks whose group would have a gradient. None if all rollouts ended alike."""

    def as_json(self) -> dict[str, Any]:
        """Return the numbers of this group size for the data of the view."""
        fields: dict[str, Any] = {
            "group_size": self.size,
            "usable_share": rounded(self.share, 3),
            "cost": rounded(self.cost, 2),
            "rollouts_per_usable_group": round(self.size / self.share) if self.share > 1e-3 else None,
        }
        if self.interval is not None:
            fields |= {"low": rounded(self.interval.low, 3), "high": rounded(self.interval.high, 3)}
        return fields | ({"unsolved_with_signal": rounded(self.revived, 1)} if self.revived is not None else {})


@dataclass(frozen=True, slots=True)
class DifficultyFacts:
    """The numbers of one evaluation on which the advice depends.

    Means are shares of the attainable reward. A rollout is solved if it earned at least half of the attainable reward.
    """

    tasks: int
    """Evaluated tasks."""
    of: int | None
    """All tasks of the environment; None if unknown or infinite."""
    rollouts: int
    """Scored rollouts."""
    group: int
    """Present group size: rollouts per task in training."""
    mean: float
    """Mean of the task means."""
    start: int
    """Tasks with a mean from 0.2 to 0.8."""
    start_mean: float | None
    """Mean of those tasks."""
    start_again: float | None
    """Expected solve rate of those tasks in a new evaluation."""
    rare: int
    """Tasks with a mean above 0 and below 0.2."""
    never: int
    """Tasks without a solved rollout."""
    always: int
    """Tasks with a mean above 0.8."""
    easy_pool: int
    """Tasks in the pools easy and always."""
    hard_pool: int
    """Tasks in the pools hard and never."""
    solved: int
    """Solved rollouts."""
    varied: bool
    """Whether a task has different rewards, and not only because of form, length or style."""
    small: bool
    """Whether tasks or rollouts are too few for a verdict."""
    sizes: tuple[GroupSize, ...]
    """The signal at several group sizes, in ascending order."""
    at: GroupSize | None
    """The signal at the present group size. None if each task has only one rollout."""
    environment: str
    model: str
    evaluation: str
    """Id of the evaluation."""
    barred: str | None = None
    """Why a config for these tasks would be refused whatever their difficulty; None if it would not."""
    easiest: Mapping[str, Any] | None = None
    """The environment's arguments that select its easiest tasks; None if none are known."""


@dataclass(frozen=True, slots=True)
class CurriculumPhase:
    """One phase of training: its tasks in words, the number of them that were evaluated, and when the phase ends."""

    tasks: str
    number: int
    until: str

    def as_json(self) -> dict[str, Any]:
        """Return the phase for the data of the view."""
        return {"tasks": self.tasks, "evaluated": self.number, "until": self.until}


@dataclass(frozen=True, slots=True)
class CurriculumAdvice:
    """The advice on training: sentences, phases, and `settings` for write_training_config."""

    state: State
    lines: tuple[str, ...]
    phases: tuple[CurriculumPhase, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    next: tuple[Next, ...] = ()


SOLVED_SHARE, IDEAL_SHARE = 0.8, CURRICULUM_BELOW
_EXIT = "mean reward of the phase's tasks above 0.8, or fewer than 20 % of its groups usable; then the next phase"
_CURRICULUM = "orchestrator.train.source.curriculum"


def advise_curriculum(facts: DifficultyFacts) -> CurriculumAdvice:
    """Return the advice on training for an evaluation with these numbers."""
    state = _state(facts)
    phases = _phases(facts) if state in ("start low", "thin") else ()
    settings = _settings(facts, state)
    return CurriculumAdvice(
        state, tuple(_lines(facts, state)), phases, settings, tuple(_findings(facts, state)), _next(facts, state)
    )


def _state(facts: DifficultyFacts) -> State:
    if facts.at is None:
        return "unknown"
    if not facts.varied and facts.solved == 0:
        return "dead" if _largest_usable_share(facts) < USABLE_FAIL * 2 else "undecided"
    if facts.small and facts.at.interval is not None and facts.at.interval.low < USABLE_FAIL:
        return "undecided"
    if facts.mean > SOLVED_SHARE:
        return "solved"
    if 2 * (facts.never + facts.rare) > facts.tasks and facts.at.share < IDEAL_SHARE:
        return "start low"
    if facts.at.share < USABLE_WARN:
        return "thin"
    return "blocked" if facts.barred else "ready"


def _phases(facts: DifficultyFacts) -> tuple[CurriculumPhase, ...]:
    kinds = (
        ("solved in 20 to 80 % of rollouts", facts.start),
        ("also those solved in fewer than 20 %", facts.rare),
        ("also those never solved, as far as a new evaluation finds them solved by then", facts.never),
    )
    return tuple(CurriculumPhase(label, number, _EXIT) for label, number in kinds if number)


def _lines(facts: DifficultyFacts, state: State) -> Iterator[str]:
    if state == "unknown":
        yield "Run run_eval with rollouts=8: with one rollout a task no group can be told."
        return
    if facts.small:
        (least, each), (tasks, rollouts) = needed_size(facts.of), advised_size(facts.of)
        yield (
            f"{least} tasks with {each} rollouts are the least that decides anything, so this is a hint: "
            f"run run_eval with num_examples={tasks} and rollouts={rollouts}."
        )
    if not facts.varied and facts.solved == 0:
        yield from _unsolved_lines(facts, state)
        return
    if state == "undecided":
        return
    if state == "solved":
        yield "Little is left to learn: use harder tasks or a smaller model, and leave out tasks above 0.8."
        return
    if state == "ready":
        advised = _curriculum(facts)
        weighed = f'and curriculum="{advised}"' if advised else "as they are: no curriculum is needed"
        yield f"Train on all tasks with groups of {facts.group} {weighed}."
    if state == "blocked":
        yield (
            f"No config is written for these tasks yet: {facts.barred}. By their difficulty alone all of them could be "
            f"trained on with groups of {facts.group}."
        )
        return
    if facts.start and state != "ready":
        yield (
            "Begin with tasks between 0.2 and 0.8. Give the taskset an argument that selects them, by a field of the "
            f'tasks that tells easy from hard (view="groups") or by a file of keys. {easy_first(facts.easiest)}'
        )
        yield _regression(facts)
    elif state != "ready":
        yield "No task lies between 0.2 and 0.8: make easier ones (fewer steps, hints, smaller numbers) and add them."
    yield from _wasted_group_lines(facts)
    yield from _larger_group_lines(facts)
    if state == "start low":
        yield "Partial credit that cannot be gamed, or easier data, brings more tasks to life than any setting."


def _unsolved_lines(facts: DifficultyFacts, state: State) -> Iterator[str]:
    bound = 3 / max(facts.rollouts, 1)
    yield (
        f"None of {facts.rollouts:,} rollouts was solved, which bounds the mean rate below {bound:.3f} (95 %). "
        "First make sure that the reward is not to blame: read_eval view=zeros, and rollouts that say the gold."
    )
    if state == "undecided":
        need = _rollouts_to_call_dead(facts)
        yield f"That is too few to call the tasks dead for groups of {facts.group}: {need:,} rollouts would decide it."
    yield f"Make easier tasks, or give partial credit that cannot be gamed. {easy_first(facts.easiest)}"
    if state == "dead":
        yield (
            "No group size brings these tasks to life. Warm up by supervised fine-tuning on solved examples: "
            "write_training_config(sft=EVAL, model=MODEL) takes them from an evaluation of a stronger model, or sft= a "
            "dataset; then evaluate again. Or train a stronger model."
        )


def _largest_usable_share(facts: DifficultyFacts) -> float:
    """Return the highest plausible share of groups with a solved rollout, if none of N rollouts was solved.

    The solve rate is then below 3 / N with 95 % confidence.
    """
    return 1 - (1 - min(1.0, 3 / max(facts.rollouts, 1))) ** facts.group


def _rollouts_to_call_dead(facts: DifficultyFacts) -> int:
    """Return how many rollouts without a solved one are needed to call the tasks dead.

    After so many rollouts, at most 2 x USABLE_FAIL of the groups can contain a solved rollout.
    """
    p = 1 - (1 - 2 * USABLE_FAIL) ** (1 / facts.group)
    return int(3 / p) + 1


def _regression(facts: DifficultyFacts) -> str:
    again = (
        f" (these showed {facts.start_mean:.2f}; expect about {facts.start_again:.2f} of their rollouts to be solved)"
        if facts.start_mean is not None and facts.start_again is not None
        else ""
    )
    return (
        "Tasks chosen for their score fall back towards the average when played again"
        f"{again}: evaluate the selection once more before training on it."
    )


def _wasted_group_lines(facts: DifficultyFacts) -> Iterator[str]:
    assert facts.at is not None
    if facts.at.share < IDEAL_SHARE:
        yield (
            f'About {1 - facts.at.share:.0%} of groups have no gradient. curriculum="gate" samples such groups anew, '
            f"so the batch stays full at about {1 / max(facts.at.share, 0.01):.1f} times the rollouts."
        )
    if _curriculum(facts) in ("pools", "both"):
        yield 'Tasks range from unsolved to solved: curriculum="pools" draws those in the middle most.'


def _larger_group_lines(facts: DifficultyFacts) -> Iterator[str]:
    """Advise a larger group size if enough groups would then be usable."""
    assert facts.at is not None
    better = [s for s in facts.sizes if s.size > facts.group and s.share >= USABLE_WARN]
    if facts.at.share < USABLE_WARN and better:
        least = better[0]
        revived = (
            f", {least.revived:.0f} of the {facts.never} unsolved tasks among them"
            if least.revived is not None and facts.never
            else ""
        )
        yield (
            f"Groups of {least.size} would be usable in {least.share:.0%}{revived}, for {least.cost:g} times the "
            "rollouts a step."
        )
    elif facts.at.share < USABLE_WARN:
        yield "No group size up to 64 makes 40 % of groups usable: the tasks have to change, not the group size."


def _curriculum(facts: DifficultyFacts) -> Curriculum | None:
    """The curriculum that the config writer advises after the same evaluation."""
    return suggested_curriculum(facts.at.share, facts.easy_pool, facts.hard_pool) if facts.at is not None else None


def _settings(facts: DifficultyFacts, state: State) -> dict[str, Any]:
    """Return the arguments of write_training_config, and the keys of the config that they set.

    Empty if training should not begin.
    """
    if facts.at is None or state in ("blocked", "dead", "undecided", "unknown", "solved"):
        return {}
    advised = _curriculum(facts)
    larger = [s.size for s in facts.sizes if s.size > facts.group and s.share >= USABLE_WARN]
    arguments: dict[str, Any] = {
        "model": facts.model,
        "group": larger[0] if facts.at.share < USABLE_WARN and larger else facts.group,
    }
    if advised:
        arguments["curriculum"] = advised
    keys: dict[str, Any] = {"orchestrator.group_size": arguments["group"]}
    if advised in ("gate", "both"):
        keys[f"{_CURRICULUM}.gates.signal"] = {"type": "advantage_range"}
    if advised in ("pools", "both"):
        pools = {name: pool._asdict() for name, pool in POOLS.items()}
        keys[f"{_CURRICULUM}.sampler"] = {"type": "difficulty_pool", "pools": pools}
    return {"write_training_config": arguments, "keys": keys}


def _findings(facts: DifficultyFacts, state: State) -> Iterator[Finding]:
    if state == "dead":
        yield Finding(
            "difficulty-dead",
            "warning",
            f"the model solves none of these tasks, and a group of {facts.group} would hardly ever hold a success",
            "Make easier tasks, give partial credit, or warm up by supervised fine-tuning; then run_eval again.",
        )
    if facts.of is not None and facts.of > facts.tasks and state in ("start low", "thin"):
        yield Finding(
            "difficulty-sample",
            "info",
            f"{facts.tasks:,} of {facts.of:,} tasks were evaluated, so a selection by key covers those only",
            'Select by a field that tells easy from hard (read_eval view="groups"), or evaluate more tasks.',
        )


def _next(facts: DifficultyFacts, state: State) -> tuple[Next, ...]:
    if state == "ready":
        arguments = {"environments": [facts.environment], **_settings(facts, state)["write_training_config"]}
        return (
            Next("write_training_config", "with these settings; what is not pushed yet is pushed first", arguments),
        )
    if facts.solved == 0:
        return (Next("read_eval", "whether the zeros are the model's", {"eval": facts.evaluation, "view": "zeros"}),)
    return ()
