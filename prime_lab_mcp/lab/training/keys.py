"""Finds the API keys that a run needs, and where each key comes from.

Findings and reports contain only the names of keys. The values leave this module only through `forwarded_keys`.

The platform forwards only the keys of W&B and Hugging Face to a run. `prime` refuses an env file that holds any other
key before it sends anything. Every other secret that an environment reads must be linked to the environment on the Hub.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from prime_lab_mcp.lab.base.errors import BadInput, LabError
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import ConfigSource, TrainingConfig
from prime_lab_mcp.lab.configs.evidence import evidence_of_push
from prime_lab_mcp.lab.environment.credentials import FORWARDED_VARIABLES, variables_of
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.training.env_files import EnvFile, env_file_findings, read_env_files


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """The secrets of one environment on the Hub, by name.

    `reads` is None for an environment that was not checked here. `linked` is None if the Hub did not answer, or was not
    asked because the environment reads nothing. `forwarded` are the keys that this machine gives to the run.
    """

    environment: str
    reads: tuple[str, ...] | None
    linked: tuple[str, ...] | None
    forwarded: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        if self.reads is None or self.linked is None:
            return ()
        return tuple(name for name in self.reads if name not in self.linked and name not in self.forwarded)

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "reads": list(self.reads) if self.reads is not None else None,
            "linked": list(self.linked) if self.linked is not None else None,
            "missing": list(self.missing),
        }


def forwarded_keys(lab: Lab, config: TrainingConfig) -> dict[str, str]:
    """The values of the keys that are forwarded to the run, by name: the W&B key if the config logs to W&B, other keys
    only if `--allow-env` names them."""
    if lab.settings.rehearsal:
        return {}
    names = {name for name in FORWARDED_VARIABLES if name in lab.settings.allow_env}
    if _logs_to_wandb(config):
        names.add("WANDB_API_KEY")
    return {name: os.environ[name] for name in sorted(names) if os.environ.get(name)}


def key_findings(lab: Lab, config: TrainingConfig) -> list[Finding]:
    """Findings about the keys that this machine would forward to the run. Reads names only."""
    findings = list(env_file_findings(_env_files(lab, config), forwarded_keys(lab, config)))
    if _logs_to_wandb(config) and "WANDB_API_KEY" not in _forwarded_names(lab, config):
        findings.append(
            Finding(
                "wandb-key-missing",
                "warning",
                "the config logs to W&B, and no WANDB_API_KEY is given to the run: it logs nothing there, or ends at "
                "its start",
                "Ask the user to set WANDB_API_KEY where the server starts or to put it into a file named in "
                "env_files, or remove [monitors.wandb].",
                "monitors.wandb",
            )
        )
    return findings


async def environment_secrets(lab: Lab, config: TrainingConfig) -> list[EnvironmentSecrets]:
    """The variables that each Hub environment of a config reads, and those that are linked to it."""
    sources = {s.hub_name: s for s in config.sources if s.hub_name}
    secrets: dict[str, EnvironmentSecrets] = {}
    forwarded = tuple(sorted(_forwarded_names(lab, config)))

    async def ask(ref: str, source: ConfigSource) -> None:
        reads = _reads(lab, source)
        if not reads:  # nothing to compare: unchecked, or no variable is read
            secrets[ref] = EnvironmentSecrets(ref, reads, None, forwarded)
            return
        try:
            linked: tuple[str, ...] | None = tuple(sorted(await lab.prime.env_secrets(ref)))
            if set(reads) - {*(linked or ()), *forwarded}:  # a name that is no secret may be a variable
                linked = (*(linked or ()), *await lab.prime.env_variables(ref))
        except LabError:
            linked = None  # the platform may refuse for another owner's environment
        secrets[ref] = EnvironmentSecrets(ref, reads, linked, forwarded)

    async with anyio.create_task_group() as asking:
        for ref, source in sources.items():
            asking.start_soon(ask, ref, source)
    return [secrets[ref] for ref in sources]


def link_findings(secrets: list[EnvironmentSecrets]) -> list[Finding]:
    """Findings about secrets that an environment reads and that nothing provides, so that its rollouts fail."""
    findings = []
    for entry in secrets:
        ref = entry.environment
        for name in entry.missing:
            also = " (or env_files of the config hand it on)" if name in FORWARDED_VARIABLES else ""
            findings.append(
                Finding(
                    "secret-not-linked",
                    "warning",
                    f"{ref} reads {name}, and no secret of that name is linked to it on the Hub: rollouts "
                    "that need it fail, and are paid for",
                    f"Ask the user to run `prime env secret create {ref} -n {name}` (it asks for the value) "
                    f"or `prime env secret link SECRET_ID {ref}` for one of `prime secret list`{also}.",
                    "orchestrator.train.source",
                )
            )
        if entry.linked is None and entry.reads:
            findings.append(
                Finding(
                    "secret-link-unknown",
                    "warning",
                    f"{ref} reads {', '.join(entry.reads[:6])}, and the Hub could not be asked which secrets "
                    "are linked to it",
                    f"Ask the user to run `prime env secret list {ref}`.",
                    "orchestrator.train.source",
                )
            )
    return findings


def _reads(lab: Lab, source: ConfigSource) -> tuple[str, ...] | None:
    """Variables without a default that the last check of the pushed source found. None for another owner's
    environment."""
    push = lab.newest_push(source.owner, source.env_name, source.version) if source.owner else None
    if push is None:
        return None
    row = next((r for r in evidence_of_push(lab, push) if r.tool == "check_environment"), None)
    return variables_of(row.findings) if row is not None else None


def _logs_to_wandb(config: TrainingConfig) -> bool:
    return isinstance(config.at("monitors.wandb"), Mapping)


def _forwarded_names(lab: Lab, config: TrainingConfig) -> set[str]:
    return {*forwarded_keys(lab, config), *(name for file in _env_files(lab, config) for name in file.values)}


def handed_keys(lab: Lab, config: TrainingConfig) -> list[str]:
    """Where the keys come from that are handed to a run, such as `HF_TOKEN of this machine`. Holds names only."""
    given = [(" and ".join(sorted(forwarded_keys(lab, config))), "this machine")]
    given += [(" and ".join(sorted(file.values)), quote(file.path, 120)) for file in _env_files(lab, config)]
    return [f"{names} of {place}" for names, place in given if names]


def _env_files(lab: Lab, config: TrainingConfig) -> list[EnvFile]:
    """The env files of a config; empty if one of them cannot be used. `write_sent_copy` then refuses the config."""
    try:
        return read_env_files(config, lab.workspace.root)
    except BadInput:
        return []
