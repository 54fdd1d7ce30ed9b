"""Compares the rewards of two environments for the same completions, to show that a port preserves its reward.

Tasks are matched by the user's prompt (matched_tasks.py). Rewards are compared as shares of the reward for a right
answer in the same environment, so that a port may scale all weights by one factor. Then the components are compared one
by one (compared_components.py). In environments with tools or several turns, whole rollouts are compared: a scripted
model says the same in both, and each environment responds. A time limit is no reward: a completion that exceeds it on
one side is scored there again alone, and is not compared if it exceeds a longer limit as well.
comparison_findings.py says what a comparison means.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import golds as gold_answers
from prime_lab_mcp.lab.datasets.task_golds import message_text
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.compared_components import (
    ComparedComponent,
    compare_components,
    same_ratio,
    usual_ratio,
)
from prime_lab_mcp.lab.rewards.matched_tasks import MatchedTasks, absent_tasks, first_messages, match_tasks
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family, Kind
from prime_lab_mcp.lab.rewards.probes.reply_lengths import length_probes
from prime_lab_mcp.lab.rewards.probes.tolerances import near_number_probes
from prime_lab_mcp.lab.rewards.scorer import Scorer, is_stress
from prime_lab_mcp.lab.rewards.scripted_rollouts import play_right_elsewhere, rollout_probe
from prime_lab_mcp.lab.worker.description import Message, RewardInfo, Row
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import SCORING, Case, Scored

SAMPLE = 5_000
"""Number of tasks of the other environment that are compared with the trial's tasks, at most."""
TOLERANCE = 1e-6
"""Largest difference between equal shares of the maximum, which may have rounding errors."""
ROLLOUT_SECONDS = 60.0
"""Time limit in seconds for all rollouts in the other environment."""
PATIENT_SECONDS = 50.0
"""Time limit of a completion that is scored again alone: ten times the usual one, as in environment/load_check.py. A
busy machine has needed 15 s for what takes 5 s on an idle one."""
_RIGHT: frozenset[Kind] = frozenset({"gold", "verbose"})


@dataclass(frozen=True, slots=True)
class ComparedCompletion:
    """One completion, scored by this environment and by the other environment."""

    here: ScoredProbe
    there: Scored


