"""Serves MCP over streamable HTTP to clients with the token. A stop waits for requests that publish or spend.

The SDK reads the requests, compares Host and bounds bodies at 4 MiB (mcp 2.0, `StreamableHTTPSessionManager`).
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import anyio
import uvicorn
from mcp.server.transport_security import TransportSecuritySettings

from prime_lab_mcp import __version__
from prime_lab_mcp.dashboard.page import page_app
from prime_lab_mcp.dashboard.reading_lab import ReadingLab
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from prime_lab_mcp.server.app import LabServer

LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERY_INTERFACE = ("0.0.0.0", "::", "")
SHORTEST_TOKEN = 32
"""Minimum length of a token in a file, in characters. The server's own has 43, which are 256 bits."""
MOST_CONNECTIONS = 256
CLOSING_SECONDS = 3
"""Seconds for which open streams may continue after a stop. Calls that publish or spend are waited for before."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address on which the server listens. With port 0, the system chooses a port."""

    host: str
    port: int

    @property
    def on_loopback(self) -> bool:
        return self.host in LOOPBACK

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Parse `HOST:PORT`. An IPv6 address is in brackets; a missing host means loopback. Raises BadInput."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
        if port is None or parts.path or parts.query or parts.username or " " in text:
            raise ValueError(text)
    except ValueError as error:
        raise BadInput(
            f"{quote(text)} is no address HOST:PORT", fix="Give for example --http 127.0.0.1:8000."
        ) from error
    return Address(host or "127.0.0.1", port)


def choose_token(address: Address, file: str | None, workspace: Path) -> str:
    """Return the token that clients must send: the one in the file, or a new one for a server on loopback.

    Raises BadInput for an address that others can reach if no file is named, and for a file that an agent or another
    user could read, or whose token is too short.
    """
    if file is None:
        if not address.on_loopback:
            raise BadInput(
                f"{quote(address.host)} is not a loopback address, and no token file was named",
                fix="Use --http 127.0.0.1:PORT, or name a file that only you can read: --http-token-file FILE. Where"
                " others must reach the server, put a proxy with TLS before it.",
            )
        return secrets.token_urlsafe(32)
    path = Path(file).expanduser().resolve()
    try:
        token = path.read_text(encoding="ascii").strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"the token file {path} cannot be read: {error}",
            fix=f"Make one: (umask 077; openssl rand -hex 32 > {path})",
        ) from error
    if path.is_relative_to(workspace):
        raise BadInput(f"the token file {path} lies in the workspace, where an agent reads", fix="Move it elsewhere.")
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadInput(f"others can read the token file {path}", fix=f"chmod 600 {path}")
    if len(token) < SHORTEST_TOKEN or not token.isprintable() or " " in token:
        raise BadInput(
            f"the token in {path} is not one word of at least {SHORTEST_TOKEN} characters",
            fix=f"Make a new one: (umask 077; openssl rand -hex 32 > {path})",
        )
    return token


class TokenGuard:
    """Passes on requests that have the token and no foreign origin. Answers `/healthz` for everybody."""

    def __init__(self, app: ASGIApp, token: str, stopping: Callable[[], bool], page: ASGIApp | None = None) -> None:
        """`page` answers all paths outside of `/mcp`. It checks the token itself, because its static files need
        none."""
        self._app = app
        self._page = page
        self._expected = f"Bearer {token}".encode()
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        headers: dict[bytes, bytes] = dict(scope["headers"])
        stopping = self._stopping()
        if scope["path"] == "/healthz":
            status = "stopping" if stopping else "ok"
            await _answer(send, 503 if stopping else 200, {"status": status, "version": __version__})
        elif stopping:
            await _answer(send, 503, {"error": "the server is stopping; connect again"}, (b"retry-after", b"5"))
        elif self._page is not None and not scope["path"].startswith("/mcp"):
            await self._page(scope, receive, send)
        elif not hmac.compare_digest(headers.get(b"authorization", b""), self._expected):
            await _answer(
                send,
                401,
                {"error": "send the header Authorization: Bearer TOKEN; the server printed the token when it started"},
                (b"www-authenticate", b"Bearer"),
            )
        elif not _same_origin(headers):
            await _answer(send, 403, {"error": "the page that sent this is of another origin"})
        else:
            await self._app(scope, receive, send)


