"""Which generation of the verifiers API an environment is written for, without running it.

Code decides where it is clear; the package's requirement on verifiers decides between the rest (facts/verifiers 6).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from packaging.requirements import Requirement

from prime_lab_mcp.lab.checks.code import Code, aliases, dotted, read
from prime_lab_mcp.lab.snapshot import Snapshot

Api = Literal["v0", "v1"]
_V0_VERSIONS = ("0.1.14", "0.2.1", "0.3.1")
_V1_VERSIONS = ("0.4.0", "0.4.1", "0.4.9")


@dataclass(frozen=True, slots=True)
class Generation:
    """`api` is None where nothing tells. `reasons` are sentences a person could check."""

    api: Api | None
    reasons: tuple[str, ...]


def detect(snapshot: Snapshot, code: Code | None = None) -> Generation:
    """The generation of a snapshot, and why."""
    code = code or read(snapshot)
    v1, v0 = _v1_code(code), _v0_code(code)
    if v1 and not v0:
        return Generation("v1", (v1,))
    if v0 and not v1:
        return Generation("v0", (v0,))
    if v1 and v0:
        return Generation("v1", (v1, f"{v0}, which v1 does not use"))
    requirement = snapshot.manifest.verifiers
    if requirement is not None and not requirement.url:
        if not admits(requirement, _V0_VERSIONS):
            return Generation("v1", (f"pyproject.toml requires {requirement}",))
        if not admits(requirement, _V1_VERSIONS):
            return Generation("v0", (f"pyproject.toml requires {requirement}",))
    return Generation(None, ("no Taskset subclass, no load_environment, and the requirement on verifiers fits both",))


def admits(requirement: Requirement, versions: tuple[str, ...]) -> bool:
    """Whether a requirement allows any of these versions."""
    return any(requirement.specifier.contains(version, prereleases=True) for version in versions)


def _v1_code(code: Code) -> str | None:
    for file in code.files:
        known = aliases(file, "verifiers")
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.ClassDef) and any(_is_v1(base, known) for base in node.bases):
                return f"{file.at(node.lineno)} subclasses a v1 Taskset or Task"
    return None


def _is_v1(base: ast.expr, known: dict[str, str]) -> bool:
    name = dotted(base.value if isinstance(base, ast.Subscript) else base)
    if name is None:
        return False
    head, _, rest = name.partition(".")
    full = f"{known.get(head, head)}{'.' + rest if rest else ''}"
    return full.startswith("verifiers.v1") and full.rsplit(".", 1)[-1] in ("Taskset", "Task", "TaskData")


def _v0_code(code: Code) -> str | None:
    for file in code.files:
        for node in file.tree.body if file.tree is not None else ():
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "load_environment":
                return f"{file.at(node.lineno)} defines load_environment"
    return None
