"""A scripted model for whole rollouts of v0 and v1 environments, and functions that describe a rollout as JSON.

A script is JSON data with these fields:

- `turns`: each turn is a text, or `{"calls": [[tool, arguments]], "text": TEXT}`, or `{"tools": TEXT}`. The last form
  calls each offered tool once; the arguments fit the tool's schema, and every text argument is TEXT. In `calls`, an
  argument may be a place in the messages of the environment (copying.py). The call then gets what stands at that place:
  a number if the place has `"as": "number"`, else a text.
- `then`: what the model does after the last turn. It can `repeat` the last text, or answer nothing (`silence`).
- `copy`: what the model copies from the environment's messages after the last turn (copying.py).
- `into`: the name of a tool that gets the copied text first, as all its text arguments. The reply follows.
- `whole`: whether the messages of the rollout are compared with stored ones, and so cut far later.
- `solution`: replaces `turns`. It is a list of messages, or true for the environment's reference solution.
- `change`: how the solution is changed before it is played (solutions.py).
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import coercion, copying, environment, solutions
from .protocol import ErrorReply, ToolReply
from .solutions import SolutionPlayer, SolutionTurn
from .turn_taking import Seat

PAUSE = 0.3
"""Seconds before each reply of a slow model, about as long as a reply takes while a dozen rollouts take turns."""
MESSAGES = 400
"""Most messages of a reported rollout."""
TEXT = 4000
"""Most characters of a message of a reported rollout."""
_SOLUTION_TEXT = 100_000
"""Most characters of a message if the rollout plays a solution, or if the script asks for `whole` messages."""
_MOST_TOOLS = 8
"""Most tools of one environment that a script calls. More calls would use up the turns of the rollout."""
_DEPTH = 6
"""Deepest nesting of objects and lists in made-up arguments."""
_FILL_TEXT = "example"


class ScriptedModel:
    """Plays one script. After `limit` turns, the model calls `on_end` and does not answer.

    `solve` returns the environment's reference solution of the task. It is called if the script asks for the solution.
    """

    def __init__(self, script: dict[str, Any], limit: int, solve: Callable[[], Any] = lambda: None) -> None:
        self.script, self.limit, self.solve = script, limit, solve
        self.turns: list[SolutionTurn] | None = None
        self.player: SolutionPlayer | None = None
        self.unplayable = ""
        """Why the solution cannot be played."""
        self.not_offered: set[str] = set()
        """Names of tools that the model called although no request offered them."""
        self.handed_in = False
        self.turns_played = 0
        self.requests = 0
        self.tools: list[dict[str, Any]] = []
        self.on_end: Callable[[], Any] = lambda: None
        self.seat: Seat | None = None
        """The model's place, if rollouts take turns."""
        self.pause = 0.0
        """Seconds that the model waits before each reply."""
        self.read: list[Any] = []
        """The messages of the last request."""

    @property
    def ended(self) -> bool:
        """Whether the environment has requested more turns than the limit, or the solution cannot be played."""
        return self.requests > self.limit or bool(self.unplayable)

    def offered(self, tools: list[dict[str, Any]]) -> None:
        """Note the tools that the environment offers in a request. Each has `name`, `description` and `parameters`."""
        known = {t["name"] for t in self.tools}
        self.tools += [t for t in tools if t["name"] not in known]

    async def next(self, messages: list[Any]) -> SolutionTurn | None:
        """Return the model's next turn after these messages; None if the rollout must end."""
        self.requests += 1
        self.read = messages
        if self.seat is not None:
            await self.seat.wait()
        await asyncio.sleep(self.pause)
        turn = None if self.ended else await self._next(messages)
        if turn is None:
            self.on_end()
            return None
        known = {t["name"] for t in self.tools}
        self.not_offered |= {name for name, _ in turn.calls if name not in known}
        self.turns_played += 1
        return turn

    async def _next(self, messages: list[Any]) -> SolutionTurn | None:
        if self.script.get("solution"):
            return await self._solving(messages)
        if self.turns is None:
            self.turns = [turn for raw in self.script["turns"] for turn in self._turns_of(raw)]
        if self.turns_played < len(self.turns):
            turn = self.turns[self.turns_played]
            return SolutionTurn(turn.text, tuple((name, _with_places(given, messages)) for name, given in turn.calls))
        copied = copying.reply(self.script, message_dicts(messages)) if self.script.get("copy") else None
        if copied is not None:
            return self._handed_in(messages) or SolutionTurn(copied)
        if self.script.get("then") == "silence":
            return SolutionTurn("")
        texts = [turn.text for turn in self.turns if turn.text is not None]
        return SolutionTurn(texts[-1] if texts else "")

    def _handed_in(self, messages: list[Any]) -> SolutionTurn | None:
        """Return the call that hands the copied text to a tool; None if the script has none or has made it."""
        name = self.script.get("into")
        tool = next((t for t in self.tools if t["name"] == name), None)
        if tool is None or self.handed_in:
            return None
        self.handed_in = True
        given = arguments(tool["parameters"], copying.copied(self.script, message_dicts(messages)))
        return SolutionTurn(None, ((tool["name"], given),))

    async def _solving(self, messages: list[Any]) -> SolutionTurn | None:
        try:
            if self.player is None:
                given = self.script["solution"]
                solution = await solutions.stated(self.solve()) if given is True else given
                self.player = SolutionPlayer(solution, self.script.get("change"), self.script.get("text") or "")
                self.player.calls_of_others = self._calls_of_others
            return await self.player.next(self.turns_played + 1, message_dicts(messages))
        except Exception as error:
            failed = environment.failure(error)
            place = f" ({failed['where']})" if failed["where"] else ""
            self.unplayable = f"{failed['type']}: {failed['message']}{place}"
            return None

    def _calls_of_others(self, turn: SolutionTurn) -> tuple[tuple[str, Any], ...]:
        """Return calls of the offered tools that the turn does not call.

        If a call and the turn have an argument of the same name, the call gets the turn's value.
        """
        stated: dict[str, Any] = {}
        for _, given in turn.calls:
            stated |= solutions.named_arguments(given) or {}
        others = [tool for tool in self.tools if tool["name"] not in dict(turn.calls)][:_MOST_TOOLS]
        calls = []
        for tool in others:
            fitting = arguments(tool["parameters"])
            named = (tool["parameters"] or {}).get("properties") or {}
            calls.append((tool["name"], fitting | {n: v for n, v in stated.items() if n in named}))
        return tuple(calls)

    def _turns_of(self, turn: Any) -> list[SolutionTurn]:
        if isinstance(turn, str):
            return [SolutionTurn(turn)]
        if "calls" in turn:
            return [SolutionTurn(turn.get("text"), tuple((name, given) for name, given in turn["calls"]))]
        return [
            SolutionTurn(None, ((tool["name"], arguments(tool["parameters"], turn["tools"])),))
            for tool in self.tools[:_MOST_TOOLS]
        ]


