"""Rules about answers, on trials with chosen rewards: right beats wrong, and golds earn the maximum."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prime_lab_mcp.lab.rewards.findings import reward_findings, sanity_checks
from prime_lab_mcp.lab.rewards.goldless import SAYS_NONE
from prime_lab_mcp.lab.rewards.golds_alone import refused_golds
from prime_lab_mcp.lab.rewards.observations import (
    HeldOutVerdict,
    Hole,
    RepeatedScore,
    ScoredCase,
    ScoredProbe,
    SearchOutcome,
    Trial,
)
from prime_lab_mcp.lab.rewards.probes.catalogue import NO_KEY, Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import gold_pass_rate
from prime_lab_mcp.lab.rewards.rules.answers import marked_golds_fail
from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.solutions import Solved, solution_script
from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.scoring import Component, RolloutResult, Scored
from tests.lab.rewards.rules.trials import GOLDS, REWARDS, STYLE, found, scored, scored_probe, sound


def test_a_sound_reward_has_no_finding() -> None:
    assert found(sound()) == set()
    assert gold_pass_rate(sound()) == 1.0
    assert all(check.passed for check in sanity_checks(sound()))


def test_one_unpaid_gold_in_ten_fails_and_is_shown() -> None:
    golds = (*(scored_probe(Family.GOLD, "", 1.0, row=n) for n in range(9)), scored_probe(Family.GOLD, "", 0.0, row=9))
    findings = reward_findings(sound(golds=golds))
    assert [f.code for f in findings] == ["reward-gold-fails"]
    assert findings[0].rows[0]["task"] == 9
    assert findings[0].rows[0]["gold"] == '"49"'


def test_a_wrong_answer_paid_like_gold_blocks_but_only_warns_within_a_tolerance() -> None:
    assert found(sound(scored_probe(Family.WRONG, "longer number", 1.0))) == {("reward-wrong-passes", "blocker")}
    assert found(sound(scored_probe(Family.WRONG, "nearly", 1.0, near=True))) == {("reward-wrong-passes", "warning")}


def test_partly_right_answers_above_half_only_warn() -> None:
    assert found(sound(scored_probe(Family.WRONG, "one key missing", 0.7))) == {("reward-wrong-passes", "warning")}


def test_silence_worth_more_than_a_wrong_answer_blocks() -> None:
    assert ("reward-malformed-beats-wrong", "blocker") in found(sound(scored_probe(Family.EMPTY, "white space", 0.4)))


def test_form_without_answer_warns_above_a_fifth_and_blocks_above_three_tenths() -> None:
    assert found(sound(scored_probe(Family.FORM_ALONE, "nothing", 0.2))) == set()
    assert found(sound(scored_probe(Family.FORM_ALONE, "nothing", 0.25))) == {("reward-format-dominates", "warning")}
    assert found(sound(scored_probe(Family.FORM_ALONE, "nothing", 0.4))) == {("reward-format-dominates", "blocker")}
    assert found(sound(scored_probe(Family.FORM_ALONE, "nothing", -0.2))) == {("reward-range", "info")}


def test_an_object_without_keys_is_judged_by_its_mean_because_a_missing_key_may_count_as_null() -> None:
    def empty(*rewards: float) -> set[tuple[str, str]]:
        return found(sound(*(scored_probe(Family.FORM_ALONE, NO_KEY, r, row=n) for n, r in enumerate(rewards))))

    assert empty(0.8, 0.0, 0.0, 0.0, 0.0) == set()
    assert empty(0.8, 0.2, 0.4, 0.2, 0.4) == {("reward-format-dominates", "blocker")}


EVERY = (Family.EVERY_ANSWER, Family.EVERY_ANSWER_BACKWARDS)


def test_a_wrong_reply_after_calls_that_handed_the_right_answer_in_is_no_wrong_answer() -> None:
    """A solution's call of `submit` earned 0.9, and a silly last sentence behind it was called a wrong answer."""

    def after_calls(*silent: float) -> set[tuple[str, str]]:
        wrong = [scored_probe(Family.WRONG, "nonsense", 0.9, row=n) for n in range(10)]
        named = [scored_probe(f, "all", 1.0, row=n) for n in range(10) for f in EVERY]
        empty = [scored_probe(Family.EMPTY, "empty reply", reward, row=n) for n in range(10) for reward in silent]
        malformed = [scored_probe(Family.MALFORMED_WRONG, "no tag", 0.9, row=0)]
        given = [replace(s, probe=replace(s.probe, given=1)) for s in (*wrong, *named, *empty, *malformed)]
        known = [scored_probe(Family.WRONG, "off by one", 0.9)]
        return found(sound(*given, *(replace(s, probe=replace(s.probe, given=1)) for s in known)))

    assert not {code for code, severity in after_calls(0.9) if severity == "blocker"}
    assert {("reward-wrong-passes", "warning"), ("reward-hackable", "blocker")} <= after_calls(0.1)


