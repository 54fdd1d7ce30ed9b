"""The attacker in `test_reward`: a model that reads the reward's source and looks for hacks, approved and bounded."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.fix import Fix, SameCall
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.plan import is_free
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay import endpoints
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess, Price
from prime_lab_mcp.lab.rewards.observations import AttackerOutcome
from prime_lab_mcp.lab.rewards.search.attacker import (
    PROMPT_TOKENS,
    REPLY_TOKENS,
    ROUNDS,
    ModelAttacker,
)
from prime_lab_mcp.tools.reward_costs import paid_intent, price_unknown, reserved
from prime_lab_mcp.tools.tool import Call, Intent

_TOKENS = ROUNDS * (PROMPT_TOKENS + REPLY_TOKENS)


@dataclass(frozen=True, slots=True)
class AttackerModel:
    """The model of an attacker, and its endpoint, which lists the model or lists none."""

    model: str
    access: EndpointAccess

    @property
    def bound(self) -> float | None:
        """The most that one test costs in US dollars; None without a listed price."""
        return None if self.access.price is None else round(_cost(self.access.price), 4)


def _cost(price: Price) -> float:
    return ROUNDS * price.of(PROMPT_TOKENS, REPLY_TOKENS)


async def attacker_model(lab: Lab, text: str) -> AttackerModel:
    """Resolve "ENDPOINT MODEL", and check that the endpoint serves the model. Raises BadInput, EvalError."""
    name, _, model = text.strip().partition(" ")
    if not model.strip():
        raise BadInput(
            f"attacker={quote(text, 80)} names no model",
            fix=Fix(
                "Name an endpoint and a model with a space between them: ",
                SameCall(attacker="prime openai/gpt-5-mini"),
                ".",
            ),
            code="bad-argument",
        )
    variables = dict(await lab.platform_variables()) if lab.settings.rehearsal else {}
    access = endpoints.resolve_endpoint(name, variables, lab.settings.endpoints)
    model = model.strip()
    return AttackerModel(model, await endpoints.query_endpoint(access, model, exact=name == "prime"))


async def intent_of(call: Call, environment: str, text: str) -> tuple[AttackerModel | None, Intent | None]:
    """The attacker and the intent, which needs approval like that of a judge. Both are None if the endpoint fails; the
    test itself then reports the error."""
    try:
        attacker = await attacker_model(call.lab, text)
    except LabError:
        return None, None
    host = attacker.access.endpoint.host
    key = hashlib.sha256(f"attacker {call.environment.content} {text}".encode()).hexdigest()
    question = (
        f"Send the source of {environment} and prompts of its tasks to {quote(attacker.model, 80)} at {host}, "
        "which looks for hacks of the reward"
    )
    if attacker.bound is None:
        return attacker, price_unknown(call.lab, attacker.access, "the attacker", key, question, _TOKENS)
    return attacker, paid_intent(call.lab, key, question, attacker.bound)


@asynccontextmanager
async def open_attacker(
    call: Call, text: str | None, known: AttackerModel | None, intent: Intent | None
) -> AsyncIterator[ModelAttacker | None]:
    """Open the relay to the attacker for the block, which stops at what was reserved; None where `text` is None.

    `intent` is the intent of the plan. Raises EvalError (`over-cap`, `intent-changed`).
    """
    if text is None:
        yield None
        return
    from prime_lab_mcp.lab.relay.metering import RelayCap
    from prime_lab_mcp.lab.relay.proxy import Relay

    attacker = known or await attacker_model(call.lab, text)
    endpoint, most = attacker.access.endpoint, attacker.bound
    cap = RelayCap(tokens=_TOKENS, requests=ROUNDS)
    if most is not None:
        cap = replace(cap, cost=most, price=attacker.access.price)
    async with Relay(endpoint, attacker.access.key, cap).serving() as relay:
        asking = ModelAttacker(relay, AttackerOutcome(quote(attacker.model, 120), endpoint.host))
        if most is None and is_free(attacker.access):
            yield asking
            return
        name = call.environment.name
        fix = "Test without attacker, name a cheaper one, or have the user raise --max-spend."
        what = f"attacker of {name} at {endpoint.host}"
        async with reserved(call, intent, name, what, most, fix, lambda: relay.usage.cost):
            yield asking
