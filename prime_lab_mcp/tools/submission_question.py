"""The question before a training run is started, and the record of the approval on the run card."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import tomlkit

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import NamedCall
from prime_lab_mcp.lab.base.text import count, quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.configs.packages import packages_summary
from prime_lab_mcp.lab.configs.rules.unproven import unproven_cautions, unproven_sentence
from prime_lab_mcp.lab.hub.lookup import hub_fact
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.prime.answers import ValidateAnswer
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.gates import NOT_VALIDATED
from prime_lab_mcp.lab.state.ledger.rows import Run
from prime_lab_mcp.lab.training.budget import WalletBudget
from prime_lab_mcp.lab.training.card import note_on_card
from prime_lab_mcp.lab.training.cost import forecast_from_ledger
from prime_lab_mcp.lab.training.declined import calls_after_decline
from prime_lab_mcp.lab.training.disclosures import disclosure_cautions, disclosure_sentences
from prime_lab_mcp.lab.training.preparation import RunPreparation
from prime_lab_mcp.lab.training.submission import RunStanding
from prime_lab_mcp.tools.budgeting import far_bound_reason, wallet_call
from prime_lab_mcp.tools.tool import Call, Intent

_NAME = re.compile(r"[\w./:-]+", re.ASCII)
_NOT_OFFERED = "the platform offers no validation of configs; it was checked offline"
_WARNINGS = 6
"""Most warnings of the config check in the question."""


def submission_intent(
    lab: Lab,
    config: TrainingConfig,
    at: RunStanding,
    known: RunPreparation,
    resume_from: str | None,
    wallet: WalletBudget | None = None,
) -> Intent:
    """The intent to start a run, with all findings and cautions. `wallet` is the run that the wallet holds, where it
    does not hold this one."""
    cautions: list[str] = []
    if known.validation.outcome == "unavailable":
        cautions.append(NOT_VALIDATED)
    elif known.validation.outcome == "not-offered":
        cautions.append(_NOT_OFFERED)
    cautions += [f.message for f in known.findings if f.code in ("default-runtime", "secret-not-linked")]
    cautions += (*unproven_cautions(config), *known.cost.left_out)
    cautions += disclosure_cautions(lab, config)
    smaller = wallet_call(wallet, {"based_on": _relative(lab, config)})
    return Intent(
        "submit",
        at.key,
        question(lab, config, at, known, resume_from, wallet),
        known.cost.max_cost,
        findings=known.findings,
        cautions=tuple(cautions),
        instead=(*([smaller] if smaller else []), *calls_after_decline(config, _relative(lab, config), "the user")),
        file=tomlkit.dumps(config.table).strip(),
    )


def question(
    lab: Lab,
    config: TrainingConfig,
    at: RunStanding,
    known: RunPreparation,
    resume_from: str | None,
    wallet: WalletBudget | None = None,
) -> str:
    """One paragraph: what runs, on which GPUs, the cost and the problems. The server appends the cautions."""
    sources = packages_summary(config) or "no environment"
    steps = "without end" if config.max_steps is None else count(config.max_steps, "step")
    gpus = count(config.gpus, "GPU") + (f" of type {_plain(config.gpu_type)}" if config.gpu_type else "")
    cost = known.cost
    price = f"${cost.price_per_hour:.2f} per hour" if cost.price_per_hour is not None else "an unknown price per hour"
    limit = f"at most ${cost.max_cost:.2f} ({cost.why})" if cost.max_cost is not None else f"no upper bound: {cost.why}"
    low = any(f.code == "wallet-low" for f in known.findings)
    parts = [
        f"Start training run {at.name}: {_plain(config.model)} on {sources}, {steps}, {gpus}, {price}; {limit}.",
        known.forecast.sentence() if known.forecast else "",
        _far_bound(lab, config, known, wallet),
        "Billing is by the hour until the run ends, and nothing ends the run at a sum of money.",
        "" if low else f"The wallet holds ${known.wallet.balance:.2f}.",
        _continued(lab, resume_from) if resume_from else "",
        *disclosure_sentences(lab, config),
    ]
    parts += [_sentence(f.message) for f in known.findings if f.code in ("wandb-key-missing", "wallet-low")]
    parts.append(unproven_sentence(config))
    parts.append(_check_warnings(lab, config))
    if known.validation.outcome == "unavailable":
        reason = quote(known.validation.problems[0], 200) if known.validation.problems else "no reason given"
        parts.append(f"It would be sent without having been validated: {reason}.")
    return " ".join(part for part in parts if part)


def _far_bound(lab: Lab, config: TrainingConfig, known: RunPreparation, wallet: WalletBudget | None) -> str:
    """Why the bound is far above the likely cost, and the call with a lower one, first of all with one that the wallet
    holds; empty where the bound is not far and the wallet holds it."""
    dollars, most = known.forecast.dollars if known.forecast else None, known.cost.max_cost
    reason = far_bound_reason(dollars[1], most) if dollars is not None and most is not None else ""
    relative = _relative(lab, config)
    sizes = wallet.sizes if wallet is not None else {}
    smaller = ""
    if wallet is not None:
        smaller = wallet.sentence(NamedCall("write_training_config", based_on=relative, **sizes).text)
    if not reason:
        return smaller
    for_a_sum = f'write_training_config(based_on="{relative}", budget=USD)'
    smaller = smaller or f"A smaller run with a lower bound is written by {for_a_sum}."
    return f"{reason}; the run is not expected to cost that. {smaller}"


def _plain(name: str) -> str:
    """A name of the config. A name with blanks stands in quotes, because it may be a sentence."""
    return name if _NAME.fullmatch(name) else quote(name, 80)


def _continued(lab: Lab, run: str) -> str:
    known = lab.ledger.runs(id=run, platform=lab.platform)
    elsewhere = "" if known else ", which was not started through this server"
    return f"It continues from the checkpoint of {run}{elsewhere}."


def _relative(lab: Lab, config: TrainingConfig) -> str:
    return config.path.resolve().relative_to(lab.workspace.root).as_posix()


def _check_warnings(lab: Lab, config: TrainingConfig) -> str:
    """One sentence with the warnings of the latest check of this config; empty without warnings."""
    rows = lab.ledger.evidence(lab.key, tool="check_training_config", config_sha256=config.sha256)
    row = next((r for r in rows if r.platform in (None, lab.platform)), None)
    warnings = [
        str(f["message"]).rstrip(".")
        for f in (row.findings if row is not None else ())
        if f.get("severity") == "warning"
        and f.get("code") not in ("config-unproven-setting", "wallet-low")  # sentences of their own name them
    ]
    more = f"; and {len(warnings) - _WARNINGS} more" if len(warnings) > _WARNINGS else ""
    return f"The check of the config warns: {'; '.join(warnings[:_WARNINGS])}{more}." if warnings else ""


def _sentence(message: str) -> str:
    return f"{message[0].upper()}{message[1:]}."


async def card_entries(call: Call, args: Any, agreed: Intent | None, started: Run, answer: ValidateAnswer) -> Run:
    """The run card's entries about the approval, the cost forecast and the program versions."""
    lab = call.lab
    config = call.training_config() if call.config is not None else None
    price = started.price_per_hour / config.gpus if config and started.price_per_hour and config.gpus else None
    known = forecast_from_ledger(lab, config, price) if config else None
    how = "a confirmation token" if args.confirm else "yes=true under --max-spend" if args.yes else "the user was asked"
    when = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    facts: dict[str, Any] = {
        "forecast": known.as_json() if known else None,
        "forecast_said": known.sentence() if known else None,
        "approved": f"{when}, {how}: {quote(agreed.question, 1200)}" if agreed else None,
        "validated": answer.outcome,
        "schema_commit": answer.schema_commit,
        "versions": await _versions(lab),
        "hub_hashes": await _hub_hashes(call.platform or lab.prime, config) if config else {},
    }
    return note_on_card(lab, started, **facts)


async def _hub_hashes(prime: PlatformReader, config: TrainingConfig) -> dict[str, str | None]:
    """The Hub's content hash of every `owner/name@version` in a config; None if the Hub has none."""
    hashes = {}
    for source in {s.id: s for s in config.sources if s.owner}.values():
        assert source.owner is not None
        hashes[source.id] = (await hub_fact(prime, source.owner, source.env_name, source.version)).content_hash
    return hashes


async def _versions(lab: Lab) -> dict[str, str | None]:
    try:
        return {**await lab.toolchain.versions(), "prime": await lab.prime.version()}
    except LabError:
        return {}
