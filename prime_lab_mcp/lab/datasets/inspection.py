"""One dataset judged as a whole: columns guessed, answer format recognised, rows examined, a reward recommended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.columns import (
    AnswerGuess,
    Column,
    PromptGuess,
    compose,
    describe,
    guess_answers,
    guess_prompts,
    judge_answer,
    option_columns,
    pluck,
)
from prime_lab_mcp.lab.datasets.findings import PlainRow, examine
from prime_lab_mcp.lab.datasets.reading import Request, Scanned, Table, read
from prime_lab_mcp.lab.datasets.source import HubDataset
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

REWARDS: Mapping[str, tuple[str, str]] = {
    "gsm8k_hash": ("numeric-match", "compare the number after #### with the number in the answer tag"),
    "numeric": ("numeric-match", "compare as numbers, not as text"),
    "boxed": ("math-verify", "compare the last boxed expressions as mathematics"),
    "latex_math": ("math-verify", "compare as mathematics; different text can be the same value"),
    "boolean": ("exact-match", "two words; beware that guessing is right half of the time"),
    "choice_letter": ("choice-match", "compare one letter"),
    "choice_index": ("choice-match", "let the model answer with a letter and map it to the index"),
    "class_id": ("label-match", "let the model answer with the class name and map it to the id"),
    "label": ("label-match", "compare the label, case and space aside"),
    "multi_answer": ("set-match", "find out whether any of the answers or all of them are wanted"),
    "json": ("json-match", "compare parsed values, not text"),
    "code_tests": ("run-tests", "run the tests in a sandbox"),
    "tool_call": ("tool-call-match", "compare the function's name and each argument"),
    "chat_messages": ("judge", "the last assistant turn is the gold; only a judge can compare"),
    "short_text": ("exact-match", "compare normalised text; expect false negatives"),
    "free_text": ("judge", "no rule can compare free text; a judge model with a rubric can"),
}


@dataclass(frozen=True, slots=True)
class Inspection:
    """`prompt` and `answer` are the best guesses or what the caller named; None when there is none."""

    table: Table
    columns: tuple[Column, ...]
    prompt: PromptGuess | None
    answer: AnswerGuess | None
    other_prompts: tuple[PromptGuess, ...]
    other_answers: tuple[AnswerGuess, ...]
    findings: tuple[Finding, ...]

    @property
    def format(self) -> str | None:
        return self.answer.recognised.format if self.answer else None

    def as_json(self) -> dict[str, Any]:
        """The tool's data (DESIGN, result data)."""
        main = self.table.main
        return {
            "dataset": {
                "id": self.table.id,
                "config": self.table.config,
                "split": main.name,
                "revision": self.table.revision,
            },
            "fingerprint": main.fingerprint,
            "rows_scanned": main.scanned,
            "rows_judged": len(main.rows),
            "splits": [{"name": name, "rows": rows} for name, rows in self.table.splits],
            "columns": [c.as_json() for c in self.columns[:20]],
            "prompt": _prompt_json(self.prompt, self.other_prompts),
            "answer": _answer_json(self.answer, self.other_answers),
            "recommended_reward": _reward_json(self.format),
        }


def _prompt_json(guess: PromptGuess | None, others: Sequence[PromptGuess]) -> dict[str, Any] | None:
    if guess is None:
        return None
    shown = {"columns": list(guess.columns), "confidence": guess.confidence, "why": guess.why}
    return shown | ({"others": [o.columns[-1] for o in others]} if others else {})


def _answer_json(guess: AnswerGuess | None, others: Sequence[AnswerGuess]) -> dict[str, Any] | None:
    if guess is None:
        return None
    known = guess.recognised
    shown: dict[str, Any] = {
        "path": guess.path,
        "format": known.format,
        "confidence": known.confidence,
        "counterexamples": [
            {"row": row, "value": quote(golds.as_text(value), 100)} for row, value in known.counterexamples
        ],
    }
    if known.index_base is not None:
        shown["index_base"] = known.index_base
    if known.also:
        shown["also"] = dict(known.also)
    if others:
        shown["others"] = [{"path": o.path, "format": o.recognised.format} for o in others]
    return shown


def _reward_json(format: str | None) -> dict[str, str] | None:
    if format is None:
        return None
    kind, why = REWARDS.get(format, ("judge", "no rule fits"))
    return {"kind": kind, "why": why}


async def inspect(
    lab: Lab, request: Request, *, prompt_column: str | None = None, answer_column: str | None = None
) -> Inspection:
    """Read and judge a dataset; the caller's columns overrule the guesses. Raises BadInput and LabError."""
    table = await read(lab, request)
    judging = partial(judge, table, request, prompt_column=prompt_column, answer_column=answer_column)
    return await anyio.to_thread.run_sync(judging)


