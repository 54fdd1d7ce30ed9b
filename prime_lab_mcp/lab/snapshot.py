"""Read-only copies of exactly the files that `prime env push` would upload, and their fingerprints.

What is tested, evaluated and pushed is a snapshot, so editing during a step is harmless and a file that the push
leaves out is missing here too. The file rules and the third hash are those of prime 0.18.0 (`_collect_archive_files`,
`compute_content_hash` in its commands/env.py); a test pins both against the installed CLI.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.errors import BadInput, LabError
from prime_lab_mcp.lab.manifest import Manifest, parse
from prime_lab_mcp.lab.workspace import EnvironmentFolder

MAX_BYTES = 512 * 1024 * 1024
MAX_FILES = 20_000
KEEP = 40
"""Snapshots kept in the store beside those that a job uses."""
_SKIPPED_FOLDERS = frozenset({"dist", "__pycache__", "build", "outputs"})


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file of the folder that the push would not upload."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`source` and `content` are ours; `cli_hash` is the CLI's, for comparison with the Hub, never proof."""

    name: str
    relative: str
    tree: Path
    source: str
    content: str
    cli_hash: str
    files: Mapping[str, str]
    """Path to sha256 of the bytes."""
    left_out: tuple[LeftOut, ...]
    manifest: Manifest


def take(folder: EnvironmentFolder, store: Path) -> Snapshot:
    """Copy what the push would upload. The same content is stored once; a changed copy is detected and replaced.

    Raises BadInput when the folder cannot be read or exceeds 512 MiB or 20,000 files.
    """
    paths, left_out = collect(folder.path)
    contents = _read(folder.path, paths)
    files = {path: hashlib.sha256(data).hexdigest() for path, data in contents.items()}
    manifest = (
        parse(contents["pyproject.toml"])
        if "pyproject.toml" in contents
        else Manifest(problem="there is no pyproject.toml")
    )
    content = _fingerprint(contents.items())
    tree = _keep(store, content, contents, files)
    return Snapshot(
        name=folder.name,
        relative=folder.relative,
        tree=tree,
        source=_fingerprint(_sources(contents, manifest)),
        content=content,
        cli_hash=cli_hash(contents),
        files=files,
        left_out=left_out,
        manifest=manifest,
    )


def collect(root: Path) -> tuple[list[str], tuple[LeftOut, ...]]:
    """Relative paths the push uploads, sorted, and the visible files it leaves out."""
    ignored = _gitignore(root)
    kept: set[str] = set()
    left: list[LeftOut] = []

    def offer(path: Path) -> None:
        relative = path.relative_to(root).as_posix()
        if path.name.startswith(".") or "__pycache__" in path.relative_to(root).parts:
            return
        if path.is_symlink():
            left.append(LeftOut(relative, "the push skips symbolic links"))
        elif not path.is_file():
            left.append(LeftOut(relative, "it is no regular file"))
        elif ignored(path):
            left.append(LeftOut(relative, ".gitignore excludes it"))
        else:
            kept.add(relative)

    for entry in sorted(root.iterdir(), key=lambda p: p.name):
        if entry.is_dir() and not _wanted(entry, ignored):
            if entry.name == "outputs" or (not entry.name.startswith(".") and ignored(entry)):
                left.append(LeftOut(f"{entry.name}/", "the push leaves this folder out"))
        elif entry.is_dir():
            for folder, names, files in os.walk(entry):
                here = Path(folder)
                names[:] = sorted(n for n in names if _wanted(here / n, ignored))
                for name in sorted(files):
                    offer(here / name)
        elif entry.name in ("README.md", "pyproject.toml") or entry.suffix == ".py":
            offer(entry)
        elif not entry.name.startswith("."):
            left.append(
                LeftOut(
                    entry.name,
                    "of files at the top level only README.md, pyproject.toml and *.py are pushed",
                )
            )
    return sorted(kept), tuple(left)


def cli_hash(contents: Mapping[str, bytes]) -> str:
    """The content hash of prime 0.18.0: paths and bytes without separators, so two trees can share it."""
    digest = hashlib.sha256()
    for path in sorted(contents):
        digest.update(f"file:{path}".encode())
        digest.update(contents[path])
    return digest.hexdigest()


def stored(store: Path, content: str, name: str) -> Snapshot | None:
    """An earlier snapshot, as long as its copy is there whole; None otherwise."""
    tree = store / content / "tree"
    if not tree.is_dir():
        return None
    found = [p for p in tree.rglob("*") if p.is_file() and "__pycache__" not in p.relative_to(tree).parts]
    contents = {p.relative_to(tree).as_posix(): p.read_bytes() for p in found if not p.is_symlink()}
    if _fingerprint(contents.items()) != content:
        return None
    manifest = parse(contents["pyproject.toml"]) if "pyproject.toml" in contents else Manifest(problem="none")
    return Snapshot(
        name=name,
        relative=name,
        tree=tree,
        source=_fingerprint(_sources(contents, manifest)),
        content=content,
        cli_hash=cli_hash(contents),
        files={path: hashlib.sha256(data).hexdigest() for path, data in contents.items()},
        left_out=(),
        manifest=manifest,
    )


