"""The server's handle on a zygote and on the children that it forks.

A zygote has verifiers imported and forks children quickly. It is two processes: the plain process imports verifiers
and forks witnesses; the fork server is forked from the plain process and forks workers. Each child has a supervisor of
its own, and closing a child leaves no process behind. This module knows sockets and processes, and nothing about
environments.
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
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.interpreter import Api, Interpreter
from prime_lab_mcp.lab.sandbox.kernel_support import present_support
from prime_lab_mcp.lab.sandbox.policy import NAMES_OVER_TCP, Confinement
from prime_lab_mcp.lab.state.leftovers import scratch_prefix
from prime_lab_mcp.lab.worker.channel import Channel, ChannelClosed, ChannelFlood, ChannelGarbage, pair

_CHILD = Path(__file__).parent / "child"
PROGRAM = _CHILD / "witness.py"
STARTED_AS = "serve.py"
"""Name of the copy of `PROGRAM` that runs. Environment code sees its path, which names nothing of ours."""
WARM = 180.0
"""Seconds for the import of verifiers; the first import in a fresh environment compiles its byte code."""
_FORK = 20.0
_END = 8.0


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child. `code` and `signal` are both None where the supervisor killed the child."""

    code: int | None
    signal: int | None
    flood: bool
    output: str


class SupervisedChild:
    """One child that may run environment code, and its supervisor."""

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
        """Kill the child with all descendants, wait for their end, and report how the child had ended before.

        A child that has just closed its socket may be about to end by itself and gets `patience` seconds for that.
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
                anyio.move_on_after(_END),
            ):
                report = await self._control.receive()
                self._ended = Ended(report["code"], report["signal"], bool(report["flood"]), str(report["output"]))
            self._control.close()
            self.channel.close()
            await anyio.to_thread.run_sync(lambda: shutil.rmtree(self.scratch, ignore_errors=True))
        return self._ended


class Zygote:
    """A process of one interpreter with verifiers of one generation imported.

    Python runs code of installed packages when it starts, so a zygote of packages that an environment chose has a
    `confinement` of its own, inside which those of its children lie.
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
        """The channel to the plain process, on which witnesses are asked for."""
        self._home: Path | None = None
        self._program: Path | None = None
        self._elsewhere: Path | None = None
        """The folder of witnesses."""
        self._versions: dict[str, Any] | None = None

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.returncode is None

    async def start(self) -> None:
        """Start the process, unless it runs. The import continues in the background. Raises ProcessError."""
        async with self._lock:
            if not self.alive:
                await self._start()

    async def _start(self) -> None:
        await self._stop()
        self._root.mkdir(parents=True, exist_ok=True)
        self._home = Path(tempfile.mkdtemp(prefix=scratch_prefix("zygote", os.getpid()), dir=self._root))
        self._program, self._elsewhere = Path(tempfile.mkdtemp()), Path(tempfile.mkdtemp())
        shutil.copyfile(PROGRAM, self._program / STARTED_AS)
        argv = [str(self.interpreter.python), "-P", str(self._program / STARTED_AS), self.api]
        if self._confinement is not None:
            own = (*self._confinement.write, self._home, self._elsewhere)
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
            with suppress(ChannelClosed):  # The first fork reports a process that ended.
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
        """Fork a fresh child: a worker's, or a witness. Raises InterpreterError, WorkerError, ProcessError."""
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
                            fix="Call again; if it repeats, run preflight(install=true).",
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
        # The folder of a witness is outside of the state folder, whose name code could look for. Both are folders that
        # the zygote itself may write to.
        scratch = Path(
            tempfile.mkdtemp(dir=self._elsewhere)
            if witness
            else tempfile.mkdtemp(prefix=scratch_prefix("child", os.getpid()), dir=self._home)
        )
        channel = self._witnesses if witness else self._channel
        child = SupervisedChild(ours, control, scratch, self._versions)
        try:
            # Shielded: the reply to an interrupted request would be taken for the reply to the next request.
            with theirs, their_control, anyio.fail_after(_FORK, shield=True):
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
            fix="Check the verifiers requirement in the package's pyproject.toml, then run preflight(install=true).",
        )

    def _log(self) -> str:
        if self._home is None:
            return ""
        with suppress(OSError):
            return (self._home / "log").read_bytes()[-400:].decode("utf-8", "replace")
        return ""

    async def _stop(self) -> None:
        for channel in (self._channel, self._witnesses):
            if channel is not None:
                channel.close()
        if self._child is not None:
            await self._child.close()
        for folder in (self._home, self._program, self._elsewhere):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._channel = self._witnesses = self._child = self._versions = None
        self._home = self._program = self._elsewhere = None

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._stop()


def _ports() -> dict[str, str]:
    """The variable from which the fork server makes rules for ports."""
    return {"PRIME_LAB_PORTS": json.dumps(Confinement((), ()).as_json()["ports"])} if present_support().layers else {}


_OF_WORKERS = frozenset(
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
    """The variables of a witness: those of a worker without the ones that only a worker has."""
    variables = _environment(zygote.interpreter.python, home, zygote.allow)
    return {name: value for name, value in variables.items() if name not in _OF_WORKERS}


def _environment(python: Path, home: Path, allow: tuple[str, ...]) -> dict[str, str]:
    own = os.environ
    extra = {
        "PATH": f"{python.parent}{os.pathsep}{own.get('PATH', os.defpath)}",
        # Children replace these folders by the environment's own cache, wherever modules have read them.
        "HF_HOME": str(home / "huggingface"),
        "HF_HUB_CACHE": str(home / "huggingface" / "hub"),
        "HF_DATASETS_CACHE": str(home / "huggingface" / "datasets"),
        "HF_MODULES_CACHE": str(home / "huggingface" / "modules"),
        **NAMES_OVER_TCP,
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "DO_NOT_TRACK": "1",
        "TQDM_DISABLE": "1",
        # Only one thread, so that forking is safe.
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
