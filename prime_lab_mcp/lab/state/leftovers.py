"""Removes what servers that were killed left in the state directory: half-made snapshots and wheels, copies, scratch.

Nothing here is evidence: snapshots, evaluations, wheels and interpreters have names of their own, and stay.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from prime_lab_mcp.lab.base.process import is_alive
from prime_lab_mcp.lab.state.snapshot import remove_tree

UNFINISHED_SECONDS = 86_400.0
"""Age after which a folder that is filled within minutes belongs to nobody."""
UNOWNED_SECONDS = 30 * 86_400.0
"""The same for scratch whose name does not say which process made it (versions up to 1.0), and for unused caches."""
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
    """The beginning of the name of a scratch folder of this process."""
    return f"{kind}-{pid}-"


def clean_leftovers(state_dir: Path, now: float | None = None) -> int:
    """Delete what belongs to no living process, and return how many folders that were."""
    present = time.time() if now is None else now
    removed = 0
    for path in [path for pattern in _UNFINISHED for path in state_dir.glob(pattern)]:
        removed += _age(path, present) > UNFINISHED_SECONDS and _removed(path)
    for path in [path for pattern in _CACHES for path in state_dir.glob(pattern)]:
        removed += _age(path, present) > UNOWNED_SECONDS and _removed(path)
    for path in state_dir.glob("downloads/*"):
        if _age(path, present) > UNOWNED_SECONDS:
            path.unlink(missing_ok=True)
    for path in state_dir.glob("scratch/*"):
        owner = _OWNED.match(path.name)
        if owner is None:
            removed += _age(path, present) > UNOWNED_SECONDS and _removed(path)
        elif not is_alive(int(owner[1])):
            removed += _removed(path)
    return removed


def _age(path: Path, now: float) -> float:
    try:
        return now - path.lstat().st_mtime
    except OSError:
        return 0.0


def _removed(path: Path) -> bool:
    if path.is_symlink() or not path.is_dir():
        return False
    remove_tree(path)
    return not path.exists()
