"""Builds scripts that replace the model in whole rollouts: a right or wrong answer, tool calls, faulty calls, silence.

A worker plays the scripts (worker/child/scripted_rollouts.py). The rules about their rewards are in rules/rollouts.py.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.datasets.task_golds import TaskGold
from prime_lab_mcp.lab.rewards.probes.catalogue import AnswerStyle
from prime_lab_mcp.lab.rewards.probes.wrong_answers import clearly_wrong_answer
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import RequestedRollout, RolloutResult, Rollouts

ScriptPart = Literal[
    "gold", "wrong", "taken-back", "late", "faulty", "silent", "echo", "other-echo", "supplied", "copied", "blind"
]


class Delivery(StrEnum):
    """How the scripted model gives its answer."""

    SPOKEN = "spoken"
    """The model states the answer and calls no offered tool."""
    TOOLS_FIRST = "tools-first"
    """The model calls every offered tool and then states the answer."""
    THROUGH_TOOLS = "through-tools"
    """The model passes the answer to every tool that takes a text, and then states the answer."""


CHATTER = "I am not sure yet. Let me think about this some more."
"""A reply that neither answers nor calls a tool."""
IGNORANCE = "I do not know."
"""A last reply without an answer."""
_NO_TOOL = "no_such_tool"
_BLIND_TURNS = 40


@dataclass(frozen=True, slots=True)
class RolloutScript:
    """The turns of a scripted model.

    `name` describes the behaviour for people, as the end of "a model that ...". `part` is the kind of behaviour, by
    which rules select. `data` is the script in the form that worker/child/scripted_rollouts.py plays.
    """

    name: str
    part: ScriptPart
    data: Mapping[str, Any]
    delivery: Delivery = Delivery.SPOKEN

    @property
    def tools(self) -> bool:
        """Whether the model calls offered tools."""
        return self.delivery is not Delivery.SPOKEN


@dataclass(frozen=True, slots=True)
class PlayedScript:
    """A script that was played on the task `row`, with the resulting rollout."""

    row: int
    script: RolloutScript
    result: RolloutResult

    @property
    def scored(self) -> bool:
        """Whether the rollout ended and has a reward."""
        return self.result.end == "ended" and self.result.ok and self.result.reward is not None

    @property
    def failed(self) -> bool:
        """Whether the rollout was run and ended in an error."""
        return self.result.end != "not-run" and bool(self.result.errors) and not self.result.ok


def as_play(script: RolloutScript, row: int) -> RequestedRollout:
    """Return the request to a worker to play a script on a task."""
    return RequestedRollout(row, script.data)


def usual_scripts(style: AnswerStyle, gold: TaskGold) -> Iterator[RolloutScript]:
    """Yield the scripts for one task with a gold, the most informative first."""
    answer, text = style.answer_text(gold), style.render(gold)
    wrong = wrong_answer_to(style, gold)
    yield gold_script(text)
    after_tools = _then({"tools": None}, text)
    yield RolloutScript("calls every tool, then gives the right answer", "gold", after_tools, Delivery.TOOLS_FIRST)
    yield wrong_script(style.wrapper.wrap(wrong))
    yield RolloutScript(
        "gives the right answer, then a wrong one", "taken-back", _then(text, style.wrapper.wrap(wrong))
    )
    yield RolloutScript("gives a wrong answer, then the right one", "late", _then(style.wrapper.wrap(wrong), text))
    yield tool_script("wrong", wrong, style.wrapper.wrap(wrong))
    yield tool_script("gold", answer, text)
    yield faulty_script()
    yield silent_script()


def goldless_scripts(prompt: str, other: str) -> Iterator[RolloutScript]:
    """Yield the scripts for one task without a gold.

    `prompt` is its prompt, and `other` is the prompt of another task. An empty prompt gives no script.
    """
    chatter = _then({"tools": None}, CHATTER)
    yield RolloutScript("calls every tool, then chatters", "faulty", chatter, Delivery.TOOLS_FIRST)
    yield faulty_script()
    yield silent_script()
    if prompt:
        yield RolloutScript("repeats the prompt", "echo", _then(prompt))
    if other:
        yield RolloutScript("repeats the prompt of another task", "other-echo", _then(other))


def faulty_script() -> RolloutScript:
    """Return a script that calls a tool that does not exist, with arguments that are not JSON."""
    faulty = {"calls": [[_NO_TOOL, "{not json"]]}
    return RolloutScript("makes a faulty tool call, then chatters", "faulty", _then(faulty, CHATTER))


def gold_script(text: str) -> RolloutScript:
    return RolloutScript("gives the right answer in every turn", "gold", _then(text))


def wrong_script(text: str) -> RolloutScript:
    return RolloutScript("gives a wrong answer in every turn", "wrong", _then(text))


def silent_script() -> RolloutScript:
    return RolloutScript("says nothing", "silent", {"turns": [""], "then": "silence"})


def blind_script(texts: Sequence[str], seed: int) -> RolloutScript:
    """Return a script that says one of these texts in every turn, at random."""
    chance = random.Random(seed)
    turns = [chance.choice(texts) for _ in range(_BLIND_TURNS)]
    return RolloutScript(f"says {quote(texts[0], 60)} or the like in every turn, at random", "blind", _then(*turns))


def tool_script(part: Literal["gold", "wrong"], answer: str, text: str) -> RolloutScript:
    """Return a script that passes `answer` to every tool that takes a text, and then says `text`."""
    label = "right" if part == "gold" else "wrong"
    given = _then({"tools": answer}, text)
    return RolloutScript(f"gives every tool the {label} answer, then says it", part, given, Delivery.THROUGH_TOOLS)


def replay_script(name: str, messages: Sequence[Mapping[str, Any]]) -> RolloutScript:
    """Return a script with the assistant messages of a conversation.

    All other messages of the conversation are left out, because the environment writes its own.
    """
    turns = [turn_of(m) for m in messages if m.get("role") == "assistant"]
    return RolloutScript(name, "supplied", {"turns": turns, "then": "repeat" if turns else "silence"})


def turns_script(name: str, turns: Sequence[Any]) -> RolloutScript:
    """Return a faulty script that gives these turns, and then says nothing."""
    return RolloutScript(name, "faulty", {"turns": list(turns), "then": "silence"})


def wrong_answer_to(style: AnswerStyle, gold: TaskGold) -> str:
    """Return a clearly wrong answer in the answer format of the golds."""
    return clearly_wrong_answer(style.golds, gold, style.form)


def _then(*turns: Any) -> dict[str, Any]:
    """Return a script of these turns, of which the last one is repeated until the rollout ends."""
    return {"turns": list(turns), "then": "repeat"}


def turn_of(message: Mapping[str, Any]) -> Any:
    """Return an assistant message as a turn of a script."""
    calls = message.get("tool_calls") or ()
    if not calls:
        return str(message.get("content") or "")
    inner = [call.get("function") or call for call in calls]
    turn_calls = [[str(c.get("name") or ""), c.get("arguments") or "{}"] for c in inner]
    return {"calls": turn_calls, "text": message.get("content")}


async def play_started(
    worker: Worker,
    plays: Sequence[RequestedRollout],
    *,
    seconds: float,
    in_order: bool = False,
    held: bool = False,
) -> Rollouts:
    """Run rollouts as `Worker.rollout` does, once more if the first one was slow to begin (`began_slowly`)."""
    rollouts = await worker.rollout(plays, seconds=seconds, in_order=in_order, held=held)
    if began_slowly(rollouts.results):
        rollouts = await worker.rollout(plays, seconds=seconds, in_order=in_order, held=held)
    return rollouts


def began_slowly(results: Sequence[RolloutResult]) -> bool:
    """Whether no rollout ended, and the first one was slow before its first turn.

    The first rollout starts tool servers and imports. On a busy machine this alone may take longer than the limit; the
    rollouts of a second request then find it done.
    """
    slow = bool(results) and results[0].end == "slow" and results[0].turns == 0
    return slow and all(result.end in ("slow", "not-run") for result in results)
