"""Turns smells in a reward's code into at most five hints, of which the confirmed ones come first.

A hint never decides a verdict, because code that looks wrong may be right. A finding of `test_reward` can confirm a
hint, and the hint then names the finding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.base.codes import Code as FindingCode
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.rules.amounts import CaseRow
from prime_lab_mcp.lab.rewards.smells.reach import RewardProgram, reached_functions
from prime_lab_mcp.lab.rewards.smells.rules import SMELL_RULES
from prime_lab_mcp.lab.state.source_code import SourceCode

MOST_HINTS = 5
"""Largest number of hints in one report."""


@dataclass(frozen=True, slots=True)
class SmellProof:
    """A kind of finding that confirms a smell.

    With `cases`, the finding must show a completion of one of these families. The keys of `cases` name the families for
    people.
    """

    code: FindingCode
    cases: Mapping[str, frozenset[Family]] = field(default_factory=dict)

    def confirmed_by(self, finding: Finding) -> bool:
        """Whether this finding confirms the smell."""
        if finding.code != self.code:
            return False
        families_of_rows = {row.scored_probe.probe.family for row in finding.rows if isinstance(row, CaseRow)}
        return not self.cases or any(families_of_rows & families for families in self.cases.values())

    def __str__(self) -> str:
        return f"{self.code} on {' or '.join(repr(c) for c in self.cases)}" if self.cases else self.code


_ECHOES = frozenset({Family.ECHO, Family.FORMED_ECHO})
_EVERY_ANSWER = frozenset({Family.EVERY_ANSWER, Family.EVERY_ANSWER_BACKWARDS})
_RETRACTED = frozenset({Family.RETRACTED})
_SEVERAL = {"every answer": _EVERY_ANSWER, "contradict": _RETRACTED, "echo": _ECHOES}
_ODD = {"odd": frozenset({Family.ODD_NUMBER, Family.ODD_CHARACTERS})}
_NOTHING = {"empty": frozenset({Family.EMPTY}), "format only": frozenset({Family.FORM_ALONE})}
_BOTH = {
    "both": frozenset({Family.GOLD_LAST, Family.GOLD_FIRST}),
    "contradict": _RETRACTED,
    "stuffed": frozenset({Family.IN_THOUGHT}),
}


@dataclass(frozen=True, slots=True)
class SmellKind:
    """A kind of smell, with its fix and the findings that confirm it."""

    fix: str
    proofs: tuple[SmellProof, ...]


@dataclass(frozen=True, slots=True)
class Smell:
    """One place in the code with a smell. `where` is `PATH:LINE`, and `action` describes the code's behaviour."""

    kind: str
    where: str
    action: str


_PARSE = "Read one final answer out of the reply and compare that."
_ZERO = "Return 0.0 there."
_STATE = "Keep nothing between calls; use local names."
SMELL_KINDS: dict[str, SmellKind] = {
    "substring": SmellKind(
        _PARSE,
        (
            SmellProof("reward-wrong-passes"),
            SmellProof("reward-hackable", _SEVERAL),
        ),
    ),
    "error-pays": SmellKind(
        _ZERO,
        (
            SmellProof("reward-malformed-beats-wrong"),
            SmellProof("reward-constant"),
            SmellProof("reward-hackable", _ODD),
        ),
    ),
    "missing-pays": SmellKind(
        _ZERO,
        (
            SmellProof("reward-malformed-beats-wrong"),
            SmellProof("reward-hackable", _NOTHING),
        ),
    ),
    "first-match": SmellKind(
        "Take the last match, or refuse several that differ.",
        (
            SmellProof(
                "reward-hackable",
                _BOTH,
            ),
            SmellProof("reward-too-strict"),
        ),
    ),
    "state": SmellKind(_STATE, (SmellProof("reward-order-dependent"), SmellProof("reward-nondeterministic"))),
    "chance": SmellKind("Take chance, clock and hash() out of the reward.", (SmellProof("reward-nondeterministic"),)),
    "backtracking": SmellKind("Make the inner part match once, or bound it.", (SmellProof("reward-slow"),)),
    "unlimited": SmellKind("Give it a timeout.", (SmellProof("reward-slow"),)),
    "length": SmellKind("Take length out of the reward, or bound what it pays.", (SmellProof("reward-length-bonus"),)),
    "keyword": SmellKind("Pay for the answer, not for words around it.", (SmellProof("reward-hackable"),)),
    "whole": SmellKind("Read the answer out of the reply: a model reasons first.", (SmellProof("reward-too-strict"),)),
}
"""Every kind of smell, the most severe first."""


def find_smells(code: SourceCode) -> list[Smell]:
    """Return every smell in the functions that decide a reward, in the order of `SMELL_KINDS`. No code is run."""
    program = RewardProgram(code)
    order = list(SMELL_KINDS)
    smells = {
        (kind, at.file.at(line)): Smell(kind, at.file.at(line), f"{at.function.name} {action}")
        for at in reached_functions(code)
        for rule in SMELL_RULES
        for kind, line, action in rule(program, at)
    }
    return sorted(smells.values(), key=lambda s: order.index(s.kind))


def hints(smells: Iterable[Smell], findings: Sequence[Finding]) -> list[Finding]:
    """Return at most `MOST_HINTS` hints, one for each kind of smell, the confirmed ones first."""
    by_kind: dict[str, list[Smell]] = {}
    for smell in smells:
        by_kind.setdefault(smell.kind, []).append(smell)
    ranked = []
    for kind, places in by_kind.items():
        proven = [p.code for p in SMELL_KINDS[kind].proofs if any(p.confirmed_by(f) for f in findings)]
        ranked.append((not proven, _hint(kind, places, proven)))
    return [hint for _, hint in sorted(ranked, key=lambda pair: pair[0])][:MOST_HINTS]


def _hint(kind: str, places: Sequence[Smell], proven: Sequence[str]) -> Finding:
    """Return the hint for one kind of smell. `proven` are the codes of the findings that confirm it."""
    kind_of_smell = SMELL_KINDS[kind]
    first = places[0]
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    confirmation = (
        f"confirmed: {', '.join(dict.fromkeys(proven))}"
        if proven
        else f"would be confirmed by {', '.join(map(str, kind_of_smell.proofs))}"
    )
    return Finding(
        "reward-smell",
        "info",
        f"{kind}: {first.action} ({first.where}{more}); {confirmation}",
        kind_of_smell.fix,
        first.where,
    )
