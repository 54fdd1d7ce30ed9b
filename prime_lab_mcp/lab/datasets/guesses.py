"""Guesses the prompt and answer columns of a dataset. The guesses are ranked, and each has a confidence in [0, 1]."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import answer_syntax, golds
from prime_lab_mcp.lab.datasets.columns import (
    ANSWER_NAMES,
    ANSWER_PARTS,
    CONTEXT_NAMES,
    LEAKY_NAMES,
    NOT_ANSWER_PARTS,
    OTHER_NAMES,
    PAIR_NAMES,
    PROMPT_NAMES,
    PROMPT_PARTS,
    SYSTEM_NAMES,
    TEST_NAMES,
    WEAK_ANSWER_NAMES,
    Column,
    Rows,
    spread_rows,
)
from prime_lab_mcp.lab.datasets.formats import AnswerContext, RecognisedFormat, has_inline_options, recognise_format
from prime_lab_mcp.lab.datasets.options import names_right_option, options_of_row
from prime_lab_mcp.lab.datasets.row_values import compose_prompt, is_chat, last_reply, prompt_text, snake_case, value_at

_SAMPLE = 200
_MOST_GUESSES = 3


@dataclass(frozen=True, slots=True)
class PromptGuess:
    """A guess of the prompt columns, in the order of the prompt, with a confidence in [0, 1] and a reason."""

    columns: tuple[str, ...]
    confidence: float
    why: str


def guess_prompts(columns: Sequence[Column], rows: Rows, excluded: Collection[str] = ()) -> list[PromptGuess]:
    """Return guesses of the prompt columns, the best first.

    No guess uses a column in `excluded` (columns of options, and the answer column that the caller has named).
    """
    sample = spread_rows(rows, _SAMPLE)
    usable = [c for c in columns if c.name not in excluded and not is_leaky(c.name)]
    scored = sorted(_prompt_scores(usable, sample, len(rows)), key=lambda entry: -entry[0])[:_MOST_GUESSES]
    guesses: dict[tuple[str, ...], PromptGuess] = {}
    for score, column, why in scored:
        parts, reason = _with_related_columns(column, usable, sample)
        close = any(other is not column and score - other_score < 0.05 for other_score, other, _ in scored)
        factor = 0.8 if close and not set(parts) >= {c.name for _, c, _ in scored[:2]} else 1.0
        confidence = round(min(score, 0.99) * factor, 2)
        guesses.setdefault(parts, PromptGuess(parts, confidence, f"{why}{reason}"))
    return list(guesses.values())


_ASKS = re.compile(
    r"\?[\s\"')\]]*$"
    r"|(?:^|[.!?:;,]\s+|\n)"
    r"(?:find|compute|calculate|determine|evaluate|simplify|solve|work out|how (?:many|much|far|long))"
    r"\b[^.!?\n]*[.!?]?\s*$",
    re.IGNORECASE,
)
"""The end of a text that asks: a question mark, or a last sentence that orders to work something out."""
_ASKING_SHARE = 0.8
"""Share of the texts of a column that must ask. An estimate: some questions end in their unit or in a remark."""


def asks(texts: Sequence[str]) -> bool:
    """Return whether nearly all texts ask something."""
    return bool(texts) and sum(_ASKS.search(t[-400:]) is not None for t in texts) >= _ASKING_SHARE * len(texts)


def is_leaky(path: str) -> bool:
    """Return whether the name of a column suggests that the column reveals the answer."""
    return any(snake_case(part) in LEAKY_NAMES for part in path.split("."))


def gives_away(guess: PromptGuess, answer: str, rows: Rows) -> bool:
    """Return whether most prompts of a guess contain their whole long answer (column `text` of Alpaca)."""
    if answer in guess.columns:
        return False
    containing = long = 0
    for _, row in spread_rows(rows, _SAMPLE):
        gold = golds.gold_text(value_at(row, answer) or "").strip()
        if len(gold) >= 25:
            long += 1
            containing += gold in compose_prompt(row, guess.columns)
    return long >= 3 and containing > 0.5 * long


def _prompt_scores(columns: Sequence[Column], sample: Rows, number: int) -> Iterator[tuple[float, Column, str]]:
    nothing_named = not any(snake_case(c.name) in PROMPT_NAMES for c in columns)
    for column in columns:
        name = snake_case(column.name)
        last = name.rpartition(".")[2]
        chat = (column.holds_lists or column.dtype == "mixed") and _holds_chat(column.name, sample)
        if column.null_rate > 0.5 or not (chat or column.words):
            continue
        varied = column.distinct >= 0.5 * max(1, number)
        score, why = _prompt_score_by_name(name, column.name, column)
        nameless = nothing_named and score < 0.45 and "." not in name and name not in OTHER_NAMES
        if nameless and varied and asks([prompt_text(value_at(row, column.name) or "") for _, row in sample]):
            score, why = 0.45, "its texts ask something"
        if last in OTHER_NAMES or (name in ANSWER_NAMES and name not in PROMPT_NAMES):
            score -= 0.4
        score += 0.15 * (column.words >= 4 or chat) + 0.12 * varied
        if score >= 0.3:
            long = ", its values are long and differ" if varied and column.words >= 4 else ""
            yield score, column, f"{why}{long}"


def _holds_chat(path: str, sample: Rows) -> bool:
    values = [v for _, row in sample[:50] if (v := value_at(row, path)) is not None]
    return bool(values) and sum(map(is_chat, values)) >= 0.9 * len(values)


def _prompt_score_by_name(name: str, path: str, column: Column) -> tuple[float, str]:
    if name in PROMPT_NAMES:
        return 0.72 - 0.012 * PROMPT_NAMES.index(name), "its name is a usual one"
    head, _, last = name.rpartition(".")
    if head and last in (*PROMPT_NAMES[:12], "stem"):
        same = head in PROMPT_NAMES  # `question.stem` is the question, but `extra_info.question` may be a copy of it.
        return (0.6 if same else 0.3), "the name inside of its object is a usual one"
    words = set(last.split("_"))
    if not head and words & PROMPT_PARTS and not words & {"id", "type", "title", "source", "date", "concept", "num"}:
        return 0.45, "its name has a usual word"
    if name in CONTEXT_NAMES and not head:
        return 0.2, "no column asks anything, and it is the text"
    return (0.15 if not head else 0.0), "no column has a usual name, and it is long text"


def _with_related_columns(column: Column, columns: Sequence[Column], sample: Rows) -> tuple[tuple[str, ...], str]:
    """Return a prompt column and the columns that belong to it, in the order of the prompt, and a reason.

    Related columns are a system prompt, contexts, and the second column of a pair such as premise and hypothesis.
    """
    by_name = {snake_case(c.name): c for c in columns if c.words or c.holds_lists}
    name = snake_case(column.name)
    pair = next((p for p in PAIR_NAMES if name in p and all(n in by_name for n in p)), None)
    middle = tuple(by_name[n].name for n in pair) if pair else (column.name,)
    before = [
        c.name
        for n, c in by_name.items()
        if n in CONTEXT_NAMES
        and c.name not in middle
        and (c.words >= 3 or c.words == 0)
        and _adds_text(c.name, middle, sample)
    ]
    systems = [c.name for n, c in by_name.items() if n in SYSTEM_NAMES and c.words >= 1 and c.name not in middle]
    reason = "; the two belong together" if pair else ""
    reason += f"; {', '.join(quote(b, 60) for b in before)} holds what the question is about" if before else ""
    return (*systems[:1], *before, *middle), reason


def _adds_text(context: str, prompt: tuple[str, ...], sample: Rows) -> bool:
    """Return whether a context column has text that the prompt lacks.

    SVAMP's `question_concat` includes its context.
    """
    texts = [
        (prompt_text(value), compose_prompt(row, prompt)) for _, row in sample if (value := value_at(row, context))
    ]
    texts = [(about, prompt_of_row) for about, prompt_of_row in texts if about.strip() and not about.startswith("{")]
    return bool(texts) and sum(about.strip() in prompt_of_row for about, prompt_of_row in texts) < 0.5 * len(texts)


_ALL_OF = re.compile(r"(?:spans|labels|entities|keywords|tags|topics|categories|aspects|triples|steps|items)$")
_ANY_OF = re.compile(r"(?:aliases|text|answers?|references?|correct_answers|short_answers|targets|value)$")
_FUNCTION = re.compile(r"[\"'](?:func_name|instruction_id)[\"']\s*:")
"""Matches a constraint that names its checking function (RLVR-IFeval)."""
_ANSWER_SAMPLE = 300


@dataclass(frozen=True, slots=True)
class AnswerGuess:
    """A guess of the answer column at `path`, with the format of its values.

    If the answers have several golds, `any_of` says whether one of them is enough (True) or all are required (False).
    It is None if that is unclear, and for single golds.
    """

    path: str
    recognised: RecognisedFormat
    confidence: float
    context: AnswerContext
    any_of: bool | None = None

    @property
    def certainty(self) -> float:
        """The lower of two confidences: that the column is the answer, and that its values have the format."""
        return min(self.confidence, self.recognised.confidence)


def guess_answers(
    columns: Sequence[Column], rows: Rows, prompt: Sequence[str], options: Sequence[str] = ()
) -> list[AnswerGuess]:
    """Return guesses of the answer column, the best first. `prompt` and `options` are columns with other roles."""
    ranked = sorted(_answer_scores(columns, rows, prompt, options), key=lambda entry: -entry[0])
    if all(column.name in prompt or score <= _NAMELESS_SCORE for score, column in ranked):
        results = _guess_results(columns, rows, prompt, options)
        if results:
            return results
    if len(ranked) == 1 and snake_case(ranked[0][1].name) in WEAK_ANSWER_NAMES:
        ranked = [(0.6, ranked[0][1])]
    guesses = []
    for score, column in ranked[:8]:
        guess = judge_answer(column, rows, prompt, options)
        if guess is not None:
            guesses.append(replace(guess, confidence=round(_score_with_format(score, column, guess), 2)))
    return sorted((g for g in guesses if g.confidence >= 0.15), key=lambda g: -g.confidence)[:_MOST_GUESSES]


_NAMELESS_SCORE = 0.35
"""The score of a column whose name says nothing, above that of a name that classifies rows."""
_RESULT_SCORE = 0.7
_VARIED_SHARE = 0.1
"""Share of distinct values of a column of results. Fewer are grades or classes."""


def _guess_results(
    columns: Sequence[Column], rows: Rows, prompt: Sequence[str], options: Sequence[str]
) -> list[AnswerGuess]:
    """Return guesses of the column with the results of problems, columns of bare numbers first.

    The result is empty if the prompts ask nothing, or if no column has results. A column that numbers the rows has
    none. Columns whose names say something were tried before.
    """
    sample = spread_rows(rows, _SAMPLE)
    if not prompt or options or not asks([compose_prompt(row, tuple(prompt)) for _, row in sample]):
        return []
    guesses = []
    for column in columns:
        name = snake_case(column.name)
        noted = name in OTHER_NAMES or name in WEAK_ANSWER_NAMES or set(name.split("_")) & NOT_ANSWER_PARTS
        if column.name in prompt or "." in name or noted or column.null_rate > 0.05:
            continue
        if column.distinct < max(2, _VARIED_SHARE * len(rows)) or _numbers_rows(column.name, rows):
            continue
        guess = judge_answer(column, rows, prompt)
        if guess is not None and not guess.recognised.mixed and guess.recognised.format in _RESULT_FORMATS:
            guesses.append(replace(guess, confidence=_RESULT_SCORE))
    return sorted(guesses, key=lambda g: g.recognised.format != "numeric")[:_MOST_GUESSES]


_RESULT_FORMATS: frozenset[str] = frozenset({"gsm8k_hash", "numeric", "boxed"})


def _numbers_rows(path: str, rows: Rows) -> bool:
    """Return whether the values grow from row to row."""
    numbers = [golds.number_in(value_at(row, path)) for _, row in spread_rows(rows, _SAMPLE)]
    return None not in numbers and all(a < b for a, b in itertools.pairwise(numbers))  # type: ignore[operator]


def differing_results(guess: AnswerGuess, other: AnswerGuess, rows: Rows) -> bool:
    """Return whether two columns of results state other numbers in more than one of twenty rows."""
    sample = spread_rows(rows, _SAMPLE)
    numbers, others = (
        [golds.gold_number(value_at(row, g.path), g.recognised.format) for _, row in sample] for g in (guess, other)
    )
    return sum(a != b for a, b in zip(numbers, others, strict=True)) > 0.05 * len(sample)


def _score_with_format(score: float, column: Column, guess: AnswerGuess) -> float:
    """Adjust the score of a column's name by the confidence of its format. A column called `tests` must hold tests."""
    recognised = guess.recognised
    if snake_case(column.name) in TEST_NAMES and recognised.format != "code_tests":
        score *= 0.3
    return score * (max(recognised.confidence, 0.4) if recognised.mixed else max(recognised.confidence, 0.5) ** 0.25)


