"""Hosted evaluations through the real `prime eval`."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from starlette.testclient import TestClient

from prime_lab_mcp.rehearsal.store import Store
from tests.rehearsal.conftest import Platform

HOSTED = "/api/v1/hosted-evaluations"


@pytest.mark.anyio
async def test_a_hosted_evaluation_runs_and_its_samples_can_be_read(platform: Platform) -> None:
    wanted = ("primeintellect/reverse-text", "--hosted", "-m", "rehearsal/skill-50")
    started = await platform.prime("eval", "run", *wanted, "-n", "10", "-r", "4", "--plain")
    found = re.search(r"Evaluation ID:\s*(ev_\w+)", started.stdout)
    assert found is not None, started.stdout
    await platform.tell("/rehearsal/clock", advance=30)
    seen: dict[str, Any] = {}

    async def look(name: str, *arguments: str) -> None:
        seen[name] = await platform.prime("eval", *arguments)

    async with anyio.create_task_group() as group:
        group.start_soon(look, "get", "get", found[1])
        group.start_soon(look, "samples", "samples", found[1], "-n", "100")
        group.start_soon(look, "logs", "logs", found[1], "--plain")

    assert '"status": "COMPLETED"' in seen["get"].stdout
    assert '"total": 40' in seen["samples"].stdout
    assert "40 of 40" in seen["logs"].stdout


@pytest.mark.anyio
async def test_an_evaluation_of_an_unpublished_environment_is_refused(platform: Platform) -> None:
    done = await platform.prime("eval", "run", "rehearsal/nothing", "--hosted", "--plain")

    assert done.returncode == 1
    assert "published" in done.stdout


def _start(client: TestClient, store: Store, **body: Any) -> str:
    with store.session() as session:
        id = next(e["id"] for e in session.all("environment") if e["name"] == "reverse-text")
    config = {"num_examples": 10, "rollouts_per_example": 4}
    answer = client.post(
        HOSTED,
        json={
            "environment_ids": [id],
            "inference_model": "rehearsal/skill-50",
            "eval_config": config,
            **body,
        },
    )
    started: str = answer.json()["evaluation_id"]
    return started


def test_an_evaluation_goes_through_its_states_and_can_be_cancelled(client: TestClient, store: Store) -> None:
    client.post("/rehearsal/clock", json={"hold": True})
    id = _start(client, store)
    seen = []
    for seconds in (0, 1, 0):
        client.post("/rehearsal/clock", json={"advance": seconds})
        seen.append(client.get(f"/api/v1/evaluations/{id}").json()["status"])
        if seen[-1] == "RUNNING":
            client.patch(f"{HOSTED}/{id}/cancel")

    assert seen == ["PENDING", "RUNNING", "CANCELLED"]
    assert client.patch(f"{HOSTED}/{id}/cancel").status_code == 400
    assert 0 < client.get(f"/api/v1/evaluations/{id}/samples").json()["total"] < 40


@pytest.mark.parametrize(("name", "status"), [("x-fault-fails", "FAILED"), ("x-fault-times-out", "TIMEOUT")])
def test_an_evaluation_can_be_told_to_end_badly(client: TestClient, store: Store, name: str, status: str) -> None:
    id = _start(client, store, name=name)
    client.post("/rehearsal/clock", json={"advance": 60})

    shown = client.get(f"/api/v1/evaluations/{id}").json()

    assert shown["status"] == status
    assert shown["error_message"]


def test_registered_tasks_of_an_environment_are_what_it_asks(client: TestClient, store: Store) -> None:
    row = {"prompt": "Reverse this: abc", "answer": "cba"}
    rows = [row | {"environment": "primeintellect/reverse-text"}]
    client.post("/rehearsal/answers", json={"answers": rows})
    id = _start(client, store)
    client.post("/rehearsal/clock", json={"advance": 60})

    samples = client.get(f"/api/v1/evaluations/{id}/samples").json()["samples"]

    assert {s["answer"] for s in samples} == {"cba"}
    assert len(samples) == 4


def test_an_evaluation_from_elsewhere_keeps_its_samples(client: TestClient) -> None:
    id = client.post("/api/v1/evaluations/", json={"name": "n", "model_name": "m"}).json()
    where = f"/api/v1/evaluations/{id['evaluation_id']}"
    client.post(f"{where}/samples", json={"samples": [{"reward": 1.0}, {"reward": 0.0}]})
    client.post(f"{where}/finalize", json={"metrics": {"reward": 0.5}})

    assert client.get(where).json()["status"] == "COMPLETED"
    assert client.get(f"{where}/samples").json()["total"] == 2
