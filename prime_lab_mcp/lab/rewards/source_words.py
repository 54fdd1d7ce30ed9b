"""Words that an environment's code holds in a list or looks for: a reward that pays for words has them there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.rewards.python_source import parsed

_MOST = 80
_WORD = re.compile(r"[A-Za-z][A-Za-z' -]{1,24}")


def words(source: str) -> tuple[str, ...]:
    """Short texts of collections and of `in` comparisons, in the order of the source; none where it does not parse."""
    tree = parsed(source)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        for part in _listed(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and _WORD.fullmatch(part.value):
                found[part.value] = None
    return tuple(found)[:_MOST]


def _listed(node: ast.AST) -> Iterator[ast.expr | None]:
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        yield from node.elts
    elif isinstance(node, ast.Dict):
        yield from node.keys
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        yield node.left
