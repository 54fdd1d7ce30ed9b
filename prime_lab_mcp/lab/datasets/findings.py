"""What is wrong with rows of prompt and gold, whatever they come from: a dataset, or an environment's own tasks.

One pass fills `Observed`; each check is a pure function of it. Thresholds and severities: facts/validation 1.4.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.formats import ACCEPT, CLASSES, NUMERIC, accepts, recognise
from prime_lab_mcp.lab.report import Finding, Severity
from prime_lab_mcp.lab.text import count, quote

SHOWN = 3
"""Rows shown with a finding."""
_NUMERIC_LIKE = NUMERIC | {"boxed", "latex_math"}
_OPEN = frozenset({"short_text", "free_text", "gsm8k_hash", "numeric", "boxed", "latex_math", "json"})
_INJECTIONS = re.compile(
    r"(?i:ignore (?:all )?(?:the )?(?:previous|above|prior) instructions)|<\|im_(?:start|end)\|>|\[/?INST\]"
    r"|</?(?:answer|think|tool_call)>|(?im:^\s*system\s*:)|(?i:full marks|award (?:the )?(?:maximum|full)|the grader\b)"
    r"|[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069]"
)


@dataclass(frozen=True, slots=True)
class PlainRow:
    """One task as text. `index` is its row in the source, from 0; `raw` the gold before it became text."""

    prompt: str
    answer: str | None
    index: int
    raw: Any = None
    offered: bool = False
    """True when the prompt lists the options, so that it holds the gold by design."""

    @property
    def gold(self) -> Any:
        return self.answer if self.raw is None else self.raw


@dataclass(slots=True)
class Tally:
    """How many rows have a flaw, and the first few of them."""

    total: int = 0
    shown: list[dict[str, Any]] = field(default_factory=list)

    def add(self, index: int, value: str, **more: Any) -> None:
        self.total += 1
        if len(self.shown) < SHOWN:
            self.shown.append({"row": index, "value": quote(value, 160), **more})


@dataclass(slots=True)
class Observed:
    """What one pass over the rows saw."""

    format: str
    rows: int = 0
    prompts: dict[bytes, tuple[int, str]] = field(default_factory=dict)
    golds: Counter[str] = field(default_factory=Counter)
    empty: Tally = field(default_factory=Tally)
    conflicts: Tally = field(default_factory=Tally)
    duplicates: Tally = field(default_factory=Tally)
    revealed: Tally = field(default_factory=Tally)
    misfits: Tally = field(default_factory=Tally)
    floats: Tally = field(default_factory=Tally)
    injections: Tally = field(default_factory=Tally)
    leaks: Tally = field(default_factory=Tally)
    held_out: int = 0

    @property
    def answered(self) -> int:
        return self.rows - self.empty.total


Check = Callable[[Observed], Iterator[Finding]]


def examine(
    rows: Iterable[PlainRow], *, format: str | None, eval_rows: Iterable[PlainRow] = (), answered: bool = True
) -> list[Finding]:
    """Every finding about the rows. `format` None: recognised. `answered` False: there are no golds by design."""
    if format is None:
        rows = list(rows)
        found = recognise([(r.index, r.gold) for r in rows])
        format = found.format if found else "free_text"
    seen = observe(rows, format, eval_rows, answered=answered)
    return [finding for check in CHECKS for finding in check(seen)]


def observe(
    rows: Iterable[PlainRow], format: str, eval_rows: Iterable[PlainRow] = (), *, answered: bool = True
) -> Observed:
    """One pass over both splits."""
    seen = Observed(format)
    for row in rows:
        seen.rows += 1
        essence = _essence(row.gold, format)
        _see_prompt(seen, row, golds.normalised(essence))
        if not answered:
            continue
        if golds.is_empty(row.gold) or (format == "class_id" and golds.as_text(row.gold) == "-1"):
            seen.empty.add(row.index, golds.as_text(row.gold))
        else:
            _see_gold(seen, row, essence)
    for row in eval_rows:
        seen.held_out += 1
        first = seen.prompts.get(_digest(row.prompt))
        if first is not None:
            seen.leaks.add(row.index, row.prompt, train_row=first[0])
    return seen


def _digest(prompt: str) -> bytes:
    return hashlib.sha256(golds.normalised(prompt).encode("utf-8", "replace")).digest()[:16]


def _see_prompt(seen: Observed, row: PlainRow, gold: str) -> None:
    key = _digest(row.prompt)
    first = seen.prompts.get(key)
    if first is None:
        seen.prompts[key] = (row.index, gold)
    else:
        seen.duplicates.add(row.index, row.prompt, first_row=first[0])
        if first[1] != gold and not golds.is_empty(row.gold):
            seen.conflicts.add(row.index, row.prompt, first_row=first[0], gold=quote(golds.as_text(row.gold), 80))
    for text in (row.prompt, row.answer or ""):
        if found := _INJECTIONS.search(text):
            seen.injections.add(row.index, text[max(0, found.start() - 40) : found.end() + 40])
            break


def _see_gold(seen: Observed, row: PlainRow, essence: str) -> None:
    value = row.gold
    seen.golds[golds.normalised(essence)] += 1
    if not accepts(seen.format, value):
        seen.misfits.add(row.index, golds.as_text(value))
    if isinstance(value, float):
        seen.floats.add(row.index, str(value))
    if seen.format in _OPEN and not row.offered and _holds(row.prompt, essence, seen.format):
        seen.revealed.add(row.index, row.prompt, gold=quote(essence, 80))


def _essence(value: Any, format: str) -> str:
    """The part of a gold that is the answer: the number after ####, the content of the box."""
    text = golds.as_text(value) if value is not None else ""
    if format in NUMERIC:
        found = golds.gold_number(value, format)
        return golds.canonical(found) if found is not None else text
    return (golds.boxed(text) or text) if format == "boxed" else text


