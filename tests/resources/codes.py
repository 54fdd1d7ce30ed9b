"""Every finding code that the source can emit, read from its syntax trees.

A code is a constant at one of the places below. Where it is computed, `COMPUTED` says what comes out; an expression
that is not listed there makes the test fail, so that no code escapes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from prime_lab_mcp.lab.evals.runner.endings import FAILURE_CODES

ROOT = Path(__file__).parents[2] / "prime_lab_mcp"
FIRST = {
    "Finding": "",
    "ReadinessPoint": "",
    "tally_finding": "",
    "_Kind": "",
    "Anomaly": "run-",
    "prime_rl_refuses": "",
}
"""Calls whose first argument is a code, each with what is put before it."""
FIRST_IN = {
    ("server/approval.py", "_refused"),
    ("lab/datasets/hub_dataset.py", "failed"),
}
"""The same, of functions with common names, by the file that defines them."""
BY_NAME = ("hack_finding", "_unsteady", "SanityCheck")
"""Calls that take a code among other texts: an argument that is a code of its own kind."""
PASSED_ON: frozenset[tuple[str, str]] = frozenset(
    {
        ("lab/rewards/rules/scoring.py", "code"),
        ("lab/datasets/tasks.py", "code"),
        ("lab/evals/hosted/evaluation.py", "recorded_code(str(failure['code']))"),
        ("lab/prime/refusals.py", "code"),
        ("lab/datasets/hub_dataset.py", "code"),
        ("server/approval.py", "code"),
        ("lab/configs/schema.py", "code"),
        ("tools/training_report.py", "recorded_code(f'run-{anomaly.code}')"),
        ("lab/rewards/rules/known_answers.py", "code"),
    }
)
"""Where a code is handed on that another place names. An attribute `.code` always is: whoever set it named the code."""
COMPUTED: dict[tuple[str, str], tuple[str, ...]] = {
    ("lab/rewards/rules/amounts.py", "code"): ("reward-hackable",),
    ("lab/environment/static_checks.py", "code"): ("project-name-missing", "project-version-missing"),
    ("lab/configs/rules/form.py", "code"): (
        "config-unknown-key",
        "config-wrong-type",
        "config-missing-table",
        "config-bad-value",
    ),
    ("lab/datasets/column_choice.py", "code"): ("prompt-column-uncertain", "answer-column-uncertain"),
    ("lab/distribution/rules.py", "code"): ("distribution-too-hard", "distribution-too-easy"),
    ("lab/distribution/rules.py", "mostly"): (
        "distribution-too-hard-mostly",
        "distribution-too-easy-mostly",
    ),
    ("lab/evals/runner/endings.py", "code"): ("eval-crashed", "eval-stopped", *sorted(FAILURE_CODES)),
}
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
            computed = _constants(value)
            if computed is None:
                expression = ast.unparse(value)
                computed = COMPUTED.get((relative, expression), ())
                handed_on = isinstance(value, ast.Attribute) and value.attr == "code"
                if not computed and not handed_on and (relative, expression) not in PASSED_ON:
                    unknown.append(f"{relative}:{value.lineno}: {expression}")
            for code in computed:
                codes.setdefault(prefix + code, set()).add(relative)
    return codes, unknown


def _places(tree: ast.Module, relative: str) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(target, "id", "") == "default_code" for target in targets):
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
        elif name.endswith(("Error", "Input")) or name in ("Unreadable", "PrimeRefusal", "LabError"):
            yield from (("", k.value) for k in node.keywords if k.arg == "code")


def _constants(value: ast.expr) -> tuple[str, ...] | None:
    if isinstance(value, ast.Constant):
        return (value.value,) if isinstance(value.value, str) else ()
    if isinstance(value, ast.IfExp):
        both = _constants(value.body), _constants(value.orelse)
        return None if None in both else (both[0] or ()) + (both[1] or ())
    return None


def expanded(codes: str) -> list[str]:
    """The codes of a list: `a-{b c-{d e}} f` is a-b, a-c-d, a-c-e and f."""
    while "{" in codes:
        codes = re.sub(r"([^\s{]+)-\{([^{}]*)\}", lambda m: " ".join(f"{m[1]}-{code}" for code in m[2].split()), codes)
    return codes.split()
