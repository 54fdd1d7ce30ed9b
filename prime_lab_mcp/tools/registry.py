"""All tools in the order of the workflow. Importing this module imports the body of every tool."""

from __future__ import annotations

from prime_lab_mcp.tools.on_demand import ToolsOnDemand
from prime_lab_mcp.tools.tool import AnyTool

TOOLS: tuple[AnyTool, ...] = tuple(ToolsOnDemand().values())
