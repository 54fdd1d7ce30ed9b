"""Calls after an evaluation in which the model solved almost nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.distribution.judge import judge_rollouts
from prime_lab_mcp.lab.evals.easier import (
    following_calls,
    form_call,
    paid_form,
    pays_answers_alone,
    reward_calls,
    stated_form,
    untested_sentence,
)
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.lab.state.workspace import ShownFiles
from tests.lab.distribution.test_judge import rollout
from tests.lab.evals.test_spec import SPEC

pytestmark = pytest.mark.anyio
ID = "eval-00000001"
LEVELS = {"name": "level", "type": "Literal", "default": "all", "choices": ["all", "easy", "medium", "hard"]}


def after(
    lab: Lab,
    code: str,
    *,
    args: list[Any] | None = None,
    truncated: float = 0.0,
    early: bool = False,
    easiest: Any = None,
    **given: Any,
) -> list[tuple[str, Any, str]]:
    spec = dataclasses.replace(SPEC, **given)
    data = {"args": [LEVELS] if args is None else args} | ({"easiest": easiest} if easiest else {})
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "e", spec.source, "c", data=data))
    unpaid = judge_rollouts([rollout(str(t), 0.0) for t in range(30) for _ in range(4)])
    finding = Finding(code, "blocker", "m", "f")  # type: ignore[arg-type]
    judged = dataclasses.replace(
        unpaid, status="failed", findings=(finding,), truncation_rate=truncated, cut_early=early
    )
    calls = following_calls(lab, spec, ID, judged)
    return [(one.tool, dict(one.arguments or {}), one.why) for one in calls]


def recorded(lab: Lab, tool: str, status: Any, **more: Any) -> None:
    env_args = dict(SPEC.env_args)
    lab.ledger.record(Evidence(tool, status, lab.key, "e", SPEC.source, "c", env_args=env_args, **more))


@pytest.mark.parametrize("code", ["distribution-dead", "distribution-all-zero"])
async def test_after_nothing_was_solved_at_most_three_calls_follow_the_free_test_first(lab: Lab, code: str) -> None:
    found = after(lab, code)
    assert [tool for tool, _, _ in found] == ["test_reward", "read_eval", "run_eval"]
    assert "never done with these files" in found[0][2]
    assert found[2][1]["env_args"] == {"split": "train", "level": "easy"}


async def test_a_reward_that_passed_is_not_tested_again_and_one_that_failed_is_named(lab: Lab) -> None:
    blocker = {"code": "reward-contradicts-prompt", "severity": "blocker", "message": "asks for a box, reads a tag"}
    recorded(lab, "test_reward", "failed", findings=(blocker,))
    failed = after(lab, "distribution-dead")
    assert [tool for tool, _, _ in failed] == ["read_environment", "read_eval"]
    assert "failed with these very files: reward-contradicts-prompt, asks for a box, reads a tag" in failed[0][2]
    recorded(lab, "test_reward", "passed")
    assert [tool for tool, _, _ in after(lab, "distribution-dead")] == ["read_eval", "run_eval", "search_hub"]


async def test_zeros_that_decide_nothing_yet_do_not_lead_to_a_test_that_passed_before(lab: Lab) -> None:
    few = judge_rollouts([rollout(str(t), 0.0) for t in range(8) for _ in range(4)])
    tools = [one.tool for one in following_calls(lab, SPEC, ID, few)]
    assert tools == ["read_eval", "test_reward"]
    recorded(lab, "test_reward", "passed")
    assert [one.tool for one in following_calls(lab, SPEC, ID, few)] == ["read_eval"]


async def test_a_form_that_was_tried_and_not_paid_is_no_paid_form(lab: Lab) -> None:
    tried = {"rendering": "Total: …", "gold_pass_rate": None}
    recorded(lab, "test_reward", "passed", data=tried)  # its cases passed
    assert paid_form(lab, SPEC.source, SPEC.env_args) == ""
    assert "no form that it tried itself was paid" in form_call(lab, SPEC, ID).why
    recorded(lab, "test_reward", "passed", data={**tried, "gold_pass_rate": 1.0})
    assert paid_form(lab, SPEC.source, SPEC.env_args) == "Total: …"
    assert "so it found a form that is paid" in form_call(lab, SPEC, ID).why


async def test_a_reward_for_what_tools_did_pays_no_answer_alone(lab: Lab) -> None:
    """An evaluation was blocked as no better than always giving the most frequent answer, which earned nothing."""
    assert pays_answers_alone(lab, SPEC.source, SPEC.env_args)
    recorded(lab, "test_reward", "passed", data={"solutions": {"mean_reward": 1.0, "instead": {"bare-answer": 1.0}}})
    assert pays_answers_alone(lab, SPEC.source, SPEC.env_args)
    recorded(lab, "test_reward", "passed", data={"solutions": {"mean_reward": 1.0, "instead": {"bare-answer": 0.0}}})
    assert not pays_answers_alone(lab, SPEC.source, SPEC.env_args)


async def test_only_a_form_that_a_call_named_makes_another_evaluation_of_the_rehearsal(lab: Lab) -> None:
    """The advice to name a form and to evaluate again returned the evaluation that had led to the advice. A test that
    runs beside an evaluation must not start a second one: it names no form."""
    paid = {"rendering": "Total: …", "gold_pass_rate": 1.0}
    recorded(lab, "test_reward", "passed", data=paid)
    assert stated_form(lab, SPEC.source, SPEC.env_args) == ""
    recorded(lab, "test_reward", "passed", data=paid, arguments={"rendering": "Total: GOLD"})
    assert stated_form(lab, SPEC.source, SPEC.env_args) == "Total: …"


async def test_files_that_were_just_shown_are_not_led_to_again(lab: Lab) -> None:
    recorded(lab, "test_reward", "passed")
    assert form_call(lab, SPEC, ID).tool == "read_environment"
    lab.memory(ShownFiles).add(f"environments/{SPEC.environment}")
    read = form_call(lab, SPEC, ID)
    assert (read.tool, read.arguments) == ("read_eval", {"eval": ID, "view": "rollouts", "where": "zero"})
    recorded(lab, "test_reward", "failed")
    assert [one.tool for one in reward_calls(lab, SPEC, ID)] == ["read_eval"]


async def test_what_the_replies_lack_leads_a_rehearsal_to_the_form_of_the_paid_cases(settings: Settings) -> None:
    lacking = "a unit"
    for rehearsal, tool in ((False, "read_environment"), (True, "test_reward")):
        lab = Lab(dataclasses.replace(settings, rehearsal=rehearsal))
        recorded(lab, "test_reward", "passed", data={"rendering_of_cases": "Dose: {amount} {unit}"})
        call = form_call(lab, SPEC, ID, lacking)
        assert call.tool == tool
        assert call.why.startswith("the replies lack what every paid reply of test_reward has: a unit")
    assert call.arguments == {
        "environment": SPEC.environment,
        "rendering": "Dose: {amount} {unit}",
        "env_args": dict(SPEC.env_args),
    }


async def test_a_model_that_passed_on_the_same_tasks_is_named_first(lab: Lab) -> None:
    recorded(
        lab,
        "check_reward_distribution",
        "passed",
        model="Qwen/Qwen3-4B-Instruct-2507",
        data={"id": "eval-946b39b5"},
        platform=lab.platform,
    )
    tool, _, why = after(lab, "distribution-dead")[0]
    assert tool == "test_reward"  # a push would be refused without it
    assert "Qwen/Qwen3-4B-Instruct-2507 passed on these tasks" in why
    recorded(lab, "test_reward", "passed")
    tool, given, why = after(lab, "distribution-dead")[0]
    assert (tool, given["environment"]) == ("push_environment", SPEC.environment)
    assert why.startswith("Qwen/Qwen3-4B-Instruct-2507 passed on these tasks (eval-946b39b5)")


async def test_the_easiest_level_is_not_recommended_after_itself_or_where_there_is_none(lab: Lab) -> None:
    recorded(lab, "test_reward", "passed")
    tools = [tool for tool, _, _ in after(lab, "distribution-dead", args=[])]
    assert tools == ["read_eval", "search_hub"]


async def test_replies_that_were_cut_lead_to_a_higher_limit_unless_another_limit_cut_them(lab: Lab) -> None:
    recorded(lab, "test_reward", "passed")
    [longer] = [g for tool, g, _ in after(lab, "distribution-dead", args=[], truncated=0.3) if tool == "run_eval"]
    assert longer["max_tokens"] == 128
    early = after(lab, "distribution-dead", args=[], truncated=0.3, early=True)
    assert "run_eval" not in [tool for tool, _, _ in early]


async def test_other_verdicts_get_none_of_these_calls(lab: Lab) -> None:
    assert "search_hub" not in [tool for tool, _, _ in after(lab, "distribution-too-easy")]


async def test_a_stronger_model_that_is_known_is_named_as_a_call_and_not_searched_for(lab: Lab) -> None:
    recorded(lab, "test_reward", "passed")
    small = {"model": "Qwen/Qwen3-0.6B", "endpoint": Endpoint("prime", "http://127.0.0.1:1/v1")}
    tool, given, why = after(lab, "distribution-dead", args=[], **small)[-1]
    assert (tool, given["model"]) == ("run_eval", DEFAULT_MODEL)
    assert given["env_args"] == dict(SPEC.env_args)
    assert "a stronger model" in why
    for other in ({"model": DEFAULT_MODEL}, {"endpoint": Endpoint("url", "http://127.0.0.1:1/v1")}, {"model": "who"}):
        assert "search_hub" in [tool for tool, _, _ in after(lab, "distribution-dead", args=[], **small | other)]


async def test_tasks_that_carry_their_level_lead_to_the_easiest_of_them_by_the_argument_that_selects(lab: Lab) -> None:
    easiest = {"where": {"level": ["easy"]}}
    found = after(lab, "distribution-at-floor", args=[], easiest=easiest)
    assert next(a["env_args"] for tool, a, _ in found if tool == "run_eval") == {"split": "train", **easiest}


async def test_a_reward_that_was_tested_with_other_arguments_is_not_said_to_be_untested(lab: Lab) -> None:
    assert "was not tested with these files" in untested_sentence(lab, SPEC.source, {"split": "eval"})
    recorded(lab, "test_reward", "passed")
    told = untested_sentence(lab, SPEC.source, {"split": "eval"})
    assert "passed the test with these files" in told
    assert 'was not tested with env_args={"split": "eval"}' in told
    assert untested_sentence(lab, SPEC.source, dict(SPEC.env_args)) == ""
