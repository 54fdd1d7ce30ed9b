"""Turns a template package into a new package: renames identifiers, sets constants, and replaces README sections.

`EnvironmentKind` names the template of each kind of environment. Assembled templates are whole packages that pass lint
and type checks unchanged. This module contains no code as text.
"""

from __future__ import annotations

import ast
import difflib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomlkit
from packaging.requirements import Requirement

from prime_lab_mcp.lab.authoring.assembly import Template, template_names
from prime_lab_mcp.lab.authoring.naming import PackageNames, rename_code, rename_text
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.interpreter import Api

SINGLE_TURN = frozenset({"numeric", "math", "choice", "classification", "boolean", "short_text", "json", "tool_call"})
"""Kinds whose answers are compared by modules without verifiers imports, so that v0 packages can use them unchanged."""
OLDER_BASE = "v0_single_turn"


@dataclass(frozen=True, slots=True)
class EnvironmentKind:
    """A kind of environment that a caller can request. `base` is its template; `answers` names another template whose
    pure modules are added."""

    name: str
    api: Api
    base: Template
    answers: Template | None = None

    @property
    def generates(self) -> bool:
        """Whether the template makes its tasks itself, so that it has no rows and takes no dataset."""
        return f"{self.base.names.module}/rows.py" not in self.base.sources

    @property
    def judged(self) -> bool:
        """Whether the reward asks a judge model."""
        return f"{self.base.names.module}/judging.py" in self.base.sources


def environment_kind(templates: Path, name: str, api: Api) -> EnvironmentKind:
    """Return the kind `name` for an API. Raises BadInput, which lists the kinds, if there is none."""
    own: Api = "v0" if name.startswith("v0_") else "v1"
    offered = [k for k in template_names(templates) if k.startswith("v0_") or k in SINGLE_TURN or api == "v1"]
    if name not in offered:
        near = difflib.get_close_matches(name, offered, 1)
        nearest = (
            Fix("Pass ", SameCall(template=near[0]))
            if near
            else Fix("Call ", NamedCall("read_reference", topic="guide/environments"))
        )
        raise BadInput(
            f"there is no template {quote(name, 60)} for the API {api}",
            fix=Fix(nearest, f"; the templates are: {', '.join(offered)}."),
            code="unknown-template",
        )
    if own == "v0" or api == "v1":
        return EnvironmentKind(name, own, Template(templates / name))
    return EnvironmentKind(name, "v0", Template(templates / OLDER_BASE), Template(templates / name))


ConstantValue = str | int | float | bool | None | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TemplateChanges:
    """Changes to a template. Paths are relative to the template's folder and contain the template's own names."""

    names: PackageNames
    constants: Mapping[str, ConstantValue] = field(default_factory=dict)
    """Module-level constants with their new values, set in every file that has them."""
    sections: Mapping[str, str] = field(default_factory=dict)
    """Bodies of README sections by title."""
    description: str = ""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Template files that are written to another path: the new path by the path in the template."""
    more_requirements: tuple[str, ...] = ()
    drop_requirements: frozenset[str] = frozenset()
    """Distributions that the new package does not need."""


def instantiate_template(
    template: Template, target: Path, changes: TemplateChanges, only: Collection[str] | None = None
) -> list[str]:
    """Write the changed package into `target`, or `only` some of its files. Returns the written paths."""
    own = template.names
    paths = []
    for relative in template.sources:
        if only is not None and relative not in only:
            continue
        place = rename_text(changes.instead.get(relative, relative), own, changes.names)
        text = _changed_text(relative, template.text(relative), own, changes)
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        (target / place).write_text(text, encoding="utf-8")
        paths.append(place)
    return paths


def _changed_text(relative: str, text: str, own: PackageNames, changes: TemplateChanges) -> str:
    if relative.endswith(".py"):
        return set_constants(rename_code(text, own, changes.names), changes.constants)
    if relative == "pyproject.toml":
        return _project(text, changes)
    if relative == "README.md":
        text = rename_text(text, own, changes.names)
        for title, body in changes.sections.items():
            text = set_section(text, title, body)
        return text
    return text


def set_constants(source: str, values: Mapping[str, ConstantValue]) -> str:
    """Set module-level constants of a file to new values. Names in `values` that the file lacks are ignored."""
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
        lines[value.lineno - 1 : value.end_lineno] = [head + python_literal(values[target.id]).encode("utf-8") + tail]
    return b"".join(lines).decode("utf-8")


def python_literal(value: ConstantValue) -> str:
    """Convert a value to Python source."""
    if isinstance(value, tuple):
        return f"({', '.join(map(python_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        clean = value.encode("utf-8", "replace").decode("utf-8")
        return json.dumps(clean, ensure_ascii=False)  # JSON's escapes mean the same in Python
    return repr(value)


def set_section(text: str, title: str, body: str) -> str:
    """Replace the body under a `## title`."""
    pattern = re.compile(rf"(?ms)^## {re.escape(title)}\n.*?(?=^## |\Z)")
    if pattern.search(text) is None:
        raise KeyError(f"no section {title}")
    return pattern.sub(lambda _: f"## {title}\n\n{body.strip()}\n\n", text, count=1).rstrip() + "\n"


def section_of(text: str, title: str) -> str:
    """The body under a `## title`. Raises KeyError without such a section."""
    match = re.search(rf"(?ms)^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text)
    if match is None:
        raise KeyError(f"no section {title}")
    return match[1].strip()


def template_requirements(template: Template) -> list[str]:
    """The dependencies that the template's pyproject.toml states."""
    document: Any = tomlkit.parse(template.text("pyproject.toml"))
    return [str(d) for d in document["project"]["dependencies"]]


def _project(text: str, changes: TemplateChanges) -> str:
    document: Any = tomlkit.parse(text)
    document["project"]["name"] = changes.names.distribution
    if changes.description:
        document["project"]["description"] = changes.description
    needed = document["project"]["dependencies"]
    for text in [str(d) for d in needed if Requirement(str(d)).name in changes.drop_requirements]:
        needed.remove(text)
    for text in changes.more_requirements:
        if text not in needed:
            needed.append(text)
    document["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] = [changes.names.module]
    return tomlkit.dumps(document)
