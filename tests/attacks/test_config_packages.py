"""Everything that a training config names is gated and named in the question, however it is spelled.

A proven taskset stands beside another package that nobody looked at: an environment, a harness, a judge, a function.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.packages import SHIPPED, named_packages
from prime_lab_mcp.server.call import Calls
from tests.property.world import FOREIGN, MODEL, PYPROJECT, World

TASKSET = "[orchestrator.train.source.env.taskset]\n"
ENV = "[orchestrator.train.source.env]\n"
HARNESS = 'id = "null"'
BOUND = (
    "[orchestrator.train.source.env.agent.harness]",
    "[orchestrator.train.source.env.agent]\nmax_turns = 4\n\n[orchestrator.train.source.env.agent.harness]",
)
"""Harnesses with tools have a price only where their turns are bounded."""


def on_the_hub(world: World, ref: str, version: str = "1.0.0", more: Mapping[str, str] | None = None) -> str:
    """Somebody's package, published by hand, with `more` files in its archive."""
    name = ref.rpartition("/")[2]
    files = {"pyproject.toml": PYPROJECT.replace('"sums"', f'"{name}"').replace("0.1.0", version), "a": ref + version}
    files |= more or {}
    path = world.hub / "pushes"
    pushes = json.loads(path.read_text("utf-8"))
    pushes.append({"ref": ref, "version": version, "hash": hashlib.sha256(ref.encode()).hexdigest(), "files": files})
    path.write_text(json.dumps(pushes), encoding="utf-8")
    return f"{ref}@{version}"


def proven(world: World, server: Calls, source: str | None = None, evaluated_by: str | None = None) -> Path:
    """A config for our proven environment, or for `source`."""
    if source is None:
        world.write("one", "sums")
        world.call(server, "test_reward", environment="sums")
        world.call(server, "check_reward_distribution", environment="sums", harness=evaluated_by)
        assert world.call(server, "push_environment", environment="sums").status == "passed"
    written = world.call(
        server,
        "write_training_config",
        environments=[source or "me/sums@0.1.0"],
        model=MODEL,
        steps=10,
    )
    return world.workspace("one") / str(written.data["path"])


def submit(world: World, server: Calls, path: Path, *changes: tuple[str, str]) -> Report:
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path.write_text(text, encoding="utf-8")
    return world.call(server, "submit_training", config=path.relative_to(world.workspace("one")).as_posix())


def with_env_id(id: str) -> tuple[str, str]:
    return TASKSET, f'{ENV}id = "{id}"\n\n{TASKSET}'


def in_taskset(lines: str) -> tuple[str, str]:
    return "[orchestrator.train.source.env.agent.harness]", f"{lines}\n\n[orchestrator.train.source.env.agent.harness]"


def harness(id: str) -> tuple[str, str]:
    return HARNESS, f'id = "{id}"'


def details(report: Report) -> str:
    return "; ".join(unmet.detail for unmet in report.unmet)


# Refused


@pytest.mark.parametrize(
    "change",
    [
        with_env_id("evil"),
        with_env_id("evil@1.0.0"),
        harness("evil"),
        harness("Evil-Harness"),
        in_taskset('[[orchestrator.train.source.env.taskset.task.judges]]\nid = "evil"'),
        in_taskset('[orchestrator.train.source.env.taskset.task.rewards.more]\nfn = "evil.rewards:pay"'),
        in_taskset('[orchestrator.train.source.env.taskset.task.metrics.more]\nfn = "evil.rewards.pay"'),
        in_taskset('[orchestrator.train.source.env.taskset.task.stops.more]\nfn = "evil/rewards.py:pay"'),
        in_taskset('[orchestrator.train.source.env.user.harness]\nid = "evil"'),
    ],
    ids=["env", "env version", "harness", "case", "judge", "reward", "metric", "file", "user"],
)
def test_a_name_of_which_nothing_is_known_is_refused(world: World, server: Calls, change: tuple[str, str]) -> None:
    report = submit(world, server, proven(world, server), change)
    assert report.status == "blocked", report
    assert "vil" in details(report)
    assert world.runs() == []


