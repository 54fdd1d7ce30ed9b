"""Word problems of a user as a client meets them: messy data, mixed numbers, a small model."""

from __future__ import annotations

import json
import tomllib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import HostedGpuOffer, PlatformModels
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push
from prime_lab_mcp.server.app import build_server
from tests.tools.test_training_config import Platform, on_hub

pytestmark = pytest.mark.anyio
SMALL, LARGE = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B-Instruct-2507"


@dataclass
class TwoModels(Platform):
    """A platform that trains two models."""

    offered: PlatformModels | None = None

    async def models(self) -> PlatformModels:
        assert self.offered is not None
        return self.offered


@asynccontextmanager
async def connected(settings: Settings) -> AsyncIterator[tuple[Lab, Any]]:
    """A server in this process, and a function that calls its tools through a client."""
    lab = Lab(settings)
    async with Client(build_server(lab)) as client:

        async def call(tool: str, **given: Any) -> dict[str, Any]:
            result = await client.call_tool(tool, given)
            return cast(dict[str, Any], result.structured_content)

        yield lab, call
    await lab.close()


def put(settings: Settings, rows: list[dict[str, Any]]) -> None:
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (settings.workspace / "problems.jsonl").write_text(text, encoding="utf-8")


def calls_of(report: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(one["tool"], one.get("arguments")) for one in report["next"]]


def cake(cups: int, cakes: int, answer: str) -> dict[str, str]:
    return {"problem": f"One cake needs {cups}/12 cups of flour. How many do {cakes} cakes need?", "answer": answer}


async def test_data_that_was_refused_leads_to_its_flaw_and_not_back_to_the_inspection(settings: Settings) -> None:
    rows = [cake(n, 84, str(7 * n)) for n in range(3, 63)]
    put(settings, [*rows, *({**row, "answer": "99"} for row in rows[:3])])
    async with connected(settings) as (_, call):
        inspected = await call("inspect_dataset", dataset="problems.jsonl")
        refused = await call("create_environment", name="cakes", dataset="problems.jsonl")
    page = ("read_reference", {"topic": "finding/conflicting-gold"})
    assert calls_of(inspected) == [page]
    assert calls_of(refused) == [page]


async def test_mended_data_is_taken_under_the_next_free_name(settings: Settings) -> None:
    put(settings, [cake(n, 84, str(7 * n)) for n in range(3, 63)])
    given = {"dataset": "problems.jsonl"}
    async with connected(settings) as (_, call):
        assert (await call("create_environment", name="cakes", **given))["status"] == "passed"
        for taken, free in (("cakes", "cakes_2"), ("cakes-2", "cakes_3")):
            refused = await call("create_environment", name=taken, **given)
            assert calls_of(refused)[0] == ("create_environment", {**given, "name": free})
            made = await call("create_environment", **calls_of(refused)[0][1])
            assert made["status"] == "passed"


@pytest.mark.slow
async def test_a_gold_that_is_a_mixed_number_pays_what_equals_it_and_not_its_digits(settings: Settings) -> None:
    golds = [(cups, cakes, divmod(cups * cakes, 12)) for cups in (5, 7, 11) for cakes in range(5, 16)]
    put(settings, [cake(cups, cakes, f"{whole} {rest}/12") for cups, cakes, (whole, rest) in golds if whole and rest])
    cases = [
        {"name": boxed, "answer": "2 1/12", "completion": f"\\boxed{{{boxed}}}", "expected": expected}
        for boxed, expected in (("25/12", "high"), (r"2\frac{1}{12}", "high"), ("21/12", "low"))
    ]
    async with connected(settings) as (_, call):
        created = await call("create_environment", name="cakes", dataset="problems.jsonl")
        assert (created["status"], created["data"]["template"]) == ("passed", "math")
        tested = await call("test_reward", environment="cakes", cases=cases, search=0, examples=2)
    assert [case["met"] for case in tested["data"]["supplied_cases"]] == [True, True, True]
    assert tested["status"] == "passed", tested["findings"]


@pytest.mark.parametrize(
    ("evaluated", "expected"),
    [
        ([(SMALL, "passed")], SMALL),
        ([(LARGE, "inconclusive"), (SMALL, "passed")], SMALL),
        ([(SMALL, "passed"), (LARGE, "inconclusive")], SMALL),
        ([(SMALL, "passed"), (LARGE, "passed")], LARGE),
        ([(SMALL, "failed")], LARGE),
        ([(SMALL, "passed"), ("openai/gpt-4.1-mini", "passed")], SMALL),
        ([], LARGE),
    ],
)
async def test_a_config_trains_a_model_whose_evaluation_passed_and_of_equals_the_last(
    settings: Settings, evaluated: list[tuple[str, Any]], expected: str
) -> None:
    async with connected(settings) as (lab, call):
        offered = PlatformModels({SMALL: ("H200",), LARGE: ("H200",)}, (HostedGpuOffer("H200", 2.5, True, False),))
        lab.__dict__["prime"] = TwoModels(hub={"alice/tiny-env": on_hub()}, offered=offered)
        lab.ledger.record_push(
            Push(lab.key, "tiny_env", "alice", "tiny-env", "0.1.0", "s", "c", "h", lab.platform, api="v1")
        )
        for place, (model, status) in enumerate(evaluated, 1):
            verdict = Evidence("check_reward_distribution", status, lab.key, "tiny_env", "s", "c", at=float(place))
            lab.ledger.record(replace(verdict, model=model, platform=lab.platform))
        report = await call("write_training_config", environments=["alice/tiny-env@0.1.0"])
        again = await call("write_training_config", environments=["alice/tiny-env@0.1.0"])
    written = tomllib.loads((settings.workspace / report["data"]["path"]).read_text(encoding="utf-8"))
    assert (report["data"]["model"], written["model"]["name"]) == (expected, expected)
    assert again["summary"].startswith("configs/rl/tiny-env.toml is there already, with the same values")
