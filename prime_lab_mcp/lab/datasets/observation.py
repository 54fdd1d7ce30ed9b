"""Collects observations about rows of prompt and gold in one pass. All checks of rows use these observations.

`RevealedGolds` counts the rows whose prompt contains their own answer. It distinguishes prompts that give the answer
away from passages in which the model has to find the answer.
"""

from __future__ import annotations

import math
import operator
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from typing import Any

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import estimate_tokens, quote
from prime_lab_mcp.lab.datasets import golds, suspicious_text
from prime_lab_mcp.lab.datasets.formats import CLASS_FORMATS, NUMERIC_FORMATS
from prime_lab_mcp.lab.datasets.labelled_golds import LabelledGolds
from prime_lab_mcp.lab.datasets.leaking_options import OptionLooks
from prime_lab_mcp.lab.datasets.listed_orders import ListedOrders
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
"""Formats whose golds are searched for in the prompt. Options, labels and spans of a text are in prompts by design."""
_NUMERIC_LIKE = NUMERIC_FORMATS | {"boxed", "latex_math"}
_CUE = re.compile(r"(?i)(?:answer|solution|correct|gold|result|label|target)[\"'*\s]{0,4}(?:is|:|=|→|->)[\"'*\s]{0,4}$")
_DIGITS = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_PASSAGE_CHARACTERS = 200
"""Characters. A prompt of at least this length may be a passage in which the model has to find the answer."""
_FEWEST_ALIKE = 3
"""Smallest number of numbers of the gold's size from which on a prompt does not give the gold away."""
_LONGEST_CODE = 40
_TRIES = 200
_LONGEST_LABELLED = 80
"""Longest answer in characters that is looked for behind a label."""


