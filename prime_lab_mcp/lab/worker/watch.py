"""What scoring functions really did, collected while the environment's own path runs them.

Both generations hide it: v0 swallows exceptions into 0.0, v1 stops at the first one, both convert what is returned and
let NaN through.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

_ERRORS = 20
_FIRST = 8.0
"""Seconds more for the first scoring of a process: rewards import late (host.py allows the same)."""
_JUDGE_FAILED = frozenset({"judge-unreachable", "judge-unread"})
_now: list[Any] = []


def current() -> Any:
    """What is noted of the case that is being scored; None before the first."""
    return _now[0] if _now else None


def _sibling(name: str) -> Any:
    return sys.modules["_prime_lab_worker_program"].sibling(name)


class Seen:
    """Errors and problems of one case."""

    def __init__(self) -> None:
        self.errors: list[dict[str, str]] = []
        self.problems: list[str] = []
        self.raised: list[BaseException] = []
        self.waiting = ""
        self.judges: list[dict[str, Any]] = []
        """Models that were asked while this case was scored."""
        self.cut = False
        """A question to a judge was broken off."""
        _now[:] = [self]

    def problem(self, code: str) -> None:
        """Note a kind of misbehaviour once."""
        if code not in self.problems:
            self.problems.append(code)

    def say(self, kind: str, message: str, where: str) -> None:
        """Note an error that is no exception."""
        self.errors.append({"type": kind, "message": message, "where": where})

    def error(self, error: BaseException, where: str) -> None:
        """Note an exception, with the line of the environment's code that raised it."""
        if isinstance(error, asyncio.CancelledError):
            self.waiting = self.waiting or where  # we cancelled it; `failed` says why
            return
        self.raised.append(error)
        if _sibling("judges").unreachable(error):
            self.problem("judge-unreachable")
        elif self.judges and "judge-unreachable" not in self.problems:
            self.problem("judge-unread")
        told = _sibling("serve").failure(error)
        place = ":".join(p for p in (where, told["where"]) if p)
        self.say(told["type"], told["message"], place)

    def unreachable(self, error: BaseException) -> None:
        """Note that a judge could not be asked, whatever the reward makes of it."""
        if "judge-unreachable" not in self.problems:
            self.problem("judge-unreachable")
            self.say(type(error).__name__, _sibling("plain").text(error, 2000), "")

    def failed(self, error: BaseException, seconds: float, limit: float) -> None:
        """The scoring as a whole failed after so many seconds; said once, if a function already told why."""
        if isinstance(error, TimeoutError) and seconds >= limit * 0.98:
            self.problem("judge-unreachable" if self.cut else "timeout")
            self.say("TimeoutError", f"no score within {limit:g} seconds", self.waiting)
            return
        chain: BaseException | None = error
        while chain is not None:
            if any(chain is known for known in self.raised):
                return
            chain = chain.__cause__ or chain.__context__
        if not self.errors:
            self.error(error.__cause__ or error, "")

    def late(self, seconds: float, limit: float, *, first: bool) -> None:
        """Note a scoring that took too long and came back: what blocks the loop cannot be cancelled."""
        allowed = limit + _FIRST if first else limit
        if seconds > allowed + 0.1 and not self.errors and "timeout" not in self.problems:
            self.problem("timeout")
            self.say("TimeoutError", f"the score came after {seconds:.1f} seconds, {limit:g} are allowed", self.waiting)

    def look(self, value: Any, name: str) -> None:
        """Judge what a scoring function returned: a number, or a mapping of numbers (v1)."""
        for part in value.values() if isinstance(value, Mapping) else (value,):
            number = _sibling("plain").number(part)
            scalar = type(part).__module__ == "numpy" and type(part).__name__ != "ndarray"
            if isinstance(part, bool | int | float) or scalar:
                if number is None:
                    self.problem("nonfinite")
                continue
            self.problem(f"not-a-float:{type(part).__name__}")
            if number is None:
                self.say("TypeError", f"{name} returned {type(part).__name__}, not a number", name)

    def told(self) -> dict[str, Any]:
        """For the reply. What a reward made of a judge that failed is no reward, so none is told then."""
        told: dict[str, Any] = {"errors": self.errors[:_ERRORS], "problems": self.problems, "judges": self.judges}
        return told | {"reward": None} if _JUDGE_FAILED & set(self.problems) else told


def not_run() -> dict[str, Any]:
    """The reply for a case after too many slow ones."""
    seen = Seen()
    seen.say("not-run", "earlier cases took too long", "")
    seen.problem("not-run")
    return {"reward": None, "components": {}, "metrics": {}, **seen.told(), "ms": 0.0}


def no_row(row: int) -> dict[str, Any]:
    """The reply for a case of a task that is not there."""
    seen = Seen()
    seen.say("IndexError", f"there is no task {row}", "")
    seen.problem("no-such-row")
    return {"reward": None, "components": {}, "metrics": {}, **seen.told(), "ms": 0.0}
