"""Reads how far the kernel of this machine can confine environment code, by area: files, processes and network.

If files or processes are not fully confined, the report of every step that runs environment code has a warning
(`unconfined_finding`).
"""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from functools import cache
from typing import Literal

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.sandbox import confine

Protection = Literal["confined", "partly", "open"]


@dataclass(frozen=True, slots=True)
class KernelSupport:
    """The kernel's layers of confinement, the protection of each area, and the remaining gaps."""

    layers: tuple[str, ...]
    landlock: int
    """The version of Landlock's interface; 0 without Landlock."""
    files: Protection
    processes: Protection
    network: Protection
    remains: tuple[str, ...]
    """The actions that environment code can still take, one clause for each gap."""

    @property
    def complete(self) -> bool:
        """True if environment code cannot reach files and processes outside its own."""
        return self.files == self.processes == "confined"


def present_support() -> KernelSupport:
    """The confinement that this machine supports. The result is cached for the process."""
    return _read_kernel_support()


@cache
def _read_kernel_support() -> KernelSupport:
    if sys.platform == "linux":
        return linux_support(confine.landlock_abi(), confine.has_seccomp())
    if sys.platform == "darwin" and confine.profile_denies():
        remains = ("it connects to any host on the allowed ports", "it may use services of macOS that open files")
        return KernelSupport(("profile",), 0, "partly", "confined", "partly", remains)
    return linux_support(0, False)


def linux_support(landlock: int, seccomp: bool) -> KernelSupport:
    """The support of a Linux kernel with this version of Landlock's interface, with or without seccomp filters."""
    layers = (*(("landlock",) if landlock else ()), *(("seccomp",) if seccomp else ()))
    remains = []
    if not landlock:
        remains.append("it reads and writes every file of the user, and traces and signals the user's processes")
    elif landlock < 3:
        remains.append("it can empty files that it cannot read (Landlock before ABI 3)")
    if 0 < landlock < 6:
        remains.append("it can signal the user's processes and reach abstract Unix sockets (Landlock before ABI 6)")
    if not seccomp:
        remains.append("it opens UDP, raw and Unix sockets, and its limits can be changed (no seccomp filter)")
    if landlock < 4:
        remains.append("it connects to every TCP port (no rules for ports)")
    else:
        remains.append("it connects to any host on TCP ports 53, 80, 443 and those of short-lived servers")
    files: Protection = "open" if not landlock else "confined" if landlock >= 3 else "partly"
    processes: Protection = "confined" if landlock >= 6 and seccomp else "partly" if landlock else "open"
    network: Protection = "partly" if landlock >= 4 and seccomp else "open"
    return KernelSupport(layers, landlock, files, processes, network, tuple(remains))


def unconfined_finding(support: KernelSupport) -> Finding | None:
    """The warning that environment code ran without full confinement of files and processes, or None."""
    if support.complete:
        return None
    areas = (("files", support.files), ("processes", support.processes))
    open_areas = [f"{area} {protection}" for area, protection in areas if protection != "confined"]
    note = " (code pulled from another owner runs only after the user agreed)" if support.files == "open" else ""
    return Finding(
        "unconfined",
        "warning",
        f"this kernel does not confine environment code fully ({', '.join(open_areas)}): {'; '.join(support.remains)}",
        f"Run only code that you trust{note}, or run prime-lab-mcp on Linux 6.12 or newer, where Landlock and seccomp "
        f"are not forbidden (here: {platform.system()} {platform.release()}).",
    )