@dataclass(slots=True)
class RevealedGolds:
    """Counts the rows whose prompt contains the gold (`rows`).

    `by_chance` counts the rows whose prompt contains the gold of the previous row. It estimates how many matches are
    coincidence. `compared` is the number of rows that were searched.
    """

    rows: FlawTally = field(default_factory=FlawTally)
    compared: int = 0
    by_chance: int = 0
    cued: int = 0
    """The rows in which a cue such as `answer:` precedes the gold."""
    deciles: list[int] = field(default_factory=lambda: [0] * 10)
    """The number of golds in each tenth of the prompt."""
    long: int = 0
    """The rows with the gold in the prompt whose prompt is long enough for a passage."""
    ranks: Counter[int] = field(default_factory=Counter)
    """The rows in which the gold is one of several such numbers or codes of the prompt, by its place among these."""
    _last: str = ""

    def add(self, row: TaskRow, gold: str, format: str) -> None:
        """Count one row with an answer. `gold` is the essence of its answer (`tasks.answer_essence`)."""
        if format not in SEARCHED_FORMATS or row.offered or len(gold) > 2000:
            return
        is_number = format in _NUMERIC_LIKE and _DIGITS.fullmatch(gold) is not None
        prompt = row.prompt.replace(",", "") if is_number else row.prompt.casefold()
        self.compared += 1
        place = _gold_position(prompt, gold, is_number)
        if self._last and self._last != gold:
            self.by_chance += _gold_position(prompt, self._last, is_number) is not None
        self._last = gold
        if place is None:
            return
        self.rows.add(row.index, row.prompt, gold=quote(gold, 80))
        last = max(place, prompt.rfind(gold if is_number else gold.casefold()))
        self.cued += any(_CUE.search(prompt[max(0, at - 40) : at]) for at in (place, last))
        self.deciles[min(9, 10 * place // max(1, len(prompt) - len(gold) + 1))] += 1
        self.long += len(prompt) >= _PASSAGE_CHARACTERS
        searched = gold if is_number else gold.casefold()
        alike = _numbers_alike(prompt, searched) if is_number else _codes_alike(prompt, searched)
        if len(alike) >= _FEWEST_ALIKE and searched in alike:
            self.ranks[alike.index(searched)] += 1

    @property
    def share(self) -> float:
        """The share of rows whose prompt contains the gold, without the matches that chance explains."""
        return max(0.0, self.rows.total - self.by_chance) / max(1, self.compared)

    @property
    def is_searched(self) -> bool:
        """Whether the model has to find the answers in the prompts, as in extractive question answering.

        The prompts are passages with answers spread over them, or the answer is one of several numbers of its size or
        codes of its form (`13:05`), in changing places.
        """
        total = self.rows.total
        if self.cued >= 0.2 * total:
            return False
        if self.ranks.total() >= 0.8 * total and max(self.ranks.values(), default=0) < 0.6 * total:
            return True
        return self.long >= 0.8 * total and max(self.deciles) < 0.5 * total


def _numbers_alike(prompt: str, gold: str) -> list[str]:
    """Return the distinct numbers of a prompt that have about as many characters as the gold, in order."""
    numbers = dict.fromkeys(_DIGITS.findall(prompt))
    return [number for number in numbers if abs(len(number) - len(gold)) <= 1]


def _codes_alike(prompt: str, gold: str) -> list[str]:
    """Return the distinct words of a prompt that differ from the gold only in their digits, in order: times, dates and
    numbers of parts. Empty for a gold without digits."""
    if not _DIGITS.search(gold) or len(gold) > _LONGEST_CODE or any(map(str.isspace, gold)):
        return []
    form = r"\d+".join(map(re.escape, re.split(r"\d+", gold)))
    return list(dict.fromkeys(re.findall(rf"(?<![\w:.-]){form}(?![\w:-])", prompt)))


def _gold_position(prompt: str, gold: str, number: bool) -> int | None:
    """Return the position of the gold in a case-folded prompt, as a whole word or number; None if it is not there."""
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
        # In scripts without spaces, every word has letters on both sides.
        return not number and not (before + after[:1]).isascii()
    return not number or (before != "." and not (after[:1] == "." and after[1:].isdigit()))


_BLOCK = 64
"""Rows whose texts are searched together for suspicious text. Nearly all blocks of most datasets have none."""
_GOLD_CHARACTERS = 200
"""Most characters of a gold that are stored for counting."""
COMPARED: frozenset[str] = CLASS_FORMATS | NUMERIC_FORMATS | {"boxed", "latex_math", "multi_answer", "short_text"}
"""Formats whose golds a reward compares as text or as one value."""
_RECORDS, _RECORD_CHARACTERS = 1_000, 4_000
"""Largest number of rows whose fields and references are compared with their answers, and of their characters."""
_ORDERS: frozenset[str] = frozenset({"multi_answer", "short_text", "json"})
"""Formats of golds that may be an order of items."""
_WORKED: frozenset[str] = frozenset({"gsm8k_hash", "boxed", "free_text", "chat_messages"})
"""Formats whose golds are as long as a completion."""
_TAGGED: frozenset[str] = frozenset({"free_text", "chat_messages", "tool_call"})
"""Formats in which tags such as <think> and <tool_call> are normal."""


@dataclass(slots=True)
class PromptEnds:
    """Numbers of texts by their number of characters: of those that end inside a sentence, and of the others."""

    unended: Counter[int] = field(default_factory=Counter)
    whole: Counter[int] = field(default_factory=Counter)

    def add(self, prompts: Sequence[str], texts: Sequence[str]) -> None:
        """Count texts that end where their prompts end: whole prompts, or the last part of each."""
        unended = [prompt[-1:].isalnum() for prompt in prompts]
        self.unended.update(map(len, compress(texts, unended)))
        self.whole.update(map(len, compress(texts, map(operator.not_, unended))))


@dataclass(slots=True)
class RowObservations:
    """The observations of one pass over the rows.

    `rows` and `answered` are the numbers of all rows and of rows with an answer. Each `FlawTally` counts the rows with
    one kind of flaw.
    """

    format: str
    budget: TokenBudget = ASSUMED_BUDGET
    benchmark: str | None = None
    repeats: RepeatCounts | None = None
    rows: int = 0
    answered: int = 0
    prompts: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)
    """The first row of each distinct prompt, and a digest of its gold. Empty if no row is compared with another: where
    `repeats` holds the counts of all rows, only held-out rows are."""
    golds: Counter[str] = field(default_factory=Counter)
    classes: list[tuple[int, str]] = field(default_factory=list)
    """Pairs of row and class, if the answers are classes."""
    records: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of the prompt's beginning and the class of the first rows, if the answers are classes."""
    positions: dict[int, Counter[int]] = field(default_factory=dict)
    """Counts of the right option's position, by the number of options; the key is 0 if that number is unknown."""
    looks: OptionLooks = field(default_factory=OptionLooks)
    option_sets: set[tuple[str, ...]] = field(default_factory=set)
    """The first few distinct lists of options."""
    orders: ListedOrders = field(default_factory=ListedOrders)
    without_option: FlawTally = field(default_factory=FlawTally)
    """Rows whose gold names none of their options."""
    empty: FlawTally = field(default_factory=FlawTally)
    doubtful: FlawTally = field(default_factory=FlawTally)
    """Rows with the gold `none`, which may be the answer or mean that there is none."""
    conflicts: FlawTally = field(default_factory=FlawTally)
    duplicates: FlawTally = field(default_factory=FlawTally)
    revealed: RevealedGolds = field(default_factory=RevealedGolds)
    labelled: LabelledGolds = field(default_factory=LabelledGolds)
    misfits: FlawTally = field(default_factory=FlawTally)
    floats: FlawTally = field(default_factory=FlawTally)
    injections: dict[str, FlawTally] = field(default_factory=dict)
    secrets: FlawTally = field(default_factory=FlawTally)
    emails: FlawTally = field(default_factory=FlawTally)
    misleading: FlawTally = field(default_factory=FlawTally)
    mojibake: FlawTally = field(default_factory=FlawTally)
    too_long: FlawTally = field(default_factory=FlawTally)
    longest: int = 0
    prompt_ends: PromptEnds = field(default_factory=PromptEnds)
    """Where prompts end, by their number of characters."""
    block_ends: PromptEnds = field(default_factory=PromptEnds)
    """The same of what stands behind the last blank line of each: code that cuts a text may put words before it."""
    tight: FlawTally = field(default_factory=FlawTally)
    leaks: FlawTally = field(default_factory=FlawTally)
    """Held-out rows whose prompt is a training prompt."""
    copies: FlawTally = field(default_factory=FlawTally)
    """The rows of `leaks` whose gold is that of a training row with the same prompt, or is not known."""
    copies_by_chance: float = 0.0
    """How many rows of `leaks` would have a gold of their training rows if the golds were drawn anew."""
    gold_counts: Counter[bytes] = field(default_factory=Counter)
    repeated: Counter[bytes] = field(default_factory=Counter)
    """How often each distinct prompt occurs again after its first row."""
    later_golds: set[tuple[bytes, bytes | None]] = field(default_factory=set)
    """Pairs of a prompt and a gold that is not the gold of the prompt's first row; None for a row without an answer."""
    stateful: bool = False
    """Whether a rollout may use data of a task that is not in the prompt."""
    instructions: str | None = None
    """The instructions that all prompts share and that the rows do not hold; None if they are not known."""
    near: NearDuplicates = field(default_factory=NearDuplicates)
    held_out: int = 0

    @property
    def different(self) -> int:
        """The number of distinct prompts: of the whole split if it was counted, otherwise of the observed rows."""
        return len(self.prompts) if self.repeats is None else self.repeats.rows - self.repeats.duplicates.total


@dataclass(slots=True)
class _Sample:
    """A uniform sample of at most `size` rows (reservoir sampling)."""

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
    stateful: bool = False,
    instructions: str | None = None,
) -> RowObservations:
    """Observe the rows of the training split and the held-out split in one pass. Arguments as of `row_findings`."""
    observations = RowObservations(format, budget, benchmark, repeats, stateful=stateful, instructions=instructions)
    held_out, near = list(eval_rows), _Sample(TRAIN)
    compares = bool(held_out) or repeats is None
    remaining = iter(rows)
    while block := list(islice(remaining, _BLOCK)):
        held = suspicious_text.may_hold(text for row in block for text in (row.prompt, row.answer or ""))
        may_hold = held if any(held) else None
        _observe_lengths(observations, block)
        for row in block:
            value = row.gold
            essence, fits = essence_and_format(value, format)
            empty = _is_empty(value, format)
            observations.rows += 1
            if compares:
                gold = gold_key(row, format, essence)
                is_new = _observe_repetition(observations, row, gold, empty)
                if held_out and is_new:
                    near.offer(row, gold if answered else None)
            if may_hold is not None:
                _observe_text(observations, row, may_hold)
            if answered:
                _observe_gold(observations, row, essence, fits, empty)
    if held_out:
        _observe_held_out(observations, held_out, near, answered)
    return observations


