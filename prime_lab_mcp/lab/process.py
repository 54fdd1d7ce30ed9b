"""The only place that starts processes.

Every child has its own process group, a closed stdin, a deadline and an output limit. It is killed as a group on
timeout, cancellation, flood and end of the call. A watchdog shell in the group reads a pipe whose write end dies
with this process, so nothing survives a SIGKILL of the server either. Job supervisors (`spawn_detached`) are the one
exception: they hold a lease in the ledger and end by their own deadline.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import anyio
from anyio.abc import ByteReceiveStream, Process

from prime_lab_mcp.lab.errors import ProcessError
from prime_lab_mcp.lab.text import quote, redact

_PASSED = (
    "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM", "USER", "LOGNAME", "SHELL",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
)  # fmt: skip
_INSTALLER = ("UV_", "PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy",
              "https_proxy", "no_proxy", "all_proxy", "XDG_")  # fmt: skip
# /dev/fd, because dash takes only one digit in `<&n`.
_WATCHDOG = '( read _ </dev/fd/{r}; kill -9 -$$ ) </dev/null >/dev/null 2>&1 & exec "$@"'
_GRACE = 2.0
_FLOOD = 64
"""Times the output limit after which a program is stopped as flooding."""


def clean_environment(
    extra: Mapping[str, str] | None = None, *, home: Path | None = None, allow: Sequence[str] = ()
) -> dict[str, str]:
    """Variables for code we do not trust: no credential, nothing but the allow-list, `allow` and `extra`."""
    kept = {k: v for k, v in os.environ.items() if k in _PASSED or k.startswith("LC_") or k in allow}
    kept["HOME"] = str(home) if home is not None else os.environ.get("HOME", "/")
    kept["PYTHONUTF8"] = "1"
    kept.update(extra or {})
    return kept


def installer_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for uv and pip: as `clean_environment`, with the user's index and proxy settings."""
    kept = clean_environment()
    kept.update({k: v for k, v in os.environ.items() if k.startswith(_INSTALLER)})
    kept["UV_PYTHON_DOWNLOADS"] = "never"
    kept.update(extra or {})
    return kept


@dataclass(frozen=True, slots=True)
class Completed:
    """A program that ended. `stdout` and `stderr` hold at most the output limit, the newest part kept."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


class Child:
    """A long-lived child. Closing it (or leaving `async with`) kills its whole group."""

    def __init__(self, process: Process, alive: int, name: str) -> None:
        self.process = process
        self.name = name
        self._alive = alive

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    def kill(self) -> None:
        """Kill the group at once; safe to call twice and from any state."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    async def close(self, grace: float = 0.0) -> None:
        """Ask with SIGTERM for `grace` seconds, then kill, then reap."""
        with anyio.CancelScope(shield=True):
            if grace and self.process.returncode is None:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.process.pid, signal.SIGTERM)
                with anyio.move_on_after(grace):
                    await self.process.wait()
            self.kill()
            with anyio.move_on_after(_GRACE):
                await self.process.wait()
            with anyio.move_on_after(_GRACE):
                await self.process.aclose()

    async def __aenter__(self) -> Child:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        await self.close()


