"""Identifies the process that holds a claim, and tells whether that process still runs.

A process is identified by its number, its start time and its machine (boot and process namespace), so that a
number that the system has given to another process, or a process of another machine or container, is not mistaken
for it.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import struct
import sys
from functools import lru_cache
from pathlib import Path

from prime_lab_mcp.lab.base.process import is_alive

_PROCESS = secrets.token_hex(4)
_BSD_INFO, _BSD_INFO_SIZE, _START_OFFSET = 3, 136, 120
"""`PROC_PIDTBSDINFO` of <sys/proc_info.h>, the size of `proc_bsdinfo`, and the offset of the start time in it."""


def new_holder() -> str:
    """Return a new holder name for this process. Each call returns a different name."""
    own = os.getpid()
    # Releases before this form read the number before the first hyphen, and may share the ledger.
    return f"{own}-{_PROCESS}-{secrets.token_hex(4)}@{_start_of(own) or ''}@{_machine() or ''}"


def lives(holder: str) -> bool | None:
    """True if the process of a holder runs, False if it does not, None if that is unknown.

    The answer is unknown for a process of another machine or container, and for a name in the form of older releases.
    """
    name, _, rest = holder.partition("@")
    start, _, machine = rest.partition("@")
    number, _, token = name.partition("-")
    if token.partition("-")[0] == _PROCESS:
        return True
    if not number.isdigit() or not start or not machine or machine != _machine():
        return None
    if int(number) == os.getpid() or not is_alive(int(number)):
        return False
    now = _start_of(int(number))
    return None if now is None else now == start


@lru_cache(maxsize=1)
def _machine() -> str | None:
    """Id of this machine's boot and of its process namespace; None if the system provides none."""
    try:
        if sys.platform == "darwin":
            return _mac_boot()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, ValueError, AttributeError):
        return None


def _start_of(pid: int) -> str | None:
    """Start time of a process in the system's own unit; None if the system does not provide it."""
    try:
        if sys.platform == "darwin":
            return _mac_start(pid)
        # The program's name stands in parentheses and may itself hold spaces and parentheses.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _mac_boot() -> str | None:
    text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    return None if failed else text.value.decode("ascii") or None


def _mac_start(pid: int) -> str | None:
    info = ctypes.create_string_buffer(_BSD_INFO_SIZE)
    filled = ctypes.CDLL(None).proc_pidinfo(pid, _BSD_INFO, ctypes.c_uint64(0), info, _BSD_INFO_SIZE)
    if filled != _BSD_INFO_SIZE:
        return None
    seconds, microseconds = struct.unpack_from("=QQ", info.raw, _START_OFFSET)
    return f"{seconds}.{microseconds:06d}"
