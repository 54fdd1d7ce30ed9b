"""Inspects a dataset: chooses its columns, recognises the answer format, checks its rows, and recommends a reward.

Columns that the caller names override the guesses. `recommend_reward` maps each answer format to a reward and a
template.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import TOKEN_ESTIMATE_METHOD, count, estimate_tokens, quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.column_choice import ChosenColumns, ColumnChoice, choose_columns, column_findings
from prime_lab_mcp.lab.datasets.columns import Column
from prime_lab_mcp.lab.datasets.findings import row_findings
from prime_lab_mcp.lab.datasets.formats import AnswerFormat
from prime_lab_mcp.lab.datasets.guesses import AnswerGuess, PromptGuess
from prime_lab_mcp.lab.datasets.options import options_of_row
from prime_lab_mcp.lab.datasets.row_values import compose_prompt, last_reply, value_at
from prime_lab_mcp.lab.datasets.scan import DatasetRequest, ScannedDataset, ScannedSplit
from prime_lab_mcp.lab.datasets.tasks import RepeatCounts, TaskRow
from prime_lab_mcp.lab.datasets.unclear_answers import (
    no_answer_column,
    no_checkable_answer,
    number_endings,
    with_number_remedy,
)

TEMPLATES: Mapping[str, str] = {
    "gsm8k_hash": "numeric",
    "numeric": "numeric",
    "boxed": "math",
    "latex_math": "math",
    "choice_letter": "choice",
    "choice_index": "choice",
    "class_id": "classification",
    "label": "classification",
    "boolean": "boolean",
    "short_text": "short_text",
    "multi_answer": "short_text",
    "json": "json",
    "tool_call": "tool_call",
    "code_tests": "code",
    "free_text": "free_text",
    "chat_messages": "free_text",
}
"""The template that create_environment uses for a format by default. Formats that are missing here have no template."""
NO_TEMPLATE = "none"
"""`RewardRecommendation.kind` if no template fits. `why` then says what to do instead."""

_RULES: Mapping[AnswerFormat, str] = {
    "gsm8k_hash": "Gold: take what follows the last ####, or the number that the last sentence states, strip commas, "
    "currency and unit. Compare it as a number with the number in the answer tags.",
    "numeric": "Gold: strip commas, currency, percent sign and unit. Compare it as a number, not as text, with the "
    "number in the answer tags; 75 equals 75.0.",
    "boxed": "Gold: the content of the last \\boxed{} whose braces balance. Compare it as mathematics with the "
    "reply's last \\boxed{}.",
    "latex_math": "Gold: the whole value, put into \\boxed{}. Compare it as mathematics (1/2 equals \\frac{1}{2}) "
    "with the reply's last \\boxed{}.",
    "choice_letter": "Gold: one letter (or the label the row gives its option). The reply gives one letter in the "
    "answer tags; case, brackets and full stop aside they must be the same.",
    "boolean": "Gold: true and yes are one answer, false and no the other. The reply says one word in the answer "
    "tags; guessing is right about half of the time.",
    "short_text": "Compare the text in the answer tags with the gold, case, articles and punctuation aside. No "
    "substring counts; expect right answers in other words to miss.",
    "json": "Parse the JSON in the answer tags and the gold; compare the values, order of keys aside, never the text.",
    "tool_call": "Parse the reply's calls; the names must be the same, and each argument equal to (or, where the "
    "gold lists several, one of) the gold's.",
    "code_tests": "Run the reply's last fenced code block with the row's tests, isolated and with a time limit; all "
    "must pass.",
    "free_text": "No rule can compare free text: a judge model reads question, gold and reply, with a pinned model "
    "and rubric.",
    "chat_messages": "Prompt: the turns before the last assistant turn, which is the gold. No rule can compare it: a "
    "judge model reads both.",
    "instruction_constraints": "There is no gold text: each id in instruction_id_list, with its kwargs, is a check "
    "of the reply. Create from the template free_text without a judge, write one function per id, and pay the "
    "share that holds.",
    "procedural": "There is no gold text: the columns are the numbers of a puzzle. Write the prompt from them in a "
    "taskset of your own, and check the reply by computing it (for Countdown: the expression uses each number at "
    "most once and equals the target); never compare with target, which stands in the prompt.",
}


@dataclass(frozen=True, slots=True)
class RewardRecommendation:
    """A recommended reward. `kind` is a template of create_environment, or `none`. `why` says how to compare golds."""

    kind: str
    why: str

    def as_json(self) -> dict[str, str]:
        return {"kind": self.kind, "why": self.why}


def recommend_reward(
    format: AnswerFormat, *, index_base: int | None = None, labels: int = 0, any_of: bool | None = None
) -> RewardRecommendation:
    """Return the recommended reward for a format. `labels` is the number of known class names."""
    rule = _RULES.get(format) or _depending(format, index_base, labels, any_of)
    kind = TEMPLATES.get(format, NO_TEMPLATE)
    template_note = (
        f" create_environment uses the template {kind}." if kind != NO_TEMPLATE else " No template fits as it is."
    )
    return RewardRecommendation(kind, rule + template_note)


def _depending(format: AnswerFormat, index_base: int | None, labels: int, any_of: bool | None) -> str:
    if format == "choice_index":
        gold = "the text or the mark of an option" if index_base is None else f"an index counted from {index_base}"
        return (
            f"Gold: {gold}, turned into the letter under which the option is shown (the first is A). The reply gives "
            "one letter in the answer tags."
        )
    if format == "class_id":
        names = f"one of {labels} names" if labels else "names you must give (labels)"
        return (
            f"Gold: an id, turned into {names}; -1 is no class and its row is left out. The reply gives the class's "
            "name in the answer tags, case aside."
        )
    if format == "label":
        return f"Gold: one of {labels} labels. The reply gives one of them in the answer tags, case and space aside."
    how = {
        True: "any one of the golds is right",
        False: "all of the golds must be given and nothing else",
        None: "it is not clear whether any one of the golds is right or all are wanted; any is assumed",
    }[any_of]
    return f"Gold: a list of texts; {how}. Compare texts in the answer tags, case, articles and punctuation aside."


RepeatsOf = Callable[[Sequence[str], str | None], RepeatCounts | None]
"""Counts repetitions over all rows, given the prompt columns and the answer column. None if there are no counts."""
JUDGED_FORMATS: frozenset[str] = frozenset({"free_text", "chat_messages"})
"""Formats whose golds only a judge model can compare with a completion."""
WITHOUT_GOLD: frozenset[str] = frozenset({"instruction_constraints", "procedural"})
"""Formats whose rows hold no gold: a reward computes from the row whether a completion is right."""
_STATE_NUMBERS: frozenset[str] = frozenset({"gsm8k_hash", "numeric", "boxed", "latex_math"})
"""Formats whose answers can end in the number that is the result."""
_CHOICES: frozenset[str] = frozenset({"choice_letter", "choice_index"})


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of inspecting a dataset. `prompt` and `answer` are the caller's columns or the best guesses, or None.

    `option_columns` are the columns with the options; empty if rows have no options, or have them in the prompt.
    `index_base` is the number of the first option; None if the golds are no option numbers. `labels` are the class
    names by id, or the distinct labels; empty if unknown. `any_of` says whether one of several golds is enough (True)
    or all are required (False); None if that is unclear, and for single golds.
    """

    table: ScannedDataset
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
    samples: tuple[Mapping[str, Any], ...] = ()
    """Whole rows as examples. Their texts are quoted and cut."""
    token_lengths: Mapping[str, Any] = field(default_factory=dict)
    """Percentiles of the estimated numbers of tokens of prompts and answers."""

    @property
    def format(self) -> AnswerFormat | None:
        return self.answer.recognised.format if self.answer else None

    @property
    def recommended(self) -> RewardRecommendation | None:
        """The recommended reward for the format of the answers; None without an answer column."""
        if self.format is None:
            return None
        return recommend_reward(self.format, index_base=self.index_base, labels=len(self.labels), any_of=self.any_of)

    def as_json(self) -> dict[str, Any]:
        """Return the inspection as the data of the tool's report."""
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
            "columns": [c.as_json(1 if len(self.columns) > _WIDE else 2) for c in self.columns[:20]],
            "prompt": _prompt_json(self.prompt, self.other_prompts),
            "answer": self._answer_json(),
            "recommended_reward": reward.as_json() if reward else None,
            "sample_rows": list(self.samples),
            "token_lengths": dict(self.token_lengths),
        }

    def _answer_json(self) -> dict[str, Any] | None:
        guess = self.answer
        if guess is None:
            return None
        recognised = guess.recognised
        data: dict[str, Any] = {
            "path": guess.path,
            "format": recognised.format,
            "confidence": guess.certainty,
            "counterexamples": _counterexamples(guess),
        }
        more = {
            "mixed": recognised.mixed,
            "rival": recognised.rival,
            "index_base": self.index_base,
            "also": dict(recognised.also),
            "any_of": self.any_of,
            "options": list(self.option_columns) if recognised.format in _CHOICES else [],
            "labels": [quote(label, 40)[1:-1] for label in self.labels[:30]],
            "others": [_other_json(o) for o in self.other_answers],
        }
        return data | {k: v for k, v in more.items() if v is not None and v is not False and v != [] and v != {}}


