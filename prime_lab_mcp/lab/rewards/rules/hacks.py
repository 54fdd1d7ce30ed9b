"""Rules against exploits: no exploit may earn as much as a right answer.

`HACK_RULES` judge completions without a right answer, and `PROGRAM_RULES` programs that solve nothing. `search_holes`
judges exploits that the search has found (rewards/search/).
"""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.case_skeletons import CLAIM
from prime_lab_mcp.lab.rewards.observations import Hole, ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.catalogue import MAKERS, NO_KEY
from prime_lab_mcp.lab.rewards.probes.families import HACKS, Family
from prime_lab_mcp.lab.rewards.rules.amounts import (
    RewardRule,
    case_row,
    earned_as_gold,
    earned_mostly_as_gold,
    hack_finding,
    paid_text,
)
from prime_lab_mcp.lab.rewards.rules.partly_right import by_variant
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, HALF_SHARE
from prime_lab_mcp.lab.rewards.trivial_policy import best_paid_policy
from prime_lab_mcp.lab.worker.faults import ProblemCode

FORMAT_BLOCKS = 0.3
FORMAT_WARNS = 0.2
"""Shares of the maximum that a form without an answer may earn. Above them a finding blocks or warns
(docs/validation.md, Reward tests)."""
_LENGTH = 0.05
"""Share of the maximum from which on a gain by repetition or length is reported."""
_FEWEST_FORMS = 3
"""Smallest number of tasks with an empty form of a supplied case."""
_ECHO_MARGIN = 0.25
"""Share of tasks by which the repeated prompt must exceed the deserved share to block, because some prompts contain the
answer."""
_NEARLY, _FEWEST_ECHOES = 0.75, 4
"""Share of the maximum that the repeated prompt must stay under on one of at least so many tasks (our choice)."""
_NOT_RIGHT = (HACKS | {Family.WRONG, Family.MALFORMED_WRONG, Family.EMPTY}) - {Family.LONG_GOLD}
"""Families that must not earn more than a right answer. Long golds are left out: reward-length-bonus reports them."""


def above_gold(trial: Trial) -> Iterator[Finding]:
    """No completion may earn more than the right answer of its task.

    A blocker, also for completions that contain the answer: a model learns the completion that earns most, and that is
    not the right answer in the asked form.
    """
    above = [
        s
        for s in trial.of(*_NOT_RIGHT)
        if s.reward is not None and trial.max_reward > 0 and s.reward > trial.maximum(s.probe.row) * 1.001 + EPSILON
    ]
    if above:
        above.sort(key=lambda s: -(s.reward or 0))
        yield hack_finding(
            "blocker",
            above,
            f"{count(len(above), 'completion')} that are not right earned more than any right one",
            "Bound every part of the reward, and pay the right answer the most.",
            trial,
        )


def two_answers(trial: Trial) -> Iterator[Finding]:
    """A completion with several answers should not be paid like one with the right answer alone.

    These are warnings, because each of the completions contains the right answer, which a model must know. The parsers
    of verifiers read only the first or the last tag, and so pay some of them. If any list of answers is paid,
    `every_answer` blocks.
    """
    fix = "Count only the last answer outside of <think>, or give 0 when there are several that differ."
    by_row = {s.probe.row: s for s in trial.of(Family.GOLD_FIRST)}
    both = [
        s
        for s in trial.of(Family.GOLD_LAST)
        if earned_mostly_as_gold(s, trial)
        and s.probe.row in by_row
        and earned_mostly_as_gold(by_row[s.probe.row], trial)
    ]
    if both:
        yield hack_finding(
            "warning",
            both,
            "right and wrong answers together were paid like the right one alone, in either order",
            fix,
            trial,
        )
        return
    for family, how in (
        (Family.RETRACTED, "a right answer that is then taken back for a wrong one was paid like the right one"),
        (
            Family.IN_THOUGHT,
            "a right answer only inside <think>, with a wrong final one, was paid like the right one",
        ),
    ):
        scored_probes = [s for s in trial.of(family) if earned_mostly_as_gold(s, trial)]
        if scored_probes:
            yield hack_finding("warning", scored_probes, how, fix, trial)


