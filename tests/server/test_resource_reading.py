"""Resources about runs and pages, and the completion of their names."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import PromptReference, ResourceTemplateReference

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.tools.tool import Arguments
from tests.protocol.toys import toy

pytestmark = pytest.mark.anyio


class Watched(Arguments):
    id: str


@pytest.fixture
async def client(settings: Settings) -> AsyncIterator[Any]:
    lab = Lab(settings)
    lab.ledger.record_run(Run("run-1", "training", "sums", lab.key, "key", "prime"))
    lab.ledger.record_run(Run("run-2", "training", "sums", "another workspace", "key", "prime"))
    async with Client(build_server(lab)) as client:
        yield client


async def test_the_runs_of_the_workspace_are_completed_in_prompts_and_addresses(client: Any) -> None:
    for reference, name in (
        (PromptReference(name="follow_run"), "run"),
        (ResourceTemplateReference(uri="lab://runs/{id}"), "id"),
    ):
        found = await client.complete(reference, {"name": name, "value": "run"})
        assert found.completion.values == ["run-1"]
    unknown = await client.complete(ResourceTemplateReference(uri="lab://other/{id}"), {"name": "id", "value": ""})
    assert unknown.completion.values == []


@pytest.mark.parametrize("uri", ["lab://runs/none/card", "ui://prime-lab/none", "lab://evals/none/report"])
async def test_what_is_not_there_is_an_error_of_its_address(client: Any, uri: str) -> None:
    with pytest.raises(MCPError, match="none"):
        await client.read_resource(uri)


async def test_the_page_of_a_tool_is_html(client: Any) -> None:
    (page,) = (await client.read_resource("ui://prime-lab/workflow_status")).contents
    assert page.mime_type == "text/html;profile=mcp-app"
    assert "<html" in page.text


async def test_a_view_of_the_page_is_read_twice_and_one_that_is_not_there_says_so(client: Any) -> None:
    for path, status in (("none/such", 404), ("none/such", 404)):
        (view,) = (await client.read_resource(f"lab://view/{path}")).contents
        assert json.loads(view.text)["status"] == status


async def test_a_run_is_read_as_the_report_of_the_tool_that_watches_it(settings: Settings) -> None:
    async def watch(call: Any, args: Watched) -> Outcome:
        return Outcome("passed", f"{args.id} runs")

    server = build_server(Lab(settings), (toy("watch_run", Watched, watch, "reads"),))
    async with Client(server) as client:
        (page,) = (await client.read_resource("lab://runs/run-1")).contents
    assert json.loads(page.text)["summary"] == "run-1 runs"


async def test_a_server_is_called_without_a_client_too(settings: Settings) -> None:
    lab = Lab(settings)
    answer: Any = await build_server(lab).call_tool("workflow_status", {})
    assert answer.structured_content["status"] == "passed"
    await lab.close()


async def test_an_address_that_names_nothing_has_no_state_to_follow(settings: Settings) -> None:
    lab = Lab(settings)
    assert await build_server(lab).notices._state_token("lab://evals/none/report") is None
    await lab.close()
