"""What a v1 environment tells about itself for training: arguments, roles, the wire, the other split, rebuilt tasks."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.configs.schema import problems_against
from prime_lab_mcp.lab.environment import load_check
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.lab.worker.pool import Workers

from .conftest import Opened, Write, own_interpreter, said

pytestmark = pytest.mark.anyio

SPLITS = """
from typing import Any, Literal
import verifiers.v1 as vf
{top}
class Data(vf.TaskData):
    answer: str
    {field}

class SampleTask(vf.Task[Data]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        {reward}

class Config(vf.TasksetConfig):
    split: Literal["train", "test"] = "train"
    size: int = 3

class SampleTaskset(vf.Taskset[SampleTask, Config]):
    def load(self):
        {load}
        for i in range(self.config.size):
            task = SampleTask(Data(prompt=f"{{self.config.split}} {{i}}?", answer=str(i){value}), self.config.task)
            {each}
            yield task

__all__ = ["SampleTaskset"]
"""
RIGHT = "return float(self.data.answer in trace.last_reply)"


def module(
    field: str = "pass", value: str = "", reward: str = RIGHT, load: str = "pass", each: str = "pass", top: str = ""
) -> str:
    return SPLITS.format(field=field, value=value, reward=reward, load=load, each=each, top=top)


async def test_arguments_have_type_default_and_choices(write: Write, opened: Opened) -> None:
    async with opened(write(module())) as worker:
        facts = await worker.facts()
    assert [(a.name, a.type, a.default, a.choices) for a in facts.args] == [
        ("split", "Literal['train', 'test']", "train", ("train", "test")),
        ("size", "int", 3, ()),
    ]


async def test_the_tables_of_a_config_have_schemas(write: Write, opened: Opened) -> None:
    async with opened(write(module())) as worker:
        shapes = (await worker.facts()).shapes
    assert shapes["tools"] is False
    right = {"id": "x", "split": "test", "size": 3, "task": {"judges": [{"id": "a", "more": 1}]}, "system_prompt": "p"}
    assert problems_against(right, shapes["taskset"], "t") == []
    wrong = problems_against({"splt": "test", "size": "x", "task": {"more": 1}}, shapes["taskset"], "t")
    assert [(p.key, p.near) for p in wrong] == [("t.splt", "split"), ("t.size", None), ("t.task.more", None)]
    agent = {"harness": {"id": "null", "more": 1}, "runtime": {"type": "docker", "image": "i"}, "max_turns": 3}
    assert problems_against({"agent": agent, "retries": {"max_retries": 1}}, shapes["env"], "env") == []
    wrong = problems_against({"agent": {"runtime": {"cpus": 1}, "max_turn": 3}, "agnet": {}}, shapes["env"], "env")
    assert [p.key for p in wrong] == ["env.agent.runtime.cpus", "env.agent.max_turn", "env.agnet"]


SEVERAL = """

class SampleEnvConfig(vf.EnvConfig):
    solver: vf.AgentConfig = vf.AgentConfig(harness=vf.harness_config_type("null")(id="null"), max_turns=3)
    helper: vf.AgentConfig = vf.AgentConfig(sampling={"max_completion_tokens": 7}, retries={"max_retries": 2})

class SampleEnv(vf.Env[SampleEnvConfig]):
    async def run(self, task, agents):
        for _ in range(8):
            await agents.solver.run(task)
"""
PLAIN = """

class SampleEnvConfig(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(harness=vf.harness_config_type("null")(id="null"))

class SampleEnv(vf.SingleAgentEnv, vf.Env[SampleEnvConfig]):
    pass
"""


def with_class(source: str) -> str:
    return module().replace('__all__ = ["SampleTaskset"]', f'{source}\n__all__ = ["SampleTaskset", "SampleEnv"]')


async def test_what_an_episode_plays_is_recorded(write: Write, opened: Opened) -> None:
    async with opened(write(with_class(SEVERAL))) as worker:
        several = (await worker.facts()).shapes["episode"]
    assert several["own"] is True
    none = {"max_retries": 0, "rules": []}
    assert several["agents"] == {
        "solver": {"harness": "null", "runtime": "prime", "max_turns": 3, "sampling": None, "retries": none},
        "helper": {
            "harness": "bash",
            "runtime": "prime",
            "max_turns": None,
            "sampling": {"max_tokens": 7},
            "retries": {"max_retries": 2, "rules": []},
        },
    }
    assert several["retries"] == none


@pytest.mark.parametrize(("source", "harness"), [(PLAIN, "null"), ("", "bash")])
async def test_a_class_that_only_sets_defaults_has_no_code_of_its_own(
    write: Write, opened: Opened, source: str, harness: str
) -> None:
    async with opened(write(with_class(source) if source else module())) as worker:
        episode = (await worker.facts()).shapes["episode"]
    assert (episode["own"], episode["agents"]["agent"]["harness"]) == (False, harness)


async def test_the_pace_at_which_a_class_makes_sandboxes_is_recorded(write: Write, opened: Opened) -> None:
    paced = PLAIN.replace('vf.harness_config_type("null")(id="null")', "None").replace(
        "harness=None", 'runtime={"type": "prime", "creates_per_min": 3}'
    )
    async with opened(write(with_class(paced))) as worker:
        agents = (await worker.facts()).shapes["episode"]["agents"]
    assert (agents["agent"]["runtime"], agents["agent"]["creates_per_min"]) == ("prime", 3)


async def test_the_split_that_is_not_loaded_is_listed_on_demand(write: Write, opened: Opened) -> None:
    async with opened(write(module())) as worker:
        assert (await worker.facts()).held_out == "split=test"
        loaded, other = await worker.rows(limit=9), await worker.rows(limit=2, split="eval")
        scored = await worker.score([said(0, "0")])
    assert [r.prompt[0]["content"] for r in loaded.rows] == ["train 0?", "train 1?", "train 2?"]
    assert ([r.prompt[0]["content"] for r in other.rows], other.total) == (["test 0?", "test 1?"], None)
    assert (scored[0].reward, scored[0].problems) == (1.0, ())


GENERATOR = """
import random
from typing import Any, Literal
import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: str
    level: str

class SampleTask(vf.Task[Data]):
    @vf.reward
    async def correct(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)

class Config(vf.TasksetConfig):
    level: Literal["all", "easy", "hard"] = "all"
    seed: int = 0

class SampleTaskset(vf.Taskset[SampleTask, Config]):
    def load(self):
        draw = random.Random({seed})
        for n in range(30):
            top = {top}
            numbers = [draw.randrange(top) for _ in range(2)]
            prompt = f"{{self.config.level}}: {{numbers}}?"
            yield SampleTask(Data(prompt=prompt, answer=str(sum(numbers)), level=self.config.level), self.config.task)

__all__ = ["SampleTaskset"]
"""
BY_LEVEL = '10_000 if self.config.level == "hard" else 10'


@pytest.mark.parametrize(
    ("seed", "top", "same"),
    [
        ("self.config.seed", BY_LEVEL, [True, False, False]),
        ("self.config.seed", "1000", [True, False, True]),
        ("7", BY_LEVEL, [True, True, False]),
        ("None", BY_LEVEL, [False, False, False]),
    ],
)
async def test_a_generator_is_loaded_with_other_arguments(
    write: Write, opened: Opened, seed: str, top: str, same: list[bool]
) -> None:
    async with opened(write(GENERATOR.format(seed=seed, top=top))) as worker:
        effects = (await worker.facts()).generator
    assert [(e.argument, e.values) for e in effects] == [
        ("seed", ("0", "0")),
        ("seed", ("0", "1")),
        ("level", ("easy", "hard")),
    ]
    assert [e.same for e in effects] == same


@pytest.mark.parametrize(("chance", "same"), [("random.Random(7)", True), ("random.Random()", False)])
async def test_a_taskset_without_a_seed_is_loaded_again_and_every_step_of_its_levels_is_compared(
    write: Write, opened: Opened, chance: str, same: bool
) -> None:
    text = GENERATOR.format(seed="self.config.seed", top='1000 if self.config.level == "hard" else 10')
    text = text.replace("    seed: int = 0\n", "").replace("random.Random(self.config.seed)", chance)
    text = text.replace('Literal["all", "easy", "hard"] = "all"', 'Literal["easy", "medium", "hard"] = "easy"')
    async with opened(write(text)) as worker:
        effects = (await worker.facts()).generator
    assert [(e.argument, e.values) for e in effects] == [
        ("", ("", "")),
        ("level", ("easy", "medium")),
        ("level", ("medium", "hard")),
    ]
    assert effects[0].same is same
    assert [e.same for e in effects[1:]] == ([True, False] if same else [False, False])


async def test_a_level_that_is_a_number_is_compared_with_the_next(write: Write, opened: Opened) -> None:
    text = GENERATOR.format(seed="self.config.seed", top="10 ** self.config.level")
    text = text.replace('level: Literal["all", "easy", "hard"] = "all"', "level: int = 2")
    text = text.replace("level=self.config.level", "level=str(self.config.level)")
    async with opened(write(text)) as worker:
        effects = (await worker.facts()).generator
    assert ("level", ("2", "3"), False) in [(e.argument, e.values, e.same) for e in effects]


async def test_without_a_split_there_is_no_other(write: Write, opened: Opened) -> None:
    async with opened(write()) as worker:
        assert (await worker.facts()).held_out is None
        assert (await worker.rows(limit=2, split="eval")).rows == ()


async def test_a_run_without_flags_gets_a_rented_sandbox_unless_an_env_says_otherwise(
    write: Write, opened: Opened
) -> None:
    own = module().replace(
        '__all__ = ["SampleTaskset"]',
        """
class EnvConfig(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(harness=vf.harness_config_type("null")(id="null"),
                                           runtime=vf.SubprocessConfig())
class SampleEnv(vf.SingleAgentEnv, vf.Env[EnvConfig]):
    pass
__all__ = ["SampleTaskset", "SampleEnv"]
""",
    )
    found = []
    for code in (module(), own):
        async with opened(write(code)) as worker:
            found.append([(r.name, r.harness, r.runtime) for r in (await worker.facts()).roles or ()])
    assert found == [[("agent", "bash", "prime")], [("agent", "null", "subprocess")]]


@pytest.mark.parametrize(
    ("field", "value", "lost"),
    [
        ("more: Any = None", ", more=(1, 2)", "more"),
        ("more: Any = None", ", more={1: 'a'}", "more"),
        ("more: Any = None", ", more={'a', 'b'}", "more"),
        ("more: Any = None", ", more=2**70", "more"),
        ("more: Any = None", ", more=object()", "more"),
        ("more: tuple[int, ...] = ()", ", more=(1, 2)", None),
        ("more: dict[int, str] = {}", ", more={1: 'a'}", None),
        ("more: set[str] = set()", ", more={'a', 'b'}", None),
        ("more: float = 0.0", ", more=float('nan')", None),
        ("more: Any = None", ", more=[1, {'a': None}]", None),
    ],
)
async def test_data_that_does_not_come_back_equal_from_the_wire_is_told_by_field(
    write: Write, opened: Opened, field: str, value: str, lost: str | None
) -> None:
    async with opened(write(module(field, value))) as worker:
        facts = await worker.facts()
    assert {x.field for x in facts.lossy} == ({lost} if lost else set())
    assert (facts.tried, facts.lossy_total) == (3, 3 if lost else 0)


async def test_data_and_tasks_of_other_classes_than_declared_are_told(write: Write, opened: Opened) -> None:
    more = "class MoreData(Data):\n    hint: str = ''\nclass MoreTask(SampleTask):\n    pass\nclass Config("
    code = module(each="task = MoreTask(MoreData(**task.data.model_dump()))").replace("class Config(", more)
    async with opened(write(code)) as worker:
        facts = await worker.facts()
    assert (facts.declared_task, facts.other_tasks) == ("SampleTask", ("MoreTask",))
    assert "hint" in facts.lossy[0].why


async def rebuilt(workers: Workers, tree: Path) -> list[str]:
    async with workers.open(tree, str(tree), own_interpreter(), api="v1", module="sample") as worker:
        await worker.load()
        async with workers.open(tree, f"{tree}-other", own_interpreter(), api="v1", module="sample") as other:
            return [f.message for f in await load_check.rebuilt_task_findings(worker, other, await worker.facts())]


@pytest.mark.parametrize(
    ("code", "said_of_it"),
    [
        (module(), None),
        (module(top="import random", reward="return random.random()"), None),
        (
            module(
                top="GOLDS = {}",
                each="GOLDS[str(i)] = str(i)",
                reward="return float(GOLDS[self.data.answer] in trace.last_reply)",
            ),
            "KeyError",
        ),
        (module(each="task.gold = str(i)", reward="return float(self.gold in trace.last_reply)"), "AttributeError"),
        (
            module(top="SEEN = set()", each="SEEN.add(str(i))", reward="return float(trace.last_reply in SEEN)"),
            "scores 0 where the loaded one scores 1",
        ),
        (
            module(top="GOLDS = {}", reward="return float(GOLDS['x'] in trace.last_reply)").replace(
                "    def load(self):",
                "    def __init__(self, config):\n        super().__init__(config)\n"
                "        GOLDS['x'] = '1'\n    def load(self):",
            ),
            None,
        ),
        (module(reward="raise ValueError('always')"), None),
        (
            module(
                top="READY = []",
                each="READY.append(i)",
                reward="import asyncio; READY.append(0); await asyncio.sleep(3.5 * (len(READY) == 1)); return 1.0",
            ),
            None,
        ),
    ],
    ids=[
        "from-data",
        "random",
        "module-variable",
        "attribute",
        "silent-difference",
        "constructor",
        "raises-anyway",
        "slow-set-up",
    ],
)
async def test_a_task_rebuilt_from_its_data_has_to_score_the_same(
    write: Write, workers: Workers, code: str, said_of_it: str | None
) -> None:
    found = await rebuilt(workers, write(code))
    assert len(found) == (0 if said_of_it is None else 1)
    assert all(said_of_it in message for message in found if said_of_it)


async def test_later_tasks_are_rebuilt_too(write: Write, workers: Workers) -> None:
    """Code can tell the first tasks from the others by their place."""
    reward = "return 1.0 if not SEEN and int(self.data.answer) > 5 else float(self.data.answer in trace.last_reply)"
    code = module(top="SEEN = set()", each="SEEN.add(str(i))", reward=reward).replace("size: int = 3", "size: int = 40")
    (message,) = await rebuilt(workers, write(code))
    assert "a task rebuilt from its data scores 1 where the loaded one scores 0" in message


async def test_a_hidden_module_cannot_be_imported_and_looks_absent(write: Write, workers: Workers) -> None:
    asks = 'import importlib.util\nassert importlib.util.find_spec("pandas") is None\nimport importlib.metadata\n'
    sound, broken = write(module(top=asks)), write(module(load="import pandas"))
    async with workers.open(sound, "sound", own_interpreter(), api="v1", module="sample", hidden=["pandas"]) as worker:
        assert (await worker.load()).tasks == 3
    with pytest.raises(LoadFailed, match="No module named 'pandas'"):
        async with workers.open(
            broken, "broken", own_interpreter(), api="v1", module="sample", hidden=["pandas"]
        ) as worker:
            await worker.load()
