"""Verdicts that the prompt of a judge names, and a reward that reads the negative one as the positive one."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.stand_in_judge import MisreadVerdict, verdict_pairs
from tests.lab.rewards.rules.trials import found, scored, sound


@pytest.mark.parametrize(
    ("question", "pair"),
    [
        ("Reply with CORRECT or INCORRECT.", ("CORRECT", "INCORRECT")),
        ("Say 'valid' or 'not valid'.", ("valid", "not valid")),
        ("Answer Yes or No.", ("Yes", "No")),
        ("The verdict is PASS / FAIL.", ("PASS", "FAIL")),
        ("SUPPORTED, UNSUPPORTED or UNKNOWN", ("SUPPORTED", "UNSUPPORTED")),
        ('Return {"equal": true or false}.', ('{"equal": true}', '{"equal": false}')),
    ],
)
def test_opposite_verdicts_are_found_as_the_prompt_spells_them(question: str, pair: tuple[str, str]) -> None:
    assert pair in set(verdict_pairs(question))


def test_a_prompt_without_opposites_names_no_pair() -> None:
    assert not list(verdict_pairs("Give a grade from A to F."))


def misread() -> Trial:
    probe = Draft(Family.WRONG, "a heron").probe("verdict/0", 0)
    return sound(misread=MisreadVerdict("CORRECT", "INCORRECT", ((probe, scored(1.0)),)))


def test_a_negative_verdict_that_is_paid_like_the_positive_one_blocks() -> None:
    assert ("reward-wrong-passes", "blocker") in found(misread())
    assert not found(sound())
