"""A v1 environment through a worker: load, rows, scoring."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.worker.description import RewardInfo
from prime_lab_mcp.lab.worker.faults import LoadFailed
from prime_lab_mcp.lab.worker.pool import Workers
from prime_lab_mcp.lab.worker.scoring import Case, Component
from tests.support.costs import starts
from tests.support.scoring import problems

from .conftest import Opened, Write, own_interpreter, said

pytestmark = pytest.mark.anyio


async def test_load_tells_class_tasks_rewards_and_fields(write: Write, opened: Opened) -> None:
    async with opened(write()) as worker:
        loaded = await worker.load()
    assert (loaded.kind, loaded.tasks, loaded.infinite) == ("SampleTaskset", 5, False)
    assert loaded.rewards == (RewardInfo("correct", 2.0, "reward", is_async=True),)
    assert loaded.fields == ("answer",)
    assert loaded.system_prompt == "Only the number."
    assert loaded.verifiers_version == "0.4.0"


async def test_env_args_are_fields_of_the_tasksets_config(write: Write, opened: Opened) -> None:
    async with opened(write(), env_args={"count": 3}) as worker:
        assert (await worker.load()).tasks == 3


async def test_an_unknown_env_arg_is_a_flaw_and_says_which(write: Write, opened: Opened) -> None:
    with pytest.raises(LoadFailed, match="nonsense_field"):
        async with opened(write(), env_args={"nonsense_field": 3}) as worker:
            await worker.load()


async def test_env_args_in_another_order_are_other_arguments(write: Write, opened: Opened) -> None:
    """A worker that has loaded one order does not answer for another: code can read the order of a table's keys."""
    tree = write(
        """
        import verifiers.v1 as vf

        class Config(vf.TasksetConfig):
            weights: dict[str, float] = {}

        class SampleTask(vf.Task):
            @vf.reward
            async def paid(self, trace: vf.Trace) -> float:
                return float(self.data.name)

        class SampleTaskset(vf.Taskset[SampleTask, Config]):
            def load(self):
                yield SampleTask(vf.TaskData(prompt="?", name=str(next(iter(self.config.weights.values())))))

        __all__ = ["SampleTaskset"]
        """
    )
    rewards = []
    for weights in ({"a": 1.0, "b": 2.0}, {"b": 2.0, "a": 1.0}):
        async with opened(tree, env_args={"weights": weights}) as worker:
            rewards.append((await worker.score([said(0, "4")]))[0].reward)
    assert rewards == [1.0, 2.0]


async def test_rows_are_a_seeded_sample_of_messages_with_the_gold(write: Write, opened: Opened) -> None:
    async with opened(write()) as worker:
        rows = await worker.rows(limit=2, seed=7)
        again = await worker.rows(limit=2, seed=7)
    assert rows == again
    assert rows.total == 5
    first = rows.rows[0]
    assert [m["role"] for m in first.prompt] == ["system", "user"]
    assert first.prompt[1]["content"] == f"{first.index} + {first.index}?"
    assert first.answer == str(2 * first.index)
    assert len({r.key for r in rows.rows}) == 2


async def test_scoring_gives_reward_components_and_no_reply(write: Write, opened: Opened) -> None:
    async with opened(write()) as worker:
        gold, wrong, empty = await worker.score([said(2, "4"), said(2, "5"), said(2, None)])
    assert (gold.reward, wrong.reward, empty.reward) == (2.0, 0.0, 0.0)
    assert gold.components == {"correct": Component(1.0, 2.0)}
    assert not gold.problems
    assert not gold.errors


async def test_the_second_call_on_a_snapshot_is_warm(write: Write, opened: Opened) -> None:
    tree = write(top="print('imported')", reward="return os.getpid()")
    async with opened(tree) as worker:
        first = await worker.load()
        (before,) = await worker.score([said(1, "2")])
    async with opened(tree) as worker:
        second = await worker.load()
        (after,) = await worker.score([said(1, "2")])
    assert second is first
    assert after.reward == before.reward is not None, "the same process"