def _same_origin(headers: dict[bytes, bytes]) -> bool:
    """Whether the request comes from no web page, or from a page of this server's own address."""
    origin = headers.get(b"origin")
    return origin is None or urlsplit(origin.decode("latin-1")).netloc == headers.get(b"host", b"").decode("latin-1")


async def _answer(send: Send, status: int, content: dict[str, str], *headers: tuple[bytes, bytes]) -> None:
    body = json.dumps(content).encode()
    listed = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": listed})
    await send({"type": "http.response.body", "body": body})


class GracefulServer(uvicorn.Server):
    """Waits for calls that publish or spend before it closes connections.

    Uvicorn cancels the tasks of requests when its grace period ends, and anyio's shielded scopes do not protect a task
    that asyncio cancels.
    """

    def __init__(self, config: uvicorn.Config, sending: Callable[[], bool]) -> None:
        super().__init__(config)
        self._sending = sending

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Uvicorn sets `force_exit`, at a second SIGINT, without an event.
        while self._sending() and not self.force_exit:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        await super().shutdown(sockets)


def serve_http(
    server: LabServer, address: Address, token: str, token_file: str | None = None, lab: ReadingLab | None = None
) -> None:
    """Serve until SIGTERM or SIGINT. Prints the addresses, and a token that was made for this run, to stderr.

    With `lab`, the page is served under `/`. Raises BadInput if the address is in use or does not belong to this
    machine.
    """
    listener = _listen(address)
    bound = Address(address.host, listener.getsockname()[1])
    app = server.streamable_http_app(host=bound.host, transport_security=_security(bound))
    page = page_app(lab, token, page_hosts(bound)) if lab is not None else None
    running: list[GracefulServer] = []
    config = uvicorn.Config(
        TokenGuard(app, token, lambda: bool(running and running[0].should_exit), page),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    running.append(GracefulServer(config, lambda: server.sending))
    header = "the token in " + token_file if token_file else token
    sys.stderr.write(f"prime-lab-mcp: {bound.url}/mcp\nprime-lab-mcp: Authorization: Bearer {header}\n")
    if lab is not None:
        sys.stderr.write(f"prime-lab-mcp: page: {bound.url}/{'' if token_file else page_fragment(token)}\n")
    sys.stderr.flush()
    with listener:
        running[0].run(sockets=[listener])


def serve_page(lab: ReadingLab, port: int) -> None:
    """Serve only the page, on loopback, until SIGTERM or SIGINT. Prints its link to stdout. Raises BadInput."""
    token, address = secrets.token_urlsafe(32), Address("127.0.0.1", port)
    listener = _listen(address)
    bound = Address(address.host, listener.getsockname()[1])
    config = uvicorn.Config(
        page_app(lab, token, page_hosts(bound)),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    sys.stdout.write(f"{bound.url}/{page_fragment(token)}\n")
    sys.stdout.flush()
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def page_fragment(token: str) -> str:
    """The fragment of the page's link with the token. Browsers do not send the fragment to a server."""
    return f"#token={token}"


def page_hosts(address: Address) -> tuple[str, ...]:
    """The host names that requests for the page may use; none if the server listens on every interface."""
    if address.host in EVERY_INTERFACE:
        return ()
    return LOOPBACK if address.on_loopback else (address.host,)


def _listen(address: Address) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(128)
    except (OSError, OverflowError, UnicodeError) as error:  # a host like "a..b" has no encoding
        raise BadInput(
            f"{address.url} cannot be served: {error}", fix="Choose another port, or port 0 for any that is free."
        ) from error
    return listener


def _security(address: Address) -> TransportSecuritySettings:
    """The host names that a request may use. A server on every interface accepts all names; its token protects it."""
    if address.host in EVERY_INTERFACE:
        return TransportSecuritySettings(enable_dns_rebinding_protection=False)
    names = LOOPBACK if address.on_loopback else (address.host,)
    hosts = [f"[{name}]" if ":" in name else name for name in names]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[f"http://{host}:*" for host in hosts],
    )
