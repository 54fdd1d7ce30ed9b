"""Columns of scanned rows: their statistics, and which of them are the prompt and the answer (facts/validation 1.2)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.formats import Context, Recognised, has_inline_options, is_chat, recognise
from prime_lab_mcp.lab.text import quote

Row = Mapping[str, Any]
Rows = Sequence[tuple[int, Row]]

PROMPTS = (
    "prompt", "question", "problem", "instruction", "input", "query", "goal", "text", "sentence", "ctx",
    "question_stem", "question_concat", "messages", "conversations",
)  # fmt: skip
ANSWERS = (
    "answer", "answerkey", "final_answer", "label", "correct", "correct answer", "correct_answer", "target",
    "ground_truth", "gold", "reward_model.ground_truth", "answers", "answers.text", "answer.aliases", "answers_spans",
    "test_list", "test", "solution", "response", "output",
)  # fmt: skip
"""A short `answer` goes before a long `solution` when both are there."""
CONTEXTS = frozenset({"passage", "context", "article", "body", "premise", "support"})
LEAKY = frozenset({
    "rationale", "equation", "explanation", "solution", "generations", "canonical_solution", "annotated_formula",
})  # fmt: skip
"""Columns that give the answer away and never belong in a prompt."""
OPTIONS = ("choices", "options", "endings")
_LETTERED = re.compile(r"(?i)^(?:option|choice|ending|opa|ans)[_ ]?[0-9a-e]$|^[A-E]$")
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class Column:
    """One column, or one field of a column that holds objects (`answers.text`)."""

    name: str
    dtype: str
    null_rate: float
    distinct: int
    examples: tuple[Any, ...]
    words: float
    """Median number of words where it is text, else 0."""
    classes: tuple[str, ...] | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "name": quote(self.name, 60)[1:-1],
            "dtype": self.dtype,
            "null_rate": round(self.null_rate, 4),
            "distinct": self.distinct,
            "examples": [quote(golds.as_text(e), _SHOWN) for e in self.examples],
        }


@dataclass(frozen=True, slots=True)
class PromptGuess:
    columns: tuple[str, ...]
    confidence: float
    why: str


@dataclass(frozen=True, slots=True)
class AnswerGuess:
    path: str
    recognised: Recognised
    confidence: float
    context: Context


def pluck(row: Row, path: str) -> Any:
    """The value at a column name or at `column.field`."""
    if path in row:
        return row[path]
    head, _, rest = path.partition(".")
    inner = row.get(head)
    return inner.get(rest) if rest and isinstance(inner, Mapping) else None


def describe(rows: Rows, features: Mapping[str, Mapping[str, Any]]) -> list[Column]:
    """Every column and, one level down, every field of columns that hold objects."""
    found = []
    for path in _paths(rows):
        values = [pluck(row, path) for _, row in rows]
        there = [v for v in values if v is not None and v != ""]
        feature = features.get(path, {})
        names = feature.get("names")
        texts = {golds.as_text(v) for v in there}
        words = sorted(len(v.split()) for v in there if isinstance(v, str))
        examples = list(dict.fromkeys(golds.as_text(v) for v in there[:50]))[:2]
        found.append(
            Column(
                name=path,
                dtype=str(feature.get("dtype") or _dtype(there)),
                null_rate=1 - len(there) / len(values) if values else 0.0,
                distinct=len(texts),
                examples=tuple(examples),
                words=float(words[len(words) // 2]) if len(words) > len(there) / 2 else 0.0,
                classes=tuple(map(str, names)) if names is not None else None,
            )
        )
    return found


def _paths(rows: Rows) -> list[str]:
    found: dict[str, None] = {}
    for _, row in rows:
        for name, value in row.items():
            found.setdefault(name)
            if isinstance(value, Mapping) and len(value) <= 20:
                for field in value:
                    found.setdefault(f"{name}.{field}")
    return list(found)[:200]


def _dtype(values: Sequence[Any]) -> str:
    kinds = {
        "bool" if isinstance(v, bool) else "list" if isinstance(v, list) else "dict" if isinstance(v, Mapping)
        else "string" if isinstance(v, str) else type(v).__name__
        for v in values
    }  # fmt: skip
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "mixed" if kinds else "null"


# --- prompt --------------------------------------------------------------------------------------------------------


def guess_prompts(columns: Sequence[Column], rows: Rows, answer: str | None = None) -> list[PromptGuess]:
    """Ranked guesses of the prompt column, each with the context it needs in front of it."""
    scored = sorted(_prompt_scores(columns, rows, answer), key=lambda entry: -entry[0])
    contexts = [c.name for c in columns if c.name.lower() in CONTEXTS and c.words >= 3]
    guesses = []
    for score, name, why in scored[:3]:
        before = tuple(c for c in contexts if c != name)
        shown = f"{why}; {', '.join(before)} holds what the question is about" if before else why
        guesses.append(PromptGuess((*before, name), round(min(score, 0.99), 2), shown))
    return guesses


def _prompt_scores(columns: Sequence[Column], rows: Rows, answer: str | None) -> Iterator[tuple[float, str, str]]:
    for column in columns:
        name = column.name.lower()
        if name in LEAKY or column.name == answer or column.null_rate > 0.5:
            continue
        chat = column.dtype == "list" and any(is_chat(row.get(column.name)) for _, row in rows[:20])
        if column.words == 0 and not chat:
            continue
        ranked = PROMPTS.index(name) if name in PROMPTS else None
        score = 0.15 if ranked is None else 0.7 - 0.02 * ranked
        if name in ANSWERS or name in CONTEXTS:
            score -= 0.12
        varied = column.distinct >= 0.5 * max(1, len(rows))
        score += 0.15 * (column.words >= 4 or chat) + 0.12 * varied
        if ranked is None and score < 0.3:
            continue
        why = "its name is a usual one" if ranked is not None else "no column has a usual name, and it is long text"
        yield score, column.name, f"{why}{', its values are long and differ' if varied and column.words >= 4 else ''}"


# --- answer --------------------------------------------------------------------------------------------------------


def guess_answers(columns: Sequence[Column], rows: Rows, prompt: Sequence[str]) -> list[AnswerGuess]:
    """Ranked guesses of the answer column, each with the form its values have."""
    ranked = []
    for column in columns:
        name = column.name.lower()
        if column.name in prompt or name in CONTEXTS or name not in ANSWERS:
            continue
        score = 0.95 - 0.03 * ANSWERS.index(name) - 0.5 * (column.null_rate > 0.5) - 0.1 * (column.dtype == "dict")
        ranked.append((score, column))
    if not ranked:
        ranked = [(0.3, c) for c in columns if c.name not in prompt and _could_hold_answers(c)]
    guesses = []
    for score, column in sorted(ranked, key=lambda entry: -entry[0]):
        found = judge_answer(column, rows, prompt)
        if found is not None:
            guesses.append(AnswerGuess(column.name, found[0], round(score * found[0].confidence, 2), found[1]))
        if len(guesses) == 3:
            break
    return sorted(guesses, key=lambda guess: -guess.confidence)


def _could_hold_answers(column: Column) -> bool:
    taken = column.name.lower() in (*CONTEXTS, *OPTIONS, "id", "idx") or _LETTERED.match(column.name) is not None
    return not taken and 0 < column.words <= 5 and "." not in column.name


def judge_answer(column: Column, rows: Rows, prompt: Sequence[str]) -> tuple[Recognised, Context] | None:
    """The form of one column's values, in the light of the options beside it."""
    prompts = [compose(row, prompt) for _, row in rows[:200]]
    context = Context(column.name, column.classes, _options(rows), has_inline_options(prompts))
    found = recognise([(index, pluck(row, column.name)) for index, row in rows], context)
    return None if found is None else (found, context)


