"""Finds held-out prompts that paraphrase training prompts.

Many datasets make their prompts from templates. Two prompts that differ only in the slots of a template are different
tasks and no leak. Methods for near-duplicates in web text would report all such rows, so this search works differently.

A pair of a training prompt and a held-out prompt is a near-duplicate if all of these hold:

1. Their golds agree, and so do their numbers (in order, if the prompt has a calculation), months and days of the
   week, and single capital letters in order with the marks <, > and → between them, if they name two things or more.
   So do the lines that are drawn with marks, as the grid of a game is. Another of these means another task. Tasks
   without golds must have the same data outside of the prompt (a database, a secret). Where different golds can both be
   right, golds are not compared; but if the prompts differ in one place only, by one or two words, and the golds differ
   too, the prompts are different tasks.
2. Their words agree. Either they share 70 % of their words by weight (words that are rare in the training prompts weigh
   more) and half by number; from 25 words on, also half of the pairs of neighbouring words. Or, from 25 words on, half
   of the held-out prompt's runs of eight words occur in the training prompt. Lines and runs that many prompts share
   belong to the template and do not count.
3. Their words are equal, or they differ in a place that is not a slot of a template. A place is a slot if, in the
   training split, at least three different words follow the text before it and at least three different words precede
   the text behind it. It is also a slot if the held-out prompt's own words occur there in the training split.
4. Neither is another selection of statements that occur in the training split, such as the rules of a logic puzzle in
   any order, or of their parts: `A: needs B and C` where `A`, `needs B` and `C` occur (`KnownStatements`).

A paraphrase in completely different words is found by its numbers: it has at least three different numbers with seven
digits in total, and at most two training prompts have the same numbers and the same gold.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.prompt_features import PromptFeatures, Vocabulary
from prime_lab_mcp.lab.datasets.prompt_templates import (
    KnownStatements,
    PromptDifference,
    TemplateSlots,
    prompt_differences,
)
from prime_lab_mcp.lab.datasets.tasks import OPEN_ENDED, FlawTally, TaskRow

COMPARED_CHARACTERS = 2_000
"""Most characters of a prompt that are compared: half from its start and half from its end."""
LONG_LINE = 25
"""Words. For prompts with at least as many, runs of words are compared too (docs/validation.md, Near duplicates)."""

TRAIN, HELD_OUT = 20_000, 2_000
"""Most rows of each split that are compared. A larger split is sampled with a seed."""
_TRAIN_TEXT, _HELD_OUT_TEXT = 5_000_000, 1_000_000
"""Most characters of each split that are compared. A split with long prompts is sampled further."""
COMMON_RUNS, COMMON_WORDS, COMMON_WEIGHT = 0.5, 0.5, 0.7
_MOST_WORDS = 60
"""Most distinct words of a prompt whose bag of words is compared. Longer paraphrases share runs of words."""
_FEW_RUNS = 5
_CANDIDATES = 5
"""Number of similar training prompts that are stored for each held-out prompt."""
_MOST_PAIRS = 3_000_000
"""Most pairs that are compared before the search stops. They take a few seconds."""
_MOST_OTHER_WORDS = 2
"""Most words that name another subject in one place of a prompt, such as "Sri Lanka" for "France"."""
SAMPLE_SEED = 7
_INCOMPARABLE = OPEN_ENDED | {"json", "tool_call"}


@dataclass(frozen=True, slots=True)
class ComparedPrompt:
    """The data of a row that the search needs. `gold` is a digest of the gold; None if the row has no gold."""

    index: int
    text: str
    gold: bytes | None
    other_content: bytes | None = None
    """A digest of the content outside of the prompt's text, for a row without a gold. It is compared as a gold is."""

    @classmethod
    def of(cls, row: TaskRow, gold: bytes | None) -> ComparedPrompt:
        other_content = row.other_content.encode() if gold is None and row.other_content else None
        return cls(row.index, _shortened(row.prompt), gold, other_content)


def _shortened(text: str) -> str:
    return (
        text
        if len(text) <= COMPARED_CHARACTERS
        else f"{text[: COMPARED_CHARACTERS // 2]}\n{text[-COMPARED_CHARACTERS // 2 :]}"
    )


