"""The supervisor of one evaluation job: a detached process that runs the relay and `vf-eval`, and outlives the server.

Run as `python -m prime_lab_mcp.lab.evals.runner.supervisor JOBDIR`. The environment variable `UPSTREAM_KEY` holds the
endpoint's key; the supervisor reads it and wipes it from its memory at once. The supervisor writes its progress and the
outcome to the job's row in the ledger.
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

_NOT_DUMPABLE = 4
"""PR_SET_DUMPABLE of prctl(2)."""


def main(argv: list[str]) -> int:
    """Run the evaluation whose job folder is `argv[0]` until it ends."""
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
    """Return the endpoint's key, and remove it from the environment variables and from /proc."""
    key = os.environ.pop(command.UPSTREAM_KEY, None)
    if sys.platform == "linux":
        _wipe_initial_environment(command.UPSTREAM_KEY)
        # Other processes of the same user cannot read the memory of a process that is not dumpable.
        ctypes.CDLL(None).prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
    return key or None


def _wipe_initial_environment(name: str) -> None:
    """Overwrite the variable in the environment block on the stack, which /proc/PID/environ shows.

    `unsetenv` only removes the pointer to the variable.
    """
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
        # Users see an error of the supervisor only in the job's row.
        cause = cause_of_errors("".join(traceback.format_exception(error)), files.root)
        ending = AttemptEnding("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}", cause)
    job.finish(ending)
    cost = job.progress().get("cost")
    if cost is not None:
        ledger.correct(id, description["platform"], float(cost))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
