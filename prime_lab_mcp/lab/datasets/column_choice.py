"""Chooses the prompt and answer columns of a dataset: those that the caller names, otherwise the best guesses.

Findings report all doubts about the choice, so that nobody takes a guess for a fact. `metadata_columns` chooses further
columns that tasks get besides question and answer, so that training and evaluation can select tasks by them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import answer_syntax, golds
from prime_lab_mcp.lab.datasets.answer_syntax import is_small_int
from prime_lab_mcp.lab.datasets.columns import (
    ANSWER_NAMES,
    CONTEXT_NAMES,
    LEAKY_NAMES,
    NOT_ANSWER_PARTS,
    OTHER_NAMES,
    PROMPT_PARTS,
    Column,
    Rows,
    describe_column,
    describe_columns,
    spread_rows,
)
from prime_lab_mcp.lab.datasets.formats import SURE_CONFIDENCE
from prime_lab_mcp.lab.datasets.guesses import (
    AnswerGuess,
    PromptGuess,
    differing_results,
    gives_away,
    guess_answers,
    guess_prompts,
    is_leaky,
    judge_answer,
)
from prime_lab_mcp.lab.datasets.options import names_right_option, option_columns
from prime_lab_mcp.lab.datasets.row_values import compose_prompt, prompt_text, snake_case, value_at
from prime_lab_mcp.lab.datasets.scan import ScannedDataset

_MOST_LABELS = 200
_NAME_COLUMNS = ("{}_text", "{}_name", "{}_str", "{}_names", "{}_description", "{}_class")


@dataclass(frozen=True, slots=True)
class ChosenColumns:
    """The columns of a table, the chosen prompt and answer columns, and the other guesses.

    `options` are the columns with answer options, and `labels` the class names. `named_prompt` and `named_answer` say
    that the caller has named the column.
    """

    columns: Sequence[Column]
    prompt: PromptGuess | None
    answer: AnswerGuess | None
    other_prompts: Sequence[PromptGuess]
    other_answers: Sequence[AnswerGuess]
    options: tuple[str, ...]
    labels: tuple[str, ...]
    named_prompt: bool
    named_answer: bool


def choose_columns(table: ScannedDataset, prompt_column: str | None, answer_column: str | None) -> ChosenColumns:
    """Choose prompt and answer columns, by name or by guess. Raises BadInput for a column that does not exist."""
    rows = table.main.rows
    columns = describe_columns(rows, table.features)
    options = option_columns(row for _, row in spread_rows(rows, 50))
    named_prompt = _named_prompt(columns, rows, prompt_column) if prompt_column is not None else None
    answer = _column(columns, rows, "answer_column", answer_column) if answer_column is not None else None
    excluded = {o for o in options if not names_right_option(o)} | ({answer.name} if answer else set())
    excluded |= {o for o in options if len(options) > 1}
    prompts = [named_prompt] if named_prompt else guess_prompts(columns, rows, excluded)
    prompt_columns = prompts[0].columns if prompts else ()
    if answer is not None:
        judged_answer = judge_answer(answer, rows, prompt_columns, options)
        answers = [judged_answer] if judged_answer else []
    else:
        answers = guess_answers(columns, rows, prompt_columns, options)
    if not named_prompt and answers and len(prompts) > 1:
        prompts = sorted(prompts, key=lambda guess: gives_away(guess, answers[0].path, rows))
    if not named_prompt and answers and prompts and gives_away(prompts[0], answers[0].path, rows):
        prompts = []
    return ChosenColumns(
        columns=columns,
        prompt=prompts[0] if prompts else None,
        answer=answers[0] if answers else None,
        other_prompts=prompts[1:],
        other_answers=answers[1:],
        options=options,
        labels=class_names(table, answers[0]) if answers else (),
        named_prompt=named_prompt is not None,
        named_answer=answer is not None,
    )


def class_names(table: ScannedDataset, answer: AnswerGuess) -> tuple[str, ...]:
    """Return the class names in the order of their ids, or the distinct labels in alphabetical order.

    The result is empty if the names are unknown or the answers are not classes.
    """
    path, format, rows = answer.path, answer.recognised.format, table.main.rows
    if format == "label":
        held_out = table.held_out.rows if table.held_out else ()
        texts = {
            golds.gold_text(v).strip() for _, row in (*rows, *held_out) if not golds.is_empty(v := value_at(row, path))
        }
        return tuple(sorted(texts)) if len(texts) <= _MOST_LABELS else ()
    if format != "class_id":
        return ()
    return answer.context.class_names or _names_from_column(rows, path)


def _names_from_column(rows: Rows, path: str) -> tuple[str, ...]:
    """Read the class names of an id column from another column (`label_text` for `label`); empty if there is none.

    The ids must be 0, 1, 2, ..., and each must have exactly one name.
    """
    columns = {snake_case(name): name for name in rows[0][1]}
    candidates = [t.format(snake_case(path)) for t in _NAME_COLUMNS]
    stem = snake_case(path).removesuffix("_id").removesuffix("_idx").removesuffix("_num")
    name_columns = [columns[n] for n in (*candidates, stem, f"{stem}_name") if n in columns and columns[n] != path]
    for name_column in name_columns:
        names: dict[int, str] = {}
        pairs = ((row.get(path), row.get(name_column)) for _, row in rows)
        ids_and_names = [(int(str(v)), str(t)) for v, t in pairs if is_small_int(v) and t is not None]
        clash = any(names.setdefault(number, text) != text for number, text in ids_and_names)
        if names and not clash and sorted(names) == list(range(len(names))) and len(set(names.values())) == len(names):
            return tuple(names[n] for n in range(len(names)))
    return ()


def _named_prompt(columns: Sequence[Column], rows: Rows, names: str) -> PromptGuess:
    parts = (
        (names,) if any(c.name == names for c in columns) else tuple(p.strip() for p in names.split(",") if p.strip())
    )
    if not parts:
        raise BadInput(
            "prompt_column names no column",
            fix=Fix(
                "Leave ",
                SameCall.without("prompt_column"),
                " out to see the guesses, or name one, or several with commas between them.",
            ),
        )
    for part in parts:
        _column(columns, rows, "prompt_column", part)
    return PromptGuess(parts, 1.0, "you named it" if len(parts) == 1 else "you named them")


def _column(columns: Sequence[Column], rows: Rows, argument: str, name: str) -> Column:
    column = next((c for c in columns if c.name == name), None)
    if column is not None:
        return column
    if "." in name and any(value_at(row, name) is not None for _, row in rows):
        return describe_column(name, rows, {})
    column_names = ", ".join(quote(c.name, 40) for c in columns[:30])
    near = difflib.get_close_matches(name, [c.name for c in columns], 1)
    mended = (
        Fix("Pass ", SameCall(**{argument: near[0]}))
        if near
        else Fix("Leave ", SameCall.without(argument), " out to see the guesses")
    )
    raise BadInput(
        f"there is no column {quote(name, 80)}",
        fix=Fix(mended, f"; the columns are: {column_names}."),
        code="unknown-column",
    )


_SAMPLE = 400
_LOW_CONFIDENCE = 0.5
_DIGIT = re.compile(r"[0-9]")
_FIGURES = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")
_NUMERIC_FORMATS = frozenset({"numeric", "gsm8k_hash", "latex_math"})
_RESULT_FORMATS = frozenset({"numeric", "gsm8k_hash"})
_APART = (NOT_ANSWER_PARTS | PROMPT_PARTS | {"answer", "solution", "response", "output"}) - {"text_id"}
_CALLER = "You named it; leave the argument out to see the guesses, or name another column."


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """The chosen columns of a table, and its rows.

    `named_prompt` and `named_answer`: the caller has named the column.
    """

    columns: Sequence[Column]
    rows: Rows
    prompt: PromptGuess
    answer: AnswerGuess
    options: Sequence[str]
    labels: Sequence[str]
    named_prompt: bool
    named_answer: bool
    other_answers: Sequence[AnswerGuess] = ()


def column_findings(choice: ColumnChoice) -> Iterator[Finding]:
    """Yield findings about all doubts concerning the chosen columns."""
    yield from _named_columns(choice)
    yield from _uncertain_guesses(choice)
    yield from _other_results(choice)
    yield from _format_findings(choice)
    yield from missing_numbers(choice)
    yield from _unused_context(choice)


def _named_columns(choice: ColumnChoice) -> Iterator[Finding]:
    prompt, answer = choice.prompt, choice.answer
    answer_name = _name(answer.path)
    if choice.named_prompt or choice.named_answer:
        if answer.path in prompt.columns and answer.recognised.format != "chat_messages":
            yield Finding(
                "column-doubtful",
                "blocker",
                f"the answer column {answer_name} is part of the prompt.",
                "Name a prompt_column without it, or another answer_column.",
            )
        elif gives_away(prompt, answer.path, choice.rows):
            yield Finding(
                "column-doubtful",
                "blocker",
                f"the prompt {_names(prompt.columns)} holds the whole answer {answer_name} in most rows.",
                "Name a prompt_column that does not hold the answer.",
            )
    if choice.named_prompt:
        yield from _prompt_choice(choice)
    if choice.named_answer:
        column = next((c for c in choice.columns if c.name == answer.path), None)
        identifies = snake_case(answer.path).rpartition(".")[2] in OTHER_NAMES
        if identifies or (column is not None and column.distinct == 1 and len(choice.rows) >= 20):
            why = "is the same in every row" if column and column.distinct == 1 else "has the name of a mere note"
            yield Finding("column-doubtful", "warning", f"the answer column {answer_name} {why}.", _CALLER)


def _prompt_choice(choice: ColumnChoice) -> Iterator[Finding]:
    sample = spread_rows(choice.rows, _SAMPLE)
    for path in choice.prompt.columns:
        if is_leaky(path):
            yield Finding(
                "column-doubtful",
                "warning",
                f"the prompt column {_name(path)} has a name of what gives answers away.",
                _CALLER,
            )
        elif not any(isinstance(value_at(row, path), str | list) for _, row in sample):
            yield Finding("column-doubtful", "warning", f"the prompt column {_name(path)} holds no text.", _CALLER)


def _uncertain_guesses(choice: ColumnChoice) -> Iterator[Finding]:
    columns: tuple[tuple[str, Code, float, bool, str], ...] = (
        (
            "prompt",
            "prompt-column-uncertain",
            choice.prompt.confidence,
            choice.named_prompt,
            _names(choice.prompt.columns),
        ),
        ("answer", "answer-column-uncertain", choice.answer.confidence, choice.named_answer, _name(choice.answer.path)),
    )
    for kind, code, confidence, named, name in columns:
        if not named and confidence < _LOW_CONFIDENCE:
            yield Finding(
                code,
                "warning",
                f"{name} may not be the {kind} column (confidence {confidence:.2f}).",
                "No other column could be the answer: if the samples are no answers either, add a column with them."
                if kind == "answer" and not choice.other_answers
                else f"Look at the samples and name it with {kind}_column.",
            )


def _other_results(choice: ColumnChoice) -> Iterator[Finding]:
    """Ask which of several columns of results is the answer, where their numbers differ."""
    answer = choice.answer
    if choice.named_answer or answer.recognised.format not in _RESULT_FORMATS:
        return
    others = [
        other
        for other in choice.other_answers
        if other.confidence == answer.confidence
        and other.recognised.format in _RESULT_FORMATS
        and differing_results(answer, other, choice.rows)
    ]
    if others:
        calls: list[str | SameCall] = [", or pass ", SameCall(answer_column=others[0].path)]
        for other in others[1:]:
            calls += [" or ", SameCall(answer_column=other.path)]
        yield Finding(
            "answer-column-uncertain",
            "warning",
            f"{' and '.join(_name(a.path) for a in (answer, *others))} hold different results, and no name says which "
            f"is the answer; {_name(answer.path)} was taken.",
            Fix("Ask whoever knows the data; name it with ", SameCall(answer_column=answer.path), *calls, "."),
        )


def _meaning(format: str) -> str:
    """What a format is whose name names one dataset, in brackets; empty for others."""
    return " (some working, then a mark such as #### or >> and the result)" if format == "gsm8k_hash" else ""


def _format_findings(choice: ColumnChoice) -> Iterator[Finding]:
    answer = choice.answer
    recognised, answer_name = answer.recognised, _name(answer.path)
    if recognised.mixed and recognised.format == "free_text":
        parts = ", ".join(f"{share:.0%} {name}" for name, share in recognised.also)
        yield Finding(
            "mixed-format",
            "blocker",
            f"the answers in {answer_name} have no one form: {parts}.",
            "Bring the answers into one form, keep the rows of one form, or name another answer_column.",
        )
    elif not recognised.mixed and recognised.rival == "choice_letter":
        yield Finding(
            "options-not-found",
            "warning",
            f"the answers in {answer_name} are single letters, but no column holds options.",
            "Add the options as a column (choices) or to the prompt; without them the letters mean nothing.",
        )
    elif not recognised.mixed and recognised.rival is not None and recognised.confidence < SURE_CONFIDENCE:
        yield Finding(
            "format-uncertain",
            "warning",
            f"the answers in {answer_name} are taken as {recognised.format}{_meaning(recognised.format)}, but "
            f"{recognised.rival} fits as well.",
            "Look at the samples; name the template in create_environment if the other is meant.",
        )
    elif recognised.format == "choice_index" and recognised.index_base is not None and recognised.confidence <= 0.6:
        yield Finding(
            "index-base-uncertain",
            "warning",
            f"the indices in {answer_name} show neither 0 nor the number of options, so they may count from 0 "
            "or from 1.",
            "Look at a few rows; INDEX_BASE of the environment's shape.py says from where they count.",
        )
    if recognised.format == "class_id" and not choice.labels:
        yield Finding(
            "class-names-unknown",
            "warning",
            f"the classes in {answer_name} are numbers, and nothing says what they mean.",
            "Ask whoever knows the data, and give the names in the order of the ids as labels to create_environment.",
        )
    if recognised.format == "multi_answer" and answer.any_of is None:
        yield Finding(
            "any-or-all",
            "warning",
            f"rows of {answer_name} have several answers, and it is not clear whether any one is right or all are "
            "wanted.",
            "Look at a few rows; ANY_OF of the environment's shape.py decides.",
        )


def missing_numbers(choice: ColumnChoice) -> Iterator[Finding]:
    """Warn about prompts without numbers if another column has the numbers (SVAMP's `Question` without its `Body`)."""
    if choice.answer.recognised.format not in _NUMERIC_FORMATS:
        return
    sample = spread_rows(choice.rows, _SAMPLE)
    bare = [row for _, row in sample if not _DIGIT.search(compose_prompt(row, choice.prompt.columns))]
    if len(bare) < 0.5 * len(sample):
        return
    apart = {*choice.prompt.columns, choice.answer.path, *choice.options}
    for column in choice.columns:
        name = snake_case(column.name)
        usual = name in CONTEXT_NAMES or name.rpartition(".")[2] not in OTHER_NAMES | LEAKY_NAMES
        if column.name in apart or not usual or is_leaky(column.name) or column.words < 3:
            continue
        texts = [prompt_text(value_at(row, column.name)) for row in bare]
        rows_with_numbers = sum(
            _DIGIT.search(t) is not None and not _works_out_answer(row, choice, t)
            for row, t in zip(bare, texts, strict=True)
        )
        if rows_with_numbers >= 0.5 * len(bare):
            yield Finding(
                "fact-free-prompt",
                "warning",
                f"in {len(bare) / len(sample):.0%} of the rows the prompt {_names(choice.prompt.columns)} holds no "
                f"figure, while {_name(column.name)} does: what the answer is computed from is not asked.",
                f'Give prompt_column="{_argument_name(column.name)},{_argument_name(choice.prompt.columns[-1])}".',
            )
            return


def _unused_context(choice: ColumnChoice) -> Iterator[Finding]:
    """Report an unused column of long texts that may be the context of the question."""
    if choice.named_prompt or choice.answer.recognised.format == "chat_messages":
        return
    sample = spread_rows(choice.rows, _SAMPLE)
    apart = {*choice.prompt.columns, choice.answer.path, *choice.options}
    for column in choice.columns:
        name = snake_case(column.name)
        if column.name in apart or column.words < 8 or "." in name or column.distinct < 0.5 * len(choice.rows):
            continue
        if is_leaky(column.name) or name in OTHER_NAMES or name in ANSWER_NAMES or set(name.split("_")) & _APART:
            continue
        texts = [(row, prompt_text(value_at(row, column.name))) for _, row in sample]
        if sum(_works_out_answer(row, choice, text) for row, text in texts) > 0.5 * len(sample):
            continue
        new = sum(text.strip() not in compose_prompt(row, choice.prompt.columns) for row, text in texts)
        if new > 0.5 * len(sample):
            yield Finding(
                "context-unused",
                "info",
                f"{_name(column.name)} holds a text of its own in every row and is not part of the prompt.",
                f'If the question is about it, give prompt_column="{_argument_name(column.name)},'
                f'{",".join(map(_argument_name, choice.prompt.columns))}"; if it gives the answer away, leave it out.',
            )
            return


def _works_out_answer(row: object, choice: ColumnChoice, text: str) -> bool:
    """Return whether a text is a solution: its last number is the gold, or it has a `####` or \\boxed{} answer."""
    value = value_at(row, choice.answer.path)  # type: ignore[arg-type]
    number = golds.gold_number(value, choice.answer.recognised.format)
    last = re.findall(r"-?[0-9][0-9,]*(?:\.[0-9]+)?", text)
    return (
        answer_syntax.is_hash(text)
        or answer_syntax.is_boxed(text)
        or (bool(last) and number is not None and golds.number_in(last[-1]) == number)
    )


def _argument_name(path: str) -> str:
    return quote(path, 60)[1:-1]


def _name(path: str) -> str:
    return quote(path, 60)


def _names(paths: Sequence[str]) -> str:
    return " + ".join(map(_name, paths))


_MOST, _LONGEST, _ROWS = 12, 100, 2000
"""Most columns that are chosen, most characters of a text in them, and most rows that are examined."""
_GOLDS = frozenset({*ANSWER_NAMES, *golds.GOLD_NAMES})


def metadata_columns(rows: Iterable[tuple[int, Mapping[str, Any]]], used: Collection[str]) -> tuple[str, ...]:
    """Return the columns of short texts, numbers or booleans, in the order of the dataset.

    `used` are the columns of question, answer and options. Columns whose names suggest an answer or a solution are left
    out, so that a task does not contain its answer twice. All values of a column have the same type, because the tables
    of v0 environments require that.
    """
    kinds: dict[str, set[type]] = {}
    for _, row in islice(rows, _ROWS):
        for name, value in row.items():
            if value is not None:
                kinds.setdefault(name, set()).add(_kind(value))
    return tuple(name for name, types in kinds.items() if name not in used and _is_metadata(name, types))[:_MOST]


def _is_metadata(name: str, kinds: set[type]) -> bool:
    allowed = name.strip() != "" and snake_case(name) not in _GOLDS and not is_leaky(name)
    return allowed and kinds in ({str}, {float}, {bool})


def _kind(value: Any) -> type:
    """Return `str` for a short text, `float` for a number, `bool` for a boolean, and `object` for any other value."""
    if isinstance(value, bool):
        return bool
    if isinstance(value, int | float):
        return float
    return str if isinstance(value, str) and len(value) <= _LONGEST else object
