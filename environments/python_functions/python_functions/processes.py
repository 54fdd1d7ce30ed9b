"""The processes of a reply's code: how they are started, and that none of them outlives the grading."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

Job = Mapping[str, Any]
_NOT_DUMPABLE, _SUBREAPER = 4, 36  # PR_SET_DUMPABLE and PR_SET_CHILD_SUBREAPER of Linux
_STARTED: list[subprocess.Popen[bytes]] = []


def start(source: str, way: str, job: Job, folder: str, fds: Sequence[int], **streams: Any) -> subprocess.Popen[bytes]:
    """A process for the reply's code, in an empty folder, with hardly any environment."""
    scratch = tempfile.mkdtemp(dir=folder)
    process = subprocess.Popen(
        [sys.executable, "-s", "-c", source, way, json.dumps(dict(job["limits"])), *map(str, fds)],
        cwd=scratch,
        env={
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": scratch,
            "TMPDIR": scratch,
            "LANG": "C.UTF-8",
            "PYTHONHASHSEED": "0",
            "OPENBLAS_NUM_THREADS": "1",
        },
        pass_fds=tuple(fds),
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **streams},
    )
    _STARTED.append(process)
    return process


def sweep() -> None:
    """Kill the processes of the reply's code, and on Linux what they started, which is adopted by this one."""
    while _STARTED:
        process = _STARTED.pop()
        process.kill()
        process.wait()
    deadline = time.monotonic() + 2
    while (children := _children()) and time.monotonic() < deadline:
        for child in children:
            try:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            except OSError:
                pass


def _children() -> list[int]:
    if sys.platform != "linux":
        return []
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parent = file.read().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found.append(int(name))
    return found


def shield() -> None:
    """On Linux: other processes of the same user cannot look into this one, and orphans of its children come to it."""
    if sys.platform == "linux":
        import ctypes

        library = ctypes.CDLL(None)
        library.prctl(_NOT_DUMPABLE, 0, 0, 0, 0)
        library.prctl(_SUBREAPER, 1, 0, 0, 0)
