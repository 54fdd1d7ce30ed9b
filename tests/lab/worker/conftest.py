"""Environments written by the tests, one pool of workers for a whole module, and a look at what is left running."""

from __future__ import annotations

import itertools
import os
import sys
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import Api, Interpreter
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.pool import Workers
from prime_lab_mcp.lab.worker.scoring import Case

V1 = """
import os, sys, time, math, asyncio, signal, subprocess, threading
import verifiers.v1 as vf
{top}
class Data(vf.TaskData):
    answer: str

class SampleTask(vf.Task[Data]):
    @vf.reward(weight=2.0)
    async def correct(self, trace: vf.Trace) -> float:
        {reward}
        return float(trace.last_reply == self.data.answer)

class Config(vf.TasksetConfig):
    count: int = 5

class SampleTaskset(vf.Taskset[SampleTask, Config]):
    def load(self):
        {load}
        for i in range(self.config.count):
            yield SampleTask(Data(prompt=f"{{i}} + {{i}}?", system_prompt="Only the number.", answer=str(2 * i)),
                             self.config.task)

__all__ = ["SampleTaskset"]
"""


def own_interpreter() -> Interpreter:
    """The interpreter of the tests; warm in the modules whose programs are."""
    return Interpreter(Path(sys.executable), "0.4.0", "own")


Opened = Callable[..., AbstractAsyncContextManager[Worker]]
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def workers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workers]:
    root = tmp_path_factory.mktemp("lab")
    pool = Workers(Settings(workspace=root, state_dir=root / "state"))
    yield pool
    await pool.close()


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a v1 environment `sample` from the given pieces, or from a whole module."""
    number = itertools.count()

    def written(whole: str | None = None, *, top: str = "", reward: str = "pass", load: str = "pass") -> Path:
        tree = tmp_path / f"tree{next(number)}"
        tree.mkdir()
        pieces = {
            "top": textwrap.dedent(top),
            "reward": textwrap.indent(textwrap.dedent(reward).strip(), " " * 8).strip(),
            "load": textwrap.indent(textwrap.dedent(load).strip(), " " * 8).strip(),
        }
        code = V1.format(**pieces) if whole is None else textwrap.dedent(whole)
        (tree / "sample.py").write_text(code, encoding="utf-8")
        return tree

    return written


@pytest.fixture
def opened(workers: Workers) -> Opened:
    """Open a worker for a tree that `write` made."""

    def open_(
        tree: Path,
        *,
        interpreter: Interpreter | None = None,
        api: Api = "v1",
        module: str = "sample",
        env_args: Mapping[str, Any] | None = None,
    ) -> AbstractAsyncContextManager[Worker]:
        chosen = interpreter or own_interpreter()
        return workers.open(tree, str(tree), chosen, api=api, module=module, env_args=env_args)

    return open_


def said(row: int, text: str | None, name: str = "case") -> Case:
    """A case with one assistant message, or none."""
    return Case(name, row, [] if text is None else [{"role": "assistant", "content": text}])


def running(mark: str) -> list[int]:
    """Processes with this text in their command line or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
                state = (entry / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark.encode() in told and state != "Z":
                found.append(int(entry.name))
    return found
