"""The example ticket_routing: balance over the teams and names that begin alike; without verifiers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.environments.pure_modules import pure_modules

teams, tickets = pure_modules("ticket_routing", "teams", "tickets")
TRAIN = list(tickets.tickets("train"))


def test_the_tickets_are_lopsided_and_balancing_them_makes_the_teams_equal() -> None:
    before, after = Counter(t.team for t in TRAIN), Counter(t.team for t in tickets.balanced(TRAIN, 0))
    assert max(before.values()) > 2 * min(before.values())
    assert set(after) == set(teams.TEAMS)
    assert set(after.values()) == {min(before.values())}
    assert after.total() >= 100


def test_every_stretch_of_the_balanced_tickets_has_each_team_once() -> None:
    found = [t.team for t in tickets.balanced(TRAIN, 0)]
    number = len(teams.TEAMS)
    assert all(len(set(found[start : start + number])) == number for start in range(0, len(found), number))


def test_another_seed_takes_other_tickets_of_the_larger_teams() -> None:
    assert set(tickets.balanced(TRAIN, 0)) != set(tickets.balanced(TRAIN, 1))


@pytest.mark.parametrize("said", ["billing_disputes", "Billing disputes", "BILLING-DISPUTES.", "`billing_disputes`"])
def test_a_team_is_known_however_its_words_are_joined(said: str) -> None:
    assert teams.given(f"<answer>{said}</answer>") == "billing_disputes"


@pytest.mark.parametrize(
    "said", ["billing disputes team", "not billing", "billing_dispute", "billing, login", "bill", ""]
)
def test_a_text_that_holds_a_name_is_no_team(said: str) -> None:
    assert teams.given(f"<answer>{said}</answer>") is None


def test_the_prompt_describes_every_team() -> None:
    assert all(f"- {team}: {task}" in teams.FORMAT for team, task in teams.TEAMS.items())


def test_the_held_out_tickets_are_of_other_situations() -> None:
    assert not {t.subject for t in TRAIN} & {t.subject for t in tickets.tickets("test")}
