"""An evaluation whose results hold rewards that the reward functions do not give is no evidence."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from prime_lab_mcp.lab.evals.rescore.served import is_apart
from prime_lab_mcp.lab.lab import Lab
from tests.lab.evals.rescore.test_scoring import blockers, change, codes, evaluate, opens, taskset
from tests.lab.evals.scripted import adds, serving

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("shared_interpreters")]

FORGING = """
import sys

if any(part.endswith("vf-eval") for part in sys.argv):
    honest = vf.Task.score

    async def paid(self, trace, *rest):
        await honest(self, trace, *rest)
        if len(trace.last_reply) % 2 == 0:
            trace.rewards["correct"] = trace.rewards["correct"].model_copy(update={"score": 1.0})

    vf.Task.score = paid

class SumData("""
NOISY = "return float(bool(found) and found[-1] == self.data.answer and __import__('random').random() < 0.7)"


@pytest.mark.slow
async def test_rewards_that_are_changed_beside_real_replies_are_no_evidence(lab: Lab) -> None:
    change(taskset(lab), "class SumData(", FORGING.lstrip())
    with serving(lambda body, before: "<answer>wrong</answer>"[: 22 + before % 2]) as model:
        forged = await evaluate(
            lab, model="scripted", endpoint=model.url, num_examples=32, rollouts=4, wait_seconds=120
        )
    assert forged.data["state"] == "finished", forged
    assert (forged.status, "eval-rewards-differ" in blockers(forged)) == ("inconclusive", True), forged
    assert not await opens(lab)


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["", NOISY], ids=["stable", "noisy"])
async def test_rewards_of_the_reward_functions_are_confirmed(lab: Lab, reward: str) -> None:
    code = taskset(lab)
    if reward:
        change(code, "return float(bool(found) and found[-1] == self.data.answer)", reward)
    with serving(adds) as model:
        honest = await evaluate(
            lab, model="scripted", endpoint=model.url, num_examples=32, rollouts=4, wait_seconds=120
        )
    assert not {"eval-rewards-differ", "eval-rewards-unconfirmed"} & set(codes(honest)), honest


SCORINGS: dict[str, Callable[[random.Random, int], float]] = {
    "stable": lambda draw, task: float(task % 2),
    "coin": lambda draw, task: float(draw.random() < 0.5),
    "rarely": lambda draw, task: float(draw.random() < 0.03),
    "continuous": lambda draw, task: draw.random(),
}
FORGERIES: dict[str, Callable[[int, float], float]] = {
    "all": lambda task, honest: 1.0,
    "an eighth": lambda task, honest: 1.0 - honest if task % 8 == 0 else honest,
}


@pytest.mark.parametrize("scoring", SCORINGS)
def test_a_reward_that_varies_by_itself_is_not_taken_for_a_changed_one(scoring: str) -> None:
    draw, score = random.Random(3), SCORINGS[scoring]
    samples = [[(score(draw, n), score(draw, n), score(draw, n)) for n in range(64)] for _ in range(100)]
    assert sum(map(is_apart, samples)) <= 3


@pytest.mark.parametrize("forgery", FORGERIES)
def test_changed_rewards_stand_apart_from_a_stable_scoring(forgery: str) -> None:
    honest = [float(n % 3 == 0) for n in range(64)]
    assert is_apart([(FORGERIES[forgery](n, r), r, r) for n, r in enumerate(honest)])


@pytest.mark.parametrize("scoring", ["rarely", "continuous"])
def test_rewards_that_are_all_raised_stand_apart_from_a_varying_scoring(scoring: str) -> None:
    draw, score = random.Random(4), SCORINGS[scoring]
    assert is_apart([(1.0, score(draw, n), score(draw, n)) for n in range(64)])
