"""The arguments with which training is proven reach the push, the config, the refusal and the question."""

from __future__ import annotations

import tomllib
from shutil import copytree
from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab import environment_status
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Next, Report
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.configs.config import read_config
from prime_lab_mcp.lab.configs.evidence import evaluated_model, evidence_of_push, evidence_of_source
from prime_lab_mcp.lab.configs.packages import packages_summary
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import PlatformModels
from prime_lab_mcp.lab.state.compared_rewards import record_comparison
from prime_lab_mcp.lab.state.config_gate import HubFact, SourceFacts, source_unmet
from prime_lab_mcp.lab.state.evaluation_evidence import evaluation_summary
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Job, Push
from prime_lab_mcp.lab.state.open_warnings import warnings_sentence
from prime_lab_mcp.lab.training import disclosures
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.fix_calls import calls_of_fix
from prime_lab_mcp.server.next_calls import PresentCall, with_right_calls
from prime_lab_mcp.tools import planned_push
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.conftest import write_environment
from tests.tools.test_training_config import Platform as StandIn
from tests.tools.test_training_config import check, environment, on_hub, pushed, write

pytestmark = pytest.mark.anyio
HARD: dict[str, Any] = {"where": {"category": ["hard"]}}
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
PINNED = "alice/tiny-env@0.1.0"
DATA = {
    "id": "eval-00000001",
    "usable_groups": {"share": 0.9, "group_size": 16},
    "mean": 0.5,
    "completion_tokens": {"p95": 700, "p99": 800},
    "prompt_tokens": {"p99": 200},
}
BY_NAME = {tool.name: tool for tool in TOOLS}


@pytest.fixture
def platform(lab: Lab) -> StandIn:
    found = StandIn(hub={"alice/tiny-env": on_hub()})
    lab.__dict__["prime"] = found
    return found


def proven(lab: Lab, env_args: dict[str, Any], folder: str = "tiny_env", source: str = "s", content: str = "c") -> None:
    """Both verdicts that training needs, with these arguments."""
    lab.ledger.record(
        Evidence("test_reward", "passed", lab.key, folder, source, content, env_args=env_args, data={"tasks": 140})
    )
    for tool in ("run_eval", "check_reward_distribution"):
        lab.ledger.record(
            Evidence(
                tool,
                "passed",
                lab.key,
                folder,
                source,
                content,
                env_args=env_args,
                model=MODEL,
                data=DATA,
                platform=lab.platform,
            )
        )


def taskset(lab: Lab, path: str) -> dict[str, Any]:
    table = tomllib.loads(lab.workspace.resolve(path).read_text(encoding="utf-8"))
    found: dict[str, Any] = table["orchestrator"]["train"]["source"][0]["env"]["taskset"]
    return found


async def test_a_config_that_names_no_arguments_trains_with_those_of_the_evidence_and_says_so(
    lab: Lab, platform: StandIn
) -> None:
    environment(lab)
    pushed(lab)
    proven(lab, HARD)
    written = await write(lab, environments=[PINNED])
    assert taskset(lab, written.data["path"]) == {"id": PINNED, **HARD}
    assert 'env_args={"where": {"category": ["hard"]}}, with which it was proven' in written.summary
    config = read_config(lab.workspace.resolve(written.data["path"]))
    assert packages_summary(config) == f'{PINNED} with env_args={{"where": {{"category": ["hard"]}}}}'
    checked = await check(lab, written.data["path"])
    assert "config-unmeasured" not in {f.code for f in (*written.findings, *checked.findings)}


