"""The relay alone: keys, counting, caps and errors, plain and streamed."""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
import httpx
import pytest

from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.relay.metering import DEFAULT_COMPLETION, RelayCap
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
        "unreported_tokens": 0,
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


async def test_only_with_its_secret_are_models_listed() -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay, httpx.AsyncClient() as client:
            answer = await client.get(f"{relay.url}/models")
    assert (answer.status_code, model.headers) == (401, [])


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_a_failure_of_the_endpoint_and_no_empty_reply(status: int) -> None:
    with serving(lambda body, before: status) as model:
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay:
            answer = await post(relay)

    assert answer.status_code == 404
    assert "redirects" in answer.text
    assert (dict(relay.usage.errors), relay.usage.completion_tokens) == ({str(status): 1}, 0)


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
    # A token is at least one byte: a request reserves its length and its longest reply, and is counted as reported.
    most = len(json.dumps(ASK, separators=(",", ":"))) + 8
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, RelayCap(tokens=most + 15)).serving() as relay:
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


async def test_a_reply_without_a_limit_gets_one_and_no_number_lowers_what_is_reserved() -> None:
    cap = RelayCap(cost=0.01, price=Price(prompt=0.0, completion=1.0))
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, cap).serving() as relay:
            unlimited = await post(relay, max_tokens=None)
            many = await post(relay, max_tokens=1000, n=11)
            negative = await post(relay, max_tokens=-1_000_000)
            still = await post(relay, max_tokens=10_000)

    assert (unlimited.status_code, many.status_code, negative.status_code, still.status_code) == (200, 402, 200, 402)
    limits = [r.get("max_completion_tokens") for r in model.requests]
    assert limits == [DEFAULT_COMPLETION, DEFAULT_COMPLETION]
    assert all("max_tokens" not in r for r in model.requests)


async def test_a_dearer_model_of_the_same_endpoint_counts_at_its_own_price() -> None:
    cheap, dear = Price(1.0, 1.0), {"input_usd_per_mtok": 100.0, "output_usd_per_mtok": 1000.0}
    with serving(adds) as model:
        model.prices = {"dear": dear}
        cap = RelayCap(cost=1.0, price=cheap, prices={"m": cheap})
        async with Relay(Endpoint("url", model.url), KEY, cap).serving() as relay:
            for name in ("m", "dear", "unlisted"):
                assert (await post(relay, model=name)).status_code == 200
            refused = await post(relay, model="dear", max_tokens=1000)

    assert relay.usage.cost == pytest.approx(cheap.of(10, 5) + 2 * Price(100.0, 1000.0).of(10, 5))
    assert refused.status_code == 402


async def test_an_answer_without_a_report_of_tokens_counts_with_its_most() -> None:
    cap = RelayCap(cost=0.01, price=Price(prompt=0.0, completion=1000.0))
    with serving(adds) as model:
        model.reports = False
        async with Relay(Endpoint("url", model.url), KEY, cap).serving() as relay:
            statuses = [(await post(relay, stream=bool(n))).status_code for n in (0, 1)]

    assert statuses == [200, 402]
    assert relay.usage.cost == pytest.approx(0.008)
    assert (relay.usage.prompt_tokens, relay.usage.completion_tokens) == (0, 0)


async def test_the_team_that_pays_is_named_to_the_platform_only() -> None:
    with serving(adds) as model:
        for team in ("t1", None):
            async with Relay(Endpoint("prime", model.url, "PRIME_API_KEY", team), KEY).serving() as relay:
                await post(relay)
    assert ["x-prime-team-id: t1" in headers.lower() for headers in model.headers] == [True, False]


async def test_an_error_of_the_block_that_a_relay_serves_comes_out_as_it_is() -> None:
    with pytest.raises(ValueError, match=r"^mine$"):
        async with Relay(Endpoint("url", "http://127.0.0.1:9/v1"), KEY).serving():
            raise ValueError("mine")


