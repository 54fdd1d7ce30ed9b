"""check_environment through the real worker: what ships passes, what cannot load says why, and how to mend it."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from tests.conftest import EXAMPLES, TEMPLATES
from tests.lab.rewards.packages import SOUND, check, codes, reward, write
from tests.support.assembled import assembled

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Lab]:
    """One lab for the module: importing verifiers is what costs. Every test has environments of its own names."""
    root = tmp_path_factory.mktemp("lab")
    (root / "workspace" / "environments").mkdir(parents=True)
    opened = Lab(Settings(workspace=root / "workspace", state_dir=root / "state", templates=TEMPLATES))
    yield opened
    await opened.close()


def edit(folder: Path, old: str, new: str) -> None:
    """Change the one module of an environment that `write` made."""
    path = folder / f"{folder.name}.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


async def test_a_sound_environment_passes_and_says_what_was_loaded(lab: Lab) -> None:
    write(lab, "sound", SOUND)
    outcome = await check(lab, "sound")
    assert outcome.status == "passed"
    assert [(f.code, f.severity) for f in outcome.findings] == [("default-runtime", "info")]
    assert (outcome.data["wheel"], outcome.data["held_out"]) == ("loads", "none")
    assert outcome.data["args"] == [{"name": "size", "type": "int", "default": 70}]
    assert outcome.data["roles"] == [{"name": "agent", "harness": "bash", "runtime": "prime"}]
    assert outcome.data["api"] == "v1"
    assert outcome.data["trainable"] is True
    assert outcome.data["tasks"] == 70
    assert outcome.data["rewards"] == [{"name": "correct", "weight": 1.0}]
    assert outcome.data["verifiers_version"].startswith("0.4")
    assert outcome.next[0].tool == "test_reward"


async def test_what_raises_while_loading_is_a_blocker_with_its_line_and_a_fix(lab: Lab) -> None:
    folder = write(lab, "broken", SOUND)
    path = folder / "broken.py"
    path.write_text(
        path.read_text(encoding="utf-8").replace("import time", "import time\nimport no_such_thing"), "utf-8"
    )
    outcome = await check(lab, "broken")
    finding = next(f for f in outcome.findings if f.code == "environment-does-not-load")
    assert "no_such_thing" in finding.message
    assert finding.where == "broken.py:6"
    assert "dependencies" in finding.fix


async def test_data_that_cannot_be_reached_leaves_the_verdict_open(lab: Lab) -> None:
    folder = write(lab, "offline", SOUND)
    unreachable = "raise ConnectionError(\"Couldn't reach 'some/dataset' on the Hub\")"
    edit(folder, "import time", f"import time\n{unreachable}")
    outcome = await check(lab, "offline")
    assert outcome.status == "inconclusive"
    assert [f.code for f in outcome.blockers] == ["data-unreachable"]
    assert "some/dataset" in outcome.blockers[0].message


async def test_flaws_that_only_loading_shows_block(lab: Lab) -> None:
    bodies = {
        "plain_function": (reward("return sound(reply, gold)", kind="def"), {"reward-sync"}),
        "no_reward": ("    pass\n", {"no-reward"}),
        "weightless": (reward("return sound(reply, gold)", weight=0.0), {"no-reward"}),
    }
    found = {}
    for name, (body, _) in bodies.items():
        write(lab, name, body)
        found[name] = codes(await check(lab, name))
    both = '["Marbles", "More"]\nMore = type("More", (Marbles,), {})'
    edit(write(lab, "two_exports", SOUND), '["Marbles"]', both)
    found["two_exports"] = codes(await check(lab, "two_exports"))
    assert found == {name: expected for name, (_, expected) in bodies.items()} | {
        "two_exports": {"environment-does-not-load"}
    }


async def test_the_rows_that_an_environment_yields_are_judged(lab: Lab) -> None:
    folder = write(lab, "rows", SOUND)
    path = folder / "rows.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("blue marbles. How", "blue marbles, in all {4 * n + 7}. How"), "utf-8")
    outcome = await check(lab, "rows")
    assert codes(outcome) == {"gold-in-prompt"}


async def test_a_stored_answer_that_the_reward_pays_in_no_form_gives_nothing_away_in_the_prompt(lab: Lab) -> None:
    folder = write(lab, "names", reward("return float(reply == str(sum(map(ord, gold))))"))
    edit(folder, "How many in all?", "How many in all? (sheet {4 * n + 7})")
    outcome = await check(lab, "names")
    assert outcome.status == "passed"
    assert "gold-in-prompt" in codes(outcome, "warning")


SHELL = """\
class ShellConfig(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(harness=vf.harness_config_type("bash")(id="bash"), max_turns=4)


class Shell(vf.SingleAgentEnv, vf.Env[ShellConfig]):
    pass


__all__ = ["Marbles", "Shell"]
"""
SOLUTION = """\
    def solution(self):
        call = {"name": "bash", "arguments": {"command": "echo " + self.data.answer}}
        return [{"role": "assistant", "tool_calls": [call]}, f"<answer>{self.data.answer}</answer>"]

"""
AFTER_A_CALL = "return sound(reply, gold) * any(m.role == 'tool' for m in trace.branches[0].messages)"


@pytest.mark.parametrize(
    ("name", "scoring", "severity"),
    [("paid_alone", "return sound(reply, gold)", "blocker"), ("paid_after_a_call", AFTER_A_CALL, "warning")],
)
async def test_a_gold_in_the_prompts_blocks_beside_solutions_where_it_is_paid_alone(
    lab: Lab, name: str, scoring: str, severity: str
) -> None:
    folder = write(lab, name, reward(scoring) + SOLUTION)
    edit(folder, "How many in all?", "How many in all? (The answer is {4 * n + 7}.)")
    edit(folder, '__all__ = ["Marbles"]\n', SHELL)
    outcome = await check(lab, name)
    finding = next(f for f in outcome.findings if f.code == "gold-in-prompt")
    assert finding.severity == severity
    assert ("copying scores" in finding.message) is (severity == "blocker")


async def test_a_gold_that_is_paid_after_calls_blocks_where_solutions_end_with_it_and_every_prompt_states_it(
    lab: Lab,
) -> None:
    folder = write(lab, "ticket", reward(AFTER_A_CALL) + SOLUTION.replace('"echo " + self.data.answer', '"ls"'))
    edit(folder, "How many in all?", "How many in all? (Ticket 2024-{4 * n + 7})")
    edit(folder, '__all__ = ["Marbles"]\n', SHELL)
    outcome = await check(lab, "ticket")
    (finding,) = [f for f in outcome.findings if f.code == "gold-in-prompt"]
    assert (outcome.status, finding.severity) == ("failed", "blocker")
    assert "after their calls, a copy scores" in finding.message


async def test_the_checks_load_with_the_arguments_that_the_package_names(lab: Lab) -> None:
    folder = write(lab, "sized", SOUND)
    pyproject = folder / "pyproject.toml"
    pyproject.write_text(
        pyproject.read_text(encoding="utf-8") + "\n[tool.prime-lab]\ncheck_args = { size = 65 }\n", "utf-8"
    )
    outcome = await check(lab, "sized")
    assert outcome.data["tasks"] == 65
    assert dict(outcome.facts.env_args) == {"size": 65}


async def test_a_package_that_cannot_load_is_not_run(lab: Lab) -> None:
    folder = write(lab, "marker", SOUND)
    (folder / "marker.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w')\nimport verifiers.api.v1\n", encoding="utf-8"
    )
    outcome = await check(lab, "marker")
    assert "migration" in codes(outcome)
    assert not (folder / "ran").exists()


YIELDS = "yield Sums(Data(prompt=prompt, system_prompt=SYSTEM, answer=str(4 * n + 7)), self.config.task)"
FLAWS = {
    # name: (old code, new code, what blocks)
    "lossy": ("    answer: str\n", "    answer: str\n    extra: object = (1, 2)\n", {"task-not-serialisable"}),
    "excluded": (
        "    answer: str\n",
        "    answer: str\n    extra: int = __import__('pydantic').Field(0, exclude=bool(1))\n",
        {"task-field-excluded"},
    ),
    "undeclared_class": (
        YIELDS,
        f"Other = type('Other', (Sums,), {{}})\n            {YIELDS.replace('Sums(', 'Other(')}",
        {"task-type"},
    ),
    "chance": ("import time\n", "import time\n__import__('pandas')\n", {"wheel-does-not-load"}),
    "beside": (
        "range(self.config.size)",
        "range(self.config.size - 1 + __import__('pathlib').Path(__file__).with_name('pyproject.toml').exists())",
        {"wheel-differs"},
    ),
    "leaking": (
        "class Config(vf.TasksetConfig):\n",
        "import typing\nclass Config(vf.TasksetConfig):\n    split: typing.Literal['train', 'eval'] = 'train'\n",
        {"leak-exact"},
    ),
}


@pytest.mark.slow
async def test_flaws_that_training_would_show_block_here(lab: Lab) -> None:
    found = {}
    for name, (old, new, _) in FLAWS.items():
        edit(write(lab, name, SOUND), old, new)
        found[name] = codes(await check(lab, name))
    outside = write(lab, "outside", reward("return sound(reply, GOLDS[gold])"))
    edit(outside, "SYSTEM =", "GOLDS = {}\nSYSTEM =")
    edit(outside, YIELDS, f"GOLDS[str(4 * n + 7)] = str(4 * n + 7)\n            {YIELDS}")
    found["outside"] = codes(await check(lab, "outside"))
    body = "said = re.findall('<entry>(.*?)</entry>', reply)\nreturn float(bool(said) and said[-1] == KEYS[gold])"
    formed = write(lab, "formed", reward(body))
    edit(formed, "<answer></answer> tags", "<entry></entry> tags")
    edit(formed, "SYSTEM =", "KEYS = {}\nSYSTEM =")
    edit(formed, YIELDS, f"KEYS[str(4 * n + 7)] = str(4 * n + 7)\n            {YIELDS}")
    found["formed"] = codes(await check(lab, "formed"))
    expected = {name: blocking for name, (_, _, blocking) in FLAWS.items()}
    assert found == expected | {name: {"task-not-self-contained"} for name in ("outside", "formed")}


async def test_an_endless_taskset_is_sampled_and_told(lab: Lab) -> None:
    folder = write(lab, "endless", SOUND)
    edit(folder, "    def load(self):", "    INFINITE = True\n\n    def load(self):")
    edit(folder, "for n in range(self.config.size):", "for n in __import__('itertools').count():")
    outcome = await check(lab, "endless")
    assert (outcome.status, outcome.data["tasks"], outcome.data["infinite"]) == ("passed", None, True)
    assert "infinite-taskset" in codes(outcome, "warning")


async def test_a_wheel_that_leaves_out_data_blocks_though_the_folder_loads(lab: Lab) -> None:
    folder = write(lab, "trap", SOUND)
    (folder / "trap_data").mkdir()
    (folder / "trap_data" / "first.txt").write_text("7", encoding="utf-8")
    edit(folder, "import time\n", "import time\nopen(__file__.replace('trap.py', 'trap_data/first.txt')).close()\n")
    pyproject = folder / "pyproject.toml"
    include = '\n[tool.hatch.build.targets.wheel]\ninclude = ["trap.py"]\n'
    pyproject.write_text(pyproject.read_text(encoding="utf-8") + include, "utf-8")
    outcome = await check(lab, "trap")
    assert (codes(outcome), outcome.data["tasks"], outcome.data["wheel"]) == ({"wheel-lacks-file"}, 70, "fails")


async def test_a_wheel_that_does_not_build_blocks_with_what_was_said(lab: Lab) -> None:
    folder = write(lab, "unbuilt", SOUND)
    pyproject = folder / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8")
    pyproject.write_text(text.replace("[project]\n", '[project]\nlicense = { file = "NO-LICENSE" }\n', 1), "utf-8")
    outcome = await check(lab, "unbuilt")
    finding = next(f for f in outcome.findings if f.severity == "blocker")
    assert finding.code == "wheel-build-failed"
    assert "NO-LICENSE" in finding.message


async def test_a_report_full_of_flaws_stays_short(lab: Lab) -> None:
    folder = write(lab, "flawed", reward("return float(gold in reply)"))
    lines = "".join(f"    __import__('os').system(x + '{n}'); eval(x + '{n}')\n" for n in range(60))
    edit(folder, "def last(reply):", f"def many(x):\n{lines}\ndef last(reply):")
    edit(folder, "blue marbles. How", "blue marbles, in all {4 * n + 7}. How")
    report = [f.as_json() for f in (await check(lab, "flawed")).findings]
    assert sum(f["code"] == "reward-evaluates-output" for f in report) == 3
    assert len(json.dumps(report)) / 4 < 2000


@pytest.mark.parametrize("folder", [assembled("numeric"), EXAMPLES / "gsm8k"], ids=lambda path: path.name)
async def test_what_the_project_ships_passes_as_written(lab: Lab, folder: Path) -> None:
    shutil.copytree(folder, lab.workspace.environments / folder.name)
    outcome = await check(lab, folder.name)
    assert (outcome.status, codes(outcome)) == ("passed", set())


@pytest.mark.slow
async def test_what_lies_beside_the_package_and_another_readme_keep_nobody_from_testing(lab: Lab) -> None:
    folder = write(lab, "neighbours", SOUND)
    (folder / "README.md").rename(folder / "readme.md")
    (folder / "tests").mkdir()
    (folder / "tests" / "test_beside.py").write_text("import boto3\ndef test_x(: pass\n", encoding="utf-8")
    pyproject = folder / "pyproject.toml"
    text = pyproject.read_text(encoding="utf-8").replace("README.md", "readme.md")
    text = text if "readme.md" in text else text.replace("[project]\n", '[project]\nreadme = "readme.md"\n', 1)
    pyproject.write_text(text, "utf-8")
    outcome = await check(lab, "neighbours")
    assert (outcome.status, outcome.data["wheel"], outcome.data["loads"]) == ("passed", "loads", True)
    assert codes(outcome, "warning") == {"readme-not-pushed"}


@pytest.mark.slow
async def test_an_environment_of_the_older_api_offers_its_port_under_a_free_name(lab: Lab) -> None:
    folder = lab.settings.workspace / "environments/older"
    folder.mkdir(parents=True)
    table = '[project]\nname = "older"\nversion = "0.1.0"\ndependencies = ["verifiers>=0.1.14"]\n'
    (folder / "pyproject.toml").write_text(table, encoding="utf-8")
    code = "import verifiers as vf\n\n\ndef load_environment() -> vf.Environment:\n    return vf.SingleTurnEnv()\n"
    (folder / "older.py").write_text(code, encoding="utf-8")
    (folder.parent / "older_v1").mkdir()
    outcome = await check(lab, "older")
    assert "uncapped-verifiers" in codes(outcome)
    (port,) = [call.arguments for call in outcome.next if call.tool == "create_environment"]
    assert port == {"name": "older-v1-2", "port": "environments/older"}