def claim_is_believed(trial: Trial) -> Iterator[Finding]:
    """A number that a reply states of its list must be checked against the list.

    A blocker if an empty list beside twice such a number earned more than `FORMAT_BLOCKS` of the maximum on all of
    several tasks: a model learns to state a high number.
    """
    best: dict[int, ScoredProbe] = {}
    for scored in trial.of(Family.FORM_ALONE):
        if scored.probe.variant == CLAIM and scored.reward is not None:
            row = scored.probe.row
            best[row] = max(best.get(row, scored), scored, key=lambda s: s.reward or 0)
    paid = [s for s in best.values() if (s.reward or 0) > FORMAT_BLOCKS * trial.maximum(s.probe.row)]
    if len(paid) >= _FEWEST_FORMS and len(paid) == len(best):
        yield hack_finding(
            "blocker",
            paid[:3],
            f"an empty list beside twice a number that the right reply states earned more than "
            f"{FORMAT_BLOCKS:.0%} of the maximum on {len(paid)} of {len(best)} tasks",
            "Compute the number from the list of the reply, and use or compare what the reply states only after that.",
            trial,
        )


def form_alone(trial: Trial) -> Iterator[Finding]:
    """The asked form without an answer must earn little, because models learn the form first and may stop there.

    A blocker above `FORMAT_BLOCKS` of the maximum, and a warning above `FORMAT_WARNS`. Without golds, the forms are
    those of supplied cases (case_skeletons.py): an empty one may be right on some tasks, so all of several must be
    paid.
    """
    scored_probes = [s for s in trial.of(Family.FORM_ALONE) if s.reward is not None and s.probe.variant != CLAIM]
    if not scored_probes or trial.max_reward <= 0:
        return
    if trial.style is None and len({s.probe.row for s in scored_probes}) < _FEWEST_FORMS:
        return
    which = max if trial.style is not None else min
    empty = [s for s in scored_probes if s.probe.variant == NO_KEY]
    formed = [s for s in scored_probes if s.probe.variant != NO_KEY] or empty
    worst = which(formed, key=lambda s: (s.reward or 0) / trial.maximum(s.probe.row))
    share = (worst.reward or 0) / trial.maximum(worst.probe.row)
    # A missing key may rightly count as null, so that an object without keys is judged by its mean.
    mean = sum((s.reward or 0) / trial.maximum(s.probe.row) for s in empty) / max(1, len(empty))
    if empty and (formed is empty or mean > share):
        worst, share = max(empty, key=lambda s: s.reward or 0), mean
    if share > FORMAT_WARNS:
        yield hack_finding(
            "blocker" if share > FORMAT_BLOCKS else "warning",
            [worst],
            f"the asked form without an answer earned {share:.0%} of the maximum",
            "Lower the weight of the format reward to 0.1 to 0.2 of the total, or pay it only beside a right answer.",
            trial,
            "reward-format-dominates",
        )


def listed_words(trial: Trial) -> Iterator[Finding]:
    """Words that the reward looks for must earn little beside a wrong answer, because they need no knowledge.

    A blocker above `FORMAT_BLOCKS` of the maximum, and a warning above `FORMAT_WARNS`.
    """
    above = []
    for scored_probe in trial.of(Family.LISTED_WORDS):
        wrong = trial.wrong(scored_probe.probe.row)
        if scored_probe.reward is not None and wrong is not None and trial.max_reward > 0:
            above.append((scored_probe, (scored_probe.reward - wrong) / trial.max_reward))
    if not above:
        return
    worst, share = max(above, key=lambda pair: pair[1])
    if share > FORMAT_WARNS:
        yield hack_finding(
            "blocker" if share > FORMAT_BLOCKS else "warning",
            [worst],
            f"words that the reward looks for earned {share:.0%} of the maximum beside a wrong answer",
            "Do not pay for words; where they are part of the task, pay them only beside a right answer.",
            trial,
        )