async def test_of_two_models_that_passed_the_one_with_more_usable_groups_is_trained_and_the_other_is_named(
    lab: Lab, platform: StandIn
) -> None:
    """The order of the evaluations decides nothing."""
    small = "Qwen/Qwen3-0.6B"

    async def both() -> PlatformModels:
        return PlatformModels({MODEL: ("H200",), small: ("H200",)}, platform.offers)

    platform.__dict__["models"] = both
    environment(lab)
    pushed(lab)
    proven(lab, {})
    data = {**DATA, "usable_groups": {"share": 0.8, "group_size": 16}}
    lab.ledger.record(
        Evidence("check_reward_distribution", "passed", lab.key, "tiny_env", "s", "c", model=small, data=data)
    )
    written = await write(lab, environments=[PINNED])
    assert written.data["model"] == MODEL
    assert f"It trains {MODEL}: most usable groups (90%)" in written.summary
    assert f"the others: {small} (80%). model=NAME trains another." in written.summary


async def test_an_evaluation_of_the_defaults_is_what_a_config_without_arguments_rests_on(
    lab: Lab, platform: StandIn
) -> None:
    environment(lab)
    pushed(lab)
    proven(lab, HARD)
    proven(lab, {})
    written = await write(lab, environments=[PINNED])
    assert taskset(lab, written.data["path"]) == {"id": PINNED}


async def test_a_config_on_other_tasks_than_were_evaluated_is_warned_about_and_takes_no_sizes_from_them(
    lab: Lab, platform: StandIn
) -> None:
    environment(lab)
    pushed(lab)
    proven(lab, HARD)
    written = await write(lab, environments=[PINNED], env_args={})
    assert taskset(lab, written.data["path"]) == {"id": PINNED}
    [warned] = [f for f in (await check(lab, written.data["path"])).findings if f.code == "config-unmeasured"]
    assert warned.severity == "warning"
    assert f'write_training_config(environments=["{PINNED}"], env_args={{"where": {{"category": ["hard"]}}}})' in (
        warned.fix
    )
    assert "eval-00000001" not in lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8")


def rows(*given: tuple[str, dict[str, Any]]) -> list[Evidence]:
    made = [
        Evidence(tool, "passed", "w", "tiny_env", "s", "c", env_args=env_args, model=MODEL, data=DATA)
        for tool, env_args in given
    ]
    return made[::-1]


def test_a_submission_without_the_proven_arguments_leads_to_the_config_with_them() -> None:
    push = Push("w", "tiny_env", "alice", "tiny-env", "0.1.0", "s", "c", "h", "prime")
    history = rows(("test_reward", {}), ("test_reward", HARD), ("check_reward_distribution", HARD))
    hub = HubFact(True, "0.1.0", "h", "v1")
    facts = SourceFacts(PINNED, "alice", "tiny-env", "0.1.0", {}, True, push, history, (), hub)
    platform: Platform = "prime"
    first = source_unmet(facts, platform, MODEL)[0][0]
    assert first.instead is not None
    assert (first.instead.tool, first.instead.arguments) == (
        "write_training_config",
        {"environments": [PINNED], "env_args": HARD},
    )


def test_the_question_names_the_arguments_of_the_evidence() -> None:
    [row] = rows(("check_reward_distribution", HARD))
    assert 'made with env_args={"where": {"category": ["hard"]}}' in evaluation_summary(row)


def test_a_push_leads_to_a_config_with_the_arguments_that_it_was_proven_with() -> None:
    [call] = planned_push._next(PINNED, "v1", False, HARD)
    assert call.arguments == {"environments": [PINNED], "env_args": HARD}


async def due(lab: Lab, tool: str, given: dict[str, Any], then: Next) -> list[tuple[str, Any]]:
    snapshot = await lab.snapshot("sums_v1")
    present = PresentCall(lab, BY_NAME[tool], given, BY_NAME, snapshot)
    return [(one.tool, one.arguments) for one in with_right_calls(Report("passed", "", next=(then,)), present).next]