async def test_an_edited_snapshot_gives_the_new_result_without_a_new_interpreter(write: Write, opened: Opened) -> None:
    before, after = write(), write(reward="return 0.25")
    async with opened(before) as worker:
        assert (await worker.score([said(1, "2")]))[0].reward == 2.0
    before_the_edit = starts()
    async with opened(after) as worker:
        assert (await worker.score([said(1, "2")]))[0].reward == 0.5
    assert starts() == before_the_edit


@pytest.mark.parametrize(
    ("reward", "problem", "kind"),
    [
        ("raise RuntimeError('kaboom')", None, "RuntimeError"),
        ("return None", "not-a-float:NoneType", "TypeError"),
        ("return 'high'", "not-a-float:str", "TypeError"),
        ("return float('nan')", "nonfinite", None),
        ("return math.inf", "nonfinite", None),
        ("return 1 if trace.last_reply else {}['x']", None, None),
        ("sys.exit(3)", None, "SystemExit"),
        ("raise KeyboardInterrupt", None, "KeyboardInterrupt"),
        ("asyncio.run(asyncio.sleep(0))", None, "RuntimeError"),
        ("await asyncio.sleep(60)", "timeout", "TimeoutError"),
    ],
)
async def test_what_a_reward_does_wrong_is_in_the_result(
    write: Write, opened: Opened, reward: str, problem: str | None, kind: str | None
) -> None:
    async with opened(write(reward=reward)) as worker:
        bad, good = await worker.score([said(1, "2"), said(1, "2")], case_timeout=1.0)
    assert (problem is None) == (not bad.problems)
    assert problem is None or problem in problems(bad)
    assert {e.type for e in bad.errors} == ({kind} if kind else set())
    assert (bad.reward is None) == (problem is not None or kind is not None)
    assert good.problems == bad.problems


async def test_a_numeric_string_counts_as_verifiers_counts_it_but_is_named(write: Write, opened: Opened) -> None:
    async with opened(write(reward="return '0.5'")) as worker:
        (scored,) = await worker.score([said(1, "2")])
    assert scored.reward == 1.0
    assert problems(scored) == ("not-a-float:str",)


async def test_a_sync_reward_is_named(write: Write, opened: Opened) -> None:
    tree = write()
    code = (tree / "sample.py").read_text(encoding="utf-8").replace("async def correct", "def correct")
    (tree / "sample.py").write_text(code, encoding="utf-8")
    async with opened(tree) as worker:
        loaded = await worker.load()
        (scored,) = await worker.score([said(1, "2")])
    assert not loaded.rewards[0].is_async
    assert problems(scored) == ("sync-reward",)
    assert scored.reward is None


TWO = """
import verifiers.v1 as vf
class SampleTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def broken(self, trace: vf.Trace) -> float:
        raise ValueError("no")
    @vf.reward(weight=0.5)
    async def keyed(self, trace: vf.Trace) -> dict:
        return {"a": 1.0, "b": 0.0}
    @vf.metric
    async def length(self, trace: vf.Trace) -> float:
        return len(trace.last_reply)
class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        yield SampleTask(vf.TaskData(prompt=[vf.UserMessage(content="hi")]), self.config.task)
__all__ = ["SampleTaskset"]
"""


async def test_keyed_rewards_metrics_and_the_place_of_an_error(write: Write, opened: Opened) -> None:
    async with opened(write(TWO)) as worker:
        (scored,) = await worker.score([said(0, "abc")])
        rows = await worker.rows(limit=5)
    assert scored.metrics == {"length": 3.0}
    assert scored.reward is None
    assert scored.errors[0].where.startswith("broken:sample.py:")
    assert [dict(m) for m in rows.rows[0].prompt] == [{"role": "user", "content": "hi"}]
    async with opened(write(TWO.replace('raise ValueError("no")', "return 1"))) as worker:
        (scored,) = await worker.score([said(0, "abc")])
    assert scored.components == {"a": Component(1.0, 0.5), "b": Component(0.0, 0.5), "broken": Component(1.0, 1.0)}
    assert scored.reward == 1.5


RUNTIME = """
import verifiers.v1 as vf
class SampleTask(vf.Task[vf.TaskData]):
    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        await runtime.run(["sh", "-c", "echo ready > here.txt"], {})
    @vf.reward
    async def ran(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        result = await runtime.run(["cat", "here.txt"], {})
        return float(result.stdout.strip() == "ready")
class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        yield SampleTask(vf.TaskData(prompt="hi"), self.config.task)
__all__ = ["SampleTaskset"]
"""


