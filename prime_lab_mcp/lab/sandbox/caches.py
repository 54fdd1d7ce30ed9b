"""Makes caches of downloaded data: one for each version of an environment, filled with links to trustworthy files.

Environment code must not write into the user's caches, because it could change the data of another environment. It must
not write files that another version of itself reads either, because evidence would then depend on files that no
fingerprint covers. So each version, by the fingerprint of its source, gets folders of its own in the state directory.
Files that the user downloaded before are linked there, and environment code may read them. Files that another version
of the same environment downloaded are linked only if their name is the sha256 of their content, because such files
cannot be forged.

The server is not confined, and environment code may have replaced any folder of its cache. The server therefore opens
folders by descriptor, without following links (base/handover.py), and makes a cache anew if a folder was replaced.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base import untrusted_files

_MOST_FILES = 50_000
_MOST_DEPTH = 32
_VARIABLES = ("HF_HUB_CACHE", "HF_DATASETS_CACHE")
_FOLDERS = {"HF_HUB_CACHE": "hub", "HF_DATASETS_CACHE": "datasets"}
MODULES = "HF_MODULES_CACHE"
_OWN_FOLDERS = (*_FOLDERS.values(), "modules", "programs")
_CACHES, _VERIFIED = "caches", "downloads"
_BY_CONTENT = re.compile(r"[0-9a-f]{64}")
"""Name of a file that huggingface_hub 1.0 stores under its sha256 (`blobs` of a repository, in LFS or Xet)."""
_MOST_VERIFIED_BYTES = 20 << 30
_CHUNK = 1 << 20
MOST_VERSIONS = 4
"""Number of caches of one environment's newest versions that are kept."""
UNUSED_SECONDS = 6 * 3600.0
"""Seconds after which an older cache is removed. Before that, an evaluation may still read the cache."""


@dataclass(frozen=True, slots=True)
class DataCache:
    """The folder of an environment's own cache, and the outside folders that contain the targets of its links."""

    root: Path
    users: tuple[Path, ...]

    def variables(self) -> dict[str, str]:
        """Variables that direct `huggingface_hub` and `datasets` to this cache. HF_HOME contains no token."""
        caches = {name: str(self.root / folder) for name, folder in _FOLDERS.items()}
        return {"HF_HOME": str(self.root), **caches, MODULES: str(self.root / "modules")}


