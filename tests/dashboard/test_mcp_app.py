"""Clients that render MCP Apps are told of a page, get the page as one document, and read its views as resources."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError

from prime_lab_mcp.dashboard import STATIC
from prime_lab_mcp.dashboard.mcp_app import ENTRY, one_script
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.lab.evals.finished import finished, mixed

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["auto", "legacy"])
async def client(lab: Lab, request: pytest.FixtureRequest) -> AsyncIterator[Client]:
    async with Client(build_server(Lab(lab.settings)), mode=request.param) as connected:
        yield connected


async def view(client: Client, address: str) -> tuple[int, Any]:
    (content,) = (await client.read_resource(f"lab://view/{address}")).contents
    answer = json.loads(content.text)  # type: ignore[union-attr]
    return answer["status"], answer["content"]


async def test_tools_with_a_page_name_it_and_the_page_is_one_document(client: Client) -> None:
    pages = {t.name: t.meta["ui"]["resourceUri"] for t in (await client.list_tools()).tools if t.meta}
    assert {"workflow_status", "run_eval", "read_eval", "watch_run"} <= pages.keys()
    for tool, address in pages.items():
        (content,) = (await client.read_resource(address)).contents
        assert content.mime_type == "text/html;profile=mcp-app"
        document = content.text  # type: ignore[union-attr]
        assert f'<meta name="tool" content="{tool}">' in document
        # The frame of a client loads nothing.
        assert not re.search(r'<link|src="(?!data:)|^\s*(?:import|export) ', document, re.MULTILINE)


async def test_there_is_no_page_for_other_names(client: Client) -> None:
    for name in ("push_environment", "nothing", "%3Cscript%3E"):
        with pytest.raises(MCPError, match="no page"):
            await client.read_resource(f"ui://prime-lab/{name}")


async def test_views_are_the_same_as_over_http(client: Client, lab: Lab, page: httpx.AsyncClient) -> None:
    finished(lab, mixed(60), environment="sums", model="a model")
    query = "page=2&text=%2B"
    for address, path in (
        ("evaluations", "evaluations"),
        ("evaluations/eval-00000001", "evaluations/eval-00000001"),
        (
            f"evaluations/eval-00000001/rollouts?query={query.replace('&', '%26').replace('%2B', '%252B')}",
            f"evaluations/eval-00000001/rollouts?{query}",
        ),
        ("spend", "spend"),
        ("runs", "runs"),
    ):
        over_http = await page.get(f"/api/{path}")
        assert await view(client, address) == (over_http.status_code, over_http.json()), address


async def test_what_there_is_not_says_so(client: Client) -> None:
    assert await view(client, "nowhere") == (404, {"error": "there is no such view"})
    status, content = await view(client, "evaluations/eval-0000000f")
    assert status == 404
    assert content["fix"]
    status, content = await view(client, "evaluations?query=page%3Dmany")
    assert status == 400
    assert "page" in content["error"]


def test_the_one_script_holds_every_module_that_it_needs_once() -> None:
    script = one_script(ENTRY)
    modules = re.findall(r"^modules\['([\w.]+)'\] = ", script, re.MULTILINE)
    assert sorted(modules) == sorted({path.name for path in STATIC.glob("*.js")} - {ENTRY, "app.js"})
    used = set(re.findall(r"modules\['([\w.]+)'\];", script))
    assert used == set(modules)
    for name in modules:
        assert script.index(f"modules['{name}'] = ") < script.index(f"modules['{name}'];")
