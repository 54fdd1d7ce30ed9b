"""One dataset judged as a whole: columns guessed, answer format recognised, rows examined, a reward recommended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.answers import AnswerGuess
from prime_lab_mcp.lab.datasets.chat import replied
from prime_lab_mcp.lab.datasets.choosing import Chosen, choose
from prime_lab_mcp.lab.datasets.columns import Column
from prime_lab_mcp.lab.datasets.doubts import Choice, doubts
from prime_lab_mcp.lab.datasets.findings import PlainRow, Repeats, examine
from prime_lab_mcp.lab.datasets.options import offered
from prime_lab_mcp.lab.datasets.paths import compose, pluck
from prime_lab_mcp.lab.datasets.prompts import PromptGuess
from prime_lab_mcp.lab.datasets.recommending import Recommendation, recommend
from prime_lab_mcp.lab.datasets.rules import Format
from prime_lab_mcp.lab.datasets.table import Request, Scanned, Table
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import count, quote

RepeatsOf = Callable[[Sequence[str], str | None], Repeats | None]
"""Counts over every row, for these prompt columns and this answer column; None where there are none."""
WITHOUT_GOLD: frozenset[str] = frozenset({"instruction_constraints", "procedural"})
_CHOICES: frozenset[str] = frozenset({"choice_letter", "choice_index"})


@dataclass(frozen=True, slots=True)
class Inspection:
    """`prompt` and `answer` are the best guesses or what the caller named; None when there is none.

    `option_columns` hold what a row offers: () when it offers nothing, or in the prompt itself. `index_base`: what the
    first option counts as, None when the gold is no index. `labels`: class names by id, or the distinct labels; () when
    unknown. `any_of`: of several golds any is right, or (False) all are wanted; None when unclear or there is one.
    """

    table: Table
    columns: tuple[Column, ...]
    prompt: PromptGuess | None
    answer: AnswerGuess | None
    other_prompts: tuple[PromptGuess, ...]
    other_answers: tuple[AnswerGuess, ...]
    findings: tuple[Finding, ...]
    option_columns: tuple[str, ...] = ()
    index_base: int | None = None
    labels: tuple[str, ...] = ()
    any_of: bool | None = None

    @property
    def format(self) -> Format | None:
        return self.answer.recognised.format if self.answer else None

    @property
    def recommended(self) -> Recommendation | None:
        """The reward for the form of the answers; None when there is no answer."""
        if self.format is None:
            return None
        return recommend(self.format, index_base=self.index_base, labels=len(self.labels), any_of=self.any_of)

    def as_json(self) -> dict[str, Any]:
        """The tool's data (DESIGN, result data)."""
        main, reward = self.table.main, self.recommended
        return {
            "dataset": {
                "id": self.table.id,
                "config": self.table.config,
                "split": main.name,
                "revision": self.table.revision,
            },
            "fingerprint": main.fingerprint,
            "rows_scanned": main.scanned,
            "rows_judged": main.judged,
            "splits": [{"name": name, "rows": rows} for name, rows in self.table.splits],
            "columns": [c.as_json() for c in self.columns[:20]],
            "prompt": _prompt_json(self.prompt, self.other_prompts),
            "answer": self._answer_json(),
            "recommended_reward": reward.as_json() if reward else None,
        }

    def _answer_json(self) -> dict[str, Any] | None:
        guess = self.answer
        if guess is None:
            return None
        known = guess.recognised
        shown: dict[str, Any] = {
            "path": guess.path,
            "format": known.format,
            "confidence": guess.certainty,
            "counterexamples": _counterexamples(guess),
        }
        more = {
            "mixed": known.mixed,
            "rival": known.rival,
            "index_base": self.index_base,
            "also": dict(known.also),
            "any_of": self.any_of,
            "options": list(self.option_columns) if known.format in _CHOICES else [],
            "labels": [quote(label, 40)[1:-1] for label in self.labels[:30]],
            "others": [_other_json(o) for o in self.other_answers],
        }
        return shown | {k: v for k, v in more.items() if v is not None and v is not False and v != [] and v != {}}


def _counterexamples(guess: AnswerGuess, most: int = 5) -> list[dict[str, Any]]:
    against = guess.recognised.counterexamples[:most]
    return [{"row": row, "value": quote(golds.as_text(value), 100)} for row, value in against]


def _other_json(guess: AnswerGuess) -> dict[str, Any]:
    shown = {"path": guess.path, "format": guess.recognised.format, "confidence": guess.certainty}
    against = _counterexamples(guess, 1)
    return shown | ({"counterexamples": against} if against else {})


