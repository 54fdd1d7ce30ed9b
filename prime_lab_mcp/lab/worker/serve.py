"""The child's side of the conversation: reads requests, asks the adapter of the environment's API, writes replies.

Runs in the process that executes environment code, so it answers whatever that code raises and never trusts what it
returns. One JSON object per line; `score` answers one line per case, so that the server sees which case hangs.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import random
import resource
import select
import socket
import sys
import tempfile
import traceback
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

IDLE = 1800.0
"""Seconds without a request after which a child ends by itself."""
_MEMORY = 4 << 30
_CPU = 3600
_TASKS = 1024
_LINE = 24 << 20
_BROKEN_PIPE = 73
_LATE = 3
"""Cases of one request that may time out and come back; rewards/scorer.py has the same patience."""
_SLOW_MS = 2000.0
_SPENT_MS = 60_000.0
"""What cases of one request may take that are slower than `_SLOW_MS`; the rest is not run."""


class Refused(Exception):
    """The environment cannot be loaded, for a reason of its own making."""


def run(descriptor: int, api: str) -> int:
    """Serve until the server is gone. The value is the exit code."""
    channel = socket.socket(fileno=descriptor)
    program = sys.modules["_prime_lab_worker_program"]
    adapter = program.sibling(api).Adapter()
    program.sibling("audit")
    while (line := _read(channel)) is not None:
        for reply in _answer(adapter, line):
            try:
                channel.sendall(reply)
            except OSError:
                return _BROKEN_PIPE
    _flush()
    return 0


_BUFFER = bytearray()


def _read(channel: socket.socket) -> bytes | None:
    while b"\n" not in _BUFFER:
        try:
            if not select.select([channel], [], [], IDLE)[0]:
                return None
            chunk = channel.recv(1 << 20)
        except (OSError, ValueError):
            return None
        if not chunk:
            return None
        _BUFFER.extend(chunk)
    line, _, rest = bytes(_BUFFER).partition(b"\n")
    _BUFFER[:] = rest
    return line


def _answer(adapter: Any, line: bytes) -> Any:
    import json

    plain = sys.modules["_prime_lab_worker_program"].sibling("plain")
    request = json.loads(line)
    known = request["id"]
    try:
        if request["op"] in ("score", "rescore"):
            late, spent = 0, 0.0
            for number, case in enumerate(request["cases"]):
                if late >= _LATE or spent >= request.get("spent_ms", _SPENT_MS):
                    scored = sys.modules["_prime_lab_worker_program"].sibling("watch").not_run()
                elif request["op"] == "rescore":
                    scored = sys.modules["_prime_lab_worker_program"].sibling("stored").score(adapter, case, request)
                else:
                    scored = adapter.score(case, request["case_timeout"])
                late += "timeout" in scored["problems"]
                # Waiting for a judge is not the reward's slowness.
                spent += scored["ms"] if scored["ms"] > _SLOW_MS and not scored["judges"] else 0.0
                yield plain.encode({"id": known, "case": number, "result": scored})
                _flush()
            yield plain.encode({"id": known, "result": None})
            return
        if request["op"] in ("load", "serve"):
            enter(request)
            result = getattr(adapter, request["op"])(find(request["module"], request["tree"]), request)
        elif request["op"] == "facts":
            result = adapter.facts()
        elif request["op"] == "together":
            result = adapter.together(request["cases"], request["case_timeout"])
        elif request["op"] == "locate":
            result = sys.modules["_prime_lab_worker_program"].sibling("stored").locate(adapter, request)
        elif request["op"] == "rollout":
            program = sys.modules["_prime_lab_worker_program"].sibling(f"rollouts_{adapter.api}")
            result = program.run(adapter, request)
        else:
            result = adapter.rows(request)
        encoded = plain.encode({"id": known, "result": result})
        if len(encoded) > _LINE:
            raise Refused(f"the answer has {len(encoded):,} bytes; {_LINE:,} can be passed on")
        yield encoded
    except GeneratorExit:
        raise
    except BaseException as error:
        yield plain.encode({"id": known, "failed": failure(error)})
    finally:
        _flush()


def failure(error: BaseException) -> dict[str, str]:
    """An exception as data, the end of its traceback without our own frames."""
    plain = sys.modules["_prime_lab_worker_program"].sibling("plain")
    here = str(Path(__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(here)]
    own = [f for f in frames if f.filename.startswith(_tree[0])] if _tree else []
    places = [(f.filename, f.lineno) for f in own or frames]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    lines = "".join(traceback.format_list(frames[-6:]))
    return {
        "type": type(error).__name__,
        "message": _relative(plain.text(error, 2000)),
        "where": _relative("{}:{}".format(*places[-1])) if places else "",
        "traceback": _relative(plain.text(lines, 4000)),
    }


_tree: list[str] = []


def tree() -> str:
    """The folder of the environment's code; empty before it was loaded."""
    return _tree[0] if _tree else ""


def _relative(text: str) -> str:
    return text.replace(f"{_tree[0]}/", "") if _tree else text


def enter(request: dict[str, Any]) -> None:
    """Limits, scratch folder and search path, before any of the environment's code runs.

    Processes, memory and CPU time are bounded, and relative paths, HOME and temporary files end in the scratch folder,
    which is removed with the child. Files that the code writes by absolute path elsewhere are not contained.
    """
    scratch = request["scratch"]
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch, PWD=scratch)
    os.environ.update(request.get("variables") or {})
    tempfile.tempdir = scratch
    for kind, soft in _limits():
        with contextlib.suppress(OSError, ValueError):
            _, hard = resource.getrlimit(kind)
            bound = soft if hard == resource.RLIM_INFINITY else min(soft, hard)
            resource.setrlimit(kind, (bound, hard))
    tree = request["tree"]
    _tree[:] = [tree]
    sys.path[:0] = [p for p in (tree, f"{tree}/src") if os.path.isdir(p)]
    _keep_clean(tree)
    if request.get("hidden"):
        sys.modules["_prime_lab_worker_program"].sibling("clean").hide(request["hidden"])
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _limits() -> list[tuple[int, int]]:
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, _CPU)]
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        limits.append((resource.RLIMIT_AS, used + _MEMORY))
        limits.append((resource.RLIMIT_NPROC, _threads_of_user() + _TASKS))
    return limits


def _threads_of_user() -> int:
    # RLIMIT_NPROC counts every thread of the user on this machine, not only ours.
    user, found = os.getuid(), 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == user:
                    found += len(os.listdir(f"/proc/{entry}/task"))
    return found


def _keep_clean(tree: str) -> None:
    """Byte code is cached as usual, but not inside the snapshot: its files are what will be published."""
    write = SourceFileLoader.set_data

    def set_data(self: Any, path: str, data: Any, **options: Any) -> None:
        if not path.startswith(tree):
            write(self, path, data, **options)

    SourceFileLoader.set_data = set_data  # type: ignore[method-assign]


def find(name: str, tree: str) -> ModuleType:
    """Import the environment's module from the snapshot, whatever else has its name.

    An installed package, a module that verifiers uses or a builtin of the same name would win a plain import.
    """
    importlib.invalidate_caches()
    places = [p for p in (tree, f"{tree}/src") if os.path.isdir(p)]
    spec = PathFinder.find_spec(name, places)
    if spec is None or spec.loader is None or spec.origin is None:
        raise ModuleNotFoundError(f"no module {name!r} in the environment's folder")
    for known in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        del sys.modules[known]
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return sys.modules.get(name, module)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
