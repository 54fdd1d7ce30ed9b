"""Rows as tasks, and what is counted about them: the values that the pass over the rows and its checks share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.text import quote

SHOWN = 3
"""Rows shown with a finding."""
SEQ_LEN = 2048
"""Default of prime-rl's `orchestrator.seq_len`: tokens of prompt and completion together."""
COMPLETION = 512
"""Tokens kept free for the completion where nobody has said how many it may have."""


@dataclass(frozen=True, slots=True)
class PlainRow:
    """One task as text. `index` is its row in the source, from 0; `raw` the gold before it became text."""

    prompt: str
    answer: str | None
    index: int
    raw: Any = None
    offered: bool = False
    """True when the prompt lists the options, so that it holds the gold by design."""
    options: tuple[str, ...] = ()
    """Texts of the offered options in the order shown."""
    gold_option: int | None = None
    """Index of the right one of `options`, from 0."""

    @property
    def gold(self) -> Any:
        return self.answer if self.raw is None else self.raw


@dataclass(slots=True)
class Tally:
    """How many rows have a flaw, and the first few of them."""

    total: int = 0
    shown: list[dict[str, Any]] = field(default_factory=list)

    def add(self, index: int, value: str, **more: Any) -> None:
        """One row more; `value` is foreign text and is quoted here."""
        self.total += 1
        if len(self.shown) < SHOWN:
            self.shown.append({"row": index, "value": quote(value, 160), **more})


@dataclass(frozen=True, slots=True)
class Repeats:
    """Counts over every row of the splits, where `examine` gets only a sample of them.

    `duplicates`, `conflicts` and `leaks` then replace what the sample shows; `rows` and `held_out` are the sizes of
    the two splits. Keys of prompt and gold: `keys.task_key`, `keys.gold_key`.
    """

    rows: int
    held_out: int
    duplicates: Tally
    conflicts: Tally
    leaks: Tally


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens a task may have. `assumed`: nobody chose these numbers, so exceeding them is no more than a warning."""

    seq_len: int = SEQ_LEN
    completion: int = COMPLETION
    assumed: bool = False

    @property
    def prompt(self) -> int:
        """Tokens left for the prompt."""
        return self.seq_len - self.completion


ASSUMED = Budget(assumed=True)
