"""A hostile environment: while it loads, it tries what the given attempts say, and its tasks say what came of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.worker.pool import Workers

_MODULE = """
import ctypes, json, mmap, os, resource, signal, socket, sqlite3, subprocess, sys, time
import verifiers.v1 as vf

ATTEMPTS = json.loads({attempts!r})
LIBC = ctypes.CDLL(None, use_errno=True)

def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

def outcome(code):
    try:
        scope = dict(globals())
        exec(code, scope)
        return "done: " + str(scope.get("found", ""))[:200]
    except BaseException as error:
        return f"{{type(error).__name__}}: {{error}}"[:200]

class Data(vf.TaskData):
    outcome: str

class HostileTask(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return 0.0

class HostileTaskset(vf.Taskset[HostileTask]):
    def load(self):
        for name, code in ATTEMPTS.items():
            yield HostileTask(Data(prompt=name, outcome=outcome(code)), self.config.task)

__all__ = ["HostileTaskset"]
"""


def write_hostile(folder: Path, attempts: Mapping[str, str]) -> Path:
    """Write the module `hostile` that tries every attempt (a name and Python code) while it loads."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "hostile.py").write_text(_MODULE.format(attempts=json.dumps(dict(attempts))), encoding="utf-8")
    return folder


async def outcomes(workers: Workers, folder: Path, attempts: Mapping[str, str]) -> dict[str, str]:
    """What came of every attempt in a worker: `done: ...`, or the exception."""
    tree = write_hostile(folder, attempts)
    own = Interpreter(Path(sys.executable), "0.4.0", "own")
    async with workers.open(tree, str(tree), own, api="v1", module="hostile") as worker:
        found = await worker.rows(limit=len(attempts), timeout=90)
        await worker.close()
    return {str(row.prompt[0]["content"]): str(row.fields["outcome"]) for row in found.rows}
