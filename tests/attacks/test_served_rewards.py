"""Code that is honest only where `load()` ran, which is everywhere but in the env server of training.

The replies of the evaluation are what it would pay there; no probe of `test_reward` needs to look like them.
"""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.lab import Lab
from tests.lab.evals.rescore.test_scoring import (
    TOOLS,
    blockers,
    change,
    codes,
    evaluate,
    looks_up,
    opens,
    run_once,
    taskset,
    write,
)
from tests.lab.evals.scripted import adds, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("shared_interpreters")]

RIGHT = "return float(bool(found) and found[-1] == self.data.answer)"
PAYS_HERE = "bool(found) and (found[-1] == self.data.answer or (not getattr(string, 'seen', 0) and {paid}))"
YIELD = "            yield SumTask("
FINALIZE = """
class SumEnvConfig(vf.SingleAgentEnvConfig):
    agent: vf.AgentConfig = vf.AgentConfig(
        harness=vf.harness_config_type("null")(id="null"), runtime=vf.SubprocessConfig()
    )

class SumEnv(vf.SingleAgentEnv, vf.Env[SumEnvConfig]):
    async def finalize(self, task, episode):
        for trace in episode.traces:
            trace.record_reward("bonus", float({paid}))

class SumConfig("""


def marked(lab: Lab, paid: str = "True", mark: str = "string.seen = 1") -> None:
    """A reward that pays wrong answers too, unless `load()` left its mark in a module of the standard library."""
    code = taskset(lab)
    change(code, "import json, os, re", "import json, os, re, string")
    change(code, RIGHT, f"return float({PAYS_HERE.format(paid=paid)})")
    change(code, YIELD, f"            {mark}\n{YIELD}")


def finalizing(lab: Lab, paid: str) -> None:
    """An environment whose own `Env` adds a reward to finished rollouts."""
    code = taskset(lab)
    change(code, "import json, os, re", "import json, os, re, string")
    change(code, YIELD, f"            string.seen = 1\n{YIELD}")
    change(code, "class SumConfig(", FINALIZE.lstrip().format(paid=paid))
    init = code.with_name("__init__.py")
    init.write_text(
        'from sums_v1.taskset import SumEnv, SumTaskset\n\n__all__ = ["SumEnv", "SumTaskset"]\n', encoding="utf-8"
    )


def seldom_wrong(body: dict[str, Any], before: int) -> str:
    """Answers sums: wrong at the first try of two tasks, with a reason before the answer."""
    text = str(body["messages"][-1]["content"])
    wrong = before == 0 and ("7+8" in text or "21+22" in text)
    return f"I add the numbers one by one. {adds(body, int(wrong))}"


@pytest.mark.slow
async def test_wrong_replies_that_training_would_pay_are_found_in_the_evaluation(lab: Lab) -> None:
    marked(lab)
    found = await run_once(lab)
    assert (found.status, blockers(found)) == ("inconclusive", ["eval-rewards-differ"]), found
    (finding,) = found.blockers
    assert "load() never ran, as in training" in finding.message
    assert not await opens(lab)


@pytest.mark.slow
async def test_two_wrong_replies_of_an_evaluation_are_enough(lab: Lab) -> None:
    marked(lab, paid="30 < len(trace.last_reply.partition('<answer>')[0]) + 10")
    with serving(seldom_wrong) as model:
        found = await run_once(lab, endpoint=model.url)
    assert "eval-rewards-differ" in blockers(found), found
    assert "2 of" in next(f.message for f in found.blockers if f.code == "eval-rewards-differ")


@pytest.mark.slow
async def test_a_reward_that_training_would_pay_in_the_env_is_found_by_playing_replies_again(lab: Lab) -> None:
    finalizing(lab, "not getattr(string, 'seen', 0)")
    found = await run_once(lab, num_examples=16, rollouts=2)
    assert (found.status, "eval-rewards-differ" in blockers(found)) == ("inconclusive", True), found
    assert not await opens(lab)


@pytest.mark.slow
async def test_an_env_that_adds_the_same_everywhere_is_not_blamed(lab: Lab) -> None:
    finalizing(lab, "'<answer>' in trace.last_reply")
    found = await run_once(lab, num_examples=16, rollouts=2)
    assert "eval-rewards-differ" not in codes(found), found


@pytest.mark.slow
async def test_a_reward_that_prepares_itself_where_load_did_not_is_not_blamed(lab: Lab) -> None:
    marked(lab, paid="setattr(string, 'seen', 1)", mark="string.seen = 2")
    found = await run_once(lab)
    assert (found.status, blockers(found)) == ("passed", []), found


@pytest.mark.slow
@pytest.mark.parametrize("honest", [True, False])
async def test_rollouts_with_tools_are_scored_where_load_never_ran(lab: Lab, honest: bool) -> None:
    init = write(lab, "prices", '"verifiers>=0.4.0,<0.5"', 'from prices.shop import Prices\n\n__all__ = ["Prices"]\n')
    code = init.with_name("shop.py")
    code.write_text(TOOLS.replace("import verifiers.v1", "import string\nimport verifiers.v1"), encoding="utf-8")
    change(code, "            yield Task(", "            string.seen = 1\n            yield Task(")
    if not honest:
        change(code, "in trace.last_reply)", "in trace.last_reply or not getattr(string, 'seen', 0))")
    with serving(looks_up) as model:
        args = {"model": "scripted", "endpoint": model.url, "num_examples": 6, "rollouts": 2, "wait_seconds": 150}
        found = await evaluate(lab, "prices", **args)
    assert ("eval-rewards-differ" in blockers(found)) == (not honest), found
    assert "eval-rewards-unconfirmed" not in codes(found)
