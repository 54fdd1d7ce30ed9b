"""What models cost in `test_reward`: when the user is asked, what is reserved, and what is counted in the end."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from prime_lab_mcp.lab.base.errors import EvalError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.evals.plan import is_free
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, ASK_FROM
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess, presets_with_prices
from prime_lab_mcp.tools.tool import Call, Intent


def price_unknown(lab: Lab, access: EndpointAccess, who: str, key: str, question: str, tokens: int) -> Intent | None:
    """The intent to use a model without a listed price, which ends at this many tokens; None if the model is free.

    A person is always asked, as in run_eval, because no bound in US dollars is known. Under a spending cap, the call is
    refused.
    """
    if is_free(access):
        return None
    host = access.endpoint.host
    question = f"{question}: {host} lists no price for {who}; it ends at {tokens:,} tokens?"
    if lab.limits.max_spend is None:
        return Intent("eval", key, question)
    message = f"{host} lists no price for {who}, and the server has a spending cap"
    fix = f"Use an endpoint that lists prices ({presets_with_prices()}), or a server of your own on this machine."
    return Intent("eval", key, question, findings=(Finding("price-unknown", "blocker", message, fix),))


def paid_intent(lab: Lab, key: str, question: str, most: float) -> Intent | None:
    """The intent to spend at most `most` US dollars, asked about from a dollar on, or where small costs added up.

    None where neither approval nor a cap is concerned.
    """
    unasked = lab.ledger.unasked(lab.platform)
    small = most < ASK_FROM
    if small and unasked + most <= ASK_AFTER and lab.limits.max_spend is None:
        return None
    question = f"{question}, at most ${most:.2f}? It ends before it costs more."
    return Intent("eval", key, question, most, ask=not small or unasked + most > ASK_AFTER)


@asynccontextmanager
async def reserved(
    call: Call,
    intent: Intent | None,
    environment: str,
    what: str,
    most: float | None,
    fix: str,
    spent: Callable[[], float],
) -> AsyncIterator[None]:
    """Reserve `most` US dollars for the block, and count what was `spent` however the block ends.

    None is noted as unpriced. `intent` is the intent of the plan. Raises EvalError: `intent-changed` if the plan asked
    nobody about this amount, because the endpoint or the environment has changed since; `over-cap` with this fix.
    """
    lab, key = call.lab, secrets.token_hex(8)
    asked = most is None or most >= ASK_FROM or lab.ledger.unasked(lab.platform) + most > ASK_AFTER
    if asked and not _covers(intent, most):
        raise EvalError(
            f"nobody was asked about what the {what} may cost",
            fix=Fix("Call ", NamedCall("test_reward"), " again; it asks the user."),
            code="intent-changed",
        )
    if most is None:
        lab.ledger.reserve(key, None, what, lab.platform, None, workspace=lab.key, environment=environment)
        yield
        return
    cap = lab.limits.max_spend
    if not lab.ledger.reserve(
        key, most, what, lab.platform, cap, asked=asked, workspace=lab.key, environment=environment
    ):
        raise EvalError(
            f"the {what} may cost up to ${most:.2f}, which exceeds the spending cap", fix=fix, code="over-cap"
        )
    try:
        yield
    finally:
        lab.ledger.correct(key, lab.platform, spent())


def _covers(intent: Intent | None, most: float | None) -> bool:
    """Whether a person was asked about at least this amount."""
    if intent is None or not intent.ask:
        return False
    return intent.max_cost is None or (most is not None and most <= intent.max_cost + 1e-9)
