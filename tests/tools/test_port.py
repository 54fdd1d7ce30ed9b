"""`create_environment(port=...)` makes a v1 package of a v0 one; `test_reward(same_as=...)` proves each component."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.rewards import comparison, scripted_rollouts
from prime_lab_mcp.lab.worker import scoring
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.support.interpreters import share
from tests.support.older_environments import DICTS, DIRTY, OLDER

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.rotate(share=4, group="ports of older environments"),
    pytest.mark.usefixtures("shared_interpreters"),
]
FEW: dict[str, Any] = {"examples": 2, "probes": False}


@pytest.fixture(autouse=True)
def rollouts_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """No rollout is left out because the machine is busy."""
    monkeypatch.setattr(scripted_rollouts, "SCRIPTED_SECONDS", 200.0)
    monkeypatch.setattr(comparison, "ROLLOUT_SECONDS", 200.0)
    monkeypatch.setattr(scoring, "ROLLOUT_SECONDS", 100.0)


async def ported(calls: Calls, name: str) -> Report:
    OLDER[name].write(calls.lab.workspace.environments, f"{name}_v0")
    return await calls.execute("create_environment", {"name": f"{name}_v1", "port": f"{name}_v0"})


def verdicts(report: Report) -> dict[str, str]:
    return {c["name"]: c["verdict"] for c in report.data["same_as"]["components"]}


@pytest.mark.parametrize("name", sorted(OLDER))
async def test_a_port_pays_equal_on_every_component_that_was_carried_over(lab: Lab, name: str) -> None:
    calls, old = Calls(lab, TOOLS, References()), OLDER[name]
    report = await ported(calls, name)
    assert report.status == "passed", report.findings
    assert {r["name"]: r["weight"] for r in report.data["rewards"]} == old.weights
    assert tuple(p["part"] for p in report.data["left"]) == old.left
    assert report.data.get("rendering", old.rendering) == old.rendering
    then, *others = report.next
    assert [one.tool for one in others] == (["read_environment"] if report.findings else [])
    proof = await calls.execute(then.tool, {**(then.arguments or {}), **FEW})
    same = proof.data["same_as"]
    carried = {n: v for n, v in verdicts(proof).items() if n in old.weights}
    assert carried == dict.fromkeys(old.weights, "equal"), (proof.summary, same)
    assert (same["differ"], same["unmatched_tasks"], same["other_starts"]) == (0, 0, 0)
    assert same["verdict"] == ("equal" if old is not DIRTY else "differs")


async def test_a_port_pays_a_reward_that_takes_messages_as_dicts(lab: Lab) -> None:
    """In v1 messages are objects, so that such a reward was never earned, which looked like a reward nobody tried."""
    DICTS.write(lab.workspace.environments, "dicts_v0")
    calls = Calls(lab, TOOLS, References())
    made = await calls.execute("create_environment", {"name": "dicts_v1", "port": "dicts_v0"})
    assert made.status == "passed", made.findings
    tested = await calls.execute("test_reward", {"environment": "dicts_v1", **FEW})
    assert tested.data["gold_pass_rate"] == 1.0, tested.findings


async def test_a_port_pays_an_empty_reply_as_the_older_environment_does(lab: Lab) -> None:
    """The older reward gets the text "" and pays for its shortness; v1 has no content there."""
    calls = Calls(lab, TOOLS, References())
    report = await ported(calls, "fields")
    empty = {"name": "empty", "completion": "", "answer": "7", "expected": "low"}
    proof = await calls.execute("test_reward", {**(report.next[0].arguments or {}), **FEW, "cases": [empty]})
    assert verdicts(proof)["brevity"] == "equal", (proof.summary, proof.findings)
    assert proof.data["same_as"]["differ"] == 0, proof.data["same_as"]


async def test_a_function_of_a_port_that_raises_is_named_with_its_line(lab: Lab) -> None:
    """A port counts an exception as 0, as v0 does, so that the reward only looked stricter."""
    calls = Calls(lab, TOOLS, References())
    report = await ported(calls, "places")
    (functions,) = (lab.workspace.environments / "places_v1").rglob("functions.py")
    text = functions.read_text(encoding="utf-8")
    raising = text.replace('answer.split("|")', 'answer.split("+" if "Oslo" in answer else "|")')
    assert raising != text
    functions.write_text(raising, encoding="utf-8")
    proof = await calls.execute("test_reward", {**(report.next[0].arguments or {}), "examples": 8, "probes": False})
    (differs,) = (f for f in proof.findings if f.code == "reward-differs")
    assert "a function of the port raises, which counts as 0" in differs.message, differs
    assert "ValueError" in differs.message
    assert "functions.py:" in differs.message
    old = next(one for one in proof.next if one.tool == "read_environment")
    assert old.arguments == {"environment": "environments/places_v0", "path": "*"}


async def test_training_rows_of_a_port_that_are_held_out_too_are_removed_before_rewards_are_compared(lab: Lab) -> None:
    """The comparison came first, and the mend of the leak made it stale; the missing tasks were said nowhere."""
    calls, old = Calls(lab, TOOLS, References()), lab.workspace.environments / "places_v0"
    OLDER["places"].write(lab.workspace.environments, "places_v0")
    (file,) = old.glob("*.py")
    file.write_text(file.read_text(encoding="utf-8").replace("rows(40, 12)", "rows(37, 12)"), encoding="utf-8")
    made = await calls.execute("create_environment", {"name": "places_v1", "port": "places_v0"})
    (leak,) = (f for f in made.findings if f.code == "leak-exact")
    assert (made.status, leak.severity) == ("passed", "warning")
    assert "3 training rows of it are held out too" in made.summary
    removal = {"path": "places_v1/data/train.jsonl", "remove_rows": [37, 38, 39]}
    assert [one.tool for one in made.next] == ["edit_environment", "test_reward"]
    assert made.next[0].arguments == {"environment": "places_v1", **removal}

    checked = await calls.execute("check_environment", {"environment": "places_v1"})
    assert [f.code for f in checked.findings if f.severity == "blocker"] == ["leak-exact"]
    mend = next(one for one in checked.next if one.tool == "edit_environment")
    assert {"path": (mend.arguments or {})["path"], "remove_rows": (mend.arguments or {})["remove_rows"]} == removal

    edited = await calls.execute("edit_environment", dict(mend.arguments or {}))
    (then,) = edited.next
    assert (then.tool, (then.arguments or {})["same_as"]) == ("test_reward", "environments/places_v0")
    proof = await calls.execute("test_reward", {**(then.arguments or {}), **FEW})
    assert (proof.data["same_as"]["verdict"], proof.data["same_as"]["absent_tasks"]) == ("equal", 3)
    assert '3 tasks of "places_v0" are missing here' in proof.summary


@asynccontextmanager
async def stdio_client_of(workspace: Path) -> AsyncIterator[Client]:
    """A client of a server of its own on the workspace, with a state directory beside the workspace."""
    state = workspace.with_name("client-state")
    share(Settings(workspace=workspace, state_dir=state))
    args = ["-m", "prime_lab_mcp", "serve", "--rehearsal", "--workspace", str(workspace), "--state-dir", str(state)]
    server = StdioServerParameters(command=sys.executable, args=args, env=dict(os.environ))
    async with Client(stdio_client(server)) as client:
        yield client


async def test_a_client_over_stdio_ports_and_proves_by_the_next_call(tmp_path: Path) -> None:
    workspace = tmp_path / "client"
    OLDER["modules"].write(workspace / "environments", "older")
    async with stdio_client_of(workspace) as client:
        made = (await client.call_tool("create_environment", {"name": "newer", "port": "older"})).structured_content
        assert made is not None
        (then,) = made["next"]
        proof = (await client.call_tool(then["tool"], {**then["arguments"], **FEW})).structured_content
    assert proof is not None
    assert (made["status"], proof["data"]["same_as"]["verdict"]) == ("passed", "equal")
    assert {c["verdict"] for c in proof["data"]["same_as"]["components"]} == {"equal"}


async def test_a_port_keeps_version_and_readme_and_an_edit_of_it_leads_to_the_comparison(lab: Lab) -> None:
    calls, folder = Calls(lab, TOOLS, References()), lab.workspace.environments / "kept_v0"
    OLDER["parsed"].write(lab.workspace.environments, "kept_v0")
    project = folder / "pyproject.toml"
    project.write_text(project.read_text(encoding="utf-8").replace('"0.1.0"', '"0.3.2"'), encoding="utf-8")
    readme = "# kept\n\nCapitals.\n\n## Sources\n\n```sh\n# no heading\n```\n"
    (folder / "README.md").write_text(readme, encoding="utf-8")
    made = await calls.execute("create_environment", {"name": "kept_v1", "port": "kept_v0"})
    assert made.status == "passed", made.findings
    port = lab.workspace.environments / "kept_v1"
    assert 'version = "0.3.2"' in (port / "pyproject.toml").read_text(encoding="utf-8")
    told = (port / "README.md").read_text(encoding="utf-8")
    assert "### kept\n\nCapitals.\n\n#### Sources\n\n```sh\n# no heading\n```" in told
    change = {"environment": "kept_v1", "path": "kept_v1/taskset.py", "old": "import", "new": "import"}
    text = (port / "kept_v1" / "taskset.py").read_text(encoding="utf-8")
    first = text.splitlines()[0]
    change |= {"old": first, "new": f"{first}\n"}
    edited = await calls.execute("edit_environment", change)
    (then,) = edited.next
    assert (then.tool, then.arguments) == (made.next[0].tool, made.next[0].arguments)


async def test_an_equal_port_with_the_older_flaw_leads_to_a_change_on_purpose_and_then_to_a_push(lab: Lab) -> None:
    calls = Calls(lab, TOOLS, References())
    report = await ported(calls, "parsed")
    same = {**(report.next[0].arguments or {}), "examples": 4, "search": 0}
    proof = await calls.execute("test_reward", same)
    assert (proof.status, proof.data["same_as"]["verdict"]) == ("failed", "equal"), proof.summary
    assert "Equality is shown; what blocks is the older reward's own flaw" in proof.summary
    first, then, *_ = proof.next
    assert (first.tool, (first.arguments or {})["path"]) == ("read_environment", "parsed_v1/functions.py")
    assert (then.tool, "same_as" in (then.arguments or {})) == ("test_reward", False)
    assert (await calls.execute(first.tool, dict(first.arguments or {}))).status == "passed"

    weights = {"old": "@vf.reward(weight=0.5)", "new": "@vf.reward(weight=0.1)"}
    change = {"environment": "parsed_v1", "path": "parsed_v1/taskset.py", **weights}
    edited = await calls.execute("edit_environment", change)
    assert [one.tool for one in edited.next] == ["test_reward"]
    assert "same_as" not in (edited.next[0].arguments or {})
    mended = await calls.execute("test_reward", {**(then.arguments or {}), **FEW})
    assert mended.status == "passed", mended.summary
    assert all("same_as" not in (one.arguments or {}) for one in mended.next)


async def test_a_halved_weight_is_no_equal_port(lab: Lab) -> None:
    calls = Calls(lab, TOOLS, References())
    report = await ported(calls, "parsed")
    taskset = lab.workspace.environments / "parsed_v1" / "parsed_v1" / "taskset.py"
    text = taskset.read_text(encoding="utf-8")
    assert "@vf.reward(weight=0.5)" in text
    taskset.write_text(text.replace("@vf.reward(weight=0.5)", "@vf.reward(weight=0.25)"), encoding="utf-8")
    proof = await calls.execute("test_reward", {**(report.next[0].arguments or {}), **FEW})
    assert (proof.status, proof.data["same_as"]["verdict"]) == ("failed", "differs")
    assert "weight-differs" in verdicts(proof).values()
    assert any(f.code == "reward-differs" and "weighs" in f.message for f in proof.findings)


def last_word(text: str) -> str:
    """The game says its last word as `final_env_response`, as environments of 0.1.5 and later do."""
    said = 'return [{"role": "user", "content": "Right."}]'
    assert said in text
    return text.replace(said, 'state["final_env_response"] = [{"role": "user", "content": "Right."}]; return []')


async def test_a_port_that_calls_its_game_has_no_hook_that_nothing_calls(tmp_path: Path) -> None:
    workspace = tmp_path / "client"
    OLDER["game"].write(workspace / "environments", "older")
    async with stdio_client_of(workspace) as client:
        await client.call_tool("create_environment", {"name": "newer", "port": "older"})
        checked = (await client.call_tool("check_environment", {"environment": "newer"})).structured_content
    assert checked is not None
    assert checked["data"]["loads"], checked
    assert [f for f in checked["findings"] if f["code"] == "migration"] == []


async def test_what_a_game_says_after_the_last_reply_is_no_other_conversation(tmp_path: Path) -> None:
    workspace = tmp_path / "client"
    OLDER["game"].write(workspace / "environments", "older")
    old = workspace / "environments" / "older" / "older.py"
    old.write_text(last_word(old.read_text(encoding="utf-8")), encoding="utf-8")
    async with stdio_client_of(workspace) as client:
        made = (await client.call_tool("create_environment", {"name": "newer", "port": "older"})).structured_content
        assert made is not None
        given = {**made["next"][0]["arguments"], **FEW}
        proof = (await client.call_tool("test_reward", given)).structured_content
        functions = workspace / "environments" / "newer" / "newer" / "functions.py"
        text = functions.read_text(encoding="utf-8")
        assert "No, {hint}." in text
        functions.write_text(text.replace("No, {hint}.", "Nope, {hint}."), encoding="utf-8")
        other = (await client.call_tool("test_reward", given)).structured_content
    assert proof is not None
    assert other is not None
    assert proof["data"]["same_as"]["rollouts"] > 0
    assert proof["data"]["same_as"]["other_replies"] == 0
    (differs,) = [f["message"] for f in other["findings"] if f["code"] == "conversation-differs"]
    assert '"Nope, ' in differs
    assert '"No, ' in differs


@pytest.mark.parametrize("old", ["sums", "environments/sums"])
async def test_a_port_with_the_name_of_the_older_environment_is_led_to_a_free_name(tmp_path: Path, old: str) -> None:
    workspace = tmp_path / "client"
    OLDER["modules"].write(workspace / "environments", "sums")
    (workspace / "environments" / "sums_v1").mkdir()
    async with stdio_client_of(workspace) as client:
        refused = (await client.call_tool("create_environment", {"name": "sums", "port": old})).structured_content
    assert refused is not None
    assert [f["code"] for f in refused["findings"]] == ["environment-exists"]
    assert [(n["tool"], n["arguments"]) for n in refused["next"]] == [
        ("create_environment", {"name": "sums-v1-2", "port": old})
    ]


async def test_the_rows_of_another_split_are_said_not_to_be_carried_over(tmp_path: Path) -> None:
    """The port named "arguments of load_environment", and nothing said that the rows of `test` were missing."""
    workspace = tmp_path / "client"
    OLDER["game"].write(workspace / "environments", "older")
    old = workspace / "environments" / "older" / "older.py"
    text = old.read_text(encoding="utf-8")
    old.write_text(text.replace("(high: int = 20):", "(high: int = 20, split: str = 'train'):"), encoding="utf-8")
    async with stdio_client_of(workspace) as client:
        made = (await client.call_tool("create_environment", {"name": "newer", "port": "older"})).structured_content
    assert made is not None
    (why,) = [p["why"] for p in made["data"]["left"] if p["part"] == "arguments of load_environment"]
    assert why.startswith("the rows and values are those of the defaults of high, split; ")
    assert "the rows that another split gives are not carried over" in why


SPLIT = """
import verifiers as vf
from datasets import Dataset


