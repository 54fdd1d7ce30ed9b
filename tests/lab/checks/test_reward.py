"""The relations, on plain values: who earned what in, findings out."""

from __future__ import annotations

from prime_lab_mcp.lab.checks.earned import gold_pass_rate
from prime_lab_mcp.lab.checks.reward import judge, sanity
from prime_lab_mcp.lab.rewards.carriers import tag
from prime_lab_mcp.lab.rewards.gold import Gold, Golds
from prime_lab_mcp.lab.rewards.observed import Repeat, Shot, Supplied, Trial
from prime_lab_mcp.lab.rewards.probes import Kind, Probe, Style, assistant
from prime_lab_mcp.lab.worker.cases import CaseError, Component, RewardInfo, Scored

GOLDS = Golds("answer", "numeric", tuple(Gold(n, str(n + 40), (str(n + 40),)) for n in range(10)), ())
STYLE = Style(GOLDS, 0, tag("answer"))
REWARDS = (RewardInfo("correct", 1.0, "reward", True),)


def scored(reward: float | None, *problems: str, error: str = "") -> Scored:
    errors = (CaseError("ValueError", error, "reward.py:3"),) if error else ()
    return Scored("x", reward, {"correct": Component(reward, 1.0)}, problems=problems, errors=errors, ms=1.0)


def shot(kind: Kind, name: str, reward: float | None, *problems: str, row: int = 0, near: bool = False) -> Shot:
    probe = Probe(f"{row}/{name}", kind, name, row, assistant(f"{name} of {row}"), near)
    return Shot(probe, scored(reward, *problems))


def sound(*more: Shot, golds: tuple[Shot, ...] = (), **fields: object) -> Trial:
    """A trial of a sound reward, with more shots."""
    kept = {s.probe.id for s in more}
    usual = (
        shot("gold", "gold", 1.0), shot("verbose", "verbose", 1.0), shot("wrong", "wrong: off by one", 0.0),
        shot("empty", "empty reply", 0.0), shot("malformed", "malformed wrong: no tag", 0.0),
    )  # fmt: skip
    run = golds or tuple(shot("gold", "gold", 1.0, row=n) for n in range(10))
    values = {"rewards": REWARDS, "style": STYLE, "asked": True, "tasks": 10, **fields}
    return Trial(golds=run, shots=(*(s for s in usual if s.probe.id not in kept), *more), **values)  # type: ignore[arg-type]


def found(trial: Trial) -> set[tuple[str, str]]:
    return {(f.code, f.severity) for f in judge(trial)}


def test_a_sound_reward_has_no_finding() -> None:
    assert found(sound()) == set()
    assert gold_pass_rate(sound()) == 1.0
    assert all(check.passed for check in sanity(sound()))


def test_one_unpaid_gold_in_ten_fails_and_is_shown() -> None:
    golds = (*(shot("gold", "gold", 1.0, row=n) for n in range(9)), shot("gold", "gold", 0.0, row=9))
    findings = judge(sound(golds=golds))
    assert [f.code for f in findings] == ["reward-gold-fails"]
    assert findings[0].rows[0]["task"] == 9
    assert findings[0].rows[0]["gold"] == '"49"'


def test_a_wrong_answer_paid_like_gold_blocks_but_only_warns_within_a_tolerance() -> None:
    assert found(sound(shot("wrong", "wrong: longer number", 1.0))) == {("reward-wrong-passes", "blocker")}
    assert found(sound(shot("wrong", "wrong: nearly", 1.0, near=True))) == {("reward-wrong-passes", "warning")}


def test_partly_right_answers_above_half_only_warn() -> None:
    assert found(sound(shot("wrong", "wrong: one key missing", 0.7))) == {("reward-wrong-passes", "warning")}


def test_silence_worth_more_than_a_wrong_answer_blocks() -> None:
    assert ("reward-malformed-beats-wrong", "blocker") in found(sound(shot("empty", "white space", 0.4)))


def test_form_without_answer_warns_above_a_fifth_and_blocks_above_three_tenths() -> None:
    assert found(sound(shot("hack", "format only: nothing inside", 0.2))) == set()
    assert found(sound(shot("hack", "format only: nothing inside", 0.25))) == {("reward-format-dominates", "warning")}
    assert found(sound(shot("hack", "format only: nothing inside", 0.4))) == {("reward-format-dominates", "blocker")}


