"""Observes side actions of scoring, and measures side effects of scoring.

Side actions are: running text of the completion as Python, opening connections, writing files, and leaving processes
behind. A Python audit hook notes them. An audit hook cannot be removed, so it returns at once while no case is being
scored. The hook does not see what other processes do that a reward starts.

Side effects are: interference between concurrent scorings, mutated inputs, and a blocked event loop. Training scores
many rollouts concurrently in one event loop (v1: `Task.score` for each trace; v0: `rubric.score_rollout` for each
state), so a reward must also be right under concurrency.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from . import coercion, environment
from .observer import Observation
from .protocol import CANARY, ProblemReply, SideEffectsCase, SideEffectsReply

if TYPE_CHECKING:
    from .adapter import Adapter

REFUSED = "there is no network while a reward is tested"
"""The message of the error that a reward gets for a connection to another host."""
_MOST_NAMES = 3
"""Most paths or hosts that are noted for one case and problem."""
_MOST_FILES = 10_000
_CONFIRMED = 5
"""After this many cases that left processes behind, processes of later cases get no time to end."""
_END_SECONDS = 0.3
"""Seconds that a process gets to end after the scoring that started it."""
_MOST_LEFT = 128
"""Most processes left behind that stay alive. Older ones are killed, so that they do not use up the machine."""


class _Case:
    """The case that is being scored. `key` identifies its completion."""

    def __init__(self, observation: Observation, key: object) -> None:
        self.observation, self.key = observation, key
        self.named: dict[str, int] = {}

    def note(self, code: str, name: str) -> None:
        """Note a problem with a path or host, at most `_MOST_NAMES` times for each code."""
        problem: ProblemReply = {"code": code, "detail": coercion.text(name, 200)}
        if problem not in self.observation.problems and self.named.get(code, 0) < _MOST_NAMES:
            self.named[code] = self.named.get(code, 0) + 1
            self.observation.add_problem(**problem)


_watched: _Case | None = None
_hooked = False
_scratch = ""
_written: dict[str, object] = {}
_known: set[int] = set()
_left: list[int] = []
_confirmed = 0
_started = False
"""Whether scoring started a process since the last check. The supervisor adopts the orphans of such processes."""
_own: set[int] = set()


@contextlib.contextmanager
def watching(observation: Observation, case: Any = None) -> Iterator[None]:
    """Note side actions in `observation` during the block, and refuse connections. Blocks must not overlap."""
    global _watched, _hooked, _scratch
    if not _hooked:
        _hooked = True
        _scratch = os.path.realpath(tempfile.gettempdir())
        _known.update(_children())
        sys.addaudithook(_hook)
    _watched = _Case(observation, repr(case))
    try:
        yield
    finally:
        _watched = None


def _hook(event: str, args: tuple[Any, ...]) -> None:
    watched = _watched
    if watched is None or event not in _CHECKS:
        return
    try:
        refusal = _CHECKS[event](watched, args)
    except Exception:  # An error in this hook must not look like an error of the reward.
        return
    if refusal is not None:
        raise refusal


# --- text run as Python ------------------------------------------------------------------------------------------


def _canary(watched: _Case, args: tuple[Any, ...]) -> None:
    watched.observation.add_problem("evaluated-output")


def _executed(watched: _Case, args: tuple[Any, ...]) -> None:
    # The audit event precedes the execution, so code that fails at once (eval without builtins) is noticed too.
    if CANARY in getattr(args[0], "co_consts", ()):
        watched.observation.add_problem("evaluated-output")


# --- connections -------------------------------------------------------------------------------------------------


def _connected(watched: _Case, args: tuple[Any, ...]) -> OSError | None:
    address = args[1]
    if not isinstance(address, tuple) or not isinstance(address[0], str | bytes):
        return None  # A Unix socket, or an address family without hosts.
    if _is_this_machine(address[0]) and address[1] not in _proxies():
        return None
    watched.note("opened-network", _text(address[0]))
    return OSError(errno.ENETUNREACH, REFUSED)


def _resolved(watched: _Case, args: tuple[Any, ...]) -> OSError | None:
    if args[0] is None or _is_this_machine(args[0]):
        return None
    watched.note("opened-network", _text(args[0]))
    return socket.gaierror(socket.EAI_FAIL, REFUSED)


def _is_this_machine(host: Any) -> bool:
    name = _text(host).lower().rstrip(".")
    if name in ("", "localhost", os.uname().nodename.lower()) or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _proxies() -> set[int]:
    """Return the ports of the configured proxies. A connection to a proxy on this machine reaches the network."""
    ports = set()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for spelled in (name, name.upper()):
            with contextlib.suppress(ValueError):
                ports.add(urlsplit(os.environ.get(spelled, "")).port or 0)
    return ports


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)


# --- files -------------------------------------------------------------------------------------------------------


def _opened(watched: _Case, args: tuple[Any, ...]) -> None:
    path, _, flags = args
    written = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    # tempfile.TemporaryFile opens a folder for writing. Its file has no name, so no other process can open it.
    if written and not os.path.isdir(path):
        _wrote(watched, path, reusable=not flags & os.O_EXCL)


def _database(watched: _Case, args: tuple[Any, ...]) -> None:
    name = _text(args[0])
    if name and not name.startswith((":", "file:")):
        _wrote(watched, name, reusable=True)


def _changed(watched: _Case, args: tuple[Any, ...]) -> None:
    """Note a path that is removed or created."""
    # With the descriptor of a folder as last argument, the path is relative to that folder and its place is unknown.
    if not (len(args) > 1 and args[-1] is not None and args[-1] >= 0):
        _wrote(watched, args[0], reusable=False)


def _moved(watched: _Case, args: tuple[Any, ...]) -> None:
    if args[-1] < 0:
        _wrote(watched, args[1], reusable=False)


def _wrote(watched: _Case, path: Any, *, reusable: bool) -> None:
    """Note a written file if it lies outside of temporary folders, or if another completion wrote the same file.

    `reusable` says that a later scoring could open the same path.
    """
    if not isinstance(path, str | bytes | os.PathLike):
        return
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    full = os.path.join(os.path.realpath(folder), name)
    if full.startswith(("/dev/", "/proc/")) or "__pycache__" in full or "/.cache/" in full or _under(full, _caches()):
        return
    trees = [environment.tree()] if environment.tree() else []
    inside = _under(full, [_scratch]) or (_under(full, _TEMPORARY) and not _under(full, trees))
    if not inside:
        watched.note("wrote-files", environment.relative(full))
    elif reusable and not any(part.startswith(".") for part in full.removeprefix(_scratch).split("/")):
        first = _written.setdefault(full, watched.key) if len(_written) < _MOST_FILES else watched.key
        if first != watched.key:
            watched.note("reused-file", full.removeprefix(f"{_scratch}/"))


_TEMPORARY = ["/tmp", "/private/tmp", "/var/folders", "/private/var/folders"]


def _caches() -> list[str]:
    names = ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HOME", "XDG_CACHE_HOME")
    return [os.path.realpath(os.environ[name]) for name in names if os.environ.get(name)]


def _under(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


_CHECKS: dict[str, Callable[[_Case, tuple[Any, ...]], OSError | None]] = {
    CANARY: _canary,
    "exec": _executed,
    "socket.connect": _connected,
    "socket.sendto": _connected,
    "socket.sendmsg": _connected,
    "socket.getaddrinfo": _resolved,
    "socket.gethostbyname": _resolved,
    "open": _opened,
    "sqlite3.connect": _database,
    "os.remove": _changed,
    "os.rmdir": _changed,
    "os.mkdir": _changed,
    "os.rename": _moved,
    "os.link": _moved,
    "os.symlink": _moved,
}


# --- processes ---------------------------------------------------------------------------------------------------


def _process_begun(watched: _Case, args: tuple[Any, ...]) -> None:
    global _started
    _started = True


_CHECKS |= dict.fromkeys(
    ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.spawn", "pty.spawn"),
    _process_begun,
)


def note_left_processes(observation: Observation) -> None:
    """Note processes that the last case left running. Works only on Linux, because it reads /proc."""
    global _confirmed, _started, _own
    if not _started and not _own and _childless():
        return
    own, begun = _children_of(os.getpid()), _started
    if own == _own and not begun:
        return
    _own, _started = own, False
    living = _children()
    new = living - _known
    if new:
        deadline = time.monotonic() + (_END_SECONDS if _confirmed < _CONFIRMED else 0.0)
        while new and time.monotonic() < deadline:
            time.sleep(0.01)
            new &= _children()
    if new:
        _confirmed += 1
        observation.add_problem("left-processes")
    _known.update(new)
    _left[:] = [pid for pid in _left if pid in living] + sorted(new)
    for pid in _left[:-_MOST_LEFT]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _childless() -> bool:
    """Return whether this process certainly has no child. The system call is cheaper than a search of /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    except (AttributeError, OSError):
        return False
    return False


