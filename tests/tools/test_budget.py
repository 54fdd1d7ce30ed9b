"""A budget in dollars, as an agent gives it: to the config writer, to a submission and to an evaluation."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import BudgetError, LabError
from prime_lab_mcp.lab.configs.config import parse_config, read_config
from prime_lab_mcp.lab.configs.context import ConfigContext, SourceMeasurement
from prime_lab_mcp.lab.configs.rules.step import shorter_limit, usable_signal
from prime_lab_mcp.lab.evals.plan import EvalRequest
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.evals.spec import HEADROOM
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import HostedGpuOffer
from prime_lab_mcp.lab.relay.endpoints import Price
from prime_lab_mcp.lab.state.ledger.rows import Evidence, Push, Run
from prime_lab_mcp.lab.training.bound import bound_from_ledger
from prime_lab_mcp.lab.training.outcome import tasks_of_evaluation
from prime_lab_mcp.tools import submit_training
from prime_lab_mcp.tools.tool import Intent
from tests.lab.evals.finished import finished, mixed
from tests.tools.test_training_config import PINNED, Platform, call, check, on_hub, pushed, write

pytestmark = pytest.mark.anyio
PRICE = 2.5
HELD_OUT = {"split": "eval"}


@pytest.fixture
def platform(lab: Lab) -> Platform:
    found = Platform(hub={"alice/tiny-env": on_hub()})
    lab.__dict__["prime"] = found
    return found


def bound(lab: Lab, path: str) -> float:
    most = bound_from_ledger(lab, read_config(lab.workspace.resolve(path)), PRICE).max_cost
    assert most is not None
    return most


async def test_a_budget_chooses_the_most_steps_whose_bound_fits(lab: Lab, platform: Platform) -> None:
    free = await write(lab, environments=[PINNED], eval=HELD_OUT)
    fitted = await write(lab, environments=[PINNED], eval=HELD_OUT, budget=60)
    assert bound(lab, free.data["path"]) > 60
    steps = fitted.data["budget"]["steps"]
    assert 50 <= steps < 200
    assert fitted.data["budget"]["at_most"] == bound(lab, fitted.data["path"]) <= 60
    more = await write(lab, environments=[PINNED], eval=HELD_OUT, steps=steps + 1)
    assert bound(lab, more.data["path"]) > 60
    assert "budget of $60.00" in lab.workspace.resolve(fitted.data["path"]).read_text(encoding="utf-8")
    assert "at most $" in fitted.summary


async def test_a_budget_that_holds_everything_changes_nothing(lab: Lab, platform: Platform) -> None:
    free = await write(lab, environments=[PINNED])
    fitted = await write(lab, environments=[PINNED], budget=100_000)
    assert (fitted.data["path"], fitted.data["existed"]) == (free.data["path"], True)


async def test_a_tight_budget_evaluates_less_before_it_gives_up(lab: Lab, platform: Platform) -> None:
    fitted = await write(lab, environments=[PINNED], eval=HELD_OUT, max_tokens=512, budget=19)
    table = tomllib.loads(lab.workspace.resolve(fitted.data["path"]).read_text(encoding="utf-8"))
    assert bound(lab, fitted.data["path"]) <= 19
    assert table["max_steps"] >= 20
    assert table["orchestrator"]["eval"]["num_examples"] == 32
    assert table["orchestrator"]["eval"]["interval"] == table["max_steps"]


async def test_a_budget_never_evaluates_more_held_out_tasks_than_there_are(lab: Lab, platform: Platform) -> None:
    """A config based on another rose from 11 to 32 of 11 tasks, and the run was judged as if 32 had been evaluated."""
    pushed(lab)
    data = {"tasks": 500, "held_out": "split=eval: 11 tasks compared"}
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", "s", "c", data=data))
    first = await write(lab, environments=[PINNED], max_tokens=512)
    smaller = await write(lab, based_on=first.data["path"], budget=19)
    config = read_config(lab.workspace.resolve(smaller.data["path"]))
    assert config.at("orchestrator.eval.num_examples") == 11
    assert config.at("orchestrator.eval.interval") == config.max_steps
    [line] = [line for line in config.text.splitlines() if line.startswith("num_examples")]
    assert "budget" not in line
    edited = tomllib.loads(config.text.replace("num_examples = 11", "num_examples = 32"))
    assert tasks_of_evaluation(lab, edited, config.model) == 11


async def sizes(lab: Lab, budget: float, **given: Any) -> tuple[int, int, int, int]:
    """Steps, batch, group and tokens of a completion of the config for a budget, whose bound fits."""
    fitted = await write(lab, environments=[PINNED], budget=budget, **given)
    config = read_config(lab.workspace.resolve(fitted.data["path"]))
    assert bound(lab, fitted.data["path"]) <= budget
    assert config.batch_size is not None
    return config.max_steps or 0, config.batch_size, config.group_size, config.max_completion_tokens or 0


async def test_a_budget_lowers_batch_and_group_and_then_tokens_before_nothing_fits(
    lab: Lab, platform: Platform
) -> None:
    steps, *rest = await sizes(lab, 18)
    assert (steps >= 20, rest) == (True, [32, 8, 1024])
    assert (await sizes(lab, 18, group=16))[1:3] == (32, 16)
    assert (await sizes(lab, 40, batch=128))[1:] == (128, 16, 512)
    with pytest.raises(LabError) as caught:
        await sizes(lab, 20, batch=128)
    assert "batch left out" in caught.value.fix
    with pytest.raises(LabError) as caught:
        await sizes(lab, 10)
    assert "20 steps (the fewest that are worth a start) of 32 rollouts in groups of 8" in caught.value.message


async def test_a_batch_that_a_budget_made_small_is_not_to_be_made_larger(lab: Lab, platform: Platform) -> None:
    fitted = await write(lab, environments=[PINNED], budget=18)
    asked = await write(lab, environments=[PINNED], batch=32, group=8)
    for written, fix in ((fitted, "has room for no larger one"), (asked, "Set batch_size to 64 or more")):
        checked = await check(lab, written.data["path"])
        [small] = [f for f in checked.findings if f.code == "config-small-batch"]
        assert fix in small.fix


async def test_a_budget_that_holds_no_run_names_the_ways_out_that_hold_one(lab: Lab, platform: Platform) -> None:
    """A model that thinks was said to need a smaller model, a cheaper GPU or twice the money; fewer tokens sufficed."""
    thinking, direct = "Qwen/Qwen3-0.6B", "Qwen/Qwen3-4B-Instruct-2507"
    platform.trainable = {thinking: ("H200", "H100"), direct: ("H200",)}
    platform.offers = (HostedGpuOffer("H200", 2.5, True, False), HostedGpuOffer("H100", 2.4, True, False))
    with pytest.raises(BudgetError) as caught:
        await write(lab, environments=[PINNED], model=thinking, budget=14)
    error = caught.value
    changed = [
        {k: v for k, v in (one.arguments or {}).items() if k not in ("environments", "model")} for one in error.next
    ]
    assert changed == [{"budget": 14, "max_tokens": 1024}, {"budget": 14}, {"budget": 16}]
    assert [(one.arguments or {})["model"] for one in error.next] == [thinking, direct, thinking]
    assert "max_tokens=1024 (longer replies are cut off), or model=" in error.fix
    assert "gpu_type" not in error.fix
    for one in error.next:
        fitted = await write(lab, **dict(one.arguments or {}))
        assert fitted.data["budget"]["at_most"] <= (one.arguments or {})["budget"]


async def test_a_budget_keeps_the_group_and_the_tokens_that_an_evaluation_measured(
    lab: Lab, platform: Platform
) -> None:
    lab.ledger.record_push(Push(lab.key, "tiny_env", "alice", "tiny-env", "0.1.0", "s", "c", "h", lab.platform))
    measured = {"usable_groups": {"share": 0.6, "group_size": 16}, "mean": 0.5, "mean_of_attainable": 0.5}
    measured |= {"completion_tokens": {"p95": 700, "p99": 800}, "prompt_tokens": {"p99": 200}}
    model = "Qwen/Qwen3-4B-Instruct-2507"
    for tool in ("run_eval", "check_reward_distribution"):
        row = Evidence(tool, "passed", lab.key, "tiny_env", "s", "c", model=model, data=measured)
        lab.ledger.record(row)
    assert (await sizes(lab, 30))[2:] == (16, 896)


async def test_a_config_for_a_budget_has_one_bound_and_its_check_does_not_advise_against_it(
    lab: Lab, platform: Platform
) -> None:
    fitted = await write(lab, environments=[PINNED], eval=HELD_OUT, max_tokens=512, budget=19)
    at_most, likely = fitted.data["budget"]["at_most"], fitted.data["cost"]["dollars"]["expected"]
    assert fitted.data["cost"]["upper_bound"] == at_most
    assert f"at most ${at_most:.2f}, and likely ${likely:.2f}." in fitted.summary
    checked = await check(lab, fitted.data["path"])
    assert [f.severity for f in checked.findings if f.code == "config-eval-interval"] == ["info"]


async def test_a_budget_too_small_names_the_least_and_the_call_with_it_works(lab: Lab, platform: Platform) -> None:
    with pytest.raises(LabError) as caught:
        await write(lab, environments=[PINNED], budget=5)
    error = caught.value
    assert (error.code, error.next[0].tool) == ("budget-too-small", "write_training_config")
    assert not (lab.workspace.root / "configs" / "rl").exists() or not list(
        lab.workspace.root.glob("configs/rl/*.toml")
    )
    arguments = dict(error.next[0].arguments or {})
    assert arguments["environments"] == [PINNED]
    fitted = await write(lab, **arguments)
    assert fitted.status == "passed"
    assert fitted.data["budget"]["at_most"] <= arguments["budget"]


async def test_a_config_whose_bound_outgrew_its_budget_says_so_and_is_fitted_again(
    lab: Lab, platform: Platform
) -> None:
    """A run of at most $29.78 was one of at most $55.10 after its evaluation, and its check called it sound."""
    fitted = await write(lab, environments=[PINNED], budget=30)
    checked = await check(lab, fitted.data["path"])
    assert "above the budget" not in checked.summary
    platform.offers = (HostedGpuOffer("H200", 5.0, True, False),)
    checked = await check(lab, fitted.data["path"])
    assert "above the budget of $30.00 that it was written for" in checked.summary
    again = await write(lab, **dict(checked.next[0].arguments or {}))
    assert again.data["budget"]["at_most"] <= 30
    assert "above the budget" not in (await check(lab, again.data["path"])).summary


async def test_named_steps_stay_and_the_budget_says_what_they_cost(lab: Lab, platform: Platform) -> None:
    with pytest.raises(LabError) as caught:
        await write(lab, environments=[PINNED], steps=100, budget=20)
    assert "100 steps (as asked)" in caught.value.message
    assert "steps left out" in caught.value.fix
    again = await write(lab, **dict(caught.value.next[-1].arguments or {}))
    assert again.data["budget"]["steps"] == 100


async def test_an_older_config_shrinks_to_a_budget(lab: Lab, platform: Platform) -> None:
    first = await write(lab, environments=[PINNED], eval=HELD_OUT)
    smaller = await write(lab, based_on=first.data["path"], budget=60)
    assert bound(lab, smaller.data["path"]) <= 60
    assert any(change["key"] == "max_steps" and "budget" in change["why"] for change in smaller.data["changes"])


async def test_a_budget_without_a_price_is_refused_and_not_guessed(lab: Lab, platform: Platform) -> None:
    with pytest.raises(LabError) as own:
        await write(lab, environments=[PINNED], target="self-managed", budget=30)
    platform.offers = ()
    with pytest.raises(LabError) as unpriced:
        await write(lab, environments=[PINNED], budget=30)
    assert [own.value.code, unpriced.value.code] == ["price-unknown", "price-unknown"]


async def test_a_submission_takes_batch_group_tokens_and_a_budget(lab: Lab, platform: Platform) -> None:
    given: dict[str, Any] = {"environment": PINNED, "batch": 64, "group": 8, "max_tokens": 512, "budget": 40}
    path = await submit_training.config(call(lab), submit_training.Args(**given))
    config = read_config(path)
    assert (config.batch_size, config.group_size, config.max_completion_tokens) == (64, 8, 512)
    assert bound(lab, path.relative_to(lab.workspace.root).as_posix()) <= 40
    with pytest.raises(LabError) as both:
        await submit_training.config(call(lab), submit_training.Args(config=str(path), batch=64))
    assert "batch" in both.value.message
    with pytest.raises(LabError) as small:
        await submit_training.config(call(lab), submit_training.Args(environment=PINNED, budget=2))
    assert small.value.next[0].tool == "submit_training"


async def planned(lab: Lab, **given: Any) -> Intent:
    """The question of a submission, with what is offered instead."""
    args = submit_training.Args(**given)
    path = await submit_training.config(call(lab), args)
    intent = (await submit_training.plan(replace(call(lab), config=path), args)).intent
    assert intent is not None
    return intent


async def test_the_question_of_a_run_that_may_outlast_the_wallet_names_one_that_cannot(
    lab: Lab, platform: Platform
) -> None:
    asked = await planned(lab, environment=PINNED)
    smaller = asked.instead[0]
    arguments = dict(smaller.arguments or {})
    assert (smaller.tool, "budget" in arguments) == ("write_training_config", False)
    assert f"steps={arguments['steps']}" in asked.question.partition(" writes a run whose bound the wallet holds")[0]
    assert "nothing ends the run at a sum of money" in asked.question
    fitted = await write(lab, **dict(smaller.arguments or {}))
    assert bound(lab, fitted.data["path"]) <= 100


async def test_a_submission_for_a_budget_names_the_full_run_that_is_likely_within_it(
    lab: Lab, platform: Platform
) -> None:
    judged_with(lab, 0.9)
    other = (await write(lab, environments=[PINNED], budget=30)).data["budget"]["by_likely_cost"]
    asked = await planned(lab, environment=PINNED, budget=30)
    assert f"{other['steps']} steps of {other['batch']} rollouts" in asked.question
    assert "this call without budget" in asked.question
    whole = await write(lab, environments=[PINNED])
    with pytest.raises(LabError) as caught:
        await planned(lab, config=whole.data["path"], budget=30)
    assert "likely $" in caught.value.message
    assert ("its likely cost is within the budget" in caught.value.fix) == (
        whole.data["cost"]["dollars"]["expected"] <= 30
    )


PRICED = Price(1.0, 4.0)
"""US dollars for a million tokens: the bound of a rollout of 1,000 and 2,048 tokens is 3.7 cents."""


def request(usd: float, **given: Any) -> EvalRequest:
    asked = {"num_examples": 50, "rollouts": 8, **given}
    return EvalRequest("m", **asked, budget=usd, explicit_sizes=frozenset(given))


def at_most(request: EvalRequest) -> float:
    return HEADROOM * request.estimate(PRICED)


def test_an_evaluation_takes_the_most_tasks_that_its_budget_holds() -> None:
    whole, tasks, rollouts = (request(usd).within_budget(PRICED) for usd in (100, 10, 5))
    assert (whole.num_examples, whole.rollouts) == (50, 8)
    assert (tasks.num_examples, tasks.rollouts) == (33, 8)
    assert (rollouts.num_examples, rollouts.rollouts) == (34 - 1, 4)
    assert at_most(tasks) <= 10
    assert at_most(rollouts) <= 5


def test_named_tasks_and_rollouts_stay_and_the_least_budget_holds_them() -> None:
    with pytest.raises(BudgetError) as caught:
        request(1.0, num_examples=50, rollouts=8).within_budget(PRICED)
    assert "50 tasks x 8 rollouts (as asked)" in caught.value.message
    fits = request(caught.value.least, num_examples=50, rollouts=8).within_budget(PRICED)
    assert (fits.num_examples, fits.rollouts) == (50, 8)
    with pytest.raises(BudgetError) as fewest:
        request(1.0).within_budget(PRICED)
    least = request(fewest.value.least).within_budget(PRICED)
    assert (least.num_examples, least.rollouts) == (30, 4)


def test_a_budget_needs_a_price_unless_the_endpoint_is_free() -> None:
    assert request(1.0).within_budget(None, free=True).num_examples == 50
    with pytest.raises(LabError) as caught:
        request(1.0).within_budget(None)
    assert caught.value.code == "price-unknown"


async def test_without_a_budget_the_summary_names_the_bound_and_that_the_wallet_holds_less(
    lab: Lab, platform: Platform
) -> None:
    free = await write(lab, environments=[PINNED])
    most = free.data["cost"]["upper_bound"]
    assert f"at most ${most:.2f}; where the user named a sum, this call with that sum as budget" in free.summary
    assert most > 100
    assert f"The wallet holds $100.00, less than the ${most:.2f} that the run may cost at most" in free.summary
    dear = free.data["cost"]["dollars"]["high"]
    assert dear < 100
    assert f"and enough for the ${dear:.2f} that it costs at the upper end of what is likely." in free.summary
    checked = await check(lab, free.data["path"])
    [low] = [f for f in checked.findings if f.code == "wallet-low"]
    assert (low.severity, low.message in free.summary.replace("The wallet", "the wallet")) == ("info", True)
    affordable = await write(lab, environments=[PINNED], budget=60)
    assert "wallet" not in affordable.summary
    assert "named a sum" not in affordable.summary + affordable.next[0].why


async def test_the_comparison_after_a_run_is_counted_with_the_held_out_tasks_there_are(
    lab: Lab, platform: Platform
) -> None:
    job = finished(lab, mixed(), environment="tiny_env", max_cost=0.7)
    planned = EvaluationJobs(lab).spec(job).planned_tasks
    lab.ledger.record_push(Push(lab.key, "tiny_env", "alice", "tiny-env", "0.1.0", "s", "c", "h", lab.platform))
    data = {"tasks": 500, "held_out": "split=eval: 11 tasks compared"}
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", "s", "c", data=data))
    fitted = await write(lab, environments=[PINNED], eval=HELD_OUT, budget=30)
    assert planned > 11
    assert fitted.data["budget"]["evaluations"]["after"] == pytest.approx(1.4 * 11 / planned, abs=0.01)


async def test_a_bound_above_a_wallet_that_is_likely_to_do_leads_to_no_sum_that_nobody_named(
    lab: Lab, platform: Platform
) -> None:
    """A user had said "under 30 dollars", and the first call was budget=99, the wallet's balance."""
    free = await write(lab, environments=[PINNED], eval=HELD_OUT)
    assert free.data["cost"]["dollars"]["high"] < platform.balance < free.data["cost"]["upper_bound"]
    assert [one for one in free.next if "budget" in (one.arguments or {})] == []
    assert free.next[0].why.endswith("where the user named a sum, first this call again with that sum as budget")
    assert "writes a run whose bound the wallet holds" in free.summary
    assert "budget=" not in free.summary
    assert free.summary.index("It costs likely") < free.summary.index("The wallet holds")


