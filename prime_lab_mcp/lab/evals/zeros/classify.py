"""Classifies why a rollout earned nothing, from its stored record alone.

The first check that applies decides, so their order matters. Errors come first, because a failed rollout has no reward
and is no wrong answer. Then come judges without a verdict, truncation and tool calls, because they explain the reply
that follows. Then comes the form that the prompt asks for. A rollout that passes all checks is a wrong answer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.zeros import tool_calls
from prime_lab_mcp.lab.evals.zeros.tool_calls import Tools, call_fault, timed_out
from prime_lab_mcp.lab.evals.zeros.turns import Cause, Classified, Turn, token_limit, turns_of
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE
from prime_lab_mcp.lab.rewards.probes.asked_forms import asked_form
from prime_lab_mcp.lab.rollouts.components import answer_scores, earned_for_answer, is_about_form, words
from prime_lab_mcp.lab.rollouts.conversation import (
    GoldMention,
    Message,
    answer_place,
    conversation,
    gold,
    gold_mention,
    offered_tools,
    searched_gold,
)
from prime_lab_mcp.lab.rollouts.rollout import Rollout

_QUOTED_CHARACTERS = 200
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
"""Every match of `_CALLS_TOOL` contains one of these. A long traceback is searched for them first, which is faster."""
_OVERFLOW = re.compile(r"context[_ ]length|maximum context|too many tokens|prompt is too long|OverlongPrompt", re.I)
_HARNESS = ("HarnessError", "SandboxError", "InterceptionError", "TunnelError", "RuntimeError")
_PROVIDER = re.compile(r"^(?:ProviderError|ModelError|InvalidModelResponseError|API\w*Error|RateLimitError)")
_CHAINS: tuple[tuple[str, Classified], ...] = (
    ("EmptyModelResponseError", Classified("empty_response", "the model returned neither text nor a tool call")),
    ("ToolParseError", Classified("malformed_tool_json", "the environment stops at tool calls it cannot parse")),
)
_VERDICT_WORDS = re.compile(
    r"\b(?:yes|correct|incorrect|right|wrong|true|false|pass(?:ed|es)?|fail(?:ed|s)?|valid|invalid|equivalent"
    r"|accept(?:ed)?|reject(?:ed)?|match(?:es)?|score|grade|rating|verdict)\b|\d",
    re.I,
)
_EDGE_WORDS = frozenset({"no", "a", "b", "c", "d", "y", "n"})
"""Words that are a verdict only as the first or last word of a judge's reply."""


def class_of_error(rollout: Rollout, turns: Sequence[Turn], tools: Tools, cap: int | None) -> Classified:
    """Return the class of a rollout that failed or whose reward is no finite number.

    `tools` are the tools that the model was offered, and `cap` is the token limit of one reply.
    """
    if rollout.error is None:
        return Classified("infrastructure", "the environment's reward is no finite number", "nonfinite")
    error, traceback = rollout.error, _error_with_tracebacks(rollout)
    quoted = quote(error, _QUOTED_CHARACTERS)
    if judge := _judge_failed(rollout, error, traceback):
        return judge
    for mark, classified in _CHAINS:
        if mark in error:
            return classified
    if any(mark in traceback for mark in _TOOL) and _CALLS_TOOL.search(traceback) and timed_out(traceback):
        return Classified("tool_timeout", f"a tool call took longer than its limit: {quoted}")
    if "ToolCallError" in error:
        kind: Classified = Classified("bad_arguments", f"the environment stops at tool calls that fail: {quoted}")
        return Classified("unknown_tool", kind.evidence) if "KeyError" in error else kind
    if rollout.stop == "prompt_too_long" or _OVERFLOW.search(error):
        return Classified("truncated", f"the conversation outgrew the model's context: {quoted}", "context")
    if _PROVIDER.match(error) and (refused := _refused_call(turns, tools, cap)):
        return Classified(refused.kind, f"{refused.evidence}; the endpoint refused the next request", refused.cause)
    return Classified("infrastructure", quoted, _cause(error))


def judge_without_verdict(rollout: Rollout) -> Classified | None:
    """Return the class of a scored rollout whose judge gave no recognisable verdict, or None.

    v1 stores the replies of a judge if its call received the trace. v0 stores them in the state column
    `judge_response`, if that column is saved. Other judges cannot be checked.
    """
    for text, parsed in _judge_replies(rollout.record):
        if parsed is None and not has_verdict(text):
            return Classified("judge_unparsed", f"the judge gave no verdict: {quote(text, _QUOTED_CHARACTERS)}")
    return None