async def test_the_test_that_a_push_with_arguments_also_needs_comes_before_it_and_leads_back_to_it(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    where = {"environment": "sums_v1"}
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "sums_v1", snapshot.source, snapshot.content))
    proven(lab, HARD, "sums_v1", snapshot.source, snapshot.content)
    push = Next("push_environment", "the reward distribution can be trained on", where)
    evaluated = {**where, "env_args": HARD, "model": MODEL}
    assert await due(lab, "run_eval", evaluated, push) == [("test_reward", where)]
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "sums_v1", snapshot.source, snapshot.content))
    evaluate = Next("run_eval", "shows whether a model's rewards vary", where)
    assert await due(lab, "test_reward", where, evaluate) == [("push_environment", {**where, "env_args": HARD})]
    assert await due(lab, "run_eval", evaluated, push) == [("push_environment", {**where, "env_args": HARD})]


async def test_the_status_of_an_environment_goes_on_with_the_arguments_that_are_proven(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "sums_v1", snapshot.source, snapshot.content))
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "sums_v1", snapshot.source, snapshot.content))
    proven(lab, HARD, "sums_v1", snapshot.source, snapshot.content)
    due = environment_status._with_other_arguments(lab, snapshot, "v1")
    assert due is not None
    assert (due.tool, due.arguments) == ("push_environment", {"environment": "sums_v1", "env_args": HARD})


# An environment that was pulled


async def pulled(lab: Lab, split: str | None = None) -> str:
    """An unchanged folder that was pulled as `PINNED`. Returns its source fingerprint."""
    environment(lab, split=split)
    source = (await lab.snapshot("tiny_env")).source
    lab.ledger.record(
        Evidence(
            "create_environment",
            "passed",
            lab.key,
            "tiny_env",
            platform=lab.platform,
            data={"pulled": PINNED, "source": source},
        )
    )
    return source


async def test_a_pulled_folder_is_trained_on_as_it_is_on_the_hub_with_the_sizes_of_its_evaluation_here(
    lab: Lab, platform: StandIn
) -> None:
    proven(lab, {}, source=await pulled(lab))
    for named in ("tiny_env", PINNED):
        written = await write(lab, environments=[named], model=MODEL)
        assert taskset(lab, written.data["path"]) == {"id": PINNED}
        assert "config-unmeasured" not in {f.code for f in written.findings}
        assert "The code of" in written.summary
        assert "has no held-out tasks, so this run cannot show whether the model gets better" in written.summary
    [blind] = [f for f in (await check(lab, written.data["path"])).findings if f.code == "config-no-eval"]
    assert "pulls it" not in blind.fix
    assert "Give the taskset in the folder here a field `split:" in blind.fix
    assert "nothing has to be published for that" in blind.fix


async def test_keys_of_an_environment_of_others_are_judged_by_the_files_that_were_pulled(
    lab: Lab, platform: StandIn
) -> None:
    """An edit of the pulled files changes nothing about the version on the Hub that the run loads."""
    source = await pulled(lab)
    no_fields = {"type": "object", "additionalProperties": False, "properties": {"id": {}}}
    shapes = {"taskset": no_fields, "env": None, "tools": False}
    proven(lab, {}, source=source)
    unjudged = await write(lab, environments=[PINNED], model=MODEL, eval={"split": "eval"}, name="unjudged")
    lab.ledger.record(
        Evidence("check_environment", "passed", lab.key, "tiny_env", source, source, data={"shapes": shapes})
    )
    edited = lab.workspace.environments / "tiny_env" / "tiny_env" / "taskset.py"
    edited.write_text('class Config(vf.TasksetConfig):\n    split: Literal["train", "eval"] = "train"\n', "utf-8")
    with pytest.raises(BadInput) as refused:
        await write(lab, environments=[PINNED], model=MODEL, eval={"split": "eval"})
    assert refused.value.code == "config-unknown-taskset-key"
    given = {"environments": [PINNED], "eval": {"split": "eval"}}
    [without] = calls_of_fix(refused.value.fix, "write_training_config", given, {t.name: t.args for t in TOOLS})
    assert (without.tool, without.arguments) == ("write_training_config", {"environments": [PINNED]})
    assert (await check(lab, unjudged.data["path"])).status == "failed"
    written = await write(lab, environments=[PINNED], model=MODEL)
    assert written.data["eval_sources"] == []
    [blind] = [f for f in (await check(lab, written.data["path"])).findings if f.code == "config-no-eval"]
    assert "has no held-out tasks" in blind.message
    assert 'eval={"split"' not in str(blind.fix)
    assert "The folder tiny_env has held-out tasks by now" in blind.fix
    assert "Give the taskset in the folder here" not in blind.fix


