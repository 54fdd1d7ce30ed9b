"""Starts programs, and identifies the process that holds a claim in the ledger. No other module starts processes.

Every child has its own process group, a closed stdin, a deadline and an output limit. The whole group is killed on
timeout, cancellation, excessive output and at the end of the call. A watchdog shell in the group reads a pipe whose
write end closes when this process dies, so that children do not survive a SIGKILL of the server. The only exceptions
are job supervisors (`spawn_detached`): they hold a lease in the ledger and end at their own deadline.

A claim's holder is identified by its process id, its start time and its machine (boot and process namespace). A later
process with the same id, or a process of another machine or container, is therefore not mistaken for the holder.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType

import anyio
from anyio.abc import ByteReceiveStream, Process

from prime_lab_mcp.lab.base.errors import ProcessError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.text import quote, redact

_INHERITED = (
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TERM",
    "USER",
    "LOGNAME",
    "SHELL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)
PROXY_VARIABLES = ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "NO_PROXY", "no_proxy")
"""Variables that name the user's proxies, and the hosts that are reached without one."""
_INSTALLER_PREFIXES = ("UV_", "PIP_", *PROXY_VARIABLES, "ALL_PROXY", "all_proxy", "XDG_")
# /dev/fd, because dash takes only one digit in `<&n`.
_WATCHDOG = '( read _ </dev/fd/{r}; kill -9 -$$ ) </dev/null >/dev/null 2>&1 & exec "$@"'
_GRACE = 2.0
_FLOOD = 64
"""A program is stopped after writing this many times the output limit."""


def own_module_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs `main` of a module of `prime_lab_mcp.lab` under the server's own interpreter.

    The command ignores PYTHONPATH.
    """
    root = str(Path(__file__).parents[3])
    start = (
        f"import sys; sys.path.insert(0, {root!r}); from prime_lab_mcp.lab.{module} import main; "
        "sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-I", "-c", start, *arguments]


def clean_environment(
    extra: Mapping[str, str] | None = None, *, home: Path | None = None, allow: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment variables for untrusted code.

    They are a fixed list without credentials, the variables named in `allow`, and `extra`. `home` replaces HOME.
    """
    variables = {k: v for k, v in os.environ.items() if k in _INHERITED or k.startswith("LC_") or k in allow}
    variables["HOME"] = str(home) if home is not None else os.environ.get("HOME", "/")
    variables["PYTHONUTF8"] = "1"
    variables.update(extra or {})
    return variables


def installer_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for uv and pip: `clean_environment` with the user's index and proxy settings."""
    variables = clean_environment()
    variables.update({k: v for k, v in os.environ.items() if k.startswith(_INSTALLER_PREFIXES)})
    variables["UV_PYTHON_DOWNLOADS"] = "never"
    variables.update(extra or {})
    return variables


