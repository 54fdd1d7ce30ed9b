"""The layering of DESIGN section 2, held by reading the imports of every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "prime_lab_mcp"
BELOW = {
    "lab": {"lab"},
    "tools": {"tools", "lab"},
    "resources": {"resources"},
    "prompts": {"prompts"},
    "rehearsal": {"rehearsal", "lab"},
    "server": {"server", "tools", "lab", "resources", "prompts", "rehearsal"},
    "cli": {"cli", "server", "tools", "lab", "resources", "prompts", "rehearsal"},
}
DOORS = {
    "mcp": ("server/", "cli/"),
    "mcp_types": ("server/", "cli/"),
    "verifiers": ("lab/worker/", "resources/templates/"),
    "datasets": ("lab/worker/", "resources/templates/"),
    "prime_cli": (),
    "matplotlib": ("lab/evals/pictures/draw.py",),
    "PIL": ("lab/evals/pictures/draw.py",),
    "subprocess": ("lab/process.py", "lab/worker/"),
    "multiprocessing": (),
}
"""Who may import what from outside. Programs under lab/worker/ are run by another interpreter."""
MODULES = sorted(p for p in ROOT.rglob("*.py") if "templates" not in p.parts)


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.lineno, node.module or ""


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
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


SERVER_SIDE = {
    "__init__.py",
    "host.py",
    "pool.py",
    "faults.py",
    "cases.py",
    "decoding.py",
    "rolled.py",
    "kept.py",
    "channel.py",
    "zygote.py",
}
"""Modules under lab/worker/ that the server imports; all others are run by another interpreter."""
PROGRAMS = [p for p in MODULES if "worker" in p.relative_to(ROOT).parts and p.name not in SERVER_SIDE]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_a_worker_program_imports_nothing_that_its_interpreter_may_lack(path: Path) -> None:
    ours = ("prime_lab_mcp", "pydantic", "anyio", "mcp", "tomlkit", "platformdirs")
    assert [f"line {line}: {name}" for line, name in imports(path) if name.split(".")[0] in ours] == []