async def after(lab: Lab, tool: str, folder: str = "tiny_env") -> Next:
    """The call that a report leads to which recommends the push of a folder."""
    push = Next("push_environment", "the reward distribution can be trained on", {"environment": folder})
    given = {"environment": folder, "model": MODEL}
    present = PresentCall(lab, BY_NAME[tool], given, BY_NAME, await lab.snapshot(folder))
    return with_right_calls(Report("inconclusive", "", next=(push,)), present).next[0]


async def test_no_report_leads_to_publishing_somebody_elses_environment_as_it_is(lab: Lab, platform: StandIn) -> None:
    await pulled(lab)
    train = await after(lab, "run_eval")
    assert (train.tool, train.arguments) == ("write_training_config", {"environments": [PINNED]})
    declined = planned_push._after_decline(lab, await lab.snapshot("tiny_env"))
    assert [one.tool for one in declined] == ["write_training_config", "read_environment"]
    assert f"pulled as {PINNED} of another owner and unchanged" in planned_push._origin(
        lab, await lab.snapshot("tiny_env")
    )
    (lab.workspace.environments / "tiny_env" / "tiny_env" / "own.py").write_text("EDITED = True\n", "utf-8")
    assert (await after(lab, "run_eval")).tool == "push_environment"
    assert "and edited since" in planned_push._origin(lab, await lab.snapshot("tiny_env"))


async def test_a_push_of_a_version_that_was_published_with_other_files_is_offered_with_the_next_one(
    lab: Lab, platform: StandIn
) -> None:
    environment(lab)
    assert (await after(lab, "run_eval")).arguments == {"environment": "tiny_env"}
    pushed(lab)
    assert (await after(lab, "run_eval")).arguments == {"environment": "tiny_env", "bump": "patch"}


async def test_a_copy_of_a_folder_is_known_by_its_files(lab: Lab, platform: StandIn) -> None:
    """Files that were proven in one folder and pushed from a copy had a bound 15 times too low, no warning in either
    question, and were offered as the user's own where the first folder was pulled."""
    source = await pulled(lab)
    found = [{"code": "small-set", "severity": "warning"}]
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", source, source, findings=found))
    copytree(lab.workspace.environments / "tiny_env", lab.workspace.environments / "copy")
    copy = await lab.snapshot("copy")
    assert copy.source == source
    lab.ledger.record_push(Push(lab.key, "copy", "me", "copy", "0.1.0", source, copy.content, "h", lab.platform))
    rows = evidence_of_push(lab, lab.ledger.pushes(name="copy")[0])
    assert [row.environment for row in rows if row.tool == "check_environment"] == ["tiny_env"]
    assert "small-set" in warnings_sentence("copy", rows)
    assert f"pulled as {PINNED} of another owner and unchanged" in planned_push._origin(lab, copy)


async def test_both_questions_name_what_the_checks_warned_of(lab: Lab, platform: StandIn) -> None:
    source = await pulled(lab)
    proven(lab, {}, source=source)
    found = [{"code": code, "severity": "warning"} for code in ("small-set", "readme-incomplete")]
    hack = [{"code": "reward-hackable", "severity": "warning"}]
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", source, source, findings=found))
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "tiny_env", source, source, findings=hack))
    written = await write(lab, environments=[PINNED], model=MODEL)
    config = read_config(lab.workspace.resolve(written.data["path"]))
    [sentence] = disclosures.known_warnings(lab, config)
    assert sentence.startswith(f"Known of {PINNED} and not mended: reward-hackable (a completion that is no plain")
    assert "; small-set (so few prompts that training would memorise them)." in sentence
    assert sentence == warnings_sentence(PINNED, evidence_of_source(lab, lab.key, source))
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "tiny_env", source, source))
    assert "reward-hackable" not in disclosures.known_warnings(lab, config)[0]


