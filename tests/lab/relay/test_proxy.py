"""The relay alone: keys, counting, caps and errors, plain and streamed."""

from __future__ import annotations

import httpx
import pytest

from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.relay.metering import RelayCap
from prime_lab_mcp.lab.relay.proxy import Relay
from tests.lab.evals.scripted import adds, serving

pytestmark = pytest.mark.anyio
KEY = "sk-the-real-key-0123456789"
ASK = {"model": "m", "messages": [{"role": "user", "content": "1+2"}], "max_tokens": 8}


async def post(relay: Relay, key: str | None = None, **more: object) -> httpx.Response:
    headers = {"authorization": f"Bearer {relay.secret if key is None else key}"}
    async with httpx.AsyncClient(timeout=20) as client:
        return await client.post(f"{relay.url}/chat/completions", json=ASK | more, headers=headers)


async def test_a_request_is_forwarded_with_the_real_key_and_counted() -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay:
            answer = await post(relay)

    assert answer.json()["choices"][0]["message"]["content"] == "<answer>3</answer>"
    assert model.keys == {f"Bearer {KEY}"}
    assert relay.usage.as_json() == {
        "requests": 1,
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "request_errors": {},
        "capped": 0,
        "rate_limited": 0,
        "waited_seconds": 0,
        "last_error": None,
    }


async def test_a_stream_passes_through_whole_and_is_counted() -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay:
            answer = await post(relay, stream=True)

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    assert (relay.usage.prompt_tokens, relay.usage.completion_tokens) == (10, 5)


@pytest.mark.parametrize("key", ["none", "wrong", KEY])
async def test_only_its_own_secret_is_accepted(key: str) -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay:
            answer = await post(relay, key)

    assert answer.status_code == 401
    assert model.requests == []


@pytest.mark.parametrize("status", [400, 401, 429, 500, 503])
async def test_an_error_passes_through_without_the_key_and_is_counted_by_status(status: int) -> None:
    with serving(lambda body, before: status) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay:
            answer = await post(relay)

    assert answer.status_code == status
    assert f"scripted {status}" in answer.text
    assert KEY not in answer.text
    assert relay.usage.errors == {str(status): 1}
    assert relay.usage.last_error is not None
    assert KEY not in relay.usage.last_error


async def test_an_endpoint_that_is_not_there_is_a_503_and_counted_apart() -> None:
    async with Relay(Endpoint("url", "http://127.0.0.1:9/v1"), KEY).serving() as relay:
        answer = await post(relay)

    assert answer.status_code == 503
    assert relay.usage.errors == {"connect": 1}


async def test_a_token_cap_refuses_what_could_exceed_it() -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, RelayCap(tokens=50)).serving() as relay:
            statuses = [(await post(relay)).status_code for _ in range(4)]

    assert statuses == [200, 200, 402, 402]
    assert len(model.requests) == 2
    assert relay.usage.capped == 2


async def test_a_dollar_cap_holds_at_the_price_of_the_endpoint() -> None:
    cap = RelayCap(cost=0.01, price=Price(prompt=10.0, completion=100.0))
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, cap).serving() as relay:
            first = await post(relay)
            too_long = await post(relay, max_tokens=5000)

    assert (first.status_code, too_long.status_code) == (200, 402)


async def test_models_are_listed_and_other_paths_are_not_forwarded() -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay, httpx.AsyncClient() as client:
            headers = {"authorization": f"Bearer {relay.secret}"}
            models = await client.get(f"{relay.url}/models", headers=headers)
            other = await client.post(f"{relay.url}/files", headers=headers, json={})

    assert models.json()["data"][0]["id"] == "scripted"
    assert other.status_code == 404