def option_columns(rows: Rows) -> tuple[str, ...]:
    """The columns that list a row's options."""
    if not rows:
        return ()
    names = {name for _, row in rows[:50] for name in row}
    listed = [n for n in names if n.lower() in OPTIONS]
    lettered = sorted(n for n in names if _LETTERED.match(n))
    return tuple(listed[:1]) or (tuple(lettered) if len(lettered) >= 2 else ())


def _options(rows: Rows) -> tuple[int, ...]:
    columns = option_columns(rows)
    if len(columns) != 1:
        return (len(columns),) if columns else ()
    counts = set()
    for _, row in rows:
        value = row.get(columns[0])
        if isinstance(value, Mapping):
            value = value.get("text")
        if isinstance(value, list):
            counts.add(len(value))
        elif isinstance(value, str) and value:
            counts.add(max(2, len(re.findall(r"(?:^|[\s,])[(]?[a-eA-E][).:]", value))))
    return tuple(sorted(counts))


def compose(row: Row, columns: Sequence[str]) -> str:
    """The prompt of a row as one text: its columns in order; of a chat, the turns before the last assistant's."""
    parts = []
    for name in columns:
        value = pluck(row, name)
        if is_chat(value):
            turns = list(value)
            while turns and turns[-1].get("role") == "assistant":
                turns.pop()
            parts.append("\n\n".join(golds.as_text(t.get("content")) for t in turns))
        elif value is not None:
            parts.append(golds.as_text(value))
    return "\n\n".join(p.strip() for p in parts if p.strip())