def _children() -> set[int]:
    """Return the living children of this process and of the supervisor, which adopts orphans."""
    if sys.platform != "linux":
        return set()
    children = _children_of(os.getpid()) | _children_of(os.getppid())
    return {pid for pid in children - {os.getpid()} if _lives(pid)}


def _children_of(parent: int) -> set[int]:
    pids: set[int] = set()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as children:
                pids.update(map(int, children.read().split()))
    return pids


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False


_TICK_SECONDS = 0.005
BLOCKED = 0.1
"""Seconds. If the event loop was blocked for longer, the case is measured again: the machine may have been busy."""
_REPEATS = 2
_CONFIRMED_CASES = 3
"""Most blocking cases that are confirmed by measuring again."""
_REPEAT_SECONDS = 15.0


class ScoringAttempt:
    """A scoring that is prepared but not started.

    `score` starts it, `inputs` returns the values by name that scoring must not change, and `reward` the reward.
    """

    def __init__(
        self,
        score: Callable[[], Awaitable[Any]],
        inputs: Callable[[], dict[str, Any]],
        reward: Callable[[], Any],
    ) -> None:
        self.score, self._inputs, self.reward = score, inputs, reward

    def inputs(self) -> dict[str, str]:
        """Return the inputs as JSON text, so that they can be compared."""
        return {name: json.dumps(coercion.to_json(value), sort_keys=True) for name, value in self._inputs().items()}


