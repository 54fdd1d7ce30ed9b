"""Prepares this process for the environment's code, imports the code, and describes its errors.

The preparation sets limits, the scratch folder, the search path and the hidden packages.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import random
import resource
import sys
import tempfile
import traceback
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from . import coercion, confinement
from .protocol import EnvironmentRequest, Failure

_MEMORY_BYTES = 4 << 30
"""Memory that the environment may use in addition to what verifiers already uses."""
_FILE_BYTES = 4 << 30
_CPU_SECONDS = 3600
_THREADS = 1024
"""Threads and processes that the environment may start in addition to those of the user."""
_tree: list[str] = []
"""The folder of the environment's code; empty before `enter`."""


def tree() -> str:
    """Return the folder of the environment's code; an empty string before `enter`."""
    return _tree[0] if _tree else ""


def relative(text: str) -> str:
    """Return the text with paths inside the environment's folder made relative."""
    return text.replace(f"{_tree[0]}/", "") if _tree else text


def failure(error: BaseException) -> Failure:
    """Describe an exception, with a traceback that omits the frames of this package."""
    here = str(Path(__file__).parent)
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(here)]
    own = [f for f in frames if f.filename.startswith(_tree[0])] if _tree else []
    places = [(f.filename, f.lineno) for f in own or frames]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    lines = "".join(traceback.format_list(frames[-6:]))
    return {
        "type": type(error).__name__,
        "message": relative(coercion.text(error, 2000)),
        "where": relative("{}:{}".format(*places[-1])) if places else "",
        "traceback": relative(coercion.text(lines, 4000)),
        "refused": coercion.text(confinement.refused(error), 300),
    }


def enter(request: EnvironmentRequest) -> None:
    """Set limits, scratch folder and search path, and confine this process. Call it before environment code runs.

    Processes, memory, file size and CPU time are limited. Relative paths, HOME and temporary files lead to the scratch
    folder. The server removes that folder after the child has ended.
    """
    scratch = request["scratch"]
    home = os.environ.get("HOME", "")
    os.chdir(scratch)
    os.environ.update(HOME=scratch, TMPDIR=scratch, PWD=scratch)
    os.environ.update(request.get("variables") or {})
    tempfile.tempdir = scratch
    confinement.kernel().set_limits(_limits())
    confinement.enter(request, home)
    tree = request["tree"]
    _tree[:] = [tree]
    sys.path[:0] = [p for p in (tree, f"{tree}/src") if os.path.isdir(p)]
    _write_no_bytecode(tree)
    if request.get("hidden"):
        hide(request["hidden"])
    random.seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def _limits() -> list[tuple[int, int]]:
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_CPU, _CPU_SECONDS), (resource.RLIMIT_FSIZE, _FILE_BYTES)]
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        limits.append((resource.RLIMIT_AS, used + _MEMORY_BYTES))
        limits.append((resource.RLIMIT_NPROC, _threads_of_user() + _THREADS))
    return limits


def _threads_of_user() -> int:
    # RLIMIT_NPROC counts all threads of the user on this machine, so the limit must lie above their present number.
    user, count = os.getuid(), 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == user:
                    count += len(os.listdir(f"/proc/{entry}/task"))
    return count


def _write_no_bytecode(tree: str) -> None:
    """Keep Python from writing byte code into the snapshot, whose files are published."""
    write = SourceFileLoader.set_data

    def set_data(self: Any, path: str, data: Any, **options: Any) -> None:
        if not path.startswith(tree):
            write(self, path, data, **options)

    SourceFileLoader.set_data = set_data  # type: ignore[method-assign]


def import_environment(name: str, tree: str) -> ModuleType:
    """Import the environment's module from the snapshot, even if another module has the same name.

    An ordinary import would prefer an installed package, a module that verifiers uses, or a builtin of that name.
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


def hide(names: list[str]) -> None:
    """Make the named top-level modules impossible to import, even if they are already imported.

    A clean installation of the package lacks these modules. An environment that imports one would load here and fail in
    training.
    """
    hidden = frozenset(names)
    for known in [m for m in sys.modules if m.partition(".")[0] in hidden]:
        del sys.modules[known]
    sys.meta_path[:] = [_HidingFinder(finder, hidden) for finder in sys.meta_path]


class _HidingFinder:
    """An import finder that does not find the hidden top-level modules.

    `find_spec` returns None for them and does not raise, because code checks for optional packages with it.
    """

    def __init__(self, finder: Any, hidden: frozenset[str]) -> None:
        self._finder = finder
        self._hidden = hidden

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] in self._hidden:
            return None
        return self._finder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)