async def test_a_config_that_is_likely_to_outlast_the_wallet_leads_first_to_one_that_cannot(
    lab: Lab, platform: Platform
) -> None:
    """A bound of $432.93 beside a wallet of $99.99 was written without a word of how to stay inside, and a later one of
    $339.60 named the smaller run third, after its own test and check."""
    dear = (await write(lab, environments=[PINNED], eval=HELD_OUT)).data["cost"]["dollars"]["high"]
    platform.balance = dear - 1
    free = await write(lab, environments=[PINNED], eval=HELD_OUT)
    smaller = free.next[0]
    arguments = dict(smaller.arguments or {})
    assert (smaller.tool, "budget" in arguments) == ("write_training_config", False)
    assert smaller.why.endswith("; where the user named a sum, that sum as budget instead of these sizes")
    assert f"This call with steps={arguments['steps']}" in free.summary
    assert [one.tool for one in free.next].count("check_training_config") == 1
    assert free.summary.index("The wallet holds") < free.summary.index("It costs likely")
    fitted = await write(lab, **arguments)
    assert bound(lab, fitted.data["path"]) <= platform.balance
    text = lab.workspace.resolve(fitted.data["path"]).read_text(encoding="utf-8")
    assert f"max_steps = {arguments['steps']}" in text
    assert f"{arguments['steps']} steps" in smaller.why
    assert "budget of $" not in text
    assert fitted.next[0].tool != "write_training_config"


