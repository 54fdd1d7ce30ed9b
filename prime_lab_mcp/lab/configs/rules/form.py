"""Rules about the form of a config file: its TOML, its keys and their types, and credentials in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from prime_lab_mcp.lab.base.codes import Code
from prime_lab_mcp.lab.base.errors import BadInput
from prime_lab_mcp.lab.base.fix import Fix, NamedCall
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.text import key_path, quote, redact
from prime_lab_mcp.lab.configs.config import TrainingConfig, text_with_name
from prime_lab_mcp.lab.configs.context import ConfigContext, ConfigRule
from prime_lab_mcp.lab.configs.older_platforms import (
    OldKey,
    old_keys_in,
    old_reading_here,
    reading_difference,
    translate_key,
)
from prime_lab_mcp.lab.configs.schema import SCHEMA_COMMIT, SchemaKind, SchemaProblem, schema_problems, tables_of_key

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)S?$", re.I)
_CODES: Mapping[str, Code] = {"type": "config-wrong-type", "missing": "config-missing-table"}
_ANY_NAME = "run-00000000"
"""A name like those that a submission gives to a run."""
_MOST_LISTED = 20
"""Most findings of one rule. Further problems are only counted, so that the report stays readable."""


def retired_shape(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The file must not have the shared-LoRA shape, which `prime train` refuses (exit code 1)."""
    shape = 'a top-level model = "..."' if isinstance(config.table.get("model"), str) else "[[env]] tables"
    yield Finding(
        "migration",
        "blocker",
        f"This is a shared-LoRA config ({shape}), a shape that Hosted Training no longer accepts; "
        "it runs prime-rl configs on dedicated clusters now.",
        Fix(
            "Call ",
            NamedCall("write_training_config", based_on=...).shown("write_training_config(based_on=this file)"),
            ": it writes the present shape and lists every change.",
        ),
        config.path.name,
        tuple({"key": path, "to": old.to or "dropped", "why": old.why} for path, old in old_keys_in(config.table))[
            :_MOST_LISTED
        ],
    )


