"""Plays recorded replies again in fresh processes, to see whether an environment remembers earlier rollouts.

A fresh process plays the same replies on the same tasks several times, one rollout after the other, with chance held
(worker/child/chance.py). A later rollout that differs from the first one differs by memory, by the clock, or by
entropy that nothing holds. So a second fresh process plays the same list: what an environment remembers is the same
there, and what it draws or reads from the clock is not. An honestly random opponent is therefore no finding.

Beside its own replies, a task gets the replies of another task and one reply again and again. The solution alone would
miss an opponent that plays worse than before, because it wins anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.rewards import scripts
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.thresholds import same_reward
from prime_lab_mcp.lab.worker.description import Message
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import RolloutResult

ROUNDS = 3
"""How often each recorded rollout is played in one process."""
_TASKS = 2
_OTHERS = 2
"""Recorded rollouts that are no solutions."""
_SECONDS = 20.0
_MOST_MS = 2_500.0
"""Slowest rollout that is played again; all of them together must not take longer than the probes."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The first and a later rollout of one process with the same replies on the same task, which differ."""

    first: PlayedScript
    later: PlayedScript
    between: int
    """Number of rollouts between the two."""

    @property
    def paid_differently(self) -> bool:
        """Whether the rewards differ, or only one of the rollouts has a reward."""
        return not same_reward(self.first.result.reward, self.later.result.reward)

    @property
    def ends_differently(self) -> bool:
        """Whether one of the rollouts is longer than the other."""
        return len(self.first.result.messages) != len(self.later.result.messages)


async def replay(
    worker: Worker, played: Sequence[PlayedScript], copying: Sequence[RolloutScript] = ()
) -> tuple[Replay, ...]:
    """The differences that memory explains, the worst first. `copying` are scripts that copy messages."""
    plays = recorded_plays(played, copying)
    if not plays or worker.siblings is None:
        return ()
    # What is slow only once, such as a late import, must not make the first rollout another one.
    wanted = [(plays[-1][0], scripts.silent_script()), *plays * ROUNDS]
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
    played: Sequence[PlayedScript], copying: Sequence[RolloutScript] = ()
) -> list[tuple[int, RolloutScript]]:
    """What is played again: first models that copy, whom a solved game may help; then replies of solutions, crossed
    between tasks, and replies of other scripts.
    """
    usable = [p for p in played if p.result.end == "ended" and p.result.ms <= _MOST_MS and _replies(p)]
    solutions = {p.row: p for p in reversed(usable) if "solution" in p.script.data and "change" not in p.script.data}
    # A long rollout shows more of what the environment says.
    longest = sorted(solutions.values(), key=lambda p: -p.result.turns)[:_TASKS]
    plays = [(p.row, script) for p in longest[:1] for script in copying]
    plays += [(p.row, scripts.replay_script("gives the solution's replies", p.result.messages)) for p in longest]
    for p, other in zip(longest, longest[1:] + longest[:1], strict=True):
        if other.row != p.row:
            script = scripts.replay_script("gives the replies of another task's solution", other.result.messages)
            plays.append((p.row, script))
        script = scripts.replay_script("gives the solution's first reply in every turn", _replies(p)[:1])
        plays.append((p.row, script))
    others = {p.script.part: p for p in usable if p.row not in solutions and p.script.part != "faulty"}
    for p in list(others.values())[:_OTHERS]:
        plays.append((p.row, scripts.replay_script(p.script.name, p.result.messages)))
    return plays


def _replies(played: PlayedScript) -> list[Message]:
    return [m for m in played.result.messages if m.get("role") == "assistant"]


async def _in_fresh_process(worker: Worker, wanted: Sequence[tuple[int, RolloutScript]]) -> list[RolloutResult]:
    """The rollouts that ran, in order, up to the first one that did not."""
    plays = [scripts.as_play(script, row) for row, script in wanted]
    try:
        async with worker.in_another_process() as other:
            await other.close()  # A worker of the pool may have played before.
            try:
                rollouts = await other.rollout(plays, seconds=_SECONDS, held=True)
            finally:
                await other.close()
    except LabError:
        return []  # That process failed, not the environment: the same rollouts ran in another one.
    return list(_until_late(rollouts.results))


def _until_late(results: Sequence[RolloutResult]) -> Iterator[RolloutResult]:
    for result in results:
        if result.end in ("not-run", "slow"):
            return
        yield result


def _differences(
    wanted: Sequence[tuple[int, RolloutScript]], results: Sequence[RolloutResult]
) -> list[tuple[int, Replay]]:
    """Each later rollout that differs from the first with the same script on the same task, and its number."""
    each = (len(wanted) - 1) // ROUNDS
    differences = []
    for number in range(1 + each, len(results)):
        earlier = 1 + (number - 1) % each
        first, later = results[earlier], results[number]
        if not _same(first, later):
            row, script = wanted[number]
            pair = (PlayedScript(row, script, first), PlayedScript(row, script, later))
            differences.append((number, Replay(*pair, between=number - earlier - 1)))
    return differences


def _same(one: RolloutResult, other: RolloutResult) -> bool:
    return same_reward(one.reward, other.reward) and _texts(one) == _texts(other)


def _texts(result: RolloutResult) -> list[tuple[Any, Any]]:
    """What the environment said, and what the model said: a rollout that ends earlier has fewer replies."""
    return [(m.get("role"), m.get("content")) for m in result.messages]