def test_a_plugged_loss_renderer_or_filter_is_refused(world: World, server: Calls) -> None:
    loss = ("[trainer.optim]", '[trainer.loss]\ntype = "custom"\nimport_path = "evil.losses.pay"\n\n[trainer.optim]')
    report = submit(world, server, proven(world, server), loss)
    assert "trainer.loss.import_path names evil.losses.pay" in details(report)
    assert world.runs() == []


@pytest.mark.parametrize("change", [with_env_id("me/other@0.1.0"), harness("me/other@0.1.0")], ids=["env", "harness"])
def test_a_package_of_ours_that_was_pushed_by_hand_is_refused(
    world: World, server: Calls, change: tuple[str, str]
) -> None:
    on_the_hub(world, "me/other", "0.1.0")
    report = submit(world, server, proven(world, server), change)
    assert report.status == "blocked"
    assert "me/other@0.1.0" in details(report)
    assert world.runs() == []


@pytest.mark.parametrize("how", [with_env_id, harness], ids=["env", "harness"])
def test_a_package_that_takes_the_module_of_the_proven_taskset_is_refused(
    world: World, server: Calls, how: Any
) -> None:
    """verifiers drops owner and version of an id before it imports the module."""
    stranger = on_the_hub(world, "stranger/Sums")
    report = submit(world, server, proven(world, server), how(stranger))
    assert "all imported as the module sums" in details(report)
    assert world.runs() == []


def beside(id: str) -> tuple[str, str]:
    """A second source of the config, before the table of the first one."""
    first = "[[orchestrator.train.source]]"
    return first, f'{first}\n{TASKSET}id = "{id}"\n\n{ENV[:-2]}.agent.harness]\nid = "null"\n\n{first}'


@pytest.mark.parametrize(
    "path", ["sums/taskset.py", "src/sums/__init__.py", "sums.py", "verifiers/v1/trace.py", "a.pth"]
)
def test_a_strangers_package_that_holds_the_module_of_the_proven_one_is_refused_beside_it(
    world: World, server: Calls, path: str
) -> None:
    """All packages of a run are installed into one Python, where one file takes the place of the other."""
    stranger = on_the_hub(world, "stranger/mirror", more={"mirror/__init__.py": "", path: "def pay(): return 1.0\n"})
    report = submit(world, server, proven(world, server), beside(stranger))
    assert report.status == "blocked", report
    assert stranger in details(report)
    assert "in place of the other" in details(report) or "takes the place of" in details(report)
    assert [(n.tool, (n.arguments or {})["environments"]) for n in report.next][-1:] == [
        ("write_training_config", ["me/sums@0.1.0"])
    ]
    assert world.runs() == []


def test_a_strangers_package_with_modules_of_its_own_is_let_through_beside_the_proven_one(
    world: World, server: Calls
) -> None:
    stranger = on_the_hub(world, "stranger/mirror", more={"mirror/__init__.py": "", "tests/__init__.py": ""})
    report = submit(world, server, proven(world, server), beside(stranger))
    assert report.status == "passed", report
    assert stranger in world.questions[-1]


def test_an_older_version_of_the_proven_package_is_refused_beside_it(world: World, server: Calls) -> None:
    report = submit(world, server, proven(world, server), harness("me/sums@0.0.9"))
    assert "all imported as the module sums" in details(report)


def test_a_strangers_environment_class_does_not_play_our_proven_taskset(world: World, server: Calls) -> None:
    report = submit(world, server, proven(world, server), with_env_id(FOREIGN))
    assert "no evaluation of me/sums@0.1.0 here was made through it" in details(report)


@pytest.mark.parametrize("id", ["stranger/play", "stranger/play@9.9.9", "stranger/gone@1.0.0"])
def test_a_strangers_harness_without_an_existing_version_is_refused(world: World, server: Calls, id: str) -> None:
    on_the_hub(world, "stranger/play")
    assert submit(world, server, proven(world, server), harness(id)).status == "blocked"
    assert world.runs() == []


def test_a_setting_of_our_own_environment_class_is_refused(world: World, server: Calls) -> None:
    """It is no argument of the taskset, so that no test of the reward and no evaluation was made with it."""
    report = submit(world, server, proven(world, server), (TASKSET, f"{ENV}lenient = true\n\n{TASKSET}"))
    assert "env.lenient" in details(report)
    assert world.runs() == []


