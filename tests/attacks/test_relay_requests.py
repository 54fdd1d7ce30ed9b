"""Requests of environment code that are billed for more than they seem to ask, and honest requests that pass."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from prime_lab_mcp.lab.evals.runner.admitted_costs import AdmittedCosts
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price
from prime_lab_mcp.lab.relay.metering import RelayCap
from prime_lab_mcp.lab.relay.proxy import Relay
from prime_lab_mcp.lab.relay.requests import IMAGE_TOKENS, RequestRefused, check_request
from tests.lab.evals.scripted import adds, serving

pytestmark = pytest.mark.anyio
KEY = "sk-the-real-key-0123456789"
ASK: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "1+2"}], "max_tokens": 8}
WRITE: dict[str, Any] = {"model": "m", "prompt": "1+2", "max_tokens": 8}
RESPOND: dict[str, Any] = {"model": "m", "input": "1+2", "max_output_tokens": 8}
PRICE = Price(1.0, 2.0)
PNG = "data:image/png;base64,iVBORw0KGgo="


def with_part(part: dict[str, Any]) -> dict[str, Any]:
    return {**ASK, "messages": [{"role": "user", "content": [part]}]}


def picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def send(relay: Relay, path: str, content: bytes) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(
            f"{relay.url}/{path}", content=content, headers={"authorization": f"Bearer {relay.secret}"}
        )


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("chat/completions", ASK | {"n": "10000"}, "'n'"),
        ("chat/completions", ASK | {"n": 2.0}, "'n'"),
        ("chat/completions", ASK | {"max_tokens": "100000"}, "'max_tokens'"),
        ("chat/completions", ASK | {"max_output_tokens": 8}, "'max_output_tokens'"),
        ("chat/completions", ASK | {"N": 1000}, "'N'"),
        ("chat/completions", ASK | {"models": ["dear"]}, "'models'"),
        ("chat/completions", ASK | {"plugins": [{"id": "web"}]}, "'plugins'"),
        ("chat/completions", ASK | {"provider": {"only": ["dear"]}}, "'provider'"),
        ("chat/completions", ASK | {"service_tier": "priority"}, "'service_tier'"),
        ("chat/completions", ASK | {"web_search_options": {}}, "'web_search_options'"),
        ("chat/completions", ASK | {"model": "m:online"}, "'model'"),
        ("chat/completions", ASK | {"chat_template": "{% for i in range(9) %}x{% endfor %}"}, "'chat_template'"),
        ("chat/completions", ASK | {"chat_template_kwargs": {"chat_template": "x"}}, "'chat_template_kwargs'"),
        ("chat/completions", ASK | {"stream": "true"}, "'stream'"),
        ("chat/completions", ASK | {"tools": [{"type": "openrouter:web_search"}]}, "openrouter:web_search"),
        ("chat/completions", with_part(picture("https://x.example/a.png")), "image_url"),
        ("chat/completions", with_part({"type": "file", "file": {"file_id": "f"}}), "file"),
        ("chat/completions", with_part({"type": "input_audio", "input_audio": {"data": "x"}}), "input_audio"),
        ("chat/completions", ASK | {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, "audio"),
        ("completions", WRITE | {"best_of": "100"}, "'best_of'"),
        ("completions", WRITE | {"max_tokens": None, "max_completion_tokens": 8}, "'max_completion_tokens'"),
        ("responses", RESPOND | {"previous_response_id": "r"}, "'previous_response_id'"),
        ("responses", RESPOND | {"conversation": "c"}, "'conversation'"),
        ("responses", RESPOND | {"prompt": {"id": "p"}}, "'prompt'"),
        ("responses", RESPOND | {"background": True}, "'background'"),
        ("responses", RESPOND | {"tools": [{"type": "web_search"}]}, "web_search"),
        ("responses", RESPOND | {"tools": [{"type": "namespace", "tools": [{"type": "mcp"}]}]}, "mcp"),
        ("responses", RESPOND | {"tools": [{"type": "namespace", "tools": "all"}]}, "no list of tools"),
        ("chat/completions", ASK | {"messages": [{"content": {"text": "t"}}]}, "neither a text nor a list of parts"),
        ("chat/completions", ASK | {"messages": [{"content": [7]}]}, "no object with a type"),
        ("chat/completions", with_part({"type": ["text"], "text": "t"}), "no object with a type"),
        ("chat/completions", with_part({"type": "hologram"}), "of type hologram"),
        ("responses", RESPOND | {"input": [{"type": "item_reference", "id": "i"}]}, "item_reference"),
        ("responses", RESPOND | {"input": [{"role": "user", "content": [{"file_id": "f"}]}]}, "file_id"),
    ],
)  # fmt: skip
async def test_a_request_whose_cost_nothing_bounds_is_refused_by_the_name_of_its_key(
    path: str, body: dict[str, Any], named: str
) -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, RelayCap(cost=9.0, price=PRICE)).serving() as relay:
            answer = await send(relay, path, json.dumps(body).encode())

    assert (answer.status_code, model.requests) == (400, [])
    assert named in answer.json()["error"]["message"]


async def test_a_key_that_occurs_twice_is_forwarded_once_as_it_was_counted() -> None:
    raw = json.dumps(ASK)[:-1] + ', "n": 10000, "n": 1}'
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, RelayCap(cost=1.0, price=PRICE)).serving() as relay:
            relay_url, headers = relay.url, {"authorization": f"Bearer {relay.secret}"}
            sent: list[bytes] = []
            forward = relay._forward

            async def noting(method: str, path: str, content: bytes, *rest: Any) -> Any:
                sent.append(content)
                return await forward(method, path, content, *rest)

            relay._forward = noting  # type: ignore[method-assign]
            async with httpx.AsyncClient(timeout=60) as client:
                answer = await client.post(f"{relay_url}/chat/completions", content=raw.encode(), headers=headers)

    assert answer.status_code == 200
    assert sent[0].count(b'"n"') == 1
    assert model.requests[0]["n"] == 1


async def test_each_prompt_of_a_list_is_a_reply_of_its_own() -> None:
    cap = RelayCap(cost=0.01, price=PRICE)
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), KEY, cap).serving() as relay:
            answer = await send(relay, "completions", json.dumps(WRITE | {"prompt": ["a"] * 2000}).encode())

    assert (answer.status_code, relay.usage.capped) == (402, 1)
    for prompts, count in ((["a", "b"], 2), ([1, 2, 3], 1), ([[1], [2], [3]], 3), ("a", 1)):
        assert (
            check_request("completions", json.dumps(WRITE | {"prompt": prompts, "n": 5}).encode()).replies == 5 * count
        )


def test_a_picture_counts_with_its_bound_and_not_with_its_size_in_the_request() -> None:
    small = check_request("chat/completions", json.dumps(with_part(picture(PNG))).encode())
    large = check_request("chat/completions", json.dumps(with_part(picture(PNG + "A" * 1_000_000))).encode())

    assert small.prompt_tokens() == large.prompt_tokens()
    assert IMAGE_TOKENS < small.prompt_tokens() < IMAGE_TOKENS + 200


@pytest.mark.parametrize(
    ("answered", "rate"),
    [("m", 1), ("m-2026-01-31", 1), ("vendor/M:latest", 1), ("cheaper", 1), ("dear", 1000), ("unknown", 1000)],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_is_billed_by_the_model_that_it_names_if_that_is_dearer(
    answered: str, rate: float, stream: bool
) -> None:
    price = Price(1.0, 1.0)
    with serving(adds) as model:
        model.prices = {
            "dear": {"input_usd_per_mtok": 1000.0, "output_usd_per_mtok": 1000.0},
            "cheaper": {"input_usd_per_mtok": 0.1, "output_usd_per_mtok": 0.1},
        }
        model.answers_as = answered
        cap = RelayCap(cost=1.0, price=price, prices={"m": price})
        async with Relay(Endpoint("url", model.url), KEY, cap).serving() as relay:
            answer = await send(relay, "chat/completions", json.dumps(ASK | {"stream": stream}).encode())

    assert answer.status_code == 200
    assert relay.usage.cost == pytest.approx(Price(rate, rate).of(10, 5))


def test_parts_that_are_texts_pass_and_half_of_a_surrogate_pair_stays_as_it_was_escaped() -> None:
    message = {"role": "user", "content": ["plain", {"type": "text", "text": "\ud83d"}]}
    checked = check_request("chat/completions", json.dumps(ASK | {"messages": [message]}).encode())
    assert json.loads(checked.content())["messages"] == [message]
    assert b"\\ud83d" in checked.content()
    assert checked.prompt_tokens() == len(checked.content())


def test_what_clients_and_harnesses_of_verifiers_send_passes() -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
    sampling = {"temperature": 1, "top_p": 0.9, "n": 2, "seed": 1, "stop": ["a"], "logprobs": True, "top_logprobs": 5}
    extra = {
        "top_k": -1, "min_p": 0.0, "repetition_penalty": 1.1, "return_token_ids": True, "cache_salt": "s",
        "chat_template_kwargs": {"enable_thinking": False}, "reasoning": {"effort": "low"}, "reasoning_effort": "low",
        "skip_special_tokens": False, "min_tokens": 1, "prompt_logprobs": 1, "usage": {"include": True},
        "unknown": None,
    }  # fmt: skip
    call = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": [{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": PNG}}]},
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "r", "audio": None},
        {"role": "tool", "tool_call_id": "c", "content": "3"},
    ]
    chat = ASK | sampling | extra | {"messages": messages, "tools": [tool], "tool_choice": "auto"}
    chat |= {"stream": True, "stream_options": {"include_usage": True}, "response_format": {"type": "json_object"}}
    assert check_request("chat/completions", json.dumps(chat).encode()).replies == 2

    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": PNG}]},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": "e"},
        {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "3"},
    ]
    responses = RESPOND | {"input": items, "instructions": "i", "store": False, "text": {"verbosity": "low"}}
    responses |= {"include": ["reasoning.encrypted_content"], "tools": [{"type": "function", "name": "add"}]}
    assert check_request("responses", json.dumps(responses).encode()).limit == 8
    assert (
        check_request("completions", json.dumps(WRITE | sampling | {"logprobs": 5, "echo": False}).encode()).limit == 8
    )
    assert check_request("embeddings", b'{"model": "m", "input": ["a", "b"]}').limit == 0


async def test_a_free_server_of_this_machine_gets_unknown_keys_but_counts_replies_all_the_same() -> None:
    with serving(adds) as model:
        async with Relay(Endpoint("url", model.url), None).serving() as relay:
            passed = await send(relay, "chat/completions", json.dumps(ASK | {"num_ctx": 4096}).encode())
            text = await send(relay, "chat/completions", json.dumps(ASK | {"n": "2"}).encode())

    assert (passed.status_code, text.status_code) == (200, 400)
    assert model.requests[0]["num_ctx"] == 4096


@pytest.mark.parametrize(
    "raw",
    [b"[" * 100_000, b'{"a":' * 100 + b"1" + b"}" * 100, b'{"temperature": NaN}', b"[]", b"\xff", b'{"seed": 1e999}'],
    ids=["brackets", "nested", "no number", "list", "no text", "too large"],
)
def test_a_request_that_is_no_plain_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestRefused):
        check_request("chat/completions", raw, free=True)


async def test_the_books_hold_the_most_of_a_request_before_it_is_forwarded_and_its_cost_afterwards(
    tmp_path: Path,
) -> None:
    books, gate = AdmittedCosts(tmp_path / "admitted.txt"), threading.Event()
    cap = RelayCap(cost=9.0, price=PRICE, prices={"m": PRICE})
    most = check_request("chat/completions", json.dumps(ASK).encode()).prompt_tokens()
    with serving(adds, gate) as model:
        relaying = Relay(Endpoint("url", model.url), KEY, cap, booked=books.add).serving()
        async with relaying as relay, anyio.create_task_group() as tasks:
            tasks.start_soon(send, relay, "chat/completions", json.dumps(ASK).encode())
            with anyio.fail_after(60):
                while not model.requests:
                    await anyio.sleep(0.01)
            assert books.totals() == (pytest.approx(PRICE.of(most, 8)), most + 8)
            killed = books.at_least({"cost": 0.0, "prompt_tokens": 0})
            gate.set()
    assert (killed["cost"], killed["unreported_tokens"]) == (pytest.approx(PRICE.of(most, 8)), most + 8)
    assert books.totals() == (pytest.approx(PRICE.of(10, 5)), 15)


def test_a_line_that_a_kill_left_half_written_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "admitted.txt"
    books = AdmittedCosts(path)
    assert books.totals() == (0.0, 0)
    books.add(0.5, 10)
    path.write_text(path.read_text() + "\n0.25 4")
    books.add(-0.25, -4)
    assert books.totals() == (0.25, 6)
    assert books.at_least({"cost": 1.0, "prompt_tokens": 9}) == {"cost": 1.0, "prompt_tokens": 9}
