"""Names the reads of surroundings (surroundings.py) in findings, in the data of a report and in questions.

A person decides by these names whether code is published or trains. No harmless read may therefore hide another one:
the first read of every sort is always named, however many reads of other sorts there are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.rewards.name_lookups import PRIVATE, REPLACED
from prime_lab_mcp.lab.rewards.outside_kinds import LOOKUP, TIMERS, UNLISTED
from prime_lab_mcp.lab.rewards.surroundings import SurroundingsRead

_EACH = frozenset({"", UNLISTED, TIMERS, LOOKUP, PRIVATE, REPLACED})
"""Kinds of which each different read has a phrase of its own, so that a harmless one hides no other."""
_OF_ONE_SORT = 3
"""Phrases of one sort of reads. Further reads of the sort are named together in one more phrase."""
_NAMED_TOGETHER = 40
"""Most reads that one phrase names together."""
_PLAIN_PLACE = re.compile(r"[\w./-]+:\d+", re.ASCII)
_PUT_APART = re.compile(r"\((.*)\)", re.S)


def surroundings_phrases(reads: Sequence[SurroundingsRead]) -> list[str]:
    """Return phrases for all different reads of the surroundings, each with its first place in the code.

    The phrases alternate between sorts of reads (variables, files, clocks, ...): the first phrases name one read of
    every sort. A sort has at most one phrase more than `_OF_ONE_SORT`, so no sort can push another one out of the
    list.
    """
    first: dict[str, SurroundingsRead] = {}
    for read in reads:
        first.setdefault(read.what if read.kind in _EACH else read.kind or read.what, read)
    if any(what.startswith("the variable ") for what in first):
        first.pop("environment variables", None)
    sorts: dict[str, list[SurroundingsRead]] = {}
    for read in first.values():
        sorts.setdefault(read.kind or " ".join(read.what.split()[:2]), []).append(read)
    ranked = [
        (rank, phrase)
        for sort, of_sort in sorts.items()
        for rank, phrase in enumerate([*map(_phrase, of_sort[:_OF_ONE_SORT]), *_together(sort, of_sort[_OF_ONE_SORT:])])
    ]
    return [phrase for _, phrase in sorted(ranked, key=lambda pair: pair[0])]


def _phrase(read: SurroundingsRead) -> str:
    # A file name of the package may be a sentence.
    where = read.where if _PLAIN_PLACE.fullmatch(read.where) else quote(read.where, 120)
    return f"{read.what} at {where}"


def _together(sort: str, reads: Sequence[SurroundingsRead]) -> list[str]:
    """Return one phrase for further reads of a sort; none without reads."""
    if not reads:
        return []
    names = [(_PUT_APART.search(read.what) or [None, read.what.removeprefix(f"{sort} ")])[1] for read in reads]
    named = "; ".join(str(name) for name in names[:_NAMED_TOGETHER])
    rest = f"; {len(reads) - _NAMED_TOGETHER} more" if len(reads) > _NAMED_TOGETHER else ""
    return [f"{count(len(reads), 'further read')} of this sort: {sort} ({named}{rest})"]


def surroundings_sentence(phrases: Sequence[str]) -> str:
    """Return a sentence that lists reads, for the question before a push or a run; empty if there are none.

    `phrases` are those of `surroundings_phrases`, in which code is quoted.
    """
    return f"Its code reads {', '.join(phrases)}." if phrases else ""


def surroundings_findings(reads: Sequence[SurroundingsRead]) -> list[Finding]:
    """Return a blocker for reads that recognise a test, and findings that list all other reads."""
    findings = []
    recognising = [r for r in reads if r.recognises]
    if recognising:
        findings.append(
            Finding(
                "reward-recognises-test",
                "blocker",
                f"code that training runs looks at {', '.join(surroundings_phrases(recognising))}",
                "Take it out: the reward may depend on the task and the completion only. If it has another purpose, a "
                "person can waive this code (prime-lab-mcp override).",
                recognising[0].where,
            )
        )
    others = [r for r in reads if not r.recognises]
    decides = [r for r in others if not r.kind]
    inside = any(r.in_reward for r in decides)
    if inside:
        findings.append(_read(decides, "the reward"))
        others = [r for r in others if r.kind]
    if others:
        findings.append(_read(others, "code of the package"))
    return findings


def _read(reads: Sequence[SurroundingsRead], who: str) -> Finding:
    """Return the finding that lists reads: a warning if the reward reads them, else information."""
    return Finding(
        "reward-reads-surroundings",
        "warning" if who == "the reward" else "info",
        f"{who} reads {', '.join(surroundings_phrases(reads))}",
        "Let the reward depend on the task and the completion; keep these reads for time limits and clients.",
        reads[0].where,
    )