async def test_a_smaller_run_for_a_small_wallet_also_names_the_sizes_of_its_evaluations(
    lab: Lab, platform: Platform
) -> None:
    """A wallet limits a run and is no budget: the call names sizes, also those that no argument of its own sets."""
    platform.balance = 19.5
    free = await write(lab, environments=[PINNED], eval=HELD_OUT, max_tokens=512, extra={"seq_len": 4096})
    arguments = dict(free.next[0].arguments or {})
    assert "budget" not in arguments
    assert set(arguments["extra"]) == {"seq_len", "orchestrator.eval.num_examples", "orchestrator.eval.interval"}
    fitted = await write(lab, **arguments)
    assert bound(lab, fitted.data["path"]) <= 19.5


async def test_a_budget_leaves_room_for_the_evaluations_beside_the_run_and_names_the_sum(
    lab: Lab, platform: Platform
) -> None:
    finished(lab, mixed(), environment="tiny_env", max_cost=0.7)
    fitted = await write(lab, environments=[PINNED], budget=30)
    told = fitted.data["budget"]
    assert told["evaluations"] == {"before": 0.25, "after": 1.4}
    assert told["in_all"] == round(told["at_most"] + 1.65, 2)
    assert told["in_all"] <= 30
    assert f"that is at most ${told['in_all']:.2f} in all, other runs not counted." in fitted.summary
    text = lab.workspace.resolve(fitted.data["path"]).read_text(encoding="utf-8")
    assert "budget of $30.00" in text
    [group] = [line for line in text.splitlines() if line.startswith("group_size")]
    assert "holds no more" not in group


