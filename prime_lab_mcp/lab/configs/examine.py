"""Examines a training config before a run is paid for: first with the offline rules, then with the platform's schema.

The platform validates a config only if it passes offline and is for hosted training.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio

from prime_lab_mcp.lab.base.errors import LabError
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding, run_checks, worst_first
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.advice import unmeasured_findings
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.context import BatchEstimate, ConfigContext, ConfigRule, estimate_batch, price_per_hour
from prime_lab_mcp.lab.configs.evidence import gather_context, known_schemas, present_proofs
from prime_lab_mcp.lab.configs.older_platforms import old_reading_here, old_reading_of_prime
from prime_lab_mcp.lab.configs.resolve import own_splits, without_held_out
from prime_lab_mcp.lab.configs.rules import (
    algorithm,
    deployment,
    fine_tuning,
    form,
    model,
    run,
    shared,
    sources,
    speed,
    step,
    unproven,
)
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models.offered import not_trained_finding
from prime_lab_mcp.lab.models.readiness import readiness_points
from prime_lab_mcp.lab.models.registry import find_model
from prime_lab_mcp.lab.prime.answers import PlatformModels, ValidateAnswer
from prime_lab_mcp.lab.prime.per_call import PlatformReader
from prime_lab_mcp.lab.state.workspace import is_plain_id

CONFIG_RULES: tuple[ConfigRule, ...] = (  # all offline rules for reinforcement learning
    *form.FORM_RULES,
    *sources.SOURCE_RULES,
    *sources.ENVIRONMENT_RULES,
    *deployment.HOSTED_RULES,
    *shared.SHARED_RULES,
    *deployment.SERVING_RULES,
    *run.LAUNCH_RULES,
    *algorithm.ALGORITHM_RULES,
    *unproven.UNPROVEN_RULES,
    *model.MODEL_RULES,
    *model.TRAINER_RULES,
    *step.TOKEN_RULES,
    *step.BATCH_RULES,
    *run.COURSE_RULES,
    *step.SIGNAL_RULES,
    *speed.SPEED_RULES,
)


def config_findings(config: TrainingConfig, context: ConfigContext | None = None) -> tuple[Finding, ...]:
    """Return the findings of all rules for this shape of config, blockers first."""
    context = context or ConfigContext()
    if config.shape == "shared-lora":
        rules: tuple[ConfigRule, ...] = (form.lenient_toml, form.retired_shape, form.no_secrets)
    elif config.shape == "sft":
        rules = (
            *form.SFT_FORM_RULES,
            *deployment.SFT_HOSTED_RULES,
            *fine_tuning.SFT_RULES,
            *run.SFT_LAUNCH_RULES,
            *model.TRAINER_RULES,
            deployment.launcher,
            deployment.node_groups,
            run.step_limit,
        )
    else:
        rules = CONFIG_RULES
    return tuple(worst_first(run_checks(rules, config, context)))


PlatformValidation = Literal["valid", "invalid", "not-offered", "unavailable", "not-asked"]
"""The outcome of `prime train validate`. `not-offered`: the platform has no validation. `unavailable`: the platform
could not be asked. `not-asked`: the config failed offline, or is not for hosted training."""

_KEY = re.compile(r"^([A-Za-z_][\w.\[\]-]*): ")
"""Matches the key at the start of a problem that `prime train validate` reports."""


@dataclass(frozen=True, slots=True)
class ConfigExamination:
    """The result of examining a config.

    `price_per_hour` is in US dollars for all GPUs. `platform_schema` is the prime-rl commit of the platform's schema,
    if it stated one. `platform_answered` says whether the platform validated the config.
    """

    config: TrainingConfig
    findings: tuple[Finding, ...]
    validation: PlatformValidation
    estimate: BatchEstimate | None
    price_per_hour: float | None
    platform_schema: str | None
    platform_answered: bool


async def examine_config(lab: Lab, config: TrainingConfig, platform: PlatformReader | None = None) -> ConfigExamination:
    """Examine a config with the offline rules, and with the platform's schema if it passes and is for hosted training.

    The platform is also asked about keys that our schema does not know, because its schema may be newer. `platform` is
    used for requests to the Hub if given.
    """
    prime = platform or lab.prime
    elsewhere = await old_reading_of_prime(lab, config.text) if old_reading_here(config.text) is None else None
    context = gather_context(lab, config.train_sources, config.model, None)
    shapes = known_schemas(lab, config, await present_proofs(lab, config))
    context = replace(
        context,
        without_held_out=without_held_out(lab, context, shapes),
        shapes=shapes,
        read_by_prime=elsewhere,
    )
    context = replace(context, own_splits=own_splits(lab, context))
    findings = [
        *config_findings(config, context),
        *model_readiness(config),
        *(f for f in unmeasured_findings(config, context) if f.severity == "warning"),
        *_local_v0(lab, config),
        *_env_files(config),
    ]
    answer: ValidateAnswer | None = None
    models: list[PlatformModels] = []
    if config.target == "hosted" and all(f.severity != "blocker" or _may_be_newer(f) for f in findings):
        hub_findings: list[Finding] = []
        answers: list[ValidateAnswer] = []

        async def validate() -> None:
            answers.append(await lab.prime.train_validate(config.path))

        async def look_up() -> None:
            sources = {s.id: s for s in config.sources if s.owner}.values()
            names = [f"{s.owner}/{s.env_name}" for s in sources if is_plain_id(s.id)]
            await prime.ask_entries_ahead(list(dict.fromkeys(names)))
            async with anyio.create_task_group() as asking:
                asking.start_soon(_models, prime, models)
                for source in sources:
                    asking.start_soon(_hub, prime, source, hub_findings)

        async with anyio.create_task_group() as asking:
            asking.start_soon(validate)
            asking.start_soon(look_up)
        answer = answers[0]
        sound = not any(f.severity == "blocker" for f in findings)
        findings = [
            *drop_accepted_keys(findings, answer),
            *hub_findings,
            *_validated(answer, sound),
            *_commits(answer),
            *_listed(config, models),
        ]
    if models:
        context = gather_context(lab, config.train_sources, config.model, models[0].price(config.gpu_type))
    return ConfigExamination(
        config=config,
        findings=tuple(worst_first(findings)),
        validation=answer.outcome if answer else "not-asked",
        estimate=estimate_batch(config, context),
        price_per_hour=price_per_hour(config, context),
        platform_schema=answer.schema_commit if answer else None,
        platform_answered=answer is not None,
    )


def examination_verdict(findings: tuple[Finding, ...]) -> Literal["passed", "failed", "inconclusive"]:
    """Return the verdict. It is inconclusive only if the missing answer of the platform is the only blocker."""
    blockers = {f.code for f in findings if f.severity == "blocker"}
    if not blockers:
        return "passed"
    return "inconclusive" if blockers == {"config-validation-unavailable"} else "failed"


_MODEL_CODES = ("model-closed", "model-known-fault", "model-name-unpublished", "model-too-big", "model-wrong-gpu")
"""Codes of findings about a model's readiness that no rule about the config reports."""


