"""The HTTP side of the page: static files without data, and JSON for those who know the token. Only GET and HEAD.

The token stands in the fragment of the link, which a browser sends to no server and writes into no log of one. The
script keeps the token for this origin and sends it as a header. A cookie would also go to every other port of this
machine, where code of an environment may listen.
"""

from __future__ import annotations

import hmac
import logging
import mimetypes
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import anyio
import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from prime_lab_mcp import __version__
from prime_lab_mcp.dashboard import environments, evaluations, runs
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.dashboard.rollout_index import ORDERS, OUTCOMES, Order, Outcome, RolloutQuery
from prime_lab_mcp.lab.base.errors import BadInput, LabError, PrimeError
from prime_lab_mcp.lab.spend import spend_overview

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

log = logging.getLogger("prime_lab_mcp")
STATIC = Path(__file__).parent / "static"
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
_NOT_FOUND = frozenset({"eval-not-found", "run-not-found", "environment-not-found", "not-found", "results-missing"})
_MOST_SEARCHED = 200
"""Characters of a text to search for."""

Answer = Callable[[Request], Awaitable[Any]]


def page_app(lab: ReadingLab, token: str, hosts: Sequence[str]) -> ASGIApp:
    """The page as an application. `hosts` are the names that a request may give as its Host; none allows any.

    Every request is a GET or HEAD, and all but those for static files carry `Authorization: Bearer TOKEN`.
    """
    routes = [Route("/", _index)] + [
        Route(f"/api/{path}", _answered(answer, lab))
        for path, answer in (
            ("workspace", _workspace),
            ("environments", _environments),
            ("environments/{name}", _environment),
            ("evaluations", _evaluations),
            ("evaluations/{id}", _evaluation),
            ("evaluations/{id}/rollouts", _rollouts),
            ("evaluations/{id}/rollouts/{position:int}", _rollout),
            ("evaluations/{id}/zeros", _zeros),
            ("evaluations/{id}/compare/{other}", _compare),
            ("runs", _runs),
            ("runs/{id}", _run),
            ("spend", _spend),
        )
    ]
    routes.append(Route("/{file}", _static))
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


def _answered(answer: Callable[[ReadingLab, Request], Awaitable[Any]], lab: ReadingLab) -> Any:
    """Turn what a view raises into a status: 404 for what there is not, 502 for the platform's, else 400."""

    async def endpoint(request: Request) -> Response:
        try:
            return _json(await answer(lab, request))
        except LabError as error:
            status = 404 if error.code in _NOT_FOUND else 502 if isinstance(error, PrimeError) else 400
            return _json({"error": error.message, "fix": error.fix, "code": error.code}, status)
        except Exception:
            log.exception("the page could not answer %s", request.url.path)
            return _json({"error": "the page failed here; server.log in the state directory says why"}, 500)

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


async def _workspace(lab: ReadingLab, request: Request) -> Any:
    return {
        "name": lab.workspace.root.name,
        "path": lab.key,
        "platform": lab.platform,
        "approval": lab.settings.approval,
        "version": __version__,
    }


async def _environments(lab: ReadingLab, request: Request) -> Any:
    return {"environments": await environments.list_environments(lab)}


async def _environment(lab: ReadingLab, request: Request) -> Any:
    return await environments.environment(lab, request.path_params["name"])


async def _evaluations(lab: ReadingLab, request: Request) -> Any:
    page, name = _number(request, "page", 1), request.query_params.get("environment")
    return await anyio.to_thread.run_sync(evaluations.list_evaluations, lab, page, name)


async def _evaluation(lab: ReadingLab, request: Request) -> Any:
    return await anyio.to_thread.run_sync(evaluations.evaluation, lab, request.path_params["id"])


async def _rollouts(lab: ReadingLab, request: Request) -> Any:
    given = request.query_params
    task = _number(request, "task", 0) if "task" in given else None
    query = RolloutQuery(
        cast("Outcome", _choice(request, "outcome", OUTCOMES)),
        cast("Order", _choice(request, "order", ORDERS)),
        task,
        given.get("text", "")[:_MOST_SEARCHED],
    )
    page = _number(request, "page", 1)
    return await anyio.to_thread.run_sync(evaluations.rollout_page, lab, request.path_params["id"], query, page)


async def _rollout(lab: ReadingLab, request: Request) -> Any:
    given = request.path_params
    return await anyio.to_thread.run_sync(evaluations.whole_rollout, lab, given["id"], given["position"])


async def _zeros(lab: ReadingLab, request: Request) -> Any:
    return await anyio.to_thread.run_sync(evaluations.zero_classes, lab, request.path_params["id"])


async def _compare(lab: ReadingLab, request: Request) -> Any:
    given = request.path_params
    return await anyio.to_thread.run_sync(evaluations.comparison, lab, given["id"], given["other"])


async def _runs(lab: ReadingLab, request: Request) -> Any:
    return {"runs": await anyio.to_thread.run_sync(runs.list_runs, lab)}


async def _run(lab: ReadingLab, request: Request) -> Any:
    return await runs.training_run(lab, request.path_params["id"])


async def _spend(lab: ReadingLab, request: Request) -> Any:
    overview = await anyio.to_thread.run_sync(spend_overview, lab)
    return overview.as_json() | {"sentence": overview.sentence()}


def _number(request: Request, name: str, least: int) -> int:
    """A whole number of the query; `least` where it is missing. Raises BadInput."""
    text = request.query_params.get(name, str(least))
    if not text.isascii() or not text.isdigit() or len(text) > 9 or int(text) < least:
        raise BadInput(f"{name} must be a whole number of at least {least}", fix="Correct the address.")
    return int(text)


def _choice(request: Request, name: str, choices: Sequence[str]) -> str:
    """One of the choices; the first where the query has none. Raises BadInput."""
    value = request.query_params.get(name, choices[0])
    if value not in choices:
        raise BadInput(f"{name} must be one of {', '.join(choices)}", fix="Correct the address.")
    return value