def test_two_answers_warn_in_both_orders_as_only_somebody_who_knows_one_profits_and_the_last_may_count() -> None:
    last = scored_probe(Family.GOLD_LAST, "", 1.0)
    first = scored_probe(Family.GOLD_FIRST, "", 1.0)
    assert found(sound(last)) == set()
    assert found(sound(last, first)) == {("reward-hackable", "warning")}


def test_an_accidental_echo_only_warns() -> None:
    scored_probes = [scored_probe(Family.ECHO, "", float(n == 0), row=n) for n in range(8)]
    gold = [scored_probe(Family.GOLD, "", 1.0, row=n) for n in range(1, 8)]
    assert found(sound(*scored_probes, *gold)) == {("reward-hackable", "warning")}


def test_more_than_any_right_answer_blocks() -> None:
    assert ("reward-hackable", "blocker") in found(sound(scored_probe(Family.REPEATED_GOLD, "", 3.0)))


def test_broken_scoring_has_codes_of_its_own_and_is_no_low_score() -> None:
    def only(*problems: str, error: str = "") -> set[tuple[str, str]]:
        probe = Draft(Family.ODD_CHARACTERS, "x", "1").probe("0/x", 0)
        return found(sound(ScoredProbe(probe, scored(None, *problems, error=error))))

    assert only(error="bad") == {("reward-raises", "blocker")}
    nul = Draft(Family.ODD_CHARACTERS, "a\0b", "7").probe("0/nul", 0)
    assert found(sound(ScoredProbe(nul, scored(None, error="embedded null byte")))) == {("reward-raises", "warning")}
    assert only("exited", error="exit 3") == {("reward-raises", "blocker")}
    assert only("timeout", error="no score") == {("reward-slow", "blocker")}
    assert only("nonfinite") == {("reward-nonfinite", "blocker")}
    assert only("not-a-float:str", error="str") == {("reward-type", "blocker")}
    assert only("sync-reward", error="not async") == {("reward-sync", "blocker")}
    assert only("task-changed") == {("tasks-change", "blocker")}
    assert only("not-run", error="earlier") == set()


def test_golds_that_were_not_run_are_not_counted() -> None:
    golds = (
        *(scored_probe(Family.GOLD, "", 1.0, row=n) for n in range(9)),
        scored_probe(Family.GOLD, "", None, "not-run", row=9),
    )
    assert gold_pass_rate(sound(golds=golds)) == 1.0


def test_chance_and_shared_state_are_told_apart() -> None:
    probe = Draft(Family.GOLD, "g").probe("0/g", 0)
    chance = RepeatedScore(probe, scored(0.1), scored(0.7), scored(0.3))
    state = RepeatedScore(probe, scored(1.0), scored(0.0), scored(0.0))
    assert found(sound(repeats=(chance,))) == {("reward-nondeterministic", "blocker")}
    assert found(sound(repeats=(state,))) == {("reward-order-dependent", "blocker")}


def test_where_two_rewards_alternate_chance_is_named_beside_the_order_of_scoring() -> None:
    """Of three draws between two values two always agree, now the first two and now the last two."""
    probe = Draft(Family.GOLD, "g").probe("0/g", 0)
    last, first = (RepeatedScore(probe, *map(scored, drawn)) for drawn in ((0.1, 0.1, 1.0), (1.0, 0.1, 0.1)))
    mixed, few, many = (reward_findings(sound(repeats=r))[0] for r in ((last, last, first), (first,), (first,) * 3))
    assert {found.code for found in (mixed, few, many)} == {"reward-order-dependent"}
    for unclear in (mixed, few):
        assert unclear.message.endswith("the reward depends on what was scored before, or on chance")
        assert "no random numbers" in str(unclear.fix)
    assert many.message.endswith("the reward depends on what was scored before")


def test_reasoning_before_the_answer_must_not_cost_it() -> None:
    assert found(sound(scored_probe(Family.AFTER_REASONING, "reasoning", 0.0))) == {("reward-too-strict", "blocker")}
    assert found(sound(scored_probe(Family.SPELLING, "spaces", 0.0))) == {("reward-too-strict", "warning")}
    reasoned = scored_probe(Family.AFTER_REASONING, "reasoning", 0.0)
    assert found(sound(reasoned, answer_alone=True)) == {("reward-too-strict", "warning")}


