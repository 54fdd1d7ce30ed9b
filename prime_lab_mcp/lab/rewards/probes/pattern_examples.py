"""Writes texts that match the regular expressions of an environment's code.

A reward that reads an answer with a pattern accepts only replies in its form. The shortest match of the pattern shows
this form, and what stands before and behind its group is a wrapper of answers.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from prime_lab_mcp.lab.rewards.reward_source import parse_source

_LONGEST_PATTERN, _LONGEST = 300, 200
_MOST = 12
"""Largest number of patterns of one environment."""
_FUNCTIONS = frozenset({"compile", "search", "match", "fullmatch", "findall", "finditer"})
_LETTERS = "a1 ABCDEFGHIJKLMNOPQRSTUVWXYZbcdefghijklmnopqrstuvwxyz023456789.,:;-_+=<>[]{}()\"'/\\|!?#$%&*@^~`\n"


def code_patterns(source: str) -> list[str]:
    """Return the patterns that the code gives to `re`, each once."""
    tree = parse_source(source)
    found: dict[str, None] = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FUNCTIONS:
            first = node.args[0] if node.args else None
            of_re = isinstance(node.func.value, ast.Name) and node.func.value.id in ("re", "regex")
            if of_re and isinstance(first, ast.Constant) and isinstance(first.value, str):
                found.setdefault(first.value)
    return [pattern for pattern in found if 0 < len(pattern) <= _LONGEST_PATTERN][:_MOST]


def pattern_example(pattern: str) -> str:
    """Return a short text that the pattern matches; empty if none is found."""
    return "".join(part for part, _ in _parts(pattern))


def pattern_frames(pattern: str) -> tuple[str, str] | None:
    """Return the texts before and behind the only group of a pattern, as in a match; None without exactly one group."""
    parts = _parts(pattern)
    at = [number for number, (_, group) in enumerate(parts) if group]
    if len(at) != 1:
        return None
    before = "".join(part for part, _ in parts[: at[0]])
    behind = "".join(part for part, _ in parts[at[0] + 1 :])
    return before, behind


def _parts(pattern: str) -> list[tuple[str, bool]]:
    """Return a match of the pattern in parts: pairs of a text, and whether the part is a capturing group.

    Whether the text matches is not tried, because foreign patterns may need any time.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parser.parse(pattern)
            parts = list(_top(tree))
    except (re.error, RecursionError, OverflowError, ValueError, KeyError, TypeError):
        return []
    return parts if sum(len(part) for part, _ in parts) <= _LONGEST else []


def _top(tree: Any) -> Iterator[tuple[str, bool]]:
    for code, argument in tree:
        if code is codes.SUBPATTERN and argument[0] is not None:
            yield _text(argument[3]), True
        elif code is codes.SUBPATTERN:
            yield from _top(argument[3])
        else:
            yield _one(code, argument), False


def _text(tree: Any) -> str:
    return "".join(_one(code, argument) for code, argument in tree)


def _one(code: Any, argument: Any) -> str:
    """Return a match of one node of a parsed pattern. Nodes that match no characters give none."""
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.NOT_LITERAL:
        return next(c for c in _LETTERS if ord(c) != argument)
    if code is codes.ANY:
        return "a"
    if code is codes.IN:
        return _in_class(argument)
    if code is codes.BRANCH:
        return _text(argument[1][0])
    if code is codes.SUBPATTERN:
        return _text(argument[3])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
        low, high, inner = argument
        # A part that may be missing is left out, except for one that may be anything, which is often the answer.
        text, times = _text(inner), int(max(low, 1 if high > 1 and _is_any(inner) else 0))
        if len(text) * times > _LONGEST:
            raise ValueError("the shortest match of the pattern is too long")
        return text * times
    if code is codes.AT:
        return ""
    raise ValueError("the pattern looks ahead or refers to a group")


def _is_any(tree: Any) -> bool:
    return len(tree) == 1 and tree[0][0] is codes.ANY


def _in_class(members: Sequence[Any]) -> str:
    """Return a character of a class such as `[a-z]` or `[^<]`."""
    negated = members[0][0] is codes.NEGATE
    accepted = [c for c in _LETTERS if any(_is_member(c, m) for m in members[1 if negated else 0 :]) != negated]
    if accepted:
        return accepted[0]
    code, argument = members[0]
    return chr(argument if code is codes.LITERAL else argument[0]) if code in (codes.LITERAL, codes.RANGE) else ""


def _is_member(character: str, member: Any) -> bool:
    code, argument = member
    if code is codes.LITERAL:
        return bool(ord(character) == argument)
    if code is codes.RANGE:
        return bool(argument[0] <= ord(character) <= argument[1])
    if code is codes.CATEGORY:
        kinds = {
            codes.CATEGORY_DIGIT: character.isdigit(),
            codes.CATEGORY_NOT_DIGIT: not character.isdigit(),
            codes.CATEGORY_SPACE: character.isspace(),
            codes.CATEGORY_NOT_SPACE: not character.isspace(),
            codes.CATEGORY_WORD: character.isalnum() or character == "_",
            codes.CATEGORY_NOT_WORD: not (character.isalnum() or character == "_"),
        }
        return bool(kinds.get(argument, False))
    return False
