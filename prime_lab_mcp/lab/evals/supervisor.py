"""The process of one evaluation job: relay, `vf-eval`, deadline, lease. Started detached; outlives the server.

`python -m prime_lab_mcp.lab.evals.supervisor JOBDIR`, with the endpoint's key in one inherited variable that is wiped
from this process's memory at once. Everything it learns goes to the job's row of the ledger.
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

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals import program
from prime_lab_mcp.lab.evals.attempt import LEASE, Attempt
from prime_lab_mcp.lab.evals.ending import Ending, cause_in
from prime_lab_mcp.lab.evals.spec import EvalSpec
from prime_lab_mcp.lab.ledger import Ledger
from prime_lab_mcp.lab.text import quote

UPSTREAM_KEY = "PRIME_LAB_UPSTREAM_KEY"
_NOT_DUMPABLE = 4


def main(argv: list[str]) -> int:
    """Run the job in the folder `argv[0]` to its end."""
    key = take_key()
    files = program.JobFiles(Path(argv[0]))
    told = json.loads(files.spec.read_text(encoding="utf-8"))
    ledger = Ledger(Path(told["ledger"]))
    try:
        anyio.run(_supervise, told, files, ledger, key)
    finally:
        ledger.close()
    return 0


def take_key() -> str | None:
    """The endpoint's key, removed from the environment and from what /proc shows of it."""
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


async def _supervise(told: Mapping[str, Any], files: program.JobFiles, ledger: Ledger, key: str | None) -> None:
    id = str(told["id"])
    spec = EvalSpec.from_json(told["spec"])
    job = Attempt(id, spec, files, ledger, float(told["deadline"]), tuple(told["allow_env"]))
    ledger.update_job(id, pid=os.getpid(), state="running", lease=time.time() + LEASE)
    try:
        ending = await job.run(key)
    except LabError as error:
        ending = Ending("crashed", error.message, error.code)
    except Exception as error:
        # The job's row is the only place where anyone will look.
        cause = cause_in("".join(traceback.format_exception(error)), files.root)
        ending = Ending("crashed", f"the supervisor failed: {type(error).__name__}: {quote(error)}", cause)
    job.finish(ending)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
