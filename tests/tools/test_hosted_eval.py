"""run_eval(hosted=true) through the real prime: gate, money, one evaluation whatever happens, and what it proves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals.hosted import subject
from prime_lab_mcp.lab.report import Outcome
from prime_lab_mcp.tools import control_run, push_environment, watch_run
from prime_lab_mcp.tools.run_eval import TOOL
from tests.tools.loopback import Desk, desk

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
FOREIGN = "primeintellect/reverse-text"
SKILL = "rehearsal/skill-50"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("hosted"), speed=4.0) as opened:
        yield opened


async def evaluate(at: Desk, environment: str, **given: Any) -> Outcome:
    """A call as the call path makes it, approval given."""
    subject._SEEN.clear()
    values = {"environment": environment, "model": SKILL, "num_examples": 6, "rollouts": 4, "wait_seconds": 60}
    args = TOOL.args.model_validate({**values, "hosted": True, **given})
    call = await at.hosted(TOOL, args)
    assert TOOL.intent is not None
    return await TOOL.run(replace(call, intent=await TOOL.intent(call, args)), args)


async def started(at: Desk) -> int:
    return len(await at.requests("POST", "/hosted-evaluations"))


async def test_a_foreign_environment_is_evaluated_reported_and_opens_nothing(at: Desk) -> None:
    before = await started(at)
    found = await evaluate(at, FOREIGN)
    print(found)
    assert found.status
