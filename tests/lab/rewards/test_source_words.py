"""Words that a reward could pay for, found in its source."""

from __future__ import annotations

from prime_lab_mcp.lab.rewards.source_words import words


def test_listed_and_looked_for_words_are_found_in_order() -> None:
    source = """
GOOD = {"because", "therefore"}
SCORES = {"step by step": 0.1}

def reward(text):
    return float("hence" in text) + sum(w in text for w in GOOD) + len(["finally"])
"""
    assert set(words(source)) == {"because", "therefore", "step by step", "hence", "finally"}


def test_other_texts_are_no_words() -> None:
    assert words('print("done")\nNAME = "answer"\nPATTERNS = ["<b>", r"\\d+", ""]\n') == ()
    assert words("def broken(") == ()
