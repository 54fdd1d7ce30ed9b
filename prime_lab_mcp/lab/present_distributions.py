"""Reads the distributions that would run an environment now, without loading the environment.

Evidence holds only as long as they are those that it was reached with (`state/dependency_drift`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import overload

import anyio

from prime_lab_mcp.lab.distributions import DependencyFingerprints, read_fingerprints
from prime_lab_mcp.lab.interpreter import Interpreter, interpreter_requirements
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.state.source_code import Api, detect_generation


@overload
async def present_distributions(lab: Lab, snapshot: Snapshot) -> dict[str, str]: ...
@overload
async def present_distributions(
    lab: Lab, snapshot: Snapshot, *, build: bool, keep_seconds: float = 0.0
) -> dict[str, str] | None: ...
async def present_distributions(
    lab: Lab, snapshot: Snapshot, *, build: bool = True, keep_seconds: float = 0.0
) -> dict[str, str] | None:
    """Read the fingerprints of the distributions that would run the snapshot's environment now.

    Fingerprints that were read in the last `keep_seconds` are used again. A missing interpreter is built again; with
    `build=False`, the result is None instead. Raises InterpreterError.
    """
    api = (await anyio.to_thread.run_sync(detect_generation, snapshot)).api
    if build:
        interpreter = await lab.interpreters.for_package(snapshot.manifest.table, api=api)
    else:
        present = await lab.interpreters.present(snapshot.manifest.table, api=api)
        if present is None:
            return None
        interpreter = present
    return dict((await dependency_fingerprints(lab, interpreter, snapshot, api, keep_seconds)).by_name)


_KEEP_SECONDS = 30.0
"""Seconds for which fingerprints are reused when environments are loaded. Reading those of verifiers takes a fifth of a
second. The gates do not use this cache."""


class _ReadFingerprints:
    """A cache of fingerprints by interpreter and requirements, with the time of reading."""

    def __init__(self) -> None:
        self.by_key: dict[tuple[Path, tuple[str, ...]], tuple[float, DependencyFingerprints]] = {}


async def dependency_fingerprints(
    lab: Lab, interpreter: Interpreter, snapshot: Snapshot, api: Api | None, keep_seconds: float = _KEEP_SECONDS
) -> DependencyFingerprints:
    """Read the fingerprints of the distributions that an environment requires, with those of start-up files.

    Fingerprints that were read in the last `keep_seconds` are used again.
    """
    wanted = interpreter_requirements(snapshot.manifest.table, api)
    key = (interpreter.python, tuple(sorted(map(str, wanted))))
    fingerprints = lab.memory(_ReadFingerprints).by_key
    known = fingerprints.get(key)
    if known is not None and time.monotonic() - known[0] < keep_seconds:
        return known[1]
    read = await anyio.to_thread.run_sync(read_fingerprints, interpreter.python, wanted)
    fingerprints[key] = (time.monotonic(), read)
    return read