async def test_a_reward_that_asks_for_a_runtime_gets_one_after_setup(write: Write, opened: Opened) -> None:
    async with opened(write(RUNTIME)) as worker:
        (scored,) = await worker.score([said(0, "x")])
    assert scored.errors == ()
    assert scored.reward == 1.0


async def test_tool_calls_in_the_chat_format_reach_the_trace(write: Write, opened: Opened) -> None:
    reward = "return float(trace.assistant_messages[0].tool_calls[0].name == 'find' and trace.num_turns == 2)"
    call = {"id": "1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "found"},
        {"role": "assistant", "content": "done"},
    ]
    async with opened(write(reward=reward)) as worker:
        (scored,) = await worker.score([Case("tools", 0, messages)])
    assert scored.errors == ()
    assert scored.reward == 2.0


async def test_an_infinite_taskset_is_never_read_to_its_end(write: Write, opened: Opened) -> None:
    tree = write(load="import itertools\nself.config = self.config.model_copy(update={'count': 10**12})")
    code = (tree / "sample.py").read_text(encoding="utf-8")
    code = code.replace("    def load", "    INFINITE = True\n    def load")
    (tree / "sample.py").write_text(code, encoding="utf-8")
    async with opened(tree) as worker:
        loaded = await worker.load()
        rows = await worker.rows(limit=7)
        (scored,) = await worker.score([said(30, "60")])
    assert (loaded.tasks, loaded.infinite) == (None, True)
    assert [r.index for r in rows.rows] == list(range(7))
    assert rows.total is None
    assert scored.reward == 2.0


async def test_later_tasks_of_an_infinite_taskset_are_drawn_by_the_seed(write: Write, opened: Opened) -> None:
    tree = write(load="self.config = self.config.model_copy(update={'count': 10**12})")
    code = (tree / "sample.py").read_text(encoding="utf-8")
    (tree / "sample.py").write_text(code.replace("    def load", "    INFINITE = True\n    def load"), encoding="utf-8")
    async with opened(tree) as worker:
        drawn, again, other = [await worker.rows(limit=40, seed=seed, after=500) for seed in (1, 1, 2)]
    places = [row.index for row in drawn.rows]
    assert drawn.total is None
    assert places == [row.index for row in again.rows] != [row.index for row in other.rows]
    assert 500 <= min(places) < 1_000
    assert 5_000 < max(places) < 20_000


async def test_later_tasks_of_a_finite_taskset_are_its_sample(write: Write, opened: Opened) -> None:
    async with opened(write()) as worker:
        rows = await worker.rows(limit=2, seed=1, after=500)
    assert (len(rows.rows), rows.total) == (2, 5)


async def test_the_snapshot_is_loaded_and_not_an_installed_package_of_the_same_name(
    write: Write, workers: Workers
) -> None:
    tree = write()
    (tree / "yaml").mkdir()
    (tree / "sample.py").rename(tree / "yaml" / "__init__.py")
    async with workers.open(tree, "shadow", own_interpreter(), api="v1", module="yaml") as worker:
        assert (await worker.load()).kind == "SampleTaskset"


async def test_a_name_that_verifiers_has_built_in_is_told(write: Write, workers: Workers) -> None:
    tree = write()
    (tree / "sample.py").rename(tree / "harbor.py")
    async with workers.open(tree, "builtin", own_interpreter(), api="v1", module="harbor") as worker:
        loaded = await worker.load()
    assert loaded.kind == "SampleTaskset"
    assert loaded.shadowed_by == "verifiers.v1.tasksets.harbor"


async def test_the_package_may_lie_under_src(write: Write, opened: Opened) -> None:
    tree = write()
    (tree / "src" / "sample").mkdir(parents=True)
    (tree / "sample.py").rename(tree / "src" / "sample" / "__init__.py")
    async with opened(tree) as worker:
        assert (await worker.load()).tasks == 5


async def test_loading_writes_nothing_into_the_snapshot(write: Write, opened: Opened) -> None:
    tree = write()
    async with opened(tree) as worker:
        await worker.score([said(1, "2")])
    assert [p.name for p in tree.rglob("*")] == ["sample.py"]


