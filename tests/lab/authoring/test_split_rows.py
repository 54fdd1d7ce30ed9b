"""The split that `create_environment` draws itself."""

from __future__ import annotations

import itertools
import random
import re
from typing import Any

from prime_lab_mcp.lab.authoring.rows import split_rows
from prime_lab_mcp.lab.datasets.findings import row_findings
from tests.lab.datasets.generators import plain

ASKED = {
    "billing": ("I was charged twice for {}", "My invoice for {} shows the wrong amount", "Refund what you took in {}"),
    "account": ("How do I delete my account before {}", "My profile was locked in {}, please unlock it"),
    "shipping": ("My parcel has not arrived since {}", "Delivery was promised for {} and nobody came"),
}
MONTHS = ("January", "March", "May", "July", "October")
CLOSING = ("", "Thanks.", "This is urgent.", "Please help.", "I wrote before.")


def tickets() -> list[dict[str, Any]]:
    rows = [
        {"question": f"{text.format(month)}. {closing}".strip(), "answer": label}
        for label, texts in ASKED.items()
        for text, month, closing in itertools.product(texts, MONTHS, CLOSING)
    ]
    random.Random(3).shuffle(rows)
    return rows[:120]


def test_no_row_is_held_out_that_paraphrases_a_training_row_where_others_are_left() -> None:
    words = ("alpha", "beta", "gamma", "delta")
    alone = [{"question": f"{word} is what I ask about", "answer": "other"} for word in words]
    train, held_out, _ = split_rows(enumerate([*tickets(), *alone]), None, lambda row: row, "class_label")
    asked = [[(row["question"], row["answer"]) for row in rows] for rows in (train, held_out)]
    found = row_findings(plain(asked[0]), format="class_label", eval_rows=plain(asked[1]))
    assert [f.code for f in found if f.code.startswith("leak")] == []
    assert len(held_out) >= 3
    assert len(train) + len(held_out) == 124


def test_rows_that_are_no_paraphrases_are_split_as_before() -> None:
    rows = [{"question": f"what is {n} plus {n * n}", "answer": str(n + n * n)} for n in range(50)]
    train, held_out, dropped = split_rows(enumerate(rows), None, lambda row: row, "integer")
    assert (len(train), len(held_out), dropped.total) == (45, 5, 0)


def test_no_row_with_a_label_is_held_out_that_differs_from_a_training_row_in_numbers_only() -> None:
    texts = ("Please delete account", "Where is parcel", "Invoice 12 is wrong for order", "Reset the password of")
    repeated = [
        {"question": f"{text} {1000 + 17 * n}", "answer": str(kind)}
        for kind, text in enumerate(texts)
        for n in range(15)
    ]
    alone = [
        {"question": f"{word} is {about}, says customer {n}", "answer": str(n % len(texts))}
        for n, (word, about) in enumerate(itertools.product(("This", "That", "Mine", "Ours", "It"), MONTHS))
    ]
    rows = [*repeated, *alone]
    random.Random(5).shuffle(rows)
    train, held_out, _ = split_rows(enumerate(rows), None, lambda row: row, "label")
    masked = [{(re.sub(r"\d+", "0", row["question"]), row["answer"]) for row in some} for some in (train, held_out)]
    assert masked[0] & masked[1] == set()
    assert len(held_out) >= 5
    assert len(train) + len(held_out) == len(rows)
