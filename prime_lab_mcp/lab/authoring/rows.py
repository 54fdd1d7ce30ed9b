"""The rows of a new environment: those that the template can read, each question once, none in both splits."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.authoring.shapes import Canonical
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

SEED = 7
HELD_OUT = 0.1
MOST_HELD_OUT = 500
_SHOWN = 3
_LOSS = 0.5
"""Share of unreadable rows above which the template is the wrong one, and nothing is made."""

Example = Mapping[str, Any]
Raw = tuple[int, Mapping[str, Any]]


@dataclass(slots=True)
class Dropped:
    """Rows left out, by reason. `shown` are some of the unreadable ones."""

    of: int = 0
    unreadable: int = 0
    conflicting: int = 0
    repeated: int = 0
    leaked: int = 0
    shown: list[dict[str, Any]] = field(default_factory=list)

    @property
    def total(self) -> int:
        return self.unreadable + self.conflicting + self.repeated + self.leaked

    @property
    def hopeless(self) -> bool:
        return self.unreadable > _LOSS * self.of

    def findings(self) -> Iterator[Finding]:
        if self.hopeless:
            yield Finding(
                "rows-do-not-fit",
                "blocker",
                f"the template cannot read {self.unreadable:,} of {count(self.of, 'row')}: no question, or no answer "
                "of its form.",
                "Name the columns (prompt_column, answer_column) or another template; inspect_dataset shows what fits.",
                rows=tuple(self.shown),
            )
            return
        reasons = {
            "without a question or an answer that can be read": self.unreadable,
            "asking the same and answering differently": self.conflicting,
            "repeating a question": self.repeated,
            "of the training split that are held out too": self.leaked,
        }
        if self.total:
            told = ", ".join(f"{n:,} {reason}" for reason, n in reasons.items() if n)
            yield Finding(
                "rows-left-out",
                "warning",
                f"{count(self.total, 'row')} of the dataset did not go into the environment: {told}.",
                "Nothing to do, unless more were left out than you expect; then mend the dataset and create it again.",
                rows=tuple(self.shown),
            )


def split_rows(
    train: Iterable[Raw], held: Iterable[Raw] | None, read: Canonical
) -> tuple[list[Example], list[Example], Dropped]:
    """Training and held-out examples, shuffled by a seed.

    Without a split that is held out, a tenth is (at most 500), spread evenly over the answers.
    """
    dropped = Dropped()
    kept = _clean(train, read, dropped)
    chance = random.Random(SEED)
    if held is not None:
        out = _clean(held, read, dropped)
        both = kept.keys() & out.keys()
        dropped.leaked += len(both)
        inside = [e for k, e in kept.items() if k not in both]
        chance.shuffle(inside)
        return inside, list(out.values()), dropped
    examples = list(kept.values())
    chance.shuffle(examples)
    number = min(MOST_HELD_OUT, max(1, int(len(examples) * HELD_OUT))) if len(examples) > 1 else 0
    chosen = _spread(examples, number)
    return [e for n, e in enumerate(examples) if n not in chosen], [examples[n] for n in sorted(chosen)], dropped


def _spread(examples: list[Example], number: int) -> set[int]:
    """Positions of so many examples, in which each answer has the share it has in all of them."""
    ordered = sorted(range(len(examples)), key=lambda n: _answer(examples[n]))
    return {ordered[int((n + 0.5) * len(ordered) / number)] for n in range(number)}


def _clean(rows: Iterable[Raw], read: Canonical, dropped: Dropped) -> dict[str, Example]:
    kept: dict[str, Example] = {}
    conflicts: dict[str, int] = {}
    for index, raw in rows:
        dropped.of += 1
        row = _read(read, raw)
        if row is None:
            dropped.unreadable += 1
            if len(dropped.shown) < _SHOWN:
                dropped.shown.append({"row": index, "value": quote(json.dumps(raw, ensure_ascii=False), 200)})
            continue
        key = golds.normalised(row["question"])
        if key not in kept:
            kept[key] = row
        elif _answer(kept[key]) == _answer(row):
            dropped.repeated += 1
        else:
            conflicts[key] = conflicts.get(key, 1) + 1
    for key, times in conflicts.items():
        del kept[key]
        dropped.conflicting += times
    return kept


def _read(read: Canonical, raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        row = read(raw)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError, ArithmeticError):
        return None  # a row so odd that the template's reading trips over it is one that it cannot read
    return row if row is not None and str(row["question"]).strip() else None


def _answer(row: Example) -> str:
    return json.dumps(row.get("answer"), sort_keys=True, ensure_ascii=False)


def as_jsonl(examples: Iterable[Example]) -> str:
    """One object per line, as the templates read them."""
    return "".join(json.dumps(dict(e), ensure_ascii=False) + "\n" for e in examples)
