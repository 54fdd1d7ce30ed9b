"""What tests say about scored cases."""

from __future__ import annotations

from prime_lab_mcp.lab.worker.scoring import Scored


def problems(scored: Scored) -> tuple[str, ...]:
    """The problems of a case as texts, `CODE` or `CODE:DETAIL`."""
    return tuple(map(str, scored.problems))
