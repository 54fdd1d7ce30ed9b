"""The real `prime train` against the platform."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from tests.rehearsal.conftest import Platform

RUNS = "/api/v1/training/runs"
TOML = """\
name = "{name}"
max_steps = 20
seq_len = 2048
[model]
name = "Qwen/Qwen3-4B-Instruct-2507"
[trainer]
[ckpt]
interval = 5
[orchestrator]
batch_size = 16
group_size = {group}
[[orchestrator.train.source]]
[orchestrator.train.source.env.taskset]
id = "{environment}"
[inference]
"""


def written(folder: Path, name: str, group: int = 8, environment: str = "primeintellect/reverse-text") -> str:
    path = folder / f"{name}.toml"
    path.write_text(TOML.format(name=name, group=group, environment=environment), encoding="utf-8")
    return str(path)


@pytest.mark.anyio
async def test_a_run_is_submitted_watched_and_paid(platform: Platform) -> None:
    config = written(platform.folder, "demo-0badc0de")
    made = (await platform.json("train", config, "-y", "-o", "json"))["run"]
    await platform.tell("/rehearsal/clock", advance=30)
    seen: dict[str, Any] = {}

    async def look(name: str, *arguments: str) -> None:
        seen[name] = await platform.json("train", *arguments)

    id = made["runId"]
    async with anyio.create_task_group() as group:
        group.start_soon(look, "list", "list", "-o", "json")
        group.start_soon(look, "metrics", "metrics", id, "--min-step", "3", "-n", "4")
        group.start_soon(look, "progress", "progress", id)
        group.start_soon(look, "rollouts", "rollouts", id, "-s", "10", "-n", "3")
    async with anyio.create_task_group() as group:
        group.start_soon(look, "checkpoints", "checkpoints", id, "-o", "json")
        group.start_soon(look, "usage", "usage", id, "-o", "json")
        group.start_soon(look, "distributions", "distributions", id)
    logs = await platform.prime("train", "logs", id, "-n", "2", "--plain")

    assert made["estimatedCostPerHour"] == 2 * made["pricePerGpuHour"]
    run = seen["list"]["runs"][0]
    assert (run["id"], run["name"], run["status"]) == (id, "demo-0badc0de", "COMPLETED")
    assert run["run_config"]["orchestrator"]["group_size"] == 8
    assert [m["step"] for m in seen["metrics"]["metrics"]] == [16, 17, 18, 19]
    assert seen["progress"]["latest_step"] == 19
    assert seen["rollouts"]["total"] == 16
    assert {"reward", "problem_id", "completion"} <= set(seen["rollouts"]["samples"][0])
    assert [c["step"] for c in seen["checkpoints"]["checkpoints"]] == [5, 10, 15, 20]
    assert seen["usage"]["total_cost_usd"] == pytest.approx(20 * 120 / 3600 * 7, abs=0.01)
    assert sum(b["count"] for b in seen["distributions"]["bins"]) == 16
    assert "Step 19 | reward" in logs.stdout


@pytest.mark.anyio
async def test_a_submit_whose_answer_is_lost_made_one_run_that_its_name_finds(
    platform: Platform,
) -> None:
    await platform.tell("/rehearsal/faults", kind="drop-after", method="POST", path="runs$")

    lost = await platform.prime("train", written(platform.folder, "once-fault-stall-12345678"), "-y", "-o", "json")
    listed = await platform.json("train", "list", "-o", "json")

    assert lost.returncode == 1
    assert "Request failed" in lost.stdout
    assert [r["name"] for r in listed["runs"]] == ["once-fault-stall-12345678"]
    stopped = await platform.prime("train", "stop", listed["runs"][0]["id"], "-f", "--plain")
    assert "stopped successfully" in stopped.stdout


@pytest.mark.anyio
async def test_what_cannot_run_is_refused_with_every_reason(platform: Platform) -> None:
    folder = platform.folder
    await platform.tell("/rehearsal/platform", prepare=False)  # else prime itself finds the first of the problems
    old = written(folder, "old", group=7, environment="primeintellect/old-math")
    refused = await platform.prime("train", old, "-y", "-o", "json")
    await platform.tell("/rehearsal/account", balance_usd=0)
    poor = await platform.prime("train", written(folder, "poor"), "-y", "-o", "json")

    assert "Validation failed:" in refused.stdout
    assert "not divisible by group_size" in refused.stdout
    assert "verifiers v0" in refused.stdout
    assert "Payment required" in poor.stdout
    assert (refused.returncode, poor.returncode) == (1, 1)


def test_a_paused_run_is_resumed_as_a_new_one_from_its_step(client: TestClient, config: dict[str, Any]) -> None:
    client.post("/rehearsal/clock", json={"hold": True})
    id = client.post(RUNS, json={"config": config, "name": "first"}).json()["runId"]
    client.post("/rehearsal/clock", json={"advance": 3})
    early = client.post(f"{RUNS}/{id}/resume", json={})
    assert client.post(f"{RUNS}/{id}/pause").json()["status"] == "PAUSING"
    client.post("/rehearsal/clock", json={"advance": 1})

    again = client.post(f"{RUNS}/{id}/resume", json={}).json()["runId"]
    client.post("/rehearsal/clock", json={"advance": 60})
    steps = [m["step"] for m in client.get(f"/api/v1/rft/runs/{again}/metrics").json()["metrics"]]

    assert early.status_code == 409
    assert steps[0] >= 8
    assert steps[-1] == 19
    assert client.get(f"/api/v1/rft/runs/{id}").json()["run"]["status"] == "PAUSED"


def test_only_a_running_run_restarts_and_a_deleted_one_keeps_its_cost(
    client: TestClient, config: dict[str, Any]
) -> None:
    client.post("/rehearsal/clock", json={"hold": True})
    id = client.post(RUNS, json={"config": config}).json()["runId"]
    assert client.put(f"/api/v1/rft/runs/{id}/restart").status_code == 400
    client.post("/rehearsal/clock", json={"advance": 3})
    assert client.put(f"/api/v1/rft/runs/{id}/restart").json()["run"]["status"] == "PENDING"
    client.post("/rehearsal/clock", json={"advance": 60})

    before = client.get("/rehearsal/account").json()["balance_usd"]
    assert client.delete(f"/api/v1/rft/runs/{id}").status_code == 200
    assert client.get(f"/api/v1/rft/runs/{id}").status_code == 404
    assert client.get("/rehearsal/account").json()["balance_usd"] == before < 100


def test_logs_of_a_run_that_has_not_started_are_not_there_yet(client: TestClient, config: dict[str, Any]) -> None:
    client.post("/rehearsal/clock", json={"hold": True})
    id = client.post(RUNS, json={"config": config, "name": "x-fault-queue"}).json()["runId"]

    answer = client.get(f"/api/v1/rft/runs/{id}/logs")

    assert answer.status_code == 404
    assert "queued" in answer.json()["detail"]


def _without_trainer(config: dict[str, Any]) -> None:
    del config["trainer"]


def _without_source(config: dict[str, Any]) -> None:
    config["orchestrator"]["train"]["source"] = []


def _old_key(config: dict[str, Any]) -> None:
    config["batch_size"] = 3


def _unknown_version(config: dict[str, Any]) -> None:
    source = config["orchestrator"]["train"]["source"][0]
    source["env"]["taskset"]["id"] = "primeintellect/reverse-text@9.9"


@pytest.mark.parametrize(
    ("spoil", "where"),
    [
        (_without_trainer, "trainer"),
        (_without_source, "source"),
        (_old_key, "batch_size"),
        (_unknown_version, "id"),
    ],
)
def test_a_config_problem_is_named_where_it_is(
    client: TestClient, config: dict[str, Any], spoil: Callable[[dict[str, Any]], None], where: str
) -> None:
    spoil(config)

    answer = client.post(RUNS, json={"config": config})

    assert answer.status_code == 422
    assert where in answer.json()["detail"][0]["loc"]
    assert client.get("/api/v1/rft/runs").json()["total"] == 0


@pytest.mark.parametrize("by", ["name", "pattern", "id"])
def test_a_fault_is_given_to_a_run_by_name_by_pattern_or_by_id(
    client: TestClient, config: dict[str, Any], by: str
) -> None:
    name = "x-fault-fails-3-0badc0de" if by == "name" else "x-0badc0de"
    ordered = {"scope": "run", "kind": "fails", "step": 3, "cause": "the moon was full"}
    if by == "pattern":
        client.post("/rehearsal/faults", json=ordered | {"name": "^x-"})
    id = client.post(RUNS, json={"config": config, "name": name}).json()["runId"]
    if by == "id":
        client.post("/rehearsal/faults", json=ordered | {"run": id})
    client.post("/rehearsal/clock", json={"advance": 30})

    run = client.get(f"/api/v1/rft/runs/{id}").json()["run"]

    assert run["status"] == "FAILED"
    assert "at step 3" in run["errorMessage"]
    assert client.get(f"/api/v1/rft/runs/{id}/progress").json()["latestStep"] == 2


def test_prepare_can_be_switched_off_and_is_for_known_clients_only(client: TestClient) -> None:
    def status(agent: str = "prime-cli/0.18.0 python/3.12") -> int:
        return client.post(f"{RUNS}/prepare", json={"mode": "rl"}, headers={"User-Agent": agent}).status_code

    assert (status(), status("prime-cli/0.99.0")) == (200, 404)
    assert client.post("/rehearsal/platform", json={"prepare": False}).json() == {"prepare": "off"}
    assert status() == 404
    assert client.post("/rehearsal/platform", json={"prepare": "perhaps"}).status_code == 422


def test_the_platform_can_be_told_to_train_other_models(client: TestClient) -> None:
    def trained() -> set[str]:
        return {one["name"] for one in client.get("/api/v1/training/available-fft-models").json()["models"]}

    before = trained()
    client.post("/rehearsal/platform", json={"trains": ["someone/tuned"]})
    assert trained() == before | {"someone/tuned"}
    assert client.post("/rehearsal/platform", json={"trains": "someone/tuned"}).status_code == 422


@pytest.mark.slow
@pytest.mark.anyio
async def test_the_real_prime_finds_its_schema_and_judges_by_it(platform: Platform) -> None:
    good = written(platform.folder, "good")
    bad = platform.folder / "bad.toml"
    bad.write_text(Path(good).read_text(encoding="utf-8") + "[trainer.optim]\nlearning = 1\n", encoding="utf-8")
    artifact = await platform.json("train", "validate", good, "-o", "json")
    refused = await platform.prime("train", "validate", str(bad), "-o", "json")
    unsent = await platform.prime("train", str(bad), "-y", "-o", "json")
    made = (await platform.json("train", good, "-y", "-o", "json"))["run"]

    assert artifact["schema_commit"] == SCHEMA_COMMIT
    assert artifact["components"]["orchestrator"]["train"]["source"]
    assert "trainer.optim.adamw.learning: Extra inputs" in json.loads(refused.stdout)["error"]
    assert "learning" in unsent.stdout
    assert [r["id"] for r in (await platform.json("train", "list", "-o", "json"))["runs"]] == [made["runId"]]


def test_a_value_that_is_no_number_can_be_sent_as_such(client: TestClient, config: dict[str, Any]) -> None:
    ordered = {"scope": "run", "kind": "gradient-nan", "as": "nan", "step": 0}
    client.post("/rehearsal/faults", json=ordered)
    id = client.post(RUNS, json={"config": config}).json()["runId"]
    client.post("/rehearsal/clock", json={"advance": 30})

    sent = json.loads(client.get(f"/api/v1/rft/runs/{id}/metrics").text)["metrics"][-1]

    assert sent["optim/grad_norm"] != sent["optim/grad_norm"]
