"""The way from an environment's process to its judge: the relay of run_eval, for the time of one call.

The relay holds the real key. The environment gets a key that is good for this relay only, in the variables that judges
inside an evaluation find (program.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prime_lab_mcp.lab import opening
from prime_lab_mcp.lab.evals import endpoints, program
from prime_lab_mcp.lab.evals.endpoints import Access
from prime_lab_mcp.lab.evals.spec import Price
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.snapshot import Snapshot
from prime_lab_mcp.lab.worker.cases import JudgeInfo

if TYPE_CHECKING:
    from prime_lab_mcp.lab.evals.relay import Relay

REQUESTS = 2_000
TOKENS = 4_000_000
"""Bounds of one call, whatever it costs."""
QUESTIONS = 600
_PROMPT_TOKENS, _VERDICT_TOKENS = 1_000, 200
"""What a trial asks at most, and tokens of one question (a rubric with an answer, a short verdict), for an estimate."""
_HEADROOM = 4.0
_LEAST_CAP = 1.0


@dataclass(frozen=True, slots=True)
class Way:
    """An open way to a judge's endpoint. `host` is the endpoint's, `local` that of the relay."""

    relay: Relay
    access: Access
    allow: tuple[str, ...]

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
        return program.judge_variables(self.relay.url, self.relay.secret, self.allow)

    async def bound(self, judges: Iterable[JudgeInfo], remaining: float | None) -> None:
        """Stop answering at four times what was estimated, and at what the spending cap still allows."""
        price = await dearest(self.access, judges)
        if price is not None:
            cost = max(_LEAST_CAP, _HEADROOM * estimate(price))
            cost = cost if remaining is None else max(0.0, min(cost, remaining))
            self.relay.cap = replace(self.relay.cap, cost=cost, price=price)

    @property
    def spent(self) -> float:
        """US dollars, as far as the endpoint lists a price."""
        price, usage = self.relay.cap.price, self.relay.usage
        return 0.0 if price is None else price.of(usage.prompt_tokens, usage.completion_tokens)

    def as_json(self) -> dict[str, Any]:
        """For a report."""
        usage = self.relay.usage
        shown: dict[str, Any] = {
            "endpoint": self.host,
            "requests": usage.requests,
            "tokens": usage.prompt_tokens + usage.completion_tokens,
        }
        if self.relay.cap.price is not None:
            shown["cost"] = round(self.spent, 4)
        return shown


async def access(lab: Lab, wanted: str) -> Access:
    """The endpoint that was named, found to answer. Raises BadInput, EvalError."""
    variables = dict(await lab.platform_variables()) if lab.settings.rehearsal else {}
    return await endpoints.ask(endpoints.resolve(wanted, variables), "", exact=False)


@asynccontextmanager
async def opened(lab: Lab, wanted: str | None) -> AsyncIterator[Way | None]:
    """A relay to the endpoint that was named, until the block is left; None where none was."""
    if wanted is None:
        yield None
        return
    from prime_lab_mcp.lab.evals.relay import Cap, Relay

    found = await access(lab, wanted)
    async with Relay(found.endpoint, found.key, Cap(tokens=TOKENS, requests=REQUESTS)).serving() as relay:
        yield Way(relay, found, lab.settings.allow_env)


async def dearest(found: Access, judges: Iterable[JudgeInfo]) -> Price | None:
    """The highest price that the endpoint lists for one of these models; None where it lists none."""
    prices = []
    for model in dict.fromkeys(j.model for j in judges if j.model):
        price = (await endpoints.ask(found, model, exact=False)).price
        prices += [price] if price is not None else []
    return max(prices, key=_question, default=None)


def estimate(price: Price) -> float:
    """US dollars for a trial with a judge at this price."""
    return QUESTIONS * _question(price)


def _question(price: Price) -> float:
    return price.of(_PROMPT_TOKENS, _VERDICT_TOKENS)


async def priced(lab: Lab, snapshot: Snapshot, wanted: str) -> Price | None:
    """What the environment's judge costs there, before it is asked anything: the environment is loaded for its name."""
    found = await access(lab, wanted)
    async with opening.opened(lab, snapshot, variables=program.nowhere(lab.settings.allow_env)) as env:
        return await dearest(found, env.loaded.judges)