@dataclass(frozen=True, slots=True)
class CompletedProcess:
    """The result of a program. `stdout` and `stderr` hold the end of the output, up to the output limit."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


class ChildProcess:
    """A running child process. `close`, or leaving `async with`, kills the child's whole process group."""

    def __init__(self, process: Process, alive: int, name: str) -> None:
        self.process = process
        self.name = name
        self._alive = alive

    @property
    def returncode(self) -> int | None:
        return self.process.returncode

    def kill(self) -> None:
        """Kill the group immediately. May be called several times and in any state."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1

    async def close(self, grace: float = 0.0) -> None:
        """Send SIGTERM, wait up to `grace` seconds, then kill the group and wait for its end."""
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

    async def __aenter__(self) -> ChildProcess:
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
) -> ChildProcess:
    """Start a program that ends with this process. Raises ProcessError when the program cannot be started.

    The watchdog also holds the descriptors in `pass_fds` open, so they do not close when the program ends. A program
    whose end must be noticed through its socket gets the socket as `stdin`.
    """
    _require_startable(argv[0], cwd, env)
    read, write = os.pipe()
    watched = ["/bin/sh", "-c", _WATCHDOG.format(r=read), "sh", *argv]
    try:
        process = await anyio.open_process(
            watched,
            cwd=cwd,
            env=dict(env),
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(read, *pass_fds),
        )
    except OSError as error:
        os.close(write)
        raise ProcessError(
            f"{Path(argv[0]).name} could not be started: {error.strerror}",
            fix=Fix("Run ", NamedCall("preflight"), "; it says what is missing."),
        ) from error
    except BaseException:
        os.close(write)  # cancelled during the start: the watchdog kills the program
        raise
    finally:
        os.close(read)
    return ChildProcess(process, write, Path(argv[0]).name)


async def open_helper(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Process:
    """Start a program that ends by itself when its standard input closes, also because this process has died.

    Unlike a program of `spawn`, it is not killed then, so it can clean up.
    """
    return await anyio.open_process(
        list(argv),
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    output_limit: int = 1_000_000,
    on_line: Callable[[str], None] | None = None,
    stdin: int = subprocess.DEVNULL,
) -> CompletedProcess:
    """Run a program to its end. A non-zero exit code is a result, not an error.

    `on_line` is called with every line of standard output when the line is written. Raises ProcessError
    (`process-timeout`, `process-flood`, `process-failed`) when the program does not end by itself.
    """
    started = anyio.current_time()
    out, err = _Tail(output_limit, on_line), _Tail(output_limit)
    async with await spawn(argv, cwd=cwd, env=env, stdin=stdin) as child:
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
    return CompletedProcess(tuple(argv), code, redact(out.text()), redact(err.text()), anyio.current_time() - started)


async def _end(child: ChildProcess, out: _Tail, err: _Tail) -> int:
    """Read both streams to their end and return the exit code. Excessive output on one stream kills the program."""
    assert child.process.stdout is not None
    assert child.process.stderr is not None
    async with anyio.create_task_group() as pumps:
        pumps.start_soon(out.pump, child.process.stdout, child.kill)
        pumps.start_soon(err.pump, child.process.stderr, child.kill)
        code = await child.process.wait()
        # Descendants of the program may hold the pipes open: kill the group, then read the rest. The deadline covers
        # descendants that have left the group.
        child.kill()
        pumps.cancel_scope.deadline = anyio.current_time() + _GRACE
    return code


def spawn_detached(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], log: Path) -> int:
    """Start a supervisor that outlives this process, in its own session. Output goes to `log`; returns the pid."""
    _require_startable(argv[0], cwd, env)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            close_fds=True,
        )
    _DETACHED.append(process)
    return process.pid


_DETACHED: list[subprocess.Popen[bytes]] = []


def reap_detached() -> None:
    """Reap ended supervisors, so that they do not stay zombies of the server."""
    _DETACHED[:] = [p for p in _DETACHED if p.poll() is None]


def is_alive(pid: int) -> bool:
    """True if a process with this id runs. A zombie counts as ended."""
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


def command_line(pid: int) -> tuple[str, ...] | None:
    """Return the arguments of a process: empty if the process has ended, None if the system has no /proc (macOS)."""
    if not Path("/proc/self/cmdline").exists():
        return None
    try:
        return tuple(Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0"))
    except OSError:
        return ()


def which(program: str, env: Mapping[str, str] | None = None) -> Path | None:
    """Find a program on the PATH of `env`; None if it is not there."""
    path = shutil.which(program, path=(env or os.environ).get("PATH"))
    return Path(path) if path else None


def _require_startable(program: str, cwd: Path, env: Mapping[str, str]) -> None:
    """Raise ProcessError if the folder or the program does not exist."""
    if not cwd.is_dir():
        raise ProcessError(f"the folder {cwd.name} to run in is gone", fix="Call again.")
    if shutil.which(program, path=env.get("PATH")) is None:
        raise ProcessError(
            f"the program {Path(program).name} is not installed",
            fix=Fix("Run ", NamedCall("preflight", install=True), "."),
            code="program-missing",
        )


class _Tail:
    """Stores the last `limit` bytes of a stream. `flooded` becomes True after `_FLOOD` times as many bytes."""

    def __init__(self, limit: int, on_line: Callable[[str], None] | None = None) -> None:
        self.flooded = False
        self._limit = limit
        self._newest = bytearray()
        self._total = 0
        self._line = bytearray()
        self._on_line = on_line

    async def pump(self, stream: ByteReceiveStream, stop: Callable[[], None]) -> None:
        """Read the stream to its end, and call `stop` if the stream is flooded."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in stream:
                self._total += len(chunk)
                self._newest += chunk
                del self._newest[: -self._limit]
                if self._on_line is not None:
                    self._report_lines(chunk, self._on_line)
                if self._total > _FLOOD * self._limit:
                    self.flooded = True
                    stop()
                    return

    def _report_lines(self, chunk: bytes, on_line: Callable[[str], None]) -> None:
        self._line += chunk
        *lines, rest = self._line.split(b"\n")
        self._line = bytearray(rest[-self._limit :])
        for line in lines:
            on_line(line.decode("utf-8", "replace"))

    def text(self) -> str:
        return self._newest.decode("utf-8", "replace")


_PROCESS = secrets.token_hex(4)
_BSD_INFO, _BSD_INFO_SIZE, _START_OFFSET = 3, 136, 120
"""`PROC_PIDTBSDINFO` of <sys/proc_info.h>, the size of `struct proc_bsdinfo`, and the start time's offset, in bytes."""


def new_holder() -> str:
    """Return a new holder name for this process. Each call returns a different name."""
    own = os.getpid()
    # Older releases may share the ledger. They read the process id before the first hyphen.
    return f"{own}-{_PROCESS}-{secrets.token_hex(4)}@{_start_of(own) or ''}@{_machine() or ''}"


def holder_lives(holder: str) -> bool | None:
    """Return True if the holder's process runs, False if the process has ended, None if that is unknown.

    The answer is unknown for a process of another machine or container, and for holder names of older releases.
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
    """Return the id of this machine's boot and process namespace; None if the system provides no such id."""
    try:
        if sys.platform == "darwin":
            return _mac_boot()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, ValueError, AttributeError):
        return None


def _start_of(pid: int) -> str | None:
    """Return the start time of a process: seconds on macOS, clock ticks since boot elsewhere. None if unknown."""
    try:
        if sys.platform == "darwin":
            return _mac_start(pid)
        # The program's name is in parentheses, and may itself contain spaces and parentheses.
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19]
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def _mac_boot() -> str | None:
    text, size = ctypes.create_string_buffer(64), ctypes.c_size_t(64)
    failed = ctypes.CDLL(None).sysctlbyname(b"kern.bootsessionuuid", text, ctypes.byref(size), None, 0)
    return None if failed else text.value.decode("ascii") or None


def _mac_start(pid: int) -> str | None:
    """Return the start time of a process on macOS, in seconds since 1970; None if the process does not exist."""
    info = ctypes.create_string_buffer(_BSD_INFO_SIZE)
    filled = ctypes.CDLL(None).proc_pidinfo(pid, _BSD_INFO, ctypes.c_uint64(0), info, _BSD_INFO_SIZE)
    if filled != _BSD_INFO_SIZE:
        return None
    seconds, microseconds = struct.unpack_from("=QQ", info.raw, _START_OFFSET)
    return f"{seconds}.{microseconds:06d}"