async def test_what_a_port_left_behind_is_said_of_its_edited_files_until_a_comparison_finds_all_equal(
    lab: Lab, platform: StandIn
) -> None:
    source = await pulled(lab)
    lab.ledger.record_push(Push(lab.key, "tiny_env", "alice", "tiny-env", "0.1.0", source, "c", "h", lab.platform))
    left = [{"code": "port-left", "severity": "warning"}]
    lab.ledger.record(Evidence("port_environment", "passed", lab.key, "tiny_env", "as ported", "c", findings=left))
    written = await write(lab, environments=[PINNED], model=MODEL)
    config = read_config(lab.workspace.resolve(written.data["path"]))
    [sentence] = disclosures.known_warnings(lab, config)
    assert "port-left (a part of the older environment was not ported; the files were changed since" in sentence
    snapshot = await lab.snapshot("tiny_env")
    assert snapshot.source == source
    record_comparison(lab.ledger, lab.key, snapshot, {"environment": "old", "verdict": "equal", "completions": 9})
    assert disclosures.known_warnings(lab, config) == []


async def test_a_model_whose_evaluation_failed_was_asked_for_all_the_same(lab: Lab) -> None:
    proven(lab, {})
    lab.ledger.record(
        Evidence("check_reward_distribution", "failed", lab.key, "tiny_env", "s", "c", model="Qwen/Qwen3-0.6B")
    )
    proofs, trained = [(lab.key, "tiny_env", "s")], (MODEL, "Qwen/Qwen3-0.6B")
    assert evaluated_model(lab, proofs, trained) == (
        MODEL,
        "the evaluation of it passed, and that of Qwen/Qwen3-0.6B did not",
    )


async def test_no_more_held_out_tasks_are_paid_for_than_there_are(lab: Lab, platform: StandIn) -> None:
    environment(lab, split='Literal["train", "eval"] = "train"')
    pushed(lab)
    proven(lab, {})
    checked = {"tasks": 140, "held_out": "split=eval: 11 tasks compared"}
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", "s", "c", data=checked))
    written = await write(lab, environments=[PINNED], model=MODEL)
    table = tomllib.loads(lab.workspace.resolve(written.data["path"]).read_text(encoding="utf-8"))
    assert table["orchestrator"]["eval"]["num_examples"] == 11


async def test_a_hosted_evaluation_of_a_pulled_environment_forgets_neither_its_tasks_nor_its_code(
    lab: Lab, platform: StandIn
) -> None:
    """The platform says how many tasks it sampled, and not how many there are."""
    source = await pulled(lab)
    job = Job(
        "eval-00000001", lab.key, "alice/tiny-env", "hub:h", "hub:h", "i", "finished", None, 0.0, 0.0, lab.platform,
        {"hosted": PINNED},
    )  # fmt: skip
    lab.ledger.create_job(job)
    data = {**DATA, "tasks": 50}
    lab.ledger.record(
        Evidence("run_eval", "passed", lab.key, "alice/tiny-env", "hub:h", "hub:h", model=MODEL, data=data)
    )
    unknown = await write(lab, environments=[PINNED], model=MODEL)
    assert f'How many tasks "{PINNED}" has is not known here' in unknown.summary
    assert unknown.next[0].tool == "check_environment"
    assert unknown.next[0].arguments == {"environment": "tiny_env"}

    lab.ledger.record(
        Evidence("check_environment", "passed", lab.key, "tiny_env", source, source, data={"tasks": 16, "api": "v1"})
    )
    written = await write(lab, environments=[PINNED], model=MODEL)
    assert "is not known here" not in written.summary
    assert int(written.summary.partition(" steps of")[0].rpartition(" ")[2]) == 20  # the fewest, for 16 tasks
    assert [n.tool for n in written.next] == ["check_training_config", "read_environment"]
    [differs] = [f for f in written.findings if f.code == "config-unmeasured"]
    assert "has 50 tasks, and the files of that version here have 16" in differs.message
    checked = await check(lab, written.data["path"])
    found = {f.code: f for f in checked.findings}
    assert found["config-passes"].severity == "warning"
    assert "pulls it" not in found["config-no-eval"].fix
    assert "create_environment" not in [n.tool for n in checked.next]


