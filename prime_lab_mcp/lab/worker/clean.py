"""Makes a child see only what a clean installation would hold; runs in the environment's interpreter.

An interpreter that happens to have more than the package requires would load what fails where training runs.
"""

from __future__ import annotations

import sys
from typing import Any


def hide(names: list[str]) -> None:
    """Let no top-level module of these names be found, and forget those that were imported already."""
    hidden = frozenset(names)
    for known in [m for m in sys.modules if m.partition(".")[0] in hidden]:
        del sys.modules[known]
    sys.meta_path[:] = [_Without(finder, hidden) for finder in sys.meta_path]


class _Without:
    """A finder that finds all but some top-level modules.

    Not one that raises: `find_spec` has to say None, which is how code asks whether an optional package is there.
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