def has_verdict(text: str) -> bool:
    """Whether a judge's reply contains a verdict: a usual word such as "correct", a number, or JSON."""
    tokens = [w.casefold() for w in re.findall(r"[A-Za-z]+", text)]
    if not text.strip():
        return False
    edges = {tokens[0], tokens[-1]} if tokens else set()
    return bool(_VERDICT_WORDS.search(text) or edges & _EDGE_WORDS or ("{" in text and "}" in text))


def _judge_failed(rollout: Rollout, error: str, traceback: str) -> Classified | None:
    if not error.startswith(("TaskError", "EnvError")) or _UNREACHABLE.search(error):
        return None
    replies = [text for text, parsed in _judge_replies(rollout.record) if parsed is None]
    if _NO_VERDICT.search(error) or (replies and _IN_PARSE.search(traceback)):
        reply = f"; it said {quote(replies[-1], 120)}" if replies else ""
        return Classified("judge_unparsed", f"{quote(error, _QUOTED_CHARACTERS)}{reply}")
    return None


def _judge_replies(record: Mapping[str, Any]) -> list[tuple[str, Any]]:
    info = record.get("info")
    calls = info.get("judge_calls") if isinstance(info, Mapping) else None
    replies = []
    for call in calls if isinstance(calls, list) else ():
        response = call.get("response") if isinstance(call, Mapping) else None
        if isinstance(response, Mapping):
            message = response.get("message")
            text = message.get("content") if isinstance(message, Mapping) else None
            replies.append((str(text or ""), response.get("parsed")))
    saved = record.get("judge_response")
    for text in saved.values() if isinstance(saved, Mapping) else [saved] if isinstance(saved, str) else ():
        replies.append((str(text), None))
    return replies


def _refused_call(turns: Sequence[Turn], tools: Tools, cap: int | None) -> Classified | None:
    """Return the class of the malformed tool call that made the endpoint refuse the next request, or None.

    Servers answer with status 400 if they cannot parse the last tool call of a conversation.
    """
    if not turns or not turns[-1].message.calls:
        return None
    for call, result in turns[-1].answered:
        fault = call_fault(call, result, tools, turns[-1].ending, cap)
        if fault is not None and fault.kind in ("malformed_tool_json", "double_encoded", "truncated"):
            return fault
    return None


def _error_with_tracebacks(rollout: Rollout) -> str:
    """Return the error of a rollout, and the tracebacks if the layout stores them, as one text."""
    errors = rollout.record.get("errors")
    texts = [rollout.error or ""]
    for error in errors if isinstance(errors, list) else ():
        if isinstance(error, Mapping):
            texts += [str(error.get("message") or ""), str(error.get("traceback") or "")]
    return "\n".join(texts)


def _cause(error: str) -> Cause:
    if _PROVIDER.match(error):
        return "provider"
    if error.startswith(_HARNESS):
        return "harness"
    return "environment"


_PAIR = re.compile(r"<([A-Za-z][\w-]*)>[^<]*</\1>")
_ANSWERS = frozenset({"answer", "final_answer", "final", "solution", "result", "output", "label", "response"})
_THOUGHTS = ("think", "thinking", "reasoning")
_ENDS = frozenset(".!?>})\"]'`|")
"""Last characters of a complete reply (docs/validation.md, Truncation)."""


def requested_marks(messages: Sequence[Message]) -> list[str]:
    r"""Return the marks that a prompt asks to put around the answer: tags such as `<answer>`, and `\\boxed`."""
    before = []
    for message in messages:
        if message.role == "assistant":
            break
        before.append(message.text)
    prompt = "\n".join(before)
    tags = [f"<{name}>" for name in dict.fromkeys(_PAIR.findall(prompt)) if name.lower() in _ANSWERS]
    return [*tags, *(["\\boxed"] if "\\boxed" in prompt else [])]


def truncation_sign(text: str, marks: Sequence[str], long: int | None) -> str | None:
    """Return in words why a text looks truncated, or None if it does not.

    `marks` are the marks that the prompt asks for. A text of at least `long` characters also counts as truncated if it
    ends in the middle of a sentence.
    """
    tags = [*(mark[1:-1] for mark in marks if mark.startswith("<")), *_THOUGHTS]
    for tag in tags:
        if text.count(f"<{tag}>") > text.count(f"</{tag}>"):
            return f"<{tag}> is opened and not closed"
    if text.count("```") % 2:
        return "a code fence is opened and not closed"
    if text.lstrip().startswith(("{", "[")) and _depth(text) > 0:
        return "the JSON that it begins is not closed"
    if "\\boxed{" in text and _depth(text[text.rindex("\\boxed{") :]) > 0:
        return "\\boxed{ is not closed"
    stripped = text.rstrip()
    if long is not None and len(text) >= long and stripped and stripped[-1] not in _ENDS:
        return "it is among the longest hundredth and ends in the middle of a sentence"
    return None


