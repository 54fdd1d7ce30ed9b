"""The loopback proxy between `vf-eval` and the real endpoint, in the job's supervisor.

It alone holds the real key; environment code gets a random one that is good for this relay only. It counts tokens,
refuses what would exceed the cap, and waits where the endpoint limits its rate. Judges inside environments come through
here too. httpx, starlette and uvicorn are imported here and nowhere the server imports at start.
"""

from __future__ import annotations

import json
import random
import secrets
import socket
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from prime_lab_mcp.lab.evals.metering import Cap, Usage
from prime_lab_mcp.lab.evals.spec import Endpoint
from prime_lab_mcp.lab.evals.upstream import IMPATIENT, Patience, kind_of_failure, kind_of_status
from prime_lab_mcp.lab.text import quote

__all__ = ["POSTED", "Cap", "Relay"]

POSTED = ("chat/completions", "completions", "responses", "embeddings")
_CONNECT = 30.0
_DEFAULT_COMPLETION = 2048
"""Tokens reserved for a reply whose request states no limit."""
_KEPT_HEADERS = ("content-type", "retry-after", "x-request-id")


class Relay:
    """Forwards to `endpoint` with `key`; `secret` is the only key it accepts."""

    def __init__(
        self, endpoint: Endpoint, key: str | None, cap: Cap | None = None, patience: Patience = IMPATIENT
    ) -> None:
        self.secret = f"relay-{secrets.token_urlsafe(24)}"
        self.usage = Usage()
        self.url = ""
        self._endpoint = endpoint
        self._key = key
        self.cap = cap or Cap()
        """May be replaced while it serves."""
        self._patience = patience
        self._not_before = 0.0
        """Until when the endpoint asked all of us to wait."""
        self._reserved = [0, 0]
        self._client: httpx.AsyncClient | None = None

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Relay]:
        """Listen on a loopback port of the system's choice; `url` ends in /v1."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        timeout = httpx.Timeout(None, connect=_CONNECT)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        async with httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False) as self._client:
            config = uvicorn.Config(self._app(), log_level="critical", access_log=False, lifespan="off", ws="none")
            server = _Server(config)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listener])
                try:
                    yield self
                finally:
                    server.should_exit = server.force_exit = True
                    tasks.cancel_scope.cancel()

    def _app(self) -> Starlette:
        routes = [Route(f"/v1/{path}", self._post, methods=["POST"]) for path in POSTED]
        routes.append(Route("/v1/models", self._models, methods=["GET"]))
        return Starlette(routes=routes)

    def _allowed(self, request: Request) -> bool:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and secrets.compare_digest(given.encode(), self.secret.encode())

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "accept-encoding": "identity"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"
        if self._endpoint.team:
            headers["x-prime-team-id"] = self._endpoint.team
        return headers

    async def _models(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal(401, "this key is not the relay's")
        return await self._forward("GET", "models", b"", None)

    async def _post(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal(401, "this key is not the relay's")
        raw = await request.body()
        try:
            body = json.loads(raw)
        except ValueError:
            return _refusal(400, "the request is no JSON")
        if not isinstance(body, dict):
            return _refusal(400, "the request is no JSON object")
        path = request.url.path.removeprefix("/v1/")
        with self._reservation(raw, body) as admitted:
            if not admitted:
                self.usage.capped += 1
                return _refusal(402, "the cap of this evaluation is reached")
            if body.get("stream") and path != "responses":
                body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
            content = json.dumps(body).encode() if body.get("stream") else raw
            return await self._forward("POST", path, content, body)

    @contextmanager
    def _reservation(self, raw: bytes, body: Mapping[str, Any]) -> Iterator[bool]:
        """Hold back what a request may use while it runs, so that concurrent ones cannot exceed the cap together."""
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or body.get("max_output_tokens")
        completion = limit if isinstance(limit, int) else _DEFAULT_COMPLETION
        wanted = [len(raw) // 4, completion * (body["n"] if isinstance(body.get("n"), int) else 1)]
        used = (self.usage.prompt_tokens, self.usage.completion_tokens)
        if self.cap.requests is not None and self.usage.requests >= self.cap.requests:
            yield False
            return
        if not self.cap.allows(*(u + r + w for u, r, w in zip(used, self._reserved, wanted, strict=True))):
            yield False
            return
        self._reserved = [r + w for r, w in zip(self._reserved, wanted, strict=True)]
        try:
            yield True
        finally:
            self._reserved = [r - w for r, w in zip(self._reserved, wanted, strict=True)]

    async def _forward(self, method: str, path: str, content: bytes, body: Mapping[str, Any] | None) -> Response:
        assert self._client is not None
        self.usage.requests += body is not None
        request = self._client.build_request(
            method, f"{self._endpoint.url.rstrip('/')}/{path}", content=content or None, headers=self._headers()
        )
        try:
            answer = await self._send(request)
            if answer.status_code < 400 and body is not None and body.get("stream"):
                return StreamingResponse(self._stream(answer), answer.status_code, _kept(answer))
            received = await answer.aread()
            await answer.aclose()
        except httpx.TimeoutException as error:
            return self._unreachable(504, "timeout", error)
        except httpx.HTTPError as error:
            return self._unreachable(503, kind_of_failure(error), error)
        if answer.status_code >= 400:
            text = received.decode("utf-8", "replace")
            self._failed(kind_of_status(answer.status_code, text), text)
            if self._key:
                received = received.replace(self._key.encode(), b"[redacted]")
        elif body is not None:
            self._count(_parsed(received))
        return Response(received, answer.status_code, _kept(answer))

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """The answer's head, after the waits that the endpoint asked for."""
        assert self._client is not None
        waited, attempt = 0.0, 1
        while True:
            # While one request waits for the endpoint, new ones do not press on it.
            if (pause := min(self._not_before - anyio.current_time(), self._patience.each)) > 0:
                await anyio.sleep(pause)
            answer = await self._client.send(request, stream=True)
            wait = self._patience.wait(answer.status_code, answer.headers.get("retry-after"), attempt, waited)
            if wait is None:
                if answer.status_code < 400:
                    self.usage.streak.succeeded()
                return answer
            await answer.aclose()
            self.usage.rate_limited += 1
            self.usage.waited += wait
            self._not_before = max(self._not_before, anyio.current_time() + wait)
            await anyio.sleep(wait * random.uniform(1.0, 1.25))  # not all at once again
            waited, attempt = waited + wait, attempt + 1

    async def _stream(self, answer: httpx.Response) -> AsyncIterator[bytes]:
        rest = b""
        try:
            async for chunk in answer.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.startswith(b"data:") and b'"usage"' in line:
                        self._count(_parsed(line[5:]))
                yield chunk
        except httpx.HTTPError as error:
            # The status is sent already: what is left is to break the stream off, as the endpoint did.
            self._failed("connect", f"{type(error).__name__} {error}")
            raise
        finally:
            with anyio.CancelScope(shield=True):
                await answer.aclose()

    def _count(self, answer: Mapping[str, Any]) -> None:
        usage = answer.get("usage")
        if not isinstance(usage, Mapping) and isinstance(answer.get("response"), Mapping):
            usage = answer["response"].get("usage")
        if isinstance(usage, Mapping):
            self.usage.prompt_tokens += _number(usage, "prompt_tokens", "input_tokens")
            self.usage.completion_tokens += _number(usage, "completion_tokens", "output_tokens")

    def _unreachable(self, status: int, kind: str, error: Exception) -> Response:
        self._failed(kind, f"{type(error).__name__} {error}")
        return _refusal(status, f"the endpoint {self._endpoint.host} could not be reached ({type(error).__name__})")

    def _failed(self, kind: str, text: str) -> None:
        self.usage.errors[kind] += 1
        self.usage.streak.failed(kind, anyio.current_time())
        if self._key:
            text = text.replace(self._key, "[redacted]")
        self.usage.last_error = f"{kind}: {quote(text, 200)}"


class _Server(uvicorn.Server):
    """Signals belong to the supervisor."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _kept(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers}


def _refusal(status: int, message: str) -> Response:
    return JSONResponse(
        {"error": {"message": f"prime-lab-mcp relay: {message}", "type": "relay", "code": status}}, status
    )


def _parsed(raw: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(raw)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _number(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        if isinstance(usage.get(name), int):
            return int(usage[name])
    return 0
