"""Runs a template's own reading of dataset rows, so that what is packaged is what the environment can read.

The modules are ours and pure; they are fitted under a name of their own, imported without the package's `__init__`
(which would import verifiers) and forgotten again.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from secrets import token_hex
from types import ModuleType
from typing import Any

from prime_lab_mcp.lab.authoring.names import Names
from prime_lab_mcp.lab.authoring.template import Fit, Value, instantiate

Canonical = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
_ONE_AT_A_TIME = threading.Lock()


def canonical(template: Path, constants: Mapping[str, Value]) -> Canonical:
    """`shape.canonical` of a template under these constants: a raw row as the template's own, None when unreadable."""
    name = f"prime_lab_shape_{token_hex(6)}"
    with _ONE_AT_A_TIME, tempfile.TemporaryDirectory(prefix="shape-") as scratch:
        instantiate(template, Path(scratch), Fit(Names(name, name.replace("_", "-"), "Shape"), constants))
        package = ModuleType(name)
        package.__path__ = [str(Path(scratch, name))]
        sys.modules[name] = package
        importlib.invalidate_caches()
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            shape = importlib.import_module(f"{name}.shape")
        finally:
            sys.dont_write_bytecode = writes
            for loaded in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
                del sys.modules[loaded]
    found: Canonical = shape.canonical
    return found
