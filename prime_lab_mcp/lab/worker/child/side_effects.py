"""Side actions and side effects of scoring.

An audit hook notes side actions: running text of the completion as Python, opening connections, writing files, leaving
processes. A hook cannot be removed, so the hook returns at once while no case is being scored. The hook does not see
other processes that a reward starts.

Side effects are interference between concurrent scorings, mutated inputs and a blocked event loop. Training scores many
rollouts concurrently in one event loop (v1: `Task.score` per trace; v0: `rubric.score_rollout` per state), so a reward
must also be right under concurrency.
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
_PATHS = 3
"""Most paths or hosts that are noted for one case."""
_REMEMBERED = 10_000
_CONFIRMED = 5
"""Number of cases with left processes after which no more time is allowed for processes to end."""
_ENDING = 0.3
"""Seconds within which a killed process may end."""
_MOST_LEFT = 128
"""Most left processes that stay alive; older ones are killed, so that a trial does not fill the machine."""


class _Case:
    """The case being scored."""

    def __init__(self, observation: Observation, key: object) -> None:
        self.observation, self.key = observation, key
        self.named: dict[str, int] = {}

    def note(self, code: str, name: str) -> None:
        """Note a problem with a path or host, at most `_PATHS` for each code."""
        problem: ProblemReply = {"code": code, "detail": coercion.text(name, 200)}
        if problem not in self.observation.problems and self.named.get(code, 0) < _PATHS:
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
"""Whether a process was started since the last check. Its orphans may have been adopted by the supervisor."""
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
    if watched is None or event not in _LOOKS:
        return
    try:
        refusal = _LOOKS[event](watched, args)
    except Exception:  # A fault of this hook must not become an error of the reward.
        return
    if refusal is not None:
        raise refusal


# --- text run as Python ------------------------------------------------------------------------------------------


def _canary(watched: _Case, args: tuple[Any, ...]) -> None:
    watched.observation.add_problem("evaluated-output")


def _executed(watched: _Case, args: tuple[Any, ...]) -> None:
    # The event comes before the code runs, so a missing name (eval without builtins) does not hide the canary.
    if CANARY in getattr(args[0], "co_consts", ()):
        watched.observation.add_problem("evaluated-output")


# --- connections -------------------------------------------------------------------------------------------------


def _connected(watched: _Case, args: tuple[Any, ...]) -> OSError | None:
    address = args[1]
    if not isinstance(address, tuple) or not isinstance(address[0], str | bytes):
        return None  # A Unix socket, or an address family without hosts.
    if _is_here(address[0]) and address[1] not in _proxies():
        return None
    watched.note("opened-network", _text(address[0]))
    return OSError(errno.ENETUNREACH, REFUSED)


def _resolved(watched: _Case, args: tuple[Any, ...]) -> OSError | None:
    if args[0] is None or _is_here(args[0]):
        return None
    watched.note("opened-network", _text(args[0]))
    return socket.gaierror(socket.EAI_FAIL, REFUSED)


def _is_here(host: Any) -> bool:
    name = _text(host).lower().rstrip(".")
    if name in ("", "localhost", os.uname().nodename.lower()) or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _proxies() -> set[int]:
    """Ports of proxies on this machine: behind them is the network."""
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
    # Only tempfile.TemporaryFile opens a folder for writing: the file has no name, and nobody else can open it.
    if written and not os.path.isdir(path):
        _wrote(watched, path, reusable=not flags & os.O_EXCL)


def _database(watched: _Case, args: tuple[Any, ...]) -> None:
    name = _text(args[0])
    if name and not name.startswith((":", "file:")):
        _wrote(watched, name, reusable=True)


def _changed(watched: _Case, args: tuple[Any, ...]) -> None:
    """Note a path that is removed or created."""
    if not (len(args) > 1 and args[-1] is not None and args[-1] >= 0):  # else relative to a folder's descriptor
        _wrote(watched, args[0], reusable=False)


def _moved(watched: _Case, args: tuple[Any, ...]) -> None:
    if args[-1] < 0:
        _wrote(watched, args[1], reusable=False)


def _wrote(watched: _Case, path: Any, *, reusable: bool) -> None:
    """Note a file outside of scratch and temporary folders, or inside them one that another completion wrote too."""
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
        first = _written.setdefault(full, watched.key) if len(_written) < _REMEMBERED else watched.key
        if first != watched.key:
            watched.note("reused-file", full.removeprefix(f"{_scratch}/"))


_TEMPORARY = ["/tmp", "/private/tmp", "/var/folders", "/private/var/folders"]


def _caches() -> list[str]:
    names = ("HF_HUB_CACHE", "HF_DATASETS_CACHE", "HF_HOME", "XDG_CACHE_HOME")
    return [os.path.realpath(os.environ[name]) for name in names if os.environ.get(name)]


def _under(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


_LOOKS: dict[str, Callable[[_Case, tuple[Any, ...]], OSError | None]] = {
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


def _begun(watched: _Case, args: tuple[Any, ...]) -> None:
    global _started
    _started = True


_LOOKS |= dict.fromkeys(
    ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.spawn", "pty.spawn"), _begun
)


def look_behind(observation: Observation) -> None:
    """Note processes that the last case has left running. Only on Linux, because this needs /proc."""
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
        deadline = time.monotonic() + (_ENDING if _confirmed < _CONFIRMED else 0.0)
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
    """Whether this process certainly has no child, by a system call that is cheaper than a search of /proc."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    except (AttributeError, OSError):
        return False
    return False


