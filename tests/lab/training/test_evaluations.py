"""What past evaluations are good for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.configs import registry
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job, Run
from prime_lab_mcp.lab.state.pulled import PULL
from prime_lab_mcp.lab.training import evaluations
from prime_lab_mcp.lab.training.evaluations import (
    evaluated_sources,
    evaluation_class,
    list_evaluations,
    pull_of_sources,
)


def job(id: str = "eval-1", state: str = "finished", model: str = "owner/small", **changes: Any) -> Job:
    values: dict[str, Any] = {
        "id": id,
        "workspace": "w",
        "environment": "my_env",
        "source": "s",
        "content": "c",
        "intent": id,
        "state": state,
        "pid": None,
        "lease": 0.0,
        "deadline": 0.0,
        "platform": None,
        "spec": {"model": model},
        "progress": {"completed": 8},
        "judged": True,
        "at": 1.0,
    }
    return Job(**(values | changes))


def verdict(
    mean: float | None = 0.4, blockers: tuple[str, ...] = (), model: str = "owner/small", id: str = "eval-1"
) -> Evidence:
    findings = [{"code": code, "severity": "blocker"} for code in blockers]
    status: Any = "failed" if blockers else "passed"
    return Evidence(
        tool="run_eval",
        status=status,
        workspace="w",
        environment="my_env",
        arguments={"id": id},
        model=model,
        findings=findings,
        data={"mean_reward": mean},
    )


@pytest.mark.parametrize(
    ("done", "row", "trained", "expected"),
    [
        (job(), verdict(), {"owner/small"}, "target"),
        (job(), verdict(), {"Owner/Small"}, "target"),
        (job(), verdict(), set(), "target"),
        (job(), verdict(), {"owner/other"}, "comparison"),
        (job(), verdict(model="openai/gpt-5-nano"), set(), "ceiling"),
        (job(), verdict(model="anthropic/claude-x"), set(), "ceiling"),
        (job(), verdict(model="openai/gpt-oss-20b"), set(), "target"),
        (job(), verdict(mean=0.0), {"owner/small"}, "dead"),
        (job(), verdict(0.0, ("eval-errors",)), {"owner/small"}, "faulty"),
        (job(), verdict(0.3, ("eval-capped",)), set(), "faulty"),
        (job(), verdict(0.02, ("distribution-all-zero",)), set(), "target"),
        (job(state="crashed"), None, set(), "faulty"),
        (job(state="stopped"), None, set(), "faulty"),
        (job(state="running"), None, set(), None),
        (job(), None, set(), None),
    ],
)
def test_the_class_of_a_past_evaluation(done: Job, row: Evidence | None, trained: set[str], expected: str) -> None:
    found, why = evaluation_class(done, row, trained)
    assert found == expected
    assert why is None or len(why) > 5
    assert (why is None) == ((found == "target" and bool(trained)) or done.state == "running")


@pytest.mark.anyio
async def test_a_config_names_the_model_to_be_trained_by_whatever_name_it_has_the_environment(lab: Lab) -> None:
    for id, model in (("eval-1", "owner/small"), ("eval-2", "owner/big")):
        lab.ledger.create_job(job(id, model=model, workspace=lab.key))
        lab.ledger.judge(id, [])
    for id, model in (("eval-1", "owner/small"), ("eval-2", "owner/big")):
        row = verdict(model=model, id=id)
        lab.ledger.record(Evidence(**{f: getattr(row, f) for f in row.__slots__} | {"workspace": lab.key}))
    assert {r["id"]: r["class"] for r in list_evaluations(lab, 15)} == {"eval-1": "target", "eval-2": "target"}

    entry = registry.RegistryEntry(
        "run", 1, "configs/rl/run.toml", "2026-01-01", "owner/small", "hosted", ("me/my-env@0.1.0",), "0" * 64
    )
    registry.add_entry(lab.workspace.resolve(registry.REGISTRY), entry)
    rows = {r["id"]: r for r in list_evaluations(lab, 15)}
    assert (rows["eval-1"]["class"], rows["eval-2"]["class"]) == ("target", "comparison")
    assert rows["eval-1"]["mean"] == 0.4
    assert rows["eval-2"]["why"].startswith("training is meant for owner/small; it earns no more")


@pytest.mark.parametrize(
    ("mean", "model", "target_mean", "expected"),
    [
        (0.6, "owner/big", 0.4, "ceiling"),
        (0.3, "owner/tiny", 0.4, "comparison"),
        (0.3, "owner/tiny", None, "comparison"),
        (0.6, "openai/gpt-5-nano", 0.4, "ceiling"),
        (0.3, "openai/gpt-5-nano", 0.4, "comparison"),
        (0.9, "run-1-step-10", 0.4, "comparison"),
    ],
)
def test_a_ceiling_is_a_model_that_earns_more_and_no_checkpoint(
    mean: float, model: str, target_mean: float | None, expected: str
) -> None:
    row = verdict(mean, model=model)
    found, why = evaluation_class(job(model=model), row, {"owner/small"}, {"run-1-step-10"}, target_mean)
    assert (found, bool(why)) == (expected, True)


@pytest.mark.anyio
async def test_a_checkpoint_in_the_list_is_a_comparison(lab: Lab) -> None:
    lab.ledger.record_run(
        Run("run_1", "training", "my-run-1", lab.key, "i", lab.platform, data={"model": "owner/small"})
    )
    lab.ledger.create_job(job("eval-1", model="my-run-1-step-10", workspace=lab.key))
    lab.ledger.judge("eval-1", [])
    row = verdict(model="my-run-1-step-10", id="eval-1", mean=0.9)
    lab.ledger.record(Evidence(**{f: getattr(row, f) for f in row.__slots__} | {"workspace": lab.key}))
    assert [r["class"] for r in list_evaluations(lab, 15)] == ["comparison"]


@pytest.mark.anyio
async def test_an_environment_of_the_hub_is_evaluated_by_its_pulled_copy_and_pulled_where_there_is_none(
    lab: Lab,
) -> None:
    config = {"orchestrator": {"train": {"source": [{"env": {"taskset": {"id": "them/reverse-text@0.2.0"}}}]}}}
    assert evaluated_sources(lab, config) == ()
    pull = pull_of_sources(lab, config)
    assert pull is not None
    assert (pull.tool, pull.arguments) == (
        "create_environment",
        {"name": "reverse_text", "hub": "them/reverse-text@0.2.0"},
    )
    lab.ledger.record(Evidence(PULL, "passed", lab.key, "copied", data={"pulled": "them/reverse-text@0.1.0"}))
    assert pull_of_sources(lab, config) == pull
    lab.ledger.record(Evidence(PULL, "passed", lab.key, "reverse_text", data={"pulled": "them/reverse-text@0.2.0"}))
    assert [one.environment for one in evaluated_sources(lab, config)] == ["reverse_text"]
    assert pull_of_sources(lab, config) is None


def test_where_all_tasks_were_trained_on_held_out_tasks_come_before_a_comparison_on_the_trained_ones() -> None:
    """Such a comparison costs two evaluations and says nothing about other tasks."""
    trained = evaluations.BeforeAndAfter(evaluations.EvaluatedSource("tiny_env"), None, None)
    calls = evaluations.missing_evaluations(trained, "base", "run-step-9", rehearsal=True)
    assert [c.tool for c in calls] == ["read_environment", "run_eval"]
    assert "give its taskset a `split`" in calls[0].why
    held_out = evaluations.BeforeAndAfter(
        evaluations.EvaluatedSource("tiny_env", {"split": "eval"}, held_out=True), None, None
    )
    assert [c.tool for c in evaluations.missing_evaluations(held_out, "base", "run-step-9", rehearsal=True)] == [
        "run_eval"
    ]


def test_a_checkpoint_is_compared_at_the_token_limit_of_its_run() -> None:
    """The call named none, so that both were evaluated at the default of run_eval, eight times as long."""
    sampling = {"sampling": {"max_completion_tokens": 256}}
    assert evaluations.reply_limit({"orchestrator": {"train": sampling}}) == 256
    longer = {"sampling": {"max_completion_tokens": 512}}
    assert evaluations.reply_limit({"orchestrator": {"train": sampling, "eval": longer}}) == 512
    assert evaluations.reply_limit({}) is None
    held_out = evaluations.EvaluatedSource("tiny_env", {"split": "eval"}, held_out=True)
    base = job(spec={"max_tokens": 1024, "rollouts": 8, "num_examples": 30})
    for pair, limit in (
        (evaluations.BeforeAndAfter(held_out, None, None), 256),
        (evaluations.BeforeAndAfter(held_out, base, None), 1024),  # what was evaluated already is not evaluated again
    ):
        (call,) = evaluations.missing_evaluations(pair, "base", "run-step-9", rehearsal=True, max_tokens=256)
        assert (call.arguments or {})["max_tokens"] == limit


@pytest.mark.anyio
async def test_a_run_whose_checkpoint_was_compared_leads_to_the_comparison(lab: Lab) -> None:
    """The status led to the run, which the platform was asked about for 20 s, and the run to what had been read."""
    data = {"model": "owner/small", "environments": ["me/my-env@0.1.0"], "ended": "COMPLETED"}
    run = Run("run_1", "training", "my-run-1", lab.key, "i", lab.platform, data=data)
    held_out = {"split": "eval"}
    base = job("eval-1", workspace=lab.key, spec={"model": "owner/small", "env_args": held_out})
    lab.ledger.create_job(base)
    assert evaluations.result_of_run(lab, run) is None
    after = job("eval-2", workspace=lab.key, spec={"model": "my-run-1-step-10", "env_args": held_out})
    lab.ledger.create_job(after)
    result = evaluations.result_of_run(lab, run)
    assert result is not None
    assert (result.tool, result.arguments) == ("read_eval", {"eval": "eval-2", "view": "compare", "other": "eval-1"})
    assert evaluations.result_of_run(lab, replace(run, data={**data, "ended": "FAILED"})) is None
