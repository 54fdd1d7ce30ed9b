"""Calls with names that earlier calls have returned."""

from __future__ import annotations

from prime_lab_mcp.lab.rewards.chained_calls import chained_calls
from prime_lab_mcp.lab.worker.scoring import OfferedTool

TEXT = {"type": "string"}


def tool(name: str, **properties: dict[str, object]) -> OfferedTool:
    return OfferedTool(name, "", {"type": "object", "properties": properties, "required": list(properties)})


LOOK = tool("look", bay=TEXT)
BOOK = tool("book", item=TEXT | {"description": 'such as "QX-07"'}, origin=TEXT, goal=TEXT, number={"type": "integer"})


def test_a_name_from_a_result_is_used_beside_the_argument_that_led_to_it() -> None:
    calls = chained_calls([LOOK, BOOK], [("look", {"bay": "K4"})], ["PT-31: 12 of them"], ["Bring tape from K4 to M2."])
    assert ("book", {"item": "PT-31", "origin": "K4", "goal": "M2", "number": 1}) in calls
    assert {given["item"] for name, given in calls if name == "book"} == {"PT-31"}


def test_a_name_from_a_result_is_looked_up_by_tools_with_one_parameter() -> None:
    cancel = tool("cancel", order=TEXT)
    calls = chained_calls([cancel], [("list", {})], ["open: R-12, R-15"], ["Tidy up."])
    assert calls == [("cancel", {"order": "R-12"}), ("cancel", {"order": "R-15"})]


def test_results_without_names_lead_to_no_call() -> None:
    assert not chained_calls([LOOK, BOOK], [("look", {"bay": "K4"})], ["empty"], ["Bring tape from K4 to M2."])
