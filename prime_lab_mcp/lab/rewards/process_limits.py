"""Finds code that measures the limits of its process: how much memory it may have, how deep calls may go, and how many
rollouts it scores at a time.

A trainer's process and a tested one have other limits, so such code can tell them apart without reading anything. The
module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection

from prime_lab_mcp.lab.base.syntax import last_name

_LARGE = 1 << 30
"""Bytes. No honest reward asks for as much memory at once."""
_LONGEST_SHIFT = 64
_MOST_BITS = 4096
"""Bits of a power that is computed. A larger one is only known to be large."""
_MAKES = frozenset({"bytes", "bytearray", "zeros", "ones", "empty"})
_OPENS = frozenset("[({<")
_DEEP = 100
"""Opening brackets in a row that no honest text has: readers of nested texts meet the limit of calls (our choice)."""
_TIMEOUTS = frozenset({"asyncio.timeout", "asyncio.timeout_at", "anyio.fail_after", "anyio.move_on_after"})
_OPERATIONS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.Pow: operator.pow,
}


def measured_limit(node: ast.AST) -> str:
    """Return the limit that an expression or a handler of errors measures, as code; empty for other nodes."""
    if isinstance(node, ast.ExceptHandler) and node.type is not None:
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        names = {last_name(error) for error in caught}
        # A reader of nested texts catches RecursionError beside ValueError.
        return "MemoryError" if "MemoryError" in names else "RecursionError" if names == {"RecursionError"} else ""
    if isinstance(node, ast.Call) and last_name(node.func) in _MAKES:
        sizes = [size for argument in node.args[:1] if (size := _number(argument)) is not None]
        return ast.unparse(node)[:60] if sizes and sizes[0] >= _LARGE else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        repeated = any(
            isinstance(part, ast.List) or (isinstance(part, ast.Constant) and isinstance(part.value, str | bytes))
            for part in (node.left, node.right)
        )
        times = _number(node.right) or _number(node.left) or 0
        nested = any(_is_opening(part) for part in (node.left, node.right)) and times >= _DEEP
        return ast.unparse(node)[:60] if nested or (repeated and times >= _LARGE) else ""
    return ""


def _is_opening(part: ast.expr) -> bool:
    """Whether an expression is a text of opening brackets alone."""
    text = part.value if isinstance(part, ast.Constant) else None
    return isinstance(text, str) and bool(text) and set(text) <= _OPENS


def awaited_turn(node: ast.AST, called: Callable[[ast.expr], Collection[str]]) -> str:
    """Return what a time limit waits for a turn with, such as a semaphore of the module; empty for other nodes.

    How long a turn takes shows how many rollouts are scored at a time. `called` gives the full names of a function.
    """
    if not isinstance(node, ast.AsyncWith):
        return ""
    limits = (item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call))
    if not any(_TIMEOUTS.intersection(called(limit.func)) for limit in limits):
        return ""
    entered = (
        item.context_expr
        for inner in ast.walk(node)
        if isinstance(inner, ast.With | ast.AsyncWith)
        for item in inner.items
    )
    shared = next((one for one in entered if isinstance(one, ast.Name | ast.Attribute)), None)
    return "" if shared is None else ast.unparse(shared)[:60]


def _number(node: ast.expr) -> int | None:
    """Return the value of a whole number that is written out, also as `12 << 30`; None for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.BinOp) and (operation := _OPERATIONS.get(type(node.op))) is not None:
        left, right = _number(node.left), _number(node.right)
        if left is None or right is None or right < 0 or (operation is not operator.mul and right > _LONGEST_SHIFT):
            return None
        if operation is operator.pow and left.bit_length() * right > _MOST_BITS:
            return _LARGE  # Powers of powers soon take longer to compute than a reading may.
        return operation(left, right)
    return None
