"""Plays recorded replies again in fresh processes, to find out whether an environment remembers earlier rollouts.

A fresh process plays the same replies on the same tasks several times, one rollout after the other, with fixed random
numbers (worker/child/chance.py). If a later rollout differs from the first one, the cause is memory, the clock, or
randomness that cannot be fixed. A second fresh process then plays the same list. Differences by memory are the same in
both processes, while differences by the clock or by randomness are not. An honestly random opponent is therefore not
reported.

Besides the replies of its own solution, a task gets the replies of another task's solution, one reply in every turn,
and games that were lost by the rules (accepted_replies.py). The solution alone would not reveal an opponent that plays
worse than before, because the solution wins anyway. It is also the first that a process plays: where a tool server
holds a basket or a stock for all rollouts, the solution may earn the maximum only before any other rollout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, same_reward
from prime_lab_mcp.lab.worker.description import Message
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import RolloutResult

OWN_REPLIES = "gives the solution's replies"
"""Name of the script that plays a solution again."""
ROUNDS = 3
"""Number of times that each recorded rollout is played in one process."""
_TASKS = 2
"""Number of tasks whose solutions are played again."""
_OTHERS = 2
"""Number of recorded rollouts of other scripts that are played again."""
_SECONDS = 20.0
"""Time limit in seconds for all rollouts of one process."""
_FEWEST_TOLD = 2
"""Smallest number of replies that a later rollout must be told. One may stand in a message by chance."""
_TAG = re.compile(r"</?[A-Za-z_][\w-]*>")
MOST_MS = 2_500.0
"""Duration above which a rollout is not played again, so that replays do not take longer than the probes."""


@dataclass(frozen=True, slots=True)
class Replay:
    """Two different rollouts of one process with the same replies on the same task: the first and a later one."""

    first: PlayedScript
    later: PlayedScript
    between: int
    """Number of rollouts that the process played between the two."""

    @property
    def paid_differently(self) -> bool:
        """Whether the rewards differ, or only one of the rollouts has a reward."""
        return not same_reward(self.first.result.reward, self.later.result.reward)

    @property
    def ends_differently(self) -> bool:
        """Whether one of the rollouts is longer than the other."""
        return len(self.first.result.messages) != len(self.later.result.messages)

    @property
    def severe(self) -> bool:
        """Whether a model is paid or led otherwise later, and not only told something else."""
        return self.paid_differently or self.ends_differently or self.tells_replies

    @property
    def tells_replies(self) -> bool:
        """Whether each later reply of a paid rollout stands in the message before it, and not at first.

        Such a game tells a model what won an earlier one. The first reply follows the prompt, which does not change.
        """
        pairs = list(zip(self.first.result.messages, self.later.result.messages, strict=False))
        replies = [n for n, (_, m) in enumerate(pairs) if m.get("role") == "assistant"][1:]
        told = [
            _mentions(pairs[n - 1][1], pairs[n][1]) and not _mentions(pairs[n - 1][0], pairs[n][1]) for n in replies
        ]
        return len(told) >= _FEWEST_TOLD and all(told) and (self.later.result.reward or 0.0) > EPSILON


def _mentions(message: Message, reply: Message) -> bool:
    """Whether the environment's message contains what a reply says, without its tags, as separate words."""
    said = _TAG.sub("", str(reply.get("content") or "")).strip()
    text = str(message.get("content") or "")
    return bool(said) and re.search(rf"(?<!\w){re.escape(said)}(?!\w)", text) is not None


async def replay(
    worker: Worker,
    played: Sequence[PlayedScript],
    copying: Sequence[RolloutScript] = (),
    accepted: Sequence[PlayedScript] = (),
) -> tuple[Replay, ...]:
    """Play recorded rollouts again, and return the differences that memory explains, the worst first.

    `played` are the recorded rollouts. `copying` are scripts that copy from messages (copied_messages.py), and
    `accepted` are games of accepted replies (accepted_replies.py).
    """
    plays = recorded_plays(played, copying, accepted)
    if not plays or worker.siblings is None:
        return ()
    # A silent rollout comes first, so that late imports and the like do not change the first replay.
    wanted = [(plays[-1][0], scripts.silent_script()), *_untouched(plays, played), *plays * ROUNDS]
    first = await _in_fresh_process(worker, wanted)
    differences = _differences(wanted, first)
    if not differences:
        return ()
    second = await _in_fresh_process(worker, wanted)
    last = max(number for number, _ in differences)
    if len(second) <= last or any(not _same(a, b) for a, b in zip(first[: last + 1], second, strict=False)):
        return ()
    return tuple(sorted((d for _, d in differences), key=lambda d: (not d.paid_differently, not d.ends_differently)))


