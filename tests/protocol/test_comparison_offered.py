"""A finished evaluation leads to its comparison with that of another model on the same files."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.lab.evals.finished import episode, finished, mixed

pytestmark = [pytest.mark.anyio]
FIRST, SECOND = "eval-00000001", "eval-00000002"


async def compared(lab: Lab) -> list[Any]:
    """The comparisons that the report of the second evaluation recommends."""
    async with Client(build_server(lab)) as client:
        told = (await client.call_tool("watch_run", {"id": SECOND})).structured_content
    assert told is not None
    return [one["arguments"] for one in told["next"] if (one["arguments"] or {}).get("view") == "compare"]


async def test_the_evaluation_of_another_model_is_offered_for_comparison(settings: Settings) -> None:
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, model="owner/small")
    finished(lab, mixed(), SECOND, model="owner/big")

    assert await compared(lab) == [{"eval": SECOND, "view": "compare", "other": FIRST}]


@pytest.mark.parametrize("changes", [{"model": "owner/big"}, {"model": "owner/small", "source": "c" * 64}])
async def test_the_same_model_or_other_files_are_not_offered(settings: Settings, changes: dict[str, Any]) -> None:
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, **changes)
    finished(lab, mixed(), SECOND, model="owner/big")

    assert await compared(lab) == []


async def test_an_evaluation_that_earned_nothing_is_mended_before_it_is_compared(settings: Settings) -> None:
    lab = Lab(settings)
    finished(lab, mixed(), FIRST, model="owner/small")
    finished(lab, [episode(task, 0.0) for task in range(40) for _ in range(4)], SECOND, model="owner/big")

    assert await compared(lab) == []
