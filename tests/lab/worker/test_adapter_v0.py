"""A v0 environment through a worker, on the oldest and newest lines of verifiers that carry that API."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.interpreter import Interpreter
from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import Case, Component
from tests.support.costs import starts
from tests.support.interpreters import older
from tests.support.scoring import problems

from .conftest import Opened, Write, said

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.rotate(share=2)]
"""Each test runs on one of the two lines per commit."""

CODE = """
import math, os, time
import verifiers as vf
from datasets import Dataset

def rows(n, word):
    return Dataset.from_list([{"question": f"{word} {i}", "answer": str(i), "info": {"n": i}} for i in range(n)])

def load_environment(count: int = 4, split: bool = True) -> vf.Environment:
    parser = vf.XMLParser(["answer"])
    async def correct(completion, answer, parser) -> float:
        return float(parser.parse_answer(completion) == answer)
    def behaves(completion, info, state) -> float:
        text = completion[-1]["content"] if completion else ""
        if text == "RAISE": raise RuntimeError("kaboom")
        if text == "NONE": return None
        if text == "NAN": return math.nan
        if text == "HANG": time.sleep(600)
        if text == "EXIT": os._exit(6)
        return 0.5
    def misspelt(completoin) -> float:
        return 1.0
    funcs, weights = [correct, behaves], [1.0, 0.2]
    if not split:
        funcs, weights = [misspelt], [1.0]
    return vf.SingleTurnEnv(
        dataset=rows(count, "train"), eval_dataset=rows(3, "eval"), parser=parser, system_prompt="Tags.",
        rubric=vf.Rubric(funcs=funcs, weights=weights, parser=parser))
"""

GROUP = """
import verifiers as vf
from datasets import Dataset
def longest(completions, answers) -> list[float]:
    return [float(len(c[-1]["content"])) for c in completions]
def load_environment():
    return vf.SingleTurnEnv(dataset=Dataset.from_list([{"question": "q", "answer": "a"}]),
                            rubric=vf.Rubric(funcs=[longest], weights=[0.5]))
"""

MULTI = """
import verifiers as vf
from datasets import Dataset
class Game(vf.MultiTurnEnv):
    async def setup_state(self, state):
        state["secret"] = "sesame"
        return state
    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "again"}]
def opened(completion, state, answer) -> float:
    return float(completion[-1]["content"] == state["secret"]) + len(state["trajectory"])
def build(i):
    return Game(dataset=Dataset.from_list([{"question": f"q{i}", "answer": "a"}]), max_turns=3,
                rubric=vf.Rubric(funcs=[opened]))
def load_environment():
    return vf.EnvGroup(envs=[build(0), build(1)], env_names=["one", "two"])
