"""Pure modules of a template, loaded without its `__init__`, which would import verifiers."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from tests.support.assembled import assembled


def modules(kind: str, *names: str) -> dict[str, ModuleType]:
    """Modules of the template `kind` by their short names, such as `answers` and `shape`."""
    package = f"{kind}_template"
    if package not in sys.modules:
        stub = ModuleType(package)
        stub.__path__ = [str(assembled(kind) / package)]
        sys.modules[package] = stub
    return {name: importlib.import_module(f"{package}.{name}") for name in names}
