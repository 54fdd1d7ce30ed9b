"""What is doubtful about the chosen columns: said as findings, so that no guess passes for a fact."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets import golds, syntax
from prime_lab_mcp.lab.datasets.answers import AnswerGuess
from prime_lab_mcp.lab.datasets.column_names import ANSWERS, CONTEXTS, LEAKY, NOT_ANSWER_PARTS, OTHERS, PROMPT_PARTS
from prime_lab_mcp.lab.datasets.columns import Column, Rows, spread_rows
from prime_lab_mcp.lab.datasets.formats import SURE
from prime_lab_mcp.lab.datasets.paths import compose, pluck, snake, text_of
from prime_lab_mcp.lab.datasets.prompts import PromptGuess, gives_away, is_leaky
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

_SAMPLE = 400
_FEW_CHANCES = 0.5
_FIGURE = re.compile(r"[0-9]")
_FIGURES = re.compile(r"-?[0-9][0-9,]*(?:\.[0-9]+)?")
_COUNTED = frozenset({"numeric", "gsm8k_hash", "latex_math"})
_APART = (NOT_ANSWER_PARTS | PROMPT_PARTS | {"answer", "solution", "response", "output"}) - {"text_id"}
_CALLER = "You named it; leave the argument out to see the guesses, or name another column."


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen of a table, by whom: `named_prompt` and `named_answer` are True where the caller did."""

    columns: Sequence[Column]
    rows: Rows
    prompt: PromptGuess
    answer: AnswerGuess
    options: Sequence[str]
    labels: Sequence[str]
    named_prompt: bool
    named_answer: bool


def doubts(choice: Choice) -> Iterator[Finding]:
    """Every doubt about the choice."""
    yield from _columns_named(choice)
    yield from _columns_guessed(choice)
    yield from _form(choice)
    yield from fact_free(choice)
    yield from _unused(choice)


def _columns_named(choice: Choice) -> Iterator[Finding]:
    prompt, answer = choice.prompt, choice.answer
    shown = _name(answer.path)
    if choice.named_prompt or choice.named_answer:
        if answer.path in prompt.columns and answer.recognised.format != "chat_messages":
            yield Finding(
                "column-doubtful", "blocker", f"the answer column {shown} is part of the prompt.",
                "Name a prompt_column without it, or another answer_column.",
            )  # fmt: skip
        elif gives_away(prompt, answer.path, choice.rows):
            yield Finding(
                "column-doubtful", "blocker",
                f"the prompt {_names(prompt.columns)} holds the whole answer {shown} in most rows.",
                "Name a prompt_column that does not hold the answer.",
            )  # fmt: skip
    if choice.named_prompt:
        yield from _prompt_named(choice)
    if choice.named_answer:
        column = next((c for c in choice.columns if c.name == answer.path), None)
        identifies = snake(answer.path).rpartition(".")[2] in OTHERS
        if identifies or (column is not None and column.distinct == 1 and len(choice.rows) >= 20):
            why = "is the same in every row" if column and column.distinct == 1 else "has the name of a mere note"
            yield Finding("column-doubtful", "warning", f"the answer column {shown} {why}.", _CALLER)


def _prompt_named(choice: Choice) -> Iterator[Finding]:
    sample = spread_rows(choice.rows, _SAMPLE)
    for path in choice.prompt.columns:
        if is_leaky(path):
            yield Finding(
                "column-doubtful", "warning", f"the prompt column {_name(path)} has a name of what gives answers away.",
                _CALLER,
            )  # fmt: skip
        elif not any(isinstance(pluck(row, path), str | list) for _, row in sample):
            yield Finding("column-doubtful", "warning", f"the prompt column {_name(path)} holds no text.", _CALLER)


def _columns_guessed(choice: Choice) -> Iterator[Finding]:
    for kind, guess, named, shown in (
        ("prompt", choice.prompt, choice.named_prompt, _names(choice.prompt.columns)),
        ("answer", choice.answer, choice.named_answer, _name(choice.answer.path)),
    ):
        if not named and guess.confidence < _FEW_CHANCES:
            yield Finding(
                f"{kind}-column-uncertain", "warning",
                f"that the {kind} is {shown} is a weak guess (confidence {guess.confidence:.2f}).",
                f"Look at the samples and name it with {kind}_column.",
            )  # fmt: skip


