"""An endpoint that refuses, closes or hangs while requests wait, and what an evaluation that ended so still owes."""

from __future__ import annotations

import dataclasses
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest

from prime_lab_mcp.lab.evals.runner import endings
from prime_lab_mcp.lab.evals.runner.jobs import EvaluationJobs
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay import proxy
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.relay.metering import RelayCap, RelayUsage, RetryPolicy
from prime_lab_mcp.lab.relay.proxy import Relay
from prime_lab_mcp.lab.state.ledger.rows import Job
from tests.lab.evals.scripted import adds, serving
from tests.lab.evals.test_spec import SPEC

pytestmark = pytest.mark.anyio
ASK = {"model": "m", "messages": [{"role": "user", "content": "1+2"}], "max_tokens": 8}
PATIENT = RetryPolicy(reconnect=0.05)


async def post(relay: Relay) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(
            f"{relay.url}/chat/completions", json=ASK, headers={"authorization": f"Bearer {relay.secret}"}
        )


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def raw_server(*, closes: bool) -> Iterator[str]:
    """A server that takes connections and closes each at once, or answers nothing."""
    listener = socket.create_server(("127.0.0.1", 0))
    taken: list[socket.socket] = []

    def take() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                taken.append(connection)
                if closes:
                    connection.recv(65536)
                    connection.close()

    threading.Thread(target=take, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        listener.close()
        for connection in taken:
            connection.close()


async def test_a_request_waits_for_an_endpoint_that_restarts() -> None:
    port = free_port()
    answers: list[int] = []

    async def ask(relay: Relay) -> None:
        answers.append((await post(relay)).status_code)

    endpoint = Endpoint("url", f"http://127.0.0.1:{port}/v1")
    async with Relay(endpoint, None, patience=PATIENT).serving() as relay, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, relay)
        with anyio.fail_after(60):
            while not relay.usage.streak.kinds:
                await anyio.sleep(0.01)
            with serving(adds, port=port):
                while not answers:
                    await anyio.sleep(0.01)
    assert answers == [200]
    assert relay.usage.errors == {}


async def test_an_endpoint_that_stays_away_is_noticed_by_one_waiting_request() -> None:
    endpoint = Endpoint("url", f"http://127.0.0.1:{free_port()}/v1")
    async with Relay(endpoint, None, patience=PATIENT).serving() as relay, anyio.create_task_group() as tasks:
        tasks.start_soon(post, relay)
        with anyio.fail_after(60):
            while relay.usage.given_up(anyio.current_time() + 11) is None:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("price", [None, Price(1.0, 1.0)], ids=["free", "billed"])
async def test_a_request_whose_connection_was_closed_is_sent_again_only_where_nothing_is_billed(
    price: Price | None,
) -> None:
    cap = RelayCap(cost=1.0, price=price) if price is not None else None
    with raw_server(closes=True) as url:
        async with Relay(Endpoint("url", url), None, cap, RetryPolicy(reconnect=0.05, total=0.5)).serving() as relay:
            assert (await post(relay)).status_code == 503
            failures = relay.usage.streak.kinds.total()
    assert (failures > 2) == (price is None)


async def test_an_endpoint_that_takes_requests_and_answers_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "SILENT_SECONDS", 0.3)
    with raw_server(closes=False) as url:
        relaying = Relay(Endpoint("url", url), None, patience=PATIENT).serving()
        async with relaying as relay, anyio.create_task_group() as tasks:
            tasks.start_soon(post, relay)
            with anyio.fail_after(60):
                while relay.usage.silent < 0.3:
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()


async def test_an_endpoint_that_thinks_long_and_lists_its_models_is_not_called_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy, "SILENT_SECONDS", 0.3)
    gate = threading.Event()
    with serving(adds, gate) as model:
        relaying = Relay(Endpoint("url", model.url), None, patience=PATIENT).serving()
        async with relaying as relay, anyio.create_task_group() as tasks:
            tasks.start_soon(post, relay)
            with anyio.fail_after(60):
                while len(model.headers) < 4:  # the request, and three looks at its models
                    await anyio.sleep(0.02)
                    assert relay.usage.silent == 0
            gate.set()


def test_silence_is_shown_at_once_and_ends_an_evaluation_after_minutes() -> None:
    job = Job("e", "w", "n", "s", "c", "i", "running", None, 0.0, 0.0, None, {}, {"silent_seconds": 42})
    assert [f.code for f in endings.failure_findings(SPEC, job)] == ["eval-timeouts"]
    usage = RelayUsage(silent=601.0)
    assert usage.given_up(0.0) == "timeout"
    ending = endings.endpoint_lost_ending("timeout", "host", usage)
    assert (ending.state, ending.cause) == ("stopped", "eval-timeouts")
    assert "601 seconds" in str(ending.reason)


def test_a_rehearsal_platform_that_ended_with_its_server_is_said_to_have_and_the_same_call_goes_on() -> None:
    usage = RelayUsage()
    for _ in range(10):
        usage.streak.kinds["connect"] += 1
    ending = endings.endpoint_lost_ending("connect", "127.0.0.1", usage, rehearsal=True)
    assert (ending.state, ending.cause) == ("stopped", "eval-endpoint-dead")
    assert "the rehearsal platform ended with the server that started it (10 requests" in str(ending.reason)
    job = Job("e", "w", "n", "s", "c", "i", "stopped", None, 0.0, 0.0, "rehearsal", {}, {"cause": ending.cause})
    assert "The same run_eval call resumes it" in endings.broken_finding(SPEC, job).fix


async def test_the_same_call_finishes_what_failed_and_pays_for_nothing_else(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations = EvaluationJobs(lab)
    launched: list[str] = []
    spec = dataclasses.replace(SPEC, max_cost=2.0)

    def launch(job: Job, spec: Any, key: str | None) -> Job:
        launched.append(job.id)
        return evaluations.get(job.id)

    monkeypatch.setattr(evaluations, "_launch", launch)
    now = time.time()
    progress = {"completed": spec.planned, "planned": spec.planned, "errors": 3, "cost": 0.5}
    ended = Job("eval-1", lab.key, spec.environment, spec.source, spec.content, spec.intent, "finished", None, now,
                now, "prime", spec.as_json(), progress, judged=True, at=now)  # fmt: skip
    lab.ledger.create_job(ended)
    started = await evaluations.start(spec, None)
    assert (started.id, launched) == ("eval-1", ["eval-1"])
    assert (started.state, started.judged) == ("starting", False)
    again = await evaluations.start(spec, None)
    assert (again.id, launched) == ("eval-1", ["eval-1"])
