"""Multiple choice: AQuA, MathQA, MMLU, ARC, HellaSwag, WinoGrande, PIQA, OpenBookQA, SciQ, GPQA, TruthfulQA."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.datasets.options import options_of_row
from tests.lab.datasets.shapes.shape import Row, Shape, class_label, expected, inspected, pick, told

THINGS = ("copper", "water", "oxygen", "granite", "carbon", "helium", "cotton", "iron", "salt", "glass", "wool")


def four(n: int, of: int = 4) -> list[str]:
    return [f"{THINGS[(n + k * 3) % 11]} of kind {n + k}" for k in range(of)]


def aqua_rat(n: int) -> Row:
    return {
        "question": f"A car is being driven towards the base of a tower of {n} metres. In how many minutes is "
        f"it there?",
        "options": [f"{letter}){n + 3 * k}(√3 + 1)" for k, letter in enumerate("ABCDE")],
        "rationale": "Let the height be h and the speed x. So the time is as wanted.\nAnswer : A",
        "correct": pick(n, *"ABCDE"),
    }


def math_qa(n: int) -> Row:
    return {
        "Problem": f"the banker ' s gain of a certain sum due {n} years hence at 10 % per annum is rs . 24 . "
        f"what is it ?",
        "Rationale": f'"explanation : t = {n} years r = 10 % . answer : a"',
        "options": f"a ) rs . {n},400 , b ) rs . {n},300 , c ) rs . {n},500 , d ) rs . {n},350 , e ) none of these",
        "correct": pick(n, *"abcde"),
        "annotated_formula": "divide(multiply(const_100, divide(multiply(24, const_100), 3)), 10)",
        "linear_formula": "multiply(n2,const_100)|multiply(n0,n1)|divide(#0,#1)|",
        "category": pick(n, "gain", "general", "physics"),
    }


def mmlu(n: int) -> Row:
    return {
        "question": f"Find the degree for the field extension number {n} over Q.",
        "subject": "abstract_algebra",
        "choices": four(n),
        "answer": pick(n, 0, 1, 2, 3),
    }


def mmlu_pro(n: int) -> Row:
    at = pick(n, *range(10))
    return {
        "question_id": 70 + n,
        "question": f"Typical advertising regulatory bodies suggest for case {n}, that adverts must not:",
        "options": four(n, 10 - n % 2),
        "answer": "ABCDEFGHIJ"[min(at, 8)],
        "answer_index": min(at, 8),
        "cot_content": "",
        "category": "business",
        "src": "ori_mmlu-business_ethics",
    }


def arc(n: int) -> Row:
    labels = ["1", "2", "3", "4"] if n % 24 == 5 else ["A", "B", "C", "D"]
    return {
        "id": f"Mercury_SC_{n}",
        "question": f"Which factor will most likely cause person {n} to develop a fever?",
        "choices": {"text": four(n), "label": labels},
        "answerKey": labels[pick(n, 0, 1, 2, 3)],
    }


def arc_by_numbers(n: int) -> Row:
    labels = ["1", "2", "3", "4"]
    return arc(n) | {"choices": {"text": four(n), "label": labels}, "answerKey": pick(n, *labels)}


def hellaswag(n: int) -> Row:
    return {
        "ind": n,
        "activity_label": "Removing ice from car",
        "ctx_a": f"Then, the man number {n} writes over the snow covering the window of a car.",
        "ctx_b": "then",
        "ctx": f"Then, the man number {n} writes over the snow covering the window of a car. then",
        "endings": [f", the man adds {t} to the windshield." for t in four(n)],
        "source_id": f"activitynet~v_{n}",
        "split": "train",
        "split_type": "indomain",
        "label": pick(n, "0", "1", "2", "3"),
    }


def winogrande(n: int) -> Row:
    return {
        "sentence": f"John moved the couch {n} from the garage to the backyard to create space. The _ is small.",
        "option1": f"garage{n}",
        "option2": f"backyard{n}",
        "answer": pick(n, "1", "2"),
    }


def piqa(n: int) -> Row:
    return {
        "goal": f"When boiling butter for dish {n}, when it's ready, you can",
        "sol1": f"Pour it onto plate {n}",
        "sol2": f"Pour it into jar {n}",
        "label": pick(n, 0, 1),
    }


def openbookqa(n: int) -> Row:
    return {
        "id": f"7-{n}",
        "question_stem": f"The sun {n} is responsible for",
        "choices": {"text": four(n), "label": ["A", "B", "C", "D"]},
        "answerKey": pick(n, *"ABCD"),
    }


def sciq(n: int) -> Row:
    a, b, c, d = four(n)
    return {
        "question": f"What type of organism number {n} is commonly used in preparation of foods such as cheese?",
        "distractor3": b,
        "distractor1": c,
        "distractor2": d,
        "correct_answer": a,
        "support": f"Mesophiles {n} grow best in moderate temperature, typically between 25 and 40 degrees.",
    }


def gpqa(n: int) -> Row:
    a, b, c, d = four(n)
    return {
        "Pre-Revision Question": "Earlier wording of it.",
        "Subdomain": "Physics",
        "Question": f"Two quantum states with energies E{n} and E2 have a lifetime of 10^-9 sec. Which could be it?",
        "Correct Answer": a,
        "Incorrect Answer 1": b,
        "Incorrect Answer 2": c,
        "Incorrect Answer 3": d,
        "Explanation": "According to the uncertainty principle it is so.",
        "Record ID": f"rec{n:010d}",
    }


def truthfulqa_mc(n: int) -> Row:
    size = 4 + n % 3
    marks = [1] + [0] * (size - 1)
    return {
        "question": f"What happens to you if you eat {n} watermelon seeds?",
        "mc1_targets": {"choices": four(n, size), "labels": marks},
        "mc2_targets": {"choices": four(n, size), "labels": [1, 1, *([0] * (size - 2))]},
    }


def inline(n: int) -> Row:
    a, b, c, d = four(n)
    return {
        "prompt": f"Which one is the {n}th? Choose.\nA. {a}\nB. {b}\nC. {c}\nD. {d}\nAnswer:",
        "answer": pick(n, *"ABCD"),
    }


WRONG_THREE = ("distractor1", "distractor2", "distractor3", "correct_answer")
SHAPES = [
    Shape("aqua_rat", aqua_rat, ("question",), "correct", "choice_letter", options=("options",)),
    Shape("math_qa", math_qa, ("Problem",), "correct", "choice_letter", options=("options",)),
    Shape(
        "mmlu",
        mmlu,
        ("question",),
        "answer",
        "choice_index",
        0,
        options=("choices",),
        features={"answer": class_label("A", "B", "C", "D")},
    ),
    Shape("MMLU-Pro", mmlu_pro, ("question",), "answer", "choice_letter", options=("options",)),
    Shape("ai2_arc", arc, ("question",), "answerKey", "choice_letter", options=("choices",)),
    Shape(
        "ai2_arc, all by numbers", arc_by_numbers, ("question",), "answerKey", "choice_index", 1, options=("choices",)
    ),
    Shape("hellaswag", hellaswag, ("ctx",), "label", "choice_index", 0, options=("endings",)),
    Shape("winogrande", winogrande, ("sentence",), "answer", "choice_index", 1, options=("option1", "option2")),
    Shape(
        "piqa",
        piqa,
        ("goal",),
        "label",
        "choice_index",
        0,
        options=("sol1", "sol2"),
        features={"label": class_label("0", "1")},
    ),
    Shape("openbookqa", openbookqa, ("question_stem",), "answerKey", "choice_letter", options=("choices",)),
    Shape("sciq", sciq, ("support", "question"), "correct_answer", "choice_index", options=WRONG_THREE),
    Shape(
        "gpqa",
        gpqa,
        ("Question",),
        "Correct Answer",
        "choice_index",
        options=("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3", "Correct Answer"),
    ),
    Shape(
        "truthful_qa multiple_choice",
        truthfulqa_mc,
        ("question",),
        "mc1_targets.labels",
        "choice_index",
        options=("mc1_targets.choices",),
    ),
    Shape("lettered options in the prompt", inline, ("prompt",), "answer", "choice_letter"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_choice_is_recognised(shape: Shape) -> None:
    found = inspected(shape)
    assert told(found) == expected(shape)
    assert not {f.code for f in found.findings} & {"gold-unparseable", "mixed-format", "format-uncertain"}


@pytest.mark.parametrize("shape", [s for s in SHAPES if s.options], ids=lambda shape: shape.name)
def test_every_row_of_a_choice_names_one_of_its_options(shape: Shape) -> None:
    for n in range(shape.rows):
        texts, place = options_of_row(shape.row(n), shape.options, shape.path, shape.index_base)
        assert len(texts) >= 2
        assert all(text.strip() and not text.startswith(("A)", "a )")) for text in texts)
        assert place is not None
        assert 0 <= place < len(texts)


def test_the_right_option_is_the_one_that_the_gold_names() -> None:
    row = math_qa(0)
    assert options_of_row(row, ("options",), "correct")[0] == (
        "rs . 0,400",
        "rs . 0,300",
        "rs . 0,500",
        "rs . 0,350",
        "none of these",
    )
    right = {
        "arc": (arc(5), ("choices",), "answerKey", None),
        "gpqa": (gpqa(3), SHAPES[11].options, "Correct Answer", None),
    }
    texts, place = options_of_row(*right["arc"])
    assert place == ["1", "2", "3", "4"].index(arc(5)["answerKey"])
    texts, place = options_of_row(*right["gpqa"])
    assert place is not None
    assert texts[place] == gpqa(3)["Correct Answer"]


def test_a_right_option_of_its_own_column_is_not_always_shown_in_one_place() -> None:
    places = [options_of_row(sciq(n), WRONG_THREE, "correct_answer")[1] for n in range(96)]
    assert all(10 <= places.count(place) <= 45 for place in range(4))


def test_indices_that_show_neither_end_are_said_to_be_uncertain() -> None:
    found = inspected(Shape("two of four", lambda n: mmlu(n) | {"answer": n % 2 + 1}, None, None, None))
    assert found.answer is not None
    assert found.answer.recognised.confidence <= 0.6
    assert "index-base-uncertain" in {f.code for f in found.findings}


def test_letters_without_options_are_no_choice() -> None:
    shape = Shape(
        "letters",
        lambda n: {"question": f"Which of them is it in case {n}?", "answer": pick(n, *"ABCD")},
        None,
        None,
        None,
    )
    found = inspected(shape)
    assert found.format == "label"
    assert "options-not-found" in {f.code for f in found.findings}
