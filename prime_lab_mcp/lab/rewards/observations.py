"""The observations of one trial, as values: the scores of every probe, side effects and rollouts. Rules read these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from prime_lab_mcp.lab.rewards.copied_messages import CopyingRule
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.replays import Replay
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.search.outcome import SearchOutcome
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, same_reward
from prime_lab_mcp.lab.worker.description import JudgeInfo, RewardInfo
from prime_lab_mcp.lab.worker.faults import JUDGE_FAILED, ProblemCode
from prime_lab_mcp.lab.worker.scoring import Scored, SideEffects

Expected = float | Literal["high", "low"]


@dataclass(frozen=True, slots=True)
class ScoredProbe:
    """A probe with its score."""

    probe: Probe
    scored: Scored

    @property
    def reward(self) -> float | None:
        return self.scored.reward


@dataclass(frozen=True, slots=True)
class RepeatedScore:
    """Three scores of one probe: with all others, in the same order again, and in reverse order."""

    probe: Probe
    first: Scored
    again: Scored
    reverse: Scored


def differs_on_repeat(repeat: RepeatedScore) -> bool:
    """Whether one process gave different rewards for the same probe."""
    first, again, reverse = (s.reward for s in (repeat.first, repeat.again, repeat.reverse))
    return not (same_reward(first, again) and same_reward(first, reverse))


@dataclass(frozen=True, slots=True)
class ObservedSideEffects:
    """The side effects of scoring some completions: `effects` has one entry for each of `scored_probes`.

    `broken` is the error of scoring them together, although each can be scored alone; then `effects` is empty.
    """

    scored_probes: tuple[ScoredProbe, ...]
    effects: tuple[SideEffects, ...]
    broken: str = ""

    @property
    def pairs(self) -> Iterator[tuple[ScoredProbe, SideEffects]]:
        yield from zip(self.scored_probes, self.effects, strict=False)


@dataclass(frozen=True, slots=True)
class OtherProcessScore:
    """A scored completion with its score in another process, which may have another hash seed."""

    scored_probe: ScoredProbe
    there: Scored


@dataclass(frozen=True, slots=True)
class WitnessDifference:
    """A completion that a witness scored differently, with the names of the components that differ.

    `there` is the reward in the witness. `by_clock`: the rewards are equal while the clock of the witness is not moved.
    `other_task`: the task itself is another one in the witness.
    """

    scored_probe: ScoredProbe
    there: float | None
    components: tuple[str, ...] = ()
    by_clock: bool = False
    other_task: bool = False


@dataclass(frozen=True, slots=True)
class Witnessed:
    """What a witness says about a sample of scores: `cases` completions, of which `differences` differ.

    `skipped` is the reason why no witness was asked, and `trouble` the failure of the witness; both are empty where a
    witness scored the sample.
    """

    cases: int = 0
    differences: tuple[WitnessDifference, ...] = ()
    skipped: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A supplied case and its expected reward: a number, `high` (at least half of the maximum) or `low`."""

    scored_probe: ScoredProbe
    expected: Expected

    @property
    def high(self) -> bool:
        return self.expected == "high" or (isinstance(self.expected, int | float) and self.expected >= 0.5)


