"""Every class of zero, produced by the real vf-eval against a rehearsal model that fails in that way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.evals.zeros.turns import ZEROS, Classified
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.rehearsal import connection
from prime_lab_mcp.rehearsal.zeros import KINDS
from tests.lab.evals.zeros import failing
from tests.support.interpreters import MATH_VERIFY, OLDEST, older

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=2, group="classes of zero")]

SECONDS = 45.0
"""Mostly enough for the harness to start and call the tool, on a busy machine too."""
CLASSES = {
    "wrong": ("wrong", ""),
    "unparsed": ("unparsed", ""),
    "truncated": ("truncated", "tokens"),
    "truncated-call": ("truncated", "tokens"),
    "no-tool-call": ("no_tool_call", ""),
    "malformed-tool-json": ("malformed_tool_json", ""),
    "fenced-call": ("malformed_tool_json", "parser"),
    "double-encoded": ("double_encoded", ""),
    "unknown-tool": ("unknown_tool", ""),
    "bad-arguments": ("bad_arguments", ""),
    "tool-timeout": ("tool_timeout", ""),
    "empty-response": ("empty_response", ""),
    "judge-unparsed": ("judge_unparsed", ""),
    "infrastructure": ("infrastructure", "provider"),
}


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    child, address = await connection.start(tmp_path / "platform")
    async with child:
        yield address


def classes(found: list[tuple[str, Classified | None]]) -> list[tuple[str, tuple[str, str] | None]]:
    return sorted((way, (zero.kind, zero.cause) if zero else None) for way, zero in found)


def expected() -> list[tuple[str, tuple[str, str]]]:
    return sorted([*CLASSES.items(), *CLASSES.items()])


def test_every_class_has_a_model_that_fails_in_its_way() -> None:
    assert set(CLASSES) == set(KINDS)
    assert {kind for kind, _ in CLASSES.values()} == set(ZEROS)


async def test_every_class_in_v1(lab: Lab, url: str) -> None:
    failing.write(lab.settings.workspace, "v1")

    found = await failing.run(lab, url, "v1")

    assert classes(found) == expected(), found


async def test_a_rollout_whose_time_runs_out_in_a_tool(lab: Lab, url: str) -> None:
    failing.write(lab.settings.workspace, "v1")

    found = await failing.run(lab, url, "v1", tasks=1, kinds=["tool-timeout"], tools={"stalls": True}, seconds=SECONDS)

    ways = {(zero.kind, zero.cause) if zero else None for _, zero in found}
    # On a busy machine the time may run out before the harness has started.
    assert ("tool_timeout", "") in ways
    assert ways <= {("tool_timeout", ""), ("infrastructure", "time")}, found


async def test_every_class_in_v0(lab: Lab, url: str) -> None:
    failing.write(lab.settings.workspace, "v0")
    python = (await older(OLDEST, MATH_VERIFY)).python

    found = await failing.run(lab, url, "v0", python=python)

    assert classes(found) == expected(), found
