"""Collects price, wallet, validation and secrets before a person is asked to pay for a run. Requests run
concurrently."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.context import ConfigContext
from prime_lab_mcp.lab.configs.evidence import known_schemas
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import not_trained_finding
from prime_lab_mcp.lab.prime.answers import PlatformModels, ValidateAnswer
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.training.bound import CostBound, bound_from_ledger
from prime_lab_mcp.lab.training.cost import CostForecast, forecast_from_ledger
from prime_lab_mcp.lab.training.keys import EnvironmentSecrets, environment_secrets, key_findings, link_findings
from prime_lab_mcp.lab.training.sandboxes import rented_sandboxes
from prime_lab_mcp.lab.training.wallet import WalletForRun, wallet_findings

VALID_SECONDS = 600.0
"""Seconds for which the platform's verdict in `check_training_config` stays valid for a submission."""


@dataclass(frozen=True, slots=True)
class RunPreparation:
    """Price, wallet, validation and secrets of a run. A blocker in `findings` makes the question unnecessary."""

    cost: CostBound
    forecast: CostForecast | None
    wallet: WalletForRun
    validation: ValidateAnswer
    secrets: tuple[EnvironmentSecrets, ...]
    findings: tuple[Finding, ...]


async def validate_copy(lab: Lab, config: TrainingConfig, copy: Path) -> ValidateAnswer:
    """Ask the platform whether its schema accepts the config.

    A recent recorded verdict on the same config file is reused, because the submitted copy differs only by its name.
    """
    return _recorded_verdict(lab, config) or await lab.prime.train_validate(copy)


def _recorded_verdict(lab: Lab, config: TrainingConfig) -> ValidateAnswer | None:
    rows = lab.ledger.evidence(lab.key, tool="check_training_config", config_sha256=config.sha256)
    row = next((r for r in rows if r.platform == lab.platform), None)
    if row is None or not 0 <= time.time() - row.at < VALID_SECONDS:
        return None
    outcome, commit = row.data.get("validation"), row.data.get("platform_schema_commit")
    if outcome not in ("valid", "not-offered"):
        return None
    return ValidateAnswer(outcome, (), str(commit) if commit else None)


async def prepare_run(
    lab: Lab, config: TrainingConfig, copy: Path, platform: PlatformReader | None = None
) -> RunPreparation:
    """Ask for the price, the wallet, the validation and the secrets of a run. Raises PrimeError if the price or the
    wallet cannot be read. `platform` caches answers for the current call."""
    prime = platform or lab.prime
    answers: dict[str, Any] = {}

    async def ask(name: str, question: Callable[[], Awaitable[Any]]) -> None:
        answers[name] = await question()

    findings = key_findings(lab, config)
    try:
        async with anyio.create_task_group() as asking:
            asking.start_soon(ask, "models", prime.models)
            asking.start_soon(ask, "wallet", prime.wallet)
            asking.start_soon(ask, "validation", lambda: validate_copy(lab, config, copy))
            asking.start_soon(ask, "secrets", lambda: environment_secrets(lab, config))
    except BaseExceptionGroup as group:
        raise _first_failure(group) from None
    models: PlatformModels = answers["models"]
    wallet = WalletForRun.of(lab, answers["wallet"])
    secrets: list[EnvironmentSecrets] = answers["secrets"]
    price = models.price(config.gpu_type)
    cost = bound_from_ledger(lab, config, price)
    findings += [*_model_findings(lab, config, models), *_bound_findings(config, cost)]
    forecast = forecast_from_ledger(lab, config, price)
    findings += rented_sandboxes(config, ConfigContext(shapes=known_schemas(lab, config)))
    findings += [*link_findings(secrets), *wallet_findings(wallet, cost.max_cost, forecast)]
    return RunPreparation(cost, forecast, wallet, answers["validation"], tuple(secrets), tuple(findings))


def _model_findings(lab: Lab, config: TrainingConfig, models: PlatformModels) -> list[Finding]:
    """Block a model that the platform no longer trains, unless a person waived that for this config."""
    finding = not_trained_finding(config.model, models.trainable)
    if finding is None or (config.sha256, finding.code) in lab.ledger.overrides(lab.key):
        return []
    return [finding]


def _bound_findings(config: TrainingConfig, cost: CostBound) -> list[Finding]:
    """Block a config that leaves the cost without a bound, because nobody can approve such a price."""
    if cost.key is None:
        return []
    message = f"the cost of {config.path.name} has no upper bound: {cost.why}"
    return [Finding("price-unbounded", "blocker", message, cost.fix, cost.key)]


def _first_failure(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The first of several concurrent failures, because a report has room for one."""
    failure: BaseException = group
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
