"""Runs that go on are billed at the present price: the question, the cap and the ledger must know that price."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.training.bound import CostBound
from prime_lab_mcp.lab.training.control import prepare_control
from prime_lab_mcp.lab.training.resumption import submission_at
from prime_lab_mcp.lab.training.submission import RunStanding, submit_run
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import control_run
from tests.tools.loopback import CONFIG
from tests.tools.stand_in_prime import StandInPrime, run_row, server, started_run

pytestmark = pytest.mark.anyio
ACTIONS = [("p", "resume"), ("r", "restart")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def prime() -> StandInPrime:
    made = StandInPrime()
    made.runs = [run_row("p", "sums", "PAUSED"), run_row("r", "other", "RUNNING")]
    made.steps = 40
    return made


@pytest.fixture
def lab(tmp_path: Path, prime: StandInPrime) -> Iterator[Lab]:
    """A server under a cap of 100 dollars. Its runs were started at 4 dollars an hour, for 30 dollars at most."""
    made = server(tmp_path, prime, max_spend=100.0)
    for id in ("p", "r"):
        made.ledger.record_run(started_run(made, id))
    yield made
    made.ledger.close()


async def approved(question: str) -> Any:
    return "approved"


async def control(lab: Lab, id: str, action: str, ask: Any = None, **more: Any) -> Report:
    calls = Calls(lab, (control_run.TOOL,), References())
    return await calls.execute("control_run", {"id": id, "action": action, **more}, ask=ask)


@pytest.mark.parametrize(("id", "action"), ACTIONS)
async def test_a_run_that_goes_on_is_asked_about_at_the_present_price(
    lab: Lab, prime: StandInPrime, id: str, action: str
) -> None:
    prime.price = 5.0
    asked = await control(lab, id, action)
    assert "$10.00 per hour ($4.00 when it was started), at most $75.00 more" in asked.data["question"]
    assert asked.data["max_cost"] == 75.0


@pytest.mark.parametrize(("id", "action"), ACTIONS)
async def test_the_cap_counts_the_present_price_of_a_run_that_goes_on(
    lab: Lab, prime: StandInPrime, id: str, action: str
) -> None:
    prime.price = 5.0
    assert (await control(lab, id, action, approved)).status == "passed"
    assert lab.ledger.spent("rehearsal") == 75.0
    [newest, *_] = lab.ledger.runs(platform="rehearsal")
    assert action == "restart" or (newest.price_per_hour, newest.max_cost) == (10.0, 75.0)


@pytest.mark.parametrize(("id", "action"), ACTIONS)
async def test_a_run_above_the_cap_at_the_present_price_does_not_go_on(
    lab: Lab, prime: StandInPrime, id: str, action: str
) -> None:
    prime.price = 10.0
    report = await control(lab, id, action, approved)
    assert ([f.code for f in report.findings], prime.sent) == (["over-cap"], [])


@pytest.mark.parametrize(("id", "action"), ACTIONS)
async def test_a_price_that_rises_between_question_and_answer_sends_nothing(
    lab: Lab, prime: StandInPrime, id: str, action: str
) -> None:
    async def dearer(question: str) -> Any:
        prime.price = 5.0
        return "approved"

    report = await control(lab, id, action, dearer)
    assert ([f.code for f in report.findings], prime.sent) == (["intent-changed"], [])
    again = await control(lab, id, action, approved)
    assert (again.status, len(prime.sent)) == ("passed", 1)


async def test_a_token_for_the_old_price_does_not_hold_for_the_new_one(lab: Lab, prime: StandInPrime) -> None:
    asked = await control(lab, "p", "resume")
    prime.price = 5.0
    calls = Calls(lab, (control_run.TOOL,), References())  # a server that was started since the question
    report = await calls.execute("control_run", {"id": "p", "action": "resume", "confirm": asked.data["confirm"]})
    assert (report.status, prime.sent) == ("needs_confirmation", [])


async def test_a_lower_price_needs_no_other_answer(lab: Lab, prime: StandInPrime) -> None:
    async def cheaper(question: str) -> Any:
        prime.price = 1.0
        return "approved"

    assert (await control(lab, "p", "resume", cheaper)).status == "passed"
    assert lab.ledger.runs(platform="rehearsal")[0].max_cost == 15.0


async def test_a_restarted_run_counts_at_the_price_at_which_it_began_where_that_is_higher(
    lab: Lab, prime: StandInPrime
) -> None:
    prime.price = 1.0
    assert (await control(lab, "r", "restart", approved)).status == "passed"
    assert lab.ledger.spent("rehearsal") == 30.0


async def test_a_run_for_which_the_platform_charges_more_than_it_said_counts_at_what_it_charges(
    lab: Lab, prime: StandInPrime
) -> None:
    path = lab.workspace.root / "configs" / "rl" / "sums.toml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG, encoding="utf-8")
    copy = lab.workspace.root / "copy.toml"
    copy.write_text('name = "sums-abababab"\n', encoding="utf-8")
    prime.price = 4.0
    standing = RunStanding("fresh", "k" * 64, 1, "sums-abababab")
    started = await submit_run(
        lab, submission_at(lab, parse_config(CONFIG, path), standing, CostBound(4.0, 10.0, 2.5, ""), copy, None)
    )
    assert started is not None
    assert (started.price_per_hour, started.max_cost) == (8.0, 10.0)
    assert lab.ledger.spent("rehearsal") == 20.0


@pytest.mark.parametrize(("id", "action"), ACTIONS)
async def test_a_run_that_goes_on_is_asked_about_with_the_cautions_and_the_config_of_its_submission(
    lab: Lab, id: str, action: Any
) -> None:
    path = lab.workspace.root / "configs" / "on.toml"
    path.parent.mkdir(parents=True)
    path.write_text(CONFIG + '\n[orchestrator.renderer]\nname = "gpt-oss"\n', encoding="utf-8")
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    lab.ledger.record_run(started_run(lab, id, config_path="configs/on.toml", config_sha256=sha256))
    plan = await prepare_control(lab, action, id)
    assert any("orchestrator.renderer.name" in caution for caution in plan.cautions)
    assert 'name = "gpt-oss"' in plan.file
