"""What is said of a process of environment code that was stopped, ended itself or said too much."""

from __future__ import annotations

from prime_lab_mcp.lab.errors import WorkerError
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.lab.worker.zygote import Ended

SIGKILL = 9
PROBLEMS = {
    "worker-timeout": "timeout",
    "worker-exited": "exited",
    "worker-flood": "flood",
    "worker-memory": "memory",
    "worker-nonsense": "nonsense",
}


def timed_out(doing: str, limit: float, output: str) -> WorkerError:
    said = f"; its last output: {quote(output[-300:])}" if output.strip() else ""
    return WorkerError(
        f"the environment did not end {doing} within {limit:g} seconds and was stopped{said}",
        fix="Look for a loop, a wait for input or a download in the environment's code; then call check_environment.",
        code="worker-timeout",
    )


def flooded(doing: str, output: str) -> WorkerError:
    said = f": {quote(output[-100:])}" if output.strip() else ""
    return WorkerError(
        f"the environment wrote far too much output while {doing} and was stopped{said}",
        fix="Remove what it prints or returns in bulk; then call check_environment.",
        code="worker-flood",
    )


def out_of_memory(doing: str) -> WorkerError:
    return WorkerError(
        f"the environment was out of memory while {doing} (4 GiB more than verifiers itself are allowed)",
        fix="Load the data lazily or in smaller parts; then call check_environment.",
        code="worker-memory",
    )


def exited(doing: str, ended: Ended) -> WorkerError:
    how = f"with signal {ended.signal}" if ended.signal is not None else f"with exit code {ended.code}"
    if ended.signal is None and ended.code is None:
        how = "leaving no exit code"
    said = f"; its last output: {quote(ended.output[-300:])}" if ended.output.strip() else ""
    return WorkerError(
        f"the environment ended its own process while {doing}, {how}{said}",
        fix="Remove the call that ends the process or the crash in native code; then call check_environment.",
        code="worker-exited",
    )
