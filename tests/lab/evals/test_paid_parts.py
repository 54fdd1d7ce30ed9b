"""What every paid reply has and replies without reward lack: marks, and traits of the last line."""

from __future__ import annotations

import time

import pytest

from prime_lab_mcp.lab.evals.zeros.paid_parts import LackedParts, PaidParts, parts_of

DOSES = ["I multiply.\nDose: 56.25 mg", "Dose: 264 ml", "Dose: 9 drops"]


def lacking(paid: list[str], *replies: str) -> str:
    lacked = LackedParts(PaidParts.of(paid))
    for reply in replies:
        lacked.add(reply)
    return lacked.summary().partition(" (a paid text ends with ")[0]


@pytest.mark.parametrize(
    ("paid", "reply", "lacks"),
    [
        (DOSES, "I multiply.\nDose: 56.25", "a unit or word after the number that ends the last line"),
        (DOSES, "It is 56.25 mg", '"Dose:" at the beginning of the last line'),
        (DOSES, "Dose: 56.25 mg\nI hope this helps", '"Dose:" at the beginning of the last line, a number in the last'),
        (["<answer>4</answer>", "<answer>5</answer>"], "<answer>4", "<answer>\N{HORIZONTAL ELLIPSIS}</answer>"),
        (["<answer>4</answer>"], "4", "<answer>\N{HORIZONTAL ELLIPSIS}</answer>"),
        (["So \\boxed{4}"], "4", "\\boxed{}"),
        (["#### 4"], "4", "a line that begins with ####"),
        (['{"total": 4}', '{"total": 5}'], "4", 'a JSON object with "total"'),
        (["```python\n4\n```"], "4", "a code fence"),
    ],
    ids=["unit", "lead", "last line", "unclosed tag", "one tag", "box", "hashes", "key", "fence"],
)
def test_the_part_that_a_reply_lacks_is_named(paid: list[str], reply: str, lacks: str) -> None:
    assert lacking(paid, reply).startswith(lacks)


@pytest.mark.parametrize(
    ("paid", "reply"),
    [
        (DOSES, "Dose: 1 mg"),
        (["5 apples"], "5"),
        (["<answer>4</answer>", "4"], "7"),
        (["<think>so</think>4"], "4"),
        ([], "4"),
    ],
    ids=["all there", "one text has no trait", "paid without", "thoughts are cut out", "nothing paid"],
)
def test_no_part_is_named_that_paid_replies_do_not_share(paid: list[str], reply: str) -> None:
    assert lacking(paid, reply) == ""


def test_a_part_is_named_only_where_nearly_all_replies_lack_it_and_no_paid_rollout_does() -> None:
    assert lacking(DOSES, *["Dose: 4"] * 9, "Dose: 4 mg").startswith("a unit")
    assert lacking(DOSES, *["Dose: 4"] * 8, *["Dose: 4 mg"] * 2) == ""
    assert PaidParts.of(DOSES).also_of(["Dose: 4"]).lacking("Dose: 5") == frozenset()


def test_records_of_older_versions_and_of_other_kinds_have_no_parts() -> None:
    for rows in (None, "x", [{"reply": 3}], [4]):
        assert not PaidParts.recorded({"paid_replies": rows}).parts
    assert PaidParts.recorded({"paid_replies": [{"reply": "<b>1</b>"}]}).parts


def test_long_replies_of_one_mark_are_read_at_once() -> None:
    """A model that goes round in circles writes such replies, hundreds in one evaluation."""
    begun = time.process_time()
    for mark in ("<a>", '{"a":', "\n", " ", "1_"):
        for _ in range(10):
            assert not {part.kind for part in parts_of(mark * 100_000)} - {"number"}
    assert time.process_time() - begun < 4.0