@dataclass(frozen=True, slots=True)
class RewardComparison:
    """The comparison of this environment with the environment `name`.

    `maximum` and `other_maximum` are the highest rewards of a right completion in this and in the other environment.
    """

    name: str
    matched: MatchedTasks
    compared: tuple[ComparedCompletion, ...]
    maximum: float
    other_maximum: float
    weights: tuple[tuple[str, float, float], ...] = ()
    """Components whose share of the weights differs: name, weight here, weight in the other environment."""
    unexercised: tuple[str, ...] = ()
    """Components that no compared completion earned, so that nothing is known about them."""
    components: tuple[ComparedComponent, ...] = ()
    rollouts: int = 0
    """Number of compared completions that are whole rollouts."""
    other_starts: int = 0
    """Number of matched tasks whose first messages differ, for example by the system prompt."""
    other_replies: tuple[ComparedCompletion, ...] = ()
    """Rollouts in which the two environments respond differently to the same messages of the model."""
    other_reply: tuple[str, str] | None = None
    """The first message of such a rollout that differs: what this and what the other environment said."""
    other_tools: tuple[str, ...] = ()
    """Names of the tools that only one of the two environments offers to the model."""
    versions: tuple[str | None, str | None] = (None, None)
    """The versions of verifiers that ran this and the other environment; None if unknown."""
    unpaid: tuple[str, ...] = ()
    """Names of metrics and of components without weight, of both environments. They are not compared."""
    absent_tasks: int = 0
    """Number of tasks of the other environment that this one lacks, as far as is known."""
    refused: str = ""
    """Why the other environment was loaded with its own arguments instead of those of this one; empty if it was not."""
    unscored: tuple[ComparedCompletion, ...] = ()
    """Completions without a reward on some side for want of time. They are not compared, and are not in `compared`."""

    @property
    def too_little(self) -> bool:
        """Whether equal rewards say nothing: other arguments, most tasks without a counterpart, or most completions
        without a reward for want of time."""
        few = len(self.matched.unmatched) > len(self.matched.pairs) or len(self.unscored) > len(self.compared)
        return bool(self.refused) or few

    @property
    def raised(self) -> dict[str, tuple[int, str]]:
        """Components that raised in the other environment: the number of completions, and the first exception.

        The rubric of v0 pays 0 for a component that raises, as for one that is not earned.
        """
        found: dict[str, tuple[int, str]] = {}
        for pair in self.compared:
            for error in {component_that_raised(e.where): e for e in reversed(pair.there.errors)}.values():
                name = component_that_raised(error.where)
                number, text = found.get(name, (0, f"{error.type}: {error.message}"))
                found[name] = number + 1, text
        weighted = {c.there for c in self.components if c.other_weight}
        return {name: raised for name, raised in found.items() if name in weighted}

    @property
    def ratio(self) -> float | None:
        """The factor between all weights here and there; None if the components or their weights do not fit."""
        fitting = [c for c in self.components if c.verdict not in ("only-here", "only-there")]
        return None if self.weights or not fitting or len(fitting) < len(self.components) else self.scale or 1.0

    @property
    def whole(self) -> float:
        """The reward here that counts as all. Where the weights fit, the higher maximum of the two counts on both
        sides, since no completion may have earned every component on one of them."""
        return self.maximum if self.ratio is None else max(self.maximum, self.other_maximum * self.ratio)

    @property
    def other_whole(self) -> float:
        """The reward there that counts as all."""
        return self.other_maximum if self.ratio is None else self.whole / self.ratio

    @property
    def different(self) -> list[ComparedCompletion]:
        """The completions that earned different shares of the maximum."""
        return [c for c in self.compared if self._differs(c)]

    @property
    def missing(self) -> list[ComparedComponent]:
        """Components that one reward lacks.

        Empty if each reward has unmatched components: they could be the same ones under other names.
        """
        ours = [c for c in self.components if c.verdict == "only-here"]
        theirs = [c for c in self.components if c.verdict == "only-there"]
        return [] if ours and theirs else [*ours, *theirs]

    @property
    def unearned_by_exception(self) -> dict[str, tuple[int, str]]:
        """Components of `raised` that no compared completion earned because they raise: for a right answer, or for most
        completions. What raises for odd replies alone (an empty conversation) was compared by all others."""
        golds = (c for c in self.compared if c.here.probe.kind in _RIGHT)
        right = {component_that_raised(error.where) for gold in golds for error in gold.there.errors}
        most = 0.5 * len(self.compared)
        return {
            name: raised
            for name, raised in self.raised.items()
            if name in self.unexercised and (name in right or raised[0] > most)
        }

    @property
    def raised_for_some(self) -> dict[str, tuple[int, str]]:
        """Components of `raised` that no compared completion earned, although most of them do not raise."""
        apart = self.unearned_by_exception
        return {n: raised for n, raised in self.raised.items() if n in self.unexercised and n not in apart}

    @property
    def reached_nothing(self) -> bool:
        """Whether no compared completion earned anything from any component."""
        return bool(self.components) and not any(c.earned for c in self.components)

    @property
    def scale(self) -> float | None:
        """The factor between the weights here and there; None if the weights are equal or have no common factor."""
        if self.weights:
            return None
        ratio = usual_ratio(
            [(c.weight, c.other_weight) for c in self.components if c.weight is not None and c.other_weight is not None]
        )
        return None if ratio is None or abs(ratio - 1.0) <= TOLERANCE else ratio

    @property
    def tasks(self) -> int:
        """Number of tasks of which a completion was compared."""
        return len({c.here.probe.row for c in self.compared})

    @property
    def every_task(self) -> bool:
        """Whether a completion of every task of this environment was compared; False if their number is not known."""
        return self.matched.total is not None and self.tasks >= self.matched.total

    @property
    def tasks_text(self) -> str:
        """Of how many of how many tasks completions were compared, such as `14 of 60 tasks`."""
        total = self.matched.total
        return (
            f"{count(self.tasks, 'task')} of an unknown number"
            if total is None
            else (f"{self.tasks:,} of {count(total, 'task')}")
        )

    @property
    def verdict(self) -> str:
        """`equal`, `equal-where-reached` (some component was never earned, or some task was not compared), `differs`
        or `not-compared`. `equal` is said of the completions that were tried."""
        if not self.compared or self.reached_nothing:
            return "not-compared"
        if (
            self.other_tools
            or self.different
            or self.weights
            or self.missing
            or self.unearned_by_exception
            or any(c.verdict == "differs" for c in self.components)
        ):
            return "differs"
        if self.too_little:
            return "not-compared"
        return "equal" if self.every_task and not self.unexercised else "equal-where-reached"

    def _differs(self, pair: ComparedCompletion) -> bool:
        """Whether a completion earned different shares of the maximum, or only one of the rewards failed."""
        if any(s.has(ProblemCode.JUDGE_UNREACHABLE) for s in (pair.here.scored, pair.there)):
            return False  # without the judge's verdict the rewards cannot be compared
        here, there = self.share(pair.here.reward), self.other_share(pair.there.reward)
        if here is None or there is None:
            return here is not there
        return abs(here - there) > TOLERANCE

    def share(self, reward: float | None) -> float | None:
        """A reward of this environment as a share of its maximum."""
        return None if reward is None else reward / self.whole if self.whole > 0 else reward

    def other_share(self, reward: float | None) -> float | None:
        """A reward of the other environment as a share of its maximum."""
        return None if reward is None else reward / self.other_whole if self.other_whole > 0 else reward

    def record(self) -> dict[str, Any]:
        """What the ledger keeps of the comparison."""
        numbers = {"completions": len(self.compared), "differ": len(self.different)}
        numbers |= {"tasks": len(self.matched.pairs), "unmatched_tasks": len(self.matched.unmatched)}
        numbers |= {"compared_tasks": self.tasks, "unexercised": len(self.unexercised)}
        numbers |= {"absent_tasks": self.absent_tasks, "unscored": len(self.unscored)}
        numbers |= {"other_starts": self.other_starts, "other_replies": len(self.other_replies)}
        named = {"environment": self.name, "verdict": self.verdict, "total_tasks": self.matched.total}
        return {**named, **numbers, "verifiers": list(self.versions)}

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.name,
            "verdict": self.verdict,
            "tasks": self.tasks,
            "total_tasks": self.matched.total,
            "unmatched_tasks": len(self.matched.unmatched),
            "absent_tasks": self.absent_tasks,
            "completions": len(self.compared),
            "differ": len(self.different),
            "unscored": len(self.unscored),
            "max_reward": round(self.maximum, 6),
            "other_max_reward": round(self.other_maximum, 6),
            "unexercised": list(self.unexercised),
            "components": [c.as_json() for c in self.components],
            "rollouts": self.rollouts,
            "other_starts": self.other_starts,
            "other_replies": len(self.other_replies),
            "other_tools": [quote(name, 80)[1:-1] for name in self.other_tools],
            "not_compared": [quote(name, 80)[1:-1] for name in self.unpaid],
            "verifiers": {"here": self.versions[0], "there": self.versions[1]},
            "raised_there": {quote(n, 80)[1:-1]: quote(text, 160)[1:-1] for n, (_, text) in self.raised.items()},
        } | ({} if self.scale is None else {"scale": round(self.scale, 6)})


