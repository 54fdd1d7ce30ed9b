"""The least an MCPServer of the same SDK can be, with as many tools as ours: what start-up is compared with."""

from __future__ import annotations

import sys
from typing import Annotated

from mcp.server.mcpserver import MCPServer
from pydantic import Field


def main(tools: int) -> None:
    server = MCPServer("bare", log_level="WARNING")
    for number in range(tools):

        async def tool(
            environment: Annotated[str, Field(description="A name.")], examples: Annotated[int, Field(ge=1)] = 8
        ) -> str:
            """Does nothing."""
            return environment

        server.add_tool(tool, name=f"tool_{number}")
    server.run("stdio")


if __name__ == "__main__":
    main(int(sys.argv[1]))