def test_a_weak_signal_of_a_config_for_a_budget_is_not_to_be_raised_against_the_budget() -> None:
    plain = parse_config("[orchestrator]\nbatch_size = 32  # a note\ngroup_size = 16\n", Path("plain.toml"))
    tight = parse_config(plain.text.replace("a note", "the budget of $30.00 holds no more"), Path("tight.toml"))
    for config, raised in ((plain, True), (tight, False)):
        [weak] = usable_signal(config, ConfigContext(usable=0.5, usable_group=16))
        assert ("raise batch_size" in weak.fix) is raised
        assert weak.fix.startswith("Advised: raise batch_size" if raised else "Advised: go on with this config.")
        assert ("and the same budget, which says whether fewer of them fit" in weak.fix) is not raised
        for dropped, told in ((0, ""), (3, "the 3 evaluated tasks that are always or never solved")):
            each = {"a/b": SourceMeasurement(never_or_always=dropped)}
            [weak] = usable_signal(config, ConfigContext(usable=0.5, usable_group=16, each=each))
            assert ("always or never solved" in weak.fix, told in weak.fix) == (bool(dropped), True)


def judged_with(lab: Lab, share: float) -> None:
    """A push of tiny_env, and an evaluation of short replies in which this share of groups of 16 was usable."""
    lab.ledger.record_push(Push(lab.key, "tiny_env", "alice", "tiny-env", "0.1.0", "s", "c", "h", lab.platform))
    measured = {"usable_groups": {"share": share, "group_size": 16}, "mean": 0.5, "mean_of_attainable": 0.5}
    measured |= {"completion_tokens": {"p50": 20, "p95": 60, "p99": 80}, "prompt_tokens": {"p50": 50, "p99": 80}}
    for tool in ("run_eval", "check_reward_distribution"):
        given = {"model": "Qwen/Qwen3-4B-Instruct-2507", "data": measured}
        lab.ledger.record(Evidence(tool, "passed", lab.key, "tiny_env", "s", "c", **given))


