"""Fetches the archive and the wheel that the Hub serves for one version, and compares them file by file.

The Hub's content hash is only a hint: it has no separators between paths and bytes, so two trees can share it. The
comparison therefore covers the files themselves: the archive without `.prime`, and the wheel without its metadata.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.environment.wheel_archive import wheel_files, wheel_metadata
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.config_gate import HubContent
from prime_lab_mcp.lab.state.fingerprint import content_fingerprint, source_fingerprint
from prime_lab_mcp.lab.state.manifest import Manifest, parse_manifest
from prime_lab_mcp.lab.state.snapshot import MAX_BYTES, MAX_FILES, Snapshot, is_archived

KEEP_SECONDS = 60.0
"""Seconds for which fetched files are reused. The gate, the plan and the second gate of a call then fetch once."""


@dataclass(frozen=True, slots=True)
class HubFiles:
    """The files of one published version. A part that could not be fetched is None, and `problems` says why."""

    archive: Mapping[str, str] | None = None
    """sha256 of each file by path."""
    source: str | None = None
    content: str | None = None
    wheel: Mapping[str, str] | None = None
    """sha256 of each package file by path, without the metadata."""
    wheel_served: bool = True
    """False if the Hub offers no wheel of this version, as for private environments."""
    problems: tuple[str, ...] = ()
    wheel_metadata: str | None = None
    """The digest of the wheel's requirements and entry points."""
    project_version: str | None = None
    """The version that the archive's pyproject.toml states."""


