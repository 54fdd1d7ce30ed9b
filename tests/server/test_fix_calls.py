"""The calls that the fix of a finding names are recommended, for every fix that the source holds."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import pickle
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
from mcp import Client

from prime_lab_mcp.lab.base.errors import PASSING
from prime_lab_mcp.lab.base.fix import Fix, FixCall, NamedCall, SameCall, calls_record
from prime_lab_mcp.lab.base.report import Finding, Report
from prime_lab_mcp.lab.base.settings import Settings
from prime_lab_mcp.lab.base.text import quote
from prime_lab_mcp.lab.lab import Lab
from prime_lab_mcp.resources.catalog import References
from prime_lab_mcp.server.app import build_server
from prime_lab_mcp.server.fix_calls import calls_of_fix
from prime_lab_mcp.server.next_calls import PresentCall, with_right_calls
from prime_lab_mcp.tools.registry import TOOLS
from tests.resources.codes import ROOT
from tests.support.next_calls import problems_of
from tests.support.required_arguments import REQUIRED_ARGUMENTS

pytestmark = pytest.mark.anyio
BY_NAME = {tool.name: tool for tool in TOOLS}
ARGUMENTS = {tool.name: tool.args for tool in TOOLS}
NAMES = re.compile(rf"(?<![\w/])({'|'.join(BY_NAME)})(?!\w)")
DEFAULT_CODES = {
    "BadInput": "bad-input",
    "EvalError": "eval-failed",
    "InterpreterError": "interpreter-unavailable",
    "LabError": "lab-error",
    "PrimeError": "prime-failed",
    "ProcessError": "process-failed",
    "WorkerError": "worker-failed",
}
NAMED_ONLY = {
    "Leave compare_base out": "the call without compare_base comes first; this call always has it",
    "Where the defaults do not load here": "says what a later push takes",
    "Look at it with search_hub": "the environment's name is in a call that names one",
}
"""Fixes, by a part of their text, that name a tool without a call to make now, each with the reason."""


@dataclass(frozen=True)
class StatedFix:
    """A fix in the source. `code`: of its finding, where the place names it."""

    where: str
    code: str
    fix: str


class SourceReader:
    """Makes the fixes that a module states, with 7 for every part that is computed."""

    def __init__(self, module: str) -> None:
        self._names: Mapping[str, Any] = vars(importlib.import_module(module))

    def fixes(self, node: ast.expr) -> list[str]:
        """Each sentence that an expression can be."""
        if isinstance(node, ast.IfExp):
            return [*self.fixes(node.body), *self.fixes(node.orelse)]
        return [self._text(node)]

    def _text(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant):
            return str(node.value)
        if isinstance(node, ast.JoinedStr):
            return "".join(self._text(part) for part in node.values)
        if isinstance(node, ast.BinOp):
            return self._text(node.left) + self._text(node.right)
        if isinstance(node, ast.IfExp):
            return self._text(node.body)
        if isinstance(node, ast.Name) and isinstance(self._names.get(node.id), str):
            return cast(str, self._names[node.id])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Fix":
            return Fix(*(one for part in node.args for one in self._parts(part)))
        node = node.value if isinstance(node, ast.FormattedValue) else node
        return '"7"' if isinstance(node, ast.Call) and ast.unparse(node.func) == "quote" else "7"

    def _parts(self, node: ast.expr) -> list[str | FixCall]:
        if isinstance(node, ast.Starred):
            chosen = node.value.body if isinstance(node.value, ast.IfExp) else node.value
            return [one for part in cast(ast.Tuple, chosen).elts for one in self._parts(part)]
        call = self._call(node)
        return [call if call is not None else self._text(node)]

    def _call(self, node: ast.expr) -> FixCall | None:
        """The call that an expression makes; None for any other expression."""
        if isinstance(node, ast.Attribute):
            call = self._call(node.value)
            return getattr(call, node.attr) if call is not None else None
        if not isinstance(node, ast.Call):
            return None
        given = [self._text(argument) for argument in node.args]
        values = {str(keyword.arg): self._value(str(keyword.arg), keyword.value) for keyword in node.keywords}
        if isinstance(node.func, ast.Name) and node.func.id in ("NamedCall", "SameCall"):
            return (NamedCall if node.func.id == "NamedCall" else SameCall)(*given, **values)
        if not isinstance(node.func, ast.Attribute):
            return None
        if ast.unparse(node.func.value) == "SameCall":
            return SameCall.without(*given)
        call = self._call(node.func.value)
        return getattr(call, node.func.attr)(*given, **values) if call is not None else None

    def _value(self, name: str, node: ast.expr) -> Any:
        try:
            return ast.literal_eval(node)
        except ValueError:
            takes_text = any(
                arguments.model_fields[name].annotation in (str, str | None)
                for arguments in ARGUMENTS.values()
                if name in arguments.model_fields
            )
            return "7" if takes_text else 7


@functools.cache
def stated_fixes() -> tuple[StatedFix, ...]:
    """Every fix of a blocker or an error in the source."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        relative = path.relative_to(ROOT).as_posix()
        if relative.startswith(("resources/", "cli/", "dashboard/", "lab/worker/child/")):
            continue
        reader = SourceReader(".".join((ROOT.name, *path.relative_to(ROOT).with_suffix("").parts)))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            if name == "Finding" and len(node.args) >= 4 and ast.unparse(node.args[1]) == "'blocker'":
                code, fix = reader.fixes(node.args[0])[0], node.args[3]
            elif "fix" in named and "next" not in named:
                code = reader.fixes(named["code"])[0] if "code" in named else DEFAULT_CODES.get(name, "")
                fix = named["fix"]
            else:
                continue
            found += [StatedFix(f"{relative}:{node.lineno}", code, one) for one in reader.fixes(fix)]
    return tuple(found)


