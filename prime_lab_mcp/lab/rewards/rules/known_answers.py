"""Rules about what is known of right answers: a gold that the reward understands, or supplied cases of both kinds."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.equal_orders import OTHER_ORDER
from prime_lab_mcp.lab.rewards.equal_paths import OTHER_WAY
from prime_lab_mcp.lab.rewards.observations import ScoredCase, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import (
    case_row,
    earns_by_chance,
    gold_is_understood,
    paid_text,
)
from prime_lab_mcp.lab.rewards.rules.solutions import lacks_solution
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.worker.faults import UNKNOWN_REWARD, ProblemCode

MIN_CASES = 8
MIN_SIDE = 3
"""Smallest number of supplied cases for an environment without golds, and smallest numbers of cases that are expected
high and of cases that are expected low."""


def supplied_cases(trial: Trial) -> Iterator[Finding]:
    """Every supplied case must earn the reward that the caller expects."""
    unknown = UNKNOWN_REWARD | {ProblemCode.NOT_RUN}
    failing = [
        s
        for s in trial.supplied
        if s.scored_probe.reward is not None
        and not s.scored_probe.scored.has(*unknown)
        and not meets_expectation(s, trial)
    ]
    low = [s for s in failing if not s.high]
    high = [s for s in failing if s.high]
    groups: tuple[tuple[Code, list[ScoredCase], str], ...] = (
        ("reward-wrong-passes", low, "earned more than they should"),
        ("reward-too-strict", high, "earned less than they should"),
    )
    for code, cases, how in groups:
        if cases:
            yield Finding(
                code,
                "blocker",
                f"{count(len(cases), 'supplied case')} {how}: {paid_text(cases[0].scored_probe, trial)}",
                Fix(
                    "Mend the reward, or the case's expectation if that is wrong, then call ",
                    NamedCall("test_reward"),
                    ".",
                ),
                rows=tuple(case_row(s.scored_probe, str(s.expected), trial) for s in cases[:5]),
            )
    if trial.unmatched:
        yield Finding(
            "case-without-task",
            "warning",
            f"{count(len(trial.unmatched), 'supplied case')} could not be run: no task has their answer",
            'Give each case the index of its task as "task", or an "answer" that a task has.',
        )


def meets_expectation(case: ScoredCase, trial: Trial) -> bool:
    """Whether a case earned the expected reward.

    An expected number may be the total reward, a share of the maximum or of the weights, or the score of the component
    with the highest weight. The tolerance is 0.011.
    """
    reward, expected = case.scored_probe.reward, case.expected
    if reward is None:
        return False
    if isinstance(expected, str):
        high = [s.scored_probe.reward or 0.0 for s in trial.supplied if s.high]
        half = HALF_SHARE * (max(trial.max_reward, *high, 0.0) or trial.declared)
        return reward >= half - EPSILON if expected == "high" else reward < half
    scores = [reward, reward / (trial.max_reward or trial.declared), reward / trial.declared]
    parts = case.scored_probe.scored.components
    if parts:
        heaviest = max(parts.values(), key=lambda c: c.weight)
        scores += [heaviest.score] if heaviest.score is not None else []
    return any(abs(score - expected) <= 0.011 for score in scores)


_FEWEST_WAYS = 3
"""Smallest number of tasks on which a way that is as short as the right one must be refused."""


def refuses_equal_ways(trial: Trial) -> Iterator[Finding]:
    """Another way must be paid that is as short as the right one and that the prompt does not tell apart from it, and
    so must another order that the prompt allows.

    A blocker: which of the equal ones a model gives is chance, and most right replies earn little. All that were tried
    must be refused, on at least three tasks.
    """
    right = [*trial.golds, *(s.scored_probe for s in trial.supplied if s.high)]
    paid = {s.probe.row: s.reward or 0.0 for s in right}
    others = [s for s in trial.of(Family.OTHER_WAY) if s.reward is not None and paid.get(s.probe.row, 0.0) > EPSILON]
    for variant, asked, fix in (
        (
            OTHER_WAY,
            "the prompt asks for a shortest way, and another one that is as short",
            "Follow the way of the reply step by step, and pay it if each step is allowed and their number is the "
            "smallest; or say in the prompt which of several equal ways is meant.",
        ),
        (
            OTHER_ORDER,
            "the prompt asks for an order in which each entry comes after those that it names, and another such order",
            "Go through the order of the reply, and pay it if each entry is there once and comes after all that must "
            "be earlier; or say in the prompt which of several such orders is meant.",
        ),
    ):
        tried = [s for s in others if s.probe.variant == variant]
        refused = [s for s in tried if (s.reward or 0.0) < HALF_SHARE * paid[s.probe.row]]
        tasks = len({s.probe.row for s in refused})
        if tasks >= _FEWEST_WAYS and len(refused) == len(tried):
            yield Finding(
                "reward-too-strict",
                "blocker",
                f"{asked} was refused on all {tasks} tasks that were tried: {paid_text(refused[0], trial)}",
                fix,
                rows=tuple(case_row(s, "what the stored one earns", trial) for s in refused[:3]),
            )


def cases_suffice(trial: Trial) -> bool:
    """Whether there are enough supplied cases, both expected high and low, and all of them earned the expected
    reward."""
    run = [s for s in trial.supplied if not s.scored_probe.scored.has(ProblemCode.NOT_RUN)]
    high = sum(s.high for s in run)
    return (
        len(run) >= MIN_CASES
        and high >= MIN_SIDE
        and len(run) - high >= MIN_SIDE
        and all(meets_expectation(s, trial) for s in run)
    )


def no_gold(trial: Trial) -> Iterator[Finding]:
    """Tasks without golds need supplied cases, because nothing else shows that the reward is right."""
    if trial.style is not None or trial.solved.scored:
        return
    if trial.solved.not_played and not cases_suffice(trial):
        yield _solutions_not_played(trial)
        return
    run = [s for s in trial.supplied if not s.scored_probe.scored.has(ProblemCode.NOT_RUN)]
    high = sum(s.high for s in run)
    if len(run) < MIN_CASES or high < MIN_SIDE or len(run) - high < MIN_SIDE:
        yield Finding(
            "reward-no-gold",
            "blocker",
            f"the tasks hold no gold answer, and {count(len(run), 'supplied case')} ({high} high) are too few",
            Fix(
                "Call ",
                NamedCall("test_reward"),
                f" with cases: at least {MIN_CASES}, {MIN_SIDE} expected high and {MIN_SIDE} low. Where a right "
                f"reply is made of fields of the task, name these as rendering instead{_named_fields(trial)}.",
            ),
        )


_MOST_FIELDS = 8
"""Largest number of fields that a finding names."""


def _named_fields(trial: Trial) -> str:
    """The fields that a rendering can name, as the end of a sentence."""
    if not trial.fields:
        return ", such as {FIELD} or {info.FIELD}"
    named = ", ".join(f"{{{field}}}" for field in trial.fields[:_MOST_FIELDS])
    more = f" and {len(trial.fields) - _MOST_FIELDS} more" if len(trial.fields) > _MOST_FIELDS else ""
    return f", in the form that the prompt asks for (the tasks have {quote(named, 400)[1:-1]}{more})"


def answer_left_out(trial: Trial) -> Iterator[Finding]:
    """Warn if the caller's rendering makes right replies of fields that lack the answer of the task."""
    if trial.answer_left_out:
        yield Finding(
            "reward-partly-tested",
            "warning",
            f"right replies were what rendering makes of fields of the tasks, and {quote(trial.answer_left_out, 60)}, "
            "which looks like the answer, is in none of them",
            f"Leave it so only if {quote(trial.answer_left_out, 60)} is no part of a right reply; else name it in the "
            "rendering, or GOLD.",
        )


