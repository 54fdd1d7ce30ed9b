"""Polynomials compared symbolically.

format: latex
generation: v1
requires: math-verify

Only the last box outside of the thought is read, by a strict grammar, and math-verify compares what it parses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import verifiers.v1 as vf
from math_verify import parse, verify

SYSTEM = "Solve the problem and put the final answer in \\boxed{}."


def rows() -> Iterator[tuple[str, str]]:
    for n in range(100):
        a, b = n % 10 + 1, n // 10 + 2
        yield f"Expand (x + {a})(x + {b}).", f"x^2+{a + b}x+{a * b}"


GRAMMAR = re.compile(r"[0-9x+^{}\-*() ]{1,80}")


def boxed(reply: str) -> str | None:
    """The content of the one box outside of thinking."""
    said = reply.rpartition("</think>")[2].partition("<think>")[0]
    found = re.findall(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}", said)
    return found[0] if len(found) == 1 and said.count("\\boxed") == 1 else None


def equal(said: str | None, gold: str) -> bool:
    """The same polynomial, written out: products of brackets are the question and not an answer."""
    if said is None or not GRAMMAR.fullmatch(said) or "(" in said or "*" in said:
        return False
    try:
        left = parse(f"${gold}$", parsing_timeout=None)
        right = parse(f"${said}$", parsing_timeout=None)
        return bool(verify(left, right, timeout_seconds=None))
    except Exception:
        return False


class SymbolicMathData(vf.TaskData):
    answer: str


class SymbolicMathTask(vf.Task[SymbolicMathData]):
    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        return float(equal(boxed(trace.last_reply or ""), self.data.answer))


class SymbolicMathConfig(vf.TasksetConfig):
    """Nothing to set."""


class SymbolicMathTaskset(vf.Taskset[SymbolicMathTask, SymbolicMathConfig]):
    def load(self) -> Iterator[SymbolicMathTask]:
        for prompt, answer in rows():
            yield SymbolicMathTask(
                SymbolicMathData(prompt=prompt, system_prompt=SYSTEM, answer=answer), self.config.task
            )


__all__ = ["SymbolicMathTaskset"]
