"""What the error of a rollout says: no reward, so no wrong answer; but not every error is infrastructure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.zeros.calls import Tools, of_call, timed_out
from prime_lab_mcp.lab.evals.zeros.kinds import Cause, Classified
from prime_lab_mcp.lab.evals.zeros.turns import Turn
from prime_lab_mcp.lab.text import quote

_SHOWN = 200
_NO_VERDICT = re.compile(
    r"judge (?:returned no|answered|verdicts name|refused|gave no|reply|response)|decision judge score|no verdict"
    r"|(?:pars|valid|decod)\w* .{0,40}judge|judge.{0,40}(?:unpars|could not be (?:read|parsed)|pars)",
    re.I,
)
_UNREACHABLE = re.compile(
    r"API(?:Connection|Timeout|Status)Error|(?:Authentication|PermissionDenied|NotFound|RateLimit|InternalServer|MissingKey)"
    r"Error|ConnectError|Connection error|rate limit|API error|timed out|timeout",
    re.I,
)
_IN_PARSE = re.compile(r"\bparse\(response\)|, in parse\b")
_CALLS_TOOL = re.compile(r"\bcall_mcp\b|\bcall_tool\b|ToolCallError")
_TOOL = ("call_mcp", "call_tool", "ToolCallError")
"""One of them is in whatever `_CALLS_TOOL` finds; a traceback is long, and this is fast."""
_OVERFLOW = re.compile(r"context[_ ]length|maximum context|too many tokens|prompt is too long|OverlongPrompt", re.I)
_HARNESS = ("HarnessError", "SandboxError", "InterceptionError", "TunnelError", "RuntimeError")
_PROVIDER = re.compile(r"^(?:ProviderError|ModelError|InvalidModelResponseError|API\w*Error|RateLimitError)")
_CHAINS: tuple[tuple[str, Classified], ...] = (
    ("EmptyModelResponseError", Classified("empty_response", "the model returned neither text nor a tool call")),
    ("ToolParseError", Classified("malformed_tool_json", "the environment stops at tool calls it cannot parse")),
)
_WORDS = re.compile(
    r"\b(?:yes|correct|incorrect|right|wrong|true|false|pass(?:ed|es)?|fail(?:ed|s)?|valid|invalid|equivalent"
    r"|accept(?:ed)?|reject(?:ed)?|match(?:es)?|score|grade|rating|verdict)\b|\d",
    re.I,
)
_EDGE = frozenset({"no", "a", "b", "c", "d", "y", "n"})


def of_error(rollout: Rollout, turns: Sequence[Turn], tools: Tools, cap: int | None) -> Classified:
    """The class of a rollout that failed or whose reward is no number."""
    if rollout.error is None:
        return Classified("infrastructure", "the environment's reward is no finite number", "nonfinite")
    error, whole = rollout.error, _whole(rollout)
    shown = quote(error, _SHOWN)
    if judge := _judge_failed(rollout, error, whole):
        return judge
    for mark, found in _CHAINS:
        if mark in error:
            return found
    if any(mark in whole for mark in _TOOL) and _CALLS_TOOL.search(whole) and timed_out(whole):
        return Classified("tool_timeout", f"a tool call took longer than its limit: {shown}")
    if "ToolCallError" in error:
        kind: Classified = Classified("bad_arguments", f"the environment stops at tool calls that fail: {shown}")
        return Classified("unknown_tool", kind.evidence) if "KeyError" in error else kind
    if rollout.stop == "prompt_too_long" or _OVERFLOW.search(error):
        return Classified("truncated", f"the conversation outgrew the model's context: {shown}", "context")
    if _PROVIDER.match(error) and (refused := _refused_call(turns, tools, cap)):
        return Classified(refused.kind, f"{refused.evidence}; the endpoint refused the next request", refused.cause)
    return Classified("infrastructure", shown, _cause(error))


def judge_said_nothing(rollout: Rollout) -> Classified | None:
    """Of a rollout that was scored: a judge's recorded reply that holds no verdict of any usual kind.

    v1 keeps the replies of judges that were called with the trace; v0 keeps them where the state column
    `judge_response` was saved. Other judges leave nothing to read.
    """
    for text, parsed in _judge_replies(rollout.record):
        if parsed is None and not has_verdict(text):
            return Classified("judge_unparsed", f"the judge gave no verdict: {quote(text, _SHOWN)}")
    return None


def has_verdict(text: str) -> bool:
    """Whether a judge's reply holds anything that could be read as one: a word, a number, JSON."""
    words = [w.casefold() for w in re.findall(r"[A-Za-z]+", text)]
    if not text.strip():
        return False
    edges = {words[0], words[-1]} if words else set()
    return bool(_WORDS.search(text) or edges & _EDGE or ("{" in text and "}" in text))


def _judge_failed(rollout: Rollout, error: str, whole: str) -> Classified | None:
    if not error.startswith(("TaskError", "EnvError")) or _UNREACHABLE.search(error):
        return None
    asked = [text for text, parsed in _judge_replies(rollout.record) if parsed is None]
    if _NO_VERDICT.search(error) or (asked and _IN_PARSE.search(whole)):
        said = f"; it said {quote(asked[-1], 120)}" if asked else ""
        return Classified("judge_unparsed", f"{quote(error, _SHOWN)}{said}")
    return None


def _judge_replies(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    info = record.get("info")
    calls = info.get("judge_calls") if isinstance(info, Mapping) else None
    found = []
    for call in calls if isinstance(calls, list) else ():
        response = call.get("response") if isinstance(call, Mapping) else None
        if isinstance(response, Mapping):
            message = response.get("message")
            text = message.get("content") if isinstance(message, Mapping) else None
            found.append((str(text or ""), response.get("parsed")))
    kept = record.get("judge_response")
    for text in kept.values() if isinstance(kept, Mapping) else [kept] if isinstance(kept, str) else ():
        found.append((str(text), None))
    return found


def _refused_call(turns: Sequence[Turn], tools: Tools, cap: int | None) -> Classified | None:
    """Servers answer 400 to a conversation whose last tool call they cannot read themselves."""
    if not turns or not turns[-1].message.calls:
        return None
    for call, result in turns[-1].answered:
        found = of_call(call, result, tools, turns[-1].ending, cap)
        if found is not None and found.kind in ("malformed_tool_json", "double_encoded", "truncated"):
            return found
    return None


def _whole(rollout: Rollout) -> str:
    """The error with its tracebacks, as far as the layout keeps them."""
    errors = rollout.record.get("errors")
    told = [rollout.error or ""]
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, Mapping):
            told += [str(error.get("message") or ""), str(error.get("traceback") or "")]
    return "\n".join(told)


def _cause(error: str) -> Cause:
    if _PROVIDER.match(error):
        return "provider"
    if error.startswith(_HARNESS):
        return "harness"
    return "environment"
