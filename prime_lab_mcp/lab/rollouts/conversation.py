"""Extracts the conversation, the task's fields and the reference answer from a rollout of any layout, and decides
whether a reply states the reference answer.

The functions parse `Rollout.record` only when they are called, so that reading a million rewards needs no parsing.
Rollouts of `read_scores` have no record and give empty results. All text is foreign.

`gold_mention` ranks the rollouts that a person reads first, so it decides only in clear cases: a reference answer that
is not a short text gives UNKNOWN. Numbers are compared by value and must not be part of a longer number or word. Text
is compared without case, punctuation and spacing. Many texts contain a reference answer of one or two characters, such
as `B` or `1`, by chance: such a mention is evidence only in the last answer tag, box or line (`is_distinctive`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets import golds
from prime_lab_mcp.lab.rollouts.layouts import text_of
from prime_lab_mcp.lab.rollouts.rollout import Rollout


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call as the model wrote it. `arguments` is the raw text, which may be invalid JSON."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation, in the same form for every layout."""

    role: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""
    """The id of the tool call that a tool message responds to; empty for other messages."""

    def as_chat_message(self) -> dict[str, Any]:
        """Return the message in OpenAI's chat format, with `reasoning_content` if the model stated its reasoning."""
        fields: dict[str, Any] = {"role": self.role, "content": self.text}
        if self.reasoning:
            fields["reasoning_content"] = self.reasoning
        if self.calls:
            fields["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.calls
            ]
        if self.answers:
            fields["tool_call_id"] = self.answers
        return fields


def conversation(rollout: Rollout) -> list[Message]:
    """Return every message in order: prompt, replies, tool calls and tool results."""
    record = rollout.record
    if "nodes" in record:
        messages: Iterator[Any] = (n.get("message") for n in record.get("nodes") or [] if isinstance(n, Mapping))
    else:
        prompt = record.get("prompt") or record.get("input")
        completion = record.get("completion") or record.get("output")
        messages = iter([*_messages(prompt, "user"), *_messages(completion, "assistant")])
    return [_message(m) for m in messages if isinstance(m, Mapping)]


def replies(rollout: Rollout) -> list[Message]:
    """Return the messages that the model wrote, in order. Assistant messages that belong to the prompt are left out."""
    record = rollout.record
    if "nodes" in record:
        nodes = (n for n in record.get("nodes") or [] if isinstance(n, Mapping) and n.get("sampled"))
        written: list[Any] = [node.get("message") for node in nodes]
    else:
        written = _messages(record.get("completion") or record.get("output"), "assistant")
    return [m for m in (_message(raw) for raw in written if isinstance(raw, Mapping)) if m.role == "assistant"]


def last_reply(rollout: Rollout) -> str:
    """Return the text of the last message that the model wrote, or the stored completion where there is none."""
    written = replies(rollout)
    return written[-1].text if written else rollout.completion_text


def offered_tools(rollout: Rollout) -> dict[str, Mapping[str, Any]]:
    """Map the name of every tool that the model was offered to the schema of its parameters."""
    parameters = {str(tool["name"]): tool.get("parameters") for tool in _offered(rollout)}
    return {name: schema if isinstance(schema, Mapping) else {} for name, schema in parameters.items()}


def offered_descriptions(rollout: Rollout) -> dict[str, str]:
    """Map the name of every tool that the model was offered to its description."""
    return {str(tool["name"]): str(tool.get("description") or "") for tool in _offered(rollout)}


def _offered(rollout: Rollout) -> Iterator[Mapping[str, Any]]:
    record = rollout.record
    tools = record.get("tools") or record.get("tool_defs") or []
    for tool in tools if isinstance(tools, Sequence) else ():
        if isinstance(tool, Mapping):
            inner = tool.get("function") if isinstance(tool.get("function"), Mapping) else tool
            if isinstance(inner, Mapping) and inner.get("name"):
                yield inner


def task_data(rollout: Rollout) -> Mapping[str, Any]:
    """Return the fields of the task.

    They are the task's data without the fields that every task has (v1), or `info`, `answer`, `task` and `example_id`
    (v0 rows and platform samples).
    """
    record = rollout.record
    task = record.get("task")
    if isinstance(task, Mapping) and isinstance(task.get("data"), Mapping):
        return {k: v for k, v in task["data"].items() if k not in _COMMON_TASK_FIELDS}
    info = record.get("info")
    if isinstance(info, str):
        info = _parsed(info)
    fields = {k: record[k] for k in _ROW_FIELDS if record.get(k) is not None}
    return {**(info if isinstance(info, Mapping) else {}), **fields}


def gold(rollout: Rollout) -> str | None:
    """Return the reference answer as text, if a field of the task has one of the names in `_GOLD_FIELDS`."""
    return gold_of(task_data(rollout))


def gold_of(data: Mapping[str, Any]) -> str | None:
    """Return the reference answer among the fields of a task as text, as `gold` does for a rollout."""
    for name in _GOLD_FIELDS:
        value = data.get(name)
        if isinstance(value, bool | int | float | str):
            return str(value)
    return None


