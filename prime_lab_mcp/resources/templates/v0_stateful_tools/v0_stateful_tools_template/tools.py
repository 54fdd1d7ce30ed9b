"""The tools of the model. `memory` is no argument of the model's: the environment passes the rollout's own."""

from __future__ import annotations

import re

from v0_stateful_tools_template.calculator import calculate as value_of

Memory = dict[str, float]
MOST = 50
"""Values that a rollout may store."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}")


def store(name: str, expression: str, memory: dict) -> str:  # type: ignore[type-arg]
    """Work out an arithmetic expression and keep the value under a name, for use in later expressions.

    Args:
        name: Letters, digits and underscores, such as rent_total.
        expression: Numbers, stored names, + - * / // % ** and parentheses.
    """
    if not _NAME.fullmatch(name):
        return "error: a name consists of letters, digits and underscores, and begins with no digit"
    if name not in memory and len(memory) >= MOST:
        return f"error: {MOST} values are stored already; store under one of their names"
    said = calculate(expression, memory)
    if said.startswith("error"):
        return said
    memory[name] = float(said)
    return f"{name} = {said}"


def calculate(expression: str, memory: dict) -> str:  # type: ignore[type-arg]
    """The value of an arithmetic expression such as (rent_total - 980) * 3.

    Args:
        expression: Numbers, stored names, + - * / // % ** and parentheses.
    """
    try:
        return value_of(expression, memory)
    except ValueError as error:
        return f"error: {error}"


def recall(memory: dict) -> str:  # type: ignore[type-arg]
    """All stored names and their values."""
    return "\n".join(f"{name} = {value:.10g}" for name, value in memory.items()) or "nothing is stored"
