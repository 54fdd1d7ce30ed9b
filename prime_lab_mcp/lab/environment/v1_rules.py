"""Static rules for v1 environments: exports, async hooks, and task data.

The rules find a class's v1 base class by following base classes through the package's files. What can only be seen at
run time, such as a computed `__all__`, is checked on the loaded environment.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.source_code import SourceCode, SourceFile, dotted_name, import_aliases

_ROOTS = {
    "Taskset": "Taskset",
    "Env": "Env",
    "SingleAgentEnv": "Env",
    "Harness": "Harness",
    "Task": "Task",
    "TaskData": "TaskData",
    "State": "State",
}


class PackageClass(NamedTuple):
    """A class of the package. `kind` is the name of its base class in `verifiers.v1`; None if it has none."""

    file: SourceFile
    node: ast.ClassDef
    kind: str | None


def package_classes(code: SourceCode) -> dict[str, PackageClass]:
    """Return all top-level classes by name. If two files define the same name, the first file counts."""
    definitions: dict[str, tuple[SourceFile, ast.ClassDef]] = {}
    for file in code.files:
        for node in file.tree.body if file.tree is not None else ():
            if isinstance(node, ast.ClassDef):
                definitions.setdefault(node.name, (file, node))
    return {
        name: PackageClass(file, node, _kind(name, definitions, frozenset()))
        for name, (file, node) in definitions.items()
    }


def _kind(name: str, definitions: Mapping[str, tuple[SourceFile, ast.ClassDef]], visited: frozenset[str]) -> str | None:
    if name not in definitions or name in visited:
        return None
    file, node = definitions[name]
    aliases = import_aliases(file, "verifiers")
    for base in node.bases:
        base_name = dotted_name(base.value if isinstance(base, ast.Subscript) else base) or ""
        head, _, rest = base_name.partition(".")
        full = f"{aliases[head]}{'.' + rest if rest else ''}" if head in aliases else ""
        last = base_name.rsplit(".", 1)[-1]
        if full.startswith("verifiers.v1") and last in _ROOTS:
            return _ROOTS[last]
        if inherited := _kind(last, definitions, visited | {name}):
            return inherited
    return None


def exports(package: EnvironmentPackage) -> Iterator[Finding]:
    """Check that `__all__` of the module names exactly one Taskset, at most one Env and at most one Harness."""
    module = package.snapshot.manifest.module
    file = next((f for f in package.code.files if f.path in _entry_files(module)), None) if module else None
    if package.generation.api != "v1" or file is None or file.tree is None:
        return
    declared = _literal_exports(file.tree)
    if declared is None:
        if not any("__all__" in ast.dump(n) for n in file.tree.body):
            yield Finding(
                "exports",
                "blocker",
                f"{file.path} has no __all__, by which verifiers finds the Taskset",
                'Add `__all__ = ["YOURTaskset"]` with exactly one Taskset subclass.',
                f"{file.path}:1",
            )
        return
    names, line = declared
    classes = package_classes(package.code)
    for kind in ("Taskset", "Env", "Harness"):
        exported = [n for n in names if n in classes and classes[n].kind == kind]
        foreign = [n for n in names if n not in classes]
        few = kind == "Taskset" and not exported and not foreign
        if len(exported) > 1 or few:
            expected = "exactly one" if kind == "Taskset" else "at most one"
            listed = ", ".join(quote(n, 60) for n in exported) or "none"
            yield Finding(
                "exports",
                "blocker",
                f"__all__ has to name {expected} {kind}, and it names {len(exported)}: {listed}",
                "Keep the one to be run in __all__, and put the others into packages of their own.",
                file.at(line),
            )
    bound = _top_level_names(file.tree)
    missing = [n for n in names if n not in bound] if "*" not in bound else []
    if missing:
        yield Finding(
            "exports",
            "blocker",
            f"__all__ names {quote(', '.join(missing[:3]), 120)}, which the module lacks",
            "Import or define it in that file, or take it out of __all__.",
            file.at(line),
        )


def _entry_files(module: str) -> tuple[str, ...]:
    return (f"{module}.py", f"{module}/__init__.py", f"src/{module}.py", f"src/{module}/__init__.py")


def _literal_exports(tree: ast.Module) -> tuple[list[str], int] | None:
    """Return the names in a literal `__all__` and its line; None if the module has no `__all__` or computes it."""
    exported = None
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(t, ast.Name) and t.id == "__all__" for t in targets):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            elements = value.elts if isinstance(value, ast.List | ast.Tuple) else None
            if elements is None or not all(isinstance(e, ast.Constant) for e in elements):
                return None
            exported = [str(e.value) for e in elements if isinstance(e, ast.Constant)], node.lineno
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name) and node.target.id == "__all__":
            return None
    return exported


def _top_level_names(tree: ast.Module) -> set[str]:
    """Return the names that a module may define. `*` stands for any name, if the module has `__getattr__`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    if any(isinstance(n, ast.FunctionDef) and n.name == "__getattr__" for n in tree.body):
        names.add("*")
    return names


