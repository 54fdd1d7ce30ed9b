"""Whole rollouts with a scripted model through a real worker: turns, tools, hooks, errors, ends, state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.rewards import scripted_rollouts as rollouts
from prime_lab_mcp.lab.rewards.observations import ScoredCase, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker import scoring
from prime_lab_mcp.lab.worker.child.scripted_rollouts import ScriptedModel, arguments
from prime_lab_mcp.lab.worker.child.solutions import SolutionTurn
from prime_lab_mcp.lab.worker.faults import ProblemCode
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import RequestedRollout, RolloutResult
from tests.conftest import TEMPLATES
from tests.support.interpreters import older

from .conftest import Opened, Write

pytestmark = pytest.mark.anyio

GAME = """
import asyncio, os, time
import verifiers.v1 as vf

class Kept(vf.State):
    said: int = 0

class Data(vf.TaskData):
    answer: str

class SampleTask(vf.Task[Data, Kept]):
    async def setup(self, trace, runtime):
        {setup}
        trace.info["set up"] = True

    @vf.reward(weight=1.0)
    async def correct(self, trace: vf.Trace) -> float:
        {reward}
        return float(trace.last_reply == self.data.answer)

class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        for i in range(5):
            yield SampleTask(Data(prompt=f"{{i}} + {{i}}?", answer=str(2 * i)), self.config.task)

