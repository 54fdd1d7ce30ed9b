"""Sends a request that publishes something or costs money at most once per intent.

Before it sends, the sender takes a claim in the ledger, which records the sending process. The sender then asks the
platform whether the effect exists already, even if the ledger has no row for the intent. If the outcome of a request is
unknown, only a look-up on the platform settles the intent. While the platform cannot be asked, nothing is sent again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import anyio

from prime_lab_mcp.lab.base.errors import LabError, PrimeError
from prime_lab_mcp.lab.base.process import holder_lives
from prime_lab_mcp.lab.base.settings import Platform
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import IntentState

T = TypeVar("T")
_POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Delays:
    """Time limits of one kind of request, in seconds."""

    limit: float
    """The longest time that sending takes. After it, a sender that this machine cannot observe counts as ended."""
    landing: float
    """How long a request may still take effect on the platform after its sender was killed."""
    landing_after_failure: float
    """How long a request may still take effect after its sender failed without being killed. With 0, an effect that the
    platform does not list does not exist."""
    wait: float = 0.0
    """How long a call waits while another call sends the same intent."""
    looks: tuple[float, ...] = (0.0,)
    """The pauses before the look-ups on the platform after an answer was lost, one per look-up."""


@dataclass(frozen=True, slots=True)
class Lookup(Generic[T]):
    """The answer of a look-up on the platform. `value` is the effect of the intent, or None if there is none.

    `others` describes what existed before sending. It is stored in the claim and passed to later look-ups.
    """

    value: T | None
    others: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Settled(Generic[T]):
    """The outcome of an intent. `sent` is False if an earlier request, or another call, produced the outcome."""

    value: T
    sent: bool


class PartlyDoneError(PrimeError):
    """The platform executed only a part of the request, which must not be sent again and does not count as done."""


class AtMostOnce(ABC, Generic[T]):
    """One intent: how to send it, how to look up its effect on the platform, and what to record in the ledger."""

    kind: ClassVar[str]
    looks_first: ClassVar[bool] = True
    """False only if the platform itself refuses to repeat the request."""
    subject: str | None = None
    """What this intent and intents of other kinds would change, of which only one may. The claim is on the subject."""

    def __init__(self, key: str, platform: Platform, delays: Delays) -> None:
        self.key = key
        self.platform = platform
        self.delays = delays

    @abstractmethod
    async def send(self) -> T:
        """Send the request. This is the only step that has an effect. Raises LabError."""

    @abstractmethod
    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[T]:
        """Ask the platform for the effect. Raises LabError if the platform cannot be asked.

        `before` is `Lookup.others` of the look-up right before sending. It is None if this is that look-up, or if
        there was none.
        """

    @abstractmethod
    def had_no_effect(self, error: LabError) -> bool:
        """True if this failure of `send` proves that the request had no effect."""

    def claim_facts(self) -> Mapping[str, Any]:
        """What another call needs to know of this intent, so that it can settle a claim on the subject."""
        return {}

    async def rival(self, state: IntentState) -> AtMostOnce[Any]:
        """The intent that holds the subject, to be settled. Raises LabError."""
        raise NotImplementedError(f"{type(self).__name__} has a subject, and cannot tell who else claims that")

    async def require_unchanged_subject(self) -> None:
        """Check, while the subject is claimed, that no other intent has changed the subject. Raises LabError."""

    def ended_by_force(self, error: LabError) -> bool:
        """True if the sending program was killed, so that its request may still be on its way."""
        return False

    @abstractmethod
    def as_result(self, value: T) -> Mapping[str, Any]:
        """Convert an outcome to the JSON object that the ledger stores."""

    @abstractmethod
    def from_result(self, result: Mapping[str, Any]) -> T:
        """Convert the JSON object of the ledger back to the outcome."""

    def record(self, value: T) -> None:
        """Write further rows about an outcome in the transaction that settles the intent. May be called twice."""

    @abstractmethod
    def in_flight(self) -> LabError:
        """The error to raise while another call is sending this intent."""

    @abstractmethod
    def unknown(self, why: str, seconds: float) -> LabError:
        """The error to raise while the outcome is unknown. After `seconds`, a look-up on the platform settles it."""


class Once:
    """Sends the requests of intents at most once, and finds out the outcome of lost ones. The ledger holds the
    claims."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        lives: Callable[[str], bool | None] = holder_lives,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
    ) -> None:
        self._ledger = ledger
        self._lives = lives
        self._sleep = sleep

    async def send(self, intent: AtMostOnce[T]) -> Settled[T] | None:
        """Send an intent that has had no effect so far, or return its earlier outcome.

        Returns None if another call was sending the intent and the platform refused it. Raises LabError.
        """
        claim = self._claimed(intent)
        while claim.state != "open":
            if claim.key != intent.key:
                await self.settle(await intent.rival(claim))
                claim = self._claimed(intent)
                continue
            state = await self._once_sender_ended(intent)
            if state is None or state.state == "open":
                return None
            if state.state == "done":
                return Settled(intent.from_result(state.result), False)
            value = await self._outcome_of_lost(intent, state)
            if value is not None:
                return Settled(value, False)
            # One transaction replaces the old attempt by the new one, so that only one of two waiting servers sends.
            claim = self._claimed(intent, after=state.attempt)
        return await self._deliver(intent, claim)

    def _claimed(self, intent: AtMostOnce[T], after: int | None = None) -> IntentState:
        return self._ledger.claim(
            intent.key,
            intent.kind,
            intent.platform,
            after=after,
            subject=intent.subject,
            facts=intent.claim_facts(),
        )

    async def settle(self, intent: AtMostOnce[T]) -> T | None:
        """Return the outcome of earlier requests; None if the intent may be sent.

        Asks the platform only about a request whose outcome is unknown. Raises LabError.
        """
        state = await self._once_sender_ended(intent)
        if state is None or state.state == "open":
            return None
        if state.state == "done":
            return intent.from_result(state.result)
        value = await self._outcome_of_lost(intent, state)
        if value is None:
            self._free(intent, state)
        return value

    # Requests of other senders

    async def _once_sender_ended(self, intent: AtMostOnce[T]) -> IntentState | None:
        """Wait until no process that is known to run is sending the intent, and return its state in the ledger."""
        waited = 0.0
        while True:
            state = self._ledger.intent(intent.key, intent.platform)
            if state is None or state.state != "sent" or "over" in state.result:
                return state
            # A running sender is never too old: after a machine slept, its processes continue.
            if self._lives(state.holder) is not True:
                return state
            if waited >= intent.delays.wait:
                raise intent.in_flight()
            await self._sleep(_POLL_SECONDS)
            waited += _POLL_SECONDS

    async def _outcome_of_lost(self, intent: AtMostOnce[T], state: IntentState) -> T | None:
        """Look up the outcome of a request whose answer was lost; None if it had no effect and can have none now."""
        if state.result.get("phase") == "claimed":
            return None  # nothing was sent, and `Ledger.note` stops the holder if it still runs
        certain = self._certain_from(intent, state)
        looked_at = self._ledger.now()
        value = (await intent.look_up(state.result.get("before"))).value
        if value is not None:
            self._record(intent, value)
            return value
        if looked_at >= certain:
            return None
        young = looked_at < self._begun(state) + intent.delays.limit
        if young and "over" not in state.result and self._lives(state.holder) is None:
            raise intent.in_flight()
        raise intent.unknown("the platform does not list it so far", certain - looked_at)

    def _certain_from(self, intent: AtMostOnce[T], state: IntentState) -> float:
        """The time, in seconds since the epoch, from which an effect that the platform does not list does not exist."""
        delays = intent.delays
        over, clear = state.result.get("over"), state.result.get("clear")
        if isinstance(clear, (int, float)):
            return float(clear)
        if isinstance(over, (int, float)):
            return float(over) + delays.landing
        if self._lives(state.holder) is False:
            # The sending program ended together with its server (lab/base/process.py).
            ended = self._ledger.record_end(intent.key, intent.platform, state.attempt, by="witness")
            return ended + delays.landing
        return self._begun(state) + delays.limit + delays.landing

    @staticmethod
    def _begun(state: IntentState) -> float:
        since = state.result.get("since")
        return float(since) if isinstance(since, (int, float)) else state.at

    # The request of this process

    async def _deliver(self, intent: AtMostOnce[T], claim: IntentState) -> Settled[T]:
        before: Mapping[str, Any] = {}
        sending = False
        try:
            await intent.require_unchanged_subject()
            if intent.looks_first:
                there = await intent.look_up(None)
                if there.value is not None:
                    self._record(intent, there.value)
                    return Settled(there.value, False)
                before = there.others
            note = {"phase": "sending", "since": self._ledger.now(), "before": dict(before)}
            if not self._ledger.note(intent.key, intent.platform, claim.attempt, note):
                raise intent.in_flight()
            sending = True
            value = await intent.send()
        except LabError as error:
            if not sending or intent.had_no_effect(error):
                self._free(intent, claim)
                raise
            value = await self._recovered(intent, claim, before, error)
        except BaseException:
            if sending:
                self._end(intent, claim, intent.delays.landing)
            else:
                self._free(intent, claim)
            raise
        self._record(intent, value)
        return Settled(value, True)

    async def _recovered(
        self, intent: AtMostOnce[T], claim: IntentState, before: Mapping[str, Any], error: LabError
    ) -> T:
        """Look up the outcome after a failure that leaves it open.

        Raises LabError if there is none or its outcome is unknown.
        """
        delays = intent.delays
        landing = delays.landing if intent.ended_by_force(error) else delays.landing_after_failure
        self._end(intent, claim, landing)
        for pause in delays.looks:
            if pause:
                await self._sleep(pause)
            try:
                there = await intent.look_up(before)
            except PartlyDoneError:
                raise
            except LabError as unreachable:
                raise intent.unknown(error.message, landing) from unreachable
            if there.value is not None:
                return there.value
        if landing > 0:
            raise intent.unknown(error.message, landing) from error
        self._free(intent, claim)
        raise error

    def _end(self, intent: AtMostOnce[T], claim: IntentState, landing: float) -> None:
        """Record that this claim sends nothing more, and after how many seconds a look-up settles the intent."""
        self._ledger.record_end(intent.key, intent.platform, claim.attempt, by=claim.holder, landing=landing)

    def _record(self, intent: AtMostOnce[T], value: T) -> None:
        with self._ledger.transaction():
            intent.record(value)
            self._ledger.settle(intent.key, intent.platform, intent.as_result(value))

    def _free(self, intent: AtMostOnce[T], claim: IntentState) -> None:
        """Record that the request had no effect: the intent may be sent again, and its reserved amount is released."""
        with self._ledger.transaction():
            if self._ledger.release(intent.key, intent.platform, attempt=claim.attempt):
                self._ledger.unreserve(intent.key, intent.platform, until=claim.at)


@contextmanager
def reserved(
    ledger: Ledger, key: str, platform: Platform, amount: float, what: str, cap: float | None
) -> Iterator[bool]:
    """Reserve the possible cost of an intent while it is sent. Yields False, and reserves nothing, above the cap.

    After the block the amount stays reserved unless the intent certainly had no effect.
    """
    if not ledger.reserve(key, amount, what, platform, cap):
        yield False
        return
    try:
        yield True
    finally:
        state = ledger.intent(key, platform)
        if state is None or state.state == "open":
            ledger.unreserve(key, platform)
