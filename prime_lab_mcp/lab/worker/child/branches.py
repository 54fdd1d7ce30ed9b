"""Branch coverage of the environment's code while a completion is scored.

The search for reward holes prefers completions that take new branches. On Python 3.12 and newer, `sys.monitoring`
reports lines and branches; after its first event, a location outside of the environment's folder is disabled, so that
libraries run at full speed. On 3.11, a trace function follows the frames of the environment's code. Coverage is only
recorded inside a `following` block.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from . import environment

_TOOL_NAME = "prime-lab-search"
_TOOL_ID = 4
"""A tool identifier of `sys.monitoring` that no debugger, coverage tool or profiler reserves."""
_MOST_BRANCHES = 20_000
"""Most branches that are recorded in one search."""


class _Branches:
    """The branches that were taken since the search began, and those that the current scoring took first."""

    def __init__(self) -> None:
        self.search: int | None = None
        self.known: set[str] = set()
        self.new: list[str] = []

    def begin(self, search: int) -> bool:
        """Begin a scoring of this search. Return whether the search is a new one."""
        self.new = []
        if self.search == search:
            return False
        self.search, self.known = search, set()
        return True

    def take(self, code: CodeType, source: int, target: int) -> None:
        branch = (
            f"{environment.relative(code.co_filename)}:{getattr(code, 'co_qualname', code.co_name)}:{source}>{target}"
        )
        if branch not in self.known and len(self.known) < _MOST_BRANCHES:
            self.known.add(branch)
            self.new.append(branch)


_branches = _Branches()


@contextlib.contextmanager
def following(search: int | None) -> Iterator[list[str]]:
    """Record the branches that the block takes. After the block, the list holds those that are new in this search.

    Nothing is recorded if `search` is None.
    """
    new: list[str] = []
    if search is None or not environment.tree():
        yield new
        return
    new_search = _branches.begin(search)
    stop = _monitor(new_search) if sys.version_info >= (3, 12) else _trace()
    try:
        yield new
    finally:
        stop()
        new += _branches.new


def _monitor(new_search: bool) -> Callable[[], None]:
    monitoring: Any = getattr(sys, "monitoring")  # noqa: B009 - missing from the types of 3.11
    events, tree = monitoring.events, f"{environment.tree()}/"

    def line(code: CodeType, number: int) -> Any:
        if code.co_filename.startswith(tree):
            _branches.take(code, 0, number)
        return monitoring.DISABLE

    def branch(code: CodeType, source: int, target: int) -> Any:
        if not code.co_filename.startswith(tree):
            return monitoring.DISABLE
        _branches.take(code, source, target)
        return None

    if monitoring.get_tool(_TOOL_ID) is None:
        monitoring.use_tool_id(_TOOL_ID, _TOOL_NAME)
    elif monitoring.get_tool(_TOOL_ID) != _TOOL_NAME:
        return lambda: None
    monitoring.register_callback(_TOOL_ID, events.LINE, line)
    monitoring.register_callback(_TOOL_ID, events.BRANCH, branch)
    if new_search:
        monitoring.restart_events()
    monitoring.set_events(_TOOL_ID, events.LINE | events.BRANCH)
    return lambda: monitoring.set_events(_TOOL_ID, 0)


def _trace() -> Callable[[], None]:
    tree, before = f"{environment.tree()}/", sys.gettrace()

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(tree):
            return None
        last = 0

        def step(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal last
            if event == "line":
                _branches.take(frame.f_code, last, frame.f_lineno)
                last = frame.f_lineno
            return step

        return step

    sys.settrace(enter)
    return lambda: sys.settrace(before)
