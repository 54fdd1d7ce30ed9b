"""Watching and controlling runs through the real prime on the rehearsal platform."""

from __future__ import annotations

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.lab.training import summary, watch
from prime_lab_mcp.tools import control_run, watch_run
from tests.tools.loopback import CONFIG, Desk

pytestmark = pytest.mark.anyio


async def start(at: Desk, name: str, steps: int = 40) -> str:
    text = f'name = "{name}"\n' + CONFIG.replace("max_steps = 20", f"max_steps = {steps}")
    return (await at.lab.prime.train_submit(at.config(text, f"configs/rl/{name}.toml"))).id


async def test_a_finished_run_shows_reward_spend_and_checkpoints_and_passes(at: Desk) -> None:
    id = await start(at, "healthy", 40)
    await at.tell("/rehearsal/clock", advance=60)
    outcome = await at.call(watch_run.TOOL, id=id)
    assert (outcome.status, outcome.data["status"]) == ("passed", "COMPLETED")
    assert (outcome.data["step"], outcome.data["max_steps"]) == (39, 40)
    assert outcome.data["reward"]["now"] > outcome.data["reward"]["first"]
    assert outcome.data["spend"]["total"] > 0
    assert outcome.data["checkpoints"][-1]["step"] == 40
    assert outcome.data["anomalies"] == []
    assert len(str(outcome.data)) < 8000
    assert (
        "Reward, cost and rollouts shown are the rehearsal's own, made up, and not of this environment"
        in outcome.summary
    )
    assert "not of this environment" in outcome.data["rollouts"]["made_up"]


@pytest.mark.slow
async def test_an_anomaly_names_its_step_cause_cost_and_advice(at: Desk) -> None:
    async with at.held_clock():
        id = await start(at, "bad-fault-errors-8", 40)
        await at.tell("/rehearsal/clock", advance=6)
        outcome = await at.call(watch_run.TOOL, id=id)
    found = next(a for a in outcome.data["anomalies"] if a["code"] == "errors")
    assert (found["since_step"], found["level"]) == (8, "stop")
    assert found["burned"] > 0
    assert found["cause"]
    assert found["advice"]
    assert any(f.code == "run-errors" for f in outcome.findings)


async def test_a_waiting_run_says_what_it_waits_for(at: Desk) -> None:
    async with at.held_clock():
        id = await start(at, "waits-fault-queue")
        outcome = await at.call(watch_run.TOOL, id=id)
    assert (outcome.status, outcome.data["status"]) == ("running", "QUEUED")
    assert outcome.data["queue"]["runs_ahead"] == 1


async def test_a_failed_run_fails_with_its_own_words_quoted(at: Desk) -> None:
    id = await start(at, "dies-fault-fails-3")
    await at.tell("/rehearsal/clock", advance=60)
    outcome = await at.call(watch_run.TOOL, id=id)
    assert outcome.status == "failed"
    assert outcome.blockers[0].code == "run-failed"
    assert "out of memory" in outcome.blockers[0].message


async def test_an_unknown_id_is_no_run_of_anybody(at: Desk) -> None:
    with pytest.raises(LabError) as caught:
        await at.call(watch_run.TOOL, id="run_of_nobody")
    assert caught.value.code == "run-not-found"


async def test_an_id_that_looks_like_an_option_is_refused(at: Desk) -> None:
    with pytest.raises(ValueError, match="letter or digit"):
        await at.call(watch_run.TOOL, id="--help")


@pytest.mark.slow
async def test_pausing_and_stopping_ask_nothing_and_resuming_does_once(at: Desk) -> None:
    id = await start(at, "controlled", 4000)
    await at.tell("/rehearsal/clock", advance=10)
    assert await at.intent(control_run.TOOL, id=id, action="pause") is None
    await at.call(control_run.TOOL, id=id, action="pause")
    await at.tell("/rehearsal/clock", advance=5)
    paused = await at.call(watch_run.TOOL, id=id)
    assert paused.next[0].arguments == {"id": id, "action": "resume"}
    asked = await at.intent(control_run.TOOL, id=id, action="resume")
    assert asked is not None
    assert asked.ask
    resumed = await at.call(control_run.TOOL, id=id, action="resume")
    again = await at.call(control_run.TOOL, id=id, action="resume")
    assert resumed.data["id"] != id
    assert (again.data["id"], again.data["deduplicated"]) == (resumed.data["id"], True)
    stopped = await at.call(control_run.TOOL, id=resumed.data["id"], action="stop")
    assert stopped.data["status"] == "STOPPED"
    listed = await at.call(watch_run.TOOL)
    shown = {r["id"]: r["status"] for r in listed.data["runs"]}
    assert shown[resumed.data["id"]] == "STOPPED"
    assert shown[id] == "PAUSED"