@dataclass(slots=True)
class NearDuplicates:
    """The near-duplicates among the held-out rows.

    `compared` of the `of` held-out rows were compared. `stopped` says that the search stopped before its end.
    """

    rows: FlawTally = field(default_factory=FlawTally)
    compared: int = 0
    of: int = 0
    stopped: bool = False
    matches: dict[int, int] = field(default_factory=dict)
    """The index of the training row by the index of the held-out row."""
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
    """For the position of a held-out row: the negated similarities and positions of similar training rows."""

    def within_budget(self, pairs: int) -> bool:
        """Record that `pairs` were compared. Return whether more pairs may be compared."""
        self.work += pairs
        return self.work <= _MOST_PAIRS

    def gold(self, prompt: ComparedPrompt) -> bytes | None:
        return (prompt.gold if self.comparable else None) or prompt.other_content

    def asks_for_another_answer(self, index: int, place: int) -> bool:
        """Return whether other words in one place of the prompt (such as another country) explain different golds.

        This matters only in formats in which two different golds can both be right.
        """
        (held_prompt, a), (train_prompt, b) = self.held_out[index], self.train[place]
        if None in (held_prompt.gold, train_prompt.gold) or held_prompt.gold == train_prompt.gold:
            return False
        opcodes = SequenceMatcher(None, a.words, b.words, autojunk=False).get_opcodes()
        other = [(tag, i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in opcodes if tag != "equal"]
        return len(other) == 1 and other[0][0] == "replace" and max(other[0][1:]) <= _MOST_OTHER_WORDS

    def add_pair(self, index: int, place: int, similarity: float) -> None:
        matches = self.pairs.setdefault(index, [])
        if (-similarity, place) not in matches:
            matches.append((-similarity, place))
            matches.sort()
            del matches[_CANDIDATES:]


def search_near_duplicates(
    train: Sequence[ComparedPrompt], held_out: Sequence[ComparedPrompt], format: str
) -> NearDuplicates:
    """Find all held-out prompts with a near-duplicate among the training prompts. Pass no exact duplicates."""
    total, train, held_out = len(held_out), _limited(train, _TRAIN_TEXT), _limited(held_out, _HELD_OUT_TEXT)
    words = Vocabulary()
    words.learn_template([p.text.casefold() for p in train])
    train_features = [(p, words.read(p.text, training=True)) for p in train]
    held_features = [(p, words.read(p.text, training=False)) for p in held_out]
    state = _Search(words, train_features, held_features, format not in _INCOMPARABLE)
    _by_words(state, [n for n, (_, f) in enumerate(held_features) if len(f.bag) <= _MOST_WORDS])
    _by_runs(state, [n for n, (_, f) in enumerate(held_features) if len(f.words) >= LONG_LINE])
    near = NearDuplicates(
        compared=len(held_out), of=total, stopped=state.work > _MOST_PAIRS, golds_compared=state.comparable
    )
    matches = {**_by_numbers(state), **_without_siblings(state)}
    for place, match in sorted(matches.items()):
        training = train[match]
        near.matches[held_out[place].index] = training.index
        near.rows.add(
            held_out[place].index, held_out[place].text, train_row=training.index, train=quote(training.text, 160)
        )
    return near


_FEWEST_NUMBERS, _FEWEST_DIGITS = 3, 7
"""Fewest different numbers, and fewest digits in total, with which equal numbers and golds are no coincidence."""
_MOST_SHARING = 2
"""Most training prompts with the same numbers and gold. If there are more, a generator has made them."""


def _by_numbers(state: _Search) -> dict[int, int]:
    """Return, for each held-out row, the training row with the same numbers and gold but other words.

    Rows with similar words are left to the comparison of words, which recognises templates.
    """
    index: dict[tuple[tuple[str, ...], bytes], list[int]] = {}
    for n, (prompt, features) in enumerate(state.held_out):
        gold = state.gold(prompt)
        if gold is not None and _identify_task(features.order):
            index.setdefault((tuple(sorted(features.order)), gold), []).append(n)
    groups: dict[int, list[int]] = {}
    for place, (prompt, features) in enumerate(state.train if index else ()):
        gold = state.gold(prompt)
        for n in index.get((tuple(sorted(features.order)), gold), ()) if gold is not None else ():
            groups.setdefault(n, []).append(place)
    return {
        n: places[0]
        for n, places in groups.items()
        if len(places) <= _MOST_SHARING
        and _overlap(state.held_out[n][1].bag, state.train[places[0]][1].bag) < COMMON_WORDS
    }


def _identify_task(numbers: Sequence[str]) -> bool:
    different = set(numbers)
    digits = sum(character.isdigit() for number in different for character in number)
    return len(different) >= _FEWEST_NUMBERS and digits >= _FEWEST_DIGITS


def _limited(prompts: Sequence[ComparedPrompt], characters: int) -> Sequence[ComparedPrompt]:
    """Return all prompts, or a seeded sample of about `characters` characters if they have more."""
    total = sum(len(p.text) for p in prompts)
    if total <= characters:
        return prompts
    return random.Random(SAMPLE_SEED).sample(prompts, len(prompts) * characters // total)


def _without_siblings(state: _Search) -> dict[int, int]:
    """Return the most similar training row of each held-out row. Pairs that differ only in slots are left out."""
    slots = TemplateSlots()
    candidates: list[tuple[int, int, list[PromptDifference]]] = []
    for n, pairs in state.pairs.items():
        for _, place in pairs:
            places = prompt_differences(state.held_out[n][1].words, state.train[place][1].words)
            slots.register(places)
            candidates.append((n, place, places))
    statements = KnownStatements()
    if candidates:
        slots.learn(features.words for _, features in state.train)
        statements.learn(prompt.text for prompt, _ in state.train)
    matches: dict[int, int] = {}
    for n, place, places in candidates:
        same_order = state.held_out[n][1].order == state.train[place][1].order
        if state.asks_for_another_answer(n, place):
            continue
        if places and statements.other_selection(state.held_out[n][0].text, state.train[place][0].text):
            continue
        if (not places and same_order) or not all(map(slots.is_slot, places)):
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
        if not state.within_budget(len(shared) + len(rows)):
            return
        for n, number in shared.items():
            if own[n] >= _FEW_RUNS and number >= COMMON_RUNS * own[n] and _same_task(state, n, place):
                state.add_pair(n, place, number / own[n])


def _same_task(state: _Search, index: int, place: int) -> bool:
    """Return whether two similar long prompts ask the same.

    Their numbers and golds must agree, and they must not both have a line that the other lacks.
    """
    (held_prompt, a), (train_prompt, b) = state.held_out[index], state.train[place]
    if a.numbers != b.numbers or state.gold(held_prompt) != state.gold(train_prompt):
        return False
    return not (_has_own_line(a, b) and _has_own_line(b, a))


def _has_own_line(one: PromptFeatures, other: PromptFeatures) -> bool:
    """Return whether a line of the first prompt is unlike all lines of the other, as another question would be."""
    lines = other.lines or (other.bag,)
    return any(len(line) >= 3 and max(_overlap(line, other_line) for other_line in lines) < 1 / 3 for line in one.lines)


def _overlap(one: frozenset[int], other: frozenset[int]) -> float:
    return len(one & other) / max(1, len(one | other))


def _by_words(state: _Search, short: Sequence[int]) -> None:
    """Compare prompts by their words.

    The weight of a word is its inverse document frequency. If two prompts share words with 70 % of the weight, they
    share at least one of the heaviest words that together have 30 % of the weight. Only pairs with such a word are
    compared.
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
        if not state.within_budget(len(nearby)):
            return
        for n in nearby:
            similarity = _similarity(state.words, state.held_out[n][1], b)
            if similarity >= COMMON_WEIGHT:
                state.add_pair(n, place, similarity)


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


def _similarity(words: Vocabulary, one: PromptFeatures, other: PromptFeatures) -> float:
    """Return the share by weight of the words that two prompts have in common; 0 if they share fewer than half."""
    common, either = one.bag & other.bag, one.bag | other.bag
    if len(common) < COMMON_WORDS * len(either) or (_has_own_line(one, other) and _has_own_line(other, one)):
        return 0.0
    weight = sum(map(words.weight, common)) if len(common) < len(either) else 1.0
    similarity = weight / (weight + sum(map(words.weight, either - common)) + 1e-9)
    if similarity >= COMMON_WEIGHT and len(one.words) >= LONG_LINE:
        pairs = one.grams(2)
        return similarity if len(pairs & other.grams(2)) >= COMMON_WORDS * len(pairs) else 0.0
    return similarity
