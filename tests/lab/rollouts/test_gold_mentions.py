"""Whether a reply says the gold."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rollouts.conversation import GoldMention, gold_mention, is_distinctive, searched_gold


@pytest.mark.parametrize(
    ("gold", "reply", "found"),
    [
        ("42", "so <answer>42</answer>", GoldMention.ANSWERED),
        ("42", "so <answer>42.0</answer>", GoldMention.ANSWERED),
        ("1200", "It costs\n$1,200.", GoldMention.ANSWERED),
        ("1,200", "first 1200, but\nthe answer is 7", GoldMention.MENTIONED),
        ("42", "142 and 42.5 and 420\n4 2", GoldMention.ABSENT),
        ("5", "<answer>-5</answer>", GoldMention.ABSENT),
        ("3", "10-3\nleaves 7", GoldMention.MENTIONED),
        ("0.5", "it is\n.50", GoldMention.ANSWERED),
        ("0.5", "it is\n10.5 or 0.55", GoldMention.ABSENT),
        ("-4", "x = -4.0", GoldMention.ANSWERED),
        ("-4", "4", GoldMention.ABSENT),
        ("1234567", "about\n1,234,567 people", GoldMention.ANSWERED),
        ("12", "1,2 and 3", GoldMention.ABSENT),
        ("#### 18", "The answer is 18", GoldMention.ANSWERED),
        ("He has 9*2 = 18 left\n#### 18", "The answer is 18", GoldMention.ANSWERED),
        ("1/2", "so \\boxed{\\frac{1}{2}}", GoldMention.ANSWERED),
        ("\\frac{3}{4}", "3/4", GoldMention.ANSWERED),
        ("$969$ kg", "so <answer>969</answer>", GoldMention.ANSWERED),
        ("$969$ kg", "so <answer>970</answer>", GoldMention.ABSENT),
        ("$38\\,\\mathrm{m}$", "<answer>38</answer>", GoldMention.ANSWERED),
        ("\\boxed{1110\\text{ km}}", "<answer>1,110</answer>", GoldMention.ANSWERED),
        ("$x^2$", "<answer>2</answer>", GoldMention.ABSENT),
        ("x^2+1", "thus $x^2 + 1$.", GoldMention.ANSWERED),
        ("B", "But A it is", GoldMention.ABSENT),
        ("B", "I say\n(B) because of that", GoldMention.ANSWERED),
        ("B", "B is tempting.\nThe answer is C", GoldMention.MENTIONED),
        ("New York", "<answer>new-york</answer>", GoldMention.ANSWERED),
        ("art", "a cart", GoldMention.ABSENT),
        ("billing", "<answer>billing_disputes</answer>", GoldMention.ABSENT),
        ("billing_disputes", "<answer>Billing_Disputes</answer>", GoldMention.ANSWERED),
        ("yes", "No.\nYES!", GoldMention.ANSWERED),
        ("", "anything", GoldMention.UNKNOWN),
        ("def f(x):\n    return x", "def f(x): return x", GoldMention.UNKNOWN),
        ("word " * 40, "word", GoldMention.UNKNOWN),
        (None, "anything", GoldMention.UNKNOWN),
    ],
)
def test_a_gold_is_found_where_it_is_said_and_nowhere_else(gold: str | None, reply: str, found: GoldMention) -> None:
    assert gold_mention(searched_gold(gold), reply) is found


def test_a_mention_of_a_short_gold_tells_nothing() -> None:
    assert not is_distinctive(searched_gold("B"))
    assert is_distinctive(searched_gold("214.85"))