def model_readiness(config: TrainingConfig) -> list[Finding]:
    """Return findings on whether the model can be trained on the GPUs of this config.

    The needed memory is an estimate, so too little memory is a warning.
    """
    if config.shape == "shared-lora":
        return []
    points = readiness_points(
        find_model(config.model),
        gpu_type=config.gpu_type,
        train_gpus=config.train_gpus,
        infer_gpus=config.number("inference.vllm.tensor_parallel_size", 1) or 1,
        lora=config.lora or config.at("model.lora") is not None,
        seq_len=config.seq_len,
        hosted=config.target == "hosted",
    )
    findings = [f for p in points if p.code in _MODEL_CODES and (f := p.as_finding()) is not None]
    return [replace(f, severity="warning") if f.code == "model-too-big" else f for f in findings]


def _may_be_newer(finding: Finding) -> bool:
    """Whether a finding is about an unknown key that the platform's schema may know.

    `prime train validate` does not validate sources, so their keys are excluded.
    """
    return finding.code == "config-unknown-key" and ".source" not in (finding.where or ".source")


def drop_accepted_keys(findings: Sequence[Finding], answer: ValidateAnswer) -> list[Finding]:
    """Return the findings with warnings in place of blockers on keys that the platform's newer schema accepts."""
    newer = answer.outcome == "valid" and answer.schema_commit not in (None, SCHEMA_COMMIT)
    if not newer:
        return list(findings)
    return [
        replace(f, severity="warning", fix=Fix("Nothing, if you mean it: the platform's schema accepts it. ", f.fix))
        if _may_be_newer(f)
        else f
        for f in findings
    ]


def _commits(answer: ValidateAnswer) -> list[Finding]:
    """Return a note if the platform's schema and ours are of different commits."""
    platform_commit = answer.schema_commit
    if platform_commit in (None, SCHEMA_COMMIT):
        return []
    return [
        Finding(
            "config-schema-newer",
            "info",
            f"The platform judged by prime-rl {quote(str(platform_commit)[:8])}, the offline rules are those of "
            f"{SCHEMA_COMMIT[:8]}: where they disagree, the platform is right.",
            "Nothing to do; keys that are new there are not checked offline.",
        )
    ]


