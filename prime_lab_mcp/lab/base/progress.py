"""Types of the callbacks through which long steps report progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

Progress = Callable[[float, float | None, str], Awaitable[None]]
"""Arguments: the amount done, the total (None if the total is unknown) and a message."""
Say = Callable[[str], Awaitable[None]]
"""Argument: a message. For steps that cannot measure their progress."""
