"""The picture of an evaluation as an image in results, and its report as a resource, in both protocol eras."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult, ImageContent, ResourceTemplateReference, TextResourceContents

from prime_lab_mcp.lab.base.report import Picture, Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.rendering import MAX_PICTURE_BYTES, MAX_PICTURES, images
from prime_lab_mcp.tools.tool import Arguments, Call, Tool
from tests.lab.evals.finished import finished, mixed

pytestmark = [pytest.mark.anyio]
PNG = b"\x89PNG\r\n\x1a\n"
ID = "eval-00000001"
both = pytest.mark.parametrize("era", ["legacy", "auto"])


@asynccontextmanager
async def evaluated(settings: Settings, era: Any) -> AsyncIterator[Client]:
    """A client of a server with one finished evaluation."""
    lab = Lab(settings)
    finished(lab, mixed())
    async with Client(build_server(lab), mode=era) as client:
        yield client


def pictures(result: CallToolResult) -> list[ImageContent]:
    return [block for block in result.content if isinstance(block, ImageContent)]


@both
async def test_a_judged_evaluation_brings_its_picture_beside_the_text(settings: Settings, era: Any) -> None:
    async with evaluated(settings, era) as client:
        read = await client.call_tool("read_eval", {"eval": ID, "view": "summary"})
        judged = await client.call_tool("check_reward_distribution", {"results": ID})
        zeros = await client.call_tool("read_eval", {"eval": ID, "view": "zeros"})

    for result in (read, judged):
        [image] = pictures(result)
        assert image.mime_type == "image/png"
        held = base64.b64decode(image.data)
        assert held.startswith(PNG)
        assert len(held) < 60_000
        assert result.content[0].type == "text"
        assert image.data not in str(result.structured_content)
        assert [link["uri"] for link in result.structured_content["links"]] == [  # type: ignore[index]
            f"lab://evals/{ID}/report",
            f"lab://evals/{ID}/report.html",
        ]
    assert pictures(read) == pictures(judged)
    assert pictures(zeros) == []


@both
async def test_every_link_of_a_result_can_be_read(settings: Settings, era: Any) -> None:
    async with evaluated(settings, era) as client:
        watched = await client.call_tool("watch_run", {"id": ID})
        uris = [link["uri"] for link in watched.structured_content["links"]]  # type: ignore[index]
        markdown, html = [(await client.read_resource(uri)).contents[0] for uri in uris]
        same = await client.call_tool("read_reference", {"topic": f"evals/{ID}/report"})

    assert isinstance(markdown, TextResourceContents)
    assert markdown.mime_type == "text/markdown"
    assert markdown.text.startswith(f"# Evaluation {ID}")
    assert "base64" not in markdown.text
    assert isinstance(html, TextResourceContents)
    assert html.mime_type == "text/html"
    assert html.text.startswith("<!doctype html>")
    assert 'src="data:image/png;base64,' in html.text
    assert (settings.evals / ID / "report.html").read_text(encoding="utf-8") == html.text
    assert same.structured_content["data"]["text"] == markdown.text  # type: ignore[index]


@both
@pytest.mark.parametrize("form", ["report", "report.html"])
async def test_the_ids_of_evaluations_complete(settings: Settings, era: Any, form: str) -> None:
    reference = ResourceTemplateReference(type="ref/resource", uri=f"lab://evals/{{id}}/{form}")
    async with evaluated(settings, era) as client:
        found = await client.complete(reference, {"name": "id", "value": "eval-"})
    assert found.completion.values == [ID]


# What any tool may return


class Nothing(Arguments):
    pass


@both
async def test_a_tool_that_gives_pictures_needs_nothing_else(settings: Settings, era: Any, tmp_path: Path) -> None:
    async def draw(call: Call, args: Nothing) -> Outcome:
        (tmp_path / "a.png").write_bytes(PNG + b"a")
        return Outcome(
            "passed", "drew", pictures=(Picture(tmp_path / "a.png", "a"), Picture(tmp_path / "gone.png", "b"))
        )

    tool = Tool(name="draw", title="Draw", description="Draws.", args=Nothing, run=draw, effect="reads")
    async with Client(build_server(Lab(settings), (tool,)), mode=era) as client:
        result = await client.call_tool("draw", {})
    assert [base64.b64decode(image.data) for image in pictures(result)] == [PNG + b"a"]
    assert not result.is_error


@pytest.mark.parametrize(
    ("size", "sent"), [(1, True), (MAX_PICTURE_BYTES, True), (MAX_PICTURE_BYTES + 1, False), (0, False)]
)
async def test_a_picture_beyond_the_cap_stays_away(tmp_path: Path, size: int, sent: bool) -> None:
    (tmp_path / "a.png").write_bytes(b"x" * size)
    report = Report("passed", "drew", pictures=(Picture(tmp_path / "a.png", "a"),) * (MAX_PICTURES + 1))

    assert [kind for kind, _ in images(report)] == ["image/png"] * (MAX_PICTURES if sent else 0)
    assert "pictures" not in report.as_json()
