"""Lists with a certain fault: refused ones in other orders, a pair with one value, and invented words."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import cast

import anyio
import pytest

from prime_lab_mcp.lab.rewards.faulty_lists import score_faulty, stated_pairs
from prime_lab_mcp.lab.rewards.list_relations import right_lists, score_relations
from prime_lab_mcp.lab.rewards.observations import Expected, ScoredCase
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import found, scored_probe, sound
from tests.lab.rewards.test_list_relations import PASSES, Reward, Rewarded


def judged(reward: Reward, right: str, wrong: str, prompt: str) -> set[tuple[str, str]]:
    rows = [Row(n, str(n), ({"role": "user", "content": prompt},), None, None, {}) for n in range(6)]
    placed: list[tuple[Probe, Expected]] = [(Draft(Family.SUPPLIED, right).probe(f"r{n}", n), "high") for n in range(4)]
    placed += [(Draft(Family.SUPPLIED, wrong).probe(f"w{n}", n), "low") for n in range(2, 6)]
    scorer = cast("Scorer", Rewarded(reward))
    lists = right_lists(dict.fromkeys(range(4), right), set(), rows)

    async def scored_lists() -> Sequence[object]:
        related = await score_relations(scorer, lists)
        return (*related, *await score_faulty(scorer, lists, placed, rows, related))

    probes = anyio.run(scored_lists)
    cases = [ScoredCase(scored_probe(Family.SUPPLIED, "right", 1.0, row=n), "high") for n in range(4)]
    cases += [ScoredCase(scored_probe(Family.SUPPLIED, "wrong", 0.0, row=n), "low") for n in range(2, 6)]
    return found(sound(*probes, style=None, supplied=tuple(cases)))  # type: ignore[arg-type]


WINDOWS = {"Vega": (20, 24), "Mira": (20, 26), "Algol": (21, 28), "Deneb": (20, 29)}
"""Hours between which each star is up; an exposure takes two."""
NIGHT = (
    "Plan Vega, Mira, Algol and Deneb, one line for each: the star and its hour. One exposure of two hours at a time."
)


def night(every_pair: bool) -> Reward:
    def reward(reply: str) -> float:
        plan = [(name, int(hour)) for name, hour in re.findall(r"(?m)^(\w+) (\d+)$", reply)]
        if sorted(name for name, _ in plan) != sorted(WINDOWS):
            return 0.0
        if any(not WINDOWS[name][0] <= hour <= WINDOWS[name][1] - 2 for name, hour in plan):
            return 0.0
        pairs = combinations(plan, 2) if every_pair else pairwise(plan)
        return float(all(abs(a - b) >= 2 for (_, a), (_, b) in pairs))

    return reward


@pytest.mark.parametrize("wrong", ["Vega 20\nMira 22\nAlgol 24\nDeneb 25", "I have no plan."])
@pytest.mark.parametrize("every_pair", [True, False])
def test_a_refused_list_that_another_order_makes_right_blocks(wrong: str, every_pair: bool) -> None:
    right = "Vega 20\nMira 22\nAlgol 24\nDeneb 26"
    assert (PASSES in judged(night(every_pair), right, wrong, NIGHT)) is not every_pair


MAP = "Borders: Ulm-Aar, Ulm-Bex, Gil-Aar, Bex-Gil. Colour Ulm, Gil, Aar and Bex so that neighbours differ."


def colours(pairs: Sequence[tuple[str, str]]) -> Reward:
    def reward(reply: str) -> float:
        given = dict(re.findall(r"(?m)^(\w+) = (red|green|blue)$", reply))
        return float(len(given) == 4 and all(given[a] != given[b] for a, b in pairs))

    return reward


@pytest.mark.parametrize(("rule", "blocks"), [("differ", True), ("are merry", False)])
def test_a_stated_pair_with_one_value_blocks_where_pairs_must_differ(rule: str, blocks: bool) -> None:
    right, wrong = "Ulm = red\nGil = red\nAar = blue\nBex = green", "Ulm = red"
    every = [("Ulm", "Aar"), ("Ulm", "Bex"), ("Gil", "Aar"), ("Bex", "Gil")]
    prompt = MAP.replace("differ", rule)
    assert (PASSES in judged(colours(every[2:]), right, wrong, prompt)) is blocks
    assert PASSES not in judged(colours(every), right, wrong, prompt)


def test_pairs_are_read_with_their_marks() -> None:
    names = ["Ulm", "Aar", "Gil"]
    assert stated_pairs("Ulm-Aar, Gil and Ulm; Aar conflicts with Gil, Ulm, Gil", names) == [
        ("Ulm", "Aar"),
        ("Aar", "Gil"),
    ]


WORDS = {"cat", "hat", "hit", "him", "dim"}


@pytest.mark.parametrize(
    ("known", "asked", "blocks"),
    [(False, "an English word", True), (True, "an English word", False), (False, "a code", False)],
)
def test_an_invented_step_blocks_where_words_are_asked_for(known: bool, asked: str, blocks: bool) -> None:
    def ladder(reply: str) -> float:
        steps = reply.split(" > ")
        ends = len(steps) > 1 and (steps[0], steps[-1]) == ("cat", "dim")
        one = all(sum(x != y for x, y in zip(a, b, strict=False)) == 1 for a, b in pairwise(steps))
        return float(ends and one and (not known or set(steps) <= WORDS))

    prompt = f"From cat to dim; each step is {asked} that differs in one letter."
    assert (PASSES in judged(ladder, "cat > hat > hit > him > dim", "cat > dim", prompt)) is blocks


@pytest.mark.parametrize("last_counts", [True, False])
def test_every_value_for_every_name_blocks_where_one_of_them_is_enough(last_counts: bool) -> None:
    right = {"1": "food", "2": "price", "3": "food"}

    def coded(reply: str) -> float:
        given = re.findall(r"(?m)^(\d): (\w+)$", reply)
        return float(dict(given) == right if last_counts else all(pair in given for pair in right.items()))

    reply = "\n".join(f"{number}: {code}" for number, code in right.items())
    prompt = "Code each of three comments with food or price, one line each."
    assert (PASSES in judged(coded, reply, "1: food", prompt)) is not last_counts
