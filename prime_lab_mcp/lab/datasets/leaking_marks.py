"""Finds a mark of the prompts that carries no meaning and tells the answer, such as the prefix of a reference.

References, case numbers and ids are written by the process that also made the labels. A rule from such a mark to the
answer is learnt on half of the rows and scored on the other half, so that a mark counts only where it tells the answers
of rows that nobody has looked at.

Whether a task is to read the code itself (the airline of a flight number) is not known from the mark. `LeakingMark`
therefore says whether the prompt gives the answer away beside a text: the remaining words, scored in the same way,
tell the answers as well, and no instruction speaks of codes or prefixes.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from prime_lab_mcp.lab.base.statistics import binomial_tail

_REFERENCE = re.compile(r"(?<![\w./:$€£,+-])#?(?=[\w/-]*\d{2})[A-Za-z\d]+(?:[-_/][A-Za-z\d]+)*(?![\w%/-]|[.,:]\d)")
"""A word with a number of two digits or more: INC-4021, A17/203, 48213. Not 3.5, 10:30, 1,200 or $40."""
_DATE = re.compile(r"\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{1,2}[-/]\d{1,2}[-/]\d{2,4}")
_SHORTEST = 4
"""Smallest number of characters of a reference. A shorter word is a quantity."""
_PLACES = 4
"""Number of references of a prompt that are compared."""
_FEWEST_ROWS = 24
_PRESENT = 0.95
"""Share of the prompts that must have the reference at its place."""
_DISTINCT = 0.8
"""Share of the references that must be distinct. A word that occurs again, such as a model's name, has a meaning."""
_DECIDED = 0.97
"""Share of the rows whose answer the mark must tell, as of fields (leaking_fields.py)."""
_CHANCE = 1e-6
"""Largest probability that chance explains the told answers. Some fifty marks are tried."""
_SUPPORT = 3
"""Smallest number of rows with an answer, as of the values of fields."""
_TEXT = 6
"""Smallest median number of words beside the reference that differ between the prompts. Fewer words are no text."""
_COMMON = 0.9
"""Share of the prompts with a word from which the word belongs to the instructions."""
_READABLE, _BY_WORDS = 0.15, 0.01
"""How far the words must exceed the commonest answer, and the largest probability that chance explains this."""
_ABOUT_CODES = re.compile(
    r"(?i)\b(?:prefix|suffix|codes?|coded|encod\w+|digits?|(?:first|last) letters?|(?:starts|begins|ends) with|"
    r"numbering|divisible|even|odd|modulo|remainder|checksum|parity)\b"
)
_WORD = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class LeakingMark:
    """A mark, the share of the rows whose answer it tells, one value of it for each answer, and an example."""

    name: str
    share: float
    examples: Mapping[str, str]
    reference: str
    beside_text: bool
    """Whether the answers can also be told from the text, and no instruction speaks of codes."""


def find_leaking_mark(rows: Sequence[tuple[str, str]], instructions: str | None = None) -> LeakingMark | None:
    """Return the mark of references that tells nearly all answers of (prompt, answer) pairs; None if no mark does.

    `instructions` are those that all prompts share and that `rows` do not hold; None if they are not known.
    """
    answers = Counter(answer for _, answer in rows)
    if len(rows) < _FEWEST_ROWS or len(answers) < 2 or min(answers.values()) < _SUPPORT:
        return None
    texts = _texts([prompt for prompt, _ in rows])
    if median(len(words) for words in texts) < _TEXT:
        return None
    labels = [answer for _, answer in rows]
    commonest = max(answers.values()) / len(rows)
    references = [references_of(prompt) for prompt, _ in rows]
    for place in range(_PLACES):
        own = [found[place] if place < len(found) else "" for found in references]
        if sum(map(bool, own)) < _PRESENT * len(own) or len(set(own)) < _DISTINCT * len(own):
            continue
        for name, mark in _MARKS.items():
            values = [mark(reference) for reference in own]
            right = _told(values, labels)
            if right < _DECIDED * len(rows) or binomial_tail(right, len(rows), commonest) > _CHANCE:
                continue
            examples = {answer: value for value, answer in zip(values, labels, strict=True)}
            by_words = _told_by_words(texts, labels)
            readable = by_words >= (commonest + _READABLE) * len(rows)
            readable = readable and binomial_tail(by_words, len(rows), commonest) <= _BY_WORDS
            spoken = instructions is None or any(
                _ABOUT_CODES.search(line) for line in (instructions, *_shared_lines([prompt for prompt, _ in rows]))
            )
            return LeakingMark(name, right / len(rows), examples, own[0], readable and not spoken)
    return None


