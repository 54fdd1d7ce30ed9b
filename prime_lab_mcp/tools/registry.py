"""All tools in the order of the workflow. Importing this module imports the body of every tool."""

from __future__ import annotations

from importlib import import_module

from prime_lab_mcp.tools import WORKFLOW
from prime_lab_mcp.tools.tool import AnyTool


def _tool(name: str) -> AnyTool:
    tool: AnyTool = import_module(f"prime_lab_mcp.tools.{name}").TOOL
    if tool.name != name:
        raise ValueError(f"tools/{name}.py holds a tool named {tool.name}")
    return tool


TOOLS: tuple[AnyTool, ...] = tuple(_tool(name) for name in WORKFLOW)