class FetchedHubFiles:
    """A cache of the files that this server fetched in the last minute, by name, version and whether it fetched the
    wheel."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str, bool], tuple[float, HubFiles]] = {}

    def get(self, ref: str, version: str, wheel: bool) -> HubFiles | None:
        """The cached files of a version; None if there are none. A fetch with the wheel also serves a request without
        it."""
        fetched = self._files.get((ref, version, True)) or self._files.get((ref, version, wheel))
        return fetched[1] if fetched is not None and time.monotonic() - fetched[0] < KEEP_SECONDS else None

    def put(self, ref: str, version: str, wheel: bool, files: HubFiles) -> None:
        self._files[ref, version, wheel] = (time.monotonic(), files)

    def forget(self, ref: str) -> None:
        for key in [k for k in self._files if k[0] == ref]:
            del self._files[key]


@asynccontextmanager
async def fetch_folder(lab: Lab) -> AsyncIterator[Path]:
    """A new folder for what is fetched. The folder is deleted at the end of the block."""
    root = lab.settings.state_dir / "fetched"
    await anyio.to_thread.run_sync(lambda: root.mkdir(parents=True, exist_ok=True))
    folder = Path(await anyio.to_thread.run_sync(lambda: tempfile.mkdtemp(dir=root)))
    try:
        yield folder
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(folder, ignore_errors=True))


async def fetch_hub_files(
    lab: Lab, ref: str, version: str, *, wheel: bool = True, archive: Path | None = None
) -> HubFiles:
    """Fetch the archive and the wheel of `owner/name` at one version. Never raises.

    With `wheel=False`, only the archive is fetched, which is enough for the fingerprints. `archive` is the folder in
    which the archive is unpacked, for callers that request it ahead (`Prime.ask_ahead`).
    """
    fetched = lab.memory(FetchedHubFiles)
    earlier = fetched.get(ref, version, wheel)
    if earlier is not None:
        return earlier
    async with fetch_folder(lab) as folder:
        files = await _fetch(
            lab, f"{ref}@{version}", archive or folder / "archive", folder / "wheel.whl" if wheel else None
        )
    if not files.problems:
        fetched.put(ref, version, wheel, files)
    return files


async def fetch_latest_files(lab: Lab, ref: str, version: str, archive: Path) -> None:
    """Cache the archive that the Hub serves for `owner/name` without a version as the files of its latest version.

    `archive` is the folder in which the archive is unpacked. If its project has another version, for example because
    of a push at this moment, nothing is cached.
    """
    files = await _fetch(lab, ref, archive, None)
    if not files.problems and files.project_version == version:
        lab.memory(FetchedHubFiles).put(ref, version, False, files)


def forget_hub_files(lab: Lab, ref: str) -> None:
    """Drop the cached files of a name after a push to it."""
    lab.memory(FetchedHubFiles).forget(ref)


def has_hub_files(lab: Lab, ref: str, version: str, *, wheel: bool) -> bool:
    """True if `fetch_hub_files` would answer from its cache."""
    return lab.memory(FetchedHubFiles).get(ref, version, wheel) is not None


async def _fetch(lab: Lab, pinned: str, archive_folder: Path, wheel_file: Path | None) -> HubFiles:
    parts: dict[str, Any] = {}
    problems: dict[str, str] = {}

    async def archive() -> None:
        try:
            await lab.prime.env_pull(pinned, archive_folder)
            parts["archive"] = await anyio.to_thread.run_sync(_read_archive, archive_folder)
        except (LabError, OSError) as error:
            problems["archive"] = f"its archive could not be fetched ({quote(str(error), 200)})"

    async def published_wheel(file: Path) -> None:
        try:
            place = await lab.prime.env_wheel(pinned, file)
            parts["served"] = place is not None
            if place is not None:
                parts["wheel"] = await anyio.to_thread.run_sync(wheel_files, place)
                parts["metadata"] = await anyio.to_thread.run_sync(wheel_metadata, place)
        except (LabError, OSError) as error:
            problems["wheel"] = f"its wheel could not be fetched ({quote(str(error), 200)})"

    async with anyio.create_task_group() as fetching:
        fetching.start_soon(archive)
        if wheel_file is not None:
            fetching.start_soon(published_wheel, wheel_file)
    # The order is fixed, because the question names the problems and the gate compares that text before sending.
    listed = tuple(problems[part] for part in ("archive", "wheel") if part in problems)
    contents: dict[str, bytes] | None = parts.get("archive")
    if contents is None:
        return HubFiles(None, None, None, parts.get("wheel"), parts.get("served", True), listed, parts.get("metadata"))
    manifest = parse_manifest(contents["pyproject.toml"]) if "pyproject.toml" in contents else Manifest(problem="none")
    content = content_fingerprint(contents)
    return HubFiles(
        {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()},
        source_fingerprint(contents, manifest, content),
        content,
        parts.get("wheel"),
        parts.get("served", True),
        listed,
        parts.get("metadata"),
        manifest.version,
    )


def _read_archive(folder: Path) -> dict[str, bytes]:
    """Read every file of an unpacked archive except the CLI's own records. Raises LabError for links and large
    archives."""
    contents: dict[str, bytes] = {}
    total = 0
    for root, names, files in os.walk(folder):
        if Path(root) == folder:
            names[:] = [n for n in names if n != ".prime"]
        for name in files:
            path = Path(root, name)
            total += path.lstat().st_size
            if path.is_symlink() or total > MAX_BYTES or len(contents) >= MAX_FILES:
                raise LabError(
                    "it holds links or is too large",
                    fix=Fix("Look at it with ", NamedCall("search_hub", kind="environment", query=...).bare, "."),
                    code="prime-failed",
                )
            contents[path.relative_to(folder).as_posix()] = path.read_bytes()
    if not contents:
        raise LabError(
            "it is empty",
            fix=Fix("Look at it with ", NamedCall("search_hub", kind="environment", query=...).bare, "."),
            code="hub-no-package",
        )
    return contents


def files_digest(files: Mapping[str, str]) -> str:
    """One digest over the package files of a wheel."""
    return content_fingerprint({path: digest.encode() for path, digest in files.items()})


@dataclass(frozen=True, slots=True)
class ProvenFiles:
    """The validated files of an environment: fingerprint and files of the snapshot, and the digest of the wheel."""

    content: str
    files: Mapping[str, str] = field(default_factory=dict)
    wheel_digest: str | None = None
    """None if the checked wheel is not known; the wheel is then compared with the archive's files by path."""
    wheel_metadata: str | None = None
    """The digest of the wheel's requirements and entry points; None if they are not known."""

    @classmethod
    def of(cls, snapshot: Snapshot, wheel_digest: str | None = None) -> ProvenFiles:
        return cls(snapshot.content, snapshot.files, wheel_digest)

    def has_other_metadata(self, hub_files: HubFiles) -> bool:
        """True if both wheels are known, and their requirements or entry points differ."""
        return None not in (self.wheel_metadata, hub_files.wheel_metadata) and (
            self.wheel_metadata != hub_files.wheel_metadata
        )