def judge(
    table: Table, request: Request, *, prompt_column: str | None = None, answer_column: str | None = None
) -> Inspection:
    """The same, of rows already read."""
    if not table.main.rows:
        raise BadInput(
            f"the split {quote(table.main.name, 60)} of {quote(table.id)} holds no rows that could be read",
            fix="Give a file with one JSON object per line, or a table with a header.",
            code="no-rows",
        )
    columns = describe(table.main.rows, table.features)
    prompts, answers = _guesses(columns, table.main.rows, prompt_column, answer_column)
    prompt, answer = (prompts or [None])[0], (answers or [None])[0]  # type: ignore[list-item]
    return Inspection(
        table=table,
        columns=tuple(columns),
        prompt=prompt,
        answer=answer,
        other_prompts=tuple(prompts[1:]),
        other_answers=tuple(answers[1:]),
        findings=tuple(_findings(table, request, prompt, answer)),
    )


def _guesses(
    columns: list[Column], rows: Sequence[tuple[int, Any]], prompt_column: str | None, answer_column: str | None
) -> tuple[list[PromptGuess], list[AnswerGuess]]:
    for name in (prompt_column, answer_column):
        _column(columns, name)
    prompts = guess_prompts(columns, rows, answer_column)
    if prompt_column is not None:
        prompts = [PromptGuess((prompt_column,), 1.0, "you named it")]
    chosen = prompts[0].columns if prompts else ()
    if answer_column is None:
        return prompts, guess_answers(columns, rows, chosen)
    column = _column(columns, answer_column)
    found = judge_answer(column, rows, chosen) if column else None
    return prompts, [AnswerGuess(answer_column, found[0], 1.0, found[1])] if found else []


def _column(columns: Sequence[Column], name: str | None) -> Column | None:
    if name is None:
        return None
    found = next((c for c in columns if c.name == name), None)
    if found is None:
        known = ", ".join(quote(c.name, 40)[1:-1] for c in columns[:30])
        raise BadInput(f"there is no column {quote(name, 80)}", fix=f"Name one of: {known}.", code="unknown-column")
    return found


# --- findings --------------------------------------------------------------------------------------------------------


def plain_rows(scanned: Scanned, prompt: Sequence[str], answer: str | None, format: str | None) -> Iterator[PlainRow]:
    """The rows of a split as tasks."""
    offered = bool(option_columns(scanned.rows)) or format in ("choice_letter", "choice_index")
    for index, row in scanned.rows:
        value = pluck(row, answer) if answer is not None else None
        text = None if value is None else golds.as_text(value)
        yield PlainRow(compose(row, prompt), text, index, raw=value, offered=offered)


def _findings(
    table: Table, request: Request, prompt: PromptGuess | None, answer: AnswerGuess | None
) -> Iterator[Finding]:
    yield from _source_findings(table, request)
    if prompt is None:
        yield Finding("no-prompt-column", "blocker", "no column looks like a prompt.", "Name it with prompt_column.")
        return
    if answer is None:
        yield Finding(
            "empty-gold",
            "blocker",
            "no column holds answers: none has a usual name, or those that do are empty.",
            "Name it with answer_column; a task without gold needs a judge or a check of its own.",
        )
        return
    format, path = answer.recognised.format, answer.path
    held = plain_rows(table.held, prompt.columns, path, format) if table.held else ()
    yield from examine(plain_rows(table.main, prompt.columns, path, format), format=format, eval_rows=held)


def _source_findings(table: Table, request: Request) -> Iterator[Finding]:
    for scanned in (table.main, table.held):
        if scanned is not None and scanned.broken:
            severe = scanned.broken > 0.01 * (scanned.broken + scanned.scanned)
            yield Finding(
                "broken-rows",
                "blocker" if severe else "warning",
                f"{count(scanned.broken, 'record')} of the split {quote(scanned.name, 60)} cannot be read as a row.",
                "Mend or remove these lines.",
                rows=tuple({"line": p["line"], "what": quote(p["what"], 80)} for p in scanned.problems),
            )
    if isinstance(table.source, HubDataset) and request.revision is None:
        yield Finding(
            "unpinned-dataset",
            "warning",
            "no revision was given, and what the Hub serves can change under the environment.",
            f"Give revision={quote(table.revision or 'a commit', 60)}; create_environment pins the one it saw.",
        )
    if not table.main.complete:
        yield Finding(
            "partly-scanned",
            "info",
            f"only the first {table.main.scanned:,} rows were streamed; later ones are not judged.",
            "Nothing to do; check_environment judges what the environment really yields.",
        )