"""


@pytest.fixture(scope="module", params=["verifiers>=0.1.14,<0.2", "verifiers==0.3.1"])
async def old(request: pytest.FixtureRequest) -> Interpreter:
    return await older(request.param)


async def score(worker: Worker, *texts: str | None) -> list[tuple[float | None, tuple[str, ...]]]:
    cases = [said(1, t) for t in texts]
    return [(s.reward, problems(s)) for s in await worker.score(cases, case_timeout=1)]


async def test_load_rows_and_scoring(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(CODE), interpreter=old, api="v0") as worker:
        loaded = await worker.load()
        train = await worker.rows(limit=2, seed=3)
        evaluation = await worker.rows(limit=9, split="eval")
        last = evaluation.rows[-1]
        gold, wrong = await worker.score(
            [
                said(last.index, f"<answer>{last.answer}</answer>"),
                said(last.index, "<answer>77</answer>"),
            ]
        )
    assert (loaded.kind, loaded.tasks, loaded.system_prompt) == ("SingleTurnEnv", 4, "Tags.")
    assert loaded.rewards[:2] == (
        RewardInfo("correct", 1.0, "reward", is_async=True),
        RewardInfo("behaves", 0.2, "reward", is_async=False),
    )
    assert {"question", "answer", "info"} <= set(loaded.fields)
    assert train.total == 4
    assert [m["role"] for m in train.rows[0].prompt] == ["system", "user"]
    assert (last.prompt[-1]["content"], last.answer, last.info) == ("eval 2", "2", {"n": 2})
    assert len(evaluation.rows) == 3
    assert gold.components == {"correct": Component(1.0, 1.0), "behaves": Component(0.5, 0.2)}
    assert (gold.reward, wrong.reward) == (1.1, 0.1)
    assert gold.errors == ()


async def test_what_the_rubric_swallows_is_seen(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(CODE), interpreter=old, api="v0") as worker:
        raised, none, nan, fine = await worker.score([said(1, t) for t in ("RAISE", "NONE", "NAN", "x")])
    assert (raised.reward, problems(raised)) == (0.0, ("swallowed",))
    assert raised.errors[0].type == "RuntimeError"
    assert raised.errors[0].where.startswith("behaves:sample.py:")
    assert problems(none) == ("not-a-float:NoneType", "swallowed")
    assert (nan.reward, problems(nan)) == (None, ("nonfinite",))
    assert (fine.reward, fine.problems) == (0.1, ())


async def test_a_misspelt_argument_name_is_seen(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(CODE), interpreter=old, api="v0", env_args={"split": False}) as worker:
        (scored,) = await worker.score([said(0, "x")])
    assert scored.reward == 0.0
    assert "completoin" in scored.errors[0].message


async def test_a_reward_that_hangs_or_exits_costs_one_case(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(CODE), interpreter=old, api="v0") as worker:
        found = await score(worker, "x", "HANG", "x", "EXIT", "x")
    assert found == [(0.1, ()), (None, ("timeout",)), (0.1, ()), (None, ("exited",)), (0.1, ())]


async def test_group_rewards_are_scored_and_named(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(GROUP), interpreter=old, api="v0") as worker:
        loaded = await worker.load()
        (scored,) = await worker.score([said(0, "four")])
    assert loaded.rewards[0].kind == "group"
    assert (scored.reward, problems(scored)) == (2.0, ("group-reward",))
    assert scored.components["longest"] == Component(4.0, 0.5)


async def test_a_group_reward_sees_the_company_of_a_case(write: Write, opened: Opened, old: Interpreter) -> None:
    ranked = GROUP.replace("[float(len(c[-1]", "[float(sum(len(o) for o in completions)) + float(len(c[-1]")
    assert ranked != GROUP
    alone = said(0, "four")
    among = replace(alone, rest_of_group=[said(0, "another one").messages])
    async with opened(write(ranked), interpreter=old, api="v0") as worker:
        first, second = await worker.score([alone, among])
    assert second.problems == ()
    assert (first.reward, second.reward) == (2.5, 3.0)


async def test_equal_completions_of_a_group_that_earn_differently_are_a_problem(
    write: Write, opened: Opened, old: Interpreter
) -> None:
    placed = GROUP.replace("[float(len(c[-1]", "[float(completions.index(c)) + float(len(c[-1]")
    by_place = GROUP.replace("for c in completions", "for n, c in enumerate(completions)").replace(
        "[float(len(c[-1]", "[float(n) + float(len(c[-1]"
    )
    assert GROUP not in (placed, by_place)
    among = replace(said(0, "four"), rest_of_group=[said(0, "other").messages, said(0, "four").messages])
    for source, expected in ((placed, ()), (by_place, ("unequal-in-group:2 and 3",))):
        async with opened(write(source), interpreter=old, api="v0") as worker:
            (scored,) = await worker.score([among])
        assert problems(scored) == expected


async def test_multi_turn_environments_in_a_group_score_over_their_state(
    write: Write, opened: Opened, old: Interpreter
) -> None:
    messages = [
        {"role": "assistant", "content": "open"},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": "sesame"},
    ]
    async with opened(write(MULTI), interpreter=old, api="v0") as worker:
        loaded = await worker.load()
        (scored,) = await worker.score([Case("turns", 1, messages)])
    assert (loaded.kind, loaded.tasks) == ("EnvGroup", 2)
    assert scored.errors == ()
    assert scored.components["opened"].score is not None
    assert scored.components["opened"].score >= 2


async def test_a_second_snapshot_starts_no_new_interpreter(write: Write, opened: Opened, old: Interpreter) -> None:
    async with opened(write(CODE), interpreter=old, api="v0") as worker:
        await worker.load()
    before = starts()
    async with opened(write(CODE), interpreter=old, api="v0", env_args={"count": 2}) as worker:
        assert (await worker.load()).tasks == 2
    assert starts() == before


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def load_environment():\n    return 3\n", "not a verifiers Environment"),
        ("x = 1\n", "load_environment"),
        ("import verifiers as vf\ndef load_environment():\n    return vf.JudgeRubric()\n", "JudgeRubric|api_key"),
        ("def load_environment(n):\n    return n\n", "missing 1 required"),
    ],
)
async def test_what_is_wrong_with_loading_is_told(
    write: Write, opened: Opened, old: Interpreter, code: str, words: str
) -> None:
    with pytest.raises(LoadFailed, match=words):
        async with opened(write(code), interpreter=old, api="v0") as worker:
            await worker.load()


async def test_signal_handlers_of_an_environment_do_not_keep_it_alive(
    write: Write, opened: Opened, old: Interpreter, tmp_path: Path
) -> None:
    code = CODE.replace("def load_environment", "def build") + (
        "def load_environment():\n    env = build()\n    while True:\n        pass\n"
    )
    with pytest.raises(WorkerError) as raised:
        async with opened(write(code), interpreter=old, api="v0") as worker:
            await worker.load(timeout=3)
    assert raised.value.code == "worker-timeout"


UNWIRED = """
import verifiers as vf
from datasets import Dataset
def correct(completion, answer, parser) -> float:
    return float(parser.parse_answer(completion) == answer)
