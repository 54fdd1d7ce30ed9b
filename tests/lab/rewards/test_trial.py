"""test_reward on rewards that pay well one by one and misbehave otherwise; and what hostile ones leave behind."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.sandbox.kernel_support import present_support
from prime_lab_mcp.lab.state.snapshot import code_tree
from tests.lab.rewards.packages import SOUND, reward, try_reward, write

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RACE = """
Sums.current = reply
await asyncio.sleep(0)
return sound(Sums.current, gold)
"""
HASH = "return sound(reply, gold) * (1 + hash('salt') % 9973) / 9973"
"""Every correct answer earns something, and hardly ever the same in two processes."""
FLAWS = {
    "race": (RACE, ("reward-concurrency", "blocker")),
    "hashes": (HASH, ("reward-nondeterministic", "blocker")),
    "penalty": ("return sound(reply, gold) - 0.3 * ('<answer>' not in reply)", ("reward-range", "info")),
}


def texts(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, but for what the server itself writes while it runs."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
        and not {"scratch", "rewards"} & set(p.relative_to(folder).parts)
        and not p.name.startswith("ledger")
    }


@pytest.mark.parametrize("name", ["race", "hashes", "penalty"])
async def test_what_shows_only_beside_the_single_call_is_found(lab: Lab, name: str) -> None:
    code, expected = FLAWS[name]
    write(lab, name, reward(code))
    outcome = await try_reward(lab, name, examples=4)
    assert expected in {(f.code, f.severity) for f in outcome.findings}


async def test_the_process_is_named_as_the_cause(lab: Lab) -> None:
    salted = "SALT = random.random()\n"
    folder = write(lab, "salted", reward("return sound(reply, gold) * SALT"))
    module = folder / "salted.py"
    module.write_text(module.read_text(encoding="utf-8").replace("SYSTEM =", f"{salted}SYSTEM ="), encoding="utf-8")
    outcome = await try_reward(lab, "salted", examples=4)
    (finding,) = [f for f in outcome.findings if f.code == "reward-nondeterministic"]
    assert "depends on the process" in finding.message


async def test_holding_the_loop_and_changing_inputs_only_warn(lab: Lab) -> None:
    code = """
    self.data.notes.append(reply)
    time.sleep(0.12 if reply == '' else 0)
    return sound(reply, gold)
    """
    folder = write(lab, "rude", reward(textwrap.dedent(code)))
    module = folder / "rude.py"
    text = module.read_text(encoding="utf-8").replace(
        "    answer: str\n", "    answer: str\n    notes: list[str] = []\n"
    )
    module.write_text(text, encoding="utf-8")
    outcome = await try_reward(lab, "rude", examples=4)
    found = {f.code: f.severity for f in outcome.findings if f.severity != "info"}
    assert found == {"reward-blocks-loop": "warning", "reward-mutates": "warning"}
    assert outcome.status == "passed", [(f.code, f.message) for f in outcome.findings]


HOSTILE = {
    "forks": (
        "import os\nif 'x' not in Sums.__dict__:\n    Sums.x = 1\n"
        "    for _ in range(30):\n        if os.fork() == 0: time.sleep(600)",
        "",
    ),
    "hogs": ("Sums.hog = bytearray(6 << 30)", "reward-raises"),
    "leaves": ("raise SystemExit(0)", "reward-raises"),
    "ends": ("import os\nos._exit(0)", "reward-raises"),
    "writes": ("open('notes.txt', 'a').write(reply)", ""),
}


@pytest.mark.rotate(share=2)
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_reward_is_reported_and_leaves_nothing_behind(
    lab: Lab, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))  # data sets of the user's cache would be copied
    code, expected = HOSTILE[name]
    write(lab, name, reward(f"{code}\nreturn sound(reply, gold)"))
    taken = await lab.snapshot(name)
    code_tree(taken)  # made by the first call that runs the code
    before = texts(lab.workspace.root), texts(lab.settings.state_dir)
    outcome = await try_reward(lab, name, examples=1)
    blockers = {f.code for f in outcome.findings if f.severity == "blocker"}
    assert blockers & set(expected.split()) or not expected
    assert (texts(lab.workspace.root), texts(lab.settings.state_dir)) == before
    assert taken.tree.is_dir()
    await lab.workers.close()
    assert list((lab.settings.state_dir / "scratch").iterdir()) == []


async def test_a_reward_that_writes_into_its_own_package_is_refused(lab: Lab) -> None:
    write(lab, "scribbles", reward("open(__file__, 'a').write('#')\nreturn sound(reply, gold)"))
    if present_support().files == "confined":
        outcome = await try_reward(lab, "scribbles", examples=1)
        assert (outcome.status, {f.code for f in outcome.blockers}) == ("inconclusive", {"confined"})
        return
    with pytest.raises(LabError) as raised:
        await try_reward(lab, "scribbles", examples=1)
    assert raised.value.code == "snapshot-changed"


DOORS = """
import verifiers.v1 as vf


class Way(vf.State):
    passed: int = 0


class Data(vf.TaskData):
    way: list[str]


class House(vf.Task[Data, Way]):
    @vf.reward(weight=1.0)
    async def arrived(self, trace: vf.Trace) -> float:
        return float(trace.state.passed == len(self.data.way))


class Houses(vf.Taskset[House, vf.TasksetConfig]):
    def load(self):
        for n in range(60):
            way = [("left", "right", "up")[n // 3**k % 3] for k in range(4)]
            yield House(Data(prompt=f"House {n}: say one direction each turn.", way=way),
                        self.config.task)


class Config(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(runtime=vf.SubprocessConfig())


class HousesEnv(vf.SingleAgentEnv, vf.Env[Config]):
    async def run(self, task, agents):
        async with agents.agent.interaction(task) as interaction:
            turn = await interaction.turn()
            for _ in range(12):
                state = interaction.trace.state
                if turn.terminated or state.passed == len(task.data.way):
                    return
                right = (turn.last_reply or "").strip() == task.data.way[state.passed]
                state.passed += right
                if state.passed == len(task.data.way):
                    return
                turn = await interaction.turn("the door opens" if right else "a wall")


__all__ = ["Houses", "HousesEnv"]
"""


async def test_cases_of_a_game_are_played_in_every_process(lab: Lab) -> None:
    write(lab, "doors", SOUND).joinpath("doors.py").write_text(DOORS, encoding="utf-8")
    ways = {n: [("left", "right", "up")[n // 3**k % 3] for k in range(4)] for n in range(1, 11)}
    wins = {n: [*way] for n, way in ways.items() if n < 6} | {n: ["down"] * 4 for n in ways if n > 5}
    cases = [
        {
            "name": f"house {n}",
            "task": n,
            "completion": [{"role": "assistant", "content": said} for said in way],
            "expected": "high" if n < 6 else "low",
        }
        for n, way in wins.items()
    ]
    outcome = await try_reward(lab, "doors", cases=cases)
    assert "reward-nondeterministic" not in {f.code for f in outcome.findings}, [f.message for f in outcome.findings]
    assert outcome.status == "passed", [(f.code, f.message) for f in outcome.findings]
