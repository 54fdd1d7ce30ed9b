"""Which column is the answer: ranked guesses, each with the form its values have."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.datasets import golds, syntax
from prime_lab_mcp.lab.datasets.chat import is_chat, replied
from prime_lab_mcp.lab.datasets.column_names import (
    ANSWER_PARTS,
    ANSWERS,
    CONTEXTS,
    LEAKY,
    NOT_ANSWER_PARTS,
    OTHERS,
    TESTS,
    WEAK_ANSWERS,
)
from prime_lab_mcp.lab.datasets.columns import Column, Rows, spread_rows
from prime_lab_mcp.lab.datasets.formats import Context, Recognised, has_inline_options, recognise
from prime_lab_mcp.lab.datasets.options import names_the_right, offered
from prime_lab_mcp.lab.datasets.paths import compose, pluck, snake

_ALL_OF = re.compile(r"(?:spans|labels|entities|keywords|tags|topics|categories|aspects|triples|steps|items)$")
_ANY_OF = re.compile(r"(?:aliases|text|answers?|references?|correct_answers|short_answers|targets|value)$")
_FUNCTION = re.compile(r"[\"'](?:func_name|instruction_id)[\"']\s*:")
"""Names the check of a constraint (RLVR-IFeval)."""
_SAMPLE = 300
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class AnswerGuess:
    """`any_of` for several golds: True when any of them is right, False when all are wanted, None when unclear."""

    path: str
    recognised: Recognised
    confidence: float
    context: Context
    any_of: bool | None = None

    @property
    def certainty(self) -> float:
        """That this is the answer and that it has this form: no more than the lesser of both."""
        return min(self.confidence, self.recognised.confidence)


def guess_answers(
    columns: Sequence[Column], rows: Rows, prompt: Sequence[str], options: Sequence[str] = ()
) -> list[AnswerGuess]:
    """Ranked guesses of the answer column, each with the form its values have."""
    ranked = sorted(_scores(columns, rows, prompt, options), key=lambda entry: -entry[0])
    if len(ranked) == 1 and snake(ranked[0][1].name) in WEAK_ANSWERS:
        ranked = [(0.6, ranked[0][1])]
    guesses = []
    for score, column in ranked[:8]:
        guess = judge_answer(column, rows, prompt, options)
        if guess is not None:
            guesses.append(replace(guess, confidence=round(_weighed(score, column, guess), 2)))
    return sorted((g for g in guesses if g.confidence >= 0.15), key=lambda g: -g.confidence)[:_SHOWN]


def _weighed(score: float, column: Column, guess: AnswerGuess) -> float:
    """The name's score in the light of the form: tests must be tests, and an index beats prose of that name."""
    found = guess.recognised
    if snake(column.name) in TESTS and found.format != "code_tests":
        score *= 0.3
    return score * (max(found.confidence, 0.4) if found.mixed else max(found.confidence, 0.5) ** 0.25)


def _scores(
    columns: Sequence[Column], rows: Rows, prompt: Sequence[str], options: Sequence[str]
) -> Iterator[tuple[float, Column]]:
    known = {snake(c.name) for c in columns}
    special = _special(columns, rows)
    if special is not None:
        yield 0.97, special
        return
    named = False
    for column in columns:
        if column.name in prompt and not _ends_in_reply(column, rows):
            continue
        score = _by_name(snake(column.name), known, column)
        if column.name in prompt:
            score = 0.5
        if column.name in options and not names_the_right(column.name):
            continue
        score -= 0.5 * (column.null_rate > 0.5) + 0.3 * (column.distinct == 1 and len(rows) >= 20)
        if score >= 0.15:
            named = True
            yield score, column
    if not named:
        yield from ((0.35, c) for c in columns if c.name not in (*prompt, *options) and _could_hold_answers(c, rows))


def _special(columns: Sequence[Column], rows: Rows) -> Column | None:
    """Tasks without a gold text: constraints on the reply (IFEval), or numbers to reach a target with (Countdown)."""
    known = {snake(c.name): c for c in columns}
    if "instruction_id_list" in known and "kwargs" in known:
        return known["instruction_id_list"]
    if "reward_model.ground_truth" in known:
        return None
    numbers = known.get("nums") or known.get("numbers")
    puzzle = numbers is not None and numbers.holds_lists
    return known["target"] if puzzle and "target" in known else None


def _ends_in_reply(column: Column, rows: Rows) -> bool:
    """A conversation whose last turn is the assistant's: it is prompt and gold at once."""
    values = [pluck(row, column.name) for _, row in spread_rows(rows, 50)]
    values = [v for v in values if v is not None]
    return bool(values) and sum(replied(v) is not None for v in values) >= 0.8 * len(values)


def _by_name(name: str, known: set[str], column: Column) -> float:
    head, _, last = name.rpartition(".")
    if last in ("label", "labels") and column.dtype == "dict":
        return 0.0
    if name in ANSWERS:
        score = 0.97 - 0.006 * ANSWERS.index(name)
        inner = any(a in known for a in ANSWERS if a.startswith(f"{name}."))
        return score - 0.5 if inner else score - 0.1 * (column.dtype == "dict")
    if head:
        apart = head in CONTEXTS or head in LEAKY or last not in ANSWERS[:40] or head in ("choices", "options")
        return 0.0 if apart else 0.8 - 0.006 * ANSWERS.index(last)
    if name in WEAK_ANSWERS:
        return 0.3 if column.distinct > 1 and column.words <= 3 else 0.0
    if name in OTHERS or name in CONTEXTS or name in LEAKY:
        return 0.0
    words = set(name.split("_"))
    return 0.0 if words & NOT_ANSWER_PARTS else max((ANSWER_PARTS.get(w, 0.0) for w in words), default=0.0)


