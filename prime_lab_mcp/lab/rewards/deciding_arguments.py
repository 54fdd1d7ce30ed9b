"""Recognises calls whose arguments decide whether they read surroundings: databases, archives, arrays, temporary paths.

`numpy.load` reads numbers, or runs code that a pickle holds; `sqlite3` computes, or tells the time and opens other
files, as the text of the query says; `tempfile` makes a path below the folder of the process, or where `dir` says. The
module reads the syntax tree and runs no code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from prime_lab_mcp.lab.base.syntax import called_name
from prime_lab_mcp.lab.rewards.outside_kinds import FILES, LOOKUP, MACHINE, TIMERS
from prime_lab_mcp.lab.rewards.outside_names import ResolvedNames

_SQL_CLOCK = re.compile(
    r"\bcurrent_(?:date|time|timestamp)\b"
    r"|\b(?:date|time|datetime|julianday|unixepoch|strftime|timediff)\s*\((?:\s*\)|[^()]*['\"]now['\"])",
    re.IGNORECASE,
)
"""SQL of SQLite that tells the time (its documentation, "Date And Time Functions")."""
_SQL_FILES = re.compile(r"\A\s*(?:attach|vacuum\s+into)\b|\b(?:load_extension|readfile|writefile)\s*\(", re.IGNORECASE)
_SQL_ROWS = re.compile(r"\A\s*(?:insert|update|delete|replace|create|drop|alter)\b", re.IGNORECASE)
_RUNS_SQL = frozenset({"execute", "executemany", "executescript"})
_TEMPORARY = frozenset(
    f"tempfile.{name}"
    for name in ("mkdtemp", "mkstemp", "mktemp", "NamedTemporaryFile", "TemporaryFile", "TemporaryDirectory",
                 "SpooledTemporaryFile")
)  # fmt: skip
_DIR_AT = {"mkdtemp": 2, "mkstemp": 2, "mktemp": 2, "TemporaryDirectory": 2}
"""The place of the argument `dir`, where it is among the first ones."""
_PICKLES = {"numpy.load": 2, "numpy.lib.format.read_array": 1}
"""Functions that run a pickle if `allow_pickle` is set, with the place of that argument."""
_CUDA = re.compile(r"\Acuda(?::\d+)?\Z")


def decided_reads(names: ResolvedNames, nodes: Sequence[ast.AST]) -> Iterator[tuple[str, str, int]]:
    """Yield (kind, name, line) for calls and texts in the nodes of a function that read surroundings."""
    database = names.imports_module("sqlite3")
    for node in nodes:
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if database and _SQL_CLOCK.search(node.value):
                yield TIMERS, "a query of the time", line
            if database and _SQL_FILES.search(node.value):
                yield FILES, "a query of other files", line
            if _CUDA.match(node.value) and names.imports_module("torch"):
                yield MACHINE, node.value, line
        elif isinstance(node, ast.Call):
            yield from ((kind, name, line) for kind, name in _of_call(names, node))


def _of_call(names: ResolvedNames, node: ast.Call) -> Iterator[tuple[str, str]]:
    called = names.of(node.func)
    for name in sorted(called & _TEMPORARY):
        if _leaves_temporary_folder(names, node, name):
            yield FILES, f"{name} in a folder of its own"
    for name in sorted(called & _PICKLES.keys()):
        allowed = _argument(node, "allow_pickle", _PICKLES[name])
        if allowed is not None and not (isinstance(allowed, ast.Constant) and not allowed.value):
            yield LOOKUP, name
    if any(k.arg == "trust_remote_code" and not _is_false(k.value) for k in node.keywords):
        yield LOOKUP, ast.unparse(node.func)[:60]


def changes_rows(node: ast.Call, parameters: AbstractSet[str]) -> ast.expr | None:
    """Return the connection whose rows a call changes; None for other calls.

    A computed query may change rows, unless it is one of the `parameters` of the function.
    """
    if not (isinstance(node.func, ast.Attribute) and node.func.attr in _RUNS_SQL and node.args):
        return None
    query = node.args[0]
    if isinstance(query, ast.Name) and query.id in parameters:
        return None
    stated = isinstance(query, ast.Constant) and isinstance(query.value, str)
    return None if stated and not is_row_change(query) else node.func.value


def is_row_change(node: ast.expr) -> bool:
    """Whether an expression is the text of a query that changes rows, also one with values to fill in."""
    text = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return isinstance(text, ast.Constant) and isinstance(text.value, str) and _SQL_ROWS.search(text.value) is not None


def _leaves_temporary_folder(names: ResolvedNames, node: ast.Call, name: str) -> bool:
    """Whether a function of `tempfile` is told where to write."""
    folder = _argument(node, "dir", _DIR_AT.get(name.rpartition(".")[2], 99))
    parts = [k.value for k in node.keywords if k.arg in ("prefix", "suffix")] + node.args[:2]
    texts = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
    if any("/" in text for text in texts):
        return True
    return folder is not None and not _is_false(folder) and not names.is_below_package(folder)


def stays_inside(names: ResolvedNames, node: ast.Call, nodes: Sequence[ast.AST]) -> bool:
    """Whether a call reads no surroundings, although its name may: a database in memory, an archive that is written to
    memory or to a temporary folder, or warnings that are not recorded."""
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    texts = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if called == "catch_warnings":
        return not any(k.arg in ("record", None) for k in node.keywords)
    if called == "connect":
        return texts[:1] == [":memory:"]
    writes = called == "ZipFile" and "w" in texts[-1:] and bool(node.args)
    return writes and (_is_memory(node.args[0], nodes) or names.is_below_package(node.args[0]))


def _is_memory(node: ast.expr, nodes: Sequence[ast.AST]) -> bool:
    """Whether an expression is a buffer, or a variable to which the code around assigns one."""
    if isinstance(node, ast.Name):
        values = [n.value for n in nodes if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == node.id]
        return bool(values) and all(not isinstance(v, ast.Name) and _is_memory(v, nodes) for v in values)
    return isinstance(node, ast.Call) and called_name(node) == "BytesIO"


def parses_what_it_is_given(nodes: Sequence[ast.AST]) -> bool:
    """Whether every parser of arguments in this code is called with arguments, such as those of its caller."""
    parsed = [
        node
        for node in nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("parse_args", "parse_known_args", "parse_intermixed_args")
    ]
    given = [[*call.args[:1], *(k.value for k in call.keywords if k.arg == "args")] for call in parsed]
    return bool(given) and all(args and not isinstance(args[0], ast.Constant) for args in given)


def _argument(node: ast.Call, name: str, place: int) -> ast.expr | None:
    """Return the argument of a call by its name or place. Arguments that are unpacked may hold any."""
    for keyword in node.keywords:
        if keyword.arg in (name, None):
            return keyword.value
    return node.args[place] if len(node.args) > place else None


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
