"""What was taken for the gold may be no reply: rules about golds hold only where golds are understood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.observations import ScoredCase, ScoredProbe, Trial
from prime_lab_mcp.lab.rewards.probes.families import Family
from tests.lab.rewards.rules.trials import STYLE, found, scored_probe, sound

UNKNOWN = ("gold-not-understood", "blocker")
FAILS = ("reward-gold-fails", "blocker")


def earned(*rewards: float, place: str = "answer", **fields: object) -> Trial:
    """A trial whose golds earned these rewards, and whose wrong answers earned nothing."""
    golds = tuple(scored_probe(Family.GOLD, "", reward, row=n) for n, reward in enumerate(rewards))
    style = replace(STYLE, golds=replace(STYLE.golds, place=place))
    return sound(scored_probe(Family.GOLD, "", rewards[0]), golds=golds, style=style, **fields)


def case(name: str, reward: float, expected: str, row: int = 0) -> ScoredCase:
    return ScoredCase(scored_probe(Family.SUPPLIED, name, reward, row=row), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "trial",
    [
        earned(0.005, 0.002, 0.0, 0.004, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005),
        earned(0.4, 0.1, 0.3, 0.0, 0.2, 0.4, 0.4, 0.4, 0.4, 0.4),
        earned(*[1.0] * 6, *[0.0] * 4, place="words"),
        earned(*[1.0] * 6, *[0.0] * 4, place="answer", listed_in_prompts=True),
    ],
    ids=["hardly anything", "little, and different amounts", "some tasks, another name", "words of the prompt"],
)
def test_a_field_that_is_hardly_paid_is_not_understood(trial: Trial) -> None:
    assert found(trial) == {UNKNOWN}


def test_a_named_answer_that_is_paid_on_some_tasks_only_fails() -> None:
    assert FAILS in found(earned(*[1.0] * 6, *[0.0] * 4, place="accepted"))
    assert FAILS in found(earned(*[1.0] * 9, 0.0, place="words"))


def eight_cases(high: float = 1.0, low: float = 0.3) -> tuple[ScoredCase, ...]:
    right = [case(f"right {n}", high, "high", n) for n in range(4)]
    return (*right, *(case(f"wrong {n}", low, "low", n) for n in range(4)))


def test_right_cases_that_earn_far_more_than_golds_carry_the_verdict() -> None:
    assert not found(earned(*[0.2] * 10, supplied=eight_cases()))


def test_a_case_is_low_or_high_beside_the_best_right_reply() -> None:
    passes = ("reward-wrong-passes", "blocker")
    assert passes not in found(earned(*[0.6] * 10, supplied=eight_cases(low=0.4)))
    assert passes in found(earned(*[1.0] * 10, supplied=eight_cases(low=0.7)))


def skeleton(reward: float, row: int) -> ScoredProbe:
    return scored_probe(Family.FORM_ALONE, "nothing", reward, row=row)


@pytest.mark.parametrize(
    ("rewards", "blocks"), [((1.0, 1.0, 1.0), True), ((1.0, 1.0, 0.0), False), ((1.0, 1.0), False)]
)
def test_empty_forms_of_cases_block_where_all_of_several_are_paid(rewards: tuple[float, ...], blocks: bool) -> None:
    probes = tuple(skeleton(reward, row) for row, reward in enumerate(rewards))
    trial = Trial(
        rewards=sound().rewards, style=None, form_requested=False, scored_probes=probes, supplied=eight_cases(low=0.0)
    )
    assert (("reward-format-dominates", "blocker") in found(trial)) is blocks


@pytest.mark.parametrize(("paid", "blocks"), [(12, True), (10, False)])
def test_right_replies_that_are_paid_on_nearly_all_other_tasks_block(paid: int, blocks: bool) -> None:
    probes = tuple(scored_probe(Family.CROSS, f"of {n % 3}", float(n < paid), row=10 + n) for n in range(12))
    trial = Trial(
        rewards=sound().rewards, style=None, form_requested=False, scored_probes=probes, supplied=eight_cases(low=0.0)
    )
    assert (("reward-wrong-passes", "blocker") in found(trial)) is blocks


def test_a_reward_that_paid_nothing_at_all_is_said_to_have_paid_nothing() -> None:
    dead = earned(*[0.0] * 10)
    dead = replace(dead, scored_probes=tuple(replace_reward(s, 0.0) for s in dead.scored_probes))
    (finding,) = (f for f in reward_findings(dead) if f.code == "gold-not-understood")
    assert "the reward paid it nothing" in finding.message
    assert f"nor any other of {dead.run} completions" in finding.message
    assert finding.fix.startswith("A reward that never pays is often wrong itself")
    little = earned(0.005, 0.002, 0.0, 0.004, 0.005, 0.005, 0.005, 0.005, 0.005, 0.005)
    (finding,) = (f for f in reward_findings(little) if f.code == "gold-not-understood")
    assert "it is not known which replies are right" in finding.message
    assert "nothing" not in finding.message


def replace_reward(scored: ScoredProbe, reward: float) -> ScoredProbe:
    return replace(scored, scored=replace(scored.scored, reward=reward))
