"""Clients that follow a run hear of its changes: subscribers of the older era, listeners of the newer one."""

from __future__ import annotations

from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.training.watch import change_token
from prime_lab_mcp.server.app import LabServer, build_server
from prime_lab_mcp.server.notices import Subscriber

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:resources/:mcp.MCPDeprecationWarning")]
RUN = "lab://runs/run_1"


class Stand:
    """A run whose state the test sets; every look is counted."""

    def __init__(self, server: LabServer) -> None:
        self.server = server
        self.word: str | None = "RUNNING 1"
        self.looks: list[str] = []
        server.notices._read_token = self.look

    async def look(self, uri: str) -> str | None:
        self.looks.append(uri)
        if self.word == "bug":
            raise RuntimeError("bug")
        return self.word

    async def seen(self, word: str | None) -> None:
        """The state changes, and somebody looks."""
        self.word, before = word, len(self.looks)
        self.server.notices.wake()
        with anyio.fail_after(5):
            while len(self.looks) == before:
                await anyio.sleep(0.01)


@pytest.fixture
def stand(settings: Settings) -> Stand:
    return Stand(build_server(Lab(settings)))


async def test_a_listener_hears_of_each_change_once(stand: Stand) -> None:
    async with Client(stand.server, mode="auto") as client:
        assert client.server_capabilities.resources.subscribe  # type: ignore[union-attr]
        async with client.listen(resource_subscriptions=[RUN]) as events:
            await stand.seen("RUNNING 1")
            await stand.seen("RUNNING 2")
            with anyio.fail_after(5):
                event = await anext(aiter(events))
    assert event.uri == RUN  # type: ignore[union-attr]


async def test_a_subscriber_hears_of_changes_until_it_has_enough(stand: Stand) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        if isinstance(message, types.ResourceUpdatedNotification):
            heard.append(str(message.params.uri))

    async with Client(stand.server, mode="legacy", message_handler=hear) as client:
        assert client.server_capabilities.resources.subscribe  # type: ignore[union-attr]
        await client.subscribe_resource(RUN)
        await stand.seen("RUNNING 1")
        await stand.seen("RUNNING 1")
        await stand.seen(None)
        await stand.seen("bug")
        assert heard == []
        await stand.seen("COMPLETED 9")
        with anyio.fail_after(5):
            while not heard:
                await anyio.sleep(0.01)
        await client.unsubscribe_resource(RUN)
        looks = len(stand.looks)
        stand.word = "DELETED"
        stand.server.notices.wake()
        await client.list_resources()
    assert heard == [RUN]
    assert len(stand.looks) == looks


async def test_nobody_is_looked_at_for_nobody(stand: Stand) -> None:
    async with Client(stand.server, mode="auto") as client:
        stand.server.notices.wake()
        await client.list_resources()
        async with client.listen(resource_subscriptions=[RUN]):
            await stand.seen("RUNNING 1")
        with anyio.fail_after(5):
            while stand.server.notices._followed():
                await anyio.sleep(0.01)
    assert set(stand.looks) == {RUN}


async def test_an_address_that_names_no_run_never_changes(settings: Settings) -> None:
    lab = Lab(settings)
    assert await change_token(lab, "lab://guide/workflow") is None
    assert await change_token(lab, "lab://evals/none/report") is None


async def test_of_two_clients_only_the_one_that_follows_a_run_hears_of_it_even_beside_a_closed_one(
    stand: Stand,
) -> None:
    heard: dict[str, list[str]] = {"follows": [], "other": []}

    def hearing(name: str) -> Any:
        async def hear(message: Any) -> None:
            if isinstance(message, types.ResourceUpdatedNotification):
                heard[name].append(str(message.params.uri))

        return hear

    class Closed:
        async def send_resource_updated(self, uri: str) -> None:
            raise anyio.ClosedResourceError

    async with (
        Client(stand.server, mode="legacy", message_handler=hearing("follows")) as follows,
        Client(stand.server, mode="legacy", message_handler=hearing("other")) as other,
    ):
        await other.unsubscribe_resource(RUN)
        await other.subscribe_resource("lab://runs/run_2")
        await follows.subscribe_resource("lab://runs/run_3")
        await follows.subscribe_resource(RUN)
        stand.server.notices._subscribers["closed"] = Subscriber(Closed(), {RUN})  # type: ignore[index, arg-type]
        await stand.server.notices._notify(RUN)
        with anyio.fail_after(5):
            while not heard["follows"]:
                await anyio.sleep(0.01)
        assert "closed" not in stand.server.notices._subscribers
    assert heard == {"follows": [RUN], "other": []}
