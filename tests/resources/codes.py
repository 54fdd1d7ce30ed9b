"""Every finding code that the source can emit, read from its syntax trees.

A code is a constant at one of the places below. Where it is computed, `COMPUTED` says what comes out; an expression
that is not listed there makes the test fail, so that no code escapes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from prime_lab_mcp.lab.evals.failures import CAUSES

ROOT = Path(__file__).parents[2] / "prime_lab_mcp"
FIRST = {"Finding": "", "Point": "", "tallied": "", "_Kind": "", "Anomaly": "run-"}
"""Calls whose first argument is a code, each with what is put before it."""
FIRST_IN = {
    ("server/approval.py", "_refused"),
    ("lab/configs/rules_trainer.py", "_refused"),
    ("lab/worker/hub_dataset.py", "failed"),
}
"""The same, of functions with common names, by the file that defines them."""
BY_NAME = ("hack", "_unsteady", "Sanity")
"""Calls that take a code among other texts: an argument that is a code of its own kind."""
PASSED_ON: frozenset[tuple[str, str]] = frozenset({
    ("lab/checks/scoring.py", "code"),
    ("lab/datasets/checks_gold.py", "code"), ("lab/datasets/reading.py", "told['code']"),
    ("lab/errors.py", "self.code"), ("lab/models/points.py", "self.code"), ("lab/evals/hosted/follow.py", "error.code"),
    ("lab/evals/hosted/calls.py", "str(failure['code'])"),
    ("lab/refused_push.py", "refused.code"), ("lab/prime/refusals.py", "kind.code"), ("lab/prime/refusals.py", "code"),
    ("lab/prime/refusals.py", "_UNREACHABLE.code"), ("lab/worker/hub_dataset.py", "code"),
    ("server/approval.py", "code"), ("tools/check_environment.py", "finding.code"),
    ("lab/configs/rules_trainer.py", "code"),
    ("tools/test_reward.py", "check.code"), ("tools/watch_run.py", "error.code"),
    ("tools/watched_training.py", "f'run-{anomaly.code}'"), ("lab/checks/supplied_cases.py", "code"),
})  # fmt: skip
"""Where a code is handed on that another place names."""
COMPUTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("lab/capabilities.py", "f'{package}-missing'"): ("verifiers-missing", "datasets-missing"),
    ("lab/checks/shown.py", "code or 'reward-hackable'"): ("reward-hackable",),
    ("lab/checks/static.py", "f'project-{field}-missing'"): ("project-name-missing", "project-version-missing"),
    ("lab/configs/rules_form.py", "code"): (
        "config-unknown-key", "config-wrong-type", "config-missing-table", "config-bad-value",
    ),
    ("lab/datasets/doubts.py", "f'{kind}-column-uncertain'"): ("prompt-column-uncertain", "answer-column-uncertain"),
    ("lab/distribution/rules.py", "code"): ("distribution-too-hard", "distribution-too-easy"),
    ("lab/distribution/rules.py", "f'{code}-mostly'"): (
        "distribution-too-hard-mostly", "distribution-too-easy-mostly",
    ),
    ("lab/evals/hosted/calls.py", "f'eval-{job.state}'"): ("eval-crashed", "eval-stopped"),
    ("lab/publish.py", "f'no-{lacking}'"): ("no-name", "no-version"),
    ("tools/control_run.py", "f'run-not-{needed.lower()}'"): ("run-not-running", "run-not-paused"),
    ("lab/evals/failures.py", "code"): ("eval-crashed", "eval-stopped", *sorted(CAUSES)),
}  # fmt: skip
REWARD = "reward-"


def emitted() -> tuple[dict[str, set[str]], list[str]]:
    """Codes with the files that name them, and the computed expressions that are not accounted for."""
    codes: dict[str, set[str]] = {}
    unknown: list[str] = []
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith("resources/"):
            continue
        for prefix, value in _places(ast.parse(path.read_text(encoding="utf-8")), relative):
            told = _constants(value)
            if told is None:
                said = ast.unparse(value)
                told = COMPUTED.get((relative, said), ())
                if not told and (relative, said) not in PASSED_ON:
                    unknown.append(f"{relative}:{value.lineno}: {said}")
            for code in told:
                codes.setdefault(prefix + code, set()).add(relative)
    return codes, unknown


def _places(tree: ast.Module, relative: str) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "default_code" for t in node.targets):
            yield "", node.value
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in FIRST and node.args:
            yield FIRST[name], node.args[0]
        elif (relative, name) in FIRST_IN and node.args:
            yield "", node.args[0]
        elif name in BY_NAME:
            yield from (("", a) for a in node.args if isinstance(a, ast.Constant) and str(a.value).startswith(REWARD))
        elif name.endswith(("Error", "Input")) or name in ("Unreadable", "Refusal", "LabError"):
            yield from (("", k.value) for k in node.keywords if k.arg == "code")


def _constants(value: ast.expr) -> tuple[str, ...] | None:
    if isinstance(value, ast.Constant):
        return (value.value,) if isinstance(value.value, str) else ()
    if isinstance(value, ast.IfExp):
        both = _constants(value.body), _constants(value.orelse)
        return None if None in both else (both[0] or ()) + (both[1] or ())
    return None


def expanded(codes: str) -> list[str]:
    """The codes of a list: `a-{b c} d` is a-b, a-c and d."""
    whole = re.sub(r"(\S+)-\{([^}]*)\}", lambda m: " ".join(f"{m[1]}-{code}" for code in m[2].split()), codes)
    return whole.split()