def verify(snapshot: Snapshot) -> None:
    """Raise LabError when the stored copy is no longer what was fingerprinted."""
    if not _intact(snapshot.tree, snapshot.files):
        raise LabError(
            f"the stored copy of {snapshot.name} was changed by something that ran on it",
            fix="Call the tool again: the copy is made anew from your folder.",
            code="snapshot-changed",
        )


def clean(store: Path, in_use: frozenset[str]) -> int:
    """Remove all but the newest `KEEP` snapshots and those `in_use` (content fingerprints). Returns how many."""
    if not store.is_dir():
        return 0
    found = [p for p in store.iterdir() if len(p.name) == 64 and p.name not in in_use]
    found.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in found[KEEP:]:
        _remove(old)
    return len(found[KEEP:])


def _wanted(folder: Path, ignored: Callable[[Path], bool]) -> bool:
    name = folder.name
    return not (
        not folder.is_dir()
        or name.startswith(".")
        or name in _SKIPPED_FOLDERS
        or name.endswith(".egg-info")
        or ignored(folder)
    )


def _gitignore(root: Path) -> Callable[[Path], bool]:
    """The matcher the CLI uses, for the .gitignore at the top of the folder only."""
    path = root / ".gitignore"
    if not path.is_file():
        return lambda _: False
    from gitignore_parser import parse_gitignore

    matches = parse_gitignore(str(path), base_dir=str(root))
    return lambda candidate: bool(matches(str(candidate)))


def _read(root: Path, paths: list[str]) -> dict[str, bytes]:
    if len(paths) > MAX_FILES:
        raise _too_big(f"{len(paths):,} files")
    contents: dict[str, bytes] = {}
    total = 0
    for path in paths:
        try:
            total += (root / path).stat().st_size
            if total > MAX_BYTES:
                raise _too_big(f"more than {MAX_BYTES // 2**20} MiB")
            contents[path] = (root / path).read_bytes()
        except OSError as error:
            raise BadInput(
                f"{path} of the environment cannot be read: {error.strerror}",
                fix="Make the file readable, or remove it.",
                code="unreadable-file",
            ) from error
    return contents


def _too_big(what: str) -> BadInput:
    return BadInput(
        f"the environment holds {what}",
        fix="Load large data from a dataset hub instead of packaging it.",
        code="environment-too-big",
    )


def _sources(contents: Mapping[str, bytes], manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    for path, data in contents.items():
        if path.lower().endswith(".md"):
            continue
        if path == "pyproject.toml" and manifest.problem is None:
            data = json.dumps(manifest.sourced(), sort_keys=True, default=str).encode()
        yield path, data


def _fingerprint(parts: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for path, data in sorted(parts):
        for piece in (path.encode(), data):
            digest.update(len(piece).to_bytes(8, "big"))
            digest.update(piece)
    return digest.hexdigest()


def _keep(store: Path, content: str, contents: Mapping[str, bytes], files: Mapping[str, str]) -> Path:
    home = store / content
    tree = home / "tree"
    if tree.is_dir() and _intact(tree, files):
        os.utime(home, (time.time(), time.time()))
        return tree
    store.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(dir=store, prefix=".building-"))
    for path, data in contents.items():
        target = building / "tree" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        target.chmod(0o444)
    (building / "tree").mkdir(exist_ok=True)
    for folder, _, _ in os.walk(building / "tree", topdown=False):
        os.chmod(folder, 0o555)
    if home.exists():
        _remove(home)
    try:
        os.rename(building, home)
    except OSError:
        _remove(building)  # another server stored the same content first
        if not _intact(tree, files):
            raise
    return tree


def _intact(tree: Path, files: Mapping[str, str]) -> bool:
    seen = 0
    for folder, names, entries in os.walk(tree):
        names[:] = [n for n in names if n != "__pycache__"]
        for entry in entries:
            path = Path(folder, entry)
            expected = files.get(path.relative_to(tree).as_posix())
            if expected is None or path.is_symlink():
                return False
            if hashlib.sha256(path.read_bytes()).hexdigest() != expected:
                return False
            seen += 1
    return seen == len(files)


def _remove(path: Path) -> None:
    for folder, _, _ in os.walk(path):
        os.chmod(folder, stat.S_IRWXU)
    shutil.rmtree(path, ignore_errors=True)
