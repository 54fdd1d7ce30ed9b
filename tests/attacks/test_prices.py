"""Attacks on prices: questions that name less than a run or an evaluation may cost, and ways past the spending cap."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.configs.config import parse_config
from prime_lab_mcp.lab.configs.context import ConfigContext, EnvironmentSchemas
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import ASK_AFTER
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.state.ledger.rows import evidence_from
from prime_lab_mcp.lab.state.outcome import Facts
from prime_lab_mcp.lab.training.bound import CostBound, bound_cost
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools import submit_training, watch_run
from prime_lab_mcp.tools.registry import TOOLS
from tests.lab.evals.conftest import write_environment
from tests.lab.evals.scripted import ScriptedModel, adds, serving
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

[orchestrator.eval.source.env.agent.harness]
id = "null"

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


TASKSET = '[orchestrator.train.source.env.taskset]\nid = "primeintellect/reverse-text@0.2.0"\n'
BIG = changed("batch_size = 16", "batch_size = 512", LONG)


def with_tables(tables: str, text: str = BIG) -> str:
    return changed(TASKSET, f"{TASKSET}{tables}\n", text)


@pytest.mark.parametrize(
    "tables",
    [
        "[orchestrator.train.source.env.retries]\nmax_retries = 50",
        "[orchestrator.train.source.env.retries]\nrules = [{max_retries = 50}]",
        "[orchestrator.train.source.env.agent.retries]\nrules = [{max_retries = 25}, {max_retries = 25}]",
    ],
)
def test_retries_raise_the_bound_however_they_are_written(tables: str) -> None:
    plain, repeated = bound(BIG).max_cost, bound(with_tables(tables)).max_cost
    assert plain is not None
    assert repeated is not None
    assert repeated > 20 * plain


def with_class(id: str, extra: str = "") -> str:
    return changed(
        "[orchestrator.train.source.env.taskset]",
        f'[orchestrator.train.source.env]\nid = "{id}"\n{extra}\n[orchestrator.train.source.env.taskset]',
        BIG,
    )


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (with_class("best-of-n"), 4),
        (with_class("best-of-n", "n = 64"), 64),
        (with_class("user-sim", 'assistant.harness.id = "null"'), 2),
        (with_class("agentic-judge", 'solver.harness.id = "null"\njudge.harness.id = "null"'), 2),
    ],
)
def test_an_environment_class_that_plays_several_rollouts_for_one_raises_the_bound(text: str, times: int) -> None:
    plain, several = bound(BIG), bound(text)
    assert plain.hours is not None
    assert several.hours is not None
    # Learning takes no longer than playing here, so that nearly all of the time grows.
    assert several.hours > 0.6 * times * plain.hours


def test_the_bound_says_what_it_assumes_of_files_that_nobody_checked() -> None:
    config = parse_config(CONFIG, Path("configs/rl/x.toml"))
    source = config.train_sources[0]
    checked = ConfigContext(shapes={source.id: EnvironmentSchemas(episode={"own": False, "agents": {"agent": {}}})})
    assert "whose files no check here has seen" in bound_cost(config, HOURLY / 2).why
    assert "no check here" not in bound_cost(config, HOURLY / 2, checked).why


def test_an_unknown_environment_class_has_no_bound() -> None:
    found = bound(with_class("somebody/arena@1.0.0"))
    assert found.max_cost is None
    assert found.key == "orchestrator.train.source.env.id"


@pytest.mark.parametrize("name", ["turns", "num_turns", "max_turns"])
def test_an_argument_of_a_taskset_that_nobody_checked_lowers_no_bound(name: str) -> None:
    limited = changed("[inference]\n", "[orchestrator.train.sampling]\nmax_completion_tokens = 64\n[inference]\n", BIG)
    assert bound(with_tables(f"{name} = 1", limited)).max_cost == bound(limited).max_cost


@pytest.mark.parametrize(
    "text",
    [
        changed("[inference.vllm]", "[inference.vllm]\nenforce_eager = true", BIG),
        changed("[inference.vllm]", '[inference.vllm]\ndtype = "float32"', BIG),
        changed("[orchestrator]", "[orchestrator]\npad_to_multiple_of = 1000000", BIG),
    ],
)
def test_slow_engines_and_padded_samples_raise_the_bound(text: str) -> None:
    plain, slower = bound(BIG).hours, bound(text).hours
    assert plain is not None
    assert slower is not None
    assert slower > 1.5 * plain


def test_rollouts_that_are_cancelled_because_they_are_too_old_raise_the_bound() -> None:
    fresh, usual = (
        bound(changed("[orchestrator]", f"[orchestrator]\nmax_off_policy_steps = {steps}", BIG)).hours
        for steps in (0, 8)
    )
    assert usual == bound(BIG).hours
    assert fresh is not None
    assert usual is not None
    assert fresh > 1.5 * usual


def test_engines_that_use_few_of_the_paid_gpus_raise_the_bound() -> None:
    gpus = "[deployment]\nnum_infer_gpus = 7\n[inference.vllm]"
    all_used = bound(changed("[inference.vllm]", gpus, BIG)).hours
    one_used = bound(changed("[inference.vllm]", f"{gpus}\ndata_parallel_size = 1", BIG)).hours
    assert all_used is not None
    assert one_used is not None
    assert one_used > 3 * all_used


def test_nodes_of_the_inference_server_are_paid_where_only_its_own_table_counts_them() -> None:
    nodes = '[deployment]\ntype = "multi_node"\n{infer}[inference.deployment]\ntype = "multi_node"\nnum_nodes = 8\n'
    implied, written = (
        bound(f"{BIG}{nodes.format(infer=infer)}").price_per_hour for infer in ("", "num_infer_nodes = 8\n")
    )
    assert implied is not None
    assert implied == written


def with_option(option: str) -> str:
    return changed("[inference.vllm]", f"[inference.vllm]\n{option}")


@pytest.mark.parametrize("option", ["max_num_seqs = 1", "max-num-seqs = 1", "max_num_batched_tokens = 16"])
def test_options_of_vllm_that_serve_few_rollouts_at_once_raise_the_bound(option: str) -> None:
    small, large = (
        bound(LONG).max_cost,
        bound(changed("[inference.vllm]", f"[inference.vllm]\n{option}", LONG)).max_cost,
    )
    assert small is not None
    assert large is not None
    assert large > 4 * small


@pytest.mark.parametrize(
    ("option", "key"),
    [
        ("cpu_offload_gb = 200", "cpu_offload_gb"),
        ("gpu_memory_utilization = 0.1", "gpu_memory_utilization"),
        ("num_gpu_blocks_override = 1", "num_gpu_blocks_override"),
        ("max-model-len = 999999", "max-model-len"),
        ("an_option_of_tomorrow = 1", "an_option_of_tomorrow"),
    ],
)
def test_options_of_vllm_whose_cost_is_not_known_have_no_bound(option: str, key: str) -> None:
    found = bound(with_option(option))
    assert (found.max_cost, found.key) == (None, f"inference.vllm.{key}")


@pytest.mark.parametrize(
    "option", ["enforce_eager = false", "gpu_memory_utilization = 0.9", "tensor_parallel_size = 1", "swap_space = 4"]
)
def test_ordinary_options_of_vllm_keep_the_bound(option: str) -> None:
    assert bound(with_option(option)).max_cost == bound(CONFIG).max_cost


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


SERVE = "[orchestrator.train.source.serve]\nmax_concurrent = 1\n\n[inference]\n"
SLOWER = {
    "tasks a minute": changed("batch_size = 16", "batch_size = 16\ntasks_per_minute = 1"),
    "one at once": changed("[inference]\n", "[orchestrator.concurrency]\nmax_inflight = 1\n\n[inference]\n"),
    "one at once in the environment": changed("[inference]\n", SERVE),
    "evaluations one at once": changed(
        "[inference]\n",
        EVALS.format(examples="num_examples = 200"),
        changed("batch_size = 16", "batch_size = 16\nconcurrency.max_inflight = 1"),
    ),
}


@pytest.mark.parametrize("slower", SLOWER)
def test_what_limits_how_many_rollouts_run_or_start_raises_the_bound(slower: str) -> None:
    usual = changed("[inference]\n", EVALS.format(examples="num_examples = 200")) if "eval" in slower else CONFIG
    small, large = bound(usual).max_cost, bound(SLOWER[slower]).max_cost
    assert small is not None
    assert large is not None
    assert large > 1.5 * small


def test_limits_above_what_a_run_needs_leave_its_bound() -> None:
    roomy = changed("[inference]\n", "[orchestrator.concurrency]\nmax_inflight = 4096\n\n[inference]\n")
    assert bound(roomy).max_cost == bound(CONFIG).max_cost


def test_turns_retries_gates_and_steps_of_a_component_raise_the_bound() -> None:
    turns = changed('[orchestrator.train.source.env.agent.harness]\nid = "null"\n', AGENT)
    retries = changed("[inference]\n", "[orchestrator.train.source.env.retries]\nmax_retries = 50\n[inference]\n")
    steps = changed("max_steps = 20\n", "", CONFIG) + "[x]\n"
    steps = changed("[trainer]\n", "[trainer]\nmax_steps = 9000\n", steps)
    steps = changed("[orchestrator]\n", "[orchestrator]\nmax_steps = 2\n", steps)
    small = bound(CONFIG).max_cost or 0.0
    for attack in (turns, retries, steps):
        assert (bound(attack).max_cost or 0.0) > 3 * small


AGENT = '[orchestrator.train.source.env.agent]\nmax_turns = 500\nharness.id = "bash"\n'
GATES = '[orchestrator.train.source.curriculum.gates.signal]\ntype = "advantage_range"\n[inference]\n'


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
        (changed('id = "null"', 'id = "bash"'), "orchestrator.train.source.env.agent.max_turns"),
    ],
    ids=["steps", "context", "examples", "all-examples", "gates", "turns"],
)
def test_what_cannot_be_bounded_names_the_key_that_bounds_it(text: str, key: str) -> None:
    found = bound(text)
    assert found.max_cost is None
    assert found.key == key
    assert found.fix


@pytest.mark.parametrize(
    ("deployment", "key"),
    [
        ('type = "multi_node"\nnum_train_nodes = -3\nnum_infer_nodes = 1', "deployment.num_train_nodes"),
        ('type = "multi_node"\nnum_train_nodes = 0\nnum_infer_nodes = 1', "deployment.num_train_nodes"),
        (
            'type = "multi_node"\nnum_train_nodes = -1\nnum_infer_nodes = 1\ngpus_per_node = -8',
            "deployment.gpus_per_node",
        ),
        ("num_train_gpus = -1\nnum_infer_gpus = 3", "deployment.num_train_gpus"),
        ("num_train_gpus = 4\nnum_infer_gpus = -2", "deployment.num_infer_gpus"),
    ],
)
async def test_a_run_with_fewer_gpus_than_none_has_no_bound_and_is_refused(at: Desk, deployment: str, key: str) -> None:
    text = changed("[inference]\n", f"[deployment]\n{deployment}\n\n[inference]\n")
    found = bound(text)
    assert (found.max_cost, found.key) == (None, key)
    refused = await submit(at, text, "few")
    assert refused.status == "blocked", refused
    assert "config-gpus" in {finding.code for finding in refused.findings}


async def test_a_run_without_a_bound_is_refused_and_the_named_key_mends_it(at: Desk) -> None:
    refused = await submit(at, changed("[inference]\n", EVALS.format(examples="num_examples = -1")), "all")
    assert refused.status == "blocked", refused
    (finding,) = (f for f in refused.findings if f.severity == "blocker")
    assert (finding.code, finding.where) == ("price-unbounded", "orchestrator.eval.num_examples")
    assert "128" in finding.fix
    mended = await submit(at, changed("[inference]\n", EVALS.format(examples="num_examples = 128")), "some")
    assert asked(mended)[0] > HOURLY


async def test_a_run_that_ended_counts_with_its_real_cost(at: Desk) -> None:
    at.config(changed("max_steps = 20", "max_steps = 1"), "configs/rl/real.toml")
    before = at.lab.ledger.spent("rehearsal")
    started = await at.call(submit_training.TOOL, config="configs/rl/real.toml")
    assert at.lab.ledger.spent("rehearsal") == pytest.approx(before + started.data["max_cost"])
    await at.tell("/rehearsal/clock", advance=3600)
    ended = await at.call(watch_run.TOOL, id=started.data["id"])
    assert ended.data["status"] == "COMPLETED"
    real = ended.data["spend"]["total"]
    assert 0 < real < started.data["max_cost"]
    assert at.lab.ledger.spent("rehearsal") == pytest.approx(before + real, abs=0.01)


def test_a_model_of_unknown_size_is_as_large_as_its_gpus_can_hold() -> None:
    unknown = bound(changed("Qwen/Qwen3-4B-Instruct-2507", "somebody/mystery")).max_cost
    assert unknown is not None
    assert unknown > 2 * (bound(CONFIG).max_cost or 0.0)


PRICE = {"input_usd_per_mtok": 10.0, "output_usd_per_mtok": 10.0}
"""At this price one task with one rollout and 1000 tokens reserves 4 x $0.02."""
EACH = 0.08


@asynccontextmanager
async def server(folder: Path, cap: float | None = None) -> AsyncIterator[Calls]:
    """One more server on the workspace and state directory of `folder`."""
    settings = Settings(workspace=folder / "workspace", state_dir=folder / "state", max_spend=cap)
    lab = Lab(settings)
    yield Calls(lab, TOOLS, References())
    await lab.close()


async def provable(calls: Calls) -> None:
    """The environment whose reward was tested: what stands before an evaluation."""
    lab = calls.lab
    write_environment(lab.settings.workspace)
    snapshot = await lab.snapshot("sums_v1")
    for tool in ("check_environment", "test_reward"):
        lab.ledger.record(
            evidence_from(
                tool, "passed", lab.key, snapshot, (), Facts(), lab.platform, {}, {"api": "v1", "loads": True}
            )
        )


async def evaluate(calls: Calls, at: ScriptedModel, **given: Any) -> Report:
    arguments = {"environment": "sums_v1", "model": "paid", "endpoint": at.url, "rollouts": 1, "max_tokens": 1000}
    return await calls.execute("run_eval", arguments | {"num_examples": 1, "wait_seconds": 0} | given)


def only_code(report: Report) -> str:
    return next(f.code for f in report.findings if f.severity == "blocker")


@pytest.mark.slow
async def test_evaluations_of_several_servers_at_once_do_not_pass_a_cap_together(tmp_path: Path) -> None:
    gate = threading.Event()
    with serving(adds, gate) as model:
        model.prices = {"paid": PRICE}
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(server(tmp_path, cap=2.5 * EACH)) for _ in range(2)]
            await provable(servers[0])
            reports: list[Report] = []

            async def one(calls: Calls, temperature: float) -> None:
                reports.append(await evaluate(calls, model, temperature=temperature))

            await evaluate(servers[0], model, num_examples=1000)  # checks the environment once, and is over the cap
            async with anyio.create_task_group() as tasks:
                for number in range(4):
                    tasks.start_soon(one, servers[number % 2], 0.1 * (number + 1))
            ledger = servers[0].lab.ledger
            assert sum(r.status == "running" for r in reports) == 2, reports
            assert {only_code(r) for r in reports if r.status != "running"} == {"over-cap"}
            assert ledger.spent("prime") == pytest.approx(2 * EACH)
            gate.set()
            for job in EvaluationJobs(servers[0].lab).list():
                ended = await EvaluationJobs(servers[0].lab).wait(job.id, 90, _unheard)
                assert ended.state == "finished", ended
            real = 2 * (10 + 5) * 10.0 / 1e6
            assert ledger.spent("prime") == pytest.approx(real)
            again = await evaluate(servers[1], model, temperature=0.9)
            assert again.status == "running", again
            await EvaluationJobs(servers[1].lab).stop(str(again.data["id"]))


async def _unheard(done: float, total: float | None, message: str) -> None:
    """Progress that nobody follows."""


@pytest.mark.slow
async def test_small_evaluations_add_up_to_a_question(tmp_path: Path) -> None:
    with serving(adds) as model:
        model.prices = {"paid": PRICE}
        async with server(tmp_path) as calls:
            await provable(calls)
            ledger = calls.lab.ledger
            ledger.reserve("earlier", ASK_AFTER - EACH / 2, "evaluations", "prime", None, asked=False)
            report = await evaluate(calls, model)
            price, question = asked(report)
            assert price == pytest.approx(EACH)
            assert "since the last question" in question
            assert "likely about $0.01" in question
            assert f"at most ${EACH:.2f}" in question
            assert EvaluationJobs(calls.lab).list() == []
            agreed = await evaluate(calls, model, confirm=report.data["confirm"], wait_seconds=90)
            assert agreed.data["state"] == "finished", agreed
            assert agreed.data["estimate"]["at_most"] == pytest.approx(EACH)
            assert ledger.unasked("prime") == 0.0
            # A rollout failed, so that the same call resumes it and pays again: the old answer was for the first time.
            job = EvaluationJobs(calls.lab).list()[0]
            ledger.update_job(job.id, progress={**job.progress, "errors": 1})
            ledger.reserve("later", ASK_AFTER - EACH / 2, "evaluations", "prime", None, asked=False)
            again = await evaluate(calls, model, confirm=report.data["confirm"])
            assert again.status == "needs_confirmation", again
            assert again.data["confirm"] != report.data["confirm"]


@pytest.mark.slow
async def test_an_endpoint_without_a_price_is_refused_under_a_cap_and_asked_about_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prime_lab_mcp.lab.relay import endpoints

    with serving(adds) as model:
        async with server(tmp_path, cap=100.0) as calls:
            await provable(calls)
            free = await evaluate(calls, model, model="scripted", wait_seconds=90)
            assert free.data["state"] == "finished", free
            monkeypatch.setattr(endpoints, "resolve_endpoint", lambda *_: _keyed(model))
            refused = await evaluate(calls, model, model="scripted", temperature=0.5)
            assert (refused.status, only_code(refused)) == ("blocked", "price-unknown"), refused
        async with server(tmp_path) as calls:
            report = await evaluate(calls, model, model="scripted", temperature=0.5)
            assert report.status == "needs_confirmation", report
            assert "lists no price" in str(report.data["question"])


def _keyed(model: ScriptedModel) -> Any:
    from prime_lab_mcp.lab.relay.endpoints import Endpoint, EndpointAccess

    return EndpointAccess(Endpoint("mine", model.url, "MY_KEY"), "a-key")


def test_a_ledger_of_the_first_version_opens_and_counts_its_spend(tmp_path: Path) -> None:
    import re
    import sqlite3

    from prime_lab_mcp.lab.state.ledger.database import schema_statements
    from prime_lab_mcp.lab.state.ledger.ledger import Ledger

    path = tmp_path / "ledger.sqlite"
    with sqlite3.connect(path) as db:
        for statement in schema_statements():
            db.execute(re.sub(r", asked INTEGER[^)]*", "", statement))
        db.execute("INSERT INTO spend (at, intent, amount, what, platform) VALUES (1, 'i', 2.5, 'w', 'prime')")
        db.execute("PRAGMA user_version = 1")
    db.close()
    ledger = Ledger(path)
    assert (ledger.spent("prime"), ledger.unasked("prime")) == (2.5, 0.0)
    assert ledger.reserve("j", 0.5, "evaluation", "prime", None, asked=False)
    assert ledger.unasked("prime") == 0.5
    ledger.correct("j", "prime", 0.1)
    assert ledger.spent("prime") == pytest.approx(2.6)
    ledger.close()


async def test_the_docker_service_is_asked_about_whatever_the_evaluation_costs(tmp_path: Path) -> None:
    with serving(adds) as model:
        async with server(tmp_path, cap=100.0) as calls:
            await provable(calls)
            report = await evaluate(calls, model, model="scripted", runtime="docker")
            assert report.status == "needs_confirmation", report
            assert "can read and change everything here" in str(report.data["question"])
            assert EvaluationJobs(calls.lab).list() == []