async def spawn(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    pass_fds: Sequence[int] = (),
) -> Child:
    """Start a program that dies with this process. Raises ProcessError when it cannot be started.

    Descriptors in `pass_fds` stay open in the watchdog too, so the program's end does not close them: give a program
    that must be heard to end its socket as `stdin`.
    """
    _require(argv[0], cwd, env)
    read, write = os.pipe()
    dog = ["/bin/sh", "-c", _WATCHDOG.format(r=read), "sh", *argv]
    try:
        process = await anyio.open_process(
            dog, cwd=cwd, env=dict(env), stdin=stdin, stdout=stdout, stderr=stderr,
            start_new_session=True, pass_fds=(read, *pass_fds),
        )  # fmt: skip
    except OSError as error:
        os.close(write)
        raise ProcessError(
            f"{Path(argv[0]).name} could not be started: {error.strerror}",
            fix="Run preflight; it says what is missing.",
        ) from error
    except BaseException:
        os.close(write)  # cancelled while it started: the watchdog ends it
        raise
    finally:
        os.close(read)
    return Child(process, write, Path(argv[0]).name)


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    output_limit: int = 1_000_000,
    on_line: Callable[[str], None] | None = None,
) -> Completed:
    """Run a program to its end. A non-zero exit is a result, not an error.

    Raises ProcessError (`process-timeout`, `process-flood`, `process-failed`) when it did not end by itself. `on_line`
    sees every line of standard output as it comes.
    """
    started = anyio.current_time()
    out, err = _Tail(output_limit, on_line), _Tail(output_limit)
    async with await spawn(argv, cwd=cwd, env=env) as child:
        with anyio.move_on_after(timeout) as clock:
            code = await _end(child, out, err)
        if clock.cancelled_caught:
            raise ProcessError(
                f"{child.name} did not end within {timeout:g} seconds; last output: "
                f"{quote(err.text()[-300:] or out.text()[-300:])}",
                fix="Call again; if it repeats, give it less to do or look at what it waits for.",
                code="process-timeout",
            )
    if out.flooded or err.flooded:
        raise ProcessError(
            f"{child.name} wrote more than {_FLOOD * output_limit:,} bytes and was stopped",
            fix="Remove the output it floods with.",
            code="process-flood",
        )
    return Completed(tuple(argv), code, redact(out.text()), redact(err.text()), anyio.current_time() - started)


async def _end(child: Child, out: _Tail, err: _Tail) -> int:
    """Read the output to its end. A stream that floods kills the program, which ends both."""
    assert child.process.stdout is not None
    assert child.process.stderr is not None
    async with anyio.create_task_group() as pumps:
        pumps.start_soon(out.pump, child.process.stdout, child.kill)
        pumps.start_soon(err.pump, child.process.stderr, child.kill)
        code = await child.process.wait()
        # Something it left behind may hold the pipes open: end the group, then drain. What left the group as well
        # does not get to keep us waiting.
        child.kill()
        pumps.cancel_scope.deadline = anyio.current_time() + _GRACE
    return code


def spawn_detached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> int:
    """Start a supervisor that outlives this process (its own session; output to `log`). Returns its pid."""
    _require(argv[0], cwd, env)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            list(argv), cwd=cwd, env=dict(env), stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            start_new_session=True, close_fds=True,
        )  # fmt: skip
    _DETACHED.append(process)
    return process.pid


_DETACHED: list[subprocess.Popen[bytes]] = []


def reap_detached() -> None:
    """Collect supervisors that ended, so that they do not stay as zombies of the server."""
    _DETACHED[:] = [p for p in _DETACHED if p.poll() is None]


def is_alive(pid: int) -> bool:
    """True while a process with this id runs (zombies count as ended)."""
    reap_detached()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return True


def which(program: str, env: Mapping[str, str] | None = None) -> Path | None:
    """Where a program is on the PATH of `env`, if it is."""
    found = shutil.which(program, path=(env or os.environ).get("PATH"))
    return Path(found) if found else None


def _require(program: str, cwd: Path, env: Mapping[str, str]) -> None:
    if not cwd.is_dir():
        raise ProcessError(f"the folder {cwd.name} to run in is gone", fix="Call again.")
    if shutil.which(program, path=env.get("PATH")) is None:
        raise ProcessError(
            f"the program {Path(program).name} is not installed",
            fix="Run preflight(install=true).",
            code="program-missing",
        )


class _Tail:
    """The newest `limit` characters of a stream; more than `_FLOOD` times that is a flood."""

    def __init__(self, limit: int, on_line: Callable[[str], None] | None = None) -> None:
        self.flooded = False
        self._limit = limit
        self._kept = bytearray()
        self._seen = 0
        self._line = bytearray()
        self._on_line = on_line

    async def pump(self, stream: ByteReceiveStream, stop: Callable[[], None]) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in stream:
                self._seen += len(chunk)
                self._kept += chunk
                del self._kept[: -self._limit]
                if self._on_line is not None:
                    self._lines(chunk, self._on_line)
                if self._seen > _FLOOD * self._limit:
                    self.flooded = True
                    stop()
                    return

    def _lines(self, chunk: bytes, on_line: Callable[[str], None]) -> None:
        self._line += chunk
        *lines, rest = self._line.split(b"\n")
        self._line = bytearray(rest[-self._limit :])
        for line in lines:
            on_line(line.decode("utf-8", "replace"))

    def text(self) -> str:
        return self._kept.decode("utf-8", "replace")
