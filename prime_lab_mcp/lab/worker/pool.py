"""The pool of workers. Each worker has loaded one environment snapshot.

The first call for a snapshot forks a child from the zygote of the snapshot's interpreter and loads the environment
there. Later calls for the same snapshot reuse that child.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.interpreter import Api, Interpreter
from prime_lab_mcp.lab.sandbox import confine
from prime_lab_mcp.lab.sandbox.caches import DataCache, data_cache, interpreter_caches
from prime_lab_mcp.lab.sandbox.kernel_support import present_support
from prime_lab_mcp.lab.sandbox.policy import LIBRARIES, Confinement, certificate_paths, python_paths
from prime_lab_mcp.lab.worker.host import SiblingWorkers, Worker
from prime_lab_mcp.lab.worker.zygote import Zygote

CHILD = Path(__file__).parent / "child"
_MOST_IDLE = 4
"""Most workers that stay alive while no call uses them."""
_MOST_ZYGOTES = 4
OTHER_SEEDS = (20_011, 20_013)
"""PYTHONHASHSEED of the other processes in which rewards are compared. Other workers have a random seed. A reward that
depends on the order of a set, and is different in these two, differs from the first process in at least one of them."""


class Workers:
    """The pool of workers and zygotes of a lab. `close` ends all their processes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._scratch = settings.state_dir / "scratch"
        self._zygotes: OrderedDict[tuple[str, Api, int | None, Confinement | None], Zygote] = OrderedDict()
        self._idle: OrderedDict[int, Worker] = OrderedDict()
        self._open: set[Worker] = set()
        self._closed = False

    @asynccontextmanager
    async def open(
        self,
        tree: Path,
        source_key: str,
        interpreter: Interpreter,
        *,
        api: Api,
        module: str,
        env_args: Mapping[str, Any] | None = None,
        hidden: Sequence[str] = (),
        hash_seed: int | None = None,
        variables: Mapping[str, str] | None = None,
        data_key: str | None = None,
    ) -> AsyncIterator[Worker]:
        """Open a worker for the snapshot in `tree`. After the block, the worker stays loaded for the next call.

        No process starts before the first request to the worker. `env_args` are arguments of `load_environment` (v0) or
        fields of the taskset's config (v1). `hidden` are top-level modules that the environment must not import.
        `hash_seed` is PYTHONHASHSEED. `variables` are set only for the environment's code; a worker with variables ends
        with the block. Workers with the same `data_key` (default: `source_key`) share a cache of downloaded data.
        """
        key = json.dumps(
            [interpreter.key, str(tree), source_key, api, module, dict(env_args or {}), sorted(hidden), hash_seed],
            default=str,  # Keys are not sorted: code can read the order of the arguments' tables.
        )
        idle = None if variables else self._reuse(key)
        worker = idle
        if worker is None:
            cache, confinement = await self._confinement(tree, interpreter, module, data_key or source_key)
            zygote = self._zygote(interpreter, api, hash_seed, self._zygote_confinement(tree, interpreter, confinement))
            worker = Worker(zygote, key, tree, api, module, dict(env_args or {}), hidden, variables)
            worker.cache, worker.confinement = cache, confinement
        around = self._zygote_confinement(tree, interpreter, worker.confinement)
        self._zygote(interpreter, api, hash_seed, around)
        worker.siblings = SiblingWorkers(
            partial(
                self.open,
                tree,
                source_key,
                interpreter,
                api=api,
                module=module,
                env_args=env_args,
                hidden=hidden,
                variables=variables,
                data_key=data_key,
            ),
            lambda: self._zygote(interpreter, api, OTHER_SEEDS[0], around).start(),
        )
        self._open.add(worker)
        try:
            yield worker
        except BaseException:
            await worker.close()
            raise
        finally:
            self._open.discard(worker)
        if variables:
            await worker.close()
        else:
            await self._keep(worker)

    async def _confinement(
        self, tree: Path, interpreter: Interpreter, module: str, data_key: str
    ) -> tuple[DataCache, Confinement | None]:
        """Return the data cache of an environment and the confinement of its code."""
        root = self._settings.state_dir
        workspace = str(self._settings.workspace.resolve())
        cache = await anyio.to_thread.run_sync(data_cache, root, workspace, module, data_key, interpreter.python)
        if not present_support().layers:
            return cache, None
        python = await anyio.to_thread.run_sync(python_paths, interpreter.python)
        read = (tree, *python, CHILD, LIBRARIES, *cache.users, *certificate_paths())
        return cache, Confinement(read, (cache.root,), hidden=(root,), memory_bytes=0)

    def _zygote_confinement(
        self, tree: Path, interpreter: Interpreter, confinement: Confinement | None
    ) -> Confinement | None:
        """Return the confinement of a zygote whose packages an environment has chosen.

        It permits everything that any child of the zygote may access. The result is None for the server's own packages,
        for a tree outside of the state directory (tools open no such tree), and on macOS, where a confined process
        cannot be confined further.
        """
        state = self._settings.state_dir
        if confinement is None or interpreter.base is None or "landlock" not in present_support().layers:
            return None
        if not tree.is_relative_to(state):
            return None
        packages = (path for path in confinement.read if path != tree)
        read = (self._settings.snapshots, state / "wheels", Path(confine.__file__), *packages)
        # Python writes byte code into the folders of imported packages. Only those packages run in this interpreter.
        write = (interpreter_caches(state, interpreter.python), interpreter.python.parent.parent / "lib")
        return replace(confinement, read=read, write=write)

    def _zygote(
        self, interpreter: Interpreter, api: Api, hash_seed: int | None = None, around: Confinement | None = None
    ) -> Zygote:
        if self._closed:
            raise WorkerError("the server is shutting down", fix="Start the server again.")
        key = (interpreter.key, api, hash_seed, around)
        if key not in self._zygotes:
            self._zygotes[key] = Zygote(interpreter, api, self._scratch, self._settings.allow_env, hash_seed, around)
        self._zygotes.move_to_end(key)
        return self._zygotes[key]

    def _reuse(self, key: str) -> Worker | None:
        for number, worker in reversed(self._idle.items()):
            if worker.key == key:
                return self._idle.pop(number)
        return None

    async def _keep(self, worker: Worker) -> None:
        if self._closed or not worker.warm:
            await worker.close()
            return
        self._idle[id(worker)] = worker
        while len(self._idle) > _MOST_IDLE:
            await self._idle.popitem(last=False)[1].close()
        while len(self._zygotes) > _MOST_ZYGOTES:
            await self._zygotes.popitem(last=False)[1].close()

    async def close(self) -> None:
        """End all processes. Requests in progress raise WorkerError."""
        self._closed = True
        for worker in tuple(self._open):
            await worker.close()
        while self._idle:
            await self._idle.popitem()[1].close()
        while self._zygotes:
            await self._zygotes.popitem()[1].close()
