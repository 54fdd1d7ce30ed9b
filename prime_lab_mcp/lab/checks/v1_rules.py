"""Rules of the v1 API that the text of the code already shows, with their line: exports, async hooks, task data.

What only running shows (a computed `__all__`, data that does not survive the wire) is judged on the loaded
environment. A class counts by its bases, followed through the package's own files.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from prime_lab_mcp.lab.checks.code import Code, SourceFile, aliases, dotted
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_ROOTS = {
    "Taskset": "Taskset", "Env": "Env", "SingleAgentEnv": "Env", "Harness": "Harness", "Task": "Task",
    "TaskData": "TaskData", "State": "State",
}  # fmt: skip


class Class(NamedTuple):
    """A class of the package: `kind` is the v1 class that it descends from, None for any other."""

    file: SourceFile
    node: ast.ClassDef
    kind: str | None


def classes(code: Code) -> dict[str, Class]:
    """Every top-level class by name. Two classes of one name in two files: the first."""
    found: dict[str, tuple[SourceFile, ast.ClassDef]] = {}
    for file in code.files:
        for node in file.tree.body if file.tree is not None else ():
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, (file, node))
    return {name: Class(file, node, _kind(name, found, frozenset())) for name, (file, node) in found.items()}


def _kind(name: str, found: Mapping[str, tuple[SourceFile, ast.ClassDef]], seen: frozenset[str]) -> str | None:
    if name not in found or name in seen:
        return None
    file, node = found[name]
    known = aliases(file, "verifiers")
    for base in node.bases:
        written = dotted(base.value if isinstance(base, ast.Subscript) else base) or ""
        head, _, rest = written.partition(".")
        full = f"{known[head]}{'.' + rest if rest else ''}" if head in known else ""
        last = written.rsplit(".", 1)[-1]
        if full.startswith("verifiers.v1") and last in _ROOTS:
            return _ROOTS[last]
        if inherited := _kind(last, found, seen | {name}):
            return inherited
    return None


def exports(package: Package) -> Iterator[Finding]:
    """`__all__` of the module names exactly one Taskset, at most one Env and at most one Harness."""
    module = package.snapshot.manifest.module
    file = next((f for f in package.code.files if f.path in _entry(module)), None) if module else None
    if package.generation.api != "v1" or file is None or file.tree is None:
        return
    named = _all(file.tree)
    if named is None:
        if not any("__all__" in ast.dump(n) for n in file.tree.body):
            yield Finding(
                "exports", "blocker", f"{file.path} has no __all__, by which verifiers finds the Taskset",
                'Add `__all__ = ["YOURTaskset"]` with exactly one Taskset subclass.', f"{file.path}:1",
            )  # fmt: skip
        return
    names, line = named
    known = classes(package.code)
    for kind in ("Taskset", "Env", "Harness"):
        found = [n for n in names if n in known and known[n].kind == kind]
        foreign = [n for n in names if n not in known]
        few = kind == "Taskset" and not found and not foreign
        if len(found) > 1 or few:
            wanted = "exactly one" if kind == "Taskset" else "at most one"
            shown = ", ".join(quote(n, 60) for n in found) or "none"
            yield Finding(
                "exports", "blocker", f"__all__ has to name {wanted} {kind}, and it names {len(found)}: {shown}",
                "Keep the one to be run in __all__, and put the others into packages of their own.", file.at(line),
            )  # fmt: skip
    bound = _bound(file.tree)
    missing = [n for n in names if n not in bound] if "*" not in bound else []
    if missing:
        yield Finding(
            "exports", "blocker", f"__all__ names {quote(', '.join(missing[:3]), 120)}, which the module lacks",
            "Import or define it in that file, or take it out of __all__.", file.at(line),
        )  # fmt: skip


def _entry(module: str) -> tuple[str, ...]:
    return (f"{module}.py", f"{module}/__init__.py", f"src/{module}.py", f"src/{module}/__init__.py")


def _all(tree: ast.Module) -> tuple[list[str], int] | None:
    """The literal `__all__` of a module; None where it has none or computes it."""
    found = None
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            elements = value.elts if isinstance(value, ast.List | ast.Tuple) else None
            if elements is None or not all(isinstance(e, ast.Constant) for e in elements):
                return None
            found = [str(e.value) for e in elements if isinstance(e, ast.Constant)], node.lineno
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == "__all__":
            return None
    return found


def _assigns_all(node: ast.Assign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets)


def _bound(tree: ast.Module) -> set[str]:
    """Names that a module binds at its top level, in branches too."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).split(".")[0] for a in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    if any(isinstance(n, ast.FunctionDef) and n.name == "__getattr__" for n in tree.body):
        found.add("*")
    return found