def _children() -> set[int]:
    """Living children of this process, and orphans, which the supervisor adopts."""
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


_TICK = 0.005
BLOCKED = 0.1
"""Seconds of a blocked event loop above which a case is measured again, because the machine may have been busy."""
_AGAIN = 2
_CONFIRMED_CASES = 3
"""Most blocking cases that are confirmed by measuring again."""
_SECONDS = 15.0


class ScoringAttempt:
    """A prepared scoring. `inputs` returns, by name, the values that the scoring must not change."""

    def __init__(
        self,
        score: Callable[[], Awaitable[Any]],
        inputs: Callable[[], dict[str, Any]],
        reward: Callable[[], Any],
    ) -> None:
        self.score, self._inputs, self.reward = score, inputs, reward

    def inputs(self) -> dict[str, str]:
        """The inputs as text, for comparison."""
        return {name: json.dumps(coercion.to_json(value), sort_keys=True) for name, value in self._inputs().items()}


async def measure(adapter: Adapter, cases: list[SideEffectsCase], timeout: float) -> list[SideEffectsReply]:
    """Score every case alone, then the cases with `concurrent` in one event loop, a second time if a reward differs.

    `concurrent` of a result is null for a case that was only scored alone, else a list with its concurrent reward.
    """
    started = time.monotonic()
    effects = []
    confirmed = 0
    for case in cases:
        result = await _alone(adapter, case, timeout)
        if result["blocked"] > BLOCKED:
            if confirmed < _CONFIRMED_CASES and time.monotonic() - started < _SECONDS:
                again = [(await _alone(adapter, case, timeout))["blocked"] for _ in range(_AGAIN)]
                result["blocked"] = min(result["blocked"], *again)
                confirmed += result["blocked"] > BLOCKED
            else:
                result["blocked"] = 0.0
        effects.append(result)
    numbers = [n for n, case in enumerate(cases) if case["concurrent"]]
    alone = [effects[n]["alone"] for n in numbers]
    for _ in range(2):
        earned = await _at_once(adapter, [cases[n] for n in numbers], timeout)
        if all(map(_same, earned, alone)):
            break
    for n, reward in zip(numbers, earned):  # noqa: B905
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
    """Measures for how long scoring blocks the event loop: the longest wait of another task, in seconds."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def start(self) -> None:
        self.last = time.perf_counter()
        self.task = asyncio.ensure_future(self._tick())
        await asyncio.sleep(0)

    async def _tick(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(_TICK)

    def look(self) -> None:
        now = time.perf_counter()
        self.longest, self.last = max(self.longest, now - self.last), now

    async def stop(self) -> float:
        self.look()
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task
        return self.longest
