"""Our offline check refuses what prime-rl's own classes refuse.

No package index has the classes, so their verdicts on the mutated configs are recorded in agreement/verdicts.json.
Where PRIME_RL_CONFIGS_PYTHON names a Python that has the classes, they judge again, and judge what the tools write and
migrate too; elsewhere those tests are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from prime_lab_mcp.lab.base.versions import PRIME_RL_COMMIT
from prime_lab_mcp.lab.configs.config import parse_config
from tests.lab.configs.agreement.cases import AgreementCase, mutated
from tests.lab.configs.agreement.table import (
    JUDGE_VARIABLE,
    VERDICTS,
    Verdicts,
    blockers_of,
    compared,
    judge_python,
    refusals,
)
from tests.lab.configs.test_grid import COVERING, OLDER, choices, made, overrides

FALSE_PASSES: Mapping[str, str] = {
    "other-env-unknown-key": "an environment whose class is not known here may have a key of its own: a warning",
}
"""Mutations that prime-rl refuses and our check lets pass, with the reason."""
STRICTER: Mapping[str, str] = {
    "type-bool-for-int": "pydantic reads true as 1, which makes groups of one",
    "shared-model-parts": "the trainer would train another model than the one that samples",
    "resume": "hosted: nothing proves the checkpoint; submit_training(resume_from=RUN) does",
    "serve-address": "hosted: a server elsewhere may hold another environment than the one that was proven",
    "resume-step": "hosted: as resume",
    "resume-dir": "hosted: as resume",
    "resume-shared-wins": "hosted: as resume",
    "gpus-no-inference-full": "hosted: the platform refuses runs without inference (prime 0.18.0)",
    "nccl-one-gpu": "hosted: as gpus-no-inference-full",
    "multi-node-disaggregated": "hosted: the platform refuses disaggregated inference (prime 0.18.0)",
    "vlm": "prime-rl's trainer has no vision implementation of that model; the classes do not look at it",
    "lax-number-as-text": "pydantic reads text as a number; a file should say what it means",
    "lax-bool-as-number": "pydantic reads 0 as false",
}
"""Mutations that prime-rl's classes accept and our check refuses, with the reason."""
COUNTS = {"refused": 508, "agreed": 506}
"""How many mutated configs prime-rl refuses, and how many of them our check refuses too."""

needs_judge = pytest.mark.skipif(
    judge_python() is None,
    reason=f"{JUDGE_VARIABLE} names no Python with prime-rl's config classes, which no package index has",
)


def mutation(name: str) -> str:
    return name.partition("/")[2]


def recorded() -> dict[str, bool]:
    record = json.loads(VERDICTS.read_text(encoding="utf-8"))
    assert record["prime_rl"] == PRIME_RL_COMMIT, "the verdicts are of another prime-rl: run the module again"
    return dict.fromkeys(record["refused"], True) | dict.fromkeys(record["accepted"], False)


@pytest.fixture(scope="module")
def table() -> list[Verdicts]:
    refused, cases = recorded(), list(mutated())
    missing = [case.name for case in cases if case.name not in refused]
    assert not missing, f"not judged yet: {missing[:5]}; run python -m tests.lab.configs.agreement with the judge"
    return [Verdicts(case, "refused" if refused[case.name] else None, blockers_of(case)) for case in cases]


def test_nothing_that_prime_rl_refuses_passes_outside_of_the_list(table: list[Verdicts]) -> None:
    assert {mutation(row.case.name) for row in table if row.false_pass} == set(FALSE_PASSES)


def test_nothing_that_prime_rl_accepts_is_refused_outside_of_the_list(table: list[Verdicts]) -> None:
    assert {mutation(row.case.name) for row in table if row.stricter} == set(STRICTER)


def test_the_agreement_does_not_drop(table: list[Verdicts]) -> None:
    refused = [row for row in table if row.refusal is not None]
    agreed = [row for row in refused if row.blockers]
    assert {"refused": len(refused), "agreed": len(agreed)} == COUNTS


# With prime-rl's classes


def written() -> Iterator[AgreementCase]:
    for number, one in enumerate(COVERING):
        if (config := made(choices(one))) is not None:
            yield AgreementCase(f"written/{number}", other_taskset(config.text), config.target)


def migrated() -> Iterator[AgreementCase]:
    for name, text in OLDER.items():
        base = parse_config(text, Path("old.toml"))
        for number, asked in enumerate(overrides()):
            if (config := made(asked, base)) is not None:
                yield AgreementCase(f"migrated/{name}/{number}", other_taskset(config.text), config.target)


def other_taskset(text: str) -> str:
    """The same config on a taskset that takes every key, because older files pass keys that `tiny-env` lacks."""
    return text.replace("tiny-env", "open-env")


@pytest.mark.slow
@needs_judge
def test_the_recorded_verdicts_are_those_of_prime_rl() -> None:
    python = judge_python()
    assert python is not None
    verdicts = refusals(python, mutated())
    assert {name: refusal is not None for name, refusal in verdicts.items()} == recorded()


@pytest.mark.slow
@needs_judge
def test_prime_rl_accepts_what_the_tools_write_and_migrate() -> None:
    python = judge_python()
    assert python is not None
    cases = [*written(), *migrated()]
    rows = compared(cases, refusals(python, cases))
    assert len(rows) > 100
    assert [(row.case.name, row.refusal) for row in rows if row.refusal is not None] == []
    assert [(row.case.name, row.blockers) for row in rows if row.blockers] == []
