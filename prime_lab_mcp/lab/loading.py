"""Loads the environment of a snapshot in a worker process.

Loading detects the API generation, finds an interpreter, and starts the worker. Every step that runs environment code
uses this module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Next, Say
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.present_distributions import dependency_fingerprints
from prime_lab_mcp.lab.relay.endpoints import no_judge_variables
from prime_lab_mcp.lab.sandbox.kernel_support import present_support
from prime_lab_mcp.lab.state.arguments import check_args
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.pulled import PulledUnconfined, unagreed_pull
from prime_lab_mcp.lab.state.snapshot import Snapshot, code_tree, verify_snapshot
from prime_lab_mcp.lab.state.source_code import Api, detect_generation
from prime_lab_mcp.lab.worker.description import Loaded
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.lab.worker.host import Worker

LOAD_SECONDS = 120.0
"""Time limit of loading in seconds. Loading may include the first download of a dataset."""


@dataclass(frozen=True, slots=True)
class LoadedEnvironment:
    """A loaded environment and its worker. `env_args` are the arguments with which the environment was loaded."""

    snapshot: Snapshot
    api: Api
    interpreter: Interpreter
    worker: Worker
    loaded: Loaded
    env_args: Mapping[str, Any]
    variables: Mapping[str, str] | None = None
    """Variables that are set only for the environment's code: the endpoint of its judge. If the environment loads only
    with an API key, they name an endpoint that nobody serves."""

    distributions: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the distributions that the package requires, by name, read at loading."""

    @property
    def toolchain(self) -> dict[str, Any]:
        """Versions of verifiers and Python, and the distributions' fingerprints, for the evidence."""
        versions = {"verifiers": self.loaded.verifiers_version, "python": self.loaded.python_version}
        return {**versions, DISTRIBUTIONS: dict(self.distributions)}


def require_agreement(lab: Lab, snapshot: Snapshot) -> None:
    """Raise PulledUnconfined for another owner's code if the kernel leaves all files open and nobody agreed."""
    if present_support().files != "open":
        return
    pulled = unagreed_pull(lab.ledger, lab.key, snapshot)
    if pulled is not None:
        raise PulledUnconfined(pulled, snapshot)


@asynccontextmanager
async def open_environment(
    lab: Lab,
    snapshot: Snapshot,
    *,
    env_args: Mapping[str, Any] | None = None,
    progress: Say | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[LoadedEnvironment]:
    """Load the environment of a snapshot with `env_args`, or with the package's `check_args` if None.

    `variables` are set only for the environment's code, for instance the endpoint of its judge. Environment code that
    creates an openai client while loading and has no key gets a key for an endpoint that nobody serves.

    Raises LoadFailed if the environment's code raises (a flaw of the environment), BadInput if the snapshot does not
    say what to load, InterpreterError or WorkerError if the interpreter or the worker fails, and LabError if the
    environment's code changed the stored snapshot.
    """
    require_agreement(lab, snapshot)
    api, module = await _generation_and_module(snapshot)
    arguments = dict(env_args) if env_args is not None else check_args(snapshot.manifest)
    if api == "v1" and "id" in arguments:
        raise BadInput(
            f"id is no key of the taskset of {snapshot.name}: it names the package that is loaded",
            fix=f"Leave id out of {'env_args' if env_args is not None else 'check_args in pyproject.toml'}.",
            code="bad-argument",
        )
    interpreter = await lab.interpreters.for_package(snapshot.manifest.table, api=api, progress=progress)
    if progress is not None:
        await progress(f"loading {snapshot.name}: starts its process, imports the package and builds its tasks")
    # The key keeps processes that imported other files than the present ones from being used again.
    dependencies = await dependency_fingerprints(lab, interpreter, snapshot, api)
    interpreter = replace(interpreter, key=f"{interpreter.key}-{dependencies.preloaded}")
    source_key = f"{snapshot.source} {dependencies.digest}"
    open_worker = partial(
        lab.workers.open,
        await anyio.to_thread.run_sync(code_tree, snapshot),
        source_key,
        interpreter,
        api=api,
        module=module,
        env_args=arguments,
        data_key=snapshot.source,
    )
    async with AsyncExitStack() as stack:
        worker = await stack.enter_async_context(open_worker(variables=variables))
        try:
            loaded = await worker.load(timeout=LOAD_SECONDS)
        except LoadFailed as error:
            if variables or not error.lacks_openai_key:
                raise
            variables = no_judge_variables(lab.settings.allow_env)
            worker = await stack.enter_async_context(open_worker(variables=variables))
            loaded = await worker.load(timeout=LOAD_SECONDS)
        yield LoadedEnvironment(snapshot, api, interpreter, worker, loaded, arguments, variables, dependencies.by_name)
        await anyio.to_thread.run_sync(verify_snapshot, snapshot)


async def _generation_and_module(snapshot: Snapshot) -> tuple[Api, str]:
    next_step = (Next("check_environment", "says what is missing", {"environment": snapshot.relative}),)
    if snapshot.manifest.module is None:
        raise BadInput(
            f"pyproject.toml of {snapshot.name} names no project",
            fix=Fix("Add [project] with a name, then call ", NamedCall("check_environment"), "."),
            code="pyproject-invalid",
            next=next_step,
        )
    generation = await anyio.to_thread.run_sync(detect_generation, snapshot)
    if generation.api is None:
        raise BadInput(
            f"{snapshot.name} is neither a v1 nor a v0 environment: {generation.reasons[0]}",
            fix="Export a Taskset subclass in __all__ (v1), or define load_environment (v0).",
            code="unknown-generation",
            next=next_step,
        )
    return generation.api, snapshot.manifest.module
