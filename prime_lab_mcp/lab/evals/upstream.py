"""What a request that an endpoint turned away means: wait and repeat it, count it, or give the endpoint up."""

from __future__ import annotations

import email.utils
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

UNREACHABLE = ("connect", "dns")
FINAL = ("401", "402", "403", "404")
"""No repetition cures these: the key, the money, the model."""
GIVE_UP = 10
"""Requests in a row that must have failed for such a reason, with no answer between them."""
GIVE_UP_SECONDS = 10.0
"""How long an endpoint that never answered must have been unreachable: a model server may still be starting."""
GIVE_UP_SECONDS_LATER = 60.0
"""The same for one that had answered before: it may be restarting."""
_CONTEXT = ("context_length", "context length", "maximum context", "too many tokens", "prompt is too long")
_LOOKUP = (
    "name or service not known",
    "name resolution",
    "nodename nor servname",
    "no address associated",
    "getaddrinfo",
)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the relay waits for an endpoint that limits its rate (429, or 503 with Retry-After) per request.

    Longer waits that the endpoint asks for are not made: the request fails, and the one who asked may try again.
    """

    attempts: int = 6
    each: float = 30.0
    """Longest single wait in seconds."""
    total: float = 90.0
    """Seconds of waiting per request."""

    def wait(self, status: int, retry_after: str | None, attempt: int, waited: float) -> float | None:
        """Seconds to wait before the next attempt (`attempt` counts from 1), or None to give the answer back."""
        if attempt >= self.attempts or not (status == 429 or (status == 503 and retry_after)):
            return None
        asked = seconds(retry_after)
        wanted = 2.0 ** (attempt - 1) if asked is None else asked
        return wanted if wanted <= self.each and waited + wanted <= self.total else None


IMPATIENT = Patience(attempts=1)


def seconds(retry_after: str | None) -> float | None:
    """Retry-After (RFC 9110: seconds or a date) as seconds from now; None where it is neither."""
    if not retry_after:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


def kind_of_status(status: int, text: str) -> str:
    """How a failed answer is counted: by its status, `context` where the prompt was too long."""
    if status in (400, 413, 422) and any(mark in text.casefold() for mark in _CONTEXT):
        return "context"
    return str(status)


def kind_of_failure(error: BaseException) -> str:
    """How a request without an answer is counted: `dns` or `connect`."""
    told = str(error).casefold()
    return "dns" if any(mark in told for mark in _LOOKUP) else "connect"


@dataclass(slots=True)
class Streak:
    """Failures in a row that no repetition cures, of the whole run."""

    kinds: Counter[str] = field(default_factory=Counter)
    since: float = 0.0
    answered: bool = False

    def failed(self, kind: str, now: float) -> None:
        if kind not in (*UNREACHABLE, *FINAL):
            self.kinds.clear()
            self.answered = True
            return
        if not self.kinds:
            self.since = now
        self.kinds[kind] += 1

    def succeeded(self) -> None:
        self.kinds.clear()
        self.answered = True

    def given_up(self, now: float) -> str | None:
        """The kind of failure for which it is no use to go on, if there is one."""
        if self.kinds.total() < GIVE_UP:
            return None
        kind = self.kinds.most_common(1)[0][0]
        patience = GIVE_UP_SECONDS_LATER if self.answered else GIVE_UP_SECONDS
        return kind if kind in FINAL or now - self.since >= patience else None


def shown(errors: Mapping[str, int]) -> str:
    """Counts by kind as text, most frequent first: `12 x 429, 3 x connect`."""
    return ", ".join(f"{n} x {kind}" for kind, n in sorted(errors.items(), key=lambda item: -item[1]))
