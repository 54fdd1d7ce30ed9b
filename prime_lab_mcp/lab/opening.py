"""From a snapshot to its loaded environment: generation, interpreter, worker. Used by every step that runs its code."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from prime_lab_mcp.lab.checks.generation import Api, detect
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.evals.program import nowhere
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.manifest import Manifest
from prime_lab_mcp.lab.report import Next
from prime_lab_mcp.lab.snapshot import Snapshot, verify
from prime_lab_mcp.lab.worker.cases import Loaded, LoadFailed
from prime_lab_mcp.lab.worker.host import Worker

Say = Callable[[str], Awaitable[None]]
LOAD_SECONDS = 120.0
"""What loading may take: a first download of a data set is part of it."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An environment that loaded. `env_args` are the arguments it was loaded with."""

    snapshot: Snapshot
    api: Api
    interpreter: Interpreter
    worker: Worker
    loaded: Loaded
    env_args: Mapping[str, Any]
    variables: Mapping[str, str] | None = None
    """Set for its code alone: the way to its judge, or one that leads nowhere where it loads with some key only."""

    @property
    def toolchain(self) -> dict[str, str]:
        """Versions that the evidence rests on."""
        return {"verifiers": self.loaded.verifiers_version, "python": self.loaded.python_version}


def check_args(manifest: Manifest) -> dict[str, Any]:
    """`[tool.prime-lab] check_args`: the arguments with which the checks load this environment. Raises BadInput."""
    tool = manifest.table.get("tool")
    own = tool.get("prime-lab") if isinstance(tool, Mapping) else None
    found = own.get("check_args", {}) if isinstance(own, Mapping) else {}
    if not isinstance(found, Mapping):
        raise BadInput(
            "[tool.prime-lab] check_args in pyproject.toml is no table",
            fix='Write it as a table, such as check_args = { split = "train" }.',
            code="bad-check-args",
        )
    return dict(found)


@asynccontextmanager
async def opened(
    lab: Lab,
    snapshot: Snapshot,
    *,
    env_args: Mapping[str, Any] | None = None,
    progress: Say | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[Opened]:
    """The loaded environment of a snapshot, with `env_args` or else the package's own `check_args`.

    `variables` are set for its code alone: the way to its judge. Code that makes an openai client while it loads, and
    has no key for it, is given one for an endpoint where nothing answers.

    Raises LoadFailed when its code raises (a flaw of the environment), BadInput when it cannot be told what to load,
    InterpreterError and WorkerError when the machinery fails, LabError when its code changed the stored copy.
    """
    api, module = await _what(snapshot)
    given = dict(env_args) if env_args is not None else check_args(snapshot.manifest)
    interpreter = await lab.interpreters.for_package(snapshot.manifest.table, api=api, progress=progress)
    if progress is not None:
        await progress("loading the environment")
    open = partial(
        lab.workers.open, snapshot.tree, snapshot.source, interpreter, api=api, module=module, env_args=given
    )
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(open(variables=variables))
        try:
            loaded = await worker.load(timeout=LOAD_SECONDS)
        except LoadFailed as error:
            if variables or not error.lacks_openai_key:
                raise
            variables = nowhere(lab.settings.allow_env)
            worker = await stack.enter_async_context(open(variables=variables))
            loaded = await worker.load(timeout=LOAD_SECONDS)
        yield Opened(snapshot, api, interpreter, worker, loaded, given, variables)
        await anyio.to_thread.run_sync(verify, snapshot)


async def _what(snapshot: Snapshot) -> tuple[Api, str]:
    again = (Next("check_environment", "says what is missing", {"environment": snapshot.relative}),)
    if snapshot.manifest.module is None:
        raise BadInput(
            f"pyproject.toml of {snapshot.name} names no project",
            fix="Add [project] with a name, then call check_environment.",
            code="pyproject-invalid",
            next=again,
        )
    found = await anyio.to_thread.run_sync(detect, snapshot)
    if found.api is None:
        raise BadInput(
            f"{snapshot.name} is neither a v1 nor a v0 environment: {found.reasons[0]}",
            fix="Export a Taskset subclass in __all__ (v1), or define load_environment (v0).",
            code="unknown-generation",
            next=again,
        )
    return found.api, snapshot.manifest.module
