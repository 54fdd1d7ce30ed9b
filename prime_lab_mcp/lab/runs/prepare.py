"""Everything a person should know before a run is paid for, asked of the platform at once."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from prime_lab_mcp.lab.configs.read import Config
from prime_lab_mcp.lab.cost import Cost, Forecast, bound, measured
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import Models, ValidateAnswer, Wallet
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.runs.secrets import EnvironmentSecrets, environment_secrets, key_findings, link_findings

VALID_SECONDS = 600.0
"""An answer about exactly these bytes is not asked for again so soon: the question and the submission share it."""
_answers: WeakKeyDictionary[Lab, dict[str, tuple[float, ValidateAnswer]]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Prepared:
    """`findings`: what is wrong with money and keys; a blocker among them means that nobody need be asked."""

    cost: Cost
    forecast: Forecast | None
    wallet: Wallet
    validation: ValidateAnswer
    secrets: tuple[EnvironmentSecrets, ...]
    findings: tuple[Finding, ...]


async def validated(lab: Lab, copy: Path) -> ValidateAnswer:
    """Whether the platform's schema accepts exactly this file. An answer is kept for a while, its absence never."""
    kept = _answers.setdefault(lab, {})
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()
    known = kept.get(digest)
    if known is not None and time.monotonic() - known[0] < VALID_SECONDS:
        return known[1]
    answer = await lab.prime.train_validate(copy)
    if answer.outcome in ("valid", "not-offered"):
        kept[digest] = (time.monotonic(), answer)
    return answer


async def prepare(lab: Lab, config: Config, copy: Path) -> Prepared:
    """Price, wallet, validation and secrets. Raises PrimeError when price or wallet cannot be asked."""
    told: dict[str, Any] = {}

    async def ask(name: str, question: Callable[[], Awaitable[Any]]) -> None:
        told[name] = await question()

    findings = key_findings(lab, config)
    try:
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask, "models", lab.prime.models)
            asking.start_soon(ask, "wallet", lab.prime.wallet)
            asking.start_soon(ask, "validation", lambda: validated(lab, copy))
            asking.start_soon(ask, "secrets", lambda: environment_secrets(lab, config))
    except BaseExceptionGroup as group:
        raise _first(group) from None
    models: Models = told["models"]
    wallet: Wallet = told["wallet"]
    secrets: list[EnvironmentSecrets] = told["secrets"]
    price = models.price(config.gpu_type)
    cost = bound(config, price)
    findings += [*link_findings(secrets), *_money(wallet, cost)]
    return Prepared(
        cost, measured(lab, config, price), wallet, told["validation"], tuple(secrets), tuple(findings)
    )  # fmt: skip


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of several failures at once: a report has room for one."""
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found


def _money(wallet: Wallet, cost: Cost) -> list[Finding]:
    if wallet.balance <= 0:
        return [
            Finding(
                "payment-required", "blocker", f"the wallet holds ${wallet.balance:.2f}, and a run is paid by the hour",
                "Ask the user to add funds at https://app.primeintellect.ai/dashboard/billing.",
            )
        ]  # fmt: skip
    if cost.max_cost is None or wallet.balance >= cost.max_cost:
        return []
    message = f"the wallet holds ${wallet.balance:.2f}, less than the ${cost.max_cost:.2f} that the run may cost"
    return [
        Finding(
            "wallet-low", "warning", f"{message}: it may end before its last step",
            "Ask the user to add funds, or use fewer steps; checkpoints keep what was trained.",
        )
    ]  # fmt: skip