def sync_hooks(package: Package) -> Iterator[Finding]:
    """verifiers awaits every reward and metric; one plain function leaves the whole task without scores."""
    if package.generation.api != "v1":
        return
    for file in package.code.files:
        known = aliases(file, "verifiers")
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.FunctionDef) and (mark := _mark(node, known)):
                yield Finding(
                    "reward-sync", "blocker",
                    f"the {mark} {quote(node.name, 60)} is no async function; the whole task gets no scores",
                    "Write `async def` for every @vf.reward and @vf.metric.", file.at(node.lineno),
                )  # fmt: skip


def _mark(node: ast.FunctionDef, known: Mapping[str, str]) -> str | None:
    for decorator in node.decorator_list:
        name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        head, _, rest = name.partition(".")
        full = f"{known.get(head, '')}{'.' + rest if rest else ''}"
        if full.startswith("verifiers.v1") and full.rsplit(".", 1)[-1] in ("reward", "metric"):
            return full.rsplit(".", 1)[-1]
    return None


def excluded_fields(package: Package) -> Iterator[Finding]:
    """The env server refuses a task whose data it would not get whole."""
    for name, found in classes(package.code).items() if package.generation.api == "v1" else ():
        if found.kind != "TaskData":
            continue
        for node in found.node.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Call):
                continue
            excludes = [k.value for k in node.value.keywords if k.arg == "exclude"]
            if any(isinstance(v, ast.Constant) and v.value is True for v in excludes):
                yield excluded(name, ast.unparse(node.target), found.file.at(node.lineno))


def excluded(data: str, field: str, where: str | None = None) -> Finding:
    """The finding for a field that serialisation leaves out."""
    return Finding(
        "task-field-excluded", "blocker",
        f"{quote(data, 80)}.{quote(field, 80)} has exclude=True; training refuses to serve such a task",
        "Drop exclude=True. What a reward needs must be in the data; the model sees only the prompts.", where,
    )  # fmt: skip


def outside_state(package: Package) -> Iterator[Finding]:
    """Training rebuilds a Task from its data; what load() left elsewhere is not there."""
    if package.generation.api != "v1":
        return
    for found in classes(package.code).values():
        if found.kind == "Taskset":
            yield from _globals_set(found)
        elif found.kind == "Task":
            for node in ast.walk(found.node):
                if isinstance(node, ast.Attribute) and dotted(node) in ("self.taskset", "self._taskset"):
                    yield _outside(f"{found.node.name} reads {dotted(node)}", found.file.at(node.lineno))
                    break


def _globals_set(taskset: Class) -> Iterator[Finding]:
    load = next((n for n in taskset.node.body if isinstance(n, ast.FunctionDef) and n.name == "load"), None)
    stated = [n for n in ast.walk(load) if isinstance(n, ast.Global)] if load is not None else []
    for node in stated[:1]:
        yield _outside(f"load() sets the module variable {', '.join(node.names[:3])}", taskset.file.at(node.lineno))


def _outside(what: str, where: str) -> Finding:
    return Finding(
        "task-not-self-contained", "warning",
        f"{what}; training rebuilds tasks from their data and never calls load()",
        "Put what the reward needs into the TaskData; the loaded check scores a rebuilt task and blocks if it differs.",
        where,
    )  # fmt: skip


V1_CHECKS: tuple[Check, ...] = (exports, sync_hooks, excluded_fields, outside_state)