def gold_not_understood(trial: Trial) -> Iterator[Finding]:
    """Some spelling of the gold must earn more than a wrong answer; otherwise nothing is known about the reward.

    The field that was taken for the gold may hold something else: constraints, the state of a game, the output of a
    program or a rubric. Enough supplied cases that earn the expected rewards replace golds.
    """
    if trial.style is None or cases_suffice(trial) or trial.solved.scored:
        return
    if lacks_solution(trial):
        if trial.solved.not_played:
            yield _solutions_not_played(trial)
            return
        yield _asks_for_solution(trial, trial.style.golds.place)
        return
    if gold_is_understood(trial):
        return
    golds = trial.style.golds
    best = max((s.reward or 0.0 for s in trial.golds), default=0.0)
    tried = f" in any of {trial.renderings} ways to write it" if trial.renderings else ""
    how = f" and earned no more than wrong ones{tried}: at most {best:g}"
    first = ""
    if best > EPSILON and earns_by_chance(trial, best):
        how = (
            f". It earned at most {best:g} of {trial.declared:g}{tried}, or that on some tasks only. Any text may earn "
            "so little, for its form or its length, so that it is not known which replies are right"
        )
    elif _nothing_paid(trial):
        others = count(trial.run, "completion")
        how = f", and the reward paid it nothing{tried}, nor any other of {others} that were tried"
        first = (
            "A reward that never pays is often wrong itself: read what its code takes out of a reply, for instance "
            "which group of a pattern, and what it compares that with. Where the field is not the answer, or a right "
            "reply is written otherwise: "
        )
    yield Finding(
        "gold-not-understood",
        "blocker",
        f"{quote(golds.place, 60)} was taken for the answer (as {golds.format}){how}",
        Fix(
            f"{first}Call ",
            NamedCall("test_reward"),
            f" with cases: at least {MIN_CASES}, {MIN_SIDE} expected high, {MIN_SIDE} low, "
            'each with the index of its "task". If the answer only has to be written otherwise, '
            "give rendering. If a right answer should have been paid here, mend the reward (the "
            "rows show what was tried).",
        ),
        rows=tuple(case_row(s, "more than a wrong answer", trial) for s in trial.golds[:3]),
    )


