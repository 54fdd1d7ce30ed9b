"""A program that runs `vf-eval` and ends all its descendants, even if the supervisor of the job is killed.

`vf-eval` puts tool servers and harness programs into sessions of their own, so killing its process group is not enough.
The guard adopts orphaned descendants. When its standard input closes, the guard ends all of them. That also happens
when the supervisor dies.

The guard consists of two processes. The second leaves the process group that `lab/base/process.py` kills, so it
survives that kill and can clean up. It holds a lock while it lives, so that a resumed job waits for the end of the
previous attempt.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from prime_lab_mcp.lab.sandbox.confine import not_dumpable
from prime_lab_mcp.lab.worker.child import supervisor

GRACE_SECONDS = 6.0
"""Seconds that `vf-eval` has to close its servers and containers before it is killed."""
MOST_PROCESSES = 2048
"""Most processes of one evaluation at the same time. Harnesses and tool servers start several for each rollout."""
_TICK = 0.2
_BUSY = 75
"""EX_TEMPFAIL of sysexits.h."""


def main(argv: list[str]) -> int:
    """Run the command `argv[1:]` while holding a lock on the file `argv[0]`.

    Returns the exit code of the command, or 128 + N if signal N ended it.
    """
    not_dumpable()
    worker = os.fork()
    if worker == 0:
        os.setsid()
        code = 70
        try:
            code = _guard(argv)
        finally:
            os._exit(code)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _, status = os.waitpid(worker, 0)
    return _code(os.waitstatus_to_exitcode(status))


def take_lock(lock: Path) -> int | None:
    """Lock the file and return its descriptor, which holds the lock until it is closed.

    Returns None if another process holds the lock.
    """
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _guard(argv: list[str]) -> int:
    if take_lock(Path(argv[0])) is None:
        return _BUSY
    supervisor.adopt_orphans()
    # The guard ignores signals. It ends when its standard input closes or its program ends.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    program = _start(argv[1:])
    status: int | None = None
    terminated_at = 0.0
    bound = supervisor.ProcessBound(MOST_PROCESSES)
    while status is None:
        ended, wait_status = os.waitpid(program, os.WNOHANG)
        if ended:
            status = wait_status
        elif bound.exceeded():
            sys.stderr.write(f"stopped, because it ran more than {MOST_PROCESSES} processes at the same time\n")
            break
        elif terminated_at and time.monotonic() > terminated_at + GRACE_SECONDS:
            break
        elif terminated_at:
            time.sleep(_TICK / 4)
        elif select.select([0], [], [], _TICK)[0] and not os.read(0, 1):
            terminated_at = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(program, signal.SIGTERM)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    supervisor.kill_descendants()
    if status is None:
        return _code(-signal.SIGKILL) if terminated_at else 1
    return _code(os.waitstatus_to_exitcode(status))


def _start(argv: list[str]) -> int:
    parent = os.getpid()
    program = os.fork()
    if program == 0:
        code = 127
        try:
            os.setsid()
            supervisor.die_with_parent(parent)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
                signal.signal(number, signal.SIG_DFL)
            os.execvp(argv[0], argv)
        finally:
            os._exit(code)
    return program


def _code(returned: int) -> int:
    return returned if returned >= 0 else 128 - returned


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
