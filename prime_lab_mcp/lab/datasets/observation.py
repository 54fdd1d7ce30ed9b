"""Observes rows of prompt and gold in one pass, from which all checks are judged.

`RevealedGolds` counts the rows whose prompt contains their own answer, and distinguishes a give-away from a passage
that the task is meant to search.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import estimate_tokens, quote
from prime_lab_mcp.lab.datasets import golds, suspicious_text
from prime_lab_mcp.lab.datasets.formats import CLASS_FORMATS, NUMERIC_FORMATS
from prime_lab_mcp.lab.datasets.near_duplicates import (
    HELD_OUT,
    SAMPLE_SEED,
    TRAIN,
    ComparedPrompt,
    NearDuplicates,
    search_near_duplicates,
)
from prime_lab_mcp.lab.datasets.tasks import (
    ASSUMED_BUDGET,
    FlawTally,
    RepeatCounts,
    TaskRow,
    TokenBudget,
    essence_and_format,
    gold_key,
    task_key,
)

SEARCHED_FORMATS: frozenset[str] = NUMERIC_FORMATS | {"boxed", "latex_math", "short_text", "free_text", "json"}
"""Formats whose gold is searched for in the prompt. Options and labels stand in prompts by design, as do spans of a
text.
"""
_NUMERIC_LIKE = NUMERIC_FORMATS | {"boxed", "latex_math"}
_CUE = re.compile(r"(?i)(?:answer|solution|correct|gold|result|label|target)[\"'*\s]{0,4}(?:is|:|=|→|->)[\"'*\s]{0,4}$")
_DIGITS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_PASSAGE = 200
"""Characters from which a prompt counts as a passage to search."""
_TRIES = 200


@dataclass(slots=True)
class RevealedGolds:
    """Rows whose prompt contains the gold, and rows whose prompt contains the previous row's gold, which measures
    chance.
    """

    rows: FlawTally = field(default_factory=FlawTally)
    compared: int = 0
    by_chance: int = 0
    cued: int = 0
    """Rows where a cue such as `answer:` stands right before the gold."""
    deciles: list[int] = field(default_factory=lambda: [0] * 10)
    """Positions of the gold in the prompt, in tenths of its length."""
    long: int = 0
    """Rows among these whose prompt is long enough to be a passage."""
    _last: str = ""

    def add(self, row: TaskRow, gold: str, format: str) -> None:
        """Count one answered row; `gold` is the essence of its answer."""
        if format not in SEARCHED_FORMATS or row.offered or len(gold) > 2000:
            return
        is_number = format in _NUMERIC_LIKE and _DIGITS.fullmatch(gold) is not None
        prompt = row.prompt.casefold()
        if is_number and "," in prompt:
            prompt = prompt.replace(",", "")
        self.compared += 1
        place = _place(prompt, gold, is_number)
        if self._last and self._last != gold:
            self.by_chance += _place(prompt, self._last, is_number) is not None
        self._last = gold
        if place is None:
            return
        self.rows.add(row.index, row.prompt, gold=quote(gold, 80))
        last = max(place, prompt.rfind(gold if is_number else gold.casefold()))
        self.cued += any(_CUE.search(prompt[max(0, at - 40) : at]) for at in (place, last))
        self.deciles[min(9, 10 * place // max(1, len(prompt) - len(gold) + 1))] += 1
        self.long += len(prompt) >= _PASSAGE

    @property
    def share(self) -> float:
        """The share of rows beyond what chance explains."""
        return max(0.0, self.rows.total - self.by_chance) / max(1, self.compared)

    @property
    def is_searched(self) -> bool:
        """True when the prompts are passages with answers spread over them, as in extractive question answering."""
        total = self.rows.total
        return self.long >= 0.8 * total and max(self.deciles) < 0.5 * total and self.cued < 0.2 * total


def _place(prompt: str, gold: str, number: bool) -> int | None:
    """Return where the gold stands in a case-folded prompt as a whole word or number."""
    if not number and len(gold) < 4:
        return None
    gold = gold if number else gold.casefold()
    place = prompt.find(gold)
    for _ in range(_TRIES):
        if place < 0:
            return None
        if _stands_alone(prompt, place, place + len(gold), number):
            return place
        place = prompt.find(gold, place + 1)
    return None


def _stands_alone(prompt: str, start: int, end: int, number: bool) -> bool:
    before, after = prompt[max(0, start - 1) : start], prompt[end : end + 2]
    if before.isalnum() or before == "_" or after[:1].isalnum() or after[:1] == "_":
        # Scripts without spaces have letters on both sides of everything.
        return not number and not (before + after[:1]).isascii()
    return not number or (before != "." and not (after[:1] == "." and after[1:].isdigit()))


_MOST = 200
"""Characters of a gold to store for counting."""
COMPARED: frozenset[str] = CLASS_FORMATS | NUMERIC_FORMATS | {"boxed", "latex_math", "multi_answer", "short_text"}
"""Formats whose golds a reward compares as text or reads as one value."""
_WORKED: frozenset[str] = frozenset({"gsm8k_hash", "boxed", "free_text", "chat_messages"})
"""Formats whose golds are as long as a completion."""
_TAGGED: frozenset[str] = frozenset({"free_text", "chat_messages", "tool_call"})
"""Formats in which tags of thoughts and calls are normal."""


@dataclass(slots=True)
class RowObservations:
    """The observations of one pass over the rows."""

    format: str
    budget: TokenBudget = ASSUMED_BUDGET
    benchmark: str | None = None
    repeats: RepeatCounts | None = None
    rows: int = 0
    answered: int = 0
    prompts: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """First row and gold of each distinct prompt."""
    golds: Counter[str] = field(default_factory=Counter)
    classes: list[tuple[int, str]] = field(default_factory=list)
    """Row and class, for formats with classes."""
    positions: dict[int, Counter[int]] = field(default_factory=dict)
    """Index of the right option, by number of options; 0 where the number is unknown."""
    option_sets: set[tuple[str, ...]] = field(default_factory=set)
    """The first few distinct lists of options."""
    unplaced: FlawTally = field(default_factory=FlawTally)
    """Rows whose gold names none of their options."""
    empty: FlawTally = field(default_factory=FlawTally)
    doubtful: FlawTally = field(default_factory=FlawTally)
    """Rows with the gold `none`, which may mean no answer or be the answer."""
    conflicts: FlawTally = field(default_factory=FlawTally)
    duplicates: FlawTally = field(default_factory=FlawTally)
    revealed: RevealedGolds = field(default_factory=RevealedGolds)
    misfits: FlawTally = field(default_factory=FlawTally)
    floats: FlawTally = field(default_factory=FlawTally)
    acts: dict[str, FlawTally] = field(default_factory=dict)
    secrets: FlawTally = field(default_factory=FlawTally)
    emails: FlawTally = field(default_factory=FlawTally)
    misleading: FlawTally = field(default_factory=FlawTally)
    mojibake: FlawTally = field(default_factory=FlawTally)
    too_long: FlawTally = field(default_factory=FlawTally)
    longest: int = 0
    tight: FlawTally = field(default_factory=FlawTally)
    leaks: FlawTally = field(default_factory=FlawTally)
    near: NearDuplicates = field(default_factory=NearDuplicates)
    held_out: int = 0

    @property
    def different(self) -> int:
        """The number of distinct prompts, over the whole split where that was counted."""
        return len(self.prompts) if self.repeats is None else self.repeats.rows - self.repeats.duplicates.total


@dataclass(slots=True)
class _Sample:
    """A sample of at most `size` rows, each with the same chance (reservoir sampling)."""

    size: int
    chance: random.Random = field(default_factory=lambda: random.Random(SAMPLE_SEED))
    offered: int = 0
    prompts: list[ComparedPrompt] = field(default_factory=list)

    def offer(self, row: TaskRow, gold: bytes | None) -> None:
        self.offered += 1
        if len(self.prompts) < self.size:
            self.prompts.append(ComparedPrompt.of(row, gold))
        elif (place := self.chance.randrange(self.offered)) < self.size:
            self.prompts[place] = ComparedPrompt.of(row, gold)


def observe_rows(
    rows: Iterable[TaskRow],
    format: str,
    eval_rows: Iterable[TaskRow] = (),
    *,
    answered: bool = True,
    repeats: RepeatCounts | None = None,
    benchmark: str | None = None,
    budget: TokenBudget = ASSUMED_BUDGET,
) -> RowObservations:
    """Observe the rows of both splits in one pass."""
    observations = RowObservations(format, budget, benchmark, repeats)
    held_out, near = list(eval_rows), _Sample(TRAIN)
    for row in rows:
        essence, fits = essence_and_format(row.gold, format)
        gold = gold_key(row, format, essence)
        is_new = _observe_prompt(observations, row, gold)
        if held_out and is_new:
            near.offer(row, gold if answered else None)
        if answered:
            _observe_gold(observations, row, essence, fits)
    if held_out:
        _observe_held_out(observations, held_out, near, answered)
    return observations


def _observe_prompt(observations: RowObservations, row: TaskRow, gold: bytes) -> bool:
    """Record a prompt; True when no earlier row has the same prompt."""
    observations.rows += 1
    entry = (row.index, gold)
    first = observations.prompts.setdefault(task_key(row), entry)
    if first is not entry:
        observations.duplicates.add(row.index, row.prompt, first_row=first[0])
        if first[1] != gold and not _is_empty(row, observations.format):
            observations.conflicts.add(
                row.index, row.prompt, first_row=first[0], gold=quote(golds.gold_text(row.gold), 80)
            )
    prompt = suspicious_text.scanned_window(row.prompt)
    answer = suspicious_text.scanned_window(row.answer or "")
    text = f"{prompt}\n{answer}" if answer else prompt
    if observations.format not in _TAGGED:
        _observe_acts(observations, row.index, text, tags=True)
    elif not _observe_acts(observations, row.index, prompt, tags=True) and answer:
        _observe_acts(observations, row.index, answer, tags=False)
    if masked := suspicious_text.credential(text):
        observations.secrets.add(row.index, masked)
    elif "@" in text and (masked := suspicious_text.email_address(text)):
        observations.emails.add(row.index, masked)
    if suspicious_text.mojibake(prompt):
        observations.mojibake.add(row.index, row.prompt)
    tokens = estimate_tokens(row.prompt)
    observations.longest = max(observations.longest, tokens)
    if tokens > observations.budget.prompt:
        observations.too_long.add(row.index, row.prompt, tokens=tokens)
    if row.answer and observations.format in _WORKED:
        _observe_length(observations, row, tokens)
    return first is entry


def _observe_acts(observations: RowObservations, index: int, text: str, *, tags: bool) -> bool:
    acting = suspicious_text.acting_text(text, tags=tags)
    if acting is not None:
        act, (start, end) = acting
        observations.acts.setdefault(act, FlawTally()).add(index, text[max(0, start - 40) : end + 40])
    return acting is not None


def _observe_length(observations: RowObservations, row: TaskRow, prompt: int) -> None:
    last = row.raw[-1].get("content") if isinstance(row.raw, list) and isinstance(row.raw[-1], dict) else row.answer
    tokens = estimate_tokens(golds.gold_text(last))
    room = (
        max(0, observations.budget.seq_len - prompt) if observations.budget.assumed else observations.budget.completion
    )
    if tokens > 0.8 * room:
        observations.tight.add(row.index, golds.gold_text(last), tokens=tokens)


def _is_empty(row: TaskRow, format: str) -> bool:
    value = row.gold
    if golds.is_empty(value) or (isinstance(value, float) and math.isnan(value)):
        return True
    if isinstance(value, dict) and all(isinstance(v, list | tuple | str) and not v for v in value.values()):
        return True  # an unanswerable question of SQuAD 2.0
    text = golds.gold_text(value).strip().casefold()
    return (format == "class_id" and text == "-1") or (format in NUMERIC_FORMATS and text == "none")


def _observe_gold(observations: RowObservations, row: TaskRow, essence: str, fits: bool) -> None:
    value, format = row.gold, observations.format
    if _is_empty(row, format):
        observations.empty.add(row.index, golds.gold_text(value))
        return
    observations.answered += 1
    normalised = golds.normalised_text(essence[:_MOST])
    observations.golds[normalised if len(essence) <= _MOST else f"{normalised}… {hash(essence)}"] += 1
    if normalised == "none" and format in ("short_text", "free_text"):
        observations.doubtful.add(row.index, golds.gold_text(value))
    if not fits and row.gold_option is None:
        observations.misfits.add(row.index, golds.gold_text(value))
    if isinstance(value, float) and (value.is_integer() or len(repr(value)) > 14):
        observations.floats.add(row.index, repr(value))
    if format in COMPARED and len(essence) <= 2000 and (why := suspicious_text.misleading_answer(essence)):
        observations.misleading.add(row.index, essence, why=why)
    if format in CLASS_FORMATS:
        observations.classes.append((row.index, normalised))
        _observe_position(observations, row, normalised)
    observations.revealed.add(row, essence, format)


def _observe_position(observations: RowObservations, row: TaskRow, gold: str) -> None:
    if len(observations.option_sets) < 3 and row.options:
        observations.option_sets.add(tuple(golds.normalised_text(o) for o in row.options))
    if row.gold_option is not None:
        observations.positions.setdefault(len(row.options), Counter())[row.gold_option] += 1
    elif row.options:
        observations.unplaced.add(row.index, golds.gold_text(row.gold))
    elif observations.format == "choice_letter":
        letter = gold.strip("(). ")
        if len(letter) == 1 and "a" <= letter <= "j":
            observations.positions.setdefault(0, Counter())[ord(letter) - ord("a")] += 1


def _observe_held_out(observations: RowObservations, held_out: list[TaskRow], train: _Sample, answered: bool) -> None:
    sample = _Sample(HELD_OUT)
    for row in held_out:
        observations.held_out += 1
        first = observations.prompts.get(task_key(row))
        if first is not None:
            observations.leaks.add(row.index, row.prompt, train_row=first[0])
        else:
            sample.offer(row, gold_key(row, observations.format) if answered else None)
    observations.near = search_near_duplicates(train.prompts, sample.prompts, observations.format)
    observations.near.of = len(held_out) - observations.leaks.total


RowCheck = Callable[[RowObservations], Iterator[Finding]]
"""A check of the rows of a dataset or of an environment."""
