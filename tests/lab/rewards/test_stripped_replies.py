"""Right replies without what is not needed to be paid."""

from __future__ import annotations

import re
from typing import cast

import anyio
import pytest

from prime_lab_mcp.lab.rewards.observations import ScoredCase
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.scorer import Scorer
from prime_lab_mcp.lab.rewards.stripped_replies import repeated_words, score_stripped
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import found, scored_probe, sound
from tests.lab.rewards.test_list_relations import PASSES, Reward, Rewarded

NAMES = ("Ada", "Bob", "Cem", "Dov", "Eli", "Flo", "Gus", "Hal")
MEMO = "On Monday {0} drove the van to the old mill by the river and {0} will bring the papers back on Friday."
KEEP = "Write NAME for the name and keep everything else as it is, between <memo> tags.\n\n"


def judged(reward: Reward, replies: list[str], prompts: list[str]) -> set[tuple[str, str]]:
    rows = [Row(n, str(n), ({"role": "user", "content": p},), None, None, {}) for n, p in enumerate(prompts)]
    right = dict(enumerate(replies))
    probes = anyio.run(score_stripped, cast("Scorer", Rewarded(reward)), right, rows)
    cases = [ScoredCase(scored_probe(Family.SUPPLIED, "right", 1.0, row=n), "high") for n in right]
    wrong = [ScoredCase(scored_probe(Family.SUPPLIED, "wrong", 0.0, row=n), "low") for n in right]
    return found(sound(*probes, style=None, supplied=(*cases, *wrong)))


def memo(whole: bool) -> Reward:
    """Names must be gone and placeholders be there; a careful check compares the whole memo."""

    def reward(reply: str) -> float:
        match = re.search(r"<memo>(.*)</memo>", reply)
        text = match[1].strip() if match else ""
        if whole:
            return float(text == MEMO.format("NAME"))
        return float(text.count("NAME") == 2 and not any(name in text for name in NAMES))

    return reward


@pytest.mark.parametrize("whole", [True, False])
def test_placeholders_alone_block_where_the_text_is_to_be_kept(whole: bool) -> None:
    replies = [f"{'Done. ' * n}<memo>{MEMO.format('NAME')}</memo>" for n in range(4)]
    prompts = [KEEP + MEMO.format(name) for name in NAMES]
    assert (PASSES in judged(memo(whole), replies, prompts)) is not whole


@pytest.mark.parametrize("compared", [True, False])
def test_junk_in_the_place_of_changed_words_blocks(compared: bool) -> None:
    right = MEMO.format("Michael").split()

    def mended(reply: str) -> float:
        words = (re.findall(r"<memo>(.*)</memo>", reply) or [""])[-1].split()
        changed = [n for n, (a, b) in enumerate(zip(words, MEMO.format("Micheal").split(), strict=False)) if a != b]
        whole = len(words) == len(right) and changed == [n for n, word in enumerate(right) if word == "Michael"]
        return float(whole and (words == right or not compared))

    replies = [f"{'Done. ' * n}<memo>{' '.join(right)}</memo>" for n in range(4)]
    prompts = [f"Mend the name and keep everything else.\n\n{MEMO.format('Micheal')}" for _ in range(4)]
    assert (PASSES in judged(mended, replies, prompts)) is not compared


def test_a_few_words_that_are_paid_on_every_task_block() -> None:
    animals = ("fox", "owl", "elk", "cod")
    text = "the {0} lives where it finds food and shelter, and each {0} knows the tracks of others well"
    replies = [f"Here: {text.format(animal)}" for animal in animals]
    prompts = [f"Tell me of animal {n}." for n in range(8)]
    assert PASSES in judged(lambda reply: float(len(reply.split()) > 1), replies, prompts)

    def named(reply: str) -> float:
        return float(any(f"the {animal} lives" in reply for animal in animals) and "tracks of others" in reply)

    assert PASSES not in judged(named, replies, prompts)


def test_words_of_the_prompt_count_in_runs() -> None:
    words = ["we", "saw", "the", "old", "mill", "and", "a", "boat"]
    assert repeated_words(words, "Yesterday we saw the new mill and a house") == [0, 1, 2, 4, 5, 6]
