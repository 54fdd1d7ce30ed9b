"""The judge in `test_reward`: asks for approval of its cost, counts the cost, and records which judge was used."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.spec import ASK_FROM
from prime_lab_mcp.lab.loading import LoadedEnvironment
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess
from prime_lab_mcp.lab.rewards import judge_relay
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.tools.tool import Call, Intent


@asynccontextmanager
async def paid(call: Call, way: judge_relay.JudgeRelay | None, found: LoadedEnvironment) -> AsyncIterator[None]:
    """Limit the cost of the judge, and count the actual cost however the test ends."""
    lab = call.lab
    if way is None:
        yield
        return
    cap = lab.settings.max_spend
    await way.bound(found.loaded.judges, None if cap is None else max(0.0, cap - lab.ledger.spent(lab.platform)))
    try:
        yield
    finally:
        if way.spent:
            lab.ledger.commit_spend(
                secrets.token_hex(8), way.spent, f"judge of {found.snapshot.name} at {way.host}", lab.platform
            )


async def intent_of(
    call: Call, environment: str, endpoint: str, examples: int
) -> tuple[EndpointAccess | None, Intent | None]:
    """Return the judge's endpoint and the intent, which needs approval if the estimated cost reaches a dollar.

    Both are None if the endpoint or the environment fails; the test itself then reports the error.
    """
    try:
        access = await judge_relay.judge_endpoint(call.lab, endpoint)
        price = await judge_relay.judge_price(call.lab, call.environment, access)
    except LabError:
        return None, None
    if price is None:
        return access, None
    estimate, cap = judge_relay.estimate_trial(price), call.lab.settings.max_spend
    if estimate < ASK_FROM and cap is None:
        return access, None
    question = (
        f"Test the reward of {environment} with its judge at {access.endpoint.host}: at most about "
        f"{judge_relay.ESTIMATED_QUESTIONS} questions, about ${estimate:.2f}?"
    )
    key = hashlib.sha256(f"judge {call.environment.content} {endpoint} {examples}".encode()).hexdigest()
    return access, Intent("eval", key, question, estimate, ask=estimate >= ASK_FROM)


def data(seen: Trial, way: Mapping[str, Any] | None) -> dict[str, Any]:
    """The field `judge` of the report's data; empty if no judge was asked."""
    if seen.judging is None:
        return {}
    models = [
        {"model": quote(j.model, 120), "temperature": j.temperature, "host": quote(j.host, 120)}
        for j in seen.judging.judges
    ]
    return {"judge": {**(way or {}), "models": models, "judged": len(seen.judged)}}


def facts(seen: Trial) -> dict[str, Any]:
    """The judge as recorded with the verdict. It is not recorded as the model, which is the evaluated model."""
    known = seen.judging.judges if seen.judging is not None else ()
    if not known:
        return {}
    first = known[0]
    return {"endpoint_host": first.host, "sampling": {"judge": first.model, "temperature": first.temperature}}
