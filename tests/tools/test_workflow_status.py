"""`workflow_status` says what is proven, what is stale and through which files, and what to call next."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab import environment_status
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.evals import sandboxes
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.state.compared_rewards import record_comparison
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.gates import NEEDS
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Run, evidence_from
from prime_lab_mcp.lab.state.open_warnings import record_port
from prime_lab_mcp.lab.state.outcome import Facts
from prime_lab_mcp.lab.state.pulled import PULL
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.training.test_evaluations import job as evaluation

pytestmark = pytest.mark.anyio
LINE = ("check_environment", "test_reward", "check_reward_distribution", "push_environment")


@pytest.fixture
def folder(lab: Lab) -> Path:
    made = lab.workspace.root / "environments" / "sums"
    (made / "sums").mkdir(parents=True)
    (made / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    (made / "README.md").write_text("# sums\n", encoding="utf-8")
    (made / "sums" / "__init__.py").write_text("A = 1\n", encoding="utf-8")
    return made


async def record(lab: Lab, tool: str, status: Any = "passed") -> None:
    findings = () if status == "passed" else (Finding("flaw", "blocker", "it is flawed", "Mend it."),)
    snapshot = await lab.snapshot("sums")
    facts = Facts(toolchain={DISTRIBUTIONS: await present_distributions(lab, snapshot)})
    lab.ledger.record(evidence_from(tool, status, lab.key, snapshot, findings, facts, "prime", {}, {}))


async def shown(lab: Lab) -> dict[str, Any]:
    report = await Calls(lab, TOOLS, References()).execute("workflow_status", {"environment": "sums"})
    assert report.status == "passed", report
    found: dict[str, Any] = report.data["environments"][0]
    return found


def states(found: dict[str, Any]) -> dict[str, str]:
    return {gate["tool"]: gate["state"] for gate in found["gates"]}


async def test_each_proof_opens_the_next_gate_and_names_the_next_call(lab: Lab, folder: Path) -> None:
    called, opened = [], []
    for tool in LINE:
        found = await shown(lab)
        called.append(found["next"]["tool"])
        opened.append([name for name, state in states(found).items() if state == "open"])
        await record(lab, tool)
    assert called == ["test_reward", "test_reward", "run_eval", "push_environment"]
    assert opened == [
        ["test_reward", "run_eval"],
        ["test_reward", "run_eval"],
        ["test_reward", "run_eval"],
        ["test_reward", "run_eval", "push_environment"],
    ]
    found = await shown(lab)
    assert set(states(found).values()) == {"open"}
    assert found["next"]["tool"] == "write_training_config"


async def test_an_empty_workspace_is_shown_the_calls_that_begin_one_and_a_file_the_call_that_starts_from_it(
    lab: Lab,
) -> None:
    calls = Calls(lab, TOOLS, References())
    found = {one.tool: one.arguments for one in (await calls.execute("workflow_status", {})).next}
    assert found["create_environment"] == {"name": "my_tasks", "template": "procedural"}
    assert found["search_hub"] == {"kind": "environment"}
    (lab.workspace.root / "rows.jsonl").write_text('{"question": "1?", "answer": "1"}\n', encoding="utf-8")
    first = (await calls.execute("workflow_status", {})).next[0]
    assert (first.tool, first.arguments) == ("inspect_dataset", {"dataset": "rows.jsonl"})


async def test_the_port_of_an_untried_v0_environment_comes_before_the_step_that_is_due(lab: Lab, folder: Path) -> None:
    code = "import verifiers as vf\n\n\ndef load_environment():\n    return vf.SingleTurnEnv(dataset=None)\n"
    (folder / "sums" / "__init__.py").write_text(code, encoding="utf-8")
    report = await Calls(lab, TOOLS, References()).execute("workflow_status", {})
    port, due = report.next
    assert (port.tool, port.arguments) == ("create_environment", {"name": "sums-v1", "port": "sums"})
    assert due.tool == "test_reward"


async def test_an_older_environment_is_not_offered_once_its_equal_port_is_published(lab: Lab, folder: Path) -> None:
    code = "import verifiers as vf\n\n\ndef load_environment():\n    return vf.SingleTurnEnv(dataset=None)\n"
    older = lab.workspace.environments / "older"
    shutil.copytree(folder, older)
    (older / "sums" / "__init__.py").write_text(code, encoding="utf-8")
    port, here = await lab.snapshot("sums"), {"environment": "older"}
    record_port(lab.ledger, lab.key, port, (), {"same_as": "environments/older"})
    record_comparison(lab.ledger, lab.key, port, {**here, "verdict": "equal", "completions": 3})

    async def offered() -> list[Any]:
        report = await Calls(lab, TOOLS, References()).execute("workflow_status", {})
        return [(one.arguments or {}).get("environment") for one in report.next]

    assert (await offered())[:2] == ["sums", "older"]
    for tool in LINE:
        await record(lab, tool)
    assert "older" not in await offered()


async def test_the_way_on_after_a_completed_run_is_in_the_status(lab: Lab, folder: Path) -> None:
    """Only a test of the reward was offered, and nothing told how the run had ended."""
    await record(lab, "check_environment")
    config = {"model": "m/base", "environments": ["me/sums@0.1.0"], "max_steps": 9}

    async def report() -> Any:
        return await Calls(lab, TOOLS, References()).execute("workflow_status", {})

    run = Run("run_1", "training", "my-run", lab.key, "i", lab.platform, data=config)
    lab.ledger.record_run(run)
    assert "ended" not in (await report()).data["runs"][0]
    lab.ledger.record_run(replace(run, data={**config, "ended": "COMPLETED"}))
    found = await report()
    assert found.data["runs"][0]["ended"] == "COMPLETED"
    assert (found.next[0].tool, found.next[0].arguments) == ("watch_run", {"id": "run_1"})


async def test_the_result_of_a_run_on_a_pulled_environment_comes_before_a_test_of_its_changed_files(
    lab: Lab, folder: Path
) -> None:
    """A split of one's own judged the checkpoint, and after the result the status led to a test that the goal does not
    need."""
    hub = "me/sums@0.1.0"
    pull = {"pulled": hub, "source": "as it was"}
    lab.ledger.record(Evidence(PULL, "passed", lab.key, "sums", "as it was", "c", data=pull))
    data = {"model": "m/base", "environments": [hub], "max_steps": 9, "ended": "COMPLETED"}
    lab.ledger.record_run(Run("run_1", "training", "my-run", lab.key, "i", lab.platform, data=data))
    for id, model in (("eval-1", "m/base"), ("eval-2", "my-run-step-9")):
        judged = evaluation(id, workspace=lab.key, spec={"model": model, "env_args": {"split": "eval"}})
        lab.ledger.create_job(replace(judged, environment="sums"))
    found = await Calls(lab, TOOLS, References()).execute("workflow_status", {})
    result, test = found.next[:2]
    assert (result.tool, (result.arguments or {})["view"]) == ("read_eval", "compare")
    assert test.tool == "test_reward"
    assert test.why.endswith(
        "needed only where the files of this folder are to be published, or trained on with changes"
    )


async def test_an_environment_whose_tasks_need_a_container_is_to_be_evaluated_in_the_one_that_is_here(
    lab: Lab, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "installed_containers", lambda: ("podman",))
    snapshot = await lab.snapshot("sums")
    facts = Facts(toolchain={DISTRIBUTIONS: await present_distributions(lab, snapshot)})
    for tool, data in (("check_environment", {"container": True}), ("test_reward", {})):
        lab.ledger.record(evidence_from(tool, "passed", lab.key, snapshot, (), facts, "prime", {}, data))
    due = (await shown(lab))["next"]
    assert (due["tool"], due["arguments"]) == ("run_eval", {"environment": "sums", "runtime": "podman"})
    monkeypatch.setattr(sandboxes, "installed_containers", lambda: ())
    assert (await shown(lab))["next"]["arguments"] == {"environment": "sums"}


async def test_every_tool_that_needs_something_proven_has_a_gate(
    lab: Lab, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment_status, "NEEDS", {**NEEDS, "new_tool": NEEDS["run_eval"]})
    assert sorted(states(await shown(lab))) == [
        *("new_tool", "push_environment", "run_eval", "submit_training", "test_reward"),
    ]


async def test_stale_evidence_names_the_files_that_changed(lab: Lab, folder: Path) -> None:
    for tool in LINE:
        await record(lab, tool)
    (folder / "sums" / "__init__.py").write_text("A = 2\n", encoding="utf-8")
    evidence = {entry["tool"]: entry for entry in (await shown(lab))["evidence"]}
    assert {entry["state"] for entry in evidence.values()} == {"stale"}
    assert evidence["test_reward"]["changed"] == ["sums/__init__.py"]


@pytest.mark.parametrize(
    ("proven", "failed", "status", "expected"),
    [
        ((), "check_environment", "failed", "check_environment"),
        (LINE[:1], "test_reward", "failed", "read_environment"),
        (LINE[:2], "check_reward_distribution", "failed", "read_eval"),
        (LINE[:2], "check_reward_distribution", "inconclusive", "read_eval"),
    ],
)
async def test_after_a_failure_the_next_call_leads_to_its_cause(
    lab: Lab, folder: Path, proven: tuple[str, ...], failed: str, status: str, expected: str
) -> None:
    for tool in proven:
        await record(lab, tool)
    await record(lab, failed, status)
    found = await shown(lab)
    assert found["next"]["tool"] == expected
    assert states(found)["push_environment"] == "closed"
    assert "flaw" in next(g["why"] for g in found["gates"] if g["tool"] == "push_environment")
