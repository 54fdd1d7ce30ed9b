"""Makes the descriptions of the tools that clients list, from a tool or from the files in `surface/`.

The server answers `tools/list` from the files, so that a client does not wait until the bodies of all tools are
imported. `python -m tests.server.surface` writes the files, and a test compares them with the tools.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_types import Tool as ToolDescription

from prime_lab_mcp.tools import WORKFLOW

if TYPE_CHECKING:
    from prime_lab_mcp.tools.tool import AnyTool

SURFACE = Path(__file__).with_name("surface")
"""The folder with one JSON file for each tool."""
APP_META = "ui"
"""The key in the metadata of a tool that names the page beside its results (MCP Apps, version 2026-01-26)."""


def stored_descriptions() -> list[ToolDescription]:
    """The descriptions of all tools from the files, in the order of the workflow."""
    return [ToolDescription.model_validate_json((SURFACE / f"{name}.json").read_bytes()) for name in WORKFLOW]


@cache
def app_tools() -> frozenset[str]:
    """The names of the tools whose results have a page in clients that render MCP Apps."""
    return frozenset(tool.name for tool in stored_descriptions() if tool.meta and APP_META in tool.meta)


def describe(tool: AnyTool) -> ToolDescription:
    """The description of one tool, made from the tool itself."""
    from mcp_types import ToolAnnotations

    from prime_lab_mcp.server import arguments

    reaches_out = tool.effect in ("publishes", "spends")
    return ToolDescription(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=arguments.schema(tool.args),
        output_schema=dict(arguments.OUTPUT_SCHEMA),
        annotations=ToolAnnotations(
            read_only_hint=tool.effect == "reads",
            destructive_hint=reaches_out or tool.name == "edit_environment",
            idempotent_hint=tool.idempotent,
            open_world_hint=tool.open_world or reaches_out,
        ),
        _meta={APP_META: {"resourceUri": f"ui://prime-lab/{tool.name}"}} if tool.page else None,
    )
