"""Keys a run needs and who gives them to it: names only, never a value.

The platform forwards W&B's and Hugging Face's key to a run and nothing else; `prime` ends before it sends anything when
an env file holds another one. What an environment reads besides must be linked to it on the Hub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from prime_lab_mcp.lab.checks.secrets import FORWARDED
from prime_lab_mcp.lab.configs.evidence import pushed
from prime_lab_mcp.lab.configs.read import Config, Source
from prime_lab_mcp.lab.errors import LabError
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.process import installer_environment
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.runs.naming import secret_files
from prime_lab_mcp.lab.text import quote

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_READ = re.compile(r"the code reads the environment variables? (.+)")
_VARIABLE = re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b")
_LARGEST = 200_000


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """Of one environment on the Hub. `reads` None: not ours, so nobody looked; `linked` None: it could not be asked."""

    environment: str
    reads: tuple[str, ...] | None
    linked: tuple[str, ...] | None
    handed: tuple[str, ...]

    @property
    def missing(self) -> tuple[str, ...]:
        if self.reads is None or self.linked is None:
            return ()
        return tuple(name for name in self.reads if name not in self.linked and name not in self.handed)

    def as_json(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "reads": list(self.reads) if self.reads is not None else None,
            "linked": list(self.linked) if self.linked is not None else None,
            "missing": list(self.missing),
        }


def handed_on(lab: Lab, config: Config) -> dict[str, str]:
    """Keys to hand on by name: W&B's where the config logs there, others only where a person allowed it."""
    if lab.settings.rehearsal:
        return {}
    wanted = {name for name in FORWARDED if name in lab.settings.allow_env}
    if _logs_to_wandb(config):
        wanted.add("WANDB_API_KEY")
    return {name: os.environ[name] for name in sorted(wanted) if os.environ.get(name)}


def key_findings(lab: Lab, config: Config) -> list[Finding]:
    """What is wrong with the keys that this machine would give the run; read from names alone."""
    found = list(_file_findings(lab, config))
    if _logs_to_wandb(config) and "WANDB_API_KEY" not in _at_hand(lab, config):
        found.append(
            Finding(
                "wandb-key-missing", "warning",
                "the config logs to W&B, and no WANDB_API_KEY is given to the run: it logs nothing there, or ends at "
                "its start",
                "Ask the user to set WANDB_API_KEY where the server starts or to put it into a file named in "
                "env_files, or remove [monitors.wandb].", "monitors.wandb",
            )
        )  # fmt: skip
    return found


async def environment_secrets(lab: Lab, config: Config) -> list[EnvironmentSecrets]:
    """For every environment of a config on the Hub: the names it reads and the names that are linked to it."""
    sources = {s.hub_name: s for s in config.sources if s.hub_name}
    found: dict[str, EnvironmentSecrets] = {}
    handed = tuple(sorted(_at_hand(lab, config)))

    async def ask(ref: str, source: Source) -> None:
        reads = _reads(lab, source)
        try:
            linked: tuple[str, ...] | None = tuple(sorted(await lab.prime.env_secrets(ref)))
            if set(reads or ()) - {*(linked or ()), *handed}:  # what is no secret may be a plain variable
                linked = (*(linked or ()), *await lab.prime.env_variables(ref))
        except LabError:
            linked = None  # of somebody else's environment the platform need not tell
        found[ref] = EnvironmentSecrets(ref, reads, linked, handed)

    async with anyio.create_task_group() as asking:
        for ref, source in sources.items():
            asking.start_soon(ask, ref, source)
    return [found[ref] for ref in sources]