def _could_hold_answers(column: Column, rows: Rows) -> bool:
    name = snake(column.name)
    apart = (
        name in OTHERS or name in CONTEXTS or name in LEAKY or "." in name or set(name.split("_")) & NOT_ANSWER_PARTS
    )
    if apart or column.distinct < 2 or column.null_rate > 0.5:
        return False
    graded = column.dtype in ("int", "int64", "int32", "bool") and column.distinct <= 20
    return 0 < column.words <= 5 or (graded and Context(column.name).named_class)


# --- the form of one column ----------------------------------------------------------------------------------------


def judge_answer(column: Column, rows: Rows, prompt: Sequence[str], options: Sequence[str] = ()) -> AnswerGuess | None:
    """The form of one column's values, in the light of the options beside it; None when it holds no answer."""
    sample = spread_rows(rows, _SAMPLE)
    counts = tuple(sorted({len(offered(row, options)[0]) for _, row in sample} - {0})) if options else ()
    inline = not counts and has_inline_options([compose(row, tuple(prompt)) for _, row in sample])
    context = Context(column.name, column.classes, counts, inline)
    values = [(index, row[column.name] if column.name in row else pluck(row, column.name)) for index, row in rows]
    found = _special_form(column, rows, values) or (counts and _chosen(column, rows, values, options, context)) or None
    found = found or recognise(values, context)
    if found is None:
        return None
    if found.format == "chat_messages" and column.name in prompt:
        found = replace(found, confidence=min(found.confidence, 0.9))
    many = any_of(column.name, [v for _, v in values]) if found.format == "multi_answer" else None
    return AnswerGuess(column.name, found, 1.0, context, many)


def _special_form(column: Column, rows: Rows, values: Sequence[tuple[int, Any]]) -> Recognised | None:
    first: Mapping[str, Any] = rows[0][1] if rows else {}
    names = {snake(n) for n in first}
    if snake(column.name) == "instruction_id_list" and "kwargs" in names:
        return Recognised("instruction_constraints", 1.0)
    if "constraint_type" in names and any(_FUNCTION.search(str(v)) for _, v in values[:20]):
        return Recognised("instruction_constraints", 0.9)
    if column.name == "target" and names & {"nums", "numbers"} and "answer" not in names:
        return Recognised("procedural", 0.95)
    return None


def _chosen(
    column: Column, rows: Rows, values: Sequence[tuple[int, Any]], options: Sequence[str], context: Context
) -> Recognised | None:
    """Golds that name an option by its own label or by its text, or mark it in a list; None for other forms."""
    if column.name in options:
        return Recognised("choice_index", 0.95)
    known = [(index, row, v) for (index, v), (_, row) in zip(values, rows, strict=True) if not golds.is_empty(v)]
    if not known or isinstance(known[0][2], bool | Mapping):
        return None
    known = known[:: max(1, len(known) // 1000)]
    direct = sum(syntax.is_letter(v) for _, _, v in known) / len(known)
    digits = sum(syntax.is_small_int(v) for _, _, v in known) / len(known)
    if direct == 1.0 or (digits > 0.5 and _indices_fit(known, context)):
        return None
    found = [(index, v, offered(row, options, column.name)[1]) for index, row, v in known]
    against = tuple((index, v) for index, v, place in found if place is None)
    share = 1 - len(against) / len(known)
    if share < 0.95 or (digits > 0.5 and not direct and isinstance(known[0][2], int)):
        return None
    form = "choice_letter" if direct > 0.5 else "choice_index"
    return Recognised(form, round(share, 4), against[:5], share=round(share, 4))  # type: ignore[arg-type]


def _indices_fit(known: Sequence[tuple[int, Any, Any]], context: Context) -> bool:
    ints = {int(str(v)) for _, _, v in known if syntax.is_small_int(v)}
    return (
        min(ints) >= 0 and max(ints) <= max(context.options) and not (0 in ints and max(ints) == max(context.options))
    )


def any_of(path: str, values: Sequence[Any]) -> bool | None:
    """Whether one of several golds is enough: by the column's name, else by whether they are ways to say one thing."""
    lists = [found for v in values[:2000] if (found := syntax.several(v)) is not None and len(found) > 1]
    last = snake(path).rpartition(".")[2]
    keys = {k for v in values[:50] if isinstance(v, Mapping) for k in syntax.LISTS if isinstance(v.get(k), list)}
    if _ALL_OF.search(last) or keys == {"spans"}:
        return False
    if keys or "." in path or last in ("aliases", "references", "correct_answers", "short_answers"):
        return True
    if lists:
        alike = sum(_overlap(found) for found in lists) / len(lists)
        if alike >= 0.5:
            return True
    return True if _ANY_OF.search(last) and (not lists or len(lists) < 0.9 * len(values)) else None


def _overlap(found: Sequence[Any]) -> bool:
    """Two of the golds share a word: ways to write one answer, rather than several answers."""
    words = [set(golds.normalised(str(v)).split()) for v in found[:6]]
    return any(a & b for n, a in enumerate(words) for b in words[n + 1 :])


__all__ = ["AnswerGuess", "any_of", "guess_answers", "is_chat", "judge_answer"]