def _depth(text: str) -> int:
    return sum(text.count(c) for c in "{[") - sum(text.count(c) for c in "}]")


_NEGATED = frozenset({"error", "errors", "failed", "failure", "failures", "unparsed", "invalid", "malformed"})
_OUT_OF_TURNS = frozenset({"max_turns", "max_turns_reached"})
_OUT_OF_CONTEXT = frozenset({"context_length", "prompt_too_long", "max_input_tokens", "max_total_tokens"})
_OUT_OF_TIME = frozenset({"agent_timeout", "timeout_reached", "rollout_timeout", "timeout"})


def classify_zero(
    rollout: Rollout, *, cap: int | None = None, weights: Mapping[str, float] | None = None, long: int | None = None
) -> Classified | None:
    """Return the class of a rollout that earned nothing, or None if the rollout earned something.

    `cap` is the token limit of one reply. `weights` are the weights of the environment's rewards, which v0 does not
    store. `long` is the length in characters that only the longest 1 % of the replies reach. If a layout does not store
    finish reasons, a reply of that length counts as truncated if it ends in the middle of a sentence.
    """
    failed = rollout.error is not None or rollout.nonfinite
    if not failed and earned_for_answer(rollout, weights):
        return None
    cap = cap or token_limit(rollout)
    messages = conversation(rollout)
    turns, tools = turns_of(rollout, messages), offered_tools(rollout)
    if failed:
        return class_of_error(rollout, turns, tools, cap)
    return (
        judge_without_verdict(rollout)
        or _truncation(rollout, turns, cap)
        or _timed_out(rollout, turns)
        or tool_calls.tool_fault(turns, tools, cap)
        or _out_of_turns(rollout, turns)
        or _empty_reply(turns)
        or _missing_call(turns, tools)
        or _truncated_shape(turns, messages, long)
        or _unread_form(rollout, turns, messages)
        or _wrong_form(rollout, turns, messages)
        or _unread_gold(rollout, turns)
        or Classified("wrong", _wrong_evidence(rollout, weights))
    )


def _truncation(rollout: Rollout, turns: Sequence[Turn], cap: int | None) -> Classified | None:
    last = turns[-1] if turns else None
    if rollout.stop in _OUT_OF_CONTEXT:
        return Classified("truncated", f"the conversation reached its limit ({rollout.stop})", "context")
    if last is not None and last.ending.finish == "length":
        thought = " while it was thinking" if last.message.reasoning and not last.message.text.strip() else ""
        return Classified("truncated", f"the server ended the last reply at the token limit{thought}", "tokens")
    if rollout.truncated and rollout.stop not in _OUT_OF_TURNS:
        return Classified("truncated", "the results say that it was cut off", "tokens")
    if last is not None and cap is not None and last.ending.at_limit(cap):
        share = last.ending.tokens / cap
        return Classified(
            "truncated", f"the last reply has {last.ending.tokens:,} tokens, {share:.0%} of its limit", "tokens"
        )
    return None


def _timed_out(rollout: Rollout, turns: Sequence[Turn]) -> Classified | None:
    if rollout.stop not in _OUT_OF_TIME:
        return None
    if turns and None in turns[-1].results:
        return Classified("tool_timeout", f"the time of the rollout ran out during a tool call ({rollout.stop})")
    return Classified("infrastructure", f"the time of the rollout ran out ({rollout.stop})", "time")


def _out_of_turns(rollout: Rollout, turns: Sequence[Turn]) -> Classified | None:
    calling = bool(turns and turns[-1].message.calls)
    if rollout.stop in _OUT_OF_TURNS and (calling or rollout.stop == "max_turns"):
        return Classified("truncated", f"no answer within {len(turns)} turns, the most there are", "turns")
    return None


def _empty_reply(turns: Sequence[Turn]) -> Classified | None:
    if turns and (turns[-1].message.text.strip() or turns[-1].message.calls):
        return None
    if turns and turns[-1].message.reasoning:
        return Classified("empty_response", "it only thought: the reply after the reasoning is empty")
    return Classified("empty_response", "the last reply is empty" if turns else "there is no reply")


def _missing_call(turns: Sequence[Turn], tools: Tools) -> Classified | None:
    if not tools:
        return None
    if name := tool_calls.written_call(turns[-1].message.text, tools):
        return Classified(
            "malformed_tool_json",
            f"the reply calls {quote(name, 60)} in its text: wrong tool_call_parser of the server",
            "parser",
        )
    if any(turn.message.calls for turn in turns):
        return None
    fenced = "```" in turns[-1].message.text and any(f"{name}(" in turns[-1].message.text for name in tools)
    detail = "it wrote code instead" if fenced else "it answered without"
    return Classified("no_tool_call", f"{len(tools)} tools were offered and none was called; {detail}", "")


