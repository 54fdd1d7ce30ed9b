"""Whether two environments pay alike: matching of tasks, judging of what both paid, and test_reward(same_as=...)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rewards.compared_components import compare_components
from prime_lab_mcp.lab.rewards.comparison import (
    ComparedCompletion,
    RewardComparison,
    compare_rewards,
    different_weights,
    unexercised_components,
)
from prime_lab_mcp.lab.rewards.comparison_findings import comparison_findings, comparison_summary
from prime_lab_mcp.lab.rewards.matched_tasks import MatchedTasks, match_tasks
from prime_lab_mcp.lab.rewards.observations import ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.state.compared_rewards import comparison_sentence, record_comparison
from prime_lab_mcp.lab.worker.description import RewardInfo, Row, Rows
from prime_lab_mcp.lab.worker.faults import Problem, ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, CaseError, Component, Scored
from tests.lab.rewards.packages import SOUND, codes, reward, try_reward, write
from tests.lab.rewards.rules.trials import scored_probe, sound


def row(index: int, prompt: str, answer: Any = "1", system: str = "Be brief.") -> Row:
    messages = ({"role": "system", "content": system}, {"role": "user", "content": prompt})
    return Row(index, f"key{index}", messages, answer, None, {})


def pair(here: float | None, there: float | None, family: Family = Family.GOLD, text: str = "x") -> ComparedCompletion:
    told = () if there is not None else (CaseError("ValueError", "no number", "f"),)
    scored_probe = ScoredProbe(Draft(family, text).probe(f"{family}/{text}", 0), Scored("a", here))
    return ComparedCompletion(scored_probe, Scored("a", there, errors=told))


def comparison(*pairs: ComparedCompletion, maximum: float = 1.0, other: float = 1.0) -> RewardComparison:
    return RewardComparison("older", MatchedTasks({0: 4}, (), 1), pairs, maximum, other)


class Busy:
    """The older environment on a busy machine: stress probes need `seconds`, other completions earn as much as here."""

    def __init__(self, seconds: float, rewards: Mapping[str, float | None]) -> None:
        self.seconds, self.rewards = seconds, rewards

    async def rows(self, limit: int) -> Rows:
        return Rows(tuple(row(n, f"Question {n}?") for n in range(10)), 10)

    async def score(self, cases: Sequence[Case], *, case_timeout: float) -> list[Scored]:
        return [self._score(case, case_timeout) for case in cases]

    def _score(self, case: Case, case_timeout: float) -> Scored:
        earned = self.rewards[case.id]
        if Family.BACKTRACKING not in case.id:
            return Scored(case.id, earned, {"correct": Component(earned, 1.0)}, ms=1.0)
        if case_timeout < self.seconds:
            return Scored(case.id, None, problems=(Problem(ProblemCode.TIMEOUT),), ms=1000 * case_timeout)
        return Scored(case.id, earned, {"correct": Component(earned, 1.0)}, ms=1000 * self.seconds)


async def compared_while_busy(seconds: float) -> RewardComparison:
    heavy = [scored_probe(Family.BACKTRACKING, name, 0.0) for name in ("braces", "empty answers")]
    trial = sound(*heavy)
    worker = Busy(seconds, {s.probe.id: s.reward for s in trial.everything})
    here = [row(n, f"Question {n}?") for n in range(10)]
    return await compare_rewards(trial, here, cast(Worker, worker), name="older", rewards=trial.rewards, total=10)


@pytest.mark.anyio
async def test_a_completion_that_needs_more_time_in_the_other_environment_is_scored_again_alone() -> None:
    compared = await compared_while_busy(20.0)
    assert (compared.verdict, compared.unscored) == ("equal", ())
    assert comparison_findings(compared) == []


@pytest.mark.anyio
async def test_a_time_limit_is_no_difference_and_what_has_no_reward_is_counted_and_named() -> None:
    compared = await compared_while_busy(1e6)
    assert (compared.verdict, len(compared.different), len(compared.unscored)) == ("equal", 0, 2)
    (finding,) = comparison_findings(compared)
    assert (finding.code, finding.severity) == ("reward-partly-compared", "warning")
    assert "2 completions (heavy: braces, heavy: empty answers) were not compared" in finding.message
    assert "0 here, 2 in" in finding.message
    assert compared.as_json()["unscored"] == 2


def test_most_completions_without_a_reward_for_want_of_time_are_no_equal_rewards() -> None:
    late = replace(pair(1.0, None), there=Scored("a", None, problems=(Problem(ProblemCode.TIMEOUT),)))
    compared = replace(comparison(pair(1.0, 1.0)), unscored=(late, late))
    assert compared.verdict == "not-compared"
    (finding,) = comparison_findings(compared)
    assert (finding.code, finding.severity) == ("reward-not-compared", "blocker")
    assert "only 1 completion could be compared" in finding.message


def test_tasks_match_by_what_the_user_asks_in_any_order_and_under_another_system_prompt() -> None:
    here = [row(0, "One  apple?"), row(1, "Two pears?")]
    there = [row(5, "Two pears?", system="Other."), row(6, "one apple?"), row(7, "Three figs?")]
    assert match_tasks(here, there).pairs == {0: 6, 1: 5}


def test_one_prompt_with_two_answers_matches_the_task_with_the_same_answer() -> None:
    found = match_tasks([row(0, "Which?", "b"), row(1, "Which?", "c")], [row(3, "Which?", "a"), row(4, "Which?", "B")])
    assert found.pairs == {0: 4}
    assert [r.index for r in found.unmatched] == [1]


def test_rewards_are_compared_as_shares_of_each_maximum() -> None:
    equal = comparison(pair(1.2, 0.6), pair(0.2, 0.1, Family.WRONG), maximum=1.2, other=0.6)
    assert comparison_findings(equal) == []
    assert equal.as_json()["differ"] == 0


def infos(**weights: float) -> tuple[RewardInfo, ...]:
    return tuple(RewardInfo(name, weight, "reward", True) for name, weight in weights.items())


WEIGHTS = {"total": 1.0, "looked_up": 0.2}


def of_parts(
    here: Mapping[str, float], there: Mapping[str, float], *raised: str, family: Family = Family.GOLD
) -> ComparedCompletion:
    """One completion, a right one by default, with its components on both sides. In the other environment, `raised`
    raise."""
    scored = [{name: Component(score, WEIGHTS[name]) for name, score in parts.items()} for parts in (here, there)]
    paid = [sum(score * WEIGHTS[name] for name, score in parts.items()) for parts in (here, there)]
    told = tuple(CaseError("AttributeError", "no 'function'", f"scoring, {name}:older.py:9") for name in raised)
    probe = ScoredProbe(Draft(family, "x").probe("gold/x", 0), Scored("a", paid[0], scored[0]))
    return ComparedCompletion(probe, Scored("a", paid[1], scored[1], errors=told))


def of_components(
    *pairs: ComparedCompletion, versions: tuple[str | None, str | None] = (None, None)
) -> RewardComparison:
    rewards = infos(**WEIGHTS)
    return RewardComparison(
        "older",
        MatchedTasks({0: 4}, (), 1),
        pairs,
        max(pair.here.reward or 0.0 for pair in pairs),
        max(pair.there.reward or 0.0 for pair in pairs),
        unexercised=unexercised_components(pairs, rewards),
        components=compare_components(
            [(pair.here.scored.components, pair.there.components) for pair in pairs], rewards, rewards
        ),
        versions=versions,
    )


def test_equal_rewards_of_equal_weights_are_equal_whatever_the_highest_of_each_side_is() -> None:
    all_here = of_parts({"total": 1.0, "looked_up": 1.0}, {"total": 1.0, "looked_up": 0.0})
    same = of_parts({"total": 1.0, "looked_up": 0.0}, {"total": 1.0, "looked_up": 0.0})
    compared = of_components(all_here, same)
    assert compared.different == [all_here]
    [finding] = comparison_findings(compared)
    assert "1.2 of 1.2 here and 1 of 1.2 there" in finding.message
    assert '"looked_up" scores otherwise' in finding.message


def test_a_component_that_raises_on_the_other_side_is_named_with_its_exception_and_never_called_equal() -> None:
    nothing = {"total": 1.0, "looked_up": 0.0}
    compared = of_components(of_parts(nothing, nothing, "looked_up"), versions=("0.4.0", "0.3.1"))
    assert compared.verdict == "differs"
    [finding] = comparison_findings(compared)
    assert (finding.code, finding.severity) == ("reward-raises", "blocker")
    assert "AttributeError: no 'function'" in finding.message
    assert "under verifiers 0.3.1" in finding.message
    assert "do not remove the component" in finding.fix
    told = compared.as_json()
    assert told["verifiers"] == {"here": "0.4.0", "there": "0.3.1"}
    assert list(told["raised_there"]) == ["looked_up"]


def test_a_component_that_raises_for_one_odd_reply_is_a_warning_and_was_compared_by_the_others() -> None:
    nothing = {"total": 1.0, "looked_up": 0.0}
    odd = of_parts(nothing, nothing, "looked_up", family=Family.EMPTY)
    compared = of_components(odd, *[of_parts(nothing, nothing)] * 3, versions=("0.4.0", "0.3.1"))
    findings = comparison_findings(compared)
    assert [(f.code, f.severity) for f in findings] == [
        ("reward-raises", "warning"),
        ("reward-partly-compared", "warning"),
    ]
    assert "for 1 of 4 completions" in findings[0].message
    assert compared.verdict == "equal-where-reached"


@pytest.mark.anyio
async def test_the_question_of_a_push_names_the_newest_comparison_of_its_files(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    snapshot = await lab.snapshot("sound")
    assert comparison_sentence(lab.ledger, lab.key, snapshot) == ""
    for verdict, said in (("equal", "it pays the same as"), ("differs", "58 of 109 completions earned something else")):
        data = {"environment": "older", "verdict": verdict, "completions": 109, "differ": 58}
        record_comparison(lab.ledger, lab.key, snapshot, data)
        assert said in comparison_sentence(lab.ledger, lab.key, snapshot)


def test_a_halved_weight_differs_although_no_completion_shows_the_difference() -> None:
    halved = different_weights(infos(correct=1.0, judge=0.5), infos(correct=1.0, judge=0.25))
    assert {name: (here, there) for name, here, there in halved}["judge"] == (0.5, 0.25)
    (finding,) = comparison_findings(replace(comparison(pair(1.0, 1.0)), weights=halved))
    assert (finding.code, finding.severity) == ("reward-differs", "blocker")
    assert different_weights(infos(correct=1.0, judge=0.5), infos(correct=3.0, judge=1.5)) == ()


def test_equal_is_said_of_exercised_components_only() -> None:
    probe = Draft(Family.GOLD, "x").probe("gold/x", 0)
    parts = {"correct": Component(1.0, 1.0), "judge": Component(0.0, 0.5)}
    compared = [ComparedCompletion(ScoredProbe(probe, Scored("a", 1.0, parts)), Scored("a", 1.0, parts))]
    assert unexercised_components(compared, infos(correct=1.0, judge=0.5, shown=0.0)) == ("judge",)


Parts = dict[str, float]


def compared_parts(
    *pairs: tuple[Parts, Parts], here: tuple[RewardInfo, ...], there: tuple[RewardInfo, ...]
) -> dict[str, tuple[str, str]]:
    """By component: its name there and the verdict."""

    def scores(parts: Parts, of: tuple[RewardInfo, ...]) -> dict[str, Component]:
        return {i.name: Component(parts[i.name], i.weight) for i in of if i.name in parts}

    found = compare_components([(scores(h, here), scores(t, there)) for h, t in pairs], here, there)
    return {c.name: (c.there, c.verdict) for c in found}


def test_each_component_has_a_verdict_of_its_own() -> None:
    both = {"correct": 1.0, "form": 0.5, "judge": 0.0}
    weights = infos(correct=1.0, form=0.2, judge=0.5)
    verdicts = compared_parts((both, both), (both, {**both, "form": 0.4}), here=weights, there=weights)
    assert verdicts == {
        "correct": ("correct", "equal"),
        "form": ("form", "differs"),
        "judge": ("judge", "not-reached"),
    }


def test_only_the_component_whose_weight_was_halved_has_another_weight() -> None:
    both = {"correct": 1.0, "form": 0.5, "brief": 0.1}
    verdicts = compared_parts(
        (both, both), here=infos(correct=2.0, form=0.4, brief=0.1), there=infos(correct=1.0, form=0.2, brief=0.1)
    )
    assert {name: verdict for name, (_, verdict) in verdicts.items()} == {
        "correct": "equal",
        "form": "equal",
        "brief": "weight-differs",
    }


def test_a_renamed_component_is_known_by_its_scores_and_never_where_it_has_none() -> None:
    here, there = infos(right=1.0, asked=0.5), infos(correct=1.0, judged=0.5)
    renamed = compared_parts(
        ({"right": 1.0}, {"correct": 1.0}), ({"right": 0.0}, {"correct": 0.0}), here=here, there=there
    )
    assert renamed == {
        "right": ("correct", "equal"),
        "asked": ("asked", "only-here"),
        "judged": ("judged", "only-there"),
    }


def test_a_component_that_only_one_side_has_is_a_difference() -> None:
    parts = compare_components([], infos(correct=1.0), infos(correct=1.0, judged=0.5))
    (finding,) = comparison_findings(
        replace(comparison(pair(1.0, 1.0)), components=(replace(parts[0], earned=1), parts[1]))
    )
    assert (finding.code, finding.severity) == ("reward-differs", "blocker")
    assert "judged" in finding.message


def test_nothing_earned_on_either_side_is_no_comparison() -> None:
    parts = compare_components([], infos(correct=1.0), infos(correct=1.0))
    nothing = replace(comparison(pair(0.0, 0.0)), components=parts)
    assert [(f.code, f.severity) for f in comparison_findings(nothing)] == [("reward-not-compared", "blocker")]
    assert nothing.verdict == "not-compared"


def test_other_prompts_and_other_replies_of_the_environment_are_warned_of() -> None:
    parts = compare_components([({"a": Component(1.0, 1.0)}, {"a": Component(1.0, 1.0)})], infos(a=1.0), infos(a=1.0))
    one = pair(1.0, 1.0)
    found = replace(comparison(one), components=parts, rollouts=1, other_starts=1, other_replies=(one,))
    assert [(f.code, f.severity) for f in comparison_findings(found)] == [("conversation-differs", "warning")] * 2
    assert found.verdict == "equal"
    fewer = replace(found, other_tools=("search",))
    assert ("conversation-differs", "blocker") in [(f.code, f.severity) for f in comparison_findings(fewer)]
    assert fewer.verdict == "differs"


def test_another_share_is_a_blocker_with_the_completion_and_both_rewards() -> None:
    (finding,) = comparison_findings(comparison(pair(1.0, 1.0), pair(0.0, 0.5, Family.PROGRAM_HACK, "taken\nback")))
    assert (finding.code, finding.severity) == ("reward-differs", "blocker")
    shown = finding.rows[0]
    assert (shown["completion"], shown["reward"], shown["there"], shown["task_there"]) == (
        '"taken\\nback"',
        0.0,
        0.5,
        4,
    )
    assert "0 of 1 here and 0.5 of 1 there" in finding.message


def test_a_reward_on_one_side_and_an_exception_on_the_other_differ() -> None:
    (finding,) = comparison_findings(comparison(pair(1.0, 1.0), pair(0.0, None, Family.MALFORMED_WRONG)))
    assert finding.rows[0]["error"] == '"ValueError: no number"'
    assert comparison_findings(comparison(pair(1.0, 1.0), pair(None, None, Family.MALFORMED_WRONG))) == []


def test_an_other_side_that_pays_no_right_answer_is_said_so() -> None:
    (finding,) = comparison_findings(comparison(pair(1.0, 0.0), other=0.0))
    assert "paid none of the right answers" in finding.message


def test_nothing_in_common_is_never_equal() -> None:
    nothing = RewardComparison("older", MatchedTasks({}, (row(0, "Ours?"),)), (), 0.0, 0.0)
    assert [(f.code, f.severity) for f in comparison_findings(nothing)] == [("reward-not-compared", "blocker")]


def test_refused_arguments_are_the_reason_where_no_task_has_a_counterpart() -> None:
    """The report said that none of 0 completions earned anything, and not why there were none."""
    unmatched = MatchedTasks({}, (row(0, "One?"),))
    parts = compare_components([], infos(total=1.0), infos(total=1.0))
    alone = RewardComparison("older", unmatched, (), 0.0, 0.0, components=parts)
    [finding] = comparison_findings(alone)[:1]
    assert "no task of " in finding.message
    assert "asks the same as a task of this environment" in finding.message
    [finding] = comparison_findings(replace(alone, refused="split is no argument"))[:1]
    assert "does not take the env_args of this environment" in finding.message
    assert finding.message.endswith("split is no argument")


def test_tasks_without_a_counterpart_are_told() -> None:
    partly = RewardComparison("older", MatchedTasks({0: 4}, (row(1, "Held out?"),)), (pair(1.0, 1.0),), 1.0, 1.0)
    (finding,) = comparison_findings(partly)
    assert (finding.code, finding.severity, finding.rows) == (
        "reward-partly-compared",
        "warning",
        ({"task": 1, "prompt": '"Held out?"'},),
    )


def test_most_tasks_without_a_counterpart_are_no_equal_rewards() -> None:
    others = tuple(row(n, f"Other {n}?") for n in range(1, 4))
    little = RewardComparison("older", MatchedTasks({0: 4}, others), (pair(1.0, 1.0),), 1.0, 1.0)
    (finding,) = comparison_findings(little)
    assert (finding.code, finding.severity, little.verdict) == ("reward-not-compared", "blocker", "not-compared")
    assert "only 1 of 4 tasks" in finding.message
    some = RewardComparison("older", MatchedTasks({0: 4, 1: 5}, others[1:2]), (pair(1.0, 1.0),), 1.0, 1.0)
    assert some.verdict == "equal-where-reached"


@pytest.mark.parametrize(
    ("total", "verdict", "said"),
    [
        (1, "equal", "of 1 of 1 task: each earned the same share"),
        (60, "equal-where-reached", "of 1 of 60 tasks: each earned the same share"),
        (None, "equal-where-reached", "of 1 task of an unknown number: each earned the same share"),
    ],
)
def test_equal_is_said_where_every_task_was_compared_and_the_summary_counts_them(
    total: int | None, verdict: str, said: str
) -> None:
    """The verdict was `equal` although 46 of 60 tasks were left out."""
    compared = replace(comparison(pair(1.0, 1.0)), matched=MatchedTasks({0: 4, 1: 5}, (), total))
    assert (compared.verdict, compared.as_json()["tasks"], compared.as_json()["total_tasks"]) == (verdict, 1, total)
    assert said in comparison_summary(compared)
    assert ("nothing is known about the other tasks" in comparison_summary(compared)) == (verdict != "equal")


@pytest.mark.anyio
async def test_arguments_that_the_other_environment_does_not_take_are_no_equal_rewards(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    folder = write(lab, "older", SOUND)
    code = (folder / "older.py").read_text(encoding="utf-8")
    (folder / "older.py").write_text(code.replace("size: int = 70", "rows: int = 70").replace(".size", ".rows"))
    outcome = await try_reward(lab, "sound", same_as="older", env_args={"size": 60}, examples=4, search=0)
    assert (outcome.status, outcome.data["same_as"]["verdict"]) == ("failed", "not-compared")
    assert codes(outcome) == {"reward-not-compared"}
    write(lab, "sixty", SOUND)
    both = await try_reward(lab, "sound", same_as="sixty", env_args={"size": 60}, examples=4, search=0)
    assert (both.data["same_as"]["verdict"], both.data["same_as"]["unmatched_tasks"]) == ("equal", 0)


@pytest.mark.anyio
async def test_a_tolerance_of_six_percent_is_no_port_of_one_of_five(lab: Lab) -> None:
    within = "said = last(reply)\nreturn float(said is not None and abs(float(said) - float(gold)) <= {} * float(gold))"
    for name, tolerance in (("five", 0.05), ("six", 0.06), ("again", 0.05)):
        write(lab, name, reward(within.format(tolerance)))
    other = await try_reward(lab, "five", same_as="six", examples=4, search=0)
    assert other.data["same_as"]["verdict"] == "differs"
    same = await try_reward(lab, "five", same_as="again", examples=4, search=0)
    assert (same.data["same_as"]["verdict"], same.data["same_as"]["differ"]) == ("equal", 0)


@pytest.mark.anyio
async def test_a_reward_that_pays_long_reasoning_otherwise_is_no_port(lab: Lab) -> None:
    body = (
        "words = len(reply.partition('</think>')[0].split())\nreturn sound(reply, gold) * (1.0 if words <= 60 else {})"
    )
    form = "<think>\n...\n</think>\n<answer>GOLD</answer>"
    for name, rest in (("half", 0.5), ("none", 0.0), ("again", 0.5)):
        write(lab, name, reward(body.format(rest)))
    other = await try_reward(lab, "half", same_as="none", rendering=form, probes=False, examples=4, search=0)
    assert other.data["same_as"]["verdict"] == "differs"
    same = await try_reward(lab, "half", same_as="again", rendering=form, probes=False, examples=4, search=0)
    assert (same.data["same_as"]["verdict"], same.data["same_as"]["differ"]) == ("equal", 0)


@pytest.mark.anyio
@pytest.mark.slow
async def test_same_as_passes_what_is_scaled_and_fails_what_is_stricter_without_closing_a_gate(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    write(lab, "scaled", reward("return sound(reply, gold)", weight=3.0))
    write(lab, "stricter", reward("return sound(reply, gold) * ('</answer>' == reply[-9:])"))
    equal = await try_reward(lab, "sound", same_as="scaled", examples=8)
    assert (equal.status, equal.facts.proves, equal.data["same_as"]["differ"]) == ("passed", True, 0)
    assert equal.data["same_as"]["unmatched_tasks"] == 0
    unequal = await try_reward(lab, "sound", same_as="stricter", examples=8)
    assert (unequal.status, codes(unequal), unequal.facts.proves) == ("failed", {"reward-differs"}, False)
    assert "That is my result." in unequal.data["failing_cases"][0]["replay"]["completion"]
    with pytest.raises(BadInput, match="itself"):
        await try_reward(lab, "sound", same_as="environments/sound", examples=8)
