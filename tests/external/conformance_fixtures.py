"""Tools, pages and prompts that scenarios of the official conformance suite call by name.

They ask the client nothing (for those that do: `conformance_questions`). Names and contents are those that the suite
expects (@modelcontextprotocol/conformance, `conformance list`).
"""

from __future__ import annotations

import base64
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import AudioContent, CallToolResult, EmbeddedResource, ImageContent, TextContent, TextResourceContents

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Picture
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(
    b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0"
).decode()
CONTACT: dict[str, Any] = {
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
FROM_HEADER: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    "required": ["region"],
}
SCHEMAS = {"json_schema_2020_12_tool": CONTACT, "test_custom_header": FROM_HEADER}
"""Argument schemas of tools whose schema does not follow from their Python function."""


def text(words: str) -> TextContent:
    return TextContent(type="text", text=words)


def page(uri: str, words: str, kind: str = "text/plain") -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=words))


IMAGE = ImageContent(type="image", data=PIXEL, mime_type="image/png")
CONTENTS: dict[str, list[Any]] = {
    "test_audio_content": [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [page("test://embedded-resource", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        page("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
    "json_schema_2020_12_tool": [text("called")],
}


class Nothing(Arguments):
    pass


async def _simple_text(call: Call, args: Nothing) -> Outcome:
    return Outcome("passed", "This is a simple text response for testing.")


async def _image(call: Call, args: Nothing) -> Outcome:
    picture = call.lab.settings.state_dir / "pixel.png"
    picture.write_bytes(base64.b64decode(PIXEL))
    return Outcome("passed", "One red pixel.", pictures=(Picture(picture, "a pixel"),))


async def _error(call: Call, args: Nothing) -> Outcome:
    raise BadInput("This tool intentionally returns an error for testing", fix="Call another tool.")


async def _progress(call: Call, args: Nothing) -> Outcome:
    for done in (0, 50, 100):
        await call.progress(done, 100, f"{done} of 100")
        await anyio.sleep(0.05)
    return Outcome("passed", "done")


OWN_TOOLS = tuple(
    Tool(name=name, title=name, description="Of the suite.", args=Nothing, run=run, effect="reads")
    for name, run in {
        "test_simple_text": _simple_text,
        "test_image_content": _image,
        "test_error_handling": _error,
        "test_tool_with_progress": _progress,
    }.items()
)
"""Tools of ours: their calls take the way of every other tool."""


def add_fixtures(server: MCPServer[Any]) -> None:
    """Register the tools, pages and prompts."""
    _add_tools(server)
    _add_pages(server)
    _add_prompts(server)


def _add_tools(server: MCPServer[Any]) -> None:
    for name, content in CONTENTS.items():
        server.add_tool(_returning(content), name=name, description="Of the suite.")

    @server.tool(description="Of the suite.")
    async def test_custom_header(region: str) -> str:
        return f"region {region}"

    async def logs(context: Context[Any, Any]) -> str:
        for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.log("info", message)
            await anyio.sleep(0.05)
        return "logged"

    for name in ("test_tool_with_logging", "test_logging_tool"):
        server.add_tool(logs, name=name, description="Of the suite.")

    @server.tool(description="Of the suite.")
    async def test_reconnection(context: Context[Any, Any]) -> str:
        await context.close_sse_stream()  # does nothing: the server keeps no events from which a stream could resume
        return "answered on the stream of the call"

    @server.tool(description="Of the suite.")
    async def test_trigger_tool_change(context: Context[Any, Any]) -> str:
        await context.notify_tools_changed()
        return "notified"

    @server.tool(description="Of the suite.")
    async def test_trigger_prompt_change(context: Context[Any, Any]) -> str:
        await context.notify_prompts_changed()
        return "notified"


def _returning(content: list[Any]) -> Any:
    async def tool() -> CallToolResult:
        return CallToolResult(content=content)

    return tool


def _add_pages(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched_resource() -> str:
        return "This page is subscribed to."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template_data(id: str) -> str:
        return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


def _add_prompts(server: MCPServer[Any]) -> None:
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
