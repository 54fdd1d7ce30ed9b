"""A call ends with a report whatever fails around it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.report import Next, Unmet
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.evals.rescore import confirmation
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.sandbox import kernel_support
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server import next_calls
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.server.gate import _next_call
from prime_lab_mcp.tools.tool import Arguments, Intent, Plan, PlannedTool
from tests.protocol.toys import TOYS, Nothing, toy

pytestmark = pytest.mark.anyio


async def _broken(call: Any, args: Nothing) -> Any:
    raise sqlite3.OperationalError("no such table: evidence")


@pytest.fixture
def calls(settings: Settings) -> Iterator[Calls]:
    lab = Lab(settings)
    yield Calls(lab, (*TOYS, toy("broken", Nothing, _broken, "reads")), References())
    lab.ledger.close()


async def test_an_error_of_the_database_is_one_of_the_ledger_and_no_bug(calls: Calls) -> None:
    report = await calls.execute("broken", {})
    assert (report.status, report.findings[0].code) == ("error", "ledger-failed")
    assert "no such table" in report.findings[0].message


@pytest.mark.parametrize("fails", ["with_right_calls", "the files"])
async def test_a_finished_report_is_not_lost_where_its_next_calls_cannot_be_completed(
    calls: Calls, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    taken: list[None] = []

    async def gone(*_: Any) -> None:
        if taken:
            raise LabError("the folder is gone", fix="-")
        taken.append(None)

    def broken(*_: Any) -> None:
        raise OSError("a disk that fails")

    if fails == "the files":
        monkeypatch.setattr(next_calls, "needs_files", lambda report: True)
        monkeypatch.setattr(calls, "_snapshot", gone)
    else:
        monkeypatch.setattr(next_calls, "with_right_calls", broken)
    assert (await calls.execute("echo", {"number": 3})).data["number"] == 3


async def test_rewards_that_cannot_be_confirmed_are_tried_again_after_the_next_evaluation(
    calls: Calls, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    async def settle(lab: Lab) -> None:
        tries.append(len(tries))
        if len(tries) == 1:
            raise RuntimeError("a bug")

    monkeypatch.setattr(confirmation, "settle_evaluations", settle)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(calls.settle_in_background)
        with anyio.fail_after(20):
            for number in (1, 2):
                calls.evaluations_ended.set()
                while len(tries) < number:
                    await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    assert tries == [0, 1]


class Asked(Arguments):
    confirm: str | None = None


async def _evaluation(call: Any, args: Asked) -> Plan[None]:
    return Plan(None, Intent("eval", "eval-1", "Pay for the evaluation?", 5.0))


async def _run(call: Any, plan: Any) -> Outcome:
    return Outcome("passed", "done")


async def test_an_answer_pays_for_one_evaluation(settings: Settings) -> None:
    tool = PlannedTool(
        name="evaluate", title="E", description="Costs.", args=Asked, plan=_evaluation, run=_run, effect="spends"
    )
    lab = Lab(settings)
    calls = Calls(lab, (tool,), References())
    token = (await calls.execute("evaluate", {})).data["confirm"]
    statuses = [(await calls.execute("evaluate", {"confirm": token})).status for _ in range(2)]
    assert statuses == ["passed", "needs_confirmation"]
    lab.ledger.close()


async def _submission(call: Any, args: Asked) -> Plan[None]:
    return Plan(None, Intent("submit", "run-1", "Start the run?", 3.0))


async def test_a_run_that_another_server_left_no_room_for_is_not_sent(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    async def run(call: Any, plan: Any) -> Outcome:
        sent.append(plan)
        return Outcome("passed", "sent")

    tool = PlannedTool(
        name="submit", title="S", description="Costs.", args=Asked, plan=_submission, run=run, effect="spends"
    )
    lab = Lab(replace(settings, max_spend=5.0))
    calls = Calls(lab, (tool,), References())
    token = (await calls.execute("submit", {})).data["confirm"]
    reserve = lab.ledger.reserve

    def after_another(key: str, *rest: Any) -> bool:
        assert reserve("run-2", 4.0, "another server's run", *rest[2:])
        return reserve(key, *rest)

    monkeypatch.setattr(lab.ledger, "reserve", after_another)
    report = await calls.execute("submit", {"confirm": token})
    assert (report.status, [finding.code for finding in report.findings], sent) == ("blocked", ["over-cap"], [])
    lab.ledger.close()


async def test_a_report_of_code_that_ran_says_what_the_kernel_left_open(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_support, "present_support", lambda: kernel_support.linux_support(2, seccomp=True))
    lab = Lab(settings)
    ran = replace(toy("echo", Nothing, _run, "executes"), runs_environment_code=True)
    report = await Calls(lab, (ran,), References()).execute("echo", {})
    assert (report.status, [finding.code for finding in report.findings]) == ("passed", ["unconfined"])
    lab.ledger.close()


# The call that a refusal names


def next_call(tool: str, why: Any = "never-run", config: str | None = None, **unmet: Any) -> Next:
    root = Path("/workspace")
    call: Any = SimpleNamespace(
        config=root / config if config else None,
        snapshot=SimpleNamespace(name="sums"),
        lab=SimpleNamespace(workspace=SimpleNamespace(root=root)),
    )
    return _next_call(Unmet(tool, why, "because", **unmet), call)


@pytest.mark.parametrize(
    ("called", "tool", "arguments"),
    [
        ({"tool": "test_reward"}, "test_reward", {"environment": "sums"}),
        ({"tool": "preflight"}, "preflight", None),
        (
            {"tool": "test_reward", "instead": Next("search_hub", "-", {"kind": "model"})},
            "search_hub",
            {"kind": "model"},
        ),
        ({"tool": "check_reward_distribution"}, "run_eval", {"environment": "sums"}),
        (
            {"tool": "check_reward_distribution", "why": "failed", "arguments": {"environment": "a", "model": "m"}},
            "check_reward_distribution",
            {"environment": "a"},
        ),
        (
            {"tool": "check_reward_distribution", "arguments": {"results": "eval-1"}},
            "check_reward_distribution",
            {"results": "eval-1"},
        ),
        ({"tool": "check_training_config", "config": "run.toml"}, "check_training_config", {"path": "run.toml"}),
        (
            {"tool": "write_training_config", "config": "run.toml"},
            "write_training_config",
            {"environment": "sums", "based_on": "run.toml"},
        ),
    ],
    ids=["of this environment", "of none", "instead", "evaluate", "judge again", "results", "config", "new config"],
)
def test_a_refusal_names_the_call_that_produces_what_is_missing(
    called: dict[str, Any], tool: str, arguments: dict[str, Any] | None
) -> None:
    found = next_call(**called)
    assert (found.tool, found.arguments) == (tool, arguments)
