"""Represents rows as tasks, and defines when two rows are the same task and when two golds are the same answer.

Everything that compares rows uses these definitions: the findings over a sample, and the pass over every row of a
split.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.report import Finding, Severity
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.formats import NUMERIC_FORMATS, has_format

SHOWN_ROWS = 3
"""Rows to show with a finding."""
SEQ_LEN = 2048
"""Default of prime-rl's `orchestrator.seq_len`: tokens of prompt and completion together."""
COMPLETION_TOKENS = 512
"""Tokens reserved for the completion where no limit is given."""


@dataclass(frozen=True, slots=True)
class TaskRow:
    """One task as text. `index` is its row in the source, from 0; `raw` is the gold before conversion to text."""

    prompt: str
    answer: str | None
    index: int
    raw: Any = None
    offered: bool = False
    """True when the prompt lists the options, so that the prompt contains the gold by design."""
    options: tuple[str, ...] = ()
    """Texts of the offered options in display order."""
    gold_option: int | None = None
    """Index of the right option in `options`, from 0."""
    other_content: str = ""
    """Distinguishes tasks of the same prompt: the images of the task, or the state that a rollout reads."""

    @property
    def gold(self) -> Any:
        return self.answer if self.raw is None else self.raw


@dataclass(slots=True)
class FlawTally:
    """The number of rows with a flaw, and the first few of them."""

    total: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, index: int, value: str, **more: Any) -> None:
        """Count one row; `value` is foreign text, which this method quotes."""
        self.total += 1
        if len(self.examples) < SHOWN_ROWS:
            self.examples.append({"row": index, "value": quote(value, 160), **more})


@dataclass(frozen=True, slots=True)
class RepeatCounts:
    """Counts over every row of the splits, where `row_findings` receives only a sample of the rows.

    `duplicates`, `conflicts` and `leaks` then replace the counts of the sample. `rows` and `held_out` are the sizes of
    the two splits. `task_key` and `gold_key` define equal prompts and golds.
    """

    rows: int
    held_out: int
    duplicates: FlawTally
    conflicts: FlawTally
    leaks: FlawTally


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """Tokens that a task may have. `assumed` is True for defaults, whose excess is only a warning."""

    seq_len: int = SEQ_LEN
    completion: int = COMPLETION_TOKENS
    assumed: bool = False

    @property
    def prompt(self) -> int:
        """Tokens left for the prompt."""
        return self.seq_len - self.completion


ASSUMED_BUDGET = TokenBudget(assumed=True)


OPEN_ENDED: frozenset[str] = frozenset({"free_text", "chat_messages", "code_tests", "instruction_constraints"})
"""Formats in which two different golds can both be right, so that no two rows contradict each other."""


def task_key(row: TaskRow) -> bytes:
    """Return the digest of the normalised prompt, the unordered options and what the prompt does not write out.

    Rows with equal digests ask the same.
    """
    text = golds.normalised_text(row.prompt)
    if row.other_content:
        text = f"{text}\x1e{row.other_content}"
    if row.options:
        text = "\x1f".join((text, *sorted(map(golds.normalised_text, row.options))))
    return _digest(text)


def gold_key(row: TaskRow, format: str, essence: str | None = None) -> bytes:
    """Return the digest of a gold's answer. With options the digest is of the option's text, not of its letter.

    `essence` is the essence of the gold, where the caller knows it.
    """
    if row.gold_option is not None and 0 <= row.gold_option < len(row.options):
        return _digest(golds.normalised_text(row.options[row.gold_option]))
    if format == "multi_answer":
        return _digest("\x1f".join(sorted(golds.normalised_text(a) for a in _alternatives(row.gold))))
    return _digest(golds.normalised_text(answer_essence(row.gold, format) if essence is None else essence))


def answer_essence(value: Any, format: str) -> str:
    """Return the answer in a gold: the number after ####, the content of the box, yes or no, otherwise all of it."""
    if format in NUMERIC_FORMATS:
        return _number(value, format)[0]
    if format == "boolean" and (word := golds.boolean_word(value)) is not None:
        return word
    text = golds.gold_text(value) if value is not None else ""
    return (golds.boxed_content(text) or text) if format == "boxed" else text


def essence_and_format(value: Any, format: str) -> tuple[str, bool]:
    """Return the essence of a gold, and whether the gold has the format."""
    return (
        _number(value, format)
        if format in NUMERIC_FORMATS
        else (answer_essence(value, format), has_format(format, value))
    )


def _number(value: Any, format: str) -> tuple[str, bool]:
    number = golds.gold_number(value, format)
    if number is not None:
        return golds.canonical_number(number), True
    return golds.gold_text(value) if value is not None else "", False


def _alternatives(value: Any) -> Sequence[str]:
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [value]
    if isinstance(value, Mapping):
        value = next((value[k] for k in ("text", "spans", "aliases") if isinstance(value.get(k), list)), [str(value)])
    return [golds.gold_text(v) for v in value] if isinstance(value, list | tuple) else [golds.gold_text(value)]


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def tally_finding(code: Code, severity: Severity, tally: FlawTally, of: int, message: str, fix: str) -> Finding:
    """Return a finding whose message begins with the count and rate of flawed rows."""
    share = f"{tally.total:,} of {count(of, 'row')} ({tally.total / max(1, of):.1%})"
    return Finding(code, severity, f"{share} {message}", fix, rows=tuple(tally.examples))
