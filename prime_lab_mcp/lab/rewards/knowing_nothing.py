"""Makes replies of right ones that need no knowledge of the task: with empty numbers, constant moves, a copied number.

A check may accept zeros, since an equation of zeros balances, or `nan`, which compares as unequal to everything. It may
pay a walk that passes the goal, so that one long walk is right on every map. And it may compute the value of an
expression and not ask where its numbers come from, so that the number that is to be reached is paid as it stands.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from prime_lab_mcp.lab.datasets.task_golds import prompt_of
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import CODE_FENCES, NUMBER
from prime_lab_mcp.lab.rewards.shown_commands import word_list
from prime_lab_mcp.lab.worker.description import Row

CONTROL = "other numbers"
"""The variant with wrong numbers. Where such a reply is paid as well, numbers do not count."""
_EMPTY = ("0", "nan", "inf")
_MOST_TASKS, _FEWEST_TASKS = 6, 3
_MOST_MOVES, _FEWEST_MOVES = 6, 3
"""Largest number of different moves, and smallest number of moves of a reply."""
_WALKS = ((400, 0), (400, 1), (3000, 2))
"""Lengths and seeds of the walks that are the same on every task."""
_FEWEST_WORDS = 3
_AFTER_COLON = re.compile(r":\s*((?:[\w-]{1,20}, (?:and )?)+[\w-]{1,20})")
_FENCES = re.compile(r"```([\w+#-]+)[ \t]*\n")
_HELD = (
    re.compile(r"<(\w+)>(?P<inner>[^<>]*)</\1>"),
    re.compile(r"```\w*[ \t]*\n(?P<inner>.*?)```", re.S),
    re.compile(r"\\boxed\{(?P<inner>[^{}]*)\}"),
    re.compile(r"(?m)^[ \t*]*[A-Za-z][A-Za-z ]{0,30}[:=][ \t*]*(?P<inner>[^\n]+?)[ \t*]*$"),
)
"""Where a reply has its answer: in its last tag, fence, box or line with a label."""


def replies_knowing_nothing(replies: Mapping[int, str], rows: Sequence[Row]) -> list[Probe]:
    """Return such replies for right ones (a text for each task). There must be several right ones that differ."""
    texts = {row: text for row, text in replies.items() if not _is_code(text)}
    if len(set(texts.values())) < _FEWEST_TASKS:
        return []
    few = dict(list(texts.items())[:_MOST_TASKS])
    prompts = {row.index: prompt_of(row) for row in rows}
    held = {row: answer_in(text) for row, text in few.items()}
    probes = [probe for row, parts in held.items() for probe in _numbers(row, *parts)]
    probes += [probe for row, parts in held.items() for probe in _copied(row, prompts.get(row, ""), *parts)]
    probes += [probe for row, parts in held.items() for probe in _listed(row, prompts.get(row, ""), *parts)]
    return [*probes, *_walks(held)]


def _is_code(text: str) -> bool:
    """Whether a reply has a program, which is no answer with numbers."""
    return any(name.lower() in CODE_FENCES for name in _FENCES.findall(text))


def answer_in(text: str) -> tuple[str, str, str]:
    """Return what stands before the answer of a reply, the answer, and what stands behind it."""
    for pattern in _HELD:
        found = list(pattern.finditer(text))
        if found:
            start, end = found[-1].span("inner")
            return text[:start], text[start:end], text[end:]
    start = len(text.rstrip().rpartition("\n")[0])
    return text[:start], text[start:], ""


def _numbers(row: int, before: str, answer: str, after: str) -> Iterator[Probe]:
    """Yield replies with the same in the place of every number of the answer, and with other numbers."""
    found = [n for n in NUMBER.findall(answer) if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", n)]
    if not found:
        return
    texts = {f"every number {text}": NUMBER.sub(lambda _, t=text: t, answer) for text in _EMPTY}  # type: ignore[misc]
    texts[CONTROL] = NUMBER.sub(lambda n: str(3 * len(n[0]) + 7 + n.start()), answer)
    for variant, changed in texts.items():
        if changed != answer:
            yield Draft(Family.EMPTY_NUMBERS, f"{before}{changed}{after}", variant).probe(
                f"numbers/{row}/{variant}", row
            )


def _copied(row: int, prompt: str, before: str, answer: str, after: str) -> Iterator[Probe]:
    """Yield replies whose answer is the first, the last or the largest number of the prompt."""
    stated = re.findall(r"(?<![\w.,-])\d+(?![\w,]|\.\d)", prompt)
    if len(stated) < 2 or not re.search(r"\d", answer):
        return
    numbers = {"first": stated[0], "last": stated[-1], "largest": max(stated, key=int)}
    for which, number in numbers.items():
        if re.findall(r"\d+", answer) != [number]:
            variant = f"the {which} number of the prompt"
            yield Draft(Family.CONSTANT_VALUES, f"{before}{number}{after}", variant).probe(f"copied/{row}/{which}", row)


def _listed(row: int, prompt: str, before: str, answer: str, after: str) -> Iterator[Probe]:
    """Yield replies whose answer is the longest list of words in the prompt, as it stands there and without commas."""
    words = word_list(prompt) or re.split(r", (?:and )?", (_AFTER_COLON.findall(prompt) or [""])[-1])
    if len(words) < _FEWEST_WORDS or len(answer.split()) <= len(words):
        return
    for number, between in enumerate((", ", " ")):
        variant = f"the words that the prompt lists{', without commas' if number else ''}"
        text = f"{before}{between.join(words)}{after}"
        yield Draft(Family.CONSTANT_VALUES, text, variant).probe(f"listed/{row}/{number}", row)


def _walks(held: Mapping[int, tuple[str, str, str]]) -> Iterator[Probe]:
    """Yield replies with the same long walk on every task, if right answers are moves of a few kinds."""
    split = {row: _moves(answer) for row, (_, answer, _) in held.items()}
    if any(moves is None for moves in split.values()):
        return
    kinds = sorted({move for moves in split.values() if moves for move in moves[0]})
    repeats = sum(len(set(moves[0])) < len(moves[0]) for moves in split.values() if moves)
    if not 2 <= len(kinds) <= _MOST_MOVES or 2 * repeats < len(split):
        return
    for length, seed in _WALKS:
        walk = random.Random(seed).choices(kinds, k=length)
        for row, (before, _, after) in held.items():
            between = (split[row] or ([], ""))[1]
            text = f"{before}{between.join(walk)}{after}"
            yield Draft(Family.CONSTANT_VALUES, text, f"the same {length} moves ({seed + 1})").probe(
                f"walk/{row}/{seed}", row
            )


def _moves(answer: str) -> tuple[list[str], str] | None:
    """Return the moves of an answer and what stands between them; None if the answer is something else."""
    text = answer.strip()
    for between in (", ", " ", ",", "\n", "-"):
        moves = text.split(between)
        if len(moves) >= _FEWEST_MOVES and all(re.fullmatch(r"[A-Za-z]{1,9}", move) for move in moves):
            return moves, between
    return (list(text), "") if re.fullmatch(r"[A-Z]{3,}|[a-z]{3,}", text) and len(set(text)) <= _MOST_MOVES else None