def test_warnings_that_only_follow_from_unpaid_solutions_are_left_out() -> None:
    spelling = scored_probe(Family.SPELLING, "spaces", 0.0)
    wrong = scored_probe(Family.WRONG, "longer number", 1.0)

    def solved(*rewards: float) -> Solved:
        results = [RolloutResult(({"role": "assistant", "content": "5"},), r, "ended", True, again=r) for r in rewards]
        return Solved(tuple(PlayedScript(n, solution_script(True), r) for n, r in enumerate(results)))

    assert ("reward-too-strict", "warning") in found(sound(spelling, solved=solved(1.0, 1.0)))
    (finding,) = reward_findings(sound(spelling, solved=solved(1.0, 0.0)))
    assert finding.code == "reward-gold-fails"
    assert "reward-too-strict" in finding.fix
    assert ("reward-wrong-passes", "blocker") in found(sound(spelling, wrong, solved=solved(1.0, 0.0)))


def test_a_reward_that_a_rollout_does_not_earn_is_not_constant() -> None:
    idle = RolloutResult(({"role": "assistant", "content": "Hm."},), 0.0, "ended", True, again=0.0)
    golds = (scored_probe(Family.GOLD, "", 1.0),)
    alone = Trial(REWARDS, None, False, golds=golds)
    assert [c.passed for c in sanity_checks(alone) if c.code == "reward-constant"] == [False]
    played = Trial(REWARDS, None, False, golds=golds, rollouts=(PlayedScript(0, solution_script(True), idle),))
    assert [c.passed for c in sanity_checks(played) if c.code == "reward-constant"] == [True]


def test_where_no_rollout_had_ended_in_time_nothing_is_constant() -> None:
    wrong = tuple(scored_probe(Family.WRONG, f"wrong {n}", 0.0) for n in range(5))
    slow = RolloutResult((), None, "slow", False)
    late = Solved(tuple(PlayedScript(n, solution_script(True), slow) for n in range(3)), supplied=True)
    supplied = tuple(ScoredCase(scored_probe(Family.SUPPLIED, f"case {n}", 0.0), "low") for n in range(4))
    assert found(Trial(REWARDS, None, False, scored_probes=wrong, supplied=supplied, solved=late)) == {
        ("rollouts-too-slow", "blocker")
    }
    assert ("reward-constant", "blocker") in found(Trial(REWARDS, None, False, scored_probes=wrong, supplied=supplied))


def test_without_golds_eight_cases_of_both_sides_decide() -> None:
    def cases(high: int, low: int) -> tuple[ScoredCase, ...]:
        made = [(1.0, "high")] * high + [(0.0, "low")] * low
        return tuple(
            ScoredCase(scored_probe(Family.SUPPLIED, f"case {n}", paid), side) for n, (paid, side) in enumerate(made)
        )  # type: ignore[arg-type]

    def without_golds(supplied: tuple[ScoredCase, ...]) -> Trial:
        return Trial(REWARDS, None, False, supplied=supplied)

    assert found(without_golds(())) == {("reward-no-gold", "blocker")}
    assert found(without_golds(cases(6, 2))) == {("reward-no-gold", "blocker")}
    assert found(without_golds(cases(5, 3))) == set()


def test_supplied_cases_are_met_by_total_share_or_main_component() -> None:
    parts = {"correct": Component(0.0, 1.0), "form": Component(1.0, 0.2)}
    wrong = ScoredProbe(Draft(Family.SUPPLIED, "c", "c").probe("c", 0), Scored("c", 0.2, parts))
    assert found(sound(supplied=(ScoredCase(wrong, 0.0),))) == set()
    assert found(sound(supplied=(ScoredCase(wrong, 1.0),))) == {("reward-too-strict", "blocker")}


def test_a_case_that_earned_what_its_caller_expects_is_no_failing_case_although_it_beats_the_golds() -> None:
    rewards = (*REWARDS, RewardInfo("unit", 0.5, "reward", True))
    beats = ScoredProbe(
        Draft(Family.SUPPLIED, "21.5 km", "c").probe("c", 0),
        Scored("c", 1.5, {"correct": Component(1.0, 1.0), "unit": Component(1.0, 0.5)}),
    )
    for expected, shown in ((1.5, 0), ("high", 0), (1.2, 1)):
        trial = sound(supplied=(ScoredCase(beats, expected),), rewards=rewards)
        beaten = next(f for f in reward_findings(trial) if f.code == "reward-gold-beaten")
        assert len(beaten.rows) == shown, expected
        assert "21.5 km" in beaten.message
        assert "GOLD {info.unit}" in str(beaten.fix)


