"""An argument of the environment that loosens the reward is not published or trained unproven; easy levels have a way.

Each row of the tables of gates is walked by an honest and by a dishonest user, through the real call path; the verdicts
of the slow tools are functions of the files and the arguments (`tests/property/world.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.server.call import Calls
from tests.property.world import MODEL, World

LENIENT = "sound, but lenient pays all"
EASY = {"level": "easy"}
FIELDS = '''

class SumsConfig(vf.TasksetConfig):
    """Levels of difficulty."""

    level: str = "hard"
    lenient: bool = False


class SumsTask'''


def write(world: World, word: str = LENIENT, code: str = FIELDS) -> Path:
    path = world.write("one", "sums", word)
    file = path / "sums" / "taskset.py"
    file.write_text(file.read_text("utf-8").replace("\n\nclass SumsTask", code), encoding="utf-8")
    return path


def prove(world: World, server: Calls, env_args: dict[str, Any] | None = None, *tools: str, **more: Any) -> None:
    for tool in tools or ("test_reward", "check_reward_distribution"):
        given = {} if env_args is None else {"env_args": env_args}
        world.call(server, tool, environment="sums", **given, **more)


def published(world: World, server: Calls) -> str:
    """The default arguments are proven and pushed."""
    write(world)
    prove(world, server)
    pushed = world.call(server, "push_environment", environment="sums")
    assert pushed.status == "passed", pushed
    return f"{pushed.data['owner']}/{pushed.data['name']}@{pushed.data['version']}"


def submit(world: World, server: Calls, source: str, env_args: dict[str, Any] | None = None, **more: Any) -> Report:
    written = world.call(
        server,
        "write_training_config",
        environments=[source],
        model=MODEL,
        steps=10,
        **({"env_args": env_args} if env_args else {}),
        **more,
    )
    assert written.data.get("path"), written
    return world.call(server, "submit_training", config=written.data["path"])


def wanted(report: Report) -> list[tuple[str, str]]:
    return [(unmet.tool, unmet.why) for unmet in report.unmet]


# Submitting


def test_a_config_argument_that_loosens_the_reward_is_not_trained_on_the_proof_of_the_defaults(
    world: World, server: Calls
) -> None:
    report = submit(world, server, published(world, server), {"lenient": True})
    assert wanted(report) == [("test_reward", "never-run"), ("check_reward_distribution", "never-run")]
    tried = world.call(server, report.next[0].tool, **dict(report.next[0].arguments or {}))
    assert tried.status == "failed", "the named call tests the reward with the arguments of the config"
    prove(world, server, {"lenient": True}, "check_reward_distribution")
    assert wanted(world.call(server, "submit_training", config=_last(world)))[0] == ("test_reward", "failed")
    assert world.runs() == []


def test_the_named_calls_open_the_gate_for_arguments_that_hold(world: World, server: Calls) -> None:
    source = published(world, server)
    report = submit(world, server, source, EASY)
    assert [(n.tool, n.arguments) for n in report.next] == [
        ("test_reward", {"environment": "sums", "env_args": EASY}),
        ("run_eval", {"environment": "sums", "env_args": EASY, "model": MODEL}),
    ]
    prove(world, server, EASY)
    assert world.call(server, "submit_training", config=_last(world)).status == "passed"


def test_a_distribution_of_the_defaults_does_not_speak_for_the_easy_level(world: World, server: Calls) -> None:
    source = published(world, server)
    prove(world, server, EASY, "test_reward")
    assert wanted(submit(world, server, source, EASY)) == [("check_reward_distribution", "never-run")]


def test_a_flaw_of_another_level_closes_nothing(world: World, server: Calls) -> None:
    """A later failure with other arguments says nothing about the arguments that are trained."""
    source = published(world, server)
    prove(world, server, {"lenient": True}, "test_reward")
    assert submit(world, server, source).status == "passed"


def test_an_eval_source_needs_the_reward_test_with_its_own_arguments(world: World, server: Calls) -> None:
    source = published(world, server)
    report = submit(world, server, source, eval={"level": "held out"})
    assert wanted(report) == [("test_reward", "never-run")]
    prove(world, server, {"level": "held out"}, "test_reward")
    assert world.call(server, "submit_training", config=_last(world)).status == "passed"


def test_an_eval_source_with_a_loosened_reward_is_refused(world: World, server: Calls) -> None:
    source = published(world, server)
    prove(world, server, {"lenient": True}, "test_reward")
    assert wanted(submit(world, server, source, eval={"lenient": True})) == [("test_reward", "failed")]


def test_the_text_none_of_a_config_is_the_null_that_training_reads(world: World, server: Calls) -> None:
    """prime-rl reads "None" as null, so a test with the text does not count for it."""
    source = published(world, server)
    prove(world, server, {"level": "None"})
    report = submit(world, server, source, {"level": "None"})
    assert wanted(report)[0] == ("test_reward", "never-run")
    assert (report.next[0].arguments or {})["env_args"] == {"level": None}


# The order of keys


def test_a_table_with_its_keys_in_another_order_is_not_trained_on_the_proof_of_the_first(
    world: World, server: Calls
) -> None:
    """Code can read the order of a table's keys, so a reward may pay by it."""
    source = published(world, server)
    prove(world, server, {"weights": {"second": 1, "first": 2}})
    trained = {"weights": {"first": 2, "second": 1}}
    report = submit(world, server, source, trained)
    assert wanted(report) == [("test_reward", "never-run"), ("check_reward_distribution", "never-run")]
    assert "the keys of a table were in another order" in report.unmet[0].detail
    named = (report.next[0].arguments or {})["env_args"]
    assert list(named["weights"]) == ["first", "second"]
    prove(world, server, named)
    assert world.call(server, "submit_training", config=_last(world)).status == "passed"


