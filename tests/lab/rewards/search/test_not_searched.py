"""Reasons why a search is not run."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.scripts import PlayedScript
from prime_lab_mcp.lab.rewards.search import reward_search
from prime_lab_mcp.lab.rewards.solutions import Solved, solution_script
from prime_lab_mcp.lab.worker.scoring import RolloutResult
from tests.lab.rewards.rules.trials import sound


def test_a_game_with_solutions_is_not_said_to_have_no_right_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reward_search, "MOST_COMPLETIONS", 100)
    won = PlayedScript(0, solution_script(True), RolloutResult((), 1.0, "ended", True))
    trial = sound(style=None, by_rollouts=True, interactive=True, solved=Solved((won,)))
    why = reward_search.not_searched(trial, 10.0)
    assert "no right answer" not in why
    assert "turns of the solutions were played again" in why
