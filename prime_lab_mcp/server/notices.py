"""Tells clients that a run they follow has changed, in both protocol eras, without being asked each time.

The older era subscribes with `resources/subscribe` and is told on its session; the newer one holds a
`subscriptions/listen` stream open. While anybody follows something, one task looks at it: a job in the ledger, a
training run on the platform. A notice only says that reading again is worth it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated

log = logging.getLogger("prime_lab_mcp")

FOLLOWED = 20
"""Addresses looked at in one round; more are served in later rounds."""

Look = Callable[[str], Awaitable[str | None]]
"""How an address stands, as a word that changes when it does; None: not told now, ask again later."""


@dataclass(slots=True)
class Subscriber:
    """A client of the older era: the session to tell, and what it follows."""

    session: ServerSession
    uris: set[str] = field(default_factory=set)


class Notices:
    """Who follows what. `look` is asked every `seconds`, and at once after `wake`."""

    def __init__(self, look: Look, seconds: float) -> None:
        self.bus = InMemorySubscriptionBus()
        self._look = look
        self._seconds = seconds
        self._listened: Counter[str] = Counter()
        self._subscribers: dict[Connection, Subscriber] = {}
        self._seen: dict[str, str] = {}
        self._awake = anyio.Event()

    def serve(self, server: Server[Any]) -> None:
        """Answer subscriptions of both eras."""
        server.add_request_handler("resources/subscribe", types.SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", types.UnsubscribeRequestParams, self._unsubscribe)
        stream = ListenHandler(self.bus)

        async def listen(
            context: ServerRequestContext[Any, Any], params: types.SubscriptionsListenRequestParams
        ) -> types.SubscriptionsListenResult:
            with self._listening(params.notifications.resource_subscriptions or []):
                return await stream(context, params)

        server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listen)

    def wake(self) -> None:
        """Something was just started, stopped or changed: look now."""
        self._awake.set()

    async def run(self) -> None:
        """Look around until cancelled. What cannot be asked is asked again in the next round."""
        while True:
            if not self._followed():
                await self._awake.wait()
            else:
                with anyio.move_on_after(self._seconds):
                    await self._awake.wait()
            self._awake = anyio.Event()
            await self.round()

    async def round(self) -> None:
        """One look at everything that is followed. The first one only remembers."""
        followed = self._followed()
        for gone in self._seen.keys() - set(followed):
            del self._seen[gone]
        for uri in followed[:FOLLOWED]:
            stands = await self._stands(uri)
            if stands is None:
                continue
            before = self._seen.pop(uri, None)
            self._seen[uri] = stands  # at the end: what was looked at longest ago comes first
            if before not in (None, stands):
                await self._tell(uri)

    async def _stands(self, uri: str) -> str | None:
        """A bug in looking must not end the server, which nobody asked for this."""
        try:
            return await self._look(uri)
        except Exception:
            log.exception("how %s stands could not be looked up", uri[:200])
            return None

    def _followed(self) -> list[str]:
        everything = {*self._listened, *(uri for subscriber in self._subscribers.values() for uri in subscriber.uris)}
        order = {uri: at for at, uri in enumerate(self._seen)}
        return sorted(everything, key=lambda uri: (order.get(uri, -1), uri))

    async def _tell(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri))
        for connection, subscriber in list(self._subscribers.items()):
            if uri in subscriber.uris:
                try:
                    await subscriber.session.send_resource_updated(uri)
                except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                    self._subscribers.pop(connection, None)

    @contextmanager
    def _listening(self, uris: list[str]) -> Iterator[None]:
        self._listened.update(uris)
        self.wake()
        try:
            yield
        finally:
            self._listened -= Counter(uris)

    async def _subscribe(
        self, context: ServerRequestContext[Any, Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        connection = _connection(context)
        if connection not in self._subscribers:
            self._subscribers[connection] = Subscriber(context.session)
            connection.exit_stack.callback(self._subscribers.pop, connection, None)
        self._subscribers[connection].uris.add(str(params.uri))
        self.wake()
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: ServerRequestContext[Any, Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        if (subscriber := self._subscribers.get(_connection(context))) is not None:
            subscriber.uris.discard(str(params.uri))
        return types.EmptyResult()


def _connection(context: ServerRequestContext[Any, Any]) -> Connection:
    """What stays while a client is connected; the session is made anew for each request."""
    return context.session._connection
