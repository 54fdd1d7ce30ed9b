"""Pure modules of an example environment, loaded without its `__init__`, which would import verifiers."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from tests.conftest import EXAMPLES


def pure_modules(name: str, *modules: str) -> list[ModuleType]:
    """Modules of the environment `name` by their short names."""
    if name not in sys.modules:
        stub = ModuleType(name)
        stub.__path__ = [str(EXAMPLES / name / name)]
        sys.modules[name] = stub
    return [importlib.import_module(f"{name}.{module}") for module in modules]
