"""The reward of the v0 class MathRubric: the answers are equal as mathematics."""

from __future__ import annotations

import threading
from typing import Any

from math_verify import parse, verify

SECONDS = 5
"""Time for each step of a comparison."""
LONGEST = 50_000
"""Most characters of an answer. A longer one earns nothing."""


def correct_answer(parser: Any, completion: Any, answer: str) -> float:
    """1 when the answer that the parser finds equals the gold."""
    said = parser.parse_answer(completion) or ""
    return _equal(said, answer) if said and len(said) <= LONGEST else 0.0


def _equal(said: str, answer: str) -> float:
    # The time limit of math-verify is a signal, which only the main thread gets.
    seconds = SECONDS if threading.current_thread() is threading.main_thread() else None
    try:
        wanted, given = (parse(f"\\boxed{{{text}}}", parsing_timeout=seconds) for text in (answer, said))
        return float(verify(wanted, given, timeout_seconds=seconds))
    except Exception:
        return 0.0
