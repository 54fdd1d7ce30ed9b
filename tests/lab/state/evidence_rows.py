"""Rows of evidence and the facts of a source, as tests of the gates vary them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.state.config_gate import HubFact, SourceFacts
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push

MODEL = "Qwen/Qwen3-4B"


def row(tool: str = "test_reward", **changes: Any) -> Evidence:
    base = Evidence(tool=tool, status="passed", workspace="w", environment="env", source="s1", content="c1")
    return replace(base, **changes)


def blocked_by(code: str, status: Any = "failed", tool: str = "test_reward", **changes: Any) -> Evidence:
    return row(tool, status=status, findings=[{"code": code, "severity": "blocker"}], **changes)


PUSH = Push("w", "env", "me", "env", "0.1.0", "s1", "c1", "h1", "prime")
CHAIN = (row(), row("check_reward_distribution", model=MODEL))
"""What a source of a config needs with its default arguments."""


def ours(**changes: Any) -> SourceFacts:
    base = SourceFacts(
        id="me/env@0.1.0",
        owner="me",
        name="env",
        version="0.1.0",
        args={},
        ours=True,
        push=PUSH,
        history=CHAIN,
        on_disk=("s1",),
        hub=HubFact(True, "0.1.0", "h1", "v1"),
    )
    return replace(base, **changes)
