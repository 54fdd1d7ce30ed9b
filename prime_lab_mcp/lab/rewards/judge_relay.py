"""Opens a relay between an environment's process and its judge model for one tool call.

The relay holds the real API key. The environment gets a key that only this relay accepts, in the same environment
variables as in an evaluation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prime_lab_mcp.lab import loading
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay import endpoints
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess, Price
from prime_lab_mcp.lab.state.snapshot import Snapshot
from prime_lab_mcp.lab.worker.description import JudgeInfo

if TYPE_CHECKING:
    from prime_lab_mcp.lab.relay.proxy import Relay

MOST_REQUESTS = 2_000
MOST_TOKENS = 4_000_000
"""Largest numbers of requests and tokens in one call, at any price."""
ESTIMATED_QUESTIONS = 600
"""Largest number of questions in a trial, for the estimate of its cost."""
_PROMPT_TOKENS, _VERDICT_TOKENS = 1_000, 200
"""Assumed tokens of one question (a rubric with an answer) and of its short verdict."""
_HEADROOM = 4.0
"""The relay stops at this multiple of the estimated cost."""


@dataclass(frozen=True, slots=True)
class JudgeRelay:
    """An open relay to a judge's endpoint.

    `host` is the host of the endpoint, and `local` is the host and port of the relay. `capped` is the number of
    requests that the relay refused because of its limits. `variables` are the environment variables with the relay's
    address and key. `stand_in`: the rehearsal's stand-in answers, which no judge's question was written for.
    """

    relay: Relay
    access: EndpointAccess
    allow: tuple[str, ...]
    stand_in: bool = False

    @property
    def host(self) -> str:
        return self.access.endpoint.host

    @property
    def local(self) -> str:
        return urlsplit(self.relay.url).netloc

    @property
    def capped(self) -> int:
        return self.relay.usage.capped

    @property
    def variables(self) -> Mapping[str, str]:
        return endpoints.judge_variables(self.relay.url, self.relay.secret, self.allow)

    async def bound(self, judges: Iterable[JudgeInfo]) -> float | None:
        """Limit the cost of the call to `bound_trial`, and return this limit in US dollars.

        None if the endpoint lists no price for the judges' models.
        """
        price = await highest_price(self.access, judges)
        if price is None:
            return None
        cost = bound_trial(price)
        self.relay.cap = replace(self.relay.cap, cost=cost, price=price)
        return cost

    def admit_requests(self) -> None:
        """Forward requests from now on. Before, the cost is not reserved, and the relay refuses every request."""
        self.relay.cap = replace(self.relay.cap, requests=MOST_REQUESTS)

    @property
    def spent(self) -> float:
        """The cost so far in US dollars; 0 if the endpoint lists no price."""
        return self.relay.usage.cost

    def as_json(self) -> dict[str, Any]:
        """Return the endpoint, the requests and tokens so far and, if a price is listed, the cost, for a report."""
        usage = self.relay.usage
        data: dict[str, Any] = {
            "endpoint": self.host,
            "named_by": self.access.endpoint.named_by,
            "requests": usage.requests,
            "tokens": usage.prompt_tokens + usage.completion_tokens,
        }
        if self.relay.cap.price is not None:
            data["cost"] = round(self.spent, 4)
        return data


async def judge_endpoint(lab: Lab, wanted: str) -> EndpointAccess:
    """Resolve the endpoint `wanted` and check that it answers. Raises BadInput or EvalError."""
    variables = dict(await lab.platform_variables()) if lab.settings.rehearsal else {}
    access = endpoints.resolve_endpoint(wanted, variables, lab.settings.endpoints)
    return await endpoints.query_endpoint(access, "", exact=False)


@asynccontextmanager
async def open_judge_relay(
    lab: Lab, wanted: str | None, known: EndpointAccess | None = None
) -> AsyncIterator[JudgeRelay | None]:
    """Provide a relay to the endpoint `wanted`, or None if `wanted` is None. It forwards requests only after
    `JudgeRelay.admit_requests`.

    `known` is the result of an earlier call of `judge_endpoint` for the same endpoint.
    """
    if wanted is None:
        yield None
        return
    from prime_lab_mcp.lab.relay.metering import RelayCap as Cap
    from prime_lab_mcp.lab.relay.proxy import Relay

    access = known or await judge_endpoint(lab, wanted)
    async with Relay(access.endpoint, access.key, Cap(tokens=MOST_TOKENS, requests=0)).serving() as relay:
        stand_in = lab.settings.rehearsal and access.endpoint.named_by == "platform"
        yield JudgeRelay(relay, access, lab.settings.allow_env, stand_in)


async def highest_price(access: EndpointAccess, judges: Iterable[JudgeInfo]) -> Price | None:
    """Return the highest price that the endpoint lists for the judges' models; None if it lists no price."""
    prices = []
    for model in dict.fromkeys(j.model for j in judges if j.model):
        price = (await endpoints.query_endpoint(access, model, exact=False)).price
        prices += [price] if price is not None else []
    return max(prices, key=_question, default=None)


def estimate_trial(price: Price) -> float:
    """Return the estimated cost of a trial in US dollars with a judge at this price."""
    return ESTIMATED_QUESTIONS * _question(price)


def bound_trial(price: Price) -> float:
    """Return the largest cost of a trial in US dollars, at which the relay stops."""
    return round(_HEADROOM * estimate_trial(price), 4)


def _question(price: Price) -> float:
    return price.of(_PROMPT_TOKENS, _VERDICT_TOKENS)


async def judge_price(lab: Lab, snapshot: Snapshot, access: EndpointAccess) -> Price | None:
    """Return the price of the environment's judge at an endpoint; None if it is not listed.

    The environment is loaded to find the judge's model. No question is sent.
    """
    async with loading.open_environment(
        lab, snapshot, variables=endpoints.no_judge_variables(lab.settings.allow_env)
    ) as env:
        return await highest_price(access, env.loaded.judges)
