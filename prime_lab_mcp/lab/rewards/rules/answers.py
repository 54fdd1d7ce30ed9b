"""Rules about answers: a right answer earns more than a wrong one, and an empty one no more than a wrong one.

Further rules: every gold earns the maximum, and other spellings of the right answer are accepted. The rules about
partly right answers are in partly_right.py, those about what is known of right answers in known_answers.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.observations import PromptedGolds, ScoredProbe, StatedForm, Trial
from prime_lab_mcp.lab.rewards.probes.catalogue import ELSEWHERE
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import (
    GOLD_PASS,
    case_row,
    earned_in_full,
    exclude_not_run,
    gold_is_understood,
    gold_pass_rate,
    nearer_to_gold,
    paid_text,
)
from prime_lab_mcp.lab.rewards.rules.known_answers import cases_suffice, meets_expectation
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE, HALF_SHARE
from prime_lab_mcp.lab.rewards.trivial_policy import paid_for_calls


def gold_beaten(trial: Trial) -> Iterator[Finding]:
    """No supplied case should earn more than every gold. If one does, the golds are not the best answers."""
    high = [s.scored_probe for s in trial.supplied if s.high and s.scored_probe.reward is not None]
    best = max(high, key=lambda s: s.reward or 0.0, default=None)
    if best is None or trial.solved.scored or trial.max_reward <= EPSILON:
        return
    if (best.reward or 0.0) > trial.max_reward / FULL_SHARE + EPSILON:
        met = any(s.scored_probe is best and meets_expectation(s, trial) for s in trial.supplied)
        yield Finding(
            "reward-gold-beaten",
            "warning",
            f"a supplied case earned {best.reward:g}, and no gold more than {trial.max_reward:g}: the golds are not "
            f"the best answers: {paid_text(best, trial)}",
            "Compare both; what the golds lack belongs into the tasks' answers, into rendering, which takes fields of "
            "the task (GOLD {info.unit}), or, where rollouts have tools or turns, into a solution (lab://guide/rewards).",
            rows=() if met else (case_row(best, f"{trial.max_reward:g}, as the golds", trial),),
        )


def constant(trial: Trial) -> Iterator[Finding]:
    """A reward must vary: equal rewards give every rollout of a group an advantage of zero, so nothing is learned.

    If all completions earned 0 and the gold is not understood, or no solution could be played to its end on this
    machine, the right answer may be missing among them. Then other rules report what is not known instead.
    """
    rewards = [s.reward for s in trial.everything if s.reward is not None]
    if trial.style is None and not trial.supplied:
        return  # The rules in rules/goldless.py judge tasks without golds.
    if trial.stated is not None and not any(rewards):
        return  # `gold_fails` says which right answers are not paid.
    unknown = trial.solved.scored or trial.solved.not_played or not gold_is_understood(trial)
    if not any(rewards) and unknown:
        return
    kinds = {s.probe.kind for s in trial.everything if s.reward is not None}
    if len(rewards) >= 4 and max(rewards) - min(rewards) < EPSILON and (len(kinds) > 1 or len(trial.supplied) > 3):
        unpaid = [s.scored_probe for s in trial.supplied if s.high and not any(rewards)]
        among = ""
        if unpaid:
            what = "supplied case that should earn" if len(unpaid) == 1 else "supplied cases that should earn"
            among = f", among them {len(unpaid)} {what} much: {paid_text(unpaid[0], trial)}"
        rows = [case_row(s, "high", trial) for s in unpaid[:3]]
        others = [s for s in _kinds(trial) if s not in unpaid]
        yield Finding(
            "reward-constant",
            "blocker",
            f"right, wrong and empty completions all earned {rewards[0]:g}{among}",
            Fix(
                "Make the reward compare the completion with the task's answer, then call "
                if any(rewards)
                else "A reward that never pays is often wrong itself: read what its code takes out of a right reply, "
                "for instance which group of a pattern, and what it compares that with; mend it, then call ",
                NamedCall("test_reward"),
                ".",
            ),
            rows=(*rows, *(case_row(s, "another reward than other completions", trial) for s in others)),
        )


def contradicts_prompt(trial: Trial) -> Iterator[Finding]:
    """The right answer must be paid in the form that the prompt asks for.

    A blocker if another form earns more than twice as much: a model that follows the prompt then earns little, and
    training teaches the model to ignore the prompt. For JSON keys, any lower reward is a blocker, because no reply with
    the keys of the prompt earns the maximum. A warning if no prompt mentions the form that is paid, and the form that
    the prompts ask for is not known: they may describe the paid form in other words.
    """
    if not gold_is_understood(trial) or trial.by_rollouts or trial.style is None:
        return
    paid = trial.style.wrapper.wrap("\N{HORIZONTAL ELLIPSIS}")
    asked = trial.prompted
    if asked is None or asked.best <= EPSILON:
        if trial.form_unmentioned and not trial.interactive and trial.max_reward > EPSILON:
            yield _unmentioned(paid, trial)
        return
    if asked.mean >= (FULL_SHARE if asked.keys else HALF_SHARE) * asked.best - EPSILON:
        return
    if asked.keys:
        yield _unnamed_keys(asked, trial)
        return
    yield Finding(
        "reward-contradicts-prompt",
        "blocker",
        f"the prompt asks for {quote(asked.form, 60)}, and right answers in that form earn {asked.mean:g} on average; "
        f"written as {quote(paid, 80)} they earn {asked.best:g}",
        "Read the answer from the form that the prompt asks for, or ask for the form that the reward reads.",
        rows=tuple(
            case_row(s, f"{asked.best:g}", trial, case="gold in the asked form") for s in asked.scored_probes[:3]
        ),
    )


def _unmentioned(paid: str, trial: Trial) -> Finding:
    """Return the finding for a form that is paid and that no prompt mentions."""
    return Finding(
        "reward-contradicts-prompt",
        "warning",
        f"right answers are paid only as {quote(paid, 80)}, and the prompts do not mention that form",
        "Ask for this form in the prompt, or read the answer from the form that the prompt asks for.",
        rows=tuple(case_row(s, "what the prompt asks for", trial) for s in trial.golds[:2]),
    )


def _unnamed_keys(asked: PromptedGolds, trial: Trial) -> Finding:
    """Return the finding for golds whose JSON keys are not those that the prompt names."""
    names = ", ".join(f"{new!r} (the reward pays {old!r})" for old, new in asked.keys)
    return Finding(
        "reward-contradicts-prompt",
        "blocker",
        f"the prompt names the key {names}: right answers with the keys of the prompt earn {asked.mean:g} on average, "
        f"and {asked.best:g} with those of the stored answers",
        "Name the same keys in the prompt and in the reward.",
        rows=tuple(
            case_row(s, f"{asked.best:g}", trial, case="gold with the keys of the prompt")
            for s in asked.scored_probes[:3]
        ),
    )


def _kinds(trial: Trial) -> list[ScoredProbe]:
    """Return one completion of each of the first three kinds."""
    kinds: dict[str, ScoredProbe] = {}
    for scored_probe in trial.everything:
        kinds.setdefault(scored_probe.probe.kind, scored_probe)
    return list(kinds.values())[:3]


def gold_fails(trial: Trial) -> Iterator[Finding]:
    """Golds must earn the maximum: a task whose right answer is not paid teaches wrong answers."""
    rate = gold_pass_rate(trial)
    if rate is None or rate >= GOLD_PASS:
        return
    if trial.solved.scored and (trial.by_rollouts or trial.solved.best <= EPSILON):
        return  # The rules about solutions judge their rewards.
    scored = exclude_not_run(trial.golds)
    failing = [s for s in scored if not earned_in_full(s, trial)]
    if all(s.scored.broken for s in failing):
        return  # reward-raises and similar findings give the reason.
    if all(s.scored.judges for s in failing) and trial.max_reward > 0:
        return  # A judge may err; reward-judge-inaccurate limits how often.
    if trial.stated is not None:
        yield _unpaid_as_stated(trial.stated, failing, trial)
        return
    rescued = cases_suffice(trial) and rate == 0
    message = f"{len(failing)} of {count(len(scored), 'right answer')} did not earn the maximum of their task"
    if trial.max_reward > 0:
        message += f" (up to {trial.max_reward:g})"
    if trial.max_reward <= 0:
        message = f"no right answer earned anything, in none of {trial.renderings} ways to write it"
    yield Finding(
        "reward-gold-fails",
        "warning" if rescued else "blocker",
        message,
        Fix(
            "Compare how the reward reads the answer with how the tasks state it (the rows show "
            "both); mend the parsing or these rows, then call ",
            NamedCall("test_reward"),
            ".",
        ),
        rows=tuple(case_row(s, "the maximum", trial) for s in failing[:5]),
    )


def _unpaid_as_stated(stated: StatedForm, failing: Sequence[ScoredProbe], trial: Trial) -> Finding:
    """Return the blocker for right answers in the form that caller and prompts name, none of which is paid."""
    reads = ""
    if stated.paid:
        reads = f"; written as {quote(stated.paid, 80)} they earn {stated.paid_mean:g}"
    elif stated.patterns:
        named = " and ".join(quote(pattern, 120) for pattern in stated.patterns[:2])
        reads = f"; the code reads replies by {named}, and no other way to write them was found to be paid"
    return Finding(
        "reward-gold-fails",
        "blocker",
        f"none of {count(len(failing), 'right answer')} earns anything when it is written as "
        f"{quote(stated.template, 120)}, which the prompts ask for: {paid_text(failing[0], trial)}{reads}",
        Fix(
            "Read what the code takes out of such a reply, for instance which group of a pattern, and what it compares "
            "that with; mend it, then call ",
            NamedCall("test_reward"),
            " with the same rendering. If the form is not that of a right reply, call it with another one, or with "
            "cases.",
        ),
        rows=tuple(case_row(s, "the maximum", trial) for s in failing[:5]),
    )


def marked_golds_fail(trial: Trial) -> Iterator[Finding]:
    """Right answers must be paid whatever characters they have, also where few tasks have a solution to play.

    A blocker: answers with the mark are never paid, and none without the mark is refused.
    """
    found = trial.refused
    if found is not None:
        yield Finding(
            "reward-gold-fails",
            "blocker",
            f"{len(found.refused)} of {count(found.scored, 'right answer')} earn less than half of the others, each as "
            f"a reply without calls; they have {found.mark}, and no paid answer has",
            Fix("Normalise the reply and the stored answer in the same way, then call ", NamedCall("test_reward"), "."),
            rows=tuple(case_row(s, "what the other right answers earn", trial) for s in found.refused[:5]),
        )


def wrong_answer_passes(trial: Trial) -> Iterator[Finding]:
    """A wrong answer must earn less than the right answer of its task, and at most half of the maximum.

    A blocker for answers of a model that does not know the right one. A warning for texts that contain the right answer
    ("not X", "Xson"): the comparison is loose, but only a model that knows the answer can write them. If a list of many
    answers is paid, `every_answer` blocks.
    """
    as_right: list[ScoredProbe] = []
    over_half: list[ScoredProbe] = []
    tolerated: list[ScoredProbe] = []
    holding: list[ScoredProbe] = []
    for scored_probe in trial.of(Family.WRONG):
        gold = trial.gold(scored_probe.probe.row)
        if scored_probe.reward is None or gold is None or not trial.max_reward:
            continue
        if scored_probe.reward >= gold - EPSILON and scored_probe.reward > EPSILON:
            (holding if scored_probe.probe.knowing else tolerated if scored_probe.probe.near else as_right).append(
                scored_probe
            )
        elif scored_probe.probe.variant == ELSEWHERE:
            continue  # The only wrong answer to its task, which may be partly right.
        elif paid_for_calls(scored_probe, trial):
            continue  # The calls have handed the answer in, and the reply says something else afterwards.
        elif scored_probe.reward > HALF_SHARE * trial.maximum(scored_probe.probe.row) + EPSILON:
            over_half.append(scored_probe)
    if as_right:
        yield _paid_wrong("blocker", as_right, "earned as much as the right answer", trial)
    elif over_half and not _format_explains(trial):
        severity: Any = "blocker" if _high_floor(trial) else "warning"
        yield _paid_wrong(severity, over_half, "earned more than half of the maximum", trial)
    elif tolerated:
        yield _paid_wrong("warning", tolerated, "within 2% of the right number earned as much as it", trial)
    if holding and not as_right:
        yield _paid_wrong("warning", holding, "that hold the right answer earned as much as it alone", trial)


_WHOLE_FIX = (
    "Take one final answer from the completion and compare it whole, as a number or a normalised text; never test "
    "whether it contains the answer."
)
_PARTLY_FIX = (
    "Where partial credit is meant, let what is not right earn less than half of the maximum; otherwise compare one "
    "final answer whole, as a number or a normalised text."
)


def _paid_wrong(severity: Any, scored_probes: Sequence[ScoredProbe], how: str, trial: Trial) -> Finding:
    """Return the finding about paid wrong answers, the best paid first."""
    scored_probes = sorted(scored_probes, key=lambda s: -(s.reward or 0))
    whole = (scored_probes[0].reward or 0) >= trial.maximum(scored_probes[0].probe.row) - EPSILON
    return Finding(
        "reward-wrong-passes",
        severity,
        f"{count(len(scored_probes), 'wrong answer')} {how}: {paid_text(scored_probes[0], trial)}",
        _WHOLE_FIX if whole else _PARTLY_FIX,
        rows=tuple(case_row(s, "less than half of the maximum", trial) for s in scored_probes[:3]),
    )


def _high_floor(trial: Trial) -> bool:
    """Whether on at least half of the tasks every wrong answer earns more than half of the maximum.

    If only some wrong answers of a task do, these may be partly right.
    """
    lowest: dict[int, float] = {}
    for scored_probe in trial.of(Family.WRONG, Family.EMPTY, Family.MALFORMED_WRONG):
        if scored_probe.reward is not None and scored_probe.probe.variant != ELSEWHERE:
            lowest[scored_probe.probe.row] = min(
                scored_probe.reward, lowest.get(scored_probe.probe.row, scored_probe.reward)
            )
    high = sum(reward > HALF_SHARE * trial.maximum(row) for row, reward in lowest.items())
    return high >= len(lowest) / 2


def _format_explains(trial: Trial) -> bool:
    """Whether wrong answers earn no more than the empty form, which reward-format-dominates reports."""
    form = [s.reward for s in trial.of(Family.FORM_ALONE) if s.reward is not None]
    wrong = [s.reward for s in trial.of(Family.WRONG) if s.reward is not None]
    return bool(form and wrong) and max(wrong) <= max(form) + EPSILON


def malformed_beats_wrong(trial: Trial) -> Iterator[Finding]:
    """An empty or malformed completion must not earn more than a well-formed wrong answer.

    A blocker if such a completion earns a positive reward. A warning if it earns 0 and wrong answers earn less, as in
    exams with negative marks: the reward is consistent, but a model may learn to stop trying.
    """
    better = []
    for scored_probe in trial.of(Family.EMPTY, Family.MALFORMED_WRONG):
        wrong = trial.wrong(scored_probe.probe.row)
        above = wrong is not None and scored_probe.reward is not None and scored_probe.reward > wrong + EPSILON
        if above and not scored_probe.probe.near and not scored_probe.probe.knowing:
            better.append(scored_probe)
    if better:
        better.sort(key=lambda s: -(s.reward or 0.0))
        paid = (better[0].reward or 0.0) > EPSILON
        yield Finding(
            "reward-malformed-beats-wrong",
            "blocker" if paid else "warning",
            f"{count(len(better), 'empty or malformed completion')} earned more than a wrong answer in the right form: "
            f"{paid_text(better[0], trial)}",
            "Return 0 when no answer is found; never count the absence of something as right."
            if paid
            else "Let no answer cost as much as a wrong one, unless the task asks to stay silent when unsure.",
            rows=tuple(case_row(s, "no more than a wrong answer", trial) for s in better[:3]),
        )


def empty_golds(trial: Trial) -> Iterator[Finding]:
    """If some tasks have golds, every task should have one: a task without a gold always earns zero.

    An empty gold may be an answer, such as that no part fits. The reward shows this if it pays a reply that says so, or
    a supplied case, and pays no answer of another task there.
    """
    if (
        trial.style is not None
        and trial.style.golds.empty
        and not _nothing_is_an_answer(trial, trial.style.golds.empty)
    ):
        rows = trial.style.golds.empty
        severe = len(rows) > 0.01 * (len(rows) + len(trial.style.golds.golds))
        yield Finding(
            "reward-no-gold",
            "blocker" if severe else "warning",
            f"{count(len(rows), 'task')} have no gold answer while others have one (first: task {rows[0]})",
            "Drop these tasks when the taskset is loaded, or give them an answer.",
        )


def _nothing_is_an_answer(trial: Trial, rows: Sequence[int]) -> bool:
    half = HALF_SHARE * trial.max_reward
    others = [s.reward for s in trial.unstored if s.probe.family is Family.CROSS and s.reward is not None]
    stated = [s.reward for s in trial.unstored if s.probe.family is Family.EMPTY and s.reward is not None]
    stated += [
        s.scored_probe.reward
        for s in trial.supplied
        if s.high and s.scored_probe.probe.row in rows and s.scored_probe.reward is not None
    ]
    return half > EPSILON and max(stated, default=0.0) > half and bool(others) and max(others) < half


def ignores_format(trial: Trial) -> Iterator[Finding]:
    """A broken form must not earn more than the form that the prompt asks for, and should earn less.

    A blocker if a broken form of the right answer earns more: training then teaches the broken form. A warning if it
    earns the maximum.
    """
    scored_probes = [s for s in trial.of(Family.MALFORMED_GOLD, Family.UNCLOSED_GOLD) if s.reward is not None]
    above = [s for s in scored_probes if s.reward is not None and s.reward > (trial.gold(s.probe.row) or 0) + EPSILON]
    if above:
        yield Finding(
            "reward-malformed-beats-wrong",
            "blocker",
            "a right answer in a broken form earned more than in the form that is asked for: "
            f"{paid_text(above[0], trial)}",
            "Pay the asked form at least as much as any other.",
            rows=tuple(case_row(s, "no more than the right form", trial) for s in above[:3]),
        )
        return
    if trial.form_requested and scored_probes and all(earned_in_full(s, trial) for s in scored_probes):
        yield Finding(
            "reward-ignores-format",
            "warning",
            "the prompt asks for a form, and every broken form of the right answer earned the maximum too",
            "Read the answer only from the asked form, or add a small format reward (0.1 to 0.2).",
            rows=tuple(case_row(s, "less than the maximum", trial) for s in scored_probes[:2]),
        )
        return
    unclosed = [s for s in scored_probes if s.probe.family is Family.UNCLOSED_GOLD and earned_in_full(s, trial)]
    if unclosed:
        yield Finding(
            "reward-ignores-format",
            "warning",
            "an answer whose form was never closed earned the maximum, so a reply that ran out of tokens does too",
            "Read the answer only from a closed form.",
            rows=tuple(case_row(s, "less than the maximum", trial) for s in unclosed[:2]),
        )


_REASONING_COST = 0.3
"""Largest share of the maximum that a form may be worth (docs/validation.md, Reward tests)."""


def too_strict(trial: Trial) -> Iterator[Finding]:
    """A right answer after reasoning, or in a usual spelling, should earn as much as the gold alone.

    A blocker if reasoning before the asked form costs more than a format reward may be worth: models reason first, so
    their right answers are not paid. A smaller loss is a warning, because a format reward may require that nothing
    precedes the form. So is the loss of an answer without a form, unless the prompts ask for the answer at the end, and
    any loss where the prompts ask for the answer and nothing else.
    """
    if (gold_pass_rate(trial) or 0) < GOLD_PASS or trial.style is None:
        return
    reasoned = trial.of(Family.AFTER_REASONING)
    verbose = [s for s in reasoned if s.reward is not None and s.reward < 0.95 * trial.maximum(s.probe.row) - EPSILON]
    if verbose:
        lowest = (1 - _REASONING_COST) * trial.max_reward
        unpaid = any(not nearer_to_gold(s, trial) or (s.reward or 0.0) < lowest for s in verbose)
        formed = trial.style.wrapper.kind != "plain" or trial.answer_last
        severity: Any = "blocker" if unpaid and formed and not trial.answer_alone else "warning"
        yield Finding(
            "reward-too-strict",
            severity,
            f"a right answer after some reasoning earned less than alone: {paid_text(verbose[0], trial)}",
            "Find the answer behind any reasoning, at best in the last tag or box; where nothing but the answer may be "
            "replied, nothing has to be changed.",
            rows=tuple(case_row(s, "95% of the maximum", trial) for s in verbose[:2]),
        )
    yield from _spellings(trial)


def _spellings(trial: Trial) -> Iterator[Finding]:
    """Warn about refused spellings, with the number of times each was accepted. Rare spellings alone do not count."""
    usual = _refused(trial, Family.SPELLING, Family.BEFORE_SENTENCE)
    if usual:
        # Where the prompts ask for a unit, the number alone is no right answer.
        united = trial.style is not None and trial.style.golds.bare is not None
        rare = _refused(trial, Family.RARE_SPELLING, *(() if united else (Family.UNITLESS,)))
        listed = ", ".join(f"{name} ({taken})" for name, (taken, _) in {**usual, **rare}.items())
        yield Finding(
            "reward-too-strict",
            "warning",
            f"the right answer written otherwise earned less; how often it was taken: {listed}",
            "Before comparing, normalise what leaves the meaning of an answer as it is: "
            f"{', '.join({**usual, **rare})}.",
            rows=tuple(
                case_row(scored_probe, "what the gold earned", trial) for _, scored_probe in list(usual.values())[:3]
            ),
        )


def _refused(trial: Trial, *families: Family) -> dict[str, tuple[str, ScoredProbe]]:
    """Map refused spellings to the number of accepted completions (`2 of 8`) and one refused completion."""
    tried: dict[str, list[ScoredProbe]] = {}
    for scored_probe in trial.of(*families):
        if scored_probe.reward is not None:
            tried.setdefault(scored_probe.probe.variant or scored_probe.probe.label, []).append(scored_probe)
    refused: dict[str, tuple[str, ScoredProbe]] = {}
    for name, scored_probes in tried.items():
        missed = [s for s in scored_probes if not _nearly(s, trial)]
        if missed:
            refused[name] = (f"{len(scored_probes) - len(missed)} of {len(scored_probes)}", missed[0])
    return refused


def _nearly(scored_probe: ScoredProbe, trial: Trial) -> bool:
    """Whether a completion earned at least 90% of the maximum of its task."""
    return (
        scored_probe.reward is not None and scored_probe.reward >= 0.9 * trial.maximum(scored_probe.probe.row) - EPSILON
    )
