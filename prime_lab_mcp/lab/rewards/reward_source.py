"""Reads the source of an environment before its reward is tried.

The module finds the words that a reward looks for, `raise` statements, and expressions whose value may differ between
processes. Starting a second process takes seconds, so a trial starts one early only if the source has such an
expression: a set whose order may matter, `hash`, `id`, or randomness or time at import.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from prime_lab_mcp.lab.base.syntax import parse_python
from prime_lab_mcp.lab.state.source_code import SourceCode


def parse_source(text: str) -> ast.Module | None:
    """Return the syntax tree of a text; None if the text is not Python."""
    try:
        return parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def function_names(tree: ast.Module) -> list[str]:
    """Return the names of the module-level functions."""
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def class_methods(tree: ast.Module) -> dict[str, list[str]]:
    """Map every module-level class to its method names; a class without methods gets `__init__`."""
    return {
        node.name: [m.name for m in node.body if isinstance(m, ast.FunctionDef)] or ["__init__"]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }


def raise_statements(code: SourceCode) -> frozenset[str]:
    """Return the places of every `raise` statement that names an exception, as `PATH:LINE`."""
    return frozenset(
        file.at(node.lineno)
        for file in code.files
        for node in (ast.walk(file.tree) if file.tree is not None else ())
        if isinstance(node, ast.Raise) and node.exc is not None
    )


_MOST = 80
_WORD = re.compile(r"[A-Za-z][A-Za-z' -]{1,24}")


def rewarded_words(source: str) -> tuple[str, ...]:
    """Return the words that the reward's code may look for in a completion, at most 80.

    These are short string literals in lists, tuples and sets, in keys of dicts, and on the left of `in`. Empty if the
    source is not valid Python.
    """
    tree = parse_source(source)
    words: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        for part in _listed(node):
            if isinstance(part, ast.Constant) and isinstance(part.value, str) and _WORD.fullmatch(part.value):
                words[part.value] = None
    return tuple(words)[:_MOST]


_MOST_SENTENCES = 12
_SENTENCE = re.compile(r"[A-Za-z][^\n{}<>]{5,100}")


def spoken_sentences(source: str) -> tuple[str, ...]:
    """Return sentences that the environment's code may say or look for, at most 12, those of verdicts first.

    These are string literals of several words, without docstrings and prompts, which are longer.
    """
    tree = parse_source(source)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value.strip()
            if _SENTENCE.fullmatch(text) and " " in text:
                found[text] = None
    return tuple(sorted(found, key=lambda text: _VERDICT.search(text) is None))[:_MOST_SENTENCES]


_VERDICT = re.compile(
    r"(?i)\b(?:yes|correct|right|found|won|wins?|winner|well done|solved|congratulations|success\w*|passed|accepted|"
    r"complete[d]?|escaped|deal|victory|checkmate|game over)\b"
)
"""Words of a message that tells a model that it has won."""


def _listed(node: ast.AST) -> Iterator[ast.expr | None]:
    """Yield the members of a collection, the keys of a dict, or the left side of `in` and `not in`."""
    if isinstance(node, ast.Set | ast.List | ast.Tuple):
        yield from node.elts
    elif isinstance(node, ast.Dict):
        yield from node.keys
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        yield node.left


_UNORDERED = frozenset({"set", "frozenset"})
_IDENTITY = frozenset({"hash", "id"})
_ORDER_FREE = frozenset({"len", "sorted", "any", "all", "bool", "isinstance", "print"})
"""Functions whose result does not depend on the order of their argument."""
_OF_IMPORT = frozenset({"random", "secrets", "uuid", "time", "datetime"})
_PROCESS = frozenset({"getpid", "urandom"})
_PROCESS_BOUND = re.compile(r"\b(?:set|frozenset|hash|id)\(")


def process_dependence(source: str) -> str | None:
    """Return the first expression whose value may differ between processes, such as `hash()`; None if there is none."""
    tree = parse_source(source)
    if tree is None:
        call = _PROCESS_BOUND.search(source)
        return f"{call[0]})" if call else None
    harmless = {id(part) for node in ast.walk(tree) for inner in _order_free(node) for part in _parts(inner)}
    for node in ast.walk(tree):
        name = _name(node.func) if isinstance(node, ast.Call) else None
        if name in _IDENTITY or name in _PROCESS:
            return f"{name}()"
        filled = name in _UNORDERED and isinstance(node, ast.Call) and bool(node.args)
        if id(node) not in harmless and (filled or isinstance(node, ast.Set | ast.SetComp)):
            return "a set"
    return next(_at_import(tree), None)


def _order_free(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the operands and arguments of a node whose iteration order has no effect on the node's value."""
    if isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Call) and _name(node.func) in _ORDER_FREE:
        yield from node.args


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    if isinstance(node, ast.BinOp):
        yield from _parts(node.left)
        yield from _parts(node.right)


def _name(func: ast.AST) -> str | None:
    """Return the name of a called function; of methods only those of `_PROCESS`."""
    if isinstance(func, ast.Name):
        return func.id
    return func.attr if isinstance(func, ast.Attribute) and func.attr in _PROCESS else None


def _at_import(tree: ast.Module) -> Iterator[str]:
    """Yield calls of random and clock functions that run at import, whose values differ in every process."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, name = node.func.value, node.func.attr
            seeded = name in ("Random", "seed", "UUID", "timedelta", "uuid5", "datetime") and node.args
            if isinstance(module, ast.Name) and module.id in _OF_IMPORT and not seeded:
                yield f"{module.id}.{name}() at import"
        waiting += ast.iter_child_nodes(node)
