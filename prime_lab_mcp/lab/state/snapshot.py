"""Read-only copies of exactly the files that `prime env push` would upload, with their fingerprints.

The push uploads an archive, and a wheel that it builds in the folder. The wheel also holds the top-level files that the
build configuration includes by name, which the archive leaves out. A snapshot holds these files too.

Tests, evaluations and pushes all use a snapshot. Edits during a step are therefore harmless, and a file that the push
leaves out is also missing in every test. The file selection and `cli_hash` follow prime 0.18.0
(`_collect_archive_files` and `compute_content_hash` in its commands/env.py); a test compares both with the installed
CLI.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.state.fingerprint import content_fingerprint, own_files_reader, source_fingerprint
from prime_lab_mcp.lab.state.manifest import Manifest, parse_manifest
from prime_lab_mcp.lab.state.workspace import EnvironmentFolder

MAX_BYTES = 512 * 1024 * 1024
MAX_FILES = 20_000
MOST_SNAPSHOTS = 40
"""Number of snapshots that stay in the store besides those that a job uses."""
_SKIPPED_FOLDERS = frozenset({"dist", "__pycache__", "build", "outputs"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the folder that the push would not upload, and the reason."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A stored copy of an environment.

    `source` and `content` are this server's fingerprints (fingerprint.py): `content` covers all files, `source` the
    files that the code can read. `cli_hash` is the hash of the prime CLI. Two trees can share this hash, so it is only
    a hint.
    """

    name: str
    relative: str
    tree: Path
    source: str
    content: str
    cli_hash: str
    files: Mapping[str, str]
    """sha256 of each file by path."""
    left_out: tuple[LeftOut, ...]
    manifest: Manifest
    own_files_reader: str | None = None
    """The first place where the code may read its README or metadata, which `source` then covers; None if there is
    none."""


def take_snapshot(folder: EnvironmentFolder, store: Path | None) -> Snapshot:
    """Copy the files that the push would upload into the store.

    The same content is stored once. A stored copy that was changed is detected and replaced. If `store` is None,
    nothing is written, and the tree is the folder itself; this suits callers that run no code. Raises BadInput if the
    folder cannot be read or exceeds 512 MiB or 20,000 files.
    """
    paths, left_out = collect_files(folder.path)
    contents = _read(folder.path, paths)
    files = {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()}
    manifest = (
        parse_manifest(contents["pyproject.toml"])
        if "pyproject.toml" in contents
        else Manifest(problem="there is no pyproject.toml")
    )
    content = content_fingerprint(contents)
    tree = folder.path if store is None else _store_copy(store, content, contents, files)
    return Snapshot(
        name=folder.name,
        relative=folder.relative,
        tree=tree,
        source=source_fingerprint(contents, manifest, content),
        content=content,
        cli_hash=cli_hash(contents),
        files=files,
        left_out=left_out,
        manifest=manifest,
        own_files_reader=own_files_reader(contents, manifest, content),
    )


class FolderSnapshots:
    """A cache of snapshots. A folder is read again only if the times or sizes of its files changed.

    Status reports use this cache. Code that runs or publishes an environment calls `take_snapshot`.
    """

    def __init__(self, store: Path | None) -> None:
        self._store = store
        self._known: dict[str, tuple[_FolderTimes, Snapshot]] = {}

    def take(self, folder: EnvironmentFolder) -> Snapshot:
        """Return the earlier snapshot of an unchanged folder, or take a new one. Raises BadInput as `take_snapshot`
        does."""
        times = _folder_times(folder.path)
        known = self._known.get(folder.relative)
        if times is not None and known is not None and known[0] == times:
            return known[1]
        snapshot = take_snapshot(folder, self._store)
        if times is None:
            self._known.pop(folder.relative, None)
        else:
            self._known[folder.relative] = (times, snapshot)
        return snapshot


SETTLED_SECONDS = 2.0
"""Seconds that must have passed since a file changed, so that its next change shows in its times. File systems store
times in steps of up to two seconds (FAT)."""

_FolderTimes = tuple[tuple[str, int, int, int, int, int], ...]


