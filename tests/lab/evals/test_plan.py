"""Who plays: the plain chat, the environment's own harness and runtime, or what the caller names."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.evals.plan import assign_agents, run_eval_arguments
from prime_lab_mcp.lab.evals.runner import command
from prime_lab_mcp.lab.worker.description import Role
from tests.lab.evals.test_spec import SPEC

CHAT = {"harness": {"id": "vf-lab-chat"}, "runtime": {"type": "subprocess"}}
DEFAULT = [Role("agent", "bash", "prime")]
PLAIN = [Role("agent", "null", "subprocess", own=True)]
SHELL = [Role("agent", "bash", "docker", own=True)]
QUIET = [Role("agent", "null", "docker", own=True)]
RENTED = [Role("agent", "bash", "prime", own=True)]
UNSAID = [Role("agent", "null", "prime", own=True)]
DUEL = [Role("player", "null", "subprocess", own=True), Role("judge", "codex", "docker", own=True)]


@pytest.mark.parametrize(
    ("roles", "named", "harness", "runtime", "written"),
    [
        (None, (None, None), "null", "subprocess", {"agent": CHAT}),
        (DEFAULT, (None, None), "null", "subprocess", {"agent": CHAT}),
        (
            DEFAULT,
            ("bash", None),
            "bash",
            "subprocess",
            {"agent": {"harness": {"id": "bash"}, "runtime": {"type": "subprocess"}}},
        ),
        (PLAIN, (None, None), "null", "subprocess", {"agent": CHAT}),
        (UNSAID, (None, None), "null", "subprocess", {"agent": CHAT}),
        (SHELL, (None, "docker"), "bash", "docker", {"agent": {"runtime": {"type": "docker"}}}),
        (QUIET, (None, None), "null", "subprocess", {"agent": CHAT}),
        (SHELL, (None, "subprocess"), "bash", "subprocess", {"agent": {"runtime": {"type": "subprocess"}}}),
        (SHELL, ("null", "subprocess"), "null", "subprocess", {"agent": CHAT}),
        (RENTED, (None, "docker"), "bash", "docker", {"agent": {"runtime": {"type": "docker"}}}),
        (
            DUEL,
            (None, "podman"),
            "player: null, judge: codex",
            "podman",
            {"player": {"runtime": {"type": "podman"}}, "judge": {"runtime": {"type": "podman"}}},
        ),
        (DUEL, ("null", "subprocess"), "null", "subprocess", {"player": CHAT, "judge": CHAT}),
    ],
)
def test_the_environments_own_settings_hold_unless_others_are_named(
    tmp_path: Path,
    roles: Sequence[Role] | None,
    named: tuple[str | None, str | None],
    harness: str,
    runtime: str,
    written: Mapping[str, object],
) -> None:
    found = assign_agents(roles, *named)
    spec = dataclasses.replace(SPEC, harness=found.harness, runtime=found.runtime, agents=found.agents)
    files = command.JobFiles(tmp_path)
    command.eval_command(spec, files, "http://127.0.0.1:5/v1")

    config = json.loads(files.config.read_text(encoding="utf-8"))["env"]
    assert (found.harness, found.runtime) == (harness, runtime)
    assert {name: part for name, part in config.items() if name != "taskset"} == written


@pytest.mark.parametrize("roles", [SHELL, DUEL, RENTED])
def test_an_environment_alone_does_not_decide_that_docker_or_a_rented_sandbox_is_used(roles: Sequence[Role]) -> None:
    with pytest.raises(BadInput) as refused:
        assign_agents(roles, None, None, installed=("podman", "docker"))
    assert refused.value.code == "eval-needs-sandbox"
    assert 'runtime="podman"' in refused.value.fix
    assert 'runtime="docker"' in refused.value.fix


@pytest.mark.parametrize("runtime", [None, "subprocess"])
def test_tasks_that_name_an_image_are_not_evaluated_without_a_container(runtime: str | None) -> None:
    for roles in (None, PLAIN, RENTED):
        with pytest.raises(BadInput) as refused:
            assign_agents(roles, None, runtime, container=True, installed=("podman",))
        assert refused.value.code == "eval-needs-sandbox"
        assert "subprocess" not in refused.value.fix
        assert 'runtime="podman"' in refused.value.fix


def test_without_a_container_program_a_person_is_told_what_to_install_and_no_call_is_named() -> None:
    with pytest.raises(BadInput) as refused:
        assign_agents(RENTED, None, None, container=True, installed=())
    assert "install Podman" in refused.value.fix
    assert not re.search(r"\b\w+=|\b[a-z]+_[a-z]+\(", refused.value.fix), "no call is named that would lead back here"


def test_a_container_runtime_that_is_not_installed_is_refused_before_anything_starts() -> None:
    with pytest.raises(BadInput, match="podman is not installed") as refused:
        assign_agents(RENTED, None, "podman", container=True, installed=("docker",))
    assert 'runtime="docker"' in refused.value.fix


def test_an_environment_in_apptainer_is_evaluated_in_another_container() -> None:
    roles = [Role("agent", "bash", "apptainer", own=True)]
    with pytest.raises(BadInput, match="cannot run confined") as refused:
        assign_agents(roles, None, None, installed=("podman",))
    assert 'runtime="podman"' in refused.value.fix
    assert assign_agents(roles, None, "podman", installed=("podman",)).runtime == "podman"


def test_a_recommended_call_names_the_containers_that_the_evaluation_ran_in() -> None:
    spec = dataclasses.replace(SPEC, harness="bash", runtime="podman", agents={"agent": ["", "podman"]})
    assert run_eval_arguments(spec)["runtime"] == "podman"
    own = dataclasses.replace(spec, runtime="agent: subprocess, judge: podman", agents={"agent": [], "judge": []})
    assert "runtime" not in run_eval_arguments(own)