def _truncated_shape(turns: Sequence[Turn], messages: Sequence[Message], long: int | None) -> Classified | None:
    """Return the class of a last reply whose text looks truncated. A stored finish reason takes precedence."""
    if turns[-1].ending.finish is not None:
        return None
    sign = truncation_sign(turns[-1].message.text, requested_marks(messages), long)
    return Classified("truncated", sign, "shape") if sign else None


def _unread_form(rollout: Rollout, turns: Sequence[Turn], messages: Sequence[Message]) -> Classified | None:
    """Return the class of a last reply that gives the reference answer in the form that the prompt asks for, if any.

    A format component that pays nothing for such a reply reads a form that the prompt does not name, so the model is
    not at fault.
    """
    marks = requested_marks(messages)
    asked = _asked_marks(turns[-1].message.text, marks)
    return _unread_gold(rollout, turns) if asked or not marks else None


def _asked_marks(text: str, marks: Sequence[str]) -> list[str]:
    """Return those of the requested marks that a reply has, tags opened and closed."""
    return [m for m in marks if m in text and (m[:1] != "<" or f"</{m[1:]}" in text)]


def has_asked_form(rollout: Rollout) -> bool:
    """Whether the last reply has the marks that the prompt asks to put around the answer, or is the answer alone where
    the prompt asks for that."""
    messages = conversation(rollout)
    reply = messages[-1].text if messages and messages[-1].role == "assistant" else ""
    marks = requested_marks(messages)
    return bool(_asked_marks(reply, marks)) if marks else _is_bare(reply) and _asks_for_bare(messages)


_BARE_WORDS = 2
"""Most words of a reply that is an answer alone and no sentence (our choice): a number with its unit."""


def _is_bare(reply: str) -> bool:
    return 1 <= len(reply.split()) <= _BARE_WORDS and not {"<", "{", "\\", "`"} & set(reply)


def _asks_for_bare(messages: Sequence[Message]) -> bool:
    prompts = [message.text for message in messages if message.role == "user"][:1]
    form = asked_form(prompts, [message.text for message in messages if message.role == "system"][:1])
    return form is not None and form.wrappers == (BARE,)


def form_is_paid(rollout: Rollout) -> bool:
    """Whether a component or metric about the form gave the reply a positive score."""
    return any(score > 0 for name, score in _form_scores(rollout).items() if not _NEGATED & words(name))


def _form_scores(rollout: Rollout) -> dict[str, float]:
    """Map the components and metrics about the form to their scores."""
    form = {name: score for name, (score, _) in rollout.components.items() if is_about_form(name)}
    return form | {name: score for name, score in rollout.metrics.items() if is_about_form(name)}


def _wrong_form(rollout: Rollout, turns: Sequence[Turn], messages: Sequence[Message]) -> Classified | None:
    form = _form_scores(rollout)
    for name, score in form.items():
        bad = score > 0 if _NEGATED & words(name) else score <= 0
        if bad:
            return Classified("unparsed", f"{name} is {score:g}")
    if form and max(form.values()) >= 1.0:
        return None
    marks = requested_marks(messages)
    text = turns[-1].message.text
    if marks and not any(mark in text for mark in marks):
        return Classified("unparsed", f"the prompt asks for {marks[0]}, and the reply has none")
    return None


def _unread_gold(rollout: Rollout, turns: Sequence[Turn]) -> Classified | None:
    """Return the class of a last reply that gives the reference answer and earned nothing, or None."""
    reference, reply = gold(rollout), turns[-1].message.text
    if gold_mention(searched_gold(reference), reply) is not GoldMention.ANSWERED:
        return None
    given = answer_place(reply)
    if given == (reference or "").strip():
        return Classified("wrong", f"the reply answers {quote(reference, 60)}, the reference answer", "gold")
    evidence = f"the reply answers {quote(given, 60)}; the reference answer is {quote(reference, 60)}"
    return Classified("wrong", evidence, "gold")


UNRIGHT = "an answer in the asked form, and it is not right"
"""The evidence for a wrong answer if no other evidence is known."""


def _wrong_evidence(rollout: Rollout, weights: Mapping[str, float] | None) -> str:
    rewarded = [name for name, score in answer_scores(rollout, weights).items() if score > 0]
    if rewarded and rollout.reward is not None:
        return f"{quote(rewarded[0], 60)} paid, and other components took it away: the sum is {rollout.reward:g}"
    return UNRIGHT