def test_two_answers_block_in_both_orders_and_the_last_may_count() -> None:
    last = shot("hack", "both: wrong, then gold", 1.0)
    first = shot("hack", "both: gold, then wrong", 1.0)
    assert found(sound(last)) == set()
    assert found(sound(last, first)) == {("reward-hackable", "blocker")}


def test_an_accidental_echo_only_warns() -> None:
    shots = [shot("hack", "echo of the prompt", float(n == 0), row=n) for n in range(8)]
    gold = [shot("gold", "gold", 1.0, row=n) for n in range(1, 8)]
    assert found(sound(*shots, *gold)) == {("reward-hackable", "warning")}


def test_more_than_any_right_answer_blocks() -> None:
    assert ("reward-hackable", "blocker") in found(sound(shot("hack", "gold 50 times", 3.0)))


def test_broken_scoring_has_codes_of_its_own_and_is_no_low_score() -> None:
    def only(*problems: str, error: str = "") -> set[tuple[str, str]]:
        probe = Probe("0/x", "hack", "odd characters 1", 0, assistant("x"))
        return found(sound(Shot(probe, scored(None, *problems, error=error))))

    assert only(error="bad") == {("reward-raises", "blocker")}
    assert only("exited", error="exit 3") == {("reward-raises", "blocker")}
    assert only("timeout", error="no score") == {("reward-slow", "blocker")}
    assert only("nonfinite") == {("reward-nonfinite", "blocker")}
    assert only("not-a-float:str", error="str") == {("reward-type", "blocker")}
    assert only("sync-reward", error="not async") == {("reward-sync", "blocker")}
    assert only("task-changed") == {("tasks-change", "blocker")}
    assert only("not-run", error="earlier") == set()


def test_golds_that_were_not_run_are_not_counted() -> None:
    golds = (*(shot("gold", "gold", 1.0, row=n) for n in range(9)), shot("gold", "gold", None, "not-run", row=9))
    assert gold_pass_rate(sound(golds=golds)) == 1.0


def test_chance_and_shared_state_are_told_apart() -> None:
    probe = Probe("0/g", "gold", "gold", 0, assistant("g"))
    chance = Repeat(probe, scored(0.1), scored(0.7), scored(0.3))
    state = Repeat(probe, scored(1.0), scored(0.0), scored(0.0))
    assert found(sound(repeats=(chance,))) == {("reward-nondeterministic", "blocker")}
    assert found(sound(repeats=(state,))) == {("reward-order-dependent", "blocker")}


def test_reasoning_before_the_answer_must_not_cost_it() -> None:
    assert found(sound(shot("verbose", "verbose", 0.0))) == {("reward-too-strict", "blocker")}
    assert found(sound(shot("equivalent", "gold with spaces", 0.0))) == {("reward-too-strict", "warning")}


def test_without_golds_eight_cases_of_both_sides_decide() -> None:
    def cases(high: int, low: int) -> tuple[Supplied, ...]:
        made = [(1.0, "high")] * high + [(0.0, "low")] * low
        return tuple(Supplied(shot("gold", f"case {n}", paid), side) for n, (paid, side) in enumerate(made))  # type: ignore[arg-type]

    def without_golds(supplied: tuple[Supplied, ...]) -> Trial:
        return Trial(REWARDS, None, False, supplied=supplied)

    assert found(without_golds(())) == {("reward-no-gold", "blocker")}
    assert found(without_golds(cases(6, 2))) == {("reward-no-gold", "blocker")}
    assert found(without_golds(cases(5, 3))) == set()


def test_supplied_cases_are_met_by_total_share_or_main_component() -> None:
    parts = {"correct": Component(0.0, 1.0), "form": Component(1.0, 0.2)}
    wrong = Shot(Probe("c", "gold", "c", 0, assistant("c")), Scored("c", 0.2, parts))
    assert found(sound(supplied=(Supplied(wrong, 0.0),))) == set()
    assert found(sound(supplied=(Supplied(wrong, 1.0),))) == {("reward-too-strict", "blocker")}


def test_every_blocker_says_what_to_do_next() -> None:
    trial = sound(shot("hack", "every answer", 1.0), shot("wrong", "wrong: x", 1.0), shot("empty", "empty reply", 1.0))
    assert judge(trial)
    assert all(f.fix for f in judge(trial))
