"""Tries the rewards of the corpus through the call path, all in one lab: check_environment, then test_reward."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import anyio
import platformdirs

from prime_lab_mcp.lab.environment import load_check
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.lab.base.report import Finding
from prime_lab_mcp.lab.base.report import Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.call import Calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.flaws.corpus import Expected, Sample
from tests.support.packages import pyproject
from tests.support.interpreters import DATASETS, MATH_VERIFY, OLDEST, share

Verdict = Literal[
    "found", "found by check", "weak", "other code", "missed", "sound", "false alarm", "no verdict", "error"
]
LIMIT = 300.0
"""Seconds after which both tools together should long have answered."""
GOOD: frozenset[Verdict] = frozenset({"found", "found by check", "sound"})
_V0 = (OLDEST, DATASETS, MATH_VERIFY)
"""The same for every v0 sample, so that one interpreter serves them all."""
_V1 = ("verifiers>=0.4.0,<0.5",)
_README = """\
# {project}

## Dataset

Made-up questions, about a hundred.

## Input and output

A question; the form of the answer stands in the system prompt.

## Reward

One for the right answer.

## Usage

`vf-eval {project}`
"""


@dataclass(frozen=True, slots=True)
class Result:
    """What the tools said about one sample. `tested` is None where a finding of check_environment refused the test."""

    sample: Sample
    checked: Report | None
    tested: Report | None
    seconds: float
    late: bool = False
    """The tools had not answered within `LIMIT`."""

    @property
    def verdict(self) -> Verdict:
        last = self.tested or self.checked
        if self.late or last is None:
            return "no verdict"
        if last.status == "error":
            return "error"
        if self.sample.expected is None:
            return "sound" if last.status == "passed" else "false alarm"
        return self._of_flaw()

    def _of_flaw(self) -> Verdict:
        wanted = self.sample.expected
        assert wanted is not None
        if any(_meets(f, wanted) for f in _findings(self.tested)):
            return "found"
        if any(_meets(f, wanted) for f in _findings(self.checked)):
            return "found by check"
        if any(f.code in wanted.codes for f in self.findings):
            return "weak"
        return "other code" if any(f.severity == "blocker" for f in self.findings) else "missed"

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Of both tools."""
        return (*_findings(self.checked), *_findings(self.tested))

    @property
    def codes(self) -> list[str]:
        """Codes of test_reward, else of the check's blockers (marked `check:`); warnings stand in brackets."""
        if self.tested is not None:
            return list(dict.fromkeys(_code(f) for f in self.tested.findings if f.severity != "info"))
        return list(dict.fromkeys(f"check:{f.code}" for f in _findings(self.checked) if f.severity == "blocker"))


def _findings(report: Report | None) -> tuple[Finding, ...]:
    return tuple(report.findings) if report is not None else ()


def _meets(finding: Finding, wanted: Expected) -> bool:
    return finding.code in wanted.codes and finding.severity in ("blocker", wanted.severity)


def _code(finding: Finding) -> str:
    return finding.code if finding.severity == "blocker" else f"({finding.code})"


@asynccontextmanager
async def opened() -> AsyncIterator[Calls]:
    """The calls of one lab on scratch folders. Interpreters are kept in the user's cache folder between runs."""
    with tempfile.TemporaryDirectory(prefix="flaws-", ignore_cleanup_errors=True) as folder:
        root = Path(folder)
        (root / "workspace" / "environments").mkdir(parents=True)
        settings = Settings(workspace=root / "workspace", state_dir=root / "state")
        share(settings)
        lab = Lab(settings)
        try:
            yield Calls(lab, TOOLS, References())
        finally:
            await lab.close()


@contextmanager
def without_wheels() -> Iterator[None]:
    """check_environment builds no wheel and does not load from it: half of its time, and no sample is about wheels."""
    whole = load_check.check_loading

    async def load(*given: Any, **named: Any) -> load_check.LoadCheck:
        return await whole(*given, **(named | {"with_wheel": False}))

    with patch.object(load_check, "check_loading", load):
        yield


async def tried(calls: Calls, sample: Sample) -> Result:
    """Write the sample as a package of the lab's workspace and call both tools on it."""
    folder = calls.lab.workspace.environments / sample.name
    write(folder, sample)
    started = time.monotonic()
    given: Mapping[str, Any] = {"environment": sample.name}
    checked = tested = None
    with anyio.move_on_after(LIMIT) as clock:
        checked = await calls.execute("check_environment", given)
        cases = {"cases": list(sample.cases)} if sample.cases else {}
        tested = await calls.execute("test_reward", {**given, **cases}) if checked.status == "passed" else None
    return Result(sample, checked, tested, time.monotonic() - started, clock.cancelled_caught)


def write(folder: Path, sample: Sample) -> None:
    """The package of one sample."""
    folder.mkdir(parents=True)
    project = sample.name.replace("_", "-")
    needed = _V0 if sample.generation == "v0" else (*_V1, *sample.requires)
    shutil.copyfile(sample.path, folder / f"{sample.name}.py")
    text = pyproject(
        project, description="A sample of the reward corpus.", dependencies=needed, tags=["single-turn"], readme=True,
        wheel=f'only-include = ["{sample.name}.py"]',
    )
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(_README.format(project=project), encoding="utf-8")
