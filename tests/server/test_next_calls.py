"""Recommended calls: completed with what the call named, without what just failed, along the main line."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding, Next, Report, Status
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.next_calls import PresentCall, needs_files, with_right_calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.finished import finished, mixed
from tests.support.next_calls import problems_of

pytestmark = pytest.mark.anyio
BY_NAME = {tool.name: tool for tool in TOOLS}
BLOCKER = Finding("reward-gold-fails", "blocker", "gold is not paid", "Mend it.")


def report(status: Status, *calls: Next) -> Report:
    return Report(status, "A summary.", (BLOCKER,) if status == "failed" else (), next=calls)


def right(lab: Lab, tool: str, given: dict[str, Any], found: Report) -> list[tuple[str, Any]]:
    changed = with_right_calls(found, PresentCall(lab, BY_NAME[tool], given, BY_NAME))
    assert problems_of(changed, tool, given, BY_NAME) == []
    return [(one.tool, one.arguments) for one in changed.next]


async def test_the_same_call_keeps_all_of_its_arguments_but_the_answer(lab: Lab) -> None:
    given = {"environment": "sums", "model": "m", "num_examples": 32, "env_args": {"level": "easy"}, "confirm": "t"}
    kept = {name: value for name, value in given.items() if name != "confirm"}
    assert right(lab, "run_eval", given, report("running", Next("run_eval", "waits on"))) == [("run_eval", kept)]


async def test_what_just_failed_is_not_offered_unchanged_but_its_cause_is(lab: Lab) -> None:
    given = {"environment": "sums"}
    found = right(lab, "test_reward", given, report("failed", Next("test_reward", "after mending", given)))
    assert found == [("read_reference", {"topic": "finding/reward-gold-fails"})]


async def test_calls_name_the_environment_as_the_present_call_does(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    for named in (snapshot.name, snapshot.relative):
        for other in (snapshot.name, snapshot.relative):
            following = report("failed", Next("check_environment", "after mending", {"environment": other}))
            given = {"environment": named}
            present = PresentCall(lab, BY_NAME["check_environment"], given, BY_NAME, snapshot)
            found = with_right_calls(following, present)
            assert problems_of(found, "check_environment", given, BY_NAME) == []
            assert [one.tool for one in found.next] == ["read_environment", "read_reference"]
            assert found.next[0].arguments == given


async def test_an_evaluation_that_names_no_model_gets_the_last_one_or_the_default(lab: Lab) -> None:
    passed = report("passed", Next("run_eval", "next", {"environment": "sums_v1"}))
    [(_, named)] = right(lab, "test_reward", {"environment": "sums_v1"}, passed)
    assert named["model"] == DEFAULT_MODEL
    finished(lab, mixed(), environment="sums_v1", model="other/model")
    [(_, named)] = right(lab, "test_reward", {"environment": "sums_v1"}, passed)
    assert named["model"] == "other/model"


async def test_a_larger_evaluation_keeps_the_budget_of_the_one_that_could_not_decide(lab: Lab) -> None:
    given = {"environment": "sums_v1", "model": "m", "num_examples": 20, "budget": 1.0}
    larger = {"environment": "sums_v1", "model": "m", "num_examples": 50}
    for status in ("inconclusive", "failed"):
        unclear = report(status, Next("run_eval", "x", larger))
        assert right(lab, "run_eval", given, unclear) == [("run_eval", {**larger, "budget": 1.0})]
    free = {name: value for name, value in given.items() if name != "budget"}
    assert right(lab, "run_eval", free, report("inconclusive", Next("run_eval", "x", larger))) == [("run_eval", larger)]


async def test_arguments_of_the_environment_stay_on_the_way(lab: Lab) -> None:
    given = {"environment": "sums", "env_args": {"level": "easy"}}
    passed = report("passed", Next("push_environment", "next", {"environment": "sums"}))
    assert right(lab, "run_eval", {**given, "model": "m"}, passed) == [("push_environment", given)]


async def test_a_call_that_no_tool_takes_is_left_out(lab: Lab) -> None:
    found = report("passed", Next("run_evals", "x"), Next("inspect_dataset", "x"), Next("watch_run", "x"))
    assert right(lab, "preflight", {}, found) == [("watch_run", None)]


@pytest.mark.parametrize(
    ("tool", "given", "expected"),
    [
        ("workflow_status", {"enviroment": "sums"}, ("workflow_status", {"environment": "sums"})),
        ("workflow_status", {"colour": "red"}, ("workflow_status", None)),
        ("workflow_status", {"view": "spendings"}, ("workflow_status", {"view": "spend"})),
        ("check_environment", {"name": "sums"}, ("workflow_status", None)),
        (
            "submit_training",
            {"config": "x.toml", "step": 5, "yes": True},
            ("submit_training", {"config": "x.toml", "steps": 5}),
        ),
        ("submit_training", {"config": "x.toml", "colour": 5}, ("workflow_status", None)),
    ],
)
async def test_mistyped_arguments_lead_to_the_call_that_is_meant_or_without_them(
    lab: Lab, tool: str, given: dict[str, Any], expected: tuple[str, dict[str, Any] | None]
) -> None:
    report = await Calls(lab, TOOLS, None).execute(tool, given)  # type: ignore[arg-type]
    assert [(n.tool, n.arguments) for n in report.next] == [expected]


async def test_a_dry_run_and_a_comparison_lead_to_the_evaluation_that_they_are_about(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    compared = {"environment": snapshot.relative, "model": "m", "compare_base": True}
    for tool, given in (("run_eval", {**compared, "dry_run": True}), ("read_eval", {"eval": "x"})):
        made = PresentCall(lab, BY_NAME[tool], given, BY_NAME, snapshot)
        changed = with_right_calls(report("passed", Next("run_eval", "compares", compared)), made)
        assert [(one.tool, one.arguments) for one in changed.next] == [("run_eval", compared)]


@pytest.mark.parametrize(
    ("found", "needed"),
    [
        (report("failed"), True),
        (report("passed", Next("push_environment", "x")), True),
        (report("passed", Next("watch_run", "x")), False),
        (report("blocked", Next("push_environment", "x")), False),
        (report("running", Next("run_eval", "x")), False),
    ],
)
def test_files_are_read_again_only_where_a_recommendation_depends_on_them(found: Report, needed: bool) -> None:
    assert needs_files(found) is needed


async def following(lab: Lab, given: dict[str, Any]) -> list[tuple[str, Any]]:
    """What a passed test of the reward leads to."""
    passed = report("passed", Next("run_eval", "shows whether a model's rewards vary", {"environment": "sums_v1"}))
    present = PresentCall(lab, BY_NAME["test_reward"], given, BY_NAME, await lab.snapshot("sums_v1"))
    return [(one.tool, one.arguments) for one in with_right_calls(passed, present).next]


async def test_after_an_evaluation_of_these_very_files_that_paid_nothing_the_same_one_is_not_offered(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    here = ("sums_v1", snapshot.source, snapshot.content)
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, *here))
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, *here))
    given = {"environment": "sums_v1"}
    assert [tool for tool, _ in await following(lab, given)] == ["run_eval"]
    dead = ({"code": "distribution-dead", "severity": "blocker", "message": "dead", "fix": "x"},)
    data = {"id": "eval-00000009"}
    lab.ledger.record(
        Evidence("check_reward_distribution", "failed", lab.key, *here, model="m", findings=dead, data=data)
    )
    assert await following(lab, given) == [("read_eval", {"eval": "eval-00000009", "view": "zeros"})]
