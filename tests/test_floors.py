"""The five floors of `prime_lab_mcp/lab`, held by reading the imports of every module.

A unit is a package or a single module directly under `lab/`. A unit imports units of lower floors, and units that stand
to its left on its own floor. Imports inside functions and for types count too: there is no list of exceptions.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

LAB = Path(__file__).parents[1] / "prime_lab_mcp" / "lab"
PREFIX = "prime_lab_mcp.lab."
FLOORS: tuple[tuple[str, ...], ...] = (
    ("base",),
    ("state",),
    (
        "sandbox",
        "distributions",
        "interpreter",
        "toolchain",
        "notifier",
        "prime",
        "relay",
        "worker",
        "lab",
        "present_distributions",
        "loading",
    ),
    ("datasets", "rollouts", "distribution", "environment", "rewards"),
    ("models", "authoring", "hub", "preflight", "evals", "configs", "training", "environment_status", "spend"),
)
PLACE = {unit: (floor, at) for floor, units in enumerate(FLOORS, start=1) for at, unit in enumerate(units)}


def module_name(path: Path) -> str:
    name = PREFIX + ".".join(path.relative_to(LAB).with_suffix("").parts)
    return name.removesuffix(".__init__")


MODULES = {module_name(path): path for path in sorted(LAB.rglob("*.py")) if path != LAB / "__init__.py"}


def unit_of(module: str) -> str:
    return module.removeprefix(PREFIX).partition(".")[0]


@functools.cache
def statements(module: str) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """All imports of a module, and those that run when the module is imported."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    whole = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return whole, [node for node in whole if node in tree.body]


def imports(module: str, *, at_import: bool = False) -> Iterator[tuple[int, str]]:
    """Lines and names of the modules of lab that a module imports; `at_import` leaves out what is imported later."""
    for node in statements(module)[at_import]:
        if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").startswith(PREFIX[:-1]):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield node.lineno, whole if whole in MODULES else node.module or ""
        elif isinstance(node, ast.ImportFrom) and node.level == 1:
            beside = f"{module.rpartition('.')[0]}."
            yield from ((node.lineno, beside + (node.module or alias.name)) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names if alias.name.startswith(PREFIX))


def part_of(module: str) -> str:
    """The package within a unit to which a module belongs, or the module if it belongs to none: `evals.views`."""
    return ".".join(module.removeprefix(PREFIX).split(".")[:2])


def in_circles(graph: Mapping[str, set[str]]) -> list[str]:
    """The nodes that have no place in any order in which each stands behind all that it needs."""
    waiting = dict(graph)
    while ready := [node for node, needs in waiting.items() if not needs & waiting.keys() - {node}]:
        for node in ready:
            del waiting[node]
    return sorted(waiting)


def test_every_unit_of_lab_has_its_place_on_a_floor() -> None:
    assert {unit_of(module) for module in MODULES} == set(PLACE)


def test_imports_go_strictly_down_the_floors() -> None:
    upward = [
        f"{MODULES[module].relative_to(LAB)}:{line} imports {name}"
        for module in MODULES
        for line, name in imports(module)
        if unit_of(name) != unit_of(module) and PLACE[unit_of(name)] > PLACE[unit_of(module)]
    ]
    assert upward == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """A circle makes the result of an import depend on which module comes first."""
    graph = {module: {name for _, name in imports(module, at_import=True)} & set(MODULES) for module in MODULES}
    assert in_circles(graph) == []


def test_the_packages_within_a_package_import_each_other_in_no_circle() -> None:
    """Beside the packages within a package stand its own modules. Imports inside functions and for types count too."""
    graph: dict[str, set[str]] = {part_of(module): set() for module in MODULES}
    for module in MODULES:
        used = {part_of(name) for _, name in imports(module) if name in MODULES and unit_of(name) == unit_of(module)}
        graph[part_of(module)] |= used - {part_of(module), unit_of(module)}
    assert in_circles(graph) == []


def entry_of(unit: str) -> set[str]:
    """The modules that a package lets others import, by its `ENTRY`."""
    for node in ast.parse((LAB / unit / "__init__.py").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["ENTRY"]:
            return set(ast.literal_eval(node.value))
    return set()


def test_nothing_outside_a_package_imports_past_its_entry() -> None:
    packages = [unit for unit in PLACE if (LAB / unit).is_dir()]
    used: dict[str, set[str]] = {unit: set() for unit in packages}
    for path in sorted(p for p in LAB.parent.rglob("*.py") if "templates" not in p.relative_to(LAB.parent).parts):
        own = path.relative_to(LAB).parts[0] if path.is_relative_to(LAB) else ""
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or node.level or not (node.module or "").startswith(PREFIX[:-1]):
                continue
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                unit, _, module = (whole if whole in MODULES else node.module or "").removeprefix(PREFIX).partition(".")
                if module and unit != own:
                    used[unit].add(module)
    assert {unit: entry_of(unit) for unit in packages} == used
