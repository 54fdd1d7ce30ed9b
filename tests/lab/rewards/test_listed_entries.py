"""Right replies without one entry of their list, and with values that cannot be read."""

from __future__ import annotations

import json

import pytest

from prime_lab_mcp.lab.rewards.listed_entries import (
    ALL_ALIKE,
    ALL_ASKED,
    CHAIN,
    SEQUENCE,
    SOME_ASKED,
    changed_probes,
    entry_probes,
)
from prime_lab_mcp.lab.rewards.observations import Expected
from prime_lab_mcp.lab.rewards.probes.catalogue import Draft, Probe
from prime_lab_mcp.lab.rewards.probes.families import Family
from prime_lab_mcp.lab.rewards.reply_lists import listed_in
from prime_lab_mcp.lab.worker.description import Row

PLAN = 'So:\n```json\n{"mix": 0, "bake": 20, "cool": 55}\n```'
TABLE = "```csv\nname,grams\nrice,185\noats,90\nsalt,6\n```"


def placed(text: str, expected: Expected = "high") -> list[tuple[Probe, Expected]]:
    return [(Draft(Family.SUPPLIED, text, "case").probe("case", 0), expected)]


def made(text: str, prompt: str, family: Family) -> list[tuple[str, str]]:
    row = Row(0, "0", ({"role": "user", "content": prompt},), None, None, {})
    return [(p.variant, p.completion) for p in entry_probes(placed(text), [row]) if p.family is family]


@pytest.mark.parametrize(
    ("reply", "entries"),
    [
        (PLAN, ("mix", "bake", "cool")),
        ('["Ada", "Ben", "Cy"]', ("Ada", "Ben", "Cy")),
        ('{"plan": ["lift", "turn", "drop"], "cost": 3}', ("lift", "turn", "drop")),
        (TABLE, ("rice,185", "oats,90", "salt,6")),
        ("| a | b |\n|---|---|\n| x | 1 |\n| y | 2 |\n| z | 3 |", ("| x | 1 |", "| y | 2 |", "| z | 3 |")),
        ("First some words about it.\n- lift\n- turn\n- drop\nDone", ("lift", "turn", "drop")),
        ("<plan>\nlift a\nturn b\ndrop c\n</plan>", ("lift a", "turn b", "drop c")),
        ("Order: D, F, A", ("D", "F", "A")),
    ],
)
def test_the_list_of_a_reply_is_found(reply: str, entries: tuple[str, ...]) -> None:
    listed = listed_in(reply)
    assert listed is not None
    assert listed.shown == entries
    assert json.loads(PLAN[12:-4]) == json.loads(listed.text(listed.entries)[12:-4]) if reply == PLAN else True


@pytest.mark.parametrize(
    "reply",
    [
        "```python\na = 1\nb = 2\nc = 3\n```",
        '{"vendor": "Harlow", "total": 12.5, "paid": true}',
        "The train leaves at nine.",
        "cron: 40 2,19 * * TUE,WED,FRI",
    ],
)
def test_programs_records_and_sentences_are_no_lists(reply: str) -> None:
    assert listed_in(reply) is None


def test_each_entry_is_left_out_once() -> None:
    prompt = "All steps have to be done."
    assert made(TABLE, prompt, Family.ENTRY_LEFT_OUT) == [
        (ALL_ASKED, TABLE.replace(f"{line}\n", "")) for line in ("rice,185", "oats,90", "salt,6")
    ]


@pytest.mark.parametrize(
    ("prompt", "variant"),
    [
        ("Plan the morning. Every step has to be done.", ALL_ASKED),
        ("Give a start for:\n\n- mix: 20 minutes\n- bake: 35 minutes, waits for mix\n- cool: 5 minutes", ALL_ASKED),
        ("Pick steps:\n\n- mix\n- bake\n- cool\n- wash", SOME_ASKED),
        ("Write each chosen step in lower case.", SOME_ASKED),
    ],
)
def test_a_prompt_asks_for_every_entry_in_words_or_by_a_list_of_them(prompt: str, variant: str) -> None:
    assert {v for v, _ in made(PLAN, prompt, Family.ENTRY_LEFT_OUT)} == {variant}


