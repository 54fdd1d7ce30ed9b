"""What texts may name: finding codes of the source, tools with their arguments."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests.resources.codes import emitted

ROOT = Path(__file__).parents[2] / "prime_lab_mcp"
_CODE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)+|exports|migration")


@cache
def codes() -> frozenset[str]:
    """Every string of the tools and the domain that has the form of a code."""
    found: set[str] = set()
    for path in [*(ROOT / "lab").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CODE.fullmatch(node.value):
                found.add(node.value)
    return frozenset(found | set(emitted()[0]))


@cache
def tools() -> dict[str, frozenset[str]]:
    """Tool -> names of its arguments."""
    from prime_lab_mcp.tools.registry import TOOLS

    return {tool.name: frozenset(tool.args.model_fields) for tool in TOOLS}