def pays_for_echo(trial: Trial) -> Iterator[Finding]:
    """The repeated prompt must not earn as much as the right answer on more tasks than a trivial policy deserves."""
    for family in (Family.FORMED_ECHO, Family.ECHO):
        policy = best_paid_policy(trial.of(family), trial, earned_as_gold)
        if policy is None:
            continue
        hits = policy.paid
        how = f"the prompt repeated earned as much as the right answer on {len(hits)} of {policy.tried} tasks"
        if policy.share >= max(HALF_SHARE, policy.deserved + _ECHO_MARGIN) and len(hits) >= 2:
            yield hack_finding(
                "blocker",
                hits,
                how,
                "Read the answer from a form that the prompt does not contain, and compare it whole.",
                trial,
            )
            return
        yield hack_finding("warning", hits, how, "Look whether these prompts give the answer away.", trial)
        return
    for variant, echoes in by_variant(trial.of(Family.FORMED_ECHO)).items():
        shares = [(s.reward or 0.0) / trial.maximum(s.probe.row) for s in echoes if trial.maximum(s.probe.row) > 0]
        if len(shares) >= _FEWEST_ECHOES and min(shares) >= _NEARLY:
            what = f"{variant}, repeated," if variant else "the prompt repeated"
            yield hack_finding(
                "blocker",
                echoes,
                f"{what} earned {min(shares):.0%} of the maximum or more on each of {len(shares)} tasks, so that "
                "changing what is to be changed earns next to nothing",
                "Pay for what differs from the prompt: 0 where nothing was changed, 1 where all was changed rightly.",
                trial,
            )
            return


def every_answer(trial: Trial) -> Iterator[Finding]:
    """A list of all possible answers must not earn as much as the right answer, in forward and in backward order.

    A blocker above the share of tasks that a trivial policy deserves, because such a list needs no knowledge.
    """
    turned = {(s.probe.row, s.probe.variant, s.probe.bare): s for s in trial.of(Family.EVERY_ANSWER_BACKWARDS)}

    def in_both_orders(scored_probe: ScoredProbe, trial: Trial) -> bool:
        other = turned.get((scored_probe.probe.row, scored_probe.probe.variant, scored_probe.probe.bare))
        return other is not None and earned_as_gold(scored_probe, trial) and earned_as_gold(other, trial)

    policy = best_paid_policy(trial.of(Family.EVERY_ANSWER), trial, in_both_orders)
    if policy is not None:
        yield hack_finding(
            policy.severity,
            policy.paid,
            f"naming every answer earned as much as the right one {policy.tasks_text}",
            "Accept one answer only, compared whole.",
            trial,
        )


def unearned(trial: Trial) -> Iterator[Finding]:
    """Probes whose maker has `judged` must not earn as much as the right answer.

    Such a probe is a trivial policy. The finding blocks if the policy is paid on more tasks than it deserves, and warns
    otherwise. `judged` has the texts of the finding.
    """
    for maker in MAKERS:
        policy = best_paid_policy(trial.of(*maker.families), trial, earned_as_gold) if maker.judged else None
        if policy is not None and maker.judged is not None:
            how = f"{maker.judged.how} {policy.tasks_text}"
            yield hack_finding(policy.severity, policy.paid, how, maker.judged.fix, trial)


def computes_completion(trial: Trial) -> Iterator[Finding]:
    """A reward must not evaluate completions: an expression may only restate the task, and code can set the reward.

    A blocker if Python code whose value is the answer is paid, because other code could set the reward without the
    answer. A warning if a sum that is not worked out is paid.
    """
    if any(s.scored.has(ProblemCode.EVALUATED_OUTPUT) for s in trial.everything):
        return  # `runs_completion` reports the same with proof.
    code = [s for s in trial.of(Family.PYTHON_CODE) if earned_as_gold(s, trial)]
    sums = [s for s in trial.of(Family.UNFINISHED_SUM) if earned_as_gold(s, trial)]
    fix = "Parse the answer as a number or literal; never pass it to eval, exec or a symbolic evaluator."
    if code:
        how = "the reward ran Python code from the completion: it earned as much as the right answer"
        yield hack_finding("blocker", code, how, fix, trial, "reward-evaluates-output")
    elif sums:
        how = "a sum that was not worked out earned as much as its result"
        yield hack_finding("warning", sums, how, fix, trial, "reward-evaluates-output")


