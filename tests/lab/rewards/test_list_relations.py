"""Lists in another order, with an entry twice, with exchanged values and with absurd numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from typing import cast

import anyio
import pytest

from prime_lab_mcp.lab.rewards.list_relations import fields_of, right_lists, score_relations
from prime_lab_mcp.lab.rewards.observations import ScoredCase
from prime_lab_mcp.lab.rewards.probes.catalogue import Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.worker.description import Row
from prime_lab_mcp.lab.worker.scoring import Case, Scored
from tests.lab.rewards.rules.trials import found, scored, scored_probe, sound

PASSES = ("reward-wrong-passes", "blocker")
LENGTHS = {"Amber": 2, "Bison": 1, "Cedar": 3, "Drake": 2, "Ember": 1}
PLAN = ("Amber, North, 1", "Bison, North, 3", "Cedar, South, 1", "Drake, South, 4", "Ember, North, 4")
PROMPT = "Plan the ships Amber, Bison, Cedar, Drake and Ember. One line for each: ship, berth, first day."
Reward = Callable[[str], float]


class Rewarded:
    """A stand-in for a scorer that calls a reward."""

    gave_up = False

    def __init__(self, reward: Reward) -> None:
        self.reward = reward

    def prepared(self, probe: Probe) -> Probe:
        return probe

    async def score(self, cases: Sequence[Case]) -> list[Scored]:
        return [scored(self.reward(str(case.messages[-1]["content"]))) for case in cases]


def judged(reward: Reward, reply: str, prompt: str = PROMPT, *, golds: bool = False) -> set[tuple[str, str]]:
    rows = [Row(n, str(n), ({"role": "user", "content": prompt},), None, None, {}) for n in range(5)]
    lists = right_lists(dict.fromkeys(range(5), reply), set(range(5)) if golds else set(), rows)
    probes = anyio.run(score_relations, cast("Scorer", Rewarded(reward)), lists)
    right = [ScoredCase(scored_probe(Family.SUPPLIED, "right", 1.0, row=n), "high") for n in range(5)]
    wrong = [ScoredCase(scored_probe(Family.SUPPLIED, "wrong", 0.0, row=n), "low") for n in range(5)]
    return found(sound(*probes, style=None, supplied=(*right, *wrong)))


def berths(every_pair: bool) -> Reward:
    """Two ships may not be at one berth at a time; a careless check compares only lines that follow each other."""

    def reward(reply: str) -> float:
        lines = [line.split(", ") for line in reply.splitlines() if line.count(",") == 2]
        used = [(ship, berth, int(day), int(day) + LENGTHS[ship]) for ship, berth, day in lines]
        if sorted(u[0] for u in used) != sorted(LENGTHS):
            return 0.0
        pairs = combinations(used, 2) if every_pair else pairwise(used)
        return float(not any(a[1] == b[1] and a[2] < b[3] and b[2] < a[3] for a, b in pairs))

    return reward


def test_a_check_of_neighbours_only_blocks_and_one_of_all_pairs_does_not() -> None:
    plan = "My plan:\n" + "\n".join(PLAN)
    assert PASSES in judged(berths(every_pair=False), plan)
    assert PASSES not in judged(berths(every_pair=True), plan)


def test_a_list_whose_order_counts_is_not_reordered_after_changes() -> None:
    def first_is_amber(reply: str) -> float:
        return berths(every_pair=False)(reply) * float(reply.splitlines()[1].startswith("Amber"))

    assert PASSES not in judged(first_is_amber, "My plan:\n" + "\n".join(PLAN))


@pytest.mark.parametrize(("prompt", "blocks"), [(f"{PROMPT} Use any order.", False), (f"{PROMPT} In any order.", True)])
def test_an_order_that_the_prompt_allows_must_be_paid(prompt: str, blocks: bool) -> None:
    plan = "My plan:\n" + "\n".join(PLAN)
    assert (
        ("reward-contradicts-prompt", "blocker") in judged(lambda text: float(text == plan), plan, prompt)
    ) is blocks


@pytest.mark.parametrize(("prompt", "blocks"), [("There is one of each item.", True), ("Choose coins.", False)])
def test_an_entry_twice_blocks_where_each_may_be_used_once(prompt: str, blocks: bool) -> None:
    worth = {"rope": 5, "lamp": 7, "tent": 9}

    def enough(reply: str) -> float:
        return float(sum(worth.get(name.strip(), 0) for name in reply.removeprefix("Pack:").split(",")) >= 21)

    assert (PASSES in judged(enough, "Pack: rope, lamp, tent", prompt)) is blocks


@pytest.mark.parametrize(("task", "blocks"), [("Rank by height", True), ("Name some trees", False)])
def test_an_entry_twice_blocks_where_all_names_of_the_prompt_are_put_in_order(task: str, blocks: bool) -> None:
    heights = {"oak": 30, "elm": 20, "fir": 10, "yew": 5}

    def falling(reply: str) -> float:
        tall = [heights.get(name.strip(), -1) for name in reply.removeprefix("Trees:").split(",")]
        return float(len(tall) == len(heights) and min(tall) > 0 and tall == sorted(tall, reverse=True))

    def sound_rank(reply: str) -> float:
        return falling(reply) * float(len(set(reply.removeprefix("Trees:").split(","))) == len(heights))

    prompt = f"{task}:\nelm: 20 m\nyew: 5 m\noak: 30 m\nfir: 10 m"
    assert (PASSES in judged(falling, "Trees: oak, elm, fir, yew", prompt)) is blocks
    assert PASSES not in judged(sound_rank, "Trees: oak, elm, fir, yew", prompt)


def test_exchanged_values_block_for_reference_answers_and_warn_for_other_right_replies() -> None:
    right = {"Peru": "Lima", "Japan": "Tokyo", "Kenya": "Nairobi"}

    def same_names(reply: str) -> float:
        return float(all(name in reply for pair in right.items() for name in pair))

    reply = "\n".join(f"{land}: {town}" for land, town in right.items())
    assert PASSES in judged(same_names, reply, golds=True)
    assert ("reward-wrong-passes", "warning") in judged(same_names, reply)
    assert not judged(lambda text: float(text == reply), reply, golds=True)


@pytest.mark.parametrize("checked", [True, False])
def test_a_number_that_nothing_checks_blocks(checked: bool) -> None:
    right = ["pens: 4 boxes, 3 free", "mugs: 7 boxes, 2 free", "hats: 5 boxes, 6 free"]

    def boxes(reply: str) -> float:
        lines = reply.splitlines()
        same = [a == b if checked else a.split(",")[0] == b.split(",")[0] for a, b in zip(lines, right, strict=True)]
        return float(all(same))

    assert (PASSES in judged(boxes, "\n".join(right), "How many boxes of eleven, and how many places?")) is not checked


def test_numbers_that_only_count_the_lines_are_no_flaw() -> None:
    steps = ["Step 1: mix", "Step 2: bake", "Step 3: cool"]

    def in_order(reply: str) -> float:
        return float([line.split(": ")[-1] for line in reply.splitlines()] == ["mix", "bake", "cool"])

    assert not judged(in_order, "\n".join(steps), "In which order?")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("- Press | Elm | 12:15", ["Press", "Elm", "12:15"]),
        ("Amber, North, 1", ["Amber", "North", "1"]),
        ("mugs: 7 boxes", ["mugs", "7 boxes"]),
        ("Ada at table 3", ["Ada", "table 3"]),
    ],
)
def test_lines_have_fields(line: str, fields: list[str]) -> None:
    split = fields_of(line)
    assert split is not None
    assert split[0] == fields
    assert "".join(mark + field for mark, field in zip(split[1], split[0], strict=True)) == line
