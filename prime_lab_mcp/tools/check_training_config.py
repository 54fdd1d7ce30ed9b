"""`check_training_config`: checks a config without cost: keys, relations, environments, then the platform's
validation."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

from pydantic import Field

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Next
from prime_lab_mcp.lab.base.text import count, rounded
from prime_lab_mcp.lab.configs.config import TrainingConfig, read_config
from prime_lab_mcp.lab.configs.examine import ConfigExamination, examination_verdict, examine_config
from prime_lab_mcp.lab.configs.registry import REGISTRY, RegistryEntry, drift_finding, load_registry
from prime_lab_mcp.lab.configs.rules.step import stated_budget
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.models.offered import model_listing_calls
from prime_lab_mcp.lab.state.arguments import arguments_summary
from prime_lab_mcp.lab.state.outcome import Facts, Outcome
from prime_lab_mcp.lab.training.cost import CostForecast, forecast_from_ledger
from prime_lab_mcp.lab.training.evaluations import pull_for_held_out_tasks
from prime_lab_mcp.lab.training.next_step import untested_source
from prime_lab_mcp.lab.training.wallet import wallet_and_forecast
from prime_lab_mcp.tools.tool import Arguments, Call, Tool

_LISTED = 40


class Args(Arguments):
    path: Annotated[str, Field(min_length=1, max_length=500, description="TOML file, e.g. configs/rl/NAME.toml.")]


async def run(call: Call, args: Args) -> Outcome:
    path = call.lab.workspace.resolve(args.path, must_exist=True)
    examined = await examine_config(call.lab, read_config(path), call.platform)
    changed = drift_finding(call.lab.workspace.resolve(REGISTRY), examined.config)
    relative = path.relative_to(call.lab.workspace.root).as_posix()
    status = examination_verdict(examined.findings)
    hosted = examined.config.target == "hosted"
    likely = _forecast(call, examined) if hosted else None
    if hosted and status == "passed":
        wallet = await wallet_and_forecast(call.lab, call.platform or call.lab.prime, likely)
        low = tuple(f for f in wallet if f.severity != "blocker")  # submit_training says what forbids a start
        examined = replace(examined, findings=(*examined.findings, *low))
    trainable = status == "passed" and hosted and examined.config.shape != "sft"
    untested = untested_source(call.lab, examined.config) if trainable else None
    findings = (*examined.findings[:_LISTED], *([changed] if changed else ()))
    budget = _outgrown_budget(examined.config, likely) if trainable else None
    following = _next(call, relative, examined, status, untested)
    if budget is not None:
        again = {"based_on": relative, "budget": budget}
        following = (Next("write_training_config", "fits the run into its budget again", again), *following)
    return Outcome(
        status,
        _summary(relative, examined, status, untested) + _outgrown_sentence(budget, likely),
        findings,
        _data(call, relative, examined, likely),
        next=following,
        facts=Facts(
            config_sha256=examined.config.sha256,
            model=examined.config.model,
            touches_platform=examined.platform_answered,
        ),
    )


def _forecast(call: Call, examined: ConfigExamination) -> CostForecast | None:
    hourly, gpus = examined.price_per_hour, examined.config.gpus
    return forecast_from_ledger(call.lab, examined.config, hourly / gpus if hourly is not None and gpus else None)


def _summary(relative: str, examined: ConfigExamination, status: str, untested: Next | None) -> str:
    blockers = sum(f.severity == "blocker" for f in examined.findings)
    warnings = sum(f.severity == "warning" for f in examined.findings)
    if status == "failed":
        asked = {
            "invalid": "the platform's schema refuses it",
            "valid": "the platform's schema accepts the file, but not all that it names is fit",
            "unavailable": "the platform could not be asked",
            "not-offered": "the platform offers no validation",
        }.get(examined.validation, "found offline, the platform was not asked")
        return f"{relative} cannot be submitted ({asked}): {count(blockers, 'blocker')}, {count(warnings, 'warning')}."
    if status == "inconclusive":
        return f"{relative} is sound offline, but the platform could not be asked."
    judged = {
        "valid": "and the platform's schema accepts it",
        "not-offered": "judged offline only, as the platform offers no validation",
        "not-asked": "judged offline only, as it is for one's own GPUs",
    }.get(examined.validation, "")
    return f"{relative} is sound, {judged}; {count(warnings, 'warning')}.{_untested_sentence(untested)}"


def _untested_sentence(untested: Next | None) -> str:
    """Names the test that a submission would be refused for."""
    if untested is None or not untested.arguments:
        return ""
    selected = arguments_summary(untested.arguments.get("env_args") or {})
    return f" Before it is submitted, test_reward has to pass for {selected}."


def _outgrown_budget(config: TrainingConfig, likely: CostForecast | None) -> float | None:
    """Return the budget that a config was written for, in US dollars, where its bound is above that budget by now.

    A bound rises when an evaluation shows longer replies or more turns than were assumed.
    """
    budget = stated_budget(config)
    most = likely.upper_bound if likely is not None else None
    return budget if budget is not None and most is not None and most > budget else None


def _outgrown_sentence(budget: float | None, likely: CostForecast | None) -> str:
    if budget is None or likely is None or likely.upper_bound is None:
        return ""
    return (
        f" But it may cost up to ${likely.upper_bound:.2f} by what is known today, above the budget of ${budget:.2f} "
        "that it was written for."
    )


def _data(call: Call, relative: str, examined: ConfigExamination, likely: CostForecast | None) -> dict[str, Any]:
    config = examined.config
    entry = _entry(call, relative)
    data: dict[str, Any] = {
        "path": relative,
        "sha256": config.sha256,
        "version": entry.version if entry else None,
        "based_on": entry.based_on if entry else None,
        "schema_commit": SCHEMA_COMMIT,
        "platform_schema_commit": examined.platform_schema,
        "validation": examined.validation,
        "target": config.target,
        "changes": [],
        "model": config.model,
        "environments": [s.id for s in config.train_sources],
        "max_steps": config.max_steps,
        "batch_size": config.batch_size,
        "group_size": None if config.shape == "sft" else config.group_size,
        "gpus": config.gpus,
        "price_per_hour": examined.price_per_hour,
    }
    if examined.estimate is not None:
        data["estimate"] = examined.estimate.as_json()
        data["signal_per_dollar"] = rounded(examined.estimate.signal_per_dollar, 1)
    if likely is not None:
        data["cost"] = likely.as_json()
    return {key: value for key, value in data.items() if value is not None}


def _entry(call: Call, relative: str) -> RegistryEntry | None:
    try:
        entries = load_registry(call.lab.workspace.resolve(REGISTRY))
    except BadInput:
        return None  # the lineage is optional here; write_training_config requires it
    return next((e for e in reversed(entries) if e.path == relative), None)


def _next(
    call: Call, relative: str, examined: ConfigExamination, status: str, untested: Next | None
) -> tuple[Next, ...]:
    codes = {f.code for f in examined.findings if f.severity == "blocker"}
    if listing := model_listing_calls(examined.findings):
        return listing
    if status == "passed" and examined.config.shape == "sft":
        return ()  # submit_training does not accept such a config: a person starts it
    if status == "passed" and examined.config.target == "hosted":
        due = untested or Next("submit_training", "trains with it, after asking", {"config": relative})
        pull = pull_for_held_out_tasks(call.lab, examined.config.table)
        return (due, pull) if pull is not None else (due,)
    if codes & {"migration", "config-old-key"}:
        return (Next("write_training_config", "migrates it to the present shape", {"based_on": relative}),)
    if "v0-not-trainable" in codes:
        return (Next("read_reference", "how to port a v0 environment", {"topic": "guide/migration"}),)
    if status == "inconclusive":
        return (Next("preflight", "says why the platform cannot be asked"),)
    return () if status == "passed" else (Next("check_training_config", "again, once mended", {"path": relative}),)


TOOL = Tool(
    name="check_training_config",
    title="Check training config",
    description="Judge a training config offline (schema, rules, environments), then by `prime train validate`. Free.",
    args=Args,
    run=run,
    effect="reads",
    needs_verdicts=True,
    records="config",
    open_world=True,
)
