"""The loopback proxy between a program that runs environment code and the real endpoint.

Only the proxy holds the real key. Environment code gets a random key that is valid for this relay only. The proxy
counts tokens, refuses requests that would exceed the cap, and waits when the endpoint limits its rate. Judges inside
environments use the proxy too. The server imports this module late, because httpx, starlette and uvicorn are slow to
import.
"""

from __future__ import annotations

import json
import random
import re
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from prime_lab_mcp.lab.base.limited_answers import get_limited, read_limited, too_long
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.relay.endpoints import Endpoint, Price, listed_prices
from prime_lab_mcp.lab.relay.metering import (
    DEFAULT_COMPLETION,
    NO_RETRY,
    SILENT_SECONDS,
    Admission,
    RelayCap,
    RelayUsage,
    RetryPolicy,
    kind_of_failure,
    kind_of_status,
)
from prime_lab_mcp.lab.relay.replies import (
    ModelReply,
    NotedReply,
    StreamedReplies,
    replies_in,
    reply_fingerprints,
    request_fingerprints,
)
from prime_lab_mcp.lab.relay.requests import COMPLETION_LIMITS, CheckedRequest, RequestRefused, check_request

__all__ = ["POST_PATHS", "Relay", "RelayCap"]

POST_PATHS = ("chat/completions", "completions", "responses", "embeddings")
_CONNECT = 30.0
REPLY_BYTES = 128 << 20
"""Most bytes of an answer of the endpoint. A token with the probabilities of twenty others takes about 2 kB."""
_RELEASE = re.compile(r"(:latest|-latest|-\d{4}-?\d{2}-?\d{2}|-\d{2}-\d{2}|-\d{3,4})$")
"""What follows the name of a model in the name of its release."""
_FORWARDED_HEADERS = ("content-type", "retry-after", "x-request-id")