def sync_hooks(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report rewards and metrics that are not async. verifiers awaits them, and one failure loses all scores."""
    if package.generation.api != "v1":
        return
    for file in package.code.files:
        aliases = import_aliases(file, "verifiers")
        for node in ast.walk(file.tree) if file.tree is not None else ():
            if isinstance(node, ast.FunctionDef) and (kind := _hook_kind(node, aliases)):
                yield Finding(
                    "reward-sync",
                    "blocker",
                    f"the {kind} {quote(node.name, 60)} is no async function; the whole task gets no scores",
                    "Write `async def` for every @vf.reward and @vf.metric.",
                    file.at(node.lineno),
                )


def _hook_kind(node: ast.FunctionDef, aliases: Mapping[str, str]) -> str | None:
    for decorator in node.decorator_list:
        name = dotted_name(decorator.func if isinstance(decorator, ast.Call) else decorator) or ""
        head, _, rest = name.partition(".")
        full = f"{aliases.get(head, '')}{'.' + rest if rest else ''}"
        if full.startswith("verifiers.v1") and full.rsplit(".", 1)[-1] in ("reward", "metric"):
            return full.rsplit(".", 1)[-1]
    return None


def excluded_fields(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report fields of TaskData with `exclude=True`. The env server refuses a task whose data is incomplete."""
    for name, package_class in package_classes(package.code).items() if package.generation.api == "v1" else ():
        if package_class.kind != "TaskData":
            continue
        for node in package_class.node.body:
            if not isinstance(node, ast.AnnAssign) or not isinstance(node.value, ast.Call):
                continue
            excludes = [k.value for k in node.value.keywords if k.arg == "exclude"]
            if any(isinstance(v, ast.Constant) and v.value is True for v in excludes):
                yield excluded_field_finding(name, ast.unparse(node.target), package_class.file.at(node.lineno))


def excluded_field_finding(data: str, field: str, where: str | None = None) -> Finding:
    """Return the finding for a field that serialisation leaves out. `data` is the name of its class."""
    return Finding(
        "task-field-excluded",
        "blocker",
        f"{quote(data, 80)}.{quote(field, 80)} has exclude=True; training refuses to serve such a task",
        "Drop exclude=True. What a reward needs must be in the data; the model sees only the prompts.",
        where,
    )


def unread_tools(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report tools that a class attribute names. verifiers 0.4 calls `toolsets` and reads no attribute."""
    classes = package_classes(package.code) if package.generation.api == "v1" else {}
    if any(_defines(c.node, "toolsets") for c in classes.values()):
        return
    tools = {name for name, c in classes.items() if any("Toolset" in ast.unparse(base) for base in c.node.bases)}
    for name, package_class in classes.items():
        for node in package_class.node.body if package_class.kind in ("Task", "Taskset") else ():
            named = _tools_named(node, tools)
            if named:
                yield Finding(
                    "verifiers-outdated",
                    "blocker",
                    f"{quote(name, 80)}.tools names {quote(named, 80)}, and verifiers 0.4 does not read it: the model "
                    "gets no tools",
                    f"Return them from a classmethod of the task: `def toolsets(cls, config): return [{named}(...)]`.",
                    package_class.file.at(node.lineno),
                )
                return


def _defines(node: ast.ClassDef, name: str) -> bool:
    return any(isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef) and n.name == name for n in node.body)


def _tools_named(node: ast.stmt, tools: Collection[str]) -> str:
    """Return the first Toolset of the package that a statement `tools = (...)` names; empty if there is none."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
    if value is None or not any(isinstance(t, ast.Name) and t.id == "tools" for t in targets):
        return ""
    listed = value.elts if isinstance(value, ast.Tuple | ast.List) else [value]
    return next((n.id for n in listed if isinstance(n, ast.Name) and n.id in tools), "")


def outside_state(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report task state outside of the task's data. Training rebuilds a Task from its data and does not call load()."""
    if package.generation.api != "v1":
        return
    for package_class in package_classes(package.code).values():
        if package_class.kind == "Taskset":
            yield from _global_statements(package_class)
        elif package_class.kind == "Task":
            for node in ast.walk(package_class.node):
                if isinstance(node, ast.Attribute) and dotted_name(node) in ("self.taskset", "self._taskset"):
                    yield _not_self_contained(
                        f"{package_class.node.name} reads {dotted_name(node)}", package_class.file.at(node.lineno)
                    )
                    break


def _global_statements(taskset: PackageClass) -> Iterator[Finding]:
    load = next((n for n in taskset.node.body if isinstance(n, ast.FunctionDef) and n.name == "load"), None)
    statements = [n for n in ast.walk(load) if isinstance(n, ast.Global)] if load is not None else []
    for node in statements[:1]:
        yield _not_self_contained(
            f"load() sets the module variable {', '.join(node.names[:3])}", taskset.file.at(node.lineno)
        )


def _not_self_contained(message: str, where: str) -> Finding:
    return Finding(
        "task-not-self-contained",
        "warning",
        f"{message}; training rebuilds tasks from their data and never calls load()",
        "Put what the reward needs into the TaskData; the loaded check scores a rebuilt task and blocks if it differs.",
        where,
    )


V1_CHECKS: tuple[PackageCheck, ...] = (exports, sync_hooks, excluded_fields, unread_tools, outside_state)
