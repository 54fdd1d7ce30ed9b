"""What both generations share when whole rollouts are run: the scripted model, and how a rollout is told.

Runs in the environment's interpreter. A script is plain data: `turns` (each a text, `{"calls": [[tool, arguments]]}` or
`{"tools": TEXT}`, which calls every offered tool once with arguments made from its schema, TEXT where a text is asked
for) and `then`: what comes after them, `repeat` the last turn or `silence`.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

MESSAGES = 400
TEXT = 4000
_TOOLS = 8
"""Tools of one environment that are called; more would use up the turns of the rollout."""
_DEPTH = 6
_FILL = "example"


class Player:
    """Speaks one script. `over` is called instead of answering when it has spoken `limit` times."""

    def __init__(self, script: dict[str, Any], limit: int) -> None:
        self.script, self.limit = script, limit
        self.turns: list[Any] | None = None
        self.spoken = 0
        self.asked = 0
        self.tools: list[dict[str, Any]] = []
        self.over: Callable[[], Any] = lambda: None

    @property
    def ended(self) -> bool:
        """The environment asked for more turns than the limit."""
        return self.asked > self.limit

    def offered(self, tools: list[dict[str, Any]]) -> None:
        """The tools that come with a request: {name, description, parameters} each."""
        known = {t["name"] for t in self.tools}
        self.tools += [t for t in tools if t["name"] not in known]

    def next(self) -> Any:
        """What the model says now: a text, or a list of [tool, arguments]. None when the limit is reached."""
        self.asked += 1
        if self.ended:
            self.over()
            return None
        if self.turns is None:
            self.turns = [turn for raw in self.script["turns"] for turn in self._said(raw)]
        number, self.spoken = self.spoken, self.spoken + 1
        if number < len(self.turns):
            return self.turns[number]
        if self.script.get("then") == "silence":
            return ""
        texts = [turn for turn in self.turns if isinstance(turn, str)]
        return texts[-1] if texts else ""

    def _said(self, turn: Any) -> list[Any]:
        if isinstance(turn, str):
            return [turn]
        if "calls" in turn:
            return [turn["calls"]]
        return [[[tool["name"], arguments(tool["parameters"], turn["tools"])]] for tool in self.tools[:_TOOLS]]


def arguments(schema: Any, text: str | None = None) -> dict[str, Any]:
    """Arguments that a tool's schema allows. `text` goes where any text is asked for, and as a number if it is one."""
    if not isinstance(schema, dict):
        return {}
    found = _value({**schema, "type": "object"}, schema, text, _DEPTH)
    return found if isinstance(found, dict) else {}


def _value(schema: Any, whole: dict[str, Any], text: str | None, depth: int) -> Any:
    if not isinstance(schema, dict) or depth <= 0:
        return text or _FILL
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
    return text or next(iter(schema.get("examples") or ()), _FILL)


def _number(schema: dict[str, Any], kind: str, text: str | None) -> Any:
    try:
        return int(text or "") if kind == "integer" else float(text or "")
    except ValueError:
        low, high = schema.get("minimum"), schema.get("maximum")
        return low if low is not None else min(1, high) if high is not None else 1


def raw(given: Any) -> str:
    """A call's arguments as a model sends them; what is a text already may be broken on purpose."""
    return given if isinstance(given, str) else json.dumps(given)


def told(error: BaseException, phase: str = "") -> dict[str, str]:
    """An exception of a rollout, with the function of the environment that raised it."""
    inner: BaseException = error
    while inner.__cause__ is not None and type(inner).__module__.startswith("verifiers"):
        inner = inner.__cause__
    found: dict[str, str] = sys.modules["_prime_lab_worker_program"].sibling("serve").failure(inner)
    outer = type(error).__name__
    kind = found["type"] if inner is error else f"{outer}: {found['type']}"
    return {"type": kind, "message": found["message"], "where": _place(inner, phase, found["where"])}


def _place(error: BaseException, phase: str, where: str) -> str:
    serve = sys.modules["_prime_lab_worker_program"].sibling("serve")
    tree = serve.tree()
    frames = traceback.extract_tb(error.__traceback__)
    own = [f.name for f in frames if tree and f.filename.startswith(tree)]
    here = str(Path(__file__).parent)
    known = [f.name for f in frames if f.name in _PHASES and not f.filename.startswith(here)]
    name = own[-1] if own else known[-1] if known else phase
    return ", ".join(part for part in (name, where if own else "") if part)


_PHASES = frozenset({
    "env_response", "setup_state", "call_tool", "update_tool_args", "is_completed", "cleanup", "setup", "finalize",
    "run", "get_prompt_messages", "render_completion", "init_state",
})  # fmt: skip


def messages(found: list[Any]) -> list[dict[str, Any]]:
    """Messages as plain data: role, text, tool calls."""
    plain = sys.modules["_prime_lab_worker_program"].sibling("plain")
    shown = []
    for message in found:
        fields = message if isinstance(message, dict) else message.model_dump(mode="json", exclude_none=True)
        kept: dict[str, Any] = {"role": str(fields.get("role")), "content": _text(plain, fields.get("content"))}
        if fields.get("tool_calls"):
            kept["tool_calls"] = [_call(plain, call) for call in fields["tool_calls"]]
        if fields.get("tool_call_id"):
            kept["tool_call_id"] = plain.text(fields["tool_call_id"], 200)
        shown.append(kept)
    return shown


def cut(shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many messages, and as much of each, as are passed on."""
    plain = sys.modules["_prime_lab_worker_program"].sibling("plain")
    return [
        {**m, "content": None if m["content"] is None else plain.text(m["content"], TEXT)} for m in shown[:MESSAGES]
    ]


def _text(plain: Any, content: Any) -> str | None:
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return None if content is None else str(plain.text(content))


def _call(plain: Any, call: Any) -> dict[str, Any]:
    fields = call if isinstance(call, dict) else call.model_dump(mode="json")
    inner = fields.get("function") or fields
    function = {
        "name": plain.text(inner.get("name") or "", 200),
        "arguments": _text(plain, inner.get("arguments")) or "",
    }
    return {"id": plain.text(fields.get("id") or "", 200), "type": "function", "function": function}


def tools(player: Player) -> list[dict[str, Any]]:
    """The tools that were offered, as they are passed on."""
    plain = sys.modules["_prime_lab_worker_program"].sibling("plain")
    return [
        {"name": plain.text(t["name"], 200), "description": plain.text(t["description"] or "", 1000),
         "parameters": plain.plain(t["parameters"])}
        for t in player.tools[:50]
    ]  # fmt: skip
