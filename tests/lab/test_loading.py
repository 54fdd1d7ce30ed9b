"""An environment is loaded with its interpreter, and with a key that nobody serves where it needs one to load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab import loading
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.loading import open_environment
from prime_lab_mcp.lab.present_distributions import present_distributions
from prime_lab_mcp.lab.sandbox.kernel_support import linux_support
from prime_lab_mcp.lab.state.dependency_drift import DISTRIBUTIONS
from prime_lab_mcp.lab.state.pulled import PulledFiles, PulledUnconfined
from prime_lab_mcp.lab.worker import pool
from prime_lab_mcp.lab.worker.faults import LoadFailed
from tests.lab.evals.conftest import write_environment
from tests.lab.worker.scripted_child import LOADED, ScriptedZygote

pytestmark = pytest.mark.anyio


def failed(type: str, message: str) -> dict[str, Any]:
    return {"failed": {"type": type, "message": message, "traceback": "", "where": "sums.py:3", "refused": ""}}


def loading_answers(monkeypatch: pytest.MonkeyPatch, folder: Path, *replies: dict[str, Any]) -> list[dict[str, Any]]:
    """Let the children of the lab answer to one request to load after the other; returns these requests."""
    left, requests = list(replies), list[dict[str, Any]]()

    def answer(request: dict[str, Any]) -> list[object]:
        requests.append(request)
        return [left.pop(0)]

    def make(*_: Any) -> ScriptedZygote:
        return ScriptedZygote(folder, answer)

    monkeypatch.setattr(pool, "Zygote", make)
    return requests


async def test_an_environment_that_loads_with_a_key_only_gets_one_that_nobody_serves(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_environment(lab.settings.workspace)
    needs_key = failed("OpenAIError", "set OPENAI_API_KEY")
    requests = loading_answers(monkeypatch, tmp_path, needs_key, {"result": LOADED}, {"result": LOADED})
    told: list[str] = []

    async def say(message: str) -> None:
        told.append(message)

    async with open_environment(lab, await lab.snapshot("sums_v1"), progress=say) as opened:
        assert opened.variables is not None
        assert opened.toolchain[DISTRIBUTIONS] == opened.distributions
    assert [request["variables"].get("OPENAI_API_KEY") for request in requests] == [None, "no-key"]
    assert [message.partition(":")[0] for message in told] == ["loading sums_v1"]
    async with open_environment(lab, await lab.snapshot("sums_v1"), env_args={"count": 2}) as opened:
        assert (opened.variables, dict(opened.env_args)) == (None, {"count": 2})


async def test_an_environment_that_raises_for_another_reason_is_tried_once(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_environment(lab.settings.workspace)
    requests = loading_answers(monkeypatch, tmp_path, failed("ValueError", "no data"))
    with pytest.raises(LoadFailed, match="no data"):
        async with open_environment(lab, await lab.snapshot("sums_v1")):
            pass
    assert len(requests) == 1


@pytest.mark.parametrize(
    ("pyproject", "code"),
    [("", "pyproject-invalid"), ('[project]\nname = "odd"\nversion = "0.1.0"\n', "unknown-generation")],
)
async def test_what_is_no_environment_says_what_it_lacks_before_anything_starts(
    lab: Lab, pyproject: str, code: str
) -> None:
    folder = lab.settings.workspace / "environments" / "odd"
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(pyproject, encoding="utf-8")
    (folder / "odd.py").write_text("A = 1\n", encoding="utf-8")
    with pytest.raises(BadInput) as refused:
        async with open_environment(lab, await lab.snapshot("odd")):
            pass
    assert refused.value.code == code
    assert [call.tool for call in refused.value.next] == ["check_environment"]


@pytest.mark.parametrize(("landlock", "runs"), [(0, False), (6, True)])
async def test_code_of_others_runs_unconfined_only_if_a_person_agreed(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, landlock: int, runs: bool
) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    monkeypatch.setattr(loading, "present_support", lambda: linux_support(landlock, seccomp=True))
    loading.require_agreement(lab, snapshot)  # it is nobody else's
    monkeypatch.setattr(loading, "unagreed_pull", lambda *_: PulledFiles("them/sums@1.0", "s"))
    if runs:
        loading.require_agreement(lab, snapshot)
        return
    with pytest.raises(PulledUnconfined, match="pulled from"):
        loading.require_agreement(lab, snapshot)


async def test_without_an_interpreter_distributions_are_unknown_unless_it_may_be_built(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    present = await present_distributions(lab, snapshot)
    assert "verifiers" in present
    assert await present_distributions(lab, snapshot, build=False, keep_seconds=60.0) == present

    async def none(*_: Any, **__: Any) -> None:
        return None

    monkeypatch.setattr(lab.interpreters, "present", none)
    assert await present_distributions(lab, snapshot, build=False) is None


async def test_the_id_of_a_taskset_is_no_argument_of_it(lab: Lab) -> None:
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    with pytest.raises(BadInput, match="id is no key of the taskset") as refused:
        async with open_environment(lab, snapshot, env_args={"id": "other"}):
            pass
    assert refused.value.fix == "Leave id out of env_args."
