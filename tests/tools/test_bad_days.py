"""Bad input and bad days of publishing and training: the real `prime` on the rehearsal, and a report that helps.

Elsewhere: wrong owner, taken version, lost answers (test_push_environment); 402 and lost answers of a submission, a
rejected config (test_submit_training); failing and waiting runs (test_watch_run); models that an endpoint does not
serve (tests/lab/evals/runner/test_endings, test_hosted_eval); every HTTP status by itself
(tests/lab/prime/test_client).
"""

from __future__ import annotations

from typing import Any

import pytest

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.state.outcome import Outcome
from prime_lab_mcp.rehearsal.schema_cache import DRIFTED_KEY
from prime_lab_mcp.tools import check_training_config, push_environment, submit_training, watch_run
from tests.tools.loopback import CONFIG, Desk

pytestmark = pytest.mark.anyio
NOISE = ("Upload failed: ", "Unexpected error", "Traceback")
DRIFTING = CONFIG.replace("group_size = 8", "group_size = 8\nmax_off_policy_steps = 4")


async def checked(at: Desk, text: str, name: str = "bad") -> Outcome:
    path = at.config(text, f"configs/rl/{name}.toml")
    return await at.call(check_training_config.TOOL, path=path.relative_to(at.workspace).as_posix())


def helps(message: str, fix: str) -> bool:
    return bool(fix) and not any(noise in message for noise in NOISE)


# Configs


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_size = 8": "group_size = 1"}, "config-group-size"),
        ({"group_size = 8": "group_size = 7"}, "config-batch-group"),
        ({"max_steps = 20\n": ""}, "config-no-max-steps"),
        (
            {"group_size = 8": "group_size = 8\n[orchestrator.train.sampling]\nmax_completion_tokens = 4096"},
            "config-budget-exceeds-seq-len",
        ),
        ({"Qwen/Qwen3-4B-Instruct-2507": "acme/unknown-7b"}, "config-no-renderer"),
    ],
)
async def test_what_would_waste_a_run_is_refused_before_anything_is_asked(
    at: Desk, changes: dict[str, str], code: str
) -> None:
    text = CONFIG
    for old, new in changes.items():
        text = text.replace(old, new)
    before = len(await at.requests("POST", "/prepare"))
    outcome = await checked(at, text)
    (finding,) = [f for f in outcome.findings if f.code == code]
    assert (outcome.status, finding.severity, bool(finding.fix)) == ("failed", "blocker", True)
    assert len(await at.requests("POST", "/prepare")) == before


@pytest.mark.slow
async def test_an_array_that_primes_lenient_parser_closes_for_itself_is_refused(at: Desk) -> None:
    path = at.config(CONFIG + "\n[trainer.model.lora]\ntarget_modules = [\n", "configs/rl/lenient.toml")
    assert (await at.lab.prime.train_validate(path)).outcome == "valid"  # prime would train on it
    with pytest.raises(LabError) as caught:
        await checked(at, path.read_text(encoding="utf-8"), "lenient")
    assert (caught.value.code, bool(caught.value.fix)) == ("config-broken-toml", True)


@pytest.mark.slow
async def test_a_sound_config_is_valid_by_the_platforms_schema_and_submitted_with_its_result(at: Desk) -> None:
    outcome = await checked(at, CONFIG, "sound")
    assert (outcome.status, outcome.data["validation"]) == ("passed", "valid")
    assert outcome.data["platform_schema_commit"] == SCHEMA_COMMIT
    made = await at.call(submit_training.TOOL, config="configs/rl/sound.toml")
    run = await at.told(f"/api/v1/rft/runs/{made.data['id']}")
    assert run["run"]["schemaCommit"] == SCHEMA_COMMIT


@pytest.mark.slow
async def test_a_platform_of_another_day_refuses_the_key_it_does_not_know(at: Desk) -> None:
    await at.tell("/rehearsal/platform", prepare="drifted")
    outcome = await checked(at, DRIFTING, "drifting")
    submitted = await at.call(submit_training.TOOL, config="configs/rl/drifting.toml")
    await at.tell("/rehearsal/platform", prepare="current")
    (refused,) = outcome.blockers
    assert (outcome.status, outcome.data["validation"]) == ("failed", "invalid")
    assert (refused.code, refused.where) == ("config-refused-by-platform", DRIFTED_KEY)
    assert (submitted.status, submitted.blockers[0].code) == ("failed", "config-rejected")
    assert DRIFTED_KEY in str(submitted.blockers[0].rows)
    assert await at.lab.prime.train_list(submitted.data.get("name") or "drifting") == []


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("prepare", "fault", "status", "code"),
    [
        ("off", None, "passed", "config-not-validated-by-platform"),
        ("mismatched", None, "inconclusive", "config-validation-unavailable"),
        ("current", "500", "inconclusive", "config-validation-unavailable"),
        ("current", "429", "inconclusive", "config-validation-unavailable"),
        ("current", "401", "inconclusive", "config-validation-unavailable"),
        ("current", "garbage", "inconclusive", "config-validation-unavailable"),
    ],
)
async def test_could_not_validate_is_neither_valid_nor_invalid(
    at: Desk, prepare: str, fault: str | None, status: str, code: str
) -> None:
    await at.tell("/rehearsal/platform", prepare=prepare)
    if fault:
        await at.fault(fault, "/prepare")
    outcome = await checked(at, CONFIG, "unasked")
    await at.tell("/rehearsal/platform", prepare="current")
    (finding,) = [f for f in outcome.findings if f.code == code]
    assert (outcome.status, helps(finding.message, finding.fix)) == (status, True)


