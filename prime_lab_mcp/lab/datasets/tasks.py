"""Represents rows as tasks. Defines when two rows are the same task, and when two golds are the same answer.

The checks of a sample and the counts over all rows of a split both use these definitions.
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

EXAMPLE_ROWS = 3
"""Most rows that a finding has as examples."""
SEQ_LEN = 2048
"""The default of prime-rl's `orchestrator.seq_len`, the most tokens of prompt and completion together."""
COMPLETION_TOKENS = 512
"""Tokens that are reserved for the completion if no limit is given."""


@dataclass(slots=True)  # A frozen one would take three times as long to make, and a scan makes tens of thousands.
class TaskRow:
    """One task as text. Nobody changes one.

    `index` is its row in the source, counted from 0. `raw` is the gold before conversion to text.
    """

    prompt: str
    answer: str | None
    index: int
    raw: Any = None
    offered: bool = False
    """Whether the prompt lists the options. It then contains the gold by design."""
    options: tuple[str, ...] = ()
    """The texts of the options in display order."""
    gold_option: int | None = None
    """The index of the right option in `options`, counted from 0."""
    other_content: str = ""
    """A digest of task content that is not in the prompt's text: images, or data that a rollout uses."""

    @property
    def gold(self) -> Any:
        return self.answer if self.raw is None else self.raw


@dataclass(slots=True)
class FlawTally:
    """Counts the rows with a flaw, and stores the first few as examples."""

    total: int = 0
    examples: list[dict[str, Any]] = field(default_factory=list)

    def add(self, index: int, value: str, **more: Any) -> None:
        """Count one row. `value` is text of the dataset, so this method quotes it."""
        self.total += 1
        if len(self.examples) < EXAMPLE_ROWS:
            self.examples.append({"row": index, "value": quote(value, 160), **more})


@dataclass(frozen=True, slots=True)
class RepeatCounts:
    """Counts of repetitions over all rows of the splits, for a dataset of which only a sample is checked.

    `duplicates`, `conflicts`, `leaks` and `copies` replace the counts of the sample. `rows` and `held_out` are the
    sizes of the two splits. `task_key` and `gold_key` define equal prompts and golds.
    """

    rows: int
    held_out: int
    duplicates: FlawTally
    conflicts: FlawTally
    leaks: FlawTally
    """Held-out rows whose prompt is a training prompt."""
    copies: FlawTally | None = None
    """The rows of `leaks` whose gold is that of a training row with the same prompt; None if golds are not known."""
    most_frequent: int = 1
    """The number of training rows with the most frequent prompt."""


@dataclass(frozen=True, slots=True)
class TokenBudget:
    """The most tokens that a task may have. `assumed` says that the numbers are defaults; exceeding them only warns."""

    seq_len: int = SEQ_LEN
    completion: int = COMPLETION_TOKENS
    assumed: bool = False

    @property
    def prompt(self) -> int:
        """The most tokens of a prompt."""
        return self.seq_len - self.completion


ASSUMED_BUDGET = TokenBudget(assumed=True)


OPEN_ENDED: frozenset[str] = frozenset({"free_text", "chat_messages", "code_tests", "instruction_constraints"})
"""Formats in which two different golds can both be right. Rows with different golds do not contradict each other."""


def task_key(row: TaskRow) -> bytes:
    """Return a digest of the normalised prompt, the options in any order, and the content outside of the prompt's text.

    Rows with equal digests are the same task.
    """
    text = golds.normalised_text(row.prompt)
    if row.other_content:
        text = f"{text}\x1e{row.other_content}"
    if row.options:
        text = "\x1f".join((text, *sorted(map(golds.normalised_text, row.options))))
    return _digest(text)


def gold_key(row: TaskRow, format: str, essence: str | None = None) -> bytes:
    """Return a digest of a gold's answer. If a row has options, it is the digest of the option's text, not its letter.

    `essence` is the result of `answer_essence`, if the caller has it already.
    """
    if row.gold_option is not None and 0 <= row.gold_option < len(row.options):
        return _digest(golds.normalised_text(row.options[row.gold_option]))
    if format == "multi_answer":
        return _digest("\x1f".join(sorted(golds.normalised_text(a) for a in _alternatives(row.gold))))
    return _digest(golds.normalised_text(answer_essence(row.gold, format) if essence is None else essence))


def answer_essence(value: Any, format: str) -> str:
    """Return the answer in a gold: its number, the content of its \\boxed{}, yes or no, or otherwise the whole gold."""
    if format in NUMERIC_FORMATS:
        return _number(value, format)[0]
    if format == "boolean" and (word := golds.boolean_word(value)) is not None:
        return word
    text = golds.gold_text(value) if value is not None else ""
    return (golds.boxed_content(text) or text) if format == "boxed" else text


def essence_and_format(value: Any, format: str) -> tuple[str, bool]:
    """Return the answer in a gold (see `answer_essence`), and whether the gold has the format."""
    return (
        _number(value, format)
        if format in NUMERIC_FORMATS
        else (answer_essence(value, format), has_format(format, value))
    )


def _number(value: Any, format: str) -> tuple[str, bool]:
    number = golds.gold_number_text(value, format)
    if number is not None:
        return number, True
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
    """Return the 16 bytes of a digest; a shorter text is its own digest."""
    if len(text) < 16 and text.isascii():
        return text.encode("ascii")
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


def tally_finding(code: Code, severity: Severity, tally: FlawTally, of: int, message: str, fix: str) -> Finding:
    """Return a finding whose message begins with the number and share of rows with a flaw.

    `of` is the number of rows.
    """
    share = f"{tally.total:,} of {count(of, 'row')} ({tally.total / max(1, of):.1%})"
    return Finding(code, severity, f"{share} {message}", fix, rows=tuple(tally.examples))
