"""Python source of golds and environments, parsed, and what it defines."""

from __future__ import annotations

import ast


def parsed(text: str) -> ast.Module | None:
    """None for what is no Python."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def functions(tree: ast.Module) -> list[str]:
    """Names of the functions of a module, not of its classes."""
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def classes(tree: ast.Module) -> dict[str, list[str]]:
    """Names of the methods of every class."""
    return {
        node.name: [m.name for m in node.body if isinstance(m, ast.FunctionDef)] or ["__init__"]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
