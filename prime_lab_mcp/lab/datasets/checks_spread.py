"""Checks of the whole: how answers and prompts are spread over a split (facts/validation 1.4)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise

from prime_lab_mcp.lab.datasets import chi_square
from prime_lab_mcp.lab.datasets.checks_gold import Check, tallied
from prime_lab_mcp.lab.datasets.formats import CLASSES
from prime_lab_mcp.lab.datasets.observing import Observed
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

_FEWEST = 20
"""Rows below which a share says little."""
_SURE = 1e-3
_Z = 3.29
_MATTERS = 1.2
"""How much more often than by chance one position must be right to matter: MMLU's real 1.08 does not."""


def duplicate_prompt(seen: Observed) -> Iterator[Finding]:
    tally, rows = (seen.duplicates, seen.rows) if seen.repeats is None else (seen.repeats.duplicates, seen.repeats.rows)
    share = tally.total / max(1, rows)
    if share >= 0.01:
        yield tallied(
            "duplicate-prompt", "blocker" if share >= 0.2 else "warning", tally, rows,
            "repeat an earlier prompt; difficulty pools refuse repeated tasks.",
            "Remove the repetitions.",
        )  # fmt: skip


def majority_floor(seen: Observed) -> Iterator[Finding]:
    """A share of 0.6 of two classes, 2/k of k, half of all where answers are no classes; 0.9 blocks."""
    if seen.answered < _FEWEST or not seen.golds:
        return
    places = _positions(seen)
    counts: Mapping[str, int] = (
        {f"position {n + 1}": times for n, times in sorted(places.items())} if places else seen.golds
    )
    kinds = max(seen.positions) or len(places) if places else len(counts)
    gold, times = max(counts.items(), key=lambda entry: entry[1])
    share = times / sum(counts.values())
    classes = seen.format in CLASSES and kinds <= 20
    limit = min(0.9, (0.6 if kinds <= 2 else 2 / kinds) if classes else 0.5)
    if share < limit or (classes and kinds > 4 and _least(share, seen.answered) <= 1 / kinds):
        return
    what = f"always choosing {gold}" if places else "always giving the same answer"
    yield Finding(
        "majority-floor",
        "blocker" if share >= 0.9 else "warning",
        f"{what} is right for {share:.0%} of the rows, so a model that has learned nothing scores {share:.2f}.",
        "Shuffle the options." if places else "Balance the answers; judge a model by how far it is above this floor.",
        rows=tuple(
            {"value": quote(value, 80), "count": number}
            for value, number in Counter(counts).most_common(5 if places else 1)
        ),
    )


def _least(share: float, rows: int) -> float:
    """Lower end of Wilson's 99.9 % interval: small sets reach a share by chance."""
    z2 = _Z**2
    middle = share + z2 / (2 * rows)
    return (middle - _Z * math.sqrt(share * (1 - share) / rows + z2 / (4 * rows * rows))) / (1 + z2 / rows)


def _positions(seen: Observed) -> Counter[int]:
    """How often each position is right; nothing where all rows have the same options, which then are classes."""
    found: Counter[int] = Counter()
    if seen.format in ("choice_letter", "choice_index") and len(seen.option_sets) != 1:
        for counts in seen.positions.values():
            found.update(counts)
    return found


def position_bias(seen: Observed) -> Iterator[Finding]:
    """Chi-square against equal chances, summed over the numbers of options that rows have."""
    if not _positions(seen):
        return
    statistic, freedom, matters = 0.0, 0, False
    for options, counts in seen.positions.items():
        number = options or max(counts) + 1
        spread = [counts[n] for n in range(number)]
        rows = sum(spread)
        if number < 2 or rows < 5 * number or rows < _FEWEST:
            continue
        value, degrees = chi_square.uniform(spread)
        statistic, freedom = statistic + value, freedom + degrees
        matters = matters or max(spread) >= _MATTERS * rows / number
    places = _positions(seen)
    index, times = places.most_common(1)[0]
    total = sum(places.values())
    chance = chi_square.survival(statistic, freedom)
    if not freedom or not matters or chance >= _SURE:
        return
    shares = ", ".join(f"{n + 1}: {number / total:.0%}" for n, number in sorted(places.items()))
    yield Finding(
        "position-bias",
        "blocker" if times >= 0.9 * total else "warning",
        f"the right option is not equally often at each position ({shares} of {count(total, 'row')}; chi-square p "
        f"{'< 1e-9' if chance < 1e-9 else f'= {chance:.1g}'}): position {index + 1} pays without reading.",
        "Shuffle each row's options with a seed, and move the answer along.",
    )


def sorted_by_label(seen: Observed) -> Iterator[Finding]:
    """The first tenth has one class while the set has more, or neighbours share a class far too often for chance."""
    rows = sorted(seen.classes)
    counts = Counter(gold for _, gold in rows)
    first = {gold for _, gold in rows[: len(rows) // 10]}
    if len(rows) < 40 or len(counts) < 2 or not first:
        return
    only = next(iter(first)) if len(first) == 1 else None
    by_chance = (counts[only] / len(rows)) ** (len(rows) // 10) if only is not None else 1.0
    changes = sum(one[1] != other[1] for one, other in pairwise(rows))
    expected = len(rows) * (1 - sum((n / len(rows)) ** 2 for n in counts.values()))
    if by_chance >= _SURE and not (expected >= 20 and changes < 0.2 * expected):
        return
    what = (
        f"the first tenth of the rows has only the class {quote(only, 60)}"
        if by_chance < _SURE
        else "rows of a class stand together"
    )
    yield Finding(
        "sorted-by-label",
        "warning",
        f"{what} ({count(len(counts), 'class', 'classes')} in {len(rows):,} rows): the first N are of one class.",
        "Shuffle with a seed before taking rows or a held-out part.",
        rows=tuple(
            {"row": index, "value": quote(gold, 80)} for index, gold in (rows[0], rows[len(rows) // 2], rows[-1])
        ),
    )


def small_set(seen: Observed) -> Iterator[Finding]:
    if seen.different < 64:
        yield Finding(
            "small-set",
            "warning",
            f"there are only {count(seen.different, 'different prompt')}; training would memorise them.",
            "Use at least 64, better a thousand.",
        )


SPREAD_CHECKS: tuple[Check, ...] = (duplicate_prompt, majority_floor, position_bias, sorted_by_label, small_set)