def _answer_scores(
    columns: Sequence[Column], rows: Rows, prompt: Sequence[str], options: Sequence[str]
) -> Iterator[tuple[float, Column]]:
    names = {snake_case(c.name) for c in columns}
    special = _special_column(columns, rows)
    if special is not None:
        yield 0.97, special
        return
    has_answer_name = False
    for column in columns:
        if column.name in prompt and not _ends_in_reply(column, rows):
            continue
        score = _answer_score_by_name(snake_case(column.name), names, column)
        if column.name in prompt:
            score = 0.5
        if column.name in options and not names_right_option(column.name):
            continue
        score -= 0.5 * (column.null_rate > 0.5) + 0.3 * (column.distinct == 1 and len(rows) >= 20)
        if score >= 0.15:
            has_answer_name = True
            yield score, column
    if not has_answer_name:
        yield from ((0.35, c) for c in columns if c.name not in (*prompt, *options) and _could_hold_answers(c, rows))


def _special_column(columns: Sequence[Column], rows: Rows) -> Column | None:
    """Return the answer column of a dataset without gold texts; None for other datasets.

    Such datasets have constraints on the reply (IFEval), or a target to compute from numbers (Countdown).
    """
    by_name = {snake_case(c.name): c for c in columns}
    if "instruction_id_list" in by_name and "kwargs" in by_name:
        return by_name["instruction_id_list"]
    if "reward_model.ground_truth" in by_name:
        return None
    numbers = by_name.get("nums") or by_name.get("numbers")
    puzzle = numbers is not None and numbers.holds_lists
    return by_name["target"] if puzzle and "target" in by_name else None


