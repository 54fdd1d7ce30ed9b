"""A cache of downloaded data for the environments of one workspace, filled with links to the user's own cache.

Environment code must not write into the user's caches: it could change the data of another environment. It gets folders
of its own in the state directory. What the user downloaded before is there as links to files that environment code may
read, so that nothing is downloaded again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_MOST_FILES = 50_000
_VARIABLES = ("HF_HUB_CACHE", "HF_DATASETS_CACHE")
_FOLDERS = {"HF_HUB_CACHE": "hub", "HF_DATASETS_CACHE": "datasets"}
MODULES = "HF_MODULES_CACHE"


@dataclass(frozen=True, slots=True)
class DataCache:
    """The folder of an environment's own cache, and the user's folders that its links lead to."""

    root: Path
    users: tuple[Path, ...]

    def variables(self) -> dict[str, str]:
        """Variables that lead `huggingface_hub` and `datasets` to this cache. No token is in HF_HOME."""
        caches = {name: str(self.root / folder) for name, folder in _FOLDERS.items()}
        return {"HF_HOME": str(self.root), **caches, MODULES: str(self.root / "modules")}


def users_caches(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The user's caches of the Hub's files and of prepared data sets. The login token lies beside them, in HF_HOME."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME", "/")) / ".cache")
    home = Path(environment.get("HF_HOME") or cache / "huggingface")
    return {name: Path(environment.get(name) or home / folder) for name, folder in _FOLDERS.items()}


def data_cache(state_dir: Path, workspace: str, name: str) -> DataCache:
    """The cache of one environment of a workspace, with links to what the user has by now."""
    digest = hashlib.sha256(f"{workspace}\n{name}".encode()).hexdigest()[:16]
    root = state_dir / "caches" / digest
    users = users_caches()
    for variable, folder in _FOLDERS.items():
        (root / folder).mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            _link_below(users[variable], root / folder)
    for folder in ("modules", "programs"):
        (root / folder).mkdir(exist_ok=True)
    return DataCache(root, tuple(path.resolve() for path in users.values() if path.is_dir()))


def _link_below(source: Path, target: Path) -> None:
    """Repeat the folders of `source` below `target`, with links in place of files. What is there stays."""
    if not source.is_dir():
        return
    linked = 0
    for folder, _, names in os.walk(source):
        into = target / os.path.relpath(folder, source)
        if into.is_symlink():
            continue
        into.mkdir(exist_ok=True)
        for name in names:
            place, original = into / name, Path(folder, name)
            if name.endswith((".lock", ".incomplete")) or os.path.lexists(place):
                continue
            # The Hub's cache links from snapshots to blobs by relative paths, which hold here as well.
            lead = os.readlink(original) if original.is_symlink() else str(original)
            with suppress(FileExistsError):
                os.symlink(lead, place)
            linked += 1
        if linked > _MOST_FILES:
            return
