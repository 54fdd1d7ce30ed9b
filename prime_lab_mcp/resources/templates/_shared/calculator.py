"""Arithmetic on text, by walking its syntax: calls and attributes are refused, and so is what would not end."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

_LONGEST = 200
_LARGEST = 1e15
_POWER = 64
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def calculate(expression: str, names: Mapping[str, float] | None = None) -> str:
    """The value of an expression of numbers, + - * / // % ** and parentheses. Raises ValueError for anything else.

    `names` are values that the expression may use by name.
    """
    text = expression.strip().replace("×", "*").replace("÷", "/").replace("−", "-").replace("^", "**")
    if not text or len(text) > _LONGEST:
        raise ValueError(f"write an expression of 1 to {_LONGEST} characters, without thousands commas")
    try:
        value = _value(ast.parse(text, mode="eval").body, names or {})
    except ZeroDivisionError:
        raise ValueError("division by zero") from None
    except (SyntaxError, OverflowError, RecursionError, MemoryError):
        raise ValueError("this is no arithmetic expression") from None
    return str(int(value)) if float(value).is_integer() else repr(round(float(value), 10))


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return _bounded(node.value)
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand, names)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = _value(node.left, names), _value(node.right, names)
        if abs(power) > _POWER or (base < 0 and not float(power).is_integer()):
            raise ValueError(f"powers go up to {_POWER}, and a root of a negative number is refused")
        return _bounded(float(base) ** power)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _bounded(_BINARY[type(node.op)](_value(node.left, names), _value(node.right, names)))
    raise ValueError("only numbers, + - * / // % ** and parentheses can be calculated; an unknown name cannot")


def _bounded(value: float) -> float:
    if not math.isfinite(value) or abs(value) > _LARGEST:
        raise ValueError("the numbers get too large")
    return value
