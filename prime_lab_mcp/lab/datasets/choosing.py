"""The columns of a dataset that are used: what the caller named, else the best guesses; and the class names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.answers import AnswerGuess, guess_answers, judge_answer
from prime_lab_mcp.lab.datasets.columns import Column, Rows, describe, describe_one, spread_rows
from prime_lab_mcp.lab.datasets.options import names_the_right, option_columns
from prime_lab_mcp.lab.datasets.paths import pluck, snake
from prime_lab_mcp.lab.datasets.prompts import PromptGuess, gives_away, guess_prompts
from prime_lab_mcp.lab.datasets.syntax import is_small_int
from prime_lab_mcp.lab.datasets.table import Table
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.text import quote

_MOST_LABELS = 200
_TWINS = ("{}_text", "{}_name", "{}_str", "{}_names", "{}_description", "{}_class")


@dataclass(frozen=True, slots=True)
class Chosen:
    columns: Sequence[Column]
    prompt: PromptGuess | None
    answer: AnswerGuess | None
    other_prompts: Sequence[PromptGuess]
    other_answers: Sequence[AnswerGuess]
    options: tuple[str, ...]
    labels: tuple[str, ...]
    named_prompt: bool
    named_answer: bool


def choose(table: Table, prompt_column: str | None, answer_column: str | None) -> Chosen:
    """Guess, or follow the caller. Raises BadInput for a column that is not there."""
    rows = table.main.rows
    columns = describe(rows, table.features)
    options = option_columns(row for _, row in spread_rows(rows, 50))
    named = _named_prompt(columns, rows, prompt_column) if prompt_column is not None else None
    answer = _column(columns, rows, answer_column) if answer_column is not None else None
    taken = {o for o in options if not names_the_right(o)} | ({answer.name} if answer else set())
    taken |= {o for o in options if len(options) > 1}
    prompts = [named] if named else guess_prompts(columns, rows, taken)
    asked = prompts[0].columns if prompts else ()
    if answer is not None:
        judged = judge_answer(answer, rows, asked, options)
        answers = [judged] if judged else []
    else:
        answers = guess_answers(columns, rows, asked, options)
    if not named and answers and len(prompts) > 1:
        prompts = sorted(prompts, key=lambda guess: gives_away(guess, answers[0].path, rows))
    if not named and answers and prompts and gives_away(prompts[0], answers[0].path, rows):
        prompts = []
    return Chosen(
        columns=columns,
        prompt=prompts[0] if prompts else None,
        answer=answers[0] if answers else None,
        other_prompts=prompts[1:],
        other_answers=answers[1:],
        options=options,
        labels=class_names(table, answers[0]) if answers else (),
        named_prompt=named is not None,
        named_answer=answer is not None,
    )


def class_names(table: Table, answer: AnswerGuess) -> tuple[str, ...]:
    """Names of the classes by id, or the distinct labels in alphabetical order; () when unknown or no classes."""
    path, format, rows = answer.path, answer.recognised.format, table.main.rows
    if format == "label":
        held = table.held.rows if table.held else ()
        texts = {golds.as_text(v).strip() for _, row in (*rows, *held) if not golds.is_empty(v := pluck(row, path))}
        return tuple(sorted(texts)) if len(texts) <= _MOST_LABELS else ()
    if format != "class_id":
        return ()
    return answer.context.class_names or _from_twin(rows, path)


def _from_twin(rows: Rows, path: str) -> tuple[str, ...]:
    """Names out of a column that spells the classes out (`label_text` beside `label`), ids being 0, 1, 2, ..."""
    known = {snake(name): name for name in rows[0][1]}
    wanted = [t.format(snake(path)) for t in _TWINS]
    stem = snake(path).removesuffix("_id").removesuffix("_idx").removesuffix("_num")
    twins = [known[n] for n in (*wanted, stem, f"{stem}_name") if n in known and known[n] != path]
    for twin in twins:
        names: dict[int, str] = {}
        pairs = ((row.get(path), row.get(twin)) for _, row in rows)
        spelt = [(int(str(v)), str(t)) for v, t in pairs if is_small_int(v) and t is not None]
        clash = any(names.setdefault(number, text) != text for number, text in spelt)
        if names and not clash and sorted(names) == list(range(len(names))) and len(set(names.values())) == len(names):
            return tuple(names[n] for n in range(len(names)))
    return ()


def _named_prompt(columns: Sequence[Column], rows: Rows, named: str) -> PromptGuess:
    parts = (
        (named,) if any(c.name == named for c in columns) else tuple(p.strip() for p in named.split(",") if p.strip())
    )
    if not parts:
        raise BadInput("prompt_column names no column", fix="Name one, or several with commas between them.")
    for part in parts:
        _column(columns, rows, part)
    return PromptGuess(parts, 1.0, "you named it" if len(parts) == 1 else "you named them")


def _column(columns: Sequence[Column], rows: Rows, name: str) -> Column:
    found = next((c for c in columns if c.name == name), None)
    if found is not None:
        return found
    if "." in name and any(pluck(row, name) is not None for _, row in rows):
        return describe_one(name, rows, {})
    known = ", ".join(quote(c.name, 40)[1:-1] for c in columns[:30])
    raise BadInput(f"there is no column {quote(name, 80)}", fix=f"Name one of: {known}.", code="unknown-column")
