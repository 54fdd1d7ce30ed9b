"""The template tool_use: its answers, its tools, and whole rollouts with tool calls through the real `vf-eval`."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.templates.turns import Calls, earned, evaluate, said, talking

FOLDER = assembled("tool_use")
DATA = FOLDER / "tool_use_template" / "data"


@pytest.fixture(scope="module")
def pure() -> Iterator[dict[str, ModuleType]]:
    """The modules of the template that need no verifiers; its package is a namespace here, so __init__ does not run."""
    package = ModuleType("tool_use_template")
    package.__path__ = [str(FOLDER / "tool_use_template")]
    sys.modules["tool_use_template"] = package
    names = ("answers", "shape", "calculator", "documents")
    yield {name: importlib.import_module(f"tool_use_template.{name}") for name in names}
    for name in [n for n in sys.modules if n.split(".")[0] == "tool_use_template"]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("reply", "gold", "paid"),
    [
        ("<answer>1,250</answer>", "1250", 1.0),
        ("So it is <answer>12.0 euros</answer>.", "12", 1.0),
        ("<answer>13</answer>", "12", 0.0),
        ("<answer>12</answer> or <answer>13</answer>", "12", 0.0),
        ("<answer>12</answer> again <answer>12</answer>", "12", 1.0),
        ("<think><answer>12</answer></think> I do not know", "12", 0.0),
        ("<answer>12", "12", 0.0),
        ("12", "12", 0.0),
        ("<answer>10+2</answer>", "12", 0.0),
        ("<answer>The Arven Hut.</answer>", "Arven Hut", 1.0),
        ('<answer>"arven  hut"</answer>', "Arven Hut", 1.0),
        ("<answer>not Arven Hut</answer>", "Arven Hut", 0.0),
        ("<answer>Arven Hut, Birkfell Hut</answer>", "Arven Hut", 0.0),
        ("<answer>3 June</answer>", "3 May", 0.0),
        ("<answer>3 may</answer>", "3 May", 1.0),
        ("<answer> </answer>", "Arven Hut", 0.0),
    ],
)
def test_a_reply_is_paid_for_the_one_right_answer_in_tags(
    pure: dict[str, ModuleType], reply: str, gold: str, paid: float
) -> None:
    assert pure["answers"].score(reply, gold) == paid


@pytest.mark.parametrize(
    "reply", ["", "<answer></answer>", "<answer>.</answer>", "<answer>1</answer><answer>2</answer>"]
)
def test_a_reply_without_one_answer_is_not_in_form(pure: dict[str, ModuleType], reply: str) -> None:
    assert not pure["answers"].in_form(reply)


@pytest.mark.parametrize(
    ("raw", "gold"),
    [
        ("5 + 7 = 12\n#### 12", "12"),
        (1250, "1250"),
        ("1,250", "1250"),
        (["Arven  Hut"], "Arven Hut"),
        ("3 May", "3 May"),
    ],
)
def test_golds_become_what_a_reply_should_say(pure: dict[str, ModuleType], raw: Any, gold: str) -> None:
    assert pure["shape"].canonical({"question": "Q?", "answer": raw}) == {"question": "Q?", "answer": gold}


@pytest.mark.parametrize("raw", [None, True, "", "...", ["a", "b"], {"a": 1}, "x" * 400, "a <b> c"])
def test_rows_without_a_short_answer_are_left_out(pure: dict[str, ModuleType], raw: Any) -> None:
    assert pure["shape"].canonical({"question": "Q?", "answer": raw}) is None


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(1250 - 980) * 3", "810"),
        ("7/2", "3.5"),
        ("2**10", "1024"),
        ("-3 + 5", "2"),
        ("0.1+0.2", "0.3"),
        ("6 × 7", "42"),
    ],
)
def test_the_calculator_calculates(pure: dict[str, ModuleType], expression: str, value: str) -> None:
    assert pure["calculator"].calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "1/0",
        "9**9**9**9",
        "__import__('os')",
        "abs(3)",
        "[1]*9",
        "'a'*9",
        "True+1",
        "1e400",
        "(-8)**0.5",
        "(" * 180,
        "1_0.real",
        "x",
        "1,000",
        "1j*1j",
    ],
)
def test_the_calculator_refuses_what_is_no_bounded_arithmetic(pure: dict[str, ModuleType], expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        pure["calculator"].calculate(expression)


def test_the_documents_hold_what_every_question_asks(pure: dict[str, ModuleType]) -> None:
    documents = pure["documents"].load()
    for split in ("train", "eval"):
        for line in (DATA / f"{split}.jsonl").read_text(encoding="utf-8").splitlines():
            question = json.loads(line)["question"]
            huts = re.findall(r"\w+ Hut", question)
            assert len(huts) >= 1
            for hut in huts:
                assert pure["documents"].search(documents, hut)[0].title == hut
                assert pure["documents"].find(documents, hut.upper()) is not None


def test_golds_follow_from_the_documents(pure: dict[str, ModuleType]) -> None:
    documents = pure["documents"].load()
    beds = {d.title: int(re.findall(r"(\d+) beds", d.text)[0]) for d in documents if "beds and" in d.text}
    checked = 0
    for line in (DATA / "train.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if "How many beds" in row["question"]:
            checked += 1
            assert int(row["answer"]) == sum(beds[hut] for hut in re.findall(r"\w+ Hut", row["question"]))
    assert checked >= 8


@pytest.mark.slow
def test_rollouts_call_the_tools_and_are_paid_for_the_final_answer(tmp_path: Path) -> None:
    golds = [json.loads(line) for line in (DATA / "eval.jsonl").read_text(encoding="utf-8").splitlines()]

    def script(messages: list[dict[str, Any]]) -> str | Calls:
        question = messages[1]["content"]
        row = next(g for g in golds if g["question"] == question)
        results = [m["content"] for m in messages if m["role"] == "tool"]
        huts = re.findall(r"\w+ Hut", question)
        if not results:
            return [("search_documents", {"query": huts[0]}), ("read_document", {"title": "No such page"})]
        if len(results) == 2:
            return [("read_document", {"title": hut}) for hut in huts]
        if row is golds[0] and len(results) == 4:
            heights = re.findall(r"at (\d+) m", "\n".join(results))
            return [("calculate", {"expression": " - ".join(sorted(heights, reverse=True))}), ("calculate", "{")]
        if row is golds[0]:
            return f"Therefore <answer>{results[-2]}</answer>"
        return "<answer>-1</answer>" if row is golds[1] else "I give up."

    with talking(script) as model:
        right, wrong, none = evaluate(FOLDER, tmp_path, model.url, tasks=3, split="eval")
    assert not model.failures
    assert {t["function"]["name"] for t in model.tools} == {"search_documents", "read_document", "calculate"}
    assert said(right)[3] == ("tool", said(right)[3][1])
    assert said(right)[3][1].startswith("Arven Hut")
    assert said(right)[-1] == ("assistant", f"Therefore <answer>{golds[0]['answer']}</answer>")
    assert right["metrics"] == {"tool_calls": 6.0, "failed_tool_calls": 2.0}
    assert [round(earned(t), 6) for t in (right, wrong, none)] == [1.1, 0.1, 0.0]
