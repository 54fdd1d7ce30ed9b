"""Makes messages that no client should send, and calls with random arguments by the schemas of the tools."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

from prime_lab_mcp.server.tool_descriptions import stored_descriptions

TEXTS = (
    "",
    " ",
    "sums_v1",
    "environments/sums_v1",
    "../../etc/passwd",
    "/etc/shadow",
    "README.md",
    "nothing",
    "me/sums@0.1.0",
    "a\x00b",
    "\ud800",
    "‮\u2028é",
    "x" * 5_000,
    "'; DROP TABLE jobs; --",
    "eval-00000001",
    "{}",
    "-1",
)
NUMBERS = (0, -1, 1, 2, 3.5, 10**30, -(10**30), 1e308, float("nan"), float("inf"), True, 2**63)
ODD: tuple[Any, ...] = (None, [], {}, [[[]]], {"a": {"b": []}}, "text", 7, False)
METHODS = ("ping", "tools/list", "resources/list", "prompts/list", "resources/templates/list", "no/such/method", "")
SKIPPED = frozenset({"install"})
"""Arguments that are never given: they would install programs."""
DEAR = frozenset({"check_environment", "test_reward", "run_eval", "create_environment", "inspect_dataset", "preflight"})
"""Tools that start processes for arguments that fit."""
ASKING = frozenset({"watch_run", "search_hub", "control_run"})
"""Tools that ask the platform whatever the arguments are, which takes seconds."""


def schemas() -> dict[str, Mapping[str, Any]]:
    """The schema of each tool's arguments."""
    return {tool.name: tool.input_schema for tool in stored_descriptions()}


class Messages:
    """A seeded source of messages."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.schemas = schemas()
        self._id = 10_000

    def next(self) -> tuple[bytes, Any]:
        """One line, and the id of the request in it; None where no answer is owed to an id."""
        kind = self.draw.choices(("call", "method", "broken", "shape"), (5, 2, 2, 2))[0]
        if kind == "broken":
            return self._broken(), None
        if kind == "shape":
            return self._shape(), None
        self._id += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": self._id}
        if kind == "method":
            message["method"] = self.draw.choice(METHODS[:-1])
        else:
            name = self.draw.choice((*self.schemas, "no_such_tool"))
            while name in ASKING and self.draw.random() < 0.97:
                name = self.draw.choice((*self.schemas, "no_such_tool"))
            message |= {"method": "tools/call", "params": {"name": name, "arguments": self.arguments(name)}}
        return json.dumps(message).encode() + b"\n", self._id

    def arguments(self, tool: str) -> Any:
        """Random arguments: of the types that the schema names, of others, missing, unknown."""
        if self.draw.random() < 0.03:
            return self.draw.choice(ODD)
        schema = self.schemas.get(tool, {})
        properties, required = schema.get("properties", {}), schema.get("required", ())
        given = {
            name: self._value(field)
            for name, field in properties.items()
            if name not in SKIPPED and self.draw.random() < (0.95 if name in required else 0.25)
        }
        if tool in DEAR and self.draw.random() < 0.95:
            given |= {"environment" if "environment" in properties else "unknown": self.draw.choice(("nothing", 5, ""))}
        if self.draw.random() < 0.05:
            given["unknown"] = self.draw.choice(ODD)
        return given

    def _value(self, field: Mapping[str, Any]) -> Any:
        if self.draw.random() < 0.1:
            return self.draw.choice((*ODD, *NUMBERS))
        if "enum" in field:
            return self.draw.choice(field["enum"])
        kind = field.get("type")
        kind = self.draw.choice(kind) if isinstance(kind, list) else kind
        if kind in ("integer", "number"):
            return self.draw.choice((*NUMBERS, field.get("minimum", 0), field.get("maximum", 1)))
        if kind == "boolean":
            return self.draw.choice((True, False))
        if kind == "array":
            return [self.draw.choice(TEXTS) for _ in range(self.draw.randint(0, 3))]
        if kind == "object":
            return {self.draw.choice(TEXTS): self.draw.choice((*ODD, *NUMBERS))}
        return self.draw.choice(TEXTS)

    def _broken(self) -> bytes:
        whole = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"a": "b" * 20}}).encode()
        choice = self.draw.randrange(5)
        if choice == 0:
            line = whole[: self.draw.randrange(1, len(whole))]
        elif choice == 1:
            line = bytes(self.draw.randrange(256) for _ in range(self.draw.randint(1, 300)))
        elif choice == 2:
            at = self.draw.randrange(len(whole))
            line = whole[:at] + bytes([self.draw.randrange(256)]) + whole[at + 1 :]
        elif choice == 3:
            line = b"[" * self.draw.choice((10, 1_000, 100_000))
        else:
            line = b'{"jsonrpc": "2.0", "id": ' + b"9" * self.draw.choice((30, 5_000)) + b', "method": "ping"}'
        return line.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"

    def _shape(self) -> bytes:
        """JSON that is no request as the protocol has it, or a notification that fits nothing."""
        message: Any = {"jsonrpc": "2.0", "method": self.draw.choice(METHODS)}
        change = self.draw.randrange(6)
        if change == 0:
            message = self.draw.choice(ODD)
        elif change == 1:
            message["id"] = self.draw.choice((None, 1.5, [], {}, True))
        elif change == 2:
            message |= {"params": self.draw.choice(ODD)}
        elif change == 3:
            message = {"jsonrpc": self.draw.choice(("1.0", 2, None)), "id": "a", "method": "ping"}
        elif change == 4:
            message = {"jsonrpc": "2.0", "id": self.draw.randrange(50, 90), "result": self.draw.choice(ODD)}
        else:
            message = {
                "jsonrpc": "2.0",
                "method": "notifications/cancelled",
                "params": {"requestId": self.draw.choice((1, "x", None, 3)), "reason": self.draw.choice(TEXTS)},
            }
        return json.dumps(message).encode() + b"\n"
