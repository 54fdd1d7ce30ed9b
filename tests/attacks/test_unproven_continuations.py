"""Runs that go on spending without what a submission needs: begun elsewhere, or no longer proven."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import control_run
from tests.tools.stand_in_prime import StandInPrime, lost, run_row, server

pytestmark = pytest.mark.anyio
CONFIG = """max_steps = 4
model.name = "m"

[orchestrator]
batch_size = 16
group_size = 8

[[orchestrator.train.source]]
taskset.id = "sums"
"""


class Account(StandInPrime):
    """An account without environments, whose owner cannot be asked."""

    async def ask_ahead(self, *questions: Sequence[str]) -> None:
        return None

    async def account(self) -> Any:
        raise lost()

    async def teams(self) -> Any:
        raise lost()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def prime() -> StandInPrime:
    made = Account()
    made.runs = [run_row("p", "sums", "PAUSED"), run_row("r", "other", "RUNNING")]
    made.steps = 40
    return made


@pytest.fixture
def lab(tmp_path: Path, prime: StandInPrime) -> Iterator[Lab]:
    made = server(tmp_path, prime)
    yield made
    made.ledger.close()


async def control(lab: Lab, id: str, action: str, ask: Any = None, **more: Any) -> Report:
    calls = Calls(lab, (control_run.TOOL,), References())
    return await calls.execute("control_run", {"id": id, "action": action, **more}, ask=ask)


async def approved(question: str) -> Any:
    return "approved"


@pytest.mark.parametrize(("id", "action"), [("p", "resume"), ("r", "restart")])
async def test_a_token_does_not_let_a_run_go_on_of_which_nothing_is_known_here(
    lab: Lab, prime: StandInPrime, id: str, action: str
) -> None:
    asked = await control(lab, id, action)
    assert asked.status == "needs_confirmation"
    assert "nothing about the environments" in asked.data["question"]
    again = await control(lab, id, action, confirm=asked.data["confirm"])
    assert (again.status, prime.sent) == ("needs_confirmation", [])
    assert (await control(lab, id, action, approved)).status == "passed"
    assert prime.sent == [action]


@pytest.mark.parametrize(("id", "action"), [("p", "resume"), ("r", "restart")])
async def test_a_run_whose_environment_was_never_proven_does_not_go_on(
    lab: Lab, prime: StandInPrime, id: str, action: str
) -> None:
    path = lab.workspace.root / "configs" / "on.toml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG, encoding="utf-8")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    lab.ledger.record_run(Run(id, "training", id, lab.key, id * 64, "rehearsal", "configs/on.toml", sha256, 4.0, 30.0))
    report = await control(lab, id, action, approved)
    assert (report.status, prime.sent) == ("blocked", []), report
    path.write_text(CONFIG + "# changed\n", encoding="utf-8")
    report = await control(lab, id, action)
    assert (report.status, prime.sent) == ("needs_confirmation", []), report