def _folder_times(root: Path) -> _FolderTimes | None:
    """Path, mode, size, inode, modification time and status-change time of every entry that a snapshot looks at.

    No program can set the status-change time. The result is None if the times could miss a change: after a recent
    write, behind a link to a folder, or for too many files.
    """
    settled = (time.time() - SETTLED_SECONDS) * 1e9
    entries: list[tuple[str, int, int, int, int, int]] = []
    waiting = [""]
    try:
        while waiting:
            relative = waiting.pop()
            with os.scandir(os.path.join(root, relative)) as listed:
                for entry in listed:
                    if entry.name.startswith(".") and entry.name != ".gitignore":
                        continue
                    path = f"{relative}/{entry.name}" if relative else entry.name
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISLNK(status.st_mode) and entry.is_dir():
                        return None  # the files behind a link have times of their own
                    if max(status.st_mtime_ns, status.st_ctime_ns) > settled or len(entries) > MAX_FILES:
                        return None
                    entries.append(
                        (path, status.st_mode, status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
                    )
                    skipped = entry.name in _SKIPPED_FOLDERS or entry.name.endswith(".egg-info")
                    if stat.S_ISDIR(status.st_mode) and not skipped:
                        waiting.append(path)
    except OSError:
        return None
    return tuple(sorted(entries))


def collect_files(root: Path) -> tuple[list[str], tuple[LeftOut, ...]]:
    """Return the sorted relative paths that the push uploads, and the visible files that it leaves out."""
    ignored = _gitignore(root)
    in_wheel = _included_in_wheel(root)
    below = os.path.join(root, "")
    uploaded: set[str] = set()
    left_out: list[LeftOut] = []

    # Paths are texts here: Path objects took half of the time of a snapshot.
    def offer(path: str) -> None:
        relative = path.removeprefix(below)
        name = relative.rpartition("/")[2]
        if name.startswith(".") or "__pycache__" in relative.split("/"):
            return
        if os.path.islink(path):
            left_out.append(LeftOut(relative, "the push skips symbolic links"))
        elif not os.path.isfile(path):
            left_out.append(LeftOut(relative, "it is no regular file"))
        elif ignored(path):
            left_out.append(LeftOut(relative, ".gitignore excludes it"))
        else:
            uploaded.add(relative)

    for name in sorted(os.listdir(root)):
        entry = below + name
        if os.path.isdir(entry) and os.path.islink(entry):
            # The CLI walks into such a folder, wherever it lies, so a link would publish files from outside.
            if not name.startswith("."):
                left_out.append(LeftOut(f"{name}/", "a link to a folder is never pushed"))
        elif os.path.isdir(entry):
            if not _is_uploaded_folder(entry, ignored):
                if name == "outputs" or (not name.startswith(".") and ignored(entry)):
                    left_out.append(LeftOut(f"{name}/", "the push leaves this folder out"))
                continue
            for folder, names, files in os.walk(entry):
                names[:] = sorted(n for n in names if _is_uploaded_folder(f"{folder}/{n}", ignored))
                for file in sorted(files):
                    offer(f"{folder}/{file}")
        elif is_archived(name) or in_wheel(name):
            offer(entry)
        elif not name.startswith("."):
            left_out.append(
                LeftOut(
                    name,
                    "of files at the top level only README.md, pyproject.toml, *.py and what the wheel includes "
                    "by name are pushed",
                )
            )
    return sorted(uploaded), tuple(left_out)


def is_archived(path: str) -> bool:
    """Whether a push's archive holds this file of a snapshot. The other files of a snapshot are in the wheel only."""
    return "/" in path or path in ("README.md", "pyproject.toml") or path.endswith(".py")


def _included_in_wheel(root: Path) -> Callable[[str], bool]:
    """Return a predicate: does the build configuration include this top-level file in the wheel by name (hatchling)?"""
    try:
        table = parse_manifest((root / "pyproject.toml").read_bytes()).table
    except OSError:
        return lambda name: False
    build = _below(table, "tool", "hatch", "build")
    patterns: list[str] = []
    for part in (build, _below(build, "targets", "wheel")):
        for key in ("include", "only-include", "artifacts"):
            listed = part.get(key)
            patterns += [p for p in listed if isinstance(p, str)] if isinstance(listed, list) else []
        forced = part.get("force-include")
        patterns += [str(p) for p in forced] if isinstance(forced, Mapping) else []
    wanted = [p.removeprefix("./").removeprefix("/") for p in patterns if not p.startswith("!")]
    return lambda name: any(fnmatch.fnmatchcase(name, pattern) for pattern in wanted if "/" not in pattern)


def _below(table: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        inner = table.get(name)
        table = inner if isinstance(inner, Mapping) else {}
    return table


def cli_hash(contents: Mapping[str, bytes]) -> str:
    """The content hash of prime 0.18.0, over paths and bytes without separators, so that two trees can share it."""
    digest = hashlib.sha256()
    for path in sorted(filter(is_archived, contents)):
        digest.update(f"file:{path}".encode())
        digest.update(contents[path])
    return digest.hexdigest()


def stored_snapshot(store: Path, content: str, name: str) -> Snapshot | None:
    """Load an earlier snapshot from the store; None if its copy is missing or changed."""
    tree = store / content / "tree"
    if not tree.is_dir():
        return None
    paths = [p for p in tree.rglob("*") if p.is_file() and "__pycache__" not in p.relative_to(tree).parts]
    contents = {p.relative_to(tree).as_posix(): p.read_bytes() for p in paths if not p.is_symlink()}
    if content_fingerprint(contents) != content:
        return None
    manifest = parse_manifest(contents["pyproject.toml"]) if "pyproject.toml" in contents else Manifest(problem="none")
    return Snapshot(
        name=name,
        relative=name,
        tree=tree,
        source=source_fingerprint(contents, manifest, content),
        content=content,
        cli_hash=cli_hash(contents),
        files={path: hashlib.sha256(data).hexdigest() for path, data in contents.items()},
        left_out=(),
        manifest=manifest,
        own_files_reader=own_files_reader(contents, manifest, content),
    )


def verify_snapshot(snapshot: Snapshot) -> None:
    """Raise LabError if the stored copy, or the folder in which its code runs, was changed."""
    code = _code_tree(snapshot)
    changed = code != snapshot.tree and code.is_dir() and not _intact(code, _code_files(snapshot))
    if changed or not _intact(snapshot.tree, snapshot.files):
        raise LabError(
            f"the stored copy of {snapshot.name} was changed by something that ran on it",
            fix="Call the tool again: the copy is made anew from your folder.",
            code="snapshot-changed",
        )


def code_tree(snapshot: Snapshot) -> Path:
    """Return the folder in which the environment's code runs. Makes the folder if it is missing or changed.

    Evidence about `source` may depend on nothing else. The folder therefore has no README, and its pyproject.toml has
    neither version nor comments, unless `source` covers both files (`own_files_reader`).
    """
    tree = _code_tree(snapshot)
    if tree != snapshot.tree and not _intact(tree, _code_files(snapshot)):
        _store_code(snapshot, tree)
    return tree


def _code_tree(snapshot: Snapshot) -> Path:
    """The path of `code_tree`. A snapshot that is not stored runs no code."""
    stored = snapshot.tree.name == "tree" and snapshot.tree.parent.name == snapshot.content
    return snapshot.tree.with_name("code") if stored and snapshot.own_files_reader is None else snapshot.tree


def _code_files(snapshot: Snapshot) -> dict[str, str]:
    """sha256 of each file in the folder in which the code runs."""
    files = {path: digest for path, digest in snapshot.files.items() if path != snapshot.manifest.readme}
    if "pyproject.toml" in files and snapshot.manifest.problem is None:
        files["pyproject.toml"] = hashlib.sha256(_code_manifest(snapshot.manifest)).hexdigest()
    return files


def _code_manifest(manifest: Manifest) -> bytes:
    """pyproject.toml with what `source` covers. Tools that build the package need a version, and no missing README."""
    import tomlkit

    table = json.loads(json.dumps(manifest.sourced(), sort_keys=True, default=str))
    project = table.get("project")
    if isinstance(project, dict):
        if manifest.version is not None:
            project["version"] = "0"
        if manifest.readme is not None:
            project.pop("readme", None)
    return tomlkit.dumps(table).encode()


def _store_code(snapshot: Snapshot, tree: Path) -> None:
    building = Path(tempfile.mkdtemp(dir=snapshot.tree.parent.parent, prefix=".building-"))
    try:
        place = building / "code"
        for path in _code_files(snapshot):
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            if path == "pyproject.toml" and snapshot.manifest.problem is None:
                (place / path).write_bytes(_code_manifest(snapshot.manifest))
                (place / path).chmod(0o444)
            else:
                _link(snapshot.tree / path, place / path)
        place.mkdir(exist_ok=True)
        for folder, _, _ in os.walk(place, topdown=False):
            os.chmod(folder, 0o555)
        # A folder that is not writable can only be renamed within its parent on some systems.
        for _ in range(_ATTEMPTS):
            with suppress(OSError):
                os.chmod(place, 0o755)
                os.rename(place, tree)
                os.chmod(tree, 0o555)
                return
            if _intact(tree, _code_files(snapshot)):  # Another call has stored it.
                return
            with suppress(OSError):
                os.chmod(tree, 0o755)
                os.rename(tree, Path(tempfile.mkdtemp(dir=building)) / "damaged")
    finally:
        remove_tree(building)
    raise LabError(
        f"the copy of {snapshot.name} in which its code runs cannot be stored in the state directory",
        fix="Check that nothing else writes into the state directory, then call again.",
    )


def _link(origin: Path, target: Path) -> None:
    try:
        os.link(origin, target)
    except OSError:
        shutil.copyfile(origin, target)
        target.chmod(0o444)


def clean_snapshots(store: Path, in_use: frozenset[str], older_than: float | None = None) -> int:
    """Delete old snapshots and return how many.

    Three kinds stay: the newest `MOST_SNAPSHOTS`, those with a content fingerprint in `in_use`, and those that were
    used after `older_than`, in seconds since the epoch.
    """
    if not store.is_dir():
        return 0
    used: list[tuple[float, Path]] = []
    for path in store.iterdir():
        if len(path.name) == 64 and path.name not in in_use:
            with suppress(OSError):  # another server cleans too
                used.append((path.stat().st_mtime, path))
    used.sort(reverse=True)
    old = [path for at, path in used[MOST_SNAPSHOTS:] if older_than is None or at < older_than]
    for path in old:
        remove_tree(path)
    return len(old)


def _is_uploaded_folder(folder: str, ignored: Callable[[str], bool]) -> bool:
    name = os.path.basename(folder)
    return not (
        not os.path.isdir(folder)
        or name.startswith(".")
        or name in _SKIPPED_FOLDERS
        or name.endswith(".egg-info")
        or ignored(folder)
    )


def _gitignore(root: Path) -> Callable[[str], bool]:
    """The .gitignore matcher of the CLI, which reads only the .gitignore at the top of the folder."""
    path = root / ".gitignore"
    if not path.is_file():
        return lambda _: False
    from gitignore_parser import parse_gitignore

    matches = parse_gitignore(str(path), base_dir=str(root))
    return lambda candidate: bool(matches(candidate))


def _read(root: Path, paths: list[str]) -> dict[str, bytes]:
    if len(paths) > MAX_FILES:
        raise _too_big_error(f"{len(paths):,} files")
    contents: dict[str, bytes] = {}
    total = 0
    for path in paths:
        try:
            with open(os.path.join(root, path), "rb", buffering=0) as file:
                total += os.fstat(file.fileno()).st_size
                if total > MAX_BYTES:
                    raise _too_big_error(f"more than {MAX_BYTES // 2**20} MiB")
                contents[path] = file.read()
        except OSError as error:
            raise BadInput(
                f"{path} of the environment cannot be read: {error.strerror}",
                fix="Make the file readable, or remove it.",
                code="unreadable-file",
            ) from error
    return contents


def _too_big_error(what: str) -> BadInput:
    return BadInput(
        f"the environment holds {what}",
        fix="Load large data from a dataset hub instead of packaging it.",
        code="environment-too-big",
    )


def _store_copy(store: Path, content: str, contents: Mapping[str, bytes], files: Mapping[str, str]) -> Path:
    home = store / content
    tree = home / "tree"
    if tree.is_dir() and _intact(tree, files):
        os.utime(home, (time.time(), time.time()))
        return tree
    store.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=store, prefix=".building-"))
    try:
        _write_tree(building / "tree", contents)
    except BaseException:
        remove_tree(building)
        raise
    # Other calls and servers may store the same content now. Only a damaged copy is moved away, because another call
    # may already use an intact one.
    for _ in range(_ATTEMPTS):
        try:
            os.rename(building, home)
            return tree
        except OSError:
            if _intact(tree, files):
                remove_tree(building)
                return tree
            damaged = Path(tempfile.mkdtemp(dir=store, prefix=".damaged-"))
            with suppress(OSError):
                os.rename(home, damaged)
            remove_tree(damaged)
    remove_tree(building)
    raise LabError(
        f"the snapshot {content[:12]} cannot be stored in the state directory",
        fix="Check that nothing else writes into the state directory, then call again.",
    )


def _write_tree(tree: Path, contents: Mapping[str, bytes]) -> None:
    for path, data in contents.items():
        target = tree / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o444)
    tree.mkdir(exist_ok=True)
    for folder, _, _ in os.walk(tree, topdown=False):
        os.chmod(folder, 0o555)


_ATTEMPTS = 5


def _intact(tree: Path, files: Mapping[str, str]) -> bool:
    matching, below = 0, os.path.join(tree, "")
    for folder, names, entries in os.walk(tree):
        names[:] = [n for n in names if n != "__pycache__"]
        for entry in entries:
            path = f"{folder}/{entry}"
            expected = files.get(path.removeprefix(below))
            if expected is None or os.path.islink(path):
                return False
            try:
                with open(path, "rb", buffering=0) as file:
                    if hashlib.sha256(file.read()).hexdigest() != expected:
                        return False
            except OSError:
                return False
            matching += 1
    return matching == len(files)


def remove_tree(path: Path) -> None:
    """Delete a folder, even if its subfolders are read-only."""
    for folder, _, _ in os.walk(path):
        with suppress(OSError):
            os.chmod(folder, stat.S_IRWXU)
    shutil.rmtree(path, ignore_errors=True)
