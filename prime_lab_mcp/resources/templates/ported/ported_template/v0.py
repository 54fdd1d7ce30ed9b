"""What the ported functions use of the v0 API, with the results that verifiers 0.1.14 gives. Imports no verifiers.

An older reward function gets messages, a parser and a state. The classes here are what it gets now.
"""

from __future__ import annotations

import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

Messages = Any
ChatMessage = Any
Info = dict
RewardFunc = Callable[..., Any]
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "assistant": ("role", "content", "reasoning_content", "thinking_blocks", "tool_calls"),
    "tool": ("role", "tool_call_id", "content"),
}


class Record(dict):
    """Fields that can be read as keys and as attributes.

    A dict, because verifiers had messages as dicts first and as objects later, and functions ask which they got.
    """

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return type(self) is type(other) and dict(self) == dict(other)
        return isinstance(other, Mapping) and self.model_dump() == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def model_dump(self) -> dict[str, Any]:
        return {name: _dumped(value) for name, value in self.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.items())})"


def _dumped(value: Any) -> Any:
    if isinstance(value, list):
        return [_dumped(item) for item in value]
    return value.model_dump() if isinstance(value, Record) else value


class ToolCall(Record):
    """A call of a tool: `id`, `name`, and `arguments` as JSON text."""


class SystemMessage(Record):
    """A message of the system."""


class UserMessage(Record):
    """A message of the user, or of the environment that plays the user."""


class AssistantMessage(Record):
    """A reply of the model."""


class ToolMessage(Record):
    """The result of a tool call."""


_KINDS = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage, "tool": ToolMessage}


def message(fields: Mapping[str, Any]) -> Record:
    """A message of the class of its role, from its fields. A reply without a text has the text "", as it had in v0."""
    role = str(fields.get("role", "user"))
    known: dict[str, Any] = dict.fromkeys(_FIELDS.get(role, ("role", "content")))
    if role == "assistant":
        known["content"] = ""  # v1 has None where the reply is empty, so that a function that splits a text would fail.
    found = {name: value for name, value in fields.items() if value is not None}
    if found.get("tool_calls"):
        found["tool_calls"] = [
            ToolCall(id=c["id"], name=c["name"], arguments=c["arguments"]) for c in found["tool_calls"]
        ]
    return _KINDS.get(role, UserMessage)(**{**known, **found})


class State(dict):
    """The state of a rollout."""


def _field(of: Any, name: str, default: Any = None) -> Any:
    return of.get(name, default) if isinstance(of, dict) else getattr(of, name, default)


def _text(content: Any) -> str:
    """The text of a message's content, which may be a list of parts."""
    if isinstance(content, str):
        return content
    parts = [_field(part, "text") for part in content] if isinstance(content, list) else []
    return " ".join(part for part in parts if isinstance(part, str)).strip()


def _same(text: str) -> str:
    return text


class Parser:
    """Takes the last reply as the answer."""

    def __init__(self, extract_fn: Callable[[str], Any] = _same) -> None:
        self.extract_fn = extract_fn

    def parse(self, text: str) -> Any:
        return self.extract_fn(text)

    def get_assistant_messages(self, completion: Sequence[Any]) -> list[Any]:
        return [m for m in completion if _field(m, "role") == "assistant"]

    def get_system_messages(self, completion: Sequence[Any]) -> list[Any]:
        return [m for m in completion if _field(m, "role") == "system"]

    def get_user_messages(self, completion: Sequence[Any]) -> list[Any]:
        return [m for m in completion if _field(m, "role") == "user"]

    def get_tool_messages(self, completion: Sequence[Any]) -> list[Any]:
        return [m for m in completion if _field(m, "role") == "tool"]

    def parse_answer(self, completion: Any) -> Any:
        if isinstance(completion, str):
            return self.parse(completion)
        replies = self.get_assistant_messages(completion)
        return self.parse(_text(_field(replies[-1], "content") or "")) if replies else None

    def get_format_reward_func(self) -> Callable[..., float]:
        def format_reward_func(completion: Any, **_: Any) -> float:
            return 1.0

        return format_reward_func


class MaybeThinkParser(Parser):
    """Takes what follows the last `</think>`, or the whole reply."""

    def parse(self, text: str) -> Any:
        return self.extract_fn(text.rpartition("</think>")[2].strip())


class ThinkParser(Parser):
    """Takes what follows the last `</think>`, and nothing where there is none."""

    def parse(self, text: str) -> Any:
        return self.extract_fn(text.rpartition("</think>")[2].strip() if "</think>" in text else "")

    def get_format_reward_func(self) -> Callable[..., float]:
        def format_reward_func(completion: Any, **_: Any) -> float:
            replies = [_text(_field(m, "content") or "") for m in self.get_assistant_messages(completion)]
            return sum(map(self._in_form, replies)) / len(replies) if replies else 0.0

        return format_reward_func

    def _in_form(self, reply: str) -> float:
        once = reply.count("<think>") == 1 and reply.count("</think>") == 1
        return float(once and reply.strip().startswith("<think>") and not reply.endswith("</think>"))