async def test_what_a_run_cannot_do_is_said_before_anything_is_asked(at: Desk) -> None:
    id = await start(at, "over", 2)
    await at.tell("/rehearsal/clock", advance=30)
    with pytest.raises(LabError) as caught:
        await at.intent(control_run.TOOL, id=id, action="resume")
    assert caught.value.code == "run-not-paused"


def test_money_since_an_onset_is_the_share_of_its_steps() -> None:
    rows = [{"step": s} for s in range(10)]
    seen = watch.RunReading({"status": "RUNNING"}, rows, {"total_cost_usd": 20.0}, [], {}, {}, (), {})
    assert seen.spent_since(5) == 10.0
    assert seen.spent_since(0) == 20.0


WITH_EVALS = (
    CONFIG.replace("batch_size = 16", "batch_size = 64")
    .replace("max_steps = 20", "max_steps = 120")
    .replace(
        "[inference]",
        '[orchestrator.eval]\ninterval = 5\n[[orchestrator.eval.source]]\nname = "held-out"\n'
        '[orchestrator.eval.source.env.taskset]\nid = "primeintellect/reverse-text@0.2.0"\n\n[inference]',
    )
)


async def watched(at: Desk, name: str, steps: float) -> Outcome:
    """A run that finished so many steps of a quarter of a second, as watch_run sees it."""
    path = at.config(f'name = "{name}"\n{WITH_EVALS}', f"configs/rl/{name}.toml")
    await at.tell("/rehearsal/account", balance_usd=1000)
    async with at.held_clock():
        id = (await at.lab.prime.train_submit(path)).id
        await at.tell("/rehearsal/clock", advance=0.8 + steps * 0.25)
        return await at.call(watch_run.TOOL, id=id)


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "named"),
    [
        ("healthy", 100, ()),
        (
            "five-fault-errors-20-fault-entropy-20-fault-off-policy-20-fault-truncation-20-fault-grad-spike-20",
            30,
            ("errors", "entropy-collapse", "off-policy", "truncation", "grad-norm"),
        ),
        ("three-fault-collapse-20-fault-gradient-nan-22-fault-gaps-8", 30, ("reward-collapse", "grad-norm")),
        ("two-fault-proxy-gap-20-fault-length-20", 45, ("proxy-gap", "length")),
        ("leaps-fault-jump-20", 30, ("suspicious-jump",)),
        ("mute-fault-no-signal", 15, ("no-signal",)),
        ("done-fault-solved-20", 55, ("solved",)),
        ("form-fault-format-plateau-10", 75, ("format-plateau",)),
        ("empty-fault-zero-output-20", 24, ("no-signal",)),
        ("still-fault-stall-10", 20, ("stall",)),
        ("waits-fault-queue-9", 20, ("queue",)),
    ],
)
async def test_an_anomaly_is_provoked_and_named_within_its_window(
    at: Desk, name: str, steps: int, named: tuple[str, ...]
) -> None:
    outcome = await watched(at, name, steps)
    found = {a["code"]: a for a in outcome.data["anomalies"]}
    assert set(found) >= set(named)
    if not named:
        assert found == {}
        assert outcome.data["held_out"]["held-out"]["last"][1] > outcome.data["held_out"]["held-out"]["first"][1]
        assert outcome.data["best_checkpoint"]["by"] == "held-out reward"
    for code in named:
        assert found[code]["evidence"]["metric"]
        assert any(f.code == f"run-{code}" for f in outcome.findings)
    if "errors" in named:
        errors = next(f for f in outcome.findings if f.code == "run-errors")
        assert "TimeoutError" in str(errors.rows)
    assert len(str(outcome.data)) < 8000


@pytest.mark.slow
async def test_a_run_past_its_agreed_limit_is_named(at: Desk) -> None:
    first = await watched(at, "dear-fault-over-budget-5", 20)
    id = first.data["id"]
    at.lab.ledger.record_run(Run(id, "training", "dear", at.lab.key, "f" * 64, at.lab.platform, max_cost=20.0))
    outcome = await at.call(watch_run.TOOL, id=id)
    assert outcome.data["anomalies"][0]["code"] == "overrun"
    assert outcome.data["spend"]["agreed_limit"] == 20.0
    assert "more than the likely" not in outcome.summary
    card = {"forecast": {"dollars": {"low": 0.5, "expected": 1.0, "high": 2.0}}}
    known = Run(id, "training", "dear", at.lab.key, "f" * 64, at.lab.platform, max_cost=200.0, data={"card": card})
    at.lab.ledger.record_run(known)
    beyond = await at.call(watch_run.TOOL, id=id)
    assert "(more than the likely $0.50 to $2.00)" in beyond.summary
    assert beyond.data["spend"]["likely"] == [0.5, 1.0, 2.0]
    assert beyond.data["anomalies"][0]["code"] == "overrun"


