"""Mathematics: GSM8K, MATH-500, NuminaMath, OpenR1, DAPO, AIME, SVAMP."""

from __future__ import annotations

import pytest

from tests.lab.datasets.shapes.shape import Row, Shape, expected, inspected, pick, told


def gsm8k(n: int) -> Row:
    total = (n + 2) * 431
    return {
        "question": f"Mira{n} packs {n + 2} crates with 431 jars each. How many jars does she pack?",
        "answer": f"She packs {n + 2}*431=<<{n + 2}*431={total}>>{total} jars.\n#### {total:,}",
    }


def math_500(n: int) -> Row:
    answer = pick(
        n, rf"\frac{{{n}}}{{7}}", f"{n}", rf"\left( {n}, \frac{{\pi}}{{2}} \right)", rf"{n}\sqrt{{3}}", r"\text{Evelyn}"
    )
    return {
        "problem": rf"Convert the point $(0,{n})$ in rectangular coordinates to polar coordinates, where $r > 0$.",
        "solution": rf"We have that $r = \sqrt{{0^2 + {n}^2}}$. Therefore the answer is $\boxed{{{answer}}}.$",
        "answer": answer,
        "subject": pick(n, "Precalculus", "Algebra", "Geometry"),
        "level": n % 5 + 1,
        "unique_id": f"test/precalculus/{n}.json",
    }


def numina_cot(n: int) -> Row:
    problem = f"Consider the terms of an arithmetic sequence: $-{n}, y+2, 4y$. Solve for $y$."
    solution = rf"For an arithmetic sequence the differences are equal, so \[ \boxed{{{n + 3}}} \]"
    return {
        "source": pick(n, "synthetic_math", "cn_k12", "orca_math"),
        "problem": problem,
        "solution": solution,
        "messages": [{"content": problem, "role": "user"}, {"content": solution, "role": "assistant"}],
    }


def numina_cot_with_proofs(n: int) -> Row:
    row = numina_cot(n)
    return row if n % 4 else row | {"solution": "We prove it by induction over the number of terms. The base is clear."}


def numina_1_5(n: int) -> Row:
    return {
        "problem": rf"Find the value of $x$ such that $\frac{{x}}{{{n + 2}}} = 3$ holds for all of them.",
        "solution": rf"Multiply both sides, so $x = {3 * n + 6}$ and the answer is \boxed{{{3 * n + 6}}}.",
        "answer": pick(n, f"{3 * n + 6}", rf"\frac{{{n}}}{{2}}", f"x={n}", "proof") if n % 17 else "notfound",
        "problem_type": pick(n, "Algebra", "Geometry"),
        "question_type": pick(n, "math-word-problem", "MCQ", "proof"),
        "problem_is_valid": "Yes",
        "solution_is_valid": "Yes",
        "source": "olympiads",
        "synthetic": False,
    }


def open_r1(n: int) -> Row:
    problem = f"## Task {n}. How many zeros are at the end of the product of the first {n + 20} numbers?"
    return {
        "problem": problem,
        "solution": f"## Solution. Count the factors of five among them, one after the other. Answer: {n + 4}",
        "answer": pick(n, f"{n + 4}", rf"2^{{{n}}}", rf"\frac{{{n}}}{{3}}"),
        "problem_type": "Number Theory",
        "question_type": "math-word-problem",
        "source": "olympiads",
        "uuid": f"586fd646-76d6-5070-8c81-9993ab9d8{n:03d}",
        "is_reasoning_complete": [True, True],
        "generations": [
            f"<think>\nOkay, so I need to find it for {n}.\n</think>\n\nIt is so.",
            "<think>\nOkay\n</think>",
        ],
        "correctness_math_verify": [True, False],
        "correctness_llama": None,
        "finish_reasons": None,
        "correctness_count": 1,
        "messages": [
            {"content": problem, "role": "user"},
            {"content": f"<think>\nOkay, so I need to find it for {n}.\n</think>\n\nIt is so.", "role": "assistant"},
        ],
    }


def dapo(n: int) -> Row:
    text = (
        "Solve the following math problem step by step. The last line of your response should be of the form Answer: "
        f"$Answer (without quotes) where $Answer is the answer to the problem.\n\nWhat is {n} choose 2, plus {n}?\n\n"
        'Remember to put your answer on its own line after "Answer:".'
    )
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": text, "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(n * (n + 1) // 2), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": f"9a9b6eb4-a1cb-49d1-8c1e-62eaf2f74{n:03d}"},
    }


