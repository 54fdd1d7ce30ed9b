"""Attacks on prices: questions that name less than a run or an evaluation may cost, and ways past the spending cap."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.training.bound import CostBound, bound_cost
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.tools.loopback import CONFIG, Desk, desk

pytestmark = pytest.mark.anyio
HOURLY = 7.0
"""US dollars of the rehearsal's two GPUs an hour."""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def at(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    async with desk(tmp_path_factory.mktemp("prices")) as opened:
        yield opened


def changed(old: str, new: str, text: str = CONFIG) -> str:
    assert old in text
    return text.replace(old, new)


EVALS = """\
[orchestrator.eval]
interval = 1
{examples}

[[orchestrator.eval.source]]
[orchestrator.eval.source.env.taskset]
id = "primeintellect/reverse-text@0.2.0"

[inference]
"""
TOKENS = changed("batch_size = 16", "token_batch_size = 900000000")
EXAMPLES = changed("[inference]\n", EVALS.format(examples="num_examples = 1000000"))
LONG = changed("seq_len = 2048", "seq_len = 131072", changed("max_model_len = 4096", "max_model_len = 132096"))
LARGE = changed("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-235B-A22B-Instruct-2507")
GROUP = changed("group_size = 8", "group_size = 65536")


def bound(text: str) -> CostBound:
    return bound_cost(parse_config(text, Path("configs/rl/x.toml")), HOURLY / 2)


async def submit(at: Desk, text: str, name: str) -> Report:
    at.config(text, f"configs/rl/{name}.toml")
    return await Calls(at.lab, TOOLS, References()).execute("submit_training", {"config": f"configs/rl/{name}.toml"})


def asked(report: Report) -> tuple[float, str]:
    assert report.status == "needs_confirmation", report
    return float(report.data["max_cost"]), str(report.data["question"])


async def test_a_small_run_is_asked_for_with_its_bound_and_its_likely_cost(at: Desk) -> None:
    price, question = asked(await submit(at, CONFIG, "small"))
    assert price == pytest.approx(HOURLY * 2.5)
    assert f"at most ${price:.2f}" in question
    assert "Likely it costs $" in question


@pytest.mark.parametrize(("name", "text", "least"), [("tokens", TOKENS, 100_000.0), ("examples", EXAMPLES, 100_000.0)])
async def test_the_question_names_what_a_huge_batch_or_evaluation_costs(
    at: Desk, name: str, text: str, least: float
) -> None:
    price, question = asked(await submit(at, text, name))
    assert price > least
    assert f"at most ${price:.2f}" in question
    assert "Likely it costs $" in question


@pytest.mark.parametrize(
    ("attack", "times"),
    [(TOKENS, 1000), (EXAMPLES, 1000), (LONG, 5), (LARGE, 5), (GROUP, 100)],
    ids=["token_batch_size", "num_examples", "seq_len", "model", "group_size"],
)
def test_every_key_that_makes_a_run_longer_raises_its_bound(attack: str, times: float) -> None:
    small, large = bound(CONFIG).max_cost, bound(attack).max_cost
    assert small is not None
    assert large is not None
    assert large > times * small


def test_turns_retries_gates_and_steps_of_a_component_raise_the_bound() -> None:
    agent = "[orchestrator.train.source.env.agent]\nmax_turns = 500\n[orchestrator.train.source.env.agent.harness]\n"
    turns = changed("[inference]\n", agent + 'id = "bash"\n[inference]\n')
    retries = changed("[inference]\n", "[orchestrator.train.source.env.retries]\nmax_retries = 50\n[inference]\n")
    steps = changed("max_steps = 20\n", "", CONFIG) + "[x]\n"
    steps = changed("[trainer]\n", "[trainer]\nmax_steps = 9000\n", steps)
    steps = changed("[orchestrator]\n", "[orchestrator]\nmax_steps = 2\n", steps)
    small = bound(CONFIG).max_cost or 0.0
    for attack in (turns, retries, steps):
        assert (bound(attack).max_cost or 0.0) > 3 * small


GATES = '[orchestrator.train.source.curriculum.gates.signal]\ntype = "advantage_range"\n[inference]\n'
ANEW = '[orchestrator.train.source.env.agent.harness]\nid = "bash"\n[inference]\n'


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (changed("max_steps = 20\n", ""), "max_steps"),
        (
            changed("\n[inference.vllm]\nmax_model_len = 4096\n", "", changed("Qwen3-4B-Instruct-2507", "Qwen3-8B")),
            "inference.vllm.max_model_len",
        ),
        (changed("[inference]\n", EVALS.format(examples="")), "orchestrator.eval.num_examples"),
        (changed("[inference]\n", EVALS.format(examples="num_examples = -1")), "orchestrator.eval.num_examples"),
        (changed("[inference]\n", GATES), "orchestrator.train.source.curriculum.gates"),
        (changed("[inference]\n", ANEW), "orchestrator.train.source.env.agent.max_turns"),
    ],
    ids=["steps", "context", "examples", "all-examples", "gates", "turns"],
)
def test_what_cannot_be_bounded_names_the_key_that_bounds_it(text: str, key: str) -> None:
    found = bound(text)
    assert found.max_cost is None
    assert found.key == key
    assert found.fix


async def test_a_run_without_a_bound_is_refused_and_the_named_key_mends_it(at: Desk) -> None:
    refused = await submit(at, changed("[inference]\n", EVALS.format(examples="num_examples = -1")), "all")
    assert refused.status == "blocked", refused
    (finding,) = (f for f in refused.findings if f.severity == "blocker")
    assert (finding.code, finding.where) == ("price-unbounded", "orchestrator.eval.num_examples")
    assert "128" in finding.fix
    mended = await submit(at, changed("[inference]\n", EVALS.format(examples="num_examples = 128")), "some")
    assert asked(mended)[0] > HOURLY


def test_a_model_of_unknown_size_is_as_large_as_its_gpus_can_hold() -> None:
    unknown = bound(changed("Qwen/Qwen3-4B-Instruct-2507", "somebody/mystery")).max_cost
    assert unknown is not None
    assert unknown > 2 * (bound(CONFIG).max_cost or 0.0)
