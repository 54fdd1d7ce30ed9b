"""The tools of the workflow, each imported when it is first used.

A server at rest then holds in memory only what its calls need. All tools together take a third of its memory, and the
first call would wait for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from prime_lab_mcp.tools import WORKFLOW
from prime_lab_mcp.tools.tool import AnyTool


class ToolsOnDemand(Mapping[str, AnyTool]):
    """Maps the name of each tool to the tool. Looking a tool up imports its module."""

    def __init__(self) -> None:
        self._imported: dict[str, AnyTool] = {}

    def __getitem__(self, name: str) -> AnyTool:
        if name not in WORKFLOW:
            raise KeyError(name)
        if name not in self._imported:
            tool: AnyTool = import_module(f"prime_lab_mcp.tools.{name}").TOOL
            if tool.name != name:
                raise ValueError(f"tools/{name}.py holds a tool named {tool.name}")
            self._imported[name] = tool
        return self._imported[name]

    def __contains__(self, name: object) -> bool:
        return name in WORKFLOW

    def __iter__(self) -> Iterator[str]:
        return iter(WORKFLOW)

    def __len__(self) -> int:
        return len(WORKFLOW)

    def is_imported(self, name: str) -> bool:
        return name in self._imported