def users_caches(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The user's caches of Hub files and of prepared datasets. The login token is in HF_HOME, beside them."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache")
    home = Path(environment.get("HF_HOME") or cache / "huggingface")
    return {name: Path(environment.get(name) or home / folder) for name, folder in _FOLDERS.items()}


def hub_token(environment: Mapping[str, str] = os.environ) -> str | None:
    """The user's Hugging Face token, searched in the same places as huggingface_hub 1.0 does (`get_token`)."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        if environment.get(name, "").strip():
            return environment[name].strip()
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache")
    home = Path(environment.get("HF_HOME") or cache / "huggingface")
    try:
        return Path(environment.get("HF_TOKEN_PATH") or home / "token").read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None


def interpreter_caches(state_dir: Path, python: Path) -> Path:
    """The folder of the caches of all environments that run in one interpreter. Its packages may write there."""
    return state_dir / _CACHES / f"python-{_digest(str(python.parent.parent))}"


def data_cache(state_dir: Path, workspace: str, name: str, version: str, python: Path) -> DataCache:
    """The cache of one version of an environment, with links to the user's present downloads.

    `version` is the fingerprint of the environment's source. Raises PlantedPath if running environment code keeps
    replacing the cache's folders.
    """
    family = interpreter_caches(state_dir, python)
    verified = state_dir / _VERIFIED
    for folder in (family, verified):
        folder.mkdir(parents=True, exist_ok=True)
    environment = _digest(f"{workspace}\n{name}")
    root = family / f"{environment}-{_digest(version)}"
    try:
        _prepare(family, environment, root, verified)
    except (untrusted_files.PlantedPath, PermissionError):
        untrusted_files.discard_folder(root)
        try:
            _prepare(family, environment, root, verified)
        except (untrusted_files.PlantedPath, PermissionError) as error:
            raise untrusted_files.PlantedPath(name, "closed, or replaced again and again") from error
    users = (path.resolve() for path in users_caches().values() if path.is_dir())
    return DataCache(root, (*users, verified.resolve()))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _prepare(family: Path, environment: str, root: Path, verified: Path) -> None:
    """Fill the cache. A new one also gets the downloads of other versions, and takes the place of an old one."""
    new = not os.path.lexists(root)
    _fill(family, root)
    if new:
        with suppress(OSError):
            _link_verified(family, environment, root, verified)
        _remove_older(family, environment)


def _fill(family: Path, root: Path) -> None:
    for name in _OWN_FOLDERS:
        untrusted_files.make_below(family, f"{root.name}/{name}")
    users = users_caches()
    for variable in _VARIABLES:
        with (
            suppress(FileNotFoundError),
            untrusted_files.folder_below(family, f"{root.name}/{_FOLDERS[variable]}") as opened,
        ):
            _link_below(users[variable], opened, [_MOST_FILES], _MOST_DEPTH)
    with suppress(OSError), untrusted_files.folder_below(family, root.name) as opened:
        os.utime(opened)


def _link_below(source: Path, into: int, left: list[int], depth: int) -> None:
    """Repeat the folders of `source` in the open folder `into`, with links in place of files. Existing entries stay.

    Raises PlantedPath if a folder's place holds something else.
    """
    if not source.is_dir() or not depth:
        return
    with os.scandir(source) as entries:
        for entry in entries:
            if left[0] <= 0:
                return
            if entry.is_dir():
                if not entry.is_symlink():
                    with untrusted_files.folder_within(into, entry.name) as inner:
                        _link_below(Path(entry.path), inner, left, depth - 1)
            elif not entry.name.endswith((".lock", ".incomplete")):
                # The Hub's cache links from snapshots to blobs by relative paths, which hold here as well.
                lead = os.readlink(entry.path) if entry.is_symlink() else entry.path
                with suppress(FileExistsError):
                    os.symlink(lead, entry.name, dir_fd=into)
                    left[0] -= 1


def _link_verified(family: Path, environment: str, root: Path, verified: Path) -> None:
    """Link the files that other versions of the environment downloaded, if the sha256 of the content matches
    the name."""
    left = [_MOST_VERIFIED_BYTES]
    for other in (path for path in _caches_of(family, environment) if path != root):
        with suppress(untrusted_files.PlantedPath):  # a replaced folder of another version is skipped
            for repository in untrusted_files.list_below(other, "hub"):
                _link_blobs(other, f"hub/{repository}/blobs", root, verified, left)


def _link_blobs(other: Path, blobs: str, root: Path, verified: Path, left: list[int]) -> None:
    with suppress(untrusted_files.PlantedPath):
        for blob in filter(_BY_CONTENT.fullmatch, untrusted_files.list_below(other, blobs)):
            left[0] -= _verify(other, f"{blobs}/{blob}", verified / blob, left[0])
            if (verified / blob).is_file():
                with untrusted_files.folder_below(root, blobs) as opened, suppress(FileExistsError):
                    os.symlink(verified / blob, blob, dir_fd=opened)


def _verify(folder: Path, path: str, target: Path, most: int) -> int:
    """Copy a file to `target` if the name of `target` is the sha256 of the file. Returns the number of copied bytes."""
    if target.exists():
        os.utime(target)
        return 0
    digest, copied = hashlib.sha256(), 0
    temporary = target.with_name(f"{untrusted_files.REMOVED}{os.getpid()}-{target.name}")
    try:
        with untrusted_files.open_below(folder, path) as source, temporary.open("wb") as sink:
            while chunk := source.read(_CHUNK):
                copied += len(chunk)
                if copied > most:
                    return 0
                digest.update(chunk)
                sink.write(chunk)
        if digest.hexdigest() == target.name:
            os.replace(temporary, target)
    except (untrusted_files.PlantedPath, FileNotFoundError):
        return 0  # such as a link to the user's own cache
    finally:
        temporary.unlink(missing_ok=True)
    return copied


def _caches_of(family: Path, environment: str) -> list[Path]:
    """The caches of an environment, the newest first."""
    caches = [path for path in family.glob(f"{environment}-*") if path.is_dir() and not path.is_symlink()]
    return sorted(caches, key=lambda path: path.lstat().st_mtime, reverse=True)


def _remove_older(family: Path, environment: str) -> None:
    with suppress(OSError):
        for path in _caches_of(family, environment)[MOST_VERSIONS:]:
            if time.time() - path.lstat().st_mtime > UNUSED_SECONDS:
                untrusted_files.discard_folder(path)