async def test_a_task_that_changed_since_its_row_was_read_is_told(write: Write, opened: Opened) -> None:
    tree = write(load="import random\nself.config = self.config.model_copy(update={'count': random.randint(5, 10**6)})")
    code = (tree / "sample.py").read_text(encoding="utf-8").replace("answer=str(2 * i)", "answer=str(random.random())")
    (tree / "sample.py").write_text(code.replace("for i in range(self.config.count)", "for i in range(5)"), "utf-8")
    async with opened(tree) as worker:
        await worker.rows(limit=5)
        assert (await worker.score([said(1, "2")]))[0].problems == ()
        await worker.close()
        assert problems((await worker.score([said(1, "2")]))[0]) == ("task-changed",)


@pytest.mark.parametrize(
    ("code", "kind", "words"),
    [
        ("import verifiers.v1 as vf\n__all__ = []\n", "TypeError", "0 Taskset subclasses"),
        ("import verifiers.v1 as vf\n", "AttributeError", "__all__"),
        ("import nowhere_to_be_found\n", "ModuleNotFoundError", "nowhere_to_be_found"),
        ("def broken(:\n", "SyntaxError", "sample.py:1"),
        ("raise RuntimeError('at import')\n", "RuntimeError", "sample.py:1"),
        ("import sys\nsys.exit(4)\n", "SystemExit", "4"),
        ("raise BaseException('odd')\n", "BaseException", "odd"),
        ("import os\nos.environ['SOME_API_KEY']\n", "KeyError", "SOME_API_KEY"),
    ],
)
async def test_what_raises_while_loading_is_a_flaw_with_its_place(
    write: Write, opened: Opened, code: str, kind: str, words: str
) -> None:
    with pytest.raises(LoadFailed, match=words) as raised:
        async with opened(write(code)) as worker:
            await worker.load()
    assert raised.value.type == kind
    assert raised.value.code == "environment-load-failed"
    assert ("--allow-env" in raised.value.fix) == ("KEY" in words)


async def test_environment_code_sees_no_credentials_and_no_home(
    write: Write, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIME_API_KEY", "very-secret-value")
    reward = """
    hidden = "PRIME_API_KEY" not in os.environ and os.path.expanduser("~") == os.getcwd()
    return float(hidden and sys.stdin.read() == "")
    """
    async with opened(write(reward=reward)) as worker:
        (scored,) = await worker.score([said(1, "2")])
    assert scored.reward == 2.0


@pytest.mark.slow
async def test_scratch_folders_are_removed(write: Write, opened: Opened, workers: Workers) -> None:
    left = Path(workers._scratch)
    before = set(left.iterdir()) if left.exists() else set()
    async with opened(write(reward="open('left.txt', 'w').write('x')")) as worker:
        await worker.score([said(1, "2")])
        await worker.close()
    assert {p.name for p in set(left.iterdir()) - before if p.name.startswith("child-")} == set()


OPPONENT = """
from typing import Literal
import verifiers.v1 as vf
class Data(vf.TaskData):
    level: str
class SampleTask(vf.Task[Data]):
    def solution(self):
        return [{reply}]
    @vf.reward
    async def won(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.solution()[0])
class Config(vf.TasksetConfig):
    level: Literal["easy", "hard"] = "easy"
class SampleTaskset(vf.Taskset[SampleTask, Config]):
    def load(self):
        for n in range(4):
            yield SampleTask(Data(prompt=f"Game {{n}}.", level=self.config.level), self.config.task)
__all__ = ["SampleTaskset"]
"""


@pytest.mark.parametrize(
    ("reply", "same"), [('"7"', True), ('"7" if self.data.level == "hard" else "5"', False)], ids=["mark", "opponent"]
)
async def test_levels_whose_prompts_agree_are_the_same_only_where_the_solutions_agree_too(
    write: Write, opened: Opened, reply: str, same: bool
) -> None:
    async with opened(write(OPPONENT.format(reply=reply))) as worker:
        traits = await worker.facts()
    (level,) = [effect for effect in traits.generator if effect.argument == "level"]
    assert (level.same, level.marked) == (same, same)
