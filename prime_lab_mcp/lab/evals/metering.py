"""What went through a relay, and what may."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.evals.spec import Price
from prime_lab_mcp.lab.evals.upstream import Streak


@dataclass(slots=True)
class Usage:
    """What went through. Tokens are those that the endpoint reported."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    """Number of failed requests by HTTP status, `context` (prompt too long), `connect`, `dns` or `timeout`."""
    capped: int = 0
    rate_limited: int = 0
    """Answers that asked to come later, and were waited out."""
    waited: float = 0.0
    """Seconds of that, of all requests together."""
    last_error: str | None = None
    streak: Streak = field(default_factory=Streak)

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": self.requests,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "request_errors": dict(self.errors),
            "capped": self.capped,
            "rate_limited": self.rate_limited,
            "waited_seconds": round(self.waited, 1),
            "last_error": self.last_error,
        }


@dataclass(frozen=True, slots=True)
class Cap:
    """Bounds of one job or call; None: no bound."""

    tokens: int | None = None
    cost: float | None = None
    price: Price | None = None
    requests: int | None = None

    def allows(self, prompt: int, completion: int) -> bool:
        if self.tokens is not None and prompt + completion > self.tokens:
            return False
        return self.cost is None or self.price is None or self.price.of(prompt, completion) <= self.cost
