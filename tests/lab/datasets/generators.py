"""Rows in the shapes that people train on, made by seeded generators: sound ones, and paraphrases of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from prime_lab_mcp.lab.datasets.tasks import TaskRow

GSM8K = Path(__file__).parents[3] / "environments/gsm8k/gsm8k/data/sample.jsonl"
NAMES = ["Tom", "Ann", "Maria", "James", "Wei", "Fatima", "Olga", "Luis"]
THINGS = ["apples", "pencils", "books", "marbles", "stickers", "coins"]
NOUNS = [
    "cat",
    "dog",
    "house",
    "river",
    "mountain",
    "bread",
    "window",
    "teacher",
    "garden",
    "letter",
    "winter",
    "music",
    "road",
    "friend",
    "morning",
    "bridge",
    "table",
    "ocean",
    "doctor",
    "candle",
]
VERBS = ["sees", "loves", "finds", "buys", "paints", "washes", "opens", "follows"]
PLACES = [f"{a}{b}" for a in NOUNS for b in ("land", "stan", "ia", "burg")]
Make = Callable[[random.Random], tuple[str, str]]


def story(r: random.Random) -> tuple[str, str]:
    a, b, name, thing = r.randint(3, 99), r.randint(3, 99), r.choice(NAMES), r.choice(THINGS)
    text, gold = r.choice(
        [
            (f"{name} has {a} {thing} and buys {b} more. How many {thing} does {name} have now?", a + b),
            (
                f"{name} packs {thing} into boxes of {a}. If there are {b} boxes, how many {thing} did {name} pack?",
                a * b,
            ),
            (f"A shop sells {thing} for {a} dollars each. {name} buys {b} of them. What does {name} pay?", a * b),
        ]
    )
    return text, f"#### {gold}"


def arithmetic(r: random.Random) -> tuple[str, str]:
    a, b, sign = r.randint(1, 999), r.randint(1, 999), r.choice("+-*")
    return f"What is {a} {sign} {b}?", str({"+": a + b, "-": a - b, "*": a * b}[sign])


def translation(r: random.Random) -> tuple[str, str]:
    place = r.choice(["old", "new", "red", "small", "big"])
    text = f"The {r.choice(NOUNS)} {r.choice(VERBS)} the {place} {r.choice(NOUNS)} near the {r.choice(NOUNS)}."
    return f"Translate to French: {text}", f"Le {text[4:][::-1]}"


def ticket(r: random.Random) -> tuple[str, str]:
    thing = r.choice(["laptop", "phone", "printer", "router", "tablet", "monitor"])
    fault, label = r.choice(
        [
            ("does not turn on", "hardware"),
            ("keeps losing its connection", "network"),
            ("was delivered damaged", "delivery"),
            ("was charged twice", "billing"),
            ("makes a loud noise", "hardware"),
            ("cannot find the wireless network", "network"),
            ("has not arrived", "delivery"),
            ("is missing from my invoice", "billing"),
        ]
    )
    when = r.choice(["last week", "a month ago", "in March", "yesterday"])
    end = r.choice(["Please help.", "What should I do?", "I need it for work.", "I want my money back."])
    return (
        "Classify the ticket as hardware, network, delivery or billing.\n\n"
        f"Ticket: My {thing} {fault}. I bought it {when} for {r.choice(NAMES)}. {end}",
        label,
    )


def trivia(r: random.Random) -> tuple[str, str]:
    what, where = r.choice(["capital", "currency", "largest city", "official language"]), r.choice(PLACES)
    return f"What is the {what} of {where}?", f"{where}{what[:2]}".title()


def function(r: random.Random) -> tuple[str, str]:
    what = r.choice(["maximum", "minimum", "sum", "product", "number", "average", "median"])
    of = r.choice(["two numbers", "a list of integers", "all even elements", "the given tuples", "nested lists"])
    how = r.choice(["using recursion", "without loops", "in linear time", "and sort it", "modulo k"])
    name = f"{what}_{of.split()[-1]}"
    return (
        f"Write a function to {r.choice(['find', 'return', 'count'])} the {what} of {of} {how}.",
        f"assert {name}([{r.randint(1, 9)}]) == {r.randint(1, 99)}",
    )


def inference(r: random.Random) -> tuple[str, str]:
    a, verb, b = r.choice(NOUNS), r.choice(VERBS), r.choice(NOUNS)
    c, d = r.choice(NOUNS), r.choice(VERBS)
    return (
        f"Premise: The {a} {verb} the {b} beside the {c}, while all others have gone home for the {r.choice(NOUNS)}.\n"
        f"Hypothesis: The {r.choice([a, c])} {d} the {r.choice(NOUNS)}.\nDoes the premise entail the hypothesis?",
        r.choice(["entailment", "neutral", "contradiction"]),
    )


def passage(r: random.Random) -> tuple[str, str]:
    facts = {n: f"{r.choice(PLACES)}{r.randint(1, 99)}" for n in r.sample(NOUNS, 8)}
    asked = r.choice(list(facts))
    told = " ".join(f"The {noun} was last seen at {place} by {r.choice(NAMES)}." for noun, place in facts.items())
    return f"{told}\n\nWhere was the {asked} last seen?", facts[asked]


KINDS: dict[str, tuple[Make, str]] = {
    "number-masked arithmetic": (arithmetic, "numeric"),
    "templated word problems": (story, "gsm8k_hash"),
    "translation": (translation, "free_text"),
    "classification tickets": (ticket, "label"),
    "trivia": (trivia, "short_text"),
    "functions with tests": (function, "code_tests"),
    "natural language inference": (inference, "label"),
    "passages with a question": (passage, "short_text"),
}


def distinct(make: Make, number: int, seed: int = 3) -> list[tuple[str, str]]:
    """At most `number` rows with different prompts."""
    r = random.Random(seed)
    found: dict[str, str] = {}
    for _ in range(4 * number):
        if len(found) == number:
            break
        prompt, gold = make(r)
        found.setdefault(prompt, gold)
    rows = list(found.items())
    r.shuffle(rows)
    return rows


def gsm8k() -> list[tuple[str, str]]:
    lines = GSM8K.read_text(encoding="utf-8").splitlines()
    return [(row["question"], row["answer"]) for row in map(json.loads, lines)]


def plain(pairs: list[tuple[str, str]]) -> list[TaskRow]:
    return [TaskRow(prompt, gold, n) for n, (prompt, gold) in enumerate(pairs)]