@dataclass(frozen=True, slots=True)
class PromptedGolds:
    """Golds of some tasks in the form that the prompt tells the model to use. `mean` is their mean reward and `best`
    that of the same golds in the form that the reward pays most.
    """

    form: str
    mean: float
    best: float
    scored_probes: tuple[ScoredProbe, ...]


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """The judge models that rewards ask. `through` is the endpoint behind the relay, `capped` the number of questions
    that the relay's cap refused. `named` are the models that the package or its arguments name; any other model is the
    default of a library.
    """

    judges: tuple[JudgeInfo, ...]
    named: frozenset[str]
    through: str | None = None
    capped: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """All observations of one call. `style` is None where the tasks hold no gold that a completion can state.

    `form_requested`: the prompt or the code names the wrapper of the style.
    """

    rewards: tuple[RewardInfo, ...]
    style: AnswerStyle | None
    form_requested: bool
    golds: tuple[ScoredProbe, ...] = ()
    """The golds of the sampled tasks, in `style`."""
    scored_probes: tuple[ScoredProbe, ...] = ()
    repeats: tuple[RepeatedScore, ...] = ()
    supplied: tuple[ScoredCase, ...] = ()
    unmatched: tuple[str, ...] = ()
    """Names of supplied cases whose answer no task has."""
    faults: tuple[ScoredProbe, ...] = ()
    """Completions that hung, ended their process or were slow, including those of the calibration."""
    side_effects: ObservedSideEffects | None = None
    other_process: tuple[OtherProcessScore, ...] = ()
    witnessed: Witnessed | None = None
    """None where no completion has a reward that a witness could confirm."""
    rollouts: tuple[PlayedScript, ...] = ()
    """Whole rollouts with a scripted model; only of environments with tools, several turns or a set-up."""
    no_rollouts: str = ""
    """Why rollouts could not be run."""
    no_rollouts_by_design: bool = False
    """The reason in `no_rollouts` belongs to the environment's design and is no flaw."""
    rollouts_broke: str = ""
    """The error that ended the process during the rollouts."""
    by_rollouts: bool = False
    """`golds` and `scored_probes` are rollouts, because a completion alone cannot earn the reward of a rollout."""
    solved: Solved = field(default_factory=Solved)
    """Rollouts of the tasks' solutions, and of changed copies."""
    replays: tuple[Replay, ...] = ()
    """Rollouts with the same replies that differ because the environment remembers earlier ones."""
    copying: tuple[CopyingRule, ...] = ()
    """Rules from the environment's messages to replies that were paid on some tasks, judged on others."""
    after_calls: bool = False
    """Golds and probes were scored after the calls of their task's solution."""
    interactive: bool = False
    """A rollout may have more than one reply: tools, answers of the environment, or a set-up."""
    api: str = "v1"
    task_class: str = ""
    """Class name of the tasks (v1)."""
    gave_up: bool = False
    tasks: int | None = None
    renderings: int = 0
    """Number of answer styles that were tried."""
    judging: JudgeUse | None = None
    """None where no reward was observed to ask a judge."""
    own_raises: frozenset[str] = frozenset()
    """Where the environment's code raises on purpose, as `PATH:LINE`; only in v1, which records a failed rollout and
    goes on."""
    prompted: PromptedGolds | None = None
    """Golds in the form that the prompt tells the model to use; None where the prompt tells none."""
    levels: Mapping[int, float] = field(default_factory=dict)
    """By task: the maximum, for tasks whose right answers earn less than the highest reward (task_maximum.py)."""
    searched: SearchOutcome = field(default_factory=SearchOutcome)
    """The search for holes that no probe lists, which comes last."""

    @property
    def declared(self) -> float:
        """The sum of the positive weights: the attainable reward when every component is at most 1.

        The weights used for golds limit the sum, because a member of an EnvGroup scores only its own tasks.
        """
        stated = sum(r.weight for r in self.rewards if r.kind != "metric" and r.weight > 0)
        used = [sum(max(0.0, c.weight) for c in s.scored.components.values()) for s in self.golds]
        return min(stated, max(used, default=stated) or stated) or 1.0

    @property
    def max_reward(self) -> float:
        """The highest reward of a right completion; 0 where no right completion earned a positive reward."""
        right = [
            s.reward
            for s in (*self.golds, *self.of(Family.GOLD), *self.of(Family.AFTER_REASONING))
            if s.reward is not None
        ]
        right += [p.result.reward for p in self.solved.scored if p.result.reward is not None]
        if max(right, default=0.0) <= EPSILON:  # Else a case that earns more is news about the golds.
            right += [s.scored_probe.reward for s in self.supplied if s.high and s.scored_probe.reward is not None]
        return max(right, default=0.0) if max(right, default=0.0) > 0 else 0.0

    def maximum(self, row: int) -> float:
        """The attainable reward of a task: `max_reward`, unless `levels` says that this task's right answers earn less.

        Tasks differ by bonuses for hard rows, weights of their own, or the member of a group that scores them.
        """
        return self.levels.get(row, self.max_reward) if self.max_reward > 0 else 0.0

    @property
    def everything(self) -> Iterator[ScoredProbe]:
        """Every distinct scored completion."""
        searched = (scored_probe for hole in self.searched.holes for scored_probe in hole.scored_probes)
        others = (*self.golds, *self.scored_probes, *(s.scored_probe for s in self.supplied), *searched)
        yield from others
        known = {(s.probe.row, s.probe.completion) for s in others}
        yield from (s for s in self.faults if (s.probe.row, s.probe.completion) not in known)

    @property
    def run(self) -> int:
        """The number of completions that were scored."""
        return sum(not s.scored.has(ProblemCode.NOT_RUN) for s in self.everything)

    @property
    def judged(self) -> list[ScoredProbe]:
        """The completions whose scoring asked a judge or failed to."""
        return [s for s in self.everything if s.scored.judges or s.scored.has(*JUDGE_FAILED)]

    def of(self, *families: Family) -> list[ScoredProbe]:
        return [s for s in self.scored_probes if s.probe.family in families]

    def with_problem(self, *codes: ProblemCode) -> list[ScoredProbe]:
        """The completions whose scoring had one of these problems."""
        return [s for s in self.everything if s.scored.has(*codes)]

    def gold(self, row: int) -> float | None:
        """The reward of a task's bare gold."""
        return next(
            (s.reward for s in self.scored_probes if s.probe.row == row and s.probe.family is Family.GOLD), None
        )

    def wrong(self, row: int) -> float | None:
        """The highest reward of a well-formed completion of a task whose answer is clearly wrong and does not hold the
        right one.
        """
        paid = [
            s.reward
            for s in self.scored_probes
            if s.probe.row == row
            and s.probe.family is Family.WRONG
            and not (s.probe.near or s.probe.knowing)
            and s.reward is not None
        ]
        return max(paid, default=None)
