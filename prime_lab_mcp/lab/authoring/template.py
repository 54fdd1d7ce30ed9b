"""A template package on disk made into another package: names token by token, constants by their place in the syntax.

Templates are whole packages that lint and type-check as they are; nothing here holds code as text.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from packaging.requirements import Requirement

from prime_lab_mcp.lab.authoring.names import Names

Value = str | int | float | bool | None | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """How a template is changed. Paths are relative to the template's folder, with its own names in them."""

    names: Names
    constants: Mapping[str, Value] = field(default_factory=dict)
    """Module-level constants and their new values; set in whichever files have them."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Bodies of README sections, by title."""
    description: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Files that take the place of others: new path by path."""
    more_requirements: tuple[str, ...] = ()
    drop_requirements: frozenset[str] = frozenset()
    """Distributions that the new package does not need."""


def instantiate(template: Path, target: Path, fit: Fit, only: Collection[str] | None = None) -> list[str]:
    """Write the fitted package, or `only` some files of it, into `target`. Returns the paths written."""
    own = names_of(template)
    written = []
    for relative in files(template):
        path = template / relative
        if only is not None and relative not in only:
            continue
        place = rename_text(fit.instead.get(relative, relative), own, fit.names)
        text = _fitted(relative, path.read_text(encoding="utf-8"), own, fit)
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text, encoding="utf-8")
        written.append(place)
    return written


def names_of(template: Path) -> Names:
    """The template's own names, which its files are full of."""
    document: Any = tomlkit.parse((template / "pyproject.toml").read_text(encoding="utf-8"))
    name = str(document["project"]["name"])
    module = name.replace("-", "_")
    return Names(module, name, "".join(part.capitalize() for part in module.split("_")))


def files(template: Path) -> list[str]:
    """Paths of a template's files, relative to it."""
    found = (p.relative_to(template) for p in sorted(template.rglob("*")) if p.is_file())
    return [p.as_posix() for p in found if not any(part[0] == "." or part == "__pycache__" for part in p.parts)]


def _fitted(relative: str, text: str, own: Names, fit: Fit) -> str:
    if relative.endswith(".py"):
        return set_constants(rename_code(text, own, fit.names), fit.constants)
    if relative == "pyproject.toml":
        return _project(text, fit)
    if relative == "README.md":
        text = rename_text(text, own, fit.names)
        for title, body in fit.sections.items():
            text = set_section(text, title, body)
        return text
    return text


def rename_code(source: str, old: Names, new: Names) -> str:
    """Rename the module and every identifier with the template's class prefix, also where a string is just that name.

    Names inside of other strings and of comments stay: a template has none.
    """
    lines = source.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(source).readline))):
        quoted = token.type == tokenize.STRING and token.string[0] == token.string[-1] == '"'
        if token.type != tokenize.NAME and not quoted:
            continue
        renamed = _renamed(token.string.strip('"'), old, new)
        if renamed is None:
            continue
        row, start, end = token.start[0] - 1, token.start[1], token.end[1]
        lines[row] = lines[row][:start] + (f'"{renamed}"' if quoted else renamed) + lines[row][end:]
    return "".join(lines)


def _renamed(name: str, old: Names, new: Names) -> str | None:
    if name == old.module:
        return new.module
    if name.startswith(old.prefix) and name.isidentifier():
        return new.prefix + name[len(old.prefix) :]
    return None


def rename_text(text: str, old: Names, new: Names) -> str:
    """Rename whole words in prose and paths."""
    text = re.sub(rf"\b{re.escape(old.module)}\b", new.module, text)
    return re.sub(rf"\b{re.escape(old.distribution)}\b", new.distribution, text)


def set_constants(source: str, values: Mapping[str, Value]) -> str:
    """Give the module-level constants of a file new values, those of `values` that it has."""
    lines = source.encode("utf-8").splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        if not (isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id in values):
            continue
        value = node.value
        assert value is not None
        assert value.end_lineno is not None
        head = lines[value.lineno - 1][: value.col_offset]
        tail = lines[value.end_lineno - 1][value.end_col_offset :]
        lines[value.lineno - 1 : value.end_lineno] = [head + literal(values[target.id]).encode("utf-8") + tail]
    return b"".join(lines).decode("utf-8")


def literal(value: Value) -> str:
    """A value as Python source."""
    if isinstance(value, tuple):
        return f"({', '.join(map(literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(clean, ensure_ascii=False)  # JSON's escapes mean the same in Python
    return repr(value)


def set_section(text: str, title: str, body: str) -> str:
    """Replace what stands under a `## title`."""
    pattern = re.compile(rf"(?ms)^## {re.escape(title)}\n.*?(?=^## |\Z)")
    if pattern.search(text) is None:
        raise KeyError(f"no section {title}")
    return pattern.sub(lambda _: f"## {title}\n\n{body.strip()}\n\n", text, count=1).rstrip() + "\n"


def section_of(text: str, title: str) -> str:
    """What stands under a `## title`. Raises KeyError when there is no such section."""
    found = re.search(rf"(?ms)^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text)
    if found is None:
        raise KeyError(f"no section {title}")
    return found[1].strip()


def requirements_of(template: Path) -> list[str]:
    """The template's dependencies, as its pyproject.toml states them."""
    document: Any = tomlkit.parse((template / "pyproject.toml").read_text(encoding="utf-8"))
    return [str(d) for d in document["project"]["dependencies"]]


def _project(text: str, fit: Fit) -> str:
    document: Any = tomlkit.parse(text)
    document["project"]["name"] = fit.names.distribution
    if fit.description:
        document["project"]["description"] = fit.description
    needed = document["project"]["dependencies"]
    for text in [str(d) for d in needed if Requirement(str(d)).name in fit.drop_requirements]:
        needed.remove(text)
    for text in fit.more_requirements:
        if text not in needed:
            needed.append(text)
    document["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = [fit.names.module]
    return tomlkit.dumps(document)