def _with_places(given: Any, messages: list[Any]) -> Any:
    """Return the arguments of a call with what stands at the places that they name."""
    if not isinstance(given, dict):
        return given
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, dict) and value.keys() == {"of", "behind", "until", "as"}:
            text = copying.copied({"copy": value}, message_dicts(messages))
            value = int(text) if value["as"] == "number" and text.isdigit() else text
        found[name] = value
    return found


def arguments(schema: Any, text: str | None = None) -> dict[str, Any]:
    """Return arguments that fit a tool's JSON schema.

    `text` is the value of text arguments, and of numbers if it is one.
    """
    if not isinstance(schema, dict):
        return {}
    value = _value({**schema, "type": "object"}, schema, text, _DEPTH)
    return value if isinstance(value, dict) else {}


def _value(schema: Any, whole: dict[str, Any], text: str | None, depth: int) -> Any:
    if not isinstance(schema, dict) or depth <= 0:
        return text or _FILL_TEXT
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return _value((whole.get("$defs") or whole.get("definitions") or {}).get(name), whole, text, depth - 1)
    for fixed in ("const", "default"):
        if fixed in schema and not (fixed == "default" and text):
            return schema[fixed]
    if schema.get("enum"):
        return text if text in schema["enum"] else schema["enum"][0]
    choices = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if choices:
        real = [c for c in choices if not (isinstance(c, dict) and c.get("type") == "null")]
        return _value(real[0] if real else None, whole, text, depth - 1)
    kind = schema.get("type")
    kind = next((k for k in kind if k != "null"), "string") if isinstance(kind, list) and kind else kind
    if kind == "object":
        known = schema.get("properties") or {}
        wanted = schema.get("required")
        wanted = list(known) if wanted is None and text else wanted or ()
        return {name: _value(known.get(name), whole, text, depth - 1) for name in wanted}
    if kind == "array":
        return [_value(schema.get("items"), whole, text, depth - 1)]
    if kind == "boolean":
        return True
    if kind in ("integer", "number"):
        return _number(schema, kind, text)
    return text or next(iter(schema.get("examples") or ()), _FILL_TEXT)


