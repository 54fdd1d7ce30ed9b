"""Hints from reading a reward's code: where it does what often goes wrong, and which finding of test_reward proves it.

A hint never decides: code that looks wrong may be right. Behaviour decides, and a hint that it confirms says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.checks.code import Code
from prime_lab_mcp.lab.checks.smells_reach import Program, reached
from prime_lab_mcp.lab.checks.smells_rules import RULES
from prime_lab_mcp.lab.report import Finding

MOST = 5
"""Hints shown in one report."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A finding that shows the smell to be a flaw; of those about many things, only with a case so named."""

    code: str
    cases: tuple[str, ...] = ()

    def shown_by(self, finding: Finding) -> bool:
        named = [str(row.get("case", "")) for row in finding.rows]
        return finding.code == self.code and (not self.cases or any(n.startswith(self.cases) for n in named))

    def __str__(self) -> str:
        return f"{self.code} on {' or '.join(repr(c) for c in self.cases)}" if self.cases else self.code


@dataclass(frozen=True, slots=True)
class Kind:
    """What to do about a smell, and which findings would prove it."""

    fix: str
    proofs: tuple[Proof, ...]


@dataclass(frozen=True, slots=True)
class Smell:
    """One place in the code."""

    kind: str
    where: str
    said: str


_PARSE = "Read one final answer out of the reply and compare that."
_ZERO = "Return 0.0 there."
_STATE = "Keep nothing between calls; use local names."
KINDS: dict[str, Kind] = {
    "evaluates": Kind(
        "Parse the text instead (Decimal, ast.literal_eval, a regular expression).",
        (Proof("reward-evaluates-output"), Proof("reward-hackable", ("sum left", "Python code"))),
    ),
    "substring": Kind(
        _PARSE, (Proof("reward-wrong-passes"), Proof("reward-hackable", ("every answer", "contradict", "echo")))
    ),
    "error-pays": Kind(
        _ZERO, (Proof("reward-malformed-beats-wrong"), Proof("reward-constant"), Proof("reward-hackable", ("odd",)))
    ),
    "missing-pays": Kind(
        _ZERO, (Proof("reward-malformed-beats-wrong"), Proof("reward-hackable", ("empty", "format only")))
    ),
    "first-match": Kind(
        "Take the last match, or refuse several that differ.",
        (Proof("reward-hackable", ("both", "contradict", "stuffed")), Proof("reward-too-strict")),
    ),
    "state": Kind(_STATE, (Proof("reward-order-dependent"), Proof("reward-nondeterministic"))),
    "chance": Kind("Take chance, clock and hash() out of the reward.", (Proof("reward-nondeterministic"),)),
    "backtracking": Kind("Make the inner part match once, or bound it.", (Proof("reward-slow"),)),
    "blocking": Kind("Await it, or run it in asyncio.to_thread.", (Proof("reward-slow"),)),
    "unlimited": Kind("Give it a timeout.", (Proof("reward-slow"),)),
    "alarm": Kind("Use asyncio.wait_for, or a subprocess with a timeout.", (Proof("reward-raises"),)),
    "length": Kind("Take length out of the reward, or bound what it pays.", (Proof("reward-length-bonus"),)),
    "keyword": Kind("Pay for the answer, not for words around it.", (Proof("reward-hackable"),)),
    "whole": Kind("Read the answer out of the reply: a model reasons first.", (Proof("reward-too-strict"),)),
}
"""Every smell, the gravest first."""


def find(code: Code) -> list[Smell]:
    """Every smell of the functions that decide a reward, in the order of `KINDS`. Pure; nothing is run."""
    program = Program(code)
    order = list(KINDS)
    found = {
        (kind, at.file.at(line)): Smell(kind, at.file.at(line), f"{at.function.name} {said}")
        for at in reached(code)
        for rule in RULES
        for kind, line, said in rule(program, at)
    }
    return sorted(found.values(), key=lambda s: order.index(s.kind))


def hints(smells: Iterable[Smell], findings: Sequence[Finding]) -> list[Finding]:
    """At most five hints, one per kind of smell, those first that a finding confirms."""
    by_kind: dict[str, list[Smell]] = {}
    for smell in smells:
        by_kind.setdefault(smell.kind, []).append(smell)
    made = []
    for kind, places in by_kind.items():
        proven = [p.code for p in KINDS[kind].proofs if any(p.shown_by(f) for f in findings)]
        made.append((not proven, _hint(kind, places, proven)))
    return [hint for _, hint in sorted(made, key=lambda pair: pair[0])][:MOST]


def _hint(kind: str, places: Sequence[Smell], proven: Sequence[str]) -> Finding:
    told = KINDS[kind]
    first = places[0]
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    shown = (
        f"confirmed: {', '.join(dict.fromkeys(proven))}"
        if proven
        else f"would be confirmed by {', '.join(map(str, told.proofs))}"
    )
    return Finding(
        "reward-smell", "info", f"{kind}: {first.said} ({first.where}{more}); {shown}", told.fix, first.where
    )
