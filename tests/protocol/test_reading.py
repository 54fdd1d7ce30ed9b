"""Resources, completions and prompts through the SDK's own client, in both protocol eras."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS, PromptReference, ResourceTemplateReference

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
        "solve_something",
        "review_environment",
        "migrate_environment",
        "benchmark_models",
        "follow_run",
    }
    assert "count {dataset} sheep" in filled.messages[0].content.text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("build_environment", {}, "needs task"),
        ("build_environment", {"task": "  "}, "needs task"),
        ("debug_reward", {"environment": "sums", "moood": "x"}, 'has no "moood"'),
        ("watch_run", {}, 'no prompt "watch_run"'),
    ],
)
async def test_a_request_that_does_not_fit_a_prompt_is_refused_as_invalid_parameters(
    settings: Settings, era: Any, name: str, arguments: dict[str, str], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        with pytest.raises(MCPError) as refused:
            await client.get_prompt(name, arguments)
    assert refused.value.error.code == INVALID_PARAMS
    assert says in refused.value.error.message
    assert not caplog.records  # a traceback with colours takes the event loop for seconds


async def test_no_tool_and_prompt_share_a_name(settings: Settings, era: Any) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
    assert not tools & prompts


async def test_the_arguments_of_prompts_complete(settings: Settings, era: Any) -> None:
    for name in ("made", "hand_made"):
        folder = settings.workspace / "environments" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").write_text(f'[project]\nname = "{name}"\nversion = "0.1.0"\n', encoding="utf-8")
    lab = Lab(settings)
    async with Client(build_server(lab), mode=era) as client:

        async def values(prompt: str, argument: str, start: str) -> list[str]:
            reference = PromptReference(type="ref/prompt", name=prompt)
            return (await client.complete(reference, {"name": argument, "value": start})).completion.values

        assert await values("debug_reward", "environment", "MA") == ["made"]
        assert await values("debug_reward", "environment", "mad") == ["made", "hand_made"]
        assert await values("debug_reward", "environment", "hand-m") == ["hand_made"]
        assert await values("debug_reward", "environment", "environments/h") == ["environments/hand_made"]
        assert await values("debug_reward", "environment", "nothing") == []
        assert "Qwen/Qwen3-4B-Instruct-2507" in await values("build_environment", "model", "qwen/qwen3-4b")
        assert await values("build_environment", "task", "") == []


async def test_read_reference_reads_the_same_pages(settings: Settings, era: Any) -> None:
    async with Client(build_server(Lab(settings)), mode=era) as client:
        listed = await client.call_tool("read_reference", {})
        page = await client.call_tool("read_reference", {"topic": "guide/rewards"})
        wrong = await client.call_tool("read_reference", {"topic": "../../server/app"})
    assert "guide/rewards" in [entry["topic"] for entry in listed.structured_content["data"]["topics"]]  # type: ignore[index]
    assert "# Rewards" in page.structured_content["data"]["text"]  # type: ignore[index]
    assert wrong.is_error
