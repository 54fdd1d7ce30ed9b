"""Why a rollout earned nothing. A pure function of its record; the order is that of facts/validation.md 3.5.

First what failed, then what a judge did not say, then what was cut, then tool calls, and last the answer itself: a cut
reply has no form to judge, and an answer after a failed tool call is a guess.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prime_lab_mcp.lab.evals.conversation import Message, conversation, offered_tools
from prime_lab_mcp.lab.evals.earned import answers, earned, judges_form, words
from prime_lab_mcp.lab.evals.results import Rollout
from prime_lab_mcp.lab.evals.zeros import calls, failures, shape
from prime_lab_mcp.lab.evals.zeros.calls import Tools
from prime_lab_mcp.lab.evals.zeros.kinds import Classified
from prime_lab_mcp.lab.evals.zeros.turns import Turn, limit_of, turns
from prime_lab_mcp.lab.text import quote

_NEGATED = frozenset({"error", "errors", "failed", "failure", "failures", "unparsed", "invalid", "malformed"})
_OUT_OF_TURNS = frozenset({"max_turns", "max_turns_reached"})
_OUT_OF_CONTEXT = frozenset({"context_length", "prompt_too_long", "max_input_tokens", "max_total_tokens"})
_OUT_OF_TIME = frozenset({"agent_timeout", "timeout_reached", "rollout_timeout", "timeout"})


def classify(
    rollout: Rollout, *, cap: int | None = None, weights: Mapping[str, float] | None = None, long: int | None = None
) -> Classified | None:
    """The class of a rollout that earned nothing; None where it earned something.

    `cap` is the token limit of one completion. `weights` are those of the environment's rewards, for layouts that do
    not tell them (v0). `long`: characters that only the longest hundredth of the replies reach; where a layout does
    not say how a reply ended, one that long with an open end counts as cut.
    """
    failed = rollout.error is not None or rollout.nonfinite
    if not failed and earned(rollout, weights):
        return None
    cap = cap or limit_of(rollout)
    talk = conversation(rollout)
    said, tools = turns(rollout, talk), offered_tools(rollout)
    if failed:
        return failures.of_error(rollout, said, tools, cap)
    return (
        failures.judge_said_nothing(rollout)
        or _cut(rollout, said, cap)
        or _timed_out(rollout, said)
        or calls.fault(said, tools, cap)
        or _out_of_turns(rollout, said)
        or _silent(said)
        or _no_call(said, tools)
        or _shape(said, talk, long)
        or _unparsed(rollout, said, talk)
        or Classified("wrong", _wrong(rollout, weights))
    )


def _cut(rollout: Rollout, said: Sequence[Turn], cap: int | None) -> Classified | None:
    last = said[-1] if said else None
    if rollout.stop in _OUT_OF_CONTEXT:
        return Classified("truncated", f"the conversation reached its limit ({rollout.stop})", "context")
    if last is not None and last.ending.finish == "length":
        thought = " while it was thinking" if last.message.reasoning and not last.message.text.strip() else ""
        return Classified("truncated", f"the server ended the last reply at the token limit{thought}", "tokens")
    if rollout.truncated and rollout.stop not in _OUT_OF_TURNS:
        return Classified("truncated", "the results say that it was cut off", "tokens")
    if last is not None and cap is not None and last.ending.at_limit(cap):
        used = last.ending.tokens / cap
        return Classified(
            "truncated", f"the last reply has {last.ending.tokens:,} tokens, {used:.0%} of its limit", "tokens"
        )
    return None


def _timed_out(rollout: Rollout, said: Sequence[Turn]) -> Classified | None:
    if rollout.stop not in _OUT_OF_TIME:
        return None
    if said and None in said[-1].results:
        return Classified("tool_timeout", f"the time of the rollout ran out during a tool call ({rollout.stop})")
    return Classified("infrastructure", f"the time of the rollout ran out ({rollout.stop})", "time")


def _out_of_turns(rollout: Rollout, said: Sequence[Turn]) -> Classified | None:
    calling = bool(said and said[-1].message.calls)
    if rollout.stop in _OUT_OF_TURNS and (calling or rollout.stop == "max_turns"):
        return Classified("truncated", f"no answer within {len(said)} turns, the most there are", "turns")
    return None


def _silent(said: Sequence[Turn]) -> Classified | None:
    if said and (said[-1].message.text.strip() or said[-1].message.calls):
        return None
    if said and said[-1].message.reasoning:
        return Classified("empty_response", "it only thought: the reply after the reasoning is empty")
    return Classified("empty_response", "the last reply is empty" if said else "there is no reply")


def _no_call(said: Sequence[Turn], tools: Tools) -> Classified | None:
    if not tools:
        return None
    if name := calls.written_call(said[-1].message.text, tools):
        return Classified(
            "malformed_tool_json",
            f"the reply calls {quote(name, 60)} in its text: wrong tool_call_parser of the server",
            "parser",
        )
    if any(turn.message.calls for turn in said):
        return None
    fenced = "```" in said[-1].message.text and any(f"{name}(" in said[-1].message.text for name in tools)
    how = "it wrote code instead" if fenced else "it answered without"
    return Classified("no_tool_call", f"{len(tools)} tools were offered and none was called; {how}", "")


def _shape(said: Sequence[Turn], talk: Sequence[Message], long: int | None) -> Classified | None:
    """Only where nothing says how the reply ended: a stated `stop` outweighs the look of a text."""
    if said[-1].ending.finish is not None:
        return None
    why = shape.open_end(said[-1].message.text, shape.asked(talk), long)
    return Classified("truncated", why, "shape") if why else None


def _unparsed(rollout: Rollout, said: Sequence[Turn], talk: Sequence[Message]) -> Classified | None:
    form = {name: score for name, (score, _) in rollout.components.items() if judges_form(name)}
    form |= {name: score for name, score in rollout.metrics.items() if judges_form(name)}
    for name, score in form.items():
        bad = score > 0 if _NEGATED & words(name) else score <= 0
        if bad:
            return Classified("unparsed", f"{name} is {score:g}")
    if form and max(form.values()) >= 1.0:
        return None
    wanted = shape.asked(talk)
    text = said[-1].message.text
    if wanted and not any(mark in text for mark in wanted):
        return Classified("unparsed", f"the prompt asks for {wanted[0]}, and the reply has none")
    return None


def _wrong(rollout: Rollout, weights: Mapping[str, float] | None) -> str:
    paid = [name for name, score in answers(rollout, weights).items() if score > 0]
    if paid and rollout.reward is not None:
        return f"{quote(paid[0], 60)} paid, and other components took it away: the sum is {rollout.reward:g}"
    return "an answer in the asked form, and it is not right"
