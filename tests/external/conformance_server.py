"""`python -m tests.external.conformance_server WORKSPACE STATE [fixtures]`: HTTP for the official conformance suite.

The suite sends no headers of its own, so the server adds the token that every request needs; all else is as in
`serve --http`. With `fixtures` it also has the tools, pages and prompts that scenarios of the suite call by name. They
show that the way to a client carries what our own tools never return (audio, embedded pages, other questions).
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
    TextResourceContents,
)
from mcp_types import Tool as ToolDescription

from prime_lab_mcp.server import app, http
from prime_lab_mcp.server.elicitation import ClientMustAnswer, asker
from prime_lab_mcp.server.main import open_lab, settings

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0"
).decode()
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


class Guard(http.TokenGuard):
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            scope = {**scope, "headers": [*scope["headers"], (b"authorization", self._expected)]}
        await super().__call__(scope, receive, send)


class FixtureServer(app.LabServer):
    """A server whose own tools are joined by those of the suite."""

    async def list_tools(self) -> list[ToolDescription]:
        described = await MCPServer.list_tools(self)
        for tool in described:
            if tool.name == "json_schema_2020_12_tool":
                tool.input_schema = SCHEMA
        return [*await super().list_tools(), *described]

    async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
        if name in {tool.name for tool in await MCPServer.list_tools(self)}:
            return await MCPServer.call_tool(self, name, arguments, context)
        if name in ASKING:
            try:
                words = f"The user has {await asker(context)('Go ahead?')}."
            except ClientMustAnswer as waiting:
                return waiting.result
            return CallToolResult(content=[text(words)])
        return await super().call_tool(name, arguments, context)


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def page(uri: str, words: str, kind: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=words))


IMAGE = ImageContent(type="image", data=PIXEL, mime_type="image/png")
CONTENTS: dict[str, list[Any]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [page("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        page("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "json_schema_2020_12_tool": [text("called")],
}
QUESTIONS: dict[str, dict[str, Any]] = {
    "test_elicitation_sep1034_defaults": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {"type": "string", "enum": ["option1", "option2", "option3"]},
        "titledSingle": {
            "type": "string",
            "oneOf": [{"const": f"value{i}", "title": f"{n} Option"} for i, n in enumerate(("First", "Second"), 1)],
        },
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": ["option1", "option2", "option3"]}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": [{"const": f"value{i}", "title": f"{n} Choice"} for i, n in enumerate(("First", "Second"), 1)]
            },
        },
    },
}
ASKING = ("test_input_required_result_elicitation", "test_input_required_result_tampered_state")
"""Tools that ask as ours do."""
PERSON = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}


def add_fixtures(server: MCPServer[Any]) -> None:
    """Register what the scenarios call by name."""
    for name, content in CONTENTS.items():

        async def returned(content: list[Any] = content) -> CallToolResult:
            return CallToolResult(content=content)

        server.add_tool(_without_arguments(returned), name=name, description="Of the suite.")

    @server.tool(description="Of the suite.")
    async def test_error_handling() -> str:
        raise ValueError("This tool intentionally returns an error for testing")

    @server.tool(description="Of the suite.")
    async def test_tool_with_progress(context: Context[Any, Any]) -> str:
        for done in (0, 50, 100):
            await context.report_progress(done, 100)
            await anyio.sleep(0.05)
        return "done"

    @server.tool(description="Of the suite.")
    async def test_elicitation(message: str, context: Context[Any, Any]) -> str:
        return f"User response: {await _asked(context, message, PERSON, list(PERSON))}"

    for name, properties in QUESTIONS.items():

        async def asks(context: Context[Any, Any], properties: dict[str, Any] = properties) -> str:
            return f"Elicitation completed: {await _asked(context, 'Please answer', properties, [])}"

        server.add_tool(_with_context(asks), name=name, description="Of the suite.")

    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> str:
        return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'

    @server.prompt(description="Of the suite.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="Of the suite.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="Of the suite.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        embedded = page(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(embedded), UserMessage(text("Please process the embedded resource above."))]

    @server.prompt(description="Of the suite.")
    def test_prompt_with_image() -> list[UserMessage]:
        return [UserMessage(IMAGE), UserMessage(text("Please analyze the image above."))]


def _without_arguments(returned: Any) -> Any:
    async def tool() -> CallToolResult:
        result: CallToolResult = await returned()
        return result

    return tool


def _with_context(asks: Any) -> Any:
    async def tool(context: Context[Any, Any]) -> str:
        return str(await asks(context))

    return tool


async def _asked(context: Context[Any, Any], message: str, properties: dict[str, Any], required: list[str]) -> str:
    wanted = {"type": "object", "properties": properties, "required": required}
    answer = await context.session.elicit_form(message, wanted, related_request_id=context.request_id)
    return f"action={answer.action}, content={answer.content}"


def main() -> None:
    http.TokenGuard = Guard  # type: ignore[misc]
    lab = open_lab(settings(sys.argv[1], sys.argv[2]))
    if sys.argv[3:] == ["fixtures"]:
        app.LabServer = FixtureServer  # type: ignore[misc]
    server = app.build_server(lab)
    if sys.argv[3:] == ["fixtures"]:
        add_fixtures(server)
    http.serve_http(server, http.Address("127.0.0.1", 0), "t" * 40)


if __name__ == "__main__":
    main()
