"""The one pass over rows of prompt and gold that all checks are judged from."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from prime_lab_mcp.lab.datasets import golds, suspicious
from prime_lab_mcp.lab.datasets.formats import CLASSES, NUMERIC
from prime_lab_mcp.lab.datasets.keys import gold_key, judged, task_key
from prime_lab_mcp.lab.datasets.near import HELD_OUT, SEED, TRAIN, Near, Prompt
from prime_lab_mcp.lab.datasets.near import search as search_near
from prime_lab_mcp.lab.datasets.plain import ASSUMED, Budget, PlainRow, Repeats, Tally
from prime_lab_mcp.lab.datasets.revealing import Revealed
from prime_lab_mcp.lab.datasets.tokens import estimate
from prime_lab_mcp.lab.text import quote

_KEPT = 200
"""Characters of a gold that are kept to count it."""
COMPARED: frozenset[str] = CLASSES | NUMERIC | {"boxed", "latex_math", "multi_answer", "short_text"}
"""Forms whose golds a reward compares as text or reads as one value."""
_WORKED: frozenset[str] = frozenset({"gsm8k_hash", "boxed", "free_text", "chat_messages"})
"""Forms whose golds are as long as a completion."""
_TAGGED: frozenset[str] = frozenset({"free_text", "chat_messages", "tool_call"})
"""Forms in which tags of thoughts and calls are in place."""


@dataclass(slots=True)
class Observed:
    """What one pass over the rows saw."""

    format: str
    budget: Budget = ASSUMED
    benchmark: str | None = None
    repeats: Repeats | None = None
    rows: int = 0
    answered: int = 0
    prompts: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """First row and gold of each different prompt."""
    golds: Counter[str] = field(default_factory=Counter)
    classes: list[tuple[int, str]] = field(default_factory=list)
    """Row and class, of forms that have classes."""
    positions: dict[int, Counter[int]] = field(default_factory=dict)
    """Index of the right option, by number of options; 0 where the number is not known."""
    option_sets: set[tuple[str, ...]] = field(default_factory=set)
    """The first few different lists of options."""
    unplaced: Tally = field(default_factory=Tally)
    """Rows whose gold names none of their options."""
    empty: Tally = field(default_factory=Tally)
    doubtful: Tally = field(default_factory=Tally)
    """`none`: no answer, or the answer none."""
    conflicts: Tally = field(default_factory=Tally)
    duplicates: Tally = field(default_factory=Tally)
    revealed: Revealed = field(default_factory=Revealed)
    misfits: Tally = field(default_factory=Tally)
    floats: Tally = field(default_factory=Tally)
    acts: dict[str, Tally] = field(default_factory=dict)
    secrets: Tally = field(default_factory=Tally)
    emails: Tally = field(default_factory=Tally)
    misleading: Tally = field(default_factory=Tally)
    mojibake: Tally = field(default_factory=Tally)
    too_long: Tally = field(default_factory=Tally)
    longest: int = 0
    tight: Tally = field(default_factory=Tally)
    leaks: Tally = field(default_factory=Tally)
    near: Near = field(default_factory=Near)
    held_out: int = 0

    @property
    def different(self) -> int:
        """Different prompts, of the whole split where that was counted."""
        return len(self.prompts) if self.repeats is None else self.repeats.rows - self.repeats.duplicates.total


@dataclass(slots=True)
class _Sample:
    """At most `size` rows, each with the same chance (reservoir sampling)."""

    size: int
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))
    seen: int = 0
    kept: list[Prompt] = field(default_factory=list)

    def offer(self, row: PlainRow, gold: bytes | None) -> None:
        self.seen += 1
        if len(self.kept) < self.size:
            self.kept.append(Prompt.of(row, gold))
        elif (place := self.chance.randrange(self.seen)) < self.size:
            self.kept[place] = Prompt.of(row, gold)


def observe(
    rows: Iterable[PlainRow],
    format: str,
    eval_rows: Iterable[PlainRow] = (),
    *,
    answered: bool = True,
    repeats: Repeats | None = None,
    benchmark: str | None = None,
    budget: Budget = ASSUMED,
) -> Observed:
    """One pass over both splits."""
    seen = Observed(format, budget, benchmark, repeats)
    held, near = list(eval_rows), _Sample(TRAIN)
    for row in rows:
        said, fits = judged(row.gold, format)
        gold = gold_key(row, format, said)
        is_new = _see_prompt(seen, row, gold)
        if held and is_new:
            near.offer(row, gold if answered else None)
        if answered:
            _see_gold(seen, row, said, fits)
    if held:
        _see_held_out(seen, held, near, answered)
    return seen


def _see_prompt(seen: Observed, row: PlainRow, gold: bytes) -> bool:
    """True when no earlier row asks the same."""
    seen.rows += 1
    mine = (row.index, gold)
    first = seen.prompts.setdefault(task_key(row), mine)
    if first is not mine:
        seen.duplicates.add(row.index, row.prompt, first_row=first[0])
        if first[1] != gold and not _is_empty(row, seen.format):
            seen.conflicts.add(row.index, row.prompt, first_row=first[0], gold=quote(golds.as_text(row.gold), 80))
    prompt = suspicious.window(row.prompt)
    answer = suspicious.window(row.answer or "")
    both = f"{prompt}\n{answer}" if answer else prompt
    if seen.format not in _TAGGED:
        _see_acts(seen, row.index, both, tags=True)
    elif not _see_acts(seen, row.index, prompt, tags=True) and answer:
        _see_acts(seen, row.index, answer, tags=False)
    if masked := suspicious.credential(both):
        seen.secrets.add(row.index, masked)
    elif "@" in both and (masked := suspicious.email(both)):
        seen.emails.add(row.index, masked)
    if suspicious.mojibake(prompt):
        seen.mojibake.add(row.index, row.prompt)
    tokens = estimate(row.prompt)
    seen.longest = max(seen.longest, tokens)
    if tokens > seen.budget.prompt:
        seen.too_long.add(row.index, row.prompt, tokens=tokens)
    if row.answer and seen.format in _WORKED:
        _see_length(seen, row, tokens)
    return first is mine


def _see_acts(seen: Observed, index: int, text: str, *, tags: bool) -> bool:
    found = suspicious.acting(text, tags=tags)
    if found is not None:
        act, (start, end) = found
        seen.acts.setdefault(act, Tally()).add(index, text[max(0, start - 40) : end + 40])
    return found is not None


def _see_length(seen: Observed, row: PlainRow, prompt: int) -> None:
    last = row.raw[-1].get("content") if isinstance(row.raw, list) and isinstance(row.raw[-1], dict) else row.answer
    tokens = estimate(golds.as_text(last))
    room = max(0, seen.budget.seq_len - prompt) if seen.budget.assumed else seen.budget.completion
    if tokens > 0.8 * room:
        seen.tight.add(row.index, golds.as_text(last), tokens=tokens)


def _is_empty(row: PlainRow, format: str) -> bool:
    value = row.gold
    if golds.is_empty(value) or (isinstance(value, float) and math.isnan(value)):
        return True
    if isinstance(value, dict) and all(isinstance(v, list | tuple | str) and not v for v in value.values()):
        return True  # an unanswerable question of SQuAD 2.0
    text = golds.as_text(value).strip().casefold()
    return (format == "class_id" and text == "-1") or (format in NUMERIC and text == "none")


def _see_gold(seen: Observed, row: PlainRow, said: str, fits: bool) -> None:
    value, format = row.gold, seen.format
    if _is_empty(row, format):
        seen.empty.add(row.index, golds.as_text(value))
        return
    seen.answered += 1
    plain = golds.normalised(said[:_KEPT])
    seen.golds[plain if len(said) <= _KEPT else f"{plain}… {hash(said)}"] += 1
    if plain == "none" and format in ("short_text", "free_text"):
        seen.doubtful.add(row.index, golds.as_text(value))
    if not fits and row.gold_option is None:
        seen.misfits.add(row.index, golds.as_text(value))
    if isinstance(value, float) and (value.is_integer() or len(repr(value)) > 14):
        seen.floats.add(row.index, repr(value))
    if format in COMPARED and len(said) <= 2000 and (why := suspicious.misleading(said)):
        seen.misleading.add(row.index, said, why=why)
    if format in CLASSES:
        seen.classes.append((row.index, plain))
        _see_position(seen, row, plain)
    seen.revealed.see(row, said, format)


def _see_position(seen: Observed, row: PlainRow, gold: str) -> None:
    if len(seen.option_sets) < 3 and row.options:
        seen.option_sets.add(tuple(golds.normalised(o) for o in row.options))
    if row.gold_option is not None:
        seen.positions.setdefault(len(row.options), Counter())[row.gold_option] += 1
    elif row.options:
        seen.unplaced.add(row.index, golds.as_text(row.gold))
    elif seen.format == "choice_letter":
        letter = gold.strip("(). ")
        if len(letter) == 1 and "a" <= letter <= "j":
            seen.positions.setdefault(0, Counter())[ord(letter) - ord("a")] += 1


def _see_held_out(seen: Observed, held: list[PlainRow], train: _Sample, answered: bool) -> None:
    sample = _Sample(HELD_OUT)
    for row in held:
        seen.held_out += 1
        first = seen.prompts.get(task_key(row))
        if first is not None:
            seen.leaks.add(row.index, row.prompt, train_row=first[0])
        else:
            sample.offer(row, gold_key(row, seen.format) if answered else None)
    seen.near = search_near(train.kept, sample.kept, seen.format)
    seen.near.of = len(held) - seen.leaks.total
