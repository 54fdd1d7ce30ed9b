"""Runs programs through the grader of the template code, in a folder instead of a runtime."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.templates.loading import modules

grading = modules("code", "grading")["grading"]
LIMITS = grading.Limits(cpu=1, wall=3)


class Folder:
    """What the grader uses of a runtime: a folder and processes in it."""

    type = "subprocess"

    def __init__(self, path: Path) -> None:
        self.path = path

    async def write(self, name: str, data: bytes) -> None:
        (self.path / name).write_bytes(data)

    async def run(self, argv: list[str], env: dict[str, str]) -> SimpleNamespace:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return SimpleNamespace(stdout=out.decode(), stderr=err.decode())


async def passes(folder: Path, code: str, limits: Any = LIMITS, **tests: Any) -> bool:
    return await grading.passes(code, grading.Tests(**tests), Folder(folder), limits)


ADD = {"tests": "assert add(1, 2) == 3\nassert add(2, 2) == 4", "names": ["add"]}
RIGHT = "def add(a, b):\n    return a + b"
