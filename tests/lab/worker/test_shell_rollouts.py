"""Rollouts of environments whose agent works with the shell of the harness `bash`, in a process and in a container.

The rewards pay for what the commands leave behind, which no text of a reply can show.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from prime_lab_mcp.lab.rewards.copied_messages import reply_form
from prime_lab_mcp.lab.rewards.shortcuts import play_shortcuts
from prime_lab_mcp.lab.rewards.solutions import SOLVED_TASKS, calls_before_answer, play_solutions
from prime_lab_mcp.lab.worker import host
from prime_lab_mcp.lab.worker.host import Worker
from prime_lab_mcp.lab.worker.scoring import RequestedRollout, RolloutResult
from tests.support.assembled import assembled
from tests.support.containers import test_image, why_no_podman

from .conftest import Opened, Write

pytestmark = pytest.mark.anyio

SHELL = '''
import verifiers.v1 as vf

class Data(vf.TaskData):
    wanted: str

class SampleTask(vf.Task[Data]):
    def solution(self):
        first = f"printf wrong > out.txt; cat /etc/hostname; id -u >&2"
        edit = {"path": "out.txt", "old_str": "wrong", "new_str": self.data.wanted}
        return [
            {"role": "assistant", "tool_calls": [{"name": "bash", "arguments": {"command": first}}]},
            {"role": "assistant", "tool_calls": [{"name": "edit", "arguments": edit}]},
            "It is written.",
        ]

    @vf.reward(weight=1.0)
    async def written(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        """1 when the file holds what was asked for."""
        found = await runtime.run(["cat", "out.txt"], {})
        return float(found.exit_code == 0 and found.stdout == self.data.wanted)

class SampleTaskset(vf.Taskset[SampleTask, vf.TasksetConfig]):
    def load(self):
        for i in range(4):
            yield SampleTask(Data(prompt=f"Write {i} into out.txt.", wanted=str(i), IMAGE), self.config.task)

class Config(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(harness=vf.harness_config_type("bash")(id="bash"), max_turns=9)

class SampleEnv(vf.SingleAgentEnv, vf.Env[Config]):
    pass

__all__ = ["SampleTaskset", "SampleEnv"]
'''


async def played(worker: Worker) -> list[RolloutResult]:
    """The solution; the same without its last call; and the words of its last reply alone."""
    assert (await worker.load()).turns
    scripts = (
        {"solution": True},
        {"solution": True, "change": "step-left-out", "text": "1"},
        {"turns": ["It is written."], "then": "repeat"},
    )
    found = await worker.rollout([RequestedRollout(2, script) for script in scripts], seconds=60)
    assert found.unavailable == ""
    return list(found.results)


@pytest.mark.slow
async def test_a_reward_for_what_commands_leave_is_earned_by_the_solution_alone(write: Write, opened: Opened) -> None:
    async with opened(write(SHELL.replace(", IMAGE", ""))) as worker:
        solved, incomplete, words = await played(worker)
    assert [(r.end, r.errors, r.reward) for r in (solved, incomplete, words)] == [
        ("ended", (), 1.0),
        ("ended", (), 0.0),
        ("ended", (), 0.0),
    ]
    assert {tool.name for tool in solved.tools} == {"bash", "edit"}
    assert solved.messages[3]["content"] == "Edited out.txt"


@pytest.mark.slow
async def test_the_same_is_played_in_containers_where_the_tasks_name_an_image(write: Write, opened: Opened) -> None:
    image = test_image()
    async with opened(write(SHELL.replace("IMAGE", f"image={image!r}, workdir='/work'"))) as worker:
        solved, incomplete, words = await played(worker)
    assert [(r.end, r.errors, r.reward) for r in (solved, incomplete, words)] == [
        ("ended", (), 1.0),
        ("ended", (), 0.0),
        ("ended", (), 0.0),
    ]


async def test_without_podman_tasks_with_an_image_are_not_played(
    write: Write, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "podman_is_installed", bool)
    async with opened(write(SHELL.replace("IMAGE", "image='python:3.11-slim'"))) as worker:
        found = await worker.rollout([RequestedRollout(0, {"solution": True})], seconds=5)
    assert found.results == ()
    assert found.unavailable == "its tasks need a container"
    assert found.by_design


async def test_an_image_that_cannot_be_had_says_nothing_about_the_environment(write: Write, opened: Opened) -> None:
    test_image()
    async with opened(write(SHELL.replace("IMAGE", "image='localhost/no-such-image:1'"))) as worker:
        found = await worker.rollout([RequestedRollout(0, {"solution": True})], seconds=60)
    assert found.results == ()
    assert "the image localhost/no-such-image:1 is not on this machine and cannot be fetched" in found.unavailable
    assert not found.by_design


@pytest.mark.slow
async def test_the_template_pays_a_right_answer_after_a_look_and_keeps_the_gold_out_of_the_runtime(
    tmp_path: Path, opened: Opened
) -> None:
    tree = shutil.copytree(assembled("sandboxed"), tmp_path / "boxed")
    taskset = tree / "sandboxed_template" / "taskset.py"
    code = taskset.read_text(encoding="utf-8")
    taskset.write_text(code.replace("image=IMAGE,", "").replace("workdir=WORKDIR,", ""), encoding="utf-8")
    async with opened(tree, module="sandboxed_template") as worker:
        assert (await worker.load()).turns
        (row,) = [one for one in (await worker.rows(limit=200)).rows if one.index == 0]
        answer = f"<answer>{row.answer}</answer>"
        look = {"calls": [["bash", {"command": "find . -type f; cat *.csv"}]]}
        scripts = (
            {"solution": True},
            {"turns": [answer], "then": "repeat"},
            {"turns": [look, answer], "then": "repeat"},
            {"turns": [{"calls": [["bash", {"command": "ls"}]]}, answer], "then": "repeat"},
            {"turns": [look, "<answer>-1</answer>"], "then": "repeat"},
        )
        found = await worker.rollout([RequestedRollout(0, script) for script in scripts], seconds=60)
    assert [r.reward for r in found.results] == [1.0, 0.0, 1.0, 0.0, 0.0], found.results
    listed = str(found.results[2].messages[1]["content"])
    assert listed.count("./") == 1, "setup writes the file of the task alone"


@pytest.mark.slow
@pytest.mark.parametrize("contained", [False, True], ids=["in a process", "in a container"])
async def test_a_gold_that_setup_leaves_beside_the_files_is_found(
    tmp_path: Path, opened: Opened, contained: bool
) -> None:
    """The template pays only a command that names a file of the task, and the files of tasks have different names."""
    tree = shutil.copytree(assembled("sandboxed"), tmp_path / "boxed")
    taskset = tree / "sandboxed_template" / "taskset.py"
    code = taskset.read_text(encoding="utf-8")
    if contained:
        code = code.replace('IMAGE = "python:3.11-slim"', f"IMAGE = {test_image()!r}")
    else:
        code = code.replace("image=IMAGE,", "").replace("workdir=WORKDIR,", "")
    placed = "await place(runtime, self.data.files)\n"
    leak = '        await runtime.write(".expected", self.data.answer.encode())\n'
    taskset.write_text(code.replace(placed, placed + leak), encoding="utf-8")
    async with opened(tree, module="sandboxed_template") as worker:
        loaded, rows = await worker.load(), (await worker.rows(limit=200)).rows
        solved = await play_solutions(worker, loaded, rows)
        found = await play_shortcuts(worker, reply_form(None, solved), solved, rows)
    assert [(one.file, len(one.paid)) for one in found] == [("./.expected", 8)], solved.unavailable


async def test_solutions_are_scored_as_messages_where_no_container_can_run(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "podman_is_installed", lambda: False)
    async with opened(assembled("sandboxed"), module="sandboxed_template") as worker:
        loaded, rows = await worker.load(), (await worker.rows(limit=200)).rows
        solved = await play_solutions(worker, loaded, rows)
    assert "need a container" in solved.unavailable
    assert [(p.result.reward, p.result.alone) for p in solved.scored] == [(1.0, 1.0)] * SOLVED_TASKS
    assert len(calls_before_answer(solved)) == SOLVED_TASKS


async def test_solutions_are_scored_as_messages_where_podman_cannot_prepare_a_container(
    tmp_path: Path, opened: Opened
) -> None:
    if why_no_podman():
        pytest.skip(why_no_podman())
    tree = shutil.copytree(assembled("sandboxed"), tmp_path / "boxed")
    taskset = tree / "sandboxed_template" / "taskset.py"
    code = taskset.read_text(encoding="utf-8")
    taskset.write_text(code.replace("python:3.11-slim", "localhost/no-such-image:1"), encoding="utf-8")
    async with opened(tree, module="sandboxed_template") as worker:
        loaded, rows = await worker.load(), (await worker.rows(limit=200)).rows
        solved = await play_solutions(worker, loaded, rows)
    assert "cannot be fetched" in solved.unavailable
    assert (solved.lacks_container, solved.by_design) == (True, False)
    assert [(p.result.reward, p.result.alone) for p in solved.scored] == [(1.0, 1.0)] * SOLVED_TASKS


@pytest.mark.slow
async def test_commands_of_one_turn_run_in_one_program_of_the_container(write: Write, opened: Opened) -> None:
    image = test_image()
    commands = ("printf one; printf two >&2", "cd /; echo $(pwd) $PPID", "kill $PPID; echo late", "echo $PPID")
    turn = {"calls": [["bash", {"command": command}] for command in commands]}
    script = {"turns": [turn, "It is written."], "then": "repeat"}
    async with opened(write(SHELL.replace("IMAGE", f"image={image!r}, workdir='/work'"))) as worker:
        assert (await worker.load()).turns
        (found,) = (await worker.rollout([RequestedRollout(2, script)], seconds=60)).results
    first, second, third, last = (str(m["content"]) for m in found.messages if m["role"] == "tool")
    assert first == "onetwo"
    assert second.startswith("/ ")
    assert "late" in third or third == ""
    assert last.strip() == "0", "a call behind one that ends the program is made by itself"
