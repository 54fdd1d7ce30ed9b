"""The template procedural: puzzles of its generator, its answers, and every free step without a dataset."""

from __future__ import annotations

import importlib
import random
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.support.assembled import assembled

FOLDER = assembled("procedural")


@pytest.fixture(scope="module")
def pure() -> Iterator[dict[str, ModuleType]]:
    """The modules of the template that need no verifiers; its package is a namespace here, so __init__ does not run."""
    package = ModuleType("procedural_template")
    package.__path__ = [str(FOLDER / "procedural_template")]
    sys.modules["procedural_template"] = package
    yield {name: importlib.import_module(f"procedural_template.{name}") for name in ("answers", "generator")}
    for name in [n for n in sys.modules if n.split(".")[0] == "procedural_template"]:
        del sys.modules[name]


def counted(question: str) -> int:
    """The counter, worked out from the question alone."""
    value = int(re.findall(r"stands at (\d+)", question)[0])
    for step in question.split(". ")[1:-1]:
        numbers = [int(n) for n in re.findall(r"\d+", step)]
        if step.startswith("Add the sum"):
            value += sum(map(int, str(value)))
        elif step.startswith("Add"):
            value = (value + numbers[0]) % 1000
        elif step.startswith("Double"):
            value = 2 * value % 1000
        elif step.startswith("Multiply"):
            value = value * numbers[0] % 1000
        else:
            value = value // 2 if value % 2 == 0 else value + numbers[0]
    return value


def test_the_gold_of_a_puzzle_follows_from_its_question(pure: dict[str, ModuleType]) -> None:
    for _, made in pure["generator"].puzzles("train", "all", 200, 3):
        assert counted(made.question) == int(made.answer), made


def test_the_same_arguments_give_the_same_distinct_puzzles_whatever_else_is_drawn(pure: dict[str, ModuleType]) -> None:
    puzzles = pure["generator"].puzzles
    first = list(puzzles("train", "all", 120, 0))
    random.seed(5)

    assert first == list(puzzles("train", "all", 120, 0))
    assert first != list(puzzles("train", "all", 120, 1))
    assert len({made.question for _, made in first}) == 120


def test_no_puzzle_is_in_both_splits_with_any_seeds(pure: dict[str, ModuleType]) -> None:
    puzzles = pure["generator"].puzzles
    train = {made.question for seed in range(3) for _, made in puzzles("train", "easy", 1500, seed)}
    held = {made.question for seed in range(3) for _, made in puzzles("eval", "easy", 300, seed)}

    assert not train & held


def test_a_harder_level_has_more_steps_and_levels_take_turns(pure: dict[str, ModuleType]) -> None:
    generator = pure["generator"]
    taken = list(generator.puzzles("train", "all", 9, 0))
    steps = {level: made.question.count(". ") - 1 for level, made in taken}

    assert [level for level, _ in taken] == [*generator.LEVELS] * 3
    assert steps == generator.STEPS


def test_a_generator_that_runs_dry_says_how_many_puzzles_there_are(
    pure: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = pure["generator"]
    monkeypatch.setattr(generator, "puzzle", lambda level, draw: generator.Puzzle(f"{level} {draw.randrange(5)}", "1"))
    with pytest.raises(ValueError, match=r"there are only [1-5] puzzles of level easy, and 20 are asked for"):
        list(generator.puzzles("train", "easy", 20, 0))


@pytest.mark.parametrize(
    ("reply", "paid", "in_form"),
    [
        ("So <answer>1,204</answer>", 1.0, True),
        ("<answer>1204.0</answer>", 1.0, True),
        ("<answer>1205</answer>", 0.0, True),
        ("<answer>1204</answer> or <answer>7</answer>", 0.0, False),
        ("<think><answer>1204</answer></think> 7", 0.0, False),
        ("<answer>602 * 2</answer>", 0.0, False),
        ("1204", 0.0, False),
    ],
)
def test_one_tagged_number_is_an_answer(pure: dict[str, ModuleType], reply: str, paid: float, in_form: bool) -> None:
    assert (pure["answers"].score(reply, "1204"), pure["answers"].in_form(reply)) == (paid, in_form)


@pytest.mark.anyio
async def test_a_template_that_makes_its_own_tasks_takes_no_dataset(lab: Lab) -> None:
    rows = "".join(f'{{"question": "What is {n} + {n}?", "answer": "{2 * n}"}}\n' for n in range(40))
    (lab.workspace.root / "rows.jsonl").write_text(rows, encoding="utf-8")
    refused = await Calls(lab, TOOLS, References()).execute(
        "create_environment", {"name": "counting", "template": "procedural", "dataset": "rows.jsonl"}
    )
    assert [f.code for f in refused.findings] == ["bad-argument"], refused
