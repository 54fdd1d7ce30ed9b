"""Replies with empty numbers, the same walk on every task, and numbers copied from the prompt."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from prime_lab_mcp.lab.rewards.knowing_nothing import answer_in, replies_knowing_nothing
from prime_lab_mcp.lab.rewards.observations import ScoredCase, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import found, scored, scored_probe, sound

PASSES = ("reward-wrong-passes", "blocker")


def judged(reward: Callable[[str, int], float], replies: dict[int, str], prompts: list[str]) -> set[tuple[str, str]]:
    rows = [Row(n, str(n), ({"role": "user", "content": prompt},), None, None, {}) for n, prompt in enumerate(prompts)]
    made = replies_knowing_nothing(replies, rows)
    assert made
    right = [ScoredCase(scored_probe(Family.SUPPLIED, "right", 1.0, row=n), "high") for n in replies]
    wrong = [ScoredCase(scored_probe(Family.SUPPLIED, "wrong", 0.0, row=n), "low") for n in replies]
    probes = [ScoredProbe(p, scored(reward(p.completion, p.row))) for p in made]
    return found(sound(*probes, style=None, supplied=(*right, *wrong)))


@pytest.mark.parametrize("careful", [True, False])
def test_nan_that_solves_every_equation_blocks(careful: bool) -> None:
    def reward(reply: str, row: int) -> float:
        answer = re.search(r"x = (\S+)$", reply)
        off = abs(float(answer[1]) - row - 2) if answer else math.inf
        return float(off <= 1e-6 if careful else not off > 1e-6)

    replies = {n: f"So:\nx = {n + 2}" for n in range(5)}
    assert (PASSES in judged(reward, replies, [f"3x = {3 * n + 6}" for n in range(5)])) is not careful


def test_numbers_that_do_not_count_are_no_flaw() -> None:
    replies = {n: f"Word: word{n} after {n + 3} steps" for n in range(5)}

    def reward(reply: str, row: int) -> float:
        return float(f"word{row} " in reply)

    assert PASSES not in judged(reward, replies, ["Which word?"] * 5)


@pytest.mark.parametrize("at_the_end", [True, False])
def test_one_walk_that_is_right_on_every_map_blocks(at_the_end: bool) -> None:
    steps = {"N": -1, "S": 1, "W": 0, "E": 0}

    def reward(reply: str, row: int) -> float:
        at, passed = 0, False
        for move in answer_in(reply)[1].split():
            at = min(4, max(0, at + steps[move]))
            passed = passed or at == 4 - row % 3
        return float(at == 4 - row % 3 if at_the_end else passed)

    replies = {n: f"<moves>{' '.join(['E', *'S' * (4 - n % 3), *'W' * (1 + n)])}</moves>" for n in range(5)}
    assert (PASSES in judged(reward, replies, [f"Map {n}" for n in range(5)])) is not at_the_end


def test_a_number_of_the_prompt_that_is_the_right_answer_is_no_flaw() -> None:
    replies = {n: f"The largest one is {n + 30}." for n in range(5)}
    rows = [Row(n, str(n), ({"role": "user", "content": f"{n + 3} or {n + 30}?"},), None, None, {}) for n in range(5)]
    made = [p for p in replies_knowing_nothing(replies, rows) if p.family is Family.CONSTANT_VALUES]
    assert {p.variant for p in made} == {"the first number of the prompt"}


@pytest.mark.parametrize("whole", [True, False])
def test_a_target_that_is_paid_as_it_stands_blocks(whole: bool) -> None:
    def reward(reply: str, row: int) -> float:
        used = [int(n) for n in re.findall(r"\d+", answer_in(reply)[1])]
        return float(sum(used) == 20 + row and (not whole or len(used) == 2))

    prompts = [f"Make {20 + n} of {n + 3} and 17." for n in range(5)]
    replies = {n: f"Sum: {n + 3} + 17" for n in range(5)}
    assert (PASSES in judged(reward, replies, prompts)) is not whole


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("I think.\n<a>x</a>\n<b>3, 4</b>", "3, 4"),
        ("So:\n```\nE S\n```", "E S\n"),
        ("It is \\boxed{7}.", "7"),
        ("First: 3\nAnswer: 7", "7"),
        ("well\nx = 1, y = 2", "x = 1, y = 2"[4:]),
        ("well\n3 of 4", "\n3 of 4"),
    ],
)
def test_the_answer_of_a_reply_is_found(reply: str, answer: str) -> None:
    before, found_answer, after = answer_in(reply)
    assert found_answer == answer
    assert before + found_answer + after == reply
