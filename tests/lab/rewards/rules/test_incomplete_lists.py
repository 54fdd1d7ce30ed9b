"""Right replies of the caller that lose an entry, or whose values cannot be read, must earn less."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from prime_lab_mcp.lab.rewards.listed_entries import ALL_ASKED, CHAIN, SOME_ASKED, entry_probes
from prime_lab_mcp.lab.rewards.observations import Expected, ScoredCase, ScoredProbe
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import Row
from tests.lab.rewards.rules.trials import found, scored, scored_probe, sound

PASSES = "reward-wrong-passes"


def judged(*probes: ScoredProbe) -> set[tuple[str, str]]:
    right = [ScoredCase(scored_probe(Family.SUPPLIED, "right", 1.0, row=n), "high") for n in range(5)]
    wrong = [ScoredCase(scored_probe(Family.SUPPLIED, "wrong", 0.0, row=n), "low") for n in range(5)]
    return found(sound(*probes, style=None, supplied=(*right, *wrong)))


def shorter(variant: str, *rewards: tuple[float, ...]) -> list[ScoredProbe]:
    return [
        scored_probe(Family.ENTRY_LEFT_OUT, variant, reward, row=row)
        for row, of_row in enumerate(rewards)
        for reward in of_row
    ]


@pytest.mark.parametrize(("variant", "severity"), [(ALL_ASKED, "blocker"), (SOME_ASKED, "warning")])
def test_a_list_that_may_be_shorter_blocks_where_the_prompt_asks_for_every_entry(variant: str, severity: str) -> None:
    assert (PASSES, severity) in judged(*shorter(variant, *[(1.0, 1.0, 1.0)] * 4))


@pytest.mark.parametrize(
    "rewards",
    [
        pytest.param([(1.0, 0.5, 0.5)] * 5, id="one superfluous entry in each task"),
        pytest.param([(1.0, 1.0, 1.0)] * 2 + [(0.0, 0.0, 0.0)] * 3, id="few tasks"),
        pytest.param([(0.9, 0.9, 0.9)] * 5, id="a part is paid less"),
    ],
)
def test_a_list_of_which_every_entry_counts_is_sound(rewards: list[tuple[float, ...]]) -> None:
    assert PASSES not in {code for code, _ in judged(*shorter(ALL_ASKED, *rewards))}


@pytest.mark.parametrize(
    ("prompt", "asked"),
    [
        ("Liste alle Positionen in der Reihenfolge der Rechnung auf.", True),
        ("Indiquez toutes les dates du texte.", True),
        ("Extrae todas las fechas del texto.", True),
        ("Elenca tutte le voci.", True),
        ("Alle Preise sind in Euro.", False),
        ("Nenne alle Farben, die du siehst, mindestens eine.", False),
    ],
)
def test_every_entry_is_asked_for_in_other_languages_too(prompt: str, asked: bool) -> None:
    """An invoice in German of which one position was paid like all of them passed."""
    reply = json.dumps({"nr": "7", "posten": [{"name": f"n{n}", "menge": n} for n in range(4)]})
    probe = Draft(Family.SUPPLIED, reply, "right").probe("0/right", 0)
    row = Row(0, "k", ({"role": "user", "content": prompt},), None, None, {})
    families = {(p.family, p.variant) for p in entry_probes([(probe, "high")], [row])}
    assert ((Family.ENTRIES_CUT, "all entries but the first") in families) is asked


def test_unreadable_numbers_that_are_paid_block_and_other_values_warn() -> None:
    def unreadable(variant: str, paid: int) -> list[ScoredProbe]:
        return [scored_probe(Family.VALUES_UNREADABLE, variant, float(n < paid), row=n) for n in range(4)]

    assert (PASSES, "blocker") in judged(*unreadable("numbers: ?", 4))
    assert (PASSES, "warning") in judged(*unreadable("values: ?", 4))
    assert PASSES not in {code for code, _ in judged(*unreadable("numbers: ?", 2))}


@pytest.mark.parametrize(
    ("family", "variant"),
    [(Family.CONSTANT_VALUES, "0"), (Family.ENTRY_CHANGED, "last"), (Family.ENTRIES_CUT, "all entries but the first")],
)
def test_replies_that_are_wrong_for_certain_block_where_nearly_all_tasks_pay_them(family: Family, variant: str) -> None:
    def judged_with(*rewards: float) -> set[tuple[str, str]]:
        return judged(*(scored_probe(family, variant, reward, row=row) for row, reward in enumerate(rewards)))

    assert (PASSES, "blocker") in judged_with(1.0, 1.0, 1.0, 1.0)
    assert PASSES not in {code for code, _ in judged_with(1.0, 1.0, 0.0, 0.0)}
    assert PASSES not in {code for code, _ in judged_with(0.5, 0.5, 0.5, 0.5)}


def test_a_path_whose_steps_may_be_left_out_blocks() -> None:
    assert (PASSES, "blocker") in judged(*shorter(CHAIN, *[(1.0, 1.0)] * 4))


LEGS = {"harbour": 12, "mill": 30, "quarry": 21, "chapel": 44, "depot": 9}


def tour(reply: str, *, complete: bool, strict: bool) -> float:
    """The share of the legs of a tour whose minutes are right. The flaws pass over absent or unreadable ones."""
    try:
        legs = dict(json.loads(reply))
    except ValueError:
        return 0.0
    wrong = sum(leg not in legs for leg in LEGS) if complete else 0
    for leg, minutes in legs.items():
        try:
            wrong += float(minutes) != LEGS.get(leg)
        except ValueError:
            wrong += strict
    return max(0.0, 1 - wrong / len(LEGS)) if legs else 0.0


def verdict(reward: Callable[[str], float], prompt: str) -> set[tuple[str, str]]:
    """What the rules find in a reward for which the caller supplied right and wrong replies to four tasks."""
    rows = [Row(n, str(n), ({"role": "user", "content": prompt},), None, None, {}) for n in range(4)]
    right, wrong = json.dumps(LEGS), json.dumps(dict.fromkeys(LEGS, 99))
    expected: list[tuple[str, Expected]] = [(right, "high"), (wrong, "low")]
    placed: list[tuple[Probe, Expected]] = [
        (Draft(Family.SUPPLIED, text, "case").probe(f"{row.index}/{high}", row.index), high)
        for row in rows
        for text, high in expected
    ]
    supplied = tuple(ScoredCase(ScoredProbe(p, scored(reward(p.completion))), high) for p, high in placed)
    probes = [ScoredProbe(p, scored(reward(p.completion))) for p in entry_probes(placed, rows)]
    return found(sound(*probes, style=None, supplied=supplied))


@pytest.mark.parametrize(
    ("complete", "strict", "blocked"), [(True, True, False), (False, True, True), (True, False, True)]
)
def test_a_reward_that_passes_over_absent_or_unreadable_values_is_told_from_one_that_does_not(
    complete: bool, strict: bool, blocked: bool
) -> None:
    findings = verdict(lambda reply: tour(reply, complete=complete, strict=strict), "Give the minutes of all legs.")
    assert ((PASSES, "blocker") in findings) is blocked


def test_a_gold_that_is_paid_is_a_right_reply_too() -> None:
    assert (PASSES, "blocker") in found(sound(*shorter(ALL_ASKED, *[(1.0, 1.0)] * 4)))
    assert PASSES not in {code for code, _ in found(sound(*shorter(ALL_ASKED, *[(0.5, 0.5)] * 4)))}