@functools.cache
def fixes_that_name_a_tool() -> tuple[StatedFix, ...]:
    return tuple(fix for fix in stated_fixes() if NAMES.search(fix.fix))


def shown_by(code: str) -> list[str]:
    """The tools whose reports hold a code, as its page says."""
    page = References().page(f"finding/{code}") or ""
    listed = re.search(r"\*\*Shown by\*\*(.*)", page, re.DOTALL)
    return [name for name in re.findall(r"`(\w+)", listed[1] if listed else "") if name in BY_NAME]


def callers(fix: StatedFix) -> list[str]:
    """The tools that can answer with a fix."""
    module = Path(fix.where.partition(":")[0])
    if module.parent.name == "tools" and module.stem in BY_NAME:
        return [module.stem]
    named = NAMES.findall(fix.fix)
    # What passes is said of the present call.
    return [tool for tool in shown_by(fix.code) if fix.code not in PASSING or tool in named]


def can_be_named(tool: str, given: dict[str, Any]) -> bool:
    """Whether a call knows what another tool requires beside a model."""
    required = {name for name, field in BY_NAME[tool].args.model_fields.items() if field.is_required()}
    required |= {"based_on"} if tool == "write_training_config" else set()
    return required - {"kind"} <= given.keys()


def present_arguments(tool: str) -> dict[str, Any]:
    """A call of a tool that names whatever the tool can work on."""
    usual: dict[str, Any] = {
        "environment": "acme/sums",
        "config": "configs/rl/sums.toml",
        "based_on": "configs/rl/sums.toml",
        "id": "run_1",
        "eval": "eval-1",
        "hub": "acme/sums",
        "model": "m",
    }
    given = {name: value for name, value in usual.items() if name in ARGUMENTS[tool].model_fields}
    return given | REQUIRED_ARGUMENTS.get(tool, {})


def test_a_fix_names_tools_by_calls_only() -> None:
    offenders = [
        f"{fix.where}: {fix.fix!r}"
        for fix in fixes_that_name_a_tool()
        if not set(NAMES.findall(fix.fix)) <= {one["tool"] for one in calls_record(fix.fix)}
    ]
    assert offenders == [], "name the tool by a NamedCall (lab/base/fix.py)\n" + "\n".join(offenders)


