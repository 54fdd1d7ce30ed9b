"""Who reaches the server over HTTP: requests with the token, from no foreign page."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prime_lab_mcp.server.http import Address, TokenGuard, _security, page_hosts

pytestmark = pytest.mark.anyio
KEY = (b"authorization", b"Bearer the-token")


class Request:
    """One request, and what became of it: `mcp` or `page` if it was passed on, else the status of the answer."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.passed = ""

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    async def receive(self) -> Any:
        raise AssertionError

    async def mcp(self, *_: Any) -> None:
        self.passed = "mcp"

    async def page(self, *_: Any) -> None:
        self.passed = "page"

    async def through(
        self,
        *headers: tuple[bytes, bytes],
        path: str = "/mcp",
        stopping: bool = False,
        page: bool = False,
        **scope: Any,
    ) -> str | int:
        guard = TokenGuard(self.mcp, "the-token", lambda: stopping, self.page if page else None)
        await guard({"type": "http", "path": path, "headers": list(headers), **scope}, self.receive, self.send)
        return self.passed or (int(self.sent[0]["status"]) if self.sent else "nothing")


@pytest.mark.parametrize(
    ("headers", "options", "outcome"),
    [
        ((KEY,), {}, "mcp"),
        ((), {}, 401),
        (((b"authorization", b"Bearer another"),), {}, 401),
        ((KEY, (b"origin", b"http://127.0.0.1:9"), (b"host", b"127.0.0.1:9")), {}, "mcp"),
        ((KEY, (b"origin", b"http://evil.example"), (b"host", b"127.0.0.1:9")), {}, 403),
        ((KEY,), {"stopping": True}, 503),
        ((), {"path": "/healthz"}, 200),
        ((), {"path": "/healthz", "stopping": True}, 503),
        ((), {"path": "/view", "page": True}, "page"),
        ((), {"path": "/view"}, 401),
        ((), {"path": "/mcp", "page": True}, 401),
        ((), {"type": "lifespan"}, "mcp"),
        ((KEY,), {"type": "websocket"}, "nothing"),
    ],
    ids=[
        "token", "none", "another token", "own page", "foreign page", "stopping", "health", "health while stopping",
        "page", "no page", "page and the protocol", "start of the server", "other protocol",
    ],
)  # fmt: skip
async def test_a_request_is_passed_on_or_answered(
    headers: tuple[tuple[bytes, bytes], ...], options: dict[str, Any], outcome: str | int
) -> None:
    assert await Request().through(*headers, **options) == outcome


async def test_health_says_the_version_and_whether_the_server_is_stopping() -> None:
    request = Request()
    await request.through(path="/healthz", stopping=True)
    assert json.loads(request.sent[1]["body"])["status"] == "stopping"


@pytest.mark.parametrize(
    ("address", "hosts", "checked"),
    [
        (Address("0.0.0.0", 9), (), False),
        (Address("127.0.0.1", 9), ("127.0.0.1", "localhost", "::1"), True),
        (Address("10.0.0.1", 9), ("10.0.0.1",), True),
    ],
    ids=["every interface", "loopback", "one interface"],
)
def test_a_page_is_served_to_the_names_of_its_address(address: Address, hosts: tuple[str, ...], checked: bool) -> None:
    assert set(page_hosts(address)) == set(hosts)
    security = _security(address)
    assert security.enable_dns_rebinding_protection is checked
    assert all(any(host in allowed for allowed in security.allowed_hosts) for host in hosts)
