"""The supervisor of one child that runs environment code. It leaves no process of the child behind.

The supervisor reads the child's output, keeps the last part of it, and adopts orphaned processes. It kills the whole
process tree when the child ends, writes too much output, or when the server closes the control socket. Then it reports
how the child ended. This module runs in the environment's interpreter and imports only the standard library.
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
"""Bytes on standard output and error after which a child is killed."""
MOST_PROCESSES = 256
"""Number of concurrent descendants after which a child is killed. The kernel's limit for processes (RLIMIT_NPROC,
getrlimit(2)) does not apply to root."""
_TAIL_BYTES = 8192
_TICK_SECONDS = 0.1
_STARTS_PER_COUNT = 64
_KILL_SECONDS = 5.0
_SUBREAPER, _DEATH_SIGNAL = 36, 1
_LINUX = sys.platform == "linux"


def adopt_orphans() -> None:
    """Make orphaned descendants children of this process.

    Works on Linux; elsewhere only the process group is killed.
    """
    if _LINUX:
        ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent ends (Linux). Exit at once if the parent has already ended."""
    if _LINUX:
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(71)


def descendants(spare: Collection[int] = ()) -> list[int]:
    """Return all descendants of this process, without the processes in `spare` and theirs. Empty except on Linux."""
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
    """Kill and reap all descendants of this process. Repeats, because a process may fork just before it is killed."""
    if not _LINUX:
        return
    deadline = time.monotonic() + _KILL_SECONDS
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
    """Checks whether this process has too many descendants.

    Counting descendants reads all of /proc. They are counted only after the machine has started many processes since
    the last count, which the last field of /proc/loadavg shows (proc(5)).
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counted_at = self._last_started()

    def exceeded(self) -> bool:
        """Return whether more than the allowed number are running. Always False without /proc."""
        started = self._last_started()
        if 0 <= started - self._counted_at < _STARTS_PER_COUNT:
            return False
        self._counted_at = started
        if len(descendants()) <= self._most:
            return False
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, -15)  # So that processes are killed faster than they start.
        return True

    @staticmethod
    def _last_started() -> int:
        try:
            with open("/proc/loadavg", encoding="ascii") as load:
                return int(load.read().split()[-1])
        except (OSError, ValueError, IndexError):
            return 0


def supervise(*, channel: int, control: int, serve: Callable[[int], int], keep: Collection[int] = ()) -> None:
    """Fork the child, supervise it until it ends, and report its end on the control socket.

    The child calls `serve` with the descriptor `channel` and exits with the returned code. It also inherits the
    descriptors in `keep`.
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
    """Supervise a forked child until it ends, and report its end on the control socket.

    `output` is the descriptor of the pipe from which the child's output is read.
    """
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
        readable, _, _ = select.select(sources, [], [], 0.0 if ended else _TICK_SECONDS)
        if output in readable:
            chunk = os.read(output, 65536)
            tail, written = (tail + chunk)[-_TAIL_BYTES:], written + len(chunk)
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