def _holds(prompt: str, gold: str, format: str) -> bool:
    if format in _NUMERIC_LIKE and golds.number(gold) is not None:
        return _holds_number(prompt.replace(",", ""), gold)
    return len(gold) >= 4 and gold.casefold() in prompt.casefold()


def _holds_number(prompt: str, gold: str) -> bool:
    """The number stands alone somewhere. By hand: a pattern per row would have to be compiled per row."""
    place = prompt.find(gold)
    while place >= 0:
        before, after = prompt[place - 1 : place], prompt[place + len(gold) :][:2]
        inside = before.isalnum() or before in ("_", ".") or after[:1].isalnum() or after[:1] == "_"
        if not inside and not (after[:1] == "." and after[1:].isdigit()):
            return True
        place = prompt.find(gold, place + 1)
    return False


def _finding(code: str, severity: Severity, tally: Tally, of: int, message: str, fix: str) -> Finding:
    share = f"{tally.total:,} of {count(of, 'row')} ({tally.total / max(1, of):.1%})"
    return Finding(code, severity, f"{share} {message}", fix, rows=tuple(tally.shown))


# --- checks ----------------------------------------------------------------------------------------------------------


def empty_gold(seen: Observed) -> Iterator[Finding]:
    if seen.empty.total:
        severe = seen.empty.total > 0.01 * seen.rows
        yield _finding(
            "empty-gold", "blocker" if severe else "warning", seen.empty, seen.rows,
            "have no answer; no completion can ever score there.",
            "Remove these rows, or name another answer column.",
        )  # fmt: skip


def conflicting_gold(seen: Observed) -> Iterator[Finding]:
    if seen.conflicts.total:
        severe = seen.conflicts.total >= 0.01 * seen.rows
        yield _finding(
            "conflicting-gold", "blocker" if severe else "warning", seen.conflicts, seen.rows,
            "ask what an earlier row asks and give another answer.",
            "Keep the right one of each pair, or add the column that tells them apart to the prompt.",
        )  # fmt: skip


