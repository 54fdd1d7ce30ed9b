"""Plays a parrot in tasks of several turns without tools: a model that repeats replies which it was shown.

The replies of solutions have a form, such as a move in tags. A parrot gives the last or the first text of this form
that it has read, or one text of the prompt after the other. It may also make the first move of the solution, where only
later messages show replies. A list of legal moves shows replies as well, but a parrot then wins no more games than
somebody who says the same in every turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.rewards.copied_messages import ReplyForm, reply_form, reply_texts
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.shortcuts import Shortcut, is_paid, play_pairs, prompt_messages
from prime_lab_mcp.lab.rewards.solutions import Solved
from prime_lab_mcp.lab.rewards.thresholds import EPSILON
from prime_lab_mcp.lab.worker.child import copying
from prime_lab_mcp.lab.worker.child.copying import Which
from prime_lab_mcp.lab.worker.description import Message, Row
from prime_lab_mcp.lab.worker.host import Worker

_CHOOSING = 2
"""Number of tasks on which every parrot is tried first."""
_FEWEST, _MOST = 5, 10
"""Smallest and largest number of tasks on which a parrot is judged."""
_PAID = 0.9
"""Share of these tasks on which a parrot must be paid, as of other shortcuts."""
_CONSTANTS = 3
"""Number of constant replies with which a parrot is compared."""
_FEWEST_REPLIES = 2
"""A solution with fewer replies is no game: the rules about single answers apply."""
_DISTINCT = 3
"""Number of different first moves without which a move that stands in every prompt may be chance."""
_PLACES: tuple[Which, ...] = ("first", "last")
"""Where a prompt may state the first reply."""
_WHICH: dict[Which, str] = {
    "last": "gives the last {form} that it has read in every turn",
    "first": "gives the first {form} of the latest message that has one in every turn",
    "next": "gives one {form} of the prompt after the other",
}


async def play_parrots(worker: Worker, solved: Solved, rows: Sequence[Row]) -> tuple[Shortcut, ...]:
    """Return the first parrot that is paid on nearly all tasks with a played solution, as a shortcut."""
    games = _games(solved, rows)[:_MOST]
    form = reply_form(None, solved)
    if len(games) < _FEWEST or not (form.before.strip() and form.after.strip()):
        return ()
    for which, opens in [(which, opens) for opens in (False, True) for which in _WHICH]:
        if opens and (which == "next" or min(len(game.replies) for game in games) <= _FEWEST_REPLIES):
            continue
        if not all(game.read(int(opens), form, which) for game in games):
            continue
        played: list[PlayedScript] = []
        for some in (games[:_CHOOSING], games[_CHOOSING:]):
            played += await play_pairs(worker, [(game.row, _parrot(game, form, which, opens)) for game in some])
            if not played or not all(is_paid(p, solved) for p in played[:_CHOOSING]):
                break
        paid = tuple(p for p in played if is_paid(p, solved))
        if len(played) < _FEWEST or len(paid) < _PAID * len(played):
            continue
        constant = await _constant_share(worker, solved, games, opens)
        return (Shortcut(played[0].script.name, tuple(played), paid, constant, "one reply in every turn"),)
    return ()


def first_reply_in_prompts(solved: Solved, rows: Sequence[Row]) -> tuple[int, ...]:
    """Return tasks whose prompts have the first reply of the solution as their first or last text of its form.

    Empty unless all prompts of tasks with a played solution do.
    """
    games = _games(solved, rows)
    form = reply_form(None, solved)
    if len(games) < _FEWEST or not (form.before.strip() and form.after.strip()):
        return ()
    if len({game.replies[0] for game in games}) < _DISTINCT:
        return ()
    for which in _PLACES:
        if all(game.read(0, form, which) == game.replies[0].strip() for game in games):
            return tuple(game.row for game in games)
    return ()


@dataclass(frozen=True, slots=True)
class _Game:
    """A task with the rollout of its solution. `messages` begin with the prompt."""

    row: int
    replies: tuple[str, ...]
    messages: tuple[Message, ...]

    def read(self, turn: int, form: ReplyForm, which: Which) -> str:
        """What a parrot says in a turn after the replies of the solution; empty if it has read no text of the form."""
        turns = [n for n, m in enumerate(self.messages) if m.get("role") == "assistant"]
        read = [{"role": m.get("role"), "content": m.get("content")} for m in self.messages[: turns[turn]]]
        piece = copying.read_in_form([form.before, form.after], which, read)
        return form.wrap(piece).strip() if piece else ""


def _games(solved: Solved, rows: Sequence[Row]) -> list[_Game]:
    """Return the tasks with a paid solution; none if one of the solutions has a single reply or calls a tool."""
    by_row = {row.index: row for row in rows}
    paid = [p for p in solved.scored if solved.best > EPSILON and is_paid(p, solved)]
    if solved.calls_tools or any(len(reply_texts(p)) < _FEWEST_REPLIES for p in paid):
        return []
    return [
        _Game(p.row, tuple(reply_texts(p)), (*prompt_messages(by_row.get(p.row)), *p.result.messages)) for p in paid
    ]


def _parrot(game: _Game, form: ReplyForm, which: Which, opens: bool) -> RolloutScript:
    opening = "makes the first move of the solution, then " if opens else ""
    name = opening + _WHICH[which].format(form=quote(form.wrap("..."), 60))
    data = {
        "turns": list(game.replies[:1]) if opens else [],
        "then": "repeat",
        "copy": {"form": [form.before, form.after], "which": which},
        "before": form.before,
        "after": form.after,
    }
    return RolloutScript(name, "copied", data)


async def _constant_share(worker: Worker, solved: Solved, games: Sequence[_Game], opens: bool) -> float:
    """Return the largest share of tasks on which one reply in every turn, after the same opening, is paid."""
    share = 0.0
    for reply in _common_replies(games):
        wanted = [(game.row, _constant([*(game.replies[:1] if opens else ()), reply])) for game in games]
        played = await play_pairs(worker, wanted)
        share = max(share, sum(is_paid(p, solved) for p in played) / max(1, len(played)))
    return share


def _common_replies(games: Sequence[_Game]) -> Iterator[str]:
    counts = Counter(text for game in games for text in game.replies)
    yield from (text for text, _ in counts.most_common(_CONSTANTS))


def _constant(turns: list[str]) -> RolloutScript:
    return RolloutScript("says the same in every turn", "copied", {"turns": turns, "then": "repeat"})
