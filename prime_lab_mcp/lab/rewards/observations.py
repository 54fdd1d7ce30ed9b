"""Defines the observations of one trial: the scores of every probe, side effects, rollouts and the search.

Rules (rewards/rules/) are functions of these values.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from prime_lab_mcp.lab.rewards.accepted_replies import AcceptedGame
from prime_lab_mcp.lab.rewards.capped_lists import CappedList
from prime_lab_mcp.lab.rewards.constant_commands import ConstantCommand
from prime_lab_mcp.lab.rewards.copied_messages import CopyingRule
from prime_lab_mcp.lab.rewards.emptied_tables import EmptiedTables
from prime_lab_mcp.lab.rewards.interleaving import MixedRollouts
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.replays import Replay
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.shortcuts import Shortcut
from prime_lab_mcp.lab.rewards.shown_tests import ShownTests
from prime_lab_mcp.lab.rewards.solution_parts import SolutionParts
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.stand_in_judge import MisreadVerdict
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, same_reward
from prime_lab_mcp.lab.rewards.to_and_fro import PaidWalk
from prime_lab_mcp.lab.rewards.tool_exploration import AnswerKey, LastingWrite
from prime_lab_mcp.lab.rewards.trial_and_error import ThoughtlessModel
from prime_lab_mcp.lab.worker.description import JudgeInfo, RewardInfo
from prime_lab_mcp.lab.worker.faults import JUDGE_FAILED, ProblemCode
from prime_lab_mcp.lab.worker.scoring import Scored, SideEffects

Expected = float | Literal["high", "low"]
"""The reward that a supplied case is expected to earn: a number, at least half of the maximum, or less than half."""


@dataclass(frozen=True, slots=True)
class ScoredProbe:
    """A probe (a completion of known quality) with its score."""

    probe: Probe
    scored: Scored

    @property
    def reward(self) -> float | None:
        return self.scored.reward


@dataclass(frozen=True, slots=True)
class RepeatedScore:
    """Three scores of one probe: in the first pass, in a second pass of the same order, and in a pass in reverse
    order."""

    probe: Probe
    first: Scored
    again: Scored
    reverse: Scored


def differs_on_repeat(repeat: RepeatedScore) -> bool:
    """Whether the three scores of a probe, all from one process, have different rewards."""
    first, again, reverse = (s.reward for s in (repeat.first, repeat.again, repeat.reverse))
    return not (same_reward(first, again) and same_reward(first, reverse))


@dataclass(frozen=True, slots=True)
class ObservedSideEffects:
    """The side effects of scoring some completions. `effects` has one entry for each of `scored_probes`.

    If scoring them concurrently failed, `broken` is the error and `effects` is empty.
    """

    scored_probes: tuple[ScoredProbe, ...]
    effects: tuple[SideEffects, ...]
    broken: str = ""

    @property
    def pairs(self) -> Iterator[tuple[ScoredProbe, SideEffects]]:
        yield from zip(self.scored_probes, self.effects, strict=False)


@dataclass(frozen=True, slots=True)
class OtherProcessScore:
    """A scored completion and its score in another process (`there`), which may have another hash seed."""

    scored_probe: ScoredProbe
    there: Scored


@dataclass(frozen=True, slots=True)
class WitnessDifference:
    """A completion to which the witness gave another score. `side_effects` explains what a witness is."""

    scored_probe: ScoredProbe
    there: float | None
    """The reward in the witness."""
    components: tuple[str, ...] = ()
    """Names of the components whose scores differ."""
    by_clock: bool = False
    """The rewards differ only if the clock of the witness shows another time."""
    other_task: bool = False
    """The witness has another task at the same index."""


@dataclass(frozen=True, slots=True)
class Witnessed:
    """The result of scoring a sample again in a witness (side_effects.py): `cases` completions were compared.

    `skipped` is the reason why no witness was used, and `trouble` is the failure of the witness. Both are empty if a
    witness scored the sample.
    """

    cases: int = 0
    differences: tuple[WitnessDifference, ...] = ()
    skipped: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class ScoredCase:
    """A supplied case with its score and its expected reward."""

    scored_probe: ScoredProbe
    expected: Expected

    @property
    def high(self) -> bool:
        """Whether the case is expected to earn much: `high`, or a number of at least 0.5."""
        return self.expected == "high" or (isinstance(self.expected, int | float) and self.expected >= 0.5)


@dataclass(frozen=True, slots=True)
class PromptedGolds:
    """Golds of some tasks in the form that the prompt tells the model to use.

    `mean` is their mean reward. `best` is the mean reward of the same golds in the form that the reward pays most.
    """

    form: str
    mean: float
    best: float
    scored_probes: tuple[ScoredProbe, ...]
    keys: tuple[tuple[str, str], ...] = ()
    """Pairs of a JSON key of the golds and the key that the prompt names instead; empty if the form is a wrapper."""


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """The judge models that a reward asks."""

    judges: tuple[JudgeInfo, ...]
    named: frozenset[str]
    """Models that the package or its arguments name. Any other model is the default of a library."""
    through: str | None = None
    """Host of the endpoint behind the relay; None without a relay."""
    capped: int = 0
    """Number of questions that the relay refused because of its limits."""
    stand_in: bool = False
    """Whether the rehearsal's stand-in was asked in place of a judge model."""


