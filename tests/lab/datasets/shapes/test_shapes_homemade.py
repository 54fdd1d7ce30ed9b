"""Datasets as users make them, with columns of any name, written after the rules.

At first 16 of 22 were as expected. Four then got rules (stars, toxic comments, codeforces, entities); of two
the expectation was wrong (two questions in a row are no one prompt, words after #### are no format of their own).
"""

from __future__ import annotations

import pytest

from tests.lab.datasets.shapes.shape import Row, Shape, expected, inspected, pick, told

UNSURE = frozenset({"answer-column-uncertain"})
FEW = ("amber", "birch", "cedar", "delta", "ember", "fjord", "grove")


def words(n: int) -> str:
    return f"{FEW[n % 7]} {n}"


def support(n: int) -> Row:
    return {
        "ticket_id": f"T-{n}",
        "subject": f"Cannot log in {n}",
        "body": f"Since the update number {n} I cannot log in with my usual password any more.",
        "department": pick(n, "billing", "technical", "sales"),
        "priority": pick(n, "low", "high"),
    }


def physics(n: int) -> Row:
    return {
        "Aufgabe": f"Ein Wagen faehrt {n} km in zwei Stunden. Wie schnell ist er im Mittel?",
        "Loesung": f"{n / 2} km/h",
    }


def qa_csv(n: int) -> Row:
    return {"Q": f"What is the capital of the land number {n} on the map?", "A": words(n)}


def nested_info(n: int) -> Row:
    return {
        "task": {"question": f"How many coins does pirate {n} have if he finds 3 more of them?", "answer": n + 3},
        "meta": {"source": "handmade", "n": n},
    }


def sql(n: int) -> Row:
    return {
        "question": f"How many heads of the departments are older than {n} ?",
        "context": "CREATE TABLE head (age INTEGER)",
        "answer": f"SELECT COUNT(*) FROM head WHERE age > {n}",
    }


def ner(n: int) -> Row:
    return {"id": str(n), "tokens": ["EU", "rejects", "German", f"call{n}"], "ner_tags": [3, 0, 7, 0]}


def fim_math(n: int) -> Row:
    return {
        "problem_id": n,
        "problem": f"Compute the sum of the first {n} odd numbers.",
        "expected_answer": str(n * n),
        "problem_source": "aops",
        "generated_solution": f"It is {n * n} so \\boxed{{{n * n}}}",
        "pass_rate_72b_tir": "0.96",
        "inference_mode": "cot",
    }


def open_math_reasoning(n: int) -> Row:
    return {
        "expected_answer": pick(n, str(n), rf"\frac{{{n}}}{{3}}"),
        "problem_type": "has_answer_extracted",
        "problem_source": "aops_c4_high_school_math",
        "generation_model": "DeepSeek-R1",
        "pass_rate_72b_tir": "0.65625",
        "problem": f"Given the function $f(x) = {n} x^2$, find its least value on the interval.",
        "generated_solution": "<think> okay </think> so it is \\boxed{3}",
        "inference_mode": "cot",
        "used_in_kaggle": True,
    }


def math_mc(n: int) -> Row:
    opts = [str(n + 3 * k) for k in range(4)]
    return {
        "question": f"What is {n} plus the first number of the list?",
        "options": opts,
        "answer": opts[pick(n, 0, 1, 2, 3)],
    }


def likert(n: int) -> Row:
    return {
        "review_body": f"I ordered item {n} and it came late, but it works as it should.",
        "stars": pick(n, 1, 2, 3, 4, 5),
        "product_category": "kitchen",
    }


def toxicity(n: int) -> Row:
    return {
        "comment_text": f"you are number {n} and should go away from here now",
        "toxic": pick(n, 0, 1),
        "obscene": 0,
        "threat": 0,
    }


def translation(n: int) -> Row:
    return {
        "translation": {
            "de": f"Wiederaufnahme der Sitzung {n} am Morgen des Tages",
            "en": f"Resumption of session {n} in the morning of the day",
        }
    }


def codeforces(n: int) -> Row:
    return {
        "id": f"852/{n}",
        "title": f"Bulls {n}",
        "description": f"You are given a sequence of {n} balls in a row, each of them in a colour.",
        "input_format": "One number n.",
        "output_format": "One number.",
        "examples": [{"input": f"{n}", "output": "3"}],
        "official_tests": [{"input": f"{n}\n", "output": "3\n"}],
        "time_limit": 2.0,
    }


def glaive(n: int) -> Row:
    return {
        "system": "SYSTEM: You are a helpful assistant with access to functions.",
        "chat": f'USER: What is {n}?\n\n\nASSISTANT: <functioncall> {{"name": "x"}} <|endoftext|>',
    }