def link_findings(secrets: list[EnvironmentSecrets]) -> list[Finding]:
    """What an environment of ours reads and nobody gives it: every rollout that needs it fails."""
    found = []
    for of in secrets:
        for name in of.missing:
            also = " (or env_files of the config hand it on)" if name in FORWARDED else ""
            found.append(
                Finding(
                    "secret-not-linked", "warning",
                    f"{of.environment} reads {name}, and no secret of that name is linked to it on the Hub: rollouts "
                    "that need it fail, and are paid for",
                    f"Ask the user to run `prime env secret create {of.environment} -n {name}` (it asks for the value) "
                    f"or `prime env secret link SECRET_ID {of.environment}` for one of `prime secret list`{also}.",
                    "orchestrator.train.source",
                )
            )  # fmt: skip
        if of.linked is None and of.reads:
            found.append(
                Finding(
                    "secret-link-unknown", "warning",
                    f"{of.environment} reads {', '.join(of.reads[:6])}, and the Hub could not be asked which secrets "
                    "are linked to it",
                    f"Ask the user to run `prime env secret list {of.environment}`.", "orchestrator.train.source",
                )
            )  # fmt: skip
    return found


def _reads(lab: Lab, source: Source) -> tuple[str, ...] | None:
    """Names without a default that the last check of the pushed source found; None for what is not ours."""
    push = pushed(lab, source.owner, source.env_name, source.version) if source.owner else None
    if push is None:
        return None
    rows = lab.ledger.evidence(push.workspace, tool="check_environment", environment=push.environment)
    row = next((r for r in rows if r.source == push.source), None)
    if row is None:
        return None
    names: list[str] = []
    for finding in row.findings:
        read = _READ.match(str(finding.get("message")))
        if (
            finding.get("code") == "secret-needed"
            and read
            and not str(finding.get("fix")).startswith("It has a default")
        ):
            names += _VARIABLE.findall(read[1])
    return tuple(dict.fromkeys(names))


def _logs_to_wandb(config: Config) -> bool:
    return isinstance(config.at("monitors.wandb"), Mapping)


def _at_hand(lab: Lab, config: Config) -> set[str]:
    return {*handed_on(lab, config), *(name for keys in _files(lab, config).values() for name in keys)}


def _file_findings(lab: Lab, config: Config) -> Iterator[Finding]:
    known = {*installer_environment(), *handed_on(lab, config), *(n for n in os.environ if n.startswith("PRIME_"))}
    for path, keys in _files(lab, config).items():
        other = sorted(set(keys) - FORWARDED)
        if other:
            names = quote(", ".join(other[:8]), 200)
            yield Finding(
                "config-secrets-not-forwarded", "blocker",
                f"{quote(path, 120)} holds {names}, and a run is given only HF_TOKEN and WANDB_API_KEY: "
                "prime refuses the whole file",
                "Name a file that holds only these two, and link the others to the environment: `prime env secret "
                "create OWNER/NAME -n NAME`.", "env_files",
            )  # fmt: skip
        unset = sorted({name for refers in keys.values() for name in refers} - known)
        if unset:
            yield Finding(
                "config-secrets-reference", "blocker",
                f"{quote(path, 120)} refers to {quote(', '.join(unset[:8]), 200)}, which prime does not see when it is "
                "started from here: it refuses the file",
                "Write the value itself, or start the server with --allow-env NAME for HF_TOKEN or WANDB_API_KEY and "
                "leave the line out.", "env_files",
            )  # fmt: skip


def _files(lab: Lab, config: Config) -> dict[str, dict[str, tuple[str, ...]]]:
    """Path as written to key names, each with the variables its value refers to. Files outside are not opened."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for path in secret_files(config):
        whole = (config.path.parent / path).resolve()
        if not whole.is_relative_to(lab.workspace.root) or not whole.is_file() or whole.stat().st_size > _LARGEST:
            continue  # `write_copy` refuses it with its own reason
        found[path] = dict(_names(whole.read_text(encoding="utf-8", errors="replace")))
    return found


def _names(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """As prime 0.18.0 reads such a file: `KEY=VALUE` lines, `${NAME}` filled in unless single-quoted."""
    for line in text.splitlines():
        key, equals, value = line.strip().partition("=")
        key, value = key.strip(), value.strip()
        if not equals or key.startswith("#") or not _KEY.fullmatch(key):
            continue
        single = value.startswith("'") and value.endswith("'")
        yield key, () if single else tuple(_REFERENCE.findall(value))
