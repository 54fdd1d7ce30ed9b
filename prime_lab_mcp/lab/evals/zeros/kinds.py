"""The classes of rollouts that earned nothing, and whose they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Zero = Literal[
    "wrong", "unparsed", "truncated", "no_tool_call", "malformed_tool_json", "double_encoded", "unknown_tool",
    "bad_arguments", "tool_timeout", "empty_response", "judge_unparsed", "infrastructure",
]  # fmt: skip
ZEROS: tuple[Zero, ...] = get_args(Zero)
Whose = Literal["model", "setup"]
Cause = Literal[
    "", "tokens", "context", "turns", "shape", "parser", "code", "time", "provider", "environment", "harness",
    "backend", "nonfinite",
]  # fmt: skip
"""What within a class asks for other advice; empty where the class says it all."""

_SETUP: frozenset[Zero] = frozenset({"truncated", "tool_timeout", "empty_response", "judge_unparsed", "infrastructure"})


@dataclass(frozen=True, slots=True)
class Classified:
    """One rollout that earned nothing: its class, and in `evidence` what decided that.

    `evidence` is a sentence of ours; foreign text in it is quoted.
    """

    kind: Zero
    evidence: str
    cause: Cause = ""

    @property
    def whose(self) -> Whose:
        """`model`: what it can do, which training may change. `setup`: limits, endpoint, server or environment."""
        return "setup" if self.kind in _SETUP or self.cause == "parser" else "model"