async def test_requests_are_counted_up_to_their_number() -> None:
    gate = threading.Event()
    statuses: list[int] = []
    with serving(adds, gate) as model:
        async with Relay(Endpoint("url", model.url), KEY, RelayCap(requests=2)).serving() as relay:

            async def ask() -> None:
                statuses.append((await post(relay)).status_code)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask)
                tasks.start_soon(ask)
                with anyio.fail_after(20):
                    while len(model.requests) < 2:
                        await anyio.sleep(0.01)
                statuses.append((await post(relay)).status_code)
                gate.set()
    assert statuses == [402, 200, 200]


async def test_a_request_whose_cost_cannot_be_written_down_is_not_sent() -> None:
    def full(cost: float, tokens: int) -> None:
        raise OSError(28, "No space left on device")

    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, booked=full).serving() as relay:
            answer = await post(relay)
    assert (answer.status_code, model.requests) == (503, [])
    assert "cannot be recorded" in answer.text


@pytest.mark.parametrize(
    ("error", "status", "billed"),
    [
        (httpx.ConnectTimeout("no answer"), 504, False),
        (httpx.ReadTimeout("no reply"), 504, True),
        (httpx.ReadError("closed"), 503, True),
    ],
)
async def test_a_request_that_may_have_reached_the_endpoint_counts_with_its_most(
    error: httpx.TransportError, status: int, billed: bool
) -> None:
    async def fails(request: httpx.Request, **_: Any) -> httpx.Response:
        raise error

    async with Relay(Endpoint("url", "https://models.example.com/v1"), KEY).serving() as relay:
        assert relay._client is not None
        relay._client.send = fails  # type: ignore[method-assign]
        answer = await post(relay)
    assert answer.status_code == status
    assert (relay.usage.unreported_tokens > 0) == billed
    assert relay.usage.errors.total() == 1


@pytest.mark.parametrize(
    ("usage", "counted"),
    [
        ({"input_tokens": 7, "output_tokens": 2}, (7, 2)),
        ({"prompt_tokens": None, "input_tokens": 7}, (7, 0)),
        ({"prompt_tokens": "many"}, (0, 0)),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_tokens_are_counted_under_the_names_of_each_kind_of_endpoint(
    usage: dict[str, object], counted: tuple[int, int], stream: bool
) -> None:
    event = {"type": "response.completed", "response": {"usage": usage, "output": []}}
    with serving(adds) as model:
        model.whole = (
            ("text/event-stream", f"data: {json.dumps(event)}\n\n")
            if stream
            else (
                "application/json",
                json.dumps({"usage": usage}),
            )
        )
        async with Relay(Endpoint("url", model.url), KEY).serving() as relay, httpx.AsyncClient(timeout=20) as client:
            asked = {"model": "m", "input": "1+2", "max_output_tokens": 8, "stream": stream}
            headers = {"authorization": f"Bearer {relay.secret}"}
            assert (await client.post(f"{relay.url}/responses", json=asked, headers=headers)).status_code == 200
    assert (relay.usage.prompt_tokens, relay.usage.completion_tokens) == counted
    assert relay.usage.unreported_tokens == 0


async def test_an_answer_that_cannot_be_passed_on_is_counted_once() -> None:
    booked: list[int] = []
    price = Price(1.0, 1.0)
    cap = RelayCap(cost=1.0, price=price, prices={"m": price})
    with serving(adds) as model:
        model.request_id = "\u65e5".encode().decode("latin-1")  # UTF-8, in which no header can be sent again
        relaying = Relay(Endpoint("url", model.url), KEY, cap, booked=lambda cost, tokens: booked.append(tokens))
        async with relaying.serving() as relay:
            answer = await post(relay)
    assert answer.status_code == 500
    assert (relay.usage.prompt_tokens + relay.usage.completion_tokens, sum(booked)) == (15, 15)
    assert (relay.usage.cost, relay.usage.unreported_tokens) == (pytest.approx(price.of(10, 5)), 0)
