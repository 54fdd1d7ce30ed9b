"""Counts the rows that do not go into a new environment, tells the reasons apart, and says for each what would do."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.datasets.row_values import compose_prompt, value_at
from prime_lab_mcp.lab.datasets.tasks import EXAMPLE_ROWS

DropReason: TypeAlias = Literal["no-question", "no-answer", "unreadable", "conflicting", "repeated", "leaked"]
_REASONS: tuple[DropReason, ...] = get_args(DropReason)
_UNREAD: frozenset[DropReason] = frozenset({"no-question", "no-answer", "unreadable"})
_MOST_UNREADABLE = 0.5
"""Share of unreadable rows above which the template does not fit, so that no environment is made."""
_MANY = 0.25
"""Share of rows left out from which the summary says so. Four kinds of problems in a file are a usual number, and one
kind that is lost as a whole changes what is trained."""
_WHICH: Mapping[DropReason, str] = {
    "no-question": "without a question",
    "no-answer": "without an answer",
    "conflicting": "asking the same and answering differently",
    "repeated": "repeating a question",
    "leaked": "of the training split that are held out too",
}
_REMEDIES: Mapping[DropReason, str] = {
    "no-question": "Fill in the questions, or name their column with prompt_column.",
    "no-answer": "Fill in the answers, or name their column with answer_column.",
    "conflicting": "Keep the right answer of each question.",
}
_UNREADABLE: Mapping[str, tuple[str, str]] = {
    "numeric": (
        "whose answer cannot be read as a number",
        "Where the number stands within a longer text, a column of these numbers alone would do, named as "
        "answer_column.",
    ),
    "boxed": (
        "whose solution holds no answer in a \\boxed{}",
        "Proofs and solutions that break off have no answer to compare with: nothing to do for these.",
    ),
    "choice": ("whose answer names none of their options", "Correct these answers."),
    "classification": ("whose answer is none of the classes", "Name all classes with labels, or correct the answers."),
    "boolean": ("whose answer is neither yes nor no", "Correct these answers, or name another template."),
}
"""Which rows a template cannot read although they have an answer, and what would do. `boxed` is `math` for
solutions."""
_SHORT = 20
"""Longest quoted answer, in characters, that counts as short (our choice)."""
_SHOWN = 120
"""Most characters of a question or an answer in an example."""


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Where a raw row has its question and its answer."""

    prompt: tuple[str, ...] = ("question",)
    answer: str = "answer"

    def reason(self, raw: Mapping[str, Any]) -> DropReason:
        """Why a template could not read the row."""
        if not compose_prompt(raw, self.prompt).strip():
            return "no-question"
        return "no-answer" if self.answer and golds.is_empty(value_at(raw, self.answer)) else "unreadable"

    def shown(self, raw: Mapping[str, Any]) -> dict[str, str]:
        """The start of the question, and the end of the answer, where a worked solution has its result."""
        answer = value_at(raw, self.answer) if self.answer else None
        text = "" if answer is None else golds.gold_text(answer).strip()
        shown = {"question": quote(compose_prompt(raw, self.prompt), _SHOWN)}
        if not text:
            return shown
        return shown | ({"answer": quote(text)} if len(text) <= _SHOWN else {"answer_ends": quote(text[-_SHOWN:])})


@dataclass(slots=True)
class DroppedRows:
    """Rows that were left out, by reason, with the first few of each as examples. `template` is the kind that reads
    the answers; solutions of which only a box is read are `boxed`."""

    template: str = ""
    columns: RowColumns = field(default_factory=RowColumns)
    of: int = 0
    counts: dict[DropReason, int] = field(default_factory=dict)
    examples: dict[DropReason, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, reason: DropReason, index: int, raw: Mapping[str, Any]) -> None:
        """Count a row. `index` is the row's number in its split."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        examples = self.examples.setdefault(reason, [])
        if len(examples) < EXAMPLE_ROWS:
            examples.append({"row": index, "left_out": self._which(reason), **self.columns.shown(raw)})

    def number(self, reason: DropReason) -> int:
        return self.counts.get(reason, 0)

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def unread(self) -> int:
        """Number of the rows that the template cannot read, for whatever reason."""
        return sum(n for reason, n in self.counts.items() if reason in _UNREAD)

    @property
    def hopeless(self) -> bool:
        return self.unread > _MOST_UNREADABLE * self.of

    def summary(self) -> str:
        """A sentence for a summary if a quarter of the rows or more was left out; otherwise empty."""
        if not self.total or self.total < _MANY * self.of:
            return ""
        return f" {self.total:,} of {count(self.of, 'row')} ({self.total / self.of:.0%}) were left out: {self._list()}."

    def findings(self) -> Iterator[Finding]:
        reader = f"the template {self.template}" if self.template not in ("", "boxed") else "the template"
        if self.hopeless:
            yield Finding(
                "rows-do-not-fit",
                "blocker",
                f"{reader} cannot read {self.unread:,} of {count(self.of, 'row')}: {self._list(_UNREAD)}.",
                Fix(
                    "Name the columns (prompt_column, answer_column) or another template; ",
                    NamedCall("inspect_dataset"),
                    " shows what fits. Where the answers are numbers within longer texts, a column of these numbers "
                    "alone would do.",
                ),
                rows=self._rows(_UNREAD),
            )
        elif self.total:
            remedies = [text for reason in self._reasons() if (text := self._remedy(reason))]
            again = "Then create the environment again under another name."
            yield Finding(
                "rows-left-out",
                "warning",
                f"{count(self.total, 'row')} of the dataset did not go into the environment: {self._list()}."
                f"{self._unread_answers()}",
                " ".join((*remedies, again)) if remedies else "Nothing to do: the rest holds each question once.",
                rows=self._rows(),
            )

    def _reasons(self, among: Collection[DropReason] = _REASONS) -> list[DropReason]:
        return [reason for reason in _REASONS if reason in among and self.number(reason)]

    def _which(self, reason: DropReason) -> str:
        if reason != "unreadable":
            return _WHICH[reason]
        return _UNREADABLE[self.template][0] if self.template in _UNREADABLE else "whose answer has another form"

    def _remedy(self, reason: DropReason) -> str:
        if reason != "unreadable":
            return _REMEDIES.get(reason, "")
        other = "Bring these answers into the form of the others, or name another template."
        if self.template == "numeric" and self._short_answers():
            return "Correct these answers where one number is meant; others have none, and stay out."
        return _UNREADABLE[self.template][1] if self.template in _UNREADABLE else other

    def _short_answers(self) -> bool:
        """Whether all shown answers are too short to be texts that contain a number."""
        shown = [example.get("answer") for example in self.examples.get("unreadable", ())]
        return bool(shown) and all(answer is not None and len(answer) <= _SHORT for answer in shown)

    def _list(self, among: Collection[DropReason] = _REASONS) -> str:
        return ", ".join(f"{self.number(reason):,} {self._which(reason)}" for reason in self._reasons(among))

    def _unread_answers(self) -> str:
        """A sentence with the first answers that the template cannot read, if they are short."""
        if not self._short_answers():
            return ""
        shown = ", ".join(f"{example['answer']} in row {example['row']}" for example in self.examples["unreadable"])
        more = " and others" if self.number("unreadable") > len(self.examples["unreadable"]) else ""
        return f" Not read: {shown}{more}."

    def _rows(self, among: Collection[DropReason] = _REASONS) -> tuple[dict[str, Any], ...]:
        return tuple(example for reason in self._reasons(among) for example in self.examples[reason])
