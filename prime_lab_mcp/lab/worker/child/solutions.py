"""Reads and plays the reference solution of a task, which the environment states, and changed versions of it.

A solution is a list of messages, or a function that takes the messages so far and returns the next message. A message
is a text, or an assistant message with `content`, `tool_calls` or both. Messages of other roles are ignored, because
the environment and its tools produce those during the rollout. `change` selects a changed version:

- `wrong-argument`: all arguments of every tool call get other values.
- `other-texts`: the text arguments of every tool call get other values; numbers stay.
- `other-tools`: instead of the first call, the model calls the other offered tools once, then only says "Done.".
- `tool-error`: before the first call, the model makes a call whose arguments are invalid JSON.
- `one-call-more`: the model makes the last call twice.
- `answer-first`: the first call comes with `text` as its content, and the last reply is "Done.".
- `pasted-output`: the last reply is the last output of a tool.
- `other-answer`: the last reply is `text`.
- `calls-left-out`: only the messages without tool calls.
- `step-left-out`: all messages but the one with the number `text`, counted from 0.

The last two need a list of messages. In place of a function, the model only says "Done.".
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

CLOSING = "Done."
"""The reply after the last message of a solution, and the last reply of a version that has answered earlier."""
_MOST_TURNS = 200
_INVALID_JSON = "{not json"


class BadSolution(Exception):
    """The environment's solution is missing or has an unknown form."""


@dataclass(frozen=True)
class SolutionTurn:
    """One turn of a scripted model. Each tool call is a pair: the tool's name, and its arguments as object or text."""

    text: str | None = None
    calls: tuple[tuple[str, Any], ...] = ()


def turn_of(message: Any) -> SolutionTurn | None:
    """Convert a message of a solution to a turn; None for a message of another role than assistant.

    Raises BadSolution if the message has an unknown form.
    """
    if isinstance(message, str):
        return SolutionTurn(message)
    fields = _fields(message)
    if fields is None:
        raise BadSolution(f"a message of the solution is a {type(message).__name__}, not a text or a message")
    if fields.get("role", "assistant") != "assistant":
        return None
    return SolutionTurn(_text(fields.get("content")), tuple(_call(call) for call in fields.get("tool_calls") or ()))


def _fields(value: Any) -> dict[str, Any] | None:
    if isinstance(value, dict):
        return value
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", exclude_none=True) if callable(dump) else None
    return dumped if isinstance(dumped, dict) else None


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        parts = [_fields(part) or {} for part in content]
        content = "\n".join(str(part.get("text") or "") for part in parts)
    return None if content is None else str(content)


def _call(call: Any) -> tuple[str, Any]:
    fields = _fields(call) or {}
    inner = _fields(fields.get("function")) or fields
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise BadSolution('a tool call of the solution has no "name"')
    given = inner.get("arguments")
    return name, {} if given is None else given


async def stated(solution: Any) -> Any:
    """Return the list or function that a task's `solution` stands for. Raises BadSolution for anything else.

    A `solution` that takes the messages so far is itself the function. Any other callable is called.
    """
    if callable(solution) and not _takes_messages(solution):
        solution = solution()
        if inspect.isawaitable(solution):
            solution = await solution
    if callable(solution) or isinstance(solution, (list, tuple)):
        return solution
    if isinstance(solution, str):
        return [solution]
    raise BadSolution(f"the solution is a {type(solution).__name__}, not a list of messages or a function")


async def stated_turns(solution: Any) -> list[SolutionTurn] | None:
    """Return the turns of a task's solution; None if it is a function of the messages. Raises BadSolution."""
    messages = await stated(solution)
    return (
        None
        if callable(messages)
        else [turn for message in messages[:_MOST_TURNS] if (turn := turn_of(message)) is not None]
    )


def _takes_messages(function: Callable[..., Any]) -> bool:
    empty = inspect.Parameter.empty
    named = inspect.signature(function).parameters.values()
    return any(p.default is empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in named)