EVAL_SOURCE = ("[inference", '[[orchestrator.eval.source]]\nenv.taskset.id = "me/sums@0.1.0"\n\n[inference')
"""Our proven environment, whose held-out tasks are evaluated beside the training."""


@pytest.mark.parametrize(
    "change",
    [
        in_taskset('[orchestrator.train.source.env.taskset.task.rewards.more]\nfn = "sums.taskset:pay"'),
        in_taskset('[[orchestrator.train.source.env.taskset.task.judges]]\nid = "me/sums@0.1.0"'),
        harness("me/sums@0.1.0"),
        harness("sums"),
    ],
    ids=["reward", "judge", "harness", "bare harness"],
)
def test_code_of_ours_in_the_package_of_an_eval_source_does_not_train_on_a_strangers_environment(
    world: World, server: Calls, change: tuple[str, str]
) -> None:
    """The proofs of our package are about its own tasks: its reward never ran on those of the other environment."""
    proven(world, server)
    path = proven(world, server, FOREIGN)
    report = submit(world, server, path, EVAL_SOURCE, BOUND, change)
    assert report.status == "blocked", report
    assert f"code of yours that no test or evaluation here ran with {FOREIGN}" in details(report)
    assert world.runs() == []


def test_a_loss_in_the_package_of_a_source_is_a_caution(world: World, server: Calls) -> None:
    """No tool here runs a loss, so that a proof of the package says nothing about it."""
    loss = ("[trainer.optim]", '[trainer.loss]\ntype = "custom"\nimport_path = "sums.losses.pay"\n\n[trainer.optim]')
    submit(world, server, proven(world, server), loss)
    assert (
        "Note: trainer.loss.import_path names sums.losses.pay of me/sums@0.1.0, which no test or evaluation here ran."
        in world.questions[-1]
    )


def test_an_evaluation_by_another_harness_does_not_count(world: World, server: Calls) -> None:
    path = proven(world, server, evaluated_by="null (in-process)")
    report = submit(world, server, path, BOUND, harness("bash"))
    assert [(n.tool, n.arguments) for n in report.next] == [
        ("run_eval", {"environment": "sums", "model": MODEL, "harness": "bash"}),
    ]
    world.call(server, "check_reward_distribution", environment="sums", harness="bash")
    assert submit(world, server, path).status == "passed"


@pytest.mark.parametrize("other", ["bash", "sums"])
def test_an_evaluation_by_the_platform_was_made_with_the_harness_of_the_package_and_no_other(
    world: World, server: Calls, other: str
) -> None:
    """The platform reports no harness, and ran the environment as it was pushed."""
    path = proven(world, server, evaluated_by=None)
    report = submit(world, server, path, BOUND, harness(other))
    assert [(u.tool, u.why) for u in report.unmet] == [("check_reward_distribution", "never-run")]
    assert world.runs() == []


def without_harness(text: str) -> str:
    """The config without the harness of its agent, whose turns are bounded."""
    table = re.compile(r'\[orchestrator\.train\.source\.env\.agent\.harness\]\nid = "null".*\n')
    assert table.search(text)
    return table.sub("[orchestrator.train.source.env.agent]\nmax_turns = 4\n", text)


@pytest.mark.parametrize(("default", "status"), [("bash", "blocked"), ("null", "passed")])
def test_a_config_without_a_harness_is_played_by_the_default_of_the_package(
    world: World, server: Calls, monkeypatch: pytest.MonkeyPatch, default: str, status: str
) -> None:
    """verifiers takes the package's own harness or `bash`; an evaluation by `null` shows nothing of that."""
    monkeypatch.setattr("tests.property.world.ROLES", [{"name": "agent", "harness": default, "runtime": "subprocess"}])
    path = proven(world, server, evaluated_by="null (in-process)")
    path.write_text(without_harness(path.read_text(encoding="utf-8")), encoding="utf-8")
    report = submit(world, server, path)
    assert report.status == status, report
    if status == "blocked":
        assert [(n.tool, n.arguments) for n in report.next][:1] == [
            ("run_eval", {"environment": "sums", "model": MODEL, "harness": "bash"}),
        ]
        assert world.runs() == []


