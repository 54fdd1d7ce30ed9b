"""The agreement table: the verdict of our offline check beside the verdict of prime-rl's own classes."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from prime_lab_mcp.lab.configs.examine import config_findings
from prime_lab_mcp.lab.configs.schema import PLATFORM_KEYS
from tests.lab.configs.agreement.cases import AgreementCase

JUDGE_VARIABLE = "PRIME_RL_CONFIGS_PYTHON"
"""Environment variable with the path of a Python that can import `prime_rl.configs`."""
VERDICTS = Path(__file__).with_name("verdicts.json")
"""The recorded verdicts of prime-rl's classes on the mutated configs, which `python -m` of this package writes."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Two verdicts on one config. `refusal`: what prime-rl says; `blockers`: our codes."""

    case: AgreementCase
    refusal: str | None
    blockers: tuple[str, ...]

    @property
    def false_pass(self) -> bool:
        return self.refusal is not None and not self.blockers

    @property
    def stricter(self) -> bool:
        return self.refusal is None and bool(self.blockers)


def blockers_of(case: AgreementCase) -> tuple[str, ...]:
    findings = config_findings(case.config, case.context)
    return tuple(dict.fromkeys(str(f.code) for f in findings if f.severity == "blocker"))


def judge_python() -> Path | None:
    named = os.environ.get(JUDGE_VARIABLE)
    return Path(named) if named else None


def refusals(python: Path, cases: Iterable[AgreementCase]) -> Mapping[str, str | None]:
    """The refusals of prime-rl's classes by the name of the case; None for an accepted config."""
    request = {
        "platform_keys": list(PLATFORM_KEYS),
        "cases": {c.name: {"text": c.text, "target": c.target, "mode": c.mode} for c in cases},
    }
    done = subprocess.run(
        [str(python), "-I", str(Path(__file__).with_name("judge.py"))],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, str | None] = json.loads(done.stdout[done.stdout.index("{") :])
    return found


def compared(cases: Iterable[AgreementCase], verdicts: Mapping[str, str | None]) -> list[Verdicts]:
    return [Verdicts(case, verdicts[case.name], blockers_of(case)) for case in cases]
