"""A template package on disk made into another package: names token by token, constants by their place in the syntax.

Templates are whole packages that lint and type-check as they are; nothing here holds code as text.
"""

from __future__ import annotations

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit

from prime_lab_mcp.lab.authoring.names import Names

Value = str | int | float | bool | None | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """How a template is changed. Paths are relative to the template's folder, with its own names in them."""

    names: Names
    constants: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """By file: module-level constants and their new values."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Bodies of README sections, by title."""
    description: str = ""
    without: tuple[str, ...] = ()
    """Files to leave out."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Files that take the place of others: new path by path."""
    dependencies: Sequence[str] = ()


def instantiate(template: Path, target: Path, fit: Fit) -> list[str]:
    """Write the fitted package into `target`, which is made. Returns the paths written, relative to it."""
    own = Names(*_template_names(template))
    written = []
    for path in _files(template):
        relative = path.relative_to(template).as_posix()
        if relative in fit.without:
            continue
        place = rename_text(fit.instead.get(relative, relative), own, fit.names)
        text = _fitted(relative, path.read_text(encoding="utf-8"), own, fit)
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text, encoding="utf-8")
        written.append(place)
    return written


def _template_names(template: Path) -> tuple[str, str, str]:
    document: Any = tomlkit.parse((template / "pyproject.toml").read_text(encoding="utf-8"))
    name = str(document["project"]["name"])
    module = name.replace("-", "_")
    return module, name, "".join(part.capitalize() for part in module.split("_"))


def _files(template: Path) -> Iterator[Path]:
    for path in sorted(template.rglob("*")):
        hidden = any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(template).parts)
        if path.is_file() and not hidden:
            yield path


def _fitted(relative: str, text: str, own: Names, fit: Fit) -> str:
    if relative.endswith(".py"):
        return set_constants(rename_code(text, own, fit.names), fit.constants.get(relative, {}))
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
    """Give module-level constants new values. Raises KeyError for one that the file does not have."""
    missing = dict(values)
    lines = source.encode("utf-8").splitlines(keepends=True)
    for node in reversed(ast.parse(source).body):
        target = (
            node.targets[0]
            if isinstance(node, ast.Assign)
            else node.target
            if isinstance(node, ast.AnnAssign)
            else None
        )
        if not (isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(target, ast.Name) and target.id in missing):
            continue
        value = node.value
        assert value is not None
        assert value.end_lineno is not None
        head = lines[value.lineno - 1][: value.col_offset]
        tail = lines[value.end_lineno - 1][value.end_col_offset :]
        lines[value.lineno - 1 : value.end_lineno] = [head + literal(missing.pop(target.id)).encode("utf-8") + tail]
    if missing:
        raise KeyError(f"no constant {', '.join(missing)}")
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


def _project(text: str, fit: Fit) -> str:
    document: Any = tomlkit.parse(text)
    document["project"]["name"] = fit.names.distribution
    if fit.description:
        document["project"]["description"] = fit.description
    if fit.dependencies:
        document["project"]["dependencies"] = list(fit.dependencies)
    document["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = [fit.names.module]
    return tomlkit.dumps(document)
