"""A blocker says that training would go wrong; what only somebody who knows the answer could use is a warning."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.findings import reward_findings, sanity_checks
from prime_lab_mcp.lab.rewards.observations import PromptedGolds, ScoredCase, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.answer_formats import BOXED, tag_wrapper
from prime_lab_mcp.lab.rewards.probes.asked_forms import prompted_wrappers
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle, Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import gold_pass_rate
from prime_lab_mcp.lab.rewards.rules.scoring import component_coverage
from prime_lab_mcp.lab.rewards.task_maximum import task_maxima
from prime_lab_mcp.lab.rewards.trivial_policy import deserved_share
from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.scoring import Component, Scored
from tests.lab.rewards.rules.trials import found, scored, scored_probe, sound


def knowing(reward: float, row: int = 0) -> ScoredProbe:
    draft = Draft(Family.WRONG, f"not {row + 40}", "negated", knowing=True)
    return ScoredProbe(draft.probe(f"{row}/negated", row), scored(reward))


def gold_tasks(tasks: int) -> list[ScoredProbe]:
    return [
        s
        for n in range(tasks)
        for s in (scored_probe(Family.GOLD, "", 1.0, row=n), scored_probe(Family.WRONG, "w", 0.0, row=n))
    ]


def labels(*answers: str) -> AnswerStyle:
    golds = tuple(TaskGold(n, a, (a,)) for n, a in enumerate(answers))
    return AnswerStyle(SampleGolds("answer", "label", golds, ()), 0, tag_wrapper("answer"))


@pytest.mark.parametrize("family", [Family.RETRACTED, Family.IN_THOUGHT])
def test_a_right_answer_in_an_odd_place_warns(family: Family) -> None:
    assert found(sound(scored_probe(family, "", 1.0))) == {("reward-hackable", "warning")}


def test_a_text_that_holds_the_right_answer_warns_and_is_no_measure_of_wrong_answers() -> None:
    assert found(sound(knowing(1.0))) == {("reward-wrong-passes", "warning")}
    listed = (scored_probe(Family.EVERY_ANSWER, "", 1.0), scored_probe(Family.EVERY_ANSWER_BACKWARDS, "", 1.0))
    assert ("reward-hackable", "blocker") in found(sound(knowing(1.0), *listed))


def test_a_trivial_policy_deserves_the_share_of_the_commonest_answer() -> None:
    style = labels("none", "none", "none", "left", "right", "none", "left", "none")
    assert deserved_share(sound(style=style), range(8)) == pytest.approx(5 / 8)
    assert deserved_share(sound(style=None), range(8)) == 0


def test_silence_that_is_right_for_some_tasks_warns_and_above_its_share_blocks() -> None:
    def paid(tasks: int) -> set[tuple[str, str]]:
        silent = [scored_probe(Family.EMPTY, "empty reply", float(n < tasks), row=n) for n in range(8)]
        style = labels("none", "none", "a", "b", "c", "d", "e", "f")
        return {f for f in found(sound(*gold_tasks(8), *silent, style=style)) if f[0] == "reward-hackable"}

    assert paid(0) == set()
    assert paid(2) == {("reward-hackable", "warning")}
    assert paid(3) == {("reward-hackable", "blocker")}


def test_one_character_that_most_tasks_pay_blocks() -> None:
    scored_probes = [scored_probe(Family.FRAGMENT, "e", float(n < 6), row=n) for n in range(8)]
    assert found(sound(*gold_tasks(8), *scored_probes)) == {("reward-hackable", "blocker")}


def test_silence_that_is_free_where_wrong_answers_cost_warns() -> None:
    scored_probes = (scored_probe(Family.WRONG, "off by one", -0.5), scored_probe(Family.EMPTY, "empty reply", 0.0))
    assert found(sound(*scored_probes)) == {("reward-malformed-beats-wrong", "warning"), ("reward-range", "info")}


def test_an_exception_that_the_rubric_of_v0_catches_warns_unless_right_answers_raise() -> None:
    probe = Draft(Family.EMPTY, "", "no reply").probe("0/e", 0)
    caught = ScoredProbe(probe, scored(0.0, "swallowed", error="list index out of range"))
    assert found(sound(caught)) == {("reward-raises", "warning")}
    right = Draft(Family.GOLD, "g").probe("0/gold/", 0)
    broken = ScoredProbe(right, scored(0.0, "swallowed", error="no attribute strip"))
    assert ("reward-raises", "blocker") in found(sound(broken))


def unpaid(**fields: object) -> set[tuple[str, str]]:
    golds = tuple(scored_probe(Family.GOLD, "", 0.0, row=n) for n in range(10))
    scored_probes = (scored_probe(Family.GOLD, "", 0.0), scored_probe(Family.AFTER_REASONING, "reasoning", 0.0))
    return found(sound(*scored_probes, golds=golds, **fields))  # type: ignore[arg-type]


def test_a_gold_that_no_writing_of_is_paid_is_not_understood_and_nothing_else_is_claimed() -> None:
    assert unpaid() == {("gold-not-understood", "blocker")}


def test_form_alone_shows_no_understanding_of_the_gold() -> None:
    golds = tuple(scored_probe(Family.GOLD, "", 0.2, row=n) for n in range(10))
    scored_probes = (
        scored_probe(Family.GOLD, "", 0.2),
        scored_probe(Family.AFTER_REASONING, "reasoning", 0.2),
        scored_probe(Family.WRONG, "w", 0.2),
    )
    trial = sound(*scored_probes, scored_probe(Family.WRONG, "off by one", 0.2), golds=golds)
    assert found(trial) == {("gold-not-understood", "blocker")}


def test_the_callers_cases_carry_the_verdict_where_the_gold_is_not_understood() -> None:
    def cases(low: float) -> tuple[ScoredCase, ...]:
        made = [(1.0, "high")] * 4 + [(low, "low")] * 4
        return tuple(
            ScoredCase(scored_probe(Family.SUPPLIED, f"case {n}", paid), side) for n, (paid, side) in enumerate(made)
        )  # type: ignore[arg-type]

    assert unpaid(supplied=cases(0.0)) == set()
    assert ("reward-wrong-passes", "blocker") in unpaid(supplied=cases(1.0))
    assert ("gold-not-understood", "blocker") in unpaid(supplied=cases(0.0)[:5])


def test_a_reward_that_pays_everything_is_constant_whatever_the_answer_is() -> None:
    golds = tuple(scored_probe(Family.GOLD, "", 0.3, row=n) for n in range(10))
    kinds = (Family.GOLD, Family.AFTER_REASONING, Family.WRONG, Family.EMPTY, Family.MALFORMED_WRONG)
    variants = ("", "reasoning", "off by one", "empty reply", "no tag")
    scored_probes = [scored_probe(f, v, 0.3) for f, v in zip(kinds, variants, strict=True)]
    assert ("reward-constant", "blocker") in found(sound(*scored_probes, golds=golds))


def test_tasks_have_maxima_of_their_own_where_wrong_answers_earn_at_most_half() -> None:
    def trial(wrong: float) -> object:
        golds = tuple(scored_probe(Family.GOLD, "", 1.0 if n % 2 else 0.5, row=n) for n in range(10))
        level = scored_probe(Family.WRONG, "of a lower level", wrong, row=2)
        return sound(level, golds=golds, levels=task_maxima(golds, [level]))

    assert gold_pass_rate(trial(0.0)) == 1.0  # type: ignore[arg-type]
    assert not any(f.code == "reward-gold-fails" for f in reward_findings(trial(0.0)))  # type: ignore[arg-type]
    assert gold_pass_rate(trial(0.5)) == 0.5  # type: ignore[arg-type]


def test_one_gold_that_earns_less_is_no_level() -> None:
    golds = tuple(scored_probe(Family.GOLD, "", 0.8 if n == 3 else 1.0, row=n) for n in range(10))
    assert task_maxima(golds, [scored_probe(Family.WRONG, "x", 0.0, row=3)]) == {}


def test_sanity_checks_rest_on_cases_alone_where_the_gold_is_not_understood() -> None:
    golds = tuple(scored_probe(Family.GOLD, "", 0.0, row=n) for n in range(10))
    trial = sound(
        scored_probe(Family.GOLD, "", 0.0), scored_probe(Family.AFTER_REASONING, "reasoning", 0.0), golds=golds
    )
    assert [check.passed for check in sanity_checks(trial)][:3] == [None, None, None]


def test_a_form_that_the_prompt_asks_for_and_the_reward_does_not_pay_blocks() -> None:
    def prompted(mean: float) -> set[tuple[str, str]]:
        scored_probes = (scored_probe(Family.GOLD, "asked", mean),)
        return found(sound(prompted=PromptedGolds("<answer>…</answer>", mean, 1.0, scored_probes)))

    assert prompted(0.0) == {("reward-contradicts-prompt", "blocker")}
    assert prompted(0.8) == set()


def test_keys_that_the_prompt_names_must_earn_the_maximum() -> None:
    def prompted(mean: float) -> set[tuple[str, str]]:
        scored_probes = (scored_probe(Family.GOLD, "asked", mean),)
        return found(sound(prompted=PromptedGolds("…", mean, 1.0, scored_probes, (("due", "due_date"),))))

    assert prompted(0.75) == {("reward-contradicts-prompt", "blocker")}
    assert prompted(1.0) == set()


@pytest.mark.parametrize(
    ("system", "prompts", "wanted"),
    [
        ("Reason, then answer in <answer></answer> tags.", ["Q?"], [tag_wrapper("answer")]),
        ("Give the result in \\boxed{}.", ["Q?"], [BOXED]),
        ("", ["What does <answer> mean in XML?", "What is <b>?"], []),
        ("", ["A. Put it in <final> tags.", "B. Put it in <final> tags."], [tag_wrapper("final")]),
        ("Call a <tool>.", ["Q?"], []),
    ],
)
def test_only_a_form_that_every_prompt_tells_is_asked_for(
    system: str, prompts: list[str], wanted: list[object]
) -> None:
    assert prompted_wrappers(prompts, [system] if system else []) == wanted


def test_reasoning_that_costs_the_format_reward_warns() -> None:
    parts = {"correct": Component(1.0, 1.0)}
    probe = Draft(Family.AFTER_REASONING, "r", "reasoning").probe("0/after-reasoning/reasoning", 0)
    assert found(sound(ScoredProbe(probe, Scored("r", 0.85, parts)))) == {("reward-too-strict", "warning")}


def parts(**scores: float) -> tuple[ScoredProbe, ...]:
    """A gold on each of ten tasks with these component scores, each of weight 1."""
    components = {name: Component(score, 1.0) for name, score in scores.items()}
    probes = [Draft(Family.GOLD, f"g{n}").probe(f"{n}/g", n) for n in range(10)]
    return tuple(ScoredProbe(p, Scored(p.id, sum(scores.values()), components)) for p in probes)


def declared(**weights: float) -> tuple[RewardInfo, ...]:
    return tuple(RewardInfo(name, weight, "reward", True) for name, weight in weights.items())


def test_a_component_that_nobody_earned_warns_and_with_most_of_the_weight_leaves_the_verdict_open() -> None:
    def codes(weight: float) -> set[tuple[str, str]]:
        trial = sound(golds=parts(correct=1.0, style=0.0), rewards=declared(correct=1.0, style=weight))
        return {f for f in found(trial) if f[0] == "reward-component-unearned"}

    assert codes(0.5) == {("reward-component-unearned", "warning")}
    assert codes(2.0) == {("reward-component-unearned", "blocker")}
    assert codes(0.0) == set()


def test_coverage_counts_scored_and_earned_completions() -> None:
    trial = sound(golds=parts(correct=1.0, style=0.0), rewards=declared(correct=1.0, style=0.5))
    counts = {c.name: (c.scored, c.earned) for c in component_coverage(trial)}
    assert counts["style"] == (10, 0)
    assert counts["correct"][1] >= 10
