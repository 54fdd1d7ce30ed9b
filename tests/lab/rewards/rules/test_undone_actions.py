"""Actions that a task demands with a tool, and that are paid although they were only said."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.scripts import PlayedScript, RolloutScript
from prime_lab_mcp.lab.rewards.solutions import Change, Solved
from prime_lab_mcp.lab.worker.scoring import OfferedTool, RolloutResult
from tests.lab.rewards.rules.trials import sound

DEMANDED = "Look at the bill, pay it with the tool, then say PAID: and the amount."
SAID = "what is said is paid, and not what is done"


def rollout(row: int, tool: str, reward: float) -> PlayedScript:
    call = {"function": {"name": tool, "arguments": '{"bill": "B7"}'}}
    messages: tuple[dict[str, Any], ...] = (
        {"role": "user", "content": f"Bill B{row}"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done"},
        {"role": "assistant", "content": "PAID: 7"},
    )
    script = RolloutScript("calls tools with other arguments, then gives the solution's last reply", "taken-back", {})
    result = RolloutResult(messages, reward, "ended", True, tools=(OfferedTool(tool, "", {}),), alone=0.0, again=reward)
    return PlayedScript(row, script, result)


@pytest.mark.parametrize(
    ("asked", "tool", "otherwise", "alone", "blocked"),
    [
        (DEMANDED, "pay_bill", (1.0, 1.0), 0.95, True),
        (DEMANDED, "pay_bill", (1.0, 0.2), 0.95, False),
        (DEMANDED, "pay_bill", (1.0,), 0.95, False),
        (DEMANDED, "pay_bill", (1.0, 1.0), 0.5, False),
        (DEMANDED, "get_bill", (1.0, 1.0), 0.95, False),
        ("You may pay it with the tool.", "pay_bill", (1.0, 1.0), 0.95, False),
        ("Look the amount up with the tool.", "pay_bill", (1.0, 1.0), 0.95, False),
    ],
    ids=["claimed", "one unpaid", "one task", "done otherwise", "looked up", "permitted", "no action demanded"],
)
def test_what_is_only_said_blocks_where_the_task_demands_that_it_is_done(
    asked: str, tool: str, otherwise: tuple[float, ...], alone: float, blocked: bool
) -> None:
    """`otherwise` are the rewards of calls that ask for something else, `alone` is that of the last reply alone."""
    played = tuple(rollout(row, tool, 1.0) for row in range(2))
    changed = tuple((Change.WRONG_ARGUMENT, rollout(row, tool, reward)) for row, reward in enumerate(otherwise))
    changed += tuple((Change.BARE_ANSWER, rollout(row, tool, alone)) for row in range(2))
    found = reward_findings(sound(solved=Solved(played, changed), asked=asked))
    assert any(f.severity == "blocker" and SAID in f.message for f in found) is blocked
