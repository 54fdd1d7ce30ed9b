"""Judges a config as far as that goes before it is paid for: offline first, then by the platform's own schema."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import anyio

from prime_lab_mcp.lab.configs.evidence import observe, pushed
from prime_lab_mcp.lab.configs.observed import Estimate, estimate, price_per_hour
from prime_lab_mcp.lab.configs.old_toml import here, there
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.configs.rules import judge
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT
from prime_lab_mcp.lab.configs.shapes import known
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.models import find, readiness
from prime_lab_mcp.lab.prime.answers import Models, ValidateAnswer
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

Validation = Literal["valid", "invalid", "not-offered", "unavailable", "not-asked"]

_KEY = re.compile(r"^([A-Za-z_][\w.\[\]-]*): ")


@dataclass(frozen=True, slots=True)
class Examined:
    """`asked`: the verdict rests on an answer of the platform."""

    config: Config
    findings: tuple[Finding, ...]
    validation: Validation
    estimate: Estimate | None
    price_per_hour: float | None
    platform_schema: str | None
    asked: bool


async def examine(lab: Lab, config: Config) -> Examined:
    """The platform is asked only about what is sound offline, and never about a config for one's own GPUs.

    A key that our schema does not know may be newer than it: of that the platform is asked too.
    """
    trained = [(s.owner, s.env_name, s.version) for s in config.train_sources if s.owner]
    elsewhere = await there(lab, config) if here(config) is None else None
    seen = replace(observe(lab, trained, config.model, None), shapes=known(lab, config), read_by_prime=elsewhere)
    findings = [*judge(config, seen), *model_points(config), *_local_v0(lab, config), *_env_files(config)]
    answer: ValidateAnswer | None = None
    models: list[Models] = []
    if config.target == "hosted" and all(f.severity != "blocker" or _may_be_newer(f) for f in findings):
        abroad: list[Finding] = []
        answers: list[ValidateAnswer] = []

        async def validate() -> None:
            answers.append(await lab.prime.train_validate(config.path))

        async with anyio.create_task_group() as asking:
            asking.start_soon(validate)
            asking.start_soon(_models, lab, models)
            for source in {s.id: s for s in config.sources if s.owner}.values():
                asking.start_soon(_hub, lab, source, abroad)
        answer = answers[0]
        sound = not any(f.severity == "blocker" for f in findings)
        findings = [
            *accepted(findings, answer),
            *abroad,
            *_validated(answer, sound),
            *_commits(answer),
            *_listed(config, models),
        ]
    if models:
        seen = observe(lab, trained, config.model, models[0].price(config.gpu_type))
    return Examined(
        config=config,
        findings=tuple(sorted(findings, key=lambda f: ("blocker", "warning", "info").index(f.severity))),
        validation=answer.outcome if answer else "not-asked",
        estimate=estimate(config, seen),
        price_per_hour=price_per_hour(config, seen),
        platform_schema=answer.schema_commit if answer else None,
        asked=answer is not None,
    )


def verdict(findings: tuple[Finding, ...]) -> Literal["passed", "failed", "inconclusive"]:
    """Inconclusive only when nothing but the platform's silence stands in the way."""
    blockers = {f.code for f in findings if f.severity == "blocker"}
    if not blockers:
        return "passed"
    return "inconclusive" if blockers == {"config-validation-unavailable"} else "failed"


_BESIDE = ("model-closed", "model-known-fault", "model-name-unpublished", "model-too-big", "model-wrong-gpu")
"""What the registry knows of a model and no rule of the file says."""


def model_points(config: Config) -> list[Finding]:
    """Of the model on the GPUs of this config. That it does not fit is an estimate, and so no blocker."""
    if config.shape == "shared-lora":
        return []
    points = readiness(
        find(config.model),
        gpu_type=config.gpu_type,
        train_gpus=config.train_gpus,
        infer_gpus=config.number("inference.vllm.tensor_parallel_size", 1) or 1,
        lora=config.lora or config.at("model.lora") is not None,
        seq_len=config.seq_len,
        hosted=config.target == "hosted",
    )
    found = [f for p in points if p.code in _BESIDE and (f := p.as_finding()) is not None]
    return [replace(f, severity="warning") if f.code == "model-too-big" else f for f in found]


def _may_be_newer(finding: Finding) -> bool:
    """Sources are not validated by `prime train validate`, so that its yes says nothing of their keys."""
    return finding.code == "config-unknown-key" and ".source" not in (finding.where or ".source")