@pytest.mark.slow
async def test_a_model_that_the_platform_does_not_list_is_named(at: Desk) -> None:
    text = CONFIG.replace("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-14B")
    outcome = await checked(at, text, "unlisted")
    (finding,) = [f for f in outcome.findings if f.code == "model-not-offered"]
    assert "Qwen3-0.6B" in finding.message
    assert "search_hub" in finding.fix


# Publishing

TAKEN = "A version with content hash 0123abcd already exists"


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "fault", "code", "advice"),
    [
        ({"team": "rehearsal-guests"}, None, "platform-forbidden", "team=rehearsal-lab"),
        ({"team": "nowhere"}, None, "platform-not-found", "owner=rehearsal"),
        ({}, ("409", "/wheels$", TAKEN), "platform-conflict", "search_hub"),
        ({}, ("409", "/resolve", "The name is taken"), "platform-conflict", "[project].name"),
        ({}, ("401", "/resolve", None), "unauthorized", "prime login"),
        ({}, ("402", "/wheels$", None), "payment-required", "funds"),
        ({}, ("429", "/wheels$", None), "platform-busy", "Wait"),
        ({}, ("500", "/versions$", None), "platform-failed", "Wait"),
        ({}, ("garbage", "/resolve", None), "prime-failed", "Call again"),
        ({}, ("403", "/rehearsal/uploads/", None), "platform-failed", "Wait"),
        ({}, ("drop-before", "/rehearsal/uploads/", None), "platform-unreachable", "network"),
    ],
)
async def test_a_push_that_fails_says_why_and_publishes_and_leaves_nothing(
    at: Desk, arguments: dict[str, str], fault: tuple[str, str, str | None] | None, code: str, advice: str
) -> None:
    folder = at.environment("sad")
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    if fault:
        options: dict[str, Any] = {"detail": fault[2]} if fault[2] else {}
        await at.fault(fault[0], fault[1], **options)
    with pytest.raises(LabError) as caught:
        await at.call(push_environment.TOOL, environment="sad", **arguments)
    assert (caught.value.code, advice in caught.value.fix) == (code, True)
    assert helps(caught.value.message, caught.value.fix)
    assert "/uploads/" not in caught.value.message
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert at.lab.ledger.pushes(name="sad") == []


# Runs


async def started(at: Desk, name: str) -> str:
    return (await at.lab.prime.train_submit(at.config(f'name = "{name}"\n{CONFIG}', f"configs/rl/{name}.toml"))).id


@pytest.mark.slow
async def test_the_log_of_a_queued_run_is_not_waited_for(at: Desk) -> None:
    async with at.held_clock():
        id = await started(at, "waiting-fault-queue")
        with pytest.raises(LabError) as caught:
            await at.lab.prime.train_logs(id, seconds=6.0)
    assert (caught.value.code, "has not started" in caught.value.message) == ("platform-slow", True)
    assert "watch_run" in caught.value.fix


@pytest.mark.slow
async def test_a_run_that_dies_in_the_queue_fails_with_its_words(at: Desk) -> None:
    id = await started(at, "never-fault-dies-in-queue")
    await at.tell("/rehearsal/clock", advance=60)
    outcome = await at.call(watch_run.TOOL, id=id)
    assert (outcome.status, outcome.blockers[0].code) == ("failed", "run-failed")
    assert helps(outcome.blockers[0].message, outcome.blockers[0].fix)


@pytest.mark.slow
async def test_metrics_with_gaps_and_nan_are_read_and_judged(at: Desk) -> None:
    await at.fault("gradient-nan", scope="run", name="^holes", step=6, **{"as": "nan"})
    id = await started(at, "holes-fault-gaps")
    await at.tell("/rehearsal/clock", advance=60)
    outcome = await at.call(watch_run.TOOL, id=id)
    assert outcome.data["status"] == "COMPLETED"
    assert "run-grad-norm" in {f.code for f in outcome.findings}


@pytest.mark.rotate(share=3)
@pytest.mark.slow
@pytest.mark.parametrize("fault", ["401", "429", "500", "garbage", "drop-before"])
async def test_what_breaks_in_the_middle_of_a_look_is_named_and_the_rest_told(at: Desk, fault: str) -> None:
    id = await started(at, f"middle-{fault}")
    await at.tell("/rehearsal/clock", advance=60)
    await at.fault(fault, "/metrics")
    outcome = await at.call(watch_run.TOOL, id=id)
    (finding,) = [f for f in outcome.findings if f.code == "run-incomplete"]
    assert (outcome.data["status"], "metrics" in finding.message) == ("COMPLETED", True)
    assert helps(finding.message, finding.fix)
