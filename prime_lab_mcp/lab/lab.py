"""Defines `Lab`: the state and the drivers of one workspace. Each is opened on first use, so the server starts
quickly."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, cast

import anyio

from prime_lab_mcp.lab.base.errors import DISK_FULL, LabError
from prime_lab_mcp.lab.base.settings import Platform, Settings
from prime_lab_mcp.lab.state.workspace import Workspace

if TYPE_CHECKING:
    from prime_lab_mcp.lab.interpreter import Interpreters
    from prime_lab_mcp.lab.prime.client import Prime
    from prime_lab_mcp.lab.state.ledger.ledger import Ledger
    from prime_lab_mcp.lab.state.ledger.rows import JobFolder, Push
    from prime_lab_mcp.lab.state.limits import PublishedLimits, SpendingLimits
    from prime_lab_mcp.lab.state.snapshot import FolderSnapshots, Snapshot
    from prime_lab_mcp.lab.toolchain import Toolchain
    from prime_lab_mcp.lab.worker.pool import Workers

_CLEANING_ENDS_SECONDS = 2.0
_CLEANING_SECONDS = 86_400.0
_ROOM_SECONDS = 0.2
"""Seconds between two attempts to write on a disk that was full."""
Memory = TypeVar("Memory")
PlatformVariables = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the variables that direct `prime` and model endpoints to the rehearsal platform; empty for the real one."""


async def _no_variables() -> Mapping[str, str]:
    return {}


class Lab:
    """One workspace and its state directory. The first call of `platform_variables` starts the rehearsal platform."""

    def __init__(self, settings: Settings, platform_variables: PlatformVariables = _no_variables) -> None:
        self.settings = settings
        self.platform_variables = platform_variables
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Called when the lab closes, for instance to end the rehearsal platform."""
        self.workspace = Workspace(settings.workspace.resolve())
        self._memories: dict[type, object] = {}
        self._closed = threading.Event()
        self._cleaner: threading.Thread | None = None

    @property
    def platform(self) -> Platform:
        return self.settings.platform

    @property
    def key(self) -> str:
        """The id of this workspace in the ledger."""
        return str(self.workspace.root)

    def memory(self, kind: type[Memory]) -> Memory:
        """The single instance of `kind`, a class in which a service caches data that it can compute or fetch again.

        The instance is made on first use and lives as long as the lab.
        """
        return cast("Memory", self._memories.setdefault(kind, kind()))

    @cached_property
    def ledger(self) -> Ledger:
        from prime_lab_mcp.lab.state.ledger.ledger import Ledger

        opened = Ledger(self.settings.ledger)
        # A killed server cannot clean up, so the next server does, in a thread beside its first call.
        self._cleaner = threading.Thread(target=self._clean, daemon=True)
        self._cleaner.start()
        return opened

    def _clean(self) -> None:
        """Clean the state directory now, and each day for as long as the lab is open."""
        from prime_lab_mcp.lab.state.storage import clean_state

        while True:
            # After a failure, the next day's cleaning tries again.
            with suppress(LabError, OSError, sqlite3.Error):
                clean_state(self.settings.state_dir, self._evaluations())
            if self._closed.wait(_CLEANING_SECONDS):
                return

    def _evaluations(self) -> list[JobFolder]:
        """The ledger rows of all evaluations that have data on disk, read through a separate connection.

        The lab may close its own connection at any time, and SQLite crashes the process if another thread uses a
        connection that is being closed. Raises LedgerError if the ledger is gone, so that it is not created again.
        """
        from prime_lab_mcp.lab.state.ledger.ledger import Ledger

        reading = Ledger(self.settings.ledger, create=False)
        try:
            return reading.job_folders()
        finally:
            reading.close()

    @cached_property
    def _published_limits(self) -> PublishedLimits:
        from prime_lab_mcp.lab.state.limits import PublishedLimits

        return PublishedLimits(self.settings)

    @property
    def limits(self) -> SpendingLimits:
        """The spending cap and the approval mode: the strictest of all processes on this state directory."""
        return self._published_limits.present()

    def publish_limits(self) -> None:
        """Let other processes on this state directory keep to the limits of this one, until the lab closes.

        On a full disk nobody can spend, because the ledger cannot record it, and a thread publishes the limits as soon
        as there is room. Raises OSError if the state directory is not writable.
        """
        try:
            self._published_limits.publish()
        except OSError as error:
            if error.errno not in DISK_FULL:
                raise
            threading.Thread(target=self._publish_when_there_is_room, daemon=True).start()

    def _publish_when_there_is_room(self) -> None:
        while not self._closed.wait(_ROOM_SECONDS):
            with suppress(OSError):
                return self._published_limits.publish()

    @cached_property
    def snapshots(self) -> FolderSnapshots:
        from prime_lab_mcp.lab.state.snapshot import FolderSnapshots

        return FolderSnapshots(self.settings.snapshots)

    @cached_property
    def toolchain(self) -> Toolchain:
        from prime_lab_mcp.lab.toolchain import Toolchain

        return Toolchain(self.settings)

    @cached_property
    def interpreters(self) -> Interpreters:
        from prime_lab_mcp.lab.interpreter import Interpreters

        return Interpreters(self.settings)

    @cached_property
    def workers(self) -> Workers:
        from prime_lab_mcp.lab.worker.pool import Workers

        return Workers(self.settings)

    @cached_property
    def prime(self) -> Prime:
        from prime_lab_mcp.lab.prime.client import Prime

        return Prime(self.settings, self.toolchain, self.platform_variables)

    def newest_push(
        self, owner: str, name: str, version: str | None = None, *, workspace: str | None = None
    ) -> Push | None:
        """Return the newest push of `owner/name` from this machine to the present platform, or None.

        `version` and `workspace` limit the search to pushes of this version and from this workspace.
        """
        rows = self.ledger.pushes(owner=owner, name=name, platform=self.platform, workspace=workspace)
        return next((push for push in rows if version in (None, push.version)), None)

    async def snapshot(self, environment: str) -> Snapshot:
        """Take a snapshot of a local environment and record the snapshot in the ledger. Raises BadInput."""
        from prime_lab_mcp.lab.state.snapshot import take_snapshot

        def take() -> Snapshot:
            snapshot = take_snapshot(self.workspace.environment(environment), self.settings.snapshots)
            self.ledger.remember(self.key, snapshot)
            return snapshot

        return await anyio.to_thread.run_sync(take)

    async def close(self) -> None:
        """End every worker. Jobs continue."""
        self._closed.set()
        for close in self.closing:
            await close()
        if "_published_limits" in self.__dict__:
            self._published_limits.close()
        if "workers" in self.__dict__:
            await self.workers.close()
        if "ledger" in self.__dict__:
            self.ledger.close()
        if self._cleaner is not None:
            # Wait, so that the caller can delete the state directory without a file appearing in it meanwhile.
            await anyio.to_thread.run_sync(self._cleaner.join, _CLEANING_ENDS_SECONDS)
