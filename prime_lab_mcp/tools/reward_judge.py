"""The judge in `test_reward`: asks for approval of its cost, counts the cost, and records which judge was used."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.evals.plan import is_free
from prime_lab_mcp.lab.loading import LoadedEnvironment
from prime_lab_mcp.lab.relay.endpoints import EndpointAccess
from prime_lab_mcp.lab.rewards import judge_relay
from prime_lab_mcp.lab.rewards.observations import Trial
from prime_lab_mcp.lab.state.evaluation_evidence import JUDGE_NAMED_BY
from prime_lab_mcp.tools.reward_costs import paid_intent, price_unknown, reserved
from prime_lab_mcp.tools.tool import Call, Intent


@asynccontextmanager
async def paid(
    call: Call, relay: judge_relay.JudgeRelay | None, environment: LoadedEnvironment, intent: Intent | None
) -> AsyncIterator[None]:
    """Reserve what the judge may cost, and count the real cost however the test ends.

    The relay forwards nothing before. `intent` is the intent of the plan. Raises EvalError (`over-cap`,
    `intent-changed`).
    """
    if relay is None:
        yield
        return
    most = await relay.bound(environment.loaded.judges)
    if most is None and is_free(relay.access):
        relay.admit_requests()
        yield
        return
    name = environment.snapshot.name
    fix = "Test without judge, name a cheaper one, or have the user raise --max-spend."
    what = f"judge of {name} at {relay.host}"
    async with reserved(call, intent, name, what, most, fix, lambda: relay.spent):
        relay.admit_requests()
        yield


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
        return access, price_unknown(lab, access, "the judge", key, question, judge_relay.MOST_TOKENS)
    question += (
        f": likely about ${judge_relay.estimate_trial(price):.2f} for {judge_relay.ESTIMATED_QUESTIONS} questions"
    )
    return access, paid_intent(lab, key, question, judge_relay.bound_trial(price))


def data(trial: Trial, relay: Mapping[str, Any] | None) -> dict[str, Any]:
    """The field `judge` of the report's data; empty if no judge was asked."""
    if trial.judging is None:
        return {}
    models = [
        {"model": quote(j.model, 120), "temperature": j.temperature, "host": quote(j.host, 120)}
        for j in trial.judging.judges
    ]
    return {"judge": {**(relay or {}), "models": models, "judged": len(trial.judged)}}


def facts(trial: Trial, relay: Mapping[str, Any] | None) -> dict[str, Any]:
    """The judge as recorded with the verdict. It is not recorded as the model, which is the evaluated model.

    Who named the judge's endpoint decides whether the verdict is evidence without a person's answer, and a judge of the
    rehearsal is none for the real platform.
    """
    known = trial.judging.judges if trial.judging is not None else ()
    if not known:
        return {}
    first, named_by = known[0], (relay or {}).get("named_by")
    return {
        "endpoint_host": first.host,
        "sampling": {"judge": first.model, "temperature": first.temperature},
        "touches_platform": named_by == "platform",
        "unreported": {JUDGE_NAMED_BY: named_by} if named_by is not None else {},
    }
