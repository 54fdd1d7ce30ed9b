"""Counts the requests and tokens of a relay, enforces their caps, and decides how to treat a failed request.

The relay repeats a failed request after a wait, counts the failure by its kind, or gives the endpoint up.
"""

from __future__ import annotations

import email.utils
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.relay.endpoints import Price

UNREACHABLE_KINDS = ("connect", "dns")
FINAL_KINDS = ("401", "402", "403", "404", "301", "302", "303", "307", "308")
"""Kinds of failure that a repetition cannot cure: a wrong key, a missing payment, an unknown model, another address."""
GIVE_UP = 10
"""Number of consecutive requests that must fail for such a reason before the endpoint is given up."""
GIVE_UP_SECONDS = 10.0
"""Seconds for which an endpoint that never answered must be unreachable. A model server may still be starting."""
GIVE_UP_SECONDS_LATER = 45.0
"""Seconds for which an endpoint that answered before must be unreachable. It may be restarting."""
SILENT_SECONDS = 30.0
"""Seconds without any answer to waiting requests, after which the endpoint is asked for its models. Long replies take
that long too, so the silence alone proves nothing."""
SILENT_GIVE_UP = 600.0
"""Seconds of silence after which an endpoint that does not list its models either is given up. A server that answers
one request after another may be silent for minutes."""
_CONTEXT = ("context_length", "context length", "maximum context", "too many tokens", "prompt is too long")
_LOOKUP = (
    "name or service not known",
    "name resolution",
    "nodename nor servname",
    "no address associated",
    "getaddrinfo",
)


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long the relay waits per request for an endpoint that limits its rate (429, or 503 with Retry-After).

    If the endpoint asks for a longer wait, the request fails and its sender may try again.
    """

    attempts: int = 6
    each: float = 30.0
    """The longest single wait, in seconds."""
    total: float = 90.0
    """The longest total wait of one request, in seconds."""
    reconnect: float = 1.0
    """Seconds between two tries to reach an endpoint that refuses connections."""

    @property
    def waits(self) -> bool:
        """Whether a request waits for its endpoint at all."""
        return self.attempts > 1

    def wait(self, status: int, retry_after: str | None, attempt: int, waited: float) -> float | None:
        """Return the seconds to wait before the next attempt (`attempt` counts from 1), or None to wait no longer."""
        if attempt >= self.attempts or not (status == 429 or (status == 503 and retry_after)):
            return None
        requested = retry_after_seconds(retry_after)
        seconds = 2.0 ** (attempt - 1) if requested is None else requested
        return seconds if seconds <= self.each and waited + seconds <= self.total else None


NO_RETRY = RetryPolicy(attempts=1)


def retry_after_seconds(retry_after: str | None) -> float | None:
    """Parse Retry-After (RFC 9110: seconds or a date) as seconds from now, or return None if it is neither."""
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
    """Return the kind of a failed response: its status, or `context` if the prompt was too long."""
    if status in (400, 413, 422) and any(mark in text.casefold() for mark in _CONTEXT):
        return "context"
    return str(status)


def kind_of_failure(error: BaseException) -> str:
    """Return the kind of a failure without a response: `dns` if the host name was not found, else `connect`."""
    text = str(error).casefold()
    return "dns" if any(mark in text for mark in _LOOKUP) else "connect"


@dataclass(slots=True)
class FailureStreak:
    """Counts consecutive failures that a repetition cannot cure, over the whole run."""

    kinds: Counter[str] = field(default_factory=Counter)
    since: float = 0.0
    answered: bool = False

    def failed(self, kind: str, now: float) -> None:
        """Count a failed request of this kind. A kind that repetition may cure ends the streak."""
        if kind not in (*UNREACHABLE_KINDS, *FINAL_KINDS):
            self.kinds.clear()
            self.answered = True
            return
        if not self.kinds:
            self.since = now
        self.kinds[kind] += 1

    def succeeded(self) -> None:
        """End the streak."""
        self.kinds.clear()
        self.answered = True

    def given_up(self, now: float) -> str | None:
        """Return the kind of failure that makes further requests pointless; None if they may succeed."""
        if self.kinds.total() < GIVE_UP:
            return None
        kind = self.kinds.most_common(1)[0][0]
        patience = GIVE_UP_SECONDS_LATER if self.answered else GIVE_UP_SECONDS
        return kind if kind in FINAL_KINDS or now - self.since >= patience else None


def error_counts_summary(errors: Mapping[str, int]) -> str:
    """Return counts by kind as text, most frequent first: `12 x 429, 3 x connect`."""
    return ", ".join(f"{n} x {kind}" for kind, n in sorted(errors.items(), key=lambda item: -item[1]))


@dataclass(slots=True)
class RelayUsage:
    """Requests and tokens that passed through the relay. Token numbers are those that the endpoint reported."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    unreported_tokens: int = 0
    """The maximum tokens of requests that the endpoint answered, or may have answered, without reporting tokens."""
    cost: float = 0.0
    """US dollars of all requests. A request without reported tokens counts with its maximum."""
    errors: Counter[str] = field(default_factory=Counter)
    """Number of failed requests by HTTP status, `context` (prompt too long), `connect`, `dns` or `timeout`."""
    capped: int = 0
    rate_limited: int = 0
    """Responses that asked for a later retry; the relay waited."""
    waited: float = 0.0
    """Seconds of those waits, summed over all requests."""
    last_error: str | None = None
    streak: FailureStreak = field(default_factory=FailureStreak)
    silent: float = 0.0
    """Seconds since the endpoint last answered a waiting request, while it did not list its models either."""

    def given_up(self, now: float) -> str | None:
        """Return the kind of failure that makes further requests pointless; None if they may succeed."""
        return "timeout" if self.silent >= SILENT_GIVE_UP else self.streak.given_up(now)

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "unreported_tokens": self.unreported_tokens,
            "request_errors": dict(self.errors),
            "capped": self.capped,
            "rate_limited": self.rate_limited,
            "waited_seconds": round(self.waited, 1),
            "last_error": self.last_error,
            **({"silent_seconds": round(self.silent)} if self.silent else {}),
        }


@dataclass(frozen=True, slots=True)
class RelayCap:
    """Limits of one job or call. None means no limit."""

    tokens: int | None = None
    cost: float | None = None
    price: Price | None = None
    """Price of the models that `prices` does not list."""
    requests: int | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)
    """Known prices by model."""

    @property
    def metered(self) -> bool:
        """Whether requests are limited by what they may cost or use."""
        return self.tokens is not None or (self.cost is not None and self.price is not None)

    def allows(self, tokens: int, cost: float) -> bool:
        """Whether this many tokens and US dollars are within the cap."""
        if self.tokens is not None and tokens > self.tokens:
            return False
        return self.cost is None or self.price is None or cost <= self.cost + 1e-12


DEFAULT_COMPLETION = 4096
"""Token limit of a reply whose request states none, if requests are metered."""


@dataclass(slots=True, eq=False)
class Admission:
    """The maximum tokens of one request. `reported` is set once the endpoint reported the actual tokens."""

    prompt: int
    completion: int
    price: Price | None
    model: str | None = None
    reported: bool = False
    counted_tokens: int = 0
    counted_cost: float = 0.0

    @property
    def tokens(self) -> int:
        return self.prompt + self.completion

    @property
    def cost(self) -> float:
        """US dollars at most; 0 without a price."""
        return 0.0 if self.price is None else self.price.of(self.prompt, self.completion)
