"""Notifies subscribed clients that a run has changed, in both protocol versions.

Clients of the older protocol subscribe with `resources/subscribe` and are notified on their session; newer clients hold
a `subscriptions/listen` stream open. While there are subscriptions, one task polls their subjects: jobs in the ledger
and training runs on the platform. A notice carries no data; the client reads the resource again.
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

POLLED = 20
"""Number of addresses that one round polls. Further addresses are polled in later rounds."""

ReadToken = Callable[[str], Awaitable[str | None]]
"""Returns a token that changes with the state behind an address; None if the state is unknown now."""


@dataclass(slots=True)
class Subscriber:
    """A client of the older protocol: its session and its subscribed addresses."""

    session: ServerSession
    uris: set[str] = field(default_factory=set)


class Notices:
    """The subscriptions of all clients. `read_token` is called every `seconds`, and immediately after `wake`."""

    def __init__(self, read_token: ReadToken, seconds: float) -> None:
        self.bus = InMemorySubscriptionBus()
        self._read_token = read_token
        self._seconds = seconds
        self._listened: Counter[str] = Counter()
        self._subscribers: dict[Connection, Subscriber] = {}
        self._known: dict[str, str] = {}
        self._awake = anyio.Event()

    def serve(self, server: Server[Any]) -> None:
        """Register the handlers for subscriptions of both protocol versions."""
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
        """Poll immediately, because a run was just started, stopped or changed."""
        self._awake.set()

    async def run(self) -> None:
        """Poll until cancelled. An address that cannot be polled is tried again in the next round."""
        while True:
            if not self._followed():
                await self._awake.wait()
            else:
                with anyio.move_on_after(self._seconds):
                    await self._awake.wait()
            self._awake = anyio.Event()
            await self.round()

    async def round(self) -> None:
        """Poll the subscribed addresses once. The first poll of an address only stores its token."""
        followed = self._followed()
        for gone in self._known.keys() - set(followed):
            del self._known[gone]
        for uri in followed[:POLLED]:
            token = await self._state_token(uri)
            if token is None:
                continue
            before = self._known.pop(uri, None)
            self._known[uri] = token  # moved to the end, so that the address with the oldest poll comes first
            if before not in (None, token):
                await self._notify(uri)

    async def _state_token(self, uri: str) -> str | None:
        """Return the token of an address. Errors are logged, because a bug in polling must not end the server."""
        try:
            return await self._read_token(uri)
        except Exception:
            log.exception("the state of %s could not be read", uri[:200])
            return None

    def _followed(self) -> list[str]:
        everything = {*self._listened, *(uri for subscriber in self._subscribers.values() for uri in subscriber.uris)}
        order = {uri: at for at, uri in enumerate(self._known)}
        return sorted(everything, key=lambda uri: (order.get(uri, -1), uri))

    async def _notify(self, uri: str) -> None:
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
    """The object that lives as long as the connection; the SDK creates a new session object for each request."""
    return context.session._connection
