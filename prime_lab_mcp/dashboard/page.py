"""The HTTP side of the page: static files without data, and JSON for those who know the token. Only GET and HEAD.

The token stands in the fragment of the link, which a browser sends to no server and writes into no log of one. The
script keeps the token for this origin and sends it as a header. A cookie would also go to every other port of this
machine, where code of an environment may listen.
"""

from __future__ import annotations

import hmac
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from prime_lab_mcp.dashboard import STATIC
from prime_lab_mcp.dashboard.answers import answer_view
from prime_lab_mcp.dashboard.reading_lab import ReadingLab

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

FILES = frozenset(path.name for path in STATIC.iterdir() if path.is_file())
"""Names of the static files. A request chooses one of them and never gives a path."""
HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def page_app(lab: ReadingLab, token: str, hosts: Sequence[str]) -> ASGIApp:
    """The page as an application. `hosts` are the names that a request may give as its Host; none allows any.

    Every request is a GET or HEAD, and all but those for static files carry `Authorization: Bearer TOKEN`.
    """
    routes = [Route("/", _index), Route("/api/{path:path}", _answers(lab)), Route("/{file}", _static)]
    return PageGuard(Starlette(routes=routes), token, hosts)


class PageGuard:
    """Refuses foreign hosts and origins (403), other methods (405), and all but the static files without the token
    (401)."""

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str]) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._hosts = frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)
        await (self._app if refusal is None else refusal)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        host = headers.get(b"host", b"").decode("latin-1")
        origin = headers.get(b"origin")
        if self._hosts and _name(host) not in self._hosts:
            return _json({"error": "this page is served under another name"}, 403)
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc != host:
            return _json({"error": "the page that sent this is of another origin"}, 403)
        if scope["method"] not in ("GET", "HEAD"):
            return _json({"error": "the page only reads"}, 405, {"allow": "GET, HEAD"})
        free = scope["path"] == "/" or scope["path"][1:] in FILES
        if not free and not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            return _json({"error": "open the link that the server printed"}, 401, {"www-authenticate": "Bearer"})
        return None


def _name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _json(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    body = orjson.dumps(content, default=str, option=orjson.OPT_NON_STR_KEYS)
    return Response(body, status, {**HEADERS, **(headers or {})}, media_type="application/json")


def _answers(lab: ReadingLab) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        status, content = await answer_view(lab, request.path_params["path"], dict(request.query_params))
        return _json(content, status)

    return endpoint


async def _index(request: Request) -> Response:
    return _file("index.html")


async def _static(request: Request) -> Response:
    name = request.path_params["file"]
    return _file(name) if name in FILES else _json({"error": "there is no such file"}, 404)


@lru_cache(maxsize=64)
def _content(name: str) -> bytes:
    return (STATIC / name).read_bytes()


def _file(name: str) -> Response:
    kind = "text/javascript" if name.endswith(".js") else mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Response(_content(name), headers=dict(HEADERS), media_type=kind)