_SAMPLE_ROWS, _ROW_CHARACTERS, _VALUE_CHARACTERS, _SHORTEST = 3, 900, 300, 24
_WIDE = 10
"""If a table has more columns, the report has one sample row instead of three, and one example of each column."""


def sample_rows(rows: Sequence[tuple[int, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Return the first, the middle and the last row as examples. Long values are cut."""
    places = sorted({0, len(rows) // 2, len(rows) - 1} & set(range(len(rows))))[:_SAMPLE_ROWS]
    if rows and len(rows[0][1]) > _WIDE:
        places = places[:1]
    samples = []
    for place in places:
        index, row = rows[place]
        limit = max(_SHORTEST, min(_VALUE_CHARACTERS, _ROW_CHARACTERS // max(1, len(row))))
        cells = {quote(str(name), 60)[1:-1]: _cell(value, limit) for name, value in list(row.items())[:20]}
        samples.append({"row": index, "values": cells})
    return samples


def _cell(value: Any, limit: int) -> Any:
    """Return a number, boolean or None unchanged, and any other value as quoted text, cut after `limit` characters."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return quote(golds.gold_text(value), limit)


def _rows_without_options(scanned: ScannedSplit, columns: ChosenColumns) -> Iterator[TaskRow]:
    prompt, answer = columns.prompt, columns.answer
    format = answer.recognised.format if answer else None
    return task_rows(scanned, prompt.columns if prompt else (), answer.path if answer else None, format)


def _token_lengths(rows: Sequence[TaskRow], columns: ChosenColumns) -> dict[str, Any]:
    texts: dict[str, list[int]] = {"prompt": [], "answer": []}
    for row in rows:
        if columns.prompt is not None:
            texts["prompt"].append(estimate_tokens(row.prompt))
        if row.answer is not None:
            texts["answer"].append(estimate_tokens(row.answer))
    percentiles: dict[str, Any] = {name: _percentiles(counts) for name, counts in texts.items() if counts}
    return percentiles | ({"method": TOKEN_ESTIMATE_METHOD} if percentiles else {})


def _percentiles(counts: list[int]) -> dict[str, int]:
    ordered = sorted(counts)
    last = len(ordered) - 1
    return {"p50": ordered[last // 2], "p95": ordered[math.ceil(0.95 * last)], "max": ordered[last]}


def _counterexamples(guess: AnswerGuess, most: int = 5) -> list[dict[str, Any]]:
    against = guess.recognised.counterexamples[:most]
    return [{"row": row, "value": quote(golds.gold_text(value), 100)} for row, value in against]


def _other_json(guess: AnswerGuess) -> dict[str, Any]:
    data = {"path": guess.path, "format": guess.recognised.format, "confidence": guess.certainty}
    against = _counterexamples(guess, 1)
    return data | ({"counterexamples": against} if against else {})


def _prompt_json(guess: PromptGuess | None, others: Sequence[PromptGuess]) -> dict[str, Any] | None:
    if guess is None:
        return None
    data = {"columns": list(guess.columns), "confidence": guess.confidence, "why": guess.why}
    alternatives = [{"columns": list(o.columns), "confidence": o.confidence, "why": o.why} for o in others]
    return data | ({"others": alternatives} if alternatives else {})


def inspect_table(
    table: ScannedDataset,
    request: DatasetRequest,
    *,
    prompt_column: str | None = None,
    answer_column: str | None = None,
    repeats_of: RepeatsOf | None = None,
) -> Inspection:
    """Inspect rows that have been read. Columns that the caller names override the guesses. Raises BadInput.

    `prompt_column` may name several columns, separated by commas, and fields of objects (`extra_info.question`).
    """
    if not table.main.rows:
        raise BadInput(
            f"the split {quote(table.main.name, 60)} of {quote(table.id)} holds no rows that could be read",
            fix="Give a file with one JSON object per line, or a table with a header.",
            code="no-rows",
        )
    choice = choose_columns(table, prompt_column, answer_column)
    answer = choice.answer
    rows = list(_rows_without_options(table.main, choice))
    return Inspection(
        table=table,
        columns=tuple(choice.columns),
        prompt=choice.prompt,
        answer=answer,
        other_prompts=tuple(choice.other_prompts),
        other_answers=tuple(choice.other_answers),
        findings=tuple(_findings(table, request, choice, rows, repeats_of)),
        option_columns=choice.options,
        index_base=answer.recognised.index_base if answer and answer.recognised.format == "choice_index" else None,
        labels=choice.labels,
        any_of=answer.any_of if answer else None,
        samples=tuple(sample_rows(table.main.rows)),
        token_lengths=_token_lengths(rows, choice),
    )


# --- findings --------------------------------------------------------------------------------------------------------


def task_rows(
    scanned: ScannedSplit,
    prompt: Sequence[str],
    answer: str | None,
    format: str | None,
    options: Sequence[str] = (),
    index_base: int | None = None,
) -> Iterator[TaskRow]:
    """Yield the rows of a split as tasks. If rows have options, the gold becomes the letter or number of its option."""
    choice = format in _CHOICES
    columns = tuple(prompt)
    for index, row in scanned.rows:
        value = None if answer is None else row[answer] if answer in row else value_at(row, answer)
        prompt_text = compose_prompt(row, columns)
        if not (options and choice):
            text = (
                None if value is None else (format == "chat_messages" and last_reply(value)) or golds.gold_text(value)
            )
            yield TaskRow(prompt_text, text, index, raw=value, offered=choice)
            continue
        texts, place = options_of_row(row, options, answer, index_base)
        if place is not None:
            value = chr(ord("A") + place) if format == "choice_letter" else str(place + (index_base or 0))
        text = None if value is None else golds.gold_text(value)
        yield TaskRow(prompt_text, text, index, raw=value, offered=True, options=texts, gold_option=place)


def _findings(
    table: ScannedDataset,
    request: DatasetRequest,
    choice: ChosenColumns,
    rows: Sequence[TaskRow],
    repeats_of: RepeatsOf | None,
) -> Iterator[Finding]:
    """Yield the findings of a table. `rows` are those of the main split as tasks without options."""
    yield from _source_findings(table, request)
    prompt, answer = choice.prompt, choice.answer
    format = answer.recognised.format if answer else None
    if prompt is None:
        yield _no_prompt(format)
        return
    if answer is None:
        yield no_answer_column(choice.columns, table.main.rows, prompt.columns)
        return
    unclear = format in JUDGED_FORMATS or (answer.recognised.mixed and format in _STATE_NUMBERS)
    endings = number_endings(table.main.rows, answer.path) if unclear else None
    of_columns = column_findings(
        ColumnChoice(
            choice.columns,
            table.main.rows,
            prompt,
            answer,
            choice.options,
            choice.labels,
            choice.named_prompt,
            choice.named_answer,
            choice.other_answers,
        )
    )
    for finding in of_columns:
        yield with_number_remedy(finding, endings)
    if format in JUDGED_FORMATS and not answer.recognised.mixed and table.origin != "environment":
        yield no_checkable_answer(format or "", endings)
    arguments = (prompt.columns, answer.path, format, choice.options, answer.recognised.index_base)
    of_rows = row_findings(
        task_rows(table.main, *arguments) if choice.options and format in _CHOICES else rows,
        format=format,
        eval_rows=task_rows(table.held_out, *arguments) if table.held_out else (),
        answered=format not in WITHOUT_GOLD,
        repeats=repeats_of(prompt.columns, answer.path) if repeats_of is not None else None,
        benchmark=table.id if table.origin == "hub" else None,
    )
    for finding in of_rows:
        yield with_number_remedy(finding, endings)


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


def _source_findings(table: ScannedDataset, request: DatasetRequest) -> Iterator[Finding]:
    for scanned in (table.main, table.held_out):
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