def _ends_in_reply(column: Column, rows: Rows) -> bool:
    """Return whether the values are conversations that end with the assistant. Prompt and gold are then one column."""
    values = [value_at(row, column.name) for _, row in spread_rows(rows, 50)]
    values = [v for v in values if v is not None]
    return bool(values) and sum(last_reply(v) is not None for v in values) >= 0.8 * len(values)


def _answer_score_by_name(name: str, known: set[str], column: Column) -> float:
    head, _, last = name.rpartition(".")
    if last in ("label", "labels") and column.dtype == "dict":
        return 0.0
    if name in ANSWER_NAMES:
        score = 0.97 - 0.006 * ANSWER_NAMES.index(name)
        inner = any(a in known for a in ANSWER_NAMES if a.startswith(f"{name}."))
        return score - 0.5 if inner else score - 0.1 * (column.dtype == "dict")
    if head:
        apart = (
            head in CONTEXT_NAMES
            or head in LEAKY_NAMES
            or last not in ANSWER_NAMES[:40]
            or head in ("choices", "options")
        )
        return 0.0 if apart else 0.8 - 0.006 * ANSWER_NAMES.index(last)
    if name in WEAK_ANSWER_NAMES:
        return 0.3 if column.distinct > 1 and column.words <= 3 else 0.0
    if name in OTHER_NAMES or name in CONTEXT_NAMES or name in LEAKY_NAMES:
        return 0.0
    words = set(name.split("_"))
    return 0.0 if words & NOT_ANSWER_PARTS else max((ANSWER_PARTS.get(w, 0.0) for w in words), default=0.0)


