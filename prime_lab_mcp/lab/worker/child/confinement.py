"""Confines this process before it runs environment code, and recognises errors that the confinement caused.

lab/sandbox/confine.py calls the kernel. It is loaded by its path, because it also runs without this package.
"""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from .protocol import EnvironmentRequest

_PROGRAM = Path(__file__).parents[2] / "sandbox" / "confine.py"
_LIBRARIES = _PROGRAM.parent / "site" / "sitecustomize.py"
_MOST_CAUSES = 20
_PORTS: list[int | None] = []
"""The file descriptor of the kernel's rules for TCP ports; empty before `prepare`."""
_policy: dict[str, Any] = {}
"""The policy that confines this process; empty if nothing does."""


def kernel() -> ModuleType:
    """Return the module lab/sandbox/confine.py."""
    return _module(_PROGRAM)


def _module(path: Path) -> ModuleType:
    name = f"{__package__}.{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


def prepare(ports: list[int] | None) -> None:
    """Make the kernel's rules for TCP ports. Children of this process inherit the rules as a file descriptor."""
    _module(_LIBRARIES)
    _PORTS[:] = [None if ports is None else kernel().port_rules(ports)]


def descriptors() -> tuple[int, ...]:
    """Return the file descriptors that a child must inherit in order to confine itself."""
    return tuple(fd for fd in _PORTS if fd is not None)


def enter(request: EnvironmentRequest, home: str) -> None:
    """Make caches and HOME lead to the environment's own folders, then confine this process.

    `home` is the fork server's HOME. Raises OSError if the kernel refuses the policy.
    """
    _redirect(request, home)
    policy = request["confinement"]
    if policy is None:
        return
    _module(_LIBRARIES).install()
    kernel().confine(policy, _PORTS[0] if _PORTS else None)
    _policy.update(policy, write=list(map(os.path.realpath, policy["write"])))


def _redirect(request: EnvironmentRequest, home: str) -> None:
    """Set the variables of caches, and replace the fork server's paths in modules that have already read them."""
    caches = request["caches"]
    leads = {os.environ[name]: path for name, path in caches.items() if name in os.environ}
    os.environ.update(caches)
    if "HF_HOME" in caches:
        leads[f"{home}/.cache"] = f"{caches['HF_HOME']}/programs"
    leads[home] = request["scratch"]
    _module(_LIBRARIES).redirect(leads)


def refused(error: BaseException) -> str:
    """Return what the confinement refused, if that caused the exception; otherwise an empty string."""
    if not _policy:
        return ""
    for cause in _causes(error):
        if isinstance(cause, OSError) and (what := _refused(cause)):
            return what
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__ or cause.__context__


def _refused(error: OSError) -> str:
    if error.errno == errno.EFBIG:
        return f"writing a file of more than {_policy['file_bytes'] >> 30} GiB"
    if error.errno not in (errno.EACCES, errno.EPERM):
        return ""
    path = error.filename2 if error.filename2 is not None else error.filename
    if path is None:
        return "a socket, a connection to a closed port, or a signal to another process"
    if not isinstance(path, str | bytes | os.PathLike):
        return ""
    full = os.path.realpath(os.fsdecode(path))
    if _below(full, _policy["write"]):
        return ""  # The policy permits this path, so something else refused the access.
    return f"the path {os.fsdecode(path)}"


def _below(path: str, folders: list[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)
