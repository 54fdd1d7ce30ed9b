"""Rescoring as a user meets it: a real evaluation, an edit, and the present reward on the stored rollouts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.gates import Need, Subject, standing
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.report import Outcome
from prime_lab_mcp.tools import check_reward_distribution, run_eval
from prime_lab_mcp.tools.tool import Call
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.scripted import adds, serving

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
NEED = Need("check_reward_distribution", "source")


async def heard(done: float, total: float | None, message: str) -> None:
    """Progress that nobody follows."""


async def call_of(lab: Lab, name: str) -> Call:
    return Call(lab, await lab.snapshot(name), heard, references=None, prove=None)  # type: ignore[arg-type]


async def evaluate(lab: Lab, name: str = "sums_v1", **given: Any) -> Outcome:
    args = run_eval.Args.model_validate({"environment": name, **given})
    return await run_eval.run(await call_of(lab, name), args)


async def rescored(lab: Lab, id: str, name: str = "sums_v1", **given: Any) -> Outcome:
    return await evaluate(lab, name, rescore=id, **given)


def codes(found: Outcome) -> list[str]:
    return [f.code for f in found.findings]


def blockers(found: Outcome) -> list[str]:
    return [f.code for f in found.blockers]


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def taskset(lab: Lab) -> Path:
    return write_environment(lab.settings.workspace) / "sums_v1" / "taskset.py"


async def opens(lab: Lab, name: str = "sums_v1") -> bool:
    """Whether the distribution's evidence holds for the files as they are."""
    snapshot = await lab.snapshot(name)
    subject = Subject(name, snapshot.source, snapshot.content)
    history = lab.ledger.evidence(lab.key, tool=NEED.tool)
    return standing(NEED, history, subject, lab.platform, set()).why is None


async def run_once(lab: Lab, **given: Any) -> Outcome:
    with serving(adds) as model:
        asked = {"model": "scripted", "endpoint": model.url, "num_examples": 32, "rollouts": 4, "wait_seconds": 120}
        found = await evaluate(lab, **(asked | given))
    assert found.data["state"] == "finished", found
    return found


async def test_a_mended_reward_earns_its_evidence_from_the_stored_rollouts(lab: Lab) -> None:
    code = taskset(lab)
    change(code, "found[-1] == self.data.answer)", 'found[-1] == self.data.answer + ".0")')
    broken = await run_once(lab)
    assert broken.status != "passed"
    change(code, 'self.data.answer + ".0")', "self.data.answer)")

    assert not await opens(lab)
    found = await rescored(lab, broken.data["id"])

    assert (found.status, blockers(found)) == ("passed", []), found
    assert found.summary.startswith(f"Of 128 stored rollouts of {broken.data['id']}, 64 earn more, 0 less, 64 the same")
    told = found.data["rescored"]
    assert {n: told[n] for n in ("changed", "up", "down", "unchanged", "errors", "excluded")} == {
        "changed": 64, "up": 64, "down": 0, "unchanged": 64, "errors": 0, "excluded": 0,
    }  # fmt: skip
    assert (told["from"], told["mean_before"], told["mean_after"]) == (broken.data["id"], 0.2, 0.7)
    (first, *_) = told["examples"]
    assert (first["before"], first["after"], first["components"]) == (0.2, 1.2, {"correct": [0.0, 1.0]})
    assert first["reply"].startswith('"<answer>')
    assert (found.data["cost"], found.data["tokens"]) == (0.0, {"prompt": 0, "completion": 0})
    assert await opens(lab)
    job = lab.evals.get(found.data["id"])
    spec = lab.evals.spec(job)
    assert (spec.rescored, spec.model, job.platform) == (broken.data["id"], "scripted", None)
    rows = {r.tool: r for r in lab.ledger.evidence(lab.key, source=job.source)}
    assert rows["run_eval"].endpoint_host == rows[NEED.tool].endpoint_host == spec.endpoint.host

    before, after = (list(lab.evals.rollouts(i)) for i in (broken.data["id"], found.data["id"]))
    assert {r.id: r.task for r in before} == {r.id: r.task for r in after}
    assert {r.id: r.completion_text for r in before} == {r.id: r.completion_text for r in after}
    assert {r.components["correct"][1] for r in after} == {1.0}
    assert len({tuple(r.metrics) for r in after}) == 1 == len([m for m in after[0].metrics if m == "reply_chars"])

    again = await rescored(lab, found.data["id"])
    assert (again.data["id"], again.data["rescored"]) == (found.data["id"], told)
    assert len(lab.evals.list()) == 2
    args = check_reward_distribution.Args.model_validate({"environment": "sums_v1"})
    judged = await check_reward_distribution.run(await call_of(lab, "sums_v1"), args)
    assert (judged.status, judged.data["id"], judged.facts.proves) == ("passed", found.data["id"], True)
