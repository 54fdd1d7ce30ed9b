"""How each reply of a rollout ended, in every layout that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.evals.conversation import Message, ToolCall
from prime_lab_mcp.lab.evals.results import Rollout

NEARLY = 0.98
"""Share of the limit from which a completion counts as cut (facts/validation.md 3.5)."""
FAR = 0.9
"""Below this share of the limit a reply that breaks off was ended by the model itself."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How one reply ended. `finish` is the server's word for it, None where the layout has none.

    `tokens` are those of this reply; where only the sum of several is known, `exact` is false and it is that sum.
    """

    finish: str | None = None
    tokens: int = 0
    exact: bool = True

    def at_limit(self, cap: int | None) -> bool:
        """It used up the token limit, whatever the server said."""
        return self.finish == "length" or (self.exact and cap is not None and self.tokens >= NEARLY * cap)

    def far_below(self, cap: int | None) -> bool:
        """It ended by itself, well before the limit."""
        return self.finish != "length" and cap is not None and 0 < self.tokens < FAR * cap


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of the model with the tool results that followed it, one for each of its calls."""

    message: Message
    ending: Ending
    results: tuple[str | None, ...] = ()
    """None where a call got no result."""

    @property
    def answered(self) -> Sequence[tuple[ToolCall, str | None]]:
        return list(zip(self.message.calls, self.results, strict=True))


def turns(rollout: Rollout, talk: Sequence[Message]) -> list[Turn]:
    """The replies in order. Prompts that hold example replies count too; nothing here depends on them."""
    endings = _endings(rollout, talk)
    found = []
    for number, message in enumerate(talk):
        if message.role == "assistant":
            found.append(Turn(message, endings.get(number, Ending()), _results(message, talk[number + 1 :])))
    return found


def longest(rollout: Rollout) -> tuple[int, bool]:
    """Tokens of the longest reply of a rollout, the number that a token limit is about, and whether that is exact.

    Where only the sum of several replies is known it is that, and not exact.
    """
    each = [n for call in rollout.record.get("calls") or () if (n := _used(call))]
    if each:
        return max(each), True
    return rollout.completion_tokens, _replies(rollout) <= 1


def limit_of(rollout: Rollout) -> int | None:
    """The token limit that the requests of a v1 rollout carried."""
    for call in rollout.record.get("calls") or ():
        sampling = call.get("sampling") if isinstance(call, Mapping) else None
        if isinstance(sampling, Mapping):
            limit = sampling.get("max_completion_tokens") or sampling.get("max_tokens")
            if isinstance(limit, int):
                return limit
    return None


def _endings(rollout: Rollout, talk: Sequence[Message]) -> dict[int, Ending]:
    calls = rollout.record.get("calls")
    if isinstance(calls, Sequence) and "nodes" in rollout.record:
        nodes = [n for n, node in enumerate(rollout.record["nodes"]) if isinstance(node.get("message"), Mapping)]
        place = {node: number for number, node in enumerate(nodes)}
        return {
            place[call["node"]]: Ending(call.get("finish_reason"), _used(call))
            for call in calls
            if isinstance(call, Mapping) and call.get("node") in place
        }
    replies = [number for number, message in enumerate(talk) if message.role == "assistant"]
    if not replies:
        return {}
    one = len(replies) == 1
    whole = Ending(_stated(rollout), rollout.completion_tokens, exact=one)
    # Of several replies only the last can have ended the rollout; a v0 row flags it when any was cut.
    return {number: whole if number == replies[-1] else Ending(None, whole.tokens, exact=one) for number in replies}


def _stated(rollout: Rollout) -> str | None:
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


def _used(call: object) -> int:
    usage = call.get("usage") if isinstance(call, Mapping) else None
    tokens = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return tokens if isinstance(tokens, int) else 0


def _results(message: Message, rest: Sequence[Message]) -> tuple[str | None, ...]:
    """Ids repeat from turn to turn with some servers, so only results before the next reply count."""
    mine: list[Message] = []
    for said in rest:
        if said.role == "assistant":
            break
        if said.role == "tool":
            mine.append(said)
    by_id = {said.answers: said.text for said in mine if said.answers}
    if by_id:
        return tuple(by_id.get(call.id) for call in message.calls)
    texts = [said.text for said in mine]
    return tuple(texts[n] if n < len(texts) else None for n in range(len(message.calls)))