async def compare_rewards(
    trial: Trial,
    rows: Sequence[Row],
    worker: Worker,
    *,
    name: str,
    rewards: Sequence[RewardInfo] = (),
    versions: tuple[str | None, str | None] = (None, None),
    own: Worker | None = None,
    total: int | None = None,
    refused: str = "",
) -> RewardComparison:
    """Score every completion of a trial with the other environment, on the task with the same prompt.

    `worker` has loaded the other environment, `name` is its name, and `rewards` are the components that it declares.
    `rows` are the tasks of this environment, or a sample of its `total`. With `own`, the worker of this environment,
    numbers near the golds and replies of many lengths are scored in both as well (probes/tolerances.py,
    probes/reply_lengths.py). `refused` says why the other environment has other arguments.
    """
    others = await worker.rows(limit=SAMPLE)
    matched = match_tasks(rows, others.rows, total)
    played = await _compare_rollouts(trial, worker, matched.pairs, own)
    scored_probes = list(
        {(s.probe.row, s.probe.completion, bool(s.probe.messages)): s for s in trial.everything}.values()
    )
    scored_probes = [s for s in scored_probes if s.probe.row in matched.pairs and not s.scored.has(ProblemCode.NOT_RUN)]
    scored_probes = [s for s in scored_probes if s.probe.family is not Family.NEVER_ENDS]
    if own is not None:
        scored_probes += await _in_steps(trial, own, matched.pairs)
    if trial.interactive:
        # If the reward reads state besides the messages, a completion that is scored alone lacks this state.
        scored_probes = [] if played.stateful or trial.by_rollouts else scored_probes
    # Scoring stops after some completions that hang, and those that are made to be slow hang first.
    scored_probes.sort(key=lambda s: is_stress(s.probe))
    cases = [Case(s.probe.id, matched.pairs[s.probe.row], s.probe.messages) for s in scored_probes]
    scored = await Scorer(worker).score(cases)
    pairs = [ComparedCompletion(s, t) for s, t in zip(scored_probes, scored, strict=True)]
    without_rollout, unscored = await apart_for_want_of_time(pairs, matched.pairs, own, worker)
    compared = (*played.compared, *without_rollout)
    starts = {row.index: row for row in others.rows}
    right = [c for c in compared if c.here.probe.kind in _RIGHT and _pays(c.here.reward)]
    return RewardComparison(
        name,
        matched,
        compared,
        max((c.here.reward or 0.0 for c in right), default=0.0),
        max((c.there.reward or 0.0 for c in right), default=0.0),
        different_weights(trial.rewards, rewards),
        unexercised_components(compared, (*trial.rewards, *rewards)),
        compare_components([(c.here.scored.components, c.there.components) for c in compared], trial.rewards, rewards),
        len(played.compared),
        sum(
            first_messages(row) != first_messages(starts[matched.pairs[row.index]])
            for row in rows
            if row.index in matched.pairs
        ),
        played.other_replies,
        played.other_reply,
        played.other_tools,
        versions,
        tuple(dict.fromkeys(r.name for r in (*trial.rewards, *rewards) if r.kind == "metric" or not r.weight)),
        absent_tasks(rows, total, others),
        refused,
        tuple(unscored),
    )


