"""Measures the data in the state directory, and deletes data that is no longer used.

Evidence is in the ledger and is never deleted. The other folders can be made again, or exist only for people to read,
so they are deleted after a long time without use. `leftovers` deletes the unfinished work of killed servers.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.state.ledger.rows import JobFolder
from prime_lab_mcp.lab.state.leftovers import clean_leftovers
from prime_lab_mcp.lab.state.snapshot import clean_snapshots, remove_tree

DAY = 86_400.0
RETAINED_EVALUATIONS = 200
"""Number of ended evaluations whose rollouts stay, regardless of their age."""
EVALUATION_DAYS, INTERPRETER_DAYS = 30, 60
_LIVE = ("starting", "running")
_TOOLCHAIN = "toolchain-"
"""Prefix of the interpreter that `setup` installs and that is never deleted."""
_MOST_ENTRIES = 200_000
"""Entries of one path that are counted. For a larger folder, the size is a lower bound."""


@dataclass(frozen=True, slots=True)
class StateStore:
    """One kind of data in the state directory: glob patterns of its paths, and how long it is retained."""

    name: str
    patterns: tuple[str, ...]
    retention: str


STORES = (
    StateStore("ledger", ("ledger.sqlite3*",), "for good"),
    StateStore("snapshots", ("snapshots/*",), "the newest 40, those of a day, and those that evaluations need"),
    StateStore("evaluations", ("evals/*",), f"the newest {RETAINED_EVALUATIONS}, and those of {EVALUATION_DAYS} days"),
    StateStore("wheels", ("wheels/*",), "the newest 20 of each kind"),
    StateStore("interpreters", ("interpreters/*",), f"{INTERPRETER_DAYS} days after the last use; the toolchain stays"),
    StateStore("caches", ("caches/*", "downloads/*"), "30 days after their last use"),
    StateStore("scratch", ("scratch/*", "push/*", "fetched/*", "dataset-*"), "as long as its server, or a day"),
    StateStore("submitted configs", ("runs/*",), "for good"),
    StateStore("rehearsal", ("rehearsal/*",), "until somebody deletes it"),
)


@dataclass(frozen=True, slots=True)
class StoreSize:
    """The disk usage of one kind of data."""

    name: str
    entries: int
    bytes: int
    retention: str


def store_sizes(state_dir: Path) -> tuple[StoreSize, ...]:
    """The size of each store that is not empty. Files that several folders share by hard links count once."""
    counted: set[tuple[int, int]] = set()
    sizes = []
    for store in STORES:
        entries = [path for pattern in store.patterns for path in state_dir.glob(pattern)]
        if entries:
            taken = sum(_bytes(path, counted) for path in entries)
            sizes.append(StoreSize(store.name, len(entries), taken, store.retention))
    return tuple(sizes)


def clean_state(state_dir: Path, jobs: list[JobFolder], now: float | None = None) -> int:
    """Delete data that is no longer used, and return the number of deleted folders. Other servers may run meanwhile.

    `jobs` are all evaluations of the ledger, newest first.
    """
    present = time.time() if now is None else now
    return (
        clean_leftovers(state_dir, present)
        + clean_snapshots(state_dir / "snapshots", _needed(jobs, present), older_than=present - DAY)
        + _clean_evaluations(state_dir / "evals", jobs, present)
        + _clean_interpreters(state_dir / "interpreters", present)
    )


def _needed(jobs: list[JobFolder], now: float) -> frozenset[str]:
    """Content fingerprints of the snapshots that a running evaluation uses or an interrupted one needs to resume."""
    recent = now - EVALUATION_DAYS * DAY
    return frozenset(j.content for j in jobs if j.state in _LIVE or (j.state != "finished" and j.lease > recent))


def _clean_evaluations(store: Path, jobs: list[JobFolder], now: float) -> int:
    """Delete the folders of old evaluations, and those without a row in the ledger. Verdicts stay in the ledger."""
    oldest = now - EVALUATION_DAYS * DAY
    ended = [job for job in jobs if job.state not in _LIVE and (job.judged or job.state != "finished")]
    stays = {job.id for job in jobs} - {job.id for job in ended[RETAINED_EVALUATIONS:]}
    return _remove(path for path in store.glob("*") if path.name not in stays and _last_used(path) < oldest)


def _clean_interpreters(store: Path, now: float) -> int:
    oldest = now - INTERPRETER_DAYS * DAY
    return _remove(
        path for path in store.glob("*") if not path.name.startswith(_TOOLCHAIN) and _last_used(path) < oldest
    )


def _last_used(path: Path) -> float:
    """The time of the last use, in seconds since the epoch; infinity for a folder that no longer exists."""
    try:
        return path.lstat().st_mtime
    except OSError:
        return float("inf")


def _remove(paths: Iterator[Path]) -> int:
    removed = 0
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            remove_tree(path)
            removed += not path.exists()
    return removed


def _bytes(path: Path, counted: set[tuple[int, int]]) -> int:
    total, waiting, left = 0, [path], _MOST_ENTRIES
    while waiting and left:
        left -= 1
        entry = waiting.pop()
        try:
            status = entry.lstat()
            if stat.S_ISDIR(status.st_mode):
                with os.scandir(entry) as listed:
                    waiting += [Path(below.path) for below in listed]
            elif (status.st_dev, status.st_ino) not in counted:
                counted.add((status.st_dev, status.st_ino))
                total += status.st_blocks * 512
        except OSError:
            continue
    return total
