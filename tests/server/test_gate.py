"""The gate of one call, with the platform's answers given: what goes on, what is cautioned, what the account lacks."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.lab import preflight
from prime_lab_mcp.lab.base.report import Finding, Next, Unmet
from prime_lab_mcp.lab.evals.hosted import plan as hosted_plan
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.gates import COULD_NOT_ASK, NOT_VALIDATED
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Run
from prime_lab_mcp.lab.training import sources
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls, no_progress
from prime_lab_mcp.server.gate import Gate, Passage
from prime_lab_mcp.tools.registry import TOOLS
from prime_lab_mcp.tools.tool import Call
from tests.lab.evals.conftest import write_environment
from tests.lab.state.evidence_rows import MODEL, ours

pytestmark = pytest.mark.anyio
BY_NAME = {tool.name: tool for tool in TOOLS}
CONFIG = f"""max_steps = 4
model.name = "{MODEL}"

[orchestrator]
batch_size = 16
group_size = 8

[[orchestrator.train.source]]
[orchestrator.train.source.env.taskset]
id = "me/env@0.1.0"
"""


async def nothing(*_: Any) -> Any:
    raise AssertionError("nothing is proven on the way")


async def passage(lab: Lab, tool: str, **call: Any) -> Passage:
    made = Call(lab, None, no_progress, References(), nothing, **call)
    return await Gate(lab, nothing, nothing).check(BY_NAME[tool], made)


@pytest.fixture
def config(lab: Lab) -> Path:
    path = lab.workspace.root / "configs" / "on.toml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG, encoding="utf-8")
    return path


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of the config has its whole chain, and the account may train."""

    async def facts(*_: Any) -> list[Any]:
        return [ours()]

    async def none(*_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(sources, "gather_source_facts", facts)
    monkeypatch.setattr(sources, "gather_package_facts", none)
    monkeypatch.setattr(preflight, "missing_capability", none)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record_run(lab: Lab, path: Path | None, **changes: Any) -> None:
    given = {"kind": "training", **changes}
    place = (None, None) if path is None else ("configs/on.toml", sha256(path))
    lab.ledger.record_run(Run("r", given["kind"], "sums", lab.key, "k", lab.platform, *place))


async def test_a_push_refused_for_a_failed_test_leads_to_the_files_and_not_to_the_same_test_of_them(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    here = (lab.key, snapshot.name, snapshot.source, snapshot.content)
    blocker = ({"code": "reward-search-hole", "severity": "blocker", "message": "m", "fix": "f"},)
    lab.ledger.record(Evidence("check_environment", "passed", *here))
    lab.ledger.record(Evidence("test_reward", "failed", *here, findings=blocker))
    made = Call(lab, snapshot, no_progress, References(), nothing)
    refused = (await Gate(lab, nothing, nothing).check(BY_NAME["push_environment"], made)).report
    assert refused is not None
    assert refused.next[0].tool == "read_environment"
    assert "reward-search-hole" in refused.next[0].why
    assert "test_reward" not in {one.tool for one in refused.next}


@pytest.mark.usefixtures("proven")
async def test_a_run_whose_environments_are_still_proven_goes_on_with_what_it_rests_on(lab: Lab, config: Path) -> None:
    record_run(lab, config)
    found = await passage(lab, "control_run", continues="r")
    assert found.report is None
    assert (len(found.evidence), MODEL in found.evidence[0]) == (1, True)
    assert found.personal == found.ceilings


async def test_of_a_run_whose_config_is_gone_nothing_is_proven(lab: Lab, config: Path) -> None:
    record_run(lab, config)
    config.unlink()
    found = await passage(lab, "control_run", continues="r")
    assert (found.report, len(found.personal)) == (None, 1)
    assert "its config is not here as it was submitted" in found.personal[0]


async def test_what_is_no_training_run_needs_no_proof_to_go_on(lab: Lab) -> None:
    record_run(lab, None, kind="hosted-eval")
    assert await passage(lab, "control_run", continues="r") == Passage()


@pytest.mark.usefixtures("proven")
async def test_a_config_that_the_platform_could_not_judge_needs_a_confirmation_that_says_so(
    lab: Lab, config: Path
) -> None:
    blocker = ({"code": COULD_NOT_ASK, "severity": "blocker", "message": "down", "fix": "-"},)
    about = {"config_sha256": sha256(config), "findings": blocker}
    lab.ledger.record(Evidence("check_training_config", "inconclusive", lab.key, None, **about))
    found = await passage(lab, "submit_training", config=config, config_sha256=sha256(config))
    assert found.report is None, found.report
    assert found.cautions[0] == NOT_VALIDATED


async def test_an_evaluation_on_the_platform_needs_an_account_and_what_the_hub_holds(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = [Finding("not-logged-in", "blocker", "nobody is logged in", "Log in.")]
    asked: list[str] = []

    async def capability(_: Lab, name: str, __: Any) -> list[Finding]:
        asked.append(name)
        return missing

    async def look(_: Lab, environment: str, *__: Any) -> Any:
        instead = Next("search_hub", "what there is", {"kind": "environment", "query": environment})
        return SimpleNamespace(unmet=(Unmet("search_hub", "failed", "it is not on the Hub", instead=instead),))

    monkeypatch.setattr(preflight, "missing_capability", capability)
    monkeypatch.setattr(hosted_plan, "look_up_hosted", look)
    calls = Calls(lab, TOOLS, References())
    given = {"environment": "them/sums", "model": "m", "hosted": True}
    report = await calls.execute("run_eval", given)
    assert (report.status, report.unmet[0].tool, report.findings[0].code) == ("blocked", "preflight", "not-logged-in")
    missing.clear()
    report = await calls.execute("run_eval", given)
    assert [unmet.detail for unmet in report.unmet] == ["it is not on the Hub"]
    assert asked == ["account", "account"]