class Config(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig({agent}runtime=vf.SubprocessConfig())

class SampleEnv(vf.SingleAgentEnv, vf.Env[Config]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for left in range({turns}):
                if turn.terminated or turn.last_reply == task.data.answer:
                    return
                interaction.trace.state.said += 1
                {answers}
                turn = await interaction.turn(f"no, {{left}}")

__all__ = ["SampleTaskset", "SampleEnv"]
"""


def game(
    write: Write, *, answers: str = "pass", reward: str = "pass", setup: str = "pass", turns: int = 3, agent: str = ""
) -> Path:
    return write(GAME.format(answers=answers, reward=reward, setup=setup, turns=turns, agent=agent))


def says(*turns: Any, then: str = "repeat", row: int = 2) -> RequestedRollout:
    return RequestedRollout(row, {"turns": list(turns), "then": then})


async def play(worker: Worker, *plays: RequestedRollout) -> list[RolloutResult]:
    found = await worker.rollout(plays, seconds=20)
    assert found.unavailable == ""
    assert not found.by_design
    return list(found.results)


async def test_the_environment_answers_until_its_loop_ends(write: Write, opened: Opened) -> None:
    async with opened(game(write)) as worker:
        assert (await worker.load()).turns
        right, late, never = await play(worker, says("4"), says("5", "4"), says("5"))
    assert [(r.reward, r.turns, r.end, r.ok) for r in (right, late, never)] == [
        (1.0, 1, "ended", True),
        (1.0, 2, "ended", True),
        (0.0, 4, "ended", True),
    ]
    assert [(m["role"], m["content"]) for m in late.messages] == [
        ("assistant", "5"),
        ("user", "no, 0"),
        ("assistant", "4"),
    ]
    assert late.stop == "user_closed"
    assert (late.alone, late.errors) == (1.0, ())
    assert set(late.state) == {"said", "info.set up"}


@pytest.mark.parametrize(
    ("pieces", "where", "message"),
    [
        ({"answers": "['x'][left + 1]"}, "run, sample.py", "list index out of range"),
        ({"setup": "raise OSError('no such board')"}, "setup, sample.py", "no such board"),
        ({"reward": "raise KeyError('board')"}, "correct, sample.py", "board"),
    ],
)
async def test_what_raises_is_named_with_its_place(
    write: Write, opened: Opened, pieces: dict[str, str], where: str, message: str
) -> None:
    async with opened(game(write, **pieces)) as worker:
        (found,) = await play(worker, says("5"))
    assert (found.ok, found.reward) == (False, None)
    assert found.errors[0].where.startswith(where)
    assert message in found.errors[0].message


async def test_a_loop_without_an_end_is_stopped_and_the_next_rollout_runs(write: Write, opened: Opened) -> None:
    async with opened(game(write, turns=10**9)) as worker:
        never, right = await play(worker, says("5"), says("4"))
    assert (never.end, never.turns, never.reward) == ("endless", scoring.ENDLESS, None)
    assert right.reward == 1.0


async def test_a_stated_limit_is_not_endless(write: Write, opened: Opened) -> None:
    async with opened(game(write, turns=10**9, agent="max_turns=2, ")) as worker:
        (short,) = await play(worker, says("5"))
    assert (short.end, short.turns, short.stop) == ("ended", 2, "max_turns")
    async with opened(game(write, turns=10**9, agent="max_turns=900, ")) as worker:
        (long,) = await play(worker, says("5"))
    assert (long.end, long.turns) == ("cut", scoring.TURNS)


async def test_what_is_kept_beside_the_messages_shows(write: Write, opened: Opened) -> None:
    async with opened(game(write, reward="return float(trace.state.said)")) as worker:
        (late,) = await play(worker, says("5", "4"))
    assert (late.reward, late.alone) == (1.0, 0.0)


async def test_a_process_that_is_ended_raises_and_the_worker_goes_on(write: Write, opened: Opened) -> None:
    async with opened(game(write, answers="os._exit(3)")) as worker:
        with pytest.raises(WorkerError, match="exit code 3"):
            await worker.rollout([says("5")], seconds=5)
        assert [r.reward for r in await play(worker, says("4"))] == [1.0]


async def test_a_plain_taskset_has_no_turns(write: Write, opened: Opened) -> None:
    async with opened(write()) as worker:
        assert not (await worker.load()).turns


async def test_another_harness_is_said(write: Write, opened: Opened) -> None:
    agent = 'harness=vf.harness_config_type("codex")(id="codex"), '
    async with opened(game(write, agent=agent)) as worker:
        found = await worker.rollout([says("4")], seconds=5)
    assert found.results == ()
    assert "codex" in found.unavailable
    assert found.by_design


async def test_supplied_conversations_are_played(write: Write, opened: Opened) -> None:
    messages = tuple(
        {"role": role, "content": text} for role, text in (("assistant", "5"), ("user", "?"), ("assistant", "4"))
    )
    async with opened(game(write, reward="return float(trace.state.said)")) as worker:
        (scored,) = await worker.score([Probe("c", Family.SUPPLIED, "mine", 2, messages).case])
        case = ScoredCase(ScoredProbe(Probe("c", Family.SUPPLIED, "mine", 2, messages), scored), "high")
        (played,) = await rollouts.replay_cases(worker, [case])
    assert (scored.reward, played.scored_probe.reward) == (0.0, 1.0)
    assert (played.expected, played.scored_probe.probe.label) == ("high", "mine")


async def test_a_supplied_conversation_that_does_not_end_in_time_was_not_run(
    write: Write, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollouts, "SCRIPTED_SECONDS", 2.0)
    probes = [
        Probe(f"c{n}", Family.SUPPLIED, f"mine {n}", 2, ({"role": "assistant", "content": str(n)},)) for n in range(6)
    ]
    answers = "await asyncio.sleep(60)"
    async with opened(game(write, answers=answers, reward="return 0.0")) as worker:
        scored = await worker.score([p.case for p in probes])
        cases = [ScoredCase(ScoredProbe(p, s), "high") for p, s in zip(probes, scored, strict=True)]
        played = await rollouts.replay_cases(worker, cases)
    assert [s.reward for s in scored] == [0.0] * 6
    assert [c.scored_probe.reward for c in played] == [None] * 6
    assert all(c.scored_probe.scored.has(ProblemCode.NOT_RUN) for c in played)


@pytest.mark.slow
async def test_tools_of_a_taskset_are_offered_and_called(opened: Opened) -> None:
    tree = TEMPLATES.parents[2] / "environments" / "store_lookup"
    async with opened(tree, module="store_lookup") as worker:
        called, faulty = await play(
            worker, says({"tools": None}, "<answer>1</answer>"), says({"calls": [["nothing", "{bad"]]}, "well")
        )
    assert {t.name for t in called.tools} == {"search_products", "get_product", "get_stock", "get_supplier"}
    assert all(t.description and t.parameters["properties"] for t in called.tools)
    assert [m["role"] for m in called.messages] == ["assistant", "tool"] * 4 + ["assistant"]
    assert (faulty.ok, faulty.turns) == (True, 2)
    assert str(faulty.messages[1]["content"]).startswith("error: invalid JSON")


# --- v0 ---------------------------------------------------------------------------------------------------------------

V0 = """
import verifiers as vf
from datasets import Dataset

def look_up(name: str, times: int = 1) -> str:
    '''Look a name up.

    Args:
        name: what to look up
        times: how often
    '''
    if name == "RAISE": raise KeyError(name)
    return name * times

def said(completion, answer, state) -> float:
    return float(completion[-1].content == answer)

class Talk(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["board"] = []
        return state
    async def env_response(self, messages, state, **kwargs):
        if messages[-1].content == "RAISE": raise IndexError("no such move")
        state["board"].append(messages[-1].content)
        return [{"role": "user", "content": "again"}]

def load_environment(kind: str = "talk", turns: int = 2) -> vf.Environment:
    rows = Dataset.from_list([{"question": f"q{i}", "answer": f"a{i}"} for i in range(3)])
    rubric = vf.Rubric(funcs=[said])
    if kind == "single":
        return vf.SingleTurnEnv(dataset=rows, rubric=rubric)
    if kind == "tools":
        return vf.ToolEnv(dataset=rows, rubric=rubric, tools=[look_up], max_turns=turns, stop_errors=[KeyError])
    return Talk(dataset=rows, rubric=rubric, max_turns=turns)
"""


@pytest.fixture(scope="module", params=["verifiers>=0.1.14,<0.2", "verifiers==0.3.1"])
async def old(request: pytest.FixtureRequest) -> Interpreter:
    return await older(request.param)


@pytest.mark.rotate(share=2)
@pytest.mark.slow
async def test_turns_of_v0(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(V0), interpreter=old, api="v0") as worker:
        assert (await worker.load()).turns
        right, wrong, broken = await play(worker, says("a2"), says("b"), says("RAISE"))
    assert [(r.reward, r.alone, r.again, r.turns) for r in (right, wrong)] == [(1.0, 1.0, 1.0, 2), (0.0, 0.0, 0.0, 2)]
    assert [m["role"] for m in right.messages] == ["assistant", "user", "assistant"]
    assert (right.stop, right.state) == ("max_turns_reached", ("board",))
    assert (broken.ok, broken.reward) == (False, None)
    assert (broken.errors[0].type, broken.errors[0].message) == ("IndexError", "no such move")
    assert broken.errors[0].where.startswith("env_response, sample.py:")


@pytest.mark.rotate(share=2)
@pytest.mark.slow
async def test_no_limit_of_v0(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(V0), interpreter=old, api="v0", env_args={"turns": -1}) as worker:
        never, after = await play(worker, says("b"), says("RAISE"))
    assert (never.end, never.turns) == ("endless", scoring.ENDLESS)
    assert after.errors[0].type == "IndexError"


@pytest.mark.rotate(share=2)
@pytest.mark.slow
async def test_tools_of_v0(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(V0), interpreter=old, api="v0", env_args={"kind": "tools", "turns": 5}) as worker:
        called, raised, faulty = await play(
            worker,
            says({"tools": "a2"}, "a2"),
            says({"calls": [["look_up", {"name": "RAISE"}]]}, "a2"),
            says({"calls": [["look_up", "{bad"]]}, "a2"),
        )
    assert [t.name for t in called.tools] == ["look_up"]
    (call,) = called.messages[0]["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])["name"]) == ("look_up", "a2")
    assert (called.messages[1]["content"], called.reward, called.alone) == ("a2", 1.0, 1.0)
    assert (raised.ok, raised.errors[0].type) == (False, "ToolCallError: KeyError")
    assert raised.errors[0].where.startswith("look_up, sample.py:")
    assert (faulty.ok, faulty.reward) == (True, 1.0)


@pytest.mark.rotate(share=2)
@pytest.mark.slow
async def test_a_single_turn_of_v0_has_no_turns(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(V0), interpreter=old, api="v0", env_args={"kind": "single"}) as worker:
        assert not (await worker.load()).turns


# --- the scripted model -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "text", "made"),
    [
        ({"q": {"type": "string"}}, None, "example"),
        ({"q": {"type": "string"}}, "12", "12"),
        ({"q": {"type": "integer"}}, None, 1),
        ({"q": {"type": "integer", "minimum": 5}}, "x", 5),
        ({"q": {"type": "number"}}, "12.5", 12.5),
        ({"q": {"type": "boolean"}}, "x", True),
        ({"q": {"enum": ["a", "b"]}}, "b", "b"),
        ({"q": {"enum": ["a", "b"]}}, "c", "a"),
        ({"q": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "string"}}]}}, "c", ["c"]),
        ({"q": {"$ref": "#/$defs/Point"}}, None, {"x": 1}),
        ({"q": {"$ref": "#/$defs/Loop"}}, None, {"next": {"next": {"next": "example"}}}),
        ({"q": {"const": 7}}, "x", 7),
        ({"q": {"type": ["null", "string"]}}, None, "example"),
        ({"q": {}}, None, "example"),
        ({"q": True}, None, "example"),
    ],
)
def test_arguments_fit_the_schema(properties: dict[str, Any], text: str | None, made: Any) -> None:
    defs = {
        "Point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
        "Loop": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Loop"}}, "required": ["next"]},
    }
    found = arguments({"properties": properties, "required": ["q"], "$defs": defs}, text)
    assert found == {"q": made} or made == {"next": {"next": {"next": "example"}}}


@pytest.mark.parametrize("schema", [None, [], "x", {}, {"properties": None}, {"required": ["gone"]}])
def test_a_schema_that_is_none_breaks_nothing(schema: Any) -> None:
    assert isinstance(arguments(schema, "1"), dict)


async def test_a_script_repeats_its_last_text_or_falls_silent() -> None:
    for then, last in (("repeat", "b"), ("silence", "")):
        player = ScriptedModel({"turns": ["a", {"tools": None}, "b"], "then": then}, 9)
        player.offered([{"name": "t", "description": "", "parameters": {}}])
        turns = [await player.next([]) for _ in range(4)]
        assert turns == [SolutionTurn("a"), SolutionTurn(None, (("t", {}),)), SolutionTurn("b"), SolutionTurn(last)]


async def test_a_player_that_is_asked_too_often_says_so() -> None:
    ended: list[bool] = []
    player = ScriptedModel({"turns": ["a"], "then": "repeat"}, 2)
    player.on_end = lambda: ended.append(True)
    assert [await player.next([]) for _ in range(3)] == [SolutionTurn("a"), SolutionTurn("a"), None]
    assert (player.ended, player.turns_played, ended) == (True, 2, [True])


async def test_an_argument_can_be_taken_from_a_place_of_the_prompt() -> None:
    place = {"of": "prompt", "behind": "Shop ", "until": "number"}
    given = {"shop": place | {"as": "number"}, "name": place | {"as": "text"}, "sql": "example"}
    model = ScriptedModel({"turns": [{"calls": [["run_sql", given]]}], "then": "silence"}, 5)
    turn = await model.next([{"role": "user", "content": "Shop 17: how many?"}])
    assert turn == SolutionTurn(None, (("run_sql", {"shop": 17, "name": "17", "sql": "example"}),))


async def test_a_copied_text_is_handed_to_a_tool_once_and_then_said() -> None:
    place = {"of": "prompt", "behind": "like ", "until": ""}
    model = ScriptedModel({"turns": [], "then": "repeat", "copy": place, "into": "tab"}, 5)
    text = {"properties": {"command": {"type": "string"}}, "required": ["command"]}
    model.offered([{"name": "tab", "description": "", "parameters": text}])
    messages = [{"role": "user", "content": "like sort -r"}]
    assert await model.next(messages) == SolutionTurn(None, (("tab", {"command": "sort -r"}),))
    assert await model.next(messages) == SolutionTurn("sort -r")
