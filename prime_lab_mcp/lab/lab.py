"""The domain as one value: everything a tool may touch, opened lazily so that the server starts at once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import anyio

from prime_lab_mcp.lab.settings import Platform, Settings
from prime_lab_mcp.lab.workspace import Workspace

if TYPE_CHECKING:
    from prime_lab_mcp.lab.evals.jobs import Evals
    from prime_lab_mcp.lab.interpreter import Interpreters
    from prime_lab_mcp.lab.ledger import Ledger
    from prime_lab_mcp.lab.prime import Prime
    from prime_lab_mcp.lab.snapshot import Snapshot
    from prime_lab_mcp.lab.toolchain import Toolchain
    from prime_lab_mcp.lab.worker.pool import Workers

PlatformVariables = Callable[[], Awaitable[Mapping[str, str]]]
"""Variables that point `prime` and model endpoints at the rehearsal platform; empty for the real one."""


async def _no_variables() -> Mapping[str, str]:
    return {}


class Lab:
    """One workspace with its state directory. `platform_variables` starts the rehearsal platform when first asked."""

    def __init__(self, settings: Settings, platform_variables: PlatformVariables = _no_variables) -> None:
        self.settings = settings
        self.platform_variables = platform_variables
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Run when the lab closes, e.g. to end the rehearsal platform."""
        self.workspace = Workspace(settings.workspace.resolve())

    @property
    def platform(self) -> Platform:
        return self.settings.platform

    @property
    def key(self) -> str:
        """What the ledger calls this workspace."""
        return str(self.workspace.root)

    @cached_property
    def ledger(self) -> Ledger:
        from prime_lab_mcp.lab.ledger import Ledger

        return Ledger(self.settings.ledger)

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
        from prime_lab_mcp.lab.prime import Prime

        return Prime(self.settings, self.toolchain, self.platform_variables)

    @cached_property
    def evals(self) -> Evals:
        from prime_lab_mcp.lab.evals.jobs import Evals

        return Evals(self)

    async def snapshot(self, environment: str) -> Snapshot:
        """A fresh snapshot of a local environment, remembered in the ledger. Raises BadInput."""
        from prime_lab_mcp.lab.snapshot import take

        folder = self.workspace.environment(environment)
        taken = await anyio.to_thread.run_sync(take, folder, self.settings.snapshots)
        self.ledger.remember(self.key, taken)
        return taken

    async def close(self) -> None:
        """End every worker and drop old snapshots. Jobs go on; a broken one can be resumed on its snapshot."""
        for close in self.closing:
            await close()
        if "workers" in self.__dict__:
            await self.workers.close()
        if "ledger" in self.__dict__:
            from prime_lab_mcp.lab.snapshot import clean

            in_use = frozenset(job.content for job in self.ledger.jobs() if job.state != "finished")
            clean(self.settings.snapshots, in_use)
            self.ledger.close()