class Relay:
    """Forwards requests to `endpoint` with `key`. `secret` is the only key that the relay accepts."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: str | None,
        cap: RelayCap | None = None,
        patience: RetryPolicy = NO_RETRY,
        answered: Callable[[int], None] | None = None,
        replied: Callable[[Iterable[NotedReply]], None] | None = None,
        booked: Callable[[float, int], None] | None = None,
    ) -> None:
        self.secret = f"relay-{secrets.token_urlsafe(24)}"
        self.usage = RelayUsage()
        self.url = ""
        self._endpoint = endpoint
        self._key = key
        self.cap = cap or RelayCap()
        """The cap may be replaced while the relay serves."""
        self._patience = patience
        self._answered = answered
        """Called with the number of replies to a request before the replies are passed on."""
        self._replied = replied
        """Called with the fingerprints of each reply and its request before the reply has been passed on."""
        self._booked = booked
        """Called with US dollars and tokens: the most of a request before the request is forwarded, and at its end the
        difference to what was billed. The sum is an upper bound at every moment."""
        self._not_before = 0.0
        """The time until which new requests wait, because the endpoint request_messages for a pause."""
        self._admitted: list[Admission] = []
        self._listed: Mapping[str, Price] | None = None
        self._client: httpx.AsyncClient | None = None
        self._in_flight = 0
        self._heard = 0.0
        """The time of the endpoint's last answer, or of the first waiting request."""

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Relay]:
        """Listen on a free loopback port. `url` ends in /v1."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        timeout = httpx.Timeout(None, connect=_CONNECT)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        failure: Exception | None = None
        async with httpx.AsyncClient(
            timeout=timeout, limits=limits, follow_redirects=False, trust_env=not self._endpoint.on_loopback
        ) as self._client:
            config = uvicorn.Config(self._app(), log_level="critical", access_log=False, lifespan="off", ws="none")
            server = _Server(config)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(server.serve, [listener])
                if self._patience.waits:
                    tasks.start_soon(self._watch_silence)
                try:
                    yield self
                except Exception as error:
                    failure = error  # the task group would wrap it in an ExceptionGroup
                finally:
                    server.should_exit = server.force_exit = True
                    tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def _app(self) -> Starlette:
        routes = [Route(f"/v1/{path}", self._post, methods=["POST"]) for path in POST_PATHS]
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
        return await self._forward("GET", "models", b"")

    async def _post(self, request: Request) -> Response:
        if not self._allowed(request):
            return _refusal(401, "this key is not the relay's")
        path = request.url.path.removeprefix("/v1/")
        try:
            checked = check_request(path, await request.body(), free=self._is_free)
        except RequestRefused as refusal:
            return _refusal(400, str(refusal))
        limit, more = checked.limit, dict[str, Any]()
        if limit is None:
            limit = DEFAULT_COMPLETION
            if self.cap.metered:
                # Without a limit, the reply could cost more than the rest of the cap.
                first, *others = COMPLETION_LIMITS[path]
                body = {name: value for name, value in checked.body.items() if name not in others} | {first: limit}
                checked = CheckedRequest(path, body, limit, checked.replies)
        model = checked.model
        admission = Admission(checked.prompt_tokens(), limit * checked.replies, await self._price_of(model), model)
        if not self._admits(admission):
            self.usage.capped += 1
            return _refusal(402, "the cap of this evaluation is reached")
        if self._booked is not None:
            try:
                self._booked(admission.cost, admission.tokens)
            except OSError as error:
                return _refusal(503, f"the cost of the request cannot be recorded ({type(error).__name__})")
        self._admitted.append(admission)
        if checked.streams and path != "responses":
            more["stream_options"] = {**(checked.body.get("stream_options") or {}), "include_usage": True}
        if not self._in_flight:
            self._heard = anyio.current_time()
        self._in_flight += 1
        try:
            return await self._forward("POST", path, checked.content(**more), checked, admission)
        except BaseException:
            # The endpoint may have answered, and bills its answers.
            self._close(admission, billed=True)
            raise
        finally:
            self._in_flight -= 1

    @property
    def _is_free(self) -> bool:
        """Whether nothing is at stake: a server on this machine without key, price and limits."""
        known_price = self.cap.price is not None or self.cap.prices
        return self._endpoint.on_loopback and not self._key and not known_price and not self.cap.metered

    async def _price_of(self, model: Any) -> Price | None:
        """The price of a request's model. A model without a listed price counts as the most expensive listed one."""
        price = self.cap.price
        if price is None or not isinstance(model, str) or model in self.cap.prices:
            return self.cap.prices.get(model, price) if isinstance(model, str) else price
        if self._listed is None:
            self._listed = await self._listed_prices()
        return self._listed.get(model) or Price(
            max(p.prompt for p in (price, *self._listed.values())),
            max(p.completion for p in (price, *self._listed.values())),
        )

    async def _billed_price(self, answer: Mapping[str, Any], admission: Admission) -> Price | None:
        """The price of the model that an answer names, if it is dearer than the model of the request."""
        inner = answer.get("response")
        model = answer.get("model", inner.get("model") if isinstance(inner, Mapping) else None)
        price = admission.price
        if price is None or not isinstance(model, str) or model == admission.model:
            return price
        other = await self._price_of(model)
        known = model in self.cap.prices or model in (self._listed or ())
        if other is None or (not known and _same_model(model, admission.model)):
            return price
        return Price(max(price.prompt, other.prompt), max(price.completion, other.completion))

    async def _listed_prices(self) -> Mapping[str, Price]:
        assert self._client is not None
        try:
            url = f"{self._endpoint.url.rstrip('/')}/models"
            answer = await get_limited(self._client, url, headers=self._headers())
        except httpx.HTTPError:
            return {}
        return listed_prices(answer) if answer.status_code == 200 else {}

    def _admits(self, admission: Admission) -> bool:
        """Whether a request fits into the cap together with all requests that still run."""
        if self.cap.requests is not None and self.usage.requests >= self.cap.requests:
            return False
        usage, running = self.usage, self._admitted
        tokens = usage.prompt_tokens + usage.completion_tokens + usage.unreported_tokens
        return self.cap.allows(
            tokens + sum(a.tokens for a in running) + admission.tokens,
            usage.cost + sum(a.cost for a in running) + admission.cost,
        )

    def _close(self, admission: Admission, *, billed: bool) -> None:
        """End a request. If it was answered without a report of tokens, it counts with its maximum."""
        if admission not in self._admitted:
            return  # it has ended, and its answer could not be passed on
        self._admitted = [a for a in self._admitted if a is not admission]
        if billed and not admission.reported:
            self.usage.unreported_tokens += admission.tokens
            self.usage.cost += admission.cost
        elif self._booked is not None:
            with suppress(OSError):  # the larger amount stays in the books
                self._booked(admission.counted_cost - admission.cost, admission.counted_tokens - admission.tokens)

    async def _forward(
        self,
        method: str,
        path: str,
        content: bytes,
        checked: CheckedRequest | None = None,
        admission: Admission | None = None,
    ) -> Response:
        assert self._client is not None
        self.usage.requests += checked is not None
        request = self._client.build_request(
            method, f"{self._endpoint.url.rstrip('/')}/{path}", content=content or None, headers=self._headers()
        )
        try:
            answer = await self._send(request)
            if answer.status_code < 300 and checked is not None:
                if path in COMPLETION_LIMITS and self._answered is not None:
                    self._answered(checked.replies)
                if checked.streams:
                    stream = self._stream(answer, checked.body, admission)
                    return StreamingResponse(stream, answer.status_code, _forwarded_headers(answer))
            try:
                received = await read_limited(answer, REPLY_BYTES)
            finally:
                await answer.aclose()
        except httpx.TimeoutException as error:
            self._end(admission, billed=not isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout))
            return self._unreachable(504, "timeout", error)
        except httpx.HTTPError as error:
            self._end(admission, billed=not isinstance(error, httpx.ConnectError))
            return self._unreachable(503, kind_of_failure(error), error)
        if 300 <= answer.status_code < 400:
            # The key does not follow a redirect, and clients would take an empty answer for an empty reply.
            self._failed(str(answer.status_code), f"it redirects to {answer.headers.get('location', '')}")
            self._end(admission, billed=False)
            return _refusal(404, f"the endpoint {self._endpoint.host} redirects; give the URL that it redirects to")
        if answer.status_code >= 400:
            text = received.decode("utf-8", "replace")
            self._failed(kind_of_status(answer.status_code, text), text)
            if self._key:
                received = received.replace(self._key.encode(), b"[redacted]")
        elif admission is not None and checked is not None:
            parsed = _parsed(received)
            await self._count(parsed, admission)
            self._note_replies(replies_in(parsed), checked.body)
        self._end(admission, billed=answer.status_code < 400)
        return Response(received, answer.status_code, _forwarded_headers(answer))

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Send a request, and return the head of the response.

        If the endpoint asks for a pause, the request is sent again after that pause. If the request does not reach the
        endpoint, it is sent again until the endpoint answers, within the limits of the retry policy.
        """
        assert self._client is not None
        waited, attempt, began = 0.0, 1, anyio.current_time()
        while True:
            # While one request waits for the endpoint, new requests wait too.
            if (pause := min(self._not_before - anyio.current_time(), self._patience.each)) > 0:
                await anyio.sleep(pause)
            try:
                answer = await self._client.send(request, stream=True)
            except httpx.TransportError as error:
                if not self._may_repeat(error) or anyio.current_time() - began > self._patience.total:
                    raise
                # If the request failed while the endpoint restarts, its rollout would be run and paid again.
                self.usage.streak.failed(kind_of_failure(error), anyio.current_time())
                await anyio.sleep(self._patience.reconnect * random.uniform(1.0, 1.25))
                continue
            self._heard = anyio.current_time()
            wait = self._patience.wait(answer.status_code, answer.headers.get("retry-after"), attempt, waited)
            if wait is None:
                if answer.status_code < 300:
                    self.usage.streak.succeeded()
                return answer
            await answer.aclose()
            self.usage.rate_limited += 1
            self.usage.waited += wait
            self._not_before = max(self._not_before, anyio.current_time() + wait)
            await anyio.sleep(wait * random.uniform(1.0, 1.25))  # spreads the retries
            waited, attempt = waited + wait, attempt + 1

    def _may_repeat(self, error: httpx.TransportError) -> bool:
        """Whether a request without a response can be sent again without a second cost.

        A request that did not reach the endpoint is not billed. A request whose connection was closed may have been
        billed.
        """
        closed = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError)
        reached = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        return self._patience.waits and (not reached or (closed and not self.cap.metered))

    async def _watch_silence(self) -> None:
        """Measure how long the endpoint has answered neither the waiting requests nor a request for its models."""
        assert self._client is not None
        while True:
            await anyio.sleep(SILENT_SECONDS / 6)
            if not self._in_flight or anyio.current_time() - self._heard < SILENT_SECONDS:
                self.usage.silent = 0.0
                continue
            url = f"{self._endpoint.url.rstrip('/')}/models"
            try:
                with anyio.fail_after(SILENT_SECONDS / 3):
                    await get_limited(self._client, url, headers=self._headers())
                self.usage.silent = 0.0
            except (httpx.HTTPError, TimeoutError):
                self.usage.silent = anyio.current_time() - self._heard

    def _end(self, admission: Admission | None, *, billed: bool) -> None:
        if admission is not None:
            self._close(admission, billed=billed)

    def _note_replies(self, given: Iterable[ModelReply], body: Mapping[str, Any]) -> None:
        if self._replied is not None:
            request_messages = request_fingerprints(body)
            self._replied([NotedReply(reply_fingerprints(reply, body), request_messages) for reply in given])

    async def _stream(
        self, answer: httpx.Response, body: Mapping[str, Any], admission: Admission | None
    ) -> AsyncIterator[bytes]:
        rest, streamed, noted, size = b"", StreamedReplies(), False, 0
        try:
            async for chunk in answer.aiter_bytes():
                self._heard = anyio.current_time()
                if (size := size + len(chunk)) > REPLY_BYTES:
                    raise too_long(answer, REPLY_BYTES)
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if not line.startswith(b"data:"):
                        continue
                    event = _parsed(line[5:])
                    streamed.add(event)
                    if b'"usage"' in line and admission is not None:
                        await self._count(event, admission)
                    if line[5:].strip() == b"[DONE]" and not noted:
                        noted = True
                        self._note_replies(streamed.replies(), body)
                yield chunk
        except httpx.HTTPError as error:
            # The status is sent already, so the stream can only break off, as the endpoint's stream did.
            self._failed("connect", f"{type(error).__name__} {error}")
            raise
        finally:
            if not noted:
                self._note_replies(streamed.replies(), body)
            self._end(admission, billed=True)
            with anyio.CancelScope(shield=True):
                await answer.aclose()

    async def _count(self, answer: Mapping[str, Any], admission: Admission) -> None:
        usage = answer.get("usage")
        if not isinstance(usage, Mapping) and isinstance(answer.get("response"), Mapping):
            usage = answer["response"].get("usage")
        if isinstance(usage, Mapping):
            prompt = _number(usage, "prompt_tokens", "input_tokens")
            completion = _number(usage, "completion_tokens", "output_tokens")
            self.usage.prompt_tokens += prompt
            self.usage.completion_tokens += completion
            if (price := await self._billed_price(answer, admission)) is not None:
                cost = max(price.of(prompt, completion), self._reported_cost(usage))
                self.usage.cost += cost
                admission.counted_cost += cost
            admission.counted_tokens += prompt + completion
            admission.reported = True

    def _reported_cost(self, usage: Mapping[str, Any]) -> float:
        """The US dollars that an answer reports. Only OpenRouter documents such a number and its currency."""
        cost = usage.get("cost") if self._endpoint.preset == "openrouter" else None
        return float(cost) if isinstance(cost, int | float) and 0 <= cost < 1e6 else 0.0

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
    """A server that installs no signal handlers; the supervisor handles signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _forwarded_headers(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in _FORWARDED_HEADERS if name in answer.headers}


def _refusal(status: int, message: str) -> Response:
    return JSONResponse(
        {"error": {"message": f"prime-lab-mcp relay: {message}", "type": "relay", "code": status}}, status
    )


def _same_model(answered: str, requested: str | None) -> bool:
    """Whether two names are one model: providers answer with a release of it, such as gpt-4.1-2025-04-14."""
    names = [_RELEASE.sub("", name.lower().rpartition("/")[2]) for name in (answered, requested or "")]
    return names[0] == names[1]


def _parsed(raw: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _number(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        if isinstance(usage.get(name), int):
            return int(usage[name])
    return 0