def load_environment(split: str = "train", near: float = 0.5) -> vf.Environment:
    rows = [{"question": f"{split} {n}?", "answer": str(n)} for n in range(6 if split == "train" else 3)]
    if split not in ("train", "test"):
        raise ValueError(split)

    def right(completion, answer):
        return 1.0 if completion[-1]["content"].strip() == answer else near * 0.0

    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
"""


async def test_the_rows_of_a_split_are_carried_over_and_carried_defaults_need_no_edit(tmp_path: Path) -> None:
    """A mere split and a default were a warning that something had to be written by hand, and `test` was missing."""
    workspace = tmp_path / "client"
    OLDER["game"].write(workspace / "environments", "older")
    (workspace / "environments" / "older" / "older.py").write_text(SPLIT, encoding="utf-8")
    async with stdio_client_of(workspace) as client:
        made = (await client.call_tool("create_environment", {"name": "newer", "port": "older"})).structured_content
    assert made is not None
    assert made["status"] == "passed", made
    assert "port-left" not in [f["code"] for f in made["findings"]]
    assert [p["why"] for p in made["data"]["left"]] == [
        'the rows and values are those of the defaults of split, near; the rows that split "test" gives are a split '
        "of the port as well"
    ]
    package = workspace / "environments" / "newer" / "newer"
    lines = (package / "data" / "test.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["prompt"] for line in lines] == ["test 0?", "test 1?", "test 2?"]
    assert 'Literal["train", "test"] = "train"' in (package / "taskset.py").read_text(encoding="utf-8")


async def test_arguments_that_the_older_environment_takes_out_of_its_kwargs_are_left(tmp_path: Path) -> None:
    workspace = tmp_path / "client"
    OLDER["game"].write(workspace / "environments", "older")
    old = workspace / "environments" / "older" / "older.py"
    text = old.read_text(encoding="utf-8")
    assert "def load_environment(high: int = 20):\n" in text
    taken = "def load_environment(**kwargs):\n    high = kwargs.pop('high', 20)\n    name = kwargs.get('label')\n"
    old.write_text(text.replace("def load_environment(high: int = 20):\n", taken), encoding="utf-8")
    async with stdio_client_of(workspace) as client:
        made = (await client.call_tool("create_environment", {"name": "newer", "port": "older"})).structured_content
    assert made is not None
    assert [(p["part"], p["why"]) for p in made["data"]["left"]] == [
        ("arguments of load_environment", "the rows and values are those of the defaults of high, label")
    ]


PLACES = """
import verifiers as vf
from datasets import Dataset