def _form(choice: Choice) -> Iterator[Finding]:
    answer = choice.answer
    found, shown = answer.recognised, _name(answer.path)
    if found.mixed and found.format == "free_text":
        parts = ", ".join(f"{share:.0%} {name}" for name, share in found.also)
        yield Finding(
            "mixed-format", "blocker", f"the answers in {shown} have no one form: {parts}.",
            "Bring the answers into one form, keep the rows of one form, or name another answer_column.",
        )  # fmt: skip
    elif not found.mixed and found.rival == "choice_letter":
        yield Finding(
            "options-not-found", "warning", f"the answers in {shown} are single letters, but no column holds options.",
            "Add the options as a column (choices) or to the prompt; without them the letters mean nothing.",
        )  # fmt: skip
    elif not found.mixed and found.rival is not None and found.confidence < SURE:
        yield Finding(
            "format-uncertain", "warning",
            f"the answers in {shown} are taken as {found.format}, but {found.rival} fits as well.",
            "Look at the samples; name the template in create_environment if the other is meant.",
        )  # fmt: skip
    elif found.format == "choice_index" and found.index_base is not None and found.confidence <= 0.6:
        yield Finding(
            "index-base-uncertain", "warning",
            f"the indices in {shown} show neither 0 nor the number of options, so they may count from 0 or from 1.",
            "Look at a few rows; INDEX_BASE of the environment's shape.py says from where they count.",
        )  # fmt: skip
    if found.format == "class_id" and not choice.labels:
        yield Finding(
            "class-names-unknown", "warning", f"the classes in {shown} are numbers, and nothing says what they mean.",
            "Ask whoever knows the data, and give the names in the order of the ids as labels to create_environment.",
        )  # fmt: skip
    if found.format == "multi_answer" and answer.any_of is None:
        yield Finding(
            "any-or-all", "warning",
            f"rows of {shown} have several answers, and it is not clear whether any one is right or all are wanted.",
            "Look at a few rows; ANY_OF of the environment's shape.py decides.",
        )  # fmt: skip


def fact_free(choice: Choice) -> Iterator[Finding]:
    """The prompt states no figures while another column does: SVAMP's `Question` without its `Body`."""
    if choice.answer.recognised.format not in _COUNTED:
        return
    sample = spread_rows(choice.rows, _SAMPLE)
    bare = [row for _, row in sample if not _FIGURE.search(compose(row, choice.prompt.columns))]
    if len(bare) < 0.5 * len(sample):
        return
    apart = {*choice.prompt.columns, choice.answer.path, *choice.options}
    for column in choice.columns:
        name = snake(column.name)
        known = name in CONTEXTS or name.rpartition(".")[2] not in OTHERS | LEAKY
        if column.name in apart or not known or is_leaky(column.name) or column.words < 3:
            continue
        texts = [text_of(pluck(row, column.name)) for row in bare]
        told = sum(
            _FIGURE.search(t) is not None and not _answers(row, choice, t) for row, t in zip(bare, texts, strict=True)
        )
        if told >= 0.5 * len(bare):
            yield Finding(
                "fact-free-prompt", "warning",
                f"in {len(bare) / len(sample):.0%} of the rows the prompt {_names(choice.prompt.columns)} holds no "
                f"figure, while {_name(column.name)} does: what the answer is computed from is not asked.",
                f'Give prompt_column="{_plain(column.name)},{_plain(choice.prompt.columns[-1])}".',
            )  # fmt: skip
            return


def _unused(choice: Choice) -> Iterator[Finding]:
    """Long text that belongs to no part of the task: what the question is about, under a name that nobody knows?"""
    if choice.named_prompt or choice.answer.recognised.format == "chat_messages":
        return
    sample = spread_rows(choice.rows, _SAMPLE)
    apart = {*choice.prompt.columns, choice.answer.path, *choice.options}
    for column in choice.columns:
        name = snake(column.name)
        if column.name in apart or column.words < 8 or "." in name or column.distinct < 0.5 * len(choice.rows):
            continue
        if is_leaky(column.name) or name in OTHERS or name in ANSWERS or set(name.split("_")) & _APART:
            continue
        new = sum(
            text_of(pluck(row, column.name)).strip() not in compose(row, choice.prompt.columns) for _, row in sample
        )
        if new > 0.5 * len(sample):
            yield Finding(
                "context-unused", "info",
                f"{_name(column.name)} holds a text of its own in every row and is not part of the prompt.",
                f'If the question is about it, give prompt_column="{_plain(column.name)},'
                f'{",".join(map(_plain, choice.prompt.columns))}"; if it gives the answer away, leave it out.',
            )  # fmt: skip
            return


def _answers(row: object, choice: Choice, text: str) -> bool:
    """The text works the answer out (a solution under another name)."""
    value = pluck(row, choice.answer.path)  # type: ignore[arg-type]
    found = golds.gold_number(value, choice.answer.recognised.format)
    last = re.findall(r"-?[0-9][0-9,]*(?:\.[0-9]+)?", text)
    return (
        syntax.is_hash(text)
        or syntax.is_boxed(text)
        or (bool(last) and found is not None and golds.number(last[-1]) == found)
    )


def _plain(path: str) -> str:
    return quote(path, 60)[1:-1]


def _name(path: str) -> str:
    return quote(path, 60)


def _names(paths: Sequence[str]) -> str:
    return " + ".join(map(_name, paths))
