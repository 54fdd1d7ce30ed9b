"""Checks of the golds: there, in one form, without contradiction, and not given away (facts/validation 1.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prime_lab_mcp.lab.datasets.formats import ACCEPT
from prime_lab_mcp.lab.datasets.keys import OPEN_ENDED
from prime_lab_mcp.lab.datasets.observing import Observed
from prime_lab_mcp.lab.datasets.plain import SHOWN, Tally
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.text import count

Check = Callable[[Observed], Iterator[Finding]]


def tallied(code: str, severity: Severity, tally: Tally, of: int, message: str, fix: str) -> Finding:
    """A finding whose message begins with count and rate."""
    share = f"{tally.total:,} of {count(of, 'row')} ({tally.total / max(1, of):.1%})"
    return Finding(code, severity, f"{share} {message}", fix, rows=tuple(tally.shown))


def empty_gold(seen: Observed) -> Iterator[Finding]:
    doubtful = seen.doubtful if 0 < seen.doubtful.total <= 0.05 * seen.rows else Tally()
    total = seen.empty.total + doubtful.total
    if not total:
        return
    both = Tally(total, (seen.empty.shown + doubtful.shown)[:SHOWN])
    severe = seen.empty.total > 0.01 * seen.rows
    said = f" ({doubtful.total:,} of them say none)" if doubtful.total else ""
    yield tallied(
        "empty-gold", "blocker" if severe else "warning", both, seen.rows,
        f"have no answer{said}; no completion can ever score there.",
        "Remove these rows, or name another answer column.",
    )  # fmt: skip


def conflicting_gold(seen: Observed) -> Iterator[Finding]:
    tally, rows = (seen.conflicts, seen.rows) if seen.repeats is None else (seen.repeats.conflicts, seen.repeats.rows)
    if tally.total and seen.format not in OPEN_ENDED:
        yield tallied(
            "conflicting-gold", "blocker" if tally.total >= 0.01 * rows else "warning", tally, rows,
            "ask what an earlier row asks and give another answer.",
            "Keep the right one of each pair, or add the column that tells them apart to the prompt.",
        )  # fmt: skip


def gold_in_prompt(seen: Observed) -> Iterator[Finding]:
    found = seen.revealed
    if found.share <= 0.05:
        return
    if found.searched:
        message = "hold the answer somewhere in a long prompt, as in extractive question answering."
        fix = "Nothing to do where the task is to find it there; else take the text it stands in out of the prompt."
    else:
        message = "state the answer in the prompt, so copying scores."
        fix = "Take the column that gives it away out of the prompt, or drop these rows."
    severe = found.share > 0.2 and not found.searched
    yield tallied("gold-in-prompt", "blocker" if severe else "info", found.rows, found.looked, message, fix)


def mixed_format(seen: Observed) -> Iterator[Finding]:
    if seen.answered and 1 - seen.misfits.total / seen.answered < ACCEPT:
        yield tallied(
            "mixed-format", "blocker", seen.misfits, seen.answered,
            f"do not have the form {seen.format} of the others; no one parser is right for all.",
            "Bring the answers into one form or drop these rows; if the form is misjudged, name another answer_column.",
        )  # fmt: skip


def gold_unparseable(seen: Observed) -> Iterator[Finding]:
    share = seen.misfits.total / max(1, seen.answered)
    if 0 < share <= 1 - ACCEPT:
        yield tallied(
            "gold-unparseable", "blocker" if share > 0.01 else "warning", seen.misfits, seen.answered,
            f"cannot be read as {seen.format}; a reward that parses this form never pays there.",
            "Correct these answers or drop the rows.",
        )  # fmt: skip
    elif share == 0 and seen.positions and seen.unplaced.total:
        severe = seen.unplaced.total > 0.01 * seen.answered
        yield tallied(
            "gold-unparseable", "blocker" if severe else "warning", seen.unplaced, seen.answered,
            "have an answer that names none of their options.",
            "Correct these answers or drop the rows.",
        )  # fmt: skip


def float_gold(seen: Observed) -> Iterator[Finding]:
    if seen.floats.total:
        yield tallied(
            "float-gold", "warning", seen.floats, seen.answered,
            "are floating-point numbers whose text nobody writes: 75 is stored as 75.0, and text never matches.",
            "Compare as numbers with a tolerance, as the template numeric does; make class ids integers.",
        )  # fmt: skip


def misleading(seen: Observed) -> Iterator[Finding]:
    if seen.misleading.total:
        yield tallied(
            "unicode", "warning", seen.misleading, seen.answered,
            "have an answer with characters that look like others, so a right completion compares as different.",
            "Normalise both sides (unicodedata.normalize NFKC, spaces collapsed) in the reward, or clean the answers.",
        )  # fmt: skip
    elif seen.mojibake.total:
        yield tallied(
            "unicode", "info", seen.mojibake, seen.rows,
            "have a prompt that was decoded wrongly (UTF-8 read as Latin-1, or lost characters).",
            "Read the source as UTF-8, or repair the text with ftfy.",
        )  # fmt: skip


GOLD_CHECKS: tuple[Check, ...] = (
    empty_gold, conflicting_gold, gold_in_prompt, mixed_format, gold_unparseable, float_gold, misleading,
)  # fmt: skip
