"""Arguments that a client wrote in another form than the schema are read as they were meant, or refused by name."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.server.arguments import parse
from tests.protocol.toys import TOYS, Number

ECHO: Any = next(tool for tool in TOYS if tool.name == "echo")


@pytest.mark.parametrize(
    "given", [{"names": '["a"]', "number": "2"}, {"names": ["a"], "number": 2}, {"names": '["a"]', "number": 2.0}]
)
def test_json_text_of_a_value_is_the_value(given: dict[str, Any]) -> None:
    assert parse(ECHO, given) == Number(number=2, names=["a"])


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"names": '["a"]', "number": 99}, "number"),
        ({"names": '"a"'}, "names"),
        ({"names": "["}, "names"),
        ({"names": ["a\0"]}, "names"),
        ({"names": "[" * 100_000 + "]" * 100_000}, "names"),
        ({"names": reduce(lambda inner, _: [inner], range(600), ["a"])}, "names"),
    ],
    ids=["another is wrong", "text of a text", "no JSON", "nul", "deep JSON", "deep lists"],
)
def test_what_cannot_be_meant_is_refused_by_name(given: dict[str, Any], named: str) -> None:
    refused = parse(ECHO, given)
    assert isinstance(refused, Report)
    assert (refused.status, refused.findings[0].code) == ("error", "bad-argument")
    assert named in refused.findings[0].message
