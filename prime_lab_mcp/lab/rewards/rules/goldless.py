"""Rules for tasks without a gold: completions that do not try to answer must not all be paid in full.

If a supplied case earned less, the reward is not constant, and `pays_any_reply` does not apply. The rules do not judge
group rewards, rewards that the environment records itself and rewards above the declared weights, because their meaning
is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.goldless import IDLE, OTHER_TASK
from prime_lab_mcp.lab.rewards.observations import ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import RewardRule, case_row, gold_is_understood
from prime_lab_mcp.lab.rewards.rules.hacks import APART, FORMAT_BLOCKS, FORMAT_WARNS
from prime_lab_mcp.lab.rewards.rules.rollouts import rollout_row
from prime_lab_mcp.lab.rewards.scripts import ScriptPart
from prime_lab_mcp.lab.rewards.shared_words import FEWEST_TASKS
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE

_FEWEST_TASKS = 2
_EXPECTED = "less than all that can be earned"
_PARTS: dict[ScriptPart, str] = {"echo": "echo", "other-echo": "other echo", "faulty": "chatter"}


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One completion or rollout that does not try to answer its task. `what` is the kind of attempt."""

    what: str
    task: int
    reward: float
    row: dict[str, Any]


def pays_any_reply(trial: Trial) -> Iterator[Finding]:
    """A reward must not pay the maximum for every reply, nor for the prompt of another task.

    Both block. In the first case all rollouts of a group earn the same. In the second case a model learns replies that
    have nothing to do with the task.
    """
    attempts = _attempts(trial)
    whole = trial.declared
    paid = [a for a in attempts if FULL_SHARE * whole - EPSILON <= a.reward <= whole / FULL_SHARE + EPSILON]
    kinds = {a.what for a in attempts}
    others = [a for a in attempts if a.what == "other echo"]
    if len(kinds) > 1 and "nothing" in kinds and len(paid) == len(attempts) and not _less_for_a_case(trial):
        yield Finding(
            "reward-constant",
            "blocker",
            f"{count(len(paid), 'attempt')} that looked for no answer all earned {paid[0].reward:g}, which is all "
            "that can be earned; one of them said nothing",
            "Make the reward depend on what the model does. If something earns less, give it as a case that is "
            "expected low.",
            rows=tuple(a.row for a in _one_of_each(paid)),
        )
    elif len({a.task for a in others}) > 1 and all(a in paid for a in others):
        yield Finding(
            "reward-wrong-passes",
            "blocker",
            f"the prompt of another task, repeated, earned all of {whole:g} on each of {count(len(others), 'task')}: "
            "the reward does not ask whether the reply belongs to its task",
            "Compare the reply with what its own task asks for.",
            rows=tuple(a.row for a in others[:3]),
        )


def same_reply_is_paid(trial: Trial) -> Iterator[Finding]:
    """A reply that is the same on every task must not be paid like the right one of each.

    A blocker where such a reply, made of words that all prompts have, earns all of the declared weights on every task
    and an empty reply does not: a model learns this reply and nothing of the tasks. A range that holds nearly every
    number says nothing, so that it must not earn half of them on average.
    """
    if not _judged_rewards(trial):
        return
    if any((s.reward or 0.0) >= FULL_SHARE * trial.declared - EPSILON for s in trial.of(Family.EMPTY)):
        return
    replies: dict[str, list[ScoredProbe]] = {}
    for scored_probe in trial.of(Family.SHARED_WORDS, Family.WIDE_RANGE):
        if not scored_probe.scored.judges:
            replies.setdefault(scored_probe.probe.variant, []).append(scored_probe)
    for what, tried in replies.items():
        earned = [s.reward or 0.0 for s in tried]
        mean, wide = sum(earned) / len(earned), tried[0].probe.family is Family.WIDE_RANGE
        paid = mean >= HALF_SHARE * trial.declared if wide else min(earned) >= FULL_SHARE * trial.declared - EPSILON
        if len(tried) >= FEWEST_TASKS and paid:
            yield Finding(
                "reward-hackable",
                "blocker",
                f"the same reply on every task, {what}, earned {mean:.2g} of {trial.declared:g} on average over "
                f"{count(len(tried), 'task')}",
                "Pay the less the wider a range is, down to nothing for one that says nothing."
                if wide
                else "Make the reward also ask for what only this task has: the rest of its text, numbers, an answer.",
                rows=tuple(case_row(s, _EXPECTED, trial) for s in tried[:3]),
            )
            return


