"""The server's handles on a zygote and on the children that the zygote forks.

A zygote has imported verifiers, so it can fork children quickly. It consists of two processes. The plain process
imports verifiers and forks witnesses. The fork server, which is forked from the plain process, forks the children of
workers. Each child has its own supervisor, and closing a child leaves no process behind. This module deals with sockets
and processes and knows nothing about environments.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base import process
from prime_lab_mcp.lab.base.errors import InterpreterError, WorkerError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.interpreter import Api, Interpreter
from prime_lab_mcp.lab.sandbox.kernel_support import present_support
from prime_lab_mcp.lab.sandbox.policy import NAMES_OVER_TCP, Confinement
from prime_lab_mcp.lab.state.leftovers import scratch_prefix
from prime_lab_mcp.lab.worker.channel import Channel, ChannelClosed, ChannelFlood, ChannelGarbage, pair

_CHILD = Path(__file__).parent / "child"
PROGRAM = _CHILD / "witness.py"
STARTED_AS = "serve.py"
"""Name of the copy of `PROGRAM` that runs. Environment code can see the name, so it does not name this project."""
WARM = 180.0
"""Seconds for the import of verifiers. The first import in a new virtual environment also compiles byte code."""
_FORK_SECONDS = 20.0
_END_SECONDS = 8.0
"""Seconds within which a supervisor must report that its child has ended."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended. `code` and `signal` are both None if the supervisor killed the child.

    `flood` says that the child wrote too much output; `output` is the last part of its output.
    """

    code: int | None
    signal: int | None
    flood: bool
    output: str


class SupervisedChild:
    """The handle on one child that runs environment code, and on its supervisor."""

    def __init__(self, channel: Channel, control: Channel, scratch: Path, versions: dict[str, Any]) -> None:
        self.channel = channel
        self.scratch = scratch
        self.versions = versions
        self._control = control
        self._ended: Ended | None = None

    @property
    def alive(self) -> bool:
        return self._ended is None and self._control.silent and self.channel.silent

    async def close(self, patience: float = 0.0) -> Ended:
        """Kill the child with all its descendants, wait for their end, and return how the child ended.

        A child that has just closed its socket may be about to exit, so it gets `patience` seconds to do so.
        """
        if self._ended is not None:
            return self._ended
        self._ended = Ended(None, None, False, "")
        with anyio.CancelScope(shield=True):
            if patience:
                await self._control.wait(patience)
            self._control.finish()
            with (
                suppress(ChannelClosed, ChannelFlood, ChannelGarbage),
                anyio.move_on_after(_END_SECONDS),
            ):
                report = await self._control.receive()
                self._ended = Ended(report["code"], report["signal"], bool(report["flood"]), str(report["output"]))
            self._control.close()
            self.channel.close()
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self.scratch, ignore_errors=True))
        return self._ended


class Zygote:
    """A process of one interpreter that has imported verifiers for v0 or v1 environments.

    Python runs code of installed packages when it starts. A zygote whose packages an environment has chosen therefore
    has a `confinement` of its own, and its children are confined further.
    """

    def __init__(
        self,
        interpreter: Interpreter,
        api: Api,
        scratch: Path,
        allow: tuple[str, ...],
        hash_seed: int | None = None,
        confinement: Confinement | None = None,
    ) -> None:
        self.interpreter = interpreter
        self._confinement = confinement
        self._hash_seed = hash_seed
        self.api = api
        self._root = scratch
        self.allow = allow
        self._lock = anyio.Lock()
        self._child: process.ChildProcess | None = None
        self._channel: Channel | None = None
        self._witnesses: Channel | None = None
        """The channel to the plain process, which forks witnesses on request."""
        self._home: Path | None = None
        self._program: Path | None = None
        self._witness_root: Path | None = None
        """The folder with the scratch folders of witnesses."""
        self._versions: dict[str, Any] | None = None

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Start the process unless it is running. The import continues in the background. Raises ProcessError."""
        async with self._lock:
            if self.alive:
                return
            await self._start()

    async def _start(self) -> None:
        await self._stop()
        self._root.mkdir(parents=True, exist_ok=True)
        self._home = Path(tempfile.mkdtemp(prefix=scratch_prefix("zygote", os.getpid()), dir=self._root))
        self._program, self._witness_root = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
        shutil.copyfile(PROGRAM, self._program / STARTED_AS)
        argv = [str(self.interpreter.python), "-P", str(self._program / STARTED_AS), self.api]
        if self._confinement is not None:
            own = (*self._confinement.write, self._home, self._witness_root)
            read = (*self._confinement.read, self._program)
            argv = replace(self._confinement, read=read, write=own).command(argv)
        channel, theirs = pair()
        witnesses, their_witnesses = pair()
        try:
            with (self._home / "log").open("wb") as log:
                self._child = await process.spawn(
                    argv,
                    cwd=self._home,
                    env=_environment(self.interpreter.python, self._home, self.allow) | self._seeded() | _ports(),
                    stdin=theirs.fileno(),
                    stdout=log.fileno(),
                    stderr=log.fileno(),
                )
            programs = {"program": str(_CHILD / "__main__.py"), "supervisor": str(_CHILD / "supervisor.py")}
            with suppress(ChannelClosed):  # If the process has ended, the first fork reports that.
                await channel.send(programs, (their_witnesses.fileno(),))
        except BaseException:
            channel.close()
            witnesses.close()
            raise
        finally:
            theirs.close()
            their_witnesses.close()
        self._channel, self._witnesses = channel, witnesses
        self._versions = None

    def _seeded(self) -> dict[str, str]:
        return {} if self._hash_seed is None else {"PYTHONHASHSEED": str(self._hash_seed)}

    async def fork(self, *, witness: bool = False) -> SupervisedChild:
        """Fork a new child for a worker, or a witness. Raises InterpreterError, WorkerError or ProcessError."""
        async with self._lock:
            for last in (False, True):
                if not self.alive:
                    await self._start()
                try:
                    return await self._fork(witness)
                except InterpreterError:
                    await self._stop()
                    raise
                except (ChannelClosed, ChannelFlood, ChannelGarbage, TimeoutError) as error:
                    log = self._log()
                    await self._stop()
                    if last:
                        raise WorkerError(
                            f"the process that holds verifiers ended or hangs ({type(error).__name__}): {quote(log)}",
                            fix=Fix("Call again; if it repeats, run ", NamedCall("preflight", install=True), "."),
                            code="worker-failed",
                        ) from error
        raise AssertionError("unreachable")

    async def _fork(self, witness: bool) -> SupervisedChild:
        assert self._channel is not None
        assert self._witnesses is not None
        if self._versions is None:
            with anyio.fail_after(WARM):
                self._versions = await self._ready(self._channel)
        ours, theirs = pair()
        control, their_control = pair()
        # Code could look for the name of the state folder, so the folder of a witness lies outside of it. The zygote
        # may write to both folders.
        scratch = Path(
            tempfile.mkdtemp(dir=self._witness_root)
            if witness
            else tempfile.mkdtemp(prefix=scratch_prefix("child", os.getpid()), dir=self._home)
        )
        channel = self._witnesses if witness else self._channel
        child = SupervisedChild(ours, control, scratch, self._versions)
        try:
            # Shielded from cancellation: otherwise the reply could be taken for the reply to the next request.
            with theirs, their_control, anyio.fail_after(_FORK_SECONDS, shield=True):
                await channel.send({"op": "fork"}, (theirs.fileno(), their_control.fileno()))
                await channel.receive()
        except BaseException:
            ours.close()
            control.close()
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        return child

    async def _ready(self, channel: Channel) -> dict[str, Any]:
        message = await channel.receive()
        if "ready" in message:
            return dict(message["ready"])
        raise InterpreterError(
            f"verifiers cannot be imported for {self.api} environments: {quote(message.get('broken'))}",
            fix=Fix(
                "Check the verifiers requirement in the package's pyproject.toml, then run ",
                NamedCall("preflight", install=True),
                ".",
            ),
        )

    def _log(self) -> str:
        assert self._home is not None
        with suppress(OSError):
            return (self._home / "log").read_bytes()[-400:].decode("utf-8", "replace")
        return ""

    async def _stop(self) -> None:
        for channel in (self._channel, self._witnesses):
            if channel is not None:
                channel.close()
        if self._child is not None:
            await self._child.close()
        for folder in (self._home, self._program, self._witness_root):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._channel = self._witnesses = self._child = self._versions = None
        self._home = self._program = self._witness_root = None

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._stop()


