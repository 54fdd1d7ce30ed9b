"""The process of one evaluation job: relay, `vf-eval`, deadline and lease. It is detached and outlives the server.

Run as `python -m prime_lab_mcp.lab.evals.runner.supervisor JOBDIR`. One inherited variable holds the endpoint's key and
is wiped from this process's memory at once. The supervisor writes its progress and the outcome to the job's row in the
ledger.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.runner import command
from prime_lab_mcp.lab.evals.runner.attempt import LEASE, JobAttempt
from prime_lab_mcp.lab.evals.runner.endings import AttemptEnding, cause_of_errors
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.state.ledger.ledger import Ledger

UPSTREAM_KEY = "PRIME_LAB_UPSTREAM_KEY"
_NOT_DUMPABLE = 4


def main(argv: list[str]) -> int:
    """Run the job in the folder `argv[0]` to its end."""
    key = take_key()
    files = command.JobFiles(Path(argv[0]))
    description = json.loads(files.spec.read_text(encoding="utf-8"))
    ledger = Ledger(Path(description["ledger"]))
    try:
        anyio.run(_supervise, description, files, ledger, key)
    finally:
        ledger.close()
    return 0


def take_key() -> str | None:
    """Return the endpoint's key and remove the key from the environment and from /proc."""
    key = os.environ.pop(UPSTREAM_KEY, None)
    if sys.platform == "linux":
        _wipe_initial_environment(UPSTREAM_KEY)
        # Processes of the same user cannot read the memory of a process that may not be dumped.
        ctypes.CDLL(None).prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
    return key or None


def _wipe_initial_environment(name: str) -> None:
    """Overwrite the variable in the block that the kernel copied to the stack: `unsetenv` only drops the pointer."""
    try:
        block = Path("/proc/self/environ").read_bytes()
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        start = int(fields[47])  # env_start, field 50 of proc(5)
    except (OSError, ValueError, IndexError):
        return
    at = block.find(f"{name}=".encode())
    if start and at >= 0:
        end = block.find(b"\0", at)
        ctypes.memset(start + at, 0, (end if end > at else len(block)) - at)


async def _supervise(description: Mapping[str, Any], files: command.JobFiles, ledger: Ledger, key: str | None) -> None:
    id = str(description["id"])
    spec = EvalSpec.from_json(description["spec"])
    job = JobAttempt(id, spec, files, ledger, float(description["deadline"]), tuple(description["allow_env"]))
    ledger.update_job(id, pid=os.getpid(), state="running", lease=time.time() + LEASE)
    try:
        ending = await job.run(key)
    except LabError as error:
        ending = AttemptEnding("crashed", error.message, error.code)
    except Exception as error:
        # The job's row is the only place where a user sees the error.
        cause = cause_of_errors("".join(traceback.format_exception(error)), files.root)
        ending = AttemptEnding("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}", cause)
    job.finish(ending)
    cost = job.progress().get("cost")
    if cost is not None:
        ledger.correct(id, description["platform"], float(cost))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
