"""Reads the distributions that are installed in a Python: requirements, modules, and a fingerprint of their files.

The fingerprints are part of the evidence, because a reward depends on the code that it imports. A fingerprint covers
the version and the RECORD of a distribution (its files with their hashes), and every file that differs from RECORD. A
file is hashed again if its size differs from the recorded one, or if it is newer than RECORD. A replacement that keeps
size and time is not noticed.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from functools import lru_cache
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from prime_lab_mcp.lab.base.syntax import retry_parsing

_TOP = re.compile(r"^([^/,]+?)(?:/|(?:\.[^/,]*)?\.(?:py|so|pyd)(?:,|$))")
_STARTUP = ("*.pth", "sitecustomize.py", "usercustomize.py")
STARTUP_FILES = "(start-up files)"
"""The name of the entry, among the distributions, for the files that Python runs at every start."""


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """One line of a RECORD. `sha256` is in urlsafe base64, and empty if the line has no such hash."""

    path: str
    sha256: str
    size: int | None


@dataclass(frozen=True, slots=True)
class InstalledDistribution:
    """One installed distribution: its requirements, its top-level modules, and the files that it was installed with."""

    requires: tuple[str, ...]
    modules: frozenset[str]
    version: str = ""
    folder: Path = Path()
    """The folder of the metadata."""
    files: tuple[RecordedFile, ...] = ()
    record: str = ""
    """A digest of `files`."""
    origin: Mapping[str, Any] | None = None
    """The content of direct_url.json (PEP 610); None for a distribution from an index."""


def read_distributions(python: Path) -> dict[str, InstalledDistribution]:
    """The distributions of a Python by canonical name, read from its folders without starting it."""
    distributions: dict[str, InstalledDistribution] = {}
    with _READING:
        for site in _site_folders(python):
            for folder in sorted(site.glob("*.dist-info")):
                name, read = _read(folder)
                if name and name not in distributions:
                    distributions[name] = read
    return distributions


def requirement_closure(
    installed: Mapping[str, InstalledDistribution], wanted: Iterable[Requirement]
) -> frozenset[str]:
    """Return the names of the installed distributions that these requirements need, directly or transitively."""
    visited: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(r.name), extra) for r in wanted for extra in ("", *r.extras)]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in visited or name not in installed:
            continue
        visited.add((name, extra))
        for text in installed[name].requires:
            need = _readable(text)
            if need is None or (need.marker is not None and not need.marker.evaluate({"extra": extra})):
                continue
            todo += [(canonicalize_name(need.name), more) for more in ("", *need.extras)]
    return frozenset(name for name, _ in visited)


@dataclass(frozen=True, slots=True)
class DependencyFingerprints:
    """`VERSION DIGEST` of each distribution that some requirements need, by name, with a digest of the start-up
    files."""

    by_name: Mapping[str, str]
    preloaded: str
    """One digest over the distributions that verifiers needs, which worker processes have imported."""

    @property
    def digest(self) -> str:
        return _digest(f"{name} {value}" for name, value in self.by_name.items())


def read_fingerprints(python: Path, wanted: Sequence[Requirement]) -> DependencyFingerprints:
    """Read the fingerprints of all distributions that the requirements need."""
    installed = read_distributions(python)
    by_name = named_fingerprints(python, requirement_closure(installed, wanted), installed)
    preloaded = requirement_closure(installed, [Requirement("verifiers")]) | {STARTUP_FILES}
    return DependencyFingerprints(by_name, _digest(f"{n} {v}" for n, v in by_name.items() if n in preloaded))


def _digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def named_fingerprints(
    python: Path, names: Iterable[str], installed: Mapping[str, InstalledDistribution] | None = None
) -> dict[str, str]:
    """Read the fingerprints of the named distributions. Distributions that are not installed are left out."""
    present = read_distributions(python) if installed is None else installed
    prints = {name: _fingerprint(present[name]) for name in sorted(names) if name in present}
    return {**prints, STARTUP_FILES: _startup_digest(python)}


def local_distributions(python: Path, wanted: Sequence[Requirement]) -> tuple[str, ...]:
    """The required distributions that are installed from a folder of this machine, such as editable ones."""
    installed = read_distributions(python)
    closure = sorted(requirement_closure(installed, wanted))
    return tuple(name for name in closure if "dir_info" in (installed[name].origin or {}))


def _fingerprint(dist: InstalledDistribution) -> str:
    altered = [f"altered {path} {digest}" for path, digest in _altered(dist)]
    return f"{dist.version} {_digest([dist.record, *altered])}"


def _altered(dist: InstalledDistribution) -> Iterator[tuple[str, str]]:
    """Yield each file that differs from RECORD, with its present hash."""
    site = f"{dist.folder.parent}{os.sep}"
    try:
        installed_at = (dist.folder / "RECORD").stat().st_mtime_ns
    except OSError:
        installed_at = 0
    for file in dist.files:
        path = site + file.path
        try:
            status = os.stat(path)
        except OSError:
            yield file.path, "missing"
            continue
        if status.st_mtime_ns <= installed_at and file.size in (None, status.st_size):
            continue
        digest = _file_digest(path, status.st_size, status.st_mtime_ns)
        if digest != file.sha256:
            yield file.path, digest


_HASHED: dict[tuple[str, int, int], str] = {}
"""A cache of file hashes by path, size and time, because a server reads one folder many times."""


def _file_digest(path: str, size: int, modified: int) -> str:
    digest = _HASHED.get((path, size, modified))
    if digest is None:
        try:
            with open(path, "rb") as source:
                raw = hashlib.file_digest(source, "sha256").digest()
        except OSError:
            return "unreadable"
        digest = _HASHED[path, size, modified] = base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
    return digest


def _startup_digest(python: Path) -> str:
    digests: list[str] = []
    for site in _site_folders(python):
        for pattern in _STARTUP:
            for path in sorted(site.glob(pattern)):
                try:
                    digests.append(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}")
                except OSError:
                    digests.append(f"{path.name} unreadable")
    return _digest(digests)


def _site_folders(python: Path) -> tuple[Path, ...]:
    if os.fspath(python) == sys.executable:
        return tuple(dict.fromkeys(Path(p) for p in sys.path if p and os.path.isdir(p)))
    root = python.parent.parent
    return tuple(p for p in (*sorted(root.glob("lib/python*/site-packages")), root / "Lib" / "site-packages"))


_READING = threading.Lock()
"""Lets one call parse while others wait. Forty parsing threads would block the event loop for seconds."""
_READ: dict[Path, tuple[tuple[int, ...], str, InstalledDistribution]] = {}


def _read(folder: Path) -> tuple[str, InstalledDistribution]:
    """Name and content of one dist-info folder. The name is empty if the folder cannot be read."""
    state = tuple(_modified(folder / name) for name in ("METADATA", "RECORD", "direct_url.json"))
    known = _READ.get(folder)
    if known is None or known[0] != state:
        known = _READ[folder] = (state, *_parse(folder))
    return known[1], known[2]


def _parse(folder: Path) -> tuple[str, InstalledDistribution]:
    metadata = HeaderParser().parsestr(_text(folder / "METADATA"))
    name = canonicalize_name(metadata["Name"] or "")
    record = _text(folder / "RECORD").splitlines()
    files = tuple(_recorded(record))
    return name, InstalledDistribution(
        tuple(metadata.get_all("Requires-Dist") or ()),
        frozenset(_top_modules(record)),
        re.sub(r"[^A-Za-z0-9.+!_-]", "?", metadata["Version"] or "")[:40],
        folder,
        files,
        hashlib.sha256("\n".join(sorted(f"{f.path},{f.sha256}" for f in files)).encode()).hexdigest(),
        _origin(folder),
    )


def _recorded(lines: Sequence[str]) -> Iterator[RecordedFile]:
    for row in csv.reader(lines):
        if len(row) != 3 or row[0].endswith(".pyc") or not row[1].startswith("sha256="):
            continue  # bytecode is written at any time, and RECORD has no hash of itself
        yield RecordedFile(row[0], row[1].removeprefix("sha256="), int(row[2]) if row[2].isdigit() else None)


def _origin(folder: Path) -> Mapping[str, Any] | None:
    text = _text(folder / "direct_url.json")
    try:
        origin = json.loads(text) if text else None
    except ValueError:
        return None
    return origin if isinstance(origin, dict) else None


def _modified(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _top_modules(record: Sequence[str]) -> Iterator[str]:
    for line in record:
        top = _TOP.match(line)
        if top and top[1].isidentifier():
            yield top[1]


@lru_cache(maxsize=4096)
def _readable(text: str) -> Requirement | None:
    try:
        return retry_parsing(lambda: Requirement(text))  # packaging parses the values of markers as Python
    except InvalidRequirement:
        return None