def aime_2024(n: int) -> Row:
    return {
        "ID": f"2024-II-{n}",
        "Problem": f"Among the {n + 900} residents of Aimeville, 195 own a diamond ring. Find the number who own four.",
        "Solution": f"Let $w,x,y,z$ denote the number of residents that own them. So it is $\\boxed{{{n + 73}}}$.",
        "Answer": n + 73,
    }


def aime_hf(n: int) -> Row:
    return {
        "id": 60 + n,
        "problem": f"Every morning Aya goes for a ${n}$-kilometer-long walk and stops at a coffee shop afterwards.",
        "solution": f"$\\frac{{9}}{{s}} + t = 4$ in hours and so on, which gives ${204 + n}$ minutes. "
        f"$\\boxed{{{204 + n}}}$",
        "answer": f"{204 + n:03d}",
        "url": f"https://example.org/wiki/2024_AIME_I_Problems/Problem_{n}",
        "year": "2024",
    }


def svamp(n: int) -> Row:
    return {
        "ID": f"chal-{n}",
        "Body": f"There are {n + 87} oranges and 290 bananas in the collection of Philip. They are organised in "
        f"groups.",
        "Question": "How big is each group of bananas?",
        "Equation": f"( {n + 87}.0 / 2.0 )",
        "Answer": f"{n + 145}.0",
        "Type": pick(n, "Common-Division", "Addition"),
    }


def svamp_concat(n: int) -> Row:
    row = svamp(n)
    return {"question_concat": f"{row['Body']} {row['Question']}", **row}


def gsm_plus(n: int) -> Row:
    return {
        "question": f"The cafe sells {n + 12} cakes at $2.50 each. How much does it take?",
        "solution": f"It takes {n + 12} * 2.5.",
        "answer": pick(n, f"${n + 1},200", f"{n}%", f"{n}.5", f"-{n + 3}", f"{n + 2} dollars"),
        "perturbation_type": "numerical substitution",
    }


SHAPES = [
    Shape("gsm8k", gsm8k, ("question",), "answer", "gsm8k_hash"),
    Shape("MATH-500", math_500, ("problem",), "answer", "latex_math"),
    Shape("NuminaMath-CoT", numina_cot, ("problem",), "solution", "boxed"),
    Shape(
        "NuminaMath-CoT, a quarter proofs",
        numina_cot_with_proofs,
        ("problem",),
        "solution",
        "boxed",
        codes=frozenset({"gold-unparseable"}),
    ),
    Shape("NuminaMath-1.5", numina_1_5, ("problem",), "answer", "latex_math", codes=frozenset({"empty-gold"})),
    Shape("OpenR1-Math", open_r1, ("problem",), "answer", "latex_math"),
    Shape("DAPO-Math-17k", dapo, ("prompt",), "reward_model.ground_truth", "numeric"),
    Shape("AIME_2024", aime_2024, ("Problem",), "Answer", "numeric"),
    Shape("aime_2024 with padded golds", aime_hf, ("problem",), "answer", "numeric"),
    Shape("SVAMP", svamp, ("Body", "Question"), "Answer", "numeric"),
    Shape("SVAMP with question_concat", svamp_concat, ("question_concat",), "Answer", "numeric"),
    Shape("GSM-Plus", gsm_plus, ("question",), "answer", "numeric"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_mathematics_is_recognised(shape: Shape) -> None:
    found = inspected(shape)
    assert told(found) == expected(shape)
    assert shape.codes <= {f.code for f in found.findings}


def test_a_question_without_its_numbers_is_said_to_be_free_of_facts() -> None:
    codes = {f.code: f for f in inspected(Shape("SVAMP", svamp, None, None, None), prompt_column="Question").findings}
    assert codes["fact-free-prompt"].severity == "warning"
    assert '"Body,Question"' in codes["fact-free-prompt"].fix


def test_a_question_with_its_numbers_is_not() -> None:
    for named in ({}, {"prompt_column": "Body,Question"}):
        found = inspected(Shape("SVAMP", svamp, None, None, None), **named)
        assert "fact-free-prompt" not in {f.code for f in found.findings}