def _nothing_paid(trial: Trial) -> bool:
    """Whether no completion earned anything: no gold, no probe, no supplied case and no rollout."""
    rewards = [s.reward for s in (*trial.golds, *trial.scored_probes, *(s.scored_probe for s in trial.supplied))]
    rewards += [p.result.reward for p in trial.rollouts]
    return bool(rewards) and all((reward or 0.0) <= EPSILON for reward in rewards)


def _solutions_not_played(trial: Trial) -> Finding:
    """Return the finding for solutions that this machine could not play, so that nothing is known about the reward.

    Solutions whose rollouts only took too long have a code of their own: neither the gold nor the files are in doubt.
    """
    if trial.solved.too_slow and not trial.solved.unavailable:
        return Finding(
            "rollouts-too-slow",
            "blocker",
            f"this machine was too slow: {trial.solved.not_played}, so that nothing is known about the reward",
            Fix(
                "Call ",
                NamedCall("test_reward"),
                " again, when this machine has less to do. Nothing has to be changed in the environment.",
            ),
        )
    again = " again, when this machine has less to do if something was too slow; the environment need not change. "
    if trial.solved.by_design or trial.solved.lacks_container:
        again = " again where they can run (containers: with Podman and the image); the environment need not change. "
    return Finding(
        "gold-not-understood",
        "blocker",
        "the reward depends on tools or turns, and the solutions of its tasks could not be played here: "
        f"{quote(trial.solved.not_played, 300)}",
        Fix(
            "Call ",
            NamedCall("test_reward"),
            f"{again}Where its rollouts cannot run here at all, give at least {MIN_CASES} cases, {MIN_SIDE} high and "
            f"{MIN_SIDE} low, whose completion is a list of messages with tool calls.",
        ),
    )


def _asks_for_solution(trial: Trial, place: str) -> Finding:
    """Return the finding for a reward that depends on tools or turns, while no solution is stated."""
    best = max((s.reward or 0.0 for s in trial.golds), default=0.0)
    return Finding(
        "gold-not-understood",
        "blocker",
        f"the reward depends on tools or turns: {quote(place, 60)}, said as the answer, earned at most {best:g} of "
        f"{trial.declared:g}, and nobody states how a task is solved",
        Fix(
            "State it (solution_skeleton in data is the code, filled in as far as it is known), then call ",
            NamedCall("test_reward"),
            f"; or give at least {MIN_CASES} cases, {MIN_SIDE} expected high and {MIN_SIDE} "
            "low, whose completion is a list of messages with tool calls.",
        ),
        rows=tuple(case_row(s, "the maximum", trial) for s in trial.golds[:3]),
    )
