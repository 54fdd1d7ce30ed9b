"""Reads the env files of a config, which hold keys of a run, and hands `prime` copies of exactly what was checked.

`prime` expands `${NAME}` in an env file from its own variables, the Prime key among them, and forwards the result to
the run. The files belong to the agent, who may change them at any moment. A submission therefore reads each file once,
checks that text, and gives `prime` a copy of it, which exists only while the request is sent.

Findings and reports contain only the names of keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.base import untrusted_files
from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.environment.credentials import FORWARDED_VARIABLES

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LINE_END = re.compile(r"\r\n|\r|\n")
"""The ends of lines of a text file that Python opens, as `prime` does. `str.splitlines` also splits elsewhere."""
_LARGEST = 200_000
ENV_FILE_CODES: frozenset[Code] = frozenset(
    {"config-secrets-file", "config-secrets-not-forwarded", "config-secrets-reference"}
)
"""Codes of the errors of `sent_env_files`, after which nothing was sent."""


@dataclass(frozen=True, slots=True)
class EnvFile:
    """The keys of one env file. `path` is the path as written in the config."""

    path: str
    values: dict[str, str]
    """The value of each key as written, with quotes and references."""

    def references(self, key: str) -> tuple[str, ...]:
        """Names of the variables that `prime` would expand in a value. It expands nothing in single quotes."""
        value = self.values[key]
        single = value.startswith("'") and value.endswith("'")
        return () if single else tuple(_REFERENCE.findall(value))

    @property
    def text(self) -> str:
        """The file as `prime` gets it: one line for each key."""
        return "".join(f"{key}={value}\n" for key, value in self.values.items())


def env_file_paths(config: TrainingConfig) -> list[str]:
    """The paths under `env_file` and `env_files`, as written in the config."""
    entries = [config.table.get(field) for field in ("env_file", "env_files")]
    return [str(path) for value in entries for path in (value if isinstance(value, list) else [value] if value else [])]


def read_env_files(config: TrainingConfig, root: Path) -> list[EnvFile]:
    """Read the env files of a config in the workspace `root`. Raises BadInput for any other or unreadable file."""
    return [EnvFile(path, _values(_read(config, root, path))) for path in env_file_paths(config)]


def env_file_findings(files: Collection[EnvFile], provided: Collection[str]) -> Iterator[Finding]:
    """Findings about keys that are not forwarded, and about references to other variables than `provided`."""
    for file in files:
        other = sorted(set(file.values) - FORWARDED_VARIABLES)
        if other:
            names = quote(", ".join(other[:8]), 200)
            yield Finding(
                "config-secrets-not-forwarded",
                "blocker",
                f"{quote(file.path, 120)} holds {names}, and a run is given only HF_TOKEN and WANDB_API_KEY: "
                "prime refuses the whole file",
                "Name a file that holds only these two, and link the others to the environment: `prime env secret "
                "create OWNER/NAME -n NAME`.",
                "env_files",
            )
        others = sorted({name for key in file.values for name in file.references(key) if name not in provided})
        if others:
            yield Finding(
                "config-secrets-reference",
                "blocker",
                f"{quote(file.path, 120)} refers to {quote(', '.join(others[:8]), 200)}: prime would fill in the "
                "user's own variable, and a run is given only HF_TOKEN and WANDB_API_KEY",
                "Write the value itself, or start the server with --allow-env NAME for HF_TOKEN or WANDB_API_KEY and "
                "leave the line out.",
                "env_files",
            )


@contextmanager
def sent_env_files(config: TrainingConfig, root: Path, copy: Path, provided: Collection[str]) -> Iterator[None]:
    """Put copies of the checked env files beside `copy`, the config that is sent, for the duration of the block.

    Raises BadInput if a file is not as the findings want it; it may have changed since the question.
    """
    files = read_env_files(config, root)
    for finding in env_file_findings(files, provided):
        raise BadInput(finding.message, fix=finding.fix, code=finding.code)
    written: list[Path] = []
    try:
        for file in files:
            target = Path(os.path.normpath(copy.parent / file.path))
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = target.with_name(f".{target.name}.{os.getpid()}.{os.urandom(4).hex()}")
            written.append(fresh)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as sink:
                sink.write(file.text)
            os.replace(fresh, target)
            written[-1] = target
        yield
    finally:
        for path in written:
            with suppress(OSError):
                path.unlink()


def _target(config: TrainingConfig, root: Path, path: str) -> Path:
    """The path of an env file, which is inside the workspace as written and in truth. Raises BadInput."""
    target = (config.path.parent / path).resolve()
    written = Path(os.path.normpath(config.path.resolve().parent / path))
    if not target.is_relative_to(root) or not written.is_relative_to(root) or not target.is_file():
        raise _unusable(path, "is not a file of the workspace")
    return target


def _read(config: TrainingConfig, root: Path, path: str) -> str:
    target = _target(config, root, path)
    try:
        # The resolved path has no links. A link that takes the place of a folder meanwhile is not followed.
        content = untrusted_files.read_below(root, target.relative_to(root).as_posix(), _LARGEST)
    except (untrusted_files.PlantedPath, OSError) as error:
        why = error.message if isinstance(error, untrusted_files.PlantedPath) else str(error.strerror)
        raise _unusable(path, f"cannot be used ({quote(why, 200)})") from error
    return content.decode("utf-8", "replace")


def _unusable(path: str, why: str) -> BadInput:
    return BadInput(
        f"the config names the secrets file {quote(path, 120)}, which {why}",
        fix="Put the file beside the config, or take env_files out and let the server's environment provide it.",
        code="config-secrets-file",
    )


def _values(text: str) -> dict[str, str]:
    """Parse an env file as prime 0.18.0 does (utils/env_vars.py): `KEY=VALUE` lines; the last line of a key counts."""
    values: dict[str, str] = {}
    for line in _LINE_END.split(text):
        key, equals, value = line.strip().partition("=")
        key, value = key.strip(), value.strip()
        if equals and not key.startswith("#") and _KEY.fullmatch(key):
            values[key] = value
    return values