def _observe_repetition(observations: RowObservations, row: TaskRow, gold: bytes, empty: bool) -> bool:
    """Compare a row with the rows before it. Return whether its prompt is new.

    `gold` is the digest of its answer, and `empty` says that it has none.
    """
    entry = (row.index, gold)
    key = task_key(row)
    observations.gold_counts[gold] += 1
    first = observations.prompts.setdefault(key, entry)
    if empty:
        observations.later_golds.add((key, None))
    elif first[1] != gold:
        observations.later_golds.add((key, gold))
    if first is not entry:
        observations.repeated[key] += 1
        observations.duplicates.add(row.index, row.prompt, first_row=first[0])
        if first[1] != gold and not empty:
            observations.conflicts.add(
                row.index, row.prompt, first_row=first[0], gold=quote(golds.gold_text(row.gold), 80)
            )
    return first is entry


def _observe_lengths(observations: RowObservations, rows: Sequence[TaskRow]) -> None:
    """Record the tokens of prompts, how they end, and whether prompt and worked solution fit the budget."""
    prompts = [row.prompt for row in rows]
    observations.prompt_ends.add(prompts, prompts)
    observations.block_ends.add(prompts, [prompt.rpartition("\n\n")[2] for prompt in prompts])
    tokens = list(map(estimate_tokens, prompts))
    observations.longest = max(observations.longest, *tokens)
    worked = observations.format in _WORKED
    for row, count in zip(rows, tokens, strict=True):
        if count > observations.budget.prompt:
            observations.too_long.add(row.index, row.prompt, tokens=count)
        if worked and row.answer:
            _observe_solution_length(observations, row, count)


