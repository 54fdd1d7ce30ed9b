"""One deadline for all loads of one call.

A call loads an environment several times: from its folder, from its wheel, its held-out split, again after a fault.
Each load has a limit of its own, and code that hangs in each of them would hold the call for the sum of the limits. The
time that loads lose without finishing is therefore counted for the call, and later loads get what is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOADS_SECONDS = 120.0
"""Seconds that the loads of one call may lose, together: the limit of one load, which may download a dataset."""
_LEAST = 0.5


class LoadDeadline:
    """What the unfinished loads of one call have left. A load that finishes costs nothing."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def limit(self, wanted: float) -> float:
        """The time limit of the next load, at most `wanted`. Never zero, so that a load fails by its own timeout."""
        return min(wanted, max(self._left, _LEAST))

    def lose(self, seconds: float) -> None:
        self._left -= seconds


_OF_CALL: ContextVar[LoadDeadline | None] = ContextVar("load_deadline", default=None)


def load_deadline() -> LoadDeadline | None:
    """The deadline of the present call; None outside of calls."""
    return _OF_CALL.get()


@contextmanager
def shared_load_deadline(seconds: float = LOADS_SECONDS) -> Iterator[LoadDeadline]:
    """Let everything inside the block share one deadline."""
    deadline = LoadDeadline(seconds)
    before = _OF_CALL.set(deadline)
    try:
        yield deadline
    finally:
        _OF_CALL.reset(before)
