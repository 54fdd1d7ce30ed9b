"""Rules for tasks that hold no gold, on chosen rewards."""

from __future__ import annotations

from prime_lab_mcp.lab.rewards.goldless import IDLE, OTHER_TASK, goldless_probes
from prime_lab_mcp.lab.rewards.observations import (
    HeldOutVerdict,
    Hole,
    ScoredCase,
    ScoredProbe,
    SearchOutcome,
    Trial,
)
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.worker.description import RewardInfo, Row
from tests.lab.rewards.rules.test_rollouts import played
from tests.lab.rewards.rules.trials import REWARDS, STYLE, found, scored_probe

PAID = ("reward-constant", "blocker")
OTHERS = ("reward-wrong-passes", "blocker")


def scored_texts(nothing: float, chatter: float, echo: float, other: float) -> tuple[ScoredProbe, ...]:
    return tuple(
        scored_probe(family, variant, reward, row=row)
        for row in (0, 1)
        for family, variant, reward in (
            (Family.EMPTY, "nothing", nothing),
            (Family.EMPTY, "chatter", chatter),
            (Family.ECHO, "of the prompt", echo),
            (Family.ECHO, OTHER_TASK, other),
        )
    )


def goldless(*scored_probes: ScoredProbe, **fields: object) -> Trial:
    return Trial(scored_probes=scored_probes, **({"rewards": REWARDS, "style": None, "form_requested": False} | fields))  # type: ignore[arg-type]


def test_a_reward_that_pays_everything_whatever_is_said_is_constant() -> None:
    assert PAID in found(goldless(*scored_texts(1, 1, 1, 1)))


def test_a_reward_that_pays_something_less_is_not() -> None:
    assert not {PAID, OTHERS} & found(goldless(*scored_texts(1, 0, 1, 1)[:3]))
    assert not {PAID, OTHERS} & found(goldless(*scored_texts(0.4, 0.4, 0.4, 0.4)))


def test_a_reply_that_says_nothing_earns_at_most_what_a_form_may_earn() -> None:
    silence = "reward-hackable"
    assert (silence, "blocker") in found(goldless(*scored_texts(0.6, 0.6, 0.8, 0.8)))
    assert (silence, "warning") in found(goldless(*scored_texts(0.25, 0.25, 0.8, 0.8)))
    assert silence not in {code for code, _ in found(goldless(*scored_texts(0.1, 0.1, 0.8, 0.8)))}


LISTED = "Replace every name by [NAME] and every number by [PHONE]. Keep all other words."


def test_placeholders_that_all_prompts_list_make_the_same_replies_on_every_task() -> None:
    rows = [
        Row(
            n,
            str(n),
            ({"role": "system", "content": LISTED}, {"role": "user", "content": f"Call {n}."}),
            None,
            None,
            {},
        )
        for n in range(8)
    ]
    probes = [p for p in goldless_probes(rows) if p.family is Family.SHARED_WORDS]
    assert {p.completion for p in probes} == {"[NAME] [PHONE]", "[NAME] [PHONE] [NAME] [PHONE] [NAME] [PHONE]"}
    assert {p.row for p in probes} == set(range(6))
    assert not [p for p in goldless_probes(rows[:4]) if p.family is Family.SHARED_WORDS]


def test_the_same_reply_must_not_earn_all_on_every_task() -> None:
    hacked = ("reward-hackable", "blocker")
    texts = scored_texts(0, 0.2, 0.2, 0.2)
    paid = [scored_probe(Family.SHARED_WORDS, "each placeholder", 1.0, row=row) for row in range(6)]
    assert hacked in found(goldless(*texts, *paid))
    less = [scored_probe(Family.SHARED_WORDS, "each placeholder", 1.0 - row / 10, row=row) for row in range(6)]
    assert hacked not in found(goldless(*texts, *less))
    assert hacked not in found(goldless(*texts, *paid[:4]))


def test_a_range_that_holds_every_number_must_not_earn_half_of_all() -> None:
    asked = "End with a line\nRANGE: <low> to <high>\nin the unit named."
    rows = [
        Row(
            n, str(n), ({"role": "system", "content": asked}, {"role": "user", "content": f"Mass {n}?"}), None, None, {}
        )
        for n in range(6)
    ]
    probes = [p for p in goldless_probes(rows) if p.family is Family.WIDE_RANGE]
    assert "RANGE: 1e-40 to 1e40" in {p.completion for p in probes}
    texts = scored_texts(0, 0, 0, 0)
    for reward, blocked in ((0.84, True), (0.3, False)):
        wide = [scored_probe(Family.WIDE_RANGE, "a range", reward, row=row) for row in range(6)]
        assert (("reward-hackable", "blocker") in found(goldless(*texts, *wide))) is blocked


def test_a_silent_player_may_have_a_share_of_a_game() -> None:
    rollouts = tuple(played("silent", 0.5, row=row) for row in (0, 1))
    assert ("reward-hackable", "warning") in found(goldless(rollouts=rollouts))


def test_a_case_that_earns_less_shows_what_is_looked_for() -> None:
    low = ScoredCase(scored_probe(Family.SUPPLIED, "swears", 0.0), "low")
    assert PAID not in found(goldless(*scored_texts(1, 1, 1, 1), supplied=(low,)))