def _observe_text(observations: RowObservations, row: TaskRow, may_hold: suspicious_text.MayHold) -> None:
    """Record what is suspicious in the texts of a row. `may_hold` says what these texts may hold."""
    prompt = suspicious_text.scanned_window(row.prompt)
    answer = suspicious_text.scanned_window(row.answer or "")
    if may_hold.injection and observations.format not in _TAGGED:
        _observe_injections(observations, row.index, f"{prompt}\n{answer}" if answer else prompt, tags=True)
    elif may_hold.injection and not _observe_injections(observations, row.index, prompt, tags=True) and answer:
        _observe_injections(observations, row.index, answer, tags=False)
    if may_hold.personal:
        text = f"{prompt}\n{answer}" if answer else prompt
        if masked := suspicious_text.credential(text):
            observations.secrets.add(row.index, masked)
        elif masked := suspicious_text.email_address(text):
            observations.emails.add(row.index, masked)
    if may_hold.mojibake and suspicious_text.mojibake(prompt):
        observations.mojibake.add(row.index, row.prompt)


def _observe_injections(observations: RowObservations, index: int, text: str, *, tags: bool) -> bool:
    injected = suspicious_text.injected_text(text, tags=tags)
    if injected is not None:
        kind, (start, end) = injected
        observations.injections.setdefault(kind, FlawTally()).add(index, text[max(0, start - 40) : end + 40])
    return injected is not None


