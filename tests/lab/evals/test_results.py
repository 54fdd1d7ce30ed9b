"""Evaluations of checkpoints and of held-out tasks are results: compared with what was before, no reason to refuse."""

from __future__ import annotations

import dataclasses

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.distribution.summary import Distribution
from prime_lab_mcp.lab.evals.pages.illustrate import page_of_evaluation
from prime_lab_mcp.lab.evals.results import _mean_with_interval, _unit
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Run
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.tools import check_reward_distribution, read_eval
from prime_lab_mcp.tools.tool import Call
from tests.lab.evals.finished import episode, finished, mixed

pytestmark = pytest.mark.anyio


def call(lab: Lab) -> Call:
    async def progress(done: float, total: float | None, message: str) -> None: ...

    async def prove(tool: str, snapshot: Snapshot) -> Report:
        raise AssertionError(tool)

    return Call(lab, None, progress, None, prove)  # type: ignore[arg-type]


async def judged(lab: Lab, id: str) -> Outcome:
    return await check_reward_distribution.run(call(lab), check_reward_distribution.Args(results=id))


def solved(tasks: int = 40, rollouts: int = 4) -> list[dict[str, object]]:
    return [episode(task, 1.0) for task in range(tasks) for _ in range(rollouts)]


def trained(lab: Lab) -> None:
    data = {"model": "scripted", "environments": ["sums_v1"]}
    lab.ledger.record_run(Run("run_1", "training", "sums-0badcafe", lab.key, "f" * 64, "prime", data=data))


async def test_a_checkpoint_that_solves_everything_is_a_result_with_the_difference_to_its_base(lab: Lab) -> None:
    trained(lab)
    finished(lab, mixed(), id="eval-00000001")
    finished(lab, solved(), id="eval-00000002", model="sums-0badcafe-step-20")
    found = await judged(lab, "eval-00000002")

    assert found.status == "passed"
    assert "distribution-all-one" not in [f.code for f in found.findings]
    assert found.findings[0].code == "eval-is-a-result"
    result = found.data["result"]
    assert (result["purpose"], result["before"]["id"]) == ("checkpoint", "eval-00000001")
    assert result["difference"]["low"] > 0
    assert result["mean"]["low"] < 1.0
    assert not found.facts.proves
    assert (found.next[0].tool, (found.next[0].arguments or {})["view"]) == ("read_eval", "compare")


async def test_a_rise_of_a_reward_with_a_known_hole_names_the_hole(lab: Lab) -> None:
    trained(lab)
    finished(lab, mixed(), id="eval-00000001")
    job = finished(lab, solved(), id="eval-00000002", model="sums-0badcafe-step-20")
    assert "test_reward warned" not in (await judged(lab, "eval-00000002")).summary
    warned = [{"code": "reward-hackable", "severity": "warning"}]
    row = Evidence("test_reward", "passed", lab.key, job.environment, job.source, "c", findings=warned)
    lab.ledger.record(row)
    assert "test_reward warned of reward-hackable" in (await judged(lab, "eval-00000002")).summary


async def test_the_report_page_of_a_checkpoint_says_what_the_call_says_and_never_to_publish(lab: Lab) -> None:
    trained(lab)
    args = {"split": "eval"}
    finished(lab, mixed(), id="eval-00000001", env_args=args)
    finished(lab, solved(), id="eval-00000002", model="sums-0badcafe-step-20", env_args=args)
    found = await judged(lab, "eval-00000002")
    assert 'on held-out tasks ("split" = "eval"); against scripted +' in found.summary
    page = (await page_of_evaluation(lab, "eval-00000002")).markdown

    head = page.split("## Findings")[0].replace("\\", "")
    assert "**a result**" in head
    assert found.summary in head
    assert "opens no gate" in page.replace("\\", "")
    assert "push" not in page
    assert "Use harder tasks" not in page
    assert "five checks" not in page
    assert "what changed, task by task" in page


async def test_a_comparison_that_shows_nothing_says_so_first_and_judges_no_tasks(lab: Lab) -> None:
    """The word passed stood before +0.12 (-0.00 to +0.24), with findings about tasks that nobody had to change."""
    trained(lab)
    finished(lab, mixed(), id="eval-00000001")
    finished(lab, mixed(), id="eval-00000002", model="sums-0badcafe-step-20")
    found = await judged(lab, "eval-00000002")
    assert found.summary.startswith("A difference is not shown: ")
    assert "against scripted 0.00" in found.summary
    assert "-0.00" not in found.summary
    finished(lab, solved(), id="eval-00000003", model="sums-0badcafe-step-20")
    better = await judged(lab, "eval-00000003")
    assert "not shown" not in better.summary
    assert not [f.code for f in better.findings if f.fix.startswith("Nothing is to be changed")]


async def test_a_result_says_which_tasks_a_checkpoint_was_evaluated_on(lab: Lab) -> None:
    trained(lab)
    finished(lab, solved(), id="eval-00000002", model="sums-0badcafe-step-20")
    found = await judged(lab, "eval-00000002")
    assert "on tasks that it may have been trained on" in found.summary
    assert "may have been trained on" in (await page_of_evaluation(lab, "eval-00000002")).markdown


async def test_mean_and_difference_of_a_result_are_in_one_unit() -> None:
    unit = Distribution(**{f.name: None for f in dataclasses.fields(Distribution)})
    half = dataclasses.replace(unit, mean=0.66, mean_low=0.59, mean_high=0.71, attainable=1.1)
    assert _mean_with_interval(half) == ("mean 0.66 of attainable, 95% 0.59 to 0.71 (mean reward 0.73, attainable 1.1)")
    assert _unit(half) == " of attainable"
    assert _unit(dataclasses.replace(half, attainable=1.0)) == ""


async def test_a_result_is_no_candidate_for_training_so_nothing_is_advised_about_its_tasks(lab: Lab) -> None:
    trained(lab)
    finished(lab, solved(), id="eval-00000002", model="sums-0badcafe-step-20")
    found = await judged(lab, "eval-00000002")
    advice = {f.code: f.fix for f in found.findings}
    assert advice["distribution-all-one"] == "Nothing is to be changed for this: it describes the result."
    assert {call.tool for call in found.next} == {"run_eval"}


async def test_held_out_tasks_without_an_evaluation_before_are_the_value_before_training(lab: Lab) -> None:
    finished(lab, solved(), id="eval-00000001", env_args={"split": "eval"})
    found = await judged(lab, "eval-00000001")

    assert (found.status, found.data["result"]["purpose"]) == ("passed", "held-out")
    following = found.next[0]
    assert (following.tool, following.arguments) == ("workflow_status", {"environment": "sums_v1"})
    read = await read_eval.run(call(lab), read_eval.Args(eval="eval-00000001"))
    assert read.data["result"]["purpose"] == "held-out"


async def test_the_same_rollouts_of_the_base_model_on_training_tasks_are_still_refused(lab: Lab) -> None:
    trained(lab)
    finished(lab, solved(), id="eval-00000001", env_args={"split": "train"})
    found = await judged(lab, "eval-00000001")
    assert found.status == "failed"
    assert "result" not in found.data


async def test_what_makes_a_result_unbelievable_still_decides(lab: Lab) -> None:
    trained(lab)
    broken = [episode(t, None if r else 1.0) for t in range(40) for r in range(4)]
    finished(lab, broken, id="eval-00000001", model="sums-0badcafe")
    found = await judged(lab, "eval-00000001")
    assert found.status == "inconclusive"
    assert "eval-errors" in {f.code for f in found.blockers}
