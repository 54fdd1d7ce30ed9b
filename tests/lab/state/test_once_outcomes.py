"""What `Once` makes of lost answers, killed senders and other servers: every rule on a shop that is all the platform.

The clock is a number, and a sender lives for as long as its test says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.state.ledger.ledger import Ledger
from prime_lab_mcp.lab.state.ledger.rows import IntentState
from prime_lab_mcp.lab.state.once import AtMostOnce, Delays, Lookup, Once, PartlyDoneError, Settled, reserved

pytestmark = pytest.mark.anyio
KEY = "order-1"
BEGAN = 1_000_000.0
DELAYS = Delays(limit=100.0, landing=10.0, landing_after_failure=1.0)
"""`landing_after_failure` is as long as the least time that a failed request may still be on its way."""


class Shop:
    """A platform that takes one order, with the servers that send to it and the time that passes."""

    def __init__(self, ledger: Path) -> None:
        self.now = BEGAN
        self.path = ledger
        self.ledger = self.server("us")
        self.lives: dict[str, bool | None] = {"us": True}
        self.orders = 0
        self.listed: str | None = None
        """The order that a look-up finds."""
        self.takes_seconds = 0.0
        """How long a look-up takes."""
        self.fails: LabError | None = None
        """How sending fails, whether or not the order arrives."""
        self.closed = False
        """Whether look-ups fail."""
        self.looked: list[Mapping[str, Any] | None] = []
        self.recorded: list[str] = []
        self.slept: list[float] = []
        self.meanwhile: Callable[[], Any] = lambda: None
        """What happens while a call sleeps."""

    def server(self, holder: str) -> Ledger:
        return Ledger(self.path, holder=holder, now=lambda: self.now)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        self.meanwhile()

    @property
    def once(self) -> Once:
        return Once(self.ledger, lives=lambda holder: self.lives[holder], sleep=self.sleep)

    def state(self) -> IntentState:
        found = self.ledger.intent(KEY, "prime")
        assert found is not None
        return found

    def sent_by(self, holder: str, lives: bool | None, **noted: Any) -> IntentState:
        """Another server claims the order, and notes what it has begun."""
        ledger = self.server(holder)
        self.lives[holder] = lives
        claim = ledger.claim(KEY, "order", "prime")
        if noted:
            ledger.note(KEY, "prime", claim.attempt, {"phase": "sending", **noted})
        ledger.close()
        return claim


class Order(AtMostOnce[str]):
    kind = "order"

    def __init__(self, shop: Shop, delays: Delays = DELAYS) -> None:
        super().__init__(KEY, "prime", delays)
        self.shop = shop

    async def send(self) -> str:
        self.shop.orders += 1
        if self.shop.fails is not None:
            raise self.shop.fails
        return f"order {self.shop.orders}"

    async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[str]:
        self.shop.looked.append(before)
        self.shop.now += self.shop.takes_seconds
        if self.shop.closed:
            raise error("platform-unreachable")
        return Lookup(self.shop.listed, {"older": 3})

    def had_no_effect(self, error: LabError) -> bool:
        return error.code == "payment-required"

    def as_result(self, value: str) -> Mapping[str, Any]:
        return {"order": value}

    def from_result(self, result: Mapping[str, Any]) -> str:
        return str(result["order"])

    def record(self, value: str) -> None:
        self.shop.recorded.append(value)

    def in_flight(self) -> LabError:
        return error("push-in-flight")

    def unknown(self, why: str, seconds: float) -> LabError:
        return Unknown(why, seconds)


class Unknown(LabError):
    default_code = "push-outcome-unknown"

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why, fix="Call again.")
        self.seconds = seconds


class Killed(Order):
    """An order whose sending program is killed when it fails."""

    def ended_by_force(self, error: LabError) -> bool:
        return True


def error(code: Code) -> LabError:
    return LabError(code, fix="Call again.", code=code)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    opened = Shop(tmp_path / "l.sqlite3")
    yield opened
    opened.ledger.close()


async def fails(call: Awaitable[object]) -> LabError:
    with pytest.raises(LabError) as caught:
        await call
    return caught.value


async def unknown(call: Awaitable[object]) -> float:
    """The seconds after which the call says that the outcome is certain."""
    caught = await fails(call)
    assert isinstance(caught, Unknown), caught
    return caught.seconds


# Sending


async def test_what_was_sent_once_is_answered_from_the_ledger_for_good(shop: Shop) -> None:
    assert await shop.once.send(Order(shop)) == Settled("order 1", True)
    assert await shop.once.send(Order(shop)) == Settled("order 1", False)
    assert await shop.once.settle(Order(shop)) == "order 1"
    assert (shop.orders, shop.recorded) == (1, ["order 1"])


async def test_an_intent_that_cannot_tell_its_rivals_sends_nothing_while_another_one_has_the_subject(
    shop: Shop,
) -> None:
    class OfTable(Order):
        subject = "table 5"

    shop.ledger.claim("other", "order", "prime", subject="table 5")
    with pytest.raises(NotImplementedError, match="OfTable has a subject"):
        await shop.once.send(OfTable(shop))
    assert shop.orders == 0


async def test_an_effect_that_the_platform_lists_already_is_recorded_and_not_sent(shop: Shop) -> None:
    shop.listed = "order 0"
    assert await shop.once.send(Order(shop)) == Settled("order 0", False)
    assert (shop.orders, shop.recorded) == (0, ["order 0"])
    assert shop.state().state == "done"


async def test_where_the_platform_refuses_a_repetition_nobody_looks_before_sending(shop: Shop) -> None:
    class Refused(Order):
        looks_first = False

    shop.closed = True
    assert await shop.once.send(Refused(shop)) == Settled("order 1", True)
    assert shop.looked == []


async def test_an_intent_of_which_nothing_was_sent_is_free_without_a_look_up(shop: Shop) -> None:
    assert await shop.once.settle(Order(shop)) is None
    shop.ledger.release(KEY, "prime", attempt=shop.sent_by("gone", False).attempt)
    assert await shop.once.settle(Order(shop)) is None
    assert shop.looked == []


# Failures before and after sending


async def test_a_look_up_that_fails_before_sending_frees_the_intent(shop: Shop) -> None:
    shop.closed = True
    assert (await fails(shop.once.send(Order(shop)))).code == "platform-unreachable"
    assert (shop.orders, shop.state().state) == (0, "open")


async def test_a_refusal_of_the_platform_frees_the_intent_and_releases_its_reserved_amount(shop: Shop) -> None:
    shop.fails = error("payment-required")
    shop.ledger.reserve(KEY, 30.0, "order", "prime", None)
    assert (await fails(shop.once.send(Order(shop)))).code == "payment-required"
    assert (shop.state().state, shop.ledger.spent("prime")) == ("open", 0.0)


async def test_the_reserved_amount_of_a_newer_claim_stays_when_an_older_one_is_refused(shop: Shop) -> None:
    class TakenOver(Order):
        async def send(self) -> str:
            shop.ledger.reserve(KEY, 30.0, "order", "prime", None)
            shop.server("other").claim(KEY, "order", "prime", after=1)
            return await super().send()

    shop.fails = error("payment-required")
    await fails(shop.once.send(TakenOver(shop)))
    assert (shop.state().state, shop.state().attempt, shop.ledger.spent("prime")) == ("sent", 2, 30.0)


async def test_a_lost_answer_is_looked_up_at_once_with_what_existed_before_sending(shop: Shop) -> None:
    class Arrives(Order):
        async def send(self) -> str:
            shop.listed = "order 1"
            return await super().send()

    shop.fails = error("platform-slow")
    delays = Delays(limit=100.0, landing=10.0, landing_after_failure=1.0)
    assert await shop.once.send(Arrives(shop, delays)) == Settled("order 1", True)
    assert (shop.looked, shop.slept, shop.recorded) == ([None, {"older": 3}], [], ["order 1"])


async def test_the_look_ups_after_a_lost_answer_pause_as_the_delays_say(shop: Shop) -> None:
    shop.fails = error("platform-slow")
    delays = Delays(limit=100.0, landing=10.0, landing_after_failure=1.0, looks=(0.0, 2.0, 5.0))
    assert await unknown(shop.once.send(Order(shop, delays))) == 1.0
    assert (len(shop.looked), shop.slept) == (4, [2.0, 5.0])


async def test_a_failure_that_cannot_take_effect_later_frees_the_intent_when_nothing_is_listed(shop: Shop) -> None:
    shop.fails = error("platform-slow")
    at_once = Delays(limit=100.0, landing=10.0, landing_after_failure=0.0)
    assert (await fails(shop.once.send(Order(shop, at_once)))).code == "platform-slow"
    assert shop.state().state == "open"


async def test_a_lost_answer_whose_look_up_fails_too_is_an_unknown_outcome(shop: Shop) -> None:
    class Breaks(Order):
        async def send(self) -> str:
            shop.closed = True
            return await super().send()

    shop.fails = error("platform-slow")
    assert await unknown(shop.once.send(Breaks(shop))) == 1.0
    assert shop.state().state == "sent"


async def test_a_request_that_was_done_in_part_is_neither_freed_nor_done(shop: Shop) -> None:
    class InPart(Order):
        async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[str]:
            if before is not None:
                raise PartlyDoneError("half of the order", fix="Complete the order.")
            return await super().look_up(before)

    shop.fails = error("platform-slow")
    assert isinstance(await fails(shop.once.send(InPart(shop))), PartlyDoneError)
    assert shop.state().state == "sent"


@pytest.mark.parametrize(("order", "seconds"), [(Order, 1.0), (Killed, 10.0)])
async def test_an_unknown_outcome_is_certain_exactly_when_the_error_says(
    shop: Shop, order: type[Order], seconds: float
) -> None:
    shop.fails = error("platform-slow")
    assert await unknown(shop.once.send(order(shop))) == seconds
    shop.now += seconds - 0.5
    assert await unknown(shop.once.settle(order(shop))) == 0.5
    assert shop.state().state == "sent"
    shop.now += 0.5
    assert await shop.once.settle(order(shop)) is None
    assert shop.state().state == "open"


async def test_an_effect_that_lands_late_is_found_by_the_next_call(shop: Shop) -> None:
    shop.fails = error("platform-slow")
    await fails(shop.once.send(Order(shop)))
    shop.listed = "order 1"
    assert await shop.once.send(Order(shop)) == Settled("order 1", False)
    assert (shop.state().state, shop.recorded) == ("done", ["order 1"])


async def test_settling_finds_an_effect_that_lands_late(shop: Shop) -> None:
    shop.fails = error("platform-slow")
    await fails(shop.once.send(Order(shop)))
    shop.listed = "order 1"
    assert await shop.once.settle(Order(shop)) == "order 1"
    assert shop.state().state == "done"


async def test_after_an_unknown_outcome_became_certain_the_next_call_sends(shop: Shop) -> None:
    shop.fails = error("platform-slow")
    await fails(shop.once.send(Order(shop)))
    shop.now, shop.fails = shop.now + 1.0, None
    assert await shop.once.send(Order(shop)) == Settled("order 2", True)


# Calls that are cancelled


async def test_a_call_that_is_cancelled_before_sending_frees_the_intent(shop: Shop) -> None:
    class Cancelled(Order):
        async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[str]:
            cancelled.cancel()
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.CancelScope() as cancelled:
        await shop.once.send(Cancelled(shop))
    assert shop.state().state == "open"


async def test_a_call_that_is_cancelled_while_sending_leaves_its_outcome_open_for_as_long_as_it_may_land(
    shop: Shop,
) -> None:
    class Cancelled(Order):
        async def send(self) -> str:
            cancelled.cancel()
            await anyio.sleep_forever()
            raise AssertionError

    with anyio.CancelScope() as cancelled:
        await shop.once.send(Cancelled(shop))
    assert await unknown(shop.once.settle(Order(shop))) == 10.0


# Other senders


async def test_a_call_beside_a_sender_that_lives_does_not_wait_unless_the_delays_say_so(shop: Shop) -> None:
    shop.sent_by("other", True, since=BEGAN)
    delays = Delays(limit=100.0, landing=10.0, landing_after_failure=1.0)
    assert (await fails(shop.once.send(Order(shop, delays)))).code == "push-in-flight"
    assert (shop.slept, shop.looked) == ([], [])


async def test_a_waiting_call_asks_four_times_a_second_and_gives_up_on_time(shop: Shop) -> None:
    shop.sent_by("other", True, since=BEGAN)
    patient = Delays(limit=100.0, landing=10.0, landing_after_failure=1.0, wait=1.0)
    assert (await fails(shop.once.settle(Order(shop, patient)))).code == "push-in-flight"
    assert shop.slept == [0.25] * 4


@pytest.mark.parametrize("outcome", ["settled", "refused", "restored from a backup"])
async def test_a_waiting_call_returns_what_the_other_sender_ends_with(shop: Shop, outcome: str) -> None:
    patient = Delays(limit=100.0, landing=10.0, landing_after_failure=1.0, wait=1.0)
    shop.sent_by("other", True, since=BEGAN)
    shop.meanwhile = {
        "settled": lambda: shop.ledger.settle(KEY, "prime", {"order": "theirs"}),
        "refused": lambda: shop.ledger.release(KEY, "prime"),
        "restored from a backup": lambda: shop.ledger._write("DELETE FROM intents", ()),
    }[outcome]
    expected = Settled("theirs", False) if outcome == "settled" else None
    assert await shop.once.send(Order(shop, patient)) == expected
    assert (shop.orders, shop.slept) == (0, [0.25])


async def test_a_living_sender_that_ended_its_request_is_not_waited_for(shop: Shop) -> None:
    claim = shop.sent_by("other", True, since=BEGAN)
    shop.ledger.record_end(KEY, "prime", claim.attempt, by="other", landing=7.0)
    assert await unknown(shop.once.settle(Order(shop))) == 7.0


async def test_the_end_that_another_call_witnessed_counts_from_when_it_was_witnessed(shop: Shop) -> None:
    shop.sent_by("gone", False, since=BEGAN)
    shop.now += 50.0
    assert await unknown(shop.once.settle(Order(shop))) == 10.0
    shop.now += 4.0
    assert await unknown(shop.once.settle(Order(shop))) == 6.0
    shop.now += 6.0
    assert await shop.once.settle(Order(shop)) is None


async def test_what_a_killed_sender_only_claimed_is_sent_without_a_look_up_about_it(shop: Shop) -> None:
    shop.sent_by("gone", False)
    assert await shop.once.send(Order(shop)) == Settled("order 1", True)
    assert shop.looked == [None]


async def test_what_a_killed_sender_sent_is_looked_up_with_what_it_noted(shop: Shop) -> None:
    shop.sent_by("gone", False, since=BEGAN, before={"older": 2})
    shop.listed = "theirs"
    assert await shop.once.send(Order(shop)) == Settled("theirs", False)
    assert (shop.looked, shop.orders) == ([{"older": 2}], 0)


async def test_a_sender_on_another_machine_counts_as_sending_for_its_limit_and_then_as_ended(shop: Shop) -> None:
    shop.sent_by("elsewhere", None, since=BEGAN + 5.0)
    shop.now = BEGAN + 104.0
    assert (await fails(shop.once.settle(Order(shop)))).code == "push-in-flight"
    shop.now = BEGAN + 105.0
    assert await unknown(shop.once.settle(Order(shop))) == 10.0
    shop.now = BEGAN + 115.0
    assert await shop.once.settle(Order(shop)) is None


async def test_the_limit_of_a_claim_of_an_older_release_counts_from_the_claim(shop: Shop) -> None:
    claim = shop.sent_by("elsewhere", None, before={})
    shop.now = claim.at + 100.0
    assert await unknown(shop.once.settle(Order(shop))) == 10.0


async def test_a_sender_on_another_machine_that_noted_its_end_does_not_count_as_sending(shop: Shop) -> None:
    claim = shop.sent_by("elsewhere", None, since=BEGAN)
    shop.ledger.record_end(KEY, "prime", claim.attempt, by="elsewhere", landing=7.0)
    assert await unknown(shop.once.settle(Order(shop))) == 7.0


async def test_a_killed_sender_does_not_count_as_sending_before_its_limit(shop: Shop) -> None:
    shop.sent_by("gone", False, since=BEGAN)
    assert await unknown(shop.once.settle(Order(shop))) == 10.0


async def test_a_claim_that_was_taken_over_during_the_look_up_sends_nothing(shop: Shop) -> None:
    class TakenOver(Order):
        async def look_up(self, before: Mapping[str, Any] | None) -> Lookup[str]:
            shop.server("other").claim(KEY, "order", "prime", after=1)
            return await super().look_up(before)

    assert (await fails(shop.once.send(TakenOver(shop)))).code == "push-in-flight"
    assert (shop.orders, shop.state().attempt, shop.state().holder) == (0, 2, "other")


async def test_an_outcome_is_judged_by_the_time_before_its_look_up(shop: Shop) -> None:
    """What lands while the platform answers may be missing in the answer."""
    shop.sent_by("elsewhere", None, since=BEGAN)
    shop.now, shop.takes_seconds = BEGAN + 109.0, 5.0
    assert await unknown(shop.once.settle(Order(shop))) == 1.0


# Money


def test_the_amount_of_a_claim_that_was_freed_in_the_block_is_released(shop: Shop) -> None:
    with reserved(shop.ledger, KEY, "prime", 30.0, "order", 50.0):
        shop.ledger.release(KEY, "prime", attempt=shop.ledger.claim(KEY, "order", "prime").attempt)
    assert shop.ledger.spent("prime") == 0.0
