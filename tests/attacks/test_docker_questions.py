"""With the Docker service, environment code can do anything here: nothing starts before a person has agreed to that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.server.approval import Answer
from tests.attacks.proven import NAME, proven_calls
from tests.lab.evals.scripted import adds, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program `docker` whose service is said to run."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")


def trained(lab: Lab) -> None:
    """A run of this machine, whose checkpoint has a base model to be compared with."""
    lab.ledger.record_run(Run("run_1", "training", "mine", lab.key, "k", lab.platform, data={"model": "base"}))


@pytest.mark.parametrize("more", [{}, {"compare_base": True}], ids=["single", "with its base"])
async def test_whatever_is_evaluated_a_person_is_asked_about_the_docker_service(
    lab: Lab, docker: None, more: dict[str, Any]
) -> None:
    calls, asked = await proven_calls(lab), list[str]()
    trained(lab)

    async def no(question: str) -> Answer:
        asked.append(question)
        return "declined"

    with serving(adds) as model:
        given = {"environment": NAME, "model": "mine", "endpoint": model.url, "runtime": "docker", "num_examples": 2}
        report = await calls.execute("run_eval", {**given, **more, "wait_seconds": 0}, ask=no)
    assert (report.status, lab.ledger.jobs()) == ("needs_confirmation", []), report
    (question,) = asked
    assert "the environment's code gets the Docker service" in question
    assert f"Evaluate {NAME} with mine at" in question
    assert (f"Evaluate {NAME} with base at" in question) == bool(more)


@pytest.mark.parametrize(
    "other",
    [{"env_args": {"size": 3}}, {"harness": "bash"}, {"temperature": 0.2}, {"by": "answer"}, {"concurrency": 2}],
    ids=lambda other: next(iter(other)),
)
async def test_a_token_for_one_evaluation_does_not_answer_for_another(
    lab: Lab, docker: None, other: dict[str, Any]
) -> None:
    calls = await proven_calls(lab)
    with serving(adds) as model:
        given = {"environment": NAME, "model": "mine", "endpoint": model.url, "runtime": "docker", "num_examples": 2}
        first = await calls.execute("run_eval", {**given, "wait_seconds": 0})
        token = first.data["confirm"]
        report = await calls.execute("run_eval", {**given, **other, "wait_seconds": 0, "confirm": token})
    assert (report.status, lab.ledger.jobs()) == ("needs_confirmation", []), report
    assert "That token is for something else" in report.summary
