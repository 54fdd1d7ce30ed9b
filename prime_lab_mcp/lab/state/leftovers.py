"""Deletes what killed servers left in the state directory: unfinished snapshots and wheels, copies, scratch folders.

Old caches are deleted too. None of this is evidence. The names of finished snapshots, evaluations, wheels and
interpreters match no pattern here, so these stay.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from prime_lab_mcp.lab.base.process import is_alive
from prime_lab_mcp.lab.state.snapshot import remove_tree

UNFINISHED_SECONDS = 86_400.0
"""Seconds after which an unfinished folder counts as abandoned. Servers finish such folders within minutes."""
UNOWNED_SECONDS = 30 * 86_400.0
"""Seconds after which an unused cache is deleted. The same limit holds for scratch folders whose name does not state
the process that made them (versions up to 1.0)."""
_CACHES = (
    "caches/python-*/*",
    "caches/[0-9a-f]*",  # up to 1.0: one cache for all versions of an environment
)
_UNFINISHED = (
    "snapshots/.building-*",
    "snapshots/.damaged-*",
    "wheels/.building-*",
    "wheels/.tree-*",
    "wheels/.backend-*",
    "push/*",
    "fetched/*",
    "dataset-*",
    "caches/*/.removed-*",
)
_OWNED = re.compile(r"^(?:zygote|child)-(\d+)-")


def scratch_prefix(kind: str, pid: int) -> str:
    """The prefix of the names of this process's scratch folders."""
    return f"{kind}-{pid}-"


def clean_leftovers(state_dir: Path, now: float | None = None) -> int:
    """Delete folders that no running process owns, and old caches. Return the number of deleted folders."""
    present = time.time() if now is None else now
    removed = 0
    for path in [path for pattern in _UNFINISHED for path in state_dir.glob(pattern)]:
        removed += _age(path, present) > UNFINISHED_SECONDS and _remove_folder(path)
    for path in [path for pattern in _CACHES for path in state_dir.glob(pattern)]:
        removed += _age(path, present) > UNOWNED_SECONDS and _remove_folder(path)
    for path in state_dir.glob("downloads/*"):
        if _age(path, present) > UNOWNED_SECONDS:
            path.unlink(missing_ok=True)
    for path in state_dir.glob("scratch/*"):
        owner = _OWNED.match(path.name)
        if owner is None:
            removed += _age(path, present) > UNOWNED_SECONDS and _remove_folder(path)
        elif not is_alive(int(owner[1])):
            removed += _remove_folder(path)
    return removed


def _age(path: Path, now: float) -> float:
    try:
        return now - path.lstat().st_mtime
    except OSError:
        return 0.0


def _remove_folder(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    remove_tree(path)
    return not path.exists()
