"""The web application of the platform: routes, keys, ordered faults, and recording of requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prime_lab_mcp.rehearsal import (
    account,
    admin,
    evaluations,
    faults,
    hub,
    inference,
    pods,
    publishing,
    secrets,
    training,
)
from prime_lab_mcp.rehearsal.call import PlatformCall, PlatformRoute, Raw, Refusal, as_json
from prime_lab_mcp.rehearsal.store import Body, Store

API = "/api/v1"
_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost"})
_DETAILS: dict[str, Any] = {
    "401": "API key unauthorized (rehearsal fault)",
    "402": "Payment required (rehearsal fault)",
    "422": [{"loc": ["body", "rehearsal"], "msg": "refused by a rehearsal fault"}],
}
_PLATFORM_FILES = ("/rehearsal/uploads/", "/rehearsal/files/")
"""Route of the simulated file store. It has the admin prefix, and faults apply to it nevertheless."""
_BROKEN = -1
"""The status that is recorded for a dropped answer."""


def build(store: Store) -> ASGIApp:
    """The application on a state folder."""
    platform = (
        *account.ENDPOINTS,
        *hub.ENDPOINTS,
        *publishing.ENDPOINTS,
        *secrets.ENDPOINTS,
        *evaluations.ENDPOINTS,
        *training.ENDPOINTS,
        *pods.ENDPOINTS,
    )
    routes = [_route(store, e, API) for e in platform]
    routes += [
        _route(store, e, "")
        for e in (*inference.ENDPOINTS, *hub.FILES, *publishing.UPLOADS, *admin.ENDPOINTS, *pods.ORDERS)
    ]
    routes.append(Route("/{path:path}", _page, methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={404: _unknown, 405: _unknown})
    return _Disturbed(app, store)


async def _page(request: Request) -> Response:
    if request.url.path.startswith(API):
        return _json(404, {"detail": "Not part of the rehearsal platform"})
    return Response(
        "Prime Lab rehearsal platform. Nothing here is the real Prime platform.\n",
        media_type="text/plain",
    )


async def _unknown(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    return _json(status, {"detail": "Not part of the rehearsal platform"})


def _route(store: Store, endpoint: PlatformRoute, prefix: str) -> Route:
    async def answer(request: Request) -> Response:
        content = await request.body()
        return await anyio.to_thread.run_sync(_answer, store, endpoint, request, content)

    return Route(prefix + endpoint.path, answer, methods=[endpoint.method])


def _answer(store: Store, endpoint: PlatformRoute, request: Request, content: bytes) -> Response:
    known = account.may_use_key(request.headers.get("authorization", ""))
    if not known and not endpoint.public:
        return _json(401, {"detail": "Invalid API key"})
    body: Any = {}
    if content and request.headers.get("content-type", "").startswith("application/json"):
        try:
            body = json.loads(content)
        except ValueError:
            return _json(422, {"detail": [{"loc": ["body"], "msg": "JSON decode error"}]})
    if not isinstance(body, dict):
        body = {}
    try:
        with store.session(writes=endpoint.writes) as session:
            given = endpoint.handler(
                PlatformCall(
                    store,
                    session,
                    str(request.base_url).rstrip("/"),
                    request.path_params,
                    request.query_params,
                    body,
                    content,
                    known,
                    request.headers.get("user-agent", ""),
                )
            )
    except Refusal as refusal:
        return _json(refusal.status, {"detail": refusal.detail})
    return _raw(given) if isinstance(given, Raw) else _json(200, given)


def _json(status: int, body: Body) -> Response:
    return Response(as_json(body), status, media_type="application/json")


def _raw(raw: Raw) -> Response:
    if isinstance(raw.content, bytes) and not raw.cut and not raw.pause:
        return Response(raw.content, raw.status, media_type=raw.media_type)

    async def pieces() -> Any:
        await anyio.sleep(raw.pause)
        parts: Iterator[bytes] = iter((raw.content,)) if isinstance(raw.content, bytes) else raw.content
        for part in parts:
            yield part
        if raw.cut:
            raise _Cut

    return StreamingResponse(pieces(), raw.status, media_type=raw.media_type)


class _Cut(Exception):
    """Raised to end an answer in the middle."""


class _Disturbed:
    """Applies ordered HTTP faults, and records every request except those to admin routes."""

    def __init__(self, app: ASGIApp, store: Store) -> None:
        self._app = app
        self._store = store

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not _is_local(scope):
            # A web page could reach this port through DNS rebinding, so only loopback host names are accepted.
            await _json(403, {"detail": "loopback only"})(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith("/rehearsal/") and not path.startswith(_PLATFORM_FILES):
            await self._quietly(scope, receive, send)
            return
        fault = await anyio.to_thread.run_sync(self._fault, scope["method"], path)
        status = await self._carry_out(fault, scope, receive, send)
        kind: str | None = fault["kind"] if fault else None
        await anyio.to_thread.run_sync(self._note, str(scope["method"]), path, status, kind)

    def _fault(self, method: str, path: str) -> Body | None:
        with self._store.session(writes=False) as session:
            if not session.count("fault"):
                return None
        with self._store.session() as session:
            return faults.for_request(session, method, path)

    def _note(self, method: str, path: str, status: int, fault: str | None) -> None:
        with self._store.session() as session:
            session.note_request(method, path, status, fault)

    async def _carry_out(self, fault: Body | None, scope: Scope, receive: Receive, send: Send) -> int:
        kind = fault["kind"] if fault else None
        if fault and kind == "slow":
            await anyio.sleep(float(fault.get("seconds", 2.0)))
        if fault and kind is not None and kind.isdigit():
            detail = fault.get("detail") or _DETAILS.get(kind, f"rehearsal fault {kind}")
            await _json(int(kind), {"detail": detail})(scope, receive, send)
            return int(kind)
        if kind == "garbage":
            await Response(b'{"data": [', media_type="application/json")(scope, receive, send)
            return 200
        if kind == "drop-before":
            await _drop(send)
            return _BROKEN
        if kind == "drop-after":
            await self._app(scope, receive, _discard)
            await _drop(send)
            return _BROKEN
        return await self._quietly(scope, receive, send)

    async def _quietly(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Answer and return the status. A deliberately cut answer is not an error of the platform."""
        status = 500

        async def note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        except _Cut:
            return _BROKEN
        return status


def _is_local(scope: Scope) -> bool:
    for name, value in scope["headers"]:
        if name == b"host":
            return value.decode("latin-1").rsplit(":", 1)[0] in _LOCAL_HOSTS
    return False


async def _discard(message: Message) -> None:
    return None


async def _drop(send: Send) -> None:
    """Close the connection in the middle of an answer. uvicorn does this if the body is incomplete."""
    head = [(b"content-type", b"application/json"), (b"content-length", b"4096")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": b"{", "more_body": True})
