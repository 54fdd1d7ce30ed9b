"""Finds held-out prompts that paraphrase training prompts.

Two prompts that differ only in the slots of their template are siblings of one generator, not a leak. The search
compares words, numbers and lines without those of the template.

A place is a slot when, in the training split, the text before the place continues in at least three ways and the text
behind the place is preceded in at least three ways. A place is also a slot when the held-out prompt's own continuation
in both directions occurs in the training split. A paraphrase leaves other places, because a paraphrase changes what all
rows share.

The search is made for short prompts from templates, where thresholds for web text report every row. A pair counts only
when the numbers agree (in order, where a calculation uses them) and the golds agree: another number or another answer
means another task of the same kind. Where different golds can both be right, golds are not compared; but other words
in one place of the prompt together with another gold mean another task there too. In addition one of two conditions
must hold. First: the prompts share 70 % of their words by weight, where rarer words in the training prompts weigh more,
and half by number (from 25 words on, half of the pairs of neighbours too). Second, from 25 words on: half of the
held-out prompt's runs of eight words occur in the training prompt. Lines and runs that many prompts share belong to the
template and are left out. A pair that differs only in the slots of a template is no leak.

A question told in wholly other words is found by its numbers: at least three different numbers of seven digits
together, and the gold, agree with those of at most two training prompts.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.tasks import OPEN_ENDED, FlawTally, TaskRow

CUT_WORDS = 2_000
"""Characters of a prompt to compare: half from its start and half from its end."""
LONG_LINE = 25
"""Number of words from which runs of words are compared instead of bags (docs/validation.md, Near duplicates)."""
GRAM = 8
_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]|[^\W\d_{_CJK}]+")
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_OPERATION = re.compile(r"[\w)}]\s{0,2}[+*/^=<>×÷≤≥]\s{0,2}[\w(\\{$-]|[0-9)]\s{0,2}[-−]\s{0,2}[0-9(]")
_SYMBOLS = re.compile(r"[0-9]+(?:[.,][0-9]+)*|[-−+*/×÷^<>=≤≥()%!]")
_COUNTS = {
    "two": "2",
    "three": "3",
    "four": "4",
    "five": "5",
    "six": "6",
    "seven": "7",
    "eight": "8",
    "nine": "9",
    "ten": "10",
    "eleven": "11",
    "twelve": "12",
}


_NEW = 1.0


def _comparable_line(line: str) -> str:
    return " ".join((*_WORD.findall(line), *_NUMBER.findall(line)))


@dataclass(frozen=True, slots=True)
class PromptFeatures:
    """Features of one prompt. `words` are numbered and in order; `numbers` are one key, ordered where the task
    calculates.
    """

    words: tuple[int, ...]
    bag: frozenset[int]
    numbers: str
    order: tuple[str, ...]
    """The numbers in the order of the prompt."""
    lines: tuple[frozenset[int], ...]

    def grams(self, length: int = GRAM) -> set[int]:
        """Return the hashes of every run of `length` words."""
        return {hash(self.words[n : n + length]) for n in range(len(self.words) - length + 1)}


@dataclass(slots=True)
class Vocabulary:
    """The numbers of words, the count of training prompts that contain each, and the lines of the template."""

    rows: int = 0
    ids: dict[str, int] = field(default_factory=dict)
    counts: Counter[int] = field(default_factory=Counter)
    weights: dict[int, float] = field(default_factory=dict)
    template: frozenset[str] = frozenset()

    def learn_template(self, texts: Sequence[str]) -> None:
        """Learn the template: a line that a fifth of the prompts share is an instruction, not a task."""
        lines = Counter(line for text in texts if "\n" in text for line in set(map(_comparable_line, text.split("\n"))))
        least = max(10, 0.2 * len(texts))
        self.template = frozenset(line for line, times in lines.items() if line and times >= least)

    def read(self, text: str, *, training: bool) -> PromptFeatures:
        """Return the features of one prompt, and count the words of a training prompt."""
        lines = [line for line in text.casefold().split("\n") if line.strip()]
        own_lines = [line for line in lines if _comparable_line(line) not in self.template] if self.template else lines
        read = [self._line(line) for line in own_lines]
        words = tuple(w for ids, _ in read for w in ids)
        bag = frozenset(words)
        if training:
            self.rows += 1
            self.counts.update(bag)
        numbered = [number for _, numbers in read for number in numbers]
        joined = "\n".join(own_lines)
        if numbered and _OPERATION.search(joined):
            key = " ".join(s.replace(",", "") for s in _SYMBOLS.findall(joined))
        else:
            key = " ".join(sorted(numbered))
        apart = tuple(frozenset(self._line(line)[0]) for line in lines) if len(lines) > 1 else ()
        return PromptFeatures(words, bag, key, tuple(numbered), apart)

    def _line(self, line: str) -> tuple[list[int], list[str]]:
        words, ids = _WORD.findall(line), self.ids
        numbers = [n.replace(",", "") for n in _NUMBER.findall(line)]
        if not _COUNTS.keys().isdisjoint(words):
            numbers += [_COUNTS[word] for word in words if word in _COUNTS]
            words = [word for word in words if word not in _COUNTS]
        return [ids.setdefault(word, len(ids)) for word in words], numbers

    def weight(self, word: int) -> float:
        """Return the inverse document frequency of a word: 0 for a word of every prompt.

        A word of no training prompt belongs to the wording. Call this method after every training prompt is read.
        """
        weight = self.weights.get(word)
        if weight is None:
            times = self.counts[word]
            weight = self.weights[word] = max(0.0, math.log((self.rows + 1) / times)) if times else _NEW
        return weight

    def heaviest(self, bag: Iterable[int]) -> list[int]:
        """Sort words by weight, the heaviest first; ties have one order for all prompts."""
        return sorted(bag, key=lambda word: (-self.weight(word), word))


_CONTEXT = 3
_FILLERS = 3
_CHANCE = 2
"""Number of common words between two differences that carry no information."""
_EDGE = (-1,) * _CONTEXT
Words = Sequence[int]
DifferenceContext = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PromptDifference:
    """One difference between two prompts.

    Holds the training prompt's words before and behind the difference, and the held-out prompt's first and last words
    in it.
    """

    before: DifferenceContext
    behind: DifferenceContext
    first: int
    last: int


def prompt_differences(held_out: Words, train: Words) -> list[PromptDifference]:
    """Return the places where two prompts differ."""
    spans: list[tuple[int, int, int, int]] = []
    for tag, *span in SequenceMatcher(None, held_out, train, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        if spans and span[2] - spans[-1][3] <= _CHANCE:
            spans[-1] = (spans[-1][0], span[1], spans[-1][2], span[3])
        else:
            spans.append((span[0], span[1], span[2], span[3]))
    test_words, train_words = (*_EDGE, *held_out, *_EDGE), (*_EDGE, *train, *_EDGE)
    return [
        PromptDifference(
            train_words[j1 : j1 + _CONTEXT],
            train_words[j2 + _CONTEXT : j2 + 2 * _CONTEXT],
            test_words[i1 + _CONTEXT],
            test_words[i2 + 2],
        )
        for i1, i2, j1, j2 in spans
    ]


@dataclass(slots=True)
class TemplateSlots:
    """Counts, in the training split, of what stands before and behind the registered places."""

    nexts: dict[DifferenceContext, set[int]] = field(default_factory=dict)
    lasts: dict[DifferenceContext, set[int]] = field(default_factory=dict)

    def ask(self, places: Iterable[PromptDifference]) -> None:
        """Register the places; call `learn` once afterwards."""
        for place in places:
            self.nexts.setdefault(place.before, set())
            self.lasts.setdefault(place.behind, set())

    def learn(self, rows: Iterable[Words]) -> None:
        """Read the training prompts once."""
        for words in rows:
            padded = (*_EDGE, *words, *_EDGE)
            for n in range(len(words) + 1):
                nexts = self.nexts.get(padded[n : n + _CONTEXT])
                if nexts is not None:
                    nexts.add(padded[n + _CONTEXT])
                lasts = self.lasts.get(padded[n + _CONTEXT : n + 2 * _CONTEXT])
                if lasts is not None:
                    lasts.add(padded[n + _CONTEXT - 1])

    def has(self, place: PromptDifference) -> bool:
        """True when a place is a slot."""
        nexts, lasts = self.nexts[place.before], self.lasts[place.behind]
        return min(len(nexts), len(lasts)) >= _FILLERS or (place.first in nexts and place.last in lasts)


TRAIN, HELD_OUT = 20_000, 2_000
"""Rows to compare at most; a longer split is sampled with a seed."""
_TRAIN_TEXT, _HELD_OUT_TEXT = 5_000_000, 1_000_000
"""Characters to compare at most; splits with long prompts are sampled further."""
COMMON_RUNS, COMMON_WORDS, COMMON_WEIGHT = 0.5, 0.5, 0.7
_MOST_WORDS = 60
"""Distinct words up to which bags of words are compared; longer paraphrases keep runs of words."""
_FEW_RUNS = 5
_CANDIDATES = 5
"""Number of most similar training prompts to remember for each held-out prompt."""
_WORK = 3_000_000
_ONE_THING = 2
"""Most words that name another thing in one place of a prompt: "Sri Lanka" for "France"."""
"""Pairs to compare before the search stops: a few seconds."""
SAMPLE_SEED = 7
_INCOMPARABLE = OPEN_ENDED | {"json", "tool_call"}


@dataclass(frozen=True, slots=True)
class ComparedPrompt:
    """The data of a row that the search needs. `gold` is the key of the gold; None where the row has no gold."""

    index: int
    text: str
    gold: bytes | None

    @classmethod
    def of(cls, row: TaskRow, gold: bytes | None) -> ComparedPrompt:
        return cls(row.index, _cut(row.prompt), gold)


def _cut(text: str) -> str:
    return text if len(text) <= CUT_WORDS else f"{text[: CUT_WORDS // 2]}\n{text[-CUT_WORDS // 2 :]}"


@dataclass(slots=True)
class NearDuplicates:
    """The near-duplicates among the held-out rows. `compared` of `of` rows were compared."""

    rows: FlawTally = field(default_factory=FlawTally)
    compared: int = 0
    of: int = 0
    stopped: bool = False
    golds_compared: bool = True
    """False in formats where two different golds can both be right."""


@dataclass(slots=True)
class _Search:
    words: Vocabulary
    train: list[tuple[ComparedPrompt, PromptFeatures]]
    held_out: list[tuple[ComparedPrompt, PromptFeatures]]
    comparable: bool
    work: int = 0
    pairs: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """Similarity and place of the training rows that are much alike, by the place of the held-out row."""

    def spend(self, pairs: int) -> bool:
        """Record that `pairs` were compared; True while work is left in the budget."""
        self.work += pairs
        return self.work <= _WORK

    def gold(self, prompt: ComparedPrompt) -> bytes | None:
        return prompt.gold if self.comparable else None

    def asks_for_another_answer(self, index: int, place: int) -> bool:
        """Whether other words in one place of the prompt explain that the golds differ, as another country does.

        Matters only in formats where two different golds can both be right.
        """
        (held_prompt, a), (train_prompt, b) = self.held_out[index], self.train[place]
        if None in (held_prompt.gold, train_prompt.gold) or held_prompt.gold == train_prompt.gold:
            return False
        opcodes = SequenceMatcher(None, a.words, b.words, autojunk=False).get_opcodes()
        other = [(tag, i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in opcodes if tag != "equal"]
        return len(other) == 1 and other[0][0] == "replace" and max(other[0][1:]) <= _ONE_THING

    def keep(self, index: int, place: int, likeness: float) -> None:
        matches = self.pairs.setdefault(index, [])
        if (-likeness, place) not in matches:
            matches.append((-likeness, place))
            matches.sort()
            del matches[_CANDIDATES:]


def search_near_duplicates(
    train: Sequence[ComparedPrompt], held_out: Sequence[ComparedPrompt], format: str
) -> NearDuplicates:
    """Find every held-out prompt with a near-duplicate in training. The caller leaves exact duplicates out."""
    total, train, held_out = len(held_out), _within(train, _TRAIN_TEXT), _within(held_out, _HELD_OUT_TEXT)
    words = Vocabulary()
    words.learn_template([p.text.casefold() for p in train])
    train_features = [(p, words.read(p.text, training=True)) for p in train]
    held_features = [(p, words.read(p.text, training=False)) for p in held_out]
    state = _Search(words, train_features, held_features, format not in _INCOMPARABLE)
    _by_words(state, [n for n, (_, f) in enumerate(held_features) if len(f.bag) <= _MOST_WORDS])
    _by_runs(state, [n for n, (_, f) in enumerate(held_features) if len(f.words) >= LONG_LINE])
    near = NearDuplicates(compared=len(held_out), of=total, stopped=state.work > _WORK, golds_compared=state.comparable)
    matches = {**_by_numbers(state), **_without_siblings(state)}
    for place, match in sorted(matches.items()):
        training = train[match]
        near.rows.add(
            held_out[place].index, held_out[place].text, train_row=training.index, train=quote(training.text, 160)
        )
    return near


_TELLING_NUMBERS, _TELLING_DIGITS = 3, 7
"""Different numbers, and their digits together, from which equal numbers and an equal gold are no chance."""
_RARE = 2
"""Training prompts that may share numbers and gold; more come from one generator."""


def _by_numbers(state: _Search) -> dict[int, int]:
    """Return the training row of each held-out row that asks the same in other words: numbers and gold agree.

    Rows whose words agree as well are left to the comparison of words, which knows the siblings of a template.
    """
    index: dict[tuple[tuple[str, ...], bytes], list[int]] = {}
    for n, (prompt, features) in enumerate(state.held_out):
        gold = state.gold(prompt)
        if gold is not None and _telling(features.order):
            index.setdefault((tuple(sorted(features.order)), gold), []).append(n)
    groups: dict[int, list[int]] = {}
    for place, (prompt, features) in enumerate(state.train if index else ()):
        gold = state.gold(prompt)
        for n in index.get((tuple(sorted(features.order)), gold), ()) if gold is not None else ():
            groups.setdefault(n, []).append(place)
    return {
        n: places[0]
        for n, places in groups.items()
        if len(places) <= _RARE and _overlap(state.held_out[n][1].bag, state.train[places[0]][1].bag) < COMMON_WORDS
    }


def _telling(numbers: Sequence[str]) -> bool:
    different = set(numbers)
    digits = sum(character.isdigit() for number in different for character in number)
    return len(different) >= _TELLING_NUMBERS and digits >= _TELLING_DIGITS


def _within(prompts: Sequence[ComparedPrompt], characters: int) -> Sequence[ComparedPrompt]:
    """Return all prompts, or a seeded sample with about `characters` characters."""
    total = sum(len(p.text) for p in prompts)
    if total <= characters:
        return prompts
    return random.Random(SAMPLE_SEED).sample(prompts, len(prompts) * characters // total)


def _without_siblings(state: _Search) -> dict[int, int]:
    """Return the most similar training row of each held-out row, without pairs that differ only in template slots."""
    slots = TemplateSlots()
    candidates: list[tuple[int, int, list[PromptDifference]]] = []
    for n, pairs in state.pairs.items():
        for _, place in pairs:
            places = prompt_differences(state.held_out[n][1].words, state.train[place][1].words)
            slots.ask(places)
            candidates.append((n, place, places))
    if candidates:
        slots.learn(features.words for _, features in state.train)
    matches: dict[int, int] = {}
    for n, place, places in candidates:
        same_order = state.held_out[n][1].order == state.train[place][1].order
        if state.asks_for_another_answer(n, place):
            continue
        if (not places and same_order) or not all(map(slots.has, places)):
            matches.setdefault(n, place)
    return matches


def _by_runs(state: _Search, long: Sequence[int]) -> None:
    """Compare long prompts by their runs of eight words."""
    if not long:
        return
    runs = {n: state.held_out[n][1].grams() for n in long}
    index: dict[int, list[int]] = defaultdict(list)
    for n, grams in runs.items():
        for gram in grams:
            index[gram].append(n)
    hits = [[g for g in f.grams() if g in index] if len(f.words) >= LONG_LINE / 2 else [] for _, f in state.train]
    times = Counter(gram for rows in hits for gram in rows)
    most = max(5, len(state.train) // 500)
    template = {gram for gram, number in times.items() if number > most}
    own = {n: len(grams - template) for n, grams in runs.items()}
    for place, rows in enumerate(hits):
        shared: Counter[int] = Counter()
        for gram in rows:
            if gram not in template:
                shared.update(index[gram])
        if not state.spend(len(shared) + len(rows)):
            return
        for n, number in shared.items():
            if own[n] >= _FEW_RUNS and number >= COMMON_RUNS * own[n] and _same_task(state, n, place):
                state.keep(n, place, number / own[n])


def _same_task(state: _Search, index: int, place: int) -> bool:
    """True when two similar long prompts have the same numbers, the same gold, and no line of their own."""
    (held_prompt, a), (train_prompt, b) = state.held_out[index], state.train[place]
    if a.numbers != b.numbers or state.gold(held_prompt) != state.gold(train_prompt):
        return False
    return not (_has_own_line(a, b) and _has_own_line(b, a))


def _has_own_line(one: PromptFeatures, other: PromptFeatures) -> bool:
    """True when a line has no counterpart: another question about the same passage."""
    lines = other.lines or (other.bag,)
    return any(len(line) >= 3 and max(_overlap(line, other_line) for other_line in lines) < 1 / 3 for line in one.lines)


def _overlap(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / max(1, len(one | other))


def _by_words(state: _Search, short: Sequence[int]) -> None:
    """Compare prompts by their words.

    Two bags with 70 % of the weight in common share a word of their heaviest 30 %, so only such pairs are compared.
    """
    index: dict[tuple[str, bytes | None, int], list[int]] = defaultdict(list)
    for n in short:
        prompt, features = state.held_out[n]
        for word in _prefix(state.words, features):
            index[features.numbers, state.gold(prompt), word].append(n)
    if not index:
        return
    for place, (train_prompt, b) in enumerate(state.train):
        gold = state.gold(train_prompt)
        nearby = {n for word in _prefix(state.words, b) for n in index.get((b.numbers, gold, word), ())}
        if not state.spend(len(nearby)):
            return
        for n in nearby:
            likeness = _likeness(state.words, state.held_out[n][1], b)
            if likeness >= COMMON_WEIGHT:
                state.keep(n, place, likeness)


def _prefix(words: Vocabulary, features: PromptFeatures) -> Iterator[int]:
    if not features.bag:
        yield -1
        return
    remaining = total = sum(map(words.weight, features.bag))
    for word in words.heaviest(features.bag):
        yield word
        remaining -= words.weight(word)
        if remaining < COMMON_WEIGHT * total:
            return


def _likeness(words: Vocabulary, one: PromptFeatures, other: PromptFeatures) -> float:
    """Return the share by weight of the words that two bags have in common; 0 where fewer than half are common."""
    common, either = one.bag & other.bag, one.bag | other.bag
    if len(common) < COMMON_WORDS * len(either) or (_has_own_line(one, other) and _has_own_line(other, one)):
        return 0.0
    weight = sum(map(words.weight, common)) if len(common) < len(either) else 1.0
    likeness = weight / (weight + sum(map(words.weight, either - common)) + 1e-9)
    if likeness >= COMMON_WEIGHT and len(one.words) >= LONG_LINE:
        pairs = one.grams(2)
        return likeness if len(pairs & other.grams(2)) >= COMMON_WORDS * len(pairs) else 0.0
    return likeness
