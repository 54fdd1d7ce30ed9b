"""What test_reward does about a judge: asks before it costs, counts what it did cost, and records which it was."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.evals import judge
from prime_lab_mcp.lab.evals.spec import ASK_FROM
from prime_lab_mcp.lab.opening import Opened
from prime_lab_mcp.lab.rewards.observed import Trial
from prime_lab_mcp.lab.text import quote
from prime_lab_mcp.tools.tool import Call, Intent


@asynccontextmanager
async def paid(call: Call, way: judge.Way | None, found: Opened) -> AsyncIterator[None]:
    """Bound what the judge may cost, and count what it did cost, however the trial ends."""
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


async def intent(call: Call, environment: str, endpoint: str | None, examples: int) -> Intent | None:
    """Ask first when a judge is to be asked whose endpoint lists a price, and the estimate reaches a dollar."""
    if endpoint is None:
        return None
    try:
        price = await judge.priced(call.lab, call.environment, endpoint)
    except LabError:
        return None  # the body says the same, as the error of this call
    if price is None:
        return None
    estimate, cap = judge.estimate(price), call.lab.settings.max_spend
    if estimate < ASK_FROM and cap is None:
        return None
    question = (
        f"Test the reward of {environment} with its judge at {endpoint.partition('|')[0]}: at most about "
        f"{judge.QUESTIONS} questions, about ${estimate:.2f}?"
    )
    key = hashlib.sha256(f"judge {call.environment.content} {endpoint} {examples}".encode()).hexdigest()
    return Intent("eval", key, question, estimate, ask=estimate >= ASK_FROM)


def data(seen: Trial, way: Mapping[str, Any] | None) -> dict[str, Any]:
    """`judge` of the report's data; nothing where no judge was asked."""
    if seen.judging is None:
        return {}
    models = [
        {"model": quote(j.model, 120), "temperature": j.temperature, "host": quote(j.host, 120)}
        for j in seen.judging.judges
    ]
    return {"judge": {**(way or {}), "models": models, "judged": len(seen.asked_judge)}}


def facts(seen: Trial) -> dict[str, Any]:
    """The judge as recorded with the verdict. Not as its model: that would be the one evaluated."""
    known = seen.judging.judges if seen.judging is not None else ()
    if not known:
        return {}
    first = known[0]
    return {"endpoint_host": first.host, "sampling": {"judge": first.model, "temperature": first.temperature}}
