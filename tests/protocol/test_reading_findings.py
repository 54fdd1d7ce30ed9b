"""Finding pages as resources with completion, and through read_reference, whose results stay short."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ResourceTemplateReference

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.resources.codes import expanded

pytestmark = pytest.mark.anyio
FINDING = ResourceTemplateReference(type="ref/resource", uri="lab://finding/{code}")


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_code_completes_and_its_page_is_markdown(settings: Settings, era: Any) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        codes = (await client.complete(FINDING, {"name": "code", "value": "leak-"})).completion.values
        page = (await client.read_resource("lab://finding/leak-near")).contents[0]
        with pytest.raises(MCPError):
            await client.read_resource("lab://finding/leak-nope")
    assert codes == ["leak-exact", "leak-near"]
    assert page.mime_type == "text/markdown"
    assert page.text.startswith("# leak-near\n")  # type: ignore[union-attr]


async def read(settings: Settings, topic: str | None) -> dict[str, Any]:
    async with Client(build_server(Lab(settings))) as client:
        result = await client.call_tool("read_reference", {} if topic is None else {"topic": topic})
    shown: dict[str, Any] = result.structured_content  # type: ignore[assignment]
    return shown


async def test_without_topic_the_list_leads_to_the_findings_and_stays_under_2_000_tokens(settings: Settings) -> None:
    shown = await read(settings, None)
    assert "finding" in [entry["topic"] for entry in shown["data"]["topics"]]
    assert len(json.dumps(shown)) / 4 < 2_000


async def test_the_list_of_findings_holds_all_codes_by_family_and_stays_under_2_000_tokens(settings: Settings) -> None:
    shown = await read(settings, "finding")
    families = dict(line.split(": ", 1) for line in shown["data"]["text"].splitlines())
    listed = {family: expanded(codes) for family, codes in families.items()}
    assert "leak-near" in listed["dataset"]
    assert "config-lr-unset" in listed["config"]
    assert len(json.dumps(shown)) / 4 < 2_000


@pytest.mark.parametrize("topic", ["finding/position-bias", "lab://finding/position-bias"])
async def test_a_finding_is_read_by_its_code(settings: Settings, topic: str) -> None:
    shown = await read(settings, topic)
    assert "**Fix.** Shuffle" in shown["data"]["text"]
    assert shown["links"][0]["uri"] == "lab://finding/position-bias"


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("position-bias", "finding/position-bias"),
        ("finding/positon-bias", "finding/position-bias"),
        ("finding/duplicate_prompt", "finding/duplicate-prompt"),
        ("workflow", "guide/workflow"),
        ("guide/reward", "guide/rewards"),
        ("numeric", "template/numeric"),
    ],
)
async def test_an_unknown_topic_suggests_the_near_ones(settings: Settings, asked: str, meant: str) -> None:
    shown = await read(settings, asked)
    assert shown["findings"][0]["code"] == "unknown-topic"
    assert meant in shown["findings"][0]["fix"]


async def test_the_files_of_a_template_are_listed_by_its_kind(settings: Settings) -> None:
    shown = await read(settings, "template/numeric")
    assert "template/numeric/pyproject.toml" in shown["data"]["text"].splitlines()
