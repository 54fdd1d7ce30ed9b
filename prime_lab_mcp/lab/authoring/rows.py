"""The rows that go into a new environment: those with a readable gold, each prompt once, none in both splits."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.findings import PlainRow
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count

SEED = 7
HELD_OUT = 0.1
MOST_HELD_OUT = 500


@dataclass(frozen=True, slots=True)
class Example:
    question: str
    answer: str


@dataclass(slots=True)
class Dropped:
    """Rows left out, by reason."""

    unreadable: int = 0
    conflicting: int = 0
    repeated: int = 0
    leaked: int = 0

    @property
    def total(self) -> int:
        return self.unreadable + self.conflicting + self.repeated + self.leaked

    def findings(self) -> Iterator[Finding]:
        if not self.total:
            return
        reasons = {
            "without a readable answer or prompt": self.unreadable,
            "asking the same and answering differently": self.conflicting,
            "repeating a prompt": self.repeated,
            "of the training split that are held out too": self.leaked,
        }
        told = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items() if n)
        yield Finding(
            "rows-left-out",
            "warning",
            f"{count(self.total, 'row')} of the dataset did not go into the environment: {told}.",
            "Nothing to do, unless more were left out than you expect; then mend the dataset and create it again.",
        )


def split_rows(
    train: Iterable[PlainRow], held: Iterable[PlainRow] | None, format: str
) -> tuple[list[Example], list[Example], Dropped]:
    """Training and held-out examples. Without a split that is held out, a seeded tenth is."""
    dropped = Dropped()
    kept = _clean(train, format, dropped)
    chance = random.Random(SEED)
    if held is not None:
        out = _clean(held, format, dropped)
        both = kept.keys() & out.keys()
        dropped.leaked += len(both)
        inside = [e for k, e in kept.items() if k not in both]
        chance.shuffle(inside)
        return inside, list(out.values()), dropped
    examples = list(kept.values())
    chance.shuffle(examples)
    number = min(MOST_HELD_OUT, max(1, int(len(examples) * HELD_OUT))) if len(examples) > 1 else 0
    return examples[number:], examples[:number], dropped


def _clean(rows: Iterable[PlainRow], format: str, dropped: Dropped) -> dict[str, Example]:
    kept: dict[str, Example] = {}
    numbers: dict[str, object] = {}
    conflicts: dict[str, int] = {}
    for row in rows:
        found = golds.gold_number(row.gold, format)
        key = golds.normalised(row.prompt)
        if found is None or not key:
            dropped.unreadable += 1
        elif key not in kept:
            kept[key], numbers[key] = Example(row.prompt, golds.as_text(row.gold)), found
        elif numbers[key] == found:
            dropped.repeated += 1
        else:
            conflicts[key] = conflicts.get(key, 1) + 1
    for key, times in conflicts.items():
        del kept[key]
        dropped.conflicting += times
    return kept


def as_jsonl(examples: Iterable[Example]) -> str:
    """One object per line, as the templates read them."""
    return "".join(
        json.dumps({"question": e.question, "answer": e.answer}, ensure_ascii=False) + "\n" for e in examples
    )