def test_a_table_of_a_harness_that_names_none_is_played_by_bash_and_not_by_the_packages_own(
    world: World, server: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.property.world.ROLES", [{"name": "agent", "harness": "sums", "runtime": "subprocess"}])
    path = proven(world, server, evaluated_by="sums")
    report = submit(world, server, path, BOUND, (HARNESS, "tool_timeout = 600.0"))
    assert report.status == "blocked", report
    assert [(n.tool, n.arguments) for n in report.next][:1] == [
        ("run_eval", {"environment": "sums", "model": MODEL, "harness": "bash"}),
    ]
    assert world.runs() == []


# Let through


def test_what_verifiers_ships_needs_nothing(world: World, server: Calls) -> None:
    path = proven(world, server, evaluated_by="bash")
    assert submit(world, server, path, BOUND, harness("bash")).status == "passed"


def test_a_shipped_environment_class_is_named_in_the_question(world: World, server: Calls) -> None:
    assert submit(world, server, proven(world, server), with_env_id("best-of-n")).status == "passed"
    assert "best-of-n" in world.questions[-1]


def test_a_strangers_pinned_harness_beside_a_strangers_environment_is_let_through_and_named(
    world: World, server: Calls
) -> None:
    named = on_the_hub(world, "stranger/play")
    report = submit(world, server, proven(world, server, FOREIGN), BOUND, harness(named))
    assert report.status == "passed", report
    assert FOREIGN in world.questions[-1]
    assert named in world.questions[-1]


def test_a_harness_or_function_of_the_tasksets_own_package_is_part_of_its_proof(world: World, server: Calls) -> None:
    path = proven(world, server, evaluated_by="sums")
    assert submit(world, server, path, BOUND, harness("sums")).status == "passed"


def test_a_reward_that_is_plugged_by_the_config_is_an_argument_to_be_tested(world: World, server: Calls) -> None:
    plugged = in_taskset('[orchestrator.train.source.env.taskset.task.rewards.more]\nfn = "sums.taskset:more"')
    report = submit(world, server, proven(world, server), plugged)
    assert [(u.tool, u.why) for u in report.unmet] == [
        ("test_reward", "never-run"),
        ("check_reward_distribution", "never-run"),
    ]
    arguments = dict(report.next[0].arguments or {})
    assert arguments["env_args"] == {"task": {"rewards": {"more": {"fn": "sums.taskset:more"}}}}


# The inventory


def test_every_spelling_is_listed() -> None:
    text = """
[[orchestrator.train.source]]
name = "a"
env.id = "me/play"
env.taskset.id = "me/sums@1"
env.taskset.task.judges = [{id = "rubric"}, {id = "me/judge@2"}]
env.taskset.task.rewards.more.fn = "pkg.rewards.more"
env.solver.harness.id = "me/solver@3"
env.user.harness = {id = "user-harness"}

[[orchestrator.eval.source]]
name = "b"
env.taskset.id = "other/sums@2"
env.agent.harness.id = "bash"

[orchestrator.algo]
type = "echo"
filter = {import_path = "filters.keep"}
"""
    found = named_packages(parse_config(text, Path("a.toml")))
    assert [(p.kind, p.id, p.shipped) for p in found] == [
        ("environment", "me/play", False),
        ("harness", "me/solver@3", False),
        ("harness", "user-harness", False),
        ("judge", "rubric", True),
        ("judge", "me/judge@2", False),
        ("function", "pkg.rewards.more", False),
        ("harness", "bash", True),
        ("function", "filters.keep", False),
    ]


def test_the_packages_of_verifiers_are_those_of_the_installed_one() -> None:
    from importlib.util import find_spec

    spec = find_spec("verifiers")
    assert spec is not None
    assert spec.submodule_search_locations
    root = Path(spec.submodule_search_locations[0]) / "v1"
    for kind, folder in (("environment", "envs"), ("harness", "harnesses"), ("judge", "judges")):
        modules = {p.stem for p in (root / folder).iterdir() if not p.name.startswith("_")} - {"node", "utils"}
        assert modules >= SHIPPED[kind], kind  # type: ignore[index]
        assert {m for m in modules if (root / folder / m).is_dir()} <= SHIPPED[kind], kind  # type: ignore[index]