def test_the_prompt_of_another_task_must_not_be_paid_in_full() -> None:
    assert OTHERS in found(goldless(*scored_texts(0, 0, 1, 1)))
    assert not {PAID, OTHERS} & found(goldless(*scored_texts(0, 0, 1, 0)))


def test_rollouts_count_as_completions_do() -> None:
    rollouts = tuple(played(part, 1.0, row=row) for row in (0, 1) for part in ("silent", "faulty"))
    assert PAID in found(goldless(rollouts=rollouts))
    one_sided = tuple(played(part, 1.0) for part in ("faulty", "echo"))
    assert not {PAID, OTHERS} & found(goldless(rollouts=one_sided))


def test_what_the_environment_records_itself_and_what_a_group_earns_is_left_alone() -> None:
    rollouts = tuple(played(part, 1.0) for part in ("silent", "faulty", "echo"))
    assert PAID not in found(goldless(rollouts=rollouts, rewards=()))
    group = (RewardInfo("best", 1.0, "group", True),)
    assert PAID not in found(goldless(rollouts=rollouts, rewards=group))


def test_the_echo_of_another_task_is_left_out_where_all_prompts_are_equal() -> None:
    rows = [Row(n, str(n), ({"role": "user", "content": "Guess the word."},), None, None, {}) for n in range(6)]
    assert {p.variant for p in goldless_probes(rows)} == {"nothing", "chatter", "of the prompt"}


def test_programs_that_solve_nothing_and_are_paid_block_where_the_source_runs_programs() -> None:
    message = {"role": "user", "content": "Write a Python function `area(side)`."}
    rows = [Row(n, str(n), (message,), None, None, {}) for n in range(4)]
    assert not [p for p in goldless_probes(rows) if p.family is Family.PROGRAM_HACK]
    probes = [p for p in goldless_probes(rows, "subprocess.run([python, path])") if p.family is Family.PROGRAM_HACK]
    assert {p.row for p in probes if p.variant != IDLE} == {0, 1, 2}
    assert {p.row for p in probes if p.variant == IDLE} == {0, 1, 2, 3}
    assert any("def area(" in p.messages[-1]["content"] and "os._exit(0)" in p.messages[-1]["content"] for p in probes)
    paid = [scored_probe(Family.PROGRAM_HACK, "ends its process", 1.0, row=row) for row in (0, 1)]
    texts = scored_texts(0, 0, 0, 0)
    assert ("reward-hackable", "blocker") in found(goldless(*texts, *paid))
    assert ("reward-hackable", "blocker") not in found(goldless(*texts, paid[0]))


def test_a_program_that_does_nothing_may_be_right_on_some_tasks() -> None:
    def idle(*rewards: float) -> tuple[ScoredProbe, ...]:
        return tuple(scored_probe(Family.PROGRAM_HACK, IDLE, reward, row=n) for n, reward in enumerate(rewards))

    texts = scored_texts(0, 0, 0, 0)
    assert ("reward-hackable", "blocker") in found(goldless(*texts, *idle(1, 1, 1, 0)))
    assert ("reward-hackable", "blocker") not in found(goldless(*texts, *idle(1, 1, 0, 0)))


def test_programs_are_tried_where_the_call_is_broken_into_lines() -> None:
    row = Row(0, "0", ({"role": "user", "content": "Write a Python program."},), None, None, {})
    broken = 'await runtime.run(\n    ["python3", "solution.py"], {}\n)'
    assert "```python\npass\n```" in {p.completion for p in goldless_probes([row], broken)}


def duel(silent: float, blind: float, turns: int = 4) -> Trial:
    rollouts = [played("silent", silent, row=row, turns=1) for row in range(6)]
    rollouts += [played("blind", blind, row=row, turns=turns) for row in range(6) for _ in range(4)]
    return goldless(rollouts=tuple(rollouts))


def test_giving_up_must_not_earn_more_than_playing_blindly() -> None:
    given_up = ("reward-malformed-beats-wrong", "blocker")
    assert given_up in found(duel(0.5, 0.1))
    assert given_up not in found(duel(0.5, 0.4))
    assert given_up not in found(duel(0.2, 0.0))
    assert given_up not in found(duel(0.5, 0.0, turns=1))


def searched(**fields: object) -> Trial:
    """A trial whose search has found one text that earns everything, and programs that are paid."""
    paid = scored_probe(Family.SEARCHED, "", 1.0)
    verdict = HeldOutVerdict(24, 24, 1.0, 0.0, 0.0, True)
    outcome = SearchOutcome(holes=(Hole("text", ("seed",), verdict, (paid,), 3),))
    hacks = tuple(scored_probe(Family.PROGRAM_HACK, "exits", 1.0, row=row) for row in (0, 1))
    return goldless(*hacks, searched=outcome, **fields)


def test_what_is_paid_everywhere_blocks_also_where_no_stored_answer_is_paid() -> None:
    unpaid = tuple(scored_probe(Family.GOLD, "", 0.0, row=row) for row in range(10))
    for trial in (searched(), searched(style=STYLE, golds=unpaid)):
        assert {("reward-search-hole", "blocker"), ("reward-hackable", "blocker")} <= found(trial)
