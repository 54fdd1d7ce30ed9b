"""Whether a reply says the gold."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.evals.views.gold_said import Said, gold_of, said, telling


@pytest.mark.parametrize(
    ("gold", "reply", "found"),
    [
        ("42", "so <answer>42</answer>", Said.ANSWERED),
        ("42", "so <answer>42.0</answer>", Said.ANSWERED),
        ("1200", "It costs\n$1,200.", Said.ANSWERED),
        ("1,200", "first 1200, but\nthe answer is 7", Said.MENTIONED),
        ("42", "142 and 42.5 and 420\n4 2", Said.ABSENT),
        ("5", "<answer>-5</answer>", Said.ABSENT),
        ("3", "10-3\nleaves 7", Said.MENTIONED),
        ("0.5", "it is\n.50", Said.ANSWERED),
        ("0.5", "it is\n10.5 or 0.55", Said.ABSENT),
        ("-4", "x = -4.0", Said.ANSWERED),
        ("-4", "4", Said.ABSENT),
        ("1234567", "about\n1,234,567 people", Said.ANSWERED),
        ("12", "1,2 and 3", Said.ABSENT),
        ("#### 18", "The answer is 18", Said.ANSWERED),
        ("He has 9*2 = 18 left\n#### 18", "The answer is 18", Said.ANSWERED),
        ("1/2", "so \\boxed{\\frac{1}{2}}", Said.ANSWERED),
        ("\\frac{3}{4}", "3/4", Said.ANSWERED),
        ("x^2+1", "thus $x^2 + 1$.", Said.ANSWERED),
        ("B", "But A it is", Said.ABSENT),
        ("B", "I say\n(B) because of that", Said.ANSWERED),
        ("B", "B is tempting.\nThe answer is C", Said.MENTIONED),
        ("New York", "<answer>new-york</answer>", Said.ANSWERED),
        ("art", "a cart", Said.ABSENT),
        ("billing", "<answer>billing_disputes</answer>", Said.ABSENT),
        ("billing_disputes", "<answer>Billing_Disputes</answer>", Said.ANSWERED),
        ("yes", "No.\nYES!", Said.ANSWERED),
        ("", "anything", Said.UNKNOWN),
        ("def f(x):\n    return x", "def f(x): return x", Said.UNKNOWN),
        ("word " * 40, "word", Said.UNKNOWN),
        (None, "anything", Said.UNKNOWN),
    ],
)
def test_a_gold_is_found_where_it_is_said_and_nowhere_else(gold: str | None, reply: str, found: Said) -> None:
    assert said(gold_of(gold), reply) is found


def test_a_mention_of_a_short_gold_tells_nothing() -> None:
    assert not telling(gold_of("B"))
    assert telling(gold_of("214.85"))
