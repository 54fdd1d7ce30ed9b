"""What a person is asked before a run is started, and what a confirmation of it has to name."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from prime_lab_mcp.lab import runs
from prime_lab_mcp.lab.configs.read import Config, read
from prime_lab_mcp.lab.cost import measured
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.gates import NOT_VALIDATED
from prime_lab_mcp.lab.hub import fact
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import ValidateAnswer
from prime_lab_mcp.lab.records import Run
from prime_lab_mcp.lab.runs import Prepared, Standing
from prime_lab_mcp.lab.runs.card import note
from prime_lab_mcp.lab.text import count, quote
from prime_lab_mcp.tools.tool import Call, Intent


def asked(lab: Lab, config: Config, at: Standing, known: Prepared, resume_from: str | None) -> Intent:
    """The intent to start a run, with everything that was found out about it."""
    cautions: list[str] = []
    if known.validation.outcome == "unavailable":
        cautions.append(NOT_VALIDATED)
    cautions += [f.message for f in known.findings if f.code == "secret-not-linked"]
    return Intent(
        "submit", at.key, question(lab, config, at, known, resume_from), known.cost.max_cost,
        findings=known.findings, cautions=tuple(cautions),
    )  # fmt: skip


def question(lab: Lab, config: Config, at: Standing, known: Prepared, resume_from: str | None) -> str:
    """One paragraph: what runs, on what, for how much, and what is amiss. Cautions are added by the server."""
    sources = ", ".join(dict.fromkeys(s.id for s in config.train_sources)) or "no environment"
    steps = "without end" if config.max_steps is None else count(config.max_steps, "step")
    gpu = f" of type {config.gpu_type}" if config.gpu_type else ""
    cost = known.cost
    price = f"${cost.price_per_hour:.2f} per hour" if cost.price_per_hour is not None else "an unknown price per hour"
    limit = f"at most ${cost.max_cost:.2f} ({cost.why})" if cost.max_cost is not None else f"no upper bound: {cost.why}"
    parts = [
        f"Start training run {at.name}: {config.model} on {sources}, {steps}, {count(config.gpus, 'GPU')}{gpu}, "
        f"{price}; {limit}.",
        known.forecast.sentence() if known.forecast else "",
        f"Billing is by the hour until the run ends. The wallet holds ${known.wallet.balance:.2f}.",
        f"It continues from the checkpoint of {resume_from}." if resume_from else "",
    ]
    keys = runs.handed_on(lab, config)
    parts.append(f"{' and '.join(keys)} of this machine is handed to the run." if keys else "")
    parts += [_sentence(f.message) for f in known.findings if f.code in ("wandb-key-missing", "wallet-low")]
    if known.validation.outcome == "unavailable":
        said = quote(known.validation.problems[0], 200) if known.validation.problems else "no reason given"
        parts.append(f"It would be sent without having been validated: {said}.")
    elif known.validation.outcome == "not-offered":
        parts.append("The platform offers no validation of configs; it was checked offline.")
    return " ".join(part for part in parts if part)


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:]}."


async def noted(call: Call, args: Any, started: Run, answer: ValidateAnswer) -> Run:
    """What the run card shows of the approval, the forecast and the programs that were used."""
    lab, agreed = call.lab, call.intent
    config = read(call.config) if call.config is not None else None
    price = started.price_per_hour / config.gpus if config and started.price_per_hour and config.gpus else None
    known = measured(lab, config, price) if config else None
    how = "a confirmation token" if args.confirm else "yes=true under --max-spend" if args.yes else "the user was asked"
    when = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    facts: dict[str, Any] = {
        "forecast": known.as_json() if known else None,
        "forecast_said": known.sentence() if known else None,
        "approved": f"{when}, {how}: {quote(agreed.question, 1200)}" if agreed else None,
        "validated": answer.outcome,
        "schema_commit": answer.schema_commit,
        "versions": await _versions(lab),
        "hub_hashes": await _hub_hashes(lab, config) if config else {},
    }
    return note(lab, started, **facts)


async def _hub_hashes(lab: Lab, config: Config) -> dict[str, str | None]:
    """Content hash on the Hub of every `owner/name@version` of a config; None where the Hub names none."""
    found = {}
    for source in {s.id: s for s in config.sources if s.owner}.values():
        assert source.owner is not None
        found[source.id] = (await fact(lab.prime, source.owner, source.env_name, source.version)).content_hash
    return found


async def _versions(lab: Lab) -> dict[str, str | None]:
    try:
        return {**await lab.toolchain.versions(), "prime": await lab.prime.version()}
    except LabError:
        return {}
