"""What a route of the platform receives and answers: plain data, so routes are functions without a web framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from prime_lab_mcp.rehearsal.store import Body, Session, Store

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
LABEL = "rehearsal"
"""Stands in everything that a person may read, so that nothing of this is taken for the real platform."""


class Refusal(Exception):
    """An HTTP error answer in the form the platform uses: `{"detail": text | [{loc, msg}]}`."""

    def __init__(self, status: int, detail: str | list[Body]) -> None:
        super().__init__(str(detail))
        self.status = status
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Raw:
    """An answer that is not one JSON object: a file, or a stream of events. `pause`: seconds before it is sent."""

    content: bytes | Iterator[bytes]
    media_type: str
    status: int = 200
    pause: float = 0.0
    cut: bool = False
    """The connection is dropped after the content, without its proper end."""


@dataclass(frozen=True, slots=True)
class Call:
    store: Store
    session: Session
    base: str
    """Address this platform was reached at, without a trailing slash."""
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    body: Body = field(default_factory=dict)
    content: bytes = b""
    authenticated: bool = False
    agent: str = ""
    """What the caller says it is (User-Agent)."""

    def number(self, name: str, default: int, *, low: int = 0, high: int = 5000) -> int:
        try:
            return max(low, min(high, int(self.query.get(name, default))))
        except ValueError:
            raise Refusal(422, [{"loc": ["query", name], "msg": "Input should be a valid integer"}]) from None


Answer = Body | Raw


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`public` endpoints answer without a key; `writes` ones take the write lock for their transaction."""

    method: Method
    path: str
    handler: Callable[[Call], Answer]
    public: bool = False

    @property
    def writes(self) -> bool:
        return self.method != "GET"


def as_json(body: object) -> bytes:
    return json.dumps(body).encode("utf-8")


def iso(seconds: float | None) -> str | None:
    """The platform's form of a time."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