def _number(schema: dict[str, Any], kind: str, text: str | None) -> Any:
    try:
        return int(text or "") if kind == "integer" else float(text or "")
    except ValueError:
        low, high = schema.get("minimum"), schema.get("maximum")
        return low if low is not None else min(1, high) if high is not None else 1


def raw_arguments(given: Any) -> str:
    """Return the arguments of a call as JSON text. Text in a script stays as it is, so that it can be invalid JSON."""
    return given if isinstance(given, str) else json.dumps(given)


def error_summary(error: BaseException, phase: str = "") -> ErrorReply:
    """Describe an exception of a rollout and the function of the environment that raised it."""
    inner: BaseException = error
    while inner.__cause__ is not None and type(inner).__module__.startswith("verifiers"):
        inner = inner.__cause__
    failed = environment.failure(inner)
    outer = type(error).__name__
    kind = failed["type"] if inner is error else f"{outer}: {failed['type']}"
    return {"type": kind, "message": failed["message"], "where": _place(inner, phase, failed["where"])}


def _place(error: BaseException, phase: str, where: str) -> str:
    tree = environment.tree()
    frames = traceback.extract_tb(error.__traceback__)
    own = [f.name for f in frames if tree and f.filename.startswith(tree)]
    here = str(Path(__file__).parent)
    known = [f.name for f in frames if f.name in _PHASES and not f.filename.startswith(here)]
    name = own[-1] if own else known[-1] if known else phase
    return ", ".join(part for part in (name, where if own else "") if part)


_PHASES = frozenset(
    {
        "env_response",
        "setup_state",
        "call_tool",
        "update_tool_args",
        "is_completed",
        "cleanup",
        "setup",
        "finalize",
        "run",
        "get_prompt_messages",
        "render_completion",
        "init_state",
    }
)
"""Functions of verifiers that call the environment. `error_summary` names one if no function of the environment is in
the traceback."""


def message_dicts(messages: list[Any]) -> list[dict[str, Any]]:
    """Convert messages to JSON data with role, text and tool calls."""
    dicts = []
    for message in messages:
        fields = message if isinstance(message, dict) else message.model_dump(mode="json", exclude_none=True)
        data: dict[str, Any] = {"role": str(fields.get("role")), "content": _text(fields.get("content"))}
        if fields.get("tool_calls"):
            data["tool_calls"] = [_call(call) for call in fields["tool_calls"]]
        if fields.get("tool_call_id"):
            data["tool_call_id"] = coercion.text(fields["tool_call_id"], 200)
        dicts.append(data)
    return dicts


def cut(messages: list[dict[str, Any]], script: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the first `MESSAGES` messages, each cut after `TEXT` characters.

    If the script plays a solution, the limit is much higher, because variants of these messages are scored later; also
    if they are compared with stored messages.
    """
    limit = _SOLUTION_TEXT if script.get("solution") or script.get("whole") else TEXT
    return [
        {**m, "content": None if m["content"] is None else coercion.text(m["content"], limit)}
        for m in messages[:MESSAGES]
    ]


def _text(content: Any) -> str | None:
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return None if content is None else str(coercion.text(content))


def _call(call: Any) -> dict[str, Any]:
    fields = call if isinstance(call, dict) else call.model_dump(mode="json")
    inner = fields.get("function") or fields
    function = {
        "name": coercion.text(inner.get("name") or "", 200),
        "arguments": _text(inner.get("arguments")) or "",
    }
    return {"id": coercion.text(fields.get("id") or "", 200), "type": "function", "function": function}


def offered_tools(model: ScriptedModel) -> list[ToolReply]:
    """Describe the tools that the model was offered, at most 50."""
    return [
        {
            "name": coercion.text(t["name"], 200),
            "description": coercion.text(t["description"] or "", 1000),
            "parameters": coercion.to_json(t["parameters"]),
        }
        for t in model.tools[:50]
    ]
