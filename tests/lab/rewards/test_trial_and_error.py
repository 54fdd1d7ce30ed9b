"""Models that try out what tools offer, and what environments pay them that say too much or ask too little."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import pytest

from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE
from prime_lab_mcp.lab.rewards.trial_and_error import play_thoughtless
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Component, OfferedTool, RequestedRollout, RolloutResult, Rollouts

pytestmark = pytest.mark.anyio
ROOMS = ("attic", "cellar", "garage", "kitchen", "study")
SYSTEM = {"role": "system", "content": f"Where is it? The house has these rooms: {', '.join(ROOMS)}."}
TASKS = [Row(n, str(n), (SYSTEM, {"role": "user", "content": f"Item {n}?"}), None, None, {}) for n in range(8)]
Answer = Callable[[dict[str, Any], int, Any], str]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class House:
    """A stand-in for a worker: one tool with one argument, whose calls of a rollout are kept in a state."""

    def __init__(self, answer: Answer, paid: Callable[[list[Any], int], bool]) -> None:
        self.answer, self.paid = answer, paid

    async def rollout(self, requested: Sequence[RequestedRollout], **_: Any) -> Rollouts:
        return Rollouts(tuple(self._played(asked) for asked in requested))

    def _played(self, asked: RequestedRollout) -> RolloutResult:
        state: dict[str, Any] = {}
        given, messages = [], []
        for turn in asked.script["turns"]:
            for _, arguments in turn["calls"] if isinstance(turn, Mapping) else ():
                value = next(iter(arguments.values()), None)
                given.append(value)
                messages.append({"role": "tool", "content": self.answer(state, asked.row, value)})
        reward = float(self.paid(given, asked.row))
        return RolloutResult(messages, reward, "ended", True, {"right": Component(reward, 1.0)}, turns=2)


def tool(kind: str) -> OfferedTool:
    schema = {"type": "object", "properties": {"value": {"type": kind}}, "required": ["value"]}
    return OfferedTool("report", "Report something.", schema)


async def names(house: House, kind: str = "string") -> list[str]:
    found = await play_thoughtless(cast(Worker, house), TASKS, [tool(kind)], BARE)
    return [model.name for model in found]


def room(row: int) -> str:
    return ROOMS[row % 5]


async def test_every_value_is_handed_in_where_the_last_one_need_not_be_right() -> None:
    any_call = House(lambda *_: "noted", lambda given, row: room(row) in given)
    assert await names(any_call) == ["calls report with every value of 'value'"]


async def test_a_tool_that_says_what_is_right_ends_the_search() -> None:
    def told(state: dict[str, Any], row: int, value: Any) -> str:
        return "right" if value == room(row) else f"{value} is wrong"

    last_call = House(told, lambda given, row: given[-1:] == [room(row)])
    assert await names(last_call) == [
        "calls report with one value of 'value' after the other until the answer is another one"
    ]


async def test_what_an_error_states_is_handed_in() -> None:
    def total(row: int) -> int:
        return 4000 + 37 * row

    def told(state: dict[str, Any], row: int, value: Any) -> str:
        return "booked" if value == total(row) else f"error: {value} is not {total(row)}"

    house = House(told, lambda given, row: total(row) in given)
    assert await names(house, "integer") == [
        "calls report with a meaningless value and again with what the answer states"
    ]


@pytest.mark.parametrize(
    ("sign", "what"),
    [(1, "the sum of the value and what the answer states"), (-1, "the value less what the answer states")],
)
async def test_how_far_a_number_is_off_is_made_good(sign: int, what: str) -> None:
    def balance(row: int) -> float:
        return round(4000.1 + 37.37 * row, 2)

    def told(state: dict[str, Any], row: int, value: Any) -> str:
        off = round(sign * (balance(row) - float(value)), 2)
        return f"The books are off by {off:.2f}. Tries left: 2." if off else "closed"

    house = House(told, lambda given, row: balance(row) in given)
    assert await names(house, "number") == [f"calls report with a meaningless value and again with {what}"]


async def test_higher_or_lower_is_no_number_to_hand_in() -> None:
    def told(state: dict[str, Any], row: int, value: Any) -> str:
        return "higher" if value < 4000 + 37 * row else "lower"

    house = House(told, lambda given, row: 4000 + 37 * row in given)
    assert await names(house, "integer") == []


@pytest.mark.parametrize("kind", ["string", "integer"])
async def test_an_environment_that_takes_the_first_call_and_says_nothing_pays_no_such_model(kind: str) -> None:
    house = House(lambda *_: "noted", lambda given, row: given[:1] == [room(row)])
    assert await names(house, kind) == []


class Office(House):
    """A stand-in for a worker with a list of two pages and a tool that takes what it lists."""

    def _played(self, asked: RequestedRollout) -> RolloutResult:
        given: list[Any] = []
        messages = []
        for turn in asked.script["turns"]:
            for name, arguments in turn["calls"] if isinstance(turn, Mapping) else ():
                first = 100 * asked.row + 12 * arguments.get("page", 1)
                listed = "\n".join(self.answer({}, asked.row, first + n) for n in range(12))
                given += [arguments["segment"]] if name == "remove" else []
                messages.append({"role": "tool", "content": listed if name == "shelves" else "noted"})
        reward = float(self.paid(given, asked.row))
        return RolloutResult(messages, reward, "ended", True, {"right": Component(reward, 1.0)}, turns=2)


@pytest.mark.parametrize("line", ["{} | oak | open", "segment {}: junction 3 -> junction 4"])
@pytest.mark.parametrize("needs_all", [True, False])
async def test_what_all_pages_of_a_list_name_is_handed_in(line: str, needs_all: bool) -> None:
    """Removing everything leaves nothing that is wrong; where the last call alone counts, it is no way."""

    def paid(given: list[Any], row: int) -> bool:
        everything = {100 * row + n for n in range(12, 36)}
        return everything <= set(given) if needs_all else given == [100 * row + 17]

    page = {"type": "object", "properties": {"page": {"type": "integer"}}}
    one = {"type": "object", "properties": {"segment": {"type": "integer"}}, "required": ["segment"]}
    tools = [OfferedTool("shelves", "List them.", page), OfferedTool("remove", "Remove one.", one)]
    office = Office(lambda _, __, value: line.format(value), paid)
    found = await play_thoughtless(cast(Worker, office), TASKS, tools, BARE)
    assert [model.name for model in found] == ["calls remove with every value of 'segment'"] * needs_all