def rubric():
    return vf.Rubric([correct])
def load_environment(count: int = 2, *, hard: bool):
    rows = Dataset.from_list([{"question": f"q{i}", "answer": "a"} for i in range(count)])
    return vf.SingleTurnEnv(dataset=rows, rubric=rubric(), parser=vf.XMLParser(["answer"]))
"""


async def test_facts_are_arguments_the_held_out_set_and_the_parsers_that_functions_get(
    write: Write, opened: Opened, old: Interpreter
) -> None:
    async with opened(write(CODE), interpreter=old, api="v0") as worker:
        wired = await worker.facts()
    async with opened(write(UNWIRED), interpreter=old, api="v0", env_args={"hard": True}) as worker:
        unwired = await worker.facts()
    assert [(p.function, p.given, p.environment) for p in wired.parsers] == [("correct", "XMLParser", "XMLParser")]
    assert [(p.function, p.given, p.environment) for p in unwired.parsers] == [("correct", "Parser", "XMLParser")]
    assert (wired.held_out, unwired.held_out) == ("eval_dataset", None)
    assert [(a.name, a.type, a.default, a.required) for a in unwired.args] == [
        ("count", "int", 2, False),
        ("hard", "bool", None, True),
    ]


SHARED = """
import asyncio, time
import verifiers as vf
from datasets import Dataset
current = []
async def shared(completion, answer) -> float:
    current[:] = [completion[-1]["content"]]
    await asyncio.sleep(0)
    return float(current[0] == answer)
def sleeps(completion) -> float:
    time.sleep(0.15 if completion[-1]["content"] == "SLOW" else 0)
    return 0.0
def changes(completion, info) -> float:
    if completion[-1]["content"] == "CHANGE":
        info["seen"] = True
    return 0.0
def load_environment():
    rows = Dataset.from_list([{"question": f"q{i}", "answer": str(i), "info": {"n": i}} for i in range(4)])
    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[shared, sleeps, changes]))
"""


async def test_scoring_at_once_mixes_up_what_is_shared_and_manners_are_seen(
    write: Write, opened: Opened, old: Interpreter
) -> None:
    mixed = [(said(row, text), True) for row in range(4) for text in (str(row), "77")]
    watched = [(said(1, "SLOW"), False), (said(1, "CHANGE"), False)]
    async with opened(write(SHARED), interpreter=old, api="v0") as worker:
        found = await worker.measure_side_effects([*mixed, *watched])
    assert [m.alone for m in found[:-2]] == [1.0, 0.0] * 4
    assert [m.concurrent for m in found[:-2]] != [(m.alone,) for m in found[:-2]]
    assert found[-2].blocked_ms > 100
    assert found[-1].mutated == ("info",)
    assert {m.mutated for m in found[:-1]} == {()}
