"""Recommended calls: completed with what the call named, without what just failed, along the main line."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, Next, Report, Status
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.configs.registry import REGISTRY, RegistryEntry, add_entry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import DEFAULT_MODEL
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push, Run
from prime_lab_mcp.lab.training.evaluations import after_completed_run
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.next_calls import PresentCall, needs_files, with_right_calls
from prime_lab_mcp.tools.on_demand import ToolsOnDemand
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
    lab.ledger.record_run(Run("r", "training", "mine", lab.key, "k", lab.platform))
    finished(lab, mixed(), "eval-00000002", environment="sums_v1", model="mine-step-20")
    [(_, named)] = right(lab, "test_reward", {"environment": "sums_v1"}, passed)
    assert named["model"] == "other/model"  # a checkpoint is no model to train next


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


def record_reward_test(lab: Lab, status: str, arguments: dict[str, Any], **fields: Any) -> Evidence:
    row = Evidence("test_reward", status, lab.key, "sums", "s", "c", arguments=arguments, platform=None, **fields)
    lab.ledger.record(row)
    return row


async def test_a_test_after_an_edit_has_the_cases_and_the_rendering_of_the_test_before(lab: Lab) -> None:
    after = report("passed", Next("test_reward", "tests the change", {"environment": "sums", "same_as": "old"}))
    edit = {"environment": "sums", "path": "sums.py", "old": "a", "new": "b"}
    assert right(lab, "edit_environment", edit, after) == [("test_reward", {"environment": "sums", "same_as": "old"})]
    record_reward_test(
        lab, "passed", {"environment": "sums", "cases": [{"completion": "7"}], "rendering": "<a>GOLD</a>"}
    )
    record_reward_test(lab, "failed", {"environment": "sums"})  # what an earlier loss of the cases had led to
    [(_, kept)] = right(lab, "edit_environment", edit, after)
    assert kept == {"environment": "sums", "same_as": "old", "cases_file": "last", "rendering": "<a>GOLD</a>"}
    other = report("passed", Next("test_reward", "x", {"environment": "sums", "env_args": {"split": "eval"}}))
    [(_, held_out)] = right(lab, "edit_environment", edit, other)
    assert "cases_file" not in held_out  # they name tasks of another split
    assert held_out["rendering"] == "<a>GOLD</a>"


async def test_a_test_that_a_fix_of_itself_names_is_the_whole_test(lab: Lab) -> None:
    fix = Fix("Mend the line, then call ", NamedCall("test_reward"), ".")
    failed = Report("failed", "x", (Finding("reward-raises", "blocker", "it raises", fix),))
    given = {"environment": "sums", "same_as": "old", "cases": [{"completion": "7", "expected": "low"}]}
    found = right(lab, "test_reward", given, failed)
    assert ("test_reward", {"environment": "sums", "same_as": "old", "cases_file": "last"}) in found


async def test_a_test_that_was_inconclusive_for_these_very_files_is_no_next_step(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    passed = report("passed", Next("test_reward", "tests the reward", {"environment": "sums_v1"}))
    given = {"environment": "sums_v1"}
    present = PresentCall(lab, BY_NAME["check_environment"], given, BY_NAME, snapshot)
    assert [one.tool for one in with_right_calls(passed, present).next] == ["test_reward"]
    for tool, status in (("check_environment", "passed"), ("test_reward", "inconclusive")):
        row = Evidence(tool, status, lab.key, snapshot.name, snapshot.source, snapshot.content, arguments=given)
        lab.ledger.record(row)
    assert [one.tool for one in with_right_calls(passed, present).next] == ["read_environment"]


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


WAITING = """max_steps = 4
model.name = "Qwen/Qwen3-4B"

[orchestrator]
batch_size = 16
group_size = 8