async def test_the_test_that_a_submission_asks_for_is_the_first_call_after_its_config_was_written(
    lab: Lab, platform: StandIn
) -> None:
    """The writer puts the held-out split into the file, so that the writer says what has to pass for that."""
    platform.balance = 10_000.0
    environment(lab, split='Literal["train", "eval"] = "train"')
    pushed(lab)
    proven(lab, {})
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", "s", "c", data={"tasks": 140}))
    held_out = {"environment": "tiny_env", "env_args": {"split": "eval"}}
    written = await write(lab, environments=[PINNED], model=MODEL)
    assert (written.next[0].tool, written.next[0].arguments) == ("test_reward", held_out)
    checked = await check(lab, written.data["path"])
    assert (checked.next[0].tool, checked.next[0].arguments) == ("test_reward", held_out)
    assert 'Before it is submitted, test_reward has to pass for env_args={"split": "eval"}.' in checked.summary
    lab.ledger.record(Evidence("test_reward", "passed", lab.key, "tiny_env", "s", "c", env_args={"split": "eval"}))
    assert (await write(lab, environments=[PINNED], model=MODEL)).next[0].tool == "check_training_config"
    assert (await check(lab, written.data["path"])).next[0].tool == "submit_training"


async def test_an_evaluation_that_is_missing_is_offered_on_the_files_that_are_here(lab: Lab, platform: StandIn) -> None:
    await pulled(lab)
    written = await write(lab, environments=[PINNED], model=MODEL)
    [unmeasured] = [f for f in written.findings if f.code == "config-unmeasured"]
    assert f'Call run_eval(environment="tiny_env", model="{MODEL}")' in unmeasured.fix


async def test_a_pulled_folder_that_was_edited_is_offered_as_the_hub_holds_it(lab: Lab, platform: StandIn) -> None:
    await pulled(lab)
    (lab.workspace.environments / "tiny_env" / "tiny_env" / "more.py").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        await write(lab, environments=["tiny_env"])
    assert f'was pulled as "{PINNED}" and edited since' in refused.value.message
    calls = calls_of_fix(
        refused.value.fix,
        "write_training_config",
        {"environments": ["tiny_env"]},
        {n: t.args for n, t in BY_NAME.items()},
    )
    assert ("write_training_config", {"environments": [PINNED]}) in [(one.tool, one.arguments) for one in calls]


# Through a client


async def test_a_client_that_follows_next_submits_a_config_on_the_chosen_tasks(lab: Lab, platform: StandIn) -> None:
    platform.balance = 10_000.0
    environment(lab)
    pushed(lab)
    proven(lab, HARD)
    async with Client(build_server(lab)) as client:

        async def called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
            told = (await client.call_tool(tool, arguments)).structured_content
            assert told is not None
            return told

        [after] = planned_push._next(PINNED, "v1", False, HARD)
        written = await called(after.tool, dict(after.arguments or {}))
        assert taskset(lab, written["data"]["path"])["where"] == HARD["where"]
        checks = written["next"][0]
        checked = await called(checks["tool"], checks["arguments"])
        assert (checked["next"][0]["tool"], checked["next"][0]["arguments"]) == (
            "submit_training",
            {"config": written["data"]["path"]},
        )
