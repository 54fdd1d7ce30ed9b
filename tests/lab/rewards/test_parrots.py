"""Games that show replies, and a model that repeats what it was shown."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.parrots import first_reply_in_prompts, play_parrots
from prime_lab_mcp.lab.rewards.rules.leaked_answers import first_reply_is_stated, shortcut_is_paid
from prime_lab_mcp.lab.rewards.solutions import play_solutions
from tests.lab.rewards.test_shortcuts_played import Rollouts, Shop, tasks

pytestmark = pytest.mark.anyio
BLOCKED, WARNED = ("reward-hackable", "blocker"), ("gold-in-prompt", "warning")


class Stones(Shop):
    """Take one to three of a heap of stones, and the last one wins; the opponent follows a fixed sequence.

    The model loses with a reply that is no legal move. What the environment shows is named by `leak`.
    """

    def heap(self, row: int) -> int:
        return (13, 14, 15, 17, 18, 19, 21)[row % 7]

    def moves(self, row: int) -> list[int]:
        """The moves that win."""
        heap, number, moves = self.heap(row), 0, []
        while heap > 0:
            moves.append(heap % 4)
            heap -= heap % 4
            if heap:
                heap -= self.answer(row, number, heap)
                number += 1
        return moves

    def answer(self, row: int, number: int, heap: int) -> int:
        return min(heap, 1 + (row * 5 + number * number * 2 + number) % 3)

    def prompt(self, row: int) -> str:
        said = f"{self.heap(row)} stones. You begin."
        moves = self.moves(row)
        shown = {"first move": moves[:1], "line": moves, "legal moves": [1, 2, 3]}.get(self.leak, [])
        return said + "".join(f" <take>{move}</take>" for move in shown)

    def tools(self) -> list[dict[str, Any]]:
        return []

    def solution(self, row: int) -> list[Any]:
        return [f"<take>{move}</take>" for move in self.moves(row)]

    def response(self, state: dict[str, Any], text: str) -> str | None:
        row, heap = state["row"], state.get("heap", self.heap(state["row"]))
        move = text.removeprefix("<take>").removesuffix("</take>")
        if move not in ("1", "2", "3") or int(move) > heap:
            return None
        heap -= int(move)
        state["won"] = heap == 0
        if not heap:
            return None
        mine = self.answer(row, state.get("number", 0), heap)
        state["number"], state["heap"] = state.get("number", 0) + 1, heap - mine
        shown = {"best reply": [state["heap"] % 4 or 1], "legal moves": [1, 2, 3]}.get(self.leak, [])
        return f"I take {mine}. {state['heap']} left." + "".join(f" <take>{move}</take>" for move in shown)

    def reward(self, state: dict[str, Any], last: str) -> float:
        return float(bool(state.get("won")))


async def findings(leak: str) -> list[tuple[str, str]]:
    worker: Any = Rollouts(Stones(leak))
    loaded: Any = SimpleNamespace(turns=True, solutions=True)
    rows = tasks(Stones(leak))
    solved = await play_solutions(worker, loaded, rows)
    assert solved.best == 1.0
    shortcuts, hinted = await play_parrots(worker, solved, rows), first_reply_in_prompts(solved, rows)
    trial = Trial((), None, form_requested=False, solved=solved, shortcuts=shortcuts, hinted=hinted)
    return [(f.code, f.severity) for rule in (shortcut_is_paid, first_reply_is_stated) for f in rule(trial)]


@pytest.mark.parametrize("leak", ["line", "best reply"])
async def test_a_game_that_shows_the_replies_of_its_solution_blocks(leak: str) -> None:
    assert await findings(leak) == [BLOCKED]


async def test_a_first_move_in_the_prompt_warns() -> None:
    assert await findings("first move") == [WARNED]


@pytest.mark.parametrize("leak", ["", "legal moves"])
async def test_a_game_that_shows_no_move_or_all_legal_moves_has_no_finding(leak: str) -> None:
    assert await findings(leak) == []
