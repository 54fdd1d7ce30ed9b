"""Resolves paths and environment names inside the folder that the agent works in, and reads text files there.

Paths that lead outside of that folder, or outside of one environment, are refused.
"""

from __future__ import annotations

import difflib
import itertools
import os
import re
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall, SameCall
from prime_lab_mcp.lab.base.text import quote

HUB_NAME = re.compile(r"^(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)(?:@(?P<version>[\w.+-]+))?$")
_PLAIN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*(?:@[A-Za-z0-9][A-Za-z0-9.+_-]*)?")
_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")

_NAME_BYTES = 255
"""Longest part of a path that file systems accept, in bytes."""

_SIMILAR = 0.8
"""Similarity of two names (`difflib`, 0 to 1) at which one may be a misspelling of the other. We chose this value."""


def is_plain_id(id: str) -> bool:
    """Whether `owner/name[@version]` has only characters that every program reads in the same way.

    The Hub decodes `%6De` in an address to `me`, and other characters look like letters or end a path. The owner that
    this server compares could then differ from the owner whose files the Hub serves.
    """
    return _PLAIN_ID.fullmatch(id) is not None


@dataclass(frozen=True, slots=True)
class EnvironmentFolder:
    """A folder that should hold one environment package. `name` is the folder's name."""

    name: str
    path: Path
    relative: str


_DATA = frozenset({".json", ".jsonl", ".csv", ".parquet", ".arrow"})
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})


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
        near = self.similar_names(name)
        meant = (
            Fix("Pass ", SameCall(environment=near[0]), " if you mean that one")
            if near
            else Fix("Call ", NamedCall("workflow_status"), ", which lists them")
        )
        raise BadInput(
            f"there is no environment {quote(name)} in the workspace (there are: {known})",
            fix=Fix(meant, ", or call ", NamedCall("create_environment"), "."),
            code="environment-not-found",
        )

    def similar_names(self, name: str) -> list[str]:
        """Names of folders under `environments/` that are spelled almost like a name, the nearest first."""
        if not self.environments.is_dir():
            return []
        spelled = {p.name.casefold().replace("-", "_"): p.name for p in self.environments.iterdir() if p.is_dir()}
        wanted = PurePosixPath(name).name.casefold().replace("-", "_")
        return [spelled[near] for near in difflib.get_close_matches(wanted, sorted(spelled), 3, _SIMILAR)]

    def new_environment(self, name: str) -> Path:
        """Return the path for a new environment. Raises BadInput if the name is invalid or taken."""
        if not _NAME.match(name) or name == self.environments.name:
            raise BadInput(
                f"{quote(name)} cannot name an environment",
                fix="Use letters, digits, hyphens and underscores, starting with a letter.",
                code="bad-name",
            )
        path = self.resolve(f"environments/{name.replace('-', '_')}")
        if path.exists():
            raise BadInput(
                f"environments/{path.name} exists already and is never overwritten",
                fix=Fix(
                    "Pass ",
                    SameCall(name=self._free_name(path.name)),
                    " to make another one from the data as they are now. To change the existing one, read "
                    "and edit its files.",
                ),
                code="environment-exists",
            )
        return path

    def _free_name(self, taken: str) -> str:
        """The first of `NAME_2`, `NAME_3`, ... that no folder has, counted on from the number that a name ends in."""
        stem, _, number = taken.rpartition("_")
        if not (stem and number.isdecimal()):
            stem, number = taken, "1"
        return next(
            name
            for place in itertools.count(int(number) + 1)
            if not (self.environments / (name := f"{stem}_{place}")).exists()
        )

    def free_port_name(self, old: str) -> str:
        """The first of `NAME-v1`, `NAME-v1-2`, ... that no folder has, for the port of an older environment."""
        return next(name for name in _port_names(old) if not self._is_taken(name))

    def has_port(self, old: str) -> bool:
        """Whether a folder has the first name for the port of an older environment."""
        return self._is_taken(next(_port_names(old)))

    def _is_taken(self, name: str) -> bool:
        return (self.environments / name.replace("-", "_")).exists()

    def data_files(self) -> list[str]:
        """The two newest data files beside the environments, relative to the workspace."""
        return self._newest(_DATA)[:2]

    def databases(self) -> list[str]:
        """The SQLite files beside the environments, the newest first, relative to the workspace."""
        return self._newest(_DATABASES)

    def _newest(self, suffixes: Collection[str]) -> list[str]:
        candidates = [
            p for pattern in ("*", "*/*") for p in self.root.glob(pattern) if p.suffix in suffixes and p.is_file()
        ]
        files = [p.relative_to(self.root) for p in sorted(candidates, key=lambda p: p.stat().st_mtime, reverse=True)]
        packages = self.older_packages()
        beside = [p for p in files if not p.parts[0].startswith(_NO_DATA) and p.parts[0] not in packages]
        return [p.as_posix() for p in beside]

    def older_packages(self) -> list[str]:
        """The folders beside `environments/` that are packages of v0 environments, which a port takes; sorted by name.

        The text of their code decides. The port itself finds out whether the code loads.
        """
        folders = [p.parent for p in sorted(self.root.glob("*/pyproject.toml")) if not p.parent.is_symlink()]
        return [
            folder.name
            for folder in folders
            if not folder.name.startswith(_NO_DATA)
            and _NAME.match(folder.name)
            and any(_loads_v0(file) for pattern in ("*.py", "*/*.py") for file in sorted(folder.glob(pattern)))
        ]

    def list_environments(self) -> list[EnvironmentFolder]:
        """Every folder under `environments/` that has a pyproject.toml, sorted by name.

        Raises BadInput (`workspace-missing`).
        """
        if not self.root.is_dir():
            raise BadInput(
                f"the workspace {quote(str(self.root))} is gone",
                fix="Ask the user to put the folder back, or to start the server with another --workspace.",
                code="workspace-missing",
            )
        if not self.environments.is_dir():
            return []
        return [
            EnvironmentFolder(p.name, p, p.relative_to(self.root).as_posix())
            for p in sorted(self.environments.iterdir())
            if p.is_dir() and not p.is_symlink() and (p / "pyproject.toml").is_file()
        ]