def duplicate_prompt(seen: Observed) -> Iterator[Finding]:
    share = seen.duplicates.total / max(1, seen.rows)
    if share >= 0.01:
        yield _finding(
            "duplicate-prompt", "blocker" if share >= 0.2 else "warning", seen.duplicates, seen.rows,
            "repeat an earlier prompt; difficulty pools refuse repeated tasks.",
            "Remove the repetitions.",
        )  # fmt: skip


def gold_in_prompt(seen: Observed) -> Iterator[Finding]:
    share = seen.revealed.total / max(1, seen.answered)
    if share > 0.05:
        yield _finding(
            "gold-in-prompt", "blocker" if share > 0.2 else "info", seen.revealed, seen.answered,
            "state the answer in the prompt, so copying scores.",
            "Take the column that gives it away out of the prompt, or drop these rows.",
        )  # fmt: skip


def majority_floor(seen: Observed) -> Iterator[Finding]:
    if seen.answered < 10 or not seen.golds:
        return
    gold, times = seen.golds.most_common(1)[0]
    share, kinds = times / seen.answered, len(seen.golds)
    limit = (0.6 if kinds <= 2 else 2 / kinds) if seen.format in CLASSES and kinds <= 20 else 0.5
    if share < min(limit, 0.9):
        return
    yield Finding(
        "majority-floor",
        "blocker" if share >= 0.9 else "warning",
        f"one answer is right for {share:.0%} of the rows, so always giving it scores that much.",
        "Balance the answers; judge a model by how far it is above this floor.",
        rows=({"value": quote(gold, 80), "count": times},),
    )


def mixed_format(seen: Observed) -> Iterator[Finding]:
    if seen.answered and 1 - seen.misfits.total / seen.answered < ACCEPT:
        yield _finding(
            "mixed-format", "blocker", seen.misfits, seen.answered,
            f"do not have the form {seen.format} of the others; no one parser is right for all.",
            "Bring the answers into one form or drop these rows; if the form is misjudged, name another answer_column.",
        )  # fmt: skip


def gold_unparseable(seen: Observed) -> Iterator[Finding]:
    share = seen.misfits.total / max(1, seen.answered)
    if 0 < share <= 1 - ACCEPT:
        yield _finding(
            "gold-unparseable", "blocker" if share > 0.01 else "warning", seen.misfits, seen.answered,
            f"cannot be read as {seen.format}; a reward that parses this form never pays there.",
            "Correct these answers or drop the rows.",
        )  # fmt: skip


def float_gold(seen: Observed) -> Iterator[Finding]:
    if seen.floats.total:
        yield _finding(
            "float-gold", "warning", seen.floats, seen.answered,
            "are floating-point numbers: 75 is stored as 75.0, and comparing text would never match.",
            "Compare as numbers with a tolerance, as the template numeric does.",
        )  # fmt: skip


def small_set(seen: Observed) -> Iterator[Finding]:
    if len(seen.prompts) < 64:
        yield Finding(
            "small-set",
            "warning",
            f"there are only {count(len(seen.prompts), 'different prompt')}; training would memorise them.",
            "Use at least 64, better a thousand.",
        )


def leak_exact(seen: Observed) -> Iterator[Finding]:
    if seen.leaks.total:
        yield _finding(
            "leak-exact", "blocker", seen.leaks, seen.held_out,
            "of the held-out split are in the training split too.",
            "Remove them from the training split.",
        )  # fmt: skip


def injection(seen: Observed) -> Iterator[Finding]:
    if seen.injections.total:
        yield _finding(
            "injection", "warning", seen.injections, seen.rows,
            "hold text that acts on its reader: instructions, chat markers, answer tags or invisible characters.",
            "Look at these rows as data; drop them if a judge model will read them.",
        )  # fmt: skip


CHECKS: tuple[Check, ...] = (
    empty_gold, conflicting_gold, duplicate_prompt, gold_in_prompt, majority_floor, mixed_format, gold_unparseable,
    float_gold, small_set, leak_exact, injection,
)  # fmt: skip
