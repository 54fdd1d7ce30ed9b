"""Whether two expressions are equal, by math-verify in a process of its own.

math-verify limits its time by `signal.alarm`, which works in a main thread only and cannot stop work on huge numbers.
So this file runs itself as a small server: a child with its own alarm, which ends it, and a limit of memory. Whoever
asks waits on a pipe, in whatever thread; a child that died is replaced by the next question.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
from functools import lru_cache
from typing import Any

SECONDS = 2.0
"""Processor time that one comparison may take; the verdict shall not depend on how busy the machine is."""
_WALL = 4.0
"""Seconds after which it is ended in any case."""
_STARTING = 30
"""Seconds that a new child may take, once, to import."""
_MEMORY = 2 * 1024**3
LENGTH = 300
_TOO_HARD = re.compile(
    r"\d{41}|\^\s?\{?\s?-?\s?\d{4}|\^[^\s{}^]{0,9}\^|\^\{[^{}]*[\^!]|\d{4,}\s?!|[)}\]!]\s?!"  # towers and factorials
    r"|(?<![\\A-Za-z{])[A-Za-z]{4}"  # prose
    r"|\d\s+\d|\d_|\\(?:int|sum|prod|lim|det)(?![A-Za-z])"  # digits apart, other bases, work left to the reader
)


class GaveUp(Exception):
    """The comparison took too much time or memory."""


def readable(text: str) -> bool:
    """Short and tame enough to be worked on; known towers of powers are refused before anything is parsed."""
    return 0 < len(text) <= LENGTH and _TOO_HARD.search(text) is None


def prepare() -> None:
    """Start what `equal` needs, without waiting for it: that takes a second, once."""
    _CHILD.prepare()


@lru_cache(maxsize=4096)
def equal(gold: str, given: str) -> bool:
    """True when two tidy expressions are equal. Raises GaveUp when that takes too long to find out."""
    if not (readable(gold) and readable(given)):
        return False
    return _CHILD.ask([gold, given])


class _Child:
    """The process, started when first needed, and again after it died. A fork of this process starts its own."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    def prepare(self) -> None:
        if self._process is None:
            with self._lock:
                self._started()

    def ask(self, pair: list[str]) -> bool:
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(pair) + "\n")
                process.stdin.flush()
                told = process.stdout.readline()
            except OSError:
                told = ""
            if told.strip() not in ("0", "1"):
                process.kill()
                process.communicate()
                self._process = None
                raise GaveUp
            return told.strip() == "1"

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            # -P: the folder of this file must not be searched, it may hold modules named like the standard library's.
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-B", os.path.abspath(__file__)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
            )
        return self._process


_CHILD = _Child()
os.register_at_fork(after_in_child=_CHILD.forget)


def _serve() -> None:
    """Answer pairs of expressions, one JSON line each, until standard input ends."""
    import resource

    _limit(0, _STARTING)
    out, sys.stdout = sys.stdout, sys.stderr
    import math_verify

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    targets = [math_verify.LatexExtractionConfig()]  # the other kinds take the last number of a text for its value
    _verdict(math_verify, targets, "x+1", "1+x")  # the first parse is slow
    _limit(0, 0)
    for line in sys.stdin:
        _limit(SECONDS, _WALL)
        verdict = _verdict(math_verify, targets, *json.loads(line))
        _limit(0, 0)
        out.write(f"{int(verdict)}\n")
        out.flush()


def _limit(processor: float, wall: float) -> None:
    """End this process after so many seconds, also in the middle of C code; 0: never."""
    signal.setitimer(signal.ITIMER_PROF, processor)
    signal.setitimer(signal.ITIMER_REAL, wall)


def _verdict(math_verify: Any, targets: list[Any], gold: str, given: str) -> bool:
    def parsed(text: str) -> Any:
        text = text.replace("°", r"^{\circ}")
        return math_verify.parse(rf"\boxed{{{text}}}", targets, fallback_mode="no_fallback", parsing_timeout=None)

    try:
        sides = parsed(gold), parsed(given)
        if not all(sides) or _differ(sides[0][0], sides[1][0]):
            return False
        # Its verdict on `1<x<2` and `(1,2)` depends on which is called the gold; both orders make it symmetric.
        return any(
            math_verify.verify(a, b, timeout_seconds=None, allow_set_relation_comp=True)
            for a, b in (sides, sides[::-1])
        )
    except Exception:  # whatever foreign text does to a parser, it is no equality
        return False


def _differ(gold: Any, given: Any) -> bool:
    """Two expressions that have other values at one point: most wrong answers, found without simplifying anything."""
    from sympy import Expr, Rational

    if not (isinstance(gold, Expr) and isinstance(given, Expr)):
        return False
    names = sorted({symbol.name for symbol in gold.free_symbols | given.free_symbols})
    point = {name: Rational(1371 + 292 * place, 1000) for place, name in enumerate(names)}
    try:
        a, b = (complex(e.subs({s: point[s.name] for s in e.free_symbols}).evalf()) for e in (gold, given))
    except Exception:  # no value there
        return False
    return abs(a - b) > 1e-6 * (1 + abs(a))


if __name__ == "__main__":
    _serve()
