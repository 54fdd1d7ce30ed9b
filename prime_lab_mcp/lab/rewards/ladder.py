"""A right completion that is cut off, as when a rollout runs out of tokens."""

from __future__ import annotations

from collections.abc import Iterator

from prime_lab_mcp.lab.datasets.formats import Format
from prime_lab_mcp.lab.rewards.carriers import Carrier

SHARES = (0.25, 0.5, 0.75, 0.95)
"""Shares of the completion that are left (facts/validation 2.2, `truncated`)."""
TASKS = 4


GRADED: frozenset[Format] = frozenset({"free_text", "short_text", "multi_answer", "json", "tool_call"})
"""Formats of which the beginning of an answer may rightly earn a part."""


def cut(carrier: Carrier, said: str, format: Format) -> Iterator[tuple[str, str]]:
    """(name, completion) that end before the answer is complete: at shares of the whole, and inside of the answer.

    Where partial answers may be paid, only those that end before the answer begins.
    """
    whole = carrier.reasoned(said)
    start = whole.rindex(said)
    ends = {f"at {share:.0%}": int(len(whole) * share) for share in SHARES}
    if len(said) > 1 and format not in GRADED:
        ends["inside of the answer"] = start + len(said) // 2
    for name, end in ends.items():
        text = whole[:end]
        if end < start + (0 if format in GRADED else len(said)) and said not in text:
            yield name, text