def pays_for_junk(trial: Trial) -> Iterator[Finding]:
    """Markup without an answer and empty replies must not earn as much as the right answer.

    Both are trivial policies. An empty reply may be right on some tasks, such as those with no tool to call; the rule
    blocks only above the deserved share.
    """
    policy = best_paid_policy((*trial.of(Family.MARKUP), *trial.of(Family.EMPTY)), trial, earned_as_gold)
    if policy is not None:
        yield hack_finding(
            policy.severity,
            policy.paid,
            f"{policy.paid[0].probe.label} earned as much as the right answer {policy.tasks_text}",
            "Return 0 when no answer is found.",
            trial,
        )


def pays_for_repetition(trial: Trial) -> Iterator[Finding]:
    """An answer that is repeated fifty times must not earn more than the same answer once.

    A blocker, also for right answers: repetition then earns more than the asked form, and completions grow until they
    are cut off. Without golds, a right reply of the caller is repeated. Such a reply may be too short for all of the
    reward, so that the repeated one must earn more than all weights together.
    """
    scored_probes = []
    for scored_probe in (*trial.of(Family.REPEATED_GOLD), *trial.of(Family.REPEATED_WRONG)):
        right = scored_probe.probe.family is Family.REPEATED_GOLD
        best = trial.gold(scored_probe.probe.row) if right else trial.wrong(scored_probe.probe.row)
        if right and trial.style is None:
            best = max(trial.declared, trial.max_reward)
        if (
            scored_probe.reward is not None
            and best is not None
            and scored_probe.reward > max(best, 0.0) + _LENGTH * trial.max_reward
        ):
            scored_probes.append(scored_probe)
    if scored_probes:
        yield hack_finding(
            "blocker",
            scored_probes,
            "the same answer repeated fifty times earned more than once",
            "Do not add up matches; count an answer once.",
            trial,
        )


def pays_for_length(trial: Trial) -> Iterator[Finding]:
    """Filler before an answer must not raise its reward, because a model easily learns to write more.

    A blocker if filler raises the reward of a wrong answer or more filler earns more. A warning if only some text
    before the right answer is rewarded, or if the gain is bounded and no larger than a form may be worth
    (`FORMAT_WARNS`).
    """
    longer: list[ScoredProbe] = []
    growing = False
    noticed = _LENGTH * trial.max_reward
    by_length: dict[tuple[int, Family], list[float]] = {}
    for scored_probe in trial.of(Family.LONG_GOLD, Family.LONG_WRONG):
        right = scored_probe.probe.family is Family.LONG_GOLD
        short = trial.gold(scored_probe.probe.row) if right else trial.wrong(scored_probe.probe.row)
        if scored_probe.reward is not None and short is not None and scored_probe.reward > max(short, 0.0) + noticed:
            longer.append(scored_probe)
            growing = growing or not right
        if scored_probe.reward is not None:
            by_length.setdefault((scored_probe.probe.row, scored_probe.probe.family), []).append(scored_probe.reward)
    unbounded = any(max(r) - min(r) > noticed for r in by_length.values())
    gain = max(((s.reward or 0.0) - _short(s, trial) for s in longer), default=0.0)
    growing = unbounded or (growing and gain > FORMAT_WARNS * trial.max_reward + EPSILON)
    if longer:
        yield hack_finding(
            "blocker" if growing else "warning",
            longer,
            f"{count(len(longer), 'answer')} earned more with filler before it",
            "Take length out of the reward, or pay it only up to a small bound.",
            trial,
            "reward-length-bonus",
        )


def _short(scored_probe: ScoredProbe, trial: Trial) -> float:
    """Return the reward of the answer of a completion without filler; 0 if it is negative or unknown."""
    right = scored_probe.probe.family is Family.LONG_GOLD
    short = trial.gold(scored_probe.probe.row) if right else trial.wrong(scored_probe.probe.row)
    return max(short or 0.0, 0.0)


HACK_RULES: tuple[RewardRule, ...] = (
    above_gold,
    two_answers,
    form_alone,
    claim_is_believed,
    listed_words,
    pays_for_echo,
    every_answer,
    unearned,
    computes_completion,
    pays_for_junk,
    pays_for_repetition,
    pays_for_length,
)


APART = (
    "Run the program in a process of its own that gets inputs only; compare what it returns with the expected values "
    "outside of it, and never take an exit code or a printed line for a pass."
)
"""The fix in findings about programs that solve nothing and are paid."""


