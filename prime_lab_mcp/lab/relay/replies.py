"""Extracts the replies of a model, plain or streamed, and computes fingerprints of requests and replies.

The results of an evaluation come from a program that runs the evaluated code. The relay sees every reply before that
program does. A text in the results that was in no reply was therefore not written by the model.

Honest programs change a reply on its way into the results: they drop or separate the thought (`<think>`), strip
whitespace, append the stop string again, or join the reply to a text that the request began for the model. A reply has
a fingerprint for each of these forms. A request has one for the text of each of its messages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_THOUGHT_ENDS = re.compile(r"</think(?:ing)?>")
_THOUGHT_BEGINS = re.compile(r"<think(?:ing)?>")
_REASONING = ("reasoning", "reasoning_content")
_MOST_STOPS = 8
_INPUT_KEYS = ("instructions", "messages", "prompt", "input")
"""Keys of a request with the input of the model. Each endpoint ignores the keys of the others, so all are read."""
_FIRST_MESSAGES, _LAST_MESSAGES = 8, 56

Call = tuple[str, str]
"""Name and arguments of a tool call. The arguments are the text that the model wrote."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply of a model."""

    text: str
    reasoning: str = ""
    calls: tuple[Call, ...] = ()


def text_fingerprint(text: str) -> str:
    """The fingerprint of a text without its thought and without regard to whitespace.

    A text that consists only of a thought counts as a whole.
    """
    return _digest("text", " ".join((_without_thought(text) or text).split()))


def calls_fingerprint(calls: Iterable[Call]) -> str:
    """The fingerprint of tool calls, without regard to the formatting of their JSON arguments."""
    return _digest("calls", json.dumps([(name, _canonical(arguments)) for name, arguments in calls]))


def reply_fingerprints(reply: ModelReply, request: Mapping[str, Any]) -> tuple[str, ...]:
    """The fingerprints of every form in which honest programs store a reply to `request`."""
    texts = [reply.text, *_with_stops(reply.text, request), _assistant_prefix(request) + reply.text]
    if reply.reasoning:
        texts.append(f"{reply.reasoning} {reply.text}")
    fingerprints = [text_fingerprint(text) for text in texts if text.strip()]
    if reply.calls:
        fingerprints.append(calls_fingerprint(reply.calls))
    return tuple(dict.fromkeys(fingerprints))


class NotedReply(NamedTuple):
    """The fingerprints of all forms of a reply, and of the messages of its request.

    `request_messages` is None if the request contains other parts than text, such as pictures. Results do not store
    such parts unchanged.
    """

    forms: tuple[str, ...]
    request_messages: tuple[str, ...] | None


def message_fingerprint(text: str) -> str:
    """The fingerprint of a message of a request. It is short, because a request has many messages."""
    return text_fingerprint(text)[:16]


def request_fingerprints(request: Mapping[str, Any]) -> tuple[str, ...] | None:
    """The fingerprints of the texts of a request's messages. For a very long request, only the first and last
    messages."""
    parts = [request[key] for key in _INPUT_KEYS if request.get(key) is not None]
    texts = []
    for message in [m for part in parts for m in (part if isinstance(part, list) else [part])]:
        content = message.get("content", message.get("output")) if isinstance(message, Mapping) else message
        if content is not None and not _is_text(content):
            return None
        texts.append(_text(content))
    fingerprints = [message_fingerprint(text) for text in texts if text.strip()]
    if len(fingerprints) > _FIRST_MESSAGES + _LAST_MESSAGES:
        fingerprints = [*fingerprints[:_FIRST_MESSAGES], *fingerprints[-_LAST_MESSAGES:]]
    return tuple(fingerprints)


def _is_text(content: Any) -> bool:
    if isinstance(content, list):
        return all(isinstance(part, Mapping) and isinstance(part.get("text"), str) for part in content)
    return isinstance(content, str)


