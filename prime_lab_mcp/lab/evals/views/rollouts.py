"""`rollouts`: most suspicious first, then the highest and shortest; filtered, paged, whole where few are left."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.views.columns import CUT, FAILED, ZERO, Columns
from prime_lab_mcp.lab.evals.views.filters import Where, parse
from prime_lab_mcp.lab.evals.views.gold_said import Said
from prime_lab_mcp.lab.evals.views.shown import row, whole
from prime_lab_mcp.lab.evals.views.suspicion import DENIED, REASONS, UNSAID, Suspicions, named, worst
from prime_lab_mcp.lab.evals.views.viewed import Evaluated, Viewed
from prime_lab_mcp.lab.report import Finding, Next
from prime_lab_mcp.lab.text import count

PAGE = 10
_FEW = 2
"""Up to this many rollouts are shown as whole conversations where `where` narrows them down."""


def rollouts(evaluated: Evaluated, where: str | None = None, page: int = 1) -> Viewed:
    """One page. The results are read twice: for what ranks them, then for the rollouts that are shown.

    Raises EvalError (`filter-unreadable`).
    """
    wanted = parse(where)
    ranks = Suspicions(Columns(evaluated.spec.weights))
    fits = array("B")
    for rollout in evaluated.rollouts():
        ranks.add(rollout)
        fits.append(wanted.fits(rollout))
    reasons = ranks.reasons()
    chosen = [i for i, fit in enumerate(fits) if fit and _known(wanted, ranks, reasons, i)]
    pages = max(1, -(-len(chosen) // PAGE))
    page = min(page, pages)
    order = heapq.nsmallest(page * PAGE, chosen, key=lambda i: _rank(ranks.columns, reasons, i))
    shown = list(_fetched(evaluated, order[(page - 1) * PAGE :], reasons))
    played = bool(shown) and (len(chosen) == 1 or (len(chosen) <= _FEW and wanted.exact))
    tally = Counter(text for i in chosen for text in named(reasons[i]))
    data: dict[str, Any] = {
        "id": evaluated.id,
        "where": where or "all",
        "matching": len(chosen),
        "of": len(ranks.columns),
        "page": page,
        "pages": pages,
        "suspicious": {text: tally[text] for text in REASONS.values() if tally[text]},
        "rollouts": whole(shown) if played else [row(r, why) for r, why in shown],
    }
    return Viewed(_sentence(data, played=played), data, _findings(ranks, reasons), _next(evaluated, data, shown))


def _known(wanted: Where, ranks: Suspicions, reasons: Sequence[int], index: int) -> bool:
    flags = ranks.columns.flags[index]
    return {
        "all": True,
        "zero": bool(flags & ZERO),
        "rewarded": not flags & (ZERO | FAILED),
        "error": bool(flags & FAILED),
        "truncated": bool(flags & CUT),
        "suspicious": reasons[index] != 0,
    }[wanted.word]


def _rank(columns: Columns, reasons: Sequence[int], index: int) -> tuple[int, bool, float, int, int]:
    failed = bool(columns.flags[index] & FAILED)
    reward = 0.0 if failed else columns.reward[index]
    return (worst(reasons[index]), failed, -reward, columns.length[index], index)


def _fetched(
    evaluated: Evaluated, places: Sequence[int], reasons: Sequence[int]
) -> Iterator[tuple[Rollout, list[str]]]:
    """The rollouts at these places of the file, in this order."""
    left, found = set(places), {}
    for place, rollout in enumerate(evaluated.rollouts()):
        if place in left:
            found[place] = rollout
            left.discard(place)
            if not left:
                break
    yield from ((found[p], named(reasons[p])) for p in places if p in found)


def _sentence(data: Mapping[str, Any], *, played: bool) -> str:
    if played:
        return f"{count(data['matching'], 'rollout')} with every message."
    told = ", ".join(f"{number:,} {text}" for text, number in data["suspicious"].items())
    what = f"{data['matching']:,} of {count(data['of'], 'rollout')}, most suspicious first"
    return f"{what}: {told}." if told else f"{what}; none of them is suspicious, so highest reward and shortest first."


def _findings(ranks: Suspicions, reasons: Sequence[int]) -> tuple[Finding, ...]:
    best, columns = ranks.columns.best, ranks.columns
    known = [i for i, s in enumerate(ranks.said) if s != Said.UNKNOWN]
    winners = [i for i in known if ranks.rewarded(i, best)]
    zeros = [i for i in known if columns.flags[i] & ZERO]
    unsaid, denied = (sum(bool(reasons[i] & bit) for i in of) for bit, of in ((UNSAID, winners), (DENIED, zeros)))
    found = []
    if len(winners) >= 4 and 2 * unsaid > len(winners):
        found.append(
            Finding(
                "eval-gold-unsaid", "warning",
                f"{unsaid:,} of {len(winners):,} rewarded replies do not say the gold answer: it is written another "
                "way there, or the reward pays wrong answers",
                'Read some with read_eval(view="rollouts", where="suspicious"); if they are wrong, call test_reward.',
            )
        )  # fmt: skip
    if denied >= 2 and 20 * denied >= len(zeros):
        found.append(
            Finding(
                "eval-zero-with-gold", "warning",
                f"{denied:,} of {count(len(zeros), 'reply', 'replies')} that earned nothing say the gold answer: "
                "the reward may not read them",
                'Give some of them to test_reward as cases with expected "high"; mend the parsing if they fail.',
            )
        )  # fmt: skip
    return tuple(found)


def _next(
    evaluated: Evaluated, data: Mapping[str, Any], shown: Sequence[tuple[Rollout, Sequence[str]]]
) -> tuple[Next, ...]:
    here = {"eval": evaluated.id, "view": "rollouts"}
    calls = []
    if data["matching"] > 1 and shown and shown[0][0].id:
        calls.append(Next("read_eval", "the first one with every message", {**here, "where": shown[0][0].id}))
    if data["page"] < data["pages"]:
        more = {**here, "where": data["where"], "page": data["page"] + 1}
        calls.append(Next("read_eval", "the next page", more))
    return tuple(calls)