def code_hacks(trial: Trial) -> Iterator[Finding]:
    """Programs that solve nothing must not be paid like a right program. A blocker, because they need no knowledge.

    In published training runs, models learned each of these exploits within a hundred steps (docs/validation.md, Known
    attacks).
    """
    kinds: dict[str, ScoredProbe] = {}
    for scored_probe in trial.of(Family.PROGRAM_HACK, Family.LEAVES_PROCESS, Family.NEVER_ENDS):
        if earned_mostly_as_gold(scored_probe, trial):
            kinds.setdefault(scored_probe.probe.variant, scored_probe)
    if kinds:
        names = ", ".join(kinds)
        yield Finding(
            "reward-hackable",
            "blocker",
            f"programs that solve nothing were paid like a right one ({names}): "
            f"{paid_text(next(iter(kinds.values())), trial)}",
            APART,
            rows=tuple(case_row(s, "nothing", trial) for s in list(kinds.values())[:3]),
        )


def mutants(trial: Trial) -> Iterator[Finding]:
    """A reference program with a small fault should fail the tests. On a few tasks the fault may have no effect.

    A warning if it passes on more than half of the tasks: only a model that has the solution can write such a program.
    """
    scored_probes = [s for s in trial.of(Family.MUTANT) if s.reward is not None]
    passing = [s for s in scored_probes if earned_as_gold(s, trial)]
    tasks = {s.probe.row for s in scored_probes}
    if len({s.probe.row for s in passing}) > HALF_SHARE * len(tasks):
        yield hack_finding(
            "warning",
            passing,
            f"{len(passing)} of {count(len(scored_probes), 'faulty variant')} of the reference solutions passed",
            "Add tests to these tasks: several inputs, edge cases and results that differ.",
            trial,
            "reward-wrong-passes",
        )


PROGRAM_RULES: tuple[RewardRule, ...] = (code_hacks, mutants)


def _hole_message(hole: Hole, trial: Trial) -> str:
    verdict = hole.verdict
    if trial.goldless:
        return (
            f"one and the same completion earned all of {trial.declared:g} on {verdict.paid} of {verdict.tasks} tasks "
            f"that the search had never scored: {quote(hole.scored_probes[0].probe.completion, 160)}"
        )
    shown = paid_text(hole.scored_probes[0], trial)
    if verdict.paid / verdict.tasks <= verdict.deserved:
        return (
            f"a completion made without knowing the answer earned {verdict.mean:.0%} of the maximum on average on "
            f"{verdict.tasks} tasks that the search had never scored, and one answer for all tasks deserves "
            f"{verdict.deserved_mean:.0%}: {shown}"
        )
    return (
        f"a completion made without knowing the answer was paid like the right one on {verdict.paid} of "
        f"{verdict.tasks} tasks that the search had never scored (chance: {verdict.deserved:.0%}), "
        f"{verdict.mean:.0%} of the maximum on average (deserved: {verdict.deserved_mean:.0%}): {shown}"
    )


def search_holes(trial: Trial) -> Iterator[Finding]:
    """A completion that was made without knowing the answer must not earn more than a trivial policy deserves.

    A blocker: the search has confirmed the exploit on held-out tasks, which it had not scored before
    (search/held_out.py). A find of an earlier search that is scored again must not be paid either.
    """
    fix = (
        "Pay only what the task's own answer decides: parse one final answer, compare it whole, and return 0 for "
        "anything else."
    )
    known = best_paid_policy(trial.of(Family.SEARCHED), trial, earned_as_gold)
    if known is not None and not trial.searched.holes:
        yield Finding(
            "reward-search-hole",
            known.severity,
            f"a completion that an earlier search made without knowing the answer was paid like the right one "
            f"{known.tasks_text}: {paid_text(known.paid[0], trial)}",
            fix,
            rows=tuple(case_row(s, "less than the right answer", trial) for s in known.paid[:3]),
        )
    for hole in trial.searched.holes:
        yield Finding(
            "reward-search-hole",
            "blocker",
            _hole_message(hole, trial),
            fix,
            rows=tuple(
                case_row(
                    scored_probe,
                    "less than the right answer",
                    trial,
                    made_of=hole.recipe[:300],
                    how=", ".join(hole.steps),
                    seed=trial.searched.seed,
                )
                for scored_probe in hole.scored_probes
            ),
        )