def dates(n: int) -> Row:
    return {
        "question": f"When was the treaty number {n} of the two cities signed by them?",
        "answer": f"{1800 + n}-0{n % 9 + 1}-1{n % 9}",
    }


def one_row(n: int) -> Row:
    return {"question": "What is six times seven?", "answer": "42"}


def percent(n: int) -> Row:
    return {"question": f"By how much did the price of share {n} rise over the year?", "answer": f"{n}.5%"}


def yes_no_text(n: int) -> Row:
    return {"sentence": f"Is the claim number {n} right as it stands here?", "verdict": pick(n, "Yes.", "No.")}


def mt_bench(n: int) -> Row:
    return {
        "category": "writing",
        "prompt": [f"Compose a travel blog about island {n}.", "Rewrite your previous response."],
        "reference": [],
        "prompt_id": n,
    }


def entity_list(n: int) -> Row:
    return {"text": f"Ada and Bo met in town {n} to speak of the plan with Cy.", "entities": ["Ada", "Bo", f"town {n}"]}


def hash_text(n: int) -> Row:
    return {
        "question": f"What colour is box {n} after it was painted twice?",
        "answer": f"First blue and then red.\n#### {pick(n, 'red', 'blue', 'green')}",
    }


def medical_options_str(n: int) -> Row:
    return {
        "Question": f"Which drug is given first in case {n} of the illness?",
        "Options": "{'A': 'aspirin', 'B': 'insulin', 'C': 'morphine', 'D': 'none'}",
        "Correct Option": pick(n, *"ABCD"),
    }


SHAPES = [
    Shape(
        "tickets to route",
        support,
        ("body",),
        "department",
        "label",
        labels=("billing", "sales", "technical"),
        codes=UNSURE | {"prompt-column-uncertain"},
    ),
    Shape("another language", physics, ("Aufgabe",), "Loesung", "numeric", codes=UNSURE),
    Shape("columns of one letter", qa_csv, ("Q",), "A", "short_text", codes=UNSURE),
    Shape("all in one object", nested_info, ("task.question",), "task.answer", "numeric"),
    Shape(
        "queries over a schema",
        sql,
        ("context", "question"),
        "answer",
        "free_text",
        codes=frozenset({"format-uncertain"}),
    ),
    Shape("tokens with tags", ner, None, None, None, codes=frozenset({"no-prompt-column"})),
    Shape("expected_answer beside a generated solution", fim_math, ("problem",), "expected_answer", "numeric"),
    Shape("OpenMathReasoning", open_math_reasoning, ("problem",), "expected_answer", "latex_math"),
    Shape("numbers as options, gold by text", math_mc, ("question",), "answer", "choice_index", options=("options",)),
    Shape("stars of reviews", likert, ("review_body",), "stars", "class_id", codes=UNSURE | {"class-names-unknown"}),
    Shape("toxic comments", toxicity, ("comment_text",), "toxic", "class_id", codes=UNSURE),
    Shape("translations", translation, None, None, None, codes=frozenset({"no-prompt-column"})),
    Shape("codeforces", codeforces, ("description",), "official_tests", "code_tests"),
    Shape("conversations as one text", glaive, ("system", "chat"), None, None, codes=frozenset({"empty-gold"})),
    Shape("dates", dates, ("question",), "answer", "short_text"),
    Shape("one row", one_row, ("question",), "answer", "numeric", rows=1),
    Shape("percentages", percent, ("question",), "answer", "numeric"),
    Shape("verdicts", yes_no_text, ("sentence",), "verdict", "label", labels=("No.", "Yes."), codes=UNSURE),
    Shape("two questions in a row", mt_bench, None, None, None, codes=frozenset({"no-prompt-column"})),
    Shape("entities", entity_list, ("text",), "entities", "multi_answer", any_of=False),
    Shape("words after ####", hash_text, ("question",), "answer", "free_text", codes=frozenset({"format-uncertain"})),
    Shape(
        "options as a Python dict in text",
        medical_options_str,
        ("Question",),
        "Correct Option",
        "choice_letter",
        options=("Options",),
    ),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_columns_of_any_name_are_found_or_asked_for(shape: Shape) -> None:
    found = inspected(shape)
    assert told(found) == expected(shape)
    assert shape.codes <= {f.code for f in found.findings}


def test_a_weak_guess_never_passes_without_a_word() -> None:
    for shape in SHAPES:
        found = inspected(shape)
        codes = {f.code for f in found.findings}
        if found.answer is not None and found.prompt is not None and found.answer.confidence < 0.5:
            assert "answer-column-uncertain" in codes, shape.name
        if found.answer is None:
            assert codes & {"empty-gold", "no-prompt-column"}, shape.name