def lenient_toml(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The parser of `prime train` must read the file like a parser of TOML 1.0.

    `prime train` uses the old package `toml`, which accepts some invalid texts (`x = [`) and refuses some valid ones.
    """
    reading = old_reading_here(config.text) or context.read_by_prime
    if reading is None:
        yield Finding(
            "config-toml-unchecked",
            "info",
            "The parser that `prime train` uses (package toml) is not installed here, so its reading was not compared.",
            "Nothing to do; preflight(install=true) installs it if you want the comparison.",
        )
        return
    if reading.table is None:
        reason = quote(reading.refused or "no reason given", limit=160)
        yield Finding(
            "config-toml-dialect",
            "blocker",
            f"The file is valid TOML, but the older parser of `prime train` refuses it: {reason}",
            "Write it plainer: no arrays of mixed types, one key per line, tables as [table] headers.",
            config.path.name,
        )
        return
    if (where := reading_difference(config.table, reading)) is not None:
        yield Finding(
            "config-toml-dialect",
            "blocker",
            f"`prime train` reads this file differently from TOML 1.0: the two disagree at {quote(where, limit=120)}.",
            f"Write {where or 'the file'} plainer: tables as [table] headers, one key per line.",
            config.path.name,
        )
    elif (where := _difference_when_sent(config)) is not None:
        yield Finding(
            "config-toml-dialect",
            "blocker",
            f"`prime train` reads this file differently once the name of the run stands in it: at "
            f"{quote(where, limit=120)}.",
            Fix("Write it plainer, or anew with ", NamedCall("write_training_config", based_on=...), "."),
            config.path.name,
        )


def _difference_when_sent(config: TrainingConfig) -> str | None:
    """The first difference between the two readings of the text that a submission sends; None without one."""
    try:
        sent = text_with_name(config.text, _ANY_NAME)
    except BadInput:
        return None  # the submission says so
    reading = old_reading_here(sent)
    if reading is None:
        return None
    named = {**config.table, "name": _ANY_NAME}
    return reading_difference(named, reading) if reading.table is not None else config.path.name


def schema_keys(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """Every key must be in prime-rl's schema and have a value of the right type. prime-rl refuses unknown keys."""
    kind: SchemaKind = "sft" if config.shape == "sft" else "rl"
    old = dict(old_keys_in(config.table)) if kind == "rl" else {}
    old.pop("type", None)
    for path, key in list(old.items())[:_MOST_LISTED]:
        yield _old_key(config, path, key)
    problems = [p for p in schema_problems(config.table, kind) if not any(_covers(path, p.key) for path in old)]
    for problem in problems[:_MOST_LISTED]:
        yield _schema_finding(config, problem, kind)
    if len(problems) > _MOST_LISTED:
        yield Finding(
            "config-unknown-key",
            "blocker",
            f"{len(problems) - _MOST_LISTED} more keys do not fit the schema.",
            Fix(
                "Mend the ones shown first, then check again; or write the file anew with ",
                NamedCall("write_training_config"),
                ".",
            ),
            config.path.name,
        )


def no_secrets(config: TrainingConfig, context: ConfigContext) -> Iterator[Finding]:
    """The file must not contain credentials, because the platform gets the whole file and stores it with the run."""
    for path, value in _strings(config.table, ""):
        has_secret_name = ".env_vars." in f".{path}" and bool(_SECRET_NAME.search(path)) and bool(value)
        if has_secret_name or redact(value) != value:
            yield Finding(
                "config-secret",
                "blocker",
                f"The value of {path} looks like a secret; the file is stored with the run.",
                "Remove it. WANDB_API_KEY and HF_TOKEN are passed from your environment; other secrets belong to the "
                "environment on the Hub (`prime env secret create`).",
                path,
            )


FORM_RULES: tuple[ConfigRule, ...] = (lenient_toml, schema_keys, no_secrets)
SFT_FORM_RULES: tuple[ConfigRule, ...] = (lenient_toml, schema_keys, no_secrets)


def _old_key(config: TrainingConfig, path: str, key: OldKey) -> Finding:
    to = f"write {key.to} instead" if key.to else "remove it"
    return Finding(
        "config-old-key",
        "blocker",
        f"{path} is a key of an earlier platform: {key.why}.",
        Fix(
            f"{to[0].upper()}{to[1:]}, or call ",
            NamedCall("write_training_config", based_on=...).shown(
                f"write_training_config(based_on={config.path.name!r})"
            ),
            " to have it done.",
        ),
        path,
    )


def _schema_finding(config: TrainingConfig, problem: SchemaProblem, kind: SchemaKind) -> Finding:
    if problem.kind == "unknown":
        if kind == "rl" and (key := translate_key(problem.key)):
            return _old_key(config, problem.key, key)
        name = problem.key.rpartition(".")[2]
        elsewhere = [h for h in tables_of_key(kind).get(name, ()) if h != problem.key]
        fix = "Remove it: prime-rl refuses every key it does not know."
        if problem.near:
            fix = f"Did you mean {problem.near}? Else remove it."
        elif elsewhere:
            fix = f"It belongs to {elsewhere[0]}; move it there, or remove it."
        code: Code = "config-unknown-key"
    else:
        code = _CODES.get(problem.kind, "config-bad-value")
        fix = f"Did you mean {problem.near}?" if problem.near else f"Correct the value of {problem.key}."
        if problem.kind == "missing":
            fix = f"Add [{problem.key}]; the table may be empty."
    return Finding(
        code,
        "blocker",
        f"{quote(problem.key, limit=120)} {problem.problem} (prime-rl schema {SCHEMA_COMMIT[:8]}).",
        fix,
        problem.key,
    )


def _covers(path: str, key: str) -> bool:
    return key == path or path.startswith(f"{key}.") or key.startswith((f"{path}.", f"{path}["))


def _strings(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _strings(inner, f"{path}.{key_path((name,))}" if path else key_path((name,)))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strings(inner, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value
