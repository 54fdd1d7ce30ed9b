"""What a trial scored, kept so that it can be looked at whole and its failing cases tried again with one call.

Two files per environment, in the state directory and replaced by each trial: every completion with what it earned
(JSON Lines), and the cases behind the findings as a list that test_reward takes.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from prime_lab_mcp.lab.checks.shown import case_row
from prime_lab_mcp.lab.errors import BadInput
from prime_lab_mcp.lab.report import Finding, Next
from prime_lab_mcp.lab.rewards.observed import Expected, Shot, Trial
from prime_lab_mcp.lab.rewards.probes import assistant
from prime_lab_mcp.lab.text import escape, redact

LAST = "last"
"""The name under which test_reward takes the failing cases of the last trial instead of a file."""
INLINE = 400
"""Characters of a completion that a report holds whole; longer ones are in the file only."""
_RIGHT = frozenset({"gold", "verbose", "equivalent", "trailing"})


class Kept:
    """The files of one environment. `folder` is made when something is written."""

    def __init__(self, state: Path, workspace: Path, environment: str) -> None:
        digest = hashlib.sha256(f"{workspace}\0{environment}".encode()).hexdigest()
        self.folder = state / "rewards" / digest[:16]
        self.environment = environment

    @property
    def table(self) -> Path:
        return self.folder / "completions.jsonl"

    @property
    def failing(self) -> Path:
        return self.folder / "failing.json"

    def cases(self) -> list[Any]:
        """The failing cases of the last trial that had any. Raises BadInput where there are none."""
        try:
            found = json.loads(self.failing.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            found = None
        if not isinstance(found, list):
            raise BadInput(
                "no failing cases are kept of this environment",
                fix="Call test_reward without cases_file first.",
                code="bad-cases",
                next=(Next("test_reward", "finds failing cases", {"environment": self.environment}),),
            )
        return found

    def write_table(self, trial: Trial) -> None:
        lines = (json.dumps(_line(shot)) for shot in trial.everything)
        self._write(self.table, "".join(f"{line}\n" for line in lines))

    def write_failing(self, cases: Sequence[Mapping[str, Any]]) -> None:
        self._write(self.failing, json.dumps(list(cases), indent=1))

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all: another server may read it at the same time."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=path.name)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)


def case_of(shot: Shot, expected: Expected | None = None) -> dict[str, Any]:
    """A scored completion as a case that test_reward takes. What is not right must earn little."""
    if expected is None:
        expected = "high" if shot.probe.kind in _RIGHT else "low"
    return {"name": shot.probe.name, "task": shot.probe.row, "completion": _completion(shot), "expected": expected}


def fits(case: Mapping[str, Any]) -> bool:
    """Whether a case may stand whole in a report: short, without characters that act on their reader, no secret."""
    text = json.dumps(case["completion"], ensure_ascii=False)
    return len(text) <= INLINE and escape(text) == text and redact(text) == text


def behind(findings: Iterable[Finding], trial: Trial) -> list[tuple[Mapping[str, Any], dict[str, Any]]]:
    """The rows of findings that show a scored completion, each with its case, in order and once."""
    rows: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for finding in findings:
        for row in finding.rows:
            if "case" in row and "completion" in row:
                rows.setdefault(_key(row), row)
    wanted = {key[:2] for key in rows}
    expected = {id(s.shot): s.expected for s in trial.supplied}
    cases: dict[tuple[Any, ...], dict[str, Any]] = {}
    for shot in (*trial.everything, *(Shot(r.probe, r.first) for r in trial.repeats)):
        if (shot.probe.name, shot.probe.row) in wanted:
            cases.setdefault(_key(case_row(shot, "", trial)), case_of(shot, expected.get(id(shot))))
    return [(row, cases[key]) for key, row in rows.items() if key in cases]


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["case"], row["task"], row["completion"]


def _completion(shot: Shot) -> Any:
    messages = shot.probe.messages
    text = shot.probe.completion
    return text if messages == assistant(text) else [dict(m) for m in messages]


def _line(shot: Shot) -> dict[str, Any]:
    line = {**case_of(shot), "kind": shot.probe.kind, "reward": shot.reward}
    line["components"] = {name: part.score for name, part in shot.scored.components.items()}
    if shot.scored.problems:
        line["problems"] = list(shot.scored.problems)
    return line
