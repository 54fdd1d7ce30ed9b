"""The page inside of a client: a host made of the extension's own AppBridge renders the page in Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
import uvicorn
from mcp import Client
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.server.app import build_server
from tests.dashboard.test_browser import CHROMIUM, fill

HERE = Path(__file__).parent / "apps"
NODE, NPM = shutil.which("node"), shutil.which("npm")
DOCUMENT = '<!doctype html><pre id="log"></pre><script type="module" src="host.js"></script>'
EVALUATION = "eval-00000001"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None or NPM is None or CHROMIUM is None, reason="needs node, npm and Chromium"),
]


@dataclass(frozen=True)
class Rendered:
    """What the host wrote: the messages it forwarded, the text of the page, and the colour scheme of the page."""

    log: list[list[Any]]
    text: str
    scheme: str

    @property
    def reads(self) -> list[str]:
        return [entry[1] for entry in self.log if entry[0] == "read"]


@dataclass(frozen=True)
class Host:
    url: str
    profile: Path

    def render(self, tool: str, given: dict[str, Any], **options: str) -> Rendered:
        """Call a tool through the host's client, and render its page beside the result."""
        assert CHROMIUM is not None
        query = urlencode({"tool": tool, "given": json.dumps(given), **options})
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.profile}"]
        # Virtual time does not wait for a frame in a process of its own, as a frame without an origin has.
        command += ["--disable-features=IsolateSandboxedIframes", "--window-size=1000,1400"]
        command += ["--virtual-time-budget=20000", "--dump-dom", f"{self.url}/?{query}"]
        dumped = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
        written = re.search(r'<pre id="log">(.*?)</pre>', dumped, re.DOTALL)
        assert written is not None, dumped[:2000]
        return Rendered(**json.loads(html.unescape(written[1])))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    root = tmp_path_factory.mktemp("apps")
    for name in ("package.json", "package-lock.json", "host.mjs"):
        shutil.copy(HERE / name, root)
    for command in (
        [str(NPM), "ci", "--no-audit", "--no-fund", "--ignore-scripts"],
        ["node_modules/.bin/esbuild", "host.mjs", "--bundle", "--format=esm", "--outfile=host.js"],
    ):
        subprocess.run(command, cwd=root, check=True, timeout=300, capture_output=True)
    folder = root / "workspace" / "environments" / "sums"
    (folder / "sums").mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "sums"\nversion = "0.1.0"\n', encoding="utf-8")
    lab = Lab(Settings(workspace=root / "workspace", state_dir=root / "state"))
    fill(lab)
    server = uvicorn.Server(uvicorn.Config(served(lab, root), port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.02)
    yield Host(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", root / "profile")
    server.should_exit = True
    thread.join()


def served(lab: Lab, root: Path) -> Starlette:
    """The host's own pages, which reach our server through a real client."""
    state: dict[str, Client] = {}

    @asynccontextmanager
    async def connected(app: Starlette) -> AsyncIterator[None]:
        async with Client(build_server(lab)) as client:
            state["client"] = client
            yield

    async def start(request: Request) -> Response:
        client, asked = state["client"], request.query_params
        given = json.loads(asked["given"])
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        address = (tools[asked["tool"]].meta or {})["ui"]["resourceUri"]
        (content,) = (await client.read_resource(address)).contents
        result = await client.call_tool(asked["tool"], given)
        dumped = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return JSONResponse({"html": content.text, "given": given, "result": dumped})  # type: ignore[union-attr]

    async def read(request: Request) -> Response:
        result = await state["client"].read_resource(request.query_params["uri"])
        return JSONResponse(result.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def document(request: Request) -> Response:
        return Response(DOCUMENT, media_type="text/html")

    async def script(request: Request) -> Response:
        return Response((root / "host.js").read_bytes(), media_type="text/javascript")

    routes = [Route("/", document), Route("/host.js", script), Route("/start", start), Route("/read", read)]
    return Starlette(routes=routes, lifespan=connected)


def test_the_page_opens_at_the_result_of_the_tool(host: Host) -> None:
    opened = {
        "workflow_status": ({}, "lab://view/environments", "Environments"),
        "read_eval": ({"eval": EVALUATION}, f"lab://view/evaluations/{EVALUATION}", "Usable groups"),
    }
    for tool, (given, address, text) in opened.items():
        rendered = host.render(tool, given)
        assert rendered.log[0] == ["initialized"], tool
        assert address in rendered.reads, (tool, rendered.log)
        assert text in rendered.text, (tool, rendered.text[:1000])
        heights = [entry[1] for entry in rendered.log if entry[0] == "height"]
        assert heights, (tool, rendered.log)
        assert 200 <= heights[-1] <= 900, tool


def test_links_lead_through_the_client_and_the_theme_is_the_clients(host: Host) -> None:
    link = f'a[href="#/evaluations/{EVALUATION}/rollouts/0"]'
    rendered = host.render("read_eval", {"eval": EVALUATION}, follow=link, theme="dark")
    assert f"lab://view/evaluations/{EVALUATION}/rollouts/0" in rendered.reads
    assert "Rollout 1" in rendered.text
    assert rendered.scheme == "dark"


def test_the_page_works_without_an_origin(host: Host) -> None:
    rendered = host.render("read_eval", {"eval": EVALUATION}, opaque="1")
    assert f"lab://view/evaluations/{EVALUATION}" in rendered.reads


def test_a_client_that_lets_the_page_read_nothing_gets_the_report(host: Host) -> None:
    rendered = host.render("read_eval", {"eval": EVALUATION}, closed="1")
    assert rendered.reads == []
    assert "read eval" in rendered.text
    assert "Next" in rendered.text
