"""Resolves paths and environment names inside the folder that the agent works in. Paths outside of it are refused."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote

HUB_NAME = re.compile(r"^(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?:@(?P<version>[\w.+-]+))?$")
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")

_NAME_BYTES = 255
"""Longest part of a path that file systems accept, in bytes."""


@dataclass(frozen=True, slots=True)
class EnvironmentFolder:
    """A folder that should hold one environment package. `name` is the folder's name."""

    name: str
    path: Path
    relative: str


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that the agent works in. `root` is absolute and resolved."""

    root: Path

    @property
    def environments(self) -> Path:
        return self.root / "environments"

    def resolve(self, path: str, *, must_exist: bool = False) -> Path:
        """Return an absolute path inside the workspace. Raises BadInput for a path or link that leads outside."""
        if "\0" in path or not path.strip() or any(len(os.fsencode(part)) > _NAME_BYTES for part in Path(path).parts):
            raise BadInput(f"{quote(path)} is no path", fix="Give a path relative to the workspace.")
        resolved = (self.root / path).resolve()
        if not resolved.is_relative_to(self.root):
            raise BadInput(
                f"{quote(path)} is outside the workspace",
                fix="Give a path inside the workspace; copy the file into it first.",
                code="outside-workspace",
            )
        if must_exist and not resolved.exists():
            raise BadInput(
                f"there is no {quote(path)} in the workspace",
                fix="Check the spelling, or create it first.",
                code="not-found",
            )
        return resolved

    def environment(self, name: str) -> EnvironmentFolder:
        """Return the folder of an environment, named by its folder under `environments/` or by a path.

        Hyphens and underscores in the name are interchangeable.

        Raises BadInput (`environment-not-found`, `outside-workspace`).
        """
        candidates = [name]
        if "/" not in name:
            candidates = [f"environments/{n}" for n in (name, name.replace("-", "_"), name.replace("_", "-"))]
            candidates.append(name)
        for candidate in candidates:
            path = self.resolve(candidate)
            if path.is_dir() and path not in (self.root, self.environments):
                return EnvironmentFolder(path.name, path, path.relative_to(self.root).as_posix())
        known = ", ".join(e.name for e in self.list_environments()) or "none yet"
        raise BadInput(
            f"there is no environment {quote(name)} in the workspace (there are: {known})",
            fix="Name a folder under environments/, or call create_environment.",
            code="environment-not-found",
        )

    def new_environment(self, name: str) -> Path:
        """Return the path for a new environment. Raises BadInput if the name is invalid or taken."""
        if not _NAME.match(name):
            raise BadInput(
                f"{quote(name)} cannot name an environment",
                fix="Use letters, digits, hyphens and underscores, starting with a letter.",
                code="bad-name",
            )
        path = self.resolve(f"environments/{name.replace('-', '_')}")
        if path.exists():
            raise BadInput(
                f"environments/{path.name} exists already and is never overwritten",
                fix="Choose another name, or work on the existing one with edit_environment.",
                code="environment-exists",
            )
        return path

    def list_environments(self) -> list[EnvironmentFolder]:
        """Every folder under `environments/` that has a pyproject.toml, sorted by name."""
        if not self.environments.is_dir():
            return []
        return [
            EnvironmentFolder(p.name, p, p.relative_to(self.root).as_posix())
            for p in sorted(self.environments.iterdir())
            if p.is_dir() and not p.is_symlink() and (p / "pyproject.toml").is_file()
        ]