async def measure(adapter: Adapter, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
    """Score every case alone, then all cases with `concurrent` concurrently in one event loop.

    If a concurrent reward differs from the reward alone, the concurrent scoring is repeated once. `concurrent` of a
    reply is None for a case that was only scored alone, otherwise a list with its concurrent reward.
    """
    started = time.monotonic()
    effects = []
    confirmed = 0
    for case in cases:
        result = await _alone(adapter, case, timeout)
        if result["blocked"] > BLOCKED:
            if confirmed < _CONFIRMED_CASES and time.monotonic() - started < _REPEAT_SECONDS:
                again = [(await _alone(adapter, case, timeout))["blocked"] for _ in range(_REPEATS)]
                result["blocked"] = min(result["blocked"], *again)
                confirmed += result["blocked"] > BLOCKED
            else:
                result["blocked"] = 0.0
        effects.append(result)
    numbers = [n for n, case in enumerate(cases) if case["concurrent"]]
    alone = [effects[n]["alone"] for n in numbers]
    for _ in range(2):
        rewards = await _at_once(adapter, [cases[n] for n in numbers], timeout)
        if all(map(_same, rewards, alone)):
            break
    for n, reward in zip(numbers, rewards):  # noqa: B905
        effects[n]["concurrent"] = [reward]
    return effects


def _same(left: Any, right: Any) -> bool:
    return left is right or (left is not None and right is not None and abs(left - right) < 1e-6)


async def _alone(adapter: Adapter, case: SideEffectsCase, timeout: float) -> SideEffectsReply:
    attempt = await adapter.attempt(case)
    before = attempt.inputs()
    ticker = _Ticker()
    await ticker.start()
    with contextlib.suppress(Exception):
        await asyncio.wait_for(attempt.score(), timeout)
    blocked = await ticker.stop()
    after = attempt.inputs()
    changed = [name for name in before if after.get(name) != before[name]]
    changed = changed or [name for name in adapter.changed_since_loading(case["row"]) if name not in changed]
    return {"alone": attempt.reward(), "concurrent": None, "mutated": changed, "blocked": blocked}


async def _at_once(adapter: Adapter, cases: list[SideEffectsCase], timeout: float) -> list[Any]:
    attempts = [await adapter.attempt(case) for case in cases]
    scorings = [asyncio.wait_for(attempt.score(), timeout) for attempt in attempts]
    await asyncio.gather(*scorings, return_exceptions=True)
    return [attempt.reward() for attempt in attempts]


class _Ticker:
    """Measures how long scoring blocks the event loop: the longest time in seconds that another task had to wait."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def start(self) -> None:
        self.last = time.perf_counter()
        self.task = asyncio.ensure_future(self._tick())
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            self.measure_wait()
            await asyncio.sleep(_TICK_SECONDS)

    def measure_wait(self) -> None:
        now = time.perf_counter()
        self.longest, self.last = max(self.longest, now - self.last), now

    async def stop(self) -> float:
        self.measure_wait()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        return self.longest
