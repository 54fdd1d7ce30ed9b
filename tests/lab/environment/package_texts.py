"""A package that is sound as text, changed at one place by a test, and what the static checks say about it."""

from __future__ import annotations

from pathlib import Path

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.environment import package, static_checks
from prime_lab_mcp.lab.state.snapshot import Snapshot, take_snapshot
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder

README = "The data set. Format: a number. Reward: 1. Usage: run it."
V1 = """\
import verifiers.v1 as vf
class Data(vf.TaskData):
    answer: str
class T(vf.Task[Data]):
    @vf.reward
    async def right(self, trace: vf.Trace) -> float:
        return 1.0
class S(vf.Taskset[T, vf.TasksetConfig]):
    def load(self):
        return []
__all__ = ["S"]
"""
V0 = "import verifiers as vf\ndef load_environment() -> vf.Environment:\n    return vf.SingleTurnEnv()\n"


def pyproject(*dependencies: str, name: str = "thing") -> str:
    return (
        f'[project]\nname = "{name}"\nversion = "0.1.0"\ndescription = "A thing."\n'
        f"dependencies = {list(dependencies or ['verifiers>=0.4.0,<0.5'])!r}\nrequires-python = '>=3.11'\n"
    )


def snapshot(folder: Path, files: dict[str, str | None]) -> Snapshot:
    """A package that is sound but for `files`; None removes one."""
    contents = {"pyproject.toml": pyproject(), "README.md": README, "thing.py": V1, **files}
    for path, text in contents.items():
        if text is not None:
            (folder / "environment" / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / "environment" / path).write_text(text, encoding="utf-8")
    return take_snapshot(EnvironmentFolder("thing", folder / "environment", "environments/thing"), folder / "store")


def findings(folder: Path, files: dict[str, str | None]) -> list[Finding]:
    return static_checks.static_findings(package.read_package(snapshot(folder, files)))


def blockers(folder: Path, files: dict[str, str | None]) -> set[str]:
    return {f.code for f in findings(folder, files) if f.severity == "blocker"}


def warnings(folder: Path, files: dict[str, str | None]) -> set[str]:
    return {f.code for f in findings(folder, files) if f.severity == "warning"}


def told(folder: Path, files: dict[str, str | None], code: str) -> list[Finding]:
    """The findings of one code."""
    return [f for f in findings(folder, files) if f.code == code]


def v0(module: str, requirement: str = "verifiers>=0.1.14,<0.2") -> dict[str, str | None]:
    """A v0 package with this module."""
    return {"thing.py": module, "pyproject.toml": pyproject(requirement)}
