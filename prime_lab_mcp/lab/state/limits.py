"""The spending cap and the approval mode that hold for a state directory: the strictest of all processes that use it.

A person sets both when starting a server. Another process on the same state directory, with a higher cap or without
`--approval always`, could otherwise spend past them. Each process therefore publishes its own settings in a file that
it keeps locked. The lock ends with the process, so a killed server leaves nothing behind.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from prime_lab_mcp.lab.base.settings import Settings

FOLDER = "servers"
"""Folder of the state directory with one file for each process."""
_MOST_BYTES = 4_096


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """The limits that hold now. `always` says that only a person's own answer approves something."""

    always: bool
    max_spend: float | None
    """Cap on the total spend in US dollars; None if no process has one."""


class PublishedLimits:
    """Publishes the settings of this process, and reads those of all processes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = settings.state_dir / FOLDER
        self._file: IO[bytes] | None = None
        self._ending: weakref.finalize[[Path], PublishedLimits] | None = None

    def publish(self) -> None:
        """Publish the settings. Raises OSError if the state directory is not writable, or its disk is full."""
        if self._file is not None:
            return
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = f"{os.getpid()}-{secrets.token_hex(4)}"
        building, place = self._folder / f".{name}", self._folder / f"{name}.json"
        settings = self._settings
        own = {"approval": settings.approval, "max_spend": settings.max_spend, "platform": settings.platform}
        file = building.open("wb", buffering=0)
        try:
            # Locked before the rename, so that nobody sees the file without its lock.
            fcntl.flock(file, fcntl.LOCK_EX)
            file.write(json.dumps(own).encode())
            os.rename(building, place)
        except OSError:
            file.close()
            _remove(building)
            raise
        self._file = file
        self._ending = weakref.finalize(self, _remove, place)

    def close(self) -> None:
        """Withdraw the settings."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._ending is not None:
            self._ending()

    def present(self) -> SpendingLimits:
        """Return the strictest limits of all live processes on this platform, this one included."""
        settings = self._settings
        caps = [settings.max_spend] if settings.max_spend is not None else []
        always = settings.approval == "always"
        for other in self._others():
            if other.get("platform") != settings.platform:
                continue
            always = always or other.get("approval") == "always"
            cap = other.get("max_spend")
            if isinstance(cap, int | float) and not isinstance(cap, bool):
                caps.append(float(cap))
        return SpendingLimits(always, min(caps, default=None))

    def _others(self) -> Iterator[dict[str, Any]]:
        try:
            paths = sorted(self._folder.glob("*.json"))
        except OSError:
            return
        for path in paths:
            with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
                if not _is_locked(file):
                    _remove(path)
                    continue
                read = json.loads(file.read(_MOST_BYTES))
                if isinstance(read, dict):
                    yield read


def _is_locked(file: IO[str]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