def _prompt_json(guess: PromptGuess | None, others: Sequence[PromptGuess]) -> dict[str, Any] | None:
    if guess is None:
        return None
    shown = {"columns": list(guess.columns), "confidence": guess.confidence, "why": guess.why}
    told = [{"columns": list(o.columns), "confidence": o.confidence, "why": o.why} for o in others]
    return shown | ({"others": told} if told else {})


def judge(
    table: Table,
    request: Request,
    *,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    repeats_of: RepeatsOf | None = None,
) -> Inspection:
    """Judge rows already read; the caller's columns overrule the guesses. Raises BadInput.

    `prompt_column` may be several with commas between them, and reach into objects (`extra_info.question`).
    """
    if not table.main.rows:
        raise BadInput(
            f"the split {quote(table.main.name, 60)} of {quote(table.id)} holds no rows that could be read",
            fix="Give a file with one JSON object per line, or a table with a header.",
            code="no-rows",
        )
    chosen = choose(table, prompt_column, answer_column)
    answer = chosen.answer
    return Inspection(
        table=table,
        columns=tuple(chosen.columns),
        prompt=chosen.prompt,
        answer=answer,
        other_prompts=tuple(chosen.other_prompts),
        other_answers=tuple(chosen.other_answers),
        findings=tuple(_findings(table, request, chosen, repeats_of)),
        option_columns=chosen.options,
        index_base=answer.recognised.index_base if answer and answer.recognised.format == "choice_index" else None,
        labels=chosen.labels,
        any_of=answer.any_of if answer else None,
    )


# --- findings --------------------------------------------------------------------------------------------------------


def plain_rows(
    scanned: Scanned,
    prompt: Sequence[str],
    answer: str | None,
    format: str | None,
    options: Sequence[str] = (),
    index_base: int | None = None,
) -> Iterator[PlainRow]:
    """The rows of a split as tasks. With options, a gold that names one is given as that option's letter or index."""
    choice = format in _CHOICES
    columns = tuple(prompt)
    for index, row in scanned.rows:
        value = None if answer is None else row[answer] if answer in row else pluck(row, answer)
        asked = compose(row, columns)
        if not (options and choice):
            text = None if value is None else (format == "chat_messages" and replied(value)) or golds.as_text(value)
            yield PlainRow(asked, text, index, raw=value, offered=choice)
            continue
        texts, place = offered(row, options, answer, index_base)
        if place is not None:
            value = chr(ord("A") + place) if format == "choice_letter" else str(place + (index_base or 0))
        text = None if value is None else golds.as_text(value)
        yield PlainRow(asked, text, index, raw=value, offered=True, options=texts, gold_option=place)


def _findings(table: Table, request: Request, chosen: Chosen, repeats_of: RepeatsOf | None) -> Iterator[Finding]:
    yield from _source_findings(table, request)
    prompt, answer = chosen.prompt, chosen.answer
    format = answer.recognised.format if answer else None
    if prompt is None:
        yield _no_prompt(format)
        return
    if answer is None:
        yield Finding(
            "empty-gold",
            "blocker",
            "no column holds answers: none has a usual name, or those that do are empty.",
            "Name it with answer_column; a task without gold needs a judge or a check of its own.",
        )
        return
    yield from doubts(
        Choice(
            chosen.columns, table.main.rows, prompt, answer, chosen.options, chosen.labels,
            chosen.named_prompt, chosen.named_answer,
        )
    )  # fmt: skip
    known = (prompt.columns, answer.path, format, chosen.options, answer.recognised.index_base)
    yield from examine(
        plain_rows(table.main, *known),
        format=format,
        eval_rows=plain_rows(table.held, *known) if table.held else (),
        answered=format not in WITHOUT_GOLD,
        repeats=repeats_of(prompt.columns, answer.path) if repeats_of is not None else None,
        benchmark=table.id if table.origin == "hub" else None,
    )


def _no_prompt(format: str | None) -> Finding:
    if format == "procedural":
        return Finding(
            "no-prompt-column",
            "blocker",
            "the rows are the numbers of a puzzle and hold no question.",
            "Write the question from the numbers into a column of its own and name it with prompt_column; the reward "
            "must compute, not compare with the target.",
        )
    return Finding("no-prompt-column", "blocker", "no column looks like a prompt.", "Name it with prompt_column.")


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
    if table.origin == "hub" and request.revision is None:
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
