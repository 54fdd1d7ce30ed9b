"""The modules that declared requirements provide, computed from installed metadata."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from prime_lab_mcp.lab.environment.requirements import InstalledDistribution, hidden_modules, requirement_closure


def dist(*requires: str, modules: tuple[str, ...] = ()) -> InstalledDistribution:
    return InstalledDistribution(requires, frozenset(modules))


INSTALLED = {
    "a": dist("b>=1", 'c; extra == "more"', 'd; python_version < "3"'),
    "b": dist("e[fast]"),
    "c": dist(),
    "d": dist(),
    "e": dist('f; extra == "fast"', "a"),
    "f": dist(),
    "by-chance": dist(),
}


@pytest.mark.parametrize(
    ("wanted", "brought"),
    [("a", {"a", "b", "e", "f"}), ("a[more]", {"a", "b", "c", "e", "f"}), ("E", {"e", "a", "b", "f"}), ("zzz", set())],
)
def test_requirements_are_followed_through_extras_markers_and_cycles(wanted: str, brought: set[str]) -> None:
    assert requirement_closure(INSTALLED, [Requirement(wanted)]) == brought


def test_what_no_requirement_brings_is_hidden_and_what_one_brings_is_not() -> None:
    python = Path(sys.executable)
    without = set(hidden_modules(python, "test", (Requirement("verifiers>=0.4"),)))
    assert {"datasets", "pytest", "prime_cli"} <= without
    assert not {"verifiers", "openai", "pydantic", "json", "numpy"} & without
    assert "datasets" not in hidden_modules(python, "test", (Requirement("verifiers>=0.4"), Requirement("datasets>=3")))