async def apart_for_want_of_time(
    completions: Sequence[ComparedCompletion], pairs: Mapping[int, int], own: Worker | None, other: Worker
) -> tuple[list[ComparedCompletion], list[ComparedCompletion]]:
    """Return the completions that both sides scored, or failed to score for another reason than time, and the others.

    `pairs` maps tasks to those of the other environment. A completion that exceeded the time limit on one side only is
    scored there once more, alone and with `PATIENT_SECONDS`; after one that exceeds this limit too, none is.
    """
    compared: list[ComparedCompletion] = []
    unscored: list[ComparedCompletion] = []
    hangs = False
    for completion in completions:
        here, there = completion.here, completion.there
        late = (here.scored.has(ProblemCode.TIMEOUT), there.has(ProblemCode.TIMEOUT))
        if late[0] != late[1] and not hangs and not (late[1] and here.scored.has(ProblemCode.NOT_RUN)):
            worker = own if late[0] else other
            row = here.probe.row if late[0] else pairs[here.probe.row]
            if worker is not None:
                case = Case(here.probe.id, row, here.probe.messages)
                (again,) = await worker.score([case], case_timeout=PATIENT_SECONDS)
                hangs = again.has(ProblemCode.TIMEOUT)
                completion = ComparedCompletion(
                    replace(here, scored=again) if late[0] else here, again if late[1] else there
                )
        (unscored if _out_of_time(completion) else compared).append(completion)
    return compared, unscored


def _out_of_time(completion: ComparedCompletion) -> bool:
    """Whether a side has no reward for a completion because scoring it, or completions before it, took too long."""
    return any(s.has(ProblemCode.TIMEOUT, ProblemCode.NOT_RUN) for s in (completion.here.scored, completion.there))


async def _in_steps(trial: Trial, own: Worker, pairs: Mapping[int, int]) -> list[ScoredProbe]:
    """Score numbers near the golds of matched tasks, and right replies of many lengths; none where whole rollouts or a
    judge decide."""
    if trial.style is None or trial.by_rollouts or any(s.scored.judges for s in trial.everything):
        return []
    golds = [gold for gold in trial.style.golds.golds if gold.row in pairs]
    probes = [*near_number_probes(trial.style, golds), *length_probes(trial.style, golds)]
    scored = await Scorer(own).score([probe.case for probe in probes])
    return [ScoredProbe(p, s) for p, s in zip(probes, scored, strict=True) if not s.has(ProblemCode.NOT_RUN)]


def component_that_raised(where: str) -> str:
    """The name of the component in the place of an exception of scoring, such as `scoring, looked_up:pantry.py:73`."""
    return where.removeprefix(SCORING).lstrip(", ").partition(":")[0]


