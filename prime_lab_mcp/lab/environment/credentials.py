"""Checks of credentials: keys in a package's files, and environment variables that its code reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from prime_lab_mcp.lab.base import credentials
from prime_lab_mcp.lab.base.named_credentials import find_named
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.environment.file_texts import JoinedLines, file_texts
from prime_lab_mcp.lab.environment.package import EnvironmentPackage, PackageCheck
from prime_lab_mcp.lab.state.source_code import SourceFile, dotted_name

FORWARDED_VARIABLES = frozenset({"HF_TOKEN", "WANDB_API_KEY"})
"""Variables that a training config can pass to a hosted run. prime 0.18.0 refuses all other names; those need
`prime env secret`."""
_SETTINGS = (
    ".py", ".pyi", ".ipynb", ".toml", ".yaml", ".yml", ".cfg", ".ini", ".conf", ".properties", ".env", ".sh", ".bash",
    ".js", ".mjs", ".ts", ".netrc", ".ppk", ".key", ".pem", ".rb", ".pl", "kaggle.json", "config.json", ".dockercfg",
)  # fmt: skip
_MAX_TEXT = 16_000_000
"""Characters. In a longer text, only credentials with a recognisable form are searched."""
_LISTED = 20
_READERS = frozenset({"os.getenv", "os.environ.get", "getenv", "environ.get", "os.environ.setdefault"})
_ORDINARY = frozenset({"HOME", "PATH", "TMPDIR", "USER", "PWD", "LANG", "TOKENIZERS_PARALLELISM", "VF_LOG_LEVEL"})


class _VariableRead(NamedTuple):
    name: str
    line: int
    optional: bool
    """Whether the code has a default for the variable."""


def secrets_in_files(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report credentials in the files that a push would publish.

    Files of every type are searched. A text with the form of a credential is a blocker. A text without such a form that
    a variable's name declares to be a credential is a blocker in code and settings, and a warning in data files.
    """
    for path in package.snapshot.files:
        certain, named = _first_secrets(path, (package.snapshot.tree / path).read_bytes())
        secret, line = certain or named or (None, None)
        if secret is not None:
            blocks = certain is not None or _is_setting(path)
            yield Finding(
                "secret-in-code",
                "blocker" if blocks else "warning",
                f"what looks like a key ({quote(secret.mark.strip())}…, {secret.kind}) stands in {quote(path, 80)} and "
                "would be pushed",
                "Remove it, revoke the key, and read it from an environment variable."
                if blocks
                else "Nothing if it is made up; otherwise remove it and revoke the key.",
                f"{path}:{line}" if line is not None else path,
            )


_Located = tuple[credentials.Credential, int | None]


def _first_secrets(path: str, data: bytes) -> tuple[_Located | None, _Located | None]:
    """Return the first text with a credential's form in a file, and the first text that a name declares a credential.

    Each comes with its line, or None as the line if the text was decoded or joined. If there is a first, the second is
    None.
    """
    named: _Located | None = None
    for number, text in enumerate((path, *file_texts(path, data))):
        detected = (*credentials.find(text), *credentials.key_blocks(text))
        secret = min(detected, key=lambda c: c.start, default=None)
        line = None
        if secret is not None:
            line = text.count("\n", 0, secret.start) + 1 if number == 1 else None
            return (secret, line), None
        if named is None and len(text) <= _MAX_TEXT and not isinstance(text, JoinedLines):
            hint = next(find_named(text), None)
            if hint is not None:
                named = hint, text.count("\n", 0, hint.start) + 1 if number == 1 else None
    return None, named


def _is_setting(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return name.endswith(_SETTINGS) or "." not in name


def secrets_needed(package: EnvironmentPackage) -> Iterator[Finding]:
    """Report the environment variables that the code reads. If one is missing in training, every rollout may fail."""
    variables: dict[str, tuple[bool, str]] = {}
    for file in package.code.files:
        for read in _variable_reads(file):
            if read.name in _ORDINARY or not re.fullmatch(r"[A-Z][A-Z0-9_]{2,}", read.name):
                continue
            optional, where = variables.get(read.name, (True, file.at(read.line)))
            variables[read.name] = (optional and read.optional, where)
    groups: dict[str, list[str]] = {}
    for name, (optional, _) in variables.items():
        groups.setdefault(_kind(name, optional, package.allow_env), []).append(name)
    for kind, names in groups.items():
        severity, fix = _NEEDED[kind]
        listed = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
        noun = "variable" if len(names) == 1 else "variables"
        yield Finding(
            "secret-needed",
            "warning" if severity else "info",
            f"the code reads the environment {noun} {listed}",
            fix.replace("NAME", names[0]),
            variables[names[0]][1],
            tuple({"variable": name, "optional": variables[name][0]} for name in names[:_LISTED]),
        )


def variables_of(findings: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the environment variables without a default that recorded `secret-needed` findings list."""
    rows = [row for f in findings if f.get("code") == "secret-needed" for row in f.get("rows") or ()]
    return tuple(dict.fromkeys(str(row.get("variable")) for row in rows if not row.get("optional")))


def _kind(name: str, optional: bool, allowed: tuple[str, ...]) -> str:
    if optional:
        return "optional"
    if name in FORWARDED_VARIABLES:
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


def _variable_reads(file: SourceFile) -> Iterator[_VariableRead]:
    for name, call in file.calls():
        if (name in _READERS or name.endswith("ensure_keys")) and call.args:
            default = call.args[1] if len(call.args) > 1 else None
            optional = default is not None and not (isinstance(default, ast.Constant) and default.value is None)
            yield from (_VariableRead(text, call.lineno, optional) for text in string_constants(call.args[0]))
        for keyword in call.keywords:
            if keyword.arg and re.search(r"(?:^|_)key_var$|api_key_var", keyword.arg):
                yield from (_VariableRead(text, call.lineno, False) for text in string_constants(keyword.value))
    for node in ast.walk(file.tree) if file.tree is not None else ():
        if isinstance(node, ast.Subscript) and dotted_name(node.value) in ("os.environ", "environ"):
            optional = not isinstance(node.ctx, ast.Load)  # An assignment to a variable does not read it.
            yield from (
                _VariableRead(text, node.lineno, optional) for text in string_constants(node.slice) if not optional
            )


def string_constants(node: ast.expr) -> Iterator[str]:
    """Yield the argument if it is a string constant, or the string constants in a literal list, tuple or set."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for element in node.elts:
            yield from string_constants(element)


SECRET_CHECKS: tuple[PackageCheck, ...] = (secrets_in_files, secrets_needed)
