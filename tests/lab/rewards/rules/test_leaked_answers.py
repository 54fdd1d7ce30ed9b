"""What the environment tells a model during a rollout, on plain values."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript, ScriptPart
from prime_lab_mcp.lab.rewards.solutions import Change, Solved
from prime_lab_mcp.lab.worker.scoring import RolloutResult
from tests.lab.rewards.rules.trials import sound

WARNED, BLOCKED = ("gold-in-prompt", "warning"), ("reward-rollout-differs", "blocker")


def rollout(row: int, told: str, *, asked: str = "", part: ScriptPart = "taken-back", reward: float = 0.0) -> Any:
    """A rollout in which the environment says `told` between two turns. The gold of row N is N + 40."""
    call = {"function": {"name": "run_sql", "arguments": json.dumps({"sql": asked})}}
    messages = (
        {"role": "user", "content": f"Shop {row}: how many?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": told},
        {"role": "assistant", "content": f"<answer>{row + 40}</answer>"},
    )
    script = RolloutScript("tries it", part, {})
    return PlayedScript(row, script, RolloutResult(messages, reward, "ended", True, alone=reward, again=reward))


def codes(**more: Any) -> set[tuple[str, str]]:
    return {(f.code, f.severity) for f in reward_findings(sound(**more))}


def asked_wrongly(*told: str, asked: str = "no such SELECT") -> set[tuple[str, str]]:
    changed = tuple((Change.OTHER_TEXTS, rollout(row, text, asked=asked)) for row, text in enumerate(told))
    return codes(solved=Solved((rollout(5, "n\n45", reward=1.0),), changed))


def test_a_tool_that_states_the_answer_whatever_it_is_asked_warns() -> None:
    assert WARNED in asked_wrongly("error: syntax\n-- expected: 40", "error: syntax\n-- expected: 41")


def test_a_table_that_holds_one_of_the_answers_by_chance_is_no_finding() -> None:
    assert WARNED not in asked_wrongly("40 | 77", "12 | 77")
    assert WARNED not in asked_wrongly("error: syntax", "error: syntax")
    assert WARNED not in asked_wrongly("1.40 | 140", "1.41 | 141")


def test_what_the_call_itself_says_is_nothing_told() -> None:
    assert WARNED not in asked_wrongly("error: no table 40, 41", "error: no table 40, 41", asked="40 41")


def test_a_game_that_tells_the_number_in_its_reply_warns() -> None:
    told = [rollout(row, f"No, the number was {row + 40}. Try again.", part="wrong") for row in range(2)]
    fair = [rollout(row, "No, higher.", part="wrong") for row in range(2)]
    assert WARNED in codes(rollouts=tuple(told))
    assert WARNED not in codes(rollouts=tuple(fair))


def test_a_solution_that_was_slow_beside_others_that_ended_is_not_called_broken() -> None:
    ended = rollout(5, "n\n45", reward=1.0)
    slow = replace(ended, row=6, result=replace(ended.result, end="slow", ok=False, reward=None))
    found = codes(solved=Solved((ended, slow)))
    assert ("reward-partly-tested", "warning") in found
    assert ("reward-solution-broken", "blocker") not in found
    assert ("reward-solution-broken", "blocker") in codes(solved=Solved((slow,)))


def test_a_tool_that_knows_the_answer_only_after_another_rollout_blocks() -> None:
    def kept(before: str, after: str) -> set[tuple[str, str]]:
        solved = (rollout(5, "n\n45", reward=1.0),)
        around = tuple(
            (rollout(row, before.format(row + 40)), rollout(row, "n", reward=1.0), rollout(row, after.format(row + 40)))
            for row in range(2)
        )
        return codes(solved=Solved(solved, state_checks=around))

    assert BLOCKED in kept("error: nothing yet", "last result: {}")
    assert BLOCKED not in kept("last result: {}", "last result: {}")
    assert BLOCKED not in kept("error: nothing yet", "error: nothing yet")