class SolutionPlayer:
    """Plays one solution, changed if `change` is given. `solution` is a result of `stated`; some changes use `text`."""

    def __init__(self, solution: Any, change: str | None = None, text: str = "") -> None:
        self.function: Callable[..., Any] | None = solution if callable(solution) else None
        self.change, self.text = change, text
        self.turns: list[SolutionTurn] = []
        if self.function is None:
            self.turns = [turn for message in solution[:_MOST_TURNS] if (turn := turn_of(message)) is not None]
            if not self.turns:
                raise BadSolution("the solution has no message of the assistant")
        if change in ("calls-left-out", "step-left-out"):
            self.function = None
            self.turns = [
                turn for n, turn in enumerate(self.turns) if (turn.calls == () if change[0] == "c" else str(n) != text)
            ]
        self.next_turns: list[SolutionTurn] = []
        self.inserted: set[int] = set()
        self.last_calls: SolutionTurn | None = None
        self.changed = False
        self.calls_of_others: Callable[[SolutionTurn], tuple[tuple[str, Any], ...]] = lambda turn: ()
        """Returns calls of the offered tools that a turn does not call."""

    async def next(self, number: int, messages: list[dict[str, Any]]) -> SolutionTurn:
        """Return the model's turn with this number, counted from 1. `messages` are those so far, as JSON data."""
        if self.next_turns:
            return self.next_turns.pop()
        if self.change == "other-tools" and self.changed:
            return SolutionTurn(CLOSING)
        turn = await self._solution_turn([m for m in messages if not self._is_inserted(m)])
        return self._changed_turn(turn, number, messages)

    async def _solution_turn(self, messages: list[dict[str, Any]]) -> SolutionTurn:
        if self.function is None:
            return self.turns.pop(0) if self.turns else SolutionTurn(CLOSING)
        answer = self.function(messages)
        if inspect.isawaitable(answer):
            answer = await answer
        turn = SolutionTurn(CLOSING) if answer is None else turn_of(answer)
        if turn is None:
            raise BadSolution("the solution returned a message of another role than assistant")
        return turn

    def _is_inserted(self, message: dict[str, Any]) -> bool:
        """Return whether a message holds only calls that a change inserted, or answers such a call."""
        names = [call["id"] for call in message.get("tool_calls") or ()] or [message.get("tool_call_id") or ""]
        return all(any(name.startswith(f"call_{n}_") for n in self.inserted) for name in names)

    def _changed_turn(self, turn: SolutionTurn, number: int, messages: list[dict[str, Any]]) -> SolutionTurn:
        if turn.calls:
            return self._changed_calls(turn, number)
        if self.change == "one-call-more" and self.last_calls is not None and not self.changed:
            self.changed = True
            self.inserted.add(number)
            self.next_turns.append(turn)
            return self.last_calls
        if self.change == "other-answer":
            return SolutionTurn(self.text)
        if self.change == "answer-first" and self.changed:
            return SolutionTurn(CLOSING)
        if self.change == "pasted-output":
            outputs = [str(m.get("content") or "") for m in messages if m.get("role") == "tool"]
            return SolutionTurn(outputs[-1]) if outputs else turn
        return turn

    def _changed_calls(self, turn: SolutionTurn, number: int) -> SolutionTurn:
        self.last_calls = SolutionTurn(None, turn.calls)
        if self.change == "wrong-argument":
            return SolutionTurn(turn.text, tuple((name, other_arguments(given)) for name, given in turn.calls))
        if self.change == "other-texts":
            return SolutionTurn(turn.text, tuple((name, other_texts(given)) for name, given in turn.calls))
        if self.change == "other-tools":
            self.changed = True
            calls = self.calls_of_others(turn)
            return SolutionTurn(None, calls) if calls else SolutionTurn(CLOSING)
        if self.change == "tool-error" and not self.changed:
            self.changed = True
            self.inserted.add(number)
            self.next_turns.append(turn)
            return SolutionTurn(None, ((turn.calls[0][0], _INVALID_JSON),))
        if self.change == "answer-first" and not self.changed:
            self.changed = True
            return replace(turn, text=self.text)
        return turn


def other_arguments(given: Any) -> Any:
    """Return the arguments of a call with other values of the same types."""
    named = named_arguments(given)
    return given if named is None else {name: _other(value) for name, value in named.items()}


def other_texts(given: Any) -> Any:
    """Return the arguments of a call with other texts. Arguments of other types stay."""
    named = named_arguments(given)
    if named is None:
        return given
    return {name: _other(value) if isinstance(value, str) else value for name, value in named.items()}


def named_arguments(given: Any) -> dict[str, Any] | None:
    """Return the arguments of a call by name; None if they are no JSON object."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return None
    return given if isinstance(given, dict) else None


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return value + 1
    if isinstance(value, str):
        return f"no such {value}"
    return value
