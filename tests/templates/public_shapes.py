"""Small datasets in the shape of public ones, one or more for every kind of environment."""

from __future__ import annotations

import json
from typing import Any

WORDS = ("river", "stone", "cloud", "maple", "tiger", "lemon", "candle", "harbor", "violet", "anchor")
Rows = list[dict[str, Any]]


def gsm8k(number: int = 90) -> Rows:
    return [
        {
            "question": f"Bo packs {n + 2} crates with {3 * n + 5} jars each and sells {n} jars. How many are left?",
            "answer": f"There are {n + 2}*{3 * n + 5} jars.\n#### {(n + 2) * (3 * n + 5) - n:,}",
        }
        for n in range(number)
    ]


def math_500(number: int = 90) -> Rows:
    forms = (
        lambda n: (f"Write {n + 1} divided by {2 * n + 5} in lowest terms.", rf"\frac{{{n + 1}}}{{{2 * n + 5}}}"),
        lambda n: (f"Simplify the square root of {(n + 2) ** 2 * 3}.", rf"{n + 2}\sqrt{{3}}"),
        lambda n: (f"Factor out of $x^2 - {n * n}$ the solutions as an interval.", rf"[-{n},{n}]"),
        lambda n: (f"What is the expansion of $(x+{n})^2$?", rf"x^2+{2 * n}x+{n * n}"),
    )
    rows = []
    for n in range(number):
        problem, answer = forms[n % 4](n + 1)
        solution = f"We work it out in two steps, so the result is $\\boxed{{{answer}}}$."
        rows.append({"problem": problem, "solution": solution, "answer": answer, "subject": "Algebra", "level": n % 5})
    return rows


def mmlu(number: int = 100) -> Rows:
    rows = []
    for n in range(number):
        right, at = 3 * n + 7, n % 4
        choices = [str(right + 2 * (k - at)) for k in range(4)]
        rows.append({"question": f"What is {n} plus {2 * n + 7}?", "subject": "sums", "choices": choices, "answer": at})
    return rows


def arc(number: int = 100) -> Rows:
    rows = []
    places = ("first", "second", "third", "last")
    for n in range(number):
        names = [f"{WORDS[(n + k) % 10]} number {n}" for k in range(4)]
        labels = list("ABCD") if n % 9 else list("1234")
        rows.append(
            {
                "id": f"Q{n}",
                "question": f"Which of these things is listed {places[n % 4]} in box {n}?",
                "choices": {"text": names, "label": labels},
                "answerKey": labels[n % 4],
            }
        )
    return rows


def tickets(number: int = 120) -> Rows:
    labels = ("billing", "shipping", "returns", "technical")
    asks = ("My card was charged twice", "The parcel is late", "I want to send it back", "The app does not start")
    return [
        {"text": f"{asks[n % 4]}, case {n}: the {WORDS[n % 10]} lamp, day {n * 3}.", "label": labels[n % 4]}
        for n in range(number)
    ]


def boolq(number: int = 100) -> Rows:
    return [
        {
            "passage": f"The {WORDS[n % 10]} house has {n + 3} rooms and was built in {1800 + n}.",
            "question": f"does the {WORDS[n % 10]} house have more than {n + 2 + (n % 2) * 4} rooms",
            "answer": n % 2 == 0,
        }
        for n in range(number)
    ]


def squad(number: int = 90) -> Rows:
    return [
        {
            "context": f"In {1700 + n} the {WORDS[n % 10]} club was founded by Ann {WORDS[(n * 3 + 1) % 10].title()}.",
            "question": f"Who founded the {WORDS[n % 10]} club in {1700 + n}?",
            "answers": {"text": [f"Ann {WORDS[(n * 3 + 1) % 10].title()}"], "answer_start": [40]},
        }
        for n in range(number)
    ]


def trivia(number: int = 90) -> Rows:
    return [
        {
            "question": f"What is keyword {n} of the {WORDS[n % 10]} list?",
            "answer": {
                "value": f"{WORDS[(n + 4) % 10]} {n}",
                "aliases": [f"the {WORDS[(n + 4) % 10]} {n}", f"no. {n}"],
            },
        }
        for n in range(number)
    ]


def invoices(number: int = 90) -> Rows:
    return [
        {
            "input": f"Order {n}: {n + 1} times {WORDS[n % 10]} for {WORDS[(n + 3) % 10].title()} Ltd, paid: {n % 2}.",
            "output": json.dumps({"item": WORDS[n % 10], "quantity": n + 1, "paid": n % 2 == 1, "tags": ["a", n]}),
        }
        for n in range(number)
    ]


def xlam(number: int = 90) -> Rows:
    city_and_day = {"city": {"type": "str"}, "day": {"type": "int"}}
    to_and_text = {"to": {"type": "str"}, "text": {"type": "str"}}
    tools = [
        {"name": "get_weather", "description": "Weather of a day.", "parameters": city_and_day},
        {"name": "send_note", "description": "Send a note.", "parameters": to_and_text},
    ]
    rows = []
    for n in range(number):
        city = WORDS[n % 10].title()
        calls: list[dict[str, Any]] = [{"name": "get_weather", "arguments": {"city": city, "day": n}}]
        if n % 3 == 0:
            calls.append({"name": "send_note", "arguments": {"to": city, "text": f"note {n}"}})
        rows.append(
            {
                "id": n,
                "query": f"Weather in {city} on day {n}, note {n}.",
                "tools": json.dumps(tools),
                "answers": json.dumps(calls),
            }
        )
    return rows


def mbpp(number: int = 90) -> Rows:
    return [
        {
            "task_id": n,
            "text": f"Write a function that adds {n} to a number and doubles the result.",
            "code": f"def add_double_{n}(x):\n    return (x + {n}) * 2\n",
            "test_list": [f"assert add_double_{n}({k}) == {(k + n) * 2}" for k in (0, 3, 11)],
            "test_setup_code": "",
        }
        for n in range(number)
    ]


def humaneval_assert(n: int, k: int) -> str:
    return f"    assert candidate({k}) == {k * (n + 2) - n}\n"


def humaneval(number: int = 80) -> Rows:
    return [
        {
            "task_id": f"T/{n}",
            "prompt": f'def scale_{n}(x: int) -> int:\n    """Return x times {n + 2}, less {n}."""\n',
            "canonical_solution": f"    return x * {n + 2} - {n}\n",
            "test": "def check(candidate):\n" + "".join(humaneval_assert(n, k) for k in (1, 5, 9)),
            "entry_point": f"scale_{n}",
        }
        for n in range(number)
    ]


FITTING: dict[str, tuple[str, Rows]] = {
    "gsm8k": ("numeric", gsm8k()),
    "math-500": ("math", math_500()),
    "mmlu": ("choice", mmlu()),
    "arc": ("choice", arc()),
    "tickets": ("classification", tickets()),
    "boolq": ("boolean", boolq()),
    "squad": ("short_text", squad()),
    "trivia": ("short_text", trivia()),
    "invoices": ("json", invoices()),
    "xlam": ("tool_call", xlam()),
    "mbpp": ("code", mbpp()),
    "humaneval": ("code", humaneval()),
}
"""Dataset: the kind that create_environment must choose for it, and its rows."""
NAMED: dict[str, Rows] = dict.fromkeys(
    ("tool_use", "multi_turn", "sandboxed", "v0_tools", "v0_stateful_tools", "v0_multi_turn", "v0_group"), gsm8k()
)
"""Kind that no dataset leads to, so that a caller names it: rows that fit it."""
