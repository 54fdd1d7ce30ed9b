"""Supervises one child that runs environment code, and leaves no process behind.

The supervisor drains the child's output (and keeps the newest part), adopts orphans, kills the whole process tree when
the child ends or floods or when the server's end of the control socket closes, and then reports the child's end.
Standard library only; runs in the environment's interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Collection

OUTPUT = 64 * 1024 * 1024
"""Bytes on standard output and error after which a child is stopped as flooding."""
MOST_PROCESSES = 256
"""Processes below a child that run at the same time, after which the child is stopped. The kernel's own limit
(RLIMIT_NPROC, getrlimit(2)) does not hold for root."""
_TAIL = 8192
_TICK = 0.1
_FEW = 64
_CLEAN = 5.0
_SUBREAPER, _DEATH_SIGNAL = 36, 1
_LINUX = sys.platform == "linux"


def adopt_orphans() -> None:
    """Processes orphaned below this one become its children (Linux; elsewhere only the process group is killed)."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """SIGKILL for this process when its parent ends."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(71)


def descendants(spare: Collection[int] = ()) -> list[int]:
    """Every process below this one, except the trees in `spare`. Empty where there is no /proc."""
    if not _LINUX:
        return []
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{entry}/stat", "rb") as stat:
                parent = int(stat.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry))
    below: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        for pid in children.get(waiting.pop(), ()):
            if pid not in spare:
                below.append(pid)
                waiting.append(pid)
    return below


def kill_descendants(spare: Collection[int] = ()) -> None:
    """Kill and collect every process below this one. Repeats, since what is killed may just have forked."""
    if not _LINUX:
        return
    deadline = time.monotonic() + _CLEAN
    while time.monotonic() < deadline:
        living = descendants(spare)
        for pid in living:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not living:
            return
        time.sleep(0.005)


class ProcessBound:
    """Notices when too many processes run below this one. Counting them reads all of /proc, so they are counted only
    after the machine has started many processes since the last count (the last field of /proc/loadavg, proc(5)).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted_at = self._last_started()

    def exceeded(self) -> bool:
        """Whether more than the allowed number run now. Always False where there is no /proc."""
        started = self._last_started()
        if 0 <= started - self._counted_at < _FEW:
            return False
        self._counted_at = started
        if len(descendants()) <= self._most:
            return False
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)  # in order to end them faster than they start, where permitted
        return True

    @staticmethod
    def _last_started() -> int:
        try:
            with open("/proc/loadavg", encoding="ascii") as load:
                return int(load.read().split()[-1])
        except (OSError, ValueError, IndexError):
            return 0


def supervise(*, channel: int, control: int, serve: Callable[[int], int], keep: Collection[int] = ()) -> None:
    """Fork the child, watch it to its end, report on the control socket.

    The child runs `serve` with the descriptor `channel`; its value is the exit code. It inherits the descriptors in
    `keep` as well.
    """
    os.setsid()
    read, write = os.pipe()
    parent = os.getpid()
    adopt_orphans()
    pid = os.fork()
    if pid == 0:
        _become_child(parent, channel, write, serve, keep)
    os.close(channel)
    os.close(write)
    supervise_child(pid, control=control, output=read)


def supervise_child(pid: int, *, control: int, output: int) -> None:
    """Watch a child whose output comes through the pipe `output` to its end, and report on the control socket."""
    adopt_orphans()
    wake_read, wake_write = socket.socketpair()
    wake_write.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
    report = _until_end(pid, control, output, wake_read.fileno())
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)
    kill_descendants()
    with contextlib.suppress(OSError):
        socket.socket(fileno=control).sendall(json.dumps(report).encode() + b"\n")


def _become_child(parent: int, channel: int, output: int, serve: Callable[[int], int], keep: Collection[int]) -> None:
    code = 72
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setpgid(0, 0)
        die_with_parent(parent)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for entry in os.listdir("/dev/fd"):
            if int(entry) not in (0, 1, 2, channel, *keep):
                with contextlib.suppress(OSError):
                    os.close(int(entry))
        code = serve(channel)
    finally:
        os._exit(code)


def _until_end(pid: int, control: int, output: int, wake: int) -> dict[str, object]:
    tail, written = b"", 0
    bound, too_many = ProcessBound(MOST_PROCESSES), False
    sources = [control, output, wake]
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        readable, _, _ = select.select(sources, [], [], 0.0 if ended else _TICK)
        if output in readable:
            chunk = os.read(output, 65536)
            tail, written = (tail + chunk)[-_TAIL:], written + len(chunk)
            if not chunk:
                sources.remove(output)
        if wake in readable:
            os.read(wake, 4096)
        if ended or written > OUTPUT or control in readable:
            break
        if bound.exceeded():
            too_many = True
            tail += f"\nstopped, because it ran more than {MOST_PROCESSES} processes at the same time".encode()
            break
    if not ended:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status) if ended else None
    return {
        "code": code if code is None or code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "flood": written > OUTPUT and not too_many,
        "output": tail.decode("utf-8", "replace"),
    }
