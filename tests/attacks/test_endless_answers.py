"""Servers that answer without end, or with a megabyte that is a gigabyte once it is decoded."""

from __future__ import annotations

import functools
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.limited_answers import LISTING_BYTES
from prime_lab_mcp.lab.prime.answers import WheelPlace
from prime_lab_mcp.lab.prime.download import fetch_wheel
from prime_lab_mcp.lab.prime.refusals import PrimeRefusal
from prime_lab_mcp.lab.relay import proxy
from prime_lab_mcp.lab.relay.endpoints import Endpoint, EndpointAccess, query_endpoint
from prime_lab_mcp.lab.relay.proxy import Relay

pytestmark = pytest.mark.anyio
MIB = 1 << 20
BODY = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "hi"}]}


@functools.cache
def blanks() -> bytes:
    return gzip.compress(b" " * (16 * LISTING_BYTES), 1)


@pytest.fixture(autouse=True)
def made_before() -> None:
    """The blanks are made outside what is measured, and not at import: every process of a run imports this module."""
    blanks()


async def bomb(request: Request) -> Response:
    return Response(blanks(), headers={"content-encoding": "gzip", "content-type": "application/json"})


async def endless(request: Request) -> Response:
    async def mebibytes() -> AsyncIterator[bytes]:
        while True:
            await anyio.lowlevel.checkpoint()  # a send to a client that has gone does not wait
            yield b" " * MIB

    return StreamingResponse(mebibytes(), media_type="application/json")


@asynccontextmanager
async def server(answer: Any) -> AsyncIterator[str]:
    """A server on loopback that gives the same answer to every request."""
    paths = ("/v1/models", "/v1/chat/completions", "/{rest:path}")
    app = Starlette(routes=[Route(path, answer, methods=["GET", "POST"]) for path in paths])
    uvicorn_server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(uvicorn_server.serve)
        with anyio.fail_after(30):
            while not uvicorn_server.started:
                await anyio.sleep(0.01)
        try:
            yield f"http://127.0.0.1:{uvicorn_server.servers[0].sockets[0].getsockname()[1]}"
        finally:
            uvicorn_server.should_exit = uvicorn_server.force_exit = True


@contextmanager
def at_most(bytes: int) -> Iterator[None]:
    """Python allocates at most this much more memory inside."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("answer", [bomb, endless], ids=["bomb", "endless"])
async def test_a_list_of_models_is_read_up_to_a_size(answer: Any) -> None:
    async with server(answer) as url:
        with at_most(8 * LISTING_BYTES), anyio.fail_after(60), pytest.raises(EvalError) as caught:
            await query_endpoint(EndpointAccess(Endpoint("url", f"{url}/v1"), None), "m", exact=False)
    assert caught.value.code == "endpoint-unreachable"


@pytest.mark.parametrize("answer", [bomb, endless], ids=["bomb", "endless"])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_is_read_up_to_a_size(answer: Any, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "REPLY_BYTES", 8 * MIB)
    async with server(answer) as url, Relay(Endpoint("url", f"{url}/v1"), None).serving() as relay:
        headers = {"authorization": f"Bearer {relay.secret}"}
        received = 0
        with anyio.fail_after(60):
            async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
                try:
                    sent = {**BODY, "stream": stream}
                    async with client.stream(
                        "POST", f"{relay.url}/chat/completions", json=sent, headers=headers
                    ) as got:
                        status = got.status_code
                        async for chunk in got.aiter_raw():
                            received += len(chunk)
                except httpx.HTTPError:
                    assert stream
        assert relay.usage.errors
    assert received < 16 * MIB
    assert stream or status == 503


async def test_a_page_of_an_index_is_read_up_to_a_size(tmp_path: Path) -> None:
    async with server(endless) as url:
        place = WheelPlace(url, "sums", "0.1.0")
        with at_most(8 * LISTING_BYTES), anyio.fail_after(60), pytest.raises(PrimeRefusal):
            await fetch_wheel(place, tmp_path / "sums.whl", "fetching", trust_env=False)
