"""A model that the platform does not offer is refused before anything is sent, by one code, with the list of models."""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.models.offered import (
    DEFAULT_MODEL,
    nearest_offered,
    not_served_finding,
    not_trained_finding,
    or_smaller,
)
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import CONFIG, Desk, NoPages

HUB = "primeintellect/reverse-text@0.2.0"
MODEL = "Qwen/Qwen3-4B-Instruct-2507"
UNKNOWN = "Qwen/Qwen3-8B"
TRAINED = (MODEL, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-VL-4B-Instruct")


def test_a_model_that_is_trained_or_a_platform_without_a_list_is_no_finding() -> None:
    assert not_trained_finding(MODEL, TRAINED) is None
    assert not_trained_finding(UNKNOWN, ()) is None


def test_a_refusal_names_models_of_the_same_kind_and_the_right_spelling_alone() -> None:
    finding = not_trained_finding(UNKNOWN, TRAINED)
    assert finding is not None
    assert (finding.code, finding.severity) == ("model-not-offered", "blocker")
    assert "it trains Qwen/Qwen3-" in finding.message
    assert "VL" not in finding.message
    spelt = not_trained_finding(MODEL.lower(), TRAINED)
    assert spelt is not None
    assert spelt.message.endswith(f'it trains "{MODEL}"')
    assert "serve" in not_served_finding("a/b", ()).message


def test_the_nearest_model_is_of_the_same_series_and_size_and_can_be_trained() -> None:
    served = {MODEL, "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B-Base", "openai/gpt-oss-20b", "Qwen/Qwen3-VL-4B-Instruct"}
    assert nearest_offered("Qwen/Qwen3-1.7B", served, TRAINED) == "Qwen/Qwen3-0.6B"
    assert nearest_offered("Qwen/Qwen3-8B", served, TRAINED) == MODEL
    assert nearest_offered("mistralai/Ministral-8B", served, TRAINED) == MODEL
    assert nearest_offered("Qwen/Qwen3-1.7B", served) == "Qwen/Qwen3-1.7B-Base"
    assert nearest_offered("Qwen/Qwen3-1.7B", ()) is None
    assert nearest_offered("Qwen/Qwen3-4B-Instruct-25007", served, TRAINED) == MODEL  # misspelled
    for nonsense in ("asdf", "some/thing-entirely-else", "gibberish-model"):
        assert nearest_offered(nonsense, served, TRAINED) is None, nonsense
    neither = not_served_finding("Qwen/Qwen3-1.7B", served, TRAINED)
    assert "it can be neither evaluated nor trained" in neither.message
    assert "Qwen/Qwen3-0.6B" in neither.fix
    assert "endpoint" not in not_served_finding("Qwen/Qwen3-1.7B", served, TRAINED, hosted=True).fix


async def created(at: Desk) -> list[str]:
    """Runs and evaluations that were requested of the platform."""
    starts = [*await at.requests("POST", "/training/runs"), *await at.requests("POST", "/hosted-evaluations")]
    return [r["path"] for r in starts if not r["path"].endswith("/prepare")]


@pytest.mark.slow
@pytest.mark.anyio
async def test_every_step_refuses_the_model_by_one_code_and_offers_the_list(at: Desk) -> None:
    calls = Calls(at.lab, TOOLS, NoPages())
    at.config(CONFIG.replace(MODEL, UNKNOWN), "configs/rl/unknown.toml")
    named: list[tuple[str, dict[str, Any]]] = [
        ("run_eval", {"environment": HUB, "model": UNKNOWN, "hosted": True, "dry_run": True}),
        ("run_eval", {"environment": HUB, "model": UNKNOWN, "hosted": True}),
        ("write_training_config", {"environments": [HUB], "model": UNKNOWN}),
        ("write_training_config", {"based_on": "configs/rl/unknown.toml"}),
        ("submit_training", {"environment": HUB, "model": UNKNOWN, "steps": 20}),
        ("submit_training", {"config": "configs/rl/unknown.toml"}),
        ("check_training_config", {"path": "configs/rl/unknown.toml"}),
    ]
    for tool, given in named:
        report = await calls.execute(tool, given)
        blockers = {f.code for f in report.findings if f.severity == "blocker"}
        assert blockers == {"model-not-offered"}, (tool, given, report)
        first = report.next[0]
        if "model" in given or "based_on" in given:  # The call itself, with a model that is offered.
            again = {name: value for name, value in given.items() if name != "dry_run"} | {"model": MODEL}
            assert (first.tool, first.arguments) == (tool, again), (tool, given)
        else:
            assert (first.tool, first.arguments) == ("search_hub", {"kind": "model"}), (tool, given)
    listed = await calls.execute("search_hub", {"kind": "model"})
    assert MODEL in [row["id"] for row in listed.data["models"] if row["trainable"]]
    assert await created(at) == []


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_question_before_a_run_repeats_the_warnings_of_the_config_check(at: Desk) -> None:
    calls = Calls(at.lab, TOOLS, NoPages())
    at.config(CONFIG + "# warned\n", "configs/rl/warned.toml")
    asked: list[str] = []

    async def ask(question: str) -> Any:
        asked.append(question)
        return "declined"

    checked: Report = await calls.execute("check_training_config", {"path": "configs/rl/warned.toml"})
    warnings = [f.message for f in checked.findings if f.severity == "warning"]
    assert warnings
    await calls.execute("submit_training", {"config": "configs/rl/warned.toml"}, ask=ask)
    (question,) = asked
    assert [w for w in warnings if w.rstrip(".") not in question] == []


def test_beside_a_model_that_nobody_asked_for_the_smallest_is_named_that_can_be_trained() -> None:
    trained = ("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-0.6B", "owner/of-unknown-size")
    assert or_smaller(DEFAULT_MODEL, trained) == "; Qwen/Qwen3-0.6B is the smallest that can be trained"
    assert or_smaller("Qwen/Qwen3-0.6B", trained) == or_smaller(DEFAULT_MODEL, ()) == ""
