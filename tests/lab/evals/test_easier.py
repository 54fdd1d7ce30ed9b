"""Calls after an evaluation in which the model solved almost nothing."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.evals.easier import easier_calls
from tests.lab.evals.test_spec import SPEC

LEVELS = {"name": "level", "type": "Literal", "default": "all", "choices": ["all", "easy", "medium", "hard"]}


def after(code: str, *, args: list[Any] | None = None, truncated: float = 0.0, **given: Any) -> list[tuple[str, Any]]:
    checks = [SimpleNamespace(data={"args": [LEVELS] if args is None else args})]
    lab: Any = SimpleNamespace(key="w", ledger=SimpleNamespace(evidence=lambda *_, **__: checks))
    judged: Any = SimpleNamespace(findings=(Finding(code, "blocker", "m", "f"),), truncation_rate=truncated)  # type: ignore[arg-type]
    calls = easier_calls(lab, dataclasses.replace(SPEC, **given), judged)
    return [(one.tool, dict(one.arguments or {})) for one in calls]


@pytest.mark.parametrize("code", ["distribution-dead", "distribution-all-zero", "distribution-too-hard"])
def test_too_hard_tasks_lead_to_the_easiest_level_and_to_stronger_models(code: str) -> None:
    found = after(code)
    assert found[0][0] == "run_eval"
    assert found[0][1]["env_args"] == {"split": "train", "level": "easy"}
    assert (found[0][1]["model"], found[0][1]["num_examples"]) == ("m", 50)
    assert [tool for tool, _ in found[1:]] == ["search_hub", "read_reference"]


def test_the_easiest_level_is_not_recommended_after_itself_or_where_there_is_none() -> None:
    assert [tool for tool, _ in after("distribution-dead", env_args={"level": "easy"})] == [
        "search_hub",
        "read_reference",
    ]
    assert [tool for tool, _ in after("distribution-dead", args=[])] == ["search_hub", "read_reference"]


def test_replies_that_were_cut_lead_to_a_higher_limit() -> None:
    (longer,) = [given for tool, given in after("distribution-dead", args=[], truncated=0.3) if tool == "run_eval"]
    assert longer["max_tokens"] == 128


def test_other_verdicts_get_none_of_these_calls() -> None:
    assert after("distribution-too-easy") == []
