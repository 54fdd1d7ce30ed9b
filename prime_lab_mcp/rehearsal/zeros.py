"""Models that always fail in one way: `rehearsal/zero-<class>`, one for each class of zero reward in `read_eval`.

None of them gives a correct answer. If tools are offered, each model first calls one, in its own way: the first tool,
or the last one for `zero-tool-timeout`. `zero-judge-unparsed` answers like `zero-wrong`, and as a judge it gives no
verdict. `rehearsal/zero-asked` fails in the way that the prompt names, such as `(zero-unknown-tool)`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.rehearsal.answers import AnswerBook, Gold, solve, wrong
from prime_lab_mcp.rehearsal.model import Conversation, ScriptedReply, form, tokens
from prime_lab_mcp.rehearsal.store import Body

PREFIX = "rehearsal/zero-"
KINDS = (
    "wrong",
    "unparsed",
    "truncated",
    "no-tool-call",
    "malformed-tool-json",
    "double-encoded",
    "unknown-tool",
    "bad-arguments",
    "tool-timeout",
    "empty-response",
    "judge-unparsed",
    "infrastructure",
    "truncated-call",
    "fenced-call",
)
"""The classes, and two that only resemble another class: a tool call cut by the token limit, and a tool call that the
server's parser missed."""
_ASKED = "asked"
_IN_PROMPT = re.compile(r"\(zero-([a-z-]+)\)")
_NO_VERDICT = "One would have to see more of the circumstances before saying anything about this text."
_SAMPLES: dict[str, Any] = {"string": "1 + 1", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}


def kind_of(model: str) -> str | None:
    """The way in which a model of this name fails; None for other models and unknown ways."""
    kind = model.removeprefix(PREFIX)
    return kind if kind != model and kind in (*KINDS, _ASKED) else None


def failure_kind(kind: str, talk: Conversation) -> str:
    """Resolve the way to fail: `asked` takes it from the prompt, or answers wrong if the prompt names none."""
    if kind != _ASKED:
        return kind
    match = _IN_PROMPT.search("\n".join((talk.instructions, *talk.questions)))
    return match[1] if match and match[1] in KINDS else KINDS[0]


def reply(
    kind: str, talk: Conversation, book: AnswerBook, tools: Sequence[Body], *, called: bool, limit: int | None = None
) -> ScriptedReply:
    """The model's next reply. `called`: the model has called a tool before, in any way."""
    scripted = _say(kind, talk, book, tools, called=called)
    used = tokens(len(scripted.text) + sum(len(_raw(c)) for c in scripted.calls))
    # A server counts a cut reply as the whole limit.
    spent = limit if scripted.finish == "length" and limit else used
    return ScriptedReply(scripted.text, scripted.finish, scripted.calls, tokens(talk.characters), spent)


def _say(kind: str, talk: Conversation, book: AnswerBook, tools: Sequence[Body], *, called: bool) -> ScriptedReply:
    answer = _wrong(talk, book)
    if kind == "judge-unparsed" and _is_judge(talk):
        return ScriptedReply(_NO_VERDICT)
    if kind == "empty-response":
        return ScriptedReply("")
    if kind == "truncated":
        return ScriptedReply(f"Let me work through this step by step. {answer}"[:30], "length")
    if not tools or called or kind == "no-tool-call":
        return ScriptedReply(answer if kind != "unparsed" else "I believe it comes to something else")
    offered = tools[-1 if kind == "tool-timeout" else 0]
    tool = offered.get("function") or offered
    name, arguments = str(tool.get("name")), _arguments(tool.get("parameters") or {})
    if kind == "fenced-call":
        return ScriptedReply(f"```json\n{json.dumps({'name': name, 'arguments': arguments})}\n```")
    return _call(kind, name, arguments)


def _call(kind: str, name: str, arguments: Mapping[str, Any]) -> ScriptedReply:
    whole = json.dumps(arguments)
    if kind == "malformed-tool-json":
        # An inner quote that is not escaped, a common error of models.
        return ScriptedReply("", "tool_calls", ({"name": name, "raw": whole.replace('": ', '" = ', 1)},))
    if kind == "truncated-call":
        long = json.dumps({**arguments, "note": "first this, then that"})
        return ScriptedReply("", "length", ({"name": name, "raw": long[:-8]},))
    if kind == "double-encoded":
        return ScriptedReply("", "tool_calls", ({"name": name, "raw": json.dumps(whole)},))
    if kind == "unknown-tool":
        return ScriptedReply("", "tool_calls", ({"name": f"{name}_v2", "arguments": arguments},))
    if kind == "bad-arguments":
        return ScriptedReply(
            "", "tool_calls", ({"name": name, "arguments": {f"{k}_": v for k, v in arguments.items()}},)
        )
    return ScriptedReply("", "tool_calls", ({"name": name, "arguments": arguments},))


def _raw(call: Body) -> str:
    return str(call.get("raw") or json.dumps(call.get("arguments") or {}))


def _arguments(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Values for all required arguments of a tool, or for its first argument if none is required."""
    properties = schema.get("properties") or {}
    wanted = schema.get("required") or list(properties)[:1]
    return {name: _SAMPLES.get(str((properties.get(name) or {}).get("type")), "1 + 1") for name in wanted}


def _wrong(talk: Conversation, book: AnswerBook) -> str:
    rng = random.Random("\0".join([talk.instructions, *talk.questions]))
    gold = book.find(talk.questions[::-1] or ("",)) or solve(talk.instructions, talk.question) or Gold("0")
    return form(talk, wrong(gold.answer, book.pool, rng), rng)


def _is_judge(talk: Conversation) -> bool:
    asked = f"{talk.instructions}\n{talk.question}".casefold()
    return any(word in asked for word in ("reference answer", "ground truth", "verdict", "judge", "grade"))