async def test_a_budget_that_its_bound_shrinks_also_names_the_full_run_that_is_likely_within_it_and_its_call(
    lab: Lab, platform: Platform
) -> None:
    judged_with(lab, 0.9)
    free = await write(lab, environments=[PINNED])
    fitted = await write(lab, environments=[PINNED], budget=30)
    other = fitted.data["budget"]["by_likely_cost"]
    assert fitted.data["budget"]["batch"] == 64
    assert other["batch"] == read_config(lab.workspace.resolve(free.data["path"])).batch_size
    assert other["upper_end"] <= 30 < other["at_most"]
    assert f"would likely cost ${other['likely']:.2f}, and at most ${other['at_most']:.2f}" in fitted.summary
    assert "above the budget: only if the user agrees to that" in fitted.summary
    last = fitted.next[-1]  # it leaves the user's budget, so that the user's agreement is its first word
    assert (last.tool, last.arguments) == ("write_training_config", other["call"]["arguments"])
    assert f"only if the user agrees to a bound of ${other['at_most']:.2f}" in last.why
    assert [one.tool for one in fitted.next].index("check_training_config") < len(fitted.next) - 1
    assert other["call"]["tool"] == "write_training_config"
    chosen = await write(lab, **other["call"]["arguments"])
    assert bound(lab, chosen.data["path"]) == other["at_most"]
    config = read_config(lab.workspace.resolve(chosen.data["path"]))
    assert (config.max_steps, config.batch_size) == (other["steps"], other["batch"])


