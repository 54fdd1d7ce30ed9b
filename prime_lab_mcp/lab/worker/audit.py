"""What scoring does beside returning a number, seen by an audit hook: text of the completion that is run as Python,
connections, files, and processes that it leaves running.

Runs in the environment's interpreter. A hook cannot be removed, so it looks at nothing unless something is being
scored. What other processes of the reward do is not seen: programs may be run there.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

CANARY = "prime_lab.canary"
"""The event that only text of a completion raises (rewards/canary.py)."""
REFUSED = "there is no network while a reward is tested"
_PATHS = 3
"""Paths and hosts that one case names."""
_REMEMBERED = 10_000
_CONFIRMED = 5
"""Cases whose processes are given time to end; where that many did not, no others will."""
_ENDING = 0.3
"""Seconds in which a process that was just killed may end."""
_MOST_LEFT = 128
"""Processes left by earlier cases that may live on; the oldest are ended, so that a trial does not fill the machine."""


class _Watched:
    """The case being scored."""

    def __init__(self, seen: Any, key: object) -> None:
        self.seen, self.key = seen, key
        self.named: dict[str, int] = {}

    def note(self, code: str, what: str) -> None:
        """A problem code with the path or host behind a colon."""
        told = f"{code}:{_sibling('plain').text(what, 200)}"
        if told not in self.seen.problems and self.named.get(code, 0) < _PATHS:
            self.named[code] = self.named.get(code, 0) + 1
            self.seen.problem(told)


_watched: _Watched | None = None
_hooked = False
_scratch = ""
_written: dict[str, object] = {}
_known: set[int] = set()
_left: list[int] = []
_confirmed = 0
_started = False
"""A process was started since the last look: it may have left others, which the supervisor adopted."""
_own: set[int] = set()


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


@contextlib.contextmanager
def watching(seen: Any, case: Any = None) -> Iterator[None]:
    """Note in `seen` what happens meanwhile, and refuse connections. One at a time."""
    global _watched, _hooked, _scratch
    if not _hooked:
        _hooked = True
        _scratch = os.path.realpath(tempfile.gettempdir())
        _known.update(_children())
        sys.addaudithook(_hook)
    _watched = _Watched(seen, repr(case))
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
    except Exception:  # what we fail to understand must not become an error of the reward
        return
    if refusal is not None:
        raise refusal


# --- text run as Python ------------------------------------------------------------------------------------------


def _canary(watched: _Watched, args: tuple[Any, ...]) -> None:
    watched.seen.problem("evaluated-output")


def _executed(watched: _Watched, args: tuple[Any, ...]) -> None:
    # Seen before it runs, so a name that is missing there (eval without builtins) hides nothing.
    if CANARY in getattr(args[0], "co_consts", ()):
        watched.seen.problem("evaluated-output")


# --- connections -------------------------------------------------------------------------------------------------


def _connected(watched: _Watched, args: tuple[Any, ...]) -> OSError | None:
    address = args[1]
    if not isinstance(address, tuple) or not isinstance(address[0], str | bytes):
        return None  # a Unix socket, or a family without hosts
    if _is_here(address[0]) and address[1] not in _proxies():
        return None
    watched.note("opened-network", _text(address[0]))
    return OSError(errno.ENETUNREACH, REFUSED)


def _resolved(watched: _Watched, args: tuple[Any, ...]) -> OSError | None:
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
    found = set()
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        for spelled in (name, name.upper()):
            with contextlib.suppress(ValueError):
                found.add(urlsplit(os.environ.get(spelled, "")).port or 0)
    return found


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else str(value)


# --- files -------------------------------------------------------------------------------------------------------


def _opened(watched: _Watched, args: tuple[Any, ...]) -> None:
    path, _, flags = args
    written = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    # A folder is opened for writing by tempfile.TemporaryFile alone: a file without a name, which no other can open.
    if written and not os.path.isdir(path):
        _wrote(watched, path, reusable=not flags & os.O_EXCL)


def _database(watched: _Watched, args: tuple[Any, ...]) -> None:
    name = _text(args[0])
    if name and not name.startswith((":", "file:")):
        _wrote(watched, name, reusable=True)


def _changed(watched: _Watched, args: tuple[Any, ...]) -> None:
    """A path that was removed, made or cut."""
    if not (len(args) > 1 and args[-1] is not None and args[-1] >= 0):  # else relative to a folder's descriptor
        _wrote(watched, args[0], reusable=False)


def _moved(watched: _Watched, args: tuple[Any, ...]) -> None:
    if args[-1] < 0:
        _wrote(watched, args[1], reusable=False)


def _wrote(watched: _Watched, path: Any, *, reusable: bool) -> None:
    """A file outside of scratch and temporary folders; inside of them one that other completions wrote too."""
    if not isinstance(path, str | bytes | os.PathLike):
        return
    folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
    full = os.path.join(os.path.realpath(folder), name)
    if full.startswith(("/dev/", "/proc/")) or "__pycache__" in full or "/.cache/" in full or _under(full, _caches()):
        return
    tree = _sibling("serve")._tree[:1]
    inside = _under(full, [_scratch]) or (_under(full, _TEMPORARY) and not _under(full, tree))
    if not inside:
        watched.note("wrote-files", _sibling("serve")._relative(full))
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


_LOOKS: dict[str, Callable[[_Watched, tuple[Any, ...]], OSError | None]] = {
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


def _begun(watched: _Watched, args: tuple[Any, ...]) -> None:
    global _started
    _started = True


_LOOKS |= dict.fromkeys(
    ("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system", "os.spawn", "pty.spawn"), _begun
)


def look_behind(seen: Any) -> None:
    """Note processes that the case just scored has left running. Linux only: elsewhere there is no /proc."""
    global _confirmed, _started, _own
    if not _started and not _own and _childless():
        return
    own, begun = _of(os.getpid()), _started
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
        seen.problem("left-processes")
    _known.update(new)
    _left[:] = [pid for pid in _left if pid in living] + sorted(new)
    for pid in _left[:-_MOST_LEFT]:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)


def _childless() -> bool:
    """Whether the system says that this process has no child, which costs less than looking for them."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    except (AttributeError, OSError):
        return False
    return False


def _children() -> set[int]:
    """Living processes that this one started, and those that lost their parent: the supervisor adopts them."""
    if sys.platform != "linux":
        return set()
    found = _of(os.getpid()) | _of(os.getppid())
    return {pid for pid in found - {os.getpid()} if _lives(pid)}


def _of(parent: int) -> set[int]:
    found: set[int] = set()
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{parent}/task"):
            with open(f"/proc/{parent}/task/{task}/children", encoding="ascii") as children:
                found.update(map(int, children.read().split()))
    return found


def _lives(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return stat.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except (OSError, IndexError):
        return False
