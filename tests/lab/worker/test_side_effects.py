"""Many completions in one event loop, inputs that scoring changes, a loop that it holds up: through a real worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import WorkerError
from prime_lab_mcp.lab.worker.pool import OTHER_SEEDS
from prime_lab_mcp.lab.worker.scoring import Case, SideEffects
from tests.support.scoring import problems

from .conftest import Opened, Write, said

pytestmark = pytest.mark.anyio
MIXED = [(said(row, text), True) for row in range(4) for text in (str(2 * row), "77")]


async def manners(
    write: Write, opened: Opened, reward: str, cases: list[tuple[Case, bool]] = MIXED, top: str = ""
) -> list[SideEffects]:
    async with opened(write(reward=reward, top=top)) as worker:
        return await worker.measure_side_effects(cases)


async def calm(
    write: Write, opened: Opened, reward: str, cases: list[tuple[Case, bool]] = MIXED, top: str = ""
) -> list[SideEffects]:
    """Measure until no case blocks, at most five times: a busy machine holds up the loop of any reward now and then."""
    for _ in range(5):
        measured = await manners(write, opened, reward, cases, top)
        if max(m.blocked_ms for m in measured) < 100:
            break
    return measured


def noted(write: Write, reward: str) -> Path:
    """The sample with a list in its task data: fields are frozen, what they hold is not."""
    tree = write(reward=reward)
    code = (tree / "sample.py").read_text(encoding="utf-8")
    (tree / "sample.py").write_text(code.replace("answer: str", "answer: str; notes: list[str] = []"), encoding="utf-8")
    return tree


async def test_a_sound_reward_earns_the_same_alone_and_at_once(write: Write, opened: Opened) -> None:
    found = await calm(write, opened, "await asyncio.sleep(0.01)")
    assert [m.alone for m in found] == [2.0, 0.0] * 4
    assert [m.concurrent for m in found] == [(m.alone,) for m in found]
    assert {m.mutated for m in found} == {()}
    assert max(m.blocked_ms for m in found) < 100


async def test_a_variable_shared_across_an_await_is_mixed_up(write: Write, opened: Opened) -> None:
    reward = """
    global current
    current = trace.last_reply
    await asyncio.sleep(0)
    return float(current == self.data.answer)
    """
    found = await manners(write, opened, reward)
    assert [m.alone for m in found] == [2.0, 0.0] * 4
    assert [m.concurrent for m in found] != [(m.alone,) for m in found]


async def test_cases_that_are_not_marked_are_only_watched(write: Write, opened: Opened) -> None:
    found = await manners(write, opened, "pass", [(said(1, "2"), True), (said(1, "2"), False)])
    assert [m.concurrent for m in found] == [(2.0,), None]


@pytest.mark.parametrize(("wait", "blocks"), [("time.sleep(0.15)", True), ("await asyncio.sleep(0.15)", False)])
async def test_what_holds_the_loop_is_told_from_what_waits(
    write: Write, opened: Opened, wait: str, blocks: bool
) -> None:
    (found,) = await (manners if blocks else calm)(write, opened, wait, [(said(1, "2"), False)])
    assert (found.blocked_ms > 100) is blocks


async def test_what_is_slow_only_the_first_time_does_not_count(write: Write, opened: Opened) -> None:
    reward = "time.sleep(0 if FIRST else 0.2); FIRST.append(1)"
    (found,) = await calm(write, opened, reward, [(said(1, "2"), False)], top="FIRST = []")
    assert found.blocked_ms < 100


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("self.data.notes.append('x')", "task.data.notes"),
        ("trace.nodes[-1].message.content = 'x'", "messages"),
        ("trace.nodes.pop()", "messages"),
    ],
)
async def test_inputs_that_scoring_changes_are_named(write: Write, opened: Opened, code: str, name: str) -> None:
    async with opened(noted(write, code)) as worker:
        (found,) = await worker.measure_side_effects([(said(1, "2"), False)])
    assert found.mutated == (name,)


async def test_a_change_that_the_first_scoring_made_for_good_is_seen_later(write: Write, opened: Opened) -> None:
    async with opened(noted(write, "self.data.notes[:] = ['x']")) as worker:
        await worker.score([said(1, "2")])
        (found,) = await worker.measure_side_effects([(said(1, "2"), False)])
    assert found.mutated == ("task data",)


async def test_a_reward_that_ends_the_process_only_at_once_is_told(write: Write, opened: Opened) -> None:
    reward = """
    COUNT.append(1)
    await asyncio.sleep(0.01)
    if len(COUNT) > 1: os._exit(5)
    COUNT.pop()
    """
    with pytest.raises(WorkerError, match="exit code 5"):
        await manners(write, opened, reward, top="COUNT = []")


@pytest.mark.slow
async def test_a_twin_has_another_hash_seed_and_the_same_tasks(write: Write, opened: Opened) -> None:
    reward = "return float(hash(trace.last_reply) % 1_000_003)"
    cases = [said(n, str(n)) for n in range(4)]
    async with opened(write(reward=reward)) as worker:
        await worker.rows(limit=5)
        here = await worker.score(cases)
        async with worker.in_another_process(OTHER_SEEDS[0]) as other:
            there = await other.score(cases)
    assert [problems(s) for s in there] == [()] * 4
    assert [s.reward for s in here] != [s.reward for s in there]


async def test_a_task_that_differs_in_the_twin_is_told(write: Write, opened: Opened) -> None:
    tree = write()
    code = (tree / "sample.py").read_text(encoding="utf-8").replace("answer=str(2 * i)", "answer=str(hash('a'))")
    (tree / "sample.py").write_text(code, encoding="utf-8")
    async with opened(tree) as worker:
        await worker.rows(limit=5)
        async with worker.in_another_process(OTHER_SEEDS[0]) as other:
            (scored,) = await other.score([said(1, "2")])
    assert problems(scored) == ("task-changed",)
