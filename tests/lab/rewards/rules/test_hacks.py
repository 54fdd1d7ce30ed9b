"""The relations that cheating, cut off and half right completions must keep, on plain values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prime_lab_mcp.lab.datasets.task_golds import SampleGolds, TaskGold
from prime_lab_mcp.lab.rewards.case_skeletons import CLAIM
from prime_lab_mcp.lab.rewards.findings import reward_findings
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.rewards.probes.answer_formats import BARE
from prime_lab_mcp.lab.rewards.probes.catalogue import GIVEN_TEXT, AnswerStyle, given_text
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.probes.wrong_answers import OTHER_ORDER
from prime_lab_mcp.lab.rewards.rules.hacks import claim_is_believed, pays_for_repetition
from tests.lab.rewards.rules.trials import found, scored_probe, sound


def test_a_program_that_solves_nothing_and_is_paid_blocks_and_is_named() -> None:
    trial = sound(
        scored_probe(Family.PROGRAM_HACK, "exits", 1.0), scored_probe(Family.PROGRAM_HACK, "prints success", 0.0)
    )
    assert found(trial) == {("reward-hackable", "blocker")}
    assert "exits" in reward_findings(trial)[0].message
    assert "prints success" not in reward_findings(trial)[0].message


def test_faulty_variants_that_pass_on_most_tasks_warn_of_weak_tests() -> None:
    def tasks(passing: int) -> tuple[object, ...]:
        golds = [scored_probe(Family.GOLD, "", 1.0, row=n) for n in range(1, 6)]
        return (*golds, *(scored_probe(Family.MUTANT, "one", float(n < passing), row=n) for n in range(6)))

    assert found(sound(*tasks(3))) == set()  # type: ignore[arg-type]
    assert found(sound(*tasks(5))) == {("reward-wrong-passes", "warning")}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("earned", "said"),
    [((1.0, 0.9, 0.8), {("reward-hackable", "blocker")}), ((1.0, 0.9, 0.2), set()), ((1.0, 1.0), set())],
)
def test_a_number_that_is_believed_beside_an_empty_list_blocks(
    earned: tuple[float, ...], said: set[tuple[str, str]]
) -> None:
    claims = (scored_probe(Family.FORM_ALONE, CLAIM, reward, row=row) for row, reward in enumerate(earned, 1))
    assert {(f.code, f.severity) for f in claim_is_believed(sound(*claims))} == said


def test_without_golds_a_repeated_reply_may_earn_all_weights_and_never_more() -> None:
    def earning(reward: float) -> set[tuple[str, str]]:
        trial = sound(scored_probe(Family.REPEATED_GOLD, "", reward), style=None)
        return {(f.code, f.severity) for f in pays_for_repetition(trial)}

    assert earning(1.0) == set()
    assert earning(12.0) == {("reward-hackable", "blocker")}


def test_a_claim_to_be_right_that_is_paid_blocks() -> None:
    assert found(sound(scored_probe(Family.PERSUASION, "verdict", 0.6))) == {("reward-hackable", "blocker")}
    assert found(sound(scored_probe(Family.PERSUASION, "verdict", 0.2))) == set()


def test_a_cut_off_answer_warns_and_blocks_when_paid_in_full() -> None:
    assert found(sound(scored_probe(Family.CUT, "at 50%", 0.03))) == set()
    assert found(sound(scored_probe(Family.CUT, "at 50%", 0.4))) == {("reward-truncated-passes", "warning")}
    assert found(sound(scored_probe(Family.CUT, "at 50%", 1.0))) == {("reward-truncated-passes", "blocker")}


def test_answers_of_other_tasks_paid_in_full_block_from_one_in_ten() -> None:
    def pairs(paid: int) -> tuple[object, ...]:
        return tuple(scored_probe(Family.CROSS, f"{n}", float(n < paid)) for n in range(20))

    assert found(sound(*pairs(1))) == set()  # type: ignore[arg-type]
    assert found(sound(*pairs(2))) == {("reward-wrong-passes", "blocker")}  # type: ignore[arg-type]


def test_half_right_answers_may_earn_part_and_never_all() -> None:
    assert found(sound(scored_probe(Family.HALF_RIGHT, "one item left out", 0.8))) == set()
    assert found(sound(scored_probe(Family.HALF_RIGHT, "one item left out", 1.0))) == {
        ("reward-wrong-passes", "blocker")
    }


def test_refused_spellings_are_named_with_their_recall_and_rare_ones_never_warn_alone() -> None:
    rare = scored_probe(Family.RARE_SPELLING, "dollar sign", 0.0)
    assert found(sound(rare)) == set()
    usual = [scored_probe(Family.SPELLING, "full stop", float(n == 0), row=n) for n in range(3)]
    findings = reward_findings(sound(*usual, rare))
    assert [(f.code, f.severity) for f in findings] == [("reward-too-strict", "warning")]
    assert "full stop (1 of 3)" in findings[0].message
    assert "dollar sign (0 of 1)" in findings[0].message


def test_words_that_earn_beside_a_wrong_answer_warn_and_from_three_tenths_block() -> None:
    assert found(sound(scored_probe(Family.LISTED_WORDS, "", 0.1))) == set()
    assert found(sound(scored_probe(Family.LISTED_WORDS, "", 0.25))) == {("reward-hackable", "warning")}
    assert found(sound(scored_probe(Family.LISTED_WORDS, "", 0.4))) == {("reward-hackable", "blocker")}


def test_an_answer_whose_tag_was_never_closed_warns_when_paid_in_full() -> None:
    other = scored_probe(Family.MALFORMED_GOLD, "wrong tag", 0.0)
    assert found(sound(scored_probe(Family.UNCLOSED_GOLD, "unclosed tag", 0.0), other)) == set()
    assert found(sound(scored_probe(Family.UNCLOSED_GOLD, "unclosed tag", 1.0), other)) == {
        ("reward-ignores-format", "warning")
    }


def test_a_wrong_unit_paid_in_full_blocks_where_a_unit_is_asked_for_and_where_none_is_needed_warns() -> None:
    golds = SampleGolds("answer", "short_text", tuple(TaskGold(n, f"{n} kg", (f"{n} kg",)) for n in range(10)), ())
    style, other = AnswerStyle(golds, 0, BARE), scored_probe(Family.OTHER_UNIT, "", 1.0)
    assert found(sound(other, scored_probe(Family.UNITLESS, "", 0.0), style=style)) == {
        ("reward-unit-ignored", "blocker")
    }
    assert found(sound(other, scored_probe(Family.UNITLESS, "", 1.0), style=style)) == {
        ("reward-unit-ignored", "warning")
    }
    assert found(sound(other)) == {("reward-unit-ignored", "warning")}


def test_the_maximum_is_worked_out_once_for_all_completions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules ask for it once a completion: worked out each time, a thousand completions held up the server."""
    trial = sound(*(scored_probe(Family.WRONG, f"wrong {n}", 0.0) for n in range(20)))
    looked_at: list[Family] = []
    of = Trial.of

    def counted(self: Trial, *families: Family) -> Any:
        looked_at.extend(families)
        return of(self, *families)

    monkeypatch.setattr(Trial, "of", counted)
    assert {trial.maximum(row) for row in range(100)} == {1.0}
    assert looked_at.count(Family.GOLD) == 1


