"""The corpus: one whole environment per file, whose docstring says what is the matter with its reward.

The docstring holds lines of `key: value`: `format`, `generation` (v1 or v0), for a flawed reward `finding`
(`CODE [or CODE ...], SEVERITY`; any one of the codes will do), optionally `requires` (distributions beside verifiers,
by comma), and a paragraph that says what a policy would exploit, what breaks, or why the reward is sound. A list
`CASES` of the module holds the cases that the author of such an environment gives to `test_reward`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

Set = Literal["defects", "sound", "held_out"]
Severity = Literal["blocker", "warning"]
SETS: tuple[Set, ...] = ("defects", "sound", "held_out")
"""`held_out`: written without sight of the rules, and scored before any rule was changed for them."""
FORMATS = frozenset({
    "numeric", "latex", "choice_letter", "choice_index", "boolean", "label", "short_text", "multi_answer", "json",
    "tool_call", "code", "free_text", "procedural", "multi_turn",
})
ROOT = Path(__file__).parent
_KEYS = frozenset({"format", "generation", "finding", "requires"})


class BadHeader(ValueError):
    """A file whose docstring does not say what it must."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The finding that a flaw must raise: one of `codes`, at this severity or above."""

    codes: tuple[str, ...]
    severity: Severity

    def __str__(self) -> str:
        return f"{self.codes[0]}{'' if len(self.codes) == 1 else f' +{len(self.codes) - 1}'}, {self.severity}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One environment of the corpus. `expected` is None for a sound reward."""

    name: str
    path: Path
    set: Set
    title: str
    format: str
    generation: Literal["v1", "v0"]
    expected: Expected | None
    requires: tuple[str, ...]
    why: str
    cases: tuple[dict[str, Any], ...] = ()


def samples(*sets: Set) -> list[Sample]:
    """Every file of the named sets (of all, if none is named), by name. Raises BadHeader."""
    return [read(path, name) for name in sets or SETS for path in files(name)]


def files(name: Set) -> Iterator[Path]:
    """The files of one set, in order."""
    yield from sorted(path for path in (ROOT / name).glob("*.py") if path.name != "__init__.py")


def read(path: Path, name: Set) -> Sample:
    """One file's header. Raises BadHeader."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    header = ast.get_docstring(tree) or ""
    title, _, rest = header.partition("\n")
    given: dict[str, str] = {}
    words: list[str] = []
    for line in rest.splitlines():
        key, colon, value = line.partition(":")
        if colon and key in _KEYS and not words:
            given[key] = value.strip()
        elif line.strip():
            words.append(line.strip())
    generation = given.get("generation")
    if not title or not words or given.get("format") not in FORMATS or generation not in ("v1", "v0"):
        raise BadHeader(f"{path}: the docstring needs a title, format, generation and a reason")
    return Sample(
        name=path.stem,
        path=path,
        set=name,
        title=title,
        format=given["format"],
        generation=cast(Literal["v1", "v0"], generation),
        expected=_expected(given["finding"], path) if "finding" in given else None,
        requires=tuple(part.strip() for part in given.get("requires", "").split(",") if part.strip()),
        why=" ".join(words),
        cases=tuple(_cases(tree)),
    )


def _cases(tree: ast.Module) -> list[dict[str, Any]]:
    """The literal list `CASES` of a module; empty without one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [t.id for t in node.targets if isinstance(t, ast.Name)] == ["CASES"]:
            return cast("list[dict[str, Any]]", ast.literal_eval(node.value))
    return []


def _expected(text: str, path: Path) -> Expected:
    codes, comma, severity = text.rpartition(",")
    severity = severity.strip()
    if not comma or severity not in ("blocker", "warning"):
        raise BadHeader(f"{path}: finding is no `CODE [or CODE], blocker|warning`")
    return Expected(tuple(code.strip() for code in codes.split(" or ")), cast(Severity, severity))