def test_nothing_is_left_out_where_a_prompt_leaves_the_number_open() -> None:
    assert not made(PLAN, "Give at least two steps.", Family.ENTRY_LEFT_OUT)


def test_numbers_that_the_prompt_does_not_state_are_made_unreadable() -> None:
    assert made(TABLE, "Convert the recipe.", Family.VALUES_UNREADABLE)[0] == (
        "numbers: n/a",
        "```csv\nname,grams\nrice,n/a\noats,n/a\nsalt,n/a\n```",
    )
    assert {v for v, _ in made(TABLE, "185 rice, 90 oats, 6 salt", Family.VALUES_UNREADABLE)} == {
        "values: n/a",
        "values: ?",
        "values: -",
    }
    assert made('{"Ada": "tea", "Ben": "milk"}', "Who drinks what?", Family.VALUES_UNREADABLE)[1] == (
        "values: ?",
        '{"Ada": "?", "Ben": "?"}',
    )
    assert not made("- lift\n- turn\n- drop", "Plan.", Family.VALUES_UNREADABLE)


def test_a_path_loses_steps_between_its_ends() -> None:
    shorter = made(
        "I tried.\ncold -> cord -> word -> ward", "From cold to ward, one letter at a time.", Family.ENTRY_LEFT_OUT
    )
    assert shorter == [
        (CHAIN, "I tried.\ncold -> word -> ward"),
        (CHAIN, "I tried.\ncold -> cord -> ward"),
    ]


def test_numbers_that_are_alike_in_every_task_replace_the_values_of_keys_that_the_prompt_states() -> None:
    reply = 'Plan: {"B": 2, "A": 1, "C": 1}'
    alike = [text for _, text in made(reply, "Give A, B and C a slot.", Family.CONSTANT_VALUES)]
    assert 'Plan: {"A": 1, "B": 2, "C": 3}' in alike
    assert 'Plan: {"A": 0, "B": 0, "C": 0}' in alike
    assert made(reply, "Give everybody a slot.", Family.CONSTANT_VALUES) == []
    assert made('{"A": 1, "B": 2, "C": 3}', "Give A, B and C a slot.", Family.CONSTANT_VALUES)[0][0] != "1, 2, 3"


def test_one_entry_alone_is_wrong_where_several_are_asked_for() -> None:
    cut = [text for _, text in made(TABLE, "Write one line for every ingredient.", Family.ENTRIES_CUT)]
    assert cut == [TABLE.replace("oats,90\nsalt,6\n", ""), TABLE.replace("rice,185\noats,90\n", "")]
    assert made(TABLE, "Write ingredients.", Family.ENTRIES_CUT) == []
    alike = made("Order: D, F, A", "No letter may occur twice.", Family.ENTRIES_CUT)
    assert alike == [(ALL_ALIKE, "Order: D, D, D")]


def test_a_number_of_one_entry_of_a_gold_is_changed() -> None:
    row = Row(0, "0", ({"role": "user", "content": "Weigh rice, oats and salt."},), None, None, {})
    changed = {p.variant: p.completion for p in changed_probes(placed(TABLE), [row])}
    assert changed["first"] == TABLE.replace("185", "562")
    assert changed["last"] == TABLE.replace("salt,6", "salt,25")
    stated = Row(0, "0", ({"role": "user", "content": "rice 185, oats 90, salt 6"},), None, None, {})
    assert changed_probes(placed(TABLE), [stated]) == []


def test_working_before_an_answer_is_no_list_that_may_be_cut() -> None:
    reply = "- 3 + 4 = 7\n- 7 - 1 = 6\n- 6 / 2 = 3\nAnswer: 3"
    assert made(reply, "Show every step; each must have its own line.", Family.ENTRIES_CUT) == []


@pytest.mark.parametrize(
    ("prompt", "asks"),
    [
        ("Order these events:", True),
        ("Put them in order.", True),
        ("Write them down in the order in which they happened.", True),
        ("List them in alphabetical order.", True),
        ("Give the correct order.", True),
        ("Read the work order and list the codes.", False),
        ("Work order 7001, the north pump:", False),
        ("List the items of the order, in any order.", False),
    ],
)
def test_an_order_of_a_shop_is_no_order_of_a_list(prompt: str, asks: bool) -> None:
    assert (SEQUENCE.search(prompt) is not None) is asks