def _observe_solution_length(observations: RowObservations, row: TaskRow, prompt: int) -> None:
    last: Any = row.answer
    if isinstance(row.raw, list) and row.raw and isinstance(row.raw[-1], dict):
        last = row.raw[-1].get("content")
    text = golds.gold_text(last)
    room = (
        max(0, observations.budget.seq_len - prompt) if observations.budget.assumed else observations.budget.completion
    )
    if len(text) <= 0.8 * room:  # A character is at most one token.
        return
    tokens = estimate_tokens(text)
    if tokens > 0.8 * room:
        observations.tight.add(row.index, text, tokens=tokens)


def _is_empty(value: Any, format: str) -> bool:
    if golds.is_empty(value) or (isinstance(value, float) and math.isnan(value)):
        return True
    if isinstance(value, dict) and all(isinstance(v, list | tuple | str) and not v for v in value.values()):
        return True  # SQuAD 2.0 writes an unanswerable question in this way.
    if format == "class_id":
        return golds.gold_text(value).strip() == "-1"
    if format not in NUMERIC_FORMATS:
        return False
    text = golds.gold_text(value).strip()
    return len(text) == len("none") and text.casefold() == "none"


def _observe_gold(observations: RowObservations, row: TaskRow, essence: str, fits: bool, empty: bool) -> None:
    value, format = row.gold, observations.format
    if empty:
        observations.empty.add(row.index, golds.gold_text(value))
        return
    observations.answered += 1
    normalised = golds.normalised_text(essence[:_GOLD_CHARACTERS])
    observations.golds[normalised if len(essence) <= _GOLD_CHARACTERS else f"{normalised}… {hash(essence)}"] += 1
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
        if len(observations.records) < _RECORDS and not row.offered:
            observations.records.append((row.prompt[:_RECORD_CHARACTERS], normalised))
        _observe_position(observations, row, normalised)
    if format in _ORDERS:
        observations.orders.add(row.prompt, essence)
    observations.revealed.add(row, essence, format)
    if format in SEARCHED_FORMATS and not row.offered and len(essence) <= _LONGEST_LABELLED:
        observations.labelled.add(row.prompt, essence)


def _observe_position(observations: RowObservations, row: TaskRow, gold: str) -> None:
    if len(observations.option_sets) < 3 and row.options:
        observations.option_sets.add(tuple(golds.normalised_text(o) for o in row.options))
    if row.gold_option is not None:
        observations.positions.setdefault(len(row.options), Counter())[row.gold_option] += 1
        if observations.looks.rows < _RECORDS:
            observations.looks.add(row.prompt[:_RECORD_CHARACTERS], row.options, row.gold_option)
    elif row.options:
        observations.without_option.add(row.index, golds.gold_text(row.gold))
    elif observations.format == "choice_letter":
        letter = gold.strip("(). ")
        if len(letter) == 1 and "a" <= letter <= "j":
            observations.positions.setdefault(0, Counter())[ord(letter) - ord("a")] += 1


def _observe_held_out(observations: RowObservations, held_out: list[TaskRow], train: _Sample, answered: bool) -> None:
    sample = _Sample(HELD_OUT)
    for row in held_out:
        observations.held_out += 1
        key, gold = task_key(row), gold_key(row, observations.format)
        first = observations.prompts.get(key)
        if first is None:
            sample.offer(row, gold if answered else None)
            continue
        observations.leaks.add(row.index, row.prompt, train_row=first[0])
        observations.copies_by_chance += observations.gold_counts[gold] / max(1, observations.rows)
        if (
            not answered
            or gold == first[1]
            or not observations.later_golds.isdisjoint(((key, gold), (key, None)))
            or _is_empty(row.gold, observations.format)
        ):
            observations.copies.add(row.index, row.prompt, train_row=first[0])
    observations.near = search_near_duplicates(train.prompts, sample.prompts, observations.format)
    observations.near.of = len(held_out) - observations.leaks.total


RowCheck = Callable[[RowObservations], Iterator[Finding]]
"""A check of the rows of a dataset or of an environment."""
