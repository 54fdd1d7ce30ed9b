"""Runs one program and leaves nothing of it behind, however this process or the one above it ends.

`vf-eval` puts tool servers and harness programs into sessions of their own, so killing its process group is not enough.
The guard adopts what they orphan, and ends everything when its standard input closes, which it also does when the
supervisor is killed. Its working half leaves the group that `lab/process.py` kills, in order to outlive that moment.
As long as it lives it holds a lock, so that a job which is resumed at once does not write beside what still ends.
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

from prime_lab_mcp.lab.worker import supervisor

GRACE = 6.0
"""Seconds that `vf-eval` gets to close its own servers and containers."""
_TICK = 0.2
_BUSY = 75
"""EX_TEMPFAIL of sysexits.h."""


def main(argv: list[str]) -> int:
    """Run `argv[1:]` while holding the lock `argv[0]`; the value is its exit code, 128 + N when signal N ended it."""
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


def take(lock: Path) -> int | None:
    """A descriptor that holds the lock until it is closed; None while another process holds it."""
    held = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        return None
    return held


def _guard(argv: list[str]) -> int:
    if take(Path(argv[0])) is None:
        return _BUSY
    supervisor.adopt_orphans()
    # Nothing but the closing of its input tells the guard to end.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    program = _start(argv[1:])
    status: int | None = None
    asked = 0.0
    while status is None:
        ended, found = os.waitpid(program, os.WNOHANG)
        if ended:
            status = found
        elif asked and time.monotonic() > asked + GRACE:
            break
        elif asked:
            time.sleep(_TICK / 4)
        elif select.select([0], [], [], _TICK)[0] and not os.read(0, 1):
            asked = time.monotonic()
            with suppress(ProcessLookupError):
                os.kill(program, signal.SIGTERM)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(program, signal.SIGKILL)
    supervisor.kill_descendants()
    return _code(os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL)


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
