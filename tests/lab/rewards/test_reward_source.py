"""Expressions whose value differs between processes, and words that a reward could pay for, found in its source."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.rewards.reward_source import process_dependence, rewarded_words


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("first = list(set(words))[0]", "a set"),
        ("best = max({a, b}, key=len)", "a set"),
        ("best = next(iter({w for w in words}))", "a set"),
        ("lucky = hash(text) % 2", "hash()"),
        ("lucky = hash(text) % 97 > 48", "hash()"),
        ("seen[id(task)] = 1", "id()"),
        ("salt = os.getpid()", "getpid()"),
        ("SALT = random.random()", "random.random() at import"),
        ("class Task:\n    made = time.time()", "time.time() at import"),
        ("def broken(:\n  set(words)", "set()"),
    ],
)
def test_what_differs_between_processes_is_named(code: str, found: str) -> None:
    assert process_dependence(code) == found


@pytest.mark.parametrize(
    "code",
    [
        "ok = len(set(words)) == 1",
        "same = set(a) == set(b)",
        "common = len(set(a) & set(b))",
        "words = sorted(set(words))",
        "yes = text in {'yes', 'true'}",
        "seen = set()",
        "rows = random.Random(7).sample(rows, 5)",
        "def load():\n    random.Random(0).shuffle(rows)",
        "config = Config(id='x')",
        "first = {'a': 1}",
    ],
)
def test_what_is_the_same_everywhere_starts_no_process(code: str) -> None:
    assert process_dependence(code) is None


def test_listed_and_looked_for_words_are_found_in_order() -> None:
    source = """
GOOD = {"because", "therefore"}
SCORES = {"step by step": 0.1}

def reward(text):
    return float("hence" in text) + sum(w in text for w in GOOD) + len(["finally"])
"""
    assert set(rewarded_words(source)) == {"because", "therefore", "step by step", "hence", "finally"}


def test_other_texts_are_no_words() -> None:
    assert rewarded_words('print("done")\nNAME = "answer"\nPATTERNS = ["<b>", r"\\d+", ""]\n') == ()
    assert rewarded_words("def broken(") == ()
