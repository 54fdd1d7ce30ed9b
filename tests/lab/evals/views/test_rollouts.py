"""The rollouts of an evaluation, most suspicious first."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.evals.views.columns import ViewResult
from prime_lab_mcp.lab.evals.views.difficulty import difficulty_view
from prime_lab_mcp.lab.evals.views.rollouts import (
    GOLD_ABSENT,
    GOLD_UNREWARDED,
    PAGE,
    REASONS,
    SHORT_REWARDED,
    TRUNCATED_REWARDED,
    UNCALLED_REWARDED,
    rollouts_view,
)
from tests.lab.evals.views.evaluations import evaluated, trace

RIGHT, WRONG = "so <answer>214.85</answer>", "so <answer>7</answer>"
GOLD = {"answer": "214.85"}
CUT = {"calls": [{"finish_reason": "length"}]}


def mixed() -> list[dict[str, Any]]:
    """Twenty sound rollouts and one of every suspicious kind."""
    sound = [trace(f"t{i % 5}", float(i % 2), RIGHT if i % 2 else WRONG, data=GOLD, tokens=100) for i in range(20)]
    return [
        *sound,
        trace("unsaid", 1.0, WRONG, data=GOLD, tokens=100),
        trace("denied", 0.0, RIGHT, data=GOLD, tokens=100),
        trace("cut", 1.0, RIGHT, data=GOLD, tokens=100, **CUT),
        trace("short", 1.0, RIGHT, data=GOLD, tokens=5),
        trace("failed", None, "", data=GOLD),
    ]


def tasks(found: ViewResult) -> list[str]:
    return [row["task"] for row in found.data["rollouts"]]


def test_the_suspicious_come_first_each_with_its_reason(tmp_path: Path) -> None:
    found = rollouts_view(evaluated(tmp_path, mixed()))

    assert tasks(found)[:4] == ["unsaid", "denied", "cut", "short"]
    assert [row.get("why") for row in found.data["rollouts"]][:5] == [
        [REASONS[GOLD_ABSENT]],
        [REASONS[GOLD_UNREWARDED]],
        [REASONS[TRUNCATED_REWARDED]],
        [REASONS[SHORT_REWARDED]],
        None,
    ]
    assert sum(found.data["suspicious"].values()) == 4
    assert found.data["rollouts"][4]["reward"] == 1.0
    last = rollouts_view(evaluated(tmp_path, mixed()), page=99)
    assert (last.data["page"], tasks(last)[-1]) == (3, "failed")


def test_replies_that_were_paid_without_a_tool_call_come_first(tmp_path: Path) -> None:
    offered = {"tools": [{"name": "run_sql", "parameters": {}}]}
    guessed = trace("guessed", 1.0, RIGHT, data=GOLD, tokens=100, **offered)
    wrong = trace("missed", 0.0, WRONG, data=GOLD, tokens=100, **offered)
    found = rollouts_view(evaluated(tmp_path, [*mixed(), wrong, guessed]))

    assert tasks(found)[:2] == ["guessed", "unsaid"]
    assert found.data["rollouts"][0]["why"] == [REASONS[UNCALLED_REWARDED]]
    assert found.data["suspicious"][REASONS[UNCALLED_REWARDED]] == 1


@pytest.mark.parametrize(
    ("where", "number"),
    [
        ("all", 25),
        ("zero", 11),
        ("rewarded", 13),
        ("error", 1),
        ("truncated", 1),
        ("suspicious", 4),
        ("task=unsaid", 1),
        ("t1", 4),
        ("task=t1", 4),
        ("reward<0.5", 11),
        ("reward>=1 and tokens<50", 1),
        ("answer=214.85", 25),
        ("stop=agent_completed", 25),
        ("chars!=26", 12),
        ("error=true", 1),
        ("zero and task=t2", 2),
        ("Suspicious", 4),
        ("suspicious=true", 4),
        ("zero and suspicious", 1),
        ("truncated, suspicious", 1),
        ("suspicious and task=t2", 0),
        (REASONS[GOLD_UNREWARDED], 1),
        (REASONS[TRUNCATED_REWARDED], 1),
    ],
)
def test_where_filters(tmp_path: Path, where: str, number: int) -> None:
    found = rollouts_view(evaluated(tmp_path, mixed()), where)
    assert found.data["matching"] == number


@pytest.mark.parametrize("where", ["suspicous", "hacked", "row 99"])
def test_a_word_that_names_no_rollout_is_refused_and_not_answered_with_nothing(tmp_path: Path, where: str) -> None:
    with pytest.raises(EvalError) as refused:
        rollouts_view(evaluated(tmp_path, mixed()), where)
    [following] = refused.value.next
    assert refused.value.code == "filter-unreadable"
    assert following.arguments is not None
    assert rollouts_view(evaluated(tmp_path / "again", mixed()), following.arguments["where"]).data["matching"] > 0


def test_an_answer_without_rollouts_says_so_and_leads_to_all(tmp_path: Path) -> None:
    found = rollouts_view(evaluated(tmp_path, mixed()), "suspicious and task=t2")
    assert found.summary == 'None of 25 rollouts fits where="suspicious and task=t2".'
    assert [(one.tool, (one.arguments or {}).get("view")) for one in found.next] == [("read_eval", "rollouts")]


@pytest.mark.parametrize("where", ["what is this", "reward<", "=3"])
def test_what_is_no_filter_is_refused_with_the_forms_there_are(tmp_path: Path, where: str) -> None:
    with pytest.raises(EvalError) as refused:
        rollouts_view(evaluated(tmp_path, mixed()), where)
    assert refused.value.code == "filter-unreadable"
    assert "reward<0.5" in refused.value.fix


def test_a_field_that_no_rollout_has_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(EvalError) as refused:
        rollouts_view(evaluated(tmp_path, mixed()), "zero and anser=3")
    assert refused.value.code == "field-unknown"
    assert '"answer"' in refused.value.fix


def test_one_rollout_is_shown_with_its_tool_calls_and_stays_within_the_limit(tmp_path: Path) -> None:
    called = {
        "role": "assistant",
        "content": "",
        "reasoning_content": "r" * 9_000,
        "tool_calls": [{"id": "c1", "function": {"name": "look", "arguments": '{"q": "\\u202e"}'}}],
    }
    told = {"role": "tool", "tool_call_id": "c1", "content": 'secret "plans"\n' * 900}
    episodes = [*mixed(), trace("long", 1.0, RIGHT, data=GOLD, messages=[called, told] * 5)]
    found = rollouts_view(evaluated(tmp_path, episodes), episodes[-1]["traces"][0]["id"])

    [row] = found.data["rollouts"]
    assert [m["role"] for m in row["messages"]] == ["user", *["assistant", "tool"] * 5, "assistant"]
    assert row["messages"][1]["calls"][0]["name"] == '"look"'
    assert row["messages"][-1]["text"] == f'"{RIGHT}"'
    assert row["messages"][2]["text"].endswith('\\n"')
    assert 8_000 < len(json.dumps(row)) < 16_000


def test_a_gold_handed_in_by_a_tool_call_is_said(tmp_path: Path) -> None:
    call = {"function": {"name": "submit", "arguments": '{"value": 214.85}'}}
    handed = {"role": "assistant", "content": "", "tool_calls": [call]}
    found = rollouts_view(evaluated(tmp_path, [trace("t", 1.0, "done", data=GOLD, messages=[handed])]))
    assert found.data["suspicious"] == {}


def test_a_reward_that_never_reads_the_answer_and_one_that_pays_anything_are_findings(tmp_path: Path) -> None:
    blind = [trace(f"t{i}", 0.0, RIGHT, data=GOLD) for i in range(10)]
    [finding] = rollouts_view(evaluated(tmp_path / "a", blind)).findings
    assert finding.code == "eval-zero-with-gold"
    generous = [trace(f"t{i}", 1.0, WRONG, data=GOLD) for i in range(10)]
    [finding] = rollouts_view(evaluated(tmp_path / "b", generous)).findings
    assert finding.code == "eval-gold-unsaid"
    honest = [trace(f"t{i}", float(i % 2), RIGHT if i % 2 else WRONG, data=GOLD) for i in range(10)]
    assert rollouts_view(evaluated(tmp_path / "c", honest)).findings == ()


def test_a_format_score_alone_is_a_zero(tmp_path: Path) -> None:
    given = {"weights": {"correct": 1.0, "format_reward": 0.2}, "scores": {"format_reward": 1.0}}
    found = rollouts_view(evaluated(tmp_path, [trace("t", 0.0, WRONG, data=GOLD, **given)]), "zero")
    assert found.data["matching"] == 1


def test_pages_hold_every_rollout_once(tmp_path: Path) -> None:
    here = evaluated(tmp_path, mixed())
    pages = [rollouts_view(here, page=p).data for p in (1, 2, 3)]
    ids = [row["id"] for data in pages for row in data["rollouts"]]
    assert (len(ids), len(set(ids)), pages[0]["pages"], len(pages[0]["rollouts"])) == (25, 25, 3, PAGE)


def test_tasks_are_named_by_row_and_question_and_found_by_that_name(tmp_path: Path) -> None:
    here = evaluated(tmp_path, [trace(f"{n:064x}", 0.0, data={"idx": n}) for n in (7, 12)])

    [first, second] = rollouts_view(here).data["rollouts"]
    assert (first["task"], second["task"]) == ("row 7", "row 12")
    assert first["asked"].startswith('"question 000')
    for where in ("row 12", "task=row 12", f"{12:064x}"):
        [chosen] = rollouts_view(here, where).data["rollouts"]
        assert chosen["id"] == second["id"], where
    listed = [row for rows in difficulty_view(here).data["tasks_in"].values() for row in rows]
    assert [row["task"] for row in listed] == ["row 7", "row 12"]
