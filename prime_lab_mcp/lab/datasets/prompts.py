"""Which columns are the prompt: ranked guesses, each with what its question is about in front of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.chat import is_chat
from prime_lab_mcp.lab.datasets.column_names import (
    ANSWERS,
    CONTEXTS,
    LEAKY,
    OTHERS,
    PAIRS,
    PROMPT_PARTS,
    PROMPTS,
    SYSTEMS,
)
from prime_lab_mcp.lab.datasets.columns import Column, Rows, spread_rows
from prime_lab_mcp.lab.datasets.paths import compose, pluck, snake, text_of
from prime_lab_mcp.lab.text import quote

_SAMPLE = 200
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class PromptGuess:
    columns: tuple[str, ...]
    confidence: float
    why: str


def guess_prompts(columns: Sequence[Column], rows: Rows, taken: Collection[str] = ()) -> list[PromptGuess]:
    """Ranked guesses of the prompt, none of which uses the columns `taken` (options, the answer the caller named)."""
    sample = spread_rows(rows, _SAMPLE)
    usable = [c for c in columns if c.name not in taken and not is_leaky(c.name)]
    scored = sorted(_scores(usable, sample, len(rows)), key=lambda entry: -entry[0])[:_SHOWN]
    guesses: dict[tuple[str, ...], PromptGuess] = {}
    for score, column, why in scored:
        parts, told = _with_company(column, usable, sample)
        close = any(other is not column and score - other_score < 0.05 for other_score, other, _ in scored)
        doubt = 0.8 if close and not set(parts) >= {c.name for _, c, _ in scored[:2]} else 1.0
        shown = round(min(score, 0.99) * doubt, 2)
        guesses.setdefault(parts, PromptGuess(parts, shown, f"{why}{told}"))
    return list(guesses.values())


def is_leaky(path: str) -> bool:
    """Columns of this name give the answer away."""
    return any(snake(part) in LEAKY for part in path.split("."))


def gives_away(guess: PromptGuess, answer: str, rows: Rows) -> bool:
    """The prompt holds the whole of a long answer in most rows (`text` of Alpaca)."""
    if answer in guess.columns:
        return False
    held = long = 0
    for _, row in spread_rows(rows, _SAMPLE):
        gold = golds.as_text(pluck(row, answer) or "").strip()
        if len(gold) >= 25:
            long += 1
            held += gold in compose(row, guess.columns)
    return long >= 3 and held > 0.5 * long


def _scores(columns: Sequence[Column], sample: Rows, number: int) -> Iterator[tuple[float, Column, str]]:
    for column in columns:
        name = snake(column.name)
        last = name.rpartition(".")[2]
        chat = (column.holds_lists or column.dtype == "mixed") and _holds_chat(column.name, sample)
        if column.null_rate > 0.5 or not (chat or column.words):
            continue
        varied = column.distinct >= 0.5 * max(1, number)
        score, why = _by_name(name, column.name, column)
        if last in OTHERS or (name in ANSWERS and name not in PROMPTS):
            score -= 0.4
        score += 0.15 * (column.words >= 4 or chat) + 0.12 * varied
        if score >= 0.3:
            long = ", its values are long and differ" if varied and column.words >= 4 else ""
            yield score, column, f"{why}{long}"


def _holds_chat(path: str, sample: Rows) -> bool:
    values = [v for _, row in sample[:50] if (v := pluck(row, path)) is not None]
    return bool(values) and sum(map(is_chat, values)) >= 0.9 * len(values)


def _by_name(name: str, path: str, column: Column) -> tuple[float, str]:
    if name in PROMPTS:
        return 0.72 - 0.012 * PROMPTS.index(name), "its name is a usual one"
    head, _, last = name.rpartition(".")
    if head and last in (*PROMPTS[:12], "stem"):
        same = head in PROMPTS  # question.stem is the question; extra_info.question a copy of it
        return (0.6 if same else 0.3), "the name inside of its object is a usual one"
    words = set(last.split("_"))
    if not head and words & PROMPT_PARTS and not words & {"id", "type", "title", "source", "date", "concept", "num"}:
        return 0.45, "its name has a usual word"
    if name in CONTEXTS and not head:
        return 0.2, "no column asks anything, and it is the text"
    return (0.15 if not head else 0.0), "no column has a usual name, and it is long text"


def _with_company(column: Column, columns: Sequence[Column], sample: Rows) -> tuple[tuple[str, ...], str]:
    """The columns that belong to a question, in the order they are read."""
    known = {snake(c.name): c for c in columns if c.words or c.holds_lists}
    name = snake(column.name)
    pair = next((p for p in PAIRS if name in p and all(n in known for n in p)), None)
    middle = tuple(known[n].name for n in pair) if pair else (column.name,)
    before = [
        c.name
        for n, c in known.items()
        if n in CONTEXTS and c.name not in middle and (c.words >= 3 or c.words == 0) and _adds(c.name, middle, sample)
    ]
    systems = [c.name for n, c in known.items() if n in SYSTEMS and c.words >= 1 and c.name not in middle]
    told = "; the two belong together" if pair else ""
    told += f"; {', '.join(quote(b, 60) for b in before)} holds what the question is about" if before else ""
    return (*systems[:1], *before, *middle), told


def _adds(context: str, prompt: tuple[str, ...], sample: Rows) -> bool:
    """The context is text, and the prompt does not hold it already (`question_concat` of SVAMP)."""
    texts = [(text_of(value), compose(row, prompt)) for _, row in sample if (value := pluck(row, context))]
    texts = [(about, asked) for about, asked in texts if about.strip() and not about.startswith("{")]
    return bool(texts) and sum(about.strip() in asked for about, asked in texts) < 0.5 * len(texts)