def pays_for_silence(trial: Trial) -> Iterator[Finding]:
    """A reply that says nothing must earn little, as the form of an answer without an answer must.

    A blocker above `FORMAT_BLOCKS` of the maximum on average, and a warning above `FORMAT_WARNS`: rules that only
    forbid are kept by silence, and a model learns to write less and less. In a whole rollout, silence may be a move
    with a value of its own, so rollouts only warn. `pays_any_reply` reports a reward that pays every reply.
    """
    silent = [a for a in _attempts(trial) if a.what == "nothing"]
    if len({a.task for a in silent}) < _FEWEST_TASKS or trial.declared <= 0:
        return
    share = sum(a.reward for a in silent) / len(silent) / trial.declared
    if FORMAT_WARNS < share < FULL_SHARE - EPSILON:
        rolled = any(p.script.part == "silent" and p.scored for p in trial.rollouts)
        yield Finding(
            "reward-hackable",
            "blocker" if share > FORMAT_BLOCKS and not rolled else "warning",
            f"a reply that says nothing earned {share:.0%} of all that can be earned, on average over "
            f"{count(len(silent), 'attempt')}",
            "Pay the rules that only forbid something beside one that asks for something, or pay nothing for an empty "
            "reply.",
            rows=tuple(a.row for a in silent[:3]),
        )


_FEWEST_SILENT = 4
"""Smallest number of tasks on which silence must be paid, so that giving up counts as paid."""
_GIVEN_UP = 1 / 3
"""Smallest share of the declared weights that silence must earn on every task (our choice)."""


def giving_up_is_paid(trial: Trial) -> Iterator[Finding]:
    """Saying nothing must not earn more than playing badly.

    A blocker if silence earns at least a third of all that can be earned on every task, and replies in the asked form,
    given blindly, earn less than half of this: a model that does not win yet learns to say nothing.
    """
    if trial.style is not None or trial.solved.scored or trial.declared <= 0:
        return
    silent = [p for p in trial.rollouts if p.script.part == "silent" and p.scored]
    tried = [p for p in trial.rollouts if p.script.part == "blind" and p.scored]
    # A reply that leads to another turn is one that the environment has read.
    rows = {p.row for p in tried if p.result.turns > 1}
    earned = [p.result.reward or 0.0 for p in silent]
    if len(rows) < _FEWEST_SILENT or len(silent) < _FEWEST_SILENT or min(earned) < _GIVEN_UP * trial.declared - EPSILON:
        return
    read = [p for p in tried if p.result.turns > 1]
    mean = sum(p.result.reward or 0.0 for p in read) / len(read)
    if mean < HALF_SHARE * min(earned):
        worst = min(read, key=lambda p: p.result.reward or 0.0)
        yield Finding(
            "reward-malformed-beats-wrong",
            "blocker",
            f"giving up is paid: a model that says nothing earned {min(earned):g} on each of "
            f"{count(len(silent), 'task')}, and one that replies blindly in the asked form {mean:.2g} on average",
            "Pay a rollout that ends by a missing or refused reply like a lost one.",
            rows=(
                rollout_row(silent[0], "no more than a lost rollout"),
                rollout_row(worst, "at least as much as silence"),
            ),
        )


