"""The layers of the package, held by reading the imports of every module."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.laws import every

ROOT = Path(__file__).parents[1] / "prime_lab_mcp"
BELOW = {
    "lab": {"lab"},
    "tools": {"tools", "lab"},
    "resources": {"resources", "lab"},
    "prompts": {"prompts"},
    "rehearsal": {"rehearsal", "lab"},
    "dashboard": {"dashboard", "lab"},
    "server": {"server", "tools", "lab", "resources", "prompts", "rehearsal", "dashboard"},
    "cli": {"cli", "server", "tools", "lab", "resources", "prompts", "rehearsal", "dashboard"},
}
DOORS = {
    "mcp": ("server/", "cli/"),
    "mcp_types": ("server/", "cli/"),
    "verifiers": ("lab/worker/child/", "resources/templates/"),
    "datasets": ("lab/worker/", "resources/templates/"),
    "prime_cli": ("lab/prime/several_commands.py",),
    "matplotlib": ("lab/evals/pages/draw.py",),
    "PIL": ("lab/evals/pages/draw.py",),
    "subprocess": ("lab/base/process.py", "lab/sandbox/site/"),
    "multiprocessing": (),
}
"""Who may import what from outside. Another interpreter runs lab/worker/child/ and lab/sandbox/site/."""
CHILD = ROOT / "lab" / "worker" / "child"
"""The package that an environment's interpreter runs, under another name: only its modules import relatively."""
MODULES = sorted(p for p in ROOT.rglob("*.py") if "templates" not in p.relative_to(ROOT).parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            beside = node.level == 1 and path.parent == CHILD
            assert node.level == 0 or beside, f"{path}: relative import"
            if not beside:
                yield node.lineno, node.module or ""


@every("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_point_down_and_go_through_their_door(path: Path) -> None:
    relative = path.relative_to(ROOT).as_posix()
    room = relative.split("/")[0]
    wrong = []
    for line, name in imports(path):
        parts = name.split(".")
        if parts[0] == "prime_lab_mcp" and len(parts) > 1 and room in BELOW and parts[1] not in BELOW[room]:
            wrong.append(f"line {line}: {room} imports {name}")
        doors = DOORS.get(parts[0])
        if doors is not None and not relative.startswith(doors or ("-",)):
            wrong.append(f"line {line}: {name} is imported outside {doors}")
    assert wrong == []


def test_every_room_of_the_layout_exists() -> None:
    assert {p.name for p in ROOT.iterdir() if p.is_dir() and p.name != "__pycache__"} == set(BELOW)


ALLOWED_IN_CHILD = frozenset({"verifiers", "datasets", *sys.stdlib_module_names})
HARNESS_ONLY = frozenset({"aiohttp", "mcp", "vf_lab_chat"})
"""What a harness may import too: requirements of verifiers, and the harness beside it."""


@every("path", sorted(CHILD.rglob("*.py")), ids=lambda p: p.relative_to(CHILD).as_posix())
def test_the_child_package_imports_only_what_every_interpreter_of_an_environment_has(path: Path) -> None:
    allowed = ALLOWED_IN_CHILD | (HARNESS_ONLY if "harness" in path.parts else frozenset())
    assert [f"line {line}: {name}" for line, name in imports(path) if name.split(".")[0] not in allowed] == []


def test_every_module_of_the_child_package_imports_in_a_bare_interpreter() -> None:
    """As `__main__` registers the package: without our environment, packages or search path."""
    program = """
import importlib, runpy, sys
from pathlib import Path
folder = Path(sys.argv[1])
runpy.run_path(str(folder / "__main__.py"), run_name="launcher")["register"](folder)
names = sorted(p.stem for p in folder.glob("*.py"))
for name in names:
    importlib.import_module(f"_prime_lab_worker.{name}")
print(len(names), *(n for n in sys.modules if n.partition(".")[0] in ("prime_lab_mcp", "verifiers", "datasets")))
"""
    command = [sys.executable, "-I", "-S", "-c", program, str(CHILD)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.stdout.split()) == ("", [str(len(list(CHILD.glob("*.py"))))])


def test_the_child_package_is_under_one_name_that_no_environment_can_shadow(tmp_path: Path) -> None:
    """Modules of an environment with the names of ours are found by a plain import, and ours by relative imports."""
    for name in ("_prime_lab_worker", "child", "worker", "observer", "coercion", "request_loop"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n", encoding="utf-8")
    program = """
import importlib, runpy, sys
from pathlib import Path
folder = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
runpy.run_path(str(folder / "__main__.py"), run_name="launcher")["register"](folder)
importlib.import_module("_prime_lab_worker.fork_server")
print(*(n for n in sys.modules if n in ("child", "worker", "observer", "coercion", "request_loop")))
"""
    command = [sys.executable, "-I", "-S", "-c", program, str(CHILD), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, done.stdout.split()) == (0, "", [])


def test_a_public_class_has_a_name_of_its_own() -> None:
    """But for `Args` of every tool, and the package that the rehearsal's schema stands in for."""
    places: dict[str, list[str]] = {}
    for path in MODULES:
        body = [] if "schema_package" in path.parts else ast.parse(path.read_text(encoding="utf-8")).body
        for node in body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name != "Args":
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
