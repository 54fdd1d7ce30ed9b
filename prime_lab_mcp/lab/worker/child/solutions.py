"""The reference solution of a task: how the environment says that the task is solved, and changed copies of it.

A solution is a list of messages, or a function that takes the messages so far and returns the next message. A message
is a text, or an assistant message with `content`, `tool_calls` or both; messages of other roles are left out, because
the environment and its tools speak for themselves. `change` names what is played instead of the solution:

- `wrong-argument`: every call asks for something else.
- `other-texts`: the texts in every call ask for something else, the numbers stay.
- `other-tools`: the offered tools that the first call leaves out are called instead of it, and no more is said.
- `tool-error`: a call whose arguments are no JSON comes before the first call.
- `one-call-more`: the last call is made twice.
- `answer-first`: `text` accompanies the first call, and the last reply says nothing.
- `pasted-output`: the last reply is the last output of a tool.
- `other-answer`: the last reply is `text`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

CLOSING = "Done."
"""The reply after the last message of a solution, and the last reply of a solution that has answered before."""
_TURNS = 200
_BROKEN = "{not json"


class BadSolution(Exception):
    """What the environment states as a solution is none."""


@dataclass(frozen=True)
class SolutionTurn:
    """One turn of a scripted model. Each call has the name of a tool and its arguments, an object or a text."""

    text: str | None = None
    calls: tuple[tuple[str, Any], ...] = ()


def turn_of(message: Any) -> SolutionTurn | None:
    """The turn that a message of a solution stands for; None for a message of another role. Raises BadSolution."""
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
    """The list or function that a task's `solution` gives. A `solution` that takes the messages is that function."""
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
    """The turns of a task's solution; None for a function of the messages so far. Raises BadSolution."""
    said = await stated(solution)
    return None if callable(said) else [turn for message in said[:_TURNS] if (turn := turn_of(message)) is not None]


def _takes_messages(function: Callable[..., Any]) -> bool:
    empty = inspect.Parameter.empty
    named = inspect.signature(function).parameters.values()
    return any(p.default is empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in named)


class SolutionPlayer:
    """Plays one solution, changed or not. `solution` is what `stated` returns; `text` is for some changes."""

    def __init__(self, solution: Any, change: str | None = None, text: str = "") -> None:
        self.function: Callable[..., Any] | None = solution if callable(solution) else None
        self.change, self.text = change, text
        self.turns: list[SolutionTurn] = []
        if self.function is None:
            self.turns = [turn for message in solution[:_TURNS] if (turn := turn_of(message)) is not None]
            if not self.turns:
                raise BadSolution("the solution has no message of the assistant")
        self.held: list[SolutionTurn] = []
        self.inserted: set[int] = set()
        self.called: SolutionTurn | None = None
        self.changed = False
        self.calls_of_others: Callable[[SolutionTurn], tuple[tuple[str, Any], ...]] = lambda turn: ()
        """The calls of the offered tools that a turn leaves out."""

    async def next(self, number: int, messages: list[dict[str, Any]]) -> SolutionTurn:
        """The model's turn with this number. `messages` are those so far, as JSON data."""
        if self.held:
            return self.held.pop()
        if self.change == "other-tools" and self.changed:
            return SolutionTurn(CLOSING)
        turn = await self._solved([m for m in messages if not self._is_inserted(m)])
        return self._changed(turn, number, messages)

    async def _solved(self, messages: list[dict[str, Any]]) -> SolutionTurn:
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
        """Whether a call was inserted by a change, or a message answers such a call."""
        names = [call["id"] for call in message.get("tool_calls") or ()] or [message.get("tool_call_id") or ""]
        return all(any(name.startswith(f"call_{n}_") for n in self.inserted) for name in names)

    def _changed(self, turn: SolutionTurn, number: int, messages: list[dict[str, Any]]) -> SolutionTurn:
        if turn.calls:
            return self._changed_calls(turn, number)
        if self.change == "one-call-more" and self.called is not None and not self.changed:
            self.changed = True
            self.inserted.add(number)
            self.held.append(turn)
            return self.called
        if self.change == "other-answer":
            return SolutionTurn(self.text)
        if self.change == "answer-first" and self.changed:
            return SolutionTurn(CLOSING)
        if self.change == "pasted-output":
            outputs = [str(m.get("content") or "") for m in messages if m.get("role") == "tool"]
            return SolutionTurn(outputs[-1]) if outputs else turn
        return turn

    def _changed_calls(self, turn: SolutionTurn, number: int) -> SolutionTurn:
        self.called = SolutionTurn(None, turn.calls)
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
            self.held.append(turn)
            return SolutionTurn(None, ((turn.calls[0][0], _BROKEN),))
        if self.change == "answer-first" and not self.changed:
            self.changed = True
            return replace(turn, text=self.text)
        return turn


def other_arguments(given: Any) -> Any:
    """The arguments of a call with other values of the same types."""
    named = named_arguments(given)
    return given if named is None else {name: _other(value) for name, value in named.items()}


def other_texts(given: Any) -> Any:
    """The arguments of a call with other texts; numbers and everything else stay."""
    named = named_arguments(given)
    if named is None:
        return given
    return {name: _other(value) if isinstance(value, str) else value for name, value in named.items()}


def named_arguments(given: Any) -> dict[str, Any] | None:
    """The arguments of a call by name; None where they are no JSON object."""
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