async def test_a_config_that_its_check_will_call_weak_says_so_when_it_is_written(lab: Lab, platform: Platform) -> None:
    judged_with(lab, 0.9)
    fitted = await write(lab, environments=[PINNED], budget=30)
    [weak] = [f for f in fitted.findings if f.code == "config-weak-signal"]
    checked = await check(lab, fitted.data["path"])
    [same] = [f for f in checked.findings if f.code == "config-weak-signal"]
    assert (same.message, same.fix) == (weak.message, weak.fix)
    assert "of 64 rollouts a step" in weak.message


async def test_a_weak_signal_leads_to_the_call_of_larger_steps(lab: Lab, platform: Platform) -> None:
    """Three ways stood in a sentence, none of them a call, and nothing said which is advised."""
    judged_with(lab, 0.3)
    for budget in ({"budget": 99}, {}):
        weak = await write(lab, environments=[PINNED], batch=64, **budget)
        [finding] = [f for f in weak.findings if f.code == "config-weak-signal"]
        assert finding.fix.startswith("Advised: ")
        [larger] = [one for one in weak.next if (one.arguments or {}).get("batch", 64) > 64]
        assert (larger.arguments or {}).get("budget") == budget.get("budget")
        assert f"batch={(larger.arguments or {})['batch']} " in finding.fix.replace(",", " ")
        better = await write(lab, **dict(larger.arguments or {}))
        assert not [f for f in better.findings if f.code == "config-weak-signal"]


