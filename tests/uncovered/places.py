"""Names the places of a module that no test reached, in a way that other edits of the module do not change."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A block that never ran, or a branch that was never taken to a line that others reached."""

    name: str
    """Function, text of the line, and for a branch its target. Equal names differ in a number at the end."""
    line: int


def uncovered_places(
    source: str, missing_lines: Collection[int], missing_branches: Sequence[tuple[int, int]]
) -> list[Place]:
    """The places of a report of coverage.py: the first line of each block, and each branch whose target others
    reached. A negative target leaves the function."""
    functions = list(_functions(ast.parse(source)))
    texts = source.splitlines()
    missing = set(missing_lines)
    statements = sorted({node.lineno for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)} | missing)
    before = dict(zip(statements[1:], statements, strict=False))

    def of(line: int) -> str:
        inside = [name for name, first, last in functions if first <= line <= last]
        return f"{inside[-1] if inside else ''}: {texts[line - 1].strip()}"

    named: list[tuple[int, str]] = [(line, of(line)) for line in sorted(missing) if before.get(line) not in missing]
    for line, target in missing_branches:
        if line not in missing and target not in missing:
            named.append((line, f"{of(line)} -> {texts[target - 1].strip() if target > 0 else 'return'}"))
    times: Counter[str] = Counter()
    places = []
    for line, name in sorted(named):
        times[name] += 1
        places.append(Place(name if times[name] == 1 else f"{name} ({times[name]})", line))
    return places


def _functions(tree: ast.AST, within: str = "") -> Iterator[tuple[str, int, int]]:
    """Name, first and last line of each function and class, outer ones first."""
    for node in ast.iter_child_nodes(tree):
        name = within
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}.{node.name}" if within else node.name
            yield name, node.lineno, node.end_lineno or node.lineno
        yield from _functions(node, name)