_QUESTION_START = 60
"""Length of the question's start in `task_name`, in characters."""


def task_row(rollout: Rollout) -> int | None:
    """Return the row of the task in its split: `idx` of a v1 task, `example_id` of a v0 row."""
    record = rollout.record
    task = record.get("task")
    data = task.get("data") if isinstance(task, Mapping) else None
    row = data.get("idx") if isinstance(data, Mapping) else record.get("example_id")
    return row if isinstance(row, int) and not isinstance(row, bool) else None


def task_name(rollout: Rollout) -> dict[str, str]:
    """Return the fields that name a task in a list.

    `task` is the row, or the key if the layout stores no row. `asked` is the start of the question, if there is one.
    """
    row = task_row(rollout)
    name = {"task": rollout.task[:16] if row is None else f"row {row}"}
    asked = next((m.text for m in conversation(rollout) if m.role == "user" and m.text), "")
    return name | ({"asked": quote(asked, _QUESTION_START)} if asked else {})


def task_names(rollouts: Iterable[Rollout], keys: Collection[str]) -> dict[str, dict[str, str]]:
    """Map the keys of tasks to the result of `task_name`. Reading stops when all tasks were found."""
    missing, names = set(keys), {key: {"task": key[:16]} for key in keys}
    for rollout in rollouts if missing else ():
        if rollout.task in missing:
            names[rollout.task] = task_name(rollout)
            missing.discard(rollout.task)
            if not missing:
                break
    return names


_COMMON_TASK_FIELDS = frozenset(
    {
        "idx",
        "prompt",
        "system_prompt",
        "skills",
        "network_allow",
        "network_block",
        "artifacts",
        "artifact_max_bytes",
        "timeout",
        "resources",
        "image",
        "workdir",
    }
)
"""Fields that the data of every task has (`vf.TaskData` of verifiers 0.4.0)."""
_ROW_FIELDS = ("answer", "task", "example_id")
_GOLD_FIELDS = ("answer", "gold", "target", "label", "expected", "ground_truth", "solution", "correct_answer")


def _messages(value: Any, role: str) -> list[Any]:
    if isinstance(value, str):
        return [{"role": role, "content": value}]
    return list(value) if isinstance(value, list) else []


def _message(raw: Mapping[str, Any]) -> Message:
    """Parse a message in the form of the OpenAI API."""
    calls = raw.get("tool_calls") or ()
    return Message(
        role=str(raw.get("role") or "?"),
        text=text_of(raw.get("content")),
        reasoning=text_of(raw.get("reasoning_content") or raw.get("reasoning")),
        calls=tuple(_call(c) for c in calls if isinstance(c, Mapping | str)) if isinstance(calls, Sequence) else (),
        answers=str(raw.get("tool_call_id") or ""),
    )


def _call(raw: Mapping[str, Any] | str) -> ToolCall:
    """Parse a tool call. A call without a name or arguments gets empty ones."""
    # verifiers 0.1 saves each call as a string of JSON.
    if isinstance(raw, str):
        parsed = _parsed(raw)
        if not isinstance(parsed, Mapping):
            return ToolCall("", raw)
        raw = parsed
    inner = raw.get("function") if isinstance(raw.get("function"), Mapping) else raw
    assert isinstance(inner, Mapping)
    arguments = inner.get("arguments")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
    return ToolCall(str(inner.get("name") or ""), text, str(raw.get("id") or ""))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


_LONGEST = 120
"""Longest reference answer that is searched for, in characters. A longer one is prose, a program or a proof, which no
reply repeats word for word."""
_SHORT = 2
"""Length up to which many texts contain a reference answer by chance, in characters."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_OVER = re.compile(r"/\s*\d")
_FRACTION = re.compile(r"(-?)\s*(?:\\[dt]?frac\s*\{?(\d{1,9})\}?\s*\{?(\d{1,9})\}?|(\d{1,9})\s*/\s*(\d{1,9}))")
_TAGS = re.compile(r"<(answer|final_answer|final)>(.*?)</\1>", re.S | re.I)
_LATEX = re.compile(r"\\(?:left|right|displaystyle|[,!;: ])|[${}\s]|\\(?=[%$])")
_UPRIGHT = re.compile(r"\\(?:text|mathrm|textrm|mbox|operatorname|rm)\s*\{([^{}]*)\}")
_TYPESET = re.compile(r"\$|\\[,;:!() ]|~|\\(?:text|mathrm|textrm|mbox|operatorname|rm)\b")
_WORDS = re.compile(r"\W+")


class GoldMention(IntEnum):
    """Whether and where a reply states the reference answer."""

    UNKNOWN = 0
    """There is no reference answer, or none that can be searched for."""
    ABSENT = 1
    MENTIONED = 2
    """The reply contains the reference answer, but not as its final answer."""
    ANSWERED = 3
    """The reference answer is the reply's final answer (`answer_place`)."""