def test_solutions_of_one_reply_are_said_not_to_be_read_where_golds_earn_less_than_the_weights() -> None:
    rewards = (*REWARDS, RewardInfo("unit", 0.5, "reward", True))
    parts = {"correct": Component(1.0, 1.0), "unit": Component(0.0, 0.5)}
    golds = tuple(replace(scored_probe(Family.GOLD, "", 1.0, row=n), scored=Scored("x", 1.0, parts)) for n in range(10))
    trial = sound(golds=golds, solved=Solved(unread=True), rewards=rewards)
    assert ("reward-solution-broken", "warning") in found(trial)
    assert "reward-solution-broken" not in {code for code, _ in found(sound(solved=Solved(unread=True)))}


def test_a_hole_that_was_never_paid_in_full_is_not_said_to_be_paid_like_the_right_answer() -> None:
    paid = scored_probe(Family.SEARCHED, "the prompt", 0.42)
    for verdict, said in (
        (HeldOutVerdict(24, 0, 0.42, 0.05, 0.3, True), "earned 42% of the maximum on average on 24 tasks"),
        (HeldOutVerdict(24, 20, 0.9, 0.05, 0.3, True), "paid like the right one on 20 of 24 tasks"),
    ):
        outcome = SearchOutcome(holes=(Hole("text", ("seed",), verdict, (paid,), 3),))
        hole = next(f for f in reward_findings(sound(searched=outcome)) if f.code == "reward-search-hole")
        assert said in hole.message
        assert "on 0 of" not in hole.message


def test_every_blocker_says_what_to_do_next() -> None:
    trial = sound(
        scored_probe(Family.EVERY_ANSWER, "", 1.0),
        scored_probe(Family.WRONG, "x", 1.0),
        scored_probe(Family.EMPTY, "empty reply", 1.0),
    )
    assert reward_findings(trial)
    assert all(f.fix for f in reward_findings(trial))


def test_right_answers_in_the_spelling_that_the_prompt_demands_must_be_paid() -> None:
    def demanded(*rewards: float) -> Trial:
        return sound(*(scored_probe(Family.ASKED_SPELLING, "the decimals", r, row=n) for n, r in enumerate(rewards)))

    contradicts = ("reward-contradicts-prompt", "blocker")
    assert contradicts in found(demanded(0, 0))
    assert found(demanded(1, 1)) == set()
    assert contradicts not in found(demanded(0, 1)), "another reason may explain one of them"
    assert contradicts not in found(demanded(0)), "one task is too few"
    assert contradicts in found(demanded(0, 0, 1, 1)), "a tolerance may pay roundings of large numbers only"
    assert contradicts not in found(demanded(0, 0, *[1] * 8))


@pytest.mark.parametrize(
    ("none", "other", "blocks"),
    [(1.0, 0.0, False), (1.0, 1.0, True), (0.0, 0.0, True)],
    ids=["none is paid", "anything is paid", "nothing is paid"],
)
def test_an_empty_gold_is_an_answer_where_the_reward_pays_a_reply_that_says_so(
    none: float, other: float, blocks: bool
) -> None:
    style = replace(STYLE, golds=replace(GOLDS, empty=(10, 11)))
    unstored = (
        scored_probe(Family.EMPTY, SAYS_NONE, none, row=10),
        scored_probe(Family.CROSS, "", other, row=10),
    )
    codes = found(sound(style=style, unstored=unstored))
    assert (("reward-no-gold", "blocker") in codes) == blocks


def alone(*earned: tuple[str, float]) -> list[tuple[str, ScoredProbe]]:
    return [(text, scored_probe(Family.GOLD, "", reward, row=row)) for row, (text, reward) in enumerate(earned)]


PAID = [(name, 0.9) for name in ("messina", "la mouette", "dieppe", "hull")]


@pytest.mark.parametrize(
    ("others", "mark"),
    [
        ([("zoë", 0.0), ("saint-malo", 0.0), ("o'hara", 0.0)], "a letter or sign other than A to Z, digits and blanks"),
        ([("Bergen", 0.0), ("Hull", 0.0), ("Oban", 0.0)], "a capital letter"),
        ([("zoë", 0.0), ("saint-malo", 0.0), ("o'hara", 0.9)], None),
        ([("zoë", 0.0), ("saint-malo", 0.0)], None),
        ([("bergen", 0.0), ("oban", 0.0), ("wick", 0.0)], None),
        ([("zoë", 0.5), ("saint-malo", 0.5), ("o'hara", 0.5)], None),
    ],
    ids=["signs", "capitals", "one is paid", "two", "no mark", "half"],
)
def test_answers_that_are_refused_for_a_mark_of_their_text_are_told(
    others: list[tuple[str, float]], mark: str | None
) -> None:
    found = refused_golds(alone(*PAID, *others))
    assert (found.mark if found is not None else None) == mark
    said = [(f.code, f.severity) for f in marked_golds_fail(replace(sound(), refused=found))]
    assert said == ([("reward-gold-fails", "blocker")] if mark else [])