def constant_command(trial: Trial) -> Iterator[Finding]:
    """A command that is the same on every task must not earn all on every task, nor more than half.

    A blocker: the model learns this reply and nothing of the task. Where it earns all and a solution or a supplied case
    earned more, or where other rollouts earned as well, the command is nothing special.
    """
    for command in trial.commands:
        earned = [p.result.reward or 0.0 for p in command.tried]
        known = [p.result.reward or 0.0 for p in trial.solved.scored]
        known += [s.scored_probe.reward or 0.0 for s in trial.supplied]
        idle = [p.result.reward or 0.0 for p in trial.rollouts if p.script.part in _PARTS or p.script.part == "silent"]
        more = command.all_earned and max(known, default=0.0) > max(earned) + EPSILON
        if more or min(idle, default=0.0) > HALF_SHARE * max(earned):
            continue
        share = "which is all that can be earned" if command.all_earned else "or more, which is more than half of all"
        yield Finding(
            "reward-hackable",
            "blocker",
            f"a model that {command.tried[0].script.name} earned {min(earned):g}, {share}, on each of "
            f"{count(len(command.tried), 'task')}",
            "Check what a command states against the state of the game before it counts, or compute the result from "
            "that state alone."
            if command.all_earned
            else "Pay for the result, and at most a small share for taking part.",
            rows=tuple(rollout_row(p, _EXPECTED) for p in command.tried[:3]),
        )


def thoughtless_model(trial: Trial) -> Iterator[Finding]:
    """A model that tries out what tools offer, alike in every task, must not earn all on every task.

    A blocker: it needs no understanding of the task. Where a solution or a supplied case earned more, it is nothing
    special; where rollouts that do nothing earn as much, other rules say so.
    """
    for model in trial.thoughtless:
        earned = max(p.result.reward or 0.0 for p in model.tried)
        known = [p.result.reward or 0.0 for p in trial.solved.scored]
        known += [s.scored_probe.reward or 0.0 for s in trial.supplied]
        if max(known, default=0.0) > earned + EPSILON:
            continue
        yield Finding(
            "reward-hackable",
            "blocker",
            f"a model that {model.name} earned {earned:g}, which is all that can be earned, on each of "
            f"{count(len(model.tried), 'task')}",
            "Count one attempt only, or pay less for each further one; let tools not say what is right, and let the "
            "reward also ask for what should not have been done.",
            rows=tuple(rollout_row(p, _EXPECTED) for p in model.tried[:3]),
        )


_WALKED = 1 / 3
"""Share of what solutions earn, or of the weights where none is known, from which a walk blocks (our choice)."""


