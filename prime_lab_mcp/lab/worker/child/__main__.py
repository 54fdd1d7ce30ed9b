"""Starts the fork server in a process that has imported verifiers (witness.py).

This folder becomes the package `_prime_lab_worker`, independently of Python's search path. An environment may have
modules called `child`, `worker` or `observer`. Such modules do not shadow this package, and the environment cannot
import this package's modules under those names.
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
from pathlib import Path
from typing import Any

PACKAGE = "_prime_lab_worker"


def register(folder: Path) -> None:
    """Make the folder importable as `_prime_lab_worker`."""
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)


def start(server: socket.socket, api: str, ready: dict[str, Any]) -> None:
    """Send `ready` (the versions that were imported) to the server, and fork workers until the server ends.

    Never returns.
    """
    register(Path(__file__).parent)
    importlib.import_module(f"{PACKAGE}.fork_server").main(server, api, ready)