async def test_larger_steps_that_the_budget_does_not_hold_are_not_offered(lab: Lab, platform: Platform) -> None:
    judged_with(lab, 0.3)
    with pytest.raises(LabError) as caught:
        await write(lab, environments=[PINNED], budget=1)
    (least,) = [(one.arguments or {})["budget"] for one in caught.value.next]
    weak = await write(lab, environments=[PINNED], budget=least)
    assert "config-weak-signal" in [f.code for f in weak.findings]
    assert not [one for one in weak.next if "batch" in (one.arguments or {})]


async def test_a_small_run_for_a_budget_names_the_limit_of_replies_that_makes_it_small_and_the_call_that_lowers_it(
    lab: Lab, platform: Platform
) -> None:
    judged_with(lab, 0.9)
    fitted = await write(lab, environments=[PINNED], budget=30, max_tokens=1024)
    [weak] = [f for f in fitted.findings if f.code == "config-weak-signal"]
    assert "limit of 1024 tokens a reply sets the bound" in weak.fix
    assert "have 60 (p95)" in weak.fix
    assert "max_tokens=256" in weak.fix
    [shorter] = [one for one in fitted.next if (one.arguments or {}).get("max_tokens") == 256]
    larger = await write(lab, **dict(shorter.arguments or {}))
    assert larger.data["budget"]["at_most"] <= 30
    rollouts = [w.data["budget"]["steps"] * w.data["budget"]["batch"] for w in (fitted, larger)]
    assert rollouts[0] < rollouts[1]
    lengths = [change["why"] for change in larger.data["changes"] if change["key"] == "seq_len"]
    assert "rounded up to 2048, the default of prime-rl" in lengths[0]
    assert shorter.arguments not in [one.arguments for one in larger.next]
    cut = await write(lab, environments=[PINNED], budget=30)
    assert not any("max_tokens" in (one.arguments or {}) for one in cut.next)