async def test_every_fix_that_names_a_call_has_this_call_as_next(lab: Lab) -> None:
    offenders = []
    for fix in fixes_that_name_a_tool():
        if any(part in fix.fix for part in NAMED_ONLY):
            continue
        for tool in callers(fix):
            given = present_arguments(tool)
            others = {name for name in NAMES.findall(fix.fix) if name != tool and can_be_named(name, given)}
            if not others:
                continue
            finding = Finding(fix.code, "blocker", "a message", fix.fix)  # type: ignore[arg-type]
            report = with_right_calls(
                Report("error", "A summary.", (finding,)), PresentCall(lab, BY_NAME[tool], given, BY_NAME)
            )
            problems = problems_of(report, tool, given, BY_NAME)
            called = {one.tool for one in report.next}
            if problems or not called & others:
                offenders.append(f"{fix.where} [{fix.code}] of {tool}: {fix.fix!r} -> {sorted(called)} {problems}")
    assert offenders == [], f"{len(offenders)} fixes name a call that next lacks\n" + "\n".join(offenders)


@pytest.mark.parametrize(
    ("fix", "given", "expected"),
    [
        (Fix("Leave ", SameCall.without("budget"), " out."), {"budget": 3.0, "model": "m"}, [{"model": "m"}]),
        (Fix("Pass ", SameCall(batch=7), "."), {"batch": 6}, [{"batch": 7}]),
        (
            Fix("Pass ", SameCall(gpus=2), " or more, or ", SameCall(target="self-managed"), " for a single GPU."),
            {"gpus": 1},
            [{"gpus": 2}, {"gpus": 1, "target": "self-managed"}],
        ),
        (Fix("Pass ", SameCall(hosted=True), "."), {"model": "m"}, []),
        (Fix("Pass ", SameCall(batch=7), "."), {"batch": 7}, []),
        ("Pass batch=7.", {"batch": 6}, []),
        (
            Fix("Call ", NamedCall("write_training_config").changed(batch=7), "."),
            {"batch": 6, "model": "m"},
            [{"batch": 7, "model": "m"}],
        ),
        (
            Fix("Call ", NamedCall("write_training_config").without("budget"), "."),
            {"budget": 3.0, "model": "m"},
            [{"model": "m"}],
        ),
    ],
)
def test_a_fix_can_name_the_present_call_with_changes(
    fix: str, given: dict[str, Any], expected: list[dict[str, Any]]
) -> None:
    calls = calls_of_fix(fix, "write_training_config", given, ARGUMENTS)
    assert [(one.tool, one.arguments) for one in calls] == [("write_training_config", value) for value in expected]


def test_an_argument_of_a_named_call_can_come_from_the_present_call() -> None:
    fix = Fix("Write it with ", NamedCall("write_training_config", based_on=..., target="hosted"), ".")
    assert fix == 'Write it with write_training_config(based_on=..., target="hosted").'
    [call] = calls_of_fix(fix, "submit_training", {"config": "a.toml"}, ARGUMENTS)
    assert call.arguments == {"based_on": "a.toml", "target": "hosted"}
    assert calls_of_fix(fix, "submit_training", {"environment": "sums"}, ARGUMENTS) == []


def test_a_sentence_keeps_its_calls_in_longer_sentences_and_in_records() -> None:
    fix = Fix("Run ", NamedCall("preflight", install=True), ", or leave ", SameCall.without("owner", "team"), " out.")
    assert fix == "Run preflight(install=true), or leave owner and team out."
    longer = "First: " + Fix(fix, " Then call again.") + " Or not."
    recorded = json.loads(json.dumps(calls_record(longer)))
    for kept in (longer, pickle.loads(pickle.dumps(fix)), Fix.from_record(str(longer), recorded)):
        assert calls_record(kept) == calls_record(fix)
        calls = calls_of_fix(kept, "push_environment", {"environment": "sums", "owner": "acme"}, ARGUMENTS)
        assert [(one.tool, one.arguments) for one in calls] == [
            ("preflight", {"install": True}),
            ("push_environment", {"environment": "sums"}),
        ]