@dataclass(frozen=True, slots=True)
class _ComparedRollouts:
    """The compared rollouts. `stateful` is True if a rollout of either environment left state besides its messages."""

    compared: tuple[ComparedCompletion, ...] = ()
    other_replies: tuple[ComparedCompletion, ...] = ()
    other_reply: tuple[str, str] | None = None
    other_tools: tuple[str, ...] = ()
    stateful: bool = False


async def _compare_rollouts(
    trial: Trial, worker: Worker, pairs: Mapping[int, int], own: Worker | None
) -> _ComparedRollouts:
    """Replay the model's messages of the trial's rollouts in the other environment, and compare the rewards.

    Where only rollouts are compared, right ones of other tasks are played by `own` before, as many as the time allows.
    """
    ours = [p for p in (*trial.rollouts, *trial.solved.scored) if p.scored and p.row in pairs]
    if not ours:
        return _ComparedRollouts(stateful=any(p.result.state for p in trial.rollouts))
    if own is not None and trial.judging is None and (trial.by_rollouts or any(p.result.state for p in ours)):
        reached = {p.row for p in ours}
        ours += await play_right_elsewhere(own, trial, ours, [row for row in pairs if row not in reached])
    plays = [scripts.as_play(scripts.replay_script(p.script.name, p.result.messages), pairs[p.row]) for p in ours]
    rollouts = await worker.rollout(plays, seconds=ROLLOUT_SECONDS)
    compared, other = [], []
    reply: tuple[str, str] | None = None
    for played, there in zip(ours, rollouts.results, strict=False):
        if there.end == "not-run":
            continue
        scored = Scored(played.script.name, there.reward, there.components, {}, there.errors, (), there.ms)
        pair = ComparedCompletion(rollout_probe(played), scored)
        compared.append(pair)
        if (said := _first_difference(played.result.messages, there.messages)) is not None:
            other.append(pair)
            reply = reply or said
    stateful = any(r.state for r in (*(p.result for p in ours), *rollouts.results))
    here = {t.name for p in ours for t in p.result.tools}
    tools = here ^ {t.name for r in rollouts.results for t in r.tools} if compared else set()
    return _ComparedRollouts(tuple(compared), tuple(other), reply, tuple(sorted(tools)), stateful)


def _first_difference(here: Sequence[Message], there: Sequence[Message]) -> tuple[str, str] | None:
    """Return what each environment said where they first differ; None if they say the same."""
    for ours, theirs in itertools.zip_longest(_environment_turns(here), _environment_turns(there)):
        if ours is None or theirs is None or ours[:2] != theirs[:2]:
            return ours[2] if ours else "", theirs[2] if theirs else ""
    return None


def _environment_turns(messages: Sequence[Message]) -> list[tuple[str, str, str]]:
    """Return the role, normalised text and text of every message that the model read and did not write.

    No model reads what follows its last reply: v0 appends `final_env_response` there, which v1 has no place for.
    """
    replies = [n for n, m in enumerate(messages) if m.get("role") == "assistant"]
    return [
        (str(m.get("role")), gold_answers.normalised_text(message_text(m)), message_text(m))
        for m in (messages[: replies[-1]] if replies else messages)
        if m.get("role") != "assistant"
    ]


def different_weights(
    rewards: Sequence[RewardInfo], others: Sequence[RewardInfo]
) -> tuple[tuple[str, float, float], ...]:
    """Return (name, weight here, weight there) of components in both rewards whose weights have an unusual ratio.

    The usual ratio is the most frequent one (`usual_ratio`).
    """
    there = {i.name: i.weight for i in others if i.kind != "metric"}
    both = [(i.name, i.weight, there[i.name]) for i in rewards if i.kind != "metric" and i.name in there]
    usual = usual_ratio([(weight, other) for _, weight, other in both])
    return tuple(
        component
        for component in both
        if (component[1] or component[2]) and not same_ratio(component[1], component[2], usual)
    )


def unexercised_components(compared: Sequence[ComparedCompletion], rewards: Sequence[RewardInfo]) -> tuple[str, ...]:
    """Return the names of the weighted components that no compared completion earned in either environment."""
    earned = {
        name
        for pair in compared
        for scored in (pair.here.scored, pair.there)
        for name, part in scored.components.items()
        if part.score is not None and abs(part.score) > TOLERANCE
    }
    return tuple(dict.fromkeys(i.name for i in rewards if i.kind != "metric" and i.weight and i.name not in earned))


def _pays(reward: float | None) -> bool:
    return reward is not None and reward > 0