def accepted(findings: Sequence[Finding], answer: ValidateAnswer) -> list[Finding]:
    """Keys that only the platform's schema knows are no blockers where it accepted them; it is right."""
    newer = answer.outcome == "valid" and answer.schema_commit not in (None, SCHEMA_COMMIT)
    if not newer:
        return list(findings)
    return [
        replace(f, severity="warning", fix=f"Nothing, if you mean it: the platform's schema accepts it. {f.fix}")
        if _may_be_newer(f)
        else f
        for f in findings
    ]


def _commits(answer: ValidateAnswer) -> list[Finding]:
    """Said where the two schemas are not the same one."""
    theirs = answer.schema_commit
    if theirs in (None, SCHEMA_COMMIT):
        return []
    return [
        Finding(
            "config-schema-newer",
            "info",
            f"The platform judged by prime-rl {quote(str(theirs)[:8])}, the offline rules are those of "
            f"{SCHEMA_COMMIT[:8]}: where they disagree, the platform is right.",
            "Nothing to do; keys that are new there are not checked offline.",
        )
    ]


def _local_v0(lab: Lab, config: Config) -> list[Finding]:
    """v0 environments, as far as this machine knows without asking: by the push, or by the last check."""
    found = []
    for source in {s.id: s for s in config.sources if s.id}.values():
        if source.owner is not None:
            push = pushed(lab, source.owner, source.env_name, source.version)
            api = push.api if push else None
        else:
            names = {source.env_name, source.env_name.replace("-", "_"), source.env_name.replace("_", "-")}
            rows = lab.ledger.evidence(lab.key, tool="check_environment")
            api = next((str(r.data.get("api")) for r in rows if r.environment in names), None)
        if api == "v0":
            found.append(_v0(source))
    return found


def _env_files(config: Config) -> list[Finding]:
    """`prime train` ends before it sends anything when a file named here, relative to the config, is not there."""
    if config.shape == "shared-lora":
        return []  # it is refused before that; migrating it drops what is missing
    named = [config.at(key) for key in ("env_file", "env_files")]
    files = [f for n in named for f in (n if isinstance(n, list) else [n]) if isinstance(f, str)]
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


async def _hub(lab: Lab, source: Source, found: list[Finding]) -> None:
    """What the Hub says of a source. That it could not be asked is no finding: the gate of a submission asks again."""
    from prime_lab_mcp.lab.hub import fact

    assert source.owner is not None
    fact_of = await fact(lab.prime, source.owner, source.env_name, source.version)
    if fact_of.exists is False:
        found.append(
            Finding(
                "config-environment-missing",
                "blocker",
                f"The Hub does not hold {quote(source.id, limit=100)}.",
                "Correct the name or version (search_hub lists them), or call push_environment.",
                f"orchestrator.{source.kind}.source",
            )
        )
    elif fact_of.runtime == "v0":
        found.append(_v0(source))


async def _models(lab: Lab, found: list[Models]) -> None:
    try:
        found.append(await lab.prime.models())
    except LabError:
        return


def _listed(config: Config, models: list[Models]) -> list[Finding]:
    """A model that no cluster lists may still run on rented GPUs: a warning."""
    if not models or not models[0].trainable or config.model in models[0].trainable:
        return []
    names = ", ".join(sorted(models[0].trainable)[:5])
    return [
        Finding(
            "config-model-not-listed",
            "warning",
            f"The platform does not list {quote(config.model, limit=100)} among the models it trains ({quote(names)}).",
            "Call search_hub(kind=\"model\") for the list, or make sure that you mean this model.",
            "model.name",
        )
    ]  # fmt: skip


def _validated(answer: ValidateAnswer, sound: bool) -> list[Finding]:
    """`sound`: nothing offline stands in the way, so that the platform's silence is what does."""
    if answer.outcome == "valid" or (answer.outcome == "unavailable" and not sound):
        return []
    said = quote(" ".join(answer.problems), limit=300) if answer.problems else "no reason given"
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
                f"Offline all is well, but the platform could not be asked whether it accepts this config: {said}",
                "Call preflight to see what is missing (login, network, uv), mend it and check again.",
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


def _v0(source: Source) -> Finding:
    return Finding(
        "v0-not-trainable",
        "blocker",
        f"{quote(source.id, limit=100)} is a v0 environment (load_environment), which the platform cannot train.",
        "Port it to v1 with the migrate_environment prompt (lab://guide/migration), push it and name the new version.",
        f"orchestrator.{source.kind}.source",
    )