def replies_in(answer: Mapping[str, Any]) -> list[ModelReply]:
    """The replies in an answer to `chat/completions`, `completions` or `responses`."""
    if isinstance(answer.get("output"), list):
        return [_reply_of_items(answer["output"])]
    choices = answer.get("choices")
    return [_reply_of_choice(c) for c in choices if isinstance(c, Mapping)] if isinstance(choices, list) else []


@dataclass(slots=True)
class _Choice:
    text: str = ""
    reasoning: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)


class StreamedReplies:
    """Collects the replies of one stream from its events."""

    def __init__(self) -> None:
        self._choices: dict[Any, _Choice] = {}
        self._whole: list[ModelReply] = []

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event, as decoded JSON."""
        if isinstance(event.get("response"), Mapping) and event.get("type") == "response.completed":
            self._whole += replies_in(event["response"])
        choices = event.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                self._add_to(self._choices.setdefault(choice.get("index"), _Choice()), choice)

    @staticmethod
    def _add_to(collected: _Choice, choice: Mapping[str, Any]) -> None:
        delta = choice.get("delta")
        part = _reply_of_message(delta) if isinstance(delta, Mapping) else ModelReply(_text(choice.get("text")))
        collected.text += part.text
        collected.reasoning += part.reasoning
        calls = delta.get("tool_calls") if isinstance(delta, Mapping) else None
        for raw in calls if isinstance(calls, list) else ():
            if isinstance(raw, Mapping):
                call = collected.calls.setdefault(raw.get("index") or 0, ["", ""])
                name, arguments = _call(raw)
                call[0] += name
                call[1] += arguments

    def replies(self) -> list[ModelReply]:
        """The replies so far."""
        collected = [
            ModelReply(c.text, c.reasoning, tuple((name, arguments) for name, arguments in c.calls.values()))
            for c in self._choices.values()
        ]
        return [*self._whole, *collected]


def _digest(kind: str, text: str) -> str:
    return hashlib.sha256(f"{kind}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _without_thought(text: str) -> str:
    spoken = _THOUGHT_ENDS.split(_THOUGHT.sub(" ", text))[-1]  # a prompt may have opened the thought
    return _THOUGHT_BEGINS.split(spoken)[0].strip()


def _canonical(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return " ".join(arguments.split())


def _with_stops(text: str, request: Mapping[str, Any]) -> Iterator[str]:
    stops = request.get("stop")
    for stop in [stops] if isinstance(stops, str) else stops[:_MOST_STOPS] if isinstance(stops, list) else ():
        if isinstance(stop, str):
            yield text + stop


def _assistant_prefix(request: Mapping[str, Any]) -> str:
    """The beginning of the reply that the request contains: the text of a last message of the assistant."""
    messages = request.get("messages")
    last = messages[-1] if isinstance(messages, list) and messages else None
    return _text(last.get("content")) if isinstance(last, Mapping) and last.get("role") == "assistant" else ""


def _reply_of_choice(choice: Mapping[str, Any]) -> ModelReply:
    message = choice.get("message")
    return _reply_of_message(message) if isinstance(message, Mapping) else ModelReply(_text(choice.get("text")))


def _reply_of_message(message: Mapping[str, Any]) -> ModelReply:
    calls = message.get("tool_calls")
    return ModelReply(
        _text(message.get("content")),
        next((text for name in _REASONING if (text := _text(message.get(name)))), ""),
        tuple(_call(raw) for raw in calls if isinstance(raw, Mapping)) if isinstance(calls, list) else (),
    )


def _reply_of_items(items: Sequence[Any]) -> ModelReply:
    known = [item for item in items if isinstance(item, Mapping)]
    return ModelReply(
        "".join(_text(item.get("content")) for item in known if item.get("type") == "message"),
        "".join(_text(item.get("summary")) for item in known if item.get("type") == "reasoning"),
        tuple(_call(item) for item in known if item.get("type") == "function_call"),
    )


def _call(raw: Mapping[str, Any]) -> Call:
    function = raw.get("function")
    named = function if isinstance(function, Mapping) else raw
    arguments = named.get("arguments")
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json.dumps(arguments)
    return _text(named.get("name")), text


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(part.get("text")) for part in content if isinstance(part, Mapping))
    return ""
