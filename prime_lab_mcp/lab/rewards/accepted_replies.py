"""Plays games to their end with replies that the environment accepts, and that come from the solutions of other tasks.

Changed copies of a solution usually break a rule, and the game ends at once. A game that is lost by the rules shows
more: what an environment remembers of a game that was won (replays.py), and whether the environment takes replies after
the end. No rule of a game is known here. A reply is accepted if the environment asks for another one, and answers
otherwise than to chatter and to a number that does not exist.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from prime_lab_mcp.lab.rewards.replays import MOST_MS, longest_solutions
from prime_lab_mcp.lab.rewards.scripts import CHATTER, PlayedScript, turns_script
from prime_lab_mcp.lab.rewards.shortcuts import play_pairs
from prime_lab_mcp.lab.rewards.solution_parts import spoken_turns
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.thresholds import EPSILON, FULL_SHARE
from prime_lab_mcp.lab.worker.host import Worker

_TASKS = 2
"""Number of games that are played to the end."""
_MOST_TURNS = 12
"""Number of accepted replies after which a game is left."""
_FIRST, _MOST = 8, 24
"""Number of replies that are tried at once, and in all, before a turn counts as the last one (our choice)."""
_FEWEST_AT_END = 2
"""Smallest number of replies of solutions that must be paid after the end of a game, beside one that no game knows."""
_KEPT = 2
"""Number of games with the same beginning that are returned: of those that were paid, and of the others."""
_SECONDS = 40.0
"""Time after which no further reply is tried."""
_LONGEST = 300
_NUMBER = re.compile(r"\d+")
_IMPOSSIBLE = ("99", "9999")
"""Numbers in the place of a reply's own that hardly a game knows (our choice)."""
NAME = "gives replies of other tasks' solutions that the environment accepts, to the end of the game"


@dataclass(frozen=True, slots=True)
class AcceptedGame:
    """A game that was played with accepted replies until none was left."""

    ends: tuple[PlayedScript, ...]
    """Rollouts with one more reply, after which the game ended: first those that were paid, each kind at most twice."""
    after_end: tuple[PlayedScript, ...] = field(default=())
    """The rollouts of all tried last replies, if each reply earned all, also one that names what does not exist and
    earns nothing at the beginning, and if chatter earns nothing or no reply before is one of the task's solution."""


async def play_accepted(worker: Worker, solved: Solved) -> tuple[AcceptedGame, ...]:
    """Play some games whose solutions are texts to their end. Empty where replies call tools or are all alike."""
    texts = [t for t in dict.fromkeys(spoken_turns(solved)) if t.strip() and len(t) <= _LONGEST]
    chosen = longest_solutions(solved.scored)[:_TASKS]
    if solved.calls_tools or len(texts) < 2 or not all(p.result.turns > 1 for p in chosen):
        return ()
    deadline = time.monotonic() + _SECONDS
    games = [await _played_out(worker, p, texts, deadline) for p in chosen if p.result.ms <= MOST_MS]
    return tuple(game for game in games if game is not None)


async def _played_out(
    worker: Worker, solution: PlayedScript, texts: Sequence[str], deadline: float
) -> AcceptedGame | None:
    """Play one game to its end, after its solution; None if no accepted reply was found or the time is over."""
    own = {str(m.get("content")) for m in solution.result.messages if m.get("role") == "assistant"}
    chance = random.Random(solution.row)
    unreal = _impossible(texts)
    path: list[str] = []
    refused_first: set[str] = set()
    await play_pairs(worker, [(solution.row, solution.script)])  # What is remembered of the won game is there now.
    while len(path) < _MOST_TURNS:
        if time.monotonic() > deadline:
            return None
        others = sorted(texts, key=lambda text: (text in own, chance.random()))
        tried: dict[str, PlayedScript] = {}
        accepted: list[str] = []
        for batch in ([CHATTER, *unreal, *others[:_FIRST]], others[_FIRST:_MOST]):
            plays = [(solution.row, turns_script(NAME, [*path, text])) for text in batch]
            played = await play_pairs(worker, plays)
            tried |= {p.script.data["turns"][-1]: p for p in played}
            if CHATTER not in tried:
                return None
            refused = {_answer(tried[text], len(path)) for text in (CHATTER, *unreal) if text in tried}
            asked = [text for text in others if text in tried and _asks_on(tried[text], len(path))]
            accepted = [text for text in asked if _answer(tried[text], len(path)) not in refused]
            if accepted:
                break
        if not path:
            refused_first = {text for text in unreal if text in tried and not _earned(tried[text], solution)}
        if not accepted:
            ended = [p for text in others if (p := tried.get(text)) is not None and p.scored]
            lost = not _earned(tried[CHATTER], solution) or own.isdisjoint(path)
            unknown = [tried[text] for text in unreal if lost and text in tried and text in refused_first]
            return _ended(ended, unknown, solution, path)
        path.append(accepted[0])
    return None


def _ended(
    ended: Sequence[PlayedScript], unreal: Sequence[PlayedScript], solution: PlayedScript, path: Sequence[str]
) -> AcceptedGame | None:
    """Return the game after its last accepted reply. `unreal` are rollouts that end with what no game knows."""
    if not path or not ended:
        return None
    paid = [p for p in ended if _earned(p, solution)]
    whole = len(paid) == len(ended) >= _FEWEST_AT_END and any(_earned(p, solution) for p in unreal)
    kept = (*paid[:_KEPT], *[p for p in ended if p not in paid][:_KEPT])
    return AcceptedGame(kept, (*(p for p in unreal if _earned(p, solution)), *paid) if whole else ())


def _impossible(texts: Sequence[str]) -> list[str]:
    """Return replies with numbers that hardly a game knows, in the first form that has a number."""
    form = next((text for text in texts if _NUMBER.search(text)), "")
    return [_NUMBER.sub(number, form) for number in _IMPOSSIBLE] if form else []


def _earned(played: PlayedScript, solution: PlayedScript) -> bool:
    """Whether a rollout earned as much as the solution of its task."""
    whole = solution.result.reward or 0.0
    return played.scored and whole > EPSILON and (played.result.reward or 0.0) >= FULL_SHARE * whole - EPSILON


def _turn_places(played: PlayedScript) -> list[int]:
    return [n for n, m in enumerate(played.result.messages) if m.get("role") == "assistant"]


def _asks_on(played: PlayedScript, turn: int) -> bool:
    """Whether the environment asked for another reply after the turn with this number, counted from 0."""
    return len(_turn_places(played)) > turn + 1


def _answer(played: PlayedScript, turn: int) -> str:
    """Return what the environment answered to a turn, with all numbers alike; empty if it did not answer."""
    places = _turn_places(played)
    if len(places) <= turn or places[turn] + 1 >= len(played.result.messages):
        return ""
    message = played.result.messages[places[turn] + 1]
    return "" if message.get("role") == "assistant" else _NUMBER.sub("0", str(message.get("content") or ""))
