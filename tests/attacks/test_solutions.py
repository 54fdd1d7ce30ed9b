"""Rewards that depend on tools or turns: a task's solution is played, and no gold is believed that cannot be earned."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from tests.lab.rewards.packages import codes, try_reward, write
from tests.support.interpreters import DATASETS, OLDEST
from tests.support.packages import pyproject

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.usefixtures("shared_interpreters"),
    pytest.mark.slow,
    pytest.mark.rotate(share=3, group="solutions"),
]

HUTS = """\
import re

import verifiers as vf
from datasets import Dataset

BEDS = {{f"Nr. {{n}}": 3 * n + 20 for n in range(80)}}


def beds(hut: str) -> str:
    \"\"\"Number of beds of a hut.

    Args:
        hut: its name, such as Nr. 7
    \"\"\"
    return str(BEDS.get(hut, "error: there is no such hut"))


def said(message, name):
    return (message.get(name) if isinstance(message, dict) else getattr(message, name, None)) or ""


def looked_up(completion):
    return any(said(m, "role") == "tool" and not said(m, "content").startswith("error") for m in completion)


def right(completion, answer):
    last = said(completion[-1], "content") if completion else ""
    return re.findall("<answer>([^<]*)</answer>", last) == [answer]


def correct(completion, answer) -> float:
    {reward}

{solution}

def load_environment() -> vf.Environment:
    rows = [
        {{"question": f"How many beds has the hut {{hut}}?", "answer": str(number), "info": {{"hut": hut}}}}
        for hut, number in BEDS.items()
    ]
    system = "Look it up, then put the number in <answer></answer> tags."
    return vf.ToolEnv(
        dataset=Dataset.from_list(rows), system_prompt=system, rubric=vf.Rubric(funcs=[correct]), tools=[beds]
    )
"""
HONEST = "return float(right(completion, answer) and looked_up(completion))"
GUESSES = "return right(completion, answer) * (1.0 if looked_up(completion) else 0.9)"
SOLUTION = """
def solution(info, answer):
    call = {"name": "beds", "arguments": {"hut": info["hut"]}}
    return [{"role": "assistant", "tool_calls": [call]}, f"<answer>{answer}</answer>"]
"""
READS = """
def solution(info):
    def play(messages):
        if messages[-1]["role"] == "tool":
            return f"<answer>{messages[-1]['content']}</answer>"
        return {"role": "assistant", "tool_calls": [{"name": "beds", "arguments": {"hut": info["hut"]}}]}

    return play
