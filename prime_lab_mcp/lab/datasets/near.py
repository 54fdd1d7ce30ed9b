"""Held-out prompts that are training prompts in other words (facts/validation 1.5).

Made for short prompts from templates, where thresholds for web text report every row. A pair counts only when the
numbers agree (in order, where they are calculated with) and the golds do: another number or another answer is another
task of the same kind. Then one of two must hold. Of the words, 70 % must be common, where a word weighs the more the
fewer training prompts have it, and half by number (from 25 words on, half of the pairs of neighbours too). Or, from 25
words on, half of the held-out prompt's runs of eight words must be in the training prompt. Lines and runs that many
prompts share are template and are left out, and a pair that differs only in the slots of a template
(near_template.py) is no leak.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.datasets.keys import OPEN_ENDED
from prime_lab_mcp.lab.datasets.near_template import Place, Slots, differences
from prime_lab_mcp.lab.datasets.near_words import CUT, LONG, Features, Vocabulary
from prime_lab_mcp.lab.datasets.plain import PlainRow, Tally
from prime_lab_mcp.lab.text import quote

TRAIN, HELD_OUT = 20_000, 2_000
"""Rows compared at most; above, a seeded sample of each split is."""
_TRAIN_TEXT, _HELD_OUT_TEXT = 5_000_000, 1_000_000
"""Characters compared at most: long prompts are sampled further."""
COMMON_RUNS, COMMON_WORDS, COMMON_WEIGHT = 0.5, 0.5, 0.7
_MOST_WORDS = 60
"""Different words up to which bags of words are compared; longer paraphrases keep runs."""
_FEW_RUNS = 5
_CANDIDATES = 5
"""Training prompts, the most alike, that are kept of each held-out one."""
_WORK = 3_000_000
"""Pairs looked at before the search stops: a few seconds."""
SEED = 7
_INCOMPARABLE = OPEN_ENDED | {"json", "tool_call"}


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is kept of a row until the search. `gold` is its key; None where there is none."""

    index: int
    text: str
    gold: bytes | None

    @classmethod
    def of(cls, row: PlainRow, gold: bytes | None) -> Prompt:
        return cls(row.index, _cut(row.prompt), gold)


def _cut(text: str) -> str:
    return text if len(text) <= CUT else f"{text[: CUT // 2]}\n{text[-CUT // 2 :]}"


@dataclass(slots=True)
class Near:
    """The held-out rows found, of `looked` that were compared; `of` is how many there were to compare."""

    rows: Tally = field(default_factory=Tally)
    looked: int = 0
    of: int = 0
    stopped: bool = False


@dataclass(slots=True)
class _Search:
    words: Vocabulary
    train: list[tuple[Prompt, Features]]
    held: list[tuple[Prompt, Features]]
    comparable: bool
    work: int = 0
    pairs: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """Likeness and place of the training rows that are much alike, by the place of the held-out row."""

    def spend(self, pairs: int) -> bool:
        """Whether there is work left."""
        self.work += pairs
        return self.work <= _WORK

    def gold(self, prompt: Prompt) -> bytes | None:
        return prompt.gold if self.comparable else None

    def keep(self, held: int, place: int, likeness: float) -> None:
        kept = self.pairs.setdefault(held, [])
        if (-likeness, place) not in kept:
            kept.append((-likeness, place))
            kept.sort()
            del kept[_CANDIDATES:]


def search(train: Sequence[Prompt], held: Sequence[Prompt], format: str) -> Near:
    """Every held-out prompt that has a near-duplicate among the training prompts; neither holds exact ones."""
    of, train, held = len(held), _within(train, _TRAIN_TEXT), _within(held, _HELD_OUT_TEXT)
    words = Vocabulary()
    words.learn_template([p.text.casefold() for p in train])
    known = [(p, words.read(p.text, training=True)) for p in train]
    asked = [(p, words.read(p.text, training=False)) for p in held]
    state = _Search(words, known, asked, format not in _INCOMPARABLE)
    _by_words(state, [n for n, (_, f) in enumerate(asked) if len(f.bag) <= _MOST_WORDS])
    _by_runs(state, [n for n, (_, f) in enumerate(asked) if len(f.words) >= LONG])
    near = Near(looked=len(held), of=of, stopped=state.work > _WORK)
    for place, match in sorted(_without_siblings(state).items()):
        found = train[match]
        near.rows.add(held[place].index, held[place].text, train_row=found.index, train=quote(found.text, 160))
    return near


