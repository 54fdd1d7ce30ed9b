"""`python -m tests.external.conformance_server WORKSPACE STATE [MODE]`: HTTP for the official conformance suite.

The suite sends no headers of its own, so the server adds the token that every request needs; all else is as in
`serve --http`. With the mode `fixtures` the server also has the tools, pages and prompts that scenarios of the suite
call by name. What a tool of ours can return (text, a picture, progress, an error) comes from a tool of ours, by the
same call path as every other. The rest (audio, embedded pages, other requests to the client) shows that the way to a
client carries it. With the mode `own-questions` the tool that asks the user asks as our tools do, not in the suite's
words.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp_types import CallToolResult, EmptyResult, SetLevelRequestParams
from mcp_types import Tool as ToolDescription

from prime_lab_mcp.server import app, http
from prime_lab_mcp.server.elicitation import ClientMustAnswer, asker
from prime_lab_mcp.server.main import open_lab, settings
from prime_lab_mcp.tools.registry import TOOLS
from tests.external.conformance_fixtures import OWN_TOOLS, SCHEMAS, add_fixtures, text
from tests.external.conformance_questions import ASKS_BY_KEY, add_questions

OWN_QUESTIONS = ("test_input_required_result_tampered_state", "test_streaming_elicitation")
"""Tools that always ask as ours do."""


class Guard(http.TokenGuard):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", self._expected)]}
        await super().__call__(scope, receive, send)


class FixtureServer(app.LabServer):
    """A server whose own tools are joined by those of the suite."""

    own_questions: tuple[str, ...] = OWN_QUESTIONS

    async def list_tools(self) -> list[ToolDescription]:
        described = await MCPServer.list_tools(self)
        for tool in described:
            tool.input_schema = SCHEMAS.get(tool.name, tool.input_schema)
        asking = [
            ToolDescription(name=name, description="Of the suite.", input_schema={"type": "object"})
            for name in self.own_questions
        ]
        return [*await super().list_tools(), *described, *asking]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        if name in self.own_questions:
            try:
                answer = await asker(context)("Go ahead?")
            except ClientMustAnswer as waiting:
                return waiting.result
            return CallToolResult(content=[text(f"The user has {answer}.")])
        if name in {tool.name for tool in await MCPServer.list_tools(self)}:
            return await MCPServer.call_tool(self, name, arguments, context)
        return await super().call_tool(name, arguments, context)


def accept_log_levels(server: MCPServer[Any]) -> None:
    """Declare logging, as a server does that sends log messages."""

    async def set_level(context: Any, params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    server._lowlevel_server.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)


def main() -> None:
    warnings.simplefilter("ignore")  # the SDK deprecates logging, sampling and roots, which older clients still use
    http.TokenGuard = Guard  # type: ignore[misc]
    mode = "".join(sys.argv[3:])
    lab = open_lab(settings(sys.argv[1], sys.argv[2]))
    if mode == "":
        server = app.build_server(lab)
    else:
        app.LabServer = FixtureServer  # type: ignore[misc]
        server = app.build_server(lab, (*TOOLS, *OWN_TOOLS))
        accept_log_levels(server)
        add_fixtures(server)
        if mode == "own-questions":
            FixtureServer.own_questions = (*OWN_QUESTIONS, ASKS_BY_KEY)
        add_questions(server, without=FixtureServer.own_questions)
    http.serve_http(server, http.Address("127.0.0.1", 0), "t" * 40)


if __name__ == "__main__":
    main()
