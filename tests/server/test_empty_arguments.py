"""Optional arguments that say nothing (null, an empty text, an empty list) are as good as left out.

Models in OpenAI's strict mode have to fill every argument of a tool, and forms of clients send all of theirs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server import arguments
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.support.laws import every
from tests.support.required_arguments import REQUIRED_ARGUMENTS

BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.fixture
async def calls(settings: Settings) -> AsyncIterator[Calls]:
    rows = [{"question": f"{i} + {i}?", "answer": str(2 * i)} for i in range(40)]
    (settings.workspace / "sums.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    lab = Lab(settings)
    yield Calls(lab, TOOLS, References())
    await lab.close()


def required(tool: str) -> dict[str, Any]:
    fields = BY_NAME[tool].args.model_fields
    given = {"environment": "sums"} if "environment" in fields and fields["environment"].is_required() else {}
    return {**given, **REQUIRED_ARGUMENTS.get(tool, {})}


def filled(tool: str, *, empty: bool) -> dict[str, Any]:
    """All arguments of a tool: of the optional ones each is null, or what a model fills in that has nothing to say."""
    given = required(tool)
    for name, field in arguments.schema(BY_NAME[tool].args)["properties"].items():
        if name not in given:
            blank = {"string": "", "array": []}.get(str(field.get("type"))) if empty else None
            given[name] = field.get("default", blank) if empty else None
    return given


@every("tool", sorted(BY_NAME))
@every("empty", [True, False])
def test_what_says_nothing_counts_as_left_out(tool: str, empty: bool) -> None:
    given = filled(tool, empty=empty)
    least, parsed = (arguments.parse(BY_NAME[tool], each) for each in (required(tool), given))
    assert not isinstance(least, Report), least
    assert not isinstance(parsed, Report), parsed
    kept_apart = BY_NAME[tool].args.MEANINGFUL_WHEN_EMPTY if empty else frozenset()
    assert parsed.model_dump(exclude=set(kept_apart)) == least.model_dump(exclude=set(kept_apart))


@pytest.mark.anyio
async def test_an_environment_is_made_and_edited_by_a_client_that_fills_every_argument(
    calls: Calls, settings: Settings
) -> None:
    for tool in ("inspect_dataset", "create_environment", "edit_environment", "read_environment", "workflow_status"):
        report = await calls.execute(tool, filled(tool, empty=True))
        assert report.status == "passed", report
    assert (settings.workspace / "environments" / "sums" / "notes.txt").read_text(encoding="utf-8") == "x"


@pytest.mark.anyio
async def test_an_empty_old_text_replaces_no_file(calls: Calls, settings: Settings) -> None:
    await calls.execute("create_environment", {"name": "sums", "dataset": "sums.jsonl"})
    file = settings.workspace / "environments" / "sums" / "README.md"
    before = file.read_text(encoding="utf-8")
    report = await calls.execute(
        "edit_environment", {"environment": "sums", "path": "README.md", "old": "", "new": "x"}
    )
    assert [finding.code for finding in report.findings] == ["old-not-unique"]
    assert file.read_text(encoding="utf-8") == before