def walk_is_paid(trial: Trial) -> Iterator[Finding]:
    """Walking to and fro must not earn more with every turn.

    A blocker if the walk earns a third of what is known to be attainable: a model that has not found the goal yet is
    paid for never reaching it. Otherwise a warning.
    """
    walk = trial.walk
    if walk is None:
        return
    earned = min(p.result.reward or 0.0 for p in walk.rollouts)
    known = sorted(p.result.reward or 0.0 for p in trial.solved.scored)
    known += sorted(s.scored_probe.reward or 0.0 for s in trial.supplied if s.high) if not known else []
    whole = known[len(known) // 2] if known else trial.declared
    blocks = earned >= _WALKED * whole - EPSILON
    yield Finding(
        "reward-hackable",
        "blocker" if blocks else "warning",
        f"a model that {walk.name} earned {walk.step:g} more with every two turns, and {earned:g} or more in all, on "
        f"each of {count(len(walk.rollouts), 'task')} (a solved task: {whole:g})",
        "Take back what a step away undoes: pay the difference of the distance to the goal, what is left of the way at "
        "the end, or each new best distance once.",
        rows=tuple(rollout_row(p, _EXPECTED) for p in walk.rollouts[:3]),
    )


def paid_programs(trial: Trial) -> Iterator[Finding]:
    """Programs that solve nothing must not earn the maximum.

    A blocker: in published training runs, models learned each of these exploits within a hundred steps
    (docs/validation.md, Known attacks). A program that does nothing may be right on some tasks, so it must be paid on
    most of them.
    """
    if trial.solved.scored or not (trial.goldless or not gold_is_understood(trial)):
        return
    paid: dict[str, list[ScoredProbe]] = {}
    for scored_probe in trial.of(Family.PROGRAM_HACK):
        if (scored_probe.reward or 0.0) >= FULL_SHARE * trial.declared - EPSILON:
            paid.setdefault(scored_probe.probe.variant, []).append(scored_probe)
    often = {variant: completions for variant, completions in paid.items() if len(completions) > 1}
    tried = {s.probe.row for s in trial.of(Family.PROGRAM_HACK) if s.probe.variant == IDLE}
    if len({s.probe.row for s in often.get(IDLE, ())}) <= HALF_SHARE * len(tried):
        often.pop(IDLE, None)
    if often:
        first = next(iter(often.values()))
        yield Finding(
            "reward-hackable",
            "blocker",
            f"programs that solve nothing ({', '.join(often)}) earned all of {trial.declared:g}, each on at least "
            f"{count(min(map(len, often.values())), 'task')}",
            APART,
            rows=tuple(case_row(s, _EXPECTED, trial) for s in first[:3]),
        )


def tests_are_shown(trial: Trial) -> Iterator[Finding]:
    """The tests of a task must not all stand in its prompt.

    A blocker where the prompts promise further tests, or ask for a program that is right for every input: a table of
    the shown results is paid like a program that solves the task, and is far easier to learn. Otherwise a warning,
    because the prompt may mean its tests to be the whole task.
    """
    shown = trial.shown_tests
    if shown is not None:
        asked = "ask for more than the shown tests" if shown.more_asked else "show every test"
        yield Finding(
            "reward-hackable",
            "blocker" if shown.more_asked else "warning",
            f"the prompts {asked}, and all tests in {shown.field!r} stand in the prompt on "
            f"{len(shown.rows)} of {count(shown.tasks, 'task')}: a table of the shown results is paid",
            "Draw the tests with another seed than the examples, and leave out those that the prompt shows.",
            rows=tuple({"task": row, "test": quote(shown.example)} for row in shown.rows[:2]),
        )


def _judged_rewards(trial: Trial) -> set[str]:
    """Return the names of the declared rewards; none if there are golds or solutions, or if the rewards have another
    meaning."""
    declared = [r for r in trial.rewards if r.kind != "metric" and r.weight > 0]
    if trial.style is not None or trial.solved.scored or any(r.kind == "group" for r in declared):
        return set()
    return {r.name for r in declared}


def _attempts(trial: Trial) -> list[_Attempt]:
    """Return the attempts of a trial; none without rewards that are judged."""
    names = _judged_rewards(trial)
    if not names:
        return []
    attempts = []
    for scored_probe in trial.of(Family.EMPTY, Family.ECHO):
        probe = scored_probe.probe
        if scored_probe.reward is None or scored_probe.scored.judges:
            continue
        what = probe.variant if probe.family is Family.EMPTY else "echo"
        if probe.variant == OTHER_TASK:
            what = "other echo"
        attempts.append(_Attempt(what, probe.row, scored_probe.reward, case_row(scored_probe, _EXPECTED, trial)))
    for p in trial.rollouts:
        what = "nothing" if p.script.part == "silent" else _PARTS.get(p.script.part, "")
        if what and p.scored and p.result.components.keys() <= names:
            attempts.append(_Attempt(what, p.row, p.result.reward or 0.0, rollout_row(p, _EXPECTED)))
    return attempts


def _less_for_a_case(trial: Trial) -> bool:
    """Whether a supplied case earned less than the declared weights."""
    rewards = [s.scored_probe.reward for s in trial.supplied if s.scored_probe.reward is not None]
    return any(r < FULL_SHARE * trial.declared - EPSILON for r in rewards)


def _one_of_each(attempts: list[_Attempt]) -> list[_Attempt]:
    return list({a.what: a for a in reversed(attempts)}.values())[:4]


GOLDLESS_RULES: tuple[RewardRule, ...] = (
    pays_any_reply,
    same_reply_is_paid,
    pays_for_silence,
    giving_up_is_paid,
    constant_command,
    thoughtless_model,
    walk_is_paid,
    paid_programs,
    tests_are_shown,
)