class XMLParser(Parser):
    """Reads tags. A field may have several names, of which the first is used to write it."""

    def __init__(
        self,
        fields: Sequence[str | tuple[str, ...]],
        answer_field: str = "answer",
        extract_fn: Callable[[str], Any] = _same,
    ) -> None:
        super().__init__(extract_fn)
        self.answer_field = answer_field
        self._fields = [(f, [f]) if isinstance(f, str) else (f[0], list(f)) for f in fields]

    def parse(self, text: str, strip: bool = True, last: bool = False) -> Any:
        """The content of the first tag of each name, or of the last; None where there is none."""
        found: dict[str, str | None] = {}
        for _, names in self._fields:
            for name in names:
                contents = re.findall(rf"<{name}>\s*(.*?)\s*</{name}>", text, re.DOTALL)
                content = contents[-1 if last else 0] if contents else None
                found[name] = content.strip() if content is not None and strip else content
        return SimpleNamespace(**found)

    def parse_answer(self, completion: Any) -> Any:
        """The answer of the last reply that has one."""
        if isinstance(completion, str):
            return getattr(self.parse(completion, last=True), self.answer_field, None)
        for reply in reversed(self.get_assistant_messages(completion)):
            answer = getattr(self.parse(_text(_field(reply, "content") or "")), self.answer_field, None)
            if answer is not None:
                return answer
        return None

    def get_fields(self) -> list[str]:
        return [name for name, _ in self._fields]

    def get_format_str(self) -> str:
        shown = [names[0] if len(names) == 1 else f"[ {' | '.join(names)} ]" for _, names in self._fields]
        return "\n".join(f"<{name}>\n...\n</{name}>" for name in shown)

    def format(self, **values: Any) -> str:
        written = []
        for first, names in self._fields:
            value = next((values[n] for n in (first, *names) if values.get(n) is not None), None)
            if value is None:
                raise ValueError(f"no value for the field {first!r}")
            written.append(f"<{first}>\n{value}\n</{first}>")
        return "\n".join(written)

    def get_format_reward_func(self) -> Callable[..., float]:
        """The mean over the replies of what each earns for its form: 0.2 always, 0.4 for the share of fields that are
        there if one is closed, 0.2 for beginning with the first field, 0.2 for ending with the last.
        """

        def format_reward_func(completion: Any) -> float:
            replies = [_text(_field(m, "content") or "") for m in self.get_assistant_messages(completion)]
            return sum(map(self._form, replies)) / len(replies) if replies else 0.0

        return format_reward_func

    def _form(self, reply: str) -> float:
        found = self.parse(reply)
        score = 0.0
        if any(getattr(found, name) is not None for _, names in self._fields for name in names):
            there = [
                any(getattr(found, n) is not None or f"<{n}>" in reply or f"</{n}>" in reply for n in names)
                for _, names in self._fields
            ]
            score += 0.4 * (sum(there) / len(there))
        score += 0.2
        if any(reply.strip().startswith(f"<{name}>") for name in self._fields[0][1]):
            score += 0.2
        if any(reply.strip().endswith(f"</{name}>") for name in self._fields[-1][1]):
            score += 0.2
        return score


def extract_boxed_answer(text: str, strict: bool = False) -> str:
    r"""The content of the last `\boxed{}`; without one the text, or nothing if `strict`."""
    start = text.rfind("\\boxed{")
    depth = 0
    for end in range(start + 6, len(text)) if start >= 0 else ():
        depth += (text[end] == "{") - (text[end] == "}")
        if not depth:
            return text[start + 7 : end]
    return "" if strict else text


def extract_hash_answer(text: str) -> str:
    """What follows the first `####`, up to the next; the text where there is none."""
    parts = text.split("####")
    return parts[1].strip() if len(parts) > 1 else text


def strip_non_numeric(text: str) -> str:
    """The digits and full stops of a text."""
    return "".join(c for c in text if c.isdigit() or c == ".")


def stop(function: Any = None, priority: int = 0) -> Any:
    """Mark a method of a game as a condition that ends it."""

    def marked(method: Any) -> Any:
        method.stop_priority = priority
        return method

    return marked if function is None else marked(function)


def cleanup(function: Any = None, priority: int = 0, **_: Any) -> Any:
    """Mark a method that older rollouts called at their end. Nothing calls it here."""
    return function if function is not None else lambda method: method


teardown = cleanup


async def awaited(value: Any) -> Any:
    """The value, or the result of what can be awaited."""
    return await value if isinstance(value, Awaitable) else value


async def earned(function: Callable[..., Any], objects: Mapping[str, Any]) -> float:
    """What a reward function gives for the objects that its parameters name. As in v0, an exception counts as 0.

    The exception is logged, because a function that raises where the older one does not is an error of the port.
    """
    parameters = inspect.signature(function).parameters
    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        objects = {name: value for name, value in objects.items() if name in parameters}
    try:
        return float(await awaited(function(**objects)))
    except Exception:
        logging.getLogger(__name__).debug("%s raised", function.__name__, exc_info=True)
        return 0.0