def test_the_order_of_the_arguments_themselves_is_none_of_a_table(world: World, server: Calls) -> None:
    source = published(world, server)
    prove(world, server, {"level": "easy", "lenient": False})
    assert submit(world, server, source, {"lenient": False, "level": "easy"}).status == "passed"


# Defaults


def test_an_argument_given_as_its_default_counts_as_default_once_the_reward_is_tested_with_it(
    world: World, server: Calls
) -> None:
    given = {"level": "hard", "lenient": False}
    refused = submit(world, server, published(world, server), given)
    assert wanted(refused) == [("test_reward", "never-run")]
    path = _last(world)
    demand = "Before it is submitted, test_reward has to pass"
    assert demand in world.call(server, "check_training_config", path=path).summary, "both say the same"
    assert [(n.tool, n.arguments) for n in refused.next] == [
        ("test_reward", {"environment": "sums", "env_args": given})
    ]
    prove(world, server, given, "test_reward")
    assert demand not in world.call(server, "check_training_config", path=path).summary
    assert world.call(server, "submit_training", config=path).status == "passed"


@pytest.mark.parametrize(
    "telling",
    [
        "\n\ndef given(config):\n    return 'lenient' in config.model_fields_set\n\n\nclass SumsTask",
        "\n\ndef given(config, name):\n    return getattr(config, name)\n\n\nclass SumsTask",
    ],
    ids=["fields set", "by a name made up"],
)
def test_an_argument_given_as_its_default_is_another_one_where_the_code_can_tell(
    world: World, server: Calls, telling: str
) -> None:
    write(world, code=FIELDS.replace("\n\nclass SumsTask", telling))
    prove(world, server)
    pushed = world.call(server, "push_environment", environment="sums")
    source = f"{pushed.data['owner']}/{pushed.data['name']}@{pushed.data['version']}"
    assert wanted(submit(world, server, source, {"lenient": False}))[0] == ("test_reward", "never-run")


# Pushing


def test_a_push_may_name_the_easy_level_that_was_evaluated(world: World, server: Calls) -> None:
    write(world)
    prove(world, server, None, "test_reward")
    prove(world, server, EASY)
    refused = world.call(server, "push_environment", environment="sums")
    assert wanted(refused) == [("check_reward_distribution", "never-run")]
    status = world.call(server, "workflow_status", environment="sums").data["environments"][0]
    assert "easy" in next(g for g in status["gates"] if g["tool"] == "push_environment")["why"]
    pushed = world.call(server, "push_environment", environment="sums", env_args=EASY)
    assert pushed.status == "passed", pushed
    assert "easy" in world.questions[-1]


def test_a_push_by_an_easy_level_still_needs_the_reward_of_the_defaults(world: World, server: Calls) -> None:
    write(world)
    prove(world, server, EASY)
    refused = world.call(server, "push_environment", environment="sums", env_args=EASY)
    assert wanted(refused) == [("test_reward", "never-run")]
    assert refused.next[0].arguments == {"environment": "sums"}


def test_a_push_by_arguments_that_loosen_the_reward_is_refused(world: World, server: Calls) -> None:
    write(world)
    prove(world, server)
    prove(world, server, {"lenient": True})
    refused = world.call(server, "push_environment", environment="sums", env_args={"lenient": True})
    assert wanted(refused) == [("test_reward", "failed")]
    assert world.pushes() == []


def test_check_args_do_not_stand_in_for_the_defaults(world: World, server: Calls) -> None:
    """`check_args` are the author's; the reward is tested with the defaults that others will train with."""
    path = write(world)
    manifest = path / "pyproject.toml"
    manifest.write_text(manifest.read_text("utf-8") + '\n[tool.prime-lab]\ncheck_args = { level = "easy" }\n', "utf-8")
    prove(world, server, EASY)
    refused = world.call(server, "push_environment", environment="sums", env_args=EASY)
    assert [(n.tool, n.arguments) for n in refused.next] == [
        ("test_reward", {"environment": "sums", "env_args": {}}),
    ]


def _last(world: World) -> str:
    folder = world.workspace("one") / "configs" / "rl"
    newest = max(folder.glob("*.toml"), key=lambda path: path.stat().st_mtime_ns)
    return newest.relative_to(world.workspace("one")).as_posix()
