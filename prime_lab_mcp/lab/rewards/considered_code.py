"""Lists the code of a package that runs in training, function by function.

This code is what runs at import, methods, reward functions, functions that a decorator may hand on, and every function
whose name occurs in such code, also in an import or as a text. A block under `if __name__ == "__main__"` does not
count, unless code may give a module that name. Annotations that are texts count, because pydantic evaluates them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram
from prime_lab_mcp.lab.state.source_code import SourceFile


def considered_code(
    program: RewardProgram, files: list[SourceFile], rewards: set[int]
) -> Iterator[tuple[SourceFile, ast.AST | None, list[ast.AST]]]:
    """Yield (file, function, nodes) for the code that runs in training. The function is None for code at import.

    `rewards` are the ids of the nodes of reward functions.
    """
    known: dict[str, list[tuple[SourceFile, ast.FunctionDef | ast.AsyncFunctionDef]]] = {}
    for file in files:
        for function in program.by_file[file.path]:
            known.setdefault(function.name, []).append((file, function.node))
    waiting: list[tuple[SourceFile, ast.AST | None, list[ast.AST]]] = []
    at_import = _running if any(_renames_module(f.tree) for f in files if f.tree is not None) else _at_import
    for file in files:
        if file.tree is not None:
            waiting.append((file, None, [n for s in file.tree.body for n in at_import(s)]))
    done = {
        id(node): (file, node)
        for functions in known.values()
        for file, node in functions
        if id(node) in rewards
        or node.decorator_list
        or node.name in ("load_environment", "load")
        or node.name.startswith("__")
    }
    for file in files:
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.ClassDef):
                methods = [m for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef)]
                done |= {id(m): (file, m) for m in methods}
    waiting += [(file, node, _inside(node)) for file, node in done.values()]
    while waiting:
        file, owner, nodes = waiting.pop()
        yield file, owner, nodes
        for node in nodes:
            for where, inner in known.get(_mentioned(node), ()):
                if id(inner) not in done:
                    done[id(inner)] = where, inner
                    waiting.append((where, inner, _inside(inner)))


def _mentioned(node: ast.AST) -> str:
    """Return the name that a node mentions, also under another one in an import or as a text; empty for others."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.Constant(value=str(name)):
            return name
        case _:
            return ""


def _renames_module(tree: ast.Module) -> bool:
    """Whether code may give a module another `__name__`, so that a block of the main program runs at import."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="__name__", ctx=ctx) | ast.Attribute(attr="__name__", ctx=ctx):
                if not isinstance(ctx, ast.Load):
                    return True
            case ast.Constant(value="__name__") | ast.alias(asname="__name__"):
                return True
    return False


def _at_import(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the nodes of a module's statement that run at import. Of `if __name__ == "__main__"` only `else` runs."""
    if isinstance(statement, ast.If) and ast.unparse(statement.test) in _MAIN:
        yield from (node for other in statement.orelse for node in _running(other))
    else:
        yield from _running(statement)


_MAIN = ("__name__ == '__main__'", "'__main__' == __name__")


def _inside(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    """Return the syntax nodes of a function's body, including those of inner functions."""
    return [n for s in function.body for n in _statement(s)]


def _statement(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all nodes below it, without docstrings."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    yield node
    yield from _annotation_nodes(node)
    for child in ast.iter_child_nodes(node):
        yield from _statement(child)


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes that run when a statement runs. Of a function these are its decorators and defaults."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        for part in (*node.decorator_list, node.args):
            yield from _running(part)
        return
    yield node
    yield from _annotation_nodes(node)
    for child in ast.iter_child_nodes(node):
        yield from _running(child)


_COMPUTES = re.compile(r"[\s(\[.]")
"""Matches a character that the name of a type does not have: such an annotation may compute something."""


def _annotation_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of the annotations that a node holds as texts, which pydantic evaluates."""
    annotated = [node.annotation] if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation else []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        annotated = [node.returns]
    for annotation in annotated:
        for part in ast.walk(annotation):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and _COMPUTES.search(part.value):
                try:
                    tree = parse_python(f"({part.value})")
                except RecursionError:
                    # pydantic evaluates a text that no reading follows to its end, as `eval` does.
                    evaluator = ast.copy_location(ast.Name("eval", ast.Load()), part)
                    yield from (evaluator, ast.copy_location(ast.Call(evaluator, [part], []), part))
                    continue
                except (SyntaxError, ValueError):
                    continue
                for inner in ast.walk(tree):
                    if hasattr(inner, "lineno"):
                        ast.copy_location(inner, part)
                    yield inner
