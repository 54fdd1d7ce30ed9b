"""Registers the resources: reference pages, template files, and the live state of the workspace."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from mcp.server.mcpserver.resources import TextResource

from prime_lab_mcp.lab.base.errors import BadInput, EvalError
from prime_lab_mcp.lab.base.text import escape, escape_lines
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.tool_descriptions import app_tools

if TYPE_CHECKING:
    from prime_lab_mcp.dashboard.reading_lab import ReadingLab
    from prime_lab_mcp.lab.base.report import Report
    from prime_lab_mcp.lab.evals.pages.illustrate import WrittenPage as Written

Execute = Callable[[str, Mapping[str, Any]], Awaitable["Report"]]


def add_resources(server: MCPServer[Any], lab: Lab, references: References, execute: Execute) -> None:
    """Register every page, the templates, and the live resources."""
    for page in references.pages():
        server.add_resource(
            TextResource(
                uri=f"lab://{page.topic}",
                name=page.topic,
                title=page.title,
                description=page.about,
                mime_type="text/markdown",
                text=page.text,
            )
        )

    @server.resource("lab://template/{kind}/{+path}", mime_type="text/plain", title="Template file")
    def template(kind: str, path: str) -> str:
        """A file of a template package, as create_environment fits it."""
        return _require_page(references.page(f"template/{kind}/{path}"), f"template/{kind}/{path}")

    @server.resource("lab://finding/{code}", mime_type="text/markdown", title="Finding")
    def finding(code: str) -> str:
        """What a finding code means, its smallest fix, and the tools that show it."""
        return _require_page(references.page(f"finding/{code}"), f"finding/{code}")

    @server.resource("lab://models", mime_type="text/markdown", title="Models")
    async def models() -> str:
        """Every model the project knows: size, architecture, renderer, tool parser, measured baselines, live prices."""
        from prime_lab_mcp.lab.models.page import models_page  # 0.1 s that no listing needs

        return escape_lines(await models_page(lab))

    @server.resource("lab://environments/{name}/status", mime_type="application/json", title="Environment status")
    async def status(name: str) -> str:
        """What is proven about one environment."""
        return _json(await execute("workflow_status", {"environment": name}))

    # Clients put a resource into the model's context unchanged. Markdown suits a model; an HTML page with its picture
    # would fill the context. The HTML page for people therefore has a separate address.
    @server.resource("lab://evals/{id}/report", mime_type="text/markdown", title="Evaluation report")
    async def evaluation(id: str) -> str:
        """What an evaluation was, its verdict, and what the rollouts show."""
        return (await _evaluation(lab, id)).markdown

    @server.resource("lab://evals/{id}/report.html", mime_type="text/html", title="Evaluation report (page)")
    async def evaluation_page(id: str) -> str:
        """The report of an evaluation as one HTML file with its picture, for a browser."""
        return (await _evaluation(lab, id)).html

    @server.resource("lab://runs/{id}", mime_type="application/json", title="Training run")
    async def run(id: str) -> str:
        """The present state of one training run."""
        return _json(await execute("watch_run", {"id": id}))

    @server.resource("lab://runs/{id}/card", mime_type="text/markdown", title="Run card")
    async def run_card(id: str) -> str:
        """Everything needed to make a run again: config, versions, hashes, evidence, cost, approval, links."""
        from prime_lab_mcp.lab.training.card import run_card as card

        try:
            return escape_lines(await card(lab, id))
        except BadInput as error:
            raise ResourceNotFoundError(escape(f"{error.message}. {error.fix}")) from error

    # The page beside the results of tools, for clients that render MCP Apps, and what it reads.
    @server.resource("ui://prime-lab/{tool}", mime_type="text/html;profile=mcp-app", title="Page of a tool")
    def app_page(tool: str) -> str:
        """The page that clients with MCP Apps show beside the result of a tool."""
        from prime_lab_mcp.dashboard.mcp_app import app_document

        if tool not in app_tools():
            raise ResourceNotFoundError(f"there is no page for {escape(tool)}")
        return app_document(tool)

    views = _Views(lab)

    @server.resource("lab://view/{+path}{?query}", mime_type="application/json", title="View of the page")
    async def view(path: str, query: str = "") -> str:
        """What a view of the page shows, for the page itself: its status and its content."""
        return await views.read(path, query)


class _Views:
    """Answers requests of the page inside a client. The reading lab is opened for the first view."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._reading: ReadingLab | None = None

    async def read(self, path: str, query: str) -> str:
        import orjson

        from prime_lab_mcp.dashboard.answers import answer_view
        from prime_lab_mcp.dashboard.reading_lab import ReadingLab

        if self._reading is None:
            self._lab.ledger.runs()  # The file must exist before somebody opens it for reading.
            self._reading = ReadingLab(self._lab.settings, self._lab.platform_variables)
            self._lab.closing.append(self._reading.close)
        status, content = await answer_view(self._reading, path, dict(parse_qsl(query)))
        answer = {"status": status, "content": content}
        return orjson.dumps(answer, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


async def _evaluation(lab: Lab, id: str) -> Written:
    from prime_lab_mcp.lab.evals.pages.illustrate import page_of_evaluation as report_of

    try:
        return await report_of(lab, id)
    except EvalError as error:
        raise ResourceNotFoundError(escape(f"{error.message}. {error.fix}")) from error


def _require_page(text: str | None, topic: str) -> str:
    if text is None:
        raise _missing_page_error(topic)
    return text


def _missing_page_error(topic: str) -> Exception:
    return ResourceNotFoundError(
        f"there is no lab://{escape(topic)}; read_reference without a topic lists what there is"
    )


def _json(report: Report) -> str:
    from prime_lab_mcp.server.rendering import whole

    return json.dumps(whole(report), indent=1, ensure_ascii=False)
