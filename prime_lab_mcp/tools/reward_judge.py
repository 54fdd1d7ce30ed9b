"""The judge in `test_reward`: asks for approval of its cost, counts the cost, and records which judge was used."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prime_lab_mcp.lab.base.errors import EvalError, LabError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.plan import is_free
from prime_lab_mcp.lab.evals.spec import ASK_AFTER, ASK_FROM
from prime_lab_mcp.lab.loading import LoadedEnvironment
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess
from prime_lab_mcp.lab.rewards import judge_relay
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.tools.tool import Call, Intent


@asynccontextmanager
async def paid(call: Call, relay: judge_relay.JudgeRelay | None, environment: LoadedEnvironment) -> AsyncIterator[None]:
    """Reserve what the judge may cost, and count the real cost however the test ends. Raises EvalError (`over-cap`)."""
    lab = call.lab
    if relay is None:
        yield
        return
    most = await relay.bound(environment.loaded.judges)
    if most is None and is_free(relay.access):
        yield
        return
    key, name = secrets.token_hex(8), environment.snapshot.name
    what = f"judge of {name} at {relay.host}"
    if most is None:
        lab.ledger.reserve(key, None, what, lab.platform, None, workspace=lab.key, environment=name)
        yield
        return
    asked = most >= ASK_FROM or lab.ledger.unasked(lab.platform) + most > ASK_AFTER
    cap = lab.settings.max_spend
    if not lab.ledger.reserve(key, most, what, lab.platform, cap, asked=asked, workspace=lab.key, environment=name):
        raise EvalError(
            f"the judge may cost up to ${most:.2f}, which exceeds the spending cap",
            fix="Test without judge, name a cheaper one, or have the user raise --max-spend.",
            code="over-cap",
        )
    try:
        yield
    finally:
        lab.ledger.correct(key, lab.platform, relay.spent)


async def intent_of(
    call: Call, environment: str, endpoint: str, examples: int
) -> tuple[EndpointAccess | None, Intent | None]:
    """Return the judge's endpoint and the intent, which needs approval if the judge may cost a dollar, or if small
    costs have added up.

    Both are None if the endpoint or the environment fails; the test itself then reports the error.
    """
    lab = call.lab
    try:
        access = await judge_relay.judge_endpoint(lab, endpoint)
        price = await judge_relay.judge_price(lab, call.environment, access)
    except LabError:
        return None, None
    key = hashlib.sha256(f"judge {call.environment.content} {endpoint} {examples}".encode()).hexdigest()
    question = f"Test the reward of {environment} with its judge at {endpoint.partition('|')[0]}"
    if price is None:
        if lab.settings.max_spend is None or lab.settings.rehearsal or is_free(access):
            return access, None
        message = f"{access.endpoint.host} lists no price for the judge, and the server has a spending cap"
        fix = "Use an endpoint that lists prices (prime, openrouter), or a server of your own on this machine."
        return access, Intent("eval", key, question, findings=(Finding("price-unknown", "blocker", message, fix),))
    most, unasked = judge_relay.bound_trial(price), lab.ledger.unasked(lab.platform)
    small = most < ASK_FROM
    if small and unasked + most <= ASK_AFTER and lab.settings.max_spend is None:
        return access, None
    question += (
        f": likely about ${judge_relay.estimate_trial(price):.2f} for {judge_relay.ESTIMATED_QUESTIONS} questions, at "
        f"most ${most:.2f}, where it ends?"
    )
    return access, Intent("eval", key, question, most, ask=not small or unasked + most > ASK_AFTER)


def data(trial: Trial, relay: Mapping[str, Any] | None) -> dict[str, Any]:
    """The field `judge` of the report's data; empty if no judge was asked."""
    if trial.judging is None:
        return {}
    models = [
        {"model": quote(j.model, 120), "temperature": j.temperature, "host": quote(j.host, 120)}
        for j in trial.judging.judges
    ]
    return {"judge": {**(relay or {}), "models": models, "judged": len(trial.judged)}}


def facts(trial: Trial) -> dict[str, Any]:
    """The judge as recorded with the verdict. It is not recorded as the model, which is the evaluated model."""
    known = trial.judging.judges if trial.judging is not None else ()
    if not known:
        return {}
    first = known[0]
    return {"endpoint_host": first.host, "sampling": {"judge": first.model, "temperature": first.temperature}}
