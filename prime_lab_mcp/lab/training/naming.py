"""The name of a run, and the copy of its config that is sent under that name."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from pathlib import Path

from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.configs.config import TrainingConfig
from prime_lab_mcp.lab.lab import Lab

_NAME_LINE = re.compile(r"""^(name\s*=\s*)(["'])([^"'\n]*)\2[ \t]*(#.*)?$""", re.M)
_TABLE = re.compile(r"^\s*\[", re.M)


def intent_key(lab: Lab, config: TrainingConfig, resume_from: str | None, attempt: int) -> str:
    """The identity of a submission: the exact file, its name, the run it continues, and the attempt."""
    parts = ["submit", config.sha256, config.name, resume_from, attempt, lab.platform]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def run_name(config: TrainingConfig, key: str) -> str:
    """The run's name on the platform: the config's name and eight hex digits of the intent."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", config.name)[:48].strip("-") or "run"
    return f"{stem}-{key[:8]}"


def text_with_name(text: str, name: str) -> str:
    """The text of a config with its top-level `name` set and no other byte changed. Raises BadInput."""
    first_table = _TABLE.search(text)
    head = first_table.start() if first_table else len(text)
    found = _NAME_LINE.search(text, 0, head)
    set_name = f'name = "{name}"\n'
    changed = f'{text[: found.start(2)]}"{name}"{text[found.end(3) + 1 :]}' if found else set_name + text
    try:
        same = tomllib.loads(changed) == {**tomllib.loads(text), "name": name}
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise BadInput(
            "the config's top-level name cannot be set without touching the rest",
            fix='Write it plainly at the top: name = "my-run".',
            code="config-bad-name",
        )
    return changed


def sent_copy_path(lab: Lab, config: TrainingConfig, key: str) -> Path:
    """The path to which `write_sent_copy` writes the config."""
    return _root(lab, key) / config.path.resolve().relative_to(lab.workspace.root)


def write_sent_copy(lab: Lab, config: TrainingConfig, name: str, key: str) -> Path:
    """Write the validated bytes under the run's name into the state directory. Raises BadInput.

    Secret files that the config names are linked, not copied, at the same place beside the copy.
    """
    copy = sent_copy_path(lab, config, key)
    copy.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Two calls at once write the same bytes; a prime that reads meanwhile must not see half of them.
    partial = copy.with_name(f".{copy.name}.{os.getpid()}.{os.urandom(4).hex()}")
    partial.write_bytes(text_with_name(config.text, name).encode("utf-8"))
    partial.replace(copy)
    for path in secret_files(config):
        _link(lab, config, copy, _root(lab, key), path)
    return copy


def secret_files(config: TrainingConfig) -> list[str]:
    """The paths under `env_file` and `env_files`, as written in the config."""
    named = [config.table.get(field) for field in ("env_file", "env_files")]
    return [str(path) for value in named for path in (value if isinstance(value, list) else [value] if value else [])]


def _root(lab: Lab, key: str) -> Path:
    return lab.settings.state_dir / "runs" / key[:16]


def _link(lab: Lab, config: TrainingConfig, copy: Path, root: Path, path: str) -> None:
    wanted = (config.path.parent / path).resolve()
    link = Path(os.path.normpath(copy.parent / path))
    if not wanted.is_relative_to(lab.workspace.root) or not link.is_relative_to(root) or not wanted.is_file():
        raise BadInput(
            f"the config names the secrets file {quote(path, 120)}, which is not a file of the workspace",
            fix="Put the file beside the config, or take env_files out and let the server's environment provide it.",
            code="config-secrets-file",
        )
    link.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = link.with_name(f".{link.name}.{os.getpid()}.{os.urandom(4).hex()}")
    fresh.symlink_to(wanted)
    fresh.replace(link)
