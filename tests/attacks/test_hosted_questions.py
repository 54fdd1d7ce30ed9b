"""What a person is asked about a hosted evaluation is what runs: the version, the arguments, and whose cost it is."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest

from prime_lab_mcp.lab.evals.evidence_limits import FOREIGN, evidence_limits
from prime_lab_mcp.lab.state.ledger.rows import Job
from prime_lab_mcp.rehearsal.store import Store
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.approval import Answer
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.support.evaluations import hosted_spec
from tests.tools.loopback import Desk, desk

pytestmark = pytest.mark.anyio
THEIRS, MODEL = "primeintellect/reverse-text", "openai/gpt-4.1-mini"
DEAR: dict[str, Any] = {"environment": THEIRS, "model": MODEL, "num_examples": 200, "hosted": True, "wait_seconds": 0}


@pytest.fixture
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("moved"), speed=4.0) as opened:
        yield opened


def publish_next(at: Desk) -> None:
    """The owner publishes other files as the next version."""
    with Store(at.lab.settings.workspace.parent / "platform").session() as session:
        environment = next(e for e in session.all("environment") if e["name"] == "reverse-text")
        newest = max(session.all("version", environment["id"]), key=lambda v: str(v["semantic_version"]))
        moved = {"id": "ver_moved", "semantic_version": "0.9.0", "content_hash": "9" * 64}
        session.put(
            "version", "ver_moved", {**newest, **moved, "created": newest["created"] + 1}, parent=environment["id"]
        )


async def test_a_version_that_its_owner_replaces_while_the_question_is_open_is_not_started(at: Desk) -> None:
    async def meanwhile(question: str) -> Answer:
        assert f"Evaluate {THEIRS}@0.2.0 on the platform" in question
        publish_next(at)
        return "approved"

    report = await Calls(at.lab, TOOLS, References()).execute("run_eval", DEAR, ask=meanwhile)
    assert [finding.code for finding in report.findings] == ["intent-changed"], report
    assert "was 0.2.0 when this was planned, and is 0.9.0 now" in report.findings[0].message
    assert at.lab.ledger.jobs() == []
    assert await at.lab.prime.eval_list() == []


async def test_the_question_names_the_arguments_and_whose_cost_it_states(at: Desk) -> None:
    questions = list[str]()

    async def no(question: str) -> Answer:
        questions.append(question)
        return "declined"

    calls = Calls(at.lab, TOOLS, References())
    measured = await calls.execute("run_eval", {**DEAR, "num_examples": 6, "rollouts": 4, "wait_seconds": 300})
    id = measured.data["id"]
    await calls.execute("run_eval", DEAR, ask=no)
    await calls.execute("run_eval", {**DEAR, "env_args": {"judge_model": "openai/o1-pro"}}, ask=no)
    same, other = questions
    assert f"as 24 rollouts of {id} took)" in same
    assert 'env_args={"judge_model": "openai/o1-pro"}' in other
    assert f"as 24 rollouts of {id} took with other arguments)" in other
    publish_next(at)
    await calls.execute("run_eval", {**DEAR, "num_examples": 201}, ask=no)
    assert f"as 24 rollouts of {id} took with another version of the environment)" in questions[-1]


@pytest.mark.parametrize("moved", [True, None, False])
def test_of_a_strangers_version_that_moved_nothing_says_that_it_ran(moved: bool | None) -> None:
    spec = dataclasses.replace(hosted_spec(), source=f"{FOREIGN}x", hosted="somebody/theirs@1.0.0")
    job = Job(
        "eval-00000001", "w", "theirs", spec.source, spec.content, spec.intent, "finished", None, 0.0, 0.0, None,
        spec.as_json(), {} if moved is None else {"moved": moved},
    )  # fmt: skip
    found = {finding.code: finding for finding in evidence_limits(spec, job, failed=False)}
    assert ("hosted-version-moved" in found) == (moved is not False)
    assert any("what ran is" in finding.message for finding in found.values()) == (moved is False)
