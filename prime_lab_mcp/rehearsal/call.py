"""Request and answer types of the platform's routes, so that routes are functions without a web framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from prime_lab_mcp.rehearsal.store import Body, Session, Store

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
LABEL = "rehearsal"
"""Marks all texts that a person may read, so that nobody mistakes the rehearsal for the real platform."""


class Refusal(Exception):
    """An HTTP error answer in the form the platform uses: `{"detail": text | [{loc, msg}]}`."""

    def __init__(self, status: int, detail: str | list[Body]) -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is not a JSON object: a file, or a stream of events.

    `pause`: seconds before the answer is sent.
    """

    content: bytes | Iterator[bytes]
    media_type: str
    status: int = 200
    pause: float = 0.0
    cut: bool = False
    """The connection is dropped after the content, without its proper end."""


@dataclass(frozen=True, slots=True)
class PlatformCall:
    store: Store
    session: Session
    base: str
    """The address in the request, without a trailing slash."""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body = field(default_factory=dict)
    content: bytes = b""
    authenticated: bool = False
    agent: str = ""
    """The User-Agent of the caller."""

    def number(self, name: str, default: int, *, low: int = 0, high: int = 5000) -> int:
        try:
            return max(low, min(high, int(self.query.get(name, default))))
        except ValueError:
            raise Refusal(422, [{"loc": ["query", name], "msg": "Input should be a valid integer"}]) from None


Answer = Body | Raw


@dataclass(frozen=True, slots=True)
class PlatformRoute:
    """A route. A `public` one answers without a key; one that `writes` takes the write lock for its transaction."""

    method: Method
    path: str
    handler: Callable[[PlatformCall], Answer]
    public: bool = False

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def as_json(body: object) -> bytes:
    return json.dumps(body).encode("utf-8")


def iso(seconds: float | None) -> str | None:
    """Format a time like the platform."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