@pytest.mark.parametrize(
    "named",
    ["push_environment", 'push_environment(visibility="PUBLIC")', 'config="x"', 'x", split="evil', "\\"],
)
def test_the_name_of_a_column_or_a_split_recommends_no_call(named: str) -> None:
    fix = Fix("Pass ", SameCall(split=named), f", or another of: {quote(named)}, {quote('train')}.")
    [one] = calls_of_fix(fix, "inspect_dataset", {"dataset": "d", "split": "trian"}, ARGUMENTS)
    assert (one.tool, one.arguments) == ("inspect_dataset", {"dataset": "d", "split": named})


KNOWN: list[tuple[str, dict[str, Any], str, list[tuple[str, dict[str, Any] | None]]]] = [
    (
        "write_training_config",
        {"environments": ["acme/sums@0.1.0"], "gpus": 1},
        "config-gpus",
        [
            ("write_training_config", {"environments": ["acme/sums@0.1.0"], "gpus": 2}),
            ("write_training_config", {"environments": ["acme/sums@0.1.0"], "gpus": 1, "target": "self-managed"}),
        ],
    ),
    ("write_training_config", {"model": "Qwen/Qwen3-4B"}, "config-no-train-source", [("workflow_status", None)]),
    (
        "run_eval",
        {"environment": "acme/sums", "model": "m"},
        "environment-not-local",
        [
            ("create_environment", {"hub": "acme/sums", "name": "sums"}),
            ("run_eval", {"environment": "acme/sums", "model": "m", "hosted": True}),
        ],
    ),
    (
        "check_environment",
        {"environment": "acme/sums"},
        "environment-not-local",
        [("create_environment", {"hub": "acme/sums", "name": "sums"})],
    ),
    (
        "check_environment",
        {"environment": "summs"},
        "environment-not-found",
        [("check_environment", {"environment": "sums"})],
    ),
    ("check_environment", {"environment": "other"}, "environment-not-found", [("workflow_status", None)]),
    (
        "inspect_dataset",
        {"dataset": "data.jsonl", "split": "trian"},
        "unknown-split",
        [("inspect_dataset", {"dataset": "data.jsonl", "split": "train"})],
    ),
    (
        "inspect_dataset",
        {"dataset": "data.jsonl", "prompt_column": "questoin"},
        "unknown-column",
        [("inspect_dataset", {"dataset": "data.jsonl", "prompt_column": "question"})],
    ),
    (
        "create_environment",
        {"name": "new", "template": "numerical"},
        "unknown-template",
        [("create_environment", {"name": "new", "template": "numeric"})],
    ),
    (
        "create_environment",
        {"name": "new"},
        "bad-argument",
        [("create_environment", {"name": "new", "template": "procedural"})],
    ),
    (
        "create_environment",
        {"name": "sums", "template": "numeric"},
        "environment-exists",
        [("create_environment", {"name": "sums_2", "template": "numeric"})],
    ),
]


@pytest.mark.parametrize(("tool", "given", "code", "expected"), KNOWN, ids=[f"{k[2]}-{k[0]}" for k in KNOWN])
async def test_a_client_that_follows_next_is_led_on(
    settings: Settings,
    tool: str,
    given: dict[str, Any],
    code: str,
    expected: list[tuple[str, dict[str, Any] | None]],
) -> None:
    (settings.workspace / "environments" / "sums").mkdir()
    rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(20)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (settings.workspace / "data.jsonl").write_text(text, encoding="utf-8")
    opened = Lab(settings)
    async with Client(build_server(opened)) as client:
        result = await client.call_tool(tool, given)
    await opened.close()
    report = cast(dict[str, Any], result.structured_content)
    assert [finding["code"] for finding in report["findings"]] == [code]
    assert [(one["tool"], one.get("arguments")) for one in report["next"]] == expected


def test_a_call_that_a_fix_names_twice_is_recommended_once() -> None:
    fix = Fix("Run ", NamedCall("preflight", install=True), ", and ", NamedCall("preflight", install=True), " again.")
    [call] = calls_of_fix(fix, "run_eval", {}, ARGUMENTS)
    assert (call.tool, call.arguments) == ("preflight", {"install": True})
