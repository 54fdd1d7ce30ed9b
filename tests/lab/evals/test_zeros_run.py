"""Every class of zero, produced by the real vf-eval against a rehearsal model that fails in that way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from prime_lab_mcp.lab.interpreter import Interpreters
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.settings import Settings
from prime_lab_mcp.rehearsal import connection
from tests.lab.evals import failing

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TOOLS: dict[str, Any] = {"tools": {}}
JUDGE = "rehearsal/zero-judge-unparsed"
V1 = [
    ("wrong", {}, "wrong", ""),
    ("wrong", TOOLS, "wrong", ""),
    ("unparsed", {}, "unparsed", ""),
    ("truncated", {}, "truncated", "tokens"),
    ("truncated-call", TOOLS, "truncated", "tokens"),
    ("no-tool-call", TOOLS, "no_tool_call", ""),
    ("malformed-tool-json", TOOLS, "malformed_tool_json", ""),
    ("fenced-call", TOOLS, "malformed_tool_json", "parser"),
    ("double-encoded", TOOLS, "double_encoded", ""),
    ("unknown-tool", TOOLS, "unknown_tool", ""),
    ("bad-arguments", TOOLS, "bad_arguments", ""),
    ("tool-timeout", {"tools": {"slow": "tool"}}, "tool_timeout", ""),
    ("tool-timeout", {"tools": {"slow": "rollout"}, "seconds": 6.0}, "tool_timeout", ""),
    ("empty-response", {}, "empty_response", ""),
    ("judge-unparsed", {"task": {"judge": {"model": JUDGE}}}, "judge_unparsed", ""),
    ("infrastructure", {}, "infrastructure", "provider"),
]
V0 = [
    ("wrong", {"tools": True}, "wrong", ""),
    ("unparsed", {}, "unparsed", ""),
    ("truncated", {}, "truncated", "tokens"),
    ("truncated-call", {"tools": True}, "truncated", "tokens"),
    ("no-tool-call", {"tools": True}, "no_tool_call", ""),
    ("malformed-tool-json", {"tools": True}, "malformed_tool_json", ""),
    ("fenced-call", {"tools": True}, "malformed_tool_json", "parser"),
    ("double-encoded", {"tools": True}, "double_encoded", ""),
    ("unknown-tool", {"tools": True}, "unknown_tool", ""),
    ("bad-arguments", {"tools": True}, "bad_arguments", ""),
    ("tool-timeout", {"tools": True, "slow": True}, "tool_timeout", ""),
    ("empty-response", {}, "empty_response", ""),
    ("judge-unparsed", {"judged": JUDGE}, "judge_unparsed", ""),
    ("infrastructure", {}, "infrastructure", "provider"),
]


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    child, address = await connection.start(tmp_path / "platform")
    async with child:
        yield address


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Interpreters:
    kept = platformdirs.user_cache_path("prime-lab-mcp-tests")
    return Interpreters(Settings(workspace=tmp_path_factory.mktemp("workspace"), state_dir=kept))


def name(row: tuple[str, dict[str, Any], str, str]) -> str:
    return f"{row[0]}-{'-'.join(row[1])}".strip("-")


@pytest.mark.parametrize(("model", "args", "kind", "cause"), V1, ids=map(name, V1))
async def test_v1(lab: Lab, url: str, model: str, args: dict[str, Any], kind: str, cause: str) -> None:
    failing.write(lab.settings.workspace, "v1")

    _, found = await failing.run(lab, url, "v1", f"rehearsal/zero-{model}", **args)

    assert [(f.kind, f.cause) if f else None for f in found] == [(kind, cause)] * 2, found


@pytest.mark.parametrize(("model", "args", "kind", "cause"), V0, ids=map(name, V0))
async def test_v0(
    lab: Lab, url: str, old: Interpreters, model: str, args: dict[str, Any], kind: str, cause: str
) -> None:
    failing.write(lab.settings.workspace, "v0")
    python = (await old.for_package({"project": {"dependencies": list(failing.OLD)}}, api="v0")).python

    _, found = await failing.run(lab, url, "v0", f"rehearsal/zero-{model}", python=python, **args)

    assert [(f.kind, f.cause) if f else None for f in found] == [(kind, cause)] * 2, found
