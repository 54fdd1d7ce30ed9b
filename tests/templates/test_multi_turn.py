"""The template multi_turn: what attempts are worth, what is said after them, and whole rollouts through `vf-eval`."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.templates.turns import earned, evaluate, said, talking

FOLDER = assembled("multi_turn")
RIGHT, WRONG, NONE = "<answer>12</answer>", "<answer>13</answer>", "I do not know"


@pytest.fixture(scope="module")
def turns() -> Iterator[ModuleType]:
    package = ModuleType("multi_turn_template")
    package.__path__ = [str(FOLDER / "multi_turn_template")]
    sys.modules["multi_turn_template"] = package
    yield importlib.import_module("multi_turn_template.turns")
    for name in [n for n in sys.modules if n.split(".")[0] == "multi_turn_template"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("replies", "worth"),
    [
        ([RIGHT], 1.0),
        ([WRONG, RIGHT], 0.85),
        ([NONE, WRONG, RIGHT], 0.7),
        ([WRONG, WRONG, WRONG, RIGHT], 0.55),
        ([WRONG] * 4 + [RIGHT], 0.0),
        ([WRONG] * 4, 0.0),
        ([RIGHT + WRONG], 0.0),
        ([], 0.0),
    ],
)
def test_an_earlier_right_attempt_is_worth_more(turns: ModuleType, replies: list[str], worth: float) -> None:
    assert turns.worth(replies, "12") == pytest.approx(worth)


def test_the_response_ends_the_exchange_when_the_answer_is_right_or_the_last(turns: ModuleType) -> None:
    assert turns.response(RIGHT, "12", 3) is None
    assert turns.response(WRONG, "12", 0) is None


def test_the_response_tells_a_wrong_answer_from_none_and_counts_the_rest(turns: ModuleType) -> None:
    assert turns.response(WRONG, "12", 3) == "That is not right. 3 attempts left."
    assert turns.response(NONE, "12", 1) == "I found no answer in the asked form. 1 attempt left."


@pytest.mark.slow
def test_rollouts_go_on_until_an_attempt_is_right_or_none_is_left(tmp_path: Path) -> None:
    data = (FOLDER / "multi_turn_template" / "data" / "eval.jsonl").read_text(encoding="utf-8").splitlines()
    golds = {row["question"]: (n, row["answer"]) for n, row in enumerate(map(json.loads, data))}

    def script(messages: list[dict[str, Any]]) -> str:
        number, gold = golds[messages[1]["content"]]
        right_at = (0, 2, 9)[number]
        turn = sum(m["role"] == "assistant" for m in messages)
        return f"<answer>{gold}</answer>" if turn == right_at else "<answer>-1</answer>"

    with talking(script) as model:
        first, third, never = evaluate(FOLDER, tmp_path, model.url, tasks=3, split="eval")
    assert not model.failures
    assert [round(earned(t), 6) for t in (first, third, never)] == [1.1, 0.8, 0.1]
    assert [t["metrics"]["attempts"] for t in (first, third, never)] == [1.0, 3.0, 4.0]
    assert [t["metrics"]["solved"] for t in (first, third, never)] == [1.0, 1.0, 0.0]
    assert [role for role, _ in said(third)] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    assert said(third)[3] == ("user", "That is not right. 3 attempts left.")
    assert said(never)[-2] == ("user", "That is not right. 1 attempt left.")