def references_of(prompt: str) -> list[str]:
    """Return the references of a prompt in their order."""
    found = (match[0].lstrip("#") for match in _REFERENCE.finditer(prompt))
    return [text for text in found if len(text) >= _SHORTEST and not _DATE.fullmatch(text)]


def _head(reference: str) -> str:
    return re.split(r"\d", reference, maxsplit=1)[0].strip("-_/").casefold()


def _tail(reference: str) -> str:
    return re.split(r"\d", reference[::-1], maxsplit=1)[0][::-1].strip("-_/").casefold()


def _digits(reference: str) -> str:
    return max(re.findall(r"\d+", reference), key=len, default="")


def _remainder(divisor: int) -> Callable[[str], str]:
    return lambda reference: str(int(_digits(reference)) % divisor) if _digits(reference) else ""


_MARKS: Mapping[str, Callable[[str], str]] = {
    "beginning": _head,
    "end": _tail,
    "first digit": lambda reference: _digits(reference)[:1],
    "last digit": lambda reference: _digits(reference)[-1:],
    "first two digits": lambda reference: _digits(reference)[:2],
    "last two digits": lambda reference: _digits(reference)[-2:],
    "length": lambda reference: str(len(reference)),
    **{f"remainder by {divisor}": _remainder(divisor) for divisor in (3, 4, 6, 7)},
}
"""What is compared of a reference. Parity and the remainder by 5 show in the last digit."""


def _told(values: Sequence[str], labels: Sequence[str]) -> int:
    """Return how many labels a rule from value to label tells that was learnt on the other half of the rows."""
    right = 0
    for half in (0, 1):
        seen: dict[str, Counter[str]] = defaultdict(Counter)
        for n, (value, label) in enumerate(zip(values, labels, strict=True)):
            if _half(n) != half:
                seen[value][label] += 1
        for n, (value, label) in enumerate(zip(values, labels, strict=True)):
            right += _half(n) == half and value in seen and seen[value].most_common(1)[0][0] == label
    return right


def _half(number: int) -> int:
    """Return the half of a row. Rows in a changing order of labels, one after the other, come into both halves."""
    return (number * 2_654_435_761 >> 16) & 1


def _texts(prompts: Sequence[str]) -> list[frozenset[str]]:
    """Return the words of each prompt that do not belong to the instructions."""
    words = [frozenset(word.casefold() for word in _WORD.findall(_REFERENCE.sub(" ", prompt))) for prompt in prompts]
    times = Counter(word for own in words for word in own)
    return [frozenset(word for word in own if times[word] < _COMMON * len(prompts)) for own in words]


def _told_by_words(texts: Sequence[frozenset[str]], labels: Sequence[str]) -> int:
    """Return how many labels naive Bayes over words tells, each learnt on all other rows: few rows repeat few words."""
    times: dict[str, Counter[str]] = defaultdict(Counter)
    for words, label in zip(texts, labels, strict=True):
        times[label].update(words)
    everywhere = Counter(word for words in texts for word in words)
    rows = Counter(labels)
    right = 0
    for words, label in zip(texts, labels, strict=True):
        again = [word for word in words if everywhere[word] > 1]
        scores: dict[str, float] = {}
        for answer, number in rows.items():
            own = int(answer == label)
            scores[answer] = math.log(max(1, number - own))
            for word in again:
                scores[answer] += math.log((times[answer][word] - own + 0.5) / (number - own + 1))
        right += max(sorted(scores), key=lambda answer: scores[answer]) == label
    return right


def _shared_lines(prompts: Sequence[str]) -> list[str]:
    """Return the words that nearly all prompts share, line by line of the first prompt."""
    words = [frozenset(word.casefold() for word in _WORD.findall(prompt)) for prompt in prompts]
    times = Counter(word for own in words for word in own)
    lines = prompts[0].splitlines()
    return [
        " ".join(word for word in _WORD.findall(line) if times[word.casefold()] >= _COMMON * len(prompts))
        for line in lines
    ]
