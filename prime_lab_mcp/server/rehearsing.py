"""Starts the rehearsal platform beside the server when something first needs it, and again if it died."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from prime_lab_mcp.lab.process import Child
from prime_lab_mcp.lab.settings import Settings
from prime_lab_mcp.rehearsal import connection


class RehearsalPlatform:
    """One platform process per server, all on one state folder. It dies with the server."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._child: Child | None = None
        self._url = ""
        self._starting: anyio.Lock | None = None

    async def variables(self) -> Mapping[str, str]:
        """Variables that point `prime` and `vf-eval` at it, with a HOME that is not the user's."""
        if self._starting is None:
            self._starting = anyio.Lock()
        async with self._starting:
            if self._child is None or self._child.returncode is not None:
                self._child, self._url = await connection.start(self._settings.rehearsal_dir / "platform")
        home = self._settings.rehearsal_dir / "home"
        home.mkdir(parents=True, exist_ok=True)
        return connection.environment(self._url, home)

    async def close(self) -> None:
        """End it; its state stays."""
        if self._child is not None:
            await self._child.close()
            self._child = None