def _within(prompts: Sequence[Prompt], characters: int) -> Sequence[Prompt]:
    """All, or a seeded sample that keeps about so many characters."""
    total = sum(len(p.text) for p in prompts)
    if total <= characters:
        return prompts
    return random.Random(SEED).sample(prompts, len(prompts) * characters // total)


def _without_siblings(state: _Search) -> dict[int, int]:
    """The most alike training row of each held-out row, less pairs that differ in the slots of a template alone."""
    slots = Slots()
    judged: list[tuple[int, int, list[Place]]] = []
    for n, kept in state.pairs.items():
        for _, place in kept:
            places = differences(state.held[n][1].words, state.train[place][1].words)
            slots.ask(places)
            judged.append((n, place, places))
    if judged:
        slots.learn(features.words for _, features in state.train)
    found: dict[int, int] = {}
    for n, place, places in judged:
        same_order = state.held[n][1].order == state.train[place][1].order
        if (not places and same_order) or not all(map(slots.has, places)):
            found.setdefault(n, place)
    return found


def _by_runs(state: _Search, long: Sequence[int]) -> None:
    """Long prompts, by their runs of eight words."""
    if not long:
        return
    runs = {n: state.held[n][1].grams() for n in long}
    index: dict[int, list[int]] = defaultdict(list)
    for n, grams in runs.items():
        for gram in grams:
            index[gram].append(n)
    hits = [[g for g in f.grams() if g in index] if len(f.words) >= LONG / 2 else [] for _, f in state.train]
    times = Counter(gram for found in hits for gram in found)
    most = max(5, len(state.train) // 500)
    template = {gram for gram, number in times.items() if number > most}
    own = {n: len(grams - template) for n, grams in runs.items()}
    for place, found in enumerate(hits):
        shared: Counter[int] = Counter()
        for gram in found:
            if gram not in template:
                shared.update(index[gram])
        if not state.spend(len(shared) + len(found)):
            return
        for n, number in shared.items():
            if own[n] >= _FEW_RUNS and number >= COMMON_RUNS * own[n] and _same_task(state, n, place):
                state.keep(n, place, number / own[n])


def _same_task(state: _Search, held: int, place: int) -> bool:
    """Whether two long prompts with much in common have the same numbers, the same gold and no line of their own."""
    (asked, a), (known, b) = state.held[held], state.train[place]
    if a.numbers != b.numbers or state.gold(asked) != state.gold(known):
        return False
    return not (_has_own_line(a, b) and _has_own_line(b, a))


def _has_own_line(one: Features, other: Features) -> bool:
    """A line with no counterpart: another question about the same passage."""
    lines = other.lines or (other.bag,)
    return any(len(line) >= 3 and max(_overlap(line, beside) for beside in lines) < 1 / 3 for line in one.lines)


def _overlap(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / max(1, len(one | other))


def _by_words(state: _Search, short: Sequence[int]) -> None:
    """Prompts by their words. Two bags with 70 % of the weight in common share a word of their heaviest 30 %: only such
    pairs are compared."""
    index: dict[tuple[str, bytes | None, int], list[int]] = defaultdict(list)
    for n in short:
        prompt, features = state.held[n]
        for word in _prefix(state.words, features):
            index[features.numbers, state.gold(prompt), word].append(n)
    if not index:
        return
    for place, (known, b) in enumerate(state.train):
        gold = state.gold(known)
        nearby = {n for word in _prefix(state.words, b) for n in index.get((b.numbers, gold, word), ())}
        if not state.spend(len(nearby)):
            return
        for n in nearby:
            likeness = _likeness(state.words, state.held[n][1], b)
            if likeness >= COMMON_WEIGHT:
                state.keep(n, place, likeness)


def _prefix(words: Vocabulary, features: Features) -> Iterator[int]:
    if not features.bag:
        yield -1
        return
    left = total = sum(map(words.weight, features.bag))
    for word in words.heaviest(features.bag):
        yield word
        left -= words.weight(word)
        if left < COMMON_WEIGHT * total:
            return


def _likeness(words: Vocabulary, one: Features, other: Features) -> float:
    """Share by weight of the words that two bags have in common; 0 where it is less than half by number."""
    common, either = one.bag & other.bag, one.bag | other.bag
    if len(common) < COMMON_WORDS * len(either) or (_has_own_line(one, other) and _has_own_line(other, one)):
        return 0.0
    weight = sum(map(words.weight, common)) if len(common) < len(either) else 1.0
    likeness = weight / (weight + sum(map(words.weight, either - common)) + 1e-9)
    if likeness >= COMMON_WEIGHT and len(one.words) >= LONG:
        pairs = one.grams(2)
        return likeness if len(pairs & other.grams(2)) >= COMMON_WORDS * len(pairs) else 0.0
    return likeness
