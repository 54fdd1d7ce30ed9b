"""The example competition_math: its golds, its guard against copying, its levels; without verifiers."""

from __future__ import annotations

import importlib.util

import pytest

from tests.conftest import EXAMPLES
from tests.environments.pure_modules import pure_modules
from tests.support.assembled import assembled

pytestmark = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")
grading, rows = pure_modules("competition_math", "grading", "rows")
SHARED = ("boxes", "latex", "numbers", "symbolic", "equality")
PRODUCT = "Expand the product $(x + 1)(x + 2)$."


@pytest.mark.parametrize("module", SHARED)
def test_answers_are_compared_as_in_the_math_template(module: str) -> None:
    mine = (EXAMPLES / "competition_math" / "competition_math" / f"{module}.py").read_text(encoding="utf-8")
    theirs = (assembled("math") / "math_template" / f"{module}.py").read_text(encoding="utf-8")
    assert mine == theirs.replace("math_template", "competition_math")


@pytest.mark.parametrize("answer", ["x^2 + 3x + 2", "x^{2}+2+3x"])
def test_the_expanded_product_is_right(answer: str) -> None:
    assert grading.right(rf"\boxed{{{answer}}}", "x^2 + 3x + 2", PRODUCT)


@pytest.mark.parametrize("answer", ["(x + 1)(x + 2)", r"\left(x+1\right)\left(x+2\right)"])
def test_the_product_copied_from_the_problem_is_not(answer: str) -> None:
    assert grading.copied(answer, PRODUCT)
    assert not grading.right(rf"\boxed{{{answer}}}", "x^2 + 3x + 2", PRODUCT)


def test_a_side_of_an_equation_of_the_problem_is_copied_too() -> None:
    assert grading.copied(r"2^{10}", "Let $n = 2^{10}$. What is $n$?")


def test_an_answer_that_the_problem_names_letter_by_letter_still_counts() -> None:
    problem = r"Which is larger, $2\sqrt{3}$ or $3\sqrt{2}$?"
    assert grading.right(r"\boxed{3\sqrt2}", r"3\sqrt{2}", problem)


@pytest.mark.parametrize("answer", ["12", "-7", "x"])
def test_numbers_and_letters_of_the_problem_are_no_copies(answer: str) -> None:
    assert not grading.copied(answer, "Solve $x = 12$ and $y = -7$.")


def test_every_gold_of_the_sample_is_right_and_every_level_is_there() -> None:
    found = [problem for split in ("train", "test") for problem in rows.problems("sample", split)]
    assert len(found) >= 140
    assert {problem.level for problem in found} == {1, 2, 3, 4, 5}
    for problem in found:
        gold = grading.gold_of(problem.solution)
        assert grading.right(rf"\boxed{{{gold}}}", gold, problem.text), problem


def test_the_splits_of_the_sample_have_no_problem_in_common() -> None:
    train, held = ({p.text for p in rows.problems("sample", split)} for split in ("train", "test"))
    assert len(train) >= 100
    assert not train & held
