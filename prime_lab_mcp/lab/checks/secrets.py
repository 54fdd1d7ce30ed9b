"""Checks of credentials: ones that stand in the files, and ones that the code needs where it runs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prime_lab_mcp.lab.checks.code import SourceFile, dotted
from prime_lab_mcp.lab.checks.package import Check, Package
from prime_lab_mcp.lab.report import Finding
from prime_lab_mcp.lab.text import quote

FORWARDED = frozenset({"HF_TOKEN", "WANDB_API_KEY"})
"""What a hosted training run can be given (prime 0.18.0 refuses any other name); the rest is `prime env secret`."""
_SECRET = re.compile(
    r"\bsk-[A-Za-z0-9_-]{20,}|\bhf_[A-Za-z0-9]{20,}|\bpit_[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{30,}"
    r"|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----|\bxox[abp]-[A-Za-z0-9-]{20,}"
)
_EXAMPLE = re.compile(r"example|placeholder|your|redacted|\.\.\.|x{6,}|\*{4,}", re.I)
_TEXT = (".md", ".toml", ".json", ".jsonl", ".yaml", ".yml", ".cfg", ".ini", ".txt", ".sh", ".env")
_MAX_TEXT = 2_000_000
_SHOWN = 20
_READERS = frozenset({"os.getenv", "os.environ.get", "getenv", "environ.get", "os.environ.setdefault"})
_ORDINARY = frozenset({"HOME", "PATH", "TMPDIR", "USER", "PWD", "LANG", "TOKENIZERS_PARALLELISM", "VF_LOG_LEVEL"})


class _Read(NamedTuple):
    name: str
    line: int
    optional: bool
    """True when the code says what to take instead."""


def secrets_in_files(package: Package) -> Iterator[Finding]:
    """A published key is a stolen key."""
    for path, text in _texts(package):
        for number, line in enumerate(text.splitlines(), 1):
            found = _SECRET.search(line)
            if found and not _made_up(found[0]):
                yield Finding(
                    "secret-in-code", "blocker",
                    f"what looks like a key ({quote(found[0][:4])}…) stands in {quote(path, 80)} and would be pushed",
                    "Remove it, revoke the key, and read it from an environment variable.", f"{path}:{number}",
                )  # fmt: skip
                break


def _texts(package: Package) -> Iterator[tuple[str, str]]:
    yield from ((file.path, file.text) for file in package.code.files)
    for path in package.snapshot.files:
        whole = package.snapshot.tree / path
        if path.endswith(_TEXT) and whole.stat().st_size <= _MAX_TEXT:
            yield path, whole.read_text(encoding="utf-8", errors="replace")


def _made_up(key: str) -> bool:
    return not key.startswith("-----") and (bool(_EXAMPLE.search(key)) or len(set(key[4:])) < 2)


def secrets_needed(package: Package) -> Iterator[Finding]:
    """A variable that is not set where training runs fails every rollout."""
    found: dict[str, tuple[bool, str]] = {}
    for file in package.code.files:
        for read in _variables(file):
            if read.name in _ORDINARY or not re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", read.name):
                continue
            optional, where = found.get(read.name, (True, file.at(read.line)))
            found[read.name] = (optional and read.optional, where)
    groups: dict[str, list[str]] = {}
    for name, (optional, _) in found.items():
        groups.setdefault(_kind(name, optional, package.allow_env), []).append(name)
    for kind, names in groups.items():
        severity, fix = _NEEDED[kind]
        shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        noun = "variable" if len(names) == 1 else "variables"
        yield Finding(
            "secret-needed", "warning" if severity else "info", f"the code reads the environment {noun} {shown}",
            fix.replace("NAME", names[0]), found[names[0]][1],
            tuple({"variable": name, "optional": found[name][0]} for name in names[:_SHOWN]),
        )  # fmt: skip


def variables_of(findings: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Environment variables without a default that recorded findings name."""
    rows = [row for f in findings if f.get("code") == "secret-needed" for row in f.get("rows") or ()]
    return tuple(dict.fromkeys(str(row.get("variable")) for row in rows if not row.get("optional")))


def _kind(name: str, optional: bool, allowed: tuple[str, ...]) -> str:
    if optional:
        return "optional"
    if name in FORWARDED:
        return "forwarded"
    return "allowed" if name in allowed else "withheld"


_NEEDED = {
    "optional": (False, "It has a default; to set NAME in training, use `prime env secret create OWNER/NAME`."),
    "forwarded": (
        False,
        "A hosted run can be given it (env_files in the training config); here, use --allow-env NAME of the server.",
    ),
    "allowed": (
        False,
        "It is passed on here; a hosted run gets only HF_TOKEN and WANDB_API_KEY, so link NAME to the environment "
        "with `prime env secret create` before training.",
    ),
    "withheld": (
        True,
        "Start the server with --allow-env NAME to pass it on here. A hosted run gets only HF_TOKEN and "
        "WANDB_API_KEY: link NAME to the environment with `prime env secret create` before training.",
    ),
}


def _variables(file: SourceFile) -> Iterator[_Read]:
    for name, call in file.calls():
        if (name in _READERS or name.endswith("ensure_keys")) and call.args:
            given = call.args[1] if len(call.args) > 1 else None
            optional = given is not None and not (isinstance(given, ast.Constant) and given.value is None)
            yield from (_Read(text, call.lineno, optional) for text in constants(call.args[0]))
        for keyword in call.keywords:
            if keyword.arg and re.search(r"(?:^|_)key_var$|api_key_var", keyword.arg):
                yield from (_Read(text, call.lineno, False) for text in constants(keyword.value))
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Subscript) and dotted(node.value) in ("os.environ", "environ"):
            optional = not isinstance(node.ctx, ast.Load)  # setting one is not reading it
            yield from (_Read(text, node.lineno, optional) for text in constants(node.slice) if not optional)


def constants(node: ast.expr) -> Iterator[str]:
    """The string constants of an argument: itself, or the elements of a literal list."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            yield from constants(element)


SECRET_CHECKS: tuple[Check, ...] = (secrets_in_files, secrets_needed)
