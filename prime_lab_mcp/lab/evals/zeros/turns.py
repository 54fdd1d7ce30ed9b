"""The classes of rollouts that earned nothing, and the replies of a rollout with their finish reason and length.

The layouts of results files store finish reasons and lengths to different degrees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from prime_lab_mcp.lab.rollouts.conversation import Message, ToolCall
from prime_lab_mcp.lab.rollouts.rollout import Rollout

Zero = Literal[
    "wrong",
    "unparsed",
    "truncated",
    "no_tool_call",
    "malformed_tool_json",
    "double_encoded",
    "unknown_tool",
    "bad_arguments",
    "tool_timeout",
    "empty_response",
    "judge_unparsed",
    "infrastructure",
]
"""The class of a rollout that earned nothing."""
ZEROS: tuple[Zero, ...] = get_args(Zero)
AtFault = Literal["model", "setup", "unknown"]
"""What has to change so that such a rollout earns something (`Classified.at_fault`)."""
Cause = Literal[
    "",
    "tokens",
    "context",
    "turns",
    "shape",
    "parser",
    "code",
    "time",
    "provider",
    "environment",
    "harness",
    "backend",
    "nonfinite",
    "gold",
    "asked",
    "unpaid",
    "lacks",
]
"""The cause within a class, if rollouts of the class need different advice. Empty if the class is enough."""

_SETUP: frozenset[Zero] = frozenset({"truncated", "tool_timeout", "empty_response", "judge_unparsed", "infrastructure"})


@dataclass(frozen=True, slots=True)
class Classified:
    """The class of one rollout that earned nothing.

    `evidence` says in words why the rollout is in this class; text from the rollout is quoted in it.
    """

    kind: Zero
    evidence: str
    cause: Cause = ""

    @property
    def at_fault(self) -> AtFault:
        """`model` if training may change the outcome, `setup` if limits, endpoint, server or environment caused it, and
        `unknown` for an answer that was not paid in an evaluation that paid no answer."""
        if self.cause == "unpaid":
            return "unknown"
        return "setup" if self.kind in _SETUP or self.cause in ("parser", "gold", "asked") else "model"


NEAR_LIMIT_SHARE = 0.98
"""Share of the limit from which a completion counts as truncated (docs/validation.md, Truncation)."""
FAR_BELOW_LIMIT_SHARE = 0.9
"""Share of the limit below which a reply that breaks off was ended by the model itself."""


@dataclass(frozen=True, slots=True)
class ReplyEnding:
    """How one reply ended. `finish` is the server's finish reason, None if the layout does not store it.

    `tokens` is the length of the reply. If only the sum over several replies is known, `tokens` is that sum and `exact`
    is False.
    """

    finish: str | None = None
    tokens: int = 0
    exact: bool = True

    def at_limit(self, cap: int | None) -> bool:
        """Whether the reply reached the token limit `cap`, by the finish reason or by its length."""
        return self.finish == "length" or (self.exact and cap is not None and self.tokens >= NEAR_LIMIT_SHARE * cap)

    def far_below(self, cap: int | None) -> bool:
        """Whether the reply is much shorter than the token limit `cap`, so that the model ended it."""
        return self.finish != "length" and cap is not None and 0 < self.tokens < FAR_BELOW_LIMIT_SHARE * cap


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model with the result of each of its tool calls."""

    message: Message
    ending: ReplyEnding
    results: tuple[str | None, ...] = ()
    """The result of each tool call of the message, in the same order. None for a call without a result."""

    @property
    def answered(self) -> Sequence[tuple[ToolCall, str | None]]:
        """Each tool call of the turn with its result."""
        return list(zip(self.message.calls, self.results, strict=True))


def turns_of(rollout: Rollout, messages: Sequence[Message]) -> list[Turn]:
    """Return the model's replies in order. Example replies in the prompt are included."""
    endings = _endings(rollout, messages)
    turns = []
    for number, message in enumerate(messages):
        if message.role == "assistant":
            turns.append(Turn(message, endings.get(number, ReplyEnding()), _results(message, messages[number + 1 :])))
    return turns


def longest_reply(rollout: Rollout) -> tuple[int, bool]:
    """Return the tokens of the longest reply of a rollout, and whether the number is exact.

    If only the sum over several replies is known, the number is that sum and not exact.
    """
    lengths = [n for call in rollout.record.get("calls") or () if (n := _completion_tokens(call))]
    if lengths:
        return max(lengths), True
    return rollout.completion_tokens, _replies(rollout) <= 1


def token_limit(rollout: Rollout) -> int | None:
    """Return the token limit of one reply that a v1 rollout stores with its requests, or None."""
    for call in rollout.record.get("calls") or ():
        sampling = call.get("sampling") if isinstance(call, Mapping) else None
        if isinstance(sampling, Mapping):
            limit = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
            if isinstance(limit, int):
                return limit
    return None


def _endings(rollout: Rollout, messages: Sequence[Message]) -> dict[int, ReplyEnding]:
    calls = rollout.record.get("calls")
    if isinstance(calls, Sequence) and "nodes" in rollout.record:
        nodes = [n for n, node in enumerate(rollout.record["nodes"]) if isinstance(node.get("message"), Mapping)]
        place = {node: number for number, node in enumerate(nodes)}
        return {
            place[call["node"]]: ReplyEnding(call.get("finish_reason"), _completion_tokens(call))
            for call in calls
            if isinstance(call, Mapping) and call.get("node") in place
        }
    replies = [number for number, message in enumerate(messages) if message.role == "assistant"]
    if not replies:
        return {}
    single = len(replies) == 1
    ending = ReplyEnding(_finish_reason(rollout), rollout.completion_tokens, exact=single)
    # The finish reason of a v0 row covers all replies. It counts for the last one, which ended the rollout.
    return {
        number: ending if number == replies[-1] else ReplyEnding(None, ending.tokens, exact=single)
        for number in replies
    }


def _finish_reason(rollout: Rollout) -> str | None:
    record = rollout.record
    if record.get("finish_reason"):
        return str(record["finish_reason"])
    if rollout.truncated:
        return "length"
    return "stop" if "is_truncated" in record or "truncated" in record else None


def _replies(rollout: Rollout) -> int:
    completion = rollout.record.get("completion")
    if not isinstance(completion, list):
        return 1
    return sum(1 for m in completion if isinstance(m, Mapping) and m.get("role") == "assistant")


def _completion_tokens(call: object) -> int:
    usage = call.get("usage") if isinstance(call, Mapping) else None
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return tokens if isinstance(tokens, int) else 0


def _results(message: Message, following: Sequence[Message]) -> tuple[str | None, ...]:
    """Return the result of each tool call of a message. `following` are the messages after it.

    Some servers repeat the ids of calls, so only results before the next reply count.
    """
    results: list[Message] = []
    for message_after in following:
        if message_after.role == "assistant":
            break
        if message_after.role == "tool":
            results.append(message_after)
    by_id = {message_after.answers: message_after.text for message_after in results if message_after.answers}
    if by_id:
        return tuple(by_id.get(call.id) for call in message.calls)
    texts = [message_after.text for message_after in results]
    return tuple(texts[n] if n < len(texts) else None for n in range(len(message.calls)))