def test_the_best_and_worst_rollouts_are_quoted_from_every_form_of_a_completion() -> None:
    samples = [
        {"step": 10, "reward": 1.0, "completion": [{"role": "assistant", "content": "good\u202e text"}]},
        {
            "step": 10,
            "reward": 0.9,
            "completion": '[{"role": "assistant", "content": [{"type": "text", "text": "fine"}]}]',
        },
        {"step": 10, "reward": 0.9, "completion": "fine"},
        {"step": 10, "reward": 0.1, "completion": "", "trajectory": [{"content": "x" * 5000}]},
        {"step": 10, "reward": 0.0, "completion": None},
        {"step": 10, "reward": float("nan"), "completion": "no number"},
        {"step": 10, "reward": None, "completion": "no reward"},
    ]
    told = summary.instructive_rollouts({"samples": samples, "total": 64})
    assert told is not None
    assert [(r["reward"], r["completion"]) for r in told["best"]] == [(1.0, '"good\\u202e text"'), (0.9, '"fine"')]
    assert [r["reward"] for r in told["worst"]] == [0.0, 0.1]
    alike = summary.instructive_rollouts({"samples": [{"reward": 1.0, "completion": str(n)} for n in range(6)]})
    assert alike is not None
    assert alike["worst"] == []
    assert len(str(told)) < 900
    assert summary.instructive_rollouts({"samples": []}) is None


def test_the_best_checkpoint_is_that_of_the_best_held_out_reward() -> None:
    rows = [{"step": s, "reward/mean": s / 100, "eval/a/reward/mean": 1 - abs(s - 20) / 100} for s in range(0, 60, 10)]
    kept = [{"step": s, "id": f"c{s}"} for s in (10, 20, 50)]
    best = summary.best_checkpoint(kept, rows)
    assert best == {"step": 20, "id": "c20", "by": "held-out reward", "reward": 1.0}
    assert summary.best_checkpoint([], rows) is None


def test_the_untrained_model_tells_checkpoints_not_apart() -> None:
    rows: list[dict[str, object]] = [{"step": s, "reward/mean": s / 100} for s in range(0, 60, 10)]
    rows[0]["eval/a/reward/mean"] = 0.4
    best = summary.best_checkpoint([{"step": s, "id": f"c{s}"} for s in (10, 50)], rows)
    assert best is not None
    assert (best["step"], best["by"], best["mean_of_steps"]) == (50, "training reward", 6)


def test_the_lines_that_speak_of_an_error_are_quoted() -> None:
    log = "INFO fine\nERROR Step 3 broke: ValueError\nINFO fine again\n"
    assert summary.error_lines(log) == ['"ERROR Step 3 broke: ValueError"']
    assert summary.error_lines("one\ntwo\n", 1) == ['"two"']


@pytest.mark.slow
async def test_a_resumed_run_is_judged_from_the_first_step_and_never_resumed_twice(at: Desk) -> None:
    text = 'name = "whole"\n' + WITH_EVALS.replace("eval]\n", "eval]\nnum_examples = 64\n")
    id = (await at.lab.prime.train_submit(at.config(text, "configs/rl/whole.toml"))).id
    at.lab.ledger.record_run(
        Run(id, "training", "whole", at.lab.key, "w" * 64, "rehearsal", price_per_hour=7.0, max_cost=90.0)
    )
    at.lab.ledger.commit_spend("w" * 64, 90.0, "training run", "rehearsal")
    async with at.held_clock():
        await at.tell("/rehearsal/clock", advance=30)
        await at.call(control_run.TOOL, id=id, action="pause")
        await at.tell("/rehearsal/clock", advance=5)
        paused = await at.call(watch_run.TOOL, id=id)
        assert paused.data["status"] == "PAUSED"
        assert paused.data["after"]["worked"] == "ended early"
        spent = at.lab.ledger.spend("rehearsal")[0]
        assert spent.actual == pytest.approx(paused.data["spend"]["total"])
        await at.tell("/rehearsal/account", balance_usd=1000)  # runs of other tests go on and cost money
        became = (await at.call(control_run.TOOL, id=id, action="resume")).data["id"]
        await at.tell("/rehearsal/clock", advance=400)
        await at.tell("/rehearsal/account", balance_usd=1000)
        whole = await at.call(watch_run.TOOL, id=became)
        again = await at.call(control_run.TOOL, id=id, action="resume")
    assert whole.data["status"] == "COMPLETED"
    (held_out,) = whole.data["after"]["held_out"]
    assert (held_out["first"]["step"], held_out["result"]) == (0, "rose")
    assert whole.data["after"]["worked"] == "yes"
    assert (
        "nothing was trained, and its numbers are made up. They say: It worked: the reward on the held-out tasks rose."
        in whole.summary
    )
    assert whole.data["spend"]["with_earlier_runs"] > whole.data["spend"]["total"]
    assert f"with {id}, which it continues" in whole.summary
    assert (again.data["id"], again.data["deduplicated"]) == (became, True)
