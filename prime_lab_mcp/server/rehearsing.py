"""Starts the rehearsal platform on first use, and again if its process has died."""

from __future__ import annotations

from collections.abc import Mapping

import anyio

from prime_lab_mcp.lab.base.process import ChildProcess
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.rehearsal import connection


class RehearsalPlatform:
    """The platform process of one server. It ends with the server; all servers of a state directory share the state."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._child: ChildProcess | None = None
        self._url = ""
        self._starting: anyio.Lock | None = None

    async def variables(self) -> Mapping[str, str]:
        """Variables that direct `prime` and `vf-eval` to the platform, with a HOME that is not the user's."""
        if self._starting is None:
            self._starting = anyio.Lock()
        async with self._starting:
            if self._child is None or self._child.returncode is not None:
                self._child, self._url = await connection.start(self._settings.rehearsal_dir / "platform")
            url = self._url
        home = self._settings.rehearsal_dir / "home"
        home.mkdir(parents=True, exist_ok=True)
        return connection.environment(url, home)

    async def close(self) -> None:
        """End the process. The platform's state stays on disk."""
        if self._child is not None:
            await self._child.close()
            self._child = None