def _could_hold_answers(column: Column, rows: Rows) -> bool:
    name = snake_case(column.name)
    apart = (
        name in OTHER_NAMES
        or name in CONTEXT_NAMES
        or name in LEAKY_NAMES
        or "." in name
        or set(name.split("_")) & NOT_ANSWER_PARTS
    )
    if apart or column.distinct < 2 or column.null_rate > 0.5:
        return False
    graded = column.dtype in ("int", "int64", "int32", "bool") and column.distinct <= 20
    return 0 < column.words <= 5 or (graded and AnswerContext(column.name).named_class)


# --- the format of one column --------------------------------------------------------------------------------------


def judge_answer(column: Column, rows: Rows, prompt: Sequence[str], options: Sequence[str] = ()) -> AnswerGuess | None:
    """Recognise the format of one column. `options` are the columns of options. None if all its values are empty."""
    sample = spread_rows(rows, _ANSWER_SAMPLE)
    counts = tuple(sorted({len(options_of_row(row, options)[0]) for _, row in sample} - {0})) if options else ()
    inline = not counts and has_inline_options([compose_prompt(row, tuple(prompt)) for _, row in sample])
    context = AnswerContext(column.name, column.classes, counts, inline)
    values = [(index, row[column.name] if column.name in row else value_at(row, column.name)) for index, row in rows]
    recognised = (
        _special_format(column, rows, values)
        or (counts and _option_format(column, rows, values, options, context))
        or None
    )
    recognised = recognised or recognise_format(values, context)
    if recognised is None:
        return None
    if recognised.format == "chat_messages" and column.name in prompt:
        recognised = replace(recognised, confidence=min(recognised.confidence, 0.9))
    many = any_gold_suffices(column.name, [v for _, v in values]) if recognised.format == "multi_answer" else None
    return AnswerGuess(column.name, recognised, 1.0, context, many)