@dataclass(frozen=True, slots=True)
class HeldOutVerdict:
    """The verdict on a find from its rewards on the held-out tasks."""

    tasks: int
    """Number of held-out tasks."""
    paid: int
    """Number of tasks on which the find is paid like the right answer."""
    mean: float
    """Mean share of the maximum."""
    deserved: float
    """Share of tasks that a trivial policy deserves."""
    deserved_mean: float
    """Mean share of the maximum that a trivial policy deserves."""
    counts: bool
    """Whether the find is a hole."""


@dataclass(frozen=True, slots=True)
class AttackerOutcome:
    """The use of the attacker in one search.

    `model` and `host` name the model and its endpoint. `requests` and `proposed` are numbers of requests and of
    proposals, and `cost` is in US dollars. `failed` is the reason why a request got no usable reply; the search then
    continues without the attacker.
    """

    model: str
    host: str
    requests: int = 0
    proposed: int = 0
    cost: float | None = None
    failed: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the field `attacker` of the report's data."""
        data: dict[str, Any] = {
            "model": self.model,
            "endpoint": self.host,
            "requests": self.requests,
            "proposed": self.proposed,
        }
        data |= {} if self.cost is None else {"cost": round(self.cost, 4)}
        return data | ({"failed": self.failed} if self.failed else {})


@dataclass(frozen=True, slots=True)
class Hole:
    """A hole in the reward: a find of the search that was confirmed on held-out tasks."""

    recipe: str
    """The recipe as text for people."""
    steps: tuple[str, ...]
    """The first recipe and the mutations that led to the find."""
    verdict: HeldOutVerdict
    scored_probes: tuple[ScoredProbe, ...]
    """The completions with the highest rewards on held-out tasks, the highest first."""
    number: int
    """Number of completions that the search had scored when it made the find."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """The outcome of one search."""

    skipped: str = ""
    """The reason why no search was run; empty if one was run."""
    ended: str = ""
    """The reason why the search ended."""
    holes: tuple[Hole, ...] = ()
    completions: int = 0
    """Number of scored completions."""
    seconds: float = 0.0
    signals: int = 0
    """Number of branches of the code and of component scores that the search reached."""
    tasks: int = 0
    """Number of tasks on which the search scored completions."""
    held_out: int = 0
    """Number of held-out tasks for judging finds."""
    seed: int = 0
    remembered: bool = False
    """The outcome comes from an earlier call with the same inputs."""
    faults: tuple[ScoredProbe, ...] = ()
    """Completions that hung or ended the process both in the search and with the longer time limit of probes."""
    attacker: AttackerOutcome | None = None

    def as_json(self) -> Mapping[str, Any]:
        """Return the field `search` of the report's data."""
        if self.skipped:
            return {"ran": False, "why": self.skipped}
        data: dict[str, Any] = {
            "ran": True,
            "completions": self.completions,
            "seconds": round(self.seconds, 1),
            "reached": self.signals,
            "tasks": self.tasks,
            "held_out": self.held_out,
            "seed": self.seed,
            "ended": self.ended,
            "holes": [hole.recipe[:300] for hole in self.holes],
        }
        if self.attacker is not None:
            data["attacker"] = self.attacker.as_json()
        return data | ({"remembered": True} if self.remembered else {})


