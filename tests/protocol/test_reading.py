"""Resources, completions and prompts through the SDK's own client, in both protocol eras."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import ResourceTemplateReference

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ["legacy", "auto"])]


async def test_every_listed_resource_can_be_read(settings: Settings, era: Any) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        listed = (await client.list_resources()).resources
        texts = [(await client.read_resource(str(r.uri))).contents[0].text for r in listed]  # type: ignore[union-attr]
    assert "lab://guide/workflow" in {str(r.uri) for r in listed}
    assert all(len(text) > 200 for text in texts)
    assert all(r.title and r.description for r in listed)


@pytest.mark.parametrize(
    "uri",
    ["lab://guide/nope", "lab://template/numeric/../../catalog.py", "lab://template/nope/a.py", "lab://evals/x/report"],
)
async def test_what_is_not_there_is_a_clear_refusal(settings: Settings, era: Any, uri: str) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
    assert refused.value.error.code in (-32602, -32002)


async def test_template_files_complete_and_can_be_read(settings: Settings, era: Any) -> None:
    reference = ResourceTemplateReference(type="ref/resource", uri="lab://template/{kind}/{+path}")
    async with Client(build_server(Lab(settings)), mode=era) as client:
        kinds = (await client.complete(reference, {"name": "kind", "value": "n"})).completion.values
        paths = (await client.complete(reference, {"name": "path", "value": ""})).completion.values
        page = await client.read_resource(f"lab://template/{kinds[0]}/{paths[0]}")
    assert kinds == ["numeric"]
    assert page.contents


async def test_the_status_of_an_environment_is_a_resource(settings: Settings, era: Any) -> None:
    folder = settings.workspace / "environments" / "made"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "made"\nversion = "0.1.0"\n', encoding="utf-8")
    reference = ResourceTemplateReference(type="ref/resource", uri="lab://environments/{name}/status")
    async with Client(build_server(Lab(settings)), mode=era) as client:
        names = (await client.complete(reference, {"name": "name", "value": "ma"})).completion.values
        page = await client.read_resource(f"lab://environments/{names[0]}/status")
    shown = json.loads(page.contents[0].text)  # type: ignore[union-attr]
    assert shown["data"]["environments"][0]["name"] == "made"


async def test_the_prompts_carry_the_users_words(settings: Settings, era: Any) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        filled = await client.get_prompt("build_environment", {"task": "count {dataset} sheep"})
    assert names == {
        "build_environment",
        "train_existing",
        "debug_reward",
        "review_environment",
        "migrate_environment",
        "benchmark_models",
        "watch_run",
    }
    assert "count {dataset} sheep" in filled.messages[0].content.text  # type: ignore[union-attr]


async def test_read_reference_reads_the_same_pages(settings: Settings, era: Any) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        listed = await client.call_tool("read_reference", {})
        page = await client.call_tool("read_reference", {"topic": "guide/rewards"})
        wrong = await client.call_tool("read_reference", {"topic": "../../server/app"})
    assert "guide/rewards" in [entry["topic"] for entry in listed.structured_content["data"]["topics"]]  # type: ignore[index]
    assert "# Rewards" in page.structured_content["data"]["text"]  # type: ignore[index]
    assert wrong.is_error
