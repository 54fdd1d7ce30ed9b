"""The v0 templates with tools, turns and groups: whole rollouts on verifiers 0.1.14 with a scripted model."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.assembled import assembled
from tests.support.interpreters import older

PROGRAM = Path(__file__).with_name("v0_rollouts.py")


@pytest.fixture(scope="module")
def python() -> Path:
    """An interpreter with the verifiers that the templates require."""
    return asyncio.run(older()).python


def held_out(kind: str) -> list[dict[str, str]]:
    path = assembled(kind) / f"{kind}_template" / "data" / "eval.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rollouts(python: Path, kind: str, plans: dict[str, list[Any]]) -> dict[str, Any]:
    asked = {"folder": str(assembled(kind)), "module": f"{kind}_template", "plans": plans}
    ended = subprocess.run(
        [str(python), "-I", "-B", str(PROGRAM)],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    found: dict[str, Any] = json.loads(ended.stdout)
    assert {name: one["error"] for name, one in found["outputs"].items()} == dict.fromkeys(plans, "")
    return found


@pytest.fixture
def memory() -> Iterator[ModuleType]:
    """The tools of v0_stateful_tools, without its package, which needs the older verifiers."""
    name = "v0_stateful_tools_template"
    package = ModuleType(name)
    package.__path__ = [str(assembled("v0_stateful_tools") / name)]
    sys.modules[name] = package
    yield importlib.import_module(f"{name}.tools")
    for loaded in [n for n in sys.modules if n.split(".")[0] == name]:
        del sys.modules[loaded]


def test_stored_values_are_used_by_name_and_stay_in_their_memory(memory: ModuleType) -> None:
    mine: dict[str, float] = {}
    assert memory.store("rent_total", "12 * 850", mine) == "rent_total = 10200"
    assert memory.calculate("rent_total / 4", mine) == "2550"
    assert memory.recall(mine) == "rent_total = 10200"
    assert memory.calculate("rent_total / 4", {}).startswith("error")


@pytest.mark.parametrize(("name", "expression"), [("2x", "1"), ("a b", "1"), ("", "1"), ("x", "1/0"), ("x", "y + 1")])
def test_what_cannot_be_stored_is_refused_and_changes_nothing(memory: ModuleType, name: str, expression: str) -> None:
    mine: dict[str, float] = {}
    assert memory.store(name, expression, mine).startswith("error")
    assert mine == {}


def test_the_memory_has_a_bound(memory: ModuleType) -> None:
    mine: dict[str, float] = {}
    said = [memory.store(f"v{n}", "1", mine) for n in range(memory.MOST + 1)]
    assert [s.startswith("error") for s in said] == [False] * memory.MOST + [True]
    assert memory.store("v0", "2", mine) == "v0 = 2"


@pytest.mark.slow
def test_v0_tools_calls_its_tools_and_pays_the_final_answer(python: Path) -> None:
    right, wrong = held_out("v0_tools")[:2]
    huts = re.findall(r"\w+ Hut", right["question"])
    calls: list[Any] = [["read_document", {"title": hut}] for hut in huts]
    found = rollouts(
        python,
        "v0_tools",
        {
            right["question"]: [
                [["search_documents", {"query": huts[0]}], *calls],
                [["calculate", {"expression": "7 * 6"}], ["calculate", {"expression": "7 *"}], ["nope", {}]],
                f"So <answer>{right['answer']}</answer>",
            ],
            wrong["question"]: ["<answer>-1</answer>"],
        },
    )
    one, other = found["outputs"][right["question"]], found["outputs"][wrong["question"]]
    results = [text for role, text in one["said"] if role == "tool"]
    assert results[0].splitlines()[0] == huts[0]
    assert results[1].startswith(f"The {huts[0]} stands at")
    assert (results[-3], results[-2], results[-1][:6]) == ("42", "error: this is no arithmetic expression", "error:")
    assert {tool["name"] for tool in found["tools"]} == {"search_documents", "read_document", "calculate"}
    assert one["metrics"]["total_tool_calls"] == 3 + len(huts) + 1
    assert (round(one["reward"], 6), round(other["reward"], 6)) == (1.1, 0.1)


@pytest.mark.slow
def test_v0_stateful_tools_keeps_a_memory_for_each_rollout(python: Path) -> None:
    first, second = held_out("v0_stateful_tools")[:2]
    found = rollouts(
        python,
        "v0_stateful_tools",
        {
            first["question"]: [
                [["store", {"name": "total", "expression": "20 + 22"}]],
                [["calculate", {"expression": "total * 2", "memory": {"total": 1}}], ["nope", {}]],
                f"<answer>{first['answer']}</answer>",
            ],
            second["question"]: [[["recall", {}], ["calculate", {"expression": "total"}]], "no idea"],
        },
    )
    one, other = found["outputs"][first["question"]], found["outputs"][second["question"]]
    assert [text for role, text in one["said"] if role == "tool"][:2] == ["total = 42", "84"]
    assert [text[:6] for role, text in other["said"] if role == "tool"] == ["nothin", "error:"]
    assert all("memory" not in tool["parameters"]["properties"] for tool in found["tools"])
    assert (round(one["reward"], 6), other["reward"]) == (1.1, 0.0)


@pytest.mark.slow
def test_v0_multi_turn_answers_until_an_attempt_is_right_or_none_is_left(python: Path) -> None:
    first, third, never = held_out("v0_multi_turn")[:3]
    found = rollouts(
        python,
        "v0_multi_turn",
        {
            first["question"]: [f"<answer>{first['answer']}</answer>"],
            third["question"]: ["<answer>-1</answer>", "I do not know", f"<answer>{third['answer']}</answer>"],
            never["question"]: ["<answer>-1</answer>"] * 4,
        },
    )["outputs"]
    rewards = [round(found[row["question"]]["reward"], 6) for row in (first, third, never)]
    assert rewards == [1.1, round(0.7 + 0.1 * 2 / 3, 6), 0.1]
    assert [role for role, _ in found[third["question"]]["said"]] == ["assistant", "user"] * 2 + ["assistant"]
    assert found[third["question"]]["said"][1][1] == "That is not right. 3 attempts left."
    assert found[third["question"]]["said"][3][1] == "I found no answer in the asked form. 2 attempts left."
    assert [found[row["question"]]["stop"] for row in (first, never)] == ["answered_right", "max_turns_reached"]


@pytest.mark.slow
def test_v0_group_scores_each_task_with_the_rubric_of_its_member(python: Path) -> None:
    whole, measured, wrong, rough = held_out("v0_group")[:4]
    found = rollouts(
        python,
        "v0_group",
        {
            whole["question"]: [f"<answer>{whole['answer']}</answer>"],
            measured["question"]: [f"<answer>{float(measured['answer']) * 1.0005:.5f}</answer>"],
            wrong["question"]: [f"<answer>{float(wrong['answer']) * 1.0005:.5f}</answer>"],
            rough["question"]: [f"<answer>{float(rough['answer']) * 1.01:.5f}</answer>"],
        },
    )["outputs"]
    assert "." in measured["answer"]
    assert "." not in wrong["answer"]
    rewards = [round(found[row["question"]]["reward"], 6) for row in (whole, measured, wrong, rough)]
    assert rewards == [1.1, 1.1, 0.1, 0.1]
