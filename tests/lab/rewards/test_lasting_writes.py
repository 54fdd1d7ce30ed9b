"""A tool that changes what later rollouts read is found, also where the names that it takes stand in no prompt.

The worker is a stand-in that makes the calls of a script in this process, with the tools of a small depot.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.rewards.scripts import began_slowly
from prime_lab_mcp.lab.rewards.tool_exploration import find_lasting_writes
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import OfferedTool, RequestedRollout, RolloutResult, Rollouts

TEXT = {"type": "string"}
DEPOT = {"K4": {"PT-31": 40, "NL-90": 7}, "M2": {"PT-31": 3}, "P8": {"TP-05": 19}}
TASK = Row(0, "0", ({"role": "user", "content": "Bring 6 rolls of tape from rack K4 to rack M2."},), None, None, {})


def offered(name: str, **properties: dict[str, object]) -> OfferedTool:
    return OfferedTool(name, "", {"type": "object", "properties": properties, "required": list(properties)})


TOOLS = (
    offered("look", rack=TEXT),
    offered(
        "carry",
        code=TEXT | {"description": 'such as "QX-07"'},
        origin=TEXT,
        goal=TEXT,
        number={"type": "integer"},
    ),
)


def look(stock: dict[str, dict[str, int]], rack: str) -> str:
    return ", ".join(f"{code}: {number}" for code, number in stock.get(rack, {}).items()) or "empty"


def carry(stock: dict[str, dict[str, int]], code: str, origin: str, goal: str, number: int) -> str:
    if origin == goal or stock.get(origin, {}).get(code, 0) < number or goal not in stock:
        return "refused"
    stock[origin][code] -= number
    stock[goal][code] = stock[goal].get(code, 0) + number
    return "carried"


class DepotWorker:
    """Makes the calls of scripts. `open_depot` returns the stock with which a rollout begins."""

    siblings = object()

    def __init__(self, opened: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        self.opened, self.stock = opened, deepcopy(DEPOT)

    @asynccontextmanager
    async def in_another_process(self) -> AsyncIterator[DepotWorker]:
        yield DepotWorker(self.opened)

    async def close(self) -> None:
        self.stock = deepcopy(DEPOT)

    async def rollout(self, requested: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self._played(asked.script["turns"][0]["calls"]) for asked in requested))

    def _played(self, calls: Sequence[tuple[str, dict[str, Any]]]) -> RolloutResult:
        stock = self.opened(self.stock)
        made = [
            {"id": str(n), "function": {"name": name, "arguments": json.dumps(given)}}
            for n, (name, given) in enumerate(calls)
        ]
        results = [
            {
                "role": "tool",
                "tool_call_id": str(n),
                "content": look(stock, **given) if name == "look" else carry(stock, **given),
            }
            for n, (name, given) in enumerate(calls)
        ]
        messages = ({"role": "assistant", "tool_calls": made}, *results)
        return RolloutResult(messages, 0.0, "ended", True, turns=2, tools=TOOLS)


@pytest.mark.anyio
@pytest.mark.parametrize(("opened", "lasts"), [(dict, True), (deepcopy, False)])
async def test_a_stock_that_is_copied_at_the_top_level_only_lasts(
    opened: Callable[[dict[str, Any]], dict[str, Any]], lasts: bool
) -> None:
    found = await find_lasting_writes(cast(Worker, DepotWorker(opened)), [TASK], TOOLS)
    assert (found is not None) is lasts
    if found is not None:
        assert found.call.startswith("look(")
        assert found.before != found.after


@pytest.mark.parametrize(
    ("ends", "turns", "again"),
    [
        (("slow", "not-run"), 0, True),
        (("slow", "not-run"), 3, False),
        (("slow", "ended"), 0, False),
        (("ended", "slow"), 0, False),
        ((), 0, False),
    ],
)
def test_rollouts_are_played_again_where_only_their_start_was_slow(ends: Any, turns: int, again: bool) -> None:
    assert began_slowly([RolloutResult((), None, end, False, turns=turns) for end in ends]) is again
