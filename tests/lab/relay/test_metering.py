"""What a request that was turned away means: the bounds, and the relay that keeps to them."""

from __future__ import annotations

import email.utils
import time
from typing import Any

import anyio
import httpx
import pytest

from prime_lab_mcp.lab.relay import metering
from prime_lab_mcp.lab.relay.endpoints import Endpoint
from prime_lab_mcp.lab.relay.metering import FailureStreak, RetryPolicy
from prime_lab_mcp.lab.relay.proxy import Relay
from tests.lab.evals.scripted import adds, serving

ASK = {"model": "m", "messages": [{"role": "user", "content": "1+2"}], "max_tokens": 8}


@pytest.mark.parametrize(
    ("status", "retry_after", "attempt", "waited", "wait"),
    [
        (429, None, 1, 0.0, 1.0),
        (429, None, 4, 7.0, 8.0),
        (429, "3", 1, 0.0, 3.0),
        (429, "0", 1, 0.0, 0.0),
        (503, "2", 1, 0.0, 2.0),
        (503, None, 1, 0.0, None),
        (500, "2", 1, 0.0, None),
        (200, "2", 1, 0.0, None),
        (429, "31", 1, 0.0, None),
        (429, "30", 1, 61.0, None),
        (429, None, 6, 31.0, None),
        (429, "soon", 2, 1.0, 2.0),
    ],
)
def test_waits_have_bounds(
    status: int, retry_after: str | None, attempt: int, waited: float, wait: float | None
) -> None:
    assert RetryPolicy().wait(status, retry_after, attempt, waited) == wait


def test_a_date_is_as_good_as_seconds() -> None:
    found = metering.retry_after_seconds(email.utils.formatdate(time.time() + 20, usegmt=True))
    assert found is not None
    assert 15 < found <= 20


@pytest.mark.parametrize(
    ("kinds", "answered", "later", "given_up"),
    [
        (["connect"] * 10, False, 11.0, "connect"),
        (["connect"] * 10, False, 9.0, None),
        (["connect"] * 9, False, 100.0, None),
        (["dns"] * 8 + ["connect"] * 2, False, 11.0, "dns"),
        (["connect"] * 10, True, 11.0, None),
        (["connect"] * 10, True, 61.0, "connect"),
        (["401"] * 10, False, 0.0, "401"),
        (["402"] * 10, True, 0.0, "402"),
        (["404"] * 9, False, 0.0, None),
        (["500"] * 99, False, 100.0, None),
        (["429"] * 99, False, 100.0, None),
        (["404"] * 9 + ["500"] + ["404"] * 9, False, 100.0, None),
    ],
)
def test_an_endpoint_is_given_up_after_ten_failures_in_a_row(
    kinds: list[str], answered: bool, later: float, given_up: str | None
) -> None:
    streak = FailureStreak()
    if answered:
        streak.succeeded()
    for kind in kinds:
        streak.failed(kind, 100.0)
    assert streak.given_up(100.0 + later) == given_up
    streak.succeeded()
    assert streak.given_up(1000.0) is None


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "This model's maximum context length is 512 tokens", "context"),
        (400, '{"error": {"code": "context_length_exceeded"}}', "context"),
        (413, "prompt is too long", "context"),
        (400, "unknown parameter", "400"),
        (500, "context length", "500"),
    ],
)
def test_a_prompt_that_is_too_long_is_counted_apart(status: int, text: str, kind: str) -> None:
    assert metering.kind_of_status(status, text) == kind


async def asked(relay: Relay) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        headers = {"authorization": f"Bearer {relay.secret}"}
        return await client.post(f"{relay.url}/chat/completions", json=ASK, headers=headers)


@pytest.mark.anyio
async def test_a_short_burst_of_429_fails_nothing() -> None:
    def limited(body: dict[str, Any], before: int) -> str | int:
        return 429 if before < 2 else adds(body, before)

    with serving(limited, retry_after="0.1") as model:
        async with Relay(Endpoint("url", model.url), None, patience=RetryPolicy()).serving() as relay:
            answer = await asked(relay)
            usage = relay.usage

    assert answer.status_code == 200
    assert (usage.rate_limited, usage.requests, dict(usage.errors)) == (2, 1, {})
    assert usage.waited == pytest.approx(0.2)


@pytest.mark.anyio
async def test_a_429_without_end_passes_through_in_the_end() -> None:
    with serving(lambda body, before: 429, retry_after="0") as model:
        async with Relay(Endpoint("url", model.url), None, patience=RetryPolicy(attempts=3)).serving() as relay:
            answer = await asked(relay)

    assert (answer.status_code, len(model.requests)) == (429, 3)
    assert (relay.usage.rate_limited, dict(relay.usage.errors)) == (2, {"429": 1})


@pytest.mark.anyio
async def test_a_host_that_has_no_address_is_told_apart() -> None:
    async with Relay(Endpoint("url", "http://no-such-host.invalid/v1"), None).serving() as relay:
        answer = await asked(relay)

    assert answer.status_code == 503
    assert set(relay.usage.errors) <= {"dns", "connect"}
    assert metering.kind_of_failure(OSError("[Errno -2] Name or service not known")) == "dns"
    assert metering.kind_of_failure(OSError("[Errno 111] Connection refused")) == "connect"


@pytest.mark.anyio
async def test_while_one_request_waits_for_the_endpoint_new_ones_wait_too() -> None:
    def limited(body: dict[str, Any], before: int) -> str | int:
        return 429 if before < 1 else adds(body, before)

    with serving(limited, retry_after="0.4") as model:
        relaying = Relay(Endpoint("url", model.url), None, patience=RetryPolicy()).serving()
        async with relaying as relay, anyio.create_task_group() as tasks:
            tasks.start_soon(asked, relay)
            with anyio.fail_after(20):
                while not relay.usage.rate_limited:
                    await anyio.sleep(0.01)
            until = relay._not_before
            await asked(relay)
            assert anyio.current_time() >= until
    assert len(model.requests) == 3


def test_errors_are_counted_the_most_frequent_first() -> None:
    assert metering.error_counts_summary({"connect": 3, "429": 12}) == "12 x 429, 3 x connect"