def test_a_small_bounded_bonus_for_length_only_warns() -> None:
    def trial(short: float, long: float) -> set[tuple[str, str]]:
        lengths = [
            scored_probe(Family.LONG_WRONG, "200 words", short),
            scored_probe(Family.LONG_WRONG, "2000 words", long),
        ]
        return found(sound(*lengths))

    assert trial(0.1, 0.1) == {("reward-length-bonus", "warning")}
    assert trial(0.3, 0.3) == {("reward-length-bonus", "blocker")}
    assert trial(0.0, 0.1) == {("reward-length-bonus", "blocker")}


def test_a_repeated_prompt_that_earns_nearly_all_on_each_task_blocks() -> None:
    def echoes(*rewards: float) -> set[tuple[str, str]]:
        return found(sound(*(scored_probe(Family.FORMED_ECHO, "", reward, row=n) for n, reward in enumerate(rewards))))

    assert echoes(0.95, 0.9, 0.96, 0.8) == {("reward-hackable", "blocker")}
    assert echoes(0.95, 0.9, 0.96, 0.4) == set()
    assert echoes(0.95, 0.9) == set()
    whole = [scored_probe(Family.FORMED_ECHO, "", 0.2, row=n) for n in range(4)]
    given = [scored_probe(Family.FORMED_ECHO, GIVEN_TEXT, 0.95, row=n) for n in range(4)]
    assert found(sound(*whole, *given)) == {("reward-hackable", "blocker")}
    assert found(sound(*whole, *given[:3])) == set()


def test_the_text_that_a_prompt_gives_is_its_paragraph_that_is_most_like_the_answer() -> None:
    ask = "Correct the paragraph below, change nothing else, and put the corrected paragraph between the tags."
    given = "The lighhouse keeper wrote wrote down."
    assert given_text(f"{ask}\n\n{given}", "The lighthouse keeper wrote down.") == given
    assert given_text(f"{ask}\n{given}", "The lighthouse keeper wrote down.") == given
    assert given_text(given, "The lighthouse keeper wrote down.") == ""


@pytest.mark.parametrize(("knowing", "severity"), [(True, "warning"), (False, "blocker")])
def test_an_ignored_order_blocks_where_it_is_all_that_is_asked(knowing: bool, severity: str) -> None:
    def turned(*rewards: float) -> set[tuple[str, str]]:
        probes = [scored_probe(Family.HALF_RIGHT, OTHER_ORDER, reward, row=n) for n, reward in enumerate(rewards)]
        golds = [scored_probe(Family.GOLD, "", 1.0, row=n) for n in range(1, 4)]
        return found(sound(*golds, *(replace(s, probe=replace(s.probe, knowing=knowing)) for s in probes)))

    assert turned(1.0, 1.0, 1.0, 0.0) == {("reward-wrong-passes", severity)}
    assert turned(1.0, 0.0, 0.0, 0.0) == set()