PLACES = [("Norway", "Oslo", "Europe"), ("Kenya", "Nairobi", "Africa"), ("Ghana", "Accra", "Africa")]


def load_environment(continent: str | None = None) -> vf.Environment:
    rows = [
        {"question": f"What is the capital of {land}?", "answer": city, "info": {"continent": part}}
        for land, city, part in PLACES
        if continent in (None, part)
    ]

    def right(completion, answer):
        return float(completion[-1]["content"].strip() == answer)

    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[right]))
"""


async def test_rows_of_a_port_are_selected_by_what_their_info_says(lab: Lab) -> None:
    """The port had `where`, which looked into columns only, and the argument that selected by `info` was gone."""
    OLDER["game"].write(lab.workspace.environments, "older")
    (lab.workspace.environments / "older" / "older.py").write_text(PLACES, encoding="utf-8")
    calls = Calls(lab, TOOLS, References())
    made = await calls.execute("create_environment", {"name": "newer", "port": "older"})
    assert made.status == "passed", made
    assert made.data["metadata"] == ["continent"]
    assert made.summary.endswith(
        "nothing has to be written by hand. Not carried over: arguments of load_environment: the rows and "
        "values are those of the defaults of continent; to select rows by continent, pass the port "
        'where={"continent": [VALUE]}.'
    ), made.summary
    selected = {"environment": "newer", "env_args": {"where": {"continent": ["Africa"]}}}
    tested = await calls.execute("test_reward", {**selected, "probes": False})
    assert (tested.status, tested.data["tasks"]) == ("passed", 2), tested