[[orchestrator.train.source]]
[orchestrator.train.source.env.taskset]
id = "me/sums-v1@0.1.0"
level = "hard"
"""


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


async def test_a_call_that_is_recommended_twice_is_one(lab: Lab) -> None:
    found = report("passed", Next("watch_run", "x"), Next("watch_run", "y"), Next("preflight", "x"))
    assert right(lab, "preflight", {}, found) == [("watch_run", None), ("preflight", None)]


async def test_arguments_that_a_tool_may_refuse_are_tried_before_they_are_recommended(lab: Lab) -> None:
    for tool, env_args in (("check_environment", {"level": 1}), ("test_reward", "easy")):
        calls = Next(tool, "next", {"environment": "sums", "env_args": env_args})
        present = PresentCall(lab, BY_NAME["workflow_status"], {}, ToolsOnDemand())
        assert with_right_calls(report("passed", calls), present).next == ()


async def test_a_fix_that_names_an_evaluation_is_about_the_one_that_was_read(lab: Lab) -> None:
    job = finished(lab, mixed(), environment="sums_v1", model="other/model")
    blocker = Finding("eval-failed", "blocker", "x", Fix("Run ", NamedCall("run_eval", num_examples=8), "."))
    failed = Report("error", "no", (blocker,))
    [(tool, given)] = right(lab, "read_eval", {"eval": job.id}, failed)
    assert (tool, given["environment"], given["model"], given["num_examples"]) == (
        "run_eval",
        "sums_v1",
        "other/model",
        8,
    )
    tested = Finding("eval-failed", "blocker", "x", Fix("Run ", NamedCall("test_reward", env_args={"a": 1}), "."))
    found = right(lab, "read_eval", {"eval": job.id}, Report("error", "no", (tested,)))
    assert found == [("test_reward", {"environment": "sums_v1", "env_args": {"a": 1}})]


async def test_a_step_of_another_environment_stays_as_it_is(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    other = Next("push_environment", "the other one", {"environment": "other"})
    present = PresentCall(
        lab, BY_NAME["check_environment"], {"environment": "sums_v1"}, BY_NAME, await lab.snapshot("sums_v1")
    )
    assert with_right_calls(report("passed", other), present).next == (other,)


async def test_with_the_arguments_of_a_config_that_waits_the_next_step_is_the_configs(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    push = Push(lab.key, "sums_v1", "me", "sums-v1", "0.1.0", snapshot.source, snapshot.content, "h", lab.platform)
    lab.ledger.record_push(push)
    for tool in ("check_environment", "test_reward"):
        lab.ledger.record(Evidence(tool, "passed", lab.key, "sums_v1", snapshot.source, snapshot.content))
    assert [tool for tool, _ in await following(lab, {"environment": "sums_v1"})] == ["run_eval"]
    config = lab.workspace.root / "configs" / "rl" / "mine.toml"
    config.parent.mkdir(parents=True)
    config.write_text(WAITING, encoding="utf-8")
    hub = ("me/sums-v1@0.1.0",)
    entry = RegistryEntry("mine", 1, "configs/rl/mine.toml", "2026-11-21", "Qwen/Qwen3-4B", "hosted", hub, "0" * 64)
    add_entry(lab.workspace.resolve(REGISTRY), entry)
    given = {"environment": "sums_v1", "env_args": {"level": "hard"}}
    assert await following(lab, given) == [("check_training_config", {"path": "configs/rl/mine.toml"})]


async def test_held_out_arguments_ask_for_the_step_of_the_training_arguments(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    here = ("sums_v1", snapshot.source, snapshot.content)
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, *here))
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, *here))
    found = await following(lab, {"environment": "sums_v1", "env_args": {"split": "test"}})
    assert [tool for tool, _ in found] == ["run_eval"]


async def test_a_test_with_held_out_arguments_leads_to_the_comparison_of_a_checkpoint_that_completed(lab: Lab) -> None:
    root = write_environment(lab.settings.workspace)
    with (root / "sums_v1" / "taskset.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\nfrom typing import Literal\n\nclass Config(vf.TasksetConfig):\n"
            "    split: Literal['train', 'eval'] = 'train'\n"
        )
    data = {"ended": "COMPLETED", "environments": ["me/sums_v1"], "model": "base", "max_steps": 20}
    lab.ledger.record_run(Run("r", "training", "mine", lab.key, "k", lab.platform, data=data))
    [(tool, given)] = await following(lab, {"environment": "sums_v1", "env_args": {"split": "eval"}})
    assert tool == "run_eval"
    assert {"env_args": {"split": "eval"}, "model": "mine-step-20", "compare_base": True}.items() <= given.items()


async def test_the_comparison_of_a_checkpoint_has_the_limit_of_the_run_and_a_running_one_is_waited_for(
    lab: Lab,
) -> None:
    """workflow_status named it without max_tokens: another evaluation than the one that watch_run had named, and that
    was running."""
    root = write_environment(lab.settings.workspace)
    with (root / "sums_v1" / "taskset.py").open("a", encoding="utf-8") as file:
        file.write(
            "\n\nfrom typing import Literal\n\nclass Config(vf.TasksetConfig):\n"
            "    split: Literal['train', 'eval'] = 'train'\n"
        )
    path = lab.workspace.resolve("configs/rl/mine.toml")
    path.parent.mkdir(parents=True)
    path.write_text(f"{WAITING}\n[orchestrator.train.sampling]\nmax_completion_tokens = 128\n", encoding="utf-8")
    data = {"ended": "COMPLETED", "environments": ["me/sums_v1"], "model": "base", "max_steps": 20}
    config = {"config_path": "configs/rl/mine.toml", "config_sha256": read_config(path).sha256}
    lab.ledger.record_run(Run("r", "training", "mine", lab.key, "k", lab.platform, data=data, **config))
    [(tool, given)] = await following(lab, {"environment": "sums_v1", "env_args": {"split": "eval"}})
    assert (tool, given["max_tokens"], given["model"]) == ("run_eval", 128, "mine-step-20")
    same = {"env_args": {"split": "eval"}, "num_examples": 40, "max_tokens": 128, "environment": "sums_v1"}
    for id, model in (("eval-0000000a", "base"), ("eval-0000000b", "mine-step-20")):
        job = finished(lab, mixed(), id, model=model, **same)
        lab.ledger.update_job(job.id, state="running", progress={"completed": 3}, lease=job.lease + 1)
    waiting = after_completed_run(lab, "sums_v1")
    assert waiting is not None
    assert "is running: this call waits for it" in waiting.why
    assert {**same, "model": "mine-step-20", "compare_base": True}.items() <= dict(waiting.arguments or {}).items()


async def test_an_evaluation_that_failed_without_an_id_is_the_newest_one(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    here = ("sums_v1", snapshot.source, snapshot.content)
    hard = ({"code": "distribution-no-signal", "severity": "blocker", "message": "x", "fix": "x"},)
    for row in (
        Evidence("check_environment", "passed", lab.key, *here),
        Evidence("test_reward", "passed", lab.key, *here),
        Evidence("check_reward_distribution", "failed", lab.key, *here, model="m", findings=hard),
    ):
        lab.ledger.record(row)
    assert await following(lab, {"environment": "sums_v1"}) == [("read_eval", {"view": "difficulty"})]


@pytest.mark.parametrize(
    ("given", "named"),
    [({"environments": ["o/n@0.1.0"]}, True), ({"environments": ["o/n@0.1.0"], "budget": 30}, False)],
)
async def test_a_call_that_writes_a_config_says_that_it_takes_the_sum_of_the_user(
    lab: Lab, given: dict[str, Any], named: bool
) -> None:
    pushed = report("passed", Next("write_training_config", "a config to train on it", given))
    present = PresentCall(lab, BY_NAME["push_environment"], {"environment": "n"}, BY_NAME)
    [call] = with_right_calls(pushed, present).next
    assert call.arguments == given
    assert ("with budget=USD where the user named a sum" in call.why) is named
