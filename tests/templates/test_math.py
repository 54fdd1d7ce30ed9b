"""The math template's comparison of answers and its reading of rows, without verifiers."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import threading
import time

import pytest

from tests.templates.loading import modules

pytestmark = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")
M = modules("math", "answers", "shape", "symbolic")
answers, shape, symbolic = M["answers"], M["shape"], M["symbolic"]


def paid(gold: str, boxed: str) -> float:
    found: float = answers.score(f"So the answer is $\\boxed{{{boxed}}}$. Done.", gold)
    return found


@pytest.mark.parametrize(
    ("gold", "given"),
    [
        ("42", "42.0"),
        ("1200", "1,200"),
        ("1200", r"1{,}200"),
        (r"\frac12", "0.5"),
        (r"\dfrac{1}{2}", "1/2"),
        (r"-\frac{3}{4}", r"\frac{-3}{4}"),
        (r"\frac13", "0.3333"),
        (r"1\frac{1}{2}", "1.5"),
        ("4 7/12", "55/12"),
        ("4 7/12", r"4\frac{7}{12}"),
        ("4 7/12", r"4\frac{7}{12}\text{ cups}"),
        ("55/12", "4 7/12"),
        ("-1 1/2", "-1.5"),
        ("(1 1/2, 3)", "(3/2, 3)"),
        ("12 345 678", "12345678"),
        ("-5", "\u22125"),
        ("5", "x = 5"),
        ("x=5", "5"),
        ("5", r"5 \text{ cm}"),
        (r"5\text{ cm}", "5"),
        (r"2\sqrt{3}\text{ m}", r"2\sqrt3"),
        (r"90^\circ", "90"),
        ("90", r"90^{\circ}"),
        (r"10\%", "10"),
        ("x+1", "1+x"),
        (r"2\sqrt{3}", r"\sqrt{12}"),
        (r"\frac{1}{\sqrt3}", r"\frac{\sqrt{3}}{3}"),
        ("y=2x+1", "2x-y+1=0"),
        ("y=2x+1", "2x+1"),
        ("11-10i", "-10i+11"),
        ("(1,2)", r"\left( 1, 2 \right)"),
        ("[0,1)", r"\left[ 0, 1 \right)"),
        ("1<x<2", "(1,2)"),
        ("(1,2)", "1<x<2"),
        (r"[2,\infty)", r"x \ge 2"),
        (r"(-\infty,0)\cup(1,\infty)", r"(1,\infty)\cup(-\infty,0)"),
        (r"\{1,2\}", r"\{2,1\}"),
        ("1, 2", r"x = 2 \text{ or } x = 1"),
        (r"3\pm\sqrt{5}", r"3-\sqrt5, 3+\sqrt5"),
        ("x=1, y=2", "y=2, x=1"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{bmatrix} 1 & 2 \\ 3 & 4 \end{bmatrix}"),
        ("B", r"\text{(B)}"),
        ("True", r"\text{true}"),
        (r"\text{Tuesday}", "Tuesday"),
        ("101_2", "101_{2}"),
    ],
)
def test_another_spelling_of_the_gold_is_right(gold: str, given: str) -> None:
    assert paid(gold, given) == 1.0


@pytest.mark.parametrize(
    ("gold", "given"),
    [
        ("42", "40+2"),
        ("42", r"\frac{84}{2}"),
        ("42", r"42\%"),
        ("42", r"42 \pm 0"),
        ("42", "1 2 3 42"),
        ("42", "42, 43"),
        ("42", r"42 \text{ or } 43"),
        ("42", r"42 \text{ million}"),
        ("42", "42x"),
        ("42", "142"),
        (r"\frac13", "0.33"),
        (r"5\text{ cm}", r"5\text{ m}"),
        ("x=5", "y=5"),
        ("x+1", "x-1"),
        (r"2\pi", r"2\pi+1"),
        ("(1,2)", "(2,1)"),
        ("(1,2)", "[1,2]"),
        ("(1,2)", "1,2"),
        ("1<x<2", "[1,2]"),
        ("x>2", r"x \geq 2"),
        ("1,2", "1"),
        (r"\{1,2\}", r"\{1,2,2\}"),
        ("x=1, y=2", "2, 1"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2&3&4\end{pmatrix}"),
        (r"\text{east}", r"\text{seat}"),
        ("B", "A B C D"),
        ("101_2", "101_3"),
        ("4 7/12", "47/12"),
        ("47/12", "4 7/12"),
        ("1 2", "12"),
        ("x + 4 7/12", "x + 47/12"),
    ],
)
def test_what_math_verify_or_a_lenient_matcher_would_pay_is_wrong(gold: str, given: str) -> None:
    assert paid(gold, given) == 0.0


GOLDS = (
    "x+1",
    "(1,2)",
    "[0,1)",
    "B",
    "True",
    "9^{9^{9}}",
    r"\text{no such triangle}",
    r"\overline{AB} \parallel",
)


@pytest.mark.parametrize("gold", GOLDS)
def test_every_gold_scores_also_one_that_no_parser_reads(gold: str) -> None:
    assert paid(gold, gold) == 1.0


@pytest.mark.parametrize(
    "reply",
    [
        "42",
        r"\boxed{}",
        r"\boxed{42",
        r"\boxed{\boxed{42}}",
        r"<think>\boxed{42}",
        r"<think>\boxed{42}</think> It is 43.",
        r"<think>\boxed{42}</think> \boxed{43}",
        r"\boxed{42} or rather \boxed{43}",
        r"\boxed{43} or rather \boxed{42}",
        r"\boxed{" * 3000,
        "{" * 100_000,
    ],
)
def test_a_reply_without_one_closed_box_outside_of_thoughts_earns_nothing(reply: str) -> None:
    assert answers.score(reply, "42") == 0.0


@pytest.mark.parametrize(
    "reply",
    [
        r"\boxed{42} and again \boxed{42.}",
        r"\fbox{42}",
        r"\boxed 42",
        r"In \boxed{}: \boxed{42}",
        "</think>\\boxed{42}",
    ],
)
def test_boxes_that_agree_are_one_answer(reply: str) -> None:
    assert answers.score(reply, "42") == 1.0


@pytest.mark.parametrize(
    "given",
    ["9^{9^9}", r"9^{9^{9^{9}}}+x", "x^{99999}", "(10!)!", "99999!", "x" * 399, r"\sqrt{" * 60 + "x" + "}" * 60],
)
def test_towers_and_long_answers_are_refused_at_once(given: str) -> None:
    began = sum(os.times()[:4])  # CPU seconds of this process and its children, whatever else the machine does
    assert paid("x^2+1", given) == 0.0
    assert sum(os.times()[:4]) - began < 1.0


def test_a_comparison_without_end_is_stopped_and_the_next_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "_TOO_HARD", re.compile("(?!)"))
    began = time.monotonic()
    with pytest.raises(symbolic.GaveUp):
        symbolic.equal("x", "x+9^{9^{9^{9}}}-9^{9^{9^{9}}}")
    assert time.monotonic() - began < symbolic._WALL + 2
    assert symbolic.equal("x+1", "1+x")


def test_comparing_works_in_threads_and_leaves_the_event_loop_free() -> None:
    async def all_at_once() -> tuple[list[float], float]:
        gaps, running = [0.0], True

        async def ticking() -> None:
            while running:
                began = time.monotonic()
                await asyncio.sleep(0.01)
                gaps.append(time.monotonic() - began)

        ticker = asyncio.create_task(ticking())
        jobs = [asyncio.to_thread(paid, f"x+{n}", f"{n}+x") for n in range(8)]
        jobs += [asyncio.to_thread(paid, f"x+{n}", f"{n}-x") for n in range(8)]
        found = await asyncio.gather(*jobs)
        running = False
        await ticker
        return found, max(gaps)

    assert threading.current_thread() is threading.main_thread()
    found, longest = asyncio.run(all_at_once())
    assert found == [1.0] * 8 + [0.0] * 8
    assert longest < 0.5


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ({"problem": "p", "solution": r"We see $x=\boxed{3}$, so \boxed{\frac{1}{2}}."}, r"\frac{1}{2}"),  # MATH
        ({"problem": "p", "solution": r"The answer is $\boxed 5$."}, "5"),
        ({"problem": "p", "solution": r"Thus \fbox{12}."}, "12"),
        ({"problem": "p", "solution": "A proof without a box. " * 40}, None),
        ({"problem": "p", "solution": r"It is \boxed{3"}, None),
        (
            {"problem": "p", "answer": r"\left( 3, \frac{\pi}{2} \right)"},
            r"\left( 3, \frac{\pi}{2} \right)",
        ),  # MATH-500
        ({"problem": "p", "answer": 42}, "42"),
        ({"problem": "p", "answer": 2.5}, "2.5"),
        ({"problem": "p", "answer": "proof"}, None),  # NuminaMath-1.5
        ({"problem": "p", "answer": "notfound"}, None),
        ({"problem": "p", "answer": None}, None),
        ({"problem": "", "answer": "3"}, None),
        ({"problem": "p", "answer": ["7"]}, "7"),  # OlympiadBench final_answer
    ],
)
def test_rows_of_public_datasets_become_problem_and_answer(
    row: dict[str, object], answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape, "ANSWER_COLUMN", "solution" if "solution" in row else "answer")
    expected = None if answer is None else {"question": "p", "answer": answer}
    assert shape.canonical(row) == expected