@dataclass(frozen=True, slots=True)
class RefusedGolds:
    """Golds that earn less than half of what others earn, all as single replies, and the mark that tells them."""

    mark: str
    refused: tuple[ScoredProbe, ...]
    scored: int
    """Number of golds that were scored."""


@dataclass(frozen=True, slots=True)
class StatedForm:
    """A form of fields of the task that the caller states, that all prompts ask for, and that no right answer earns in.

    `template` is the form. `paid` is another form in which right answers earn `paid_mean`; empty if none was found.
    `patterns` are those by which the code reads replies.
    """

    template: str
    paid: str
    paid_mean: float
    patterns: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """All observations of one call of test_reward.

    The class has no slots, so that `max_reward`, which rules need for every completion, can be cached.
    """

    rewards: tuple[RewardInfo, ...]
    """The components that the environment declares."""
    style: AnswerStyle | None
    """How completions state the gold; None if the tasks have no gold that a completion can state."""
    form_requested: bool
    """The prompt or the code names the wrapper of the style."""
    golds: tuple[ScoredProbe, ...] = ()
    """The golds of the sampled tasks, in `style`."""
    scored_probes: tuple[ScoredProbe, ...] = ()
    repeats: tuple[RepeatedScore, ...] = ()
    supplied: tuple[ScoredCase, ...] = ()
    unmatched: tuple[str, ...] = ()
    """Names of supplied cases whose answer no task has."""
    faults: tuple[ScoredProbe, ...] = ()
    """Completions that hung, ended the worker's process or were slow, including those of the calibration."""
    side_effects: ObservedSideEffects | None = None
    other_process: tuple[OtherProcessScore, ...] = ()
    witnessed: Witnessed | None = None
    """None if no completion has a reward that a witness could confirm."""
    refused: RefusedGolds | None = None
    """Golds that are refused for a mark of their text, where only a few tasks have a solution."""
    unstored: tuple[ScoredProbe, ...] = ()
    """Replies to tasks without a gold, among tasks that have one: that there is none, and another task's gold."""
    rollouts: tuple[PlayedScript, ...] = ()
    """Whole rollouts with a scripted model. Only environments with tools, several turns or a set-up have them."""
    rollouts_played: int = 0
    """Number of all rollouts with a scripted model, also of those that no field keeps."""
    no_rollouts: str = ""
    """The reason why rollouts could not be run; empty if they could."""
    no_rollouts_by_design: bool = False
    """The reason in `no_rollouts` follows from the environment's design and is not a flaw."""
    rollouts_broke: str = ""
    """The error that ended the worker's process during the rollouts; empty without such an error."""
    by_rollouts: bool = False
    """`golds` and `scored_probes` are rollouts, because a completion without a rollout cannot earn the reward."""
    solved: Solved = field(default_factory=Solved)
    """Rollouts of the tasks' solutions, and of changed copies of the solutions."""
    replays: tuple[Replay, ...] = ()
    """Pairs of rollouts with the same replies that differ because the environment remembers earlier rollouts."""
    lasting: LastingWrite | None = None
    """A call of a tool that reads what an earlier rollout has written."""
    mixed: MixedRollouts | None = None
    """A rollout that goes on otherwise when it takes turns with others."""
    answer_key: AnswerKey | None = None
    """A call of a tool that returns prompts of tasks with their answers."""
    classes: tuple[tuple[str, str], ...] = ()
    """Prompt and gold of each task, if the golds are classes that only the reward shows to be golds."""
    unnamed: tuple[tuple[str, str], ...] = ()
    """Prompt and gold of each task, if only the reward shows which field holds the golds."""
    asked: str = ""
    """All messages of the first task: what the model is told to do."""
    systems: str = ""
    """The system prompts of the first task."""
    capped: CappedList | None = None
    """A tool that leaves entries out without saying so."""
    emptied: EmptiedTables | None = None
    """Rollouts that were paid because they emptied the tables before the reward looked."""
    copying: tuple[CopyingRule, ...] = ()
    """Rules for copying from the environment's messages that were paid on some tasks, with their results on others."""
    shortcuts: tuple[Shortcut, ...] = ()
    """Ways to copy, such as from a place of the prompt or of the output of a fixed call, that are paid on nearly all
    tasks on which they were not found."""
    commands: tuple[ConstantCommand, ...] = ()
    """Commands that earned all on every task, as the first reply and without a look at the task."""
    thoughtless: tuple[ThoughtlessModel, ...] = ()
    """Models that try out what tools offer, alike in every task, and earned all on every one."""
    walk: PaidWalk | None = None
    """A walk to and fro that is paid the more the longer it lasts."""
    parts: SolutionParts = field(default_factory=SolutionParts)
    """What parts of solutions earned, and copies with negative numbers."""
    shown_tests: ShownTests | None = None
    """Tests that are said to be hidden and stand in the prompts."""
    accepted: tuple[AcceptedGame, ...] = ()
    """Games that were played to their end with accepted replies."""
    hinted: tuple[int, ...] = ()
    """Tasks whose prompts state the first reply of the solution in the same place."""
    after_calls: bool = False
    """Golds and probes were scored after the tool calls of their task's solution."""
    interactive: bool = False
    """The environment has tools, several turns or a set-up, so that a rollout is more than one reply."""
    api: str = "v1"
    task_class: str = ""
    """Class name of the tasks (v1)."""
    gave_up: bool = False
    """Scoring stopped early, because too many completions hung, broke the process or were slow."""
    tasks: int | None = None
    """Number of tasks of the environment; None if unknown."""
    stated: StatedForm | None = None
    """The caller's form of fields that the prompts ask for, if no gold earned anything in it. By the caller's word and
    that of the prompts, golds in this form are right replies."""
    fields: tuple[str, ...] = ()
    """Fields of the tasks that a rendering can name, without those that hold the prompt."""
    answer_left_out: str = ""
    """The field with the answers of which the caller's rendering has nothing; empty if there is none."""
    renderings: int = 0
    """Number of answer styles that were tried."""
    judging: JudgeUse | None = None
    """None if no reward asks a judge."""
    misread: MisreadVerdict | None = None
    """A negative verdict of the judge that the reward pays like the positive one."""
    own_raises: frozenset[str] = frozenset()
    """`PATH:LINE` of the `raise` statements in the environment's code. Empty for v0, where a raise may end the run."""
    prompted: PromptedGolds | None = None
    """Golds in the form that the prompt tells the model to use; None if the prompt asks for no form."""
    listed_in_prompts: bool = False
    """The golds are lists, and nearly all prompts state the items of their own one."""
    form_unmentioned: bool = False
    """No prompt mentions the form in which golds are paid, and the bare answer is not paid."""
    answer_last: bool = False
    """The prompts ask for working before the answer, or for a reply that ends with the answer."""
    answer_alone: bool = False
    """The prompts ask for the answer and nothing else."""
    levels: Mapping[int, float] = field(default_factory=dict)
    """Maps tasks whose right answers earn less than the highest reward to their maximum (task_maximum.py)."""
    searched: SearchOutcome = field(default_factory=SearchOutcome)
    """The outcome of the search for exploits that no probe lists (rewards/search/)."""

    @property
    def declared(self) -> float:
        """The sum of the positive weights, which is the attainable reward if every component is at most 1.

        The sum is at most that of the weights that scored golds. In an EnvGroup of v0, each task is scored by only one
        member's components.
        """
        stated = sum(r.weight for r in self.rewards if r.kind != "metric" and r.weight > 0)
        used = [sum(max(0.0, c.weight) for c in s.scored.components.values()) for s in self.golds]
        return min(stated, max(used, default=stated) or stated) or 1.0

    @functools.cached_property
    def max_reward(self) -> float:
        """The highest reward of a right completion; 0 if no right completion earned a positive reward.

        Supplied cases that are expected to earn much count only if one earned more than twice as much as every gold:
        what was taken for the gold is no reply then. `gold_beaten` reports a case that earns a little more.
        """
        right = [
            s.reward
            for s in (*self.golds, *self.of(Family.GOLD), *self.of(Family.AFTER_REASONING))
            if s.reward is not None
        ]
        right += [p.result.reward for p in self.solved.scored if p.result.reward is not None]
        cases = [s.scored_probe.reward for s in self.supplied if s.high and s.scored_probe.reward is not None]
        if max(cases, default=0.0) > 2 * max(0.0, *right, 0.0) + EPSILON:
            right += cases
        return max(right, default=0.0) if max(right, default=0.0) > 0 else 0.0

    @property
    def goldless(self) -> bool:
        """Whether no right answer is known: the tasks hold no gold, or no gold and no solution earned anything."""
        return self.style is None or (self.max_reward <= EPSILON and not self.solved.scored)

    def maximum(self, row: int) -> float:
        """Return the attainable reward of a task: its entry in `levels`, else `max_reward`.

        The attainable reward of tasks may differ by a bonus for hard tasks or by weights of their own.
        """
        return self.levels.get(row, self.max_reward) if self.max_reward > 0 else 0.0

    @property
    def everything(self) -> Iterator[ScoredProbe]:
        """Every scored completion. Those of `faults` that are also among the others come only once."""
        searched = (scored_probe for hole in self.searched.holes for scored_probe in hole.scored_probes)
        others = (*self.golds, *self.scored_probes, *(s.scored_probe for s in self.supplied), *searched)
        yield from others
        known = {(s.probe.row, s.probe.completion) for s in others}
        yield from (s for s in self.faults if (s.probe.row, s.probe.completion) not in known)

    @property
    def run(self) -> int:
        """The number of completions that were scored, without those that were left out (`NOT_RUN`)."""
        return sum(not s.scored.has(ProblemCode.NOT_RUN) for s in self.everything)

    @property
    def judged(self) -> list[ScoredProbe]:
        """The completions whose scoring asked a judge or tried to."""
        return [s for s in self.everything if s.scored.judges or s.scored.has(*JUDGE_FAILED)]

    def of(self, *families: Family) -> list[ScoredProbe]:
        """The scored probes of these families."""
        return [s for s in self.scored_probes if s.probe.family in families]

    def with_problem(self, *codes: ProblemCode) -> list[ScoredProbe]:
        """The completions whose scoring had one of these problems."""
        return [s for s in self.everything if s.scored.has(*codes)]

    def gold(self, row: int) -> float | None:
        """The reward of a task's gold in the asked form, without other text; None if it was not scored."""
        among = itertools.chain((s for s in self.scored_probes if s.probe.family is Family.GOLD), self.golds)
        return next((s.reward for s in among if s.probe.row == row), None)

    def wrong(self, row: int) -> float | None:
        """The highest reward of a clearly wrong answer to a task in the asked form; None if none was scored.

        Answers that a tolerance may accept and answers that contain the right one do not count.
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
