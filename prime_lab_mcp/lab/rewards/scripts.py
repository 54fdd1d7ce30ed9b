"""What a scripted model says in whole rollouts: the right answer, a wrong one, tool calls, faults, nothing.

Plain data for a worker (worker/rollouts.py). What a script must earn is not said here; checks/rollouts.py judges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from prime_lab_mcp.lab.rewards.gold import Gold
from prime_lab_mcp.lab.rewards.probes import Style
from prime_lab_mcp.lab.rewards.wrong import wrong_answers
from prime_lab_mcp.lab.worker.rolled import Play, Rolled

Part = Literal["gold", "wrong", "taken-back", "late", "faulty", "silent", "supplied"]
CHATTER = "I am not sure yet. Let me think about this some more."
_NO_TOOL = "no_such_tool"


@dataclass(frozen=True, slots=True)
class Script:
    """`part`: what the model plays. `tools`: it calls every offered tool first."""

    name: str
    part: Part
    data: Mapping[str, Any]
    tools: bool = False


@dataclass(frozen=True, slots=True)
class Performed:
    """A script that was played on a task, and what came of it."""

    row: int
    script: Script
    rolled: Rolled

    @property
    def scored(self) -> bool:
        """It came to an end and was paid."""
        return self.rolled.end == "ended" and self.rolled.ok and self.rolled.reward is not None

    @property
    def failed(self) -> bool:
        return self.rolled.end != "not-run" and bool(self.rolled.errors) and not self.rolled.ok


def play(script: Script, row: int) -> Play:
    return Play(row, script.data)


def ordinary(style: Style | None, gold: Gold | None) -> Iterator[Script]:
    """The scripts for one task, the most telling first. Without a gold: those that give no answer."""
    if style is not None and gold is not None:
        said, text = style.said(gold), style.render(gold)
        wrong = wrong_of(style, gold)
        yield said_gold(text)
        yield Script("calls every tool, then gives the right answer", "gold", _then({"tools": None}, text), tools=True)
        yield said_wrong(style.carrier.wrap(wrong))
        yield Script("gives the right answer, then a wrong one", "taken-back", _then(text, style.carrier.wrap(wrong)))
        yield Script("gives a wrong answer, then the right one", "late", _then(style.carrier.wrap(wrong), text))
        yield through_tools("wrong", wrong, style.carrier.wrap(wrong))
        yield through_tools("gold", said, text)
    else:
        yield Script("calls every tool, then chatters", "faulty", _then({"tools": None}, CHATTER), tools=True)
    faulty = {"calls": [[_NO_TOOL, "{not json"]]}
    yield Script("makes a faulty tool call, then chatters", "faulty", _then(faulty, CHATTER))
    yield silent()


def said_gold(text: str) -> Script:
    return Script("gives the right answer in every turn", "gold", _then(text))


def said_wrong(text: str) -> Script:
    return Script("gives a wrong answer in every turn", "wrong", _then(text))


def silent() -> Script:
    return Script("says nothing", "silent", {"turns": [""], "then": "silence"})


def through_tools(part: Literal["gold", "wrong"], answer: str, text: str) -> Script:
    """Gives the answer to every tool that takes a text, and then says it."""
    shown = "right" if part == "gold" else "wrong"
    return Script(
        f"gives every tool the {shown} answer, then says it", part, _then({"tools": answer}, text), tools=True
    )


def replay(name: str, messages: Sequence[Mapping[str, Any]]) -> Script:
    """The assistant's part of a conversation; everything else comes from the environment."""
    turns = [_turn(m) for m in messages if m.get("role") == "assistant"]
    return Script(name, "supplied", {"turns": turns, "then": "repeat" if turns else "silence"})


def wrong_of(style: Style, gold: Gold) -> str:
    """A plainly wrong answer of the same kind."""
    found = [w.answer for w in wrong_answers(style.golds, gold, style.form) if not w.near]
    return found[0] if found else "zzyzx quux"


def _then(*turns: Any) -> dict[str, Any]:
    return {"turns": list(turns), "then": "repeat"}


def _turn(message: Mapping[str, Any]) -> Any:
    calls = message.get("tool_calls") or ()
    if not calls:
        return str(message.get("content") or "")
    inner = [call.get("function") or call for call in calls]
    return {"calls": [[str(c.get("name") or ""), c.get("arguments") or "{}"] for c in inner]}
