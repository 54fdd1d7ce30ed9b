"""Limits the time that one tool call loses in environment loads that do not finish.

A call may load an environment several times: from its folder, from its wheel, with its held-out split, and again after
a failure. Each load has its own time limit. Without a common limit, code that hangs in every load would delay the call
for the sum of these limits. The time of unfinished loads is therefore added up, and later loads get the remainder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LOADS_SECONDS = 120.0
"""Seconds that all unfinished loads of one call may take together. This equals the limit of one load, which may have to
download a dataset."""
_LEAST = 0.5
"""The shortest time limit of a load in seconds."""


class LoadDeadline:
    """The seconds that are left for unfinished loads of one call. A load that finishes does not count."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds

    def limit(self, wanted: float) -> float:
        """Return the time limit of the next load in seconds, at most `wanted`.

        The limit is never zero, so that a load fails by its own timeout.
        """
        return min(wanted, max(self._left, _LEAST))

    def lose(self, seconds: float) -> None:
        """Count the seconds of a load that did not finish."""
        self._left -= seconds


_OF_CALL: ContextVar[LoadDeadline | None] = ContextVar("load_deadline", default=None)


def load_deadline() -> LoadDeadline | None:
    """Return the deadline of the current call; None outside of a call."""
    return _OF_CALL.get()


@contextmanager
def shared_load_deadline(seconds: float = LOADS_SECONDS) -> Iterator[LoadDeadline]:
    """Make all loads inside the block share `seconds` for loads that do not finish."""
    deadline = LoadDeadline(seconds)
    before = _OF_CALL.set(deadline)
    try:
        yield deadline
    finally:
        _OF_CALL.reset(before)
