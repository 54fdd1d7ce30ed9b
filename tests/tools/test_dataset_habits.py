"""`inspect_dataset` and `create_environment` on habits of published datasets: proofs, booleans, chats."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.tools import create_environment
from tests.tools.test_create_environment import created, lines, scored
from tests.tools.test_inspect_dataset import inspected, write

pytestmark = pytest.mark.anyio
Rows = list[dict[str, Any]]


def solutions(boxed: int, of: int = 120) -> Rows:
    """Olympiad problems whose solutions end in a box, but for the proofs among them."""
    return [
        {
            "problem": f"Let n{n} be the number of ways to tile a board of {n + 3} squares. Determine or bound it.",
            "solution": f"Consider the first square. By induction the count grows, step {n}. "
            + (f"Hence the answer is $\\boxed{{{3 * n + 7}}}$." if n % of < boxed else "This proves the claim. QED"),
        }
        for n in range(of)
    ]


def codes(outcome: Outcome) -> dict[str, str]:
    return {f.code: f.severity for f in outcome.findings}


@pytest.mark.parametrize("boxed", [72, 100, 118])
async def test_where_most_solutions_end_in_a_box_the_box_is_the_answer_and_proofs_are_counted(
    lab: Lab, boxed: int
) -> None:
    write(lab, "olympiad.jsonl", solutions(boxed))
    found = await inspected(lab, "olympiad.jsonl")

    assert found.data["answer"]["format"] == "boxed"
    assert found.status == "passed"
    finding = next(f for f in found.findings if f.code == "gold-unparseable")
    assert finding.severity == "warning"
    assert finding.message.startswith(f"{120 - boxed} of 120 rows")


async def test_an_environment_of_solutions_leaves_the_proofs_out_and_never_takes_them_for_answers(lab: Lab) -> None:
    write(lab, "olympiad.jsonl", solutions(80))
    made = await created(lab, name="olympiad", dataset="olympiad.jsonl")

    assert made.status == "passed", made.findings
    assert "40 whose solution holds no answer in a \\boxed{}" in next(
        f.message for f in made.findings if f.code == "rows-left-out"
    )
    data = lab.workspace.root / "environments" / "olympiad" / "olympiad" / "data"
    golds = [row["answer"] for name in ("train", "eval") for row in lines(data / f"{name}.jsonl")]
    assert len(golds) == 80
    assert all(gold.isdigit() for gold in golds)


async def test_booleans_in_every_spelling_are_one_answer(lab: Lab) -> None:
    spellings = [True, "True", 1, "yes", "1"]
    rows = [
        {"question": f"Is statement {n} about the harbour true?", "answer": v if n % 3 else str(n % 2 == 0)}
        for n, v in zip(range(160), itertools.cycle(spellings), strict=False)
    ]
    rows += [{"question": rows[n]["question"], "answer": "yes"} for n in range(1, 3)]
    write(lab, "booleans.jsonl", rows)
    found = await inspected(lab, "booleans.jsonl")

    assert found.data["answer"]["format"] == "boolean"
    assert not {"conflicting-gold", "mixed-format", "gold-unparseable", "format-uncertain"} & codes(found).keys()
    assert "majority-floor" in codes(found)


async def test_the_opposite_boolean_is_still_a_conflict(lab: Lab) -> None:
    rows = [
        {"question": f"Is statement {n % 80} about the harbour true?", "answer": "yes" if n < 80 else 0}
        for n in range(160)
    ]
    write(lab, "opposites.jsonl", rows)
    assert codes(await inspected(lab, "opposites.jsonl"))["conflicting-gold"] == "blocker"


async def test_a_chat_set_says_that_no_rule_can_check_it_and_names_the_call_with_a_judge(lab: Lab) -> None:
    rows = [
        {
            "messages": [
                {"role": "user", "content": f"Write a short letter about topic {n}, please."},
                {
                    "role": "assistant",
                    "content": f"Dear reader, let me tell you of topic {n} at some length, as asked.",
                },
            ]
        }
        for n in range(120)
    ]
    write(lab, "chats.jsonl", rows)
    found = await inspected(lab, "chats.jsonl")

    finding = next(f for f in found.findings if f.code == "no-checkable-answer")
    assert "judge" in finding.fix
    following = found.next[0]
    assert (following.tool, (following.arguments or {})["template"]) == ("create_environment", "free_text")
    made = await created(
        lab, **create_environment.Args.model_validate(following.arguments).model_dump(exclude_unset=True)
    )
    assert made.status == "passed", made.findings


async def test_whole_sample_rows_and_token_lengths_are_in_the_result(lab: Lab) -> None:
    rows = [*solutions(120), {"problem": "word " * 400, "solution": "It is $\\boxed{5}$."}]
    write(lab, "olympiad.jsonl", [row | {"level": n % 5} for n, row in enumerate(rows)])
    data = (await inspected(lab, "olympiad.jsonl")).data

    assert [row["row"] for row in data["sample_rows"]] == [0, 60, 120]
    assert set(data["sample_rows"][0]["values"]) == {"problem", "solution", "level"}
    assert data["sample_rows"][1]["values"]["level"] == 0
    assert data["token_lengths"]["prompt"]["max"] == pytest.approx(500, abs=2)
    assert data["token_lengths"]["prompt"]["p50"] < 40
    assert len(json.dumps(data["sample_rows"])) < 4000


def levelled(number: int = 120) -> Rows:
    """Word problems with the other columns that published sets have."""
    return [
        {
            "question": f"Bo{n} packs {n + 2} crates with 31 jars each. How many jars are packed?",
            "answer": f"{(n + 2) * 31}",
            "level": n % 4,
            "category": ("sums", "products")[n % 2],
            "rationale": f"{n + 2} times 31",
            "tags": ["a", "b"],
        }
        for n in range(number)
    ]


@pytest.mark.slow
async def test_other_columns_are_carried_into_the_tasks_and_select_them(lab: Lab) -> None:
    write(lab, "crates.jsonl", levelled())
    made = await created(lab, name="crates", dataset="crates.jsonl")

    assert made.status == "passed", made.findings
    assert made.data["metadata"] == ["level", "category"]
    folder = lab.workspace.root / "environments" / "crates"
    row = lines(folder / "crates" / "data" / "train.jsonl")[0]
    assert set(row) == {"question", "answer", "metadata"}
    where = {"level": [1, 2], "category": ["sums"]}
    asked = {"folder": str(folder), "id": "crates", "args": {"where": where}, "replies": ["<answer>GOLD</answer>"]}
    told = [row["metadata"] for row in lines(folder / "crates" / "data" / "train.jsonl")]
    assert scored(asked)["tasks"] == sum(m["level"] == 2 for m in told) > 0  # level 1 has products only
    assert "`level`" in (folder / "README.md").read_text(encoding="utf-8")


async def test_a_v0_environment_carries_the_columns_as_info(lab: Lab) -> None:
    write(lab, "crates.jsonl", levelled())
    made = await created(lab, name="crates", dataset="crates.jsonl", api="v0")

    assert made.status == "passed", made.findings
    code = (lab.workspace.root / "environments" / "crates" / "crates" / "environment.py").read_text(encoding="utf-8")
    assert "where: dict[str, list[Any]] | None = None" in code
