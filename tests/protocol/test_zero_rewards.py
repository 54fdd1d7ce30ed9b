"""Evaluations that earned nothing: a client is led to the true cause, and to a call that mends it."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import Evidence
from prime_lab_mcp.server.app import build_server
from tests.lab.evals.finished import SPEC, episode, finished

pytestmark = [pytest.mark.anyio]
ID = "eval-00000001"
LIMIT = 64
"""max_tokens of the evaluation."""
NOTHING = {"correct": {"score": 0.0, "weight": 1.0}, "answer_format": {"score": 0.0, "weight": 0.1}}


def zero(task: int, reply: str, ending: str = "stop") -> dict[str, Any]:
    asked = {"role": "user", "content": "2+2? Put the answer in <answer></answer>."}
    nodes = [
        {"message": asked, "sampled": False},
        {"message": {"role": "assistant", "content": reply}, "sampled": True},
    ]
    tokens = LIMIT if ending == "length" else 2
    calls = [{"finish_reason": ending}]
    return episode(task, 0.0, nodes=nodes, rewards=NOTHING, calls=calls, num_output_tokens=tokens)


async def reports(settings: Settings, reply: str, ending: str = "stop") -> tuple[dict[str, Any], dict[str, Any]]:
    """The zeros of an evaluation of 12 tasks with 4 rollouts of this reply, and the verdict on its rewards."""
    lab = Lab(settings)
    finished(lab, [zero(task, reply, ending) for task in range(12) for _ in range(4)])
    async with Client(build_server(lab)) as client:
        zeros = await client.call_tool("read_eval", {"eval": ID, "view": "zeros"})
        judged = await client.call_tool("check_reward_distribution", {"results": ID})
    assert zeros.structured_content is not None
    assert judged.structured_content is not None
    return zeros.structured_content, judged.structured_content


async def test_right_answers_in_the_asked_form_are_not_blamed_on_the_model(settings: Settings) -> None:
    zeros, judged = await reports(settings, "<answer>four</answer>")

    assert zeros["data"]["whose"] == {"model": 0, "setup": 48}
    assert [one["tool"] for one in zeros["next"]] == ["test_reward"]
    assert "test_reward" in [one["tool"] for one in judged["next"]]


async def test_replies_without_the_asked_form_lead_to_the_prompt(settings: Settings) -> None:
    zeros, judged = await reports(settings, "It comes to four")

    assert zeros["data"]["whose"] == {"model": 48, "setup": 0}
    assert [one["tool"] for one in zeros["next"]] == ["read_environment"]
    assert "run_eval" not in [one["tool"] for one in judged["next"]], "the same zeros, and more of them"


async def test_truncated_replies_lead_to_the_same_evaluation_with_a_higher_limit(settings: Settings) -> None:
    zeros, judged = await reports(settings, "<answer>fo", "length")

    [again] = zeros["next"]
    assert again["tool"] == "run_eval"
    assert again["arguments"]["max_tokens"] > LIMIT
    assert again["arguments"]["num_examples"] == 40, "the tasks of the evaluation"
    assert again["arguments"]["rollouts"] == 4
    assert again["arguments"]["endpoint"] == "http://127.0.0.1:9/v1"
    assert "run_eval" not in [one["tool"] for one in judged["next"]], "it would repeat the limit that cut them off"


async def test_zeros_of_a_reward_whose_test_failed_lead_to_the_files_and_not_to_the_same_test(
    settings: Settings,
) -> None:
    blocker = {"code": "reward-contradicts-prompt", "severity": "blocker", "message": "it reads a box"}
    row = Evidence(
        "test_reward", "failed", Lab(settings).key, SPEC.environment, SPEC.source, SPEC.content, findings=(blocker,)
    )
    Lab(settings).ledger.record(row)
    zeros, _ = await reports(settings, "<answer>four</answer>")
    called = [one["tool"] for one in zeros["next"]]
    assert called[0] == "read_environment"
    assert "test_reward" not in called
    assert "reward-contradicts-prompt, it reads a box" in zeros["next"][0]["why"]


async def test_replies_that_lack_what_every_paid_reply_has_are_told_what_that_is(settings: Settings) -> None:
    """The doses had no unit, and the report counted 400 wrong answers and none that the reward could not read."""
    paid = [{"task": n, "reply": f"I multiply.\nDose: {n} mg"} for n in range(2)]
    lab = Lab(settings)
    known = {"paid_replies": paid}
    lab.ledger.record(
        Evidence("test_reward", "passed", lab.key, SPEC.environment, SPEC.source, SPEC.content, data=known)
    )
    plain = {"correct": {"score": 0.0, "weight": 1.0}}
    asked = {"role": "user", "content": "How much? Answer with the dose."}

    def unread(task: int) -> dict[str, Any]:
        said = {"role": "assistant", "content": f"I multiply.\nDose: {task + 7}"}
        nodes = [{"message": asked, "sampled": False}, {"message": said, "sampled": True}]
        return episode(task, 0.0, nodes=nodes, rewards=plain, num_output_tokens=2)

    finished(lab, [unread(task) for task in range(40) for _ in range(4)])
    async with Client(build_server(lab)) as client:
        zeros = (await client.call_tool("read_eval", {"eval": ID, "view": "zeros"})).structured_content
        judged = (await client.call_tool("check_reward_distribution", {"results": ID})).structured_content
    assert zeros is not None
    assert judged is not None
    lacking = "a unit or word after the number that ends the last line (a paid text ends with"
    assert (zeros["data"]["zeros"]["unparsed"], zeros["data"]["zeros"]["wrong"]) == (160, 0)
    assert zeros["data"]["whose"] == {"model": 0, "setup": 0, "unknown": 160}
    assert zeros["data"]["lacking"].startswith(lacking)
    assert lacking in zeros["summary"]
    assert lacking in zeros["next"][0]["why"]
    (finding,) = [f for f in judged["findings"] if f["code"] == "distribution-all-zero"]
    assert f"the replies lack what every paid reply of test_reward has: {lacking}" in finding["message"]
    assert "write one into it" in finding["fix"]
