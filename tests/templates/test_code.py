"""The template code: programs of replies, and tests and solutions as datasets write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.templates.grading_code import RIGHT, grading, passes
from tests.templates.loading import modules

pytestmark = pytest.mark.anyio
_LOADED = modules("code", "programs", "shape")
programs, shape = _LOADED["programs"], _LOADED["shape"]


# --- the program of a reply ------------------------------------------------------------------------------------------


def test_the_program_is_what_stands_in_the_one_python_block() -> None:
    for reply in (
        f"I add.\n```python\n{RIGHT}\n```\nThat is all.",
        f"```py\n{RIGHT}\n```",
        f"```bash\npip list\n```\n```Python\n{RIGHT}\n```",
        f"```python\n{RIGHT}\n```\n" * 50,
        f"<think>```python\npass\n```</think>```python\n{RIGHT}\n```",
    ):
        assert programs.program(reply) == RIGHT


@pytest.mark.parametrize(
    "reply",
    [
        RIGHT,
        f"```python\n{RIGHT}",
        f"```\n{RIGHT}\n```",
        f"```java\n{RIGHT}\n```",
        f"```python\n{RIGHT}\n```\nno: ```python\npass\n```",
        f"<think>```python\n{RIGHT}\n```</think>",
        f"<think>```python\n{RIGHT}\n```",
        "```python\n\n```",
        f"```python\n{'#' * 60_000}\n```",
        "",
    ],
)
def test_a_reply_without_one_closed_python_block_has_no_program(reply: str) -> None:
    assert programs.program(reply) is None


@pytest.mark.parametrize("code", ["def add(", "(" * 5000, "-" * 40_000 + "1", "x = '\x00'", "to do"])
def test_what_is_no_python_is_told_without_running_or_crashing(code: str) -> None:
    assert not programs.is_python(code)
    assert programs.is_python(RIGHT)


# --- rows of datasets ------------------------------------------------------------------------------------------------


async def read_and_passed(folder: Path, row: dict[str, Any]) -> dict[str, Any]:
    found = shape.canonical(row)
    assert found is not None
    assert await passes(folder, found["solution"], grading.Limits(), **found["answer"])
    return dict(found)


async def test_rows_of_mbpp_show_one_test_and_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "PROMPT_COLUMNS", ("text",))
    row = {
        "task_id": 1,
        "text": "Write a function to add two numbers.",
        "code": "import math\r\ndef sum(a, b):\r\n  return a + b",
        "test_list": ["assert sum(1, 2) == 3", "assert sum(2, 2) == len([1, 2, 3, 4])"],
        "test_setup_code": "import math",
        "challenge_test_list": ["assert sum(-1, 1) == 0"],
    }
    found = await read_and_passed(tmp_path, row)
    assert found["answer"]["names"] == ["sum"]
    assert "assert sum(1, 2) == 3" in found["question"]
    assert "sum(2, 2)" not in found["question"]
    assert "sum(-1, 1)" in found["answer"]["tests"]
    assert not await passes(tmp_path, "def sum(a, b):\n    return 3", **found["answer"])


async def test_rows_of_humaneval_use_what_their_prompt_defines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "PROMPT_COLUMNS", ("prompt",))
    prompt = (
        'from typing import List\n\n\ndef twice(x: int) -> int:\n    """Helper."""\n    return 2 * x\n\n\n'
        'def halves(xs: List[int]) -> List[int]:\n    """Halve all.\n    >>> halves([4])\n    [2]\n    """\n'
    )
    row = {
        "prompt": prompt,
        "canonical_solution": "    return [x // 2 for x in xs]\n",
        "test": "METADATA = {}\n\n\ndef check(candidate):\n    for n in range(3):\n"
        "        assert candidate([twice(n)]) == [n]\n",
        "entry_point": "halves",
    }
    found = await read_and_passed(tmp_path, row)
    assert found["answer"]["names"] == ["halves"]
    cheat = f"{prompt}    return [0]\n\n\ndef twice(x):\n    return 0\n\n\ndef check(candidate):\n    pass\n"
    assert not await passes(tmp_path, cheat, **found["answer"])


async def test_rows_of_apps_are_read_as_programs_and_as_functions(tmp_path: Path) -> None:
    printing = {
        "question": "Add.",
        "solutions": json.dumps(["print(int(input()) + int(input()))"]),
        "input_output": json.dumps({"inputs": ["1\n2\n", "5\n5\n"] * 20, "outputs": ["3\n", "10\n"] * 20}),
    }
    found = await read_and_passed(tmp_path, printing)
    assert len(found["answer"]["cases"]) == 12
    assert "standard input" in found["question"]
    calling = {
        "question": "Pairs.",
        "solutions": json.dumps(["def pairs(a, b):\n    return [(a, b)]"]),
        "input_output": json.dumps(
            {"fn_name": "pairs", "inputs": [[1, 2], [3, 4]], "outputs": [[[[1, 2]]], [[[3, 4]]]]}
        ),
        "starter_code": "def pairs(a, b):\n    ",
    }
    found = await read_and_passed(tmp_path, calling)
    assert found["answer"]["names"] == ["pairs"]
    assert "Begin with" in found["question"]


def test_rows_without_a_solution_are_read_with_what_nothing_else_defines() -> None:
    found = shape.canonical(
        {"question": "Add.", "tests": ["x = 2", "assert add(x, len([1])) == 3", "assert add(0, 0) == 0"]}
    )
    assert found is not None
    assert found["answer"]["names"] == ["add"]
    assert "solution" not in found


@pytest.mark.parametrize(
    "row",
    [
        {"tests": []},
        {"tests": "no code at all"},
        {"tests": ["assert 1 == 1"]},
        {"tests": ["add(1, 2)"]},
        {"test": "def check(candidate):\n    assert candidate(1)"},
        {"input_output": json.dumps({"inputs": ["1"], "outputs": []})},
        {"input_output": "{broken"},
        {"input_output": json.dumps({"inputs": ["1"], "outputs": [""]})},
    ],
)
def test_rows_without_tests_that_test_something_are_left_out(row: dict[str, Any]) -> None:
    assert shape.canonical({"question": "Add.", **row}) is None


def test_repeating_the_task_is_no_program() -> None:
    found = shape.canonical(
        {"question": "Add.\n```python\ndef add(a, b): ...\n```", "tests": ["assert add(1, 2) == 3"]}
    )
    assert found is not None
    assert programs.program(found["question"]) is None
