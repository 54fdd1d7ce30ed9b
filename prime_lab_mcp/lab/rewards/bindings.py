"""Lists the assignments of a syntax node: which names and attributes get which expressions."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from prime_lab_mcp.lab.base.syntax import defaults_of


def bindings_of(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield (name, value) for every variable or attribute that a node assigns. Of attributes only the last name
    counts."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        yield from _targets(node.target, node.value)
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield from _targets(node.target, node.iter)
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _targets(node.optional_vars, node.context_expr)
    elif isinstance(node, ast.arguments):
        yield from ((parameter.arg, default) for parameter, default in defaults_of(node))


def parts_assigned(node: ast.AST) -> Iterator[tuple[str, ast.AST, bool]]:
    """Yield (name, value, part) of every assignment of a node. `part`: the name gets an entry of the value."""
    if isinstance(node, ast.Match):
        yield from ((name, value, False) for name, value in captures_of(node))
        return
    part = isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
    if not isinstance(node, ast.arguments):
        yield from ((name, value, part or _unpacks(node, value)) for name, value in bindings_of(node))


def captures_of(node: ast.Match) -> Iterator[tuple[str, ast.expr]]:
    """Yield (name, value) for every variable that the patterns of a `match` assign."""
    for case in node.cases:
        yield from _captures(case.pattern, node.subject)


def _captures(pattern: ast.pattern, subject: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    entry = ast.Subscript(subject, ast.Constant(0), ast.Load())
    match pattern:
        case ast.MatchAs(pattern=inner, name=name):
            yield from [(name, subject)] if name else []
            yield from _captures(inner, subject) if inner is not None else ()
        case ast.MatchStar(name=name):
            yield from [(name, subject)] if name else []
        case ast.MatchOr(patterns=parts):
            for part in parts:
                yield from _captures(part, subject)
        case ast.MatchSequence(patterns=parts):
            exact = isinstance(subject, ast.Tuple | ast.List) and len(subject.elts) == len(parts)
            subjects = subject.elts if exact and isinstance(subject, ast.Tuple | ast.List) else [entry] * len(parts)
            for part, value in zip(parts, subjects, strict=True):
                yield from _captures(part, value)
        case ast.MatchMapping(patterns=parts):
            for part in parts:
                yield from _captures(part, entry)
        case ast.MatchClass(patterns=parts, kwd_attrs=names, kwd_patterns=named):
            for part in parts:  # One of `list(entries)` is the subject itself.
                yield from _captures(part, subject)
            for attribute, part in zip(names, named, strict=True):
                yield from _captures(part, ast.Attribute(subject, attribute, ast.Load()))


def _unpacks(node: ast.AST, value: ast.AST) -> bool:
    """Whether an assignment gives the entries of a value to several names."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(t, ast.Tuple | ast.List) for t in targets) and getattr(node, "value", None) is value


def sets_attribute(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return any(isinstance(t, ast.Attribute) for t in targets)


def _targets(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Yield (name, value) for one assignment. A tuple that is not written out gives its value to every name."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Attribute):
        yield target.attr, value
    elif isinstance(target, ast.Tuple | ast.List):
        exact = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        assigned = value.elts if exact and isinstance(value, ast.Tuple | ast.List) else [value] * len(target.elts)
        for inner, part in zip(target.elts, assigned, strict=True):
            yield from _targets(inner, part)