"""


def huts(lab: Lab, name: str, reward: str = HONEST, solution: str = "") -> None:
    folder = write(lab, name, "")
    table = pyproject(name, description="Huts.", dependencies=[OLDEST, DATASETS], tags=["tool-use"])
    (folder / "pyproject.toml").write_text(table, encoding="utf-8")
    (folder / f"{name}.py").write_text(HUTS.format(reward=reward, solution=solution), encoding="utf-8")


async def quickly(lab: Lab, name: str, **arguments: Any) -> Outcome:
    return await try_reward(lab, name, examples=1, probes=False, **arguments)


async def test_a_reward_that_asks_for_a_call_is_judged_by_solutions_and_by_nothing_less(lab: Lab) -> None:
    huts(lab, "unsolved")
    bare = await quickly(lab, "unsolved")
    assert (bare.status, codes(bare)) == ("inconclusive", {"gold-not-understood"})
    assert bare.data["gold_pass_rate"] is None
    assert '"name": "beds", "arguments": {"hut": ...}' in bare.data["solution_skeleton"]
    (reads, *_) = bare.next
    assert (reads.tool, dict(reads.arguments)) == ("read_environment", {"environment": "environments/unsolved"})
    assert "data.solution_skeleton, filled in, with edit_environment" in reads.why

    huts(lab, "guesses", GUESSES)
    assert codes(await quickly(lab, "guesses")) == {"gold-not-understood"}

    huts(lab, "solved", HONEST, SOLUTION)
    solved = await try_reward(lab, "solved", examples=2)
    assert (solved.status, codes(solved), solved.data["gold_pass_rate"]) == ("passed", set(), 1.0)
    assert solved.data["solutions"]["instead"] == {
        "noop": 0.0,
        "bare-answer": 0.0,
        "wrong-argument": 0.0,
        "tool-error": 1.0,
        "one-call-more": 1.0,
        "answer-first": 0.0,
        "pasted-output": 0.0,
        "other-answer": 0.0,
    }
    assert solved.data["solutions"]["answers_scored_after_its_calls"]

    huts(lab, "paid_guess", GUESSES, READS)
    guessed = await quickly(lab, "paid_guess")
    assert (guessed.status, guessed.data["max_reward"]) == ("passed", 1.0)
    assert "90% without a tool call" in next(f.message for f in guessed.findings if f.code == "paid-without-tool")


async def test_what_only_the_calls_of_a_solution_reach_is_probed_too(lab: Lab) -> None:
    huts(lab, "substring", "return float(answer in said(completion[-1], 'content') and looked_up(completion))", READS)
    assert "reward-wrong-passes" in codes(await try_reward(lab, "substring", examples=2))


async def test_a_solution_that_cannot_be_played_or_is_not_paid_never_passes(lab: Lab) -> None:
    huts(lab, "raises", HONEST, "def solution(info):\n    return info['cabin']\n")
    raised = await quickly(lab, "raises")
    assert raised.status == "inconclusive"
    assert "reward-solution-broken" in codes(raised)
    assert "KeyError" in next(f.message for f in raised.findings if f.code == "reward-solution-broken")

    huts(lab, "unpaid", HONEST, SOLUTION.replace('"hut": info["hut"]', '"hut": "the other"'))
    unpaid = await quickly(lab, "unpaid")
    assert unpaid.status != "passed"
    assert "reward-gold-fails" in codes(unpaid)


async def test_cases_with_tool_calls_are_played_with_the_real_tools_and_stand_in_for_a_solution(lab: Lab) -> None:
    huts(lab, "cases")

    def case(task: int, hut: int, expected: str) -> dict[str, Any]:
        call = {"id": "c", "type": "function", "function": {"name": "beds", "arguments": f'{{"hut": "Nr. {hut}"}}'}}
        said = [{"role": "assistant", "content": None, "tool_calls": [call]}]
        said.append({"role": "tool", "tool_call_id": "c", "content": "invented"})
        said.append({"role": "assistant", "content": f"<answer>{3 * task + 20}</answer>"})
        return {"name": f"{task} {hut}", "task": task, "completion": said, "expected": expected}

    some = [case(n, n, "high") for n in range(4)]
    few = await quickly(lab, "cases", cases=some)
    assert [c["reward"] for c in few.data["supplied_cases"]] == [1.0] * 4
    # The fifth hut does not exist, so its calls fail, whatever the case says that the tool answered.
    enough = await quickly(lab, "cases", cases=[*some, *(case(n, 99, "low") for n in range(4))])
    assert [c["reward"] for c in enough.data["supplied_cases"]] == [1.0] * 4 + [0.0] * 4
    assert enough.status == "passed"


DUEL = """\
import verifiers.v1 as vf


class Data(vf.TaskData):
    answer: str


class Duel(vf.Task[Data]):
    {solution}

    @vf.reward(weight=1.0)
    async def won(self, trace: vf.Trace) -> float:
        heard = [str(m.content) for m in trace.messages if m.role == "user"][1:]
        replies = [str(m.content) for m in trace.assistant_messages][1:]
        return float(len(replies) == 3 and replies == [str(int(text) + 1) for text in heard])


class Duels(vf.Taskset[Duel, vf.TasksetConfig]):
    def load(self):
        for n in range(40):
            prompt = f"Say ready; then say the number after mine. Round {{n}}."
            yield Duel(Data(prompt=prompt, answer=f"win {{n}}"), self.config.task)


class Config(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )


class DuelEnv(vf.SingleAgentEnv, vf.Env[Config]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for step in range(3):
                if turn.terminated:
                    return
                turn = await interaction.turn(str(len(task.data.answer) * (step + 3)))


__all__ = ["Duels", "DuelEnv"]
"""
PLAYS = """def solution(self):
        def play(messages):
            users = [m["content"] for m in messages if m["role"] == "user"]
            return "ready" if len(users) == 1 else str(int(users[-1]) + 1)

        return play
"""


async def test_a_solution_may_be_a_function_that_answers_an_opponent(lab: Lab) -> None:
    for name, solution in (("duel", ""), ("played", PLAYS)):
        folder = write(lab, name, "")
        (folder / f"{name}.py").write_text(DUEL.format(solution=solution), encoding="utf-8")
    assert codes(await quickly(lab, "duel")) == {"gold-not-understood"}
    played = await quickly(lab, "played")
    assert (played.status, played.data["gold_pass_rate"]) == ("passed", 1.0)
    assert played.data["solutions"]["instead"] == {"noop": 0.0, "bare-answer": 0.0}