def _special_format(column: Column, rows: Rows, values: Sequence[tuple[int, Any]]) -> RecognisedFormat | None:
    first: Mapping[str, Any] = rows[0][1] if rows else {}
    names = {snake_case(n) for n in first}
    if snake_case(column.name) == "instruction_id_list" and "kwargs" in names:
        return RecognisedFormat("instruction_constraints", 1.0)
    if "constraint_type" in names and any(_FUNCTION.search(str(v)) for _, v in values[:20]):
        return RecognisedFormat("instruction_constraints", 0.9)
    if column.name == "target" and names & {"nums", "numbers"} and "answer" not in names:
        return RecognisedFormat("procedural", 0.95)
    return None


def _option_format(
    column: Column, rows: Rows, values: Sequence[tuple[int, Any]], options: Sequence[str], context: AnswerContext
) -> RecognisedFormat | None:
    """Recognise golds that name an option by its label or text, or mark it in a list of 0 and 1; otherwise None."""
    if column.name in options:
        return RecognisedFormat("choice_index", 0.95)
    answers = [(index, row, v) for (index, v), (_, row) in zip(values, rows, strict=True) if not golds.is_empty(v)]
    if not answers or isinstance(answers[0][2], bool | Mapping):
        return None
    answers = answers[:: max(1, len(answers) // 1000)]
    direct = sum(answer_syntax.is_letter(v) for _, _, v in answers) / len(answers)
    digits = sum(answer_syntax.is_small_int(v) for _, _, v in answers) / len(answers)
    if direct == 1.0 or (digits > 0.5 and _indices_fit(answers, context)):
        return None
    positions = [(index, v, options_of_row(row, options, column.name)[1]) for index, row, v in answers]
    against = tuple((index, v) for index, v, place in positions if place is None)
    share = 1 - len(against) / len(answers)
    if share < 0.95 or (digits > 0.5 and not direct and isinstance(answers[0][2], int)):
        return None
    form = "choice_letter" if direct > 0.5 else "choice_index"
    return RecognisedFormat(form, round(share, 4), against[:5], share=round(share, 4))  # type: ignore[arg-type]


def _indices_fit(answers: Sequence[tuple[int, Any, Any]], context: AnswerContext) -> bool:
    ints = {int(str(v)) for _, _, v in answers if answer_syntax.is_small_int(v)}
    return (
        min(ints) >= 0 and max(ints) <= max(context.options) and not (0 in ints and max(ints) == max(context.options))
    )


def any_gold_suffices(path: str, values: Sequence[Any]) -> bool | None:
    """Return whether one of several golds is enough; None if that is unclear.

    The column's name says so, or the golds of a row share words, so that they are variants of one answer.
    """
    lists = [
        several for v in values[:2000] if (several := answer_syntax.several_golds(v)) is not None and len(several) > 1
    ]
    last = snake_case(path).rpartition(".")[2]
    keys = {
        k
        for v in values[:50]
        if isinstance(v, Mapping)
        for k in answer_syntax.GOLD_LIST_FIELDS
        if isinstance(v.get(k), list)
    }
    if _ALL_OF.search(last) or keys == {"spans"}:
        return False
    if keys or "." in path or last in ("aliases", "references", "correct_answers", "short_answers"):
        return True
    if lists:
        alike = sum(_overlap(several) for several in lists) / len(lists)
        if alike >= 0.5:
            return True
    return True if _ANY_OF.search(last) and (not lists or len(lists) < 0.9 * len(values)) else None


def _overlap(answers: Sequence[Any]) -> bool:
    """Return whether two of the golds share a word. They are then variants of one answer."""
    words = [set(golds.normalised_text(str(v)).split()) for v in answers[:6]]
    return any(a & b for n, a in enumerate(words) for b in words[n + 1 :])