@dataclass(frozen=True, slots=True)
class SearchedGold:
    """A reference answer, prepared for the search: as text, number, normalised words and LaTeX without layout."""

    text: str
    number: Decimal | None
    words: str
    latex: str

    @property
    def short(self) -> bool:
        """Whether the reference answer is so short that many texts contain it by chance."""
        return len(self.text) <= _SHORT


def searched_gold(stated: str | None) -> SearchedGold | None:
    """Prepare a stored reference answer for the search. None if its final answer (`golds.final_answer`) is not a short
    text."""
    if stated is None or golds.is_empty(stated):
        return None
    text = golds.final_answer(stated).strip()
    if not text or len(text) > _LONGEST or "\n" in text or text[0] in "[{":
        return None
    words = _words(text)
    return SearchedGold(text, _value(text), words, _latex(text)) if words or _latex(text) else None


def gold_mention(gold: SearchedGold | None, reply: str) -> GoldMention:
    """Return whether and where `reply` states the reference answer."""
    if gold is None:
        return GoldMention.UNKNOWN
    if _holds(gold, answer_place(reply)):
        return GoldMention.ANSWERED
    return GoldMention.MENTIONED if _holds(gold, reply) else GoldMention.ABSENT


def is_distinctive(gold: SearchedGold | None) -> bool:
    """Whether a mention anywhere in a reply is evidence: the reference answer has more than two characters."""
    return gold is not None and not gold.short


def answer_place(reply: str) -> str:
    """Return the final answer of a reply.

    It is the content of the last answer tag, else of the last box, else the text after ####, else the last line that is
    not blank.
    """
    tags = _TAGS.findall(reply)
    if tags:
        return str(tags[-1][1]).strip()
    box = golds.boxed_content(reply)
    if box:
        return box
    return golds.after_hash(reply) or next((x.strip() for x in reversed(reply.splitlines()) if x.strip()), "")


def _holds(gold: SearchedGold, text: str) -> bool:
    """Whether a text contains the reference answer: as a number, as words or as a formula."""
    if gold.number is not None:
        return _states(gold.number, text)
    if gold.words and f" {gold.words} " in f" {_words(text)} ":
        return True
    # Formulas have few words, so they are compared without spacing and without layout commands.
    return len(gold.latex) > _SHORT and bool(re.search(r"[\\^_=+*/]", gold.text)) and gold.latex in _latex(text)


def _value(text: str) -> Decimal | None:
    fraction = _FRACTION.fullmatch(text.strip("$ "))
    if fraction:
        return _quotient(fraction)
    number = golds.number_in(text)
    return golds.number_in(_without_typesetting(text)) if number is None and _TYPESET.search(text) else number


def _without_typesetting(text: str) -> str:
    r"""Return a text without math delimiters, spacing and text commands: `12 km` for `$12\\,\\text{km}$`."""
    return " ".join(_TYPESET.sub(" ", _UPRIGHT.sub(r" \1 ", text)).split())


def _states(number: Decimal, text: str) -> bool:
    """Whether a text states a number: `1200` in "costs $1,200.00" and not in "12000", "a1200" or "-1200"."""
    # A whole number is rarely written as a fraction; fractions of that value are intermediate steps.
    broken = number != int(number) and ("frac" in text or _OVER.search(text) is not None)
    if broken and any(_quotient(fraction) == number for fraction in _FRACTION.finditer(text)):
        return True
    if "," in text:
        text = _THOUSANDS.sub("", text)
    digits = golds.canonical_number(abs(number))
    key = digits.removeprefix("0") if "." in digits else digits
    place = text.find(key)
    while place >= 0:
        if _ends_after(text, place + len(key), "." in key) and _begins_at(text, place, negative=number < 0):
            return True
        place = text.find(key, place + 1)
    return False


def _begins_at(text: str, place: int, *, negative: bool) -> bool:
    """Whether a number with this sign begins at `place`, and not inside a longer number or word."""
    while place and text[place - 1] == "0":
        place -= 1
    before = text[place - 1] if place else " "
    if before in "-\u2212" and not (place > 1 and text[place - 2].isalnum()):
        return negative
    return not negative and not (before.isalnum() or before in "._")


def _ends_after(text: str, place: int, fraction: bool) -> bool:
    """Whether a number ends before `place`, apart from zeros after its decimal point."""
    if not fraction and text[place : place + 1] == "." and text[place + 1 : place + 2].isdigit():
        fraction, place = True, place + 1
    while fraction and text[place : place + 1] == "0":
        place += 1
    return not text[place : place + 1].isdigit()


def _quotient(match: re.Match[str]) -> Decimal | None:
    """Return the value of a fraction that `_FRACTION` matched; None if the denominator is 0."""
    sign, over, under, slash_over, slash_under = match.groups()
    below = Decimal(under or slash_under)
    value = Decimal(over or slash_over) / below if below else None
    return -value if value is not None and sign else value


def _words(text: str) -> str:
    return _WORDS.sub(" ", golds.normalised_text(text)).strip()


def _latex(text: str) -> str:
    return _LATEX.sub("", text).replace("\\dfrac", "\\frac").replace("\\tfrac", "\\frac").casefold()