_NO_DATA = (".", "environments", "configs", "outputs")
"""Beginnings of names of folders that hold no data and no packages of the user's."""
_LOAD_ENVIRONMENT = re.compile(rb"(?m)^(?:async )?def load_environment\b")


def _loads_v0(file: Path) -> bool:
    """Whether a file defines the function with which v0 loads an environment, and no v1 code."""
    try:
        text = file.read_bytes() if file.stat().st_size <= MAX_FILE_BYTES else b""
    except OSError:
        return False
    return _LOAD_ENVIRONMENT.search(text) is not None and b"verifiers.v1" not in text


MAX_FILE_BYTES = 2 * 1024 * 1024
"""Largest file that is read or edited as text, in bytes."""


def resolve_inside(folder: Path, path: str) -> Path:
    """Return the file that a relative path names in the folder, with links followed.

    Raises BadInput (`outside-environment`) for a path that leads outside the folder.
    """
    pure = PurePosixPath(path)
    if "\0" in path or not path.strip() or pure.is_absolute() or ".." in pure.parts or "\\" in path:
        raise _outside_error(path)
    resolved = (folder / path).resolve()
    if not resolved.is_relative_to(folder.resolve()) or resolved == folder.resolve():
        raise _outside_error(path)
    return resolved


def read_text(path: Path) -> str:
    """Read a UTF-8 file without changing its line endings.

    Raises BadInput (`not-text`, `file-too-big`, `unreadable-file`).
    """
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise BadInput(
                f"{quote(path.name)} is larger than {MAX_FILE_BYTES // 2**20} MiB",
                fix="Work on it outside of this tool.",
                code="file-too-big",
            )
        raw = path.read_bytes()
    except OSError as error:
        raise BadInput(
            f"{quote(path.name)} cannot be read: {error.strerror}", fix="Make it readable.", code="unreadable-file"
        ) from error
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _not_text_error(path.name) from None
    if "\0" in text:
        raise _not_text_error(path.name)
    return text


def _outside_error(path: str) -> BadInput:
    return BadInput(
        f"{quote(path)} is outside the environment's folder",
        fix="Give a path relative to the environment's folder, such as README.md.",
        code="outside-environment",
    )


def _not_text_error(name: str) -> BadInput:
    return BadInput(f"{quote(name)} is no UTF-8 text", fix="Only text files can be shown and edited.", code="not-text")


def _port_names(old: str) -> Iterator[str]:
    """Yield the names for the port of an older environment, without end."""
    name = Path(old).name
    yield f"{name}-v1"
    yield from (f"{name}-v1-{number}" for number in itertools.count(2))


class ShownFiles:
    """When a client was last shown all texts of an environment, so that no report leads to the same texts again."""

    RECENT_SECONDS = 1800.0
    """Time after which a client may have lost what it was shown (our choice)."""

    def __init__(self) -> None:
        self._shown: dict[str, float] = {}

    def add(self, environment: str) -> None:
        """Record that all texts of an environment are shown now."""
        self._shown[self._name(environment)] = time.monotonic()

    def has(self, environment: str) -> bool:
        """Whether all texts of an environment were shown a short while ago."""
        at = self._shown.get(self._name(environment))
        return at is not None and time.monotonic() - at < self.RECENT_SECONDS

    @staticmethod
    def _name(environment: str) -> str:
        return environment.removeprefix("environments/")