async def test_no_advice_is_built_on_the_lengths_of_the_stand_in_of_a_rehearsal() -> None:
    """The report told one thing twice, and one of both was wrong: a lower limit, and room because nobody measured."""
    config = parse_config(
        "[orchestrator]\nbatch_size = 32  # the budget of $30.00 holds no more\ngroup_size = 16\n"
        "[orchestrator.train.sampling]\nmax_completion_tokens = 1024\n",
        Path("tight.toml"),
    )
    for stand_in, limit in ((False, 256), (True, None)):
        context = ConfigContext(usable=0.5, usable_group=16, completion_tokens=29, longest=33, stand_in=stand_in)
        assert shorter_limit(config, context) == limit
        [weak] = usable_signal(config, context)
        assert ("max_tokens" in weak.fix) is not stand_in
        assert weak.severity == ("info" if stand_in else "warning")  # a warning names an act
        assert "Nothing has to be changed" not in weak.fix
        assert "stand-in" not in weak.fix
    each = {"a/b": SourceMeasurement(never_or_always=13, sampled=50)}
    [weak] = usable_signal(config, ConfigContext(usable=0.5, usable_group=16, each=each))
    assert "the 13 of the 50 evaluated tasks that are always or never solved" in weak.fix


async def test_a_budget_that_holds_the_whole_run_offers_no_other(lab: Lab, platform: Platform) -> None:
    judged_with(lab, 0.9)
    fitted = await write(lab, environments=[PINNED], budget=100_000)
    assert "by_likely_cost" not in fitted.data["budget"]
    assert [one.tool for one in fitted.next if one.tool == "write_training_config"] == []


async def test_what_other_runs_may_cost_is_not_offered_to_another_run(lab: Lab, platform: Platform) -> None:
    """A run "that the wallet holds whatever happens" took the whole balance, a part of which another run may take."""
    other = Run("run_1", "training", "other", "elsewhere", "i", lab.platform, max_cost=60.0)
    lab.ledger.record_run(other)
    free = await write(lab, environments=[PINNED], eval=HELD_OUT)
    most = free.data["cost"]["upper_bound"]
    assert (
        f"The wallet holds $100.00, of which runs that nobody has seen end may take $60.00, and the rest is less than "
        f"the ${most:.2f} that the run may cost at most"
    ) in free.summary
    smaller = free.next[0]
    assert smaller.why.startswith("the wallet has $40.00 for this run")
    assert bound(lab, (await write(lab, **dict(smaller.arguments or {}))).data["path"]) <= 40
    lab.ledger.record_run(replace(other, data={"ended": "COMPLETED"}))
    ended = await write(lab, environments=[PINNED], eval=HELD_OUT)
    assert "nobody has seen end" not in ended.summary


async def test_the_larger_run_for_a_budget_is_never_shorter_or_cheaper_than_the_one_that_is_written(
    lab: Lab, platform: Platform
) -> None:
    """Of 16 tasks, the "full run" above the budget had 20 steps and cost less, and the one for the budget had 27."""
    judged_with(lab, 1.0)
    lab.ledger.record(Evidence("check_environment", "passed", lab.key, "tiny_env", "s", "c", data={"tasks": 16}))
    fitted = await write(lab, environments=[PINNED], budget=25)
    assert (fitted.data["budget"]["steps"] > 20, fitted.data["budget"]["batch"]) == (True, 64)
    assert "by_likely_cost" not in fitted.data["budget"]
    assert not [one for one in fitted.next if "above the budget" in one.why]
    assert "above the budget" not in fitted.summary