def recorded_plays(
    played: Sequence[PlayedScript], copying: Sequence[RolloutScript] = (), accepted: Sequence[PlayedScript] = ()
) -> list[tuple[int, RolloutScript]]:
    """Return pairs (task, script) to play again.

    Scripts that win no game by themselves come first: accepted replies that earned nothing, those that copy, one reply
    in every turn or alone, and the replies of another task's solution. Games that solutions win between two such
    rollouts may help the later one. Accepted replies that were paid may have won, or may have been helped, and come
    just before the solutions. The replies of other scripts follow.
    """
    usable = _usable(played)
    solutions = {p.row: p for p in usable if _is_solution(p)}
    longest = longest_solutions(played)
    paid = [(p.row, p.script) for p in accepted if (p.result.reward or 0.0) > EPSILON]
    plays = [(p.row, p.script) for p in accepted if (p.row, p.script) not in paid]
    plays += [(p.row, script) for p in longest[:1] for script in copying]
    for p in longest:
        first = scripts.replay_script("gives the solution's first reply in every turn", _replies(p)[:1])
        alone = replace(first, name="gives the solution's first reply alone", data={**first.data, "then": "silence"})
        plays += [(p.row, first), (p.row, alone)]
    for p, other in zip(longest, longest[1:] + longest[:1], strict=True):
        if other.row != p.row:
            script = scripts.replay_script("gives the replies of another task's solution", other.result.messages)
            plays.append((p.row, script))
    plays += paid
    plays += [(p.row, scripts.replay_script(OWN_REPLIES, p.result.messages)) for p in longest]
    others = {p.script.part: p for p in usable if p.row not in solutions and p.script.part != "faulty"}
    for p in list(others.values())[:_OTHERS]:
        plays.append((p.row, scripts.replay_script(p.script.name, p.result.messages)))
    return plays


def longest_solutions(played: Sequence[PlayedScript]) -> list[PlayedScript]:
    """Return the solutions that are played again. Long ones have more messages of the environment."""
    solutions = {p.row: p for p in reversed(_usable(played)) if _is_solution(p)}
    return sorted(solutions.values(), key=lambda p: -p.result.turns)[:_TASKS]


def _usable(played: Sequence[PlayedScript]) -> list[PlayedScript]:
    return [p for p in played if p.result.end == "ended" and p.result.ms <= MOST_MS and _replies(p)]


def _is_solution(played: PlayedScript) -> bool:
    return "solution" in played.script.data and "change" not in played.script.data


def _replies(played: PlayedScript) -> list[Message]:
    """Return the model's messages of a rollout."""
    return [m for m in played.result.messages if m.get("role") == "assistant"]


def _untouched(
    plays: Sequence[tuple[int, RolloutScript]], played: Sequence[PlayedScript]
) -> list[tuple[int, RolloutScript]]:
    """Return the play of a solution that a process makes first if solutions call tools; else none.

    In a game without tools, a solution that wins before all other replies may help these (`recorded_plays`).
    """
    longest = longest_solutions(played)[:1]
    return [
        (row, script)
        for p in longest
        if any(m.get("tool_calls") for m in p.result.messages)
        for row, script in plays
        if row == p.row and script.name == OWN_REPLIES
    ][:1]


async def _in_fresh_process(worker: Worker, wanted: Sequence[tuple[int, RolloutScript]]) -> list[RolloutResult]:
    """Play scripts in a fresh process, and return the results before the first rollout that was slow or not run."""
    plays = [scripts.as_play(script, row) for row, script in wanted]
    try:
        async with worker.in_another_process() as other:
            await other.close()  # A worker from the pool may already have played rollouts.
            try:
                rollouts = await other.rollout(plays, seconds=_SECONDS, held=True)
            finally:
                await other.close()
    except LabError:
        return []  # The same rollouts ran in another process, so the environment is not the cause of the failure.
    return list(_until_late(rollouts.results))


def _until_late(results: Sequence[RolloutResult]) -> Iterator[RolloutResult]:
    """Yield the results before the first rollout that was slow or not run."""
    for result in results:
        if result.end in ("not-run", "slow"):
            return
        yield result


def _differences(
    wanted: Sequence[tuple[int, RolloutScript]], results: Sequence[RolloutResult]
) -> list[tuple[int, Replay]]:
    """Return (number, replay) for each rollout that differs from the first one with the same script and task.

    The number is the rollout's position in `results`.
    """
    seen: dict[tuple[int, int], int] = {}
    differences = []
    for number in range(1, len(results)):
        row, script = wanted[number]
        earlier = seen.setdefault((row, id(script)), number)
        first, later = results[earlier], results[number]
        if not _same(first, later):
            pair = (PlayedScript(row, script, first), PlayedScript(row, script, later))
            differences.append((number, Replay(*pair, between=number - earlier - 1)))
    return differences


def _same(one: RolloutResult, other: RolloutResult) -> bool:
    """Whether two rollouts have the same reward and the same messages."""
    return same_reward(one.reward, other.reward) and _texts(one) == _texts(other)


def _texts(result: RolloutResult) -> list[tuple[Any, Any]]:
    """Return the role and content of every message, also of the model, whose number of replies may differ."""
    return [(m.get("role"), m.get("content")) for m in result.messages]
