"""Finds the reads of a logger that only set up or guard logging, which honest code does everywhere.

`if not logger.handlers: logger.addHandler(...)` and `if logger.isEnabledFor(DEBUG): logger.debug(...)` decide nothing
but what is logged. Every other read of a logger's handlers or level may decide a score.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from prime_lab_mcp.lab.base.syntax import called_name

_SETUP = frozenset(
    {"addFilter", "addHandler", "close", "critical", "debug", "error", "exception", "info", "log", "removeFilter",
     "removeHandler", "setFormatter", "setLevel", "warn", "warning"}
)  # fmt: skip
_MAKES = frozenset({"FileHandler", "Formatter", "NullHandler", "RotatingFileHandler", "StreamHandler", "getLogger"})


def setup_reads(nodes: Iterable[ast.AST]) -> set[int]:
    """Return the ids of the nodes in conditions and loops whose body only logs, or only sets up logging."""
    harmless: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.If) and not node.orelse and all(map(_only_logs, node.body)):
            harmless |= {id(inner) for inner in ast.walk(node.test)}
        elif isinstance(node, ast.For) and all(map(_only_logs, node.body)):
            harmless |= {id(inner) for inner in ast.walk(node.iter)}
    return harmless


def _only_logs(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return called_name(statement.value) in _SETUP
    if isinstance(statement, ast.If):
        return not statement.orelse and all(map(_only_logs, statement.body))
    if not isinstance(statement, ast.Assign):
        return isinstance(statement, ast.Pass)
    sets_propagate = all(isinstance(t, ast.Attribute) and t.attr == "propagate" for t in statement.targets)
    return called_name(statement.value) in _MAKES or (sets_propagate and isinstance(statement.value, ast.Constant))