def compare_hub_files(hub_files: HubFiles, proven: ProvenFiles, pinned: str) -> HubContent:
    """Compare the files on the Hub with the validated files. `pinned` is `owner/name@version`."""
    reason = "; ".join(hub_files.problems) or "the Hub serves it to nobody"
    archived = {path: digest for path, digest in proven.files.items() if is_archived(path)}
    archive_equal = None if hub_files.archive is None else hub_files.content == proven.content
    if archive_equal is False and len(archived) < len(proven.files):
        archive_equal = dict(hub_files.archive or {}) == archived  # the wheel alone holds the others
    if archive_equal is False:
        differing = _differing(hub_files.archive or {}, archived)
        return HubContent("different", f"the archive of {pinned} on the Hub is not what was validated{differing}")
    wheel_equal = None if hub_files.wheel is None else _wheel_equal(hub_files.wheel, hub_files.archive, proven)
    if wheel_equal is False:
        differing = _differing(
            hub_files.wheel or {}, {k.removeprefix("src/"): v for k, v in proven.files.items()}, extra=True
        )
        return HubContent("different", f"the wheel of {pinned} on the Hub is not what was validated{differing}")
    if proven.has_other_metadata(hub_files):
        detail = f"the wheel of {pinned} on the Hub has other requirements or entry points than the wheel that was sent"
        return HubContent("different", detail)
    if archive_equal and wheel_equal:
        return HubContent("equal", f"archive and wheel of {pinned} on the Hub are what was validated")
    if archive_equal and not hub_files.wheel_served and proven.wheel_digest is not None:
        detail = f"the archive of {pinned} on the Hub is what was validated; the Hub serves no wheel of it to compare"
        return HubContent("archive-only", detail)
    if archive_equal:
        why = reason if hub_files.wheel_served else "the Hub serves no wheel of it"
        detail = f"the archive of {pinned} on the Hub is what was validated, and its wheel could not be compared: {why}"
        return HubContent("wheel-unfetched", detail)
    if wheel_equal:
        return HubContent("wheel-only", f"the wheel of {pinned} on the Hub is what was validated, but {reason}")
    return HubContent(
        "unfetched", f"what the Hub holds as {pinned} could not be compared with what was validated: {reason}"
    )


def _wheel_equal(wheel: Mapping[str, str], archive: Mapping[str, str] | None, proven: ProvenFiles) -> bool | None:
    if proven.wheel_digest is not None:
        return files_digest(wheel) == proven.wheel_digest
    files = proven.files or archive
    if not files:
        return None
    return all(digest in (files.get(path), files.get(f"src/{path}")) for path, digest in wheel.items())


def _differing(published: Mapping[str, str], proven: Mapping[str, str], *, extra: bool = False) -> str:
    """A text with the number and names of the files that differ. With `extra`, files that the Hub lacks do not
    count."""
    if not proven:
        return ""
    compared = published.keys() | (set() if extra else proven.keys())
    paths = sorted(path for path in compared if published.get(path) != proven.get(path))
    return f": {count(len(paths), 'file')} ({', '.join(quote(p, 60) for p in paths[:3])})" if paths else ""
