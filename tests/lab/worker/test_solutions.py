"""The player of solutions, without an environment: messages, functions, and the changed copies."""

from __future__ import annotations

import re
import textwrap
from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.lab.worker.child.scripted_rollouts import message_dicts
from prime_lab_mcp.lab.worker.child.solutions import CLOSING, BadSolution, SolutionPlayer, SolutionTurn, stated, turn_of
from prime_lab_mcp.resources.catalog import References
from tests.support.assembled import assembled

pytestmark = pytest.mark.anyio
ASK: dict[str, Any] = {"role": "assistant", "tool_calls": [{"name": "look", "arguments": {"at": "P1", "n": 2}}]}
ASKED = SolutionTurn(None, (("look", {"at": "P1", "n": 2}),))
SOLUTION = [ASK, {"role": "tool", "content": "7"}, "<a>7</a>"]


async def turns(change: str | None, number: int = 4, text: str = "") -> list[SolutionTurn]:
    player = SolutionPlayer(SOLUTION, change, text)
    return [await player.next(n, [{"role": "tool", "content": "seven"}]) for n in range(1, number + 1)]


async def test_a_solution_is_played_turn_by_turn_and_then_closes() -> None:
    assert await turns(None) == [ASKED, SolutionTurn("<a>7</a>"), SolutionTurn(CLOSING), SolutionTurn(CLOSING)]


async def test_each_change_alters_one_thing() -> None:
    answer = SolutionTurn("<a>7</a>")
    assert await turns("wrong-argument", 2) == [SolutionTurn(None, (("look", {"at": "no such P1", "n": 3}),)), answer]
    assert await turns("other-texts", 2) == [SolutionTurn(None, (("look", {"at": "no such P1", "n": 2}),)), answer]
    assert await turns("tool-error", 3) == [SolutionTurn(None, (("look", "{not json"),)), ASKED, answer]
    assert await turns("one-call-more", 3) == [ASKED, ASKED, answer]
    assert await turns("answer-first", 2, "<a>7</a>") == [SolutionTurn("<a>7</a>", ASKED.calls), SolutionTurn(CLOSING)]
    assert await turns("pasted-output", 2) == [ASKED, SolutionTurn("seven")]
    assert await turns("other-answer", 2, "8") == [ASKED, SolutionTurn("8")]


async def test_incomplete_solutions_leave_out_the_calls_or_one_step() -> None:
    answer, closing = SolutionTurn("<a>7</a>"), SolutionTurn(CLOSING)
    assert await turns("calls-left-out", 2) == [answer, closing]
    assert await turns("step-left-out", 2, "0") == [answer, closing]
    assert await turns("step-left-out", 2, "1") == [ASKED, closing]
    player = SolutionPlayer(lambda messages: "solved", "calls-left-out")
    assert await player.next(1, []) == closing


async def test_a_function_does_not_see_the_calls_that_a_change_inserts() -> None:
    seen: list[int] = []

    def play(messages: list[dict[str, Any]]) -> Any:
        seen.append(len(messages))
        return ASK if len(messages) == 1 else "done"

    player = SolutionPlayer(await stated(lambda: play), "tool-error")
    messages: list[dict[str, Any]] = [{"role": "user", "content": "?"}]
    assert (await player.next(1, messages)).calls == (("look", "{not json"),)
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1_0"}]},
        {"role": "tool", "content": "error", "tool_call_id": "call_1_0"},
    ]
    assert await player.next(2, messages) == ASKED
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_2_0"}]},
        {"role": "tool", "content": "7", "tool_call_id": "call_2_0"},
    ]
    assert await player.next(3, messages) == SolutionTurn("done")
    assert seen == [1, 3]


async def test_what_is_no_solution_is_said() -> None:
    for nothing in (7, {"role": "assistant"}):
        with pytest.raises(BadSolution):
            await stated(lambda given=nothing: given)
    with pytest.raises(BadSolution):
        turn_of({"role": "assistant", "tool_calls": [{"arguments": {}}]})
    with pytest.raises(BadSolution):
        SolutionPlayer([{"role": "user", "content": "?"}])


def _python_blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


async def test_the_functional_solution_of_the_guide_is_played_with_the_messages_that_the_guide_shows() -> None:
    page = References().page("guide/rewards") or ""
    [block] = [block for block in _python_blocks(page) if "def functional_solution" in block]
    names: dict[str, Any] = {"Any": Any}
    exec(compile(block, "guide/rewards", "exec"), names)
    messages = names["messages"]
    assert message_dicts(messages) == messages
    player = SolutionPlayer(await stated(names["functional_solution"]))
    assert await player.next(1, messages[:2]) == SolutionTurn(None, (("look_up", {"id": "A1"}),))
    assert await player.next(2, messages) == SolutionTurn("<answer>12</answer>")


@pytest.mark.parametrize("kind", ["multi_turn", "v0_multi_turn"])
async def test_the_functional_solution_in_the_readme_of_a_template_is_played(kind: str) -> None:
    [block] = _python_blocks((assembled(kind) / "README.md").read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(compile(textwrap.dedent(block), "README.md", "exec"), names)
    task = SimpleNamespace(data=SimpleNamespace(answer="7"))
    solution = names["solution"](task if kind == "multi_turn" else "7")
    player = SolutionPlayer(await stated(lambda: solution))
    messages = [{"role": "system", "content": "Solve it."}, {"role": "user", "content": "3 + 4?"}]
    assert await player.next(1, messages) == SolutionTurn("Attempt 1: <answer>7</answer>")