def _ports() -> dict[str, str]:
    """Return the variable that tells the fork server the permitted TCP ports."""
    return {"PRIME_LAB_PORTS": json.dumps(Confinement((), ()).as_json()["ports"])} if present_support().layers else {}


_WORKER_ONLY = frozenset(
    {
        "HF_HUB_DISABLE_TELEMETRY",
        "HF_HUB_DISABLE_PROGRESS_BARS",
        "DO_NOT_TRACK",
        "TQDM_DISABLE",
        "TOKENIZERS_PARALLELISM",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "JE_ARROW_MALLOC_CONF",
    }
)


def witness_environment(zygote: Zygote, home: Path) -> dict[str, str]:
    """Return the environment variables of a witness: those of a worker without the ones that only workers have."""
    variables = _environment(zygote.interpreter.python, home, zygote.allow)
    return {name: value for name, value in variables.items() if name not in _WORKER_ONLY}


def _environment(python: Path, home: Path, allow: tuple[str, ...]) -> dict[str, str]:
    own = os.environ
    extra = {
        "PATH": f"{python.parent}{os.pathsep}{own.get('PATH', os.defpath)}",
        # Children replace these folders by the environment's own cache, also in modules that have read the variables.
        "HF_HOME": str(home / "huggingface"),
        "HF_HUB_CACHE": str(home / "huggingface" / "hub"),
        "HF_DATASETS_CACHE": str(home / "huggingface" / "datasets"),
        "HF_MODULES_CACHE": str(home / "huggingface" / "modules"),
        **NAMES_OVER_TCP,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "DO_NOT_TRACK": "1",
        "TQDM_DISABLE": "1",
        # Forking is only safe in a process with one thread.
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
    for name in ("HF_ENDPOINT", "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        if "@" not in own.get(name, "@"):  # A password may precede the @.
            extra[name] = own[name]
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        for spelled in (name, name.lower()):
            if spelled in own and "@" not in own[spelled]:
                extra[spelled] = own[spelled]
    extra.update({name: own[name] for name in allow if name in own})
    return process.clean_environment(extra, home=home, allow=allow)