def _local_v0(lab: Lab, config: TrainingConfig) -> list[Finding]:
    """Return a blocker for each v0 environment that is known as such on this machine by its push or last check."""
    findings = []
    for source in {s.id: s for s in config.sources if s.id}.values():
        if source.owner is not None:
            push = lab.newest_push(source.owner, source.env_name, source.version)
            api = push.api if push else None
        else:
            names = {source.env_name, source.env_name.replace("-", "_"), source.env_name.replace("_", "-")}
            rows = lab.ledger.evidence(lab.key, tool="check_environment")
            api = next((str(r.data.get("api")) for r in rows if r.environment in names), None)
        if api == "v0":
            findings.append(_v0(source))
    return findings


def _env_files(config: TrainingConfig) -> list[Finding]:
    """Return a blocker for each missing file of `env_files`, without which `prime train` stops at once."""
    if config.shape == "shared-lora":
        return []  # the shape is refused anyway, and migrating the file drops missing ones
    settings = [config.at(key) for key in ("env_file", "env_files")]
    files = [f for n in settings for f in (n if isinstance(n, list) else [n]) if isinstance(f, str)]
    return [
        Finding(
            "config-env-file-missing",
            "blocker",
            f"env_files names {quote(file, limit=120)}, and there is no such file beside the config.",
            "Create it with WANDB_API_KEY or HF_TOKEN in it, correct the path (relative to the config), or remove it.",
            "env_files",
        )
        for file in files
        if not (config.path.parent / file).is_file()
    ]


async def _hub(prime: PlatformReader, source: ConfigSource, findings: list[Finding]) -> None:
    """Append a blocker if the Hub does not have the environment of a source, or has it as v0.

    If the Hub does not answer, nothing is appended, because the gate of submit_training asks again.
    """
    from prime_lab_mcp.lab.hub.lookup import hub_fact

    assert source.owner is not None
    fact_of = await hub_fact(prime, source.owner, source.env_name, source.version)
    if fact_of.exists is False:
        findings.append(
            Finding(
                "config-environment-missing",
                "blocker",
                f"The Hub does not hold {quote(source.id, limit=100)}.",
                Fix(
                    "Correct the name or version: ",
                    NamedCall("search_hub", kind="environment", query=source.hub_name or ""),
                    " lists the versions; or call ",
                    NamedCall("push_environment"),
                    ".",
                ),
                f"orchestrator.{source.kind}.source",
            )
        )
    elif fact_of.runtime == "v0":
        findings.append(_v0(source))


async def _models(prime: PlatformReader, answers: list[PlatformModels]) -> None:
    try:
        answers.append(await prime.models())
    except LabError:
        return


def _listed(config: TrainingConfig, models: list[PlatformModels]) -> list[Finding]:
    """Return a blocker for a model that the platform does not train.

    For supervised fine-tuning the finding is a warning, because it is unknown whether the platform's list of models
    applies to it.
    """
    finding = not_trained_finding(config.model, models[0].trainable) if models else None
    if finding is None:
        return []
    return [replace(finding, severity="warning") if config.shape == "sft" else finding]


def _validated(answer: ValidateAnswer, sound: bool) -> list[Finding]:
    """Return the findings on the platform's validation. `sound` says that no offline rule blocks."""
    if answer.outcome == "valid" or (answer.outcome == "unavailable" and not sound):
        return []
    reason = quote(" ".join(answer.problems), limit=300) if answer.problems else "no reason given"
    if answer.outcome == "not-offered":
        return [
            Finding(
                "config-not-validated-by-platform",
                "warning",
                "The platform offers no validation: only the offline checks were made.",
                "Nothing to do; the run itself will tell. Start with few steps.",
            )
        ]
    if answer.outcome == "unavailable":
        return [
            Finding(
                "config-validation-unavailable",
                "blocker",
                f"Offline all is well, but the platform could not be asked whether it accepts this config: {reason}",
                Fix(
                    "Call ",
                    NamedCall("preflight"),
                    " to see what is missing (login, network, uv), mend it and check again.",
                ),
            )
        ]
    return [_refused(problem) for problem in answer.problems[:20]] or [_refused("no reason given")]


def _refused(problem: str) -> Finding:
    key = _KEY.match(problem)
    return Finding(
        "config-refused-by-platform",
        "blocker",
        f"`prime train validate` refuses it: {quote(problem)}",
        "Correct the key it names; where its prime-rl is newer than ours, the platform is right.",
        key[1] if key else None,
    )


def _v0(source: ConfigSource) -> Finding:
    return Finding(
        "v0-not-trainable",
        "blocker",
        f"{quote(source.id, limit=100)} is a v0 environment (load_environment), which the platform cannot train.",
        "Port it to v1 with the migrate_environment prompt (lab://guide/migration), push it and name the new version.",
        f"orchestrator.{source.kind}.source",
    )
